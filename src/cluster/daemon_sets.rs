//! Whether a DaemonSet exists and wants a pod on this node: asked through the coordinator after the boot, and only
//! while a pod that was ready before is absent (I4, I11).

use std::collections::BTreeMap;

use futures_util::future::join_all;
use k8s_openapi::api::apps::v1::DaemonSet as Full;
use k8s_openapi::api::core::v1::{Affinity, NodeSelectorRequirement, NodeSelectorTerm, Toleration};
use kube::{Api, Client, Resource, ResourceExt};
use kube_rebootd_core::health::{DaemonSet, Found};
use kube_rebootd_core::text::{self, WORDS};
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::cluster::answer::{ApiError, CALL, call};
use crate::cluster::lean::{Lean, Node, Taint};

/// So many are asked for at once at most: a node has some ten, and their answers come together.
const AT_ONCE: usize = 20;

/// A DaemonSet, as far as it is looked at.
type Object = Lean<Full, Spec, IgnoredAny>;

#[derive(Clone, Debug, Deserialize)]
struct Spec {
    template: Template,
}

#[derive(Clone, Debug, Deserialize)]
struct Template {
    spec: Option<PodSpec>,
}

/// What decides on which Nodes its pods are.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PodSpec {
    node_selector: Option<BTreeMap<String, String>>,
    affinity: Option<Affinity>,
    tolerations: Option<Vec<Toleration>>,
}

/// Looks for `wanted`, and whether they select the own Node `me`. An answer that says nothing about one is an error: to be
/// asked again, whatever was answered about the others.
pub async fn look(
    coordinator: &Client,
    own: &Api<Node>,
    me: &str,
    wanted: &[DaemonSet],
) -> Result<Vec<(DaemonSet, Result<Found, ApiError>)>, ApiError> {
    let node = call("get own Node", CALL, own.get(me)).await?;
    let looks = wanted.iter().take(AT_ONCE).map(async |set| {
        let found = one(coordinator, &node, set).await;
        (set.clone(), found)
    });
    Ok(join_all(looks).await)
}

async fn one(coordinator: &Client, node: &Node, set: &DaemonSet) -> Result<Found, ApiError> {
    let api: Api<Object> = Api::namespaced(coordinator.clone(), &set.namespace);
    let what = format!("get DaemonSet {}", set.path());
    match call(&what, CALL, api.get(&set.name)).await {
        Ok(object) => Ok(found(&object, node, set)),
        Err(ApiError::Gone { .. }) => Ok(Found::Gone),
        Err(err) if err.unanswered() || err.unauthorized() => Err(err),
        Err(err) => Ok(Found::Unreadable(err.to_string())),
    }
}

fn found(object: &Object, node: &Node, set: &DaemonSet) -> Found {
    // The controller of one that is being deleted makes no pods.
    let other = object.uid().is_none_or(|uid| uid != set.uid);
    if other || object.meta().deletion_timestamp.is_some() {
        return Found::Gone;
    }
    let pod = object
        .spec
        .as_ref()
        .and_then(|spec| spec.template.spec.as_ref());
    match pod.and_then(|pod| unwanted(pod, node)) {
        Some(why) => Found::Unwanted(text::clean(&why, WORDS)),
        None => Found::Wanted,
    }
}

/// Why the controller makes no pod of `spec` on `node` (Kubernetes `pkg/controller/daemon/daemon_controller.go`,
/// `NodeShouldRunDaemonPod`), in words.
fn unwanted(spec: &PodSpec, node: &Node) -> Option<String> {
    let labels = node.labels();
    let mut selector = spec.node_selector.iter().flatten();
    if let Some((key, value)) = selector.find(|(key, value)| labels.get(*key) != Some(value)) {
        return Some(format!(
            "its nodeSelector {key}={value} does not select this node"
        ));
    }
    let required = (spec.affinity.as_ref())
        .and_then(|affinity| affinity.node_affinity.as_ref())
        .and_then(|affinity| {
            affinity
                .required_during_scheduling_ignored_during_execution
                .as_ref()
        });
    if let Some(required) = required
        && !required
            .node_selector_terms
            .iter()
            .any(|term| selects(term, node))
    {
        return Some("its node affinity does not select this node".to_owned());
    }
    let tolerations = spec.tolerations.as_deref().unwrap_or_default();
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_ref());
    let mut taints = taints.into_iter().flatten();
    let keeps_away = |taint: &&Taint| {
        // Those of conditions come and go; the controller's own tolerations are about them.
        let passing = taint.key.starts_with("node.kubernetes.io/");
        let hard = matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute");
        hard && !passing && !tolerations.iter().any(|it| tolerates(it, taint))
    };
    let taint = taints.find(keeps_away)?;
    Some(format!(
        "it does not tolerate the taint {} of this node",
        taint.key
    ))
}

/// An empty term selects nothing.
fn selects(term: &NodeSelectorTerm, node: &Node) -> bool {
    let labels = term.match_expressions.as_deref().unwrap_or_default();
    let fields = term.match_fields.as_deref().unwrap_or_default();
    let label = |one: &NodeSelectorRequirement| {
        let value = node.labels().get(&one.key).map(String::as_str);
        fits(one, value)
    };
    // The only field there is.
    let field = |one: &NodeSelectorRequirement| fits(one, node.meta().name.as_deref());
    let any = !labels.is_empty() || !fields.is_empty();
    any && labels.iter().all(label) && fields.iter().all(field)
}

