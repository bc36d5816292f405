//! Pods as the tests of drains need them.

use testbed::{Host, IMAGE};

use super::Site;

/// A pod on `host` that takes `seconds` to end once it is evicted; it runs when this returns.
pub(crate) fn slow(site: &Site, host: &Host, name: &str, seconds: u32) {
    slow_labelled(site, host, name, seconds, "{}");
}

fn slow_labelled(site: &Site, host: &Host, name: &str, seconds: u32, labels: &str) {
    let node = host.name();
    site.bed
        .apply(&format!(
            r"apiVersion: v1
kind: Pod
metadata: {{name: {name}, namespace: default, labels: {labels}}}
spec:
  nodeName: {node}
  automountServiceAccountToken: false
  terminationGracePeriodSeconds: {grace}
  tolerations: [{{operator: Exists}}]
  containers:
  - name: slow
    image: {IMAGE}
    lifecycle: {{preStop: {{sleep: {{seconds: {seconds}}}}}}}
",
            grace = seconds + 30
        ))
        .unwrap();
    let path = format!("/api/v1/namespaces/default/pods/{name}");
    site.wait(&format!("{name} to run"), || {
        Ok(site.bed.get(&path)?["status"]["phase"] == "Running")
    });
}

/// A pod on `host` that no eviction moves until `let_go`: a drain waits for it as long as a test wants.
pub(crate) fn held(site: &Site, host: &Host, name: &str) {
    slow_labelled(site, host, name, 1, &format!("{{held: {name}}}"));
    site.bed
        .apply(&format!(
            r"apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {{name: {name}, namespace: default}}
spec:
  minAvailable: 1
  selector: {{matchLabels: {{held: {name}}}}}
"
        ))
        .unwrap();
}

/// Its budget goes: the next eviction moves it.
pub(crate) fn let_go(site: &Site, name: &str) {
    site.kubectl(&["delete", "pdb", name, "--ignore-not-found"]);
}

/// Removes what is left of it, as nobody else needs it.
pub(crate) fn gone(site: &Site, name: &str) {
    site.kubectl(&[
        "delete",
        "pod",
        name,
        "--ignore-not-found",
        "--force",
        "--grace-period=0",
    ]);
}
