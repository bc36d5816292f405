//! How `explain` is laid out: sections of aligned lines, 100 columns, each time also as how long ago or how far off.

use std::fmt::Write as _;
use std::time::Duration;

use jiff::Timestamp;
use kube_rebootd_core::text::span;

/// Columns of a line, as the help has.
const WIDTH: usize = 100;
const DAY: u64 = 24 * 3600;

/// What was said so far.
pub(super) struct Page {
    pub(super) text: String,
    pub(super) now: Timestamp,
}

/// A line's name, and what it says; each on a line of its own.
pub(super) type Row = (String, Vec<String>);

impl Page {
    /// An empty one, of what is so at `now`.
    pub(super) fn at(now: Timestamp) -> Self {
        Self {
            text: String::new(),
            now,
        }
    }

    /// Writing to a String does not fail.
    pub(super) fn section(&mut self, heading: &str, rows: impl IntoIterator<Item = Row>) {
        let rows: Vec<Row> = rows.into_iter().collect();
        let widths = rows.iter().map(|(name, _)| name.chars().count());
        // A longer name has its line for itself.
        let width = widths
            .filter(|width| *width <= WIDTH / 3)
            .max()
            .unwrap_or(0);
        let gap = if self.text.is_empty() { "" } else { "\n" };
        let _ = writeln!(self.text, "{gap}{heading}");
        for (name, lines) in rows {
            let mut name = name.as_str();
            if name.chars().count() > width {
                let _ = writeln!(self.text, "  {name}");
                name = "";
            }
            let indent = if width == 0 { 2 } else { width + 4 };
            for line in lines.iter().flat_map(|line| wrapped(line, WIDTH - indent)) {
                let text = format!("  {name:<width$}  ");
                let begin = if width == 0 { "  " } else { &text };
                let _ = writeln!(self.text, "{}", format!("{begin}{line}").trim_end());
                name = "";
            }
        }
    }

    /// A moment, and how long ago it was or how far off it is.
    pub(super) fn when(&self, at: Timestamp) -> String {
        let far = at.duration_since(self.now);
        let span = rough(far.unsigned_abs());
        if far.is_positive() {
            format!("{at:.0} (in {span})")
        } else {
            format!("{at:.0} ({span} ago)")
        }
    }
}

/// With days, which no duration of ours has.
fn rough(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let (days, hours) = (seconds / DAY, seconds % DAY / 3600);
    match days {
        0 => span(Duration::from_secs(seconds)),
        _ if hours == 0 => format!("{days}d"),
        _ => format!("{days}d {hours}h"),
    }
}

/// At spaces; a longer word stays whole.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    let mut room = width;
    for word in text.split_whitespace() {
        let long = word.chars().count() + 1;
        if long > room + 1 && room < width {
            lines.push(String::new());
            room = width;
        }
        if let Some(line) = lines.last_mut() {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
        room = room.saturating_sub(long);
    }
    lines
}
