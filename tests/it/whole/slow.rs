//! An API server that answers, slowly: the node reboots or gives up, and says which (I2, I7).

use std::time::Duration;

use super::cluster::Pod;
use super::world::{HOUR, Plan, World};
use crate::memory::{Fate, Fault};

/// A drain, a reboot and a release with every answer after `seconds`; how many requests it took until it rebooted.
async fn with_answers_after(seconds: u64, quorum: usize) -> usize {
    let world = World::with(Plan {
        hosts: 3,
        slots: 1,
        quorum,
        config: "",
    })
    .await;
    Pod {
        ends: 3,
        ..Pod::new("web", "n0")
    }
    .make(&world.server);
    let slow = Fault {
        from: "n0".to_owned(),
        ..Fault::new(Fate::Slow(Duration::from_secs(seconds)))
    };
    world.server.set(|state| {
        state.faults.push(slow);
        state.trace.clear();
    });
    world.want(0);
    let over = |world: &World| world.boots(0) > 0 || world.said(0, "slow or silent");
    world.until("rebooted, or given up", HOUR, over).await;
    let asked = (world.server.state().trace.iter())
        .filter(|line| line.contains(" n0"))
        .count();
    // One that takes longer than 15 s has not answered: that is another test.
    world.require(
        world.boots(0) == 1,
        &format!("{seconds} s an answer: it gave up"),
    );
    world.server.set(|state| state.faults.clear());
    world.until_rebooted(&[0], 1, HOUR).await;
    asked
}

#[tokio::test(start_paused = true)]
async fn i2_i7_a_slow_api_server_is_waited_for_or_given_up_and_never_spun_upon() {
    for seconds in [1, 3, 6, 12] {
        for quorum in [0, 2] {
            let asked = with_answers_after(seconds, quorum).await;
            assert!(asked < 150, "{seconds} s an answer: {asked} requests");
        }
    }
}

/// Seconds at which each answer came to what n0 asked last before its fence, oldest first.
fn answered_before_the_fence(world: &World) -> Vec<(f64, String)> {
    let state = world.server.state();
    let lines = state.trace.iter().filter_map(|line| {
        let (time, rest) = line.trim_start().split_once(' ')?;
        let (who, what) = rest.split_once(": ")?;
        let own = who == "n0" || who == "n0 as coordinator";
        own.then(|| (time.parse().unwrap(), what.to_owned()))
    });
    let wrote = |(_, what): &(f64, String)| what.starts_with("patch ");
    let mut lines: Vec<_> = lines.collect();
    let fence = lines.iter().rposition(wrote).unwrap();
    lines.truncate(fence);
    lines
}

/// One after another, they would be as old as all answers together when logind is asked. Of a control-plane node, whose
/// heartbeats can be asked for only when the names are known.
#[tokio::test(start_paused = true)]
async fn i2_what_a_reboot_rests_on_is_read_at_once() {
    let slow = Duration::from_secs(3);
    let world = World::with(Plan {
        hosts: 3,
        slots: 1,
        quorum: 2,
        config: "",
    })
    .await;
    world.server.set(|state| {
        state.faults.push(Fault {
            from: "n0".to_owned(),
            ..Fault::new(Fate::Slow(slow))
        });
    });
    world.want(0);
    let down = |world: &World| world.hosts[0].logind().preparing;
    world.until("the host goes down", HOUR, down).await;
    let answered = answered_before_the_fence(&world);
    let last = |what: &str| {
        let found = answered
            .iter()
            .rev()
            .find(|(_, asked)| asked.starts_with(what));
        let Some((time, _)) = found else {
            world.fail(&format!("no {what} before the fence"));
        };
        *time
    };
    let times = [
        "get leases kube-rebootd/",
        "get nodes /n0",
        "list pods ",
        "list nodes ",
    ]
    .map(last);
    let (first, end) = times
        .iter()
        .fold((f64::MAX, 0.0_f64), |(first, end), time| {
            (first.min(*time), end.max(*time))
        });
    world.require(
        end - first < slow.as_secs_f64() / 2.0,
        &format!("one after another: {times:?}"),
    );
}

/// Somebody changes the Lease between the reads and the fence: all is read again.
#[tokio::test(start_paused = true)]
async fn i2_a_fence_that_is_refused_or_unanswered_is_never_assumed() {
    use crate::memory::{Answer, Verb};
    let conflict = Answer::status(409, "Conflict", "the object has been modified");
    for fate in [
        Fate::Says(conflict),
        Fate::Lost,
        Fate::AnswerSilent,
        Fate::Silent,
    ] {
        let world = World::new(2, 1).await;
        // The take is the first write of a Lease, the fence the second.
        let fault = Fault {
            from: "n0".to_owned(),
            namespace: "kube-rebootd",
            skip: 1,
            times: 2,
            ..Fault::of(fate, Verb::Patch, "leases")
        };
        world.server.set(|state| state.faults.push(fault));
        world.want(0);
        world.until_rebooted(&[0], 1, HOUR).await;
        let met = world
            .server
            .state()
            .faults
            .iter()
            .all(|fault| fault.times == 0);
        world.require(met, "the fence met its fate twice");
    }
}

/// For ever refused: undone in time, and told.
#[tokio::test(start_paused = true)]
async fn i2_a_fence_that_is_never_answered_ends_in_an_undoing() {
    use crate::memory::Verb;
    let world = World::new(2, 1).await;
    let fault = Fault {
        from: "n0".to_owned(),
        namespace: "kube-rebootd",
        skip: 1,
        ..Fault::of(Fate::Lost, Verb::Patch, "leases")
    };
    world.server.set(|state| state.faults.push(fault));
    world.want(0);
    world.until_phase(0, "Undoing", HOUR).await;
    world.require(world.said(0, "slow or silent"), "it says why");
    world.server.set(|state| state.faults.clear());
    world.require(world.hosts[0].logind().reboots == 0, "logind was not asked");
    // Nothing that takes time is left for after the fence: logind has been told what terminals are told.
    let wall = world.hosts[0].logind().wall.clone();
    world.require(!wall.is_empty(), "the announcement waits for the fence");
    world.until_rebooted(&[0], 1, HOUR).await;
}

/// A policy that does not know the annotation: undone at once, in the policy's words.
#[tokio::test(start_paused = true)]
async fn i2_i3_a_fence_that_a_policy_refuses_is_undone_at_once() {
    use crate::memory::{Answer, Verb};
    let world = World::new(2, 1).await;
    let no = Answer::status(422, "Invalid", "no such annotation may be written here");
    let fault = Fault {
        from: "n0".to_owned(),
        namespace: "kube-rebootd",
        skip: 1,
        times: 1,
        ..Fault::of(Fate::Says(no), Verb::Patch, "leases")
    };
    world.server.set(|state| state.faults.push(fault));
    world.want(0);
    world.until_phase(0, "Undoing", HOUR).await;
    let tried = world.server.state().faults[0].times;
    world.require(tried == 0, "the fence was refused");
    world.require(world.said(0, "no such annotation"), "it says why");
    world.require(world.hosts[0].logind().reboots == 0, "logind was not asked");
    world.until_rebooted(&[0], 1, HOUR).await;
}
