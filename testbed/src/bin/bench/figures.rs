//! What was measured, as a table for people and as JSON for the next run to be compared with.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::{Value, json};

/// What a figure should be.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Goal {
    AtMost(f64),
    AtLeast(f64),
}

/// One figure, measured one or several times.
#[derive(Debug, Clone)]
pub(crate) struct Figure {
    what: String,
    unit: &'static str,
    values: Vec<f64>,
    goal: Option<Goal>,
    note: String,
}

/// The middle of several values; of two in the middle the mean.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        odd if odd % 2 == 1 => sorted[odd / 2],
        even => f64::midpoint(sorted[even / 2 - 1], sorted[even / 2]),
    }
}

impl Figure {
    /// A figure without a goal.
    pub(crate) fn of(what: impl Into<String>, unit: &'static str, values: Vec<f64>) -> Self {
        Self {
            what: what.into(),
            unit,
            values,
            goal: None,
            note: String::new(),
        }
    }

    /// With a goal.
    #[must_use]
    pub(crate) fn goal(mut self, goal: Goal) -> Self {
        self.goal = Some(goal);
        self
    }

    /// With what one must know to read it.
    #[must_use]
    pub(crate) fn note(mut self, note: impl Into<String>) -> Self {
        self.note = note.into();
        self
    }

    /// Whether it has a goal and meets it.
    fn met(&self) -> Option<bool> {
        let median = median(&self.values);
        self.goal.map(|goal| match goal {
            Goal::AtMost(most) => median <= most,
            Goal::AtLeast(least) => median >= least,
        })
    }

    fn cells(&self) -> [String; 5] {
        let low = self.values.iter().copied().fold(f64::INFINITY, f64::min);
        let high = self
            .values
            .iter()
            .copied()
            .fold(f64::NEG_INFINITY, f64::max);
        let spread = match self.values.len() {
            1 => "1 run".to_owned(),
            runs => format!("{} to {}, {runs} runs", plain(low), plain(high)),
        };
        let goal = match self.goal {
            None => String::new(),
            Some(Goal::AtMost(most)) => format!("at most {}", plain(most)),
            Some(Goal::AtLeast(least)) => format!("at least {}", plain(least)),
        };
        let met = match self.met() {
            None => "",
            Some(true) => "met",
            Some(false) => "MISSED",
        };
        [
            self.what.clone(),
            format!("{} {}", plain(median(&self.values)), self.unit),
            spread,
            goal,
            met.to_owned(),
        ]
    }

    fn json(&self) -> Value {
        let goal = self.goal.map(|goal| match goal {
            Goal::AtMost(most) => json!({"at_most": most}),
            Goal::AtLeast(least) => json!({"at_least": least}),
        });
        json!({"what": self.what, "unit": self.unit, "median": median(&self.values),
            "values": self.values, "goal": goal, "met": self.met(), "note": self.note})
    }
}

/// As many digits as mean something.
fn plain(value: f64) -> String {
    if !value.is_finite() {
        return "none".to_owned();
    }
    let digits = match value.abs() {
        large if large >= 100.0 => 0,
        middle if middle >= 10.0 => 1,
        _ if value.fract() == 0.0 => 0,
        small if small >= 1.0 => 2,
        _ => 3,
    };
    format!("{value:.digits$}")
}

/// A heading and its figures.
#[derive(Debug, Default)]
pub(crate) struct Report {
    sections: Vec<(String, Vec<Figure>)>,
}

impl Report {
    /// Adds a section, printing it already: a run takes minutes and may be ended.
    pub(crate) fn add(&mut self, title: &str, figures: Vec<Figure>) {
        eprintln!("{}", section(title, &figures));
        self.sections.push((title.to_owned(), figures));
    }

    /// The whole table.
    pub(crate) fn table(&self) -> String {
        let sections = self.sections.iter();
        sections
            .map(|(title, figures)| section(title, figures))
            .collect()
    }

    /// Writes everything as JSON.
    pub(crate) fn write(&self, path: &Path, machine: &Value) -> Result<()> {
        let sections: Vec<Value> = self
            .sections
            .iter()
            .map(|(title, figures)| {
                let figures: Vec<Value> = figures.iter().map(Figure::json).collect();
                json!({"title": title, "figures": figures})
            })
            .collect();
        let all = json!({"machine": machine, "sections": sections});
        let text = serde_json::to_string_pretty(&all)?;
        fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
    }
}

fn section(title: &str, figures: &[Figure]) -> String {
    let rows: Vec<[String; 5]> = figures.iter().map(Figure::cells).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let mut text = format!("\n{title}\n");
    for (row, figure) in rows.iter().zip(figures) {
        let mut line = String::from("  ");
        for (column, cell) in row.iter().enumerate() {
            let width = width(column).unwrap_or(0);
            let _ = write!(line, "{cell:<width$}  ");
        }
        text.push_str(line.trim_end());
        text.push('\n');
        if !figure.note.is_empty() {
            let _ = writeln!(text, "      {}", figure.note);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle() {
        for (values, middle) in [
            (vec![3.0], 3.0),
            (vec![9.0, 1.0, 2.0], 2.0),
            (vec![4.0, 1.0, 2.0, 9.0], 3.0),
        ] {
            assert!((median(&values) - middle).abs() < 1e-9, "{values:?}");
        }
    }

    #[test]
    fn a_goal_is_met_by_the_median() {
        let figure = |goal| Figure::of("x", "s", vec![1.0, 2.0, 9.0]).goal(goal).met();
        assert_eq!(figure(Goal::AtMost(2.0)), Some(true));
        assert_eq!(figure(Goal::AtMost(1.9)), Some(false));
        assert_eq!(figure(Goal::AtLeast(2.1)), Some(false));
    }

    #[test]
    fn nothing_measured_meets_no_goal() {
        let none = Figure::of("x", "s", Vec::new()).goal(Goal::AtMost(2.0));
        assert_eq!(none.met(), Some(false));
    }
}
