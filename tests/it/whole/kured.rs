//! The weaknesses of kured that its source and its issues show, each as a test here. Not met here: its reboot by
//! signal, which has no counterpart, and its windows, which `whole::windows` tries.

use std::time::Duration;

use serde_json::json;

use super::cluster::{self, Pod, make_budget};
use super::host::Order;
use super::world::{HOUR, MINUTE, Plan, World};
use crate::memory::{Answer, Fate, Fault};

const DAY: Duration = Duration::from_secs(86_400);

/// Host 0 drains and cannot finish: a budget holds its pod.
async fn stuck() -> World {
    let world = World::new(2, 1).await;
    Pod::new("web", "n0").make(&world.server);
    make_budget(&world.server, "web", "web", 1);
    world.want(0);
    world.until_phase(0, "Draining", HOUR).await;
    world.pass(MINUTE).await;
    world
}

#[tokio::test(start_paused = true)]
async fn kured_a_killed_in_mid_drain_it_does_not_take_the_slot_for_a_reboot() {
    let world = stuck().await;
    world.hosts[0].order(Order::Kill(Duration::from_secs(10)));
    world.pass(MINUTE).await;
    // Whatever it decided: the host has not rebooted, so nothing says that it has.
    world.require(world.boots(0) == 0, "no reboot");
    world.require(
        !world.phases(0).contains(&"Verifying".to_owned()),
        "nothing to verify",
    );
    world.require(
        !world.phases(0).contains(&"Releasing".to_owned()),
        "nothing to release",
    );
    world.require(
        std::fs::exists(world.hosts[0].path("/run/reboot-required")).unwrap(),
        "still wanted",
    );
    world
        .server
        .set(|state| state.remove(("poddisruptionbudgets", "shop", "web")));
    world.until_rebooted(&[0], 1, HOUR).await;
}

#[tokio::test(start_paused = true)]
async fn kured_b_a_server_that_is_gone_when_the_host_boots_leaves_no_cordon() {
    let world = World::new(2, 1).await;
    (0..2).for_each(|host| world.want(host));
    world
        .until("the host boots", HOUR, |world| {
            world.hosts[0].logind().reboots + world.hosts[1].logind().reboots > 0
        })
        .await;
    world.server.set(|state| state.down = true);
    world.pass(3 * HOUR).await;
    world.server.set(|state| state.down = false);
    world.until_rebooted(&[0, 1], 1, HOUR).await;
}

#[tokio::test(start_paused = true)]
async fn kured_c_without_a_kubelet_cordon_and_slot_stay() {
    let world = World::new(2, 1).await;
    world.hosts[0].state().no_kubelet = true;
    world.want(0);
    world
        .until("rebooted", HOUR, |world| world.boots(0) == 1)
        .await;
    world.want(1);
    world.pass(HOUR).await;
    world.require(world.cordoned(0), "cordoned");
    world.require(world.holder("default").as_deref() == Some("n0"), "held");
    world.require(world.boots(1) == 0, "the rollout has stopped");
    let boot = world.hosts[0].boot_id();
    cluster::kubelet_back(&world.server, "n0", &boot);
    world.until_rebooted(&[0, 1], 1, HOUR).await;
}

#[tokio::test(start_paused = true)]
async fn kured_d_a_failed_drain_uncordons_first_and_leaves_a_foreign_cordon() {
    // That the Lease comes last is judged at every write (I4).
    let world = stuck().await;
    world.until_phase(0, "Undoing", HOUR).await;
    world
        .until("the slot is free", MINUTE, |world| {
            world.holder("default").is_none()
        })
        .await;
    world.at_rest();
    world.require(!world.cordoned(0), "uncordoned");

    let world = World::new(2, 1).await;
    Pod::new("web", "n0").make(&world.server);
    make_budget(&world.server, "web", "web", 1);
    world.server.set(|state| {
        state.edit(("nodes", "", "n0"), "kubectl-cordon", |node| {
            node["spec"]["unschedulable"] = json!(true);
        });
    });
    world.want(0);
    world.until_phase(0, "Undoing", 2 * HOUR).await;
    world
        .until("the slot is free", MINUTE, |world| {
            world.holder("default").is_none()
        })
        .await;
    world.at_rest();
    world.require(world.cordoned(0), "the admin's cordon stays");
    world
        .server
        .set(|state| state.remove(("poddisruptionbudgets", "shop", "web")));
    world
        .until("rebooted", 10 * HOUR, |world| {
            world.boots(0) == 1 && world.phase(0) == "Idle"
        })
        .await;
    world.require(world.cordoned(0), "the admin's cordon stays");
}

