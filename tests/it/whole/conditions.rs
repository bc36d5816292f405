//! What the cluster sees of a node (I2, I6, I7): the conditions follow the phases, and whatever becomes of their writes
//! keeps nothing waiting.

use serde_json::Value;

use std::time::Duration;

use super::host::Order;
use super::world::{HOUR, MINUTE, World};
use crate::memory::{Answer, Fate, Fault, Verb, condition};

const STATUS: &str = "nodes/status";

/// `status reason` of the host's condition `RebootRequired`; empty: it has none.
fn required(world: &World, host: usize) -> String {
    told(world, host, "RebootRequired")
}

fn told(world: &World, host: usize, kind: &str) -> String {
    let node = world.node(host);
    let text = |one: &Value, key: &str| one[key].as_str().unwrap_or_default().to_owned();
    condition(&node, kind).map_or_else(String::new, |one| {
        format!("{} {}", text(one, "status"), text(one, "reason"))
    })
}

/// From now on the API server says no to this; where it counts as no breach of I11.
fn refuse(world: &World, verb: Verb, resource: &'static str) {
    let no = Answer::status(403, "Forbidden", "a policy");
    meets(world, &Fate::Says(no), verb, resource, u32::MAX);
}

fn meets(world: &World, fate: &Fate, verb: Verb, resource: &'static str, times: u32) {
    world.server.set(|state| {
        state.refusals_wanted = true;
        let fault = Fault::of(fate.clone(), verb, resource);
        state.faults.push(Fault { times, ..fault });
    });
}

#[tokio::test(start_paused = true)]
async fn conditions_follow_a_whole_cycle() {
    let world = World::new(2, 1).await;
    let is = |world: &World, words: &str| required(world, 0) == words;
    world
        .until("idle to be told", MINUTE, |world| is(world, "False Idle"))
        .await;
    // The other holds the only slot, and never comes back.
    world.hosts[1].state().no_kubelet = true;
    world.want(1);
    world.until_phase(1, "Rebooting", HOUR).await;
    world.want(0);
    world
        .until("queued to be told", MINUTE, |world| {
            is(world, "True Queued")
        })
        .await;
    assert_eq!(told(&world, 0, "MaintenancePlanned"), "True KubeRebootd");
    assert_eq!(told(&world, 1, "MaintenanceInProgress"), "True KubeRebootd");
    world.unwant(0);
    world
        .until("idle again", 5 * MINUTE, |world| is(world, "False Idle"))
        .await;
    assert_eq!(told(&world, 0, "MaintenancePlanned"), "False KubeRebootd");
}

#[tokio::test(start_paused = true)]
async fn after_a_reboot_nothing_is_said_any_more() {
    let world = World::new(1, 1).await;
    world.want(0);
    world.until_rebooted(&[0], 1, HOUR).await;
    world
        .until("idle to be told", MINUTE, |world| {
            required(world, 0) == "False Idle"
        })
        .await;
    for kind in ["DrainInProgress", "Drained", "MaintenanceInProgress"] {
        let said = told(&world, 0, kind);
        assert!(
            said.is_empty() || said == "False KubeRebootd",
            "{kind}: {said}"
        );
    }
    assert_eq!(
        told(&world, 0, "MaintenanceInProgress"),
        "False KubeRebootd"
    );
    assert_eq!(told(&world, 0, "Ready"), "True ", "the kubelet's own");
}

/// A policy, a webhook or a proxy may refuse, break or swallow each of them.
#[tokio::test(start_paused = true)]
async fn i7_whatever_becomes_of_a_condition_the_host_reboots() {
    let no = Answer::status(403, "Forbidden", "conditions are not for you");
    for fate in [Fate::Says(no), Fate::Silent, Fate::Lost, Fate::AnswerSilent] {
        let world = World::new(1, 1).await;
        let refused = matches!(fate, Fate::Says(_));
        meets(&world, &fate, Verb::Patch, STATUS, u32::MAX);
        world.want(0);
        // A whole cycle takes some two minutes, and each word that nobody answers five seconds.
        world.until_rebooted(&[0], 1, 4 * MINUTE).await;
        let met = u32::MAX - world.server.state().faults[0].times;
        world.require(met > 0, &format!("{fate:?} was never met"));
        let said = world.said(0, "conditions cannot be written");
        world.require(said || !refused, "nobody was told");
        world.require(met < 20, &format!("{met} tries"));
    }
}

