//! Every kind of gate on one real host: a window, a firing alert of a real Prometheus, a pod, a command, an inhibitor and a user
//! with a terminal close, and open in turn; what is shown at each moment, and the story in the journal (I2, I8).

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use jiff::{Timestamp, ToSpan as _};
use kube_rebootd_core::gates::Gate;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use testbed::Host;

use super::Site;
use super::workload::{Workload, bare, spec};

/// On the host's own loopback.
const PORT: u16 = 9090;
const COMMAND: &str = "/usr/local/bin/storage-clean";
/// What the user's terminal shows.
const TERMINAL: &str = "/var/log/alice";

/// Debian's, in the host's network.
struct Prometheus {
    child: Child,
    dir: tempfile::TempDir,
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Prometheus {
    fn start(host: &Host) -> Self {
        let dir = tempfile::tempdir().unwrap();
        rules(dir.path(), "vector(1)");
        let config = json!({
            "global": {"evaluation_interval": "1s"},
            "rule_files": ["rules.yml"],
        });
        fs::write(dir.path().join("prometheus.yml"), config.to_string()).unwrap();
        let child = within(host, "prometheus")
            .args(["--config.file=prometheus.yml", "--storage.tsdb.path=data"])
            .arg(format!("--web.listen-address=127.0.0.1:{PORT}"))
            .current_dir(dir.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Self { child, dir }
    }

    /// The alert is there: a server that has just begun has none yet.
    fn fires(site: &Site, host: &Host) {
        let url = format!("http://127.0.0.1:{PORT}");
        site.wait("the alert to fire", || {
            let mut query = within(host, "promtool");
            let said = query.args(["query", "instant", &url, "ALERTS"]).output()?;
            Ok(String::from_utf8_lossy(&said.stdout).contains("firing"))
        });
    }

    /// The alert ends as alerts do: its expression has no result any more.
    fn ends(&self) {
        rules(self.dir.path(), "vector(1) > 1");
        let pid = Pid::from_raw(self.child.id().try_into().unwrap());
        kill(pid, Signal::SIGHUP).unwrap();
    }
}

/// A program of this machine in the host's network.
fn within(host: &Host, program: &str) -> Command {
    let leader = host.leader().unwrap().to_string();
    let mut command = Command::new("nsenter");
    command.args(["--target", &leader, "--net", "--", program]);
    command
}

fn rules(dir: &Path, expression: &str) {
    let rules = json!({"groups": [{"name": "g", "interval": "1s", "rules": [
        {"alert": "DiskFull", "expr": expression},
    ]}]});
    fs::write(dir.join("rules.yml"), rules.to_string()).unwrap();
}

/// A window of so many hours that begins `begins` hours from now, and the other gates.
fn config(begins: i64, hours: i64) -> String {
    let now = Timestamp::now();
    let clock = |hours: i64| (now + hours.hours()).strftime("%H:%M").to_string();
    let (start, end) = (clock(begins), clock(begins + hours));
    format!(
        r#"
[drain]
mode = "always"
unmanaged = "block"

[[windows]]
name = "quiet"
start = "{start}"
end = "{end}"
time_zone = "UTC"

[gates]
# Whether this machine has it synchronized is its own matter.
unsynchronized_clock = "ignore"
users = "warn"
users_delay = "20s"

[[gates.prometheus]]
name = "main"
url = "http://127.0.0.1:{PORT}"

# The same server is asked for something else, which says nothing against it; and one that is away may be.
[[gates.prometheus]]
name = "budget"
url = "http://127.0.0.1:{PORT}"
query = "vector(0) > 1"

[[gates.prometheus]]
name = "away"
url = "http://127.0.0.1:9"
on_error = "open"

[[gates.command]]
name = "storage"
command = ["{COMMAND}"]
period = "10s"
"#
    )
}

/// Gates that are closed, and the sentence of each.
fn closed(host: &Host) -> anyhow::Result<Vec<(String, String)>> {
    let said = host.sh("kube-rebootd explain --json")?;
    let said: Value = serde_json::from_str(&said)?;
    let gates = said["gates"].as_array().into_iter().flatten();
    let closed = gates.filter(|gate| ["closed", "unknown"].iter().any(|it| gate["state"] == *it));
    let word = |gate: &Value, key: &str| gate[key].as_str().unwrap_or_default().to_owned();
    Ok(closed
        .map(|gate| (word(gate, "gate"), word(gate, "why")))
        .collect())
}

/// These and no others, with these words.
fn waits_at(site: &Site, host: &Host, wanted: &[(Gate, &str)]) {
    let names: Vec<&str> = wanted.iter().map(|(gate, _)| gate.name()).collect();
    site.wait(&format!("only {names:?} to be closed"), || {
        let closed = closed(host)?;
        let same = closed.len() == wanted.len()
            && wanted.iter().all(|(gate, words)| {
                let mut all = closed.iter();
                all.any(|(name, why)| name == gate.name() && why.contains(words))
            });
        anyhow::ensure!(same, "closed are {closed:?}");
        Ok(true)
    });
    assert!(!site.cordoned(host), "nothing was begun");
    for lease in site.leases() {
        assert_eq!(site.holder(&lease), "", "no slot is taken");
    }
}

/// root on a pseudo-terminal of its own, as login(1) would have it: logind knows the session and its terminal.
fn logs_in(site: &Site, host: &Host) {
    host.sh(&format!(
        "systemd-run --unit=terminal script --quiet --flush --command 'tty > /run/tty; exec sleep infinity' {TERMINAL}"
    ))
    .unwrap();
    site.wait("a terminal", || {
        Ok(host.sh("cat /run/tty")?.starts_with("/dev/pts/"))
    });
    host.sh(
        "systemd-run --unit=user -p PAMName=login -p User=root -p TTYPath=$(cat /run/tty) sleep infinity",
    )
    .unwrap();
}

#[test]
fn i2_i8_each_gate_closes_and_opens_in_turn_and_the_journal_tells_it() {
    let site = Site::new("gates", 1);
    let host = site.host("gates-1", &config(6, 4));
    let work = Workload::new(&site, "gates");
    work.apply(&[bare("bare", "Always", &spec(&host))]);
    work.wait_running(&host, 1);
    let answers = |code: u8, words: &str| {
        let script = format!("#!/bin/sh\necho {words}\nexit {code}\n");
        host.write(COMMAND, &script).unwrap();
        host.sh(&format!("chmod 755 {COMMAND}")).unwrap();
    };
    answers(75, "2 of 3 replicas are clean");
    let prometheus = Prometheus::start(&host);
    host.sh(
        "systemd-run --unit=backup systemd-inhibit --what=shutdown --mode=block --who=backup --why=nightly sleep infinity",
    )
    .unwrap();
    logs_in(&site, &host);
    site.wait_status(&host, "idle");
    Prometheus::fires(&site, &host);
    host.touch("/run/reboot-required").unwrap();

    let window = (Gate::Windows, "outside of the windows; \"quiet\" opens");
    let alert = (Gate::Alerts, "active alerts: DiskFull");
    let pod = (Gate::BlockingPods, "/bare has no controller");
    let command = (Gate::Commands, "2 of 3 replicas are clean");
    let inhibitor = (Gate::Inhibitors, "nightly");
    let user = (Gate::Users, "root");
    waits_at(
        &site,
        &host,
        &[window, alert, pod, command, inhibitor, user],
    );

    host.write(
        "/etc/kube-rebootd/config.toml",
        &site.config(&config(-1, 8)),
    )
    .unwrap();
    host.systemctl(&["reload", "kube-rebootd"]).unwrap();
    waits_at(&site, &host, &[alert, pod, command, inhibitor, user]);
    prometheus.ends();
    waits_at(&site, &host, &[pod, command, inhibitor, user]);
    work.kubectl(&["delete", "pod", "bare", "--wait=false"]);
    waits_at(&site, &host, &[command, inhibitor, user]);
    answers(0, "all are clean");
    waits_at(&site, &host, &[inhibitor, user]);
    let told = || host.sh(&format!("cat {TERMINAL}"));
    let before = told().unwrap();
    assert!(!before.contains("kube-rebootd"), "too early: {before}");
    host.systemctl(&["stop", "backup"]).unwrap();

    // Nothing else is in the way: now the user is warned, and 20 seconds later it begins.
    waits_at(&site, &host, &[(Gate::Users, "warned of the reboot")]);
    let page = told().unwrap();
    assert!(page.contains("kube-rebootd"), "the terminal shows: {page}");
    site.wait_rebooted(&host, 1);
    site.nothing_left(&host);
    let journal = host.journal("kube-rebootd").unwrap();
    let mut from = 0;
    for words in [
        "outside of the windows",
        "configuration reloaded",
        "active alerts: DiskFull",
        "would block the drain",
        "2 of 3 replicas are clean",
        "nightly",
        "telling all who are logged in",
        "warned of the reboot",
        "is taken",
        "the host has rebooted",
    ] {
        let found = journal[from..].find(words);
        let at = found.unwrap_or_else(|| panic!("{words:?} is not next in: {journal}"));
        from += at;
    }
}

/// What timedatectl says on the host is what the gate says.
#[test]
fn i8_a_window_opens_by_a_clock_that_systemd_calls_synchronized() {
    let site = Site::new("clock", 1);
    let config = "[[windows]]\nstart = \"00:00\"\nend = \"24:00\"\ntime_zone = \"UTC\"\n";
    let host = site.host("clock-1", config);
    site.pause("a test");
    site.wait_status(&host, "idle");
    let shown = host.sh("timedatectl show --property NTPSynchronized --value");
    let synchronized = shown.unwrap().trim() == "yes";
    host.touch("/run/reboot-required").unwrap();
    let mut wanted = vec![(Gate::GroupPaused, "a test")];
    if !synchronized {
        wanted.push((Gate::Clock, "the clock is not synchronized"));
    }
    waits_at(&site, &host, &wanted);
}
