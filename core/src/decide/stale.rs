//! Queued behind a hold that lasts: looking into it, and clearing what a node left that is gone for good
//! (I5). Asks for no more than one read now and then; `crate::stale` says when.

use std::time::Duration;

use super::context::Context;
use crate::effect::Effect;
use crate::facts::Waiters;
use crate::names;
use crate::node::Seen;
use crate::peers::Peer;
use crate::record::Record;
use crate::slot::{GiveUp, Lease, Waiter, hints};
use crate::stale::{Held, Look, first_look};

/// What the group's holds ask for now, or when to look again; none: there is nothing to look into.
pub(super) fn look(
    context: &Context,
    record: &Record,
    group: &[&Lease],
) -> Result<Option<Duration>, Box<Effect>> {
    let Some(stale_after) = context.policy.stale_after else {
        return Ok(None);
    };
    let mut next: Option<Duration> = None;
    for lease in group {
        let Some(held) = clearable(context, lease) else {
            continue;
        };
        let wake = look_into(context, record, lease, held, stale_after)?;
        next = Some(next.map_or(wake, |next| next.min(wake)));
    }
    Ok(next)
}

/// The hold of another node that a waiter may clear at all: never of a control-plane node, whose quorum
/// a person must judge; not what a newer protocol means; not a slot that somebody keeps closed.
fn clearable(context: &Context, lease: &Lease) -> Option<Held> {
    let held = Held::of(lease)?;
    let ours = held.holder == context.me;
    let open = lease.unusable().is_none() && lease.paused.is_none();
    (!ours && open && !lease.control_plane).then_some(held)
}

fn look_into(
    context: &Context,
    record: &Record,
    lease: &Lease,
    held: Held,
    stale_after: Duration,
) -> Result<Duration, Box<Effect>> {
    let (me, now) = (context.me, context.now.boot);
    let Some(since) = lease.held else {
        return Ok(now + stale_after);
    };
    let first = first_look(me, &lease.name, since, stale_after);
    if now < first {
        return Ok(first);
    }
    let Some(look) = known(context, &held) else {
        return Err(Box::new(Effect::ReadHolder(held)));
    };
    let again = look.again(me, stale_after);
    if now >= again {
        return Err(Box::new(Effect::ReadHolder(held)));
    }
    if look.ripe(stale_after) && context.recent(look.asked) {
        clear(context, record, lease, look)?;
    }
    Ok(again)
}

/// The Node is gone; nobody carries the label either, by a list that was asked for after that.
fn clear(
    context: &Context,
    record: &Record,
    lease: &Lease,
    look: &Look,
) -> Result<(), Box<Effect>> {
    let peers = context.facts.peers.as_ref();
    let Some(peers) = peers.filter(|peers| peers.asked >= look.asked) else {
        return Err(Box::new(Effect::ListPeers));
    };
    // The label of a holder that a person declared off is as dead as its host.
    let claims = |peer: &&Peer| {
        let dead = look.out_of_service && peer.node == look.held.holder && peer.gone();
        peer.slot == lease.name && !dead
    };
    let claimed = peers.labelled.iter().any(|peer| claims(&peer));
    if claimed || labelled(&context.facts.node, &lease.name) {
        return Ok(());
    }
    let waiters = context.facts.waiters.as_ref();
    let usable =
        |list: &&Waiters| list.hopeless() || (list.failed == 0 && context.recent(list.asked));
    let Some(waiters) = waiters.filter(usable) else {
        return Err(Box::new(Effect::ListWaiters));
    };
    // This node waits too, and does not name itself first because it was the one who looked.
    let own = record.waiting.as_ref().map(|waiting| Waiter {
        node: context.me.to_owned(),
        since: waiting.since,
        ready: true,
    });
    let all: Vec<Waiter> = waiters.list.iter().cloned().chain(own).collect();
    let holder = look.held.holder.clone();
    Err(Box::new(Effect::Clear {
        give_up: GiveUp {
            lease: lease.name.clone(),
            resource_version: lease.resource_version.clone(),
            next: hints(&all, &holder),
            last_hold: format!(
                "{holder} until {}: cleared by {}, its Node is {}",
                context.now.wall,
                context.me,
                gone(look)
            ),
        },
        holder,
    }))
}

fn gone(look: &Look) -> &'static str {
    if look.out_of_service {
        "out of service"
    } else {
        "gone"
    }
}

/// The own Node carries the label of this slot, or is not known.
fn labelled(node: &Seen, lease: &str) -> bool {
    match node {
        Seen::Unknown => true,
        Seen::Absent => false,
        Seen::Present(node) => node
            .labels
            .get(names::SLOT)
            .is_some_and(|slot| slot == lease),
    }
}

/// The last look at this very hold.
fn known<'a>(context: &Context<'a>, held: &Held) -> Option<&'a Look> {
    let look = context.facts.looks.get(&held.lease);
    look.filter(|look| look.held == *held)
}

/// A hold that lasts so long is told with its age.
const LONG: Duration = Duration::from_secs(3600);

/// How long the holder's Node has been gone, or the hold has lasted, for people; empty when there is nothing to tell.
pub(super) fn words(context: &Context, lease: &Lease) -> String {
    let look = Held::of(lease).and_then(|held| known(context, &held));
    let minutes = |time: Duration| time.as_secs() / 60;
    let absent = look.and_then(|look| Some((look, look.absent?)));
    if let (Some((look, since)), Some(stale_after)) = (absent, context.policy.stale_after) {
        return format!(
            ", whose Node is {} for {} min (cleared after {} min if no Node claims the slot and it is not paused)",
            gone(look),
            minutes(context.now.since(since)),
            minutes(stale_after)
        );
    }
    let held = lease.held.map(|held| context.now.since(held));
    let long = held.filter(|held| *held >= LONG);
    long.map_or_else(String::new, |held| {
        format!(
            " for {} h or longer (kube-rebootd nodes tells how far it is)",
            held.as_secs() / 3600
        )
    })
}
