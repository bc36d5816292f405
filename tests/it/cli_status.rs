//! The command line as a person or a script meets it: help, exit codes, `status`, `config`.

use kube_rebootd_core::record::Record;
use kube_rebootd_core::trigger::{BY_PERSON, Latched, Request};

use crate::cli_host::{CliHost, Said, binary, said};

async fn alone(words: &[&str]) -> Said {
    said(binary().args(words).output().await.expect("it runs"))
}

#[tokio::test]
async fn help_names_every_verb() {
    let help = alone(&["--help"]).await;
    assert_eq!(help.code, Some(0));
    insta::assert_snapshot!(help.out);
}

#[tokio::test]
async fn usage_errors_exit_with_2() {
    for words in [
        &["fly"][..],
        &["undrain"],
        &["undrain", "--release", "--timeout", "0"],
        &["unlock"],
        &["manifests", "--slots", "0"],
        &["manifests", "--group", "Not A Name"],
    ] {
        let answer = alone(words).await;
        assert_eq!(answer.code, Some(2), "{words:?}: {}", answer.err);
        assert!(answer.out.is_empty() && !answer.err.is_empty(), "{words:?}");
    }
}

#[tokio::test]
async fn manifests_are_printed() {
    let answer = alone(&["manifests", "--group", "db", "--slots", "2"]).await;
    assert_eq!(answer.code, Some(0));
    assert!(answer.out.contains("name: db-2\n"), "{}", answer.out);
}

#[tokio::test]
async fn i12_a_bad_configuration_is_named_and_exits_with_78() {
    let host = CliHost::start().await;
    host.write("/etc/kube-rebootd/config.toml", "[drain]\nspeed = 3\n");
    for words in [
        &["config", "check"][..],
        &["config", "show"],
        &["nodes"],
        &["unlock", "n1"],
        &["undrain", "--release"],
        &["run"],
    ] {
        let answer = host.run(words).await;
        assert_eq!(answer.code, Some(78), "{words:?}: {}", answer.err);
        let both = answer.err + &answer.out;
        assert!(
            both.contains("config.toml") && both.contains("speed"),
            "{words:?}: {both}"
        );
    }
    host.write(
        "/etc/kube-rebootd/config.toml",
        "[drain]\nparallelism = 3\n",
    );
    let checked = host.run(&["config", "check"]).await;
    assert_eq!(checked.code, Some(0));
    assert!(
        checked.out.contains("/etc/kube-rebootd/config.toml"),
        "{}",
        checked.out
    );
    let show = host.run(&["config", "show"]).await;
    assert_eq!(show.code, Some(0));
    assert!(show.out.contains("parallelism = 3"), "{}", show.out);
    // What `run --config FILE` reads is what is checked.
    let other = host.write("/other.toml", "[drain]\nspeed = 3\n");
    let words = ["--config", other.to_str().unwrap(), "config", "check"];
    assert_eq!(host.run(&words).await.code, Some(78));
}

#[tokio::test]
async fn status_exits_with_3_when_the_daemon_does_not_run_and_still_tells() {
    let host = CliHost::start().await;
    let record = Record {
        request: Some(Request {
            since: "2026-11-21T09:00:00Z".parse().expect("a time"),
            reasons: Vec::new(),
            latched: vec![Latched {
                by: BY_PERSON.to_owned(),
                reason: "new firmware".to_owned(),
                at: "2026-11-21T09:00:00Z".parse().expect("a time"),
                boot: None,
                ended: false,
            }],
        }),
        ..Record::default()
    };
    host.write("/var/lib/kube-rebootd/state.json", &record.encode());
    let running = host.run(&["status"]).await;
    assert_eq!(running.code, Some(0), "{}", running.out);
    host.bus.knobs().daemon = false;
    let stopped = host.run(&["status"]).await;
    assert_eq!(stopped.code, Some(3));
    assert!(stopped.out.contains("new firmware"), "{}", stopped.out);
    assert!(stopped.out.contains("systemctl start kube-rebootd"));
    let json = host.run(&["status", "--json"]).await;
    assert_eq!(json.code, Some(3));
    let value: serde_json::Value = serde_json::from_str(&json.out).expect("JSON");
    assert_eq!(value["running"], false);
    assert_eq!(value["phase"], "pending");
    assert_eq!(value["reasons"][0]["words"], "new firmware");
}

#[tokio::test]
async fn status_leaves_a_damaged_state_file_where_it_is() {
    let host = CliHost::start().await;
    let file = host.write("/var/lib/kube-rebootd/state.json", "{");
    let answer = host.run(&["status"]).await;
    assert!(answer.out.contains("unknown"), "{}", answer.out);
    assert!(answer.out.contains("state.json"), "{}", answer.out);
    assert!(file.exists());
}

#[tokio::test]
async fn unlock_without_a_kubeconfig_prints_the_lines_and_exits_with_4() {
    let host = CliHost::start().await;
    let answer = host.run(&["unlock", "n1"]).await;
    assert_eq!(answer.code, Some(4), "{}", answer.err);
    assert!(
        answer.err.contains("kubectl patch node n1 "),
        "{}",
        answer.err
    );
}
