//! Whose cordon it is (I3).

use super::Site;

#[test]
fn i3_a_node_cordoned_by_an_admin_stays_cordoned_after_its_reboot() {
    let site = Site::new("admin-cordon", 1);
    let host = site.host("cordon-1", "");
    site.wait_status(&host, "idle");
    site.kubectl(&["cordon", host.name()]);
    host.touch("/run/reboot-required").unwrap();
    site.wait_rebooted(&host, 1);
    assert!(site.cordoned(&host), "the admin's cordon was taken off");
    site.kubectl(&["uncordon", host.name()]);
    site.nothing_left(&host);
}
