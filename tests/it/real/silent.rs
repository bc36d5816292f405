//! A node that comes back without its kubelet, or whose kubelet has no runtime, is not healthy although the API server
//! shows it Ready for a while.

use super::{pod, spec};
use crate::e2e::Site;
use crate::e2e::workload::{Workload, app};

/// After the boot the host is as `breaks` made it before: cordon and slot stay until `mends` has run.
fn keeps_the_slot(group: &str, name: &str, breaks: &str, mends: &str) {
    let site = Site::new(group, 1);
    let host = site.boot(&spec(&site, name));
    let work = Workload::new(&site, group);
    work.apply(&[app("DaemonSet", "agent", 0, &pod(&host, &[]))]);
    work.wait_running(&host, 1);
    host.sh(breaks).unwrap();
    host.touch("/run/reboot-required").unwrap();
    site.wait("the new boot", || Ok(host.boots()? == 2));
    site.wait_status(&host, "the kubelet has not reported in this boot");
    assert_eq!(site.holder(&site.leases()[0]), host.name());
    assert!(site.cordoned(&host));
    host.sh(mends).unwrap();
    site.wait_rebooted(&host, 1);
    site.nothing_left(&host);
}

#[test]
fn i4_i8_a_kubelet_that_does_not_start_after_the_boot_keeps_the_slot() {
    let (breaks, mends) = ("systemctl disable kubelet", "systemctl start kubelet");
    keeps_the_slot("real-silent", "silent-r", breaks, mends);
}

#[test]
fn i4_i8_a_container_runtime_that_does_not_start_after_the_boot_keeps_the_slot() {
    let breaks =
        "cp /etc/containerd/config.toml /root/kept && echo broken > /etc/containerd/config.toml";
    let mends = "cp /root/kept /etc/containerd/config.toml && systemctl restart containerd";
    keeps_the_slot("real-runtime", "runtime-r", breaks, mends);
}
