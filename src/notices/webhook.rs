//! One HTTP POST, by the client that speaks to the API server as well: without proxy, redirects and retries of its own.
//!
//! Nothing of the URL is ever said: of many services it is a secret.

use std::path::Path;
use std::time::Duration;

use http::header::{AUTHORIZATION, CONTENT_TYPE, USER_AGENT};
use http::uri::Scheme;
use http::{HeaderValue, Request, Uri};
use kube::client::Body;
use kube::{Client, Config};
use kube_rebootd_core::config::{Address, Webhook};
use kube_rebootd_core::text::{MESSAGE, clean};
use serde_json::Value;
use tokio::time::timeout;

use crate::bounded::{self, ReadError};
use crate::host::beside::Beside;
use crate::root::Root;
use crate::trusted::{self, Untrusted};

const AGENT: &str = concat!("kube-rebootd/", env!("CARGO_PKG_VERSION"));
/// Bytes of a file with a URL or a token.
const LARGEST: u64 = 16 * 1024;

/// Why it was not taken.
#[derive(Debug, thiserror::Error)]
pub(super) enum PostError {
    #[error(transparent)]
    File(#[from] Untrusted),
    #[error("{0} cannot be read: {1}")]
    Read(String, ReadError),
    #[error("it is no URL of http or https")]
    Url,
    #[error("the token is no value of an HTTP header")]
    Token,
    #[error("{0}")]
    Client(String),
    #[error("it answered {0}")]
    Answer(u16),
    #[error("no answer within {} s", .0.as_secs())]
    Late(Duration),
}

/// Sends it, within `limit`. `building` makes the client, which reads the host's certificates.
pub(super) async fn post(
    root: &Root,
    building: &mut Beside<Result<Client, PostError>>,
    webhook: &Webhook,
    body: &Value,
    limit: Duration,
) -> Result<(), PostError> {
    let sent = send(root, building, webhook, body, limit);
    timeout(limit, sent)
        .await
        .unwrap_or(Err(PostError::Late(limit)))
}

async fn send(
    root: &Root,
    building: &mut Beside<Result<Client, PostError>>,
    webhook: &Webhook,
    body: &Value,
    limit: Duration,
) -> Result<(), PostError> {
    // Small files of root's own, as those of the configuration.
    let url = match &webhook.to {
        Address::Url(url) => url.clone(),
        Address::File(file) => first_line(root, file)?,
    };
    let url: Uri = url.parse().map_err(|_| PostError::Url)?;
    let (server, path) = parts(&url).ok_or(PostError::Url)?;
    let mut request = Request::post(path)
        .header(CONTENT_TYPE, "application/json")
        .header(USER_AGENT, AGENT);
    if let Some(file) = &webhook.token_file {
        let token = format!("Bearer {}", first_line(root, file)?);
        let mut token = HeaderValue::try_from(token).map_err(|_| PostError::Token)?;
        token.set_sensitive(true);
        request = request.header(AUTHORIZATION, token);
    }
    let request = request
        .body(Body::from(body.to_string().into_bytes()))
        .map_err(|_| PostError::Url)?;
    let client = building.look(limit, move || client(server)).await;
    let client = client.ok_or(PostError::Late(limit))??;
    let answer = client.send(request).await.map_err(|error| unsent(&error))?;
    let status = answer.status();
    if status.is_success() {
        return Ok(());
    }
    Err(PostError::Answer(status.as_u16()))
}

/// The server, and what is asked of it.
fn parts(url: &Uri) -> Option<(Uri, &str)> {
    let (scheme, authority) = (url.scheme()?.clone(), url.authority()?.clone());
    let server = Uri::builder().scheme(scheme).authority(authority);
    let server = server.path_and_query("/").build().ok()?;
    let path = url.path_and_query().map_or("/", |path| path.as_str());
    Some((server, path))
}

fn client(server: Uri) -> Result<Client, PostError> {
    let plain = server.scheme() == Some(&Scheme::HTTP);
    let mut config = Config::new(server);
    // Without any kube asks for the host's own, and fails where there are none (a minimal image).
    config.root_cert = plain.then(Vec::new);
    config.default_retry = false;
    Client::try_from(config).map_err(|error| unsent(&error))
}

/// The last of its causes says what happened, and names no address.
fn unsent(error: &kube::Error) -> PostError {
    let mut last: &dyn std::error::Error = error;
    while let Some(cause) = last.source() {
        last = cause;
    }
    PostError::Client(clean(&last.to_string(), MESSAGE))
}

fn first_line(root: &Root, file: &Path) -> Result<String, PostError> {
    trusted::only_root_can_change(root, file)?;
    let text = bounded::text(&root.path(file), LARGEST);
    let text = text.map_err(|error| PostError::Read(file.display().to_string(), error))?;
    Ok(text.lines().next().unwrap_or_default().trim().to_owned())
}

#[cfg(test)]
mod tests;
