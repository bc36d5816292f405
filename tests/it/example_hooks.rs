//! The examples of hooks, each run as a hook is, with programs that say what the real ones say; that for etcd on a real etcd besides.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::plane::bin;

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

/// A real etcd, which ends with this value.
struct Member(Child);

impl Drop for Member {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Three of them, by TLS for their clients, as kubeadm has them.
struct Etcd<'a> {
    dir: &'a Path,
    /// For clients and for each other.
    ports: [(u16, u16); 3],
}

impl Etcd<'_> {
    fn member(&self, place: usize) -> Member {
        let (clients, peers) = self.ports[place];
        let all = self.ports.iter().enumerate();
        let all: Vec<String> = all
            .map(|(place, (_, peers))| format!("m{place}=http://127.0.0.1:{peers}"))
            .collect();
        let file = |name: &str| self.dir.join(name).display().to_string();
        let said = fs::File::create(self.dir.join(format!("m{place}.log"))).unwrap();
        let member = Command::new(bin("etcd"))
            .args([
                format!("--name=m{place}"),
                format!("--data-dir={}", file(&format!("m{place}"))),
                format!("--listen-client-urls=https://127.0.0.1:{clients}"),
                format!("--advertise-client-urls=https://127.0.0.1:{clients}"),
                format!("--listen-peer-urls=http://127.0.0.1:{peers}"),
                format!("--initial-advertise-peer-urls=http://127.0.0.1:{peers}"),
                format!("--initial-cluster={}", all.join(",")),
                format!("--cert-file={}", file("ca.crt")),
                format!("--key-file={}", file("healthcheck-client.key")),
                format!("--trusted-ca-file={}", file("ca.crt")),
                "--client-cert-auth".to_owned(),
            ])
            .stdout(Stdio::null())
            .stderr(said)
            .spawn();
        Member(member.expect("etcd runs"))
    }

    /// What the hook says on the host of the first member, once it ends with one of these codes.
    fn says(&self, codes: &[i32]) -> String {
        let text = fs::read_to_string(format!("{EXAMPLES}/etcd-healthy")).unwrap();
        let ours = [
            (
                "PKI=/etc/kubernetes/pki/etcd",
                format!("PKI={}", self.dir.display()),
            ),
            (
                "ENDPOINT=https://127.0.0.1:2379",
                format!("ENDPOINT=https://127.0.0.1:{}", self.ports[0].0),
            ),
        ];
        let text = ours.into_iter().fold(text, |text, (theirs, ours)| {
            assert!(text.contains(theirs), "{theirs}");
            text.replace(theirs, &ours)
        });
        let hook = self.dir.join("40-etcd");
        fs::write(&hook, text).unwrap();
        let begin = Instant::now();
        loop {
            let output = Command::new("sh").arg(&hook).output().unwrap();
            let said = String::from_utf8(output.stdout).unwrap();
            if output
                .status
                .code()
                .is_some_and(|code| codes.contains(&code))
            {
                return said;
            }
            let late = begin.elapsed() > Duration::from_secs(60);
            assert!(!late, "not {codes:?} but {:?}: {said}", output.status);
            thread::sleep(Duration::from_millis(200));
        }
    }
}

/// A certificate of its own, for the server and for whoever asks it.
fn certificate(dir: &Path) {
    let config = "[req]\ndistinguished_name = dn\nx509_extensions = ext\nprompt = no\n[dn]\nCN = etcd\n\
                  [ext]\nsubjectAltName = IP:127.0.0.1\nbasicConstraints = critical,CA:TRUE\n";
    fs::write(dir.join("openssl.cnf"), config).unwrap();
    let words = "req -x509 -config openssl.cnf -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes \
                 -keyout healthcheck-client.key -out ca.crt -days 2";
    let made = Command::new("openssl")
        .args(words.split_whitespace())
        .current_dir(dir)
        .output()
        .expect("it runs");
    assert!(made.status.success(), "{made:?}");
    fs::copy(dir.join("ca.crt"), dir.join("healthcheck-client.crt")).unwrap();
}

/// One member that is down closes the gate and is named; without a quorum nobody knows (I8).
#[test]
fn i8_i13_the_hook_for_etcd_is_right_about_a_real_one() {
    let dir = tempfile::tempdir().unwrap();
    certificate(dir.path());
    let free = || TcpListener::bind("127.0.0.1:0").unwrap();
    // All at once, so that none is given twice.
    let free: Vec<TcpListener> = (0..6).map(|_| free()).collect();
    let port = |place: usize| free[place].local_addr().unwrap().port();
    let ports = [0, 2, 4].map(|place| (port(place), port(place + 1)));
    drop(free);
    let etcd = Etcd {
        dir: dir.path(),
        ports,
    };
    let [_first, second, third] = [0, 1, 2].map(|place| etcd.member(place));
    assert_eq!(etcd.says(&[0]), "");
    drop(third);
    let said = etcd.says(&[75]);
    let named = format!("etcd: https://127.0.0.1:{} is unhealthy", etcd.ports[2].0);
    let last = said.lines().last().unwrap_or_default();
    assert!(last.starts_with(&named), "{said}");
    let third = etcd.member(2);
    assert_eq!(etcd.says(&[0]), "");
    drop((second, third));
    // By its version etcdctl finds all of them unhealthy then, or cannot list them.
    let said = etcd.says(&[75, 1]);
    assert!(
        said.starts_with("etcd: ") || said.starts_with("etcdctl: "),
        "{said}"
    );
}
