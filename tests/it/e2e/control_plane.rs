//! A control plane keeps its quorum (I13).

use testbed::{Host, verdict};

use super::Site;
use super::log::{Since, in_order};

/// What makes a Node one of a quorum. A kubelet may not set it: an admin does, as kubeadm would.
const ROLE: &str = "node-role.kubernetes.io/control-plane=";

/// The only test that labels Nodes so: I13 is about all such Nodes of a cluster, whatever their group.
#[test]
fn i13_three_control_plane_nodes_with_three_leases_reboot_one_at_a_time() {
    let site = Site::new("quorum", 3);
    let hosts: Vec<Host> = (1..=3)
        .map(|number| site.host(&format!("quorum-{number}"), ""))
        .collect();
    for host in &hosts {
        site.kubectl(&["label", "node", host.name(), ROLE]);
        site.wait_status(host, "idle");
    }
    let since = Since::now();
    for host in &hosts {
        host.touch("/run/reboot-required").unwrap();
    }
    for host in &hosts {
        site.wait_rebooted(host, 1);
        site.nothing_left(host);
    }
    let requests = since.of(&site, &hosts);
    in_order(&site, &requests, hosts.len());
    // Three slots would let three go at once: the role alone keeps them apart.
    assert_eq!(verdict::most_cordoned_at_once(&requests), 1);
}
