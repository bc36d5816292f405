//! Objects that others write, too, read only as far as they are looked at (I7, I14).
//!
//! Whoever may create a pod, or patch the status of a Node, may also write what the API server stores and the types of
//! k8s-openapi cannot read: a time after the last day that jiff knows (Go's calendar has years of five digits), in
//! `metadata.managedFields`, in a condition or in a template; or `fieldsV1` nested deeper than `serde_json` goes. One such
//! object would make every list and every watch with it fail. What is not looked at is skipped here, whatever it holds,
//! and a time is at most the last one.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::marker::PhantomData;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::Lease as FullLease;
use k8s_openapi::api::core::v1::Node as FullNode;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{
    FieldsV1, ManagedFieldsEntry, ObjectMeta, OwnerReference, Time,
};
use kube::Resource;
use kube_rebootd_core::names;
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value, json};

/// A Node.
pub type Node = Lean<FullNode, NodeSpec, NodeStatus>;
/// A Lease.
pub type Lease = Lean<FullLease, LeaseSpec, IgnoredAny>;
/// An object of kind `K` of which only metadata are asked for.
pub type Named<K> = Lean<K, IgnoredAny, IgnoredAny, true>;

/// What is looked at of a Node's spec.
#[derive(Clone, Debug, Deserialize)]
pub struct NodeSpec {
    pub unschedulable: Option<bool>,
    pub taints: Option<Vec<Taint>>,
}

/// A taint, without its time.
#[derive(Clone, Debug, Deserialize)]
pub struct Taint {
    #[serde(default)]
    pub key: String,
    pub value: Option<String>,
    #[serde(default)]
    pub effect: String,
}

/// What is looked at of a Node's status.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeStatus {
    pub conditions: Option<Vec<NodeCondition>>,
    pub node_info: Option<NodeInfo>,
    pub volumes_in_use: Option<Vec<String>>,
}

/// A condition of a Node.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeCondition {
    #[serde(rename = "type", default)]
    pub type_: String,
    #[serde(default)]
    pub status: String,
    pub reason: Option<String>,
    pub message: Option<String>,
    pub last_heartbeat_time: Option<String>,
    pub last_transition_time: Option<String>,
}

/// What the kubelet says of its host.
#[derive(Clone, Debug, Deserialize)]
pub struct NodeInfo {
    #[serde(rename = "bootID", default)]
    pub boot_id: String,
}

/// What is looked at of a Lease's spec.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LeaseSpec {
    pub holder_identity: Option<String>,
    pub acquire_time: Option<String>,
    pub renew_time: Option<String>,
    pub lease_duration_seconds: Option<i32>,
}

/// An object of kind `K` of which only metadata, `S` of its spec and `T` of its status are looked at; with `META` nothing
/// but metadata are sent.
#[derive(Clone, Debug, Deserialize)]
#[serde(bound = "S: Deserialize<'de>, T: Deserialize<'de>")]
pub struct Lean<K, S, T, const META: bool = false> {
    #[serde(default, deserialize_with = "meta")]
    metadata: ObjectMeta,
    #[serde(default = "none")]
    pub spec: Option<S>,
    #[serde(default = "none")]
    pub status: Option<T>,
    #[serde(skip)]
    kind: PhantomData<K>,
}

/// As `Default`, of a type that has none.
fn none<T>() -> Option<T> {
    None
}

impl<K: Resource<DynamicType = ()>, S, T, const META: bool> Resource for Lean<K, S, T, META> {
    type DynamicType = ();
    type Scope = K::Scope;

    fn kind((): &()) -> Cow<'_, str> {
        K::kind(&())
    }

    fn group((): &()) -> Cow<'_, str> {
        K::group(&())
    }

    fn version((): &()) -> Cow<'_, str> {
        K::version(&())
    }

    fn plural((): &()) -> Cow<'_, str> {
        K::plural(&())
    }

    fn metadata_api() -> bool {
        META
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

/// What is looked at of `metadata`.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Meta {
    name: Option<String>,
    namespace: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
    labels: Option<BTreeMap<String, String>>,
    annotations: Option<BTreeMap<String, String>>,
    owner_references: Option<Vec<OwnerReference>>,
    finalizers: Option<Vec<String>>,
    deletion_timestamp: Option<String>,
    deletion_grace_period_seconds: Option<i64>,
    managed_fields: Option<Vec<Entry>>,
}

