//! `explain` for people, and the sections that `explain NODE` has as well.

use jiff::Timestamp;
use kube_rebootd_core::now::Now;

use super::page::{Page, Row};
use super::{Drain, Explained, Fated, Gate, Queue, Trigger};
use crate::cli::status::{self, Done};
use crate::host::view::{State, Verdict};

/// Of those who wait before this node; the others are counted.
const BEFORE: usize = 5;
/// Of the last reboots: `--json` has all.
const REBOOTS: usize = 3;

/// The whole page.
pub(super) fn page(explained: &Explained, now: Now) -> String {
    let mut page = Page::at(now.wall);
    head(&mut page, explained);
    triggers(&mut page, explained);
    gates(&mut page, explained);
    limits(&mut page, explained);
    queue(&mut page, explained.queue.as_ref());
    drain(&mut page, &explained.drain, None);
    reboots(&mut page, &explained.status.history);
    if !explained.status.problems.is_empty() {
        let problems = explained.status.problems.iter();
        page.section(
            "Problems",
            problems.map(|one| (String::new(), vec![one.clone()])),
        );
    }
    page.text
}

fn head(page: &mut Page, explained: &Explained) {
    let status = &explained.status;
    let mut rows = Vec::new();
    let mut row = |name: &str, says: Option<String>| {
        if let Some(says) = says {
            rows.push((name.to_owned(), vec![says]));
        }
    };
    row("group", status.group.clone());
    row("version", status.version.clone());
    row("phase", status.phase.map(|phase| phase.name().to_owned()));
    let kind = status.kind.filter(|kind| kind.soft());
    row("kind", kind.map(|kind| kind.name().to_owned()));
    row("reason", explained.reason.clone());
    row("status", status.status.clone());
    let kept = status.kept_by.join(", ");
    row("kept by", Some(kept).filter(|kept| !kept.is_empty()));
    row(
        "asked for",
        status
            .since
            .map(|since| format!("since {}", page.when(since))),
    );
    row(
        "waits for",
        Some(status.waits.join("; ")).filter(|it| !it.is_empty()),
    );
    row(
        "slot",
        status.hold.as_ref().map(|hold| {
            let undone = hold.undoing.as_ref();
            let undone = undone.map_or_else(String::new, |why| format!(", undone because {why}"));
            format!("{} since {}{undone}", hold.lease, page.when(hold.since))
        }),
    );
    row(
        "cordon",
        status
            .kept_cordon
            .as_ref()
            .map(|why| format!("kept for a pause: {why}")),
    );
    for holder in &status.holders {
        row(
            "holder",
            Some(format!("{} holds {}", holder.node, holder.slot)),
        );
    }
    for blocked in &status.blockers {
        let budget = blocked.budget.as_ref();
        let budget = budget.map_or_else(String::new, |budget| format!(" (budget {budget})"));
        let pod = format!("pod {}: {}{budget}", blocked.pod, blocked.why);
        row("blocked", Some(pod));
    }
    let node = status.node.as_ref();
    let heading = node.map_or_else(|| "This node".to_owned(), |node| format!("Node {node}"));
    page.section(&heading, rows);
}

/// Instead of what the daemon alone knows.
fn unseen(explained: &Explained) -> Row {
    let why = match explained.status.running {
        Some(true) => "not known: the running daemon shows nothing",
        Some(false) => "not known: the daemon does not run",
        None => "not known: systemd did not answer",
    };
    (String::new(), vec![why.to_owned()])
}

fn triggers(page: &mut Page, explained: &Explained) {
    let mut rows: Vec<Row> = explained
        .triggers
        .iter()
        .map(|one| (one.trigger.clone(), trigger(page, one)))
        .collect();
    // What root or a scheduled shutdown asked for is no trigger that is looked at.
    let known = |name: &String| explained.triggers.iter().any(|one| one.trigger == *name);
    let asked = explained.status.reasons.iter();
    for reason in asked.filter(|reason| !known(&reason.trigger)) {
        let says = says("yes", page, reason.since, &reason.words);
        rows.push((reason.trigger.clone(), vec![says]));
    }
    if explained.triggers.is_empty() && explained.status.running != Some(true) {
        rows.push(unseen(explained));
    }
    page.section("Triggers", rows);
}

fn says(word: &str, page: &Page, since: Timestamp, words: &str) -> String {
    let colon = if words.is_empty() { "" } else { ": " };
    format!("{word} since {}{colon}{words}", page.when(since))
}

fn trigger(page: &Page, one: &Trigger) -> Vec<String> {
    let word = match one.verdict {
        Verdict::Yes => "yes",
        Verdict::No => "no",
        Verdict::Unknown => "unknown",
        Verdict::Served => "served by the last soft-reboot, which does not take it away,",
        Verdict::NotCleared => "not cleared by the last reboot, and ignored,",
    };
    let mut lines = vec![says(word, page, one.since, &one.words)];
    if let Some(settles) = one.settles.filter(|settles| *settles > page.now) {
        lines.push(format!(
            "counts from {} on, if it goes on to ask",
            page.when(settles)
        ));
    }
    lines
}

fn gates(page: &mut Page, explained: &Explained) {
    let mut rows: Vec<Row> = explained
        .gates
        .iter()
        .map(|one| (one.gate.clone(), gate(page, one)))
        .collect();
    if rows.is_empty() {
        rows.push(unseen(explained));
    }
    page.section("Gates", rows);
}

