//! A notice goes to a webhook: one POST.

use std::time::Duration;

use http::Method;
use kube_rebootd_core::config::Webhook;
use serde_json::Value;
use tokio::time::timeout;

use super::http::{Ask, AskError, Building, send};
use crate::root::Root;

/// Sends it, within `limit`.
pub(super) async fn post(
    root: &Root,
    building: &mut Building,
    webhook: &Webhook,
    body: &Value,
    limit: Duration,
) -> Result<(), AskError> {
    let ask = Ask {
        method: &Method::POST,
        to: &webhook.to,
        path: "",
        token_file: webhook.token_file.as_deref(),
        token_key: "notify.token_file",
        body: Some(body),
    };
    let sent = timeout(limit, send(root, building, ask, limit)).await;
    sent.unwrap_or(Err(AskError::Late(limit))).map(drop)
}

#[cfg(test)]
mod tests;
