//! Queued: whose turn it is, whether too many nodes are down, and the write-ahead of the take (I1, I5,
//! I8, I13).

use std::time::Duration;

use jiff::{Timestamp, Unit};

use super::{At, Policy, Step, rehearse, stale, too_few};
use crate::facts::Effect;
use crate::node::Seen;
use crate::phase::Phase;
use crate::record::{Hold, Record};
use crate::slot::{Lease, Peers, Take, Verdict, Waiting, scatter};

/// How often a queue that another Node's label blocks looks again: such a Node does not wake us.
const BLOCKED_AGAIN: Duration = Duration::from_secs(5);
/// How often a queue that the budget closes counts the Nodes again (DESIGN.md 5), and how far the nodes
/// that do so are spread: the list has a row for each Node of the cluster.
const BUDGET_AGAIN: Duration = Duration::from_secs(60);
const BUDGET_SPREAD_MILLIS: u64 = 10_000;

/// Takes the free slot whose turn it is; else waits, visibly.
pub(super) fn decide(at: &At, record: Record) -> Step {
    let quorum = match &at.facts.node {
        Seen::Present(node) => node.quorum(),
        Seen::Unknown => {
            return with(
                record,
                at.step(Phase::Queued, Effect::ReadNode, "reading the own Node"),
            );
        }
        Seen::Absent => {
            return with(
                record,
                at.stay(Phase::Queued, "queued: this node is not registered"),
            );
        }
    };
    if let Err(why) = &at.facts.listed {
        return with(record, at.stay(Phase::Queued, format!("queued: {why}")));
    }
    let group: Vec<&Lease> = group(at).collect();
    if group.is_empty() {
        return with(record, no_lease(at));
    }
    let opens = interval(at, &group);
    let free = free(at, &group, opens);
    let Some((lease, turn)) = free.first() else {
        return behind(at, record, &group);
    };
    if *turn > at.now.boot {
        let words = match opens.saturating_sub(at.now.boot) {
            Duration::ZERO => format!(
                "queued: {} is free, its turn comes first to others",
                lease.name
            ),
            left => format!(
                "queued: {} is free, coordination.min_interval ends in {}s",
                lease.name,
                left.as_secs() + 1
            ),
        };
        return wait(at, record, *turn, &words);
    }
    if let Some((wake, why)) = too_few_for_long(at, quorum) {
        return wait(at, record, wake, &format!("queued: {why}"));
    }
    due(at, record, &free, quorum)
}

/// A slot is free and it is this node's turn: takes it after a fresh look at the others and the gates.
fn due(at: &At, record: Record, free: &[(&Lease, Duration)], quorum: bool) -> Step {
    let due = || free.iter().take_while(|(_, turn)| *turn <= at.now.boot);
    // Only a list from after the slot became free says yes, and no older one that said no.
    let freed = due().filter_map(|(lease, _)| lease.freed).max();
    let counts = |peers: &&Peers| {
        let closed = closed_to_all(at, peers, quorum).is_some();
        at.recent(peers.asked) && freed <= Some(peers.asked) && !closed
    };
    let Some(peers) = at.facts.peers.as_ref().filter(counts) else {
        return with(
            record,
            at.step(Phase::Queued, Effect::ListPeers, "queued: a slot is free"),
        );
    };
    if !at.fresh(at.facts.host_read) {
        let step = at.step(
            Phase::Queued,
            Effect::ReadHost,
            "queued: checking the gates",
        );
        return with(record, step);
    }
    // Whose turn comes later is not taken early because the one that is due cannot be had.
    let later = free.iter().find(|(_, turn)| *turn > at.now.boot);
    let verdicts =
        due().map(|(lease, _)| (*lease, peers.verdict(&lease.name, &at.policy.me, quorum)));
    match pick(verdicts) {
        Ok(lease) => match rehearse::before_a_take(at, &record, lease) {
            Some(step) => step,
            None => take(at, record, lease, quorum),
        },
        Err(why) => {
            // Asked again a pause after this list has come, however long it took.
            let wake = peers.came + BLOCKED_AGAIN;
            if at.now.boot >= wake {
                let status = format!("queued: {why}");
                return with(record, at.step(Phase::Queued, Effect::ListPeers, status));
            }
            let wake = later.map_or(wake, |(_, turn)| wake.min(*turn));
            let wake = wake.max(at.now.boot + Duration::from_secs(1));
            wait(at, record, wake, &format!("queued: {why}"))
        }
    }
}

/// The slots there are.
pub(super) fn group<'a>(at: &At<'a>) -> impl Iterator<Item = &'a Lease> {
    let group = &at.policy.group;
    let leases = at.facts.leases.values();
    leases.filter(move |lease| lease.group == *group)
}

fn with(record: Record, step: Step) -> Step {
    Step { record, ..step }
}

/// When the group's last hold is `min_interval` ago, on this node's own clock since it saw it end.
pub(super) fn interval(at: &At, group: &[&Lease]) -> Duration {
    let last = group.iter().filter_map(|lease| lease.last_seen).max();
    last.map_or(Duration::ZERO, |last| last + at.policy.min_interval)
}

