//! A regular expression of the configuration. Matching takes linear time, and what it is compiled to is bounded.

use std::fmt;

use regex::{Error, Regex, RegexBuilder};

/// Bytes of what it is compiled to: a list of a thousand names takes less.
const SIZE: usize = 1024 * 1024;
/// Groups within groups.
const DEPTH: u32 = 50;

/// Equal are two whose texts are.
#[derive(Clone)]
pub struct Pattern {
    given: String,
    regex: Regex,
}

impl Pattern {
    /// Found anywhere in a text.
    ///
    /// # Errors
    /// Why it is none, in words.
    pub(crate) fn anywhere(given: &str) -> Result<Self, String> {
        let given = given.to_owned();
        Ok(Self {
            regex: compiled(&given)?,
            given,
        })
    }

    /// Matches whole texts alone.
    ///
    /// # Errors
    /// Why it is none, in words.
    pub(crate) fn whole(given: &str) -> Result<Self, String> {
        // By itself, as what has no end may have one between the parentheses.
        compiled(given)?;
        Ok(Self {
            regex: compiled(&format!("^(?:{given})$"))?,
            given: given.to_owned(),
        })
    }

    pub(crate) fn matches(&self, text: &str) -> bool {
        self.regex.is_match(text)
    }
}

fn compiled(given: &str) -> Result<Regex, String> {
    let mut builder = RegexBuilder::new(given);
    let built = builder.size_limit(SIZE).nest_limit(DEPTH).build();
    built.map_err(|error| match error {
        Error::CompiledTooBig(_) => "is too large for a regular expression".to_owned(),
        error => {
            // Before its last line it draws the place, over several.
            let words = error.to_string();
            let last = words.lines().last().unwrap_or_default();
            let last = last.trim_start_matches("error: ");
            format!("is no regular expression: {last}")
        }
    })
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.given.fmt(f)
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.given == other.given
    }
}

impl Eq for Pattern {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_found_anywhere_or_matches_the_whole() {
        for (given, text, anywhere, whole) in [
            ("Down", "NodeDown2", true, false),
            ("^Down", "NodeDown", false, false),
            ("^(NodeDown|DiskFull)$", "DiskFull", true, true),
            ("NodeDown|DiskFull", "DiskFull2", true, false),
            ("NodeDown|DiskFull", "DiskFull", true, true),
            ("(?i)nodedown", "NodeDown", true, true),
            (r"\w+", "a b", true, false),
            ("", "any", true, false),
        ] {
            let found = Pattern::anywhere(given).unwrap().matches(text);
            assert_eq!(found, anywhere, "{given} {text}");
            let found = Pattern::whole(given).unwrap().matches(text);
            assert_eq!(found, whole, "{given} {text}");
        }
    }

    #[test]
    fn what_is_none_is_said_in_one_line() {
        for (given, wanted) in [
            ("a(", "is no regular expression: unclosed group"),
            ("a)|(b", "is no regular expression: unopened group"),
            ("(?=a)", "is no regular expression: look-around"),
            ("(a{1000}){1000}", "is too large for a regular expression"),
        ] {
            for made in [Pattern::anywhere(given), Pattern::whole(given)] {
                let why = made.unwrap_err();
                assert!(why.starts_with(wanted) && !why.contains('\n'), "{why}");
            }
        }
        let deep = "(".repeat(60) + &")".repeat(60);
        assert!(Pattern::anywhere(&deep).is_err());
    }
}
