//! All that tells where a node is says the same, in every phase: they show one snapshot of the machine.
//!
//! A phase that is over in a moment is held up by an API server that is too busy to change Nodes. The phase Drained, D-Bus,
//! STATUS and the commands are looked at on real hosts (`e2e::explained`).

use std::time::{Duration, Instant};

use kube_rebootd_core::boot::Boot;
use kube_rebootd_core::names;
use kube_rebootd_core::phase::Phase;
use kube_rebootd_core::record::Record;
use serde_json::Value;

use super::cluster::{Pod, kubelet_back, make_budget};
use super::world::{HOUR, MINUTE, Plan, World};
use crate::memory::{Answer, Fate, Fault, Verb, annotation, condition};

const TEXTFILE: &str = "/run/kube-rebootd.prom";
/// The thread that writes it goes by the real clock: far above the pause between two writes.
const PATIENCE: Duration = Duration::from_secs(30);

/// From now on this host cannot change its Node, but for the next `but` times; its conditions it can.
fn busy(world: &World, host: usize, but: u32) {
    let busy = Answer::status(503, "ServiceUnavailable", "too busy");
    world.server.set(|state| {
        state.faults.push(Fault {
            from: world.hosts[host].name.clone(),
            skip: but,
            ..Fault::of(Fate::Says(busy), Verb::Patch, "nodes")
        });
    });
}

fn quiet(world: &World, host: usize) {
    let name = &world.hosts[host].name;
    world
        .server
        .set(|state| state.faults.retain(|fault| fault.from != *name));
}

/// What each of them says; in the same words where it is the same.
fn views(world: &World, host: usize) -> Vec<(&'static str, String, String)> {
    let text = |file: &str| std::fs::read_to_string(world.hosts[host].path(file));
    let view: Value = serde_json::from_str(&text("/run/kube-rebootd.view.json").unwrap()).unwrap();
    let said = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (phase, reason) = (said(&view["phase"]), said(&view["reason"]));

    let metrics = text(TEXTFILE).unwrap_or_default();
    let labelled = |family: &str| {
        let begin = format!("{family}=\"");
        let mut lines = metrics.lines();
        let one = lines.find(|line| line.contains(&begin) && line.ends_with(" 1.0"));
        let (_, rest) = one?.split_once(&begin)?;
        Some(rest.split('"').next()?.to_owned())
    };
    let measured = |family| labelled(family).unwrap_or_default();

    let node = world.node(host);
    let shown = condition(&node, "RebootRequired").map_or(Value::Null, |one| one["reason"].clone());
    // Without a hold there is none; where the Node cannot be changed it is the one before.
    let name = &world.hosts[host].name;
    let faults = |state: &[Fault]| state.iter().any(|fault| fault.from == *name);
    let changes = !faults(&world.server.state().faults);
    let on_node = annotation(&node, names::STATE)
        .filter(|_| changes)
        .and_then(|text| {
            let boot = Boot {
                id: world.hosts[host].boot_id(),
                userspace: world.hosts[host].logind().boot_usec,
            };
            let phase = Record::decode(text).ok()?.phase(Some(&boot));
            Some(phase.name().to_lowercase())
        });
    vec![
        ("the view", phase.clone(), reason.clone()),
        (
            "metrics",
            measured("kube_rebootd_phase{phase").to_lowercase(),
            measured("kube_rebootd_reason{reason"),
        ),
        ("the condition", phase.clone(), said(&shown)),
        ("the annotation", on_node.unwrap_or(phase), reason),
    ]
}

/// After a while: where requests are refused one after the other, what is only told waits for a minute.
async fn agreed(world: &World, host: usize, phase: Phase, reason: &str) {
    let name = phase.name();
    world.until_phase(host, name, HOUR).await;
    world.pass(2 * MINUTE).await;
    let begun = Instant::now();
    loop {
        let views = views(world, host);
        let expected = (name.to_lowercase(), reason.to_owned());
        let wrong: Vec<_> = (views.iter())
            .filter(|(_, phase, reason)| (phase, reason) != (&expected.0, &expected.1))
            .collect();
        if wrong.is_empty() {
            return;
        }
        let late = begun.elapsed() > PATIENCE;
        world.require(!late, &format!("{expected:?}, and not {wrong:?}"));
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[tokio::test(start_paused = true)]
async fn everything_that_tells_where_a_node_is_says_the_same_in_every_phase() {
    let world = World::with(Plan {
        hosts: 2,
        slots: 1,
        quorum: 0,
        config: "[metrics]\ntextfile = \"/run/kube-rebootd.prom\"\n[reboot]\nretry = \"1s\"\n",
    })
    .await;
    Pod {
        app: "web",
        ..Pod::new("web-0", "n0")
    }
    .make(&world.server);
    make_budget(&world.server, "web", "web", 1);
    agreed(&world, 0, Phase::Idle, "Idle").await;

    let [what, who, why, mode] = ["shutdown", "backup", "runs", "block"].map(str::to_owned);
    world.hosts[0].logind().inhibitors = vec![(what, who, why, mode, 0, 1)];
    world.want(0);
    agreed(&world, 0, Phase::Pending, "Inhibited").await;

    world.hosts[1].state().no_kubelet = true;
    world.want(1);
    agreed(&world, 1, Phase::Verifying, "Verifying").await;
    world.hosts[0].logind().inhibitors.clear();
    agreed(&world, 0, Phase::Queued, "Queued").await;

    // The uncordon is let through, what comes after it is not.
    busy(&world, 1, 1);
    kubelet_back(&world.server, "n1", &world.hosts[1].boot_id());
    agreed(&world, 1, Phase::Releasing, "Releasing").await;
    // The dry run before the take is let through.
    busy(&world, 0, 1);
    quiet(&world, 1);
    agreed(&world, 0, Phase::Claiming, "Claiming").await;
    quiet(&world, 0);
    agreed(&world, 0, Phase::Draining, "BlockedByBudget").await;
    busy(&world, 0, 0);
    world.unwant(0);
    agreed(&world, 0, Phase::Undoing, "Undoing").await;
    quiet(&world, 0);
    agreed(&world, 0, Phase::Idle, "Idle").await;

    make_budget(&world.server, "web", "web", 0);
    world.hosts[0].logind().prepare_on_reboot = false;
    world.want(0);
    agreed(&world, 0, Phase::Rebooting, "Rebooting").await;
    world.hosts[0].logind().prepare_on_reboot = true;
    world.until_rebooted(&[0], 1, HOUR).await;
    agreed(&world, 0, Phase::Idle, "Idle").await;
}
