//! The real kubelet renews its client certificate, and the daemon goes on with the new one.

use std::time::Duration;

use testbed::certs::End;

use super::{kubelet, spec};
use crate::e2e::Site;

/// Time for the host to boot and for the kubelet to ask.
const LEFT: Duration = Duration::from_secs(90);

/// Where the credential of a new host is; the kubelet puts those that it gets beside it.
const FIRST: &str = "/var/lib/kubelet/pki/kubelet-client-2026-01-01-00-00-00.pem";
const CURRENT: &str = "/var/lib/kubelet/pki/kubelet-client-current.pem";

/// What kubeadm binds for all nodes: a node's request for its own certificate is approved.
const APPROVED: &str = "apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: test-rotated}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: system:certificates.k8s.io:certificatesigningrequests:selfnodeclient
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: \"system:node:rotated-r\"}]
";

#[test]
fn i7_the_daemon_goes_on_with_the_certificate_that_the_kubelet_renewed() {
    let site = Site::new("real-rotated", 1);
    site.bed.apply(APPROVED).unwrap();
    let old = site.bed.node_pem("rotated-r", End::In(LEFT)).unwrap();
    let spec = spec(&site, "rotated-r").file(FIRST, old).file(
        "/etc/kubernetes/kubelet.d/50-rotate.conf",
        kubelet("rotateCertificates: true\n"),
    );
    let host = site.boot(&spec);
    site.wait_status(&host, "idle");
    let daemon = host.daemon_pid().unwrap();
    site.wait("the kubelet to renew its certificate", || {
        Ok(host.sh(&format!("readlink {CURRENT}"))?.trim() != FIRST)
    });
    site.wait("the first certificate to end", || {
        Ok(host
            .run(&["openssl", "x509", "-checkend", "0", "-in", FIRST])?
            .code
            == 1)
    });
    assert_eq!(host.daemon_pid().unwrap(), daemon, "it needed no restart");
    host.touch("/run/reboot-required").unwrap();
    site.wait_rebooted(&host, 1);
    site.nothing_left(&host);
    site.kubectl(&["delete", "clusterrolebinding", "test-rotated"]);
}
