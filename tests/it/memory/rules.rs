//! Who may do what: the Node authorizer, `NodeRestriction`, the shipped roles and the shipped policies,
//! as far as the daemon meets them (docs/design.md 3).

use serde_json::{Value, json};

use super::answer::Answer;
use super::request::{Request, Verb};

/// Whom a request is counted as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum User {
    Admin,
    Node(String),
    Coordinator,
}

pub(super) const COORDINATOR: &str = "system:serviceaccount:kube-rebootd:coordinator";
pub(super) const SLOTS: &str = "kube-rebootd";
pub(super) const BEATS: &str = "kube-node-lease";

impl User {
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Admin => "admin".to_owned(),
            Self::Node(node) => format!("system:node:{node}"),
            Self::Coordinator => COORDINATOR.to_owned(),
        }
    }
}

/// Authorization: none when it is allowed.
pub(super) fn authorize(user: &User, request: &Request) -> Option<Answer> {
    let allowed = match user {
        User::Admin => true,
        User::Node(node) => node_may(node, request),
        User::Coordinator => coordinator_may(request),
    };
    let elsewhere = match user {
        User::Node(_)
            if request.resource == "leases"
                && request.namespace != BEATS
                && !request.name.is_empty() =>
        {
            format!(": can only access leases in the \"{BEATS}\" system namespace")
        }
        _ => String::new(),
    };
    let why = || {
        format!(
            "User \"{}\" cannot {} resource \"{}\" in the namespace \"{}\"{elsewhere}",
            user.name(),
            request.verb.word(),
            request.resource,
            request.namespace
        )
    };
    (!allowed).then(|| Answer::forbidden(&request.resource, &request.name, &why()))
}

fn node_may(node: &str, request: &Request) -> bool {
    let own = request.name == node;
    let field = request
        .query
        .get("fieldSelector")
        .map_or("", String::as_str);
    match (request.resource.as_str(), request.verb) {
        ("selfsubjectreviews" | "events" | "pods/eviction" | "nodes", Verb::Create)
        | ("pods", Verb::Delete)
        | ("pods/status" | "nodes" | "nodes/status" | "events", Verb::Patch | Verb::Update) => true,
        ("nodes", Verb::Get) => own,
        ("nodes", Verb::List | Verb::Watch) => field == format!("metadata.name={node}"),
        ("pods", Verb::List | Verb::Watch) => field == format!("spec.nodeName={node}"),
        ("leases", Verb::Get | Verb::Create | Verb::Update | Verb::Patch) => {
            request.namespace == BEATS && (own || request.verb == Verb::Create)
        }
        _ => false,
    }
}

/// `kubernetes/10-access.yaml`.
fn coordinator_may(request: &Request) -> bool {
    match (
        request.resource.as_str(),
        request.namespace.as_str(),
        request.verb,
    ) {
        ("selfsubjectreviews", _, Verb::Create)
        | ("leases", SLOTS, Verb::Get | Verb::List | Verb::Watch | Verb::Patch)
        | ("leases", BEATS, Verb::List)
        | ("nodes", _, Verb::Get | Verb::List)
        | ("daemonsets", _, Verb::Get) => true,
        ("leases", SLOTS, Verb::Create) => request.name == "default",
        _ => false,
    }
}

/// `NodeRestriction`, before the object is looked at for conflicts; `pod_node`: where the pod of an
/// eviction or a deletion runs.
pub(super) fn restrict(
    user: &User,
    request: &Request,
    before: &Value,
    after: &Value,
    pod_node: Option<&str>,
) -> Option<Answer> {
    let User::Node(node) = user else { return None };
    let refuse = |why: String| Some(Answer::forbidden(&request.resource, &request.name, &why));
    match request.resource.as_str() {
        "leases" if request.namespace != BEATS => refuse(format!(
            "can only access leases in the \"{BEATS}\" system namespace"
        )),
        "leases" if request.name != *node => refuse(
            "can only access node lease with the same name as the requesting node".to_owned(),
        ),
        "nodes" | "nodes/status" if request.name != *node => refuse(format!(
            "node \"{node}\" is not allowed to modify node \"{}\"",
            request.name
        )),
        "nodes" if !before.is_null() && before["spec"]["taints"] != after["spec"]["taints"] => {
            refuse(format!("node \"{node}\" is not allowed to modify taints"))
        }
        "nodes" => label(node, before, after).and_then(refuse),
        "pods/eviction" if pod_node.is_some_and(|there| there != node) => refuse(format!(
            "node \"{node}\" can only evict pods with spec.nodeName set to itself"
        )),
        "pods" if request.verb == Verb::Delete && pod_node.is_some_and(|there| there != node) => {
            refuse(format!(
                "node \"{node}\" can only delete pods with spec.nodeName set to itself"
            ))
        }
        _ => None,
    }
}

