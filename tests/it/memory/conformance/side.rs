//! One of the two servers, and what it answered so far, with everything that differs by nature (uids,
//! versions, times, names of nodes) put into words.

use std::collections::BTreeMap;

use kube::Client;
use kube::client::Body;
use kube_rebootd::clock::Clock;
use serde_json::{Map, Value, json};

use super::super::{Server, User};
use crate::plane;

/// Who asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Who {
    Admin,
    Node(usize),
    /// Node, as the coordinator.
    Slots(usize),
}

/// How a body is to be understood.
#[derive(Debug, Clone, Copy)]
pub(super) enum How<'a> {
    Get,
    /// What `kubectl get` prints.
    Table,
    Post,
    Put,
    Delete,
    /// With options.
    DeleteBy,
    /// Merge patch by this manager.
    Merge(&'a str),
    /// Strategic merge patch by this manager.
    Strategic(&'a str),
    Apply(&'a str),
    Force(&'a str),
}

pub(super) struct Side {
    admin: Client,
    /// Name, node client, coordinator client.
    hosts: Vec<(String, Client, Client)>,
    versions: BTreeMap<String, String>,
    pub(super) lines: Vec<String>,
}

pub(super) const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-rebootd/leases";
pub(super) const BEAT: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
pub(super) const NODE: &str = "/api/v1/nodes";
pub(super) const POD: &str = "/api/v1/namespaces/default/pods";
pub(super) const SET: &str = "/apis/apps/v1/namespaces/default/daemonsets";
pub(super) const BUDGET: &str = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";

/// What the daemon looks for in a message.
const PHRASES: [&str; 10] = [
    "uid mismatch",
    "metadata.uid",
    "is not allowed to modify taints",
    "can only evict pods with spec.nodeName set to itself",
    "can only delete pods with spec.nodeName set to itself",
    "more than one PodDisruptionBudget",
    "must be given up before",
    "only who may delete Leases",
    "the object has been modified",
    "can only access leases in the",
];

impl Side {
    async fn real(hosts: usize) -> Self {
        let plane = plane::enter();
        let admin = plane.admin().await;
        // What the rows label Nodes with is a slot of nobody's group: the name of no slot would keep all other
        // tests' daemons waiting.
        for slot in ["conf", "theirs"] {
            plane::make_slot(&admin, slot, "conformance").await;
        }
        let mut made = Vec::new();
        for _ in 0..hosts {
            let host = plane.host().await;
            made.push((host.name, host.clients.node, host.clients.coordinator));
        }
        // Lists are sorted by name, and n10 comes before n9.
        made.sort_by(|one, other| one.0.cmp(&other.0));
        Self::new(admin, made)
    }

    async fn memory(hosts: usize) -> Self {
        let server = Server::start(Clock::Real);
        let made = (0..hosts).map(|number| {
            let name = format!("m{number}");
            let client = |user| server.client(&name, user);
            let clients = (client(User::Node(name.clone())), client(User::Coordinator));
            (name, clients.0, clients.1)
        });
        let mut side = Self::new(server.client("admin", User::Admin), made.collect());
        for index in 0..hosts {
            let name = side.name(index).to_owned();
            let node =
                json!({"metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}}});
            side.ask("", Who::Admin, How::Post, NODE, &node).await;
            let beat = json!({"metadata": {"name": name},
                "spec": {"holderIdentity": name, "leaseDurationSeconds": 40}});
            side.ask("", Who::Node(index), How::Post, BEAT, &beat).await;
        }
        side.lines.clear();
        side.versions.clear();
        side
    }

    fn new(admin: Client, hosts: Vec<(String, Client, Client)>) -> Self {
        Self {
            admin,
            hosts,
            versions: BTreeMap::new(),
            lines: Vec::new(),
        }
    }

    pub(super) fn name(&self, host: usize) -> &str {
        &self.hosts[host].0
    }

    pub(super) fn client(&self, who: Who) -> &Client {
        match who {
            Who::Admin => &self.admin,
            Who::Node(host) => &self.hosts[host].1,
            Who::Slots(host) => &self.hosts[host].2,
        }
    }

    /// As [`Side::ask`], for what is only read.
    pub(super) async fn get(&mut self, what: &str, who: Who, path: &str) -> Value {
        self.ask(what, who, How::Get, path, &Value::Null).await
    }

    /// Asks, writes the answer down as a row named `what` (none when empty), and gives its body.
    pub(super) async fn ask(
        &mut self,
        what: &str,
        who: Who,
        how: How<'_>,
        path: &str,
        body: &Value,
    ) -> Value {
        let (method, kind, query) = match how {
            How::Get => ("GET", "", String::new()),
            How::Table => ("GET", "", "includeObject=None".to_owned()),
            How::Post => ("POST", "application/json", String::new()),
            How::Put => ("PUT", "application/json", String::new()),
            How::Delete => ("DELETE", "", String::new()),
            How::DeleteBy => ("DELETE", "application/json", String::new()),
            How::Merge(by) => (
                "PATCH",
                "application/merge-patch+json",
                format!("fieldManager={by}"),
            ),
            How::Strategic(by) => (
                "PATCH",
                "application/strategic-merge-patch+json",
                format!("fieldManager={by}"),
            ),
            How::Apply(by) => (
                "PATCH",
                "application/apply-patch+yaml",
                format!("fieldManager={by}&force=false"),
            ),
            How::Force(by) => (
                "PATCH",
                "application/apply-patch+yaml",
                format!("fieldManager={by}&force=true"),
            ),
        };
        let mut body = body.clone();
        let of_object = !kind.contains("merge-patch") && !matches!(how, How::DeleteBy);
        if !kind.is_empty() && of_object {
            typed(path, &mut body);
        }
        let join = if path.contains('?') { "&" } else { "?" };
        let uri = if query.is_empty() {
            path.to_owned()
        } else {
            format!("{path}{join}{query}")
        };
        let bytes = if kind.is_empty() {
            Vec::new()
        } else {
            body.to_string().into_bytes()
        };
        let mut request = http::Request::builder().method(method).uri(uri);
        if !kind.is_empty() {
            request = request.header("content-type", kind);
        }
        if matches!(how, How::Table) {
            request = request.header("accept", "application/json;as=Table;g=meta.k8s.io;v=v1");
        }
        let request = request.body(Body::from(bytes)).unwrap();
        let answer = self.client(who).send(request).await.expect("an answer");
        let code = answer.status().as_u16();
        let text = answer.into_body().collect_bytes().await.expect("a body");
        let said: Value = serde_json::from_slice(&text).unwrap_or(Value::Null);
        self.row(what, code, &said);
        said
    }

    pub(super) fn row(&mut self, what: &str, code: u16, said: &Value) {
        let words = if code < 300 {
            self.object(said)
        } else {
            refusal(said)
        };
        if !what.is_empty() {
            self.lines
                .push(self.anonymous(&format!("{what}: {code} {words}")));
        }
    }

    fn anonymous(&self, text: &str) -> String {
        let mut text = text.to_owned();
        // n10 before n1.
        let mut hosts: Vec<(usize, &str)> =
            (0..self.hosts.len()).map(|i| (i, self.name(i))).collect();
        hosts.sort_by_key(|(_, name)| std::cmp::Reverse(name.len()));
        for (index, name) in hosts {
            // Events are called after it.
            for (before, after) in [("\"", "\""), (":", "\""), ("\"", ".")] {
                text = text.replace(
                    &format!("{before}{name}{after}"),
                    &format!("{before}<{index}>{after}"),
                );
            }
        }
        text
    }

    /// What matters of an object.
    fn object(&mut self, said: &Value) -> String {
        let metadata = &said["metadata"];
        if let Some(items) = said["items"].as_array() {
            let names: Vec<&Value> = items.iter().map(|item| &item["metadata"]["name"]).collect();
            let partial = items.iter().all(|item| item.get("spec").is_none());
            return format!("{} {names:?} metadata only: {partial}", said["kind"]);
        }
        if let Some(columns) = said["columnDefinitions"].as_array() {
            let place = |name| columns.iter().position(|column| column["name"] == name);
            let (name, status) = (place("Name").unwrap(), place("Status").unwrap());
            let rows = said["rows"].as_array().into_iter().flatten();
            let rows: Vec<String> = rows
                .map(|row| format!("{} {}", row["cells"][name], row["cells"][status]))
                .collect();
            return format!("table {rows:?}").replace('\\', "");
        }
        let key = format!("{} {}", said["kind"], metadata["name"]);
        let version = metadata["resourceVersion"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        let before = self.versions.insert(key, version.clone());
        let same = before.as_ref() == Some(&version);
        // The real server's defaults are somebody's too.
        let pod = said["kind"] == "Pod";
        let mut managers: Vec<String> = metadata["managedFields"]
            .as_array()
            .filter(|_| !pod)
            .into_iter()
            .flatten()
            .map(|entry| {
                format!(
                    "{} {} {} {}",
                    entry["manager"],
                    entry["operation"],
                    entry["subresource"],
                    plain(&entry["fieldsV1"])
                )
            })
            .collect();
        managers.sort();
        let kept: Map<String, Value> = [
            "labels",
            "annotations",
            "finalizers",
            "ownerReferences",
            "deletionGracePeriodSeconds",
        ]
        .iter()
        .filter_map(|field| Some(((*field).to_owned(), metadata.get(field)?.clone())))
        .collect();
        let status = [
            "conditions",
            "userInfo",
            "phase",
            "disruptionsAllowed",
            "disruptedPods",
        ];
        let status: Map<String, Value> = status
            .iter()
            .filter_map(|field| Some(((*field).to_owned(), said["status"].get(field)?.clone())))
            .collect();
        let shown = plain(
            &json!({"kind": said["kind"], "metadata": kept, "spec": spec(said), "status": status}),
        );
        format!(
            "{} {shown}\n    {}",
            if same { "same version" } else { "new version" },
            managers.join("\n    ")
        )
    }
}

/// Only what the rows are about: the real server fills in defaults.
fn spec(said: &Value) -> Value {
    let wanted = [
        "holderIdentity",
        "acquireTime",
        "leaseDurationSeconds",
        "unschedulable",
        "taints",
        "nodeName",
    ];
    let spec = said["spec"].as_object().into_iter().flatten();
    let kept = spec.filter(|(field, _)| wanted.contains(&field.as_str()));
    Value::Object(
        kept.map(|(field, value)| (field.clone(), value.clone()))
            .collect(),
    )
}

fn refusal(said: &Value) -> String {
    let mut causes: Vec<String> = said["details"]["causes"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|cause| format!("{} {}", cause["reason"], cause["field"]))
        .collect();
    causes.sort();
    // Before 1.37 a wrong UID is told twice.
    causes.dedup();
    let message = said["message"].as_str().unwrap_or_default();
    let phrases: Vec<&&str> = PHRASES
        .iter()
        .filter(|phrase| message.contains(**phrase))
        .collect();
    let after = &said["details"]["retryAfterSeconds"];
    format!("{} {causes:?} {phrases:?} {after}", said["reason"])
}

/// Differs by nature, or is filled in.
const UNCOMPARED: [&str; 8] = [
    ".",
    "uid",
    "lastTransitionTime",
    "lastHeartbeatTime",
    "lastProbeTime",
    "message",
    "observedGeneration",
    "groups",
];

/// Without what differs by nature, and without what is empty.
fn plain(value: &Value) -> Value {
    match value {
        Value::Object(object) => {
            let fields = object
                .iter()
                .filter(|(key, _)| !UNCOMPARED.contains(&key.trim_start_matches("f:")));
            let fields = fields.map(|(key, value)| (key.clone(), plain_field(key, value)));
            let kept = fields.filter(|(key, value)| {
                key.starts_with("f:") || key.starts_with("k:") || !(value.is_null() || empty(value))
            });
            Value::Object(kept.collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(plain).collect()),
        other => other.clone(),
    }
}

fn plain_field(key: &str, value: &Value) -> Value {
    let time = value
        .as_str()
        .is_some_and(|text| text.len() > 18 && text.starts_with("20") && text.contains('T'));
    if time || key == "disruptedPods" {
        return json!(format!(
            "a {key}: {}",
            value.as_object().map_or(1, Map::len)
        ));
    }
    plain(value)
}

fn empty(value: &Value) -> bool {
    value.as_object().is_some_and(Map::is_empty) || value.as_array().is_some_and(Vec::is_empty)
}

/// Kind and version by the path.
fn typed(path: &str, body: &mut Value) {
    let kinds = [
        ("/leases", "coordination.k8s.io/v1", "Lease"),
        ("/nodes", "v1", "Node"),
        ("/events", "v1", "Event"),
        ("/eviction", "policy/v1", "Eviction"),
        ("/poddisruptionbudgets", "policy/v1", "PodDisruptionBudget"),
        ("/pods", "v1", "Pod"),
        ("/daemonsets", "apps/v1", "DaemonSet"),
        (
            "/selfsubjectreviews",
            "authentication.k8s.io/v1",
            "SelfSubjectReview",
        ),
    ];
    if let Some((_, api, kind)) = kinds.iter().find(|(part, ..)| path.contains(part)) {
        body["apiVersion"] = json!(api);
        body["kind"] = json!(kind);
    }
}

/// A table: what the row is called, who asks, how, where, with what. The rows are asked in their order, and what a cell
/// reads is read when it is its row's turn.
macro_rules! rows {
    ($side:ident: $($what:expr, $who:expr, $how:expr, $path:expr, $body:expr;)+) => {$(
        let (path, body) = (&$path, &$body);
        $side.ask($what, $who, $how, path, body).await;
    )+};
}
pub(super) use rows;

/// Runs the rows on both servers and compares.
pub(super) async fn both(hosts: usize, rows: impl AsyncFn(&mut Side)) {
    let mut memory = Side::memory(hosts).await;
    rows(&mut memory).await;
    let mut real = Side::real(hosts).await;
    rows(&mut real).await;
    let mut different = Vec::new();
    for index in 0..memory.lines.len().max(real.lines.len()) {
        let (ours, theirs) = (memory.lines.get(index), real.lines.get(index));
        if ours != theirs {
            let word = |line: Option<&String>| line.map_or("nothing".to_owned(), Clone::clone);
            different.push(format!(
                "in memory: {}\nreal:      {}",
                word(ours),
                word(theirs)
            ));
        }
    }
    assert!(
        different.is_empty(),
        "{} of {} answers differ:\n\n{}",
        different.len(),
        real.lines.len(),
        different.join("\n\n")
    );
    assert!(real.lines.len() > 1, "no rows: {:?}", real.lines);
}
