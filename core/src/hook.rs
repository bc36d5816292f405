//! Commands and hooks that an admin gives: what the end of one means (I8), and what it is told.
//!
//! What one printed is cleaned here, where it becomes data (I14).

use std::time::Duration;

use crate::phase::Phase;
use crate::text::{WORDS, clean};
use crate::trigger::Request;

/// The exit code of "not now": `EX_TEMPFAIL` of sysexits(3).
pub const NOT_NOW: u8 = 75;

/// What they are asked for; each has a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Hook {
    /// Whether a reboot may begin now.
    Gate,
    /// What is to be done before the cordon.
    PreDrain,
    /// The same between the drain and the reboot.
    PreReboot,
    /// Whether what only the admin knows of is healthy after the boot.
    PostBoot,
    /// What takes back what those before the cordon and before the reboot have done.
    Undo,
}

impl Hook {
    /// As `KUBE_REBOOTD_HOOK` has it: never changed.
    pub fn name(self) -> &'static str {
        match self {
            Self::Gate => "gate",
            Self::PreDrain => "pre-drain",
            Self::PreReboot => "pre-reboot",
            Self::PostBoot => "post-boot",
            Self::Undo => "undo",
        }
    }

    /// Its directory below `hooks`.
    pub fn directory(self) -> &'static str {
        match self {
            Self::Gate => "gate.d",
            Self::PreDrain => "pre-drain.d",
            Self::PreReboot => "pre-reboot.d",
            Self::PostBoot => "post-boot.d",
            Self::Undo => "undo.d",
        }
    }
}

/// What a command answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// It has nothing against it.
    Yes,
    /// Not now, and why.
    NotNow(String),
    /// It says nothing, and why that is.
    Unknown(String),
}

impl Answer {
    /// By how it ended, which is its exit code or why there is none, and by what it printed: the last line is the reason.
    pub fn of(ended: Result<u8, String>, printed: &str) -> Self {
        let mut lines = printed.lines().map(|line| clean(line, WORDS));
        let last = lines.rfind(|line| !line.is_empty());
        match (ended, last) {
            (Ok(0), _) => Self::Yes,
            (Ok(NOT_NOW), Some(why)) => Self::NotNow(why),
            (Ok(NOT_NOW), None) => Self::NotNow(format!("exit code {NOT_NOW}")),
            (Ok(code), Some(said)) => Self::Unknown(format!("exit code {code}: {said}")),
            (Ok(code), None) => Self::Unknown(format!("exit code {code}")),
            (Err(why), _) => Self::Unknown(clean(&why, WORDS)),
        }
    }
}

/// What a round of the hooks of one directory says: they run in the order of their names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Said {
    /// Each has ended with 0.
    Well,
    /// One says not now: in words, with its name.
    NotNow(String),
    /// One failed, or could not be run: in words.
    Failed(String),
}

impl Said {
    /// What the answer of the hook `place`, as `post-boot.d/10-ceph`, means for its round.
    pub fn of(place: &str, answer: Answer) -> Self {
        match answer {
            Answer::Yes => Self::Well,
            Answer::NotNow(why) => Self::NotNow(format!("hook {place}{NOT_NOW_WORDS}{why}")),
            Answer::Unknown(why) => Self::Failed(format!("hook {place}{FAILED_WORDS}{why}")),
        }
    }

    /// Why it is no yes.
    pub fn no(&self) -> Option<&str> {
        match self {
            Self::Well => None,
            Self::NotNow(why) | Self::Failed(why) => Some(why),
        }
    }
}

/// From the end of a round that did not end well to the next one.
pub(crate) const AGAIN: Duration = Duration::from_secs(30);

/// How the hooks of one directory stand that a hold runs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Stand {
    /// Nobody has looked.
    #[default]
    Unlooked,
    /// It is not known which there are: why, in words.
    Unknown(String),
    /// There are none.
    None,
    /// There are some.
    Some {
        /// A round runs, of these or of others.
        running: bool,
        /// The last round of these that has ended, if it counts.
        last: Option<Last>,
    },
}

/// The last of several rounds in a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Last {
    pub said: Said,
    /// When the first of them was begun, and when this one (boot time).
    pub first: Duration,
    pub begun: Duration,
    pub ended: Duration,
    /// How many of them did not end well.
    pub failures: u32,
}

/// How those hooks stand that change something, which one stage of a hold runs each. Before the first of them runs, how those
/// stand that come later is known as well: what could not be taken back is not begun.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Standing {
    pub pre_drain: Stand,
    pub pre_reboot: Stand,
    pub undo: Stand,
}

impl Standing {
    /// There are none.
    pub const NONE: Self = Self {
        pre_drain: Stand::None,
        pre_reboot: Stand::None,
        undo: Stand::None,
    };
}

const NOT_NOW_WORDS: &str = " says not now: ";
const FAILED_WORDS: &str = " failed: ";

