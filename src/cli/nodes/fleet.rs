//! Every Node of the cluster with what its daemon last told there, and whether somebody has to look at it.
//!
//! It rests on what anybody may read: the condition `RebootRequired`, the cordon and the annotation with the last reboots.
//! Whoever may patch `nodes/status` can write the condition as well, so it is for people.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use jiff::{SignedDuration, Timestamp};
use kube::api::ListParams;
use kube::{Api, Client};
use kube_rebootd_core::condition::{Condition, Kind, Status};
use kube_rebootd_core::history::Past;
use kube_rebootd_core::names;
use kube_rebootd_core::node::Node;
use kube_rebootd_core::node_fields::{foreign_cordon, ours};
use kube_rebootd_core::reason::Reason;
use kube_rebootd_core::text::{self, NAME};
use kube_rebootd_core::times::Times;
use serde::Serialize;

use super::{What, age};
use crate::cluster::answer::{ApiError, CALL, call};
use crate::cluster::lean::{self, Node as Object};
use crate::cluster::node;

/// Nodes that one answer holds: some ten megabytes where each is as large as they get.
const PAGE: u32 = 500;
/// A daemon writes its condition again within 66 minutes; clocks differ, and a write may be refused once.
const SILENT: SignedDuration = SignedDuration::from_mins(90);
/// A host that holds a slot and is not Ready reboots; few take longer.
const DOWN: SignedDuration = SignedDuration::from_mins(30);
/// A check has no answer while a package manager works, or a backup inhibits the shutdown.
const UNANSWERED: SignedDuration = SignedDuration::from_hours(24);

/// One Node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Member {
    pub node: String,
    /// Whose slots its daemon takes; none: it never told.
    pub group: Option<String>,
    /// Of its daemon.
    pub version: Option<String>,
    pub ready: bool,
    /// Whether a reboot is required: `True`, `False`, `Unknown`; none: no daemon ever told.
    pub required: Option<&'static str>,
    /// Why the node is where it is, in one word.
    pub reason: Option<String>,
    /// Since when `required` is what it is, by the node's clock.
    pub since: Option<Timestamp>,
    /// When its daemon told last.
    pub told: Option<Timestamp>,
    pub message: Option<String>,
    pub cordon: Option<Cordon>,
    /// Why somebody paused this node; none: it is not.
    pub paused: Option<String>,
    pub last_reboot: Option<Reboot>,
    /// Why somebody has to look at it.
    pub person: Option<String>,
}

/// Who keeps pods away.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cordon {
    KubeRebootd,
    /// Somebody else, alone or as well.
    Others,
}

/// The last one of its daemon's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Reboot {
    pub at: Timestamp,
    pub reasons: Vec<String>,
    /// From the first reason to the proof that the host is healthy, by the node's clock; none: not known.
    pub took_seconds: Option<u64>,
    /// What of that is known: seconds by the reason of the condition.
    pub spent_seconds: BTreeMap<String, u64>,
}

/// All Nodes, a page at a time.
pub(super) async fn list(client: &Client) -> Result<Vec<Object>, ApiError> {
    let nodes: Api<Object> = Api::all(client.clone());
    let mut all = Vec::new();
    let mut params = ListParams::default().limit(PAGE);
    loop {
        let page = call("list Nodes", CALL, nodes.list(&params)).await?;
        all.extend(page.items);
        match page.metadata.continue_ {
            Some(next) if !next.is_empty() => params = params.continue_token(&next),
            _ => return Ok(all),
        }
    }
}

/// What one Node shows at `now`.
pub(in crate::cli) fn member(object: &Object, now: Timestamp) -> Member {
    let node = node::read(object, None);
    let shown = node.conditions.iter();
    let shown = shown.clone().find(|one| one.kind == Kind::RebootRequired);
    let told = told(object);
    let says = |key: &str| {
        node.annotations
            .get(key)
            .map(|words| text::name(words, NAME))
    };
    Member {
        group: says(names::GROUP),
        version: says(names::VERSION),
        ready: node.ready,
        required: shown.map(|one| one.status.name()),
        reason: shown.map(|one| one.reason.clone()),
        since: shown.and_then(|one| one.since).filter(known),
        told: told.filter(known),
        message: shown.map(|one| one.message.clone()),
        cordon: cordon(&node),
        paused: node.annotations.get(names::PAUSED).cloned(),
        last_reboot: last_reboot(&node),
        person: shown.and_then(|one| person(one, told, node.ready, now)),
        node: node.name,
    }
}