/// The last count of the Nodes closes every slot, for all or for the quorum: why, and when to count again. An
/// old count may still say no, only a fresh one says yes.
fn too_few_for_long(at: &At, quorum: bool) -> Option<(Duration, String)> {
    let peers = at.facts.peers.as_ref()?;
    let why = closed_to_all(at, peers, quorum)?;
    let spread = Duration::from_millis(scatter(&[&at.policy.me, "budget"]) % BUDGET_SPREAD_MILLIS);
    let again = peers.came + BUDGET_AGAIN + spread;
    (at.now.boot < again).then_some((again, why))
}

/// Why no slot is for this node, whichever it is, while the Nodes are as `peers` shows them.
fn closed_to_all(at: &At, peers: &Peers, quorum: bool) -> Option<String> {
    let not_ready = || peers.not_ready().filter(|_| quorum);
    too_few(at, peers).or_else(|| not_ready().map(|who| another(&who)))
}

/// Every slot is taken or closed: waits, and looks now and then whether a holder is gone for good.
fn behind(at: &At, record: Record, group: &[&Lease]) -> Step {
    let looked = stale::look(at, &record, group);
    let again = at.now.boot + super::LOOK_AGAIN;
    let wake = match &looked {
        Ok(Some(next)) => again.min(*next),
        Ok(None) | Err(_) => again,
    };
    let step = wait(at, record, wake, &format!("queued: {}", busy(at, group)));
    match looked {
        Err(effect) if step.effect == Effect::Wait => Step {
            effect: *effect,
            ..step
        },
        _ => step,
    }
}

/// The slots that are free, by whose turn it is; between equals the choice is spread over the nodes.
pub(super) fn free<'a>(
    at: &At,
    group: &[&'a Lease],
    opens: Duration,
) -> Vec<(&'a Lease, Duration)> {
    let me = at.policy.me.as_str();
    let mut free: Vec<_> = group
        .iter()
        .filter(|lease| {
            lease.holder.is_none() && lease.paused.is_none() && lease.unusable().is_none()
        })
        .map(|lease| (*lease, lease.turn(me, opens)))
        .collect();
    free.sort_by_key(|(lease, turn)| ((*turn).max(at.now.boot), scatter(&[me, &lease.name])));
    free
}

/// The first slot that no other Node's label speaks against, or why there is none.
pub(super) fn pick<'a>(
    verdicts: impl Iterator<Item = (&'a Lease, Verdict)>,
) -> Result<&'a Lease, String> {
    let mut why = String::new();
    for (lease, verdict) in verdicts {
        match verdict {
            Verdict::Clear => return Ok(lease),
            Verdict::Collision(words) => why = words,
            Verdict::Quorum { who, .. } => why = another(&who),
        }
    }
    Err(why)
}

fn another(who: &str) -> String {
    format!("another control-plane node is down: {who}")
}

/// The take, in the record before it is sent: a start repeats exactly this one.
fn take(at: &At, mut record: Record, lease: &Lease, quorum: bool) -> Step {
    let take = Take::of(lease, &at.policy.namespace, micros(at.now.wall), quorum);
    record.hold = Some(Hold::begin(take.clone(), at.facts.boot.clone()));
    let status = format!("taking slot {}", lease.name);
    with(record, at.step(Phase::Claiming, Effect::Take(take), status))
}

/// The API server keeps microseconds; what it answers must equal what was sent.
fn micros(wall: Timestamp) -> Timestamp {
    wall.round(Unit::Microsecond).unwrap_or(wall)
}

/// Waits with the waiting record shown, so that a give-up can name this node.
fn wait(at: &At, mut record: Record, wake: Duration, status: &str) -> Step {
    let keep = record
        .waiting
        .take()
        .filter(|waiting| waiting.group == at.policy.group);
    let waiting = keep.unwrap_or_else(|| Waiting {
        group: at.policy.group.clone(),
        since: micros(at.now.wall),
    });
    let effect = match &at.facts.waiting {
        Some(Some(shown)) if *shown == waiting => Effect::Wait,
        _ => Effect::Mark(waiting.clone()),
    };
    record.waiting = Some(waiting);
    Step {
        effect,
        ..with(record, at.wait(Phase::Queued, wake, status))
    }
}

/// Who holds what this node waits for.
pub(super) fn busy(at: &At, group: &[&Lease]) -> String {
    let words: Vec<String> = group
        .iter()
        .map(
            |lease| match (&lease.holder, &lease.paused, lease.unusable()) {
                (_, _, Some(why)) => format!("{} is no slot: {why}", lease.name),
                (Some(holder), ..) => {
                    format!(
                        "{} is held by {holder}{}",
                        lease.name,
                        stale::words(at, lease)
                    )
                }
                (None, Some(why), _) => format!("{} is paused: {why}", lease.name),
                (None, None, None) => format!("{} is free", lease.name),
            },
        )
        .collect();
    words.join("; ")
}

/// A group without a slot: make the one that the manifests let nodes make, or say how.
fn no_lease(at: &At) -> Step {
    if at.policy.group == "default" && at.facts.create_refused.is_none() {
        return at.step(
            Phase::Queued,
            Effect::CreateLease,
            "making the Lease default, paused",
        );
    }
    at.stay(Phase::Queued, format!("queued: {}", cure(at)))
}

pub(super) fn cure(at: &At) -> String {
    let Policy {
        group, namespace, ..
    } = at.policy;
    format!(
        "no Lease in namespace {namespace} is labelled kube-rebootd/group={group}: \
         kube-rebootd manifests --group {group} | kubectl create -l kube-rebootd/group -f -"
    )
}
