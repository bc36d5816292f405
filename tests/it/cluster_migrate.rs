//! `migrate kured` on a real API server: as a person, as a node by its coordinator, and as somebody who may not.

use crate::cli_host::{CliHost, Said, binary, said};
use crate::plane::enter;

const SET: &str = "
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: kured, namespace: kube-system}
spec:
  selector: {matchLabels: {name: kured}}
  template:
    metadata: {labels: {name: kured}}
    spec:
      containers:
      - name: kured
        image: ghcr.io/kubereboot/kured:1.23.0
        command: [/usr/bin/kured, --drain-timeout=2h]
        env:
        - {name: KURED_LOCK_RELEASE_DELAY, value: 30m}
";
/// By whom nothing of this may be read.
const NOBODY: &str = "apiVersion: v1
kind: Config
current-context: here
clusters: [{name: c, cluster: {server: 'https://127.0.0.1:PORT', insecure-skip-tls-verify: true}}]
contexts: [{name: here, context: {cluster: c, user: u}}]
users: [{name: u, user: {token: admin, as: reads-no-daemon-sets}}]
";

fn translated(said: &Said) {
    assert_eq!(said.code, Some(0), "{}", said.err);
    for words in ["\ntimeout = \"2h\"\n", "\nmin_interval = \"30m\"\n"] {
        assert!(said.out.contains(words), "{}", said.out);
    }
    assert!(said.err.contains("The hand-over"), "{}", said.err);
}

#[tokio::test]
async fn the_daemon_set_of_the_cluster_is_read() {
    let plane = enter();
    plane.kubectl(&["apply", "-f", "-"], SET);
    let admin = plane.write_kubeconfig("admin");
    let run = async |file: &std::path::Path| {
        let mut command = binary();
        command.args(["migrate", "kured"]).env("KUBECONFIG", file);
        said(command.output().await.expect("it runs"))
    };
    translated(&run(&admin).await);
    // As a node, which may read the one at the usual place.
    let node = plane.host().await;
    let host = CliHost::start().await;
    host.join(plane.write_kubeconfig(&node.name));
    translated(&host.run(&["migrate", "kured"]).await);

    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("config");
    let port = crate::plane::PORT.to_string();
    std::fs::write(&file, NOBODY.replace("PORT", &port)).expect("written");
    let denied = run(&file).await;
    assert_eq!((denied.code, denied.out.as_str()), (Some(4), ""));
    for words in ["list DaemonSets: denied (403)", "--manifest -"] {
        assert!(denied.err.contains(words), "{}", denied.err);
    }

    let removed = ["delete", "daemonset", "kured", "-n", "kube-system"];
    plane.kubectl(&removed, "");
    for none in [run(&admin).await, host.run(&["migrate", "kured"]).await] {
        assert_eq!((none.code, none.out.as_str()), (Some(1), ""));
        assert!(
            none.err
                .contains("has no DaemonSet with a container of kured"),
            "{}",
            none.err
        );
    }
}
