//! Label and field selectors, as far as the daemon sends them.

use serde_json::Value;

use super::answer::Answer;
use super::request::Request;

#[derive(Debug, Clone, Default)]
pub(super) struct Selector {
    /// Key and wanted value; none: any value.
    labels: Vec<(String, Option<String>)>,
    fields: Vec<(String, String)>,
}

impl Selector {
    pub(super) fn of(request: &Request) -> Result<Self, Answer> {
        let text = |key: &str| request.query.get(key).cloned().unwrap_or_default();
        let bad = |what: &str| Answer::status(400, "BadRequest", &format!("unknown here: {what}"));
        let mut selector = Self::default();
        for term in text("labelSelector")
            .split(',')
            .filter(|term| !term.is_empty())
        {
            match term.split_once('=') {
                Some((key, value)) if !key.ends_with('!') => {
                    let value = value.trim_start_matches('=').to_owned();
                    selector.labels.push((key.to_owned(), Some(value)));
                }
                None if !term.contains(['!', ' ']) => selector.labels.push((term.to_owned(), None)),
                _ => return Err(bad(term)),
            }
        }
        for term in text("fieldSelector")
            .split(',')
            .filter(|term| !term.is_empty())
        {
            match term.split_once('=') {
                Some((
                    field @ ("metadata.name"
                    | "spec.nodeName"
                    | "status.phase"
                    | "involvedObject.kind"
                    | "involvedObject.name"),
                    value,
                )) => {
                    selector.fields.push((field.to_owned(), value.to_owned()));
                }
                // Kubernetes pkg/registry/core/event/strategy.go, `ToSelectableFields`.
                Some(("source", value)) => {
                    let field = "source.component".to_owned();
                    selector.fields.push((field, value.to_owned()));
                }
                _ => return Err(bad(term)),
            }
        }
        Ok(selector)
    }

    pub(super) fn fits(&self, body: &Value) -> bool {
        let labels = &body["metadata"]["labels"];
        self.labels
            .iter()
            .all(|(key, wanted)| match (labels.get(key), wanted) {
                (Some(value), Some(wanted)) => value.as_str() == Some(wanted),
                (Some(_), None) => true,
                (None, _) => false,
            })
            && self.fields.iter().all(|(field, wanted)| {
                let (group, name) = field.split_once('.').unwrap_or((field, ""));
                // What is not there is empty.
                body[group][name].as_str().unwrap_or_default() == wanted
            })
    }
}