/// Not one that cannot be read ([`lean::time`]).
fn known(time: &Timestamp) -> bool {
    *time != Timestamp::MAX
}

/// Nothing is seen of this Node but that it holds a slot, or claims one.
pub(super) fn missing(name: &str) -> Member {
    Member {
        node: name.to_owned(),
        group: None,
        version: None,
        ready: false,
        required: None,
        reason: None,
        since: None,
        told: None,
        message: None,
        cordon: None,
        paused: None,
        last_reboot: None,
        person: Some("its slot is held, and there is no such Node".to_owned()),
    }
}

/// What the slots add: its daemon may be gone, or never have told what the slots show.
pub(super) fn judged(member: &mut Member, what: &What, now: Timestamp) {
    let why = match what {
        // Somebody has it drained, and may have it open.
        What::Holds(_) if member.reason.as_deref() == Some(Reason::Maintenance.name()) => return,
        What::Holds(slot) if !member.ready && silent(member.told, DOWN, now) => {
            let since = for_how_long(member.told, now);
            format!(
                "holds {slot}, is not Ready, and is silent{since}: the host may not have come back"
            )
        }
        What::Strays(slot) => format!("claims {slot}, which is no slot: nobody begins"),
        What::Holds(_)
        | What::Claims(_)
        | What::Elsewhere(_)
        | What::Labelled(_)
        | What::Waits
        | What::NotReady => return,
    };
    member.person.get_or_insert(why);
}

fn silent(told: Option<Timestamp>, long: SignedDuration, now: Timestamp) -> bool {
    told.is_none_or(|told| now.duration_since(told) > long)
}

fn for_how_long(told: Option<Timestamp>, now: Timestamp) -> String {
    told.map_or_else(String::new, |told| format!(" for {}", age(now, told)))
}

/// `lastHeartbeatTime` of the condition.
fn told(object: &Object) -> Option<Timestamp> {
    let all = object.status.as_ref()?.conditions.as_ref()?;
    let name = Kind::RebootRequired.name();
    let one = all.iter().find(|one| one.type_ == name)?;
    one.last_heartbeat_time.as_deref().map(lean::time)
}

fn cordon(node: &Node) -> Option<Cordon> {
    if foreign_cordon(node) {
        Some(Cordon::Others)
    } else {
        ours(node).then_some(Cordon::KubeRebootd)
    }
}

/// Newest first; what cannot be read is none.
fn last_reboot(node: &Node) -> Option<Reboot> {
    let all: Vec<Past> = serde_json::from_str(node.annotations.get(names::HISTORY)?).ok()?;
    let last = all.into_iter().next()?.cleaned();
    Some(Reboot {
        at: last.at,
        took_seconds: last.to_proof(),
        spent_seconds: (last.times.as_ref())
            .map(Times::by_reason)
            .unwrap_or_default(),
        reasons: last.reasons,
    })
}

/// Why somebody has to look at a node that shows this; none: it goes on by itself.
fn person(
    shown: &Condition,
    told: Option<Timestamp>,
    ready: bool,
    now: Timestamp,
) -> Option<String> {
    let idle = shown.status == Status::False;
    // A host that is off, and had nothing to do, is somebody else's affair.
    if silent(told, SILENT, now) && (ready || !idle) {
        let since = for_how_long(told, now);
        let host = if ready {
            "its daemon does not run, or the API server refuses what it writes"
        } else {
            "its Node is not Ready"
        };
        return Some(format!("silent{since}: {host}"));
    }
    let reason = Reason::of_name(&shown.reason)?;
    let lasts = reason != Reason::TriggerUnknown || silent(shown.since, UNANSWERED, now);
    (reason.needs_person() && lasts).then(|| shown.message.clone())
}

