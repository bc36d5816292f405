//! The own Node: read, one apply of all of ours, the removal of what an apply leaves, and its conditions (I3, I11).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use kube_rebootd_core::condition::{Condition, Kind, Status};
use kube_rebootd_core::effect::Tell;
use kube_rebootd_core::names;
use kube_rebootd_core::node::Node;
use kube_rebootd_core::node_fields::{Leftovers, NodeFields};
use kube_rebootd_core::slot::Keys;
use kube_rebootd_core::text::{self, MESSAGE, NAME, WORDS};
use serde_json::{Map, Value, json};

use crate::cluster::answer::{ApiError, CALL, call, found};
use crate::cluster::lean::{self, Node as Object, NodeCondition};

/// The own Node, through the node client.
#[derive(Clone)]
pub struct OwnNode {
    api: Api<Object>,
    name: String,
}

impl OwnNode {
    pub fn new(node: Client, name: &str) -> Self {
        Self {
            api: Api::all(node),
            name: name.to_owned(),
        }
    }

    /// For a watch, with [`OwnNode::fields`]: a node may list and watch its own Node only.
    pub fn api(&self) -> Api<Object> {
        self.api.clone()
    }

    /// Field selector of the own Node.
    pub fn fields(&self) -> String {
        format!("metadata.name={}", self.name)
    }

    /// A consistent read, asked for at boot time `asked`; none on 404.
    pub async fn get(&self, asked: Duration) -> Result<Option<Node>, ApiError> {
        let node = found(call("get own Node", CALL, self.api.get(&self.name)).await)?;
        Ok(node.map(|node| read(&node, Some(asked))))
    }

    /// Holds exactly `set` on the Node, and what the Node is then.
    ///
    /// Forced: without it a label that an admin set, or a `GitOps` `unschedulable: false`, would leave
    /// the node without a cordon (`cluster_node`); equal values stay shared, so nobody loses anything.
    pub async fn apply(&self, set: &NodeFields, asked: Duration) -> Result<Node, ApiError> {
        let params = PatchParams::apply(names::NODE_MANAGER).force();
        let patch = Patch::Apply(body(&self.name, set));
        let request = self.api.patch(&self.name, &params, &patch);
        let node = call("apply own Node", CALL, request).await?;
        Ok(read(&node, Some(asked)))
    }

    /// What the Node would be after an apply of `set`: a dry run, which changes nothing.
    pub async fn rehearse(&self, set: &NodeFields, asked: Duration) -> Result<Node, ApiError> {
        let params = PatchParams::apply(names::NODE_MANAGER).force().dry_run();
        let patch = Patch::Apply(body(&self.name, set));
        let request = self.api.patch(&self.name, &params, &patch);
        let node = call("apply own Node (dry run)", CALL, request).await?;
        Ok(read(&node, Some(asked)))
    }

    /// Removes what an apply left, and what the Node is then.
    pub async fn mend(&self, left: &Leftovers, asked: Duration) -> Result<Node, ApiError> {
        let params = PatchParams {
            field_manager: Some(names::NODE_MANAGER.to_owned()),
            ..PatchParams::default()
        };
        let patch = Patch::Merge(removal(left));
        let request = self.api.patch(&self.name, &params, &patch);
        let node = call("mend own Node", CALL, request).await?;
        Ok(read(&node, Some(asked)))
    }

    /// Writes these conditions and annotations, at `wall` on the host's clock, and leaves those of others alone; what the Node is then.
    pub async fn tell(
        &self,
        tell: &Tell,
        wall: Timestamp,
        asked: Duration,
    ) -> Result<Node, ApiError> {
        let time = wall.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let conditions = tell.conditions.iter().map(|one| written(one, &time));
        let what = "write the conditions of the own Node";
        let body = json!({
            "metadata": {"uid": tell.uid, "annotations": tell.annotations},
            "status": {"conditions": conditions.collect::<Vec<_>>()},
        });
        self.status(what, body, asked).await
    }

