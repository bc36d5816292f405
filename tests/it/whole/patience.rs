//! The annotation `kube-rebootd/drain-timeout` on pods, by whole daemons: it counts only as far as the configuration lets it (I14).

use kube_rebootd_core::names;
use serde_json::json;

use super::cluster::{Pod, make_budget};
use super::world::{HOUR, MINUTE, World};

/// A host whose pod asks for 20 minutes, and whose budget refuses.
async fn asks(config: &'static str, value: &str) -> World {
    let world = World::pair(config).await;
    Pod::new("web", "n0").make(&world.server);
    world.server.set(|state| {
        state.edit(("pods", "shop", "web"), "kubectl", |pod| {
            pod["metadata"]["annotations"][names::DRAIN_TIMEOUT] = json!(value);
        });
    });
    make_budget(&world.server, "web-budget", "web", 1);
    world.want(0);
    world.until_phase(0, "Draining", MINUTE).await;
    world
}

#[tokio::test(start_paused = true)]
async fn i14_by_default_no_pod_has_a_drain_wait_for_it() {
    for (config, value) in [
        ("", "20m"),
        ("[drain]\npod_timeout_max = \"30m\"\n", "soon"),
    ] {
        let world = asks(config, value).await;
        world.until_phase(0, "Undoing", 12 * MINUTE).await;
        let ignored = world.said(0, "no duration like \"30m\", and is ignored: \"soon\"");
        world.require(ignored == (value == "soon"), "the journal");
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_has_the_time_that_it_asks_for_where_that_counts() {
    let world = asks("[drain]\npod_timeout_max = \"30m\"\n", "20m").await;
    world.pass(15 * MINUTE).await;
    world.require(world.phase(0) == "Draining", "it has time still");
    world
        .server
        .set(|state| state.remove(("poddisruptionbudgets", "shop", "web-budget")));
    world.until_rebooted(&[0], 1, 2 * MINUTE).await;
    let world = asks("[drain]\npod_timeout_max = \"30m\"\n", "50m").await;
    world.until_phase(0, "Undoing", HOUR).await;
    let words = "asks for 50m by the annotation kube-rebootd/drain-timeout, and gets 30m";
    world.require(world.said(0, words), "the journal");
    world.require(world.boots(0) == 0, "and the drain ends at the limit");
}