/// Found by reading: the uncordon was refused, the daemon never came to a wait, and the Node showed for hours what was so
/// before.
#[tokio::test(start_paused = true)]
async fn a_node_whose_uncordon_is_refused_is_told_to_be_unhealthy() {
    let world = World::new(1, 1).await;
    world.want(0);
    world.until_phase(0, "Verifying", HOUR).await;
    refuse(&world, Verb::Patch, "nodes");
    world
        .until("it to be told", 2 * HOUR, |world| {
            required(world, 0) == "True Unhealthy"
        })
        .await;
    world.require(world.cordoned(0), "it was refused");
    world.server.set(|state| state.faults.clear());
    world
        .until("the end to be told", HOUR, |world| {
            required(world, 0) == "False Idle"
        })
        .await;
    world.at_rest();
}

/// Found by an operator's reading: a slot that could not be given back was to be seen only by whoever looked for it.
#[tokio::test(start_paused = true)]
async fn a_node_that_cannot_give_its_slot_back_says_so() {
    let world = World::new(1, 1).await;
    world.want(0);
    world.until_phase(0, "Verifying", HOUR).await;
    refuse(&world, Verb::Patch, "leases");
    world
        .until("it to be told", HOUR, |world| {
            required(world, 0) == "True NotReleased"
        })
        .await;
    world.server.set(|state| state.faults.clear());
    world
        .until("the end to be told", HOUR, |world| {
            required(world, 0) == "False Idle"
        })
        .await;
    world.at_rest();
}

/// Reason and type of the Events about a host's Node, oldest first, and how often each happened.
fn events(world: &World, host: usize) -> Vec<(String, String, i64)> {
    let node = world.node(host);
    let (name, uid) = (&node["metadata"]["name"], &node["metadata"]["uid"]);
    let text = |event: &Value, key: &str| event[key].as_str().unwrap_or_default().to_owned();
    let all = world.server.state().objects("events");
    let own = all.iter().filter(|event| {
        let about = &event["involvedObject"];
        assert_eq!(
            (&about["kind"], &event["metadata"]["namespace"]),
            (&"Node".into(), &"default".into())
        );
        about["name"] == *name && about["uid"] == *uid
    });
    let seen = own.map(|event| {
        let count = event["count"].as_i64().unwrap_or_default();
        (text(event, "reason"), text(event, "type"), count)
    });
    seen.collect()
}

/// What `kubectl describe node` shows is the way of the condition, and an idle node that is restarted tells nothing.
#[tokio::test(start_paused = true)]
async fn events_tell_the_way_of_a_reboot() {
    let world = World::new(1, 1).await;
    world.pass(2 * MINUTE).await;
    assert_eq!(events(&world, 0), []);
    world.want(0);
    world.until_rebooted(&[0], 1, HOUR).await;
    world
        .until("idle to be told", MINUTE, |world| {
            required(world, 0) == "False Idle"
        })
        .await;
    world.pass(MINUTE).await;
    let told = events(&world, 0);
    let reasons: Vec<&str> = told.iter().map(|(reason, ..)| reason.as_str()).collect();
    assert_eq!(reasons, ["Rebooting", "Verifying", "Idle"]);
    world.require(
        told.iter()
            .all(|(_, kind, count)| kind == "Normal" && *count == 1),
        "each once",
    );
    world.at_rest();
}

/// A gate that closes again and again is one Event that is counted.
#[tokio::test(start_paused = true)]
async fn an_event_that_happens_again_is_counted() {
    let world = World::new(1, 1).await;
    let name = world.hosts[0].name.clone();
    world.server.set(|state| {
        state.edit(("nodes", "", &name), "kubectl", |node| {
            node["metadata"]["annotations"]["kube-rebootd/paused"] = "the rack is moved".into();
        });
    });
    for _ in 0..2 {
        // At most once a minute an Event is counted.
        world.pass(2 * MINUTE).await;
        world.want(0);
        world
            .until("paused to be told", HOUR, |world| {
                required(world, 0) == "True Paused"
            })
            .await;
        world.unwant(0);
        world
            .until("idle to be told", HOUR, |world| {
                required(world, 0) == "False Idle"
            })
            .await;
    }
    world.pass(MINUTE).await;
    let told = events(&world, 0);
    let paused = told.iter().find(|(reason, ..)| reason == "Paused");
    assert!(paused.is_some_and(|(_, _, count)| *count >= 2), "{told:?}");
    assert_eq!(told.len(), 2, "{told:?}");
}

