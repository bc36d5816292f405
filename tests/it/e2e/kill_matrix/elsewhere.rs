//! Killed after the effects that no cycle of a group with a Lease of its own comes to (I6).

use testbed::{Host, HostSpec};

use crate::e2e::workload::{Workload, budget, deployment, spec};
use crate::e2e::{Site, stop_points};
use crate::host_rebootmgr::CLIENT;

/// What asks for the reboot.
const SENTINEL: &str = "touch /run/reboot-required";

/// A host of the debug build that wants a reboot, killed at the point and started again.
fn killed_at(site: &Site, point: &str, config: &str, ask: &str) -> Host {
    let host = debug_build(site, config);
    killed(site, &host, point, ask);
    host
}

pub(in crate::e2e) fn debug_build(site: &Site, config: &str) -> Host {
    let name = format!("{}-1", site.group);
    let spec = stop_points::program(HostSpec::named(name));
    let host = site.boot(&spec.config(site.config(config)));
    site.wait_status(&host, "idle");
    host
}

fn killed(site: &Site, host: &Host, point: &str, ask: &str) {
    killed_when(site, host, point, || {
        host.sh(ask).unwrap();
    });
}

/// The same, whoever asks.
pub(in crate::e2e) fn killed_when(site: &Site, host: &Host, point: &str, ask: impl FnOnce()) {
    stop_points::record(host, Some(point)).unwrap();
    ask();
    let mut pid = None;
    site.wait("the daemon to stop itself", || {
        pid = stop_points::stopped(host);
        Ok(pid.is_some())
    });
    host.sh(&format!("kill -KILL {}", pid.unwrap())).unwrap();
    host.systemctl(&["start", "kube-rebootd"]).unwrap();
}

/// Only the group `default` may make its Lease itself.
#[test]
fn i6_killed_after_making_the_first_lease_it_reboots_once() {
    let shared = Site::new("kmd", 1);
    let site = Site {
        bed: shared.bed.clone(),
        group: "default".to_owned(),
    };
    assert!(site.leases().is_empty(), "somebody uses the group default");
    let host = killed_at(&site, "did CreateLease*", "", SENTINEL);
    site.wait_status(&host, "group paused: ");
    assert_eq!(site.leases(), ["default"]);
    site.resume();
    site.wait_rebooted(&host, 1);
    site.nothing_left(&host);
}

#[test]
fn i6_killed_after_clearing_the_slot_of_a_node_that_is_gone_it_reboots_once() {
    let site = Site::new("kmc", 1);
    site.hold_by_admin("kmc", "never-was");
    let config = "stale_after = \"2s\"\n";
    let host = killed_at(&site, "did Clear*", config, SENTINEL);
    site.wait_rebooted(&host, 1);
    site.nothing_left(&host);
}

#[test]
fn i6_killed_after_cancelling_a_scheduled_reboot_it_reboots_once() {
    let site = Site::new("kms", 1);
    let config = "[triggers]\nscheduled_shutdown = \"adopt\"\n";
    let host = killed_at(&site, "did CancelShutdown*", config, "shutdown -r +5");
    site.wait_rebooted(&host, 1);
    site.nothing_left(&host);
    host.sh("test ! -e /run/systemd/shutdown/scheduled")
        .unwrap();
}

/// Between the end of the drain and the last reads.
#[test]
fn i6_killed_after_telling_what_it_does_it_reboots_once() {
    let site = Site::new("kmt", 1);
    let host = killed_at(&site, "did Tell rebooting", "", SENTINEL);
    site.wait_rebooted(&host, 1);
    site.nothing_left(&host);
}

/// A pod is deleted past its budget: by the daemon that was killed, and not by the next one a second time.
#[test]
fn i6_i9_killed_after_escalating_it_reboots_once() {
    const ESCALATE: &str = "[drain]\nmode = \"always\"\n\
        [[drain.escalate]]\nname = \"web\"\npods = [\"app=web\"]\nafter = \"5s\"\naction = \"delete\"\n";
    let site = Site::new("kme", 1);
    let host = debug_build(&site, ESCALATE);
    let work = Workload::new(&site, "kme");
    work.apply(&[deployment("web", 1, &spec(&host)), budget("web", "web", 0)]);
    work.wait_running(&host, 1);
    killed(&site, &host, "did Escalate draining", SENTINEL);
    site.wait_rebooted(&host, 1);
    site.nothing_left(&host);
}

/// Who asked rebootmgr was not answered, and what it asked for is on record.
#[test]
fn i6_killed_before_a_client_of_rebootmgr_is_answered_it_reboots_once() {
    let site = Site::new("kmr", 1);
    let host = debug_build(&site, "[triggers]\nrebootmgr = true\n");
    host.write("/usr/local/lib/client", CLIENT).unwrap();
    let call =
        r#"{"method":"org.openSUSE.rebootmgr.Reboot","parameters":{"Reboot":1,"Force":false}}"#;
    let ask = format!(
        "systemd-run --quiet perl /usr/local/lib/client /run/rebootmgr/rebootmgrd.socket '{call}'"
    );
    killed(&site, &host, "wrote an order", &ask);
    site.wait_rebooted(&host, 1);
    site.nothing_left(&host);
}

/// A request, and hooks: what those before the cordon and before the reboot set, that of `undo.d` takes back.
const HOOKED: &str = r"
set -e
cd /etc/kube-rebootd
for hook in pre-drain pre-reboot undo; do
    mkdir -p hooks/$hook.d
    echo '#!/bin/sh' > hooks/$hook.d/10-set
    chmod 755 hooks/$hook.d/10-set
done
for hook in pre-drain pre-reboot; do
    echo 'touch /var/lib/set-by-hooks' >> hooks/$hook.d/10-set
done
echo 'rm -f /var/lib/set-by-hooks; echo >> /var/lib/taken-back' >> hooks/undo.d/10-set
touch /run/reboot-required";

/// Before the cordon, after the drain, and before the Lease is given up.
#[test]
fn i3_i6_killed_beside_a_hook_it_reboots_once_and_takes_back_what_hooks_set() {
    for (group, stage) in [
        ("kmha", "claiming"),
        ("kmhb", "draining"),
        ("kmhc", "releasing"),
    ] {
        let site = Site::new(group, 1);
        let point = format!("did Hooks {stage}");
        let host = killed_at(&site, &point, "", HOOKED);
        site.wait_rebooted(&host, 1);
        site.nothing_left(&host);
        host.sh("test ! -e /var/lib/set-by-hooks && test -s /var/lib/taken-back")
            .unwrap();
    }
}
