//! A changed configuration in any phase (I12): a good one counts from then on, a bad one is shown until it is mended, and the
//! reboot goes on.

use super::cluster::Pod;
use super::host::Order;
use super::world::{HOUR, MINUTE, Plan, World};
use crate::memory::condition;

const DROP_IN: &str = "/etc/kube-rebootd/config.d/50-test.toml";

/// What the condition `RebootRequired` of the first host says.
fn message(world: &World) -> String {
    let node = world.node(0);
    let told = condition(&node, "RebootRequired");
    told.map_or_else(String::new, |one| {
        one["message"].as_str().unwrap_or_default().to_owned()
    })
}

/// Reloads the first host, which says these words of it.
async fn reload(world: &World, text: &str, words: &str) {
    world.hosts[0].write(DROP_IN, text);
    world.hosts[0].reload();
    let what = format!("{words:?} at {text:?} in {}", world.phase(0));
    world
        .until(&what, MINUTE, |world| world.said(0, words))
        .await;
}

/// Two hosts; the first wants a reboot, and comes to `phase`.
async fn at(phase: &str) -> World {
    let world = World::with(Plan {
        hosts: 2,
        slots: 1,
        quorum: 0,
        config: "[gates]\nmin_uptime = \"20m\"\n",
    })
    .await;
    if phase == "Idle" {
        return world;
    }
    Pod {
        ends: 20,
        ..Pod::new("web", "n0")
    }
    .make(&world.server);
    world.want(0);
    if phase == "Undoing" {
        world.until_phase(0, "Draining", HOUR).await;
        world.unwant(0);
    }
    world.until_phase(0, phase, HOUR).await;
    world
}

#[tokio::test(start_paused = true)]
async fn i12_a_configuration_is_changed_and_refused_in_any_phase_and_the_reboot_goes_on() {
    for phase in [
        "Idle",
        "Pending",
        "Queued",
        "Claiming",
        "Draining",
        "Rebooting",
        "Verifying",
        "Releasing",
        "Undoing",
    ] {
        let world = at(phase).await;
        reload(
            &world,
            "[drain]\nstall = \"9m\"\n",
            "drain.stall: \"10m\" -> \"9m\" (",
        )
        .await;
        if world.boots(0) == 0 {
            // On its way down it would not come back with these.
            reload(
                &world,
                "[drain]\nstall = 1\n",
                "50-test.toml:2: drain.stall: is a number",
            )
            .await;
            reload(
                &world,
                "[drain]\nstall = \"8m\"\n",
                "drain.stall: \"9m\" -> \"8m\" (",
            )
            .await;
        }
        world.want(0);
        world.until_rebooted(&[0], 1, HOUR).await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_hold_binds_is_said_and_counts_after_it() {
    let world = at("Draining").await;
    let text = "[drain]\njobs = \"wait\"\n[coordination]\ngroup = \"other\"\n";
    reload(&world, text, "drain.jobs: \"evict\" -> \"wait\" (").await;
    for words in [
        ", from the next drain on",
        "coordination.group: \"default\" -> \"other\" (",
        ", once the slot that is held is given back",
    ] {
        world.require(world.said(0, words), words);
    }
    world.until_rebooted(&[0], 1, HOUR).await;
}

#[tokio::test(start_paused = true)]
async fn i12_a_bad_configuration_is_shown_until_it_is_mended() {
    let world = at("Idle").await;
    reload(&world, "", "configuration reloaded, nothing has changed").await;
    reload(
        &world,
        "[drain]\nno_such = 1\n",
        "configuration not reloaded",
    )
    .await;
    let refused = |world: &World| message(world).ends_with("50-test.toml:2: drain.no_such");
    let words = "configuration refused and not in use: ";
    world.until("it to be told", 5 * MINUTE, refused).await;
    world.require(message(&world).starts_with("idle"), "the phase comes first");
    world.require(message(&world).contains(words), "and then why");
    // A daemon that starts anew while nothing is held does not start: so a slot is taken first.
    world.want(0);
    world.until_phase(0, "Draining", HOUR).await;
    world.hosts[0].order(Order::Kill(MINUTE));
    world.pass(2 * MINUTE).await;
    world
        .until("it to be told by the next one", 5 * MINUTE, refused)
        .await;
    reload(
        &world,
        "[drain]\nstall = \"9m\"\n",
        "drain.stall: \"10m\" -> \"9m\" (",
    )
    .await;
    world
        .until("the end to be told", 5 * MINUTE, |world| {
            !message(world).contains(words)
        })
        .await;
    world.until_rebooted(&[0], 1, HOUR).await;
}
