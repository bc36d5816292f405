//! The real Alertmanager silences what it is asked to, and nothing else, over restarts of the daemon and until its end.

use std::collections::BTreeSet;
use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use kube_rebootd::notices::Silences;
use kube_rebootd::root::Root;
use kube_rebootd_core::config;
use kube_rebootd_core::silence::Silence;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Far above what Alertmanager needs to start.
const PATIENCE: Duration = Duration::from_secs(60);
/// Shorter than any configuration allows.
const SHORT: Duration = Duration::from_secs(6);

/// The real one, on loopback, with a directory of its own.
struct Alertmanager {
    child: Child,
    port: u16,
    /// What stands for the host, whose name is h1.example.
    root: Root,
    _dir: tempfile::TempDir,
}

impl Alertmanager {
    async fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::at(dir.path());
        let hostname = root.path("/proc/sys/kernel/hostname");
        fs::create_dir_all(hostname.parent().unwrap()).unwrap();
        fs::write(hostname, "h1.example\n").unwrap();
        let file = dir.path().join("alertmanager.yml");
        // YAML takes JSON.
        let configuration = json!({"route": {"receiver": "none"}, "receivers": [{"name": "none"}]});
        fs::write(&file, configuration.to_string()).unwrap();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        drop(listener);
        let log = fs::File::create(dir.path().join("log")).unwrap();
        let child = Command::new("prometheus-alertmanager")
            .arg(format!("--config.file={}", file.display()))
            .arg(format!(
                "--storage.path={}",
                dir.path().join("data").display()
            ))
            .arg(format!("--web.listen-address=127.0.0.1:{port}"))
            .arg("--cluster.listen-address=")
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .expect("prometheus-alertmanager runs");
        let started = Self {
            child,
            port,
            root,
            _dir: dir,
        };
        started.until("an answer", |_, _| true).await;
        let alert = |name: &str, label: &str, value: &str| json!({"labels": {"alertname": name, label: value}});
        let alerts = json!([
            alert("NodeDown", "node", "n1"),
            alert("NodeDown", "node", "n10"),
            alert("KubeRebootdHolderDead", "node", "n1"),
            alert("TargetDown", "instance", "h1.example:9100"),
            alert("TargetDown", "instance", "h1-example:9100"),
        ])
        .to_string();
        let taken = started.ask("POST", "/api/v2/alerts", &alerts);
        assert!(taken.await.is_some());
        started
    }

    /// The body of what it answers; none: nobody does.
    async fn ask(&self, method: &str, target: &str, body: &str) -> Option<String> {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port))
            .await
            .ok()?;
        let length = body.len();
        // Of this version, the whole body comes in one piece.
        let request = format!(
            "{method} {target} HTTP/1.0\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
        );
        stream.write_all(request.as_bytes()).await.ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.ok()?;
        let (head, body) = answer.split_once("\r\n\r\n")?;
        assert!(head.contains(" 200 "), "{method} {target}: {answer}");
        Some(body.to_owned())
    }

    async fn list(&self, target: &str) -> Option<Vec<Value>> {
        let body = self.ask("GET", target, "").await?;
        Some(serde_json::from_str(&body).unwrap())
    }

    /// Waits until the alerts and all silences that there ever were are so.
    async fn until(&self, what: &str, done: impl Fn(&[Value], &[Value]) -> bool) -> Vec<Value> {
        let start = Instant::now();
        loop {
            let alerts = self.list("/api/v2/alerts").await;
            let silences = self.list("/api/v2/silences").await;
            if let (Some(alerts), Some(silences)) = (&alerts, &silences)
                && done(alerts, silences)
            {
                return silences.clone();
            }
            let late = start.elapsed() > PATIENCE;
            assert!(!late, "no {what}: {silences:#?} {alerts:#?}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    fn silence(&self, comment: &str) -> Silence {
        let text = format!(
            "[notify]\nalertmanager = \"http://127.0.0.1:{}\"\nsilence = [\"node={{node}}\", \"instance=~{{hostname}}(:[0-9]+)?\"]\n",
            self.port
        );
        let notify = config::parse(Path::new("c"), &text).unwrap().config.notify;
        let mut at = notify.alertmanager.unwrap();
        at.length = SHORT;
        Silence {
            at,
            node: "n1".to_owned(),
            uid: "u".to_owned(),
            comment: comment.to_owned(),
        }
    }
}

impl Drop for Alertmanager {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Of each alert that is silenced, its name and what it is about.
fn silenced(alerts: &[Value]) -> BTreeSet<String> {
    let silenced = alerts
        .iter()
        .filter(|one| one["status"]["state"] == "suppressed");
    let words = silenced.map(|one| {
        let labels = &one["labels"];
        let about = labels.get("node").unwrap_or(&labels["instance"]);
        let (name, about) = (labels["alertname"].as_str(), about.as_str());
        format!("{} {}", name.unwrap(), about.unwrap())
    });
    words.collect()
}

fn ours() -> BTreeSet<String> {
    ["NodeDown n1", "TargetDown h1.example:9100"]
        .map(str::to_owned)
        .into()
}

fn all<'a>(silences: &'a [Value], key: &'a str) -> BTreeSet<&'a str> {
    silences
        .iter()
        .map(|one| one[key].as_str().unwrap())
        .collect()
}

fn commented(silences: &[Value], comment: &str) -> bool {
    all(silences, "comment") == BTreeSet::from([comment])
}

#[tokio::test]
async fn alerts_of_the_node_are_silenced_until_the_hold_ends_and_our_own_never() {
    let alertmanager = Alertmanager::start().await;
    let silences = Silences::start(&alertmanager.root);
    silences.want(Some(alertmanager.silence("draining")));
    let began = Instant::now();
    let first = alertmanager
        .until("silences of the node alone", |alerts, _| {
            silenced(alerts) == ours()
        })
        .await;
    assert_eq!(first.len(), 2);
    assert_eq!(
        all(&first, "createdBy"),
        BTreeSet::from(["kube-rebootd on n1 (Node u)"])
    );
    let ids = all(&first, "id");
    // It lasts longer than one silence does.
    let later = alertmanager
        .until("renewals", |alerts, _| {
            assert_eq!(silenced(alerts), ours());
            began.elapsed() > SHORT + SHORT / 2
        })
        .await;
    assert_eq!(all(&later, "id"), ids, "the same ones were renewed");
    // A new phase says so at once.
    silences.want(Some(alertmanager.silence("rebooting")));
    let word = |word: &'static str| move |_: &[Value], all: &[Value]| commented(all, word);
    let rebooting = alertmanager.until("a comment", word("rebooting")).await;
    assert_eq!(all(&rebooting, "id"), ids);
    // The daemon is killed, or the host reboots: the next one finds them.
    drop(silences);
    let silences = Silences::start(&alertmanager.root);
    silences.want(Some(alertmanager.silence("verifying")));
    let verifying = alertmanager.until("a comment", word("verifying")).await;
    assert_eq!(all(&verifying, "id"), ids, "no second one was made");
    silences.want(None);
    let ended = alertmanager
        .until("an end", |alerts, _| silenced(alerts).is_empty())
        .await;
    assert_eq!(all(&ended, "id"), ids);
}

#[tokio::test]
async fn i7_a_daemon_that_is_killed_leaves_silences_that_end_by_themselves() {
    let alertmanager = Alertmanager::start().await;
    let silences = Silences::start(&alertmanager.root);
    silences.want(Some(alertmanager.silence("draining")));
    alertmanager
        .until("silences", |alerts, _| silenced(alerts) == ours())
        .await;
    drop(silences);
    alertmanager
        .until("an end", |alerts, _| silenced(alerts).is_empty())
        .await;
}