    /// Takes these conditions and annotations away.
    pub async fn untell(&self, tell: &Tell, asked: Duration) -> Result<Node, ApiError> {
        let gone = tell.conditions.iter();
        let gone = gone.map(|one| json!({"type": one.kind.name(), "$patch": "delete"}));
        let what = "take away the conditions of the own Node";
        let keys = tell.annotations.keys();
        let keys: Map<_, _> = keys.map(|key| (key.clone(), Value::Null)).collect();
        let body = json!({
            "metadata": {"uid": tell.uid, "annotations": keys},
            "status": {"conditions": gone.collect::<Vec<_>>()},
        });
        self.status(what, body, asked).await
    }

    /// Strategic, as the kubelet patches them itself: the server merges by type.
    async fn status(
        &self,
        what: &'static str,
        body: Value,
        asked: Duration,
    ) -> Result<Node, ApiError> {
        let params = PatchParams {
            field_manager: Some(names::NODE_MANAGER.to_owned()),
            ..PatchParams::default()
        };
        let patch = Patch::Strategic(body);
        let request = self.api.patch_status(&self.name, &params, &patch);
        let node = call(what, TELL, request).await?;
        Ok(read(&node, Some(asked)))
    }
}

/// Nothing rests on a condition: the loop does not wait for it for long.
const TELL: Duration = Duration::from_secs(5);

/// A condition as the API takes it; `time`: now, in whole seconds.
fn written(condition: &Condition, time: &str) -> Value {
    let since = condition.since;
    let since = since.map(|since| since.strftime("%Y-%m-%dT%H:%M:%SZ").to_string());
    json!({
        "type": condition.kind.name(),
        "status": condition.status.name(),
        "reason": condition.reason,
        "message": condition.message,
        "lastHeartbeatTime": time,
        "lastTransitionTime": since.as_deref().unwrap_or(time),
    })
}

/// A volume's name on the Node: that of its plug-in with a handle of any form.
const VOLUME: usize = 1_024;
/// What people write to us in annotations, and read again where this daemon says it.
const WORDED: [&str; 2] = [names::PAUSED, names::REBOOT];

/// Only fields that are set, and an empty spec: when we own the only field of a spec, an apply without
/// one takes away the whole spec with all that nobody owns in it (`cluster_node`): the taint that the server
/// itself puts on a new Node, which `NodeRestriction` answers with 403 "not allowed to modify taints".
fn body(name: &str, set: &NodeFields) -> Value {
    let mut metadata = Map::new();
    metadata.insert("name".to_owned(), json!(name));
    metadata.insert("uid".to_owned(), json!(set.uid));
    if !set.resource_version.is_empty() {
        metadata.insert("resourceVersion".to_owned(), json!(set.resource_version));
    }
    let keys = [("labels", &set.labels), ("annotations", &set.annotations)];
    for (field, keys) in keys {
        if !keys.is_empty() {
            metadata.insert(field.to_owned(), json!(keys));
        }
    }
    let mut body = json!({"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": {}});
    if set.unschedulable {
        body["spec"] = json!({"unschedulable": true});
    }
    body
}

fn removal(left: &Leftovers) -> Value {
    let nulls =
        |keys: &[String]| -> Map<_, _> { keys.iter().map(|k| (k.clone(), Value::Null)).collect() };
    let mut body = json!({"metadata": {
        "uid": left.uid,
        "resourceVersion": left.resource_version,
        "labels": nulls(&left.labels),
        "annotations": nulls(&left.annotations),
    }});
    if left.cordon {
        body["spec"] = json!({"unschedulable": null});
    }
    body
}

/// What is looked at; `asked`: boot time of a consistent read, none for what a watch delivered.
pub fn read(object: &Object, asked: Option<Duration>) -> Node {
    let status = object.status.as_ref();
    Node {
        name: text::name(&object.name_any(), NAME),
        uid: object.uid().unwrap_or_default(),
        resource_version: object.resource_version().unwrap_or_default(),
        unschedulable: unschedulable(object),
        cordon_owners: cordon_owners(object),
        labels: object.labels().clone(),
        annotations: annotations(object),
        guarded: guarded(object),
        exclusion_owners: owners(object, |fields| {
            let labels = fields.get("f:metadata")?.get("f:labels")?;
            labels.get(format!("f:{}", names::EXCLUDED.0))
        }),
        ready: ready(object),
        heartbeat: condition(object)
            .and_then(|ready| ready.last_heartbeat_time.as_deref())
            .map(lean::time),
        turned: condition(object)
            .and_then(|ready| ready.last_transition_time.as_deref())
            .map(lean::time),
        boot_id: status
            .and_then(|status| status.node_info.as_ref())
            .map(|info| info.boot_id.clone())
            .unwrap_or_default(),
        volumes_in_use: status
            .and_then(|status| status.volumes_in_use.as_ref())
            .into_iter()
            .flatten()
            .map(|volume| text::name(volume, VOLUME))
            .collect(),
        conditions: conditions(object),
        taints: taints(object),
        candidate: candidate(object),
        reported: reported(object),
        read: asked,
    }
}

