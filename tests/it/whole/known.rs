//! Defects that were found once by reading, each kept away by a test of its name (I1, I6, I8).

use std::fs;
use std::time::Duration;

use super::cluster::Pod;
use super::world::{HOUR, MINUTE, World};
use crate::memory::{Answer, Broken, Fate, Fault, Verb};

/// How often a fault that stays was met.
fn met(world: &World) -> u32 {
    let state = world.server.state();
    state
        .faults
        .iter()
        .map(|fault| u32::MAX - fault.times)
        .sum()
}

/// Once: the slot looks free, the take is refused, and is sent again at once, for ever.
#[tokio::test(start_paused = true)]
async fn a_take_that_a_policy_refuses_is_not_sent_at_full_speed() {
    for (code, reason) in [(422, "Invalid"), (403, "Forbidden"), (400, "BadRequest")] {
        let world = World::new(1, 1).await;
        let answer = Answer::status(code, reason, "ValidatingAdmissionPolicy 'x' denied request");
        let fault = Fault {
            namespace: "kube-rebootd",
            ..Fault::of(Fate::Says(answer), Verb::Patch, "leases")
        };
        world.server.set(|state| {
            state.refusals_wanted = true;
            state.faults.push(fault);
        });
        world.want(0);
        world.pass(10 * MINUTE).await;
        let takes = met(&world);
        let words = format!("{takes} takes in 10 minutes, refused with {code}");
        world.require((2..=120).contains(&takes), &words);
        world.server.set(|state| state.faults.clear());
        world.until_rebooted(&[0], 1, HOUR).await;
    }
}

const STATE: &str = "/var/lib/kube-rebootd";

/// A file stands where the directory belongs: root ignores modes.
fn unwritable(world: &World) {
    let directory = world.hosts[0].path(STATE);
    fs::rename(&directory, directory.with_extension("away")).unwrap();
    fs::write(&directory, "").unwrap();
}

fn writable(world: &World) {
    let directory = world.hosts[0].path(STATE);
    fs::remove_file(&directory).unwrap();
    fs::rename(directory.with_extension("away"), &directory).unwrap();
}

/// Requests of the host's daemon so far.
fn requests(world: &World) -> usize {
    let state = world.server.state();
    state
        .trace
        .iter()
        .filter(|line| line.contains(" n0"))
        .count()
}

/// Once: what could not be written was written again at once, and never looked at again when that ended.
#[tokio::test(start_paused = true)]
async fn a_state_that_cannot_be_written_is_tried_again_and_not_at_full_speed() {
    let world = World::new(1, 1).await;
    unwritable(&world);
    world.want(0);
    let before = requests(&world);
    world.pass(10 * MINUTE).await;
    world.require(world.holder("default").is_none(), "no slot is taken");
    let asked = requests(&world) - before;
    world.require(asked < 100, &format!("{asked} requests in 10 minutes"));
    // Nobody tells that it can be written again.
    writable(&world);
    world.until_rebooted(&[0], 1, HOUR).await;
}

#[tokio::test(start_paused = true)]
async fn a_state_that_cannot_be_written_any_more_gives_the_slot_back() {
    // A second one, where evicted pods can go.
    let world = World::new(2, 1).await;
    Pod {
        ends: 3600,
        ..Pod::new("web", "n0")
    }
    .make(&world.server);
    world.want(0);
    world.until_phase(0, "Draining", HOUR).await;
    unwritable(&world);
    // What is recorded next cannot be: the drain's clock, at the latest.
    world
        .until("the slot is free", 10 * MINUTE, |world| {
            world.holder("default").is_none() && !world.cordoned(0)
        })
        .await;
    world.require(world.boots(0) == 0, "no reboot");
    writable(&world);
    world.until_rebooted(&[0], 1, 5 * HOUR).await;
}

/// Once: a logind that fell silent after it had agreed was one that does not shut down, and the hold was
/// undone on a host that went down.
#[tokio::test(start_paused = true)]
async fn i8_a_logind_that_falls_silent_after_it_was_asked_may_be_shutting_down() {
    let world = World::new(1, 1).await;
    world.hosts[0].logind().prepare_on_reboot = false;
    world.want(0);
    let asked = |world: &World| world.hosts[0].logind().reboots > 0;
    world.until("logind was asked", HOUR, asked).await;
    world.hosts[0].logind().mute = true;
    world.pass(5 * HOUR).await;
    world.require(world.phase(0) == "Rebooting", "the hold was undone");
    world.require(world.cordoned(0), "the cordon was taken off");
    {
        let mut logind = world.hosts[0].logind();
        (logind.mute, logind.prepare_on_reboot) = (false, true);
    }
    world.until_rebooted(&[0], 1, HOUR).await;
}

/// Once: the list of waiters was refused (a role without that right, a busy server), and the slot was kept
/// for ever, as it is wanted for a hint. Now it is asked for twice at most.
#[tokio::test(start_paused = true)]
async fn i4_a_slot_is_given_up_whatever_the_list_of_waiters_answers() {
    let says = |code, reason| Fate::Says(Answer::status(code, reason, "no list for you"));
    let fates = [
        says(403, "Forbidden"),
        says(404, "NotFound"),
        says(400, "BadRequest"),
        says(503, "ServiceUnavailable"),
        Fate::Lost,
        Fate::Silent,
    ];
    for fate in fates {
        let world = World::new(2, 1).await;
        let fault = Fault {
            namespace: "kube-node-lease",
            ..Fault::of(fate.clone(), Verb::List, "leases")
        };
        world.server.set(|state| {
            state.refusals_wanted = true;
            state.faults.push(fault);
        });
        (0..2).for_each(|host| world.want(host));
        // Who may not count the others takes them for many, and looks at a free slot late.
        world.until_rebooted(&[0, 1], 1, 5 * HOUR).await;
        let tries = met(&world);
        let words = format!("{tries} lists of waiters for 2 slots given up, answered {fate:?}");
        world.require((2..=24).contains(&tries), &words);
    }
}

