//! What stops a host before the drain, in mid-drain and after the boot (I2, I4, I8).

use testbed::Host;

use super::{Site, pods};

/// The drain of a slow pod is tried again soon.
const SLOW: &str = "[drain]\nmode = \"always\"\nunmanaged = \"evict\"\n[reboot]\nretry = \"1s\"\n";

/// Another process says that the host must not go down.
fn inhibit(host: &Host) {
    host.sh(
        "systemd-run --unit=backup systemd-inhibit --what=shutdown --mode=block \
         --who=backup --why=runs sleep infinity",
    )
    .unwrap();
}

#[test]
fn i4_a_ready_from_before_the_boot_does_not_count() {
    let site = Site::new("stale", 1);
    let lease = &site.leases()[0];
    let host = site.host("stale-1", "");
    site.wait_status(&host, "idle");
    host.systemctl(&["disable", "kubelet"]).unwrap();
    host.touch("/run/reboot-required").unwrap();
    site.wait_status(&host, "verifying: ");
    assert_eq!(host.boots().unwrap(), 2);
    site.wait_status(&host, "kubelet");
    assert_eq!(ready(&site, &host), "True", "nobody withdrew it yet");
    assert_eq!(site.holder(lease), host.name());
    assert!(site.cordoned(&host));
    // Long enough for anybody who believes in it to have gone on.
    site.wait("Ready to be withdrawn", || {
        Ok(ready(&site, &host) == "Unknown")
    });
    assert_eq!(site.holder(lease), host.name());
    assert!(site.cordoned(&host));
    host.systemctl(&["enable", "--now", "kubelet"]).unwrap();
    site.wait_rebooted(&host, 1);
    site.nothing_left(&host);
}

fn ready(site: &Site, host: &Host) -> String {
    site.bed.condition(host.name(), "Ready").unwrap()
}

#[test]
fn i2_no_drain_while_somebody_inhibits_a_shutdown() {
    let site = Site::new("inhibit", 1);
    let host = site.host("inhibit-1", "");
    inhibit(&host);
    host.touch("/run/reboot-required").unwrap();
    site.wait_status(&host, "reboot pending: shutdown inhibited by backup (runs)");
    assert!(!site.cordoned(&host));
    assert_eq!(site.holder(&site.leases()[0]), "");
    host.systemctl(&["stop", "backup"]).unwrap();
    site.wait_rebooted(&host, 1);
    site.nothing_left(&host);
}

#[test]
fn i2_an_inhibitor_taken_in_mid_drain_stops_the_reboot_until_it_is_gone() {
    let site = Site::new("late-inhibit", 1);
    let host = site.host("late-inh-1", SLOW);
    pods::slow(&site, &host, "late-inhibit-slow", 10);
    host.touch("/run/reboot-required").unwrap();
    site.wait_status(&host, "draining: ");
    assert!(site.cordoned(&host));
    inhibit(&host);
    // What was drained is kept for a while: it may be gone soon.
    site.wait_status(&host, "drained: shutdown inhibited by backup (runs)");
    assert!(site.cordoned(&host));
    assert_eq!(site.holder(&site.leases()[0]), host.name());
    assert_eq!(host.boots().unwrap(), 1);
    host.systemctl(&["stop", "backup"]).unwrap();
    site.wait_rebooted(&host, 1);
    pods::gone(&site, "late-inhibit-slow");
    site.nothing_left(&host);
}
