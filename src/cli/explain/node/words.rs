//! `explain NODE` for people, in the sections and words of `explain` and `nodes`.

use std::iter;

use jiff::Timestamp;

use super::super::page::{Page, Row};
use super::super::text::{drain, queue, reboots};
use super::Seen;
use crate::cli::nodes::{Cordon, FREE};
use crate::cluster::lean;

/// Of the Events: `--json` has all.
const EVENTS: usize = 10;
/// Of those on record for a cordon: `--json` has all.
const OWNERS: usize = 5;
/// What they are worth.
const WRITERS: &str = "whoever may write Events in the namespace default can write such as well";
/// Of a list that has no end.
const CUT: &str = "! not all were read: newer ones may be among the rest";
/// What the cluster cannot know.
const SETTINGS: &str =
    "the [drain] of this machine, or its defaults: the node's own may differ, see explain there";

/// The whole page.
pub(in crate::cli) fn page(seen: &Seen, now: Timestamp) -> String {
    let mut page = Page::at(now);
    head(&mut page, seen);
    slots(&mut page, seen);
    queue(&mut page, seen.queue.as_ref());
    let settings = (!seen.own).then_some(SETTINGS);
    drain(&mut page, &seen.drain, settings);
    reboots(&mut page, &seen.history);
    events(&mut page, seen);
    hidden(&mut page, seen);
    page.text
}

fn head(page: &mut Page, seen: &Seen) {
    let member = &seen.member;
    let mut rows: Vec<Row> = Vec::new();
    let mut row = |name: &str, says: Option<String>| {
        rows.extend(says.map(|says| (name.to_owned(), vec![says])));
    };
    row(
        "person",
        member.person.as_ref().map(|why| format!("! {why}")),
    );
    row("exists", exists(seen));
    row("ready", ready(page, seen));
    row("group", member.group.clone());
    row("version", member.version.clone());
    row("reboot", reboot(page, seen));
    row("reason", member.reason.clone());
    row("status", member.message.clone());
    row("told", told(page, seen));
    row("cordon", cordon(seen));
    row("paused", member.paused.clone());
    let wish = seen.wish.as_ref();
    row(
        "asked for",
        wish.map(|wish| format!("by annotation: {wish}")),
    );
    for place in &seen.place {
        let since = place.since.map(|since| page.when(since));
        let since = since.map_or_else(String::new, |since| format!(" since {since}"));
        let stage = place.stage.as_ref();
        let stage = stage.map_or_else(String::new, |stage| format!(", {stage}"));
        row("slot", Some(format!("{}{since}{stage}", place.words)));
    }
    for one in seen.maintenance.iter().filter(|one| one.status == "True") {
        let since = one.since.map(|since| page.when(since));
        let since = since.map_or_else(String::new, |since| format!(" since {since}"));
        row(
            "condition",
            Some(format!("{} by {}{since}", one.condition, one.reason)),
        );
    }
    page.section(&format!("Node {}", member.node), rows);
}

fn exists(seen: &Seen) -> Option<String> {
    match seen.exists {
        Some(true) => None,
        Some(false) => Some("no: there is no such Node".to_owned()),
        None => Some("not known: the Node cannot be seen, see below".to_owned()),
    }
}

fn ready(page: &Page, seen: &Seen) -> Option<String> {
    seen.exists.filter(|exists| *exists)?;
    let word = if seen.member.ready { "yes" } else { "no" };
    Some(match seen.ready_since {
        Some(since) => format!("{word} since {}", page.when(since)),
        None => word.to_owned(),
    })
}

fn reboot(page: &Page, seen: &Seen) -> Option<String> {
    seen.exists.filter(|exists| *exists)?;
    let word = match seen.member.required {
        Some("True") => "required",
        Some("False") => "no",
        Some(_) => "unknown",
        None => return Some("no report from kube-rebootd: does it run there?".to_owned()),
    };
    Some(match seen.member.since {
        Some(since) => format!("{word} since {}", page.when(since)),
        None => word.to_owned(),
    })
}

/// What a daemon that is silent said is old, whatever it was.
fn told(page: &Page, seen: &Seen) -> Option<String> {
    let told = seen.member.told?;
    let ahead = lean::ahead(told, page.now);
    let told = page.when(told);
    Some(if seen.silent && ahead {
        format!("! {told}: its clock is ahead, and nobody knows how old all is that it says here")
    } else if seen.silent {
        format!("! {told}, and nothing since: all that it says here is as old as that")
    } else {
        told
    })
}

fn cordon(seen: &Seen) -> Option<String> {
    let by = match seen.member.cordon? {
        Cordon::KubeRebootd => return Some("by kube-rebootd".to_owned()),
        Cordon::Others => first(&seen.cordoned_by, OWNERS),
    };
    Some(if by.is_empty() {
        "by others".to_owned()
    } else {
        format!("by others: {by}")
    })
}

/// The first `most`, and how many more there are.
fn first(names: &[String], most: usize) -> String {
    let shown = names.iter().take(most).cloned();
    let more = names.len().saturating_sub(most);
    let more = (more > 0).then(|| format!("and {more} more"));
    shown.chain(more).collect::<Vec<_>>().join(", ")
}

fn slots(page: &mut Page, seen: &Seen) {
    if seen.slots.is_none() {
        return;
    }
    let slots = seen.states.iter();
    let mut rows: Vec<Row> = slots
        .map(|(name, state)| (name.clone(), vec![state.clone()]))
        .collect();
    if rows.is_empty() {
        let none = format!(
            "no Lease of this group is in namespace {} (--namespace)",
            seen.namespace
        );
        rows.push((String::new(), vec![none]));
    }
    if seen.waits() && seen.states.iter().any(|(_, state)| state == FREE) {
        let why = "why it does not take a free slot only its own host knows: `sudo kube-rebootd explain` there";
        rows.push((String::new(), vec![why.to_owned()]));
    }
    page.section(&format!("Slots of the group {}", seen.slots_of), rows);
}

fn events(page: &mut Page, seen: &Seen) {
    let all = seen.events.as_deref().unwrap_or_default();
    if all.is_empty() && !seen.more_events {
        return;
    }
    let rows = all.iter().take(EVENTS).map(|one| {
        let at = one.at.map(|at| page.when(at));
        let at = at.unwrap_or_else(|| "at a time that cannot be read".to_owned());
        let times = match one.count {
            0 | 1 => String::new(),
            count => format!(" ({count} times)"),
        };
        let mark = if one.warning { "! " } else { "" };
        let says = format!("{at} {mark}{}{times}: {}", one.reason, one.message);
        (String::new(), vec![says])
    });
    let mut rows: Vec<Row> = iter::once((String::new(), vec![WRITERS.to_owned()]))
        .chain(rows)
        .collect();
    let more = all.len().saturating_sub(EVENTS);
    if more > 0 {
        rows.push((
            String::new(),
            vec![format!("and {more} more: --json has all")],
        ));
    }
    if seen.more_events {
        rows.push((String::new(), vec![CUT.to_owned()]));
    }
    page.section("Events", rows);
}

fn hidden(page: &mut Page, seen: &Seen) {
    let rows = seen.hidden.iter().map(|one| {
        let right = one.right.iter();
        let wants = right.map(|right| format!("it wants the right to {right}"));
        let says = iter::once(one.why.clone()).chain(wants);
        (one.what.to_owned(), says.collect())
    });
    let rows: Vec<Row> = rows.collect();
    if !rows.is_empty() {
        page.section("Not seen", rows);
    }
}
