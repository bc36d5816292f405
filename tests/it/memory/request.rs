//! An HTTP request as the API server understands it.

use std::collections::BTreeMap;

use http::request::Parts;
use serde_json::Value;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verb {
    Get,
    List,
    Watch,
    Create,
    Update,
    Patch,
    Delete,
}

impl Verb {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Request {
    pub(crate) verb: Verb,
    /// With the subresource, as `pods/eviction`.
    pub(crate) resource: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(super) query: BTreeMap<String, String>,
    /// The patch is a server-side apply.
    pub(super) apply: bool,
    /// The patch is a strategic merge: lists are merged by their keys.
    pub(super) strategic: bool,
    /// Only metadata is wanted.
    pub(super) metadata_only: bool,
    /// Only what `kubectl get` prints is wanted.
    pub(super) table: bool,
    pub(super) body: Value,
}

impl Request {
    /// None: no such path here.
    pub(super) fn read(parts: &Parts, body: &[u8]) -> Option<Self> {
        let path: Vec<&str> = parts.uri.path().trim_matches('/').split('/').collect();
        let (["api", "v1", rest @ ..] | ["apis", _, _, rest @ ..]) = path.as_slice() else {
            return None;
        };
        let (namespace, rest) = match rest {
            ["namespaces", namespace, rest @ ..] => (*namespace, rest),
            rest => ("", rest),
        };
        let (resource, name) = match rest {
            [resource] => ((*resource).to_owned(), ""),
            [resource, name] => ((*resource).to_owned(), *name),
            [resource, name, sub] => (format!("{resource}/{sub}"), *name),
            _ => return None,
        };
        let query: BTreeMap<String, String> = parts
            .uri
            .query()
            .unwrap_or_default()
            .split('&')
            .filter_map(|pair| pair.split_once('='))
            .map(|(key, value)| (decoded(key), decoded(value)))
            .collect();
        let watch = query
            .get("watch")
            .is_some_and(|watch| watch != "false" && watch != "0");
        let verb = match (parts.method.as_str(), name.is_empty()) {
            ("GET", _) if watch => Verb::Watch,
            ("GET", true) => Verb::List,
            ("GET", false) => Verb::Get,
            ("POST", _) => Verb::Create,
            ("PUT", _) => Verb::Update,
            ("PATCH", _) => Verb::Patch,
            ("DELETE", false) => Verb::Delete,
            _ => return None,
        };
        let header = |name| {
            parts
                .headers
                .get(name)
                .and_then(|value| value.to_str().ok())
        };
        let body: Value = if body.is_empty() {
            Value::Null
        } else {
            serde_json::from_slice(body).ok()?
        };
        let name = match body["metadata"]["name"].as_str() {
            Some(named) if name.is_empty() && verb == Verb::Create => named,
            _ => name,
        };
        Some(Self {
            verb,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            resource,
            query,
            apply: header("content-type").is_some_and(|kind| kind.contains("apply-patch")),
            strategic: header("content-type").is_some_and(|kind| kind.contains("strategic-merge")),
            metadata_only: header("accept")
                .is_some_and(|kind| kind.contains("PartialObjectMetadata")),
            table: header("accept").is_some_and(|kind| kind.contains("as=Table")),
            body,
        })
    }

    pub(super) fn dry_run(&self) -> bool {
        self.query.get("dryRun").is_some_and(|value| value == "All")
    }

    pub(super) fn force(&self) -> bool {
        self.query.get("force").is_some_and(|value| value == "true")
    }

    /// What the field selector wants of one field.
    pub(super) fn field(&self, name: &str) -> Option<&str> {
        let selector = self.query.get("fieldSelector")?;
        selector.strip_prefix(name)?.strip_prefix('=')
    }

    pub(super) fn number(&self, key: &str) -> Option<u64> {
        self.query.get(key)?.parse().ok()
    }

    /// An eviction that is only tried: no pod goes.
    pub(super) fn tries(&self) -> bool {
        self.resource == "pods/eviction" && self.dry_run()
    }

    /// For people.
    pub(crate) fn line(&self) -> String {
        let apply = if self.apply { " (apply)" } else { "" };
        let verb = if self.tries() {
            "try"
        } else {
            self.verb.word()
        };
        format!(
            "{} {} {}/{}{apply}",
            verb, self.resource, self.namespace, self.name
        )
    }
}

/// Percent-decoding of a query (`application/x-www-form-urlencoded`).
fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'+' => bytes.push(b' '),
            b'%' => {
                let digits: String = rest.by_ref().take(2).map(char::from).collect();
                bytes.push(u8::from_str_radix(&digits, 16).unwrap_or(b'?'));
            }
            byte => bytes.push(byte),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
