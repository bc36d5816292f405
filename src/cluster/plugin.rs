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
    match (
        status.client_certificate_data,
        status.client_key_data,
        status.token,
    ) {
        (Some(certificate), Some(key), token) => {
            user.client_certificate = None;
            user.client_key = None;
            user.client_certificate_data = Some(base64(certificate)?);
            user.client_key_data = Some(base64(key)?.into());
            user.token = token.map(Into::into);
        }
        (None, None, Some(token)) => user.token = Some(token.into()),
        (None, None, None) => return Err(wrong("neither token nor certificate".to_owned())),
        (Some(_), None, _) | (None, Some(_), _) => {
            return Err(wrong("half of a certificate and its key".to_owned()));
        }
    }
    status
        .expiration_timestamp
        .map(|end| end.parse())
        .transpose()
        .map_err(|error| wrong(format!("expirationTimestamp: {error}")))
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
    if status.success() {
        return Ok(printed);
    }
    let said = String::from_utf8_lossy(&said);
    let said = said.trim().replace(char::is_control, " ");
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
        let _ = from.take(OUTPUT_MAX).read_to_end(&mut bytes).await;
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(line: &str) -> AuthInfo {
        let exec = json!({"apiVersion": "client.authentication.k8s.io/v1", "interactiveMode": "Never",
            "command": "/bin/sh", "args": ["-c", line], "env": [{"name": "CLUSTER", "value": "c1"}],
            "installHint": "install it"});
        AuthInfo {
            exec: Some(serde_json::from_value(exec).expect("an exec section")),
            ..AuthInfo::default()
        }
    }

    async fn settled(line: &str) -> Result<(AuthInfo, Option<Timestamp>), PluginError> {
        let mut user = user(line);
        let end = settle_within(&mut user, Duration::from_secs(10)).await?;
        assert!(user.exec.is_none(), "kube would run it again");
        Ok((user, end))
    }

    #[tokio::test]
    async fn a_token_comes_with_its_end_and_the_plugin_gets_what_it_needs() {
        let line = r#"case "$KUBERNETES_EXEC_INFO" in *v1*'"interactive":false'*) ;; *) exit 3;; esac
            test "$CLUSTER" = c1 || exit 4
            echo '{"status": {"token": "t1", "expirationTimestamp": "2026-11-21T10:00:00Z"}}'"#;
        let (user, end) = settled(line).await.expect("a token");
        let token = serde_json::to_value(&user).expect("json")["token"].clone();
        assert_eq!(token, "t1");
        assert_eq!(end, Some("2026-11-21T10:00:00Z".parse().expect("a time")));
        let (_, end) = settled(r#"echo '{"status": {"token": "t"}}'"#)
            .await
            .expect("a token");
        assert_eq!(end, None);
    }

    #[tokio::test]
    async fn a_certificate_is_put_as_a_kubeconfig_holds_it() {
        let line = r#"echo '{"status": {"clientCertificateData": "PEM", "clientKeyData": "KEY"}}'"#;
        let (user, _) = settled(line).await.expect("a certificate");
        assert_eq!(user.client_certificate_data.as_deref(), Some("UEVN"));
        assert!(user.client_key_data.is_some() && user.token.is_none());
    }

    #[tokio::test]
    async fn what_fails_says_why() {
        let failed = settled("echo expired session >&2; exit 9").await;
        let words = failed.map(drop).expect_err("failed").to_string();
        assert_eq!(words, "failed (exit status: 9): expired session");
        for (line, words) in [
            ("echo nonsense", "gave no credential"),
            ("echo '{}'", "no status"),
            (r#"echo '{"status": {}}'"#, "neither token nor certificate"),
            (r#"echo '{"status": {"clientKeyData": "x"}}'"#, "half"),
            (
                r#"echo '{"status": {"token": "t", "expirationTimestamp": "soon"}}'"#,
                "expirationTimestamp",
            ),
        ] {
            let said = settled(line).await.map(drop).expect_err(line).to_string();
            assert!(said.contains(words), "{line}: {said}");
        }
        let mut missing = user("");
        if let Some(exec) = &mut missing.exec {
            exec.command = Some("/nonexistent/plugin".to_owned());
        }
        let said = settle(&mut missing).await.expect_err("missing").to_string();
        assert!(
            said.contains("No such file") && said.ends_with("; install it"),
            "{said}"
        );
        let mut terminal = user("true");
        if let Some(exec) = &mut terminal.exec {
            exec.interactive_mode = Some(ExecInteractiveMode::Always);
        }
        assert_eq!(settle(&mut terminal).await, Err(PluginError::Interactive));
    }

    #[tokio::test]
    async fn i7_a_plugin_that_hangs_is_killed_with_its_children() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("pid");
        let line = format!("sleep 1000 & echo $! > {}; wait", file.display());
        let limit = Duration::from_millis(300);
        let hung = settle_within(&mut user(&line), limit).await;
        assert_eq!(hung, Err(PluginError::Slow(limit)));
        let child = std::fs::read_to_string(&file).expect("it ran");
        // Gone, or a zombie that nobody has reaped yet.
        let stat = format!("/proc/{}/stat", child.trim());
        let lives = || {
            let stat = std::fs::read_to_string(&stat).unwrap_or_default();
            !stat.is_empty() && !stat.contains(") Z")
        };
        for _ in 0..200 {
            if !lives() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("the plugin's child lives");
    }
}
