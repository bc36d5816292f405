//! The objects, their versions and what happened to them: every write goes through [`Store::write`].

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::answer::Answer;
use super::evict::{self, another};
use super::fields::{self, Manager};
use super::request::{Request, Verb};
use super::rules::{self, User};
use super::select::Selector;

/// Resource, namespace, name.
pub(super) type Key = (String, String, String);

#[derive(Debug, Clone)]
pub(super) struct Object {
    /// As the API shows it.
    pub(super) body: Arc<Value>,
    pub(super) managers: Vec<Manager>,
}

/// One change, for watches.
#[derive(Debug, Clone)]
pub(super) struct Event {
    pub(super) version: u64,
    pub(super) key: Key,
    pub(super) before: Option<Arc<Value>>,
    pub(super) after: Option<Arc<Value>>,
}

#[derive(Debug, Default)]
pub(super) struct Store {
    pub(super) objects: BTreeMap<Key, Object>,
    pub(super) version: u64,
    uids: u64,
    pub(super) events: Vec<Event>,
    /// Versions up to this one can no longer be watched from.
    pub(super) compacted: u64,
    /// The server's wall clock.
    pub(super) now: Timestamp,
    /// `kubernetes/options/capacity.yaml` is applied.
    pub(super) lists_pods: bool,
}

/// Kind and apiVersion of a resource.
pub(super) fn kind(resource: &str) -> (&'static str, &'static str) {
    match resource.split('/').next().unwrap_or_default() {
        "leases" => ("Lease", "coordination.k8s.io/v1"),
        "nodes" => ("Node", "v1"),
        "pods" => ("Pod", "v1"),
        "daemonsets" => ("DaemonSet", "apps/v1"),
        "events" => ("Event", "v1"),
        "poddisruptionbudgets" => ("PodDisruptionBudget", "policy/v1"),
        _ => ("Unknown", "v1"),
    }
}

/// Enough for every watch to follow; older ones are compacted away.
const EVENTS_KEPT: usize = 20_000;

impl Store {
    pub(super) fn get(&self, resource: &str, namespace: &str, name: &str) -> Option<&Object> {
        let key = (resource.to_owned(), namespace.to_owned(), name.to_owned());
        self.objects.get(&key)
    }

    /// Answers everything but a watch.
    pub(super) fn answer(&mut self, user: &User, request: &Request) -> Answer {
        let pods = request.resource == "pods" && request.verb == Verb::List;
        let granted = self.lists_pods && pods && *user == User::Coordinator;
        if !granted && let Some(refused) = rules::authorize(user, request) {
            return refused;
        }
        match (request.resource.as_str(), request.verb) {
            ("selfsubjectreviews", Verb::Create) => Answer::created(json!({
                "kind": "SelfSubjectReview", "apiVersion": "authentication.k8s.io/v1", "metadata": {},
                "status": {"userInfo": {"username": user.name()}}})),
            ("pods/eviction", Verb::Create) => evict::evict(self, user, request),
            (_, Verb::Get) => {
                match self.get(&request.resource, &request.namespace, &request.name) {
                    Some(object) => Answer::ok(shown(request, &object.body)),
                    None => Answer::not_found(&request.resource, &request.name),
                }
            }
            (_, Verb::List) => self.list(request),
            (_, Verb::Delete) => self.delete(user, request),
            (_, Verb::Create) => self.create(user, request),
            (_, Verb::Patch | Verb::Update) => self.change(user, request),
            (_, Verb::Watch) => Answer::status(400, "BadRequest", "a watch is no answer"),
        }
    }

