//! Every answer to an eviction, met by a whole daemon (I9).

use std::time::Duration;

use serde_json::json;

use super::cluster::{Pod, make_budget};
use super::host::Order;
use super::world::{HOUR, MINUTE, Plan, World};
use crate::memory::{Answer, Fate, Fault, Verb};

/// Two hosts; one has a pod and wants a reboot.
async fn one_pod() -> World {
    let world = World::new(2, 1).await;
    Pod::new("web", "n0").make(&world.server);
    world
}

fn evictions(world: &World) -> usize {
    let state = world.server.state();
    state
        .trace
        .iter()
        .filter(|line| line.contains("create pods/eviction"))
        .count()
}

fn refused(code: u16, message: &str, details: serde_json::Value) -> Answer {
    let mut answer = Answer::status(code, "x", message);
    answer.body["details"] = details;
    answer
}

/// The first evictions meet `fate`; afterwards the server does what it is asked.
async fn meets(fate: Fate, times: u32) {
    let world = one_pod().await;
    let fault = Fault {
        times,
        ..Fault::of(fate, Verb::Create, "pods/eviction")
    };
    world.server.set(|state| state.faults.push(fault));
    world.want(0);
    world.until_rebooted(&[0], 1, HOUR).await;
    world.require(evictions(&world) > 0, "nothing was evicted");
}

