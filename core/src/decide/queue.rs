//! Queued: whose turn it is, whether too few nodes are available, and the write-ahead of the take (I1, I5,
//! I8, I13).

use std::time::Duration;

use jiff::{Timestamp, Unit};

use super::context::{Context, LOOK_AGAIN, Step, too_few};
use super::mark::show;
use super::policy::Policy;
use super::{rehearse, stale};
use crate::effect::Effect;
use crate::names;
use crate::node::Seen;
use crate::peers::{Claims, Peers};
use crate::phase::Phase;
use crate::reason::Reason;
use crate::record::{Hold, Record};
use crate::scatter::{scatter, share};
use crate::slot::{Crowd, Lease, Take, Waiting};

/// A queue that another Node's label blocks looks again after so long, then after twice as long each time:
/// such a Node does not wake us.
const BLOCKED_AGAIN: Duration = Duration::from_secs(5);
/// How often a queue that the budget closes counts the Nodes again: the list has a row for each Node of the
/// cluster. No repeated look waits longer than this, unless many nodes wait.
const BUDGET_AGAIN: Duration = Duration::from_secs(60);
/// So long after it was ready a node has looked how many others wait, although no slot is open yet: a thousand
/// that came at once are not to ask at once, nor to ask when the slot opens.
const COUNT_WITHIN: Duration = Duration::from_secs(900);

/// Takes the free slot whose turn it is; else waits, visibly.
pub(super) fn decide(context: &Context, record: Record) -> Step {
    let quorum = match &context.facts.node {
        Seen::Present(node) => node.quorum(),
        Seen::Unknown => {
            return with(
                record,
                context.step(Phase::Queued, Effect::ReadNode, "reading the own Node"),
            );
        }
        Seen::Absent => {
            let step = context.stay(Phase::Queued, "queued: this node is not registered");
            let step = because(with(record, step), "this node is not registered");
            return reasoned(step, Reason::NotRegistered);
        }
    };
    if let Err(why) = &context.facts.listed {
        let step = context.stay(Phase::Queued, format!("queued: {why}"));
        return reasoned(because(with(record, step), why), Reason::SlotsUnknown);
    }
    let group: Vec<&Lease> = group(context).collect();
    if group.is_empty() {
        return with(record, no_lease(context));
    }
    let (record, place) = placed(context, record);
    if !group.iter().any(|lease| lease.open()) {
        return behind(context, record, &group);
    }
    let named = group
        .iter()
        .any(|lease| lease.open() && names(context, lease));
    let opens = interval(context, &group);
    if !named && context.facts.crowd.is_none() {
        return uncounted(context, record, &group, opens);
    }
    let free = free(context, &place, &group, opens);
    match free.first() {
        Some((lease, turn)) if *turn > context.now.boot => {
            let (words, why) = early(context, lease, opens, *turn);
            because(wait(context, record, *turn, &words), why)
        }
        _ => due(context, record, &free, quorum),
    }
}

/// It is not known how many others wait: looks, unless the slots that are free are still those of others.
fn uncounted(context: &Context, record: Record, group: &[&Lease], opens: Duration) -> Step {
    let ready = context.facts.ready.unwrap_or(context.now.boot);
    let turn = |lease: &Lease| lease.turn(context.me, opens, ready, Duration::ZERO);
    let free = group.iter().filter(|lease| lease.open());
    let first = free
        .map(|lease| (turn(lease), *lease))
        .min_by_key(|(turn, _)| *turn);
    match first {
        Some((turn, lease)) if turn > context.now.boot => {
            let (words, why) = early(context, lease, opens, turn);
            because(counted(context, wait(context, record, turn, &words)), why)
        }
        _ => count(context, record, "queued: a slot is free"),
    }
}

/// The slot is free, but not for this node yet: with the countdown, and without.
fn early(context: &Context, lease: &Lease, opens: Duration, turn: Duration) -> (String, String) {
    let name = &lease.name;
    if opens > context.now.boot {
        let left = context.left(opens);
        return (
            format!("queued: {name} is free, coordination.min_interval ends in {left}"),
            format!("coordination.min_interval is not over, {name} is free"),
        );
    }
    let left = context.left(turn);
    let unlisted = |crowd: &Crowd| crowd.many && crowd.others.is_empty();
    let others = match &context.facts.crowd {
        Some(crowd) if unlisted(crowd) => {
            "the others that wait cannot be listed (kube-rebootd doctor says why) and may come first"
        }
        _ => "others that wait may come first",
    };
    (
        format!("queued: {name} is free; {others}, this node looks in {left}"),
        format!("{name} is free, {others}"),
    )
}

