//! The main job, without any fault.

use serde_json::Value;

use super::world::{HOUR, Plan, World};

#[tokio::test(start_paused = true)]
async fn one_host_reboots_once_and_leaves_nothing() {
    let world = World::new(1, 1).await;
    world.want(0);
    world.until_rebooted(&[0], 1, HOUR).await;
    let phases = world.phases(0);
    let whole = [
        "Idle",
        "Queued",
        "Claiming",
        "Draining",
        "Rebooting",
        "Verifying",
        "Releasing",
        "Idle",
    ];
    let seen: Vec<&str> = phases.iter().map(String::as_str).collect();
    world.require(
        seen == whole || seen == [&whole[..1], &["Pending"], &whole[1..]].concat(),
        &format!("{seen:?}"),
    );
    // What the Node shows of how the time went.
    let node = world.node(0);
    let history = node["metadata"]["annotations"]["kube-rebootd/history"].as_str();
    let history: Value = serde_json::from_str(history.unwrap()).unwrap();
    let past = &history[0];
    let known = |key: &str| past["times"][key].is_u64();
    let since = past["since"].as_array().map(Vec::len);
    world.require(
        since == Some(1) && known("slot") && known("boot") && known("verify"),
        &format!("{past}"),
    );
    world.require(past["times"]["asked"].is_null(), &format!("{past}"));
}

#[tokio::test(start_paused = true)]
async fn i1_five_hosts_go_one_after_another() {
    let world = World::new(5, 1).await;
    (0..5).for_each(|host| world.want(host));
    world.until_rebooted(&[0, 1, 2, 3, 4], 1, HOUR).await;
}

#[tokio::test(start_paused = true)]
async fn i13_control_plane_nodes_go_one_at_a_time_on_three_slots() {
    let world = World::with(Plan {
        hosts: 3,
        slots: 3,
        quorum: 3,
        config: "",
    })
    .await;
    (0..3).for_each(|host| world.want(host));
    world.until_rebooted(&[0, 1, 2], 1, HOUR).await;
}