    fn list(&self, request: &Request) -> Answer {
        let selector = match Selector::of(request) {
            Ok(selector) => selector,
            Err(refused) => return refused,
        };
        let from = request.query.get("continue").cloned().unwrap_or_default();
        let all = self.selected(request, &selector);
        let mut rest: Vec<_> = all
            .into_iter()
            .filter(|(key, _)| from.is_empty() || format!("{}/{}", key.1, key.2) > from)
            .collect();
        let limit = request
            .number("limit")
            .and_then(|limit| usize::try_from(limit).ok());
        let mut metadata = json!({"resourceVersion": self.version.to_string()});
        if let Some(limit) = limit.filter(|limit| *limit > 0 && rest.len() > *limit) {
            rest.truncate(limit);
            if let Some((key, _)) = rest.last() {
                metadata["continue"] = json!(format!("{}/{}", key.1, key.2));
            }
        }
        if request.table && request.resource == "nodes" {
            let rows: Vec<Value> = rest.iter().map(|(_, body)| row(body)).collect();
            let columns = json!([{"name": "Name"}, {"name": "Status"}]);
            return Answer::ok(json!({"kind": "Table", "apiVersion": "meta.k8s.io/v1",
                "metadata": metadata, "columnDefinitions": columns, "rows": rows}));
        }
        let items: Vec<Value> = rest.iter().map(|(_, body)| shown(request, body)).collect();
        let (kind, api) = kind(&request.resource);
        let (kind, api) = if request.metadata_only {
            ("PartialObjectMetadataList".to_owned(), "meta.k8s.io/v1")
        } else {
            (format!("{kind}List"), api)
        };
        Answer::ok(json!({"kind": kind, "apiVersion": api, "metadata": metadata, "items": items}))
    }

    /// What a list or a watch begins with.
    pub(super) fn selected(
        &self,
        request: &Request,
        selector: &Selector,
    ) -> Vec<(&Key, &Arc<Value>)> {
        self.objects
            .range((request.resource.clone(), String::new(), String::new())..)
            .take_while(|(key, _)| key.0 == request.resource)
            .filter(|(key, _)| request.namespace.is_empty() || key.1 == request.namespace)
            .map(|(key, object)| (key, &object.body))
            .filter(|(_, body)| selector.fits(body))
            .collect()
    }

    fn delete(&mut self, user: &User, request: &Request) -> Answer {
        let Some(object) = self.get(&request.resource, &request.namespace, &request.name) else {
            return Answer::not_found(&request.resource, &request.name);
        };
        let body = Arc::clone(&object.body);
        let node = body["spec"]["nodeName"].as_str();
        if let Some(refused) = rules::restrict(user, request, &Value::Null, &body, node) {
            return refused;
        }
        if let Some(conflict) = another(&request.resource, &request.body, &body) {
            return conflict;
        }
        let grace = request.body["gracePeriodSeconds"].as_u64();
        if !request.dry_run() {
            self.end(&request.resource, &request.namespace, &request.name, grace);
        }
        let ends = self.get(&request.resource, &request.namespace, &request.name);
        let body = ends.map_or(body, |ends| Arc::clone(&ends.body));
        Answer::ok(if request.resource == "pods" {
            body.as_ref().clone()
        } else {
            json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"})
        })
    }

    /// Begins or makes a deletion; a pod goes at once only with a grace of 0.
    pub(super) fn end(&mut self, resource: &str, namespace: &str, name: &str, grace: Option<u64>) {
        let Some(object) = self.get(resource, namespace, name).cloned() else {
            return;
        };
        let finalizers = object.body["metadata"]["finalizers"]
            .as_array()
            .is_some_and(|f| !f.is_empty());
        let own = object.body["spec"]["terminationGracePeriodSeconds"]
            .as_u64()
            .unwrap_or(30);
        let grace = grace.unwrap_or(if resource == "pods" { own } else { 0 });
        if !finalizers && grace == 0 {
            self.put(
                (resource.to_owned(), namespace.to_owned(), name.to_owned()),
                None,
            );
            return;
        }
        let mut body = object.body.as_ref().clone();
        let terminating = body["metadata"].get("deletionTimestamp").is_some();
        let shorter = body["metadata"]["deletionGracePeriodSeconds"]
            .as_u64()
            .is_some_and(|g| grace < g);
        if terminating && !shorter {
            return;
        }
        body["metadata"]["deletionTimestamp"] = json!(self.stamp(grace));
        body["metadata"]["deletionGracePeriodSeconds"] = json!(grace);
        let key = (resource.to_owned(), namespace.to_owned(), name.to_owned());
        self.put(key, Some((body, object.managers)));
    }

