//! One `[[drain.order]]` (I12).

use std::time::Duration;

use crate::config::duration::show as words;
use crate::config::file::{Item, Problem};
use crate::config::keys::{Table, order as keys};
use crate::config::reader::Reader;
use crate::drain::Group;

/// One `[[drain.order]]`, and how it was read; `stall`: after this a drain in which nothing moves is over.
pub(super) fn read(table: &Item, stall: Duration, problems: &mut Vec<Problem>) -> (Group, Table) {
    let mut r = Reader::new(&keys::SECTION, &table.keys, problems);
    let name = r.word_or(&keys::NAME, &table.name);
    let pods = r.pods(&keys::PODS);
    let priority = i32::try_from(r.number(&keys::PRIORITY)).ok();
    let wait = r.duration_up_to(&keys::WAIT, stall / 2);
    if wait >= stall && r.sound(&["wait"]) {
        let (w, s) = (words(wait), words(stall));
        let reason =
            format!("{w} is not below drain.stall ({s}), which ends the drain; write less");
        r.fault(&keys::WAIT, reason);
    }
    let group = Group {
        name,
        pods,
        priority: priority.filter(|least| *least > 0),
        wait,
    };
    (group, r.table())
}