/// Once: rights that were pruned while the host was down left a healthy node cordoned for ever.
#[tokio::test(start_paused = true)]
async fn i3_rights_pruned_while_the_host_is_down_leave_no_cordon() {
    let world = World::new(2, 1).await;
    world.want(0);
    world.until_phase(0, "Rebooting", HOUR).await;
    let down = |world: &World| world.hosts[0].logind().preparing;
    world.until("the host goes down", HOUR, down).await;
    let answer = Answer::status(403, "Forbidden", "the coordinator may not");
    let fault = Fault {
        namespace: "kube-rebootd",
        ..Fault::new(Fate::Says(answer))
    };
    world.server.set(|state| {
        state.refusals_wanted = true;
        state.faults.push(fault);
    });
    let open = |world: &World| world.boots(0) == 1 && !world.cordoned(0);
    world.until("it is uncordoned", HOUR, open).await;
    world.pass(10 * MINUTE).await;
    world.require(!world.cordoned(0), "cordoned again");
    world.require(world.phase(0) == "Releasing", "the slot is not given up");
    world.server.set(|state| state.faults.clear());
    world.until_rebooted(&[0], 1, HOUR).await;
}

/// Once: an apply to the Node that is refused for good kept the slot for ever.
#[tokio::test(start_paused = true)]
async fn i3_a_policy_that_refuses_the_node_apply_keeps_no_slot() {
    // The dry run is the first; the label comes next, then the cordon.
    for skip in 0..3 {
        let world = World::new(2, 1).await;
        let answer = Answer::status(
            422,
            "Invalid",
            "ValidatingAdmissionPolicy 'x' denied request",
        );
        let fault = Fault {
            from: "n0".to_owned(),
            skip,
            ..Fault::of(Fate::Says(answer), Verb::Patch, "nodes")
        };
        world.server.set(|state| {
            state.refusals_wanted = true;
            state.faults.push(fault);
        });
        world.want(0);
        let tries = |world: &World| u32::MAX - world.server.state().faults[0].times;
        // Where inotify has no instance left the sentinel is only polled.
        world
            .until("it is refused", HOUR, |world| tries(world) > 0)
            .await;
        world.pass(4 * MINUTE).await;
        let tries = tries(&world);
        world.require(tries <= 60, &format!("{skip}: {tries} tries in 4 minutes"));
        world.require(!world.cordoned(0), "cordoned");
        world.require(world.boots(0) == 0, "rebooted");
        if skip == 0 {
            world.require(world.phase(0) == "Pending", "the gate is closed");
        }
        if skip < 2 {
            world.require(world.holder("default").is_none(), "the slot is kept");
        }
        world.server.set(|state| state.faults.clear());
        world.until_rebooted(&[0], 1, 3 * HOUR).await;
    }
}

/// Once: a refused take was journalled and written to disk every few seconds for ever.
#[tokio::test(start_paused = true)]
async fn a_take_that_is_refused_leaves_disk_and_journal_in_peace() {
    let world = World::new(1, 1).await;
    let answer = Answer::status(
        422,
        "Invalid",
        "ValidatingAdmissionPolicy 'x' denied request",
    );
    let fault = Fault {
        namespace: "kube-rebootd",
        ..Fault::of(Fate::Says(answer), Verb::Patch, "leases")
    };
    world.server.set(|state| state.faults.push(fault));
    world.want(0);
    world.pass(6 * HOUR).await;
    let takes = met(&world);
    world.require(
        (3..=8).contains(&takes),
        &format!("{takes} takes in 6 hours"),
    );
    let said = world.phases(0).len();
    world.require(said <= 6 * 8, &format!("{said} transitions in 6 hours"));
}

/// Found by review: the Lease was made anew under a hold, was read, and was lost again to the watch that was late, at
/// full speed until the watch caught up.
#[tokio::test(start_paused = true)]
async fn i5_i7_a_lease_made_anew_while_the_watch_is_late_is_read_once() {
    let world = World::new(2, 1).await;
    Pod {
        ends: 20,
        grace: 600,
        ..Pod::new("web", "n0")
    }
    .make(&world.server);
    let late = Broken {
        stalls: Some(Duration::ZERO),
        ..Broken::default()
    };
    let late = Fault {
        from: "n0".to_owned(),
        namespace: "kube-rebootd",
        ..Fault::of(Fate::Watch(late), Verb::Watch, "leases")
    };
    world.server.set(|state| state.faults.push(late));
    // Until the server has ended the watches from before.
    world.pass(HOUR).await;
    world.want(0);
    world.until_phase(0, "Draining", HOUR).await;
    world.pass(Duration::from_secs(1)).await;
    world.require(met(&world) > 0, "the watch is late");
    let before = requests(&world);
    let at = ("leases", "kube-rebootd", "default");
    world.server.set(|state| {
        let mut lease = (*state.object(at).unwrap()).clone();
        lease["spec"] = serde_json::json!({});
        state.remove(at);
        state.make(at, "kubectl", lease);
    });
    let gone = |world: &World| world.boots(0) == 0 && !world.cordoned(0);
    world.until("undone", HOUR, gone).await;
    let asked = requests(&world) - before;
    world.require(asked < 100, &format!("{asked} requests"));
    world.until_rebooted(&[0], 1, HOUR).await;
}
