//! A node that comes back without its kubelet, or whose kubelet has no runtime, is not healthy although the API server
//! shows it Ready for a while.

use super::{pod, spec};
use crate::e2e::Site;
use crate::e2e::workload::{Workload, app};

#[test]
fn i4_i8_a_kubelet_that_does_not_start_after_the_boot_keeps_the_slot() {
    let site = Site::new("real-silent", 1);
    let host = site.boot(&spec(&site, "silent-r"));
    let work = Workload::new(&site, "real-silent");
    work.apply(&[app("DaemonSet", "agent", 0, &pod(&host, &[]))]);
    work.wait_running(&host, 1);
    host.systemctl(&["disable", "kubelet"]).unwrap();
    host.touch("/run/reboot-required").unwrap();
    site.wait("the new boot", || Ok(host.boots()? == 2));
    site.wait_status(&host, "the kubelet has not reported in this boot");
    let lease = &site.leases()[0];
    assert_eq!(site.holder(lease), host.name());
    assert!(site.cordoned(&host));
    host.systemctl(&["start", "kubelet"]).unwrap();
    site.wait_rebooted(&host, 1);
    site.nothing_left(&host);
}

#[test]
fn i4_i8_a_container_runtime_that_does_not_start_after_the_boot_keeps_the_slot() {
    let site = Site::new("real-runtime", 1);
    let host = site.boot(&spec(&site, "runtime-r"));
    let work = Workload::new(&site, "real-runtime");
    work.apply(&[app("DaemonSet", "agent", 0, &pod(&host, &[]))]);
    work.wait_running(&host, 1);
    let config = "/etc/containerd/config.toml";
    host.sh(&format!("cp {config} /root/kept && echo broken > {config}"))
        .unwrap();
    host.touch("/run/reboot-required").unwrap();
    site.wait("the new boot", || Ok(host.boots()? == 2));
    site.wait_status(&host, "the kubelet has not reported in this boot");
    let lease = &site.leases()[0];
    assert_eq!(site.holder(lease), host.name());
    assert!(site.cordoned(&host));
    host.sh(&format!(
        "cp /root/kept {config} && systemctl restart containerd"
    ))
    .unwrap();
    site.wait_rebooted(&host, 1);
    site.nothing_left(&host);
}