fn fits(one: &NodeSelectorRequirement, value: Option<&str>) -> bool {
    let values = one.values.as_deref().unwrap_or_default();
    let listed = value.is_some_and(|value| values.iter().any(|one| one == value));
    let number = |text: &str| text.parse::<i64>().ok();
    let numbers = || Some((number(value?)?, number(values.first()?)?));
    match one.operator.as_str() {
        "In" => listed,
        "NotIn" => !listed,
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => numbers().is_some_and(|(value, than)| value > than),
        "Lt" => numbers().is_some_and(|(value, than)| value < than),
        _ => false,
    }
}

fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let same = |one: &Option<String>, other: &str| {
        one.as_deref()
            .is_none_or(|one| one.is_empty() || one == other)
    };
    let exists = toleration.operator.as_deref() == Some("Exists");
    let value = toleration.value.as_deref().unwrap_or_default();
    same(&toleration.effect, &taint.effect)
        && same(&toleration.key, &taint.key)
        && (exists || value == taint.value.as_deref().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn set() -> DaemonSet {
        DaemonSet {
            uid: "u".to_owned(),
            namespace: "kube-system".to_owned(),
            name: "net".to_owned(),
        }
    }

    #[allow(clippy::needless_pass_by_value)] // so that a row of a table stays short
    fn looked(metadata: Value, pod: Value, taints: Value) -> Found {
        let node = json!({"metadata": {"name": "n1", "labels": {"disk": "ssd", "cores": "8"}},
            "spec": {"taints": taints}});
        let object = json!({"metadata": metadata,
            "spec": {"selector": {}, "template": {"spec": pod}}});
        let node = serde_json::from_value(node).expect("a Node");
        let object = serde_json::from_value(object).expect("a DaemonSet");
        found(&object, &node, &set())
    }

    #[test]
    fn a_daemon_set_of_another_uid_or_one_that_is_deleted_is_gone() {
        let look = |metadata| looked(metadata, json!({"containers": []}), json!([]));
        assert_eq!(look(json!({"uid": "u"})), Found::Wanted);
        assert_eq!(look(json!({"uid": "v"})), Found::Gone);
        assert_eq!(look(json!({})), Found::Gone);
        let deleted = json!({"uid": "u", "deletionTimestamp": "2026-11-21T10:00:00Z"});
        assert_eq!(look(deleted), Found::Gone);
    }

    #[test]
    fn it_wants_this_node_as_the_controller_says() {
        let affinity = |terms: Value| {
            json!({"containers": [], "affinity": {"nodeAffinity":
                {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}})
        };
        let one = |operator: &str, values: Value| {
            affinity(json!([{"matchExpressions": [
                {"key": "cores", "operator": operator, "values": values}]}]))
        };
        let tolerations = |all: Value| json!({"containers": [], "tolerations": all});
        let taint = json!([{"key": "gpu", "value": "a", "effect": "NoSchedule"}]);
        let soft = json!([{"key": "gpu", "effect": "PreferNoSchedule"}]);
        let condition = json!([{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]);
        let none = json!([]);
        let rows = [
            (json!({"containers": []}), &none, true),
            (
                json!({"containers": [], "nodeSelector": {"disk": "ssd"}}),
                &none,
                true,
            ),
            (
                json!({"containers": [], "nodeSelector": {"disk": "hdd"}}),
                &none,
                false,
            ),
            (
                json!({"containers": [], "nodeSelector": {"new": ""}}),
                &none,
                false,
            ),
            (one("In", json!(["4", "8"])), &none, true),
            (one("In", json!(["4"])), &none, false),
            (one("NotIn", json!(["4"])), &none, true),
            (one("Exists", json!(null)), &none, true),
            (one("DoesNotExist", json!(null)), &none, false),
            (one("Gt", json!(["4"])), &none, true),
            (one("Lt", json!(["4"])), &none, false),
            (affinity(json!([{}])), &none, false),
            (
                affinity(json!([{}, {"matchFields": [
                    {"key": "metadata.name", "operator": "In", "values": ["n1"]}]}])),
                &none,
                true,
            ),
            (json!({"containers": []}), &taint, false),
            (json!({"containers": []}), &soft, true),
            (json!({"containers": []}), &condition, true),
            (tolerations(json!([{"operator": "Exists"}])), &taint, true),
            (
                tolerations(json!([{"key": "gpu", "operator": "Exists"}])),
                &taint,
                true,
            ),
            (
                tolerations(json!([{"key": "gpu", "value": "a"}])),
                &taint,
                true,
            ),
            (
                tolerations(json!([{"key": "gpu", "value": "b"}])),
                &taint,
                false,
            ),
            (
                tolerations(json!([{"key": "gpu", "value": "a", "effect": "NoExecute"}])),
                &taint,
                false,
            ),
        ];
        for (pod, taints, wanted) in rows {
            let found = looked(json!({"uid": "u"}), pod.clone(), taints.clone());
            assert_eq!(found == Found::Wanted, wanted, "{pod} {taints}: {found:?}");
        }
    }
}
