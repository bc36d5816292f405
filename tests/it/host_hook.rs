//! Commands of the gate and hooks on a fake systemd that really runs them: exit codes, words, environment (I8, I14).

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use kube_rebootd::host::Bus;
use kube_rebootd::host::check::{self, Hook};
use kube_rebootd::root::Root;
use kube_rebootd_core::hook::Answer;

use crate::fake_bus::FakeHostBus;

async fn run_in(root: &Root, host: &FakeHostBus, timeout: u64, command: &[&str]) -> Answer {
    let command: Vec<String> = command.iter().map(|s| (*s).to_owned()).collect();
    let hook = Hook {
        name: "gate.d/10-test",
        command: &command,
        timeout: Duration::from_secs(timeout),
        round: false,
    };
    let told = vec![
        "KUBE_REBOOTD_NODE=n1".to_owned(),
        "KUBE_REBOOTD_REASONS=a, $HOME \"b\"".to_owned(),
    ];
    check::hook(root, &Bus::at(host.address()), &hook, told).await
}

async fn sh(host: &FakeHostBus, timeout: u64, script: &str) -> Answer {
    let tree = tempfile::tempdir().unwrap();
    let run = tree.path().join("run");
    fs::create_dir(&run).unwrap();
    let root = Root::at(tree.path());
    let answer = run_in(&root, host, timeout, &["/bin/sh", "-c", script]).await;
    let left: Vec<_> = fs::read_dir(&run).unwrap().collect();
    assert!(left.is_empty(), "left behind: {left:?}");
    answer
}

#[tokio::test]
async fn i8_the_exit_code_answers_and_the_last_line_says_why() {
    let host = FakeHostBus::start().await;
    let not_now = |why: &str| Answer::NotNow(why.to_owned());
    let unknown = |why: &str| Answer::Unknown(why.to_owned());
    for (script, answer) in [
        ("exit 0", Answer::Yes),
        (
            "echo asked; echo 3 pgs degraded; exit 75",
            not_now("3 pgs degraded"),
        ),
        ("echo no route; exit 1", unknown("exit code 1: no route")),
        (
            "echo words on standard error >&2; exit 75",
            not_now("exit code 75"),
        ),
        ("printf 'a\\033[31m\\n\\n'; exit 75", not_now("a[31m")),
        ("kill -9 $$", unknown("it was killed by signal 9")),
        (
            "echo \"$KUBE_REBOOTD_NODE $KUBE_REBOOTD_REASONS\"; exit 75",
            not_now("n1 a, $HOME \"b\""),
        ),
    ] {
        assert_eq!(sh(&host, 60, script).await, answer, "{script}");
    }
    let units: Vec<String> = host
        .knobs()
        .started
        .iter()
        .map(|(unit, _)| unit.clone())
        .collect();
    for unit in units {
        assert!(
            unit.starts_with("kube-rebootd-hook-gate_d_10_test-"),
            "{unit}"
        );
    }
}

/// The reason is at the end, however much came before it.
#[tokio::test]
async fn the_end_of_a_long_output_is_kept() {
    let host = FakeHostBus::start().await;
    let script = "i=0; while [ $i -lt 40000 ]; do echo 'placement group'; i=$((i + 1)); done; echo degraded; exit 75";
    let answer = sh(&host, 60, script).await;
    assert_eq!(answer, Answer::NotNow("degraded".to_owned()));
}

#[tokio::test]
async fn i7_i8_one_that_hangs_is_ended_and_has_said_nothing() {
    let host = FakeHostBus::start().await;
    let answer = sh(&host, 1, "echo fine; sleep 600").await;
    let why = "it took longer than its timeout".to_owned();
    assert_eq!(answer, Answer::Unknown(why));
}

#[tokio::test]
async fn i8_one_that_is_not_there_has_said_nothing() {
    let host = FakeHostBus::start().await;
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("run")).unwrap();
    let root = Root::at(dir.path());
    let answer = run_in(&root, &host, 60, &["/nowhere"]).await;
    assert!(
        matches!(&answer, Answer::Unknown(why) if why.contains("could not start it")),
        "{answer:?}"
    );
}

#[tokio::test]
async fn i14_a_program_that_others_can_change_is_not_run() {
    let host = FakeHostBus::start().await;
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("gate");
    fs::write(&program, "#!/bin/sh\nexit 0\n").unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    // Below /tmp, where anybody can make files.
    let command = [program.to_str().unwrap()];
    let answer = run_in(&Root::host(), &host, 60, &command).await;
    assert!(
        matches!(&answer, Answer::Unknown(why) if why.contains("/tmp") && why.contains("not used")),
        "{answer:?}"
    );
    assert!(host.knobs().started.is_empty(), "nothing was run");
}
