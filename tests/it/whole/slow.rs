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
    world.check(
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
        world.check(met, "the fence met its fate twice");
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
    world.check(world.said(0, "slow or silent"), "it says why");
    world.server.set(|state| state.faults.clear());
    world.check(world.hosts[0].logind().reboots == 0, "logind was not asked");
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
    world.check(tried == 0, "the fence was refused");
    world.check(world.said(0, "no such annotation"), "it says why");
    world.check(world.hosts[0].logind().reboots == 0, "logind was not asked");
    world.until_rebooted(&[0], 1, HOUR).await;
}
