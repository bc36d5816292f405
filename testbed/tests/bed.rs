//! The bed itself: a host boots, joins, reboots by its own logind, and everything of a bed goes with
//! it. They need a bed that is up (`make bed`).

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use testbed::{Bed, HostSpec};

#[test]
fn a_host_boots_joins_and_reboots() {
    let bed = Bed::connect().unwrap();
    let host = bed
        .boot(&HostSpec {
            daemon: false,
            ..HostSpec::named("self-1")
        })
        .unwrap();
    bed.wait_ready("self-1").unwrap();
    let before = host.boot_id().unwrap();
    host.systemctl(&["reboot"]).unwrap();
    bed.wait_for("a new boot", Duration::from_secs(60), || {
        Ok(host.boot_id()? != before)
    })
    .unwrap();
    assert_eq!(host.boots().unwrap(), 2);
    bed.wait_ready("self-1").unwrap();
    assert!(host.journal("systemd-logind").unwrap().contains("reboot"));
}

#[test]
fn a_host_that_loses_power_comes_back() {
    let bed = Bed::connect().unwrap();
    let host = bed
        .boot(&HostSpec {
            daemon: false,
            kubelet: false,
            ..HostSpec::named("self-2")
        })
        .unwrap();
    let before = host.boot_id().unwrap();
    host.power_cut().unwrap();
    assert!(host.boot_id().is_err());
    host.power_on().unwrap();
    assert_ne!(host.boot_id().unwrap(), before);
}

#[test]
fn a_second_bed_stands_beside_the_first_and_leaves_nothing() {
    let name = format!("self-{}", std::process::id());
    let bed = Bed::up(&name).unwrap();
    assert_eq!(bed.kubectl(&["get", "--raw", "/readyz"]).unwrap(), "ok");
    Bed::down(&name).unwrap();
    assert!(
        !Path::new("/run/netns")
            .join(format!("kbed-{name}"))
            .exists()
    );
    assert!(!Path::new("/var/lib/kube-rebootd-bed").join(&name).exists());
    let left = Command::new("pgrep")
        .args(["-f", &format!("kube-rebootd-bed/{name}")])
        .output()
        .unwrap();
    assert_eq!(
        String::from_utf8_lossy(&left.stdout),
        "",
        "processes are left"
    );
    let mounts = std::fs::read_to_string("/proc/mounts").unwrap();
    assert!(!mounts.contains(&name), "mounts are left");
}
