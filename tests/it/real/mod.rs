//! The real kubelet and the real containerd below the daemon: how pods end, what mounts, and when a node is healthy is
//! theirs to say, and what a fake runtime says is not it.

use serde_json::{Value, json};
use testbed::{Host, HostSpec, IMAGE};

use crate::e2e::Site;
use crate::e2e::workload::string;

mod certificates;
mod cycle;
mod graceful;
mod heartbeat;
mod kept_away;
mod silent;
mod upgrade;
mod volumes;

/// A host of the group with the real kubelet, which drains also where no other Node could take its pods.
fn spec(site: &Site, name: &str) -> HostSpec {
    HostSpec::real(name).config(site.config("[drain]\nmode = \"always\"\n"))
}

/// A pod's spec: one container with these arguments of testbed/go/runtime/pod, bound to the host.
fn pod(host: &Host, args: &[&str]) -> Value {
    json!({
        "nodeSelector": {"kubernetes.io/hostname": host.name()},
        "terminationGracePeriodSeconds": 30,
        "containers": [{"name": "main", "image": IMAGE, "args": args}],
    })
}

/// The same, ready when it says so itself.
fn probed(mut spec: Value) -> Value {
    let probe = json!({"httpGet": {"path": "/", "port": 8080}, "periodSeconds": 1});
    spec["containers"][0]["readinessProbe"] = probe;
    spec
}

/// Whether a pod's condition Ready is True.
fn ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|one| one["type"] == "Ready" && one["status"] == "True")
}

/// When each record of a unit that contains `words` was written, in microseconds.
fn times(host: &Host, unit: &str, words: &str) -> Vec<u64> {
    let journal = host.journal_json(unit).unwrap();
    let said = |record: &&Value| string(&record["MESSAGE"]).contains(words);
    let time = |record: &Value| string(&record["__REALTIME_TIMESTAMP"]).parse().unwrap();
    journal.iter().filter(said).map(time).collect()
}

/// What belongs to no namespace, gone with the test.
struct Objects<'a> {
    site: &'a Site,
    made: Vec<[String; 2]>,
}

impl<'a> Objects<'a> {
    fn of(site: &'a Site) -> Self {
        let made = Vec::new();
        Self { site, made }
    }

    fn make(&mut self, object: &Value) {
        self.site.bed.apply(&object.to_string()).unwrap();
        let [kind, name] = [&object["kind"], &object["metadata"]["name"]].map(string);
        self.made.push([kind, name]);
    }
}

impl Drop for Objects<'_> {
    fn drop(&mut self) {
        for [kind, name] in &self.made {
            let delete = ["delete", kind, name, "--wait=false"];
            let _ = self.site.bed.kubectl(&delete);
        }
    }
}
