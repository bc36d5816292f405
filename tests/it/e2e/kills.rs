//! Killed anywhere, it finishes (I6): SIGKILL, `systemctl restart` and `try-restart` in every phase that
//! waits; stopped, and started when all else has moved on.

use testbed::{Host, HostSpec, Runtime};

use super::Site;
use super::phases::{Journey, PHASES, Phase};

#[test]
fn i6_sigkill_in_every_phase_reboots_once_and_leaves_nothing() {
    // With the real kubelet, whose pods and mounts go on while the daemon is away.
    let real = |spec: HostSpec| spec.on(Runtime::Containerd);
    Journey::with(Site::new("kill", 1), real).in_every_phase(|on, _| killed(&on.site, &on.host));
}

/// By SIGKILL, and started anew.
pub(super) fn killed(site: &Site, host: &Host) {
    let before = host.daemon_pid().unwrap();
    assert_ne!(before, "0", "it does not run");
    host.kill_daemon().unwrap();
    site.wait("systemd to see that it was killed", || {
        Ok(host.daemon_pid()? != before)
    });
    // Instead of RestartSec=; that it restarts by itself is seen below.
    host.systemctl(&["start", "kube-rebootd"]).unwrap();
}

#[test]
fn i6_a_restart_in_every_phase_reboots_once_and_leaves_nothing() {
    Journey::new("restart").in_every_phase(|on, _| {
        let mut before = on.host.daemon_pid().unwrap();
        for verb in ["restart", "try-restart"] {
            on.host.systemctl(&[verb, "kube-rebootd"]).unwrap();
            let after = on.host.daemon_pid().unwrap();
            assert!(
                after != "0" && after != before,
                "{verb}: {before}, then {after}"
            );
            before = after;
        }
    });
}

#[test]
fn i6_stopped_in_every_phase_it_goes_on_when_it_is_started_later() {
    let on = Journey::new("later");
    on.begin();
    for phase in PHASES {
        on.reach(phase);
        on.host.systemctl(&["stop", "kube-rebootd"]).unwrap();
        // Everything else goes on meanwhile, as it would in an hour.
        on.leave(phase);
        // The host goes down without the daemon that asked for it, and starts it again.
        if phase == Phase::Rebooting {
            continue;
        }
        on.host.systemctl(&["start", "kube-rebootd"]).unwrap();
    }
    on.end();
}

#[test]
fn i6_it_restarts_by_itself_and_finishes_what_it_asked_for() {
    let site = Site::new("selfstart", 1);
    let host = site.host("selfstart-1", "");
    site.wait_status(&host, "idle");
    // Killed as soon as it says that it is about to reboot: before, at or after the call to logind. The shutdown waits up
    // to five seconds (InhibitDelayMaxSec), else it may be quicker than the killer.
    host.delay_shutdowns().unwrap();
    host.sh(
        "systemd-run --unit=killer sh -c 'journalctl -f -n 0 -u kube-rebootd PHASE=Rebooting | head -n 1 && systemctl kill -s KILL kube-rebootd'",
    )
    .unwrap();
    host.touch("/run/reboot-required").unwrap();
    site.wait_rebooted(&host, 1);
    site.nothing_left(&host);
    let journal = host.journal("kube-rebootd").unwrap();
    let killed = "Main process exited, code=killed, status=9/KILL";
    assert!(journal.contains(killed), "nobody killed it:\n{journal}");
}
