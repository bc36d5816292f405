//! One host through whole cycles.

use super::Site;

#[test]
fn i4_a_sentinel_reboots_the_host_once_and_leaves_nothing() {
    let site = Site::new("one", 1);
    let host = site.host("one-1", "");
    site.wait_status(&host, "idle");
    let before = host.boot_id().unwrap();
    host.touch("/run/reboot-required").unwrap();
    site.wait_rebooted(&host, 1);
    assert_ne!(host.boot_id().unwrap(), before);
    site.nothing_left(&host);
}
