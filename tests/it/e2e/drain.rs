//! Drains that do not go through: budgets, an uncordon, nowhere to go.

use std::time::Duration;

use testbed::Bed;

use super::workload::{Workload, budget, deployment, slow, spec};
use super::{Own, Site};

#[test]
fn i4_a_budget_that_allows_nothing_aborts_the_drain_and_hands_the_slot_on() {
    let site = Site::new("pdb", 1);
    // Long enough for the other host to be seen waiting, and back-offs that a test can wait for.
    let config = "[drain]\nmode = \"always\"\ntimeout = \"8s\"\n[reboot]\nretry = \"20s\"\n";
    let first = site.host("pdb-1", config);
    let second = site.host("pdb-2", config);
    let work = Workload::new(&site, "pdb");
    work.apply(&[deployment("web", 3, &spec(&first)), budget("web", "web", 0)]);
    work.wait_running(&first, 3);
    first.touch("/run/reboot-required").unwrap();
    site.wait_status(&first, &format!("blocked by budget {}/web", work.namespace));
    second.touch("/run/reboot-required").unwrap();
    site.wait_status(&first, "1 failed attempt, next in");
    assert!(!site.cordoned(&first), "still cordoned after the abort");
    let status = first.status().unwrap();
    assert!(status.contains("drain.timeout of 8s"), "{status}");
    site.wait_rebooted(&second, 1);
    assert_eq!(first.boots().unwrap(), 1, "rebooted against the budget");
    let answers = work.answers("web");
    assert!(answers.iter().all(|code| *code == 429), "{answers:?}");
    // Each of the three once, then one for all: at 1, 3 and 7 seconds, and what the jitter adds.
    assert!((4..=7).contains(&answers.len()), "{answers:?}");
    work.kubectl(&[
        "patch",
        "pdb",
        "web",
        "-p",
        r#"{"spec":{"maxUnavailable":3}}"#,
    ]);
    site.wait_rebooted(&first, 1);
    let accepted = work.answers("web").into_iter().filter(|code| *code == 201);
    assert_eq!(accepted.count(), 3);
    site.nothing_left(&first);
    site.nothing_left(&second);
}

#[test]
fn i3_an_uncordon_in_mid_drain_cancels() {
    let site = Site::new("uncordon", 1);
    let host = site.host("uncordon-1", "[drain]\nmode = \"always\"\n");
    let work = Workload::new(&site, "uncordon");
    work.apply(&[deployment("slow", 1, &slow(spec(&host), 15))]);
    work.wait_running(&host, 1);
    host.touch("/run/reboot-required").unwrap();
    let lease = site.leases().remove(0);
    site.wait("the pod to be terminating", || {
        let pod = work.pod(&host, "slow");
        Ok(pod.is_some_and(|pod| pod["metadata"]["deletionTimestamp"].is_string()))
    });
    assert_eq!(site.holder(&lease), host.name());
    site.kubectl(&["uncordon", host.name()]);
    site.wait_status(&host, "somebody uncordoned the node, which cancels");
    site.wait("the slot to be given up", || {
        Ok(site.holder(&lease).is_empty())
    });
    // Past the end of the drain: nothing is done any more.
    let gone = Duration::from_secs(40);
    site.bed
        .wait_for("the slow pod to be gone", gone, || {
            let pods = work.pods(&host);
            let going = |pod: &serde_json::Value| pod["metadata"]["deletionTimestamp"].is_string();
            Ok(!pods.iter().any(going))
        })
        .unwrap();
    assert_eq!(work.answers("slow"), [201]);
    assert_eq!(host.boots().unwrap(), 1);
    // It keeps its place in the queue as long as the request lasts.
    host.sh("rm /run/reboot-required").unwrap();
    site.wait_status(&host, "idle");
    site.nothing_left(&host);
}

#[test]
fn a_one_node_cluster_reboots_without_a_drain() {
    let own = Own::up("one-node");
    let site = Site::on(own.bed.clone(), "default", 1);
    let host = site.host("alone-1", "");
    let work = Workload::new(&site, "alone");
    // Neither could ever be evicted.
    work.apply(&[deployment("web", 2, &spec(&host)), budget("web", "web", 0)]);
    work.wait_running(&host, 2);
    host.touch("/run/reboot-required").unwrap();
    site.wait_rebooted(&host, 1);
    assert_eq!(work.evictions(), []);
    site.nothing_left(&host);
    work.wait_running(&host, 2);
    Bed::down(own.bed.name()).unwrap();
}
