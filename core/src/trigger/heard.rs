//! What each trigger says and since when, for people: nothing is decided on it (I8).

use std::collections::BTreeSet;
use std::mem::discriminant;
use std::time::Duration;

use super::{Asked, BY_ANNOTATION, Finding, Verdict, wish};

/// What one trigger says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heard {
    pub finding: Finding,
    /// Boot time since which this process has heard yes, no or nothing of it, whatever the words.
    pub since: Duration,
}

impl Asked<'_> {
    /// The same as of any other trigger, for people.
    pub(crate) fn finding(self) -> Finding {
        let verdict = match self {
            Self::Unknown => Verdict::Unknown {
                why: "the Node is not read yet".to_owned(),
            },
            Self::No => Verdict::No,
            Self::Yes(text) => Verdict::Reboot {
                pkgs: BTreeSet::new(),
                words: wish(text),
            },
        };
        Finding {
            trigger: BY_ANNOTATION.to_owned(),
            verdict,
            settle: Duration::ZERO,
            kind: None,
            mark: None,
        }
    }
}

/// What they say, by what they said `before`.
pub(crate) fn heard(
    before: &[Heard],
    findings: impl Iterator<Item = Finding>,
    now: Duration,
) -> Vec<Heard> {
    let since = |finding: &Finding| {
        let same = |one: &&Heard| {
            one.finding.trigger == finding.trigger
                && discriminant(&one.finding.verdict) == discriminant(&finding.verdict)
        };
        before.iter().find(same).map_or(now, |one| one.since)
    };
    findings
        .map(|finding| Heard {
            since: since(&finding),
            finding,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_stands_since_it_changed_not_since_its_words_did() {
        let finding = |verdict: &Verdict| Finding {
            trigger: "check x".to_owned(),
            verdict: verdict.clone(),
            settle: Duration::ZERO,
            kind: None,
            mark: None,
        };
        let yes = |words: &str| Verdict::Reboot {
            pkgs: BTreeSet::new(),
            words: words.to_owned(),
        };
        let why = |why: &str| Verdict::Unknown {
            why: why.to_owned(),
        };
        let mut said = Vec::new();
        for (now, verdict, since) in [
            (1, why("not read yet"), 1),
            (2, why("timeout"), 1),
            (3, Verdict::No, 3),
            (4, yes("a"), 4),
            (5, yes("a, b"), 4),
            (6, Verdict::No, 6),
        ] {
            let now = Duration::from_secs(now);
            said = heard(&said, std::iter::once(finding(&verdict)), now);
            assert_eq!(said[0].since, Duration::from_secs(since), "{verdict:?}");
            assert_eq!(said[0].finding, finding(&verdict));
        }
        assert_eq!(heard(&said, std::iter::empty(), Duration::ZERO), []);
    }
}
