//! One host through whole cycles.

use testbed::HostSpec;

use super::Site;

/// As kubemark, and as a kubelet whose cadvisor knows none: alive is what changes in this boot.
const NO_BOOT_ID: &str = "[Service]\nExecStart=\nExecStart=/opt/bed/kubelet --name=silent-1 \
                          --kubeconfig=/etc/kubernetes/kubelet.conf --boot-id=\n";

#[test]
fn i4_a_kubelet_that_tells_no_boot_id_is_alive_when_its_heartbeat_goes_on() {
    let site = Site::new("silent", 1);
    let spec = HostSpec::named("silent-1")
        .file(
            "/etc/systemd/system/kubelet.service.d/silent.conf",
            NO_BOOT_ID,
        )
        .config(site.config(""));
    let host = site.boot(&spec);
    let path = "jsonpath={.status.nodeInfo.bootID}";
    assert_eq!(site.kubectl(&["get", "node", host.name(), "-o", path]), "");
    host.touch("/run/reboot-required").unwrap();
    site.wait_rebooted(&host, 1);
    site.nothing_left(&host);
    // A reboot that was asked for is no reason for a warning.
    let journal = host.journal("kube-rebootd").unwrap();
    assert!(
        journal.contains("stopping: the host goes down"),
        "{journal}"
    );
    assert!(
        !journal.contains("stopping while holding slot"),
        "{journal}"
    );
}