/// The Nodes for people.
pub(super) fn table(members: &[Member], now: Timestamp) -> String {
    let head = [
        "NODE",
        "GROUP",
        "VERSION",
        "REBOOT",
        "FOR",
        "REASON",
        "CORDON",
        "LAST REBOOT",
        "WHY",
    ];
    let mut lines = vec![head.map(str::to_owned)];
    let or = |word: Option<String>| word.unwrap_or_else(|| "-".to_owned());
    for one in members {
        let required = one.required.map(|status| match status {
            "True" => "required",
            "False" => "no",
            _ => "unknown",
        });
        let cordon = one.cordon.map(|cordon| match cordon {
            Cordon::KubeRebootd => "kube-rebootd",
            Cordon::Others => "others",
        });
        let why = match (&one.person, &one.message) {
            (Some(why), _) => format!("! {why}"),
            (None, Some(message)) => message.clone(),
            (None, None) => "no report from kube-rebootd".to_owned(),
        };
        // Only a node that wants to reboot says so itself.
        let says = one.reason.as_deref() == Some(Reason::Paused.name());
        let why = match &one.paused {
            Some(pause) if !says => format!("paused ({pause}); {why}"),
            _ => why,
        };
        let why = if one.ready || one.person.is_some() {
            why
        } else {
            format!("not Ready; {why}")
        };
        lines.push([
            one.node.clone(),
            or(one.group.clone()),
            or(one.version.clone()),
            or(required.map(str::to_owned)),
            or(one.since.map(|since| age(now, since))),
            or(one.reason.clone()),
            or(cordon.map(str::to_owned)),
            or((one.last_reboot.as_ref()).map(|last| age(now, last.at))),
            why,
        ]);
    }
    aligned(&lines)
}

