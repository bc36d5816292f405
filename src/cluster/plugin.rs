//! Credential plugins of a kubeconfig (`exec`, as EKS and GKE have them): what to run, and what the answer
//! means; run once for both clients, under a limit (I7).
//!
//! kube would run one again inside a request and wait for it without a limit, never renew a
//! certificate, and keep a token without an end for ever. Here a plugin gives one credential with
//! its end, and the clients are rebuilt before that end and on a 401.
//!
//! The daemon has systemd run them outside its sandbox; [`directly`] is for a person's own machine.

use std::process::Stdio;
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

use kube_rebootd_core::plugin::{OUTPUT_MAX, Plugin, PluginError, RUN, failed};

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

/// Puts the plugin's credential into `user` in place of the plugin, which `run` runs; until when it is good.
///
/// Nothing happens where there is no plugin, or where a token is written beside it (that counts).
pub(super) async fn settle<F>(
    user: &mut AuthInfo,
    run: impl Fn(Plugin) -> F,
) -> Result<Option<Timestamp>, PluginError>
where
    F: Future<Output = Result<Vec<u8>, PluginError>>,
{
    let Some(exec) = user.exec.take() else {
        return Ok(None);
    };
    if user.token.is_some() || user.token_file.is_some() {
        return Ok(None);
    }
    let printed = run(plugin(&exec)?).await?;
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

fn plugin(exec: &ExecConfig) -> Result<Plugin, PluginError> {
    let program = exec
        .command
        .as_deref()
        .filter(|program| !program.is_empty());
    let program = program.ok_or(PluginError::NoCommand)?.to_owned();
    if exec.interactive_mode == Some(ExecInteractiveMode::Always) {
        return Err(PluginError::Interactive);
    }
    let mut spec = json!({"interactive": false});
    if exec.provide_cluster_info {
        spec["cluster"] = json!(exec.cluster);
    }
    let info = json!({"apiVersion": exec.api_version, "kind": "ExecCredential", "spec": spec});
    let mut environment = Vec::new();
    for variable in exec.env.iter().flatten() {
        if let (Some(name), Some(value)) = (variable.get("name"), variable.get("value")) {
            environment.push((name.clone(), value.clone()));
        }
    }
    environment.push(("KUBERNETES_EXEC_INFO".to_owned(), info.to_string()));
    Ok(Plugin {
        program,
        args: exec.args.clone().unwrap_or_default(),
        environment,
        hint: exec.install_hint.clone(),
    })
}

/// Runs it as a child of this process: what it printed.
pub async fn directly(plugin: Plugin) -> Result<Vec<u8>, PluginError> {
    run_within(&plugin, RUN).await
}

/// It and its children end with the limit.
async fn run_within(plugin: &Plugin, limit: Duration) -> Result<Vec<u8>, PluginError> {
    if plugin.missing() {
        return Err(plugin.not_started(&"No such file in any directory of PATH"));
    }
    let mut command = Command::new(&plugin.program);
    let variables = plugin.environment.iter();
    command
        .args(&plugin.args)
        .envs(variables.map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true);
    let mut child = command
        .spawn()
        .map_err(|error| plugin.not_started(&error))?;
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
    let status = status.map_err(|error| plugin.not_started(&error))?;
    if !status.success() {
        return Err(failed(status.to_string(), &said));
    }
    if printed.len() as u64 > OUTPUT_MAX {
        return Err(PluginError::Answer("it printed more than 1 MiB".to_owned()));
    }
    Ok(printed)
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
