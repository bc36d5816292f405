//! Every Node of the cluster with what its daemon last told there, and whether somebody has to look at it.
//!
//! It rests on what anybody may read: the condition `RebootRequired`, the cordon and the annotation with the last reboots.
//! Whoever may patch `nodes/status` can write the condition as well, so it is for people.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use kube::api::ListParams;
use kube::{Api, Client};
use kube_rebootd_core::condition::{Condition, Kind, Status};
use kube_rebootd_core::config::is_label_value;
use kube_rebootd_core::history::Past;
use kube_rebootd_core::names;
use kube_rebootd_core::node::Node;
use kube_rebootd_core::node_fields::{foreign_cordon, ours};
use kube_rebootd_core::reason::Reason;
use kube_rebootd_core::text::{self, NAME};
use kube_rebootd_core::times::Times;
use serde::Serialize;

use super::held::{Claim, stage};
use super::{What, age};
use crate::cluster::answer::{ApiError, CALL, call};
use crate::cluster::lean::{self, Node as Object};
use crate::cluster::node;

/// Nodes that one answer holds: some ten megabytes where each is as large as they get.
pub(super) const PAGE: u32 = 500;
/// A daemon writes its condition again within 66 minutes; clocks differ, and a write may be refused once.
const SILENT: SignedDuration = SignedDuration::from_mins(90);
/// A host that holds a slot and is not Ready reboots; few take longer.
const DOWN: SignedDuration = SignedDuration::from_mins(30);
/// A check has no answer while a package manager works, or a backup inhibits the shutdown.
const UNANSWERED: SignedDuration = SignedDuration::from_hours(24);
/// Characters of a version: a longer one no daemon has, and it would push the rest off the screen.
const VERSION: usize = 30;

/// One Node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Member {
    pub node: String,
    /// Whose slots its daemon takes; none: it never told, or what stands there can be no group.
    pub group: Option<String>,
    /// Of its daemon, if it is one of at most [`VERSION`] characters.
    pub version: Option<String>,
    pub ready: bool,
    /// Whether a reboot is required: `True`, `False`, `Unknown`; none: no daemon ever told.
    pub required: Option<&'static str>,
    /// Why the node is where it is, in one word.
    pub reason: Option<String>,
    /// Since when `required` is what it is, by the node's clock.
    pub since: Option<Timestamp>,
    /// When its daemon told last, by its own clock, which may be ahead; none: never, or it cannot be read.
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
    /// Those that asked for it, as far as the history keeps them.
    pub packages: Vec<String>,
    /// From the first reason to the proof that the host is healthy, by the node's clock; none: not known.
    pub took_seconds: Option<u64>,
    /// What of that is known: seconds by the reason of the condition.
    pub spent_seconds: BTreeMap<String, u64>,
    /// The update that it was for did not take, in words.
    pub rolled_back: Option<String>,
}

/// All Nodes, a page at a time.
pub(super) async fn list(client: &Client) -> Result<Vec<Shown>, ApiError> {
    let nodes: Api<Object> = Api::all(client.clone());
    let mut all = Vec::new();
    let mut params = ListParams::default().limit(PAGE);
    loop {
        let page = call("list Nodes", CALL, nodes.list(&params)).await?;
        all.extend(page.items.iter().map(Shown::read));
        match page.metadata.continue_ {
            Some(next) if !next.is_empty() => params = params.continue_token(&next),
            _ => return Ok(all),
        }
    }
}

/// What is looked at of one Node, whatever the time. It is small, where a Node is not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::cli) struct Shown {
    /// Without [`Member::person`], which depends on the time.
    member: Member,
    /// `RebootRequired`.
    condition: Option<Condition>,
    /// The slot that it is labelled with, and how far its hold is.
    claim: Option<Claim>,
}

