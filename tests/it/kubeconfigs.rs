//! The kubeconfigs of the distributions and clouds, each used by the binary against a real
//! API server: found where it lies, and read with what it names; plugins of the shape that EKS and GKE
//! have, that work, fail, hang and end (I7).

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use base64_of::base64;
use testbed::certs::End;

use crate::cli_host::{CliHost, Said, binary, said, terminate};
use crate::plane::{Host, PORT, enter, until};

mod base64_of {
    use k8s_openapi::ByteString;

    pub(super) fn base64(text: &str) -> String {
        let value = serde_json::to_value(ByteString(text.as_bytes().to_vec()));
        value.expect("json").as_str().expect("text").to_owned()
    }
}

/// Distribution, where its kubeconfig lies, what it proves itself by.
const ALL: [(&str, &str, &str); 9] = [
    (
        "kubeadm",
        "/etc/kubernetes/kubelet.conf",
        "kubelet-client-current.pem is good for",
    ),
    (
        "k3s",
        "/var/lib/rancher/k3s/agent/kubelet.kubeconfig",
        "k3s/agent/client-kubelet.crt is good for",
    ),
    (
        "rke2",
        "/var/lib/rancher/rke2/agent/kubelet.kubeconfig",
        "rke2/agent/client-kubelet.crt is good for",
    ),
    (
        "k0s",
        "/var/lib/k0s/kubelet.conf",
        "kubelet-client-current.pem is good for",
    ),
    (
        "microk8s",
        "/var/snap/microk8s/current/credentials/kubelet.config",
        "the certificate in /var/snap/microk8s",
    ),
    (
        "eks",
        "/var/lib/kubelet/kubeconfig",
        "the plugin /usr/local/bin/aws",
    ),
    (
        "gke",
        "/var/lib/kubelet/kubeconfig",
        "the plugin /home/kubernetes/bin/gke-exec-auth-plugin",
    ),
    (
        "aks",
        "/var/lib/kubelet/kubeconfig",
        "kubelet-client-current.pem is good for",
    ),
    (
        "token-file",
        "/etc/kubernetes/kubelet.conf",
        "the token file /var/run/secrets/node/token",
    ),
];

struct Scene {
    node: Host,
    cert: String,
    key: String,
    ca: String,
}

impl Scene {
    async fn new() -> Self {
        let plane = enter();
        let node = plane.host().await;
        let user = format!("system:node:{}", node.name);
        let end = Some(End::In(Duration::from_secs(1800)));
        plane
            .authority
            .client_until(&node.name, &user, "system:nodes", end)
            .expect("signed");
        let read = |name: &str| fs::read_to_string(plane.authority.path(name)).expect("a file");
        let (cert, key) = (format!("{}.crt", node.name), format!("{}.key", node.name));
        let (cert, key, ca) = (read(&cert), read(&key), read("ca.crt"));
        Self {
            node,
            cert,
            key,
            ca,
        }
    }

    /// A host as the distribution `name` leaves it, with its kubeconfig at `place`.
    async fn host(&self, name: &str, place: &str) -> CliHost {
        let golden = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/it/golden/kubeconfig")
            .join(format!("{name}.yaml"));
        let text = fs::read_to_string(golden).expect("a golden file");
        let text = text
            .replace("SERVER", &format!("127.0.0.1:{PORT}"))
            .replace("Q0E=", &base64(&self.ca))
            .replace("Q0VSVA==", &base64(&self.cert))
            .replace("S0VZ", &base64(&self.key));
        let host = CliHost::start().await;
        host.write(place, &text);
        for ca in [
            "/etc/kubernetes/pki/ca.crt",
            "/etc/kubernetes/certs/ca.crt",
            "/etc/srv/kubernetes/pki/ca-certificates.crt",
            "/var/lib/rancher/k3s/agent/server-ca.crt",
            "/var/lib/rancher/rke2/agent/server-ca.crt",
        ] {
            host.write(ca, &self.ca);
        }
        let both = format!("{}{}", self.cert, self.key);
        host.write("/var/lib/kubelet/pki/kubelet-client-current.pem", &both);
        host.write("/var/lib/k0s/kubelet/pki/kubelet-client-current.pem", &both);
        for agent in ["/var/lib/rancher/k3s/agent", "/var/lib/rancher/rke2/agent"] {
            host.write(&format!("{agent}/client-kubelet.crt"), &self.cert);
            host.write(&format!("{agent}/client-kubelet.key"), &self.key);
        }
        host.write("/var/run/secrets/node/token", &self.node.name);
        plugin(&host, "/usr/local/bin/aws", &self.token_plugin());
        let gke = format!(
            "test \"$1 $2\" = '--cache-dir /var/lib/kubelet/pki/' || exit 2\nprintf '%s' '{}'",
            self.printed_certificate()
        );
        plugin(&host, "/home/kubernetes/bin/gke-exec-auth-plugin", &gke);
        host
    }