/// A label of Kubernetes' own domains that a node may not set.
fn label(node: &str, before: &Value, after: &Value) -> Option<String> {
    let labels = after["metadata"]["labels"].as_object()?;
    let changed = labels
        .iter()
        .filter(|(key, value)| before["metadata"]["labels"].get(key.as_str()) != Some(*value));
    let reserved = |key: &str| {
        let domain = key.split_once('/').map_or("", |(domain, _)| domain);
        let ours = domain.ends_with("kubernetes.io") || domain.ends_with("k8s.io");
        let free = ["kubelet.kubernetes.io", "node.kubernetes.io"];
        ours && !free.contains(&domain) && key != "kubernetes.io/hostname"
    };
    let bad: Vec<&str> = changed
        .map(|(key, _)| key.as_str())
        .filter(|key| reserved(key))
        .collect();
    (!bad.is_empty()).then(|| {
        format!(
            "node \"{node}\" is not allowed to modify labels: {}",
            bad.join(", ")
        )
    })
}

/// Bytes of all keys and values of an object's annotations (apimachinery, `TotalAnnotationSizeLimitB`).
pub(crate) const ANNOTATIONS: usize = 256 * 1024;

/// Bytes of all annotations of an object.
pub(crate) fn annotated(object: &Value) -> usize {
    let of = object["metadata"]["annotations"].as_object();
    let bytes = |(key, value): (&String, &Value)| key.len() + value.as_str().unwrap_or("").len();
    of.into_iter().flatten().map(bytes).sum()
}

/// There is more in them than an object may have.
pub(super) fn annotations(request: &Request, after: &Value) -> Option<Answer> {
    let why = format!("may not be more than {ANNOTATIONS} bytes");
    (annotated(after) > ANNOTATIONS)
        .then(|| Answer::too_long(&request.name, "metadata.annotations", &why))
}

/// The policies of `kubernetes/30-policy.yaml`, for whoever may not delete slots.
pub(super) fn policy(
    user: &User,
    request: &Request,
    before: &Value,
    after: &Value,
) -> Option<Answer> {
    if *user == User::Admin || request.resource != "leases" || request.namespace != SLOTS {
        return None;
    }
    let refuse = |why: &str| Some(Answer::policy(&request.resource, &request.name, why));
    let holder = |lease: &Value| {
        lease["spec"]["holderIdentity"]
            .as_str()
            .unwrap_or("")
            .to_owned()
    };
    if before.is_null() {
        let metadata = &after["metadata"];
        let group = metadata["labels"]["kube-rebootd/group"]
            .as_str()
            .unwrap_or("");
        let paused = metadata["annotations"].get("kube-rebootd/paused").is_some();
        return match () {
            () if Some(group) != metadata["name"].as_str() => {
                refuse("only who may delete Leases may make a slot for another group than its name")
            }
            () if !paused => {
                refuse("only who may delete Leases may make a slot that is not paused")
            }
            () if !holder(after).is_empty() => {
                refuse("only who may delete Leases may make a slot that is held")
            }
            () => None,
        };
    }
    let (old, new) = (holder(before), holder(after));
    if !old.is_empty() && !new.is_empty() && old != new {
        let name = &request.name;
        return refuse(&format!(
            "slot {name} is held by {old}; it must be given up before {new} can take it"
        ));
    }
    let nothing = json!(null);
    let same = |field: &str| {
        let of = |lease: &Value| {
            lease["metadata"]
                .get(field)
                .cloned()
                .unwrap_or(nothing.clone())
        };
        let (old, new) = (of(before), of(after));
        let bare = |value: &Value| {
            value.is_null()
                || value.as_object().is_some_and(serde_json::Map::is_empty)
                || value.as_array().is_some_and(Vec::is_empty)
        };
        old == new || (bare(&old) && bare(&new))
    };
    ["labels", "finalizers", "ownerReferences"]
        .iter()
        .find(|field| !same(field))
        .and_then(|field| {
            refuse(&format!(
                "only who may delete Leases may change the {field} of a slot"
            ))
        })
}