/// Found by the judge, in one run of many: who took the wish back in this very moment had the node uncordoned and its slot given up,
/// and then a pod evicted from it.
#[tokio::test(start_paused = true)]
async fn i1_an_eviction_on_its_way_is_answered_before_the_node_is_uncordoned() {
    let world = one_pod().await;
    let slow = Fault::of(
        Fate::Slow(Duration::from_secs(5)),
        Verb::Create,
        "pods/eviction",
    );
    world.server.set(|state| state.faults.push(slow));
    world.want(0);
    world.until_phase(0, "Draining", HOUR).await;
    world.pass(Duration::from_secs(1)).await;
    world.unwant(0);
    world.until_phase(0, "Undoing", MINUTE).await;
    world.require(world.cordoned(0), "it is cordoned until that is answered");
    let undone = |world: &World| world.phase(0) == "Idle";
    world.until("it is undone", MINUTE, undone).await;
    world.require(evictions(&world) == 1, "it was on its way");
    world.at_rest();
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_pod_that_closes_the_gate_is_seen_at_once_and_without_polling() {
    let world = World::new(2, 1).await;
    let bare = json!({"metadata": {}, "spec": {"nodeName": "n0", "restartPolicy": "Never",
        "containers": [{"name": "c"}]}, "status": {"phase": "Running"}});
    world
        .server
        .set(|state| state.make(("pods", "shop", "once"), "kubelet", bare));
    world.want(0);
    let closed = |world: &World| world.said(0, "would block the drain: shop/once");
    world.until("the gate is closed", HOUR, closed).await;
    let lists = || {
        let state = world.server.state();
        let lists = state
            .trace
            .iter()
            .filter(|line| line.contains("n0") && line.contains("list pods"));
        lists.count()
    };
    world.pass(10 * Duration::from_secs(1)).await;
    let before = lists();
    world.pass(10 * MINUTE + 10 * Duration::from_secs(1)).await;
    world.require(lists() == before, "it is watched and not polled");
    world
        .server
        .set(|state| state.remove(("pods", "shop", "once")));
    world
        .until_phase(0, "Claiming", Duration::from_secs(5))
        .await;
    world.until_rebooted(&[0], 1, HOUR).await;
}

#[tokio::test(start_paused = true)]
async fn i9_a_pod_is_evicted_and_waited_for() {
    let world = World::new(2, 1).await;
    Pod {
        ends: 25,
        ..Pod::new("slow", "n0")
    }
    .make(&world.server);
    Pod {
        owner: "DaemonSet",
        ..Pod::new("agent", "n0")
    }
    .make(&world.server);
    world.want(0);
    world.until_rebooted(&[0], 1, HOUR).await;
    world.require(evictions(&world) == 1, "one eviction for one pod");
}

/// Proved with a real kubelet: the host went down in mid-unmount, and a StatefulSet waited for its volume. The server
/// judges each reboot: a finished pod that the kubelet has not removed is left.
#[tokio::test(start_paused = true)]
async fn i2_a_finished_pod_is_waited_for_until_the_kubelet_has_unmounted_its_volumes() {
    let world = World::new(2, 1).await;
    Pod {
        ends: 5,
        unmounts: Some(40_000),
        ..Pod::new("db", "n0")
    }
    .make(&world.server);
    world.want(0);
    world.until_phase(0, "Draining", MINUTE).await;
    world.pass(Duration::from_secs(43)).await;
    world.require(
        world.phase(0) == "Draining",
        "the kubelet is still unmounting",
    );
    world.until_rebooted(&[0], 1, HOUR).await;
    world.require(evictions(&world) == 1, "one eviction for one pod");
}

#[tokio::test(start_paused = true)]
async fn a_finished_pod_that_the_kubelet_never_removes_is_named_and_undone() {
    let world = World::new(2, 1).await;
    Pod {
        unmounts: None,
        ..Pod::new("db", "n0")
    }
    .make(&world.server);
    world.want(0);
    world.until_phase(0, "Draining", MINUTE).await;
    world.until_phase(0, "Undoing", HOUR).await;
    world.require(
        world.said(
            0,
            "shop/db holds up the drain: has finished, but the kubelet has not removed it",
        ),
        "the pod and why",
    );
    world.require(world.boots(0) == 0, "no reboot with the pod there");
    // The admin helps the kubelet.
    world
        .server
        .set(|state| state.remove(("pods", "shop", "db")));
    world.until_rebooted(&[0], 1, 8 * HOUR).await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_a_finalizer_holds_is_named_and_left_after_a_while() {
    let world = World::new(2, 1).await;
    Pod {
        finalizer: Some("example.com/hold"),
        ..Pod::new("db", "n0")
    }
    .make(&world.server);
    world.want(0);
    world.until_phase(0, "Draining", MINUTE).await;
    world.pass(Duration::from_secs(25)).await;
    world.require(world.phase(0) == "Draining", "whoever holds it has a while");
    world.until_rebooted(&[0], 1, HOUR).await;
}

#[tokio::test(start_paused = true)]
async fn i9_a_budget_is_waited_for_without_haste_and_named() {
    let world = one_pod().await;
    make_budget(&world.server, "web-budget", "web", 1);
    world.want(0);
    world.until_phase(0, "Draining", MINUTE).await;
    world.pass(8 * MINUTE).await;
    world.require(
        world.phase(0) == "Draining" && world.cordoned(0),
        "waits for the budget",
    );
    world.require(world.said(0, "web-budget"), "the budget is named");
    let asked = evictions(&world);
    // From 1 s to 15 s: some 35 in 8 minutes.
    world.require(
        (8..60).contains(&asked),
        &format!("{asked} evictions in 8 minutes"),
    );
    world
        .server
        .set(|state| state.remove(("poddisruptionbudgets", "shop", "web-budget")));
    world.until_rebooted(&[0], 1, HOUR).await;
}

#[tokio::test(start_paused = true)]
async fn i9_two_budgets_end_the_attempt_and_nothing_is_left() {
    let world = one_pod().await;
    make_budget(&world.server, "first", "web", 0);
    make_budget(&world.server, "second", "web", 0);
    world.want(0);
    world.until_phase(0, "Draining", MINUTE).await;
    world.until_phase(0, "Undoing", HOUR).await;
    world
        .until("the slot is free", MINUTE, |world| {
            world.holder("default").is_none()
        })
        .await;
    world.at_rest();
    world.require(world.boots(0) == 0, "no reboot with the pod there");
    world.require(
        world.said(0, "more than one PodDisruptionBudget"),
        "the cause is named",
    );
    world
        .server
        .set(|state| state.remove(("poddisruptionbudgets", "shop", "second")));
    world.until_rebooted(&[0], 1, 8 * HOUR).await;
}

#[tokio::test(start_paused = true)]
async fn i9_priority_and_fairness_is_obeyed() {
    let world = one_pod().await;
    let busy = Fate::Says(Answer::busy(429, 40));
    let fault = Fault {
        times: 6,
        ..Fault::of(busy, Verb::Create, "pods/eviction")
    };
    world.server.set(|state| state.faults.push(fault));
    world.want(0);
    world.until_phase(0, "Draining", MINUTE).await;
    world.pass(2 * MINUTE).await;
    let asked = evictions(&world);
    world.require(
        (2..=4).contains(&asked),
        &format!("{asked} evictions in 2 minutes of Retry-After: 40"),
    );
    world.until_rebooted(&[0], 1, HOUR).await;
}

#[tokio::test(start_paused = true)]
async fn i9_a_storm_of_500() {
    meets(Fate::Says(Answer::busy(500, 0)), 20).await;
}

#[tokio::test(start_paused = true)]
async fn i9_a_storm_of_503_with_a_retry_after() {
    meets(Fate::Says(Answer::busy(503, 5)), 10).await;
}

#[tokio::test(start_paused = true)]
async fn i9_a_budget_that_changes_at_the_same_moment_504() {
    meets(Fate::Says(Answer::busy(504, 0)), 5).await;
}

#[tokio::test(start_paused = true)]
async fn i9_a_budget_nobody_has_looked_at() {
    let details = json!({"retryAfterSeconds": 10, "causes": [{"reason": "DisruptionBudget",
        "message": "The disruption budget web is still being processed by the server."}]});
    meets(Fate::Says(refused(429, "Cannot evict pod", details)), 5).await;
}

#[tokio::test(start_paused = true)]
async fn i9_a_namespace_that_ends() {
    let details = json!({"causes": [{"reason": "NamespaceTerminating"}]});
    meets(
        Fate::Says(refused(403, "pods \"web\" is forbidden", details)),
        5,
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn i9_a_pod_that_the_servers_cache_does_not_know_yet() {
    let message = "node \"n0\" can only evict pods with spec.nodeName set to itself";
    meets(Fate::Says(refused(403, message, json!({}))), 5).await;
}

#[tokio::test(start_paused = true)]
async fn i9_a_pod_that_is_said_to_be_gone() {
    meets(Fate::Says(refused(404, "not found", json!({}))), 5).await;
}

#[tokio::test(start_paused = true)]
async fn i9_a_pod_of_another_uid() {
    meets(
        Fate::Says(refused(
            409,
            "Precondition failed: UID in precondition",
            json!({}),
        )),
        5,
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn i9_a_webhook_that_refuses_for_a_while() {
    meets(
        Fate::Says(refused(
            403,
            "admission webhook denied the request",
            json!({}),
        )),
        5,
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn i9_an_eviction_whose_answer_is_lost() {
    meets(Fate::AnswerLost, 1).await;
}

#[tokio::test(start_paused = true)]
async fn i9_an_eviction_that_is_never_answered() {
    meets(Fate::AnswerSilent, 1).await;
}

#[tokio::test(start_paused = true)]
async fn i9_an_eviction_that_never_arrives() {
    meets(Fate::Silent, 3).await;
}

#[tokio::test(start_paused = true)]
async fn i9_an_eviction_that_lands_late() {
    meets(Fate::Late(Duration::from_secs(40)), 1).await;
}

#[tokio::test(start_paused = true)]
async fn i9_a_full_node_is_drained_in_few_requests() {
    let world = World::with(Plan {
        hosts: 2,
        slots: 1,
        quorum: 0,
        config: "[drain]\nparallelism = 110\n",
    })
    .await;
    let names: Vec<String> = (0..110).map(|pod| format!("pod-{pod}")).collect();
    for name in &names {
        Pod {
            app: "many",
            ..Pod::new(name, "n0")
        }
        .make(&world.server);
    }
    world.want(0);
    world.until_phase(0, "Draining", MINUTE).await;
    let begin = tokio::time::Instant::now();
    world.until_phase(0, "Rebooting", HOUR).await;
    // The pods themselves take a second; 3 s are allowed.
    world.require(
        begin.elapsed() < Duration::from_secs(3),
        &format!("{:?}", begin.elapsed()),
    );
    let pods = {
        let state = world.server.state();
        let pods = state.trace.iter().filter(|line| line.contains(" pods"));
        pods.count()
    };
    world.require(
        (111..=115).contains(&pods),
        &format!("{pods} requests for pods"),
    );
    world.until_rebooted(&[0], 1, HOUR).await;
}

/// Found by review: killed between the drain and logind, the daemon knew no more that the pod was left behind on
/// purpose, called it one that had come late, and undid a drain that was over.
#[tokio::test(start_paused = true)]
async fn i6_a_pod_that_was_left_behind_on_purpose_undoes_no_drain_after_a_restart() {
    for timeout in [false, true] {
        let world = World::with(Plan {
            hosts: 2,
            slots: 1,
            quorum: 0,
            config: "[drain]\ntimeout = \"10min\"\non_timeout = \"reboot\"\n",
        })
        .await;
        Pod {
            finalizer: (!timeout).then_some("example.com/hold"),
            ..Pod::new("db", "n0")
        }
        .make(&world.server);
        if timeout {
            make_budget(&world.server, "db-budget", "db", 1);
        }
        let slow = Fault {
            from: "n0".to_owned(),
            ..Fault::of(Fate::Slow(Duration::from_secs(2)), Verb::Get, "leases")
        };
        world.server.set(|state| {
            state.faults.push(slow);
            state.pods_may_stay = timeout;
        });
        world.want(0);
        world.until_phase(0, "Rebooting", HOUR).await;
        world.hosts[0].order(Order::Kill(Duration::from_secs(5)));
        world.until_rebooted(&[0], 1, HOUR).await;
        world.require(!world.said(0, "undoing"), "the drain goes on");
        world.require(
            world.said(0, "a pod that must leave is there"),
            "and says why",
        );
    }
}

/// One that comes between the last look of the drain and the fence is evicted as any other.
#[tokio::test(start_paused = true)]
async fn i2_a_pod_that_comes_right_before_logind_is_drained_too() {
    let world = World::new(2, 1).await;
    let slow = Fault {
        from: "n0".to_owned(),
        ..Fault::of(Fate::Slow(Duration::from_secs(2)), Verb::Get, "leases")
    };
    world.server.set(|state| state.faults.push(slow));
    world.want(0);
    world.until_phase(0, "Rebooting", HOUR).await;
    Pod::new("late", "n0").make(&world.server);
    world.until_rebooted(&[0], 1, HOUR).await;
    world.require(!world.said(0, "undoing"), "the drain goes on");
    world.require(evictions(&world) == 1, "the late pod is evicted");
}
