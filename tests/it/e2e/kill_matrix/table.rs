//! The matrix for people: docs/reliability.md shows this file.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;

use super::Kind;
use super::case::Mode;

type Results = BTreeMap<(Kind, String, Mode), Result<(), String>>;

/// Points down, ways across.
pub(super) fn text(rows: &[(Kind, String)], results: &Results) -> String {
    let wide = rows.iter().map(|(_, point)| point.len()).max().unwrap_or(0) + 9;
    let mut text = format!("{:wide$}", "after");
    for (_, name) in Mode::ALL {
        // Writing to a String does not fail.
        let _ = write!(text, "  {name}");
    }
    text.push('\n');
    let mut wrong = Vec::new();
    for (kind, point) in rows {
        let note = match kind {
            Kind::Rebooted => "",
            Kind::Undone => "undone: ",
            Kind::Updater => "updater: ",
        };
        let _ = write!(text, "{:wide$}", format!("{note}{point}"));
        for (mode, name) in Mode::ALL {
            let cell = match results.get(&(*kind, point.clone(), mode)) {
                Some(Ok(())) => "ok".to_owned(),
                Some(Err(why)) => {
                    wrong.push(format!("{note}{point}, {name}: {why}"));
                    format!("[{}]", wrong.len())
                }
                None if mode.is_for(*kind, point) => "not run".to_owned(),
                None => "-".to_owned(),
            };
            let _ = write!(text, "  {cell:width$}", width = name.len());
        }
        text.truncate(text.trim_end().len());
        text.push('\n');
    }
    let good = results.values().filter(|result| result.is_ok()).count();
    let _ = writeln!(text, "\n{good} of {} as it should be", results.len());
    for (number, why) in wrong.iter().enumerate() {
        let _ = writeln!(text, "[{}] {why}", number + 1);
    }
    text
}

/// Shown, and kept beside the build.
pub(super) fn write(text: &str) {
    eprintln!("{text}");
    let place = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/reliability");
    fs::create_dir_all(&place).unwrap();
    fs::write(place.join("kill-matrix.txt"), text).unwrap();
}
