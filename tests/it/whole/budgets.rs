//! Budgets that would refuse are known before the first pod moves: by dry runs, once for each request (I9).

use kube_rebootd_core::names;
use serde_json::{Value, json};

use super::cluster::{Pod, make_budget};
use super::world::{HOUR, MINUTE, Plan, World};

const SAYS: &str = "the drain would be held up now by pod shop/web: The disruption budget web-budget needs 1 healthy pods";

fn lines(world: &World, what: &str) -> usize {
    let state = world.server.state();
    let lines = state.trace.iter();
    lines.filter(|line| line.contains(what)).count()
}

fn pause(world: &World, why: &Value) {
    world.server.set(|state| {
        state.edit(("nodes", "", "n0"), "kubectl", |node| {
            let annotations = node["metadata"]["annotations"].as_object_mut().unwrap();
            annotations.remove(names::PAUSED);
            annotations.extend((!why.is_null()).then(|| (names::PAUSED.to_owned(), why.clone())));
        });
    });
}

/// A host whose one pod may not go, and that waits for a person.
async fn waits(hosts: usize) -> World {
    let world = World::with(Plan {
        hosts,
        slots: 1,
        quorum: 0,
        config: "",
    })
    .await;
    Pod::new("web", "n0").make(&world.server);
    make_budget(&world.server, "web-budget", "web", 1);
    pause(&world, &json!("not now"));
    world.pass(MINUTE).await;
    world.want(0);
    world.until_phase(0, "Pending", MINUTE).await;
    world.pass(MINUTE).await;
    world
}

#[tokio::test(start_paused = true)]
async fn i9_a_budget_that_would_refuse_is_named_before_the_cordon() {
    let world = waits(2).await;
    world.require(world.said(0, SAYS), "pod and budget");
    world.require(!world.cordoned(0), "before the cordon");
    world.pass(HOUR).await;
    world.require(lines(&world, "try pods/eviction") == 1, "once");
    world.require(lines(&world, "create pods/eviction") == 0, "a dry run");
    world.server.set(|state| state.trace.clear());
    world.pass(5 * HOUR).await;
    world.require(lines(&world, "try pods/eviction") == 1, "and after hours");
    // It is no gate: the drain waits for the budget.
    pause(&world, &Value::Null);
    world.until_phase(0, "Draining", 5 * MINUTE).await;
    world
        .server
        .set(|state| state.remove(("poddisruptionbudgets", "shop", "web-budget")));
    world.until_rebooted(&[0], 1, HOUR).await;
}

/// Where nothing is evicted, nothing is told of budgets.
#[tokio::test(start_paused = true)]
async fn the_only_node_tells_of_no_budget() {
    let world = waits(1).await;
    world.pass(HOUR).await;
    world.require(lines(&world, "try pods/eviction") == 1, "it is tried");
    world.require(!world.said(0, "the drain would be held up"), "it is alone");
}

/// I7: an API server that is silent about it delays nothing.
#[tokio::test(start_paused = true)]
async fn i7_a_dry_run_without_an_answer_delays_nothing() {
    use crate::memory::{Fate, Fault};
    let world = World::pair("").await;
    Pod::new("web", "n0").make(&world.server);
    let fault = Fault {
        tries: true,
        ..Fault::new(Fate::Silent)
    };
    world.server.set(|state| state.faults.push(fault));
    world.want(0);
    world.until_rebooted(&[0], 1, 2 * MINUTE).await;
    world.require(!world.said(0, "the drain would be held up"), "not known");
}
