//! Check commands on a fake systemd: only a proved exit is an answer (I8).

use std::{fs, os::unix::fs::PermissionsExt, time::Duration};

use kube_rebootd::{
    host::{
        Bus,
        check::{self, Check, Outcome},
    },
    root::Root,
};
use kube_rebootd_core::trigger::{Builtin, Verdict};
use kube_rebootd_outdated::Answer;

use crate::{
    fake_bus::FakeHostBus,
    fake_units::{Run, Unit},
};

async fn run(host: &FakeHostBus, timeout: Duration, command: &[&str]) -> Outcome {
    run_for(host, timeout, command, None).await
}

/// The same where the tool must say these words.
async fn run_for(
    host: &FakeHostBus,
    timeout: Duration,
    command: &[&str],
    words: Option<&str>,
) -> Outcome {
    let tree = tempfile::tempdir().unwrap();
    let run = tree.path().join("run");
    fs::create_dir(&run).unwrap();
    let root = Root::at(tree.path());
    let outcome = run_in(&root, host, timeout, command, words).await;
    let left: Vec<_> = fs::read_dir(&run).unwrap().collect();
    assert!(left.is_empty(), "left behind: {left:?}");
    outcome
}

async fn run_in(
    root: &Root,
    host: &FakeHostBus,
    timeout: Duration,
    command: &[&str],
    words: Option<&str>,
) -> Outcome {
    let command: Vec<String> = command.iter().map(|s| (*s).to_owned()).collect();
    let check = Check {
        name: "test",
        command: &command,
        timeout,
        reboot_codes: &[1],
        ok_codes: &[0],
        words,
    };
    check::run(root, &Bus::at(host.address()), &check).await
}

async fn sh(host: &FakeHostBus, script: &str) -> Outcome {
    run(host, Duration::from_secs(60), &["/bin/sh", "-c", script]).await
}

/// Found by review: a credential plugin had to be root's alone, and a check command had not.
#[tokio::test]
async fn i14_a_program_that_others_can_change_is_not_run() {
    let host = FakeHostBus::start().await;
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("check");
    fs::write(&program, "#!/bin/sh\nexit 1\n").unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    // Below /tmp, where anybody can make files.
    let command = [program.to_str().unwrap()];
    let said = run_in(&Root::host(), &host, Duration::MAX, &command, None).await;
    let Verdict::Unknown { why } = said.verdict else {
        panic!("{said:?}")
    };
    assert!(why.contains("/tmp") && why.contains("not used"), "{why}");
    assert!(host.knobs().started.is_empty(), "nothing was run");
}

/// dnf names every package that wants the reboot before it says that one is required.
#[tokio::test]
async fn i8_words_are_looked_for_below_a_long_list_and_in_the_c_locale() {
    let host = FakeHostBus::start().await;
    // Longer than what a pipe holds.
    let list = "i=0; while [ $i -lt 15000 ]; do echo '  * package'; i=$((i + 1)); done";
    for (end, wants) in [
        ("echo Reboot is required; exit 1", true),
        ("exit 1", false),
        ("echo Reboot is required; exit 0", false),
    ] {
        let script = format!("{list}; {end}");
        let (command, words) = (["/bin/sh", "-c", &script], Some("Reboot is required"));
        let outcome = run_for(&host, Duration::from_secs(60), &command, words).await;
        let verdict = &outcome.verdict;
        assert_eq!(
            matches!(verdict, Verdict::Reboot { .. }),
            wants,
            "{verdict:?}"
        );
        assert!(outcome.output.chars().count() <= 4096, "it is shown short");
    }
    for (_, properties) in &host.knobs().started {
        let told = format!("{properties:?}");
        assert!(told.contains("Environment"), "{told}");
    }
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
    assert_eq!(sh(&host, "exit 0").await.verdict, Verdict::No);
    let state = host.knobs();
    let (names, properties): (Vec<_>, Vec<_>) = state.started.iter().cloned().unzip();
    assert_ne!(names[0], names[1]);
    for trap in [
        "Type",
        "AddRef",
        "CollectMode",
        "RuntimeMaxUSec",
        "TimeoutStartUSec",
        "TimeoutStopUSec",
        "SuccessExitStatus",
        "LogLevelMax",
        "StandardOutputFile",
    ] {
        assert!(properties[0].iter().any(|name| name == trap), "{trap}");
    }
}

/// PID 1 opens the path that it is told as root: it must be that of nobody else.
#[tokio::test]
async fn i14_nobody_else_can_reach_where_a_command_prints() {
    let host = FakeHostBus::start().await;
    // The shell's own standard output: that of what stands in parentheses is another.
    let script = "here=$(readlink /proc/$$/fd/1); stat -c '%a %F' $(dirname $here) $here; exit 1";
    let outcome = sh(&host, script).await;
    assert_eq!(outcome.output, "700 directory\n600 fifo");
}