    /// As `aws eks get-token` prints it, when called as nodeadm has it called.
    fn token_plugin(&self) -> String {
        format!(
            "test \"$*\" = 'eks get-token --cluster-name prod --region eu-central-1' || exit 2\n\
             case \"$KUBERNETES_EXEC_INFO\" in *client.authentication.k8s.io/v1beta1*) ;; *) exit 3;; esac\n\
             printf '%s' '{{\"kind\": \"ExecCredential\", \"apiVersion\": \"client.authentication.k8s.io/v1beta1\", \
             \"spec\": {{}}, \"status\": {{\"expirationTimestamp\": \"2099-01-01T00:00:00Z\", \"token\": \"{}\"}}}}'",
            self.node.name
        )
    }

    fn printed_certificate(&self) -> String {
        serde_json::json!({"kind": "ExecCredential", "apiVersion": "client.authentication.k8s.io/v1beta1",
            "status": {"clientCertificateData": self.cert, "clientKeyData": self.key}})
        .to_string()
    }
}

/// An executable script on the host.
fn plugin(host: &CliHost, path: &str, text: &str) {
    let file = host.write(path, &format!("#!/bin/sh\n{text}\n"));
    let mode = fs::Permissions::from_mode(0o755);
    fs::set_permissions(file, mode).expect("executable");
}

/// `doctor`, which finds plugins without a path in the host's /usr/local/bin.
async fn doctor(host: &CliHost) -> Said {
    let place = host.root().path("/usr/local/bin");
    let output = binary()
        .arg("--root")
        .arg(host.root().path("/"))
        .env("DBUS_SYSTEM_BUS_ADDRESS", host.bus.address())
        .env("PATH", format!("{}:/usr/bin:/bin", place.display()))
        .arg("doctor")
        .output()
        .await
        .expect("it runs");
    said(output)
}

fn line<'a>(said: &'a Said, name: &str) -> &'a str {
    let found = said.out.lines().find(|line| {
        let rest = line.get(6..).unwrap_or_default();
        rest.starts_with(&format!("{name} "))
    });
    found.unwrap_or_else(|| panic!("no check {name}:\n{}", said.out))
}

#[tokio::test]
async fn every_distribution_is_found_and_connects() {
    let scene = Scene::new().await;
    for (name, place, proof) in ALL {
        let host = scene.host(name, place).await;
        let said = doctor(&host).await;
        let (found, credential) = (line(&said, "kubeconfig"), line(&said, "credential"));
        assert!(
            found.starts_with("ok") && found.ends_with(place),
            "{name}: {}",
            said.out
        );
        assert!(
            credential.starts_with("ok") && credential.contains(proof),
            "{name}: {}",
            said.out
        );
        let identity = line(&said, "identity");
        let me = format!("system:node:{}", scene.node.name);
        assert!(
            identity.starts_with("ok") && identity.contains(&me),
            "{name}: {}",
            said.out
        );
    }
}

#[tokio::test]
async fn a_plugin_that_is_missing_or_fails_is_named() {
    let scene = Scene::new().await;
    let place = "/var/lib/kubelet/kubeconfig";
    for (text, words) in [
        (None, "cannot be started: No such file"),
        (
            Some("echo 'Unable to locate credentials' >&2; exit 255"),
            "Unable to locate credentials",
        ),
        (Some("echo '<html>'"), "gave no credential"),
    ] {
        let host = scene.host("gke", place).await;
        let path = "/home/kubernetes/bin/gke-exec-auth-plugin";
        match text {
            Some(text) => plugin(&host, path, text),
            None => fs::remove_file(host.root().path(path)).expect("removed"),
        }
        let said = doctor(&host).await;
        let found = line(&said, "kubeconfig");
        assert!(
            found.starts_with("FAIL") && found.contains(words),
            "{words}: {}",
            said.out
        );
        assert!(found.contains("gke-exec-auth-plugin"), "{}", said.out);
    }
}

const GKE: &str = "/home/kubernetes/bin/gke-exec-auth-plugin";

fn count(host: &CliHost, words: &str) -> usize {
    host.log().matches(words).count()
}

async fn wait_log(host: &CliHost, words: &str, times: usize) {
    let what = format!("{words:?} {times} times");
    until(&what, || async {
        (count(host, words) >= times).then_some(())
    })
    .await;
}

/// A plugin whose credential is to be renewed after some 6 s: after four fifths of its life.
fn short_lived(token: &str) -> String {
    ending(token, "+8 seconds")
}

