//! Not so soon: after the boot, and after a trigger began to ask.

use std::time::Duration;

use jiff::Timestamp;

use super::{State, shut, shut_until};
use crate::now::Now;
use crate::text::span;
use crate::trigger::{Finding, Reason, Request};

pub(super) fn min_uptime(request: Option<&Request>, least: Duration, now: Now) -> State {
    if now.boot >= least || request.is_some_and(Request::urgent) {
        return State::Open;
    }
    let time = span(least);
    shut_until(
        format!("the host has been up for less than gates.min_uptime ({time})"),
        least,
    )
}

/// Open as soon as one reason has settled, and for every latched wish: a trigger that needs no time
/// does not wait for one that does. `begun`: when the slot was taken in which the node is cordoned now. A reason from before
/// that had settled, by what was configured then.
pub(super) fn settle(
    request: Option<&Request>,
    findings: &[Finding],
    begun: Option<Timestamp>,
    now: Now,
) -> State {
    let Some(request) = request.filter(|request| request.latched.is_empty()) else {
        return State::Open;
    };
    let settles = |trigger: &str| {
        let finding = findings.iter().find(|finding| finding.trigger == trigger);
        finding.map(|finding| finding.settle)
    };
    let before = |reason: &Reason| begun.is_some_and(|begun| reason.since <= begun);
    if request.reasons.iter().any(before) {
        return State::Open;
    }
    let opens = (request.reasons.iter())
        .filter_map(|reason| Some((settles(&reason.trigger)? + reason.since_boot, reason)))
        .min_by_key(|(opens, _)| *opens);
    match opens {
        None => shut("no trigger of the request is configured any more"),
        Some((opens, _)) if opens <= now.boot => State::Open,
        Some((opens, reason)) => {
            shut_until(format!("{} has not settled yet", reason.trigger), opens)
        }
    }
}
