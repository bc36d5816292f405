//! How lines look: plain text in columns, colour only on a terminal.

use std::io::{self, IsTerminal};

use jiff::Timestamp;
use testbed::timeline::{Event, Line, Since};

/// `ECMA-48` select graphic rendition.
const BOLD: &str = "1";
const DIM: &str = "2";
const RED: &str = "31";
const GREEN: &str = "32";
const YELLOW: &str = "33";
const BLUE: &str = "34";
const MAGENTA: &str = "35";
const CYAN: &str = "36";

/// Standard output.
pub(crate) struct Paper {
    colour: bool,
}

impl Paper {
    pub(crate) fn new() -> Self {
        Self {
            colour: io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none(),
        }
    }

    fn dye(&self, colour: &str, text: &str) -> String {
        if self.colour {
            format!("\x1b[{colour}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }

    pub(crate) fn title(&self, text: &str) {
        println!("\n{}", self.dye(BOLD, text));
    }

    /// One line of the timeline.
    pub(crate) fn line(&self, start: Timestamp, line: &Line) {
        let since = format!("{:>8}", Since(line.at.duration_since(start)));
        let subject = format!("{:<16}", line.subject);
        let event = format!("{:<10}", line.event.word());
        println!(
            "{}  {} {} {}",
            self.dye(DIM, &since),
            self.dye(BOLD, &subject),
            self.dye(hue(&line.event), &event),
            line.why
        );
    }

    /// One line of the verdict.
    pub(crate) fn verdict(&self, what: &str, found: &Result<String, String>) {
        match found {
            Ok(words) => println!("{}{what}: {words}", self.dye(GREEN, "ok      ")),
            Err(words) => println!("{}{what}: {words}", self.dye(RED, "FAILED  ")),
        }
    }
}

fn hue(event: &Event) -> &'static str {
    match event {
        Event::Lease => CYAN,
        Event::Boot => MAGENTA,
        Event::Warning => RED,
        Event::Phase(phase) => match phase.as_str() {
            "Idle" => GREEN,
            "Rebooting" | "Verifying" => MAGENTA,
            "Undoing" => RED,
            "Draining" => YELLOW,
            _ => BLUE,
        },
    }
}
