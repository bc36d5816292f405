//! DaemonSets of kured among the documents of a manifest, and what is looked at of each (I14). Whoever wrote them may have written
//! anything: what is not there, or is of another type, is none.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::text::{NAME, clean};

/// Kinds and names that a message tells at most.
const TOLD: usize = 20;
/// Lists within lists.
const DEPTH: usize = 4;

/// What documents hold.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Found {
    pub kured: Vec<DaemonSet>,
    /// What else there is, each as `Service kube-system/kured`.
    pub others: Vec<String>,
    /// Documents that look like values for kured's Helm chart.
    pub values: bool,
}

/// A DaemonSet of kured.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DaemonSet {
    pub namespace: String,
    pub name: String,
    pub(super) image: String,
    /// `command` and `args`, as they are written.
    pub(super) command: Vec<String>,
    pub(super) args: Vec<String>,
    pub(super) env: Vec<Variable>,
    /// It has variables from a whole `ConfigMap` or Secret.
    pub(super) env_from: bool,
    /// Directories in the container, and where they are on the host, if they are the host's.
    pub(super) mounts: Vec<Mount>,
    pub(super) host_network: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Variable {
    pub(super) name: String,
    /// What it is, or from where it comes.
    pub(super) value: Result<String, String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mount {
    pub(super) inside: String,
    pub(super) host: Option<String>,
}

impl Found {
    /// All that is in `documents`, in lists as well.
    pub fn of(documents: &[Value]) -> Self {
        let mut found = Self::default();
        for document in documents {
            found.add(document, DEPTH);
        }
        found
    }

    fn add(&mut self, object: &Value, depth: usize) {
        let kind = clean(&text(object, "kind"), NAME);
        if let Some(items) = object.get("items").and_then(Value::as_array)
            && kind.ends_with("List")
            && depth > 0
        {
            for item in items {
                // Items of a typed list have no kind of their own.
                match (item.get("kind"), kind.strip_suffix("List"), item) {
                    (None, Some(kind), Value::Object(fields)) if !kind.is_empty() => {
                        let mut fields = fields.clone();
                        fields.insert("kind".to_owned(), kind.into());
                        self.add(&Value::Object(fields), depth - 1);
                    }
                    _ => self.add(item, depth - 1),
                }
            }
            return;
        }
        if kind == "DaemonSet"
            && let Some(set) = DaemonSet::of(object)
        {
            self.kured.push(set);
            return;
        }
        self.values |= kind.is_empty() && object.get("configuration").is_some_and(Value::is_object);
        if !object.is_null() && self.others.len() < TOLD {
            let (namespace, name) = names(object);
            let kind = if kind.is_empty() {
                "an object without a kind"
            } else {
                &kind
            };
            let told = match (&*namespace, &*name) {
                (_, "") => kind.to_owned(),
                ("", name) => format!("{kind} {name}"),
                (namespace, name) => format!("{kind} {namespace}/{name}"),
            };
            self.others.push(told);
        }
    }
}

impl DaemonSet {
    /// None: no container of it is kured.
    fn of(object: &Value) -> Option<Self> {
        let pod = object.pointer("/spec/template/spec")?;
        let containers = list(pod, "containers");
        let is = |test: fn(&Value) -> bool| containers.iter().find(|one| test(one));
        let by_image = |one: &Value| image_name(&text(one, "image")) == "kured";
        let by_command = |one: &Value| {
            words(one, "command")
                .iter()
                .any(|word| program(word) == "kured")
        };
        let container = is(by_image).or_else(|| is(by_command))?;
        let (namespace, name) = names(object);
        Some(Self {
            namespace,
            name,
            image: clean(&text(container, "image"), NAME),
            command: words(container, "command"),
            args: words(container, "args"),
            env: list(container, "env").iter().map(variable).collect(),
            env_from: !list(container, "envFrom").is_empty(),
            mounts: mounts(container, pod),
            host_network: pod.get("hostNetwork") == Some(&Value::Bool(true)),
        })
    }

    /// As messages call it.
    pub fn path(&self) -> String {
        match &*self.namespace {
            "" => self.name.clone(),
            namespace => format!("{namespace}/{}", self.name),
        }
    }

    /// The plain value of a variable; an error says where it comes from.
    pub(super) fn variable(&self, name: &str) -> Option<&Result<String, String>> {
        // Of the same name the last one counts.
        let found = self.env.iter().rev().find(|one| one.name == name);
        found.map(|one| &one.value)
    }

    /// Where a file of the container is on the host; none: it is a file of the container's own.
    pub(super) fn on_host(&self, file: &str) -> Option<String> {
        let below = |mount: &&Mount| {
            let inside = mount.inside.trim_end_matches('/');
            let rest = file.strip_prefix(inside);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let deepest = self
            .mounts
            .iter()
            .filter(below)
            .max_by_key(|mount| mount.inside.len())?;
        let rest = file.strip_prefix(deepest.inside.trim_end_matches('/'))?;
        let host = deepest.host.as_ref()?;
        Some(format!("{}{rest}", host.trim_end_matches('/')))
    }
}

/// The name of an image, without registry, tag and digest.
fn image_name(image: &str) -> &str {
    let last = image.rsplit('/').next().unwrap_or_default();
    last.split([':', '@']).next().unwrap_or_default()
}

/// The name of a program, without its directory.
pub(super) fn program(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or_default()
}

fn variable(one: &Value) -> Variable {
    let reference = |kind: &str, what: &str| {
        let from = one.pointer(&format!("/valueFrom/{kind}"))?;
        Some(format!(
            "{what} {}, key {}",
            clean(&text(from, "name"), NAME),
            clean(&text(from, "key"), NAME)
        ))
    };
    let value = if one.get("valueFrom").is_some_and(Value::is_object) {
        let from = reference("secretKeyRef", "Secret")
            .or_else(|| reference("configMapKeyRef", "ConfigMap"));
        Err(from.unwrap_or_else(|| "a field of the Pod".to_owned()))
    } else {
        Ok(text(one, "value"))
    };
    Variable {
        name: text(one, "name"),
        value,
    }
}

fn mounts(container: &Value, pod: &Value) -> Vec<Mount> {
    let volumes: BTreeMap<String, String> = list(pod, "volumes")
        .iter()
        .map(|volume| {
            let path = volume.pointer("/hostPath/path").and_then(Value::as_str);
            (text(volume, "name"), path.unwrap_or_default().to_owned())
        })
        .collect();
    let mount = |one: &Value| {
        let host = volumes
            .get(&text(one, "name"))
            .filter(|path| path.starts_with('/'));
        let below = text(one, "subPath");
        let host = host.map(|host| match &*below {
            "" => host.clone(),
            below => format!("{}/{below}", host.trim_end_matches('/')),
        });
        Mount {
            inside: text(one, "mountPath"),
            host,
        }
    };
    list(container, "volumeMounts").iter().map(mount).collect()
}

fn names(object: &Value) -> (String, String) {
    let name = |key: &str| {
        let value = object
            .pointer(&format!("/metadata/{key}"))
            .and_then(Value::as_str);
        clean(value.unwrap_or_default(), NAME)
    };
    (name("namespace"), name("name"))
}

fn list<'a>(object: &'a Value, key: &str) -> &'a [Value] {
    let list = object.get(key).and_then(Value::as_array);
    list.map_or(&[], Vec::as_slice)
}

