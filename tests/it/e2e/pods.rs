//! Pods as the tests of drains need them.

use testbed::Host;

use super::{CYCLE, Site};

/// A pod on `host` that takes `seconds` to end once it is evicted; it runs when this returns.
pub(super) fn slow(site: &Site, host: &Host, name: &str, seconds: u32) {
    let node = host.name();
    site.bed
        .apply(&format!(
            r"apiVersion: v1
kind: Pod
metadata: {{name: {name}, namespace: default}}
spec:
  nodeName: {node}
  automountServiceAccountToken: false
  terminationGracePeriodSeconds: {grace}
  tolerations: [{{operator: Exists}}]
  containers:
  - name: slow
    image: registry.k8s.io/pause:3.10
    lifecycle: {{preStop: {{sleep: {{seconds: {seconds}}}}}}}
",
            grace = seconds + 30
        ))
        .unwrap();
    let path = "jsonpath={.status.phase}";
    site.bed
        .wait_for(&format!("{name} to run"), CYCLE, || {
            Ok(site.bed.kubectl(&["get", "pod", name, "-o", path])? == "Running")
        })
        .unwrap();
}

/// Removes what is left of it, as nobody else needs it.
pub(super) fn gone(site: &Site, name: &str) {
    site.kubectl(&[
        "delete",
        "pod",
        name,
        "--ignore-not-found",
        "--force",
        "--grace-period=0",
    ]);
}

#[test]
fn i9_pods_that_nobody_makes_again_close_the_gate_until_the_admin_decides() {
    let site = Site::new("bare", 1);
    let strict = "[drain]\nmode = \"always\"\nempty_dir = \"block\"\n";
    let host = site.host("bare-1", strict);
    let work = Workload::new(&site, "bare");
    let mut scratch = spec(&host);
    scratch["volumes"] = json!([{"name": "scratch", "emptyDir": {}}]);
    work.apply(&[
        bare("always", "Always", &spec(&host)),
        bare("on-failure", "OnFailure", &spec(&host)),
        bare("never", "Never", &spec(&host)),
        deployment("scratch", 1, &scratch),
    ]);
    work.wait_running(&host, 4);
    host.touch("/run/reboot-required").unwrap();
    // Not "always": the kubelet starts it again.
    site.wait_status(&host, "3 would block the drain");
    assert!(!site.cordoned(&host));
    assert_eq!(site.holder(&site.leases()[0]), "");
    assert_eq!(work.evictions(), []);
    let decided = "[drain]\nmode = \"always\"\nunmanaged = \"evict\"\n";
    host.write("/etc/kube-rebootd/config.toml", &site.config(decided))
        .unwrap();
    host.systemctl(&["reload", "kube-rebootd"]).unwrap();
    site.wait_rebooted(&host, 1);
    for gone in ["always", "on-failure", "never", "scratch"] {
        assert_eq!(work.answers(gone), [201], "{gone}");
    }
    site.nothing_left(&host);
}
