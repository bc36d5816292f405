//! The objects, their versions and what happened to them: every write goes through [`Store::write`].

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::answer::Answer;
use super::evict;
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
}

/// Kind and apiVersion of a resource.
pub(super) fn kind(resource: &str) -> (&'static str, &'static str) {
    match resource.split('/').next().unwrap_or_default() {
        "leases" => ("Lease", "coordination.k8s.io/v1"),
        "nodes" => ("Node", "v1"),
        "pods" => ("Pod", "v1"),
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
        if let Some(refused) = rules::authorize(user, request) {
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
            (_, Verb::Delete) => self.delete(request),
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

    fn delete(&mut self, request: &Request) -> Answer {
        let Some(object) = self.get(&request.resource, &request.namespace, &request.name) else {
            return Answer::not_found(&request.resource, &request.name);
        };
        let body = Arc::clone(&object.body);
        if !request.dry_run() {
            self.end(&request.resource, &request.namespace, &request.name, None);
        }
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

    fn stamp(&self, later: u64) -> String {
        let at = self.now.as_second() + i64::try_from(later).unwrap_or(0);
        Timestamp::from_second(at).unwrap_or(self.now).to_string()
    }

    fn create(&mut self, user: &User, request: &Request) -> Answer {
        if self
            .get(&request.resource, &request.namespace, &request.name)
            .is_some()
        {
            return Answer::exists(&request.resource, &request.name);
        }
        let body = self.fresh(request, request.body.clone());
        let by = self.manager(user, request, false);
        let managers = fields::update(&Value::Null, Vec::new(), &body, &by);
        self.admitted(user, request, &Value::Null, body, managers, 201)
    }

    /// A new object's metadata, and what the server adds to it.
    fn fresh(&mut self, request: &Request, mut body: Value) -> Value {
        let (kind, api) = kind(&request.resource);
        let uid = self.uid();
        body["kind"] = json!(kind);
        body["apiVersion"] = json!(api);
        let metadata = &mut body["metadata"];
        metadata["name"] = json!(request.name);
        if !request.namespace.is_empty() {
            metadata["namespace"] = json!(request.namespace);
        }
        metadata["uid"] = json!(uid);
        metadata["creationTimestamp"] = json!(self.stamp(0));
        body
    }

    fn manager(&self, user: &User, request: &Request, apply: bool) -> Manager {
        let name = request.query.get("fieldManager").cloned();
        Manager {
            name: name.unwrap_or_else(|| {
                // The beginning of the User-Agent: the daemon's, or that of a person's commands.
                let agent = if *user == User::Admin {
                    "kube-rebootd-cli"
                } else {
                    "kube-rebootd"
                };
                agent.to_owned()
            }),
            apply,
            subresource: request
                .resource
                .split_once('/')
                .map_or("", |(_, sub)| sub)
                .to_owned(),
            set: fields::Set::new(),
            time: self.stamp(0),
        }
    }

    /// PATCH and PUT.
    fn change(&mut self, user: &User, request: &Request) -> Answer {
        let resource = request
            .resource
            .split('/')
            .next()
            .unwrap_or_default()
            .to_owned();
        let before = self
            .get(&resource, &request.namespace, &request.name)
            .cloned();
        let Some(before) = before else {
            return self.make(user, request);
        };
        let old = bare(&before.body);
        let mut body = request.body.clone();
        only_of_the_subresource(request, &old, &mut body);
        let asked = Asked::of(&body);
        let by = self.manager(user, request, request.apply);
        let (after, managers) = if request.apply {
            take(&mut body, "uid");
            take(&mut body, "resourceVersion");
            match fields::apply(&old, before.managers.clone(), &body, &by, request.force()) {
                Ok(done) => done,
                Err(conflicts) => return Answer::owned(&conflicts),
            }
        } else {
            let mut managers = before.managers.clone();
            if body["metadata"]["managedFields"] == json!([{}]) {
                managers.clear();
            }
            take(&mut body, "managedFields");
            take(&mut body, "resourceVersion");
            let mut after = old.clone();
            if request.verb == Verb::Update {
                let kept = old.clone();
                after = body.clone();
                for field in ["uid", "creationTimestamp"] {
                    if after["metadata"].get(field).is_none() {
                        after["metadata"][field] = kept["metadata"][field].clone();
                    }
                }
            } else {
                merge(&mut after, &body);
            }
            take(&mut after, "resourceVersion");
            tidy(&mut after);
            let managers = fields::update(&old, managers, &after, &by);
            (after, managers)
        };
        let mut after = after;
        if let Some(refused) = rules::restrict(user, request, &old, &after, None) {
            return refused;
        }
        if let Some(refused) = asked.refused(request, &before.body) {
            return refused;
        }
        after["metadata"]["uid"] = before.body["metadata"]["uid"].clone();
        self.admitted(user, request, &old, after, managers, 200)
    }

    /// An apply to what is not there creates it.
    fn make(&mut self, user: &User, request: &Request) -> Answer {
        if !request.apply {
            return Answer::not_found(&request.resource, &request.name);
        }
        let asked = Asked::of(&request.body);
        if asked.uid.is_some() {
            return Answer::conflict(
                &request.resource,
                &request.name,
                "uid mismatch: the provided object specified uid, and no existing object was found",
            );
        }
        if asked.version.is_some() {
            return Answer::not_found(&request.resource, &request.name);
        }
        let mut as_create = request.clone();
        as_create.verb = Verb::Create;
        if let Some(refused) = rules::authorize(user, &as_create) {
            return refused;
        }
        let by = self.manager(user, request, true);
        let body = self.fresh(request, request.body.clone());
        match fields::apply(&Value::Null, Vec::new(), &body, &by, false) {
            Ok((body, managers)) => self.admitted(user, request, &Value::Null, body, managers, 201),
            Err(conflicts) => Answer::owned(&conflicts),
        }
    }

    /// The last step of a write: admission, then storage, unless it is a dry run or changes nothing.
    fn admitted(
        &mut self,
        user: &User,
        request: &Request,
        before: &Value,
        mut after: Value,
        managers: Vec<Manager>,
        code: u16,
    ) -> Answer {
        if before.is_null()
            && let Some(refused) = rules::restrict(user, request, before, &after, None)
        {
            return refused;
        }
        if let Some(refused) = rules::policy(user, request, before, &after) {
            return refused;
        }
        if before.is_null() && request.resource == "nodes" {
            // admission plugin TaintNodesByCondition: nobody's field.
            after["spec"]["taints"] =
                json!([{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]);
        }
        tidy(&mut after);
        let resource = request.resource.split('/').next().unwrap_or_default();
        let key = (
            resource.to_owned(),
            request.namespace.clone(),
            request.name.clone(),
        );
        let there = self.objects.get(&key);
        let same = there.is_some_and(|there| {
            bare(&there.body) == after
                && there.managers.len() == managers.len()
                && there
                    .managers
                    .iter()
                    .zip(&managers)
                    .all(|(a, b)| a.name == b.name && a.set == b.set)
        });
        if let (true, Some(there)) = (same, there) {
            return Answer {
                code,
                body: shown(request, &there.body),
            };
        }
        if request.dry_run() {
            let version = there.map(|there| there.body["metadata"]["resourceVersion"].clone());
            after["metadata"]["resourceVersion"] = version.unwrap_or_default();
            after["metadata"]["managedFields"] = fields::rendered(&managers, kind(&key.0).1);
            return Answer { code, body: after };
        }
        self.put(key.clone(), Some((after, managers)));
        let stored = self
            .objects
            .get(&key)
            .map(|object| shown(request, &object.body));
        Answer {
            code,
            body: stored.unwrap_or_default(),
        }
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
            let old = self.events.drain(..EVENTS_KEPT / 2);
            self.compacted = old.last().map_or(self.compacted, |event| event.version);
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
fn tidy(body: &mut Value) {
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
fn bare(body: &Value) -> Value {
    let mut bare = body.clone();
    take(&mut bare, "managedFields");
    take(&mut bare, "resourceVersion");
    bare
}

fn take(body: &mut Value, field: &str) -> Option<Value> {
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

/// The main resource does not touch status, the subresource nothing else.
fn only_of_the_subresource(request: &Request, old: &Value, body: &mut Value) {
    let Some(object) = body.as_object_mut() else {
        return;
    };
    if request.resource.ends_with("/status") {
        object.remove("spec");
    } else {
        object.remove("status");
        if request.verb == Verb::Update && old.get("status").is_some() {
            object.insert("status".to_owned(), old["status"].clone());
        }
    }
}

/// Preconditions in a body.
struct Asked {
    uid: Option<String>,
    version: Option<String>,
}

impl Asked {
    fn of(body: &Value) -> Self {
        let text = |field: &str| body["metadata"][field].as_str().map(str::to_owned);
        Self {
            uid: text("uid"),
            version: text("resourceVersion"),
        }
    }

    fn refused(&self, request: &Request, there: &Value) -> Option<Answer> {
        let differs = |asked: &Option<String>, field: &str| {
            asked
                .as_deref()
                .is_some_and(|asked| there["metadata"][field].as_str() != Some(asked))
        };
        if differs(&self.version, "resourceVersion") {
            let why = "the object has been modified; please apply your changes to the latest version and try again";
            return Some(Answer::conflict(&request.resource, &request.name, why));
        }
        differs(&self.uid, "uid")
            .then(|| Answer::invalid(&request.name, "metadata.uid", "field is immutable"))
    }
}

/// RFC 7396.
fn merge(into: &mut Value, patch: &Value) {
    let Some(patch) = patch.as_object() else {
        *into = patch.clone();
        return;
    };
    if !into.is_object() {
        *into = json!({});
    }
    for (key, value) in patch {
        if value.is_null() {
            if let Some(object) = into.as_object_mut() {
                object.remove(key);
            }
        } else {
            merge(&mut into[key], value);
        }
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
