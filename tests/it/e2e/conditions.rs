//! What the cluster sees of a real node: the conditions on its Node, beside the kubelet's (docs/design.md 11).

use jiff::Timestamp;
use serde_json::Value;
use testbed::Host;

use super::{Site, pods};

const DRAINS: &str = "[drain]\nmode = \"always\"\nunmanaged = \"evict\"\n";

fn conditions(site: &Site, host: &Host) -> Vec<Value> {
    let node = site.node(host);
    let conditions = node["status"]["conditions"].as_array();
    conditions.cloned().unwrap_or_default()
}

/// `status reason` of a condition; empty: the Node has none.
fn said(site: &Site, host: &Host, kind: &str) -> String {
    let all = conditions(site, host);
    let one = all.iter().find(|one| one["type"] == kind);
    let word = |one: &Value, key: &str| one[key].as_str().unwrap_or_default().to_owned();
    one.map_or_else(String::new, |one| {
        format!("{} {}", word(one, "status"), word(one, "reason"))
    })
}

fn wait_said(site: &Site, host: &Host, kind: &str, expected: &str) {
    site.wait(&format!("{kind} to be {expected}"), || {
        let said = said(site, host, kind);
        anyhow::ensure!(said == expected, "it is {said:?}");
        Ok(true)
    });
}

/// Of the command in docs/operating.md that prints a table of all nodes.
fn columns() -> &'static str {
    let page = include_str!("../../../docs/operating.md");
    let (_, rest) = page
        .split_once("kubectl get nodes -o custom-columns='")
        .unwrap();
    let (columns, _) = rest.split_once('\'').unwrap();
    columns
}

/// `kubectl describe node` tells the way that the condition went.
fn described(site: &Site, host: &Host) {
    site.wait("the Events to be described", || {
        let text = site.kubectl(&["describe", "node", host.name()]);
        let (_, events) = text.split_once("\nEvents:").unwrap_or_default();
        let lines = events
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>());
        let ours = lines.filter(|words| words.contains(&"kube-rebootd"));
        let told: Vec<&str> = ours.filter_map(|words| words.get(1).copied()).collect();
        for reason in [
            "Queued",
            "Paused",
            "Draining",
            "Rebooting",
            "Verifying",
            "Idle",
        ] {
            anyhow::ensure!(told.contains(&reason), "no {reason} among {told:?}: {text}");
        }
        Ok(true)
    });
}

/// What the daemon wrote, in order: reason of `RebootRequired`, and since when it is required.
fn written(site: &Site, host: &Host, began: Timestamp) -> Vec<(String, String)> {
    let mut requests = site.bed.requests_by("kube-rebootd/").unwrap();
    requests.retain(|request| {
        let ours = request.resource == "nodes/status" && request.name == host.name();
        ours && request.code == 200 && request.at >= began
    });
    let read = |request: &testbed::Request| {
        let body = request.request.as_ref()?;
        let all = body["status"]["conditions"].as_array()?;
        let one = all.iter().find(|one| one["type"] == "RebootRequired")?;
        let word = |key: &str| one[key].as_str().unwrap_or_default().to_owned();
        Some((word("reason"), word("lastTransitionTime")))
    };
    requests.iter().filter_map(read).collect()
}

/// The kubelet writes its own conditions before and after the boot, and ours stay what they were: the time since which a
/// reboot is required is that of before the boot.
#[test]
fn conditions_tell_a_whole_cycle_and_the_kubelet_leaves_them_alone() {
    let site = Site::new("cond", 1);
    let lease = &site.leases()[0];
    let began = Timestamp::now();
    let host = site.host("cond-1", DRAINS);
    wait_said(&site, &host, "RebootRequired", "False Idle");
    let of_the_kubelet = conditions(&site, &host).len();
    site.hold_by_admin(lease, "somebody");
    host.touch("/run/reboot-required").unwrap();
    wait_said(&site, &host, "RebootRequired", "True Queued");
    assert_eq!(said(&site, &host, "MaintenancePlanned"), "True KubeRebootd");
    let table = site.kubectl(&[
        "get",
        "nodes",
        "-o",
        &format!("custom-columns={}", columns()),
    ]);
    let row = table.lines().find(|line| line.starts_with("cond-1 "));
    assert!(row.is_some_and(|row| row.contains(" Queued ")), "{table}");
    site.pause("the rack is moved");
    site.hold_by_admin(lease, "");
    wait_said(&site, &host, "RebootRequired", "True Paused");
    pods::slow(&site, &host, "cond-slow", 8);
    site.resume();
    wait_said(&site, &host, "DrainInProgress", "True KubeRebootd");
    site.wait_rebooted(&host, 1);
    wait_said(&site, &host, "RebootRequired", "False Idle");
    for kind in [
        "MaintenancePlanned",
        "DrainInProgress",
        "Drained",
        "MaintenanceInProgress",
    ] {
        assert_eq!(said(&site, &host, kind), "False KubeRebootd");
    }
    assert_eq!(conditions(&site, &host).len(), of_the_kubelet + 4);
    let fleet = host.sh("kube-rebootd nodes --json").unwrap();
    let fleet: Value = serde_json::from_str(&fleet).unwrap();
    let nodes = fleet["nodes"].as_array().unwrap();
    let own = nodes.iter().find(|node| node["node"] == "cond-1").unwrap();
    assert_eq!(
        (&own["required"], &own["reason"]),
        (&"False".into(), &"Idle".into())
    );
    assert_eq!(own["group"], site.group.as_str());
    assert_eq!(own["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(
        (&own["person"], &own["cordon"]),
        (&Value::Null, &Value::Null)
    );
    let reasons = own["last_reboot"]["reasons"].to_string();
    assert!(reasons.contains("sentinel"), "{own}");
    described(&site, &host);
    let told = written(&site, &host, began);
    let times = |reason: &str| {
        let of = told.iter().filter(|(told, _)| told == reason);
        of.map(|(_, time)| time.clone()).collect::<Vec<_>>()
    };
    let (down, up) = (times("Rebooting"), times("Verifying"));
    assert_eq!((down.len(), up.len()), (1, 1), "{told:?}");
    assert_eq!(down, up, "the kubelet took ours away: {told:?}");
    assert_eq!(times("Queued").first(), down.first(), "{told:?}");
    pods::gone(&site, "cond-slow");
}

/// Whoever takes the daemon off a node leaves nothing there that nobody will ever change.
#[test]
fn undrain_takes_the_conditions_away() {
    let site = Site::new("cond-off", 1);
    let host = site.host("cond-off-1", "");
    wait_said(&site, &host, "RebootRequired", "False Idle");
    host.systemctl(&["stop", "kube-rebootd"]).unwrap();
    host.sh("kube-rebootd undrain --release").unwrap();
    assert_eq!(said(&site, &host, "RebootRequired"), "");
    let node = site.node(&host);
    let annotations = node["metadata"]["annotations"].as_object();
    let ours = annotations.into_iter().flatten();
    let ours: Vec<&String> = ours
        .map(|(key, _)| key)
        .filter(|key| key.starts_with("kube-rebootd/"))
        .collect();
    assert!(ours.is_empty(), "{ours:?}");
    assert!(said(&site, &host, "Ready").starts_with("True "));
    host.systemctl(&["start", "kube-rebootd"]).unwrap();
    wait_said(&site, &host, "RebootRequired", "False Idle");
}
