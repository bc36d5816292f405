//! What a test, or a part of the cluster that is no client, does to the objects: no request, no fault.

use std::sync::Arc;

use serde_json::{Value, json};

use super::State;
use super::fields::{self, Manager};
use super::store::kind;

/// An object by resource, namespace (empty for Nodes) and name.
pub(crate) type At<'a> = (&'a str, &'a str, &'a str);

fn key(at: At<'_>) -> (String, String, String) {
    (at.0.to_owned(), at.1.to_owned(), at.2.to_owned())
}

impl State {
    pub(crate) fn object(&self, at: At<'_>) -> Option<Arc<Value>> {
        self.store
            .get(at.0, at.1, at.2)
            .map(|object| Arc::clone(&object.body))
    }

    /// All of a resource.
    pub(crate) fn objects(&self, resource: &str) -> Vec<Arc<Value>> {
        let from = (resource.to_owned(), String::new(), String::new());
        let all = self.store.objects.range(from..);
        all.take_while(|(key, _)| key.0 == resource)
            .map(|(_, object)| Arc::clone(&object.body))
            .collect()
    }

    /// Makes an object, or replaces one, with a new uid; `manager` owns its fields.
    pub(crate) fn make(&mut self, at: At<'_>, manager: &str, mut body: Value) {
        let (kind, api) = kind(at.0);
        body["kind"] = json!(kind);
        body["apiVersion"] = json!(api);
        body["metadata"]["name"] = json!(at.2);
        if !at.1.is_empty() {
            body["metadata"]["namespace"] = json!(at.1);
        }
        body["metadata"]["uid"] = json!(self.store.uid());
        body["metadata"]["creationTimestamp"] = json!(self.store.now.to_string());
        let by = Manager {
            name: manager.to_owned(),
            apply: false,
            subresource: String::new(),
            set: fields::Set::new(),
            time: self.store.now.to_string(),
        };
        let managers = fields::update(&Value::Null, Vec::new(), &body, &by);
        self.store.put(key(at), Some((body, managers)));
    }

    pub(crate) fn edit(&mut self, at: At<'_>, manager: &str, to: impl FnOnce(&mut Value)) {
        self.store.edit(&key(at), (manager, ""), to);
    }

    /// The server's wall clock, as in an object.
    pub(crate) fn now(&self) -> String {
        let seconds = jiff::Timestamp::from_second(self.store.now.as_second());
        seconds.unwrap_or(self.store.now).to_string()
    }

    /// What the kubelet does when it has cleaned up after a pod: it deletes it with a grace of 0. A finalizer still
    /// keeps the object.
    pub(crate) fn end(&mut self, at: At<'_>) {
        self.store.end(at.0, at.1, at.2, Some(0));
    }

    /// Removes it, at once.
    pub(crate) fn remove(&mut self, at: At<'_>) {
        if self.store.get(at.0, at.1, at.2).is_some() {
            self.store.put(key(at), None);
        }
    }

    /// Watches from before now are told 410.
    pub(crate) fn compact(&mut self) {
        self.store.compacted = self.store.version;
        self.store.version += 1;
    }

    /// What changed since `version`, and the version now; resource, namespace, name.
    pub(crate) fn changes(&self, version: u64) -> (Vec<(String, String, String)>, u64) {
        let events = &self.store.events;
        let from = events.partition_point(|event| event.version <= version);
        let keys = events[from..].iter().map(|event| event.key.clone());
        (keys.collect(), self.store.version)
    }
}
