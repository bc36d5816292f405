//! I11, judged by the API server's own audit log: every request that a daemon made in the whole suite
//! is one of those listed here, by the right identity, about the right object; and none was refused
//! but where a test wants it. `make test` runs this after the suite, on the suite's bed.

#![allow(clippy::match_same_arms)] // one line for each rule

use testbed::{Bed, Request};

/// The daemon's part of the log: the kubelet shares its credential, but not this.
const AGENT: &str = "kube-rebootd/";
const COORDINATOR: &str = "system:serviceaccount:kube-rebootd:coordinator";
const NODE_USER: &str = "system:node:";
const SLOTS: &str = "kube-rebootd";
const HEARTBEATS: &str = "kube-node-lease";
/// Namespace of the Events about Nodes.
const EVENTS: &str = "default";
/// Types of conditions that are the daemon's to write.
const CONDITIONS: [&str; 5] = [
    "RebootRequired",
    "MaintenancePlanned",
    "DrainInProgress",
    "Drained",
    "MaintenanceInProgress",
];

/// Annotations by which a daemon says who it is.
const DAEMON: [&str; 2] = ["kube-rebootd/group", "kube-rebootd/version"];

/// Who wants a 403, and why: node names or user names of tests.
const WANTED_REFUSALS: [(&str, &str); 0] = [];

/// NodeRestriction looks a pod up in a cache that lags: the eviction of one that has just come to the node
/// is refused at first and asked for again (docs/design.md 13; `EvictAnswer::LookAgain`).
fn of_a_new_pod(request: &Request) -> bool {
    let said = request
        .response
        .as_ref()
        .and_then(|body| body["message"].as_str());
    request.resource == "pods/eviction"
        && said.is_some_and(|said| {
            said.contains("can only evict pods with spec.nodeName set to itself")
        })
}

/// Why a request is not allowed; none: it is.
fn objection(request: &Request) -> Option<String> {
    let wanted = |(who, _): &&(&str, &str)| {
        request.name == *who || request.user == format!("{NODE_USER}{who}")
    };
    if request.code == 403
        && !of_a_new_pod(request)
        && !WANTED_REFUSALS.iter().any(|wanted_by| wanted(&wanted_by))
    {
        return Some("refused, and no test wants that".to_owned());
    }
    let Some(me) = request.user.strip_prefix(NODE_USER) else {
        return Some("not the identity of a node".to_owned());
    };
    let allowed = match request.impersonated.as_deref() {
        None => by_node(request, me),
        Some(COORDINATOR) => by_coordinator(request, me),
        Some(_) => false,
    };
    (!allowed).then(|| "not on the list".to_owned())
}

/// What a node does as itself: everything is its own.
fn by_node(request: &Request, me: &str) -> bool {
    let own = request.name == me;
    let place = (request.resource.as_str(), request.namespace.as_str());
    match (request.verb.as_str(), place) {
        ("create", ("selfsubjectreviews", "")) => true,
        ("get" | "list" | "watch" | "patch", ("nodes", "")) => own,
        // Conditions of its own, and nothing else that a status holds.
        ("patch", ("nodes/status", "")) => own && tells_only(request),
        ("create" | "patch", ("events", EVENTS)) => about(request, me),
        ("get" | "patch", ("leases", HEARTBEATS)) => own,
        ("list" | "watch", ("pods", "")) => {
            request
                .uri
                .contains(&format!("fieldSelector=spec.nodeName%3D{me}&"))
                || request
                    .uri
                    .ends_with(&format!("fieldSelector=spec.nodeName%3D{me}"))
        }
        // NodeRestriction lets a node evict none but its own pods.
        ("create", ("pods/eviction", _)) => dry_in_full_or_not_at_all(request),
        // As drain.escalate says, and NodeRestriction lets a node delete none but its own pods.
        ("delete", ("pods", _)) => exactly_this_pod(request),
        _ => false,
    }
}

