//! Credential plugins of a kubeconfig (`exec`, as EKS and GKE have them): run here, under a limit, once
//! for both clients (DESIGN.md 3, I7).
//!
//! kube would run one again inside a request and wait for it without a limit, never renew a
//! certificate, and keep a token without an end for ever. Here a plugin gives one credential with
//! its end, and the clients are rebuilt before that end and on a 401.

use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::ByteString;
use kube::config::{AuthInfo, ExecConfig, ExecInteractiveMode};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::Command;

use crate::text;

/// Longest run; cloud plugins take some 10 s when their service throttles. Below `BUILD` of `client`.
const RUN: Duration = Duration::from_secs(20);
/// More than any credential.
const OUTPUT_MAX: u64 = 1 << 20;
/// So much of what a failed plugin said is kept.
const SAID_MAX: usize = 300;

/// Why a plugin gave no credential, in words that follow its name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PluginError {
    #[error("names no command")]
    NoCommand,
    /// client-go refuses this, too, where there is no terminal.
    #[error("wants a terminal (interactiveMode: Always); a daemon has none")]
    Interactive,
    #[error("cannot be started: {why}{hint}")]
    Start { why: String, hint: String },
    #[error("did not end within {} s and was killed", .0.as_secs())]
    Slow(Duration),
    #[error("failed ({status}): {said}")]
    Failed { status: ExitStatus, said: String },
    #[error("gave no credential: {0}")]
    Answer(String),
}

/// `ExecCredential` as a plugin prints it (client.authentication.k8s.io v1 and v1beta1).
#[derive(Deserialize)]
struct Printed {
    status: Option<Status>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    token: Option<String>,
    client_certificate_data: Option<String>,
    client_key_data: Option<String>,
    expiration_timestamp: Option<String>,
}

/// Puts the plugin's credential into `user` in place of the plugin; until when it is good.
///
/// Nothing happens where there is no plugin, or where a token is written beside it (that counts).
pub(super) async fn settle(user: &mut AuthInfo) -> Result<Option<Timestamp>, PluginError> {
    settle_within(user, RUN).await
}

async fn settle_within(
    user: &mut AuthInfo,
    limit: Duration,
) -> Result<Option<Timestamp>, PluginError> {
    let Some(exec) = user.exec.take() else {
        return Ok(None);
    };
    if user.token.is_some() || user.token_file.is_some() {
        return Ok(None);
    }
    let printed = run(&exec, limit).await?;
    put(&printed, user)
}

fn put(printed: &[u8], user: &mut AuthInfo) -> Result<Option<Timestamp>, PluginError> {
    let wrong = |why: String| PluginError::Answer(why);
    let printed: Printed =
        serde_json::from_slice(printed).map_err(|error| wrong(error.to_string()))?;
    let status = printed
        .status
        .ok_or_else(|| wrong("its answer has no status".to_owned()))?;
    let end = status
        .expiration_timestamp
        .map(|end| end.parse())
        .transpose()
        .map_err(|error| wrong(format!("expirationTimestamp: {error}")))?;
    // As in client-go, an empty one is none.
    let some = |text: Option<String>| text.filter(|text| !text.is_empty());
    match (
        some(status.client_certificate_data),
        some(status.client_key_data),
        some(status.token),
    ) {
        (Some(certificate), Some(key), token) => {
            let (certificate, key) = (base64(certificate)?, base64(key)?);
            user.client_certificate = None;
            user.client_key = None;
            user.client_certificate_data = Some(certificate);
            user.client_key_data = Some(key.into());
            user.token = token.map(Into::into);
        }
        (None, None, Some(token)) => user.token = Some(token.into()),
        (None, None, None) => return Err(wrong("neither token nor certificate".to_owned())),
        (Some(_), None, _) | (None, Some(_), _) => {
            return Err(wrong("half of a certificate and its key".to_owned()));
        }
    }
    Ok(end)
}

/// A kubeconfig holds PEM in base64, a plugin prints it plainly.
fn base64(pem: String) -> Result<String, PluginError> {
    match serde_json::to_value(ByteString(pem.into_bytes())) {
        Ok(Value::String(text)) => Ok(text),
        Ok(_) | Err(_) => Err(PluginError::Answer(
            "a certificate that is no text".to_owned(),
        )),
    }
}

/// What the plugin printed. It and its children end with the limit.
async fn run(exec: &ExecConfig, limit: Duration) -> Result<Vec<u8>, PluginError> {
    let mut command = command(exec)?;
    let mut child = command.spawn().map_err(|error| PluginError::Start {
        why: error.to_string(),
        hint: exec
            .install_hint
            .as_deref()
            .map(|hint| format!("; {}", hint.trim()))
            .unwrap_or_default(),
    })?;
    let group = child.id().and_then(|id| i32::try_from(id).ok());
    let (out, err) = (child.stdout.take(), child.stderr.take());
    let ended = async { tokio::join!(read(out), read(err), child.wait()) };
    let Ok((printed, said, status)) = tokio::time::timeout(limit, ended).await else {
        // With its children: a script that hangs mostly hangs in one.
        if let Some(group) = group {
            let _ = killpg(Pid::from_raw(group), Signal::SIGKILL);
        }
        return Err(PluginError::Slow(limit));
    };
    let status = status.map_err(|error| PluginError::Start {
        why: error.to_string(),
        hint: String::new(),
    })?;
    if status.success() && printed.len() as u64 > OUTPUT_MAX {
        return Err(PluginError::Answer("it printed more than 1 MiB".to_owned()));
    }
    if status.success() {
        return Ok(printed);
    }
    let said = String::from_utf8_lossy(&said);
    let said = text::clean(&said, usize::MAX);
    let skipped = said.chars().count().saturating_sub(SAID_MAX);
    Err(PluginError::Failed {
        status,
        said: said.chars().skip(skipped).collect(),
    })
}

fn command(exec: &ExecConfig) -> Result<Command, PluginError> {
    let program = exec
        .command
        .as_deref()
        .filter(|program| !program.is_empty());
    let mut command = Command::new(program.ok_or(PluginError::NoCommand)?);
    if exec.interactive_mode == Some(ExecInteractiveMode::Always) {
        return Err(PluginError::Interactive);
    }
    let mut spec = json!({"interactive": false});
    if exec.provide_cluster_info {
        spec["cluster"] = json!(exec.cluster);
    }
    let info = json!({"apiVersion": exec.api_version, "kind": "ExecCredential", "spec": spec});
    for variable in exec.env.iter().flatten() {
        if let (Some(name), Some(value)) = (variable.get("name"), variable.get("value")) {
            command.env(name, value);
        }
    }
    command
        .args(exec.args.iter().flatten())
        .env("KUBERNETES_EXEC_INFO", info.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true);
    Ok(command)
}

async fn read(from: Option<impl AsyncRead + Unpin>) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Some(from) = from {
        // What was read before an error is all there is.
        let _ = from.take(OUTPUT_MAX + 1).read_to_end(&mut bytes).await;
    }
    bytes
}

#[cfg(test)]
mod tests;
