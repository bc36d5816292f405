//! Credentials under the real unit: its sandbox hides neither a plugin nor a token file (issue: EKS, GKE).

use testbed::{Host, HostSpec};

use super::Site;

const PLUGIN: &str = "/home/kubernetes/bin/gke-exec-auth-plugin";

/// What GKE's plugin does, with the kubelet's own certificate: it keeps a cache, and prints.
const SCRIPT: &str = r#"#!/bin/sh
set -e
test "$1" = --cache-dir
echo used >> "$2/plugin-cache"
lines() { sed -n "/BEGIN $1/,/END $1/p" "$2/kubelet-client-current.pem" | awk '{ printf "%s\\n", $0 }'; }
printf '{"apiVersion": "client.authentication.k8s.io/v1beta1", "kind": "ExecCredential", "status": {'
printf '"clientCertificateData": "%s", ' "$(lines CERTIFICATE "$2")"
printf '"clientKeyData": "%s"}}' "$(lines 'PRIVATE KEY' "$2")"
"#;

fn kubeconfig(server: &str, user: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters:\n- name: c\n  cluster: {{server: \"{server}\", certificate-authority: /etc/kubernetes/pki/ca.crt}}\ncontexts:\n- name: c\n  context: {{cluster: c, user: u}}\nusers:\n- name: u\n  user: {user}\n"
    )
}

/// The bed's API server, as the kubelet's own file has it.
fn server(host: &Host) -> String {
    let text = host.read("/etc/kubernetes/kubelet.conf").unwrap();
    let at = text.find("https://").unwrap();
    let end = |c: char| c == '"' || c.is_whitespace() || c == ',' || c == '}';
    text[at..].split(end).next().unwrap().to_owned()
}

fn configure(site: &Site, host: &Host, node: &str) {
    let text = format!("{}[node]\n{node}\n", site.config(""));
    host.write("/etc/kube-rebootd/config.toml", &text).unwrap();
}

#[test]
fn the_unit_lets_plugins_and_token_files_work() {
    let site = Site::new("plugins", 1);
    let spec = HostSpec {
        daemon: false,
        ..HostSpec::named("plugins-1")
    };
    let host = site.boot(&spec);
    let server = server(&host);

    host.write(PLUGIN, SCRIPT).unwrap();
    host.sh(&format!("chmod 755 {PLUGIN}")).unwrap();
    let exec = format!(
        "{{exec: {{apiVersion: client.authentication.k8s.io/v1beta1, command: {PLUGIN}, args: [--cache-dir, /var/lib/kubelet/pki/], interactiveMode: Never}}}}"
    );
    host.write("/etc/kubernetes/gke.conf", &kubeconfig(&server, &exec))
        .unwrap();
    configure(&site, &host, "kubeconfig = \"/etc/kubernetes/gke.conf\"");
    host.systemctl(&["enable", "--now", "kube-rebootd"])
        .unwrap();
    let connected = |file: &str| format!("connected as node {} with {file}", host.name());
    site.wait_journal(&host, &[connected("/etc/kubernetes/gke.conf")]);
    host.touch("/run/reboot-required").unwrap();
    site.wait_rebooted(&host, 1);
    site.nothing_left(&host);
    let cache = host.read("/var/lib/kubelet/pki/plugin-cache").unwrap();
    assert!(cache.lines().count() >= 2, "once in each boot: {cache:?}");

    // A ServiceAccount that stands for the node: its token lies where the sandbox is read-only.
    site.kubectl(&["create", "namespace", "bed-tokens"]);
    site.kubectl(&["-n", "bed-tokens", "create", "serviceaccount", host.name()]);
    let subject = format!("--serviceaccount=bed-tokens:{}", host.name());
    site.kubectl(&[
        "create",
        "clusterrolebinding",
        "bed-tokens",
        "--clusterrole=cluster-admin",
        &subject,
    ]);
    let token = site.kubectl(&["-n", "bed-tokens", "create", "token", host.name()]);
    host.write("/root/token", token.trim()).unwrap();
    host.write(
        "/etc/kubernetes/token.conf",
        &kubeconfig(&server, "{tokenFile: /root/token}"),
    )
    .unwrap();
    let node = format!(
        "kubeconfig = \"/etc/kubernetes/token.conf\"\nname = \"{}\"",
        host.name()
    );
    configure(&site, &host, &node);
    host.systemctl(&["restart", "kube-rebootd"]).unwrap();
    site.wait_journal(&host, &[connected("/etc/kubernetes/token.conf")]);
    site.wait_status(&host, "idle");
    site.kubectl(&["delete", "clusterrolebinding", "bed-tokens"]);
}