/// What a node does through the coordinator: it reads the group, and writes its own name into a slot
/// or takes it out.
fn by_coordinator(request: &Request, me: &str) -> bool {
    let place = (request.resource.as_str(), request.namespace.as_str());
    match (request.verb.as_str(), place) {
        ("get" | "list" | "watch", ("leases", SLOTS)) => true,
        ("patch", ("leases", SLOTS)) => names_only(request, me),
        // A missing Lease of the default group is made, paused and without a holder.
        ("create", ("leases", SLOTS)) if request.name == "default" => holder(request).is_none(),
        ("list", ("leases", HEARTBEATS)) => true,
        // Labelled Nodes, which Nodes are Ready or cordoned, whether pods have somewhere to go, and whether
        // the Node of a holder exists and is in service.
        ("get" | "list", ("nodes", "")) => true,
        // Pods that wait for room on a node, where `gates.capacity_wait` asks for them.
        ("list", ("pods", "")) => request
            .uri
            .contains("fieldSelector=spec.nodeName%3D%2Cstatus.phase%3DPending&limit="),
        // Whether a DaemonSet exists whose pod is missing after the boot; by its name only.
        ("get", ("daemonsets", _)) => !request.name.is_empty(),
        _ => false,
    }
}

/// What is only tried, by the daemon before a cordon and by `explain` and `doctor`, says so in its query and in its body: one of both alone is a mistake.
fn dry_in_full_or_not_at_all(request: &Request) -> bool {
    let body = request.request.as_ref();
    let body = body.is_some_and(|body| body["deleteOptions"]["dryRun"][0] == "All");
    request.uri.contains("dryRun=All") == body
}

/// A deletion has the UID as a precondition, and no grace period of 0.
fn exactly_this_pod(request: &Request) -> bool {
    let Some(body) = &request.request else {
        // The audit policy logs these bodies; without one nothing is known.
        return false;
    };
    body["preconditions"]["uid"].is_string() && body["gracePeriodSeconds"] != 0
}

/// An Event about the own Node, or that one has happened again.
fn about(request: &Request, me: &str) -> bool {
    let Some(body) = &request.request else {
        // The audit policy logs these bodies; without one nothing is known.
        return false;
    };
    let about = &body["involvedObject"];
    let fields = body.as_object();
    match request.verb.as_str() {
        "create" => about["kind"] == "Node" && about["name"] == me,
        _ => {
            request.name.starts_with(&format!("{me}."))
                && fields.is_some_and(|fields| {
                    fields
                        .keys()
                        .all(|key| key == "count" || key == "lastTimestamp")
                })
        }
    }
}

/// What the daemon says of itself: the types of docs/design.md 11, its group and version, and the Node's uid as a precondition.
fn tells_only(request: &Request) -> bool {
    let Some(body) = &request.request else {
        // The audit policy logs these bodies; without one nothing is known.
        return false;
    };
    let only = |object: &serde_json::Value, keys: &[&str]| {
        let object = object.as_object();
        object.is_some_and(|object| object.keys().all(|key| keys.contains(&key.as_str())))
    };
    let conditions = body["status"]["conditions"].as_array();
    let told = conditions.is_some_and(|all| {
        all.iter()
            .all(|one| CONDITIONS.iter().any(|kind| one["type"] == *kind))
    });
    told && only(body, &["metadata", "status"])
        && only(&body["metadata"], &["uid", "annotations"])
        && only(&body["metadata"]["annotations"], &DAEMON)
        && only(&body["status"], &["conditions"])
}

/// A take writes the own name, a give-up and the clearing of a stale slot null or nothing.
fn names_only(request: &Request, me: &str) -> bool {
    let Some(body) = &request.request else {
        // The audit policy logs these bodies; without one nothing is known.
        return false;
    };
    let others = ["ownerReferences", "finalizers"];
    let untouched = others.iter().all(|key| body["metadata"].get(key).is_none());
    untouched && holder(request).is_none_or(|holder| holder == me || holder.is_empty())
}

fn holder(request: &Request) -> Option<&str> {
    request.request.as_ref()?["spec"]["holderIdentity"].as_str()
}