/// The records among them stay as they are: they are compared with what was written, or carried over. What
/// they hold is cleaned where they are decoded ([`kube_rebootd_core::node_fields::recorded`]).
fn annotations(object: &Object) -> Keys {
    let mut annotations = object.annotations().clone();
    for key in WORDED {
        if let Some(words) = annotations.get_mut(key) {
            *words = text::clean(words, WORDS);
        }
    }
    annotations
}

/// Those of the keys that keep autoscalers and load balancers away that this daemon has applied; whoever changes a value
/// takes it over.
fn guarded(object: &Object) -> Vec<String> {
    let ours = object.managed_fields().iter().filter(|entry| {
        entry.manager.as_deref() == Some(names::NODE_MANAGER)
            && entry.operation.as_deref() == Some("Apply")
            && entry.subresource.as_deref().unwrap_or_default().is_empty()
    });
    let fields = ours.filter_map(|entry| entry.fields_v1.as_ref()?.0.get("f:metadata"));
    let fields: Vec<&Value> = fields.collect();
    let keys = names::GUARDS.iter().map(|(key, _)| ("f:annotations", *key));
    let keys = keys.chain([("f:labels", names::EXCLUDED.0)]);
    keys.filter(|(of, key)| {
        let field = format!("f:{key}");
        let owned = |all: &&Value| all.get(of).is_some_and(|all| all.get(&field).is_some());
        fields.iter().any(owned)
    })
    .map(|(_, key)| key.to_owned())
    .collect()
}

/// Those that this daemon may write, whoever wrote them.
fn conditions(object: &Object) -> Vec<Condition> {
    let status = object.status.as_ref();
    let all = status.and_then(|status| status.conditions.as_ref());
    let read = |one: &NodeCondition| {
        Some(Condition {
            kind: Kind::of(&one.type_)?,
            status: Status::of(&one.status),
            reason: text::clean(one.reason.as_deref().unwrap_or_default(), NAME),
            message: text::clean(one.message.as_deref().unwrap_or_default(), MESSAGE),
            since: one.last_transition_time.as_deref().map(lean::time),
        })
    };
    all.into_iter().flatten().filter_map(read).collect()
}

/// Those that anything here looks at, whatever their value and effect are.
fn taints(object: &Object) -> Vec<String> {
    let spec = object.spec.as_ref();
    let all = spec.and_then(|spec| spec.taints.as_ref());
    let keys = all.into_iter().flatten().map(|taint| taint.key.as_str());
    let keys: BTreeSet<&str> = keys.filter(|key| names::looks_at_taint(key)).collect();
    keys.into_iter().map(|key| text::name(key, NAME)).collect()
}

/// Its value is a number of seconds, as cluster-autoscaler writes it (`utils/taints/taints.go`); any other says nothing.
fn candidate(object: &Object) -> Option<Timestamp> {
    let taints = object.spec.as_ref()?.taints.as_ref()?;
    let taint = taints.iter().find(|taint| taint.key == names::CANDIDATE)?;
    let seconds = taint.value.as_deref()?.parse().ok()?;
    Timestamp::from_second(seconds).ok()
}

/// Those of others.
fn reported(object: &Object) -> BTreeMap<String, Status> {
    let status = object.status.as_ref();
    let all = status.and_then(|status| status.conditions.as_ref());
    let theirs = |one: &&NodeCondition| Kind::of(&one.type_).is_none();
    let all = all.into_iter().flatten().filter(theirs);
    all.map(|one| (text::name(&one.type_, NAME), Status::of(&one.status)))
        .collect()
}