/// A plugin whose credential ends so long from now.
fn ending(token: &str, end: &str) -> String {
    format!(
        "printf '{{\"status\": {{\"token\": \"{token}\", \"expirationTimestamp\": \"%s\"}}}}' $(date -u -d '{end}' +%Y-%m-%dT%H:%M:%SZ)"
    )
}

#[tokio::test]
async fn i7_the_loop_goes_on_while_a_plugin_hangs() {
    let scene = Scene::new().await;
    let host = scene.host("gke", "/var/lib/kubelet/kubeconfig").await;
    let begun = host.root().path("/begun");
    let hangs = format!("touch {}; exec sleep 1000", begun.display());
    plugin(&host, GKE, &short_lived(&scene.node.name));
    let daemon = host.daemon();
    wait_log(&host, "connected as node", 1).await;
    plugin(&host, GKE, &hangs);
    until("the plugin to hang", || async {
        begun.exists().then_some(())
    })
    .await;
    host.write("/run/reboot-required", "");
    until("the request on record", || async {
        let noticed = host.state().contains("sentinel /run/reboot-required");
        noticed.then_some(())
    })
    .await;
    // It hangs all the while: the loop did not wait for its end, which would be told.
    assert_eq!(count(&host, "was killed"), 0, "{}", host.log());
    terminate(daemon).await;

    // A start is no different.
    fs::remove_file(&begun).expect("removed");
    let daemon = host.daemon();
    until("the plugin to hang", || async {
        begun.exists().then_some(())
    })
    .await;
    terminate(daemon).await;
}

#[tokio::test]
async fn i7_a_plugin_is_asked_again_before_its_credential_ends_and_when_it_is_refused() {
    let scene = Scene::new().await;
    let host = scene.host("gke", "/var/lib/kubelet/kubeconfig").await;
    let text = short_lived(&scene.node.name);
    plugin(&host, GKE, &text);
    let daemon = host.daemon();
    wait_log(&host, "connected as node", 3).await;
    // What is not refused serves until there is a successor.
    plugin(&host, GKE, "echo 'no metadata server' >&2; exit 1");
    wait_log(&host, "no metadata server", 1).await;
    assert_eq!(count(&host, "denied"), 0, "{}", host.log());
    terminate(daemon).await;

    // Without an end of its own, it is the server's 401 that says so.
    let before = count(&host, "connected as node");
    plugin(
        &host,
        GKE,
        "printf '%s' '{\"status\": {\"token\": \"expired\"}}'",
    );
    let daemon = host.daemon();
    wait_log(&host, "denied (401)", 1).await;
    plugin(&host, GKE, &text);
    wait_log(&host, "connected as node", before + 1).await;
    terminate(daemon).await;
}

#[tokio::test]
async fn a_credential_that_ends_at_once_is_not_asked_for_all_the_time() {
    let scene = Scene::new().await;
    for end in ["+1 second", "-1 hour"] {
        let host = scene.host("gke", "/var/lib/kubelet/kubeconfig").await;
        // What the clock here says is over is good all the same: the server's clock is another.
        plugin(&host, GKE, &ending(&scene.node.name, end));
        let begun = std::time::Instant::now();
        let daemon = host.daemon();
        wait_log(&host, "connected as node", 3).await;
        // 5 s to the second one and 10 s to the third.
        assert!(
            begun.elapsed() > Duration::from_secs(14),
            "{end}: {}",
            host.log()
        );
        assert_eq!(count(&host, "credentials that end within a minute"), 1);
        terminate(daemon).await;
    }
}

#[tokio::test]
async fn a_host_without_ca_certificates_connects() {
    let scene = Scene::new().await;
    let place = "/etc/kubernetes/kubelet.conf";
    let host = scene.host("kubeadm", place).await;
    let text = fs::read_to_string(host.root().path(place)).expect("a kubeconfig");
    let authority = text
        .lines()
        .find(|line| line.contains("certificate-authority"));
    let authority = authority.expect("a CA").trim();
    let unverified = text.replace(authority, "insecure-skip-tls-verify: true");
    for text in [&text, &unverified] {
        host.write(place, text);
        let output = binary()
            .arg("--root")
            .arg(host.root().path("/"))
            .env("DBUS_SYSTEM_BUS_ADDRESS", host.bus.address())
            .env("SSL_CERT_FILE", "/nonexistent")
            .env("SSL_CERT_DIR", "/nonexistent")
            .arg("doctor")
            .output()
            .await
            .expect("it runs");
        let said = said(output);
        let server = line(&said, "API server");
        assert!(server.starts_with("ok"), "{text}\n{}", said.out);
    }
}
