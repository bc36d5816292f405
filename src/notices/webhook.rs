//! A notice goes to a webhook: one POST.

use std::time::Duration;

use http::Method;
use kube_rebootd_core::config::Webhook;
use serde_json::Value;
use tokio::time::timeout;

use crate::root::Root;
use crate::web::{Ask, AskError, Building, Who, send};

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
        who: (webhook.token_file.as_deref())
            .map_or(Who::Nobody, |file| Who::Bearer(file, "notify.token_file")),
        ca: None,
        body: Some(body),
    };
    let sent = timeout(limit, send(root, building, ask, limit)).await;
    sent.unwrap_or(Err(AskError::Late(limit))).map(drop)
}

#[cfg(test)]
mod tests;