/// What the last look at the other Nodes says about the slots that are due.
enum Said<'a> {
    Take(&'a Lease),
    /// Why not, in a word and in words, and the shortest pause before the next look.
    No(Reason, String, Duration),
    /// The count of the Nodes matters now, and is missing.
    Unknown,
}

/// A slot is free and it is this node's turn: takes it after a fresh look at the others and the gates.
fn due(context: &Context, record: Record, free: &[(&Lease, Duration)], quorum: bool) -> Step {
    let (phase, words) = (Phase::Queued, "queued: a slot is free");
    let peers = context.facts.peers.as_ref();
    // Only a list from after the slot became free says yes.
    let due = free
        .iter()
        .take_while(|(_, turn)| *turn <= context.now.boot);
    let freed = due.filter_map(|(lease, _)| lease.freed).max();
    let Some((peers, said)) = peers.map(|peers| (peers, said(context, peers, free, quorum))) else {
        return with(record, context.step(phase, Effect::ListPeers, words));
    };
    let lease = match said {
        Said::Take(lease) if context.recent(peers.asked) && freed <= Some(peers.asked) => lease,
        Said::Take(_) | Said::Unknown => {
            return with(record, context.step(phase, Effect::ListPeers, words));
        }
        Said::No(reason, why, least) => {
            let step = again(context, record, peers, free, &why, least);
            return reasoned(step, reason);
        }
    };
    if !context.fresh(context.facts.host_read) {
        let step = context.step(phase, Effect::ReadHost, "queued: checking the gates");
        return with(record, step);
    }
    match rehearse::before_a_take(context, &record, lease) {
        Some(step) => step,
        None => take(context, record, lease, quorum),
    }
}

fn said<'a>(
    context: &Context,
    peers: &Peers,
    free: &[(&'a Lease, Duration)],
    quorum: bool,
) -> Said<'a> {
    // Whose turn comes later is not taken early because the one that is due cannot be had.
    let claims: Vec<_> = (free.iter())
        .take_while(|(_, turn)| *turn <= context.now.boot)
        .map(|(lease, _)| (*lease, peers.claims(&lease.name, context.me, quorum)))
        .collect();
    if undecided(peers, &claims) {
        return Said::Unknown;
    }
    match pick(claims.into_iter()) {
        // What is not Ready is waited for as long as what the budget closes.
        Err(why) if quorum && peers.counted && peers.not_ready().is_some() => {
            Said::No(Reason::TooFewAvailable, why, BUDGET_AGAIN)
        }
        Err(why) => Said::No(Reason::Queued, why, BLOCKED_AGAIN),
        Ok(lease) => match too_few(context, peers) {
            Some(why) => Said::No(Reason::TooFewAvailable, why, BUDGET_AGAIN),
            None => Said::Take(lease),
        },
    }
}

/// The Nodes were not counted, as no label left a slot to take; now there is one.
pub(super) fn undecided(peers: &Peers, claims: &[(&Lease, Claims)]) -> bool {
    let claimed = |one: &Claims| matches!(one, Claims::Collision(_));
    !peers.counted && !claims.iter().all(|(_, one)| claimed(one))
}

