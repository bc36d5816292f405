//! No reboot loop (I10): triggers that a reboot does not clear, and reboots by somebody else.

use super::{Site, pods};

/// A unit that makes the sentinel at every boot, as a badly written updater does.
const RECREATE: &str = "[Unit]
Description=Wants a reboot at every boot
Before=kube-rebootd.service
[Service]
Type=oneshot
ExecStart=touch /run/reboot-required
[Install]
WantedBy=multi-user.target
";

#[test]
fn i10_a_sentinel_on_disk_reboots_once_and_again_for_new_reasons_within_the_limit() {
    let site = Site::new("disk", 1);
    let host = site.host(
        "disk-1",
        "[triggers]\nsentinels = [\"/var/lib/updater/reboot\", \"/run/reboot-required\"]\n",
    );
    let sentinel = "/var/lib/updater/reboot";
    host.write(&format!("{sentinel}.pkgs"), "linux\n").unwrap();
    host.touch(sentinel).unwrap();
    let ignored = format!("idle: the last reboot did not clear sentinel {sentinel}; ignored");
    site.wait_rebooted(&host, 1);
    site.wait_status(&host, &ignored);

    // New reasons are a new request.
    host.write(&format!("{sentinel}.pkgs"), "linux\nglibc\n")
        .unwrap();
    host.touch(sentinel).unwrap();
    site.wait_rebooted(&host, 2);
    site.wait_status(&host, &ignored);

    // The third in 24 hours is refused, even by another trigger.
    host.touch("/run/reboot-required").unwrap();
    site.wait_status(&host, "reboot pending: reboot.max_per_day is reached");
    assert_eq!(host.boots().unwrap(), 3);
    site.nothing_left(&host);
}

#[test]
fn i10_what_comes_back_at_every_boot_is_reported_not_repeated() {
    let site = Site::new("again", 1);
    site.pause("test");
    let host = site.host(
        "again-1",
        "[[triggers.check]]\nname = \"always\"\ncommand = [\"true\"]\nreboot_exit_codes = [0]\n\
         period = \"10s\"\ntimeout = \"5s\"\nsettle = \"0s\"\n",
    );
    host.write("/etc/systemd/system/recreate.service", RECREATE)
        .unwrap();
    host.systemctl(&["enable", "--now", "recreate.service"])
        .unwrap();
    // Both reasons are in the one request before it may go.
    site.wait_status(&host, "group paused: test");
    let reasons = ["\"sentinel /run/reboot-required\"", "\"check always\""];
    site.wait_record(&host, &reasons);
    site.resume();
    let both = "did not clear sentinel /run/reboot-required, check always";
    site.wait_rebooted(&host, 1);
    site.wait_status(&host, both);

    // Gone and back within 15 minutes of the proof is still the same.
    host.sh("rm /run/reboot-required").unwrap();
    site.wait_status(&host, "did not clear check always;");
    host.touch("/run/reboot-required").unwrap();
    site.wait_status(&host, both);
    assert_eq!(host.boots().unwrap(), 2);
    site.nothing_left(&host);
}

#[test]
fn i10_a_reboot_by_somebody_else_in_mid_drain_is_the_one_reboot() {
    let site = Site::new("else", 1);
    let host = site.host(
        "else-1",
        "[drain]\nmode = \"always\"\nunmanaged = \"evict\"\n",
    );
    pods::slow(&site, &host, "else-slow", 600);
    host.touch("/run/reboot-required").unwrap();
    site.wait_status(&host, "draining: ");
    // Exit code and words of a command that the shutdown cuts off say nothing.
    let _ = host.run(&["systemctl", "reboot"]);
    site.wait_rebooted(&host, 1);
    site.nothing_left(&host);
    assert_eq!(host.boots().unwrap(), 2);
    let phases = Site::phases(&host).unwrap();
    assert!(phases.contains(&"Draining".to_owned()), "{phases:?}");
    assert!(phases.contains(&"Verifying".to_owned()), "{phases:?}");
    assert!(!phases.contains(&"Rebooting".to_owned()), "{phases:?}");
    pods::gone(&site, "else-slow");
}