/// A daemon that was killed leaves it, and the environment of a credential plugin in it: whoever runs a command next takes it
/// away, and leaves that of a process which still runs.
#[tokio::test]
async fn what_a_killed_process_left_is_removed() {
    let host = FakeHostBus::start().await;
    let tree = tempfile::tempdir().unwrap();
    let run = tree.path().join("run");
    let at = |name: &str| run.join(name);
    let dead = [
        at("kube-rebootd-output-4711-aBc123"),
        at("kube-rebootd-output-4711-aBc124-gone"),
    ];
    let alive = [
        at("kube-rebootd-output-815-aBc123"),
        at("others"),
        at("kube-rebootd-output-"),
    ];
    fs::create_dir_all(tree.path().join("proc/815")).unwrap();
    for directory in dead.iter().chain(&alive) {
        fs::create_dir_all(directory).unwrap();
        fs::write(directory.join("environment"), "A=\"b\"\n").unwrap();
    }
    let root = Root::at(tree.path());
    let outcome = run_in(&root, &host, Duration::from_secs(60), &["/bin/true"], None).await;
    assert_eq!(outcome.verdict, Verdict::No);
    for directory in &dead {
        assert!(!directory.exists(), "{}", directory.display());
    }
    for directory in &alive {
        assert!(directory.exists(), "{}", directory.display());
    }
    assert_eq!(fs::read_dir(&run).unwrap().count(), alive.len());
}

#[tokio::test]
async fn i8_who_prints_without_end_has_no_answer() {
    let host = FakeHostBus::start().await;
    for script in ["yes", "head -c 300M /dev/zero; exit 1"] {
        let outcome = sh(&host, script).await;
        let Verdict::Unknown { why } = &outcome.verdict else {
            panic!("{script}: {outcome:?}")
        };
        assert!(why.starts_with("it printed more than"), "{why}");
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
    assert_eq!(sh(&host, "true").await.verdict, Verdict::No);
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
    assert_eq!(host.knobs().stopped.join(" "), name);
    // Else PID 1 kept it as long as the daemon's connection lives.
    assert_eq!(host.knobs().let_go.join(" "), name);
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

/// A whole answer of the built-in check `kernel`.
const REBOOT: &str = r#"{"triggers":[{"trigger":"builtin kernel","verdict":"reboot","pkgs":["6.1"],"words":"newer"}]}"#;
const BUSY: &str = r#"{"triggers":[{"trigger":"builtin kernel","verdict":"unknown","words":"dpkg works","busy":true}]}"#;

#[tokio::test]
async fn i8_a_built_in_check_answers_whole_or_not_at_all() {
    let host = FakeHostBus::start().await;
    let bus = Bus::at(host.address());
    let dir = tempfile::tempdir().unwrap();
    let (program, args) = (dir.path().join("program"), dir.path().join("args"));
    let root = Root::at(dir.path());
    fs::create_dir(dir.path().join("run")).unwrap();
    let answers = async |script: &str| {
        let script = format!("#!/bin/sh\necho \"$@\" >{}\n{script}\n", args.display());
        // Anew each time: a program that runs cannot be written to.
        let new = dir.path().join("new");
        fs::write(&new, script).unwrap();
        fs::set_permissions(&new, fs::Permissions::from_mode(0o755)).unwrap();
        fs::rename(&new, &program).unwrap();
        check::ask(&bus, &program, &root, Builtin::Kernel).await
    };
    let reboot = answers(&format!("echo '{REBOOT}'")).await;
    assert!(
        matches!(&reboot, Answer::Reboot { words, .. } if words == "newer"),
        "{reboot:?}"
    );
    let said = fs::read_to_string(&args).unwrap();
    let wanted = format!(
        "--root {}/ check --json --builtin kernel\n",
        dir.path().display()
    );
    assert_eq!(said, wanted);
    let busy = answers(&format!("echo '{BUSY}'; exit 75")).await;
    assert!(
        matches!(&busy, Answer::Unknown { words, busy: true } if words == "dpkg works"),
        "{busy:?}"
    );
    for script in [
        // A reboot is said with exit code 0 only.
        format!("echo '{REBOOT}'; exit 1"),
        format!("echo '{REBOOT}'; exit 75"),
        format!("echo '{REBOOT}'; kill -9 $$"),
        // Half of it, twice, about another check, nothing; a program that does not know the verb.
        format!("echo '{}'", &REBOOT[..REBOOT.len() - 2]),
        format!("echo '{REBOOT}'; echo '{REBOOT}'"),
        format!("echo '{}'", REBOOT.replace("kernel", "libraries")),
        "exit 0".to_owned(),
        "exit 2".to_owned(),
    ] {
        let answer = answers(&script).await;
        assert!(
            matches!(answer, Answer::Unknown { busy: false, .. }),
            "{script}: {answer:?}"
        );
    }
    fs::remove_file(&program).unwrap();
    let gone = check::ask(&bus, &program, &root, Builtin::Kernel).await;
    assert!(matches!(gone, Answer::Unknown { .. }), "{gone:?}");
}