/// What is looked at of an entry of `managedFields`: who owns `spec.unschedulable`, and what keeps autoscalers and load
/// balancers away.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Entry {
    manager: Option<String>,
    operation: Option<String>,
    subresource: Option<String>,
    fields_v1: Option<Fields>,
}

#[derive(Deserialize)]
struct Fields {
    #[serde(rename = "f:spec")]
    spec: Option<SpecFields>,
    #[serde(rename = "f:metadata")]
    metadata: Option<MetaFields>,
}

#[derive(Deserialize)]
struct MetaFields {
    #[serde(rename = "f:annotations")]
    annotations: Option<Guards>,
    #[serde(rename = "f:labels")]
    labels: Option<Excluded>,
}

/// [`names::EXCLUDED`] by its field.
#[derive(Deserialize)]
struct Excluded {
    #[serde(rename = "f:node.kubernetes.io/exclude-from-external-load-balancers")]
    excluded: Option<IgnoredAny>,
}

/// [`names::GUARDS`] by their fields, in their order: a Node has many annotations, and a list of Nodes many Nodes.
#[derive(Deserialize)]
struct Guards {
    #[serde(rename = "f:cluster-autoscaler.kubernetes.io/scale-down-disabled")]
    cluster_autoscaler: Option<IgnoredAny>,
    #[serde(rename = "f:kubernetes.azure.com/azure-cluster-autoscaler-scale-down-disabled-reason")]
    aks: Option<IgnoredAny>,
    #[serde(rename = "f:karpenter.sh/do-not-disrupt")]
    karpenter: Option<IgnoredAny>,
}

impl MetaFields {
    fn looked_at(self) -> Option<Value> {
        let mut kept = Map::new();
        let guards = self.annotations.map(|guards| guards.fields());
        if let Some(guards) = guards.filter(|guards| !guards.is_empty()) {
            kept.insert("f:annotations".to_owned(), Value::Object(guards));
        }
        if self.labels.and_then(|labels| labels.excluded).is_some() {
            let field = format!("f:{}", names::EXCLUDED.0);
            kept.insert("f:labels".to_owned(), json!({field: {}}));
        }
        (!kept.is_empty()).then_some(Value::Object(kept))
    }
}

impl Guards {
    fn fields(&self) -> Map<String, Value> {
        let there = [&self.cluster_autoscaler, &self.aks, &self.karpenter];
        let all = names::GUARDS.iter().zip(there);
        let owned = all.filter(|(_, there)| there.is_some());
        owned
            .map(|((key, _), _)| (format!("f:{key}"), json!({})))
            .collect()
    }
}

#[derive(Deserialize)]
struct SpecFields {
    #[serde(rename = "f:unschedulable")]
    unschedulable: Option<IgnoredAny>,
}

impl Entry {
    fn looked_at(self) -> Option<ManagedFieldsEntry> {
        let fields = self.fields_v1?;
        let mut kept = Map::new();
        if fields.spec.and_then(|spec| spec.unschedulable).is_some() {
            kept.insert("f:spec".to_owned(), json!({"f:unschedulable": {}}));
        }
        if let Some(metadata) = fields.metadata.and_then(MetaFields::looked_at) {
            kept.insert("f:metadata".to_owned(), metadata);
        }
        (!kept.is_empty()).then(|| ManagedFieldsEntry {
            manager: self.manager,
            operation: self.operation,
            subresource: self.subresource,
            fields_v1: Some(FieldsV1(Value::Object(kept))),
            ..ManagedFieldsEntry::default()
        })
    }
}