impl Shown {
    pub(in crate::cli) fn read(object: &Object) -> Self {
        let node = node::read(object, None);
        let mut conditions = node.conditions.iter();
        let condition = conditions.find(|one| one.kind == Kind::RebootRequired);
        let says = |key: &str| {
            let words = node.annotations.get(key);
            words.map(|words| text::name(words, NAME))
        };
        let slot = node.labels.get(names::SLOT);
        let claim = slot.map(|slot| {
            let record = node.annotations.get(names::STATE);
            (text::name(slot, NAME), record.map(|text| stage(text)))
        });
        let member = Member {
            group: says(names::GROUP).filter(|group| is_label_value(group)),
            version: says(names::VERSION).filter(|version| version.chars().count() <= VERSION),
            ready: node.ready,
            required: condition.map(|one| one.status.name()),
            reason: condition.map(|one| one.reason.clone()),
            since: condition.and_then(|one| one.since).filter(known),
            told: told(object).filter(known),
            message: condition.map(|one| one.message.clone()),
            cordon: cordon(&node),
            paused: node.annotations.get(names::PAUSED).cloned(),
            last_reboot: last_reboot(&node),
            ..unseen(&node.name)
        };
        Self {
            condition: condition.cloned(),
            member,
            claim,
        }
    }

    /// With whether a person has to look at it at `now`.
    pub(in crate::cli) fn at(&self, now: Timestamp) -> Member {
        let Member { ready, told, .. } = self.member;
        let person = self.condition.as_ref();
        Member {
            person: person.and_then(|one| person_for(one, told, ready, now)),
            ..self.member.clone()
        }
    }

    /// What it claims, and who it is.
    pub(super) fn claim(&self) -> Option<(String, Claim)> {
        Some((self.member.node.clone(), self.claim.clone()?))
    }
}

/// What one Node shows at `now`.
pub(in crate::cli) fn member(object: &Object, now: Timestamp) -> Member {
    Shown::read(object).at(now)
}

/// Not one that cannot be read ([`lean::time`]).
fn known(time: &Timestamp) -> bool {
    *time != Timestamp::MAX
}

/// A Node of which nothing is seen.
pub(in crate::cli) fn unseen(name: &str) -> Member {
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
        person: None,
    }
}

/// Nothing is there of this Node but that it holds a slot.
pub(super) fn missing(name: &str) -> Member {
    Member {
        person: Some("its slot is held, and there is no such Node".to_owned()),
        ..unseen(name)
    }
}

