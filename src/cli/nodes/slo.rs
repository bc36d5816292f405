//! `nodes --slo`: how many nodes were rebooted and proved within a time since the first reason was seen, which were not, and what
//! held them.
//!
//! It rests on what the Nodes show: the last reboot in `kube-rebootd/history`, and the condition `RebootRequired`. Times are those
//! of the node's own clock, but for how long it has waited until now.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};

use super::age;
use super::fleet::{Member, silent};
use super::table::{CELL, aligned};

/// What held a node is said of so many things.
const HELD_BY: usize = 3;

/// How the nodes did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slo {
    limit: Duration,
    /// Of which it is known, the longest time first.
    nodes: Vec<Reach>,
    /// Nodes that are not late now, and do not tell how long their last reboot took, or whether they require one now.
    unknown: usize,
}

/// How long one node took, or has waited.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Reach {
    node: String,
    /// It waits now for longer than the limit; false: its last reboot counts.
    waits: bool,
    within: bool,
    /// From the first reason to the proof, or until now.
    seconds: u64,
    /// When the last reboot was proved.
    at: Option<Timestamp>,
    /// What that time went to, as far as it is known: seconds by the reason of the condition.
    spent_seconds: BTreeMap<String, u64>,
    /// What a node that waits says, or that the update of its last reboot did not take.
    message: Option<String>,
}

impl Slo {
    /// How `nodes` did, which were to be proved within `limit`, at `now`.
    pub fn of(nodes: &[Member], limit: Duration, now: Timestamp) -> Self {
        let known = nodes.iter().filter_map(|node| reach(node, limit, now));
        let mut known: Vec<Reach> = known.collect();
        known.sort_by_key(|one| std::cmp::Reverse(one.seconds));
        Self {
            limit,
            unknown: nodes.len() - known.len(),
            nodes: known,
        }
    }

    fn within(&self) -> usize {
        self.nodes.iter().filter(|one| one.within).count()
    }

    /// Whole percent, rounded down: 100 is all. None: nothing is known of any node.
    fn percent(&self) -> Option<usize> {
        (self.within() * 100).checked_div(self.nodes.len())
    }

    /// For people: the share, then all that were late, the worst first; the longest one where none was.
    pub(super) fn table(&self, now: Timestamp) -> String {
        let (within, all, limit) = (self.within(), self.nodes.len(), long(self.limit.as_secs()));
        let mut text = match self.percent() {
            Some(percent) => format!("within {limit}: {within} of {all} nodes ({percent} %)\n"),
            None => format!("within {limit}: no node tells now of a reboot\n"),
        };
        // Writing to a String does not fail.
        if self.unknown > 0 && all > 0 {
            let _ = writeln!(
                text,
                "not counted: {}, which do not tell how long their last reboot took, or nothing at all now",
                self.unknown
            );
        }
        let late: Vec<&Reach> = self.nodes.iter().filter(|one| !one.within).collect();
        let held = most(late.iter().flat_map(|one| &one.spent_seconds));
        if !held.is_empty() {
            let _ = writeln!(text, "what held those that were late: {held}");
        }
        let shown = if late.is_empty() {
            self.nodes.iter().take(1).collect()
        } else {
            late
        };
        if shown.is_empty() {
            return text;
        }
        let mut lines = vec![["NODE", "TOOK", "WHEN", "HELD BY"].map(str::to_owned)];
        lines.extend(shown.into_iter().map(|one| one.row(now)));
        text + "\n" + &aligned(&lines, CELL)
    }

    /// For scripts.
    pub(in crate::cli) fn report(&self) -> Value {
        json!({
            "limit_seconds": self.limit.as_secs(),
            "within": self.within(),
            "known": self.nodes.len(),
            "percent": self.percent(),
            "unknown": self.unknown,
            "nodes": self.nodes,
        })
    }
}

impl Reach {
    fn row(&self, now: Timestamp) -> [String; 4] {
        let when = match self.at {
            Some(at) => format!("{} ago", age(now, at)),
            None => "waits now".to_owned(),
        };
        let held = match &self.message {
            Some(message) => message.clone(),
            None => most(&self.spent_seconds),
        };
        let held = if held.is_empty() {
            "not known".to_owned()
        } else {
            held
        };
        [self.node.clone(), long(self.seconds), when, held]
    }
}

/// How one node did; none: nothing is known. What it waits for now counts from when that is longer than the limit.
fn reach(node: &Member, limit: Duration, now: Timestamp) -> Option<Reach> {
    let waits = node.since.filter(|_| node.required == Some("True"));
    let waits = waits.map(|since| now.duration_since(since).as_secs());
    let waits = waits.and_then(|seconds| u64::try_from(seconds).ok());
    if let Some(seconds) = waits.filter(|seconds| *seconds > limit.as_secs()) {
        let reason = node.reason.clone();
        return Some(Reach {
            node: node.node.clone(),
            waits: true,
            within: false,
            seconds,
            at: None,
            spent_seconds: BTreeMap::new(),
            message: node.message.clone().or(reason),
        });
    }
    // What was true of it when it told last may not be true any more (I8).
    if silent(node.told, now) || node.required == Some("Unknown") {
        return None;
    }
    let last = node.last_reboot.as_ref()?;
    let seconds = last.took_seconds?;
    Some(Reach {
        node: node.node.clone(),
        waits: false,
        // The node was rebooted in time, and does not have what it was rebooted for.
        within: seconds <= limit.as_secs() && last.rolled_back.is_none(),
        seconds,
        at: Some(last.at),
        spent_seconds: last.spent_seconds.clone(),
        message: (last.rolled_back.as_ref()).map(|why| format!("rolled back: {why}")),
    })
}

