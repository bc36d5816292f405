//! A node that is kept drained for a person or a script, on real hosts (I1, I3, I4).

use std::thread;

use serde_json::json;
use testbed::HostSpec;

use super::orders::{says, status};
use super::workload::{Workload, budget, deployment, spec};
use super::{Site, stop_points};

/// Over a reboot by hand; another node that wants one waits, and pods come back after the proof alone.
#[test]
fn i1_i4_a_node_is_kept_drained_over_a_reboot_until_undrain() {
    let site = Site::new("maintained", 1);
    let host = site.host("maintained-1", "[drain]\nmode = \"always\"\n");
    let other = site.host("maintained-2", "[drain]\nmode = \"always\"\n");
    site.wait_status(&host, "idle");
    let words = ["drain", "--reason", "a new disk", "--wait", "5m"];
    let (code, said) = says(&host, &words);
    assert_eq!(
        (code, said.contains("until kube-rebootd undrain")),
        (0, true),
        "{said}"
    );
    assert!(site.cordoned(&host));
    assert_eq!(status(&host)["phase"], "drained");
    assert_eq!(status(&host)["kept_by"], json!(["kube-rebootd drain"]));
    site.wait("the condition", || {
        let maintained = site.bed.condition(host.name(), "MaintenanceInProgress")? == "True";
        Ok(maintained && site.bed.condition(host.name(), "RebootRequired")? == "False")
    });
    // The host itself wants a reboot as well, and so does the other.
    host.touch("/run/reboot-required").unwrap();
    other.touch("/run/reboot-required").unwrap();
    site.wait_status(&other, &format!("is held by {}", host.name()));
    host.systemctl(&["reboot"]).unwrap();
    site.wait("the reboot", || Ok(host.boots()? == 2));
    site.wait_status(
        &host,
        "drained: kept so for kube-rebootd drain (a new disk)",
    );
    assert!(site.cordoned(&host));
    assert_eq!(other.boots().unwrap(), 1);
    let (code, said) = says(&host, &["undrain", "--wait", "5m"]);
    assert_eq!((code, said.contains("proved healthy")), (0, true), "{said}");
    site.wait("the uncordon", || Ok(!site.cordoned(&host)));
    site.wait_rebooted(&other, 1);
    // What asked went with the reboot; what is on record is what the slot was held for.
    assert_eq!(
        status(&host)["history"][0]["reasons"],
        json!(["kube-rebootd drain"])
    );
    assert_eq!(host.boots().unwrap(), 2);
    site.nothing_left(&host);
    site.nothing_left(&other);
}

/// A kubelet that was worked on must be heard once more, although the host never rebooted.
#[test]
fn i4_a_kubelet_that_is_off_after_maintenance_keeps_the_node_cordoned() {
    let site = Site::new("worked-on", 1);
    let host = site.host("worked-on-1", "[drain]\nmode = \"always\"\n");
    site.wait_status(&host, "idle");
    assert_eq!(says(&host, &["hold", "--wait", "5m"]).0, 0);
    host.systemctl(&["stop", "kubelet"]).unwrap();
    assert_eq!(says(&host, &["release"]).0, 0);
    site.wait_status(&host, "no sign of the kubelet");
    assert!(site.cordoned(&host));
    assert_eq!(site.holder(&site.leases()[0]), host.name());
    host.systemctl(&["start", "kubelet"]).unwrap();
    site.wait_status(&host, "idle: no reboot needed");
    assert_eq!(host.boots().unwrap(), 1);
    site.nothing_left(&host);
}

/// A budget that lets nobody go: the script gets its answer, and nobody waits for a slot that it does not use.
#[test]
fn a_script_that_does_not_get_the_slot_takes_its_wish_back() {
    let site = Site::new("held-up", 1);
    let host = site.host("held-up-1", "[drain]\nmode = \"always\"\n");
    let work = Workload::new(&site, "held-up");
    work.apply(&[deployment("app", 1, &spec(&host)), budget("none", "app", 0)]);
    work.wait_running(&host, 1);
    let (code, said) = says(&host, &["hold", "--wait", "5s"]);
    assert_eq!(code, 75, "{said}");
    assert!(
        said.contains("not within 5s: ") && said.contains("taken back: kube-rebootd hold"),
        "{said}"
    );
    site.wait_status(&host, "idle: no reboot needed");
    // A person's stays, and ends with somebody's uncordon.
    assert_eq!(says(&host, &["drain", "--wait", "5s"]).0, 75);
    site.wait("the cordon", || Ok(site.cordoned(&host)));
    let waits = thread::scope(|scope| {
        let waits = scope.spawn(|| says(&host, &["drain", "--wait", "5m"]));
        site.wait_status(&host, "draining");
        site.kubectl(&["uncordon", host.name()]);
        waits.join().unwrap()
    });
    assert_eq!(waits.0, 75, "{}", waits.1);
    assert!(
        waits.1.contains("somebody took it back meanwhile"),
        "{}",
        waits.1
    );
    site.wait_status(&host, "idle: no reboot needed");
    site.nothing_left(&host);
}

/// I6: the daemon is killed when the order is on disk and nobody has been told. A reboot that root asked for is done once; a
/// script, which has no answer, takes its wish back from the daemon that comes after.
#[test]
fn i6_a_daemon_that_is_killed_with_an_order_on_disk_leaves_nothing() {
    let site = Site::new("killed-ord", 1);
    let config = site.config("[drain]\nmode = \"always\"\n");
    let spec = stop_points::program(HostSpec::named("killed-ord-1")).config(config);
    let host = site.boot(&spec);
    site.wait_status(&host, "idle");
    let killed = |words: &[&str]| {
        stop_points::record(&host, Some("wrote an order")).unwrap();
        thread::scope(|scope| {
            let asks = scope.spawn(|| says(&host, words));
            let mut stopped = None;
            site.wait("the order", || {
                stopped = stop_points::stopped(&host);
                Ok(stopped.is_some())
            });
            host.run(&["kill", "-9", &stopped.unwrap()]).unwrap();
            asks.join().unwrap()
        })
    };
    let (code, said) = killed(&["hold", "--wait", "5m"]);
    assert_ne!(code, 0, "{said}");
    assert!(said.contains("taken back: kube-rebootd hold"), "{said}");
    site.wait_status(&host, "idle: no reboot needed");
    assert!(!site.cordoned(&host));
    let (code, said) = killed(&["reboot", "--reason", "firmware"]);
    assert_ne!(code, 0, "{said}");
    site.wait_rebooted(&host, 1);
    assert_eq!(host.boots().unwrap(), 2);
    site.nothing_left(&host);
}
