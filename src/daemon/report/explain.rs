//! What every trigger and every gate says, for `kube-rebootd explain` (I8: unknown is a word of its own).

use std::time::Duration;

use jiff::Timestamp;
use kube_rebootd_core::decide::Step;
use kube_rebootd_core::facts::Facts;
use kube_rebootd_core::gates::{self, Standing};
use kube_rebootd_core::trigger::{self, Heard, Request};

use crate::host::view::{Gate, State, Trigger, Verdict};

/// What each trigger says.
pub(super) fn triggers(facts: &Facts) -> Vec<Trigger> {
    facts.heard.iter().map(|one| said(one, facts)).collect()
}

fn said(heard: &Heard, facts: &Facts) -> Trigger {
    let finding = &heard.finding;
    let name = &finding.trigger;
    let observed = &facts.observed;
    let uncleared = observed.uncleared.iter().any(|one| one.trigger == *name);
    // It was asked for before this process began.
    let request = observed.request.as_ref();
    let reasons = request.map_or(&[][..], |request| &request.reasons);
    let reason = reasons.iter().find(|one| one.trigger == *name);
    let since = reason.map_or(heard.since, |one| one.since_boot);
    let (verdict, words) = match &finding.verdict {
        trigger::Verdict::Reboot { words, .. } if uncleared => (Verdict::NotCleared, words.clone()),
        trigger::Verdict::Reboot { words, .. } if observed.served.contains(name) => {
            (Verdict::Served, words.clone())
        }
        trigger::Verdict::Reboot { words, .. } => (Verdict::Yes, words.clone()),
        trigger::Verdict::No => (Verdict::No, String::new()),
        trigger::Verdict::Unknown { why } => (Verdict::Unknown, why.clone()),
    };
    let asks = verdict == Verdict::Yes;
    Trigger {
        trigger: name.clone(),
        verdict,
        words,
        since: if asks { since } else { heard.since },
        settles: asks.then(|| since.saturating_add(finding.settle)),
    }
}

/// How each gate stands.
pub(super) fn gates(facts: &Facts) -> Vec<Gate> {
    let wanted = facts.observed.request.is_some() || facts.record.hold.is_some();
    facts.gates.iter().map(|one| gate(one, wanted)).collect()
}

fn gate(standing: &Standing, wanted: bool) -> Gate {
    let (state, why, opens) = match &standing.state {
        gates::State::Open => (State::Open, None, None),
        gates::State::Forced { why } => (State::Forced, Some(why.to_string()), None),
        gates::State::Closed { why, opens } => (State::Closed, Some(why.to_string()), *opens),
        // What is not looked at cannot be known, and nobody is to mend that.
        gates::State::Unknown { .. } if !wanted => (State::NotLookedAt, None, None),
        gates::State::Aside => {
            let why = "it speaks against a reboot alone, and somebody keeps this node drained";
            (State::NotLookedAt, Some(why.to_owned()), None)
        }
        gates::State::Unknown { why } => (State::Unknown, Some(why.to_string()), None),
    };
    let shut = matches!(state, State::Closed | State::Unknown);
    let untimed = shut && opens.is_none();
    Gate {
        gate: standing.gate.name().to_owned(),
        state,
        why,
        since: standing.since,
        opens,
        opens_when: untimed.then(|| standing.gate.opens_when().to_owned()),
    }
}

/// The request, where no person made it: what they ask for is not counted, and need not last.
fn automatic(step: &Step) -> Option<&Request> {
    let request = step.record.request.as_ref();
    request.filter(|request| request.automatic())
}

/// Until when `reboot.max_per_day` keeps the request waiting.
pub(super) fn limited(step: &Step, facts: &Facts) -> Option<Timestamp> {
    automatic(step).and(facts.limited)
}