fn words(object: &Value, key: &str) -> Vec<String> {
    list(object, key).iter().map(scalar).collect()
}

fn text(object: &Value, key: &str) -> String {
    object.get(key).map(scalar).unwrap_or_default()
}

/// A template may forget the quotes around a number or a truth value.
fn scalar(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::Null | Value::Array(_) | Value::Object(_) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn set(container: Value) -> Value {
        let mut container = container;
        container["name"] = json!("main");
        json!({"kind": "DaemonSet", "metadata": {"name": "reboots", "namespace": "ops"},
            "spec": {"template": {"spec": {"containers": [{"name": "side", "image": "proxy"}, container]}}}})
    }

    #[test]
    fn kured_is_known_by_its_image_or_its_program() {
        for (container, wanted) in [
            (json!({"image": "ghcr.io/kubereboot/kured:1.23.0"}), true),
            (json!({"image": "registry:5000/kured@sha256:0"}), true),
            (json!({"image": "kured"}), true),
            (
                json!({"image": "ops:1", "command": ["/usr/bin/kured"]}),
                true,
            ),
            (
                json!({"image": "ops:1", "command": ["tini", "--", "/usr/bin/kured"]}),
                true,
            ),
            (json!({"image": "kured-exporter:1"}), false),
            (json!({"image": "kured/exporter"}), false),
            (json!({"image": 3, "command": {}}), false),
            (json!({}), false),
        ] {
            let found = Found::of(&[set(container.clone())]);
            assert_eq!(found.kured.len() == 1, wanted, "{container}");
            assert_eq!(found.others.is_empty(), wanted, "{container}");
        }
    }

    #[test]
    fn what_else_there_is_is_told_and_lists_are_looked_into() {
        let kured = set(json!({"image": "kured"}));
        let mut nameless = kured.clone();
        nameless.as_object_mut().unwrap().remove("kind");
        let documents = [
            Value::Null,
            json!({"kind": "List", "items": [kured, {"kind": "Service", "metadata": {"name": "s", "namespace": "n"}}]}),
            json!({"kind": "DaemonSetList", "items": [nameless]}),
            json!({"kind": "Cluster\u{1b}Role\0", "metadata": {"name": "c\u{1b}[2J"}}),
            json!({"configuration": {"period": "1h"}}),
            json!(["x"]),
        ];
        let found = Found::of(&documents);
        assert_eq!(found.kured.len(), 2);
        assert_eq!(found.kured[0].path(), "ops/reboots");
        assert_eq!(
            found.others,
            [
                "Service n/s",
                "ClusterRole c[2J",
                "an object without a kind",
                "an object without a kind"
            ]
        );
        assert!(found.values);
    }

    #[test]
    fn a_file_of_the_container_is_found_on_the_host() {
        let mut object = set(json!({"image": "kured", "volumeMounts": [
            {"name": "run", "mountPath": "/sentinel"}, {"name": "run", "mountPath": "/sentinel/deep", "subPath": "a"},
            {"name": "tmp", "mountPath": "/tmp"}, {"name": "top", "mountPath": "/host/"}]}));
        object["spec"]["template"]["spec"]["volumes"] = json!([
            {"name": "run", "hostPath": {"path": "/var/run/"}}, {"name": "tmp", "emptyDir": {}},
            {"name": "top", "hostPath": {"path": "/"}}]);
        let found = Found::of(&[object]);
        for (file, wanted) in [
            (
                "/sentinel/reboot-required",
                Some("/var/run/reboot-required"),
            ),
            ("/sentinel/deep/b", Some("/var/run/a/b")),
            ("/host/var/run/x", Some("/var/run/x")),
            ("/sentinels/x", None),
            ("/tmp/x", None),
            ("/var/run/reboot-required", None),
        ] {
            assert_eq!(found.kured[0].on_host(file).as_deref(), wanted, "{file}");
        }
    }

    proptest! {
        #[test]
        fn any_document_is_answered(document in garble::json(set(json!({"image": "kured", "args": ["--period=1h"],
            "env": [{"name": "KURED_PERIOD", "valueFrom": {"secretKeyRef": {"name": "a", "key": "b"}}}]})))) {
            let found = Found::of(&[document]);
            for other in found.others {
                prop_assert!(!other.contains(crate::text::hostile), "{other:?}");
            }
        }
    }
}
