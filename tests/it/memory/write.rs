//! Writes that are requests: create, apply, patch and update, in the order in which the real server
//! looks at them: ownership, `NodeRestriction`, preconditions, policies.

use serde_json::{Value, json};

use super::answer::Answer;
use super::fields::{self, Manager};
use super::request::{Request, Verb};
use super::rules::{self, User};
use super::store::{Store, bare, kind, shown, take, tidy};

impl Store {
    pub(super) fn create(&mut self, user: &User, request: &Request) -> Answer {
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
    pub(super) fn change(&mut self, user: &User, request: &Request) -> Answer {
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
                let conditions = strategic(request, &old, &body);
                merge(&mut after, &body);
                if let Some(conditions) = conditions {
                    after["status"]["conditions"] = conditions;
                }
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
        if let Some(refused) = rules::annotations(request, &after) {
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

/// The conditions after a strategic merge, which is by type; none: the patch is of another kind, or names none. In the
/// order of Kubernetes' `strategicpatch` (`mergeSortedSlice`): what the patch does not name keeps its place before what it
/// names and the server had later; all others come after what the patch names.
fn strategic(request: &Request, old: &Value, body: &Value) -> Option<Value> {
    let patch = body["status"]["conditions"].as_array();
    let patch = patch.filter(|_| request.strategic)?;
    let there = old["status"]["conditions"].as_array();
    let there = there.cloned().unwrap_or_default();
    let at = |one: &Value| there.iter().position(|old| old["type"] == one["type"]);
    let deleted = |one: &Value| one["$patch"] == "delete";
    let named: Vec<(Option<usize>, Value)> = patch
        .iter()
        .filter(|one| !deleted(one))
        .map(|one| {
            let mut merged = at(one).map_or(Value::Null, |at| there[at].clone());
            merge(&mut merged, one);
            (at(one), merged)
        })
        .collect();
    let others = there.iter().enumerate();
    let others = others.filter(|(_, old)| patch.iter().all(|one| one["type"] != old["type"]));
    let mut others = others.peekable();
    let mut after = Vec::new();
    for (place, one) in named {
        while let Some((_, other)) =
            others.next_if(|(other, _)| place.is_some_and(|at| *other < at))
        {
            after.push(other.clone());
        }
        after.push(one);
    }
    after.extend(others.map(|(_, other)| other.clone()));
    Some(Value::Array(after))
}

/// A merge patch (RFC 7396).
pub(crate) fn merge(into: &mut Value, patch: &Value) {
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
