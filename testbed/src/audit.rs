//! The audit log: what was really asked of the API server, by whom, and what it answered.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::Value;

/// One request that was answered.
#[derive(Debug, Clone)]
pub struct Request {
    /// When it arrived.
    pub at: jiff::Timestamp,
    /// When it was answered.
    pub done: jiff::Timestamp,
    pub user_agent: String,
    pub user: String,
    /// The identity acted as, when it is another.
    pub impersonated: Option<String>,
    pub verb: String,
    /// `resource/subresource`.
    pub resource: String,
    pub namespace: String,
    pub name: String,
    pub uri: String,
    pub code: u16,
    /// Bodies, for writes that the policy logs whole.
    pub request: Option<Value>,
    pub response: Option<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    verb: String,
    #[serde(rename = "requestURI")]
    uri: Option<String>,
    #[serde(default)]
    user_agent: String,
    user: User,
    impersonated_user: Option<User>,
    object_ref: Option<ObjectRef>,
    response_status: Option<Status>,
    request_object: Option<Value>,
    response_object: Option<Value>,
    request_received_timestamp: jiff::Timestamp,
    stage_timestamp: jiff::Timestamp,
}

#[derive(Deserialize)]
struct User {
    username: String,
}

#[derive(Deserialize, Default)]
struct ObjectRef {
    #[serde(default)]
    resource: String,
    #[serde(default)]
    subresource: String,
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    name: String,
}

#[derive(Deserialize)]
struct Status {
    #[serde(default)]
    code: u16,
}

/// Every request by User-Agents that begin with `agent`, in order of arrival.
pub(crate) fn read(log: &Path, agent: &str) -> Result<Vec<Request>> {
    let text = fs::read_to_string(log).context("cannot read the audit log")?;
    let mut requests = Vec::new();
    for line in text.lines() {
        // Parsing every body of a long log is slow; the agent stands in the line as it is.
        if !line.contains(agent) {
            continue;
        }
        // The last line may be half written.
        let Ok(line) = serde_json::from_str::<Line>(line) else {
            continue;
        };
        if line.user_agent.starts_with(agent) {
            requests.push(request(line));
        }
    }
    requests.sort_by_key(|request| request.at);
    Ok(requests)
}

fn request(line: Line) -> Request {
    let object = line.object_ref.unwrap_or_default();
    let resource = match object.subresource.as_str() {
        "" => object.resource,
        subresource => format!("{}/{subresource}", object.resource),
    };
    Request {
        at: line.request_received_timestamp,
        done: line.stage_timestamp,
        user_agent: line.user_agent,
        user: line.user.username,
        impersonated: line.impersonated_user.map(|user| user.username),
        verb: line.verb,
        resource,
        namespace: object.namespace,
        name: object.name,
        uri: line.uri.unwrap_or_default(),
        code: line.response_status.map_or(0, |status| status.code),
        request: line.request_object,
        response: line.response_object,
    }
}
