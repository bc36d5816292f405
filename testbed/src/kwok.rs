//! kwok: nodes and pods that only the API server knows, for loads that no machine could carry.
//!
//! A Go module of its own: only `make bench` builds it, and what the tests use is not built anew.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::Result;

use crate::bed::Bed;
use crate::{shell, tools};

/// Nodes with this label are played by kwok; hosts have kubelets of their own.
const PLAYED: (&str, &str) = ("kube-rebootd.test/played", "kwok");

/// What a node and a pod do, as kwok ships it: Ready at once, gone at once, heartbeats by Lease.
const STAGES: [&str; 5] = [
    "node/fast/node-initialize.yaml",
    "node/heartbeat-with-lease/node-heartbeat-with-lease.yaml",
    "pod/fast/pod-ready.yaml",
    "pod/fast/pod-complete.yaml",
    "pod/fast/pod-delete.yaml",
];

/// The directory with `kwok` and `stages.yaml`, built when it is missing, which wants the network of the machine: a bed has none.
pub fn built() -> Result<PathBuf> {
    let module = crate::sources::repository().join("testbed/go/kwok");
    let sum = fs::read(module.join("go.sum"))?;
    let place = tools::cache().join(format!("kwok-{}", tools::key(&[&sum])));
    fs::create_dir_all(&place)?;
    let _lock = tools::alone(&place)?;
    let kwok = [("kwok", "sigs.k8s.io/kwok/cmd/kwok")];
    tools::build(&place, &module, &kwok, "")?;
    let stages = place.join("stages.yaml");
    if !stages.exists() {
        let mut list = Command::new("go");
        list.current_dir(&module)
            .args(["list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/kwok"]);
        let source = PathBuf::from(shell::output(&mut list)?.trim()).join("kustomize/stage");
        let mut text = String::new();
        for stage in STAGES {
            text.push_str("---\n");
            text.push_str(&fs::read_to_string(source.join(stage))?);
        }
        let part = place.join(format!("stages.part-{}", std::process::id()));
        fs::write(&part, text)?;
        fs::rename(&part, &stages)?;
    }
    Ok(place)
}

impl Bed {
    /// The label of Nodes that kwok plays.
    pub const PLAYED: (&str, &str) = PLAYED;

    /// Starts kwok, which plays the Nodes that are labelled so.
    pub fn start_kwok(&self) -> Result<()> {
        let (place, (key, value)) = (built()?, PLAYED);
        let mut command = self.within("control", &place.join("kwok"));
        command
            .arg(format!(
                "--kubeconfig={}",
                self.admin_kubeconfig().display()
            ))
            .arg(format!("--config={}", place.join("stages.yaml").display()))
            .arg(format!("--manage-nodes-with-label-selector={key}={value}"))
            // As a kubelet: without it the Nodes are NotReady after a minute.
            .arg("--node-lease-duration-seconds=40")
            .args(["--node-port=0", "--server-address="]);
        self.detached(&mut command, "kwok")
    }

    /// What makes a Node that kwok plays, with room for any number of pods.
    pub fn played_node(name: &str) -> String {
        let (key, value) = PLAYED;
        format!(
            "---\napiVersion: v1\nkind: Node\nmetadata:\n  name: {name}\n  labels: {{{key}: {value}, kubernetes.io/hostname: {name}}}\n"
        )
    }
}