/// Until when a request that came and went waits.
pub(super) fn flapping(step: &Step, facts: &Facts) -> Option<Duration> {
    let flaps = automatic(step).and(step.record.flaps.as_ref())?;
    (flaps.boot == facts.boot).then_some(flaps.until)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use kube_rebootd_core::boot::Boot;
    use kube_rebootd_core::record::Record;
    use kube_rebootd_core::trigger::{Finding, Reason};

    use super::*;

    const SENTINEL: &str = "sentinel /run/reboot-required";

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn reason(since: u64) -> Reason {
        Reason {
            trigger: SENTINEL.to_owned(),
            pkgs: BTreeSet::new(),
            words: String::new(),
            since: Timestamp::UNIX_EPOCH,
            since_boot: seconds(since),
            later: std::collections::BTreeMap::new(),
            kind: kube_rebootd_core::kind::Kind::Reboot,
            mark: None,
        }
    }

    fn request() -> Request {
        Request {
            since: Timestamp::UNIX_EPOCH,
            reasons: vec![reason(40)],
            latched: Vec::new(),
        }
    }

    fn facts(verdict: trigger::Verdict) -> Facts {
        let mut facts = Facts::of_a_start(Boot::unknown(), Record::default());
        facts.heard = vec![Heard {
            finding: Finding {
                trigger: SENTINEL.to_owned(),
                verdict,
                settle: seconds(600),
                kind: None,
                mark: None,
            },
            since: seconds(70),
        }];
        facts
    }

    fn yes() -> trigger::Verdict {
        trigger::Verdict::Reboot {
            pkgs: BTreeSet::new(),
            words: "libc6".to_owned(),
        }
    }

    /// A restarted daemon hears it anew, and it settles no later for that.
    #[test]
    fn a_trigger_asks_since_the_request_says_so() {
        let mut facts = facts(yes());
        facts.observed.request = Some(request());
        let one = &triggers(&facts)[0];
        assert_eq!((one.verdict, one.words.as_str()), (Verdict::Yes, "libc6"));
        assert_eq!((one.since, one.settles), (seconds(40), Some(seconds(640))));
    }

    #[test]
    fn i8_i10_what_counts_for_no_request_is_no_yes() {
        let mut left = facts(yes());
        left.observed.uncleared = vec![reason(80)];
        let why = "timeout".to_owned();
        let mut served = facts(yes());
        served.observed.served = vec![SENTINEL.to_owned()];
        for (facts, verdict) in [
            (served, Verdict::Served),
            (left, Verdict::NotCleared),
            (facts(trigger::Verdict::No), Verdict::No),
            (facts(trigger::Verdict::Unknown { why }), Verdict::Unknown),
        ] {
            let one = &triggers(&facts)[0];
            assert_eq!((one.verdict, one.since), (verdict, seconds(70)));
            assert_eq!(one.settles, None, "{verdict:?}");
        }
    }

    /// Nobody asks logind while nothing asks for a reboot: that it said nothing is no trouble then.
    #[test]
    fn i8_a_gate_is_unknown_only_where_it_matters() {
        let why = || "logind did not say".into();
        let states = [
            gates::State::Open,
            gates::State::Unknown { why: why() },
            gates::State::Closed {
                why: why(),
                opens: None,
            },
            gates::State::Closed {
                why: why(),
                opens: Some(seconds(900)),
            },
        ];
        let mut facts = facts(trigger::Verdict::No);
        facts.gates = (states.into_iter())
            .map(|state| Standing {
                gate: gates::Gate::Inhibitors,
                state,
                since: seconds(5),
            })
            .collect();
        let said = |facts: &Facts| -> Vec<State> {
            let gates = gates(facts);
            gates.iter().map(|gate| gate.state).collect()
        };
        let (open, closed) = (State::Open, State::Closed);
        assert_eq!(said(&facts), [open, State::NotLookedAt, closed, closed]);
        facts.observed.request = Some(request());
        assert_eq!(said(&facts), [open, State::Unknown, closed, closed]);
        let gates = gates(&facts);
        let when: Vec<bool> = gates.iter().map(|gate| gate.opens_when.is_some()).collect();
        assert_eq!(
            when,
            [false, true, true, false],
            "it has no time of its own"
        );
        assert_eq!(gates[3].opens, Some(seconds(900)));
    }
}
