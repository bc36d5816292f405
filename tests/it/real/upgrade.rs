//! The kubelet is replaced by one of a later minor version before the host reboots, as the package manager that asks
//! for the reboot does it.

use std::fs;

use testbed::releases::{OLDEST_KUBELET, Release};

use super::{pod, spec};
use crate::e2e::Site;
use crate::e2e::workload::{Workload, app, budget, deployment};

/// Where the package of the old release had its kubelet.
const OLD: &str = "/root/kubelet";
const DROP_IN: &str = "/etc/systemd/system/kubelet.service.d/old.conf";

#[test]
fn i4_the_kubelet_is_of_a_later_minor_version_after_the_boot() {
    let site = Site::new("real-upgrade", 1);
    let mut spec = spec(&site, "upgraded-r");
    spec.kubelet = false;
    let host = site.boot(&spec);
    let old = testbed::kubelet(OLDEST_KUBELET).unwrap().join("kubelet");
    fs::copy(old, host.outer(OLD)).unwrap();
    let line = host
        .sh("sed -n 's|^ExecStart=/opt/runtime/kubelet||p' /etc/systemd/system/kubelet.service")
        .unwrap();
    let drop_in = format!("[Service]\nExecStart=\nExecStart={OLD}{line}");
    host.write(DROP_IN, &drop_in).unwrap();
    host.systemctl(&["daemon-reload"]).unwrap();
    host.systemctl(&["enable", "--now", "kubelet"]).unwrap();
    site.bed.wait_ready(host.name()).unwrap();
    let version = || {
        let path = "jsonpath={.status.nodeInfo.kubeletVersion}";
        site.kubectl(&["get", "node", host.name(), "-o", path])
    };
    assert_eq!(version(), OLDEST_KUBELET.version);
    let work = Workload::new(&site, "real-upgrade");
    work.apply(&[
        app("DaemonSet", "agent", 0, &pod(&host, &[])),
        app("StatefulSet", "last", 1, &pod(&host, &["-term", "2s"])),
        deployment("web", 2, &pod(&host, &[])),
        budget("web", "web", 2),
    ]);
    work.wait_running(&host, 4);
    host.sh(&format!("rm {DROP_IN} && systemctl daemon-reload"))
        .unwrap();
    host.touch("/run/reboot-required").unwrap();
    site.wait_rebooted(&host, 1);
    site.nothing_left(&host);
    assert_eq!(version(), Release::kubelet().unwrap().version);
    work.wait_running(&host, 4);
}
