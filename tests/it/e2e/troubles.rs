//! The host itself is in trouble: its buses and logs restart, its disk is full, its triggers and signals
//! come in floods. Alive all along, at most one reboot, and a clean end (I6, I8, I10).

use super::phases::{Journey, PHASES, Phase};
use super::{Site, pods};

const DRAIN: &str = "[drain]\nmode = \"always\"\nunmanaged = \"evict\"\n[reboot]\nretry = \"1s\"\n";

/// Restarted in every phase, without the daemon's process ending.
fn restarted_in_every_phase(group: &str, unit: &str) {
    Journey::new(group).in_every_phase(|on, _| {
        let before = on.host.daemon_pid().unwrap();
        on.host.systemctl(&["restart", unit]).unwrap();
        assert_eq!(on.host.daemon_pid().unwrap(), before, "the daemon ended");
    });
}

#[test]
fn i6_logind_restarted_in_every_phase() {
    restarted_in_every_phase("logind", "systemd-logind");
}

#[test]
fn i6_journald_restarted_in_every_phase() {
    restarted_in_every_phase("journald", "systemd-journald");
}

/// logind does not come back to a bus that was restarted (seen with 257), until it is restarted too.
#[test]
fn i8_dbus_restarted_closes_the_gate_until_logind_answers() {
    let on = Journey::new("dbus");
    on.begin();
    for phase in PHASES {
        on.reach(phase);
        let before = on.host.daemon_pid().unwrap();
        // A shutdown that logind only delays yet is forgotten with it.
        if phase != Phase::Rebooting {
            on.host.sh("systemctl restart dbus").unwrap();
        }
        if phase == Phase::Queued {
            on.site
                .wait_status(&on.host, "not known whether something inhibits a shutdown");
        }
        if phase != Phase::Rebooting {
            on.host.sh("systemctl restart systemd-logind").unwrap();
        }
        assert_eq!(on.host.daemon_pid().unwrap(), before, "the daemon ended");
        on.reach(phase);
        on.leave(phase);
    }
    on.end();
}

#[test]
fn i6_without_journald_the_whole_cycle_goes_on() {
    let site = Site::new("nolog", 1);
    let host = site.host("nolog-1", DRAIN);
    pods::slow(&site, &host, "nolog-slow", 3);
    site.wait_status(&host, "idle");
    host.sh("systemctl stop 'systemd-journald*'").unwrap();
    host.touch("/run/reboot-required").unwrap();
    site.wait_rebooted(&host, 1);
    site.nothing_left(&host);
    pods::gone(&site, "nolog-slow");
}

/// A disk of its own for the state, and nothing left on it.
const FULL: &str = "mkdir -p /var/lib/kube-rebootd && mount -t tmpfs -o size=64k tmpfs /var/lib/kube-rebootd && \
                    { cat /dev/zero > /var/lib/kube-rebootd/full || true; } 2>&1";
const READ_ONLY: &str = "mount --bind /var/lib/kube-rebootd /var/lib/kube-rebootd && \
                         mount -o remount,bind,ro /var/lib/kube-rebootd";
const UNWRITABLE: &str = "the state file cannot be written";

/// Before the request no slot is taken; in mid-drain the hold is undone; each until it can be written.
fn unwritable(group: &str, break_it: &str, mend_it: &str) {
    let site = Site::new(group, 1);
    let lease = &site.leases()[0];
    let host = site.host(&format!("{group}-1"), DRAIN);
    let pod = format!("{group}-held");
    pods::held(&site, &host, &pod);
    site.wait_status(&host, "idle");
    let breaks = || {
        host.sh(break_it).unwrap();
        host.systemctl(&["restart", "kube-rebootd"]).unwrap();
    };
    let mends = || {
        host.sh(mend_it).unwrap();
    };
    breaks();
    host.touch("/run/reboot-required").unwrap();
    site.wait_status(&host, UNWRITABLE);
    assert_eq!(site.holder(lease), "");
    mends();
    site.wait_status(&host, "draining: ");
    breaks();
    site.wait_status(&host, UNWRITABLE);
    assert_eq!(site.holder(lease), "");
    assert!(!site.cordoned(&host));
    assert_eq!(host.boots().unwrap(), 1);
    mends();
    pods::let_go(&site, &pod);
    site.wait_rebooted(&host, 1);
    site.nothing_left(&host);
    pods::gone(&site, &pod);
}

#[test]
fn i6_a_full_disk_takes_no_slot_and_gives_back_the_one_it_has() {
    unwritable("fulldisk", FULL, "umount -l /var/lib/kube-rebootd");
}

#[test]
fn i6_a_read_only_disk_takes_no_slot_and_gives_back_the_one_it_has() {
    unwritable("ro", READ_ONLY, "umount -l /var/lib/kube-rebootd");
}

#[test]
fn i10_a_flood_of_signals_and_of_flipping_sentinels_is_one_reboot() {
    let site = Site::new("flood", 1);
    let host = site.host("flood-1", DRAIN);
    pods::slow(&site, &host, "flood-slow", 8);
    site.wait_status(&host, "idle");
    let before = host.daemon_pid().unwrap();
    // A process of the host's own; its last word is that there is one.
    let flip = "for i in $(seq 150); do touch /run/reboot-required; sleep 0.01; \
                rm /run/reboot-required; sleep 0.01; done; touch /run/reboot-required";
    host.sh(&format!("systemd-run --quiet --unit=flip sh -c '{flip}'"))
        .unwrap();
    let storm = format!("for i in $(seq 500); do kill -HUP {before}; sleep 0.002; done");
    host.sh(&format!("systemd-run --quiet --unit=storm sh -c '{storm}'"))
        .unwrap();
    site.wait_journal(&host, &["cordoning the node"]);
    assert_eq!(host.daemon_pid().unwrap(), before, "the daemon ended");
    site.wait_rebooted(&host, 1);
    site.nothing_left(&host);
    pods::gone(&site, "flood-slow");
}
