//! What still runs although its file was replaced: the kernel, and libraries in processes.
//!
//! Built-in checks (docs/design.md 4) rest on it. Facts are read by `host/outdated`; here they become an
//! answer. Keeps I8 (what could not be read is unknown) and, by `pkgs`, I10: they name what was
//! replaced, and are the same for the same files.

use std::collections::BTreeSet;

use kube_rebootd_core::text::{self, MESSAGE, NAME};
use kube_rebootd_core::trigger::{Builtin, Verdict};
use serde::{Deserialize, Serialize};

pub mod cgroup;
pub mod kernel;
pub mod libraries;
pub mod maps;

/// What a built-in check says; also what `kube-rebootd check --json` prints and the daemon reads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "verdict", rename_all = "lowercase")]
pub enum Answer {
    Reboot {
        pkgs: BTreeSet<String>,
        words: String,
    },
    No {
        words: String,
    },
    Unknown {
        words: String,
        /// A package manager works: ask again soon.
        #[serde(default)]
        busy: bool,
    },
}

impl Answer {
    pub fn unknown(words: impl Into<String>) -> Self {
        Self::Unknown {
            words: words.into(),
            busy: false,
        }
    }

    /// As triggers say it.
    pub fn verdict(self) -> Verdict {
        match self {
            Self::Reboot { pkgs, words } => Verdict::Reboot { pkgs, words },
            Self::No { .. } => Verdict::No,
            Self::Unknown { words, .. } => Verdict::Unknown { why: words },
        }
    }
}

/// One line of `kube-rebootd check --json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Said {
    pub trigger: String,
    #[serde(flatten)]
    pub answer: Answer,
}

/// All of `kube-rebootd check --json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    pub triggers: Vec<Said>,
}

/// What `report` says of `builtin`; anything but one plain answer is unknown (I8).
pub fn heard(report: &str, builtin: Builtin) -> Answer {
    let report: Report = match serde_json::from_str(report) {
        Ok(report) => report,
        Err(err) => {
            let why = format!("its answer cannot be read: {err}");
            return Answer::unknown(text::clean(&why, MESSAGE));
        }
    };
    let ours = builtin.trigger();
    match report.triggers.as_slice() {
        [said] if said.trigger == ours => cleaned(said.answer.clone()),
        _ => Answer::unknown(format!("its answer is not about {ours}")),
    }
}

/// Names of processes and of the files that they map are chosen by whoever runs them (I14).
fn cleaned(answer: Answer) -> Answer {
    let clean = |words: String| text::clean(&words, MESSAGE);
    match answer {
        Answer::Reboot { pkgs, words } => Answer::Reboot {
            pkgs: pkgs.iter().map(|one| text::name(one, NAME)).collect(),
            words: clean(words),
        },
        Answer::No { words } => Answer::No {
            words: clean(words),
        },
        Answer::Unknown { words, busy } => Answer::Unknown {
            words: clean(words),
            busy,
        },
    }
}

/// `a`, `a and b`, `a, b and 3 more`: at most `most` are named.
pub(crate) fn some<'a>(names: impl ExactSizeIterator<Item = &'a str>, most: usize) -> String {
    let all = names.len();
    let mut shown: Vec<String> = names.take(most).map(str::to_owned).collect();
    if all > shown.len() {
        shown.push(format!("{} more", all - shown.len()));
    }
    match shown.split_last() {
        None => String::new(),
        Some((last, [])) => last.clone(),
        Some((last, first)) => format!("{} and {last}", first.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(said: &[(&str, Answer)]) -> String {
        let triggers = said.iter().map(|(trigger, answer)| Said {
            trigger: (*trigger).to_owned(),
            answer: answer.clone(),
        });
        serde_json::to_string(&Report {
            triggers: triggers.collect(),
        })
        .unwrap()
    }

    #[test]
    fn answers_survive_the_way_to_the_daemon() {
        let answers = [
            Answer::Reboot {
                pkgs: BTreeSet::from(["6.1.0-29-amd64".to_owned()]),
                words: "a \"newer\" kernel".to_owned(),
            },
            Answer::No {
                words: "current".to_owned(),
            },
            Answer::Unknown {
                words: "dpkg works".to_owned(),
                busy: true,
            },
        ];
        for answer in answers {
            let text = report(&[("builtin kernel", answer.clone())]);
            assert_eq!(heard(&text, Builtin::Kernel), answer);
            // The other check's answer is none, and neither is half of one.
            for (text, builtin) in [
                (text.as_str(), Builtin::Libraries),
                (&text[..text.len() - 1], Builtin::Kernel),
                ("", Builtin::Kernel),
                ("{\"triggers\":[]}", Builtin::Kernel),
            ] {
                assert!(
                    matches!(heard(text, builtin), Answer::Unknown { busy: false, .. }),
                    "{text}"
                );
            }
        }
    }

    #[test]
    fn i8_two_answers_are_none() {
        let no = || Answer::No {
            words: String::new(),
        };
        let text = report(&[("builtin kernel", no()), ("builtin kernel", no())]);
        assert!(matches!(
            heard(&text, Builtin::Kernel),
            Answer::Unknown { .. }
        ));
    }

    #[test]
    fn names_are_counted_past_the_first_few() {
        let say = |names: &[&str]| some(names.iter().copied(), 2);
        assert_eq!(say(&[]), "");
        assert_eq!(say(&["a"]), "a");
        assert_eq!(say(&["a", "b"]), "a and b");
        assert_eq!(say(&["a", "b", "c", "d"]), "a, b and 2 more");
    }
}
