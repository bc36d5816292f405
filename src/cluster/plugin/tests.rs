//! What plugins print, and what they do instead (I7, I8).

use proptest::prelude::*;

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

async fn settle_within(
    user: &mut AuthInfo,
    limit: Duration,
) -> Result<Option<Timestamp>, PluginError> {
    settle(user, async |plugin| run_within(&plugin, limit).await).await
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
    let said = settle(&mut missing, directly)
        .await
        .expect_err("missing")
        .to_string();
    assert!(
        said.contains("No such file") && said.ends_with("; install it"),
        "{said}"
    );
    let mut terminal = user("true");
    if let Some(exec) = &mut terminal.exec {
        exec.interactive_mode = Some(ExecInteractiveMode::Always);
    }
    assert_eq!(
        settle(&mut terminal, directly).await,
        Err(PluginError::Interactive)
    );
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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn i8_what_is_no_credential_leaves_the_user_without_one(printed in prop_oneof![
        garble::json(json!({"kind": "ExecCredential", "apiVersion": "client.authentication.k8s.io/v1",
            "status": {"token": "t", "clientCertificateData": "PEM", "clientKeyData": "KEY",
                "expirationTimestamp": "2026-11-21T10:00:00Z"}})).prop_map(|value| value.to_string().into_bytes()),
        garble::bytes(br#"{"status": {"token": "t1", "expirationTimestamp": "2026-11-21T10:00:00Z"}}"#.to_vec()),
        prop::collection::vec(any::<u8>(), 0..60),
    ]) {
        let mut user = AuthInfo::default();
        let said = put(&printed, &mut user);
        let certificate = user.client_certificate_data.is_some();
        prop_assert_eq!(certificate, user.client_key_data.is_some());
        let json = serde_json::to_value(&user).expect("JSON");
        let token = json["token"].as_str();
        prop_assert_ne!(token, Some(""), "no token at all");
        match said {
            Ok(_) => prop_assert!(token.is_some() || certificate),
            Err(PluginError::Answer(_)) => prop_assert_eq!(json, serde_json::to_value(AuthInfo::default()).expect("JSON")),
            Err(other) => prop_assert!(false, "{other:?}"),
        }
    }
}

#[test]
fn i7_nesting_in_what_a_plugin_prints_is_refused_in_bounded_time() {
    for text in garble::deep(1 << 20) {
        let said = garble::soon(move || put(text.as_bytes(), &mut AuthInfo::default()));
        assert!(matches!(said, Err(PluginError::Answer(_))), "{said:?}");
    }
}

#[tokio::test]
async fn i7_a_plugin_that_prints_without_end_is_refused() {
    for line in ["yes", "cat /dev/zero"] {
        let said = settled(&format!("exec 2>&1; {line}")).await.map(drop);
        let said = said.expect_err(line).to_string();
        assert!(
            said.contains("more than 1 MiB") || said.contains("failed"),
            "{line}: {said}"
        );
    }
    let said = settled("head -c 1048577 /dev/zero")
        .await
        .map(drop)
        .expect_err("too much");
    assert!(said.to_string().contains("more than 1 MiB"), "{said}");
}

#[test]
fn an_empty_token_is_none() {
    for printed in [
        r#"{"status": {"token": ""}}"#,
        r#"{"status": {"clientCertificateData": "", "clientKeyData": ""}}"#,
    ] {
        let said = put(printed.as_bytes(), &mut AuthInfo::default());
        let words = said.expect_err(printed).to_string();
        assert!(words.contains("neither token nor certificate"), "{words}");
    }
}
