//! What `doctor` says under each grant, with and without `coordination.prove_node`.

use kube_rebootd::cluster::manifests::Grant;

use crate::cli_doctor::lines;
use crate::cli_host::{CliHost, Said};
use crate::plane::{Plane, until};

/// A host in the group of the scene.
pub(super) struct Doctor {
    host: CliHost,
}

impl Doctor {
    pub(super) async fn of(plane: &Plane, node: &str) -> Self {
        let host = CliHost::start().await;
        host.join(plane.write_kubeconfig(node));
        Self { host }
    }

    async fn run(&self, prove_node: bool) -> Said {
        let text = format!("[coordination]\ngroup = \"g\"\nprove_node = {prove_node}\n");
        self.host.write("/etc/kube-rebootd/config.toml", &text);
        self.host.run(&["doctor"]).await
    }

    async fn asks_for_pods(&self, grant: &Grant) -> Said {
        let prove_node = matches!(grant, Grant::Strict(_));
        let text = format!(
            "[coordination]\ngroup = \"g\"\nprove_node = {prove_node}\n[gates]\ncapacity_wait = \"15m\"\n"
        );
        self.host.write("/etc/kube-rebootd/config.toml", &text);
        self.host.run(&["doctor"]).await
    }

    /// `gates.capacity_wait` is set, and the pods of all namespaces may not be listed.
    pub(super) async fn misses_the_pods(&self, grant: &Grant) {
        let said = self.asks_for_pods(grant).await;
        let cure = "kube-rebootd manifests --capacity | kubectl";
        says(&said, "pods that wait", "FAIL", cure);
    }

    /// They may.
    pub(super) async fn lists_the_pods(&self, grant: &Grant) {
        let said = self.asks_for_pods(grant).await;
        says(&said, "pods that wait", "ok", "1 wait for room");
    }

    /// The grant is told, and what does not fit it has its cure.
    pub(super) async fn looks(&self, grant: &Grant) {
        let (unproved, proved) = (self.run(false).await, self.run(true).await);
        match grant {
            Grant::Plain => {
                says(&unproved, "grant", "ok", "every node may act");
                says(&unproved, "slot write", "ok", "may take free");
                says(&proved, "grant", "FAIL", "manifests --strict n2");
                says(&proved, "slots", "FAIL", "see grant");
            }
            Grant::Constrained => {
                says(&unproved, "grant", "ok", "constrained");
                says(&unproved, "slot write", "ok", "may take free");
                says(&unproved, "waiters", "ok", "");
                says(&unproved, "other Nodes", "ok", "");
                says(&unproved, "DaemonSets", "ok", "");
                says(&proved, "grant", "FAIL", "manifests --strict n2");
            }
            Grant::Strict(_) => {
                says(&unproved, "grant", "warn", "prove_node = true");
                says(&unproved, "slot write", "FAIL", "prove_node = true");
                says(&proved, "grant", "ok", "as node n2 and no other");
                says(&proved, "slot write", "ok", "may take free");
            }
        }
    }

    /// The policy on Nodes is in force, or it is told to be missing with what that means and the cure.
    pub(super) async fn sees_the_policy_on_nodes(&self, there: bool) {
        let verdict = if there { "ok" } else { "warn" };
        let said = until("doctor to see it", || async {
            let said = self.run(false).await;
            lines(&said, "node marks")
                .0
                .starts_with(verdict)
                .then_some(said)
        })
        .await;
        if !there {
            says(&said, "node marks", "warn", "kube-rebootd-node-marks");
            says(
                &said,
                "node marks",
                "warn",
                "kube-rebootd manifests | kubectl",
            );
        }
    }

    /// The bindings are there, the policy is not.
    pub(super) async fn misses_the_policy(&self, plane: &Plane) {
        let binding = "validatingadmissionpolicybinding/kube-rebootd-strict";
        plane.kubectl(&["delete", binding], "");
        until("the policy to be gone", || async {
            let said = self.run(true).await;
            lines(&said, "slot write")
                .0
                .starts_with("warn")
                .then_some(())
        })
        .await;
        let said = self.run(true).await;
        says(&said, "slot write", "warn", "the strict policy is missing");
        says(&said, "slot write", "warn", "manifests --strict n2");
    }
}

/// The check `name` has this verdict and these words, in its finding or its cure.
fn says(said: &Said, name: &str, verdict: &str, words: &str) {
    let (found, cure) = lines(said, name);
    assert!(
        found.starts_with(verdict) && (found.contains(words) || cure.contains(words)),
        "{name}: not {verdict} with {words:?}:\n{}",
        said.out
    );
}
