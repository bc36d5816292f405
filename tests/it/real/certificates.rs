//! The real kubelet renews its client certificate, and the daemon goes on with the new one.

use std::time::Duration;

use serde_json::{Value, json};
use testbed::certs::End;

use super::{Objects, spec};
use crate::e2e::Site;

/// Time for the host to boot and for the kubelet to ask.
const LEFT: Duration = Duration::from_secs(90);

/// Where the credential of a new host is; the kubelet puts those that it gets beside it, and moves the link.
const PKI: &str = "/var/lib/kubelet/pki";
const FIRST: &str = "kubelet-client-2026-01-01-00-00-00.pem";

/// What kubeadm binds for all nodes: a node's request for its own certificate is approved.
fn approved(node: &str) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": format!("approved-{node}")},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole",
            "name": "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient",
        },
        "subjects": [{
            "apiGroup": "rbac.authorization.k8s.io", "kind": "User",
            "name": format!("system:node:{node}"),
        }],
    })
}

#[test]
fn i7_the_daemon_goes_on_with_the_certificate_that_the_kubelet_renewed() {
    let site = Site::new("real-rotated", 1);
    let name = "rotated-r";
    let mut objects = Objects::of(&site);
    objects.make(&approved(name));
    let old = site.bed.node_pem(name, End::In(LEFT)).unwrap();
    let spec = spec(&site, name)
        .file(format!("{PKI}/{FIRST}"), old)
        .kubelet_config("rotateCertificates: true\n");
    let host = site.boot(&spec);
    site.wait_status(&host, "idle");
    let daemon = host.daemon_pid().unwrap();
    site.wait("the kubelet to renew its certificate", || {
        let line = format!("basename $(readlink {PKI}/kubelet-client-current.pem)");
        Ok(host.sh(&line)?.trim() != FIRST)
    });
    site.wait("the first certificate to end", || {
        let look = format!("openssl x509 -noout -in {PKI}/{FIRST}");
        host.sh(&look)?;
        Ok(host.sh(&format!("{look} -checkend 0")).is_err())
    });
    assert_eq!(host.daemon_pid().unwrap(), daemon, "it needed no restart");
    host.touch("/run/reboot-required").unwrap();
    site.wait_rebooted(&host, 1);
    site.nothing_left(&host);
}
