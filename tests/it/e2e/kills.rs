//! Killed anywhere, it finishes (I6): SIGKILL and `systemctl restart` in every phase that waits.

use testbed::Host;

use super::{Site, pods};

/// Long enough to be killed in while the host waits to go down.
const INHIBIT: &str = "[Login]\nInhibitDelayMaxSec=10\n";

/// A made-up node that holds the slot.
const HOLDER: &str = "somebody-else";

#[test]
fn i6_sigkill_in_every_phase_reboots_once_and_leaves_nothing() {
    in_every_phase("kill", |host| {
        host.kill_daemon().unwrap();
        // Instead of RestartSec=; that it restarts by itself is seen while Queued.
        host.systemctl(&["start", "kube-rebootd"]).unwrap();
    });
}

#[test]
fn i6_a_restart_in_every_phase_reboots_once_and_leaves_nothing() {
    in_every_phase("restart", |host| {
        host.systemctl(&["restart", "kube-rebootd"]).unwrap();
    });
}

fn in_every_phase(group: &str, end: fn(&Host)) {
    let site = Site::new(group, 1);
    let lease = &site.leases()[0];
    site.hold_by_admin(lease, HOLDER);
    let name = format!("{group}-1");
    let config = "[drain]\nmode = \"always\"\nunmanaged = \"evict\"\n";
    let host = site.host(&name, config);
    let pod = format!("{group}-slow");
    pods::slow(&site, &host, &pod, 15);
    host.write("/etc/systemd/logind.conf.d/test.conf", INHIBIT)
        .unwrap();
    host.systemctl(&["restart", "systemd-logind"]).unwrap();
    host.systemctl(&["disable", "kubelet"]).unwrap();
    host.touch("/run/reboot-required").unwrap();

    let queued = format!("queued: {lease} is held by {HOLDER}");
    site.wait_status(&host, &queued);
    end(&host);
    site.wait_status(&host, &queued);
    site.hold_by_admin(lease, "");

    site.wait_status(&host, "draining: ");
    // Held by a process of its own, so that the shutdown waits for it and not for us.
    host.sh("systemd-run --unit=late systemd-inhibit --what=shutdown --mode=delay sleep 100")
        .unwrap();
    end(&host);
    site.wait_status(&host, "draining: ");
    assert_eq!(site.holder(lease), name);

    site.wait_status(&host, "rebooting: accepted by logind");
    end(&host);
    site.wait_status(&host, "rebooting: accepted by logind");
    assert_eq!(site.holder(lease), name);

    site.wait_status(&host, "verifying: ");
    end(&host);
    site.wait_status(&host, "verifying: ");
    assert_eq!(site.holder(lease), name);
    assert_eq!(host.boots().unwrap(), 2);
    host.systemctl(&["enable", "--now", "kubelet"]).unwrap();

    site.wait_rebooted(&host, 1);
    site.nothing_left(&host);
    pods::gone(&site, &pod);
}

#[test]
fn i6_it_restarts_by_itself_and_finishes_what_it_asked_for() {
    let site = Site::new("selfstart", 1);
    let host = site.host("selfstart-1", "");
    site.wait_status(&host, "idle");
    // Killed as soon as it says that it is about to reboot: before, at or after the call to logind.
    host.sh(
        "systemd-run --unit=killer sh -c 'journalctl -f -n 0 -u kube-rebootd PHASE=Rebooting | head -n 1 && systemctl kill -s KILL kube-rebootd'",
    )
    .unwrap();
    host.touch("/run/reboot-required").unwrap();
    site.wait_rebooted(&host, 1);
    site.nothing_left(&host);
}