#[tokio::test(start_paused = true)]
async fn kured_e_a_sentinel_that_survives_reboots_once() {
    let world = World::new(1, 1).await;
    world.hosts[0].state().sticky = true;
    world.want(0);
    world.pass(3 * DAY).await;
    world.require(world.boots(0) == 1, &format!("{} boots", world.boots(0)));
    // And until when it does not count is said in the journal.
    let told = "or until it has gone once and comes 15 minutes or more after the reboot was proved";
    world.require(world.said(0, told), "not told");
    world.at_rest();
    world.unwant(0);
    world.pass(HOUR).await;
    world.want(0);
    world.pass(HOUR).await;
    world.require(world.boots(0) == 2, "gone once, it is a new request");
}

#[tokio::test(start_paused = true)]
async fn kured_f_no_answer_ends_the_process() {
    for code in [400, 401, 403, 404, 409, 410, 415, 422, 500, 504] {
        for phase in ["Draining", "Verifying"] {
            let world = World::new(2, 1).await;
            Pod {
                ends: 20,
                ..Pod::new("web", "n0")
            }
            .make(&world.server);
            world.want(0);
            world.until_phase(0, phase, HOUR).await;
            let said = Answer::status(code, "x", "made up");
            let fault = Fault {
                from: "n0".to_owned(),
                ..Fault::new(Fate::Says(said))
            };
            world.server.set(|state| state.faults.push(fault));
            world.pass(10 * MINUTE).await;
            world.server.set(|state| state.faults.clear());
            // World::check sees a daemon that ended. An answer that means "gone" may end the attempt.
            world.until_rebooted(&[0], 1, 12 * HOUR).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn kured_g_a_drain_ends() {
    let world = stuck().await;
    world.until_phase(0, "Undoing", 40 * MINUTE).await;
}

#[tokio::test(start_paused = true)]
async fn kured_h_a_node_never_has_two_slots_however_often_it_is_killed() {
    // Two Leases for one node are broken wherever they are seen (judge).
    for millis in 0..12 {
        let world = World::new(3, 2).await;
        (0..3).for_each(|host| world.want(host));
        world.until_phase(0, "Queued", HOUR).await;
        for _ in 0..4 {
            world.pass(Duration::from_millis(millis)).await;
            world.hosts[0].order(Order::Kill(Duration::from_secs(3)));
            world.pass(Duration::from_secs(4)).await;
        }
        world.until_rebooted(&[0, 1, 2], 1, 3 * HOUR).await;
    }
}

#[tokio::test(start_paused = true)]
async fn kured_i_an_inhibitor_is_respected() {
    let world = World::new(1, 1).await;
    let row = ["shutdown:sleep", "apt", "installing", "block"].map(str::to_owned);
    let [what, who, why, mode] = row;
    world.hosts[0].logind().inhibitors = vec![(what, who, why, mode, 0, 1)];
    world.pass(MINUTE).await;
    world.want(0);
    world.pass(3 * HOUR).await;
    world.require(
        world.holder("default").is_none() && !world.cordoned(0),
        "nothing is begun",
    );
    world.hosts[0].logind().inhibitors.clear();
    world.until_rebooted(&[0], 1, HOUR).await;
}

#[tokio::test(start_paused = true)]
async fn kured_j_the_longest_waiting_goes_next_and_soon() {
    let world = World::new(4, 1).await;
    for host in [2, 0, 3, 1] {
        world.want(host);
        world
            .until_phase(host, if host == 2 { "Claiming" } else { "Queued" }, MINUTE)
            .await;
        world.pass(Duration::from_secs(2)).await;
    }
    let mut order = Vec::new();
    let begin = tokio::time::Instant::now();
    while order.len() < 4 {
        for host in 0..4 {
            if world.boots(host) == 1 && !order.contains(&host) {
                order.push(host);
            }
        }
        world.require(begin.elapsed() < HOUR, &format!("only {order:?}"));
        world.pass(Duration::from_millis(500)).await;
    }
    world.require(order == [2, 0, 3, 1], &format!("{order:?}"));
    // 85 s for a host, 30 of them for health.ready_for, and 3 s for a hand-over; the last one need not be proved.
    world.require(
        begin.elapsed() < Duration::from_secs(5 * 60),
        &format!("{:?}", begin.elapsed()),
    );
    world.until_rebooted(&[0, 1, 2, 3], 1, HOUR).await;
}

#[tokio::test(start_paused = true)]
async fn kured_k_a_node_without_labels_and_annotations_is_no_problem() {
    let world = World::new(2, 1).await;
    world.server.set(|state| {
        state.edit(("nodes", "", "n0"), "kubectl", |node| {
            node["metadata"].as_object_mut().unwrap().remove("labels");
        });
    });
    world.want(0);
    world.until_rebooted(&[0], 1, HOUR).await;
}

#[tokio::test(start_paused = true)]
async fn kured_l_a_slot_never_expires() {
    let world = World::new(2, 1).await;
    world.want(0);
    world.until_phase(0, "Rebooting", HOUR).await;
    let fault = Fault {
        from: "n0".to_owned(),
        ..Fault::new(Fate::Lost)
    };
    world.server.set(|state| state.faults.push(fault));
    world.want(1);
    world.pass(8 * HOUR).await;
    world.require(
        world.holder("default").as_deref() == Some("n0"),
        "held all the time",
    );
    world.require(world.cordoned(0) && world.boots(1) == 0, "nobody else goes");
    world.server.set(|state| state.faults.clear());
    world.until_rebooted(&[0, 1], 1, HOUR).await;
}

#[tokio::test(start_paused = true)]
async fn kured_m_a_manual_hold_is_a_hold_on_any_number_of_slots() {
    let world = World::with(Plan {
        hosts: 3,
        slots: 2,
        quorum: 0,
        config: "",
    })
    .await;
    // A name that is no Node's would be cleared after stale_after; this is how a person holds a slot.
    let hold = |lease: &'static str, why: serde_json::Value| {
        world.server.set(|state| {
            state.edit(("leases", "kube-rebootd", lease), "kubectl-edit", |lease| {
                let keys = &mut lease["metadata"]["annotations"];
                keys["kube-rebootd/paused"] = why;
                if let Some(keys) = keys.as_object_mut() {
                    keys.retain(|_, value| !value.is_null());
                }
            });
        });
    };
    hold("default", json!("manual"));
    hold("default-2", json!("manual"));
    (0..3).for_each(|host| world.want(host));
    world.pass(5 * HOUR).await;
    world.require(
        (0..3).all(|host| world.boots(host) == 0 && !world.cordoned(host)),
        "nobody goes",
    );
    world.require(world.holder("default").is_none(), "still the admin's");
    hold("default-2", json!(null));
    world
        .until("two have rebooted", HOUR, |world| {
            (0..3).filter(|host| world.boots(*host) == 1).count() >= 2
        })
        .await;
    world.require(world.holder("default").is_none(), "still the admin's");
    hold("default", json!(null));
    world.until_rebooted(&[0, 1, 2], 1, HOUR).await;
}
