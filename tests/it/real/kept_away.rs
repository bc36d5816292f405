//! The pod of a DaemonSet that something keeps away after the boot (a webhook, a quota, here a policy) is missing although
//! no pod is there that is not ready: the slot is kept until it is back (I4).

use serde_json::json;

use super::{Objects, pod, probed, ready, spec};
use crate::e2e::Site;
use crate::e2e::workload::{Workload, app};

/// The kubelet ends the pod at the shutdown, and its controller has to make it anew.
const GRACEFUL: &str = "shutdownGracePeriod: 10s\nshutdownGracePeriodCriticalPods: 5s\n";
const POLICY: &str = "kept-away.test.example";

/// Refuses pods of DaemonSets in the namespace.
fn keep_away(objects: &mut Objects<'_>, namespace: &str) {
    objects.make(&json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": POLICY},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [
                {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]},
            ]},
            "validations": [{
                "expression": "!has(object.metadata.ownerReferences) || object.metadata.ownerReferences.all(o, o.kind != 'DaemonSet')",
                "message": "kept away by a test",
            }],
        },
    }));
    objects.make(&json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": POLICY},
        "spec": {
            "policyName": POLICY, "validationActions": ["Deny"],
            "matchResources": {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}}},
        },
    }));
}

#[test]
fn i4_a_daemon_set_whose_pod_is_kept_away_after_the_boot_keeps_the_slot() {
    let site = Site::new("real-away", 1);
    let host = site.boot(&spec(&site, "away-1").kubelet_config(GRACEFUL));
    let work = Workload::new(&site, "away");
    let agent = probed(pod(&host, &["-listen", ":8080"]));
    work.apply(&[app("DaemonSet", "agent", 0, &agent)]);
    let is_ready = || Ok(work.pod(&host, "agent").is_some_and(|pod| ready(&pod)));
    site.wait("the agent to be ready", is_ready);
    let mut objects = Objects::of(&site);
    keep_away(&mut objects, &work.namespace);
    let owner = json!({"metadata": {"ownerReferences": [
        {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": "u"},
    ]}});
    let overrides = format!("--overrides={owner}");
    let namespace = work.namespace.as_str();
    let image = format!("--image={}", testbed::IMAGE);
    site.wait("the policy to be in force", || {
        let run = [
            "-n",
            namespace,
            "run",
            "tried",
            &image,
            "--dry-run=server",
            &overrides,
        ];
        let tried = site.bed.kubectl(&run);
        Ok(tried.is_err_and(|err| format!("{err:#}").contains("kept away by a test")))
    });
    // What the kubelet says last of its pods is lost now and then, where nothing else holds the shutdown up.
    host.delay_shutdowns().unwrap();
    host.touch("/run/reboot-required").unwrap();
    site.wait("the new boot", || Ok(host.boots()? == 2));
    let missing = format!("DaemonSet {}/agent", work.namespace);
    site.wait_status(&host, &missing);
    assert!(work.pod(&host, "agent").is_none());
    assert_eq!(site.holder(&site.leases()[0]), host.name());
    drop(objects);
    // Its controller tries ever more seldom; a change of the DaemonSet has it try at once.
    site.wait("the agent to be back", || {
        let now = jiff::Timestamp::now().as_millisecond();
        let poke = format!("test.example/poke={now}");
        work.kubectl(&["annotate", "--overwrite", "daemonset", "agent", &poke]);
        is_ready()
    });
    site.wait_rebooted(&host, 1);
    site.nothing_left(&host);
}