fn gate(page: &Page, one: &Gate) -> Vec<String> {
    let word = match one.state {
        State::Open => "open",
        State::Closed => "closed",
        State::Unknown => "unknown, which counts as closed,",
        State::Forced => "passed over by gates.force_after,",
        State::NotLookedAt => {
            let why = one.why.as_deref().unwrap_or("nothing asks for a reboot");
            return vec![format!("not looked at: {why}")];
        }
    };
    let why = one.why.as_deref().unwrap_or_default();
    let mut lines = vec![says(word, page, one.since, why)];
    lines.extend(one.opens.map(|opens| format!("opens {}", page.when(opens))));
    lines.extend(one.opens_when.as_ref().map(|when| format!("opens {when}")));
    lines
}

fn limits(page: &mut Page, explained: &Explained) {
    let rows: Vec<Row> = explained
        .limits
        .iter()
        .map(|one| {
            let until = format!("until {}: {}", page.when(one.until), one.why);
            (one.limit.to_owned(), vec![until])
        })
        .collect();
    if !rows.is_empty() {
        page.section("Limits", rows);
    }
}

/// Nothing where the node does not wait.
pub(super) fn queue(page: &mut Page, queue: Option<&Queue>) {
    let Some(queue) = queue else {
        return;
    };
    let mut rows = vec![("place".to_owned(), vec![place(page, queue)])];
    for before in queue.before.iter().take(BEFORE) {
        let since = before.since.map(|since| page.when(since));
        let since = since.unwrap_or_else(|| "it does not say when".to_owned());
        let ready = if before.ready {
            ""
        } else {
            ", not ready: slots pass it by"
        };
        rows.push((
            "before".to_owned(),
            vec![format!("{} since {since}{ready}", before.node)],
        ));
    }
    if let Some(more) = queue.before.len().checked_sub(BEFORE + 1) {
        rows.push((String::new(), vec![format!("and {} more", more + 1)]));
    }
    page.section("Queue", rows);
}

fn place(page: &Page, queue: &Queue) -> String {
    let since = page.when(queue.since);
    match (queue.place, queue.waiting, &queue.problem) {
        (Some(place), Some(waiting), _) => format!("{place} of {waiting}, since {since}"),
        (_, _, Some(why)) => format!("waits since {since}; who else does is not known: {why}"),
        (_, _, None) => format!("waits since {since}"),
    }
}

/// Words for each fate, in the order in which they are told.
const FATES: [(&str, &str); 6] = [
    ("evicted", "evicted"),
    ("refused", "refused"),
    ("blocks", "blocks it"),
    ("awaited", "waited for"),
    ("stays", "left alone"),
    ("unknown", "not known"),
];

/// `settings`: whose `[drain]` judged, where that is not the node's own.
pub(super) fn drain(page: &mut Page, drain: &Drain, settings: Option<&str>) {
    let mut rows: Vec<Row> = Vec::new();
    if let Some(why) = &drain.why {
        rows.push((
            "none".to_owned(),
            vec![format!("no pod would be evicted: {why}")],
        ));
    }
    for (fate, word) in FATES {
        let pods = drain.pods.iter().filter(|pod| pod.fate == fate);
        let pods: Vec<&Fated> = pods.collect();
        let mut whys: Vec<_> = pods.iter().map(|pod| (&pod.budget, &pod.why)).collect();
        whys.sort_unstable();
        whys.dedup();
        for (budget, why) in whys {
            let same = pods
                .iter()
                .filter(|pod| (&pod.budget, &pod.why) == (budget, why));
            let names: Vec<&str> = same.map(|pod| pod.pod.as_str()).collect();
            let budget = budget
                .as_ref()
                .map(|budget| format!("by budget {budget}: "));
            let mut lines = vec![format!(
                "{}{}",
                budget.unwrap_or_default(),
                names.join(", ")
            )];
            lines.extend(why.clone());
            rows.push((word.to_owned(), lines));
        }
    }
    if rows.is_empty() && drain.problem.is_none() {
        rows.push((String::new(), vec!["no pod is on this node".to_owned()]));
    }
    if let Some(problem) = &drain.problem {
        rows.push(("not asked".to_owned(), vec![problem.clone()]));
    }
    rows.extend(settings.map(|whose| ("settings".to_owned(), vec![whose.to_owned()])));
    page.section(
        "A drain now (each eviction alone was tried by a dry run: nothing is changed)",
        rows,
    );
}

/// The newest of them, which come first.
pub(super) fn reboots(page: &mut Page, history: &[Done]) {
    let last = history.iter().take(REBOOTS);
    let rows: Vec<Row> = last
        .map(|past| {
            let packages = match past.packages.as_slice() {
                [] => String::new(),
                all => format!(" ({})", all.join(", ")),
            };
            let asked = past.reasons.join(", ");
            let (when, how) = (page.when(past.at), status::softly(past.kind));
            let mut lines = vec![format!("{when}{how} for {asked}{packages}")];
            lines.extend(past.rolled_back.as_deref().map(status::did_not_take));
            lines.extend(past.times.as_ref().map(|times| times.words.clone()));
            (String::new(), lines)
        })
        .collect();
    if !rows.is_empty() {
        page.section("Last reboots", rows);
    }
}
