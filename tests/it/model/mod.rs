//! Every state that a few hosts can get the lock into (I1, I13): not by chance as in `simulator`, but
//! all of them.
//!
//! The hosts' decisions are the code's own `decide`; what they do meets a model of the API server. In
//! between, at any point: answers that are lost, writes that land late, crashes, power loss, lost disks,
//! watches that lag behind, gates that close, an admin who clears a Lease or unlocks a node, and a hostile
//! node that may do with the Leases whatever the policy allows but can label only itself.
//!
//! What is abstract, and why no story is lost by it:
//! - Time is what is older than a minute, or than 75 s, and what was asked before what; passing it is a move of
//!   its own. A write on its way lands within 75 s or never (`claim::LATE`).
//! - A resourceVersion is the object's or not. Turns, hints and back-off are left out: any host may try at
//!   any time.
//! - Pods are gone at once, a host is healthy at once: both only delay.
//! - What a stage does not look at is forgotten (`Host::forget`): a new look at it there must be told here.
//!
//! "Down" is from the cordon until the host was proved healthy and has given its slot up, and as long as its label
//! stands: also when somebody empties its Lease meanwhile. Only an admin's unlock, which takes the label off, ends it
//! by force.

#![allow(
    clippy::struct_excessive_bools, // knobs of a model
    clippy::similar_names,
    clippy::trivially_copy_pass_by_ref,
    clippy::large_types_passed_by_value
)]

mod deeds;
mod form;
mod local;
mod moves;
mod search;
mod state;
mod wide;

use moves::Model;
use search::Explored;

/// One slot, two hosts, no accidents.
const CALM: Model = Model {
    hosts: 2,
    slots: 1,
    accidents: None,
    quorum: false,
    late: false,
    refusals: false,
    crashes: false,
    power_loss: false,
    moods: false,
    sick: false,
    clears: false,
    unlocks: false,
    hostile: false,
    labels: false,
    lost_disks: false,
    blind: false,
};

/// All that can go wrong, at most so many times in one story.
const ALL: Model = Model {
    late: true,
    refusals: true,
    crashes: true,
    power_loss: true,
    moods: true,
    sick: true,
    unlocks: true,
    hostile: true,
    labels: true,
    lost_disks: true,
    ..CALM
};

/// So many states are searched at most; a model that outgrows it must be cut, not left half searched.
const MOST: usize = 3_000_000;

/// The whole of the model, with at least so many states: one that lost its accidents proves nothing.
fn proved(model: Model, least: usize) {
    let explored = model.explore(MOST);
    let Explored {
        states,
        depth,
        decisions,
        ..
    } = explored;
    println!("{states} states, the deepest after {depth} moves, {decisions} decisions: {model:?}");
    if let Some(story) = explored.broken {
        panic!("{story}");
    }
    assert!(explored.reboots, "nobody ever reboots");
    assert!(states >= least, "only {states} states");
}

#[test]
fn i1_three_hosts_with_late_writes_and_crashes() {
    let model = Model {
        hosts: 3,
        late: true,
        crashes: true,
        ..CALM
    };
    proved(model, 300_000);
}

#[test]
fn i1_two_hosts_and_one_that_is_hostile() {
    let model = Model {
        hostile: true,
        ..CALM
    };
    proved(model, 500_000);
}

#[test]
fn i1_two_hosts_with_one_accident_of_any_kind() {
    let model = Model {
        accidents: Some(1),
        ..ALL
    };
    proved(model, 140_000);
}

/// Found by this model: a holder whose label an unlock had taken set label and cordon again while its watch
/// still showed the Lease as its own, or after it had lost power.
#[test]
fn i1_an_unlocked_holder_does_not_come_back() {
    let model = Model {
        accidents: Some(2),
        unlocks: true,
        power_loss: true,
        ..CALM
    };
    proved(model, 500_000);
}

#[test]
fn i1_i13_control_plane_nodes_on_two_slots() {
    let model = Model {
        slots: 2,
        quorum: true,
        ..CALM
    };
    proved(model, 20_000);
    let accident = Model {
        accidents: Some(1),
        late: true,
        crashes: true,
        clears: true,
        ..model
    };
    proved(accident, 450_000);
}

/// Found by people: a node that was unlocked while it was not healthy set its label again, and kept everybody
/// from the slot until it was.
#[test]
fn i1_a_node_that_was_unlocked_while_sick_does_not_claim_the_slot_again() {
    let model = Model {
        accidents: Some(2),
        unlocks: true,
        sick: true,
        ..CALM
    };
    proved(model, 480_000);
}

/// Found by reading, as the model once ended "down" with the label, whoever took it off: a Lease that was emptied or made
/// anew, by whoever may write Leases, let a node that was not healthy take its own label off.
#[test]
fn i1_a_sick_node_whose_lease_is_freed_by_another_keeps_its_label() {
    let model = Model {
        accidents: Some(3),
        clears: true,
        sick: true,
        ..CALM
    };
    proved(model, 60_000);
}

/// The model finds what it is there for: daemons that believe a list of labels from before their own.
#[test]
fn i1_a_list_from_before_the_label_would_break_the_lock() {
    let model = Model {
        clears: true,
        blind: true,
        ..CALM
    };
    let story = model.explore(MOST).broken.expect("it must be found");
    assert!(story.starts_with("I1: "), "{story}");
}
