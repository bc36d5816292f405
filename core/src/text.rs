//! Text from outside, made fit for people before it reaches a terminal, STATUS, a wall message or the
//! journal (I14): nobody who can write an annotation, name a process or answer a request writes escape
//! sequences to an administrator's terminal.
//!
//! It is used where such text becomes data: `cluster/*` for objects and answers of the API server, `host/*`
//! for D-Bus, check commands, sentinels and processes. What goes out passes [`printable`] besides, for
//! what nobody thought of.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::time::Duration;

use jiff::SignedDuration;

/// Characters of a name: the longest that Kubernetes accepts for an object.
pub const NAME: usize = 253;
/// Characters of what somebody wrote to explain something: a pause, an inhibitor, a sentinel.
pub const WORDS: usize = 300;
/// Characters of an error message: those of an admission webhook name whole objects.
pub const MESSAGE: usize = 1_000;
/// Seconds. A day has 24 hours here, as in systemd.time(7).
const DAY: u64 = 24 * 3600;
/// Ends what was cut.
const ELLIPSIS: char = '…';

/// `text` on one line, without control characters and without those that change the direction of
/// writing; of a longer one the first `max - 1` characters and an ellipsis. What is clean already stays
/// as it is.
pub fn clean(text: &str, max: usize) -> String {
    let line: String = text.chars().filter_map(in_line).collect();
    cut(line.trim(), max)
}

/// As [`clean`], for text of several lines.
pub fn block(text: &str, max: usize) -> String {
    let kept = |c: &char| *c == '\n' || !hostile(*c);
    let lines: String = text.chars().filter(kept).collect();
    cut(lines.trim_end(), max)
}

/// A name that is compared, or sent back: it stays as it is if it is clean and has at most `max` characters.
/// Any other is escaped, so that it is equal to no name of a real object.
pub fn name(text: &str, max: usize) -> String {
    if !text.contains(hostile) && text.chars().count() <= max {
        return text.to_owned();
    }
    let mut escaped = String::new();
    for c in text.chars().take(max + 1) {
        if hostile(c) {
            escaped.extend(c.escape_unicode());
        } else {
            escaped.push(c);
        }
    }
    cut(&escaped, max)
}

/// A duration as people write it and as the configuration takes it: `14d`, `1h 30m`.
pub fn span(duration: Duration) -> String {
    // Longer than jiff can say is longer than any configuration allows.
    let shown = |duration: Duration| {
        let signed = SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX);
        format!("{signed:#}")
    };
    let days = duration.as_secs() / DAY;
    let rest = duration.saturating_sub(Duration::from_secs(days.saturating_mul(DAY)));
    match (days, rest) {
        (0, rest) => shown(rest),
        (days, Duration::ZERO) => format!("{days}d"),
        (days, rest) => format!("{days}d {}", shown(rest)),
    }
}

/// What may be printed of `text`; lines and tabs stay. The last look at all that goes out, of any length.
pub fn printable(text: &str) -> Cow<'_, str> {
    let out = |c: char| hostile(c) && c != '\n' && c != '\t';
    if text.contains(out) {
        Cow::Owned(text.replace(out, ""))
    } else {
        Cow::Borrowed(text)
    }
}

/// Control characters (C0, DEL and C1), the separators of lines and paragraphs, and what changes the
/// direction of writing (Unicode, `Bidi_Control`).
pub fn hostile(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{061C}'
                | '\u{200E}'
                | '\u{200F}'
                | '\u{2028}'..='\u{202E}'
                | '\u{2066}'..='\u{2069}'
        )
}

fn in_line(c: char) -> Option<char> {
    match c {
        _ if !hostile(c) => Some(c),
        // A line that ends is two words.
        _ if c.is_whitespace() => Some(' '),
        _ => None,
    }
}

fn cut(text: &str, max: usize) -> String {
    if text.chars().count() <= max {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(max.saturating_sub(1)).collect();
    short.push(ELLIPSIS);
    short
}

/// A TOML basic string.
pub(crate) fn quote(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if hostile(c) => {
                let _ = write!(quoted, "\\U{:08X}", u32::from(c));
            }
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests;
