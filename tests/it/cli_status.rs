//! The command line as a person or a script meets it: help, exit codes, `status`, `explain`, `config`.

use std::time::Duration;

use kube_rebootd::host::view::{self, Gate, State, Trigger, Verdict, View};
use kube_rebootd_core::phase::Phase;
use kube_rebootd_core::record::Record;
use kube_rebootd_core::trigger::{BY_PERSON, Latched, Request};

use serde_json::Value;

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

/// The daemon takes such a configuration, and so the unit's reload must.
#[tokio::test]
async fn what_could_not_be_run_on_this_host_is_told_beside_a_valid_configuration() {
    let host = CliHost::start().await;
    let file = host.write(
        "/etc/kube-rebootd/config.toml",
        "[[gates.command]]\nname = \"ceph\"\ncommand = [\"/opt/none\"]\n\
         [[gates.prometheus]]\nname = \"main\"\nurl = \"http://127.0.0.1:1\"\ntoken_file = \"/etc/none\"\n",
    );
    host.write("/etc/kube-rebootd/hooks/undo.d/10-noout", "#!/bin/sh\n");
    let said = host.run(&["config", "check"]).await;
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert!(said.out.starts_with("valid: "), "{}", said.out);
    for words in [
        "on this host: undo.d: nobody may execute /etc/kube-rebootd/hooks/undo.d/10-noout",
        "on this host: gate commands: command ceph: there is no /opt/none; cure: ",
        "on this host: prometheus: main: the file of gates.prometheus.token_file cannot be read",
    ] {
        assert!(said.err.contains(words), "{}", said.err);
    }
    assert_eq!(said.err.lines().count(), 3, "{}", said.err);
    // Of a file that is to be another host's nothing is looked up here.
    let words = ["config", "check", file.to_str().unwrap()];
    let said = host.run(&words).await;
    assert_eq!((said.code, said.err.as_str()), (Some(0), ""));
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
                kind: kube_rebootd_core::kind::Kind::Reboot,
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
    let value: Value = serde_json::from_str(&json.out).expect("JSON");
    assert_eq!(value["running"], false);
    assert_eq!(value["phase"], "pending");
    assert_eq!(value["reasons"][0]["words"], "new firmware");
}

/// The same snapshot, and more of it; what the API server would say is missing, and says why.
#[tokio::test]
async fn explain_tells_what_status_tells_and_every_trigger_and_gate() {
    let host = CliHost::start().await;
    host.bus.knobs().pid = 7;
    let view = View {
        pid: 7,
        node: Some("n1".to_owned()),
        phase: Some(Phase::Pending),
        reason: "MinUptime".to_owned(),
        waits: vec!["the host has been up for less than gates.min_uptime (1d)".to_owned()],
        triggers: vec![Trigger {
            trigger: "check dnf".to_owned(),
            verdict: Verdict::Unknown,
            words: "no answer within 60s".to_owned(),
            since: Duration::from_secs(60),
            settles: None,
        }],
        gates: vec![Gate {
            gate: "min-uptime".to_owned(),
            state: State::Closed,
            why: Some("the host has been up for less than gates.min_uptime (1d)".to_owned()),
            since: Duration::from_secs(60),
            // A year and more: no machine that runs tests has been up for so long.
            opens: Some(Duration::from_secs(1_000_000_000)),
            opens_when: None,
        }],
        ..View::default()
    };
    view::write(&host.root(), &view).expect("written");
    let said = host.run(&["explain"]).await;
    assert_eq!(said.code, Some(0), "{}", said.err);
    for words in [
        "Node n1",
        "MinUptime",
        "check dnf",
        "unknown since",
        "(in ",
        "kubeconfig",
    ] {
        assert!(said.out.contains(words), "no {words:?}: {}", said.out);
    }
    let json = async |verb: &str| {
        let said = host.run(&[verb, "--json"]).await;
        let value: Value = serde_json::from_str(&said.out).expect("JSON");
        (said.code, value)
    };
    let ((_, status), (code, explained)) = (json("status").await, json("explain").await);
    assert_eq!(code, Some(0));
    for (key, value) in status.as_object().expect("an object") {
        assert_eq!(explained[key], *value, "{key}");
    }
    assert_eq!(explained["reason"], "MinUptime");
    assert_eq!(explained["triggers"][0]["verdict"], "unknown");
    assert_eq!(explained["gates"][0]["state"], "closed");
    assert!(explained["gates"][0]["opens"].is_string(), "{explained}");
    assert_eq!(explained["drain"]["evicts"], Value::Null);
    let problem = explained["drain"]["problem"].as_str();
    assert!(
        problem.is_some_and(|why| why.contains("kubeconfig")),
        "{explained}"
    );

    host.bus.knobs().daemon = false;
    let (code, stopped) = json("explain").await;
    assert_eq!(code, Some(3));
    assert_eq!(
        stopped["triggers"],
        serde_json::json!([]),
        "of one that ended"
    );
    let page = host.run(&["explain"]).await;
    assert_eq!(page.code, Some(3));
    assert!(
        page.out.contains("systemctl start kube-rebootd"),
        "{}",
        page.out
    );
    assert!(
        page.out.contains("not known: the daemon does not run"),
        "{}",
        page.out
    );
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