/// What the slots add: its daemon may be gone, or never have told what the slots show.
pub(super) fn judged(member: &mut Member, what: &What, now: Timestamp) {
    let why = match what {
        // Somebody has it drained, and may have it open.
        What::Holds(_) if member.reason.as_deref() == Some(Reason::Maintenance.name()) => return,
        What::Holds(slot) if !member.ready && older(member.told, DOWN, now) => {
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

/// Its daemon has told nothing for longer than it ever waits, or nobody can know: by its clock that is still to come.
pub(in crate::cli) fn silent(told: Option<Timestamp>, now: Timestamp) -> bool {
    older(told, SILENT, now)
}

/// One that is [`lean::ahead`] is as good as none: else whoever writes the year 2100 is never asked about again (I8).
fn older(told: Option<Timestamp>, long: SignedDuration, now: Timestamp) -> bool {
    let known = told.filter(|told| !lean::ahead(*told, now));
    known.is_none_or(|told| now.duration_since(told) > long)
}

/// Of one that is silent.
fn for_how_long(told: Option<Timestamp>, now: Timestamp) -> String {
    match told {
        None => String::new(),
        Some(told) if lean::ahead(told, now) => {
            format!(" (its clock is ahead by {})", age(told, now))
        }
        Some(told) => format!(" for {}", age(now, told)),
    }
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

/// The last reboots by the annotation, newest first; what cannot be read is none.
pub(in crate::cli) fn history(node: &Node) -> Vec<Past> {
    let text = node.annotations.get(names::HISTORY);
    let all: Option<Vec<Past>> = text.and_then(|text| serde_json::from_str(text).ok());
    all.unwrap_or_default()
        .into_iter()
        .map(Past::cleaned)
        .collect()
}

fn last_reboot(node: &Node) -> Option<Reboot> {
    let last = history(node).into_iter().next()?;
    Some(Reboot {
        at: last.at,
        took_seconds: last.to_proof(),
        spent_seconds: (last.times.as_ref())
            .map(Times::by_reason)
            .unwrap_or_default(),
        reasons: last.reasons,
        packages: last.packages,
        rolled_back: last.rolled_back,
    })
}

/// Why somebody has to look at a node that shows this; none: it goes on by itself.
fn person_for(
    shown: &Condition,
    told: Option<Timestamp>,
    ready: bool,
    now: Timestamp,
) -> Option<String> {
    let idle = shown.status == Status::False;
    // A host that is off, and had nothing to do, is somebody else's affair.
    if silent(told, now) && (ready || !idle) {
        let since = for_how_long(told, now);
        let ahead = told.is_some_and(|told| lean::ahead(told, now));
        let host = match ready {
            true if ahead => "whether its daemon still tells anything is not known",
            true => "its daemon does not run, or the API server refuses what it writes",
            false => "its Node is not Ready",
        };
        return Some(format!("silent{since}: {host}"));
    }
    let reason = Reason::of_name(&shown.reason)?;
    let lasts = reason != Reason::TriggerUnknown || older(shown.since, UNANSWERED, now);
    (reason.needs_person() && lasts).then(|| shown.message.clone())
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::{Value, json};

    use super::*;

    pub(in super::super) const NOW: &str = "2026-11-24T12:00:00Z";

    pub(in super::super) fn at(time: &str) -> Timestamp {
        time.parse().expect("a time")
    }

    /// A Node that shows this reason, told at that time.
    pub(in super::super) fn shows(name: &str, ready: bool, condition: [&str; 4]) -> Member {
        let [status, reason, message, told] = condition;
        let ready = if ready { "True" } else { "Unknown" };
        let own = json!({"type": "RebootRequired", "status": status, "reason": reason, "message": message,
            "lastHeartbeatTime": told, "lastTransitionTime": "2026-11-24T09:00:00Z"});
        of(
            json!({"metadata": {"name": name, "annotations": {"kube-rebootd/group": "gpu", "kube-rebootd/version": "0.2.0"}},
                "status": {"conditions": [{"type": "Ready", "status": ready}, own]}}),
        )
    }

    pub(in super::super) fn of(node: Value) -> Member {
        let object: Object = serde_json::from_value(node).expect("a Node");
        member(&object, at(NOW))
    }

    #[test]
    fn who_needs_a_person_is_told_from_who_goes_on_by_itself() {
        let (fresh, old) = ("2026-11-24T11:30:00Z", "2026-11-24T10:00:00Z");
        let silent = "silent for 2h: ";
        let ahead = "silent (its clock is ahead by 3h): ";
        let unknown = "whether its daemon still tells anything is not known";
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
            // Its clock is ahead of ours, by as much as clocks differ, and by more: it could be silent for ever.
            (true, "False", "Idle", "2026-11-24T12:09:00Z", None),
            (
                true,
                "False",
                "Idle",
                "2026-11-24T15:00:00Z",
                Some(format!("{ahead}{unknown}")),
            ),
            (
                false,
                "True",
                "Rebooting",
                "2026-11-24T15:00:00Z",
                Some(format!("{ahead}{off}")),
            ),
            (false, "False", "Idle", "2026-11-24T15:00:00Z", None),
            // It cannot be read.
            (
                true,
                "False",
                "Idle",
                "soon",
                Some(format!("silent: {gone}")),
            ),
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
        let said = |shown: &Condition| person_for(shown, told, true, at(NOW));
        assert_eq!(said(&shown), Some("words".to_owned()));
        shown.since = Some(at("2026-11-23T13:00:00Z"));
        assert_eq!(said(&shown), None);
        shown.since = Some(at("2026-11-25T13:00:00Z"));
        assert_eq!(said(&shown), Some("words".to_owned()), "not known");
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
        let why = judge(false, "2026-11-24T15:00:00Z", &holds).expect("a word");
        assert!(why.contains("its clock is ahead by 3h"), "{why}");
        // Whoever keeps it drained knows that it is off.
        assert_eq!(judge_of("Maintenance", false, late, &holds), None);
        let mut never = of(json!({"metadata": {"name": "n2"}}));
        judged(&mut never, &holds, at(NOW));
        assert!(never.person.is_some(), "it never told anything");
        let strays = What::Strays("x".to_owned());
        assert!(judge(true, fresh, &strays).is_some());
    }
}
