//! Check commands on a fake systemd: only a proved exit is an answer (I8).

use std::time::Duration;

use kube_rebootd::host::{
    Bus, Verdict,
    check::{self, Check, Outcome},
};

use crate::{
    fake_bus::FakeHostBus,
    fake_units::{Run, Unit},
};

async fn run(host: &FakeHostBus, timeout: Duration, command: &[&str]) -> Outcome {
    let command: Vec<String> = command.iter().map(|s| (*s).to_owned()).collect();
    let check = Check {
        name: "test",
        command: &command,
        timeout,
        reboot_codes: &[1],
        ok_codes: &[0],
    };
    check::run(&Bus::at(host.address()), &check).await
}

async fn sh(host: &FakeHostBus, script: &str) -> Outcome {
    run(host, Duration::from_secs(60), &["/bin/sh", "-c", script]).await
}

#[tokio::test]
async fn exit_code_and_output_come_back() {
    let host = FakeHostBus::start().await;
    let outcome = sh(&host, "echo kernel; exit 1").await;
    assert!(
        matches!(outcome.verdict, Verdict::Reboot { .. }),
        "{outcome:?}"
    );
    assert_eq!(outcome.output, "kernel");
    assert_eq!(sh(&host, "exit 0").await.verdict, Verdict::Ok);
    let state = host.knobs();
    let (names, properties): (Vec<_>, Vec<_>) = state.started.iter().cloned().unzip();
    assert_ne!(names[0], names[1]);
    for trap in [
        "Type",
        "AddRef",
        "CollectMode",
        "RuntimeMaxUSec",
        "TimeoutStopUSec",
        "SuccessExitStatus",
        "LogLevelMax",
        "LimitFSIZE",
        "StandardOutputFileDescriptor",
    ] {
        assert!(properties[0].iter().any(|name| name == trap), "{trap}");
    }
}

#[tokio::test]
async fn i8_a_real_end_that_is_no_answer() {
    let host = FakeHostBus::start().await;
    for script in ["exit 2", "kill -9 $$", "exit 203"] {
        let outcome = sh(&host, script).await;
        assert!(
            matches!(outcome.verdict, Verdict::Unknown { .. }),
            "{script}: {outcome:?}"
        );
    }
    let missing = run(&host, Duration::from_secs(60), &["/no/such/command"]).await;
    assert!(
        matches!(missing.verdict, Verdict::Unknown { .. }),
        "{missing:?}"
    );
    let slow = run(&host, Duration::from_millis(50), &["/bin/sleep", "60"]).await;
    assert!(matches!(slow.verdict, Verdict::Unknown { .. }), "{slow:?}");
}

#[tokio::test]
async fn i8_odd_units_are_unknown() {
    let host = FakeHostBus::start().await;
    let ok = Unit::exited(0);
    let odd = [
        ("collected", vec![Unit::RUNNING, Unit::COLLECTED]),
        ("collected at once", vec![Unit::COLLECTED]),
        ("203", vec![Unit::RUNNING, Unit::exited(203)]),
        (
            "signal",
            vec![
                Unit::RUNNING,
                Unit {
                    code: 2,
                    status: 9,
                    ..ok.clone()
                },
            ],
        ),
        (
            "other invocation",
            vec![
                Unit::RUNNING,
                Unit {
                    invocation: 2,
                    ..ok.clone()
                },
            ],
        ),
        (
            "timeout with exit 1",
            vec![Unit {
                result: "timeout",
                ..Unit::exited(1)
            }],
        ),
        (
            "stopped with exit 1",
            vec![Unit {
                active_exit: 100,
                ..Unit::exited(1)
            }],
        ),
    ];
    for (name, script) in odd {
        host.knobs().run = Run::Says(script);
        let verdict = sh(&host, "true").await.verdict;
        assert!(
            matches!(verdict, Verdict::Unknown { .. }),
            "{name}: {verdict:?}"
        );
    }
    // The same script without the odd end is an answer: the fake itself is not the reason.
    host.knobs().run = Run::Says(vec![Unit::RUNNING, ok]);
    assert_eq!(sh(&host, "true").await.verdict, Verdict::Ok);
    host.knobs().run = Run::Refused;
    assert!(matches!(
        sh(&host, "true").await.verdict,
        Verdict::Unknown { .. }
    ));
}

#[tokio::test]
async fn i8_a_unit_that_never_ends_is_stopped() {
    let host = FakeHostBus::start().await;
    host.knobs().run = Run::Says(vec![Unit::RUNNING]);
    let endless = run(&host, Duration::from_secs(300), &["/bin/true"]);
    let hurry = async {
        host.until("the unit was started", |state| !state.started.is_empty())
            .await;
        // Past timeout and grace; the stop then happens in real time.
        tokio::time::pause();
        tokio::time::advance(Duration::from_secs(330)).await;
        tokio::time::resume();
    };
    let (outcome, ()) = tokio::join!(endless, hurry);
    let name = host.knobs().started[0].0.clone();
    assert_eq!(host.knobs().stopped, [name]);
    assert!(
        matches!(outcome.verdict, Verdict::Unknown { .. }),
        "{outcome:?}"
    );
}

#[tokio::test]
async fn i8_no_bus_is_unknown() {
    let mut host = FakeHostBus::start().await;
    host.stop_bus();
    assert!(matches!(
        sh(&host, "exit 1").await.verdict,
        Verdict::Unknown { .. }
    ));
}

#[tokio::test]
async fn leftovers_are_stopped_at_start() {
    let host = FakeHostBus::start().await;
    host.knobs().leftovers = ["kube-rebootd-check-a-1.service", "other.service"]
        .map(str::to_owned)
        .to_vec();
    let stopped = check::stop_leftovers(&Bus::at(host.address()))
        .await
        .unwrap();
    assert_eq!(stopped, 1);
    assert_eq!(host.knobs().stopped, ["kube-rebootd-check-a-1.service"]);
}