/// A server that keeps no Events, or does not answer, keeps no host from its reboot.
#[tokio::test(start_paused = true)]
async fn i7_whatever_becomes_of_an_event_the_host_reboots() {
    let no = Answer::status(403, "Forbidden", "no Events for you");
    for fate in [Fate::Says(no), Fate::Silent, Fate::Lost] {
        let world = World::new(1, 1).await;
        let refused = matches!(fate, Fate::Says(_));
        meets(&world, &fate, Verb::Create, "events", u32::MAX);
        world.want(0);
        // As long as with them.
        world.until_rebooted(&[0], 1, 4 * MINUTE).await;
        let met = u32::MAX - world.server.state().faults[0].times;
        world.require(met > 0, &format!("{fate:?} was never met"));
        let said = world.said(0, "Events cannot be written");
        world.require(said || !refused, "nobody was told");
        assert_eq!(events(&world, 0), []);
    }
}

/// Found by reading: one answer that did not come, and what the daemon told stayed for ever, without a word.
#[tokio::test(start_paused = true)]
async fn i3_what_was_told_is_taken_away_also_where_leases_are_not_to_be_had() {
    for (verb, resource, times, gone) in [
        (Verb::Patch, STATUS, 2, true),
        (Verb::Patch, STATUS, u32::MAX, false),
        (Verb::List, "leases", u32::MAX, true),
    ] {
        let world = World::new(1, 1).await;
        world
            .until("idle to be told", MINUTE, |world| {
                required(world, 0) == "False Idle"
            })
            .await;
        world.pass(2 * MINUTE).await;
        world.hosts[0].order(Order::Kill(HOUR));
        world.pass(MINUTE).await;
        let no = Answer::status(403, "Forbidden", "not any more");
        meets(&world, &Fate::Says(no), verb, resource, times);
        let done = world.hosts[0].release(Duration::from_secs(30)).await;
        let node = world.node(0);
        let keys = node["metadata"]["annotations"].as_object();
        let keys = keys.map_or(0, |keys| {
            keys.keys()
                .filter(|key| key.starts_with("kube-rebootd/"))
                .count()
        });
        let there = (required(&world, 0).is_empty(), keys == 0);
        world.require(
            there == (gone, gone),
            &format!("{resource} {times}: {there:?}"),
        );
        let stays = done.as_ref().ok().and_then(|done| done.stays.as_deref());
        world.require(stays.is_some() != gone, &format!("{done:?}"));
        world.require(done.is_ok() == (resource == STATUS), &format!("{done:?}"));
    }
}

/// A node that has nothing to do writes its Node once an hour.
#[tokio::test(start_paused = true)]
async fn an_idle_node_says_once_an_hour_that_it_is_there() {
    let world = World::new(1, 1).await;
    world.pass(2 * MINUTE).await;
    let writes = |world: &World| {
        let trace = world.server.state().trace.clone();
        let patches = trace.iter().filter(|line| line.contains("patch "));
        patches.count()
    };
    let before = writes(&world);
    world.pass(12 * HOUR).await;
    let beats = writes(&world) - before;
    world.require((10..=12).contains(&beats), &format!("{beats} in 12 hours"));
}

/// A thousand waiters must not all write when a slot changes hands; here, two of three that wait.
#[tokio::test(start_paused = true)]
async fn who_waits_writes_nothing_when_a_slot_changes_hands() {
    let world = World::new(4, 1).await;
    (0..4).for_each(|host| world.want(host));
    let mut told = 0;
    for turn in 1..4 {
        let rebooted = |world: &World| (0..4).filter(|host| world.boots(*host) > 0).count();
        world
            .until("the next to go down", HOUR, |world| rebooted(world) >= turn)
            .await;
        for host in (0..4).filter(|host| world.phase(*host) == "Queued") {
            let trace = world.server.state().trace.clone();
            let own = format!(" n{host}: patch {STATUS}");
            let writes = trace.iter().filter(|line| line.contains(&own)).count();
            // Idle, then Queued.
            world.require(writes <= 2, &format!("n{host} wrote {writes} times"));
            told += usize::from(writes == 2);
        }
    }
    assert!(told > 0, "nobody waited long enough to tell");
}
