//! Credentials as clouds hand them out and as kubelets renew them, under the unit as it is shipped, which
//! must neither hide them nor keep a plugin from running (I2, I6, I7, I11).

use std::time::Duration;

use testbed::certs::End;
use testbed::{Host, HostSpec, TOKEN, TOKEN_HOST};

use super::Site;
use super::phases::Journey;

/// A kubeconfig of the daemon's own, so that the kubelet goes on meanwhile.
const OWN: &str = "/etc/kubernetes/own.conf";
const CERTIFICATE: &str = "/var/lib/kubelet/pki/own-current.pem";
/// What the daemon says when its credential is refused.
const REFUSED: &str = "denied (401)";
/// What it says of one that is good.
const CONNECTED: &str = "connected as node";

/// The shape that `aws eks update-kubeconfig` writes. The certificate is the kubelet's; the end is so near
/// that another is asked for within every cycle.
const PLUGIN: &str = r#"#!/bin/sh
test "$1" = get-token && test "$CLUSTER" = bed && test -n "$KUBERNETES_EXEC_INFO" || exit 3
# As those of the clouds: a cache at home and elsewhere, a socket to the kernel.
mkdir -p /root/.cache/cloud /var/cache/cloud && touch /root/.cache/cloud/token /var/cache/cloud/token || exit 4
ip -o link show lo > /dev/null || exit 5
# Nobody else sees what the kubeconfig gives it.
unit=$(grep -o 'kube-rebootd-plugin-[^/]*[.]service' /proc/self/cgroup) || exit 6
systemctl show "$unit" | grep -q CLUSTER && exit 7
pem=$(awk '{printf "%s\\n", $0}' /var/lib/kubelet/pki/kubelet-client-current.pem)
end=$(date -u -d '+15 seconds' +%FT%TZ)
cat <<EOF
{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {
"expirationTimestamp": "$end", "clientCertificateData": "$pem", "clientKeyData": "$pem"}}
EOF
echo run >> /run/plugin-runs
"#;
const EXEC: &str = "{exec: {apiVersion: client.authentication.k8s.io/v1, command: ./get-credential, args: [get-token], \
                    env: [{name: CLUSTER, value: bed}], interactiveMode: Never, provideClusterInfo: true}}";

fn kubeconfig(user: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters:\n- name: c\n  cluster: \
         {{server: 'https://10.123.0.1:6443', certificate-authority: pki/ca.crt}}\ncontexts:\n- name: c\n  \
         context: {{cluster: c, user: u}}\nusers:\n- name: u\n  user: {user}\n"
    )
}

/// The same host, whose daemon has a kubeconfig of its own.
fn owning(spec: HostSpec, user: &str) -> HostSpec {
    let config = spec.config.clone().unwrap_or_default();
    spec.file(OWN, kubeconfig(user))
        .config(format!("{config}[node]\nkubeconfig = \"{OWN}\"\n"))
}

#[test]
fn i7_a_credential_plugin_and_a_token_file_work_under_the_hardened_unit() {
    let site = Site::new("clouds", 2);
    let host = |name: &str, user: &str| owning(HostSpec::named(name).config(site.config("")), user);
    let plugin = host("plugged", EXEC).file("/etc/kubernetes/get-credential", PLUGIN);
    let token = host(TOKEN_HOST, "{tokenFile: ../token}").file("/etc/token", TOKEN);
    let (plugin, token) = (site.boot(&plugin), site.boot(&token));
    // It cannot run yet: the daemon lives, and tells which command it was.
    site.wait_journal(&plugin, &["get-credential"]);
    plugin
        .sh("chmod 755 /etc/kubernetes/get-credential")
        .unwrap();
    for host in [&plugin, &token] {
        site.wait_status(host, "idle");
        host.touch("/run/reboot-required").unwrap();
    }
    for host in [&plugin, &token] {
        site.wait_rebooted(host, 1);
        site.nothing_left(host);
        site.wait_journal(
            host,
            &[format!("connected as node {} with {OWN}", host.name())],
        );
    }
    let runs = plugin.read("/run/plugin-runs").unwrap();
    assert!(
        runs.lines().count() >= 1,
        "the plugin did not run in this boot"
    );
}

/// As the kubelet renews: a new file, and a link to it renamed over the old one.
fn renew(site: &Site, host: &Host, end: End) {
    let pem = site.bed.node_pem(host.name(), end).unwrap();
    let file = format!("{CERTIFICATE}.new");
    host.write(&file, &pem).unwrap();
    let line = format!(
        "to=own-$(cat /proc/sys/kernel/random/uuid).pem && cd $(dirname {CERTIFICATE}) && mv {file} $to && \
         ln -s $to own-next && mv -T own-next {CERTIFICATE}"
    );
    host.sh(&line).unwrap();
}

#[test]
fn i7_a_certificate_that_ends_and_is_renewed_in_every_phase() {
    let user = format!("{{client-certificate: {CERTIFICATE}, client-key: {CERTIFICATE}}}");
    let on = Journey::with(Site::new("renewed", 1), |spec| owning(spec, &user));
    let lasting = End::In(Duration::from_secs(3600));
    let said = |on: &Journey, words: &str| {
        let journal = on.host.journal("kube-rebootd").unwrap();
        journal.matches(words).count()
    };
    // A new certificate, and the daemon says these words once more.
    let put = |on: &Journey, end: End, words: &str, phase: &str| {
        let before = said(on, words);
        renew(&on.site, &on.host, end);
        let what = format!("{words:?} once more, {phase}");
        on.site.wait(&what, || Ok(said(on, words) > before));
    };
    put(&on, lasting, CONNECTED, "at first");
    on.in_every_phase(|on, phase| {
        let phase = format!("{phase:?}");
        put(on, End::Ago(Duration::from_secs(60)), REFUSED, &phase);
        put(on, lasting, CONNECTED, &phase);
    });
}
