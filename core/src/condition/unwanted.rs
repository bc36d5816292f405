//! Conditions of the own Node that speak against a reboot, as the configuration names them (I8, I12).

use std::fmt;
use std::str::FromStr;

use super::{Kind, Status};
use crate::label::is_label_key;

/// A condition that others report, for example node-problem-detector, and what it may not be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unwanted {
    kind: String,
    /// None: True, and Unknown as well (I8).
    at: Option<Status>,
}

/// Why the text names no such condition.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadUnwanted {
    #[error(
        "{0:?} names no condition; write a type like \"KernelDeadlock\", or type and status like \"FrequentKubeletRestart=False\""
    )]
    Unreadable(String),
    #[error("{0:?} is a condition that kube-rebootd writes itself; remove it")]
    Ours(String),
}

impl Unwanted {
    /// The type of the condition.
    pub(crate) fn kind(&self) -> &str {
        &self.kind
    }

    /// Whether it may not be `status`.
    pub(crate) fn forbids(&self, status: Status) -> bool {
        match self.at {
            None => matches!(status, Status::True | Status::Unknown),
            Some(at) => at == status,
        }
    }
}

impl FromStr for Unwanted {
    type Err = BadUnwanted;

    fn from_str(text: &str) -> Result<Self, BadUnwanted> {
        let bad = || BadUnwanted::Unreadable(text.to_owned());
        let (kind, at) = match text.split_once('=') {
            None => (text, None),
            Some((kind, status)) => {
                let all = [Status::True, Status::False, Status::Unknown];
                let at = all.into_iter().find(|known| known.name() == status);
                (kind, Some(at.ok_or_else(bad)?))
            }
        };
        if !is_label_key(kind) {
            return Err(bad());
        }
        if Kind::of(kind).is_some() {
            return Err(BadUnwanted::Ours(kind.to_owned()));
        }
        let kind = kind.to_owned();
        Ok(Self { kind, at })
    }
}

/// As it is written in the configuration.
impl fmt::Display for Unwanted {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self.at {
            None => f.write_str(&self.kind),
            Some(at) => write!(f, "{}={at}", self.kind),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn i8_a_type_alone_is_unwanted_unless_it_is_false() {
        for (text, unwanted) in [
            ("KernelDeadlock", [true, false, true]),
            ("KernelDeadlock=True", [true, false, false]),
            ("Ready=False", [false, true, false]),
            ("example.com/Disk=Unknown", [false, false, true]),
        ] {
            let one: Unwanted = text.parse().unwrap();
            let all = [Status::True, Status::False, Status::Unknown];
            assert_eq!(all.map(|status| one.forbids(status)), unwanted, "{text}");
            assert_eq!(one.to_string(), text);
        }
    }

    #[test]
    fn i12_what_names_no_condition_of_others_is_refused() {
        for text in [
            "",
            "=True",
            "A=",
            "A=true",
            "A=True=False",
            "a b",
            "a\u{1b}",
        ] {
            let said = text.parse::<Unwanted>().unwrap_err();
            assert_eq!(said, BadUnwanted::Unreadable(text.to_owned()));
        }
        for kind in Kind::ALL {
            for text in [kind.name().to_owned(), format!("{}=False", kind.name())] {
                let said = text.parse::<Unwanted>().unwrap_err();
                assert_eq!(said, BadUnwanted::Ours(kind.name().to_owned()));
            }
        }
    }
}