/// The last look said no. The next one comes after a pause that doubles with each look, and that is longer the
/// more nodes wait; or at once if this node was named for a slot since.
fn again(
    context: &Context,
    record: Record,
    peers: &Peers,
    free: &[(&Lease, Duration)],
    why: &str,
    least: Duration,
) -> Step {
    let now = context.now.boot;
    let Some(crowd) = &context.facts.crowd else {
        return count(context, record, format!("queued: {why}"));
    };
    let since = |turn: &Duration| peers.asked.saturating_sub(*turn);
    let waited = free.first().map_or(Duration::ZERO, |(_, turn)| since(turn));
    let least = least.max(crowd.pause());
    let pause = waited.clamp(least, least.max(BUDGET_AGAIN));
    let asked = peers.asked.as_millis().to_string();
    // A pause counts from when the list was there, however long it took.
    let again = peers.came + pause + share(pause / 6, &[context.me, &asked]);
    let handed = |(lease, turn): &(&Lease, Duration)| {
        *turn <= now && *turn > peers.asked && names(context, lease)
    };
    if now >= again || free.iter().any(handed) {
        let step = context.step(Phase::Queued, Effect::ListPeers, "queued: a slot is free");
        return with(record, step);
    }
    let later = free.iter().find(|(_, turn)| *turn > now);
    let wake = later.map_or(again, |(_, turn)| again.min(*turn));
    let minutes = context.now.since(peers.came).as_secs() / 60;
    let age = match minutes {
        0 | 1 => String::new(),
        minutes => format!(" (seen {minutes} min ago)"),
    };
    because(
        wait(context, record, wake, &format!("queued: {why}{age}")),
        why,
    )
}

/// The hint of the last give-up names this node.
fn names(context: &Context, lease: &Lease) -> bool {
    lease.next.iter().any(|node| node == context.me)
}

/// Looks how many others wait, once, and only after they can see this node.
fn count(context: &Context, record: Record, status: impl Into<String>) -> Step {
    let step = context.step(Phase::Queued, Effect::CountWaiters, status);
    show(context, with(record, step), true)
}

/// The group is paused and nothing else is in the way: this node keeps its place and is named, so that nobody
/// has to do anything at the moment at which the pause ends.
pub(super) fn paused(context: &Context, record: Record, step: Step) -> Step {
    let (record, _) = placed(context, record);
    counted(context, show(context, with(record, step), true))
}

/// This step, or a look how many others wait when that is due.
fn counted(context: &Context, step: Step) -> Step {
    if context.facts.crowd.is_some() || step.effect != Effect::Wait {
        return step;
    }
    let begin = context.facts.ready.unwrap_or(context.now.boot);
    let look = begin + share(COUNT_WITHIN, &[context.me, "count"]);
    if context.now.boot >= look {
        let effect = Effect::CountWaiters;
        return Step { effect, ..step };
    }
    let wake = Some(step.wake.map_or(look, |wake| wake.min(look)));
    Step { wake, ..step }
}

/// The slots there are.
pub(super) fn group<'a>(context: &Context<'a>) -> impl Iterator<Item = &'a Lease> {
    let group = &context.policy.group;
    let leases = context.facts.leases.values();
    leases.filter(move |lease| lease.group == *group)
}

fn with(record: Record, step: Step) -> Step {
    Step { record, ..step }
}

/// The same step, with what it waits for.
fn because(step: Step, why: impl Into<String>) -> Step {
    let waits = Some(why.into());
    Step { waits, ..step }
}

/// The same step, for another reason.
fn reasoned(step: Step, reason: Reason) -> Step {
    Step { reason, ..step }
}

/// When the group's last hold is `min_interval` ago, on this node's own clock since it saw it end.
pub(super) fn interval(context: &Context, group: &[&Lease]) -> Duration {
    let last = group.iter().filter_map(|lease| lease.last_seen).max();
    last.map_or(Duration::ZERO, |last| last + context.policy.min_interval)
}

/// Every slot is taken or closed: waits, and looks now and then whether a holder is gone for good.
fn behind(context: &Context, record: Record, group: &[&Lease]) -> Step {
    let looked = stale::look(context, &record, group);
    let again = context.now.boot + LOOK_AGAIN;
    let wake = match &looked {
        Ok(Some(next)) => again.min(*next),
        Ok(None) | Err(_) => again,
    };
    let step = wait(
        context,
        record,
        wake,
        &format!("queued: {}", busy(context, group)),
    );
    match looked {
        Err(effect) if step.effect == Effect::Wait => Step {
            effect: *effect,
            ..step
        },
        _ => counted(context, step),
    }
}