/// One line about a request, without what differs from one to the next.
fn line(request: &Request, why: &str) -> String {
    let Request {
        at,
        user,
        verb,
        resource,
        namespace,
        name,
        code,
        uri,
        ..
    } = request;
    let face = request.impersonated.as_deref().unwrap_or("itself");
    format!(
        "{at} {user} as {face}: {verb} {resource} {namespace}/{name} answered {code}: {why} ({uri})"
    )
}

#[test]
fn i11_every_request_of_the_suite_is_on_the_list() {
    let bed = Bed::connect().unwrap();
    let requests = bed.requests_by(AGENT).unwrap();
    // A log without the daemon, or without a whole cycle, would prove nothing.
    for (verb, resource) in [
        ("patch", "nodes"),
        ("patch", "leases"),
        ("create", "pods/eviction"),
        ("watch", "leases"),
    ] {
        assert!(
            requests
                .iter()
                .any(|request| request.verb == verb && request.resource == resource),
            "no {verb} of {resource} among {} requests by {AGENT}: run this after the suite, on its bed",
            requests.len()
        );
    }
    let bad: Vec<String> = requests
        .iter()
        .filter_map(|request| objection(request).map(|why| line(request, &why)))
        .collect();
    assert!(
        bad.is_empty(),
        "{} of {} requests:\n{}",
        bad.len(),
        requests.len(),
        bad.join("\n")
    );
}

#[test]
fn i11_the_list_refuses_what_is_not_the_nodes_own() {
    let bed = Bed::connect().unwrap();
    let requests = bed.requests_by(AGENT).unwrap();
    // Real requests, each bent in one way.
    let one = |verb: &str, resource: &str, namespace: &str| {
        let fits = |request: &&Request| {
            request.verb == verb
                && request.resource == resource
                && (namespace.is_empty() || request.namespace == namespace)
                && objection(request).is_none()
        };
        requests.iter().find(fits).cloned().unwrap_or_else(|| {
            panic!("no good {verb} of {resource} in the log: run this after the suite, on its bed")
        })
    };
    let bent = |mut request: Request, bend: fn(&mut Request)| {
        bend(&mut request);
        assert!(
            objection(&request).is_some(),
            "{}",
            line(&request, "let through")
        );
    };
    let node = one("patch", "nodes", "");
    let take = one("patch", "leases", SLOTS);
    bent(node.clone(), |node| node.name = "another".to_owned());
    bent(node.clone(), |node| {
        node.resource = "nodes/status".to_owned();
    });
    bent(node.clone(), |node| node.code = 403);
    bent(node.clone(), |node| node.user = "admin".to_owned());
    bent(node.clone(), |node| {
        node.impersonated = Some(COORDINATOR.to_owned());
    });
    bent(node, |node| node.verb = "delete".to_owned());
    bent(take.clone(), |take| take.impersonated = None);
    bent(take.clone(), |take| take.namespace = "default".to_owned());
    bent(take.clone(), |take| take.request = None);
    bent(take, |take| {
        take.request = Some(std::sync::Arc::new(
            serde_json::json!({"spec": {"holderIdentity": "another"}}),
        ));
    });
    let pods = one("list", "pods", "");
    bent(pods, |pods| pods.uri = "/api/v1/pods".to_owned());
    let heartbeat = one("get", "leases", HEARTBEATS);
    bent(heartbeat, |lease| lease.name = "another".to_owned());
    let event = one("create", "events", EVENTS);
    bent(event.clone(), |event| event.request = None);
    bent(event, |event| {
        event.request = Some(std::sync::Arc::new(
            serde_json::json!({"involvedObject": {"kind": "Node", "name": "another"}}),
        ));
    });
    let evict = one("create", "pods/eviction", "");
    bent(evict.clone(), |evict| evict.resource = "pods".to_owned());
    bent(evict, |evict| {
        evict.uri = "/api/v1/namespaces/a/pods/b/eviction?dryRun=All".to_owned();
        evict.request = Some(std::sync::Arc::new(
            serde_json::json!({"deleteOptions": {}}),
        ));
    });
}