/// In columns; the last one is as long as it is.
pub(super) fn aligned<const N: usize>(lines: &[[String; N]]) -> String {
    let mut text = String::new();
    let width = |column: usize| {
        let cells = lines.iter().map(|line| line[column].chars().count());
        cells.max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..N).map(width).collect();
    for line in lines {
        let (last, cells) = line
            .split_last()
            .map_or(("", &[][..]), |(last, cells)| (last.as_str(), cells));
        for (cell, width) in cells.iter().zip(&widths) {
            // Writing to a String does not fail.
            let _ = write!(text, "{cell:width$}  ");
        }
        let _ = writeln!(text, "{last}");
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const NOW: &str = "2026-11-24T12:00:00Z";

    fn at(time: &str) -> Timestamp {
        time.parse().expect("a time")
    }

    /// A Node that shows this reason, told at that time.
    fn shows(name: &str, ready: bool, condition: [&str; 4]) -> Member {
        let [status, reason, message, told] = condition;
        let ready = if ready { "True" } else { "Unknown" };
        let own = json!({"type": "RebootRequired", "status": status, "reason": reason, "message": message,
            "lastHeartbeatTime": told, "lastTransitionTime": "2026-11-24T09:00:00Z"});
        of(
            json!({"metadata": {"name": name, "annotations": {"kube-rebootd/group": "gpu", "kube-rebootd/version": "0.2.0"}},
                "status": {"conditions": [{"type": "Ready", "status": ready}, own]}}),
        )
    }

    fn of(node: Value) -> Member {
        let object: Object = serde_json::from_value(node).expect("a Node");
        member(&object, at(NOW))
    }

    #[test]
    fn who_needs_a_person_is_told_from_who_goes_on_by_itself() {
        let (fresh, old) = ("2026-11-24T11:30:00Z", "2026-11-24T10:00:00Z");
        let silent = "silent for 2h: ";
        let off = "its Node is not Ready";
        let gone = "its daemon does not run, or the API server refuses what it writes";
        let rows = [
            (true, "False", "Idle", fresh, None),
            (true, "True", "Draining", fresh, None),
            (true, "True", "Paused", fresh, None),
            (true, "True", "Unhealthy", fresh, Some("words".to_owned())),
            (true, "True", "NotCleared", fresh, Some("words".to_owned())),
            (true, "True", "Flapping", fresh, None),
            (true, "Unknown", "TriggerUnknown", fresh, None),
            // One of a newer version, or of somebody else.
            (true, "True", "Whatever", fresh, None),
            (false, "True", "Rebooting", fresh, None),
            (
                false,
                "True",
                "Rebooting",
                old,
                Some(format!("{silent}{off}")),
            ),
            (true, "False", "Idle", old, Some(format!("{silent}{gone}"))),
            (false, "False", "Idle", old, None),
            // Its clock is ahead of ours.
            (true, "False", "Idle", "2026-11-24T15:00:00Z", None),
        ];
        for (ready, status, reason, told, wanted) in rows {
            let member = shows("n1", ready, [status, reason, "words", told]);
            assert_eq!(member.person, wanted, "{ready} {status} {reason} {told}");
        }
    }

    #[test]
    fn a_trigger_without_an_answer_for_a_day_needs_a_person() {
        let mut shown = Condition {
            kind: Kind::RebootRequired,
            status: Status::Unknown,
            reason: "TriggerUnknown".to_owned(),
            message: "words".to_owned(),
            since: Some(at("2026-11-23T11:00:00Z")),
        };
        let told = Some(at("2026-11-24T11:30:00Z"));
        let said = |shown: &Condition| person(shown, told, true, at(NOW));
        assert_eq!(said(&shown), Some("words".to_owned()));
        shown.since = Some(at("2026-11-23T13:00:00Z"));
        assert_eq!(said(&shown), None);
    }

    /// Found by an operator's reading: a host that never came back was shown after 90 minutes at the earliest, and one whose
    /// daemon had never told anything not at all.
    #[test]
    fn a_holder_that_is_down_and_silent_needs_a_person() {
        let holds = What::Holds("default".to_owned());
        let judge_of = |reason: &str, ready: bool, told: &str, what: &What| {
            let mut member = shows("n1", ready, ["True", reason, "words", told]);
            judged(&mut member, what, at(NOW));
            member.person
        };
        let judge = |ready: bool, told: &str, what: &What| judge_of("Rebooting", ready, told, what);
        let (fresh, late) = ("2026-11-24T11:35:00Z", "2026-11-24T11:25:00Z");
        assert_eq!(judge(false, fresh, &holds), None);
        assert_eq!(judge(true, late, &holds), None);
        assert_eq!(judge(false, late, &What::Waits), None);
        let why = judge(false, late, &holds).expect("a word");
        assert_eq!(
            why,
            "holds default, is not Ready, and is silent for 35m: the host may not have come back"
        );
        // Whoever keeps it drained knows that it is off.
        assert_eq!(judge_of("Maintenance", false, late, &holds), None);
        let mut never = of(json!({"metadata": {"name": "n2"}}));
        judged(&mut never, &holds, at(NOW));
        assert!(never.person.is_some(), "it never told anything");
        let strays = What::Strays("x".to_owned());
        assert!(judge(true, fresh, &strays).is_some());
    }

    #[test]
    fn every_node_has_a_line_also_without_the_daemon() {
        let history =
            r#"[{"at":"2026-11-23T12:00:00Z","automatic":true,"reasons":["kernel\u001b"]}]"#;
        let cordoned = |manager: &str| {
            json!({"metadata": {"name": manager, "annotations": {"kube-rebootd/history": history}, "managedFields": [
                {"manager": manager, "operation": "Apply", "fieldsType": "FieldsV1",
                 "fieldsV1": {"f:spec": {"f:unschedulable": {}}}}]}, "spec": {"unschedulable": true}})
        };
        let members = [
            shows(
                "n1",
                true,
                ["True", "Unhealthy", "not healthy", "2026-11-24T11:59:00Z"],
            ),
            shows(
                "n2",
                true,
                [
                    "False",
                    "Idle",
                    "idle: no reboot needed",
                    "2026-11-24T11:59:00Z",
                ],
            ),
            of(cordoned("kube-rebootd")),
            of(cordoned("kubectl-cordon")),
        ];
        assert_eq!(members[2].cordon, Some(Cordon::KubeRebootd));
        let last = members[2].last_reboot.as_ref().expect("a reboot");
        assert_eq!(last.reasons, ["kernel"]);
        let never = "not Ready; no report from kube-rebootd";
        let lines = [
            "NODE            GROUP  VERSION  REBOOT    FOR  REASON     CORDON        LAST REBOOT  WHY".to_owned(),
            "n1              gpu    0.2.0    required  3h   Unhealthy  -             -            ! not healthy".to_owned(),
            "n2              gpu    0.2.0    no        3h   Idle       -             -            idle: no reboot needed".to_owned(),
            format!("kube-rebootd    -      -        -         -    -          kube-rebootd  24h          {never}"),
            format!("kubectl-cordon  -      -        -         -    -          others        24h          {never}"),
        ];
        let text = table(&members, at(NOW));
        assert_eq!(text.lines().collect::<Vec<_>>(), lines);
    }
}
