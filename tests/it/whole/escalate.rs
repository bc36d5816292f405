//! `[[drain.escalate]]`, by whole daemons: who is hit, when, and how that is told (I9).

use std::time::Duration;

use super::cluster::{Pod, make_budget};
use super::host::Order;
use super::world::{HOUR, MINUTE, World};
use crate::memory::{Fate, Fault, Verb};

const DELETE: &str = "[[drain.escalate]]\nname = \"preview\"\npods = [\"app=web\"]\nafter = \"3m\"\naction = \"delete\"\n";
const GRACE: &str =
    "[[drain.escalate]]\nname = \"slow\"\npods = [\"app=db\"]\nafter = \"3m\"\ngrace = \"20s\"\n";

fn lines(world: &World, what: &str) -> usize {
    let state = world.server.state();
    let lines = state.trace.iter();
    lines.filter(|line| line.contains(what)).count()
}

/// A host with a pod whose budget never lets it go.
async fn held(config: &'static str) -> World {
    let world = World::pair(config).await;
    Pod {
        ends: 5,
        ..Pod::new("web", "n0")
    }
    .make(&world.server);
    make_budget(&world.server, "web-budget", "web", 1);
    world
}

#[tokio::test(start_paused = true)]
async fn i9_a_selected_pod_is_deleted_past_its_budget_after_its_time_and_loudly() {
    let world = held(DELETE).await;
    world.server.set(|state| state.pods_deleted = true);
    world.want(0);
    world.until_phase(0, "Draining", MINUTE).await;
    world.pass(Duration::from_secs(160)).await;
    world.require(lines(&world, "delete pods") == 0, "not before its time");
    world.until_rebooted(&[0], 1, 2 * MINUTE).await;
    world.require(lines(&world, "delete pods shop/web") == 1, "once");
    let why = "past budget shop/web-budget, which has refused its eviction for 3m (drain.escalate \"preview\")";
    world.require(
        world.said(0, &format!("pod shop/web is deleted {why}")),
        "the journal",
    );
    world.require(
        world.said(
            0,
            &format!("pod shop/web holds up the drain: was deleted {why}"),
        ),
        "what the drain waits for",
    );
    world.require(world.said(0, "1 deleted past a budget"), "the history");
    let event = {
        let state = world.server.state();
        let events = state.objects("events");
        let told = |event: &&std::sync::Arc<serde_json::Value>| event["reason"] == "PodDeleted";
        events.iter().find(told).map(|event| event["type"].clone())
    };
    world.require(event == Some("Warning".into()), "an Event");
}

/// The server judges as well: a deletion that no configuration asks for breaks I9.
#[tokio::test(start_paused = true)]
async fn i9_a_pod_that_is_not_selected_is_never_deleted() {
    for config in ["", GRACE] {
        let world = held(config).await;
        world.want(0);
        world.until_phase(0, "Draining", MINUTE).await;
        world.until_phase(0, "Undoing", HOUR).await;
        world.require(lines(&world, "delete pods") == 0, "never");
        world.require(world.boots(0) == 0, "the drain is undone");
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_takes_an_hour_to_end_gets_a_shorter_grace_period() {
    let world = World::pair(GRACE).await;
    Pod {
        ends: 3600,
        grace: 3600,
        ..Pod::new("db", "n0")
    }
    .make(&world.server);
    world.want(0);
    world.until_phase(0, "Draining", MINUTE).await;
    world.pass(2 * MINUTE).await;
    world.require(
        lines(&world, "create pods/eviction") == 1,
        "a pod that ends is not evicted again before its time",
    );
    world.until_rebooted(&[0], 1, 3 * MINUTE).await;
    world.require(lines(&world, "create pods/eviction") == 2, "then once");
    world.require(lines(&world, "delete pods") == 0, "by an eviction");
    let words = "pod shop/db has been terminating for 3m and gets 20s to end in place of 1h (drain.escalate \"slow\")";
    world.require(world.said(0, words), "the journal");
}

/// Killed before, or with the deletion on its way: the time counts anew, and nothing is lost.
#[tokio::test(start_paused = true)]
async fn i6_a_daemon_that_is_killed_on_the_way_to_a_deletion_finishes() {
    for seconds in [100, 170, 185] {
        let world = held(DELETE).await;
        world.server.set(|state| state.pods_deleted = true);
        world.want(0);
        world.until_phase(0, "Draining", MINUTE).await;
        world.pass(Duration::from_secs(seconds)).await;
        world.hosts[0].order(Order::Kill(Duration::from_secs(5)));
        world.until_rebooted(&[0], 1, 10 * MINUTE).await;
    }
}

#[tokio::test(start_paused = true)]
async fn i9_a_deletion_whose_answer_is_lost_or_late_ends_well() {
    for fate in [
        Fate::AnswerLost,
        Fate::AnswerSilent,
        Fate::Lost,
        Fate::Late(Duration::from_secs(40)),
    ] {
        let world = held(DELETE).await;
        let fault = Fault {
            times: 1,
            ..Fault::of(fate, Verb::Delete, "pods")
        };
        world.server.set(|state| {
            state.pods_deleted = true;
            state.faults.push(fault);
        });
        world.want(0);
        world.until_rebooted(&[0], 1, 10 * MINUTE).await;
    }
}