    pub(super) fn uid(&mut self) -> String {
        self.uids += 1;
        format!("00000000-0000-4000-8000-{:012}", self.uids)
    }

    pub(super) fn stamp(&self, later: u64) -> String {
        let at = self.now.as_second() + i64::try_from(later).unwrap_or(0);
        Timestamp::from_second(at).unwrap_or(self.now).to_string()
    }

    /// Stores, or removes, under a new version.
    pub(super) fn put(&mut self, key: Key, to: Option<(Value, Vec<Manager>)>) {
        self.version += 1;
        let version = self.version;
        let before = self
            .objects
            .get(&key)
            .map(|object| Arc::clone(&object.body));
        let after = to.map(|(mut body, managers)| {
            body["metadata"]["resourceVersion"] = json!(version.to_string());
            take(&mut body, "managedFields");
            if !managers.is_empty() {
                body["metadata"]["managedFields"] = fields::rendered(&managers, kind(&key.0).1);
            }
            Object {
                body: Arc::new(body),
                managers,
            }
        });
        let event = Event {
            version,
            key: key.clone(),
            before,
            after: after.as_ref().map(|object| Arc::clone(&object.body)),
        };
        match after {
            Some(object) => self.objects.insert(key, object),
            None => self.objects.remove(&key),
        };
        self.events.push(event);
        if self.events.len() > EVENTS_KEPT {
            let mut old = self.events.drain(..EVENTS_KEPT / 2);
            self.compacted = old
                .next_back()
                .map_or(self.compacted, |event| event.version);
        }
    }

    /// A change by somebody of the cluster itself: no request, no fault. `by` is manager and
    /// subresource; `to` gets the bare body.
    pub(super) fn edit(&mut self, key: &Key, by: (&str, &str), to: impl FnOnce(&mut Value)) {
        let Some(object) = self.objects.get(key).cloned() else {
            return;
        };
        let before = bare(&object.body);
        let mut after = before.clone();
        to(&mut after);
        tidy(&mut after);
        if before == after {
            return;
        }
        let by = Manager {
            name: by.0.to_owned(),
            apply: false,
            subresource: by.1.to_owned(),
            set: fields::Set::new(),
            time: self.stamp(0),
        };
        let managers = fields::update(&before, object.managers, &after, &by);
        self.put(key.clone(), Some((after, managers)));
    }
}

/// As Go's types store it: what is empty is left out, a spec is not.
pub(super) fn tidy(body: &mut Value) {
    for keys in ["labels", "annotations"] {
        if body["metadata"][keys]
            .as_object()
            .is_some_and(serde_json::Map::is_empty)
        {
            take(body, keys);
        }
    }
    if body["kind"] == "Lease" || body["kind"] == "Node" {
        if body["spec"].is_null() {
            body["spec"] = json!({});
        }
        if body["spec"]["unschedulable"] == false
            && let Some(spec) = body["spec"].as_object_mut()
        {
            spec.remove("unschedulable");
        }
    }
}

/// Without what the server adds at every write.
pub(super) fn bare(body: &Value) -> Value {
    let mut bare = body.clone();
    take(&mut bare, "managedFields");
    take(&mut bare, "resourceVersion");
    bare
}

pub(super) fn take(body: &mut Value, field: &str) -> Option<Value> {
    body.get_mut("metadata")?.as_object_mut()?.remove(field)
}

/// As the client wants it.
pub(super) fn shown(request: &Request, body: &Value) -> Value {
    if request.metadata_only {
        json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": body["metadata"]})
    } else {
        body.clone()
    }
}

/// Name and status of a Node, as Kubernetes' printNode says them.
fn row(node: &Value) -> Value {
    let conditions = node["status"]["conditions"].as_array();
    let ready = conditions.and_then(|all| all.iter().find(|one| one["type"] == "Ready"));
    let mut status = match ready.and_then(|ready| ready["status"].as_str()) {
        Some("True") => "Ready".to_owned(),
        Some(_) => "NotReady".to_owned(),
        None => "Unknown".to_owned(),
    };
    if node["spec"]["unschedulable"] == true {
        status += ",SchedulingDisabled";
    }
    json!({"cells": [node["metadata"]["name"], status]})
}
