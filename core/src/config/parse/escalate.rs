//! One `[[drain.escalate]]` (I9: nobody is hit who is not selected; I12).

use std::time::Duration;

use super::trigger::required;
use crate::config::duration::show as words;
use crate::config::file::{Item, Problem};
use crate::config::keys::{Table, escalate as keys};
use crate::config::reader::Reader;
use crate::drain::{Action, Escalation};

/// The API server counts whole seconds, and 0 ends a pod without its kubelet.
const LEAST: Duration = Duration::from_secs(1);

/// One `[[drain.escalate]]`, and how it was read; `stall`: after this a drain in which nothing moves is over.
pub(super) fn read(
    table: &Item,
    stall: Duration,
    problems: &mut Vec<Problem>,
) -> (Escalation, Table) {
    let mut r = Reader::new(&keys::SECTION, &table.keys, problems);
    let name = r.word_or(&keys::NAME, &table.name);
    let pods = r.pods(&keys::PODS);
    if pods.is_empty() && r.sound(&["pods"]) {
        let reason = "is empty; write it like [\"shop: app=cache\"]";
        required(&mut r, &keys::PODS, table, reason);
    }
    let after = r.duration_up_to(&keys::AFTER, stall / 2);
    if after >= stall && r.sound(&["after"]) {
        let (a, s) = (words(after), words(stall));
        let reason =
            format!("{a} is not below drain.stall ({s}), which ends the drain; write less");
        r.fault(&keys::AFTER, reason);
    }
    let grace = r.duration(&keys::GRACE);
    let action = r.choice(&keys::ACTION);
    if !grace.is_zero() && grace < LEAST {
        r.fault(&keys::GRACE, "is below a second; write \"1s\" or more");
    } else if grace.is_zero() && action == Action::Grace && r.sound(&["grace", "action"]) {
        let reason = "is empty; write it like \"30s\", or action = \"delete\"";
        required(&mut r, &keys::GRACE, table, reason);
    }
    let whole = Duration::from_secs(grace.as_secs());
    let escalation = Escalation {
        name,
        pods,
        after,
        grace: Some(whole).filter(|grace| !grace.is_zero()),
        action,
    };
    (escalation, r.table())
}
