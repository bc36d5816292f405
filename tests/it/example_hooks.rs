//! The examples of hooks, each run as a hook is, with programs that say what the real ones say.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/packaging/examples/hooks");

/// A program that keeps its arguments, prints this and ends so.
fn program(dir: &Path, name: &str, says: &str, code: u8) {
    let path = dir.join(name);
    let text = format!(
        "#!/bin/sh\necho \"$@\" >>\"{0}/asked\"\ncat <<'EOF'\n{says}\nEOF\nexit {code}\n",
        dir.display()
    );
    fs::write(&path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// How an example ended, the last line that it printed, and what it asked the program.
fn run(example: &str, hook: &str, phase: &str, fake: (&str, &str, u8)) -> (i32, String, String) {
    let dir = tempfile::tempdir().unwrap();
    let (name, says, code) = fake;
    program(dir.path(), name, says, code);
    let path = format!("{}:/usr/bin:/bin", dir.path().display());
    let output = Command::new("sh")
        .arg(format!("{EXAMPLES}/{example}"))
        .env_clear()
        .env("PATH", path)
        .env("KUBE_REBOOTD_HOOK", hook)
        .env("KUBE_REBOOTD_NODE", "n1")
        .env("KUBE_REBOOTD_PHASE", phase)
        .output()
        .unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let last = said.lines().last().unwrap_or_default().to_owned();
    let asked = fs::read_to_string(dir.path().join("asked")).unwrap_or_default();
    (output.status.code().unwrap(), last, asked.trim().to_owned())
}

#[test]
fn what_is_set_before_the_drain_is_taken_back() {
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let host = host.trim();
    for (hook, verb) in [("pre-drain", "set-group"), ("undo", "unset-group")] {
        let (code, _, asked) = run("ceph-noout", hook, "Claiming", ("ceph", "", 0));
        let wanted = format!("--name client.admin osd {verb} noout {host}");
        assert_eq!((code, asked), (0, wanted));
    }
    for (hook, state) in [("pre-drain", "drain"), ("undo", "ready")] {
        let (code, _, asked) = run("load-balancer", hook, "Claiming", ("curl", "", 0));
        assert_eq!(code, 0);
        assert!(
            asked.contains(&format!("{{\"state\":\"{state}\"}}")),
            "{asked}"
        );
        assert!(asked.ends_with("/servers/n1"), "{asked}");
    }
    for (example, name) in [("ceph-noout", "ceph"), ("load-balancer", "curl")] {
        let (code, last, _) = run(example, "undo", "Releasing", (name, "no route", 22));
        assert_eq!((code, last.as_str()), (22, "no route"), "{example}");
        let (code, last, asked) = run(example, "gate", "Pending", (name, "", 0));
        assert_eq!((code, asked.as_str()), (1, ""), "{example}: {last}");
    }
}

/// What the program says, and how the gate stands then.
#[test]
fn i8_a_gate_says_yes_not_now_or_that_it_does_not_know() {
    let ceph = |said| ("ceph-clean", "ceph", said);
    let volumes = |said| ("longhorn-healthy", "kubectl", said);
    let etcd = |said| ("etcd-healthy", "etcdctl", said);
    for ((example, name, said), ends, code, words) in [
        (ceph("33 pgs: 33 active+clean; 449 KiB data"), 0, 0, ""),
        (
            ceph(
                "33 pgs: 1 active+clean+scrubbing+deep, 2 active+clean+snaptrim_wait, 30 active+clean; 1 B",
            ),
            0,
            0,
            "",
        ),
        (
            ceph("33 pgs: 3 active+undersized+degraded, 30 active+clean; 1 B"),
            0,
            75,
            "Ceph is not clean: 3 active+undersized+degraded, 30 active+clean",
        ),
        (
            ceph("33 pgs: 1 active+clean+inconsistent, 32 active+clean; 1 B"),
            0,
            75,
            "Ceph is not clean: 1 active+clean+inconsistent, 32 active+clean",
        ),
        (ceph("nothing"), 0, 1, "not understood: nothing"),
        (ceph("no route"), 1, 1, "ceph pg stat: no route"),
        (volumes("healthy a\nunknown b\n"), 0, 0, ""),
        (volumes(""), 0, 0, ""),
        (
            volumes("healthy a\ndegraded b\nfaulted c"),
            0,
            75,
            "volumes of Longhorn are not healthy: degraded b faulted c",
        ),
        (volumes("refused"), 1, 1, "kubectl: refused"),
        (etcd("https://a:2379 is healthy: took 2ms"), 0, 0, ""),
        (
            etcd("https://a:2379 is healthy\nhttps://b:2379 is unhealthy: no answer"),
            1,
            75,
            "etcd: https://b:2379 is unhealthy: no answer ",
        ),
        (etcd("no such file"), 1, 1, "etcdctl: no such file"),
    ] {
        let (ended, last, _) = run(example, "gate", "Pending", (name, said, ends));
        assert_eq!((ended, last.as_str()), (code, words), "{example}: {said}");
    }
}

/// The own pods of the storage have left then, as they were to.
#[test]
fn a_storage_cluster_is_not_asked_while_this_node_drains() {
    for (example, name) in [("ceph-clean", "ceph"), ("longhorn-healthy", "kubectl")] {
        for (phase, asks) in [
            ("Pending", true),
            ("Queued", true),
            ("Claiming", true),
            ("Draining", false),
            ("Rebooting", false),
        ] {
            let (code, _, asked) = run(example, "gate", phase, (name, "degraded a", 1));
            assert_eq!(
                (code != 0, !asked.is_empty()),
                (asks, asks),
                "{example} {phase}"
            );
        }
    }
}