/// The slots that are free, by whose turn it is; between equals the choice is spread over the nodes.
fn free<'a>(
    context: &Context,
    place: &Waiting,
    group: &[&'a Lease],
    opens: Duration,
) -> Vec<(&'a Lease, Duration)> {
    let me = context.me;
    let ready = context.facts.ready.unwrap_or(context.now.boot);
    let unknown = Crowd {
        many: true,
        ..Crowd::default()
    };
    let crowd = context.facts.crowd.as_ref().unwrap_or(&unknown);
    let scattered = crowd.scattered(me, place.since);
    let turn = |lease: &Lease| lease.turn(me, opens, ready, scattered);
    let open = group.iter().filter(|lease| lease.open());
    let mut free: Vec<_> = open.map(|lease| (*lease, turn(lease))).collect();
    free.sort_by_key(|(lease, turn)| ((*turn).max(context.now.boot), scatter(&[me, &lease.name])));
    free
}

/// The first slot that no other Node's label speaks against, or why there is none.
pub(super) fn pick<'a>(
    claims: impl Iterator<Item = (&'a Lease, Claims)>,
) -> Result<&'a Lease, String> {
    let mut why = String::new();
    for (lease, claims) in claims {
        match claims {
            Claims::Clear => return Ok(lease),
            Claims::Collision(words) => why = words,
            Claims::Quorum { who, .. } => why = another(&who),
        }
    }
    Err(why)
}

fn another(who: &str) -> String {
    format!("control-plane nodes go one at a time: {who}")
}

/// The take, in the record before it is sent: a start repeats exactly this one.
fn take(context: &Context, mut record: Record, lease: &Lease, quorum: bool) -> Step {
    let take = Take::of(
        lease,
        &context.policy.namespace,
        micros(context.now.wall),
        quorum,
    );
    record.hold = Some(Hold {
        before: context.before(None),
        ..Hold::begin(take.clone(), context.facts.boot.clone())
    });
    let status = format!("taking slot {}", lease.name);
    with(
        record,
        context.step(Phase::Claiming, Effect::Take(take), status),
    )
}

/// The API server keeps microseconds; what it answers must equal what was sent.
fn micros(wall: Timestamp) -> Timestamp {
    wall.round(Unit::Microsecond).unwrap_or(wall)
}

/// Waits, and shows that it does, so that a give-up can name this node.
fn wait(context: &Context, record: Record, wake: Duration, status: &str) -> Step {
    show(
        context,
        with(record, context.wait(Phase::Queued, wake, status)),
        true,
    )
}

/// The record with this node's place in the queue of its group: the one it has, or the last one.
fn placed(context: &Context, mut record: Record) -> (Record, Waiting) {
    let group = &context.policy.group;
    let keep = record.waiting.take().filter(|place| place.group == *group);
    let place = keep.unwrap_or_else(|| Waiting {
        group: group.clone(),
        since: micros(context.now.wall),
    });
    record.waiting = Some(place.clone());
    (record, place)
}

/// Who holds what this node waits for.
pub(super) fn busy(context: &Context, group: &[&Lease]) -> String {
    let words: Vec<String> = group
        .iter()
        .map(
            |lease| match (&lease.holder, &lease.paused, lease.unusable()) {
                (_, _, Some(why)) => format!("{} is no slot: {why}", lease.name),
                (Some(holder), ..) => {
                    format!(
                        "{} is held by {holder}{}",
                        lease.name,
                        stale::words(context, lease)
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
fn no_lease(context: &Context) -> Step {
    if context.policy.group == "default" && context.facts.create_refused.is_none() {
        return context.step(
            Phase::Queued,
            Effect::CreateLease,
            "making the Lease default, paused",
        );
    }
    let cure = match &context.facts.create_refused {
        None => cure(context),
        // With the cure that fits: it exists with another label, or the rights are missing.
        Some(why) => format!("{}; making it was refused: {why}", cure(context)),
    };
    let step = context.stay(Phase::Queued, format!("queued: {cure}"));
    reasoned(because(step, cure), Reason::NoSlot)
}

pub(super) fn cure(context: &Context) -> String {
    let Policy {
        group, namespace, ..
    } = context.policy;
    format!(
        "no Lease in namespace {namespace} is labelled kube-rebootd/group={group}: \
         kube-rebootd manifests --group {group}{} | kubectl create -l kube-rebootd/group -f -",
        names::option(namespace)
    )
}