/// `words` without what a hook says, which may change with each run.
pub(crate) fn steady(words: &str) -> &str {
    let ends = [NOT_NOW_WORDS, FAILED_WORDS];
    let ends = ends.iter().filter_map(|end| {
        let at = words.find(end)?;
        Some(at + end.len() - ": ".len())
    });
    let end = ends.min().filter(|_| words.starts_with("hook "));
    &words[..end.unwrap_or(words.len())]
}

/// What each of them is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    pub hook: Hook,
    /// Name of the Node.
    pub node: String,
    pub group: String,
    pub phase: Phase,
    /// What asks for the reboot, in words.
    pub reasons: String,
}

impl Told {
    /// Its environment, as `NAME=VALUE`.
    pub fn environment(&self) -> Vec<String> {
        let all = [
            ("HOOK", self.hook.name()),
            ("NODE", &self.node),
            ("GROUP", &self.group),
            ("PHASE", self.phase.name()),
            ("REASONS", &self.reasons),
        ];
        let all = all.into_iter();
        all.map(|(name, value)| format!("KUBE_REBOOTD_{name}={}", value.replace('\0', "")))
            .collect()
    }
}

/// The names of all that asks for a reboot.
pub fn reasons(request: &Request) -> String {
    let triggers = request.reasons.iter().map(|reason| reason.trigger.as_str());
    let wishes = request.latched.iter().map(|wish| wish.by.as_str());
    triggers.chain(wishes).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::text::hostile;

    #[test]
    fn i8_only_0_is_yes_and_only_75_is_not_now() {
        let unknown = |why: &str| Answer::Unknown(why.to_owned());
        let not_now = |why: &str| Answer::NotNow(why.to_owned());
        for (ended, printed, answer) in [
            (Ok(0), "HEALTH_OK\n", Answer::Yes),
            (Ok(0), "", Answer::Yes),
            (
                Ok(75),
                "asking\n3 pgs degraded\n",
                not_now("3 pgs degraded"),
            ),
            (Ok(75), "3 pgs degraded\n\n \t\n", not_now("3 pgs degraded")),
            (Ok(75), "", not_now("exit code 75")),
            (Ok(1), "a\nno route\n", unknown("exit code 1: no route")),
            (Ok(74), "", unknown("exit code 74")),
            (Ok(255), "", unknown("exit code 255")),
            (
                Err("it was killed".to_owned()),
                "fine\n",
                unknown("it was killed"),
            ),
        ] {
            assert_eq!(
                Answer::of(ended.clone(), printed),
                answer,
                "{ended:?} {printed:?}"
            );
        }
    }

    #[test]
    fn i8_what_a_round_says_names_the_hook_and_what_it_says_may_change() {
        let why = "3 pgs: degraded failed: x".to_owned();
        for (answer, said, steadily) in [
            (
                Answer::NotNow(why.clone()),
                Said::NotNow("hook undo.d/a says not now: 3 pgs: degraded failed: x".to_owned()),
                "hook undo.d/a says not now",
            ),
            (
                Answer::Unknown(why),
                Said::Failed("hook undo.d/a failed: 3 pgs: degraded failed: x".to_owned()),
                "hook undo.d/a failed",
            ),
        ] {
            assert_eq!(Said::of("undo.d/a", answer), said);
            let (Said::NotNow(words) | Said::Failed(words)) = said else {
                panic!()
            };
            assert_eq!(steady(&words), steadily);
        }
        assert_eq!(Said::of("undo.d/a", Answer::Yes), Said::Well);
        for words in [
            "static pod kube-system/etcd is not ready",
            "pod shop/a failed: b",
            "",
            "hook",
        ] {
            assert_eq!(steady(words), words);
        }
    }

    proptest! {
        #[test]
        fn i8_i14_whatever_one_prints_its_code_decides_and_its_words_are_one_clean_line(code in any::<u8>(), printed in any::<String>()) {
            let answer = Answer::of(Ok(code), &printed);
            prop_assert_eq!(answer == Answer::Yes, code == 0);
            prop_assert_eq!(matches!(answer, Answer::NotNow(_)), code == NOT_NOW);
            if let Answer::NotNow(why) | Answer::Unknown(why) = answer {
                prop_assert!(!why.is_empty() && !why.contains(hostile));
                prop_assert!(why.chars().count() <= WORDS + 20);
            }
        }
    }

    #[test]
    fn a_command_is_told_where_the_node_is() {
        let told = Told {
            hook: Hook::Gate,
            node: "n1".to_owned(),
            group: "default".to_owned(),
            phase: Phase::Claiming,
            reasons: "sentinel /run/reboot-required, a\0b".to_owned(),
        };
        assert_eq!(
            told.environment(),
            [
                "KUBE_REBOOTD_HOOK=gate",
                "KUBE_REBOOTD_NODE=n1",
                "KUBE_REBOOTD_GROUP=default",
                "KUBE_REBOOTD_PHASE=Claiming",
                "KUBE_REBOOTD_REASONS=sentinel /run/reboot-required, ab",
            ]
        );
    }
}
