//! `migrate kured` as a person meets it: what goes where, and the exit codes.

use std::process::Stdio;

use tokio::io::AsyncWriteExt as _;

use crate::cli_host::{CliHost, Said, binary, said};

/// A DaemonSet with these flags.
fn manifest(flags: &str) -> String {
    format!(
        r#"{{"kind": "DaemonSet", "metadata": {{"name": "kured", "namespace": "kube-system"}}, "spec": {{"template": {{"spec": {{
        "containers": [{{"name": "kured", "image": "ghcr.io/kubereboot/kured:1.23.0", "command": ["/usr/bin/kured"], "args": [{flags}]}}]}}}}}}}}"#
    )
}

async fn migrated(host: &CliHost, text: &str) -> Said {
    let file = host.write("/kured.yaml", text);
    let file = file.to_str().expect("UTF-8");
    host.run(&["migrate", "kured", "--manifest", file]).await
}

#[tokio::test]
async fn what_is_printed_is_a_configuration_that_config_check_takes() {
    let host = CliHost::start().await;
    let all = r#""--drain-timeout=1h", "--reboot-days=mon,tue", "--start-time=22:00", "--end-time=5:00", "--prometheus-url=http://p.example:9090",
        "--slack-hook-url=https://hooks.slack.com/services/T/B/hush", "--blocking-pod-selector=a=b", "--force-reboot""#;
    let answer = migrated(&host, &manifest(all)).await;
    assert_eq!(answer.code, Some(0), "{}", answer.err);
    assert!(
        answer.out.contains("\ntimeout = \"1h\"\n") && !answer.out.contains("hush"),
        "{}",
        answer.out
    );
    for words in [
        "The hand-over, in this order",
        "install -m 600 /dev/stdin /etc/kube-rebootd/webhook",
    ] {
        assert!(answer.err.contains(words), "{}", answer.err);
    }
    assert!(!answer.err.contains("hush"), "{}", answer.err);
    // As a file alone, and as the drop-in that it says it is.
    let file = host.write("/made.toml", &answer.out);
    let checked = host
        .run(&["config", "check", file.to_str().expect("UTF-8")])
        .await;
    assert_eq!((checked.code, checked.err.as_str()), (Some(0), ""));
    host.write("/etc/kube-rebootd/config.d/50-kured.toml", &answer.out);
    let checked = host.run(&["config", "check"]).await;
    assert_eq!((checked.code, checked.err.as_str()), (Some(0), ""));
    let shown = host.run(&["config", "show"]).await;
    assert!(
        shown.out.contains("on_timeout = \"reboot\" # from "),
        "{}",
        shown.out
    );
}

#[tokio::test]
async fn a_flag_that_nobody_knows_exits_with_78_and_only_observes() {
    let host = CliHost::start().await;
    let answer = migrated(&host, &manifest(r#""--dry-run", "--drain-timeout=1h""#)).await;
    assert_eq!(answer.code, Some(78));
    assert!(
        answer.out.contains("\nmode = \"observe\"\n") && answer.out.contains("timeout = \"1h\""),
        "{}",
        answer.out
    );
    assert!(
        answer
            .err
            .contains("not understood: --dry-run is no flag of kured"),
        "{}",
        answer.err
    );
}

#[tokio::test]
async fn without_one_kured_it_is_said_what_there_is() {
    let host = CliHost::start().await;
    let none = migrated(
        &host,
        "kind: Service\nmetadata: {name: web, namespace: shop}\n",
    )
    .await;
    assert_eq!((none.code, none.out.as_str()), (Some(1), ""));
    assert!(
        none.err.contains("there is Service shop/web"),
        "{}",
        none.err
    );
    let both = format!("{}\n---\n{}", manifest(""), manifest(""));
    let several = migrated(&host, &both).await;
    assert_eq!((several.code, several.out.as_str()), (Some(2), ""));
    assert!(
        several.err.contains("kube-system/kured, kube-system/kured"),
        "{}",
        several.err
    );
    let absent = host
        .run(&["migrate", "kured", "--manifest", "/none.yaml"])
        .await;
    assert_eq!((absent.code, absent.out.as_str()), (Some(1), ""));
    assert!(
        absent.err.contains("cannot read /none.yaml"),
        "{}",
        absent.err
    );
    let file = host.write("/one.yaml", &manifest(""));
    let file = file.to_str().expect("UTF-8");
    let words = ["migrate", "kured", "--manifest", file, "--namespace", "A b"];
    let nowhere = host.run(&words).await;
    assert_eq!((nowhere.code, nowhere.out.as_str()), (Some(2), ""));
    for words in [
        &["migrate"][..],
        &["migrate", "kured", "--manifest", "-", "--kubeconfig", "/k"],
    ] {
        assert_eq!(host.run(words).await.code, Some(2), "{words:?}");
    }
}

#[tokio::test]
async fn a_manifest_comes_from_standard_input_and_the_namespace_is_named() {
    let mut command = binary();
    command.args(["migrate", "kured", "--manifest", "-", "--namespace", "ops"]);
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().expect("it runs");
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin
        .write_all(manifest("").as_bytes())
        .await
        .expect("written");
    drop(stdin);
    let answer = said(child.wait_with_output().await.expect("it ends"));
    assert_eq!(answer.code, Some(0), "{}", answer.err);
    assert!(
        answer.out.contains("[coordination]") && answer.out.contains("namespace = \"ops\""),
        "{}",
        answer.out
    );
    assert!(
        answer.err.contains("kubectl -n ops annotate lease"),
        "{}",
        answer.err
    );
}
