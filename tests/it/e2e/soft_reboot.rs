//! Soft-reboots by a real systemd: userspace alone starts anew, and /run with the sentinel in it survives (I3, I4, I6, I8, I10).

use serde_json::{Value, json};
use testbed::{Host, HostSpec};

use super::Site;
use super::kills::killed;
use super::orders::status as shown;
use super::phases::{Journey, NEEDED};

/// In a container 252 shows a service that is kept from the kernel's settings the boot ID of the machine outside
/// (`packagers::versions`).
const SOFT: &str = "[reboot]\nkind = \"soft-reboot\"\n";
const OWN_BOOT_ID: &str = "[Service]\nProtectKernelTunables=no\nProtectControlGroups=no\n";

fn reported(site: &Site, host: &Host) -> Value {
    site.node(host)["status"]["nodeInfo"]["bootID"].clone()
}

/// What a file is known by.
fn identity(host: &Host, path: &str) -> String {
    host.sh(&format!("stat -c '%d:%i:%.Y' {path}")).unwrap()
}

#[test]
fn i4_i10_one_soft_reboot_for_a_sentinel_that_survives_it() {
    let site = Site::new("soft", 1);
    let host = site.host("soft-1", SOFT);
    site.wait_status(&host, "idle");
    let (boot, told) = (host.boot_id().unwrap(), reported(&site, &host));
    let (count, began) = host.soft_reboots().unwrap();
    assert_eq!(count, 0);
    let pid = host.sh("systemctl show -P MainPID kubelet").unwrap();
    host.write(NEEDED, "soft-reboot\n").unwrap();
    let file = identity(&host, NEEDED);
    site.wait_soft_rebooted(&host, 1);
    site.nothing_left(&host);
    // The kernel went on, and all else did not.
    assert_eq!((host.boots().unwrap(), host.boot_id().unwrap()), (1, boot));
    assert_eq!(reported(&site, &host), told);
    assert!(host.soft_reboots().unwrap().1 > began);
    assert_ne!(host.sh("systemctl show -P MainPID kubelet").unwrap(), pid);
    assert_eq!(identity(&host, NEEDED), file, "/run survives");
    let last = &shown(&host)["history"][0];
    assert_eq!(last["kind"], "soft-reboot");
    assert_eq!(last["reasons"], json!(["sentinel /run/reboot-needed"]));
    site.wait_journal(
        &host,
        &[
            "a soft-reboot is required: sentinel /run/reboot-needed (asks for a soft-reboot)",
            "asking for the soft-reboot",
            "the host has soft-rebooted",
        ],
    );
    // Nobody asks again, and it is no trouble, also for a daemon that reads all anew.
    host.systemctl(&["restart", "kube-rebootd"]).unwrap();
    site.wait_status(&host, "idle: no reboot needed");
    assert_eq!(host.soft_reboots().unwrap().0, 1);
    // A kernel is among it now: only a full reboot brings that.
    host.write(NEEDED, "reboot\n").unwrap();
    site.wait_rebooted(&host, 1);
    site.nothing_left(&host);
    assert_eq!(
        host.soft_reboots().unwrap().0,
        0,
        "the counter of another boot"
    );
    assert_eq!(shown(&host)["history"][0]["kind"], "reboot");
}

#[test]
fn i6_sigkill_in_every_phase_soft_reboots_once_and_leaves_nothing() {
    let site = Site::new("softkill", 1);
    let journey = Journey::with(site, |spec| {
        spec.file("/etc/kube-rebootd/config.d/50-soft.toml", SOFT)
    });
    journey
        .softly()
        .in_every_phase(|on, _| killed(&on.site, &on.host));
}

/// Somebody soft-reboots a host that is to have a full reboot: the boot is proved, and the full one comes.
#[test]
fn i10_a_soft_reboot_by_hand_serves_no_full_request() {
    let site = Site::new("softhand", 1);
    let host = site.host("softhand-1", "[gates]\nmin_uptime = \"300d\"\n");
    host.touch("/run/reboot-required").unwrap();
    site.wait_status(&host, "gates.min_uptime");
    host.sh("kube-rebootd reboot --kind reboot --reason firmware")
        .unwrap();
    let before = host.daemon_pid().unwrap();
    host.sh("systemctl --no-block soft-reboot").unwrap();
    site.wait("the daemon of the new userspace", || {
        let pid = host.daemon_pid()?;
        let other = pid != before && pid != "0";
        Ok(other && host.soft_reboots()?.0 == 1 && host.status()?.contains("gates.min_uptime"))
    });
    // The person's wish was for a full one, and stands.
    let reasons = shown(&host)["reasons"].to_string();
    assert!(reasons.contains("firmware"), "{reasons}");
    host.sh("kube-rebootd reboot --kind reboot --now --reason firmware")
        .unwrap();
    site.wait_rebooted(&host, 1);
    site.nothing_left(&host);
}

/// systemd 252 has none: nothing is taken or drained for it, and no full reboot passes for it, until a person asks for one.
#[test]
fn i8_on_systemd_252_a_soft_reboot_is_refused_with_its_reason() {
    let site = Site::new("softold", 1);
    let spec = HostSpec {
        suite: "bookworm".to_owned(),
        ..HostSpec::named("softold-1").config(site.config(SOFT))
    };
    let spec = spec.file(
        "/etc/systemd/system/kube-rebootd.service.d/container.conf",
        OWN_BOOT_ID,
    );
    let host = site.boot(&spec);
    host.write(NEEDED, "soft-reboot\n").unwrap();
    site.wait_status(&host, "systemd 252 of this host has none");
    assert!(!site.cordoned(&host));
    assert_eq!(site.holder(&site.leases()[0]), "");
    let explained = host.run(&["kube-rebootd", "explain", "--json"]).unwrap();
    let explained: Value = serde_json::from_str(&explained.stdout).unwrap();
    assert_eq!(explained["reason"], "SoftRebootNotDone");
    assert_eq!(explained["kind"], "soft-reboot");
    let gates = explained["gates"].as_array().cloned().unwrap_or_default();
    let gate = gates.iter().find(|one| one["gate"] == "soft-reboot");
    assert_eq!(gate.unwrap()["state"], "closed");
    // Whoever asks for one is told at once.
    let asked = host
        .run(&["kube-rebootd", "reboot", "--kind", "soft-reboot"])
        .unwrap();
    assert_eq!(asked.code, 1, "{asked:?}");
    assert!(asked.stderr.contains("systemd 252"), "{asked:?}");
    // That is what logind would say, and it does nothing.
    let flag = "busctl call org.freedesktop.login1 /org/freedesktop/login1 org.freedesktop.login1.Manager RebootWithFlags t 4";
    let refused = host.run(&["sh", "-c", flag]).unwrap();
    assert!(
        refused.stderr.contains("Invalid flags parameter"),
        "{refused:?}"
    );
    assert_eq!(host.boots().unwrap(), 1);
    host.sh("kube-rebootd reboot --kind reboot").unwrap();
    site.wait_rebooted(&host, 1);
    site.nothing_left(&host);
}