/// What took most, in words; empty: nothing is known.
fn most<'a>(spent: impl IntoIterator<Item = (&'a String, &'a u64)>) -> String {
    let mut all: BTreeMap<&str, u64> = BTreeMap::new();
    for (reason, seconds) in spent {
        let sum = all.entry(reason).or_default();
        *sum = sum.saturating_add(*seconds);
    }
    let mut all: Vec<(&str, u64)> = all.into_iter().collect();
    all.sort_by_key(|(_, seconds)| std::cmp::Reverse(*seconds));
    let words = all.iter().take(HELD_BY);
    let words = words.map(|(reason, seconds)| format!("{reason} {}", long(*seconds)));
    words.collect::<Vec<_>>().join(", ")
}

/// As [`age`], of a number of seconds.
fn long(seconds: u64) -> String {
    let end = i64::try_from(seconds).ok();
    let end = end.and_then(|seconds| Timestamp::from_second(seconds).ok());
    age(end.unwrap_or(Timestamp::MAX), Timestamp::UNIX_EPOCH)
}

#[cfg(test)]
mod tests {
    use serde_json::from_value;

    use super::super::member;
    use super::*;

    const DAY: u64 = 24 * 3600;

    fn now() -> Timestamp {
        "2026-11-24T12:00:00Z".parse().expect("a time")
    }

    /// A Node with this history, and this status of its condition since then.
    fn node(name: &str, history: &Value, required: &str, since: &str) -> Member {
        let object = json!({
            "metadata": {"name": name, "annotations": {"kube-rebootd/history": history.to_string()}},
            "status": {"conditions": [{"type": "RebootRequired", "status": required, "reason": "Paused",
                "message": "node paused: the rack is moved", "lastHeartbeatTime": "2026-11-24T11:59:00Z",
                "lastTransitionTime": since}]}
        });
        member(&from_value(object).expect("a Node"), now())
    }

    /// One reboot, proved at noon of the day before yesterday.
    fn history(since: &[&str], times: &Value) -> Value {
        json!([{"at": "2026-11-22T12:00:00Z", "automatic": true, "reasons": ["check dnf"], "since": since,
            "times": times}])
    }

    fn fleet() -> Vec<Member> {
        let long =
            json!({"waits": {"Paused": 900_000, "Queued": 90_000}, "drain": 300, "verify": 60});
        let short = json!({"waits": {"Queued": 600}, "drain": 30, "verify": 20});
        let hour = "2026-11-24T11:00:00Z";
        vec![
            node(
                "fast",
                &history(&["2026-11-22T11:00:00Z"], &short),
                "False",
                hour,
            ),
            // The first of its reasons counts. It waits again, but not for long.
            node(
                "slow",
                &history(&["2026-11-20T12:00:00Z", "2026-11-10T12:00:00Z"], &long),
                "True",
                hour,
            ),
            node(
                "waits",
                &history(&["2026-11-22T11:00:00Z"], &short),
                "True",
                "2026-11-09T12:00:00Z",
            ),
            // What an older release wrote.
            node(
                "old",
                &json!([{"at": "2026-11-22T12:00:00Z", "automatic": true, "reasons": []}]),
                "False",
                hour,
            ),
            node("new", &json!([]), "True", hour),
            node("broken", &json!("x"), "False", hour),
        ]
    }

    #[test]
    fn the_share_and_those_that_were_late() {
        let slo = Slo::of(&fleet(), Duration::from_secs(10 * DAY), now());
        assert_eq!(
            slo.table(now()),
            "within 10d: 1 of 3 nodes (33 %)\n\
             not counted: 3, which do not tell how long their last reboot took, or nothing at all now\n\
             what held those that were late: Paused 10d, Queued 25h, Draining 5m\n\
             \n\
             NODE   TOOK  WHEN       HELD BY\n\
             waits  15d   waits now  node paused: the rack is moved\n\
             slow   12d   2d ago     Paused 10d, Queued 25h, Draining 5m\n"
        );
        let report = slo.report();
        assert_eq!(report["limit_seconds"], 10 * DAY);
        assert_eq!(
            (&report["within"], &report["known"]),
            (&json!(1), &json!(3))
        );
        assert_eq!(report["nodes"][1]["spent_seconds"]["Paused"], 900_000);
        assert_eq!(report["nodes"][0]["waits"], true);
    }

    #[test]
    fn a_reboot_that_did_not_bring_its_update_is_not_in_time() {
        let words = "kernel 2 was to come up, and 1 came again";
        let mut history = history(&["2026-11-22T11:00:00Z"], &json!({"drain": 30}));
        history[0]["rolled_back"] = json!(words);
        let members = [node("back", &history, "False", "2026-11-24T11:00:00Z")];
        let slo = Slo::of(&members, Duration::from_secs(DAY), now());
        let table = slo.table(now());
        assert!(
            table.starts_with("within 24h: 0 of 1 nodes (0 %)\n"),
            "{table}"
        );
        assert!(table.contains("rolled back: kernel 2 was to"), "{table}");
        assert_eq!(slo.report()["nodes"][0]["within"], false);
    }

    #[test]
    fn where_all_were_in_time_the_longest_is_shown() {
        let slo = Slo::of(&fleet()[..2], Duration::from_secs(14 * DAY), now());
        assert_eq!(
            slo.table(now()),
            "within 14d: 2 of 2 nodes (100 %)\n\
             \n\
             NODE  TOOK  WHEN    HELD BY\n\
             slow  12d   2d ago  Paused 10d, Queued 25h, Draining 5m\n"
        );
        let none = Slo::of(&fleet()[3..], Duration::from_secs(DAY), now());
        assert_eq!(
            none.table(now()),
            "within 24h: no node tells now of a reboot\n"
        );
        assert_eq!(none.report()["percent"], Value::Null);
    }
}