fn condition(object: &Object) -> Option<&NodeCondition> {
    let conditions = object.status.as_ref()?.conditions.as_ref()?;
    conditions
        .iter()
        .find(|condition| condition.type_ == "Ready")
}

/// Its kubelet says so, and was heard of lately: else the lifecycle controller says Unknown (`real::silent`).
pub(crate) fn ready(object: &Object) -> bool {
    condition(object).is_some_and(|ready| ready.status == "True")
}

/// Since when it is what it is; none: that is not known.
pub(crate) fn ready_since(object: &Object) -> Option<Timestamp> {
    let since = condition(object)?.last_transition_time.as_deref();
    since
        .map(lean::time)
        .filter(|since| *since != Timestamp::MAX)
}

pub(crate) fn unschedulable(object: &Object) -> bool {
    object
        .spec
        .as_ref()
        .and_then(|spec| spec.unschedulable)
        .unwrap_or(false)
}

fn cordon_owners(object: &Object) -> Vec<String> {
    owners(object, |fields| {
        fields.get("f:spec")?.get("f:unschedulable")
    })
}

/// Managers whose managedFields entry (of the main resource) has this field.
fn owners(object: &Object, field: impl Fn(&Value) -> Option<&Value>) -> Vec<String> {
    let entries = object.managed_fields().iter();
    entries
        .filter(|entry| entry.subresource.as_deref().unwrap_or_default().is_empty())
        .filter(|entry| {
            let fields = entry.fields_v1.as_ref();
            fields.is_some_and(|fields| field(&fields.0).is_some())
        })
        .filter_map(|entry| entry.manager.clone())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_apply_names_only_what_is_set() {
        let set = NodeFields {
            uid: "u".to_owned(),
            ..NodeFields::default()
        };
        let expected = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1", "uid": "u"}, "spec": {}});
        assert_eq!(body("n1", &set), expected);
        let full = NodeFields {
            uid: "u".to_owned(),
            resource_version: "7".to_owned(),
            unschedulable: true,
            labels: Keys::from([(names::SLOT.to_owned(), "default".to_owned())]),
            annotations: Keys::new(),
        };
        let expected = json!({"apiVersion": "v1", "kind": "Node",
            "metadata": {"name": "n1", "uid": "u", "resourceVersion": "7",
                "labels": {"kube-rebootd/slot": "default"}},
            "spec": {"unschedulable": true}});
        assert_eq!(body("n1", &full), expected);
    }

    #[test]
    fn i3_owners_of_the_cordon_are_read_from_managed_fields() {
        let object: Object = serde_json::from_value(json!({
            "metadata": {"name": "n1", "managedFields": [
                {"manager": "kube-rebootd", "operation": "Apply", "fieldsV1": {"f:spec": {"f:unschedulable": {}}}},
                {"manager": "kubelet", "operation": "Update", "fieldsV1": {"f:spec": {"f:podCIDR": {}}}},
                {"manager": "kubectl-cordon", "operation": "Update", "fieldsV1": {"f:spec": {"f:unschedulable": {}}}},
            ]},
            "spec": {"unschedulable": true},
            "status": {"conditions": [{"type": "Ready", "status": "True",
                "lastHeartbeatTime": "2026-11-21T10:00:00Z"}]},
        }))
        .expect("a Node");
        let node = read(&object, None);
        assert_eq!(node.cordon_owners, ["kube-rebootd", "kubectl-cordon"]);
        assert!(node.ready && node.unschedulable && node.heartbeat.is_some());
    }

    #[test]
    fn i3_what_keeps_autoscalers_away_is_ours_only_if_we_applied_it() {
        let [(first, _), (second, _), (third, _)] = names::GUARDS;
        let field = |key: &str| json!({"f:metadata": {"f:annotations": {format!("f:{key}"): {}}}});
        let object: Object = serde_json::from_value(json!({
            "metadata": {"name": "n1", "annotations": {first: "true", second: "upgrade", third: "true"},
                "managedFields": [
                    {"manager": "kube-rebootd", "operation": "Apply", "fieldsV1": field(first)},
                    {"manager": "kube-rebootd", "operation": "Update", "fieldsV1": field(second)},
                    {"manager": "kubectl-annotate", "operation": "Update", "fieldsV1": field(third)},
                ]},
        }))
        .expect("a Node");
        assert_eq!(read(&object, None).guarded, [first]);
        for (key, _) in names::GUARDS {
            let object =
                serde_json::from_value(json!({"metadata": {"name": "n1", "managedFields": [
                {"manager": "kube-rebootd", "operation": "Apply", "fieldsV1": field(key)}]}}));
            assert_eq!(read(&object.expect("a Node"), None).guarded, [key]);
        }
    }

    #[test]
    fn i3_what_load_balancers_look_at_is_ours_only_if_we_applied_it() {
        let (key, value) = names::EXCLUDED;
        for (manager, operation, of, ours) in [
            ("kube-rebootd", "Apply", "f:labels", true),
            ("kube-rebootd", "Update", "f:labels", false),
            ("kubeadm", "Apply", "f:labels", false),
            // An annotation of this name is another thing.
            ("kube-rebootd", "Apply", "f:annotations", false),
        ] {
            let fields = json!({"f:metadata": {of: {format!("f:{key}"): {}, "f:a": {}}}});
            let object: Object = serde_json::from_value(json!({
                "metadata": {"name": "n1", "labels": {key: value}, "managedFields": [
                    {"manager": manager, "operation": operation, "fieldsV1": fields}]},
            }))
            .expect("a Node");
            let guarded = read(&object, None).guarded;
            assert_eq!(guarded == [key], ours, "{manager} {operation} {of}");
            assert_eq!(guarded.is_empty(), !ours);
        }
    }

    #[test]
    fn when_it_became_a_candidate_is_the_value_of_the_taint() {
        let at = |key: &str, value: Value| {
            let taint = json!({"key": key, "value": value, "effect": "PreferNoSchedule"});
            let object = json!({"metadata": {"name": "n1"}, "spec": {"taints": [taint]}});
            let object: Object = serde_json::from_value(object).expect("a Node");
            read(&object, None).candidate.map(Timestamp::as_second)
        };
        let seconds = json!("1795000000");
        assert_eq!(at(names::CANDIDATE, seconds.clone()), Some(1_795_000_000));
        assert_eq!(at("ToBeDeletedByClusterAutoscaler", seconds), None);
        for odd in [
            json!(null),
            json!(""),
            json!("soon"),
            json!("999999999999999"),
        ] {
            assert_eq!(at(names::CANDIDATE, odd), None);
        }
    }

    #[test]
    fn i14_of_taints_and_conditions_what_is_looked_at_is_read_and_cleaned() {
        let object: Object = serde_json::from_value(json!({
            "metadata": {"name": "n1"},
            "spec": {"taints": [
                {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"},
                {"key": "karpenter.sh/disrupted", "effect": "NoSchedule"},
                {"key": "ToBeDeletedByClusterAutoscaler", "value": "1795000000", "effect": "NoSchedule"},
                {"key": "karpenter.sh/disrupted", "effect": "NoExecute"},
                {"effect": "NoExecute"},
            ]},
            "status": {"conditions": [
                {"type": "Ready", "status": "True"},
                {"type": "Drained", "status": "True"},
                {"type": "KernelDeadlock", "status": "yes"},
                {"type": "a\u{1b}[2J", "status": "False"},
            ]},
        }))
        .expect("a Node");
        let node = read(&object, None);
        let taints = ["ToBeDeletedByClusterAutoscaler", "karpenter.sh/disrupted"];
        assert_eq!(node.taints, taints);
        let reported: Vec<_> = node.reported.iter().collect();
        let (odd, kernel, ready) = ("a\\u{1b}[2J", "KernelDeadlock", "Ready");
        let wanted = [
            (kernel, Status::Unknown),
            (ready, Status::True),
            (odd, Status::False),
        ];
        let wanted = wanted.map(|(kind, status)| (kind.to_owned(), status));
        assert_eq!(
            reported,
            wanted
                .iter()
                .map(|(kind, status)| (kind, status))
                .collect::<Vec<_>>()
        );
    }
}
