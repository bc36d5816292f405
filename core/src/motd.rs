//! What whoever logs in on the host is told: nothing, unless a reboot is required or under way, or somebody has to look at the
//! host (I14).

use std::time::Duration;

use crate::decide::Step;
use crate::facts::Facts;
use crate::phase::Phase;
use crate::reason::Reason;
use crate::text::{MESSAGE, clean};
use crate::trigger::{Request, Verdict};
use crate::waits;

/// A trigger without an answer is told of when it has had none for so long: at a start, and while a package manager works,
/// none has one.
const UNSURE: Duration = Duration::from_secs(10 * 60);

/// One or two lines for a terminal, each of at most 1,000 characters and without control characters; none: there is nothing to
/// say. `status` is the sentence of STATUS, `boot` the time now.
pub fn login(step: &Step, facts: &Facts, status: &str, boot: Duration) -> Option<String> {
    let quiet = match step.reason {
        Reason::TriggerUnknown => !unanswered(facts, boot),
        reason => step.phase == Phase::Idle && !reason.needs_person(),
    };
    if quiet || status.is_empty() {
        return None;
    }
    let first = asked(step).map_or_else(String::new, |words| clean(&words, MESSAGE) + "\n");
    let second = clean(&format!("kube-rebootd: {status}"), MESSAGE);
    Some(format!("{first}{second} (sudo kube-rebootd status)\n"))
}

/// What a reboot is required for; none: none is, or it was done.
fn asked(step: &Step) -> Option<String> {
    let request = step
        .record
        .request
        .as_ref()
        .filter(|it| Request::reboots(it))?;
    let what = match step.phase {
        Phase::Pending | Phase::Queued => "This host requires a reboot",
        Phase::Claiming | Phase::Draining | Phase::Rebooting => {
            "This host is about to reboot, as it has required"
        }
        Phase::Idle | Phase::Drained | Phase::Verifying | Phase::Releasing | Phase::Undoing => {
            return None;
        }
    };
    // Seconds say nothing to somebody who has just logged in.
    let since = request.since.strftime("%Y-%m-%d %H:%M UTC");
    let why = waits::reasons(step).unwrap_or_default();
    Some(format!("{what} since {since}: {why}"))
}

/// Some trigger has had no answer for long.
fn unanswered(facts: &Facts, boot: Duration) -> bool {
    facts.heard.iter().any(|heard| {
        matches!(heard.finding.verdict, Verdict::Unknown { .. })
            && boot.saturating_sub(heard.since) >= UNSURE
    })
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::boot::Boot;
    use crate::effect::Effect;
    use crate::record::Record;
    use crate::trigger::{BY_PERSON, Finding, Heard, Keeper, Latched};

    const NOW: Duration = Duration::from_secs(3600);

    fn facts() -> Facts {
        Facts::of_a_start(Boot::unknown(), Record::default())
    }

    /// A node to which somebody said why it is to be rebooted.
    fn step(phase: Phase, reason: Reason, by: &str, why: &str) -> Step {
        let wish = Latched {
            by: by.to_owned(),
            reason: why.to_owned(),
            at: Timestamp::UNIX_EPOCH,
            boot: None,
            ended: false,
            kind: crate::kind::Kind::Reboot,
        };
        let request = Request {
            since: Timestamp::UNIX_EPOCH,
            reasons: Vec::new(),
            latched: vec![wish],
        };
        Step {
            phase,
            reason,
            record: Record {
                request: (phase != Phase::Idle).then_some(request),
                ..Record::default()
            },
            effect: Effect::Wait,
            wake: None,
            status: String::new(),
            waits: None,
            would: None,
        }
    }

    #[test]
    fn there_is_something_to_say_only_of_a_reboot_or_where_somebody_has_to_look() {
        let drain = Keeper::Person.begins();
        let required = "This host requires a reboot since 1970-01-01 00:00 UTC: ";
        let about = "This host is about to reboot, as it has required since 1970-01-01 00:00 UTC: ";
        for (phase, reason, by, first) in [
            (Phase::Idle, Reason::Idle, BY_PERSON, None),
            (Phase::Idle, Reason::TriggerUnknown, BY_PERSON, None),
            (Phase::Idle, Reason::NotCleared, BY_PERSON, Some("")),
            (Phase::Pending, Reason::Paused, BY_PERSON, Some(required)),
            (Phase::Queued, Reason::Queued, BY_PERSON, Some(required)),
            (Phase::Draining, Reason::Draining, BY_PERSON, Some(about)),
            (Phase::Rebooting, Reason::Rebooting, BY_PERSON, Some(about)),
            // It has rebooted.
            (Phase::Verifying, Reason::Unhealthy, BY_PERSON, Some("")),
            // Nobody wants a reboot.
            (Phase::Draining, Reason::Draining, drain, Some("")),
            (Phase::Drained, Reason::Maintenance, drain, Some("")),
        ] {
            let step = step(phase, reason, by, "kernel");
            let said = login(&step, &facts(), "it waits", NOW);
            let expected = first.map(|first| {
                let first = match first {
                    "" => String::new(),
                    first => format!("{first}{by} (kernel)\n"),
                };
                format!("{first}kube-rebootd: it waits (sudo kube-rebootd status)\n")
            });
            assert_eq!(said, expected, "{phase} {reason}");
        }
    }

    #[test]
    fn a_trigger_without_an_answer_is_told_of_after_ten_minutes() {
        let step = step(Phase::Idle, Reason::TriggerUnknown, "", "");
        let said = |since: Duration| {
            let verdict = Verdict::Unknown {
                why: "it hangs".to_owned(),
            };
            let finding = Finding {
                trigger: "check firmware".to_owned(),
                verdict,
                settle: Duration::ZERO,
                kind: None,
                mark: None,
            };
            let facts = Facts {
                heard: vec![Heard { finding, since }],
                ..facts()
            };
            login(&step, &facts, "idle", NOW)
        };
        assert_eq!(
            said(NOW.checked_sub(Duration::from_secs(599)).unwrap()),
            None
        );
        assert!(said(NOW.checked_sub(UNSURE).unwrap()).is_some());
    }

    #[test]
    fn i14_nothing_of_it_is_an_escape_sequence() {
        let evil = "\u{1b}]0;x\u{7}\u{202e}\nb\r".repeat(1_000);
        let step = step(Phase::Pending, Reason::Pending, "reboot", &evil);
        let said = login(&step, &facts(), &evil, NOW).unwrap();
        assert_eq!(said.lines().count(), 2);
        assert!(said.len() < 3_000, "{}", said.len());
        assert!(!said.replace('\n', "").contains(crate::text::hostile));
    }
}
