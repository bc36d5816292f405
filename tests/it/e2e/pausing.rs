//! Pause: of a Lease, which never affects its holder; of a Node, which keeps it out (docs/design.md 5; I3).

use testbed::Host;

use super::{Site, pods};

const SLOW: &str = "[drain]\nmode = \"always\"\nunmanaged = \"evict\"\n[reboot]\nretry = \"1s\"\n";

fn annotate(site: &Site, host: &Host, annotation: &str) {
    site.kubectl(&["annotate", "node", host.name(), annotation]);
}

#[test]
fn i2_a_paused_lease_lets_its_holder_finish_and_nobody_begin() {
    let site = Site::new("lease-pause", 1);
    let lease = &site.leases()[0];
    let holder = site.host("lpause-1", SLOW);
    let other = site.host("lpause-2", "");
    pods::slow(&site, &holder, "lease-pause-slow", 5);
    holder.touch("/run/reboot-required").unwrap();
    site.wait_status(&holder, "draining: ");
    site.pause("maintenance of the rack");
    other.touch("/run/reboot-required").unwrap();
    site.wait_status(&other, "group paused: maintenance of the rack");
    site.wait_rebooted(&holder, 1);
    site.nothing_left(&holder);
    assert_eq!(site.holder(lease), "", "somebody took a paused slot");
    assert_eq!(other.boots().unwrap(), 1);
    site.resume();
    site.wait_rebooted(&other, 1);
    site.nothing_left(&other);
    pods::gone(&site, "lease-pause-slow");
}

#[test]
fn i3_a_node_paused_in_mid_drain_gives_the_slot_back_and_stays_cordoned_until_resumed() {
    let site = Site::new("node-pause", 1);
    let lease = &site.leases()[0];
    let host = site.host("npause-1", SLOW);
    pods::slow(&site, &host, "node-pause-slow", 10);
    host.touch("/run/reboot-required").unwrap();
    site.wait_status(&host, "draining: ");
    annotate(&site, &host, "kube-rebootd/paused=look at the disk");
    site.wait_status(&host, "reboot pending: node paused: look at the disk");
    site.wait("the slot to be free", || Ok(site.holder(lease).is_empty()));
    assert!(site.cordoned(&host), "the person lost the node");
    // A daemon that starts anew knows that the cordon is kept for somebody.
    host.systemctl(&["restart", "kube-rebootd"]).unwrap();
    site.wait_status(&host, "reboot pending: node paused: look at the disk");
    assert!(site.cordoned(&host), "a restart forgot who keeps the node");
    assert_eq!(host.boots().unwrap(), 1);
    annotate(&site, &host, "kube-rebootd/paused-");
    site.wait_rebooted(&host, 1);
    pods::gone(&site, "node-pause-slow");
    site.nothing_left(&host);
}
