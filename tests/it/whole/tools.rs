//! A tool that owns a Node's labels and annotations and puts back what this daemon takes off (I3, I4).

use std::time::Duration;

use super::world::{HOUR, World};
use crate::memory::{annotation, label};

/// So often the tool looks when nothing changes.
const TOOL: Duration = Duration::from_secs(10);

/// What the tool wants of Node n0: a label or an annotation.
#[derive(Clone, Copy)]
struct Wanted {
    field: &'static str,
    key: &'static str,
    value: &'static str,
}

const SLOT: Wanted = Wanted {
    field: "labels",
    key: "kube-rebootd/slot",
    value: "default",
};
const WISH: Wanted = Wanted {
    field: "annotations",
    key: "kube-rebootd/reboot",
    value: "a kernel",
};

impl Wanted {
    fn set(self, world: &World) {
        let Self { field, key, value } = self;
        world.server.set(|state| {
            state.edit(("nodes", "", "n0"), "tool", |node| {
                node["metadata"][field][key] = value.into();
            });
        });
    }
}

/// The tool sets what is not there, for so long; how often.
async fn tool(world: &World, wanted: &[Wanted], time: Duration) -> u32 {
    let (begin, mut times) = (tokio::time::Instant::now(), 0);
    let mut changed = world.server.changed();
    while begin.elapsed() < time {
        for wanted in wanted {
            let node = world.node(0);
            let there = match wanted.field {
                "labels" => label(&node, wanted.key),
                _ => annotation(&node, wanted.key),
            };
            if there == Some(wanted.value) {
                continue;
            }
            times += 1;
            wanted.set(world);
        }
        // Its own write is a change as well: it goes on when that is known.
        changed.borrow_and_update();
        let _ = tokio::time::timeout(TOOL, changed.changed()).await;
    }
    world.require(true, "");
    times
}

/// Found by reading: the label was taken off as often as it came back, without a pause.
#[tokio::test(start_paused = true)]
async fn i3_a_label_that_a_tool_puts_back_is_taken_off_now_and_then() {
    let world = World::new(1, 1).await;
    let times = tool(&world, &[SLOT], Duration::from_secs(300)).await;
    world.require(
        (3..=30).contains(&times),
        &format!("{times} times in 5 minutes"),
    );
    world.require(
        world.said(0, "kube-rebootd/slot is there again after it was taken off"),
        "it is said",
    );
    // Nobody sets it any more.
    world
        .until("the label is off", HOUR, |world| {
            label(&world.node(0), "kube-rebootd/slot").is_none()
        })
        .await;
}

/// Found by reading: as often as the annotation came back during the release it was removed again, and the slot was kept;
/// and after the release it was a new request.
#[tokio::test(start_paused = true)]
async fn i4_an_annotation_that_a_tool_puts_back_keeps_no_slot() {
    let world = World::new(2, 1).await;
    let times = tool(&world, &[WISH], HOUR).await;
    let boots = world.boots(0);
    world.require(boots == 1, &format!("rebooted once (I10): {boots}"));
    world.require(times == 2, &format!("it was taken off once: {times}"));
    let words = "node annotation is there again after the reboot";
    world.require(world.said(0, words), "it is said");
    // A reboot for something else does not make it ask again.
    world.want(0);
    tool(&world, &[WISH], HOUR).await;
    let boots = world.boots(0);
    world.require(boots == 2, &format!("rebooted for the sentinel: {boots}"));
    world.require(world.holder("default").is_none(), "the slot is free");
    world.want(1);
    world
        .until("the other rebooted", HOUR, |world| world.boots(1) == 1)
        .await;
}

/// Found by reading: after a reboot for the annotation the journal said that it was there again, before it was taken off.
#[tokio::test(start_paused = true)]
async fn an_annotation_that_is_served_is_not_told_as_uncleared() {
    let world = World::new(1, 1).await;
    WISH.set(&world);
    world.until_rebooted(&[0], 1, HOUR).await;
    world.require(!world.said(0, "there again"), "it is gone");
}

/// Found by reading: the record that a tool put back in mid-release was taken off again and again, with pauses in which
/// the Lease could not be given up.
#[tokio::test(start_paused = true)]
async fn i4_a_record_that_a_tool_puts_back_keeps_no_slot() {
    let world = World::new(1, 1).await;
    world.want(0);
    world.until_phase(0, "Verifying", HOUR).await;
    let state = annotation(&world.node(0), "kube-rebootd/state").map(str::to_owned);
    let state: &'static str = state.expect("a record").leak();
    let record = Wanted {
        field: "annotations",
        key: "kube-rebootd/state",
        value: state,
    };
    tool(&world, &[record], Duration::from_secs(300)).await;
    world.require(world.holder("default").is_none(), "the slot is free");
    world.require(world.boots(0) == 1, "and nothing comes back to life");
}

/// Found by reading: a label and an annotation that came back in turn were taken off in turn, without a pause.
#[tokio::test(start_paused = true)]
async fn i3_a_label_and_an_annotation_that_come_back_in_turn_make_no_flood() {
    let world = World::new(1, 1).await;
    WISH.set(&world);
    world.until_phase(0, "Verifying", HOUR).await;
    let times = tool(&world, &[SLOT, WISH], Duration::from_secs(300)).await;
    world.require(times <= 60, &format!("{times} times in 5 minutes"));
}