fn meta<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ObjectMeta, D::Error> {
    let meta = Option::<Meta>::deserialize(deserializer)?.unwrap_or_default();
    Ok(ObjectMeta {
        name: meta.name,
        namespace: meta.namespace,
        uid: meta.uid,
        resource_version: meta.resource_version,
        labels: meta.labels,
        annotations: meta.annotations,
        owner_references: meta.owner_references,
        finalizers: meta.finalizers,
        deletion_timestamp: meta.deletion_timestamp.map(|text| Time(time(&text))),
        deletion_grace_period_seconds: meta.deletion_grace_period_seconds,
        managed_fields: (meta.managed_fields)
            .map(|entries| entries.into_iter().filter_map(Entry::looked_at).collect()),
        ..ObjectMeta::default()
    })
}

/// Clocks that work differ by less.
const AHEAD: SignedDuration = SignedDuration::from_mins(10);

/// A time as the API server writes it. One that jiff does not know is its last: that there is one is what counts.
pub(crate) fn time(text: &str) -> Timestamp {
    text.parse().unwrap_or(Timestamp::MAX)
}

/// A time that has been, by the clock of another host, is further in the future than clocks that work differ: it says nothing.
pub(crate) fn ahead(time: Timestamp, now: Timestamp) -> bool {
    time.duration_since(now) > AHEAD
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;
    use kube::ResourceExt;

    use super::*;

    type Object = Lean<Pod, IgnoredAny, IgnoredAny>;

    fn read(metadata: &str) -> Result<Object, serde_json::Error> {
        serde_json::from_str(&format!(
            r#"{{"kind":"Pod","metadata":{metadata},"spec":{{"a":1}}}}"#
        ))
    }

    #[test]
    fn i7_what_k8s_openapi_cannot_read_is_no_error_where_nobody_looks() {
        let deep = format!("{}1{}", r#"{"f:a":"#.repeat(500), "}".repeat(500));
        for (what, metadata) in [
            (
                "a time",
                r#"{"name":"a","managedFields":[{"time":"9999-12-31T23:59:59Z"}]}"#.to_owned(),
            ),
            (
                "a year of five digits",
                r#"{"name":"a","creationTimestamp":"10000-01-01T00:00:00Z"}"#.to_owned(),
            ),
            (
                "a depth",
                format!(r#"{{"name":"a","managedFields":[{{"fieldsV1":{deep}}}]}}"#),
            ),
        ] {
            let text = format!(r#"{{"metadata":{metadata}}}"#);
            assert!(serde_json::from_str::<Pod>(&text).is_err(), "{what}");
            assert_eq!(read(&metadata).expect(what).name_any(), "a");
        }
    }

    #[test]
    fn what_is_looked_at_is_as_it_was() {
        let object = read(
            r#"{"name":"a","namespace":"b","uid":"u","resourceVersion":"7","labels":{"k":"v"},"annotations":{"x":"y"},
                "deletionTimestamp":"9999-12-31T23:59:59Z","deletionGracePeriodSeconds":3,"finalizers":["f"],
                "ownerReferences":[{"apiVersion":"v1","kind":"X","name":"x","uid":"1","controller":true}]}"#,
        )
        .expect("read");
        let meta = object.meta();
        assert_eq!(
            (object.uid(), object.resource_version()),
            (Some("u".into()), Some("7".into()))
        );
        assert_eq!(
            (&object.labels()["k"], &object.annotations()["x"]),
            (&"v".into(), &"y".into())
        );
        assert_eq!(meta.deletion_timestamp, Some(Time(Timestamp::MAX)));
        assert_eq!(
            (meta.deletion_grace_period_seconds, object.finalizers()),
            (Some(3), &["f".into()][..])
        );
        assert_eq!(object.owner_references()[0].controller, Some(true));
        assert!(object.spec.is_some() && object.status.is_none());
        assert!(read("null").expect("read").meta() == &ObjectMeta::default());
        assert!(read(r#"{"labels":[]}"#).is_err());
    }

    #[test]
    fn it_is_asked_for_under_the_name_of_its_kind() {
        assert_eq!(
            Object::url_path(&(), Some("a")),
            Pod::url_path(&(), Some("a"))
        );
        assert_eq!(
            (Object::kind(&()), Object::version(&())),
            (Pod::kind(&()), Pod::version(&()))
        );
        assert!(Named::<Pod>::metadata_api() && !Object::metadata_api());
    }
}
