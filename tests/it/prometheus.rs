//! The real Prometheus reads what the daemon shows, the rules do what their tests say, and every expression of rules and
//! dashboard is about metrics that there are.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use kube_rebootd::host::metrics::{Publisher, text};
use kube_rebootd::root::Root;
use kube_rebootd_core::boot::Boot;
use kube_rebootd_core::config::{Config, Listen, Metrics};
use kube_rebootd_core::decide::{Policy, Step};
use kube_rebootd_core::drain::{Blocker, PodRef};
use kube_rebootd_core::effect::Effect;
use kube_rebootd_core::facts::{Drained, Facts};
use kube_rebootd_core::gates::{Closed, Gate};
use kube_rebootd_core::history::Past;
use kube_rebootd_core::metrics::{Counters, Family, Fault, Page};
use kube_rebootd_core::phase::Phase;
use kube_rebootd_core::pod::EvictAnswer;
use kube_rebootd_core::reason::Reason;
use kube_rebootd_core::record::{Backoff, Hold, Record};
use kube_rebootd_core::slot::{Lease, Take, Waiting};
use kube_rebootd_core::times::Times;
use kube_rebootd_core::trigger::{BY_PERSON, Latched, Request};
use serde_json::Value;

/// Far above what Prometheus needs to start and to scrape twice.
const PATIENCE: Duration = Duration::from_secs(90);

fn packaging(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("packaging")
        .join(path)
}

/// Of the directory of the alerts, those whose names end so.
fn alerts(end: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(packaging("alerts")).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let mut paths: Vec<PathBuf> = paths
        .filter(|path| path.to_str().unwrap().ends_with(end))
        .collect();
    paths.sort();
    assert!(paths.len() >= 3, "{paths:?}");
    paths
}

/// A node in the middle of a drain to which everything has happened: every family has a sample that is not 0.
fn busy(counters: &Counters) -> Page {
    let wall = Timestamp::now();
    let ago = |seconds| Timestamp::from_second(wall.as_second() - seconds).unwrap();
    let take = Take::of(
        &Lease::free("default", "default"),
        "kube-rebootd",
        ago(90),
        false,
    );
    let record = Record {
        hold: Some(Hold {
            drain_spent: 30,
            ..Hold::begin(take, Boot::unknown())
        }),
        request: Some(Request {
            since: ago(3600),
            reasons: Vec::new(),
            latched: vec![Latched {
                by: BY_PERSON.to_owned(),
                reason: "kernel".to_owned(),
                at: ago(3600),
                boot: None,
                ended: false,
                kind: kube_rebootd_core::kind::Kind::Reboot,
            }],
        }),
        waiting: Some(Waiting {
            group: "default".to_owned(),
            since: ago(600),
        }),
        backoff: Some(Backoff {
            failures: 2,
            boot: Boot::unknown(),
            until: Duration::ZERO,
            why: String::new(),
        }),
        history: vec![past(ago(86_400))],
        ..Record::default()
    };
    let mut facts = Facts::of_a_start(Boot::unknown(), Record::default());
    facts.verifying = Duration::from_secs(5);
    facts.closed = vec![Closed {
        gate: Gate::Inhibitors,
        why: "".into(),
        opens: None,
    }];
    facts.drain = Drained::Going {
        escalate: Vec::new(),
        deleted: false,
        evict: Vec::new(),
        words: String::new(),
        spent: Duration::from_secs(30),
        confirm: false,
        unseen: false,
        wake: None,
        blocked: vec![Blocker {
            pod: PodRef {
                namespace: "shop".to_owned(),
                name: "cart-0".to_owned(),
                uid: "u".to_owned(),
            },
            why: String::new(),
            budget: None,
        }],
    };
    let step = Step {
        phase: Phase::Draining,
        reason: Reason::BlockedByBudget,
        record,
        effect: Effect::Wait,
        wake: None,
        status: String::new(),
        waits: None,
        would: None,
    };
    let policy = Policy::of(&Config::default(), Some("n1"), "kube-rebootd", "default");
    Page::of(&step, &facts, &policy, counters)
}

fn past(at: Timestamp) -> Past {
    Past {
        at,
        automatic: true,
        reasons: Vec::new(),
        packages: Vec::new(),
        since: Vec::new(),
        later: std::collections::BTreeMap::new(),
        times: Some(Times {
            drain: 30,
            verify: 60,
            ..Times::default()
        }),
        rolled_back: None,
        kind: kube_rebootd_core::kind::Kind::Reboot,
    }
}

/// The same, seen after the boot.
fn verifying(counters: &Counters) -> Page {
    let facts = Facts {
        verifying: Duration::from_secs(5),
        ..Facts::of_a_start(Boot::unknown(), Record::default())
    };
    let step = Step {
        phase: Phase::Verifying,
        reason: Reason::Verifying,
        record: Record::default(),
        effect: Effect::Wait,
        wake: None,
        status: String::new(),
        waits: None,
        would: None,
    };
    let policy = Policy::of(&Config::default(), Some("n2"), "kube-rebootd", "default");
    Page::of(&step, &facts, &policy, counters)
}

fn counted() -> Counters {
    let mut counters = Counters::default();
    counters.evicted(&EvictAnswer::Accepted);
    counters.failed(Fault::Busy);
    counters.reloaded(false);
    counters
}

fn said(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    text(&output.stdout) + &text(&output.stderr)
}

#[test]
fn promtool_has_nothing_to_say_of_the_metrics() {
    for page in [
        busy(&counted()),
        verifying(&Counters::default()),
        Page::stopped(),
    ] {
        let mut promtool = Command::new("promtool")
            .args(["check", "metrics"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("promtool runs");
        let text = text(&page, Timestamp::now());
        let mut stdin = promtool.stdin.take().unwrap();
        stdin.write_all(text.as_bytes()).unwrap();
        drop(stdin);
        let output = promtool.wait_with_output().unwrap();
        assert!(output.status.success(), "{}\n{text}", said(&output));
        assert_eq!(said(&output), "", "{text}");
    }
}

#[test]
fn each_alert_is_silent_and_then_there_as_its_tests_say() {
    for tests in alerts(".test.yaml") {
        let output = Command::new("promtool")
            .args(["test", "rules"])
            .arg(&tests)
            .output()
            .expect("promtool runs");
        assert!(output.status.success(), "{}", said(&output));
    }
    let read = |end: &str| -> String {
        let texts = alerts(end).into_iter();
        texts
            .map(|path| fs::read_to_string(path).unwrap())
            .collect()
    };
    let (rules, tests) = (read(".rules.yaml"), read(".test.yaml"));
    let page = include_str!("../../docs/operating.md");
    let mut names = 0;
    for name in rules
        .lines()
        .filter_map(|line| line.split_once("- alert: "))
    {
        let name = name.1;
        names += 1;
        let silent = format!("alertname: {name}}}");
        assert!(tests.contains(&silent), "{name} is never silent");
        let there = format!("alertname: {name}\n        exp_alerts:\n");
        assert!(tests.contains(&there), "{name} is never there");
        assert!(page.contains(&format!("`{name}`")), "{name}: operating.md");
    }
    assert!(names > 15);
}

/// Every expression of the dashboard, with its variables as one instance and a short time.
fn dashboard() -> Vec<String> {
    let text = fs::read_to_string(packaging("grafana/kube-rebootd.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&text).unwrap();
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let targets = panels.flat_map(|panel| panel["targets"].as_array().unwrap());
    let expressions = targets.map(|target| target["expr"].as_str().unwrap());
    let expressions: Vec<String> = expressions
        .map(|expression| {
            expression
                .replace("$instance", ".*")
                .replace("$__rate_interval", "1m")
        })
        .collect();
    assert!(expressions.len() > 15);
    expressions
}

/// The words of a text that look like names of our metrics.
fn ours(text: &str) -> BTreeSet<&str> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words
        .filter(|word| word.starts_with("kube_rebootd_"))
        .collect()
}

/// A rule about a metric that does not exist is silent for ever.
#[test]
fn rules_and_dashboard_name_metrics_and_values_that_there_are() {
    let mut texts: Vec<String> = alerts(".rules.yaml")
        .into_iter()
        .map(|path| fs::read_to_string(path).unwrap())
        .collect();
    texts.extend(dashboard());
    let known: BTreeSet<&str> = Family::ALL.map(Family::name).into();
    let page = text(&busy(&counted()), Timestamp::now());
    let mut seen = BTreeSet::new();
    for one in &texts {
        seen.extend(ours(one));
        for label in ["reason", "phase", "kind", "gate", "answer", "outcome"] {
            for operator in ["=\"", "=~\"", "!=\""] {
                for rest in one.split(&format!("{label}{operator}")).skip(1) {
                    let values = rest.split('"').next().unwrap();
                    for value in values.split('|') {
                        let shown = format!("{label}=\"{value}\"");
                        assert!(page.contains(&shown), "{shown}: {one}");
                    }
                }
            }
        }
    }
    let unknown: Vec<_> = seen.difference(&known).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}

/// Of the reasons for a person, two have alerts of their own, as one is worse and one may be short.
#[test]
fn every_reason_that_needs_a_person_has_an_alert() {
    let rules = fs::read_to_string(packaging("alerts/kube-rebootd.rules.yaml")).unwrap();
    let (_, list) = rules.split_once("kube_rebootd_reason{reason=~\"").unwrap();
    let (list, _) = list.split_once('"').unwrap();
    let mut named: BTreeSet<&str> = list.split('|').collect();
    for own in ["Unhealthy", "TriggerUnknown"] {
        assert!(rules.contains(&format!("reason=\"{own}\"")), "{own}");
        named.insert(own);
    }
    let wanted = Reason::ALL
        .into_iter()
        .filter(|reason| reason.needs_person());
    assert_eq!(named, wanted.map(Reason::name).collect());
}

fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    listener.local_addr().unwrap().port()
}

fn local(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}

/// Status and body; none: nobody answers.
fn get(port: u16, target: &str) -> Option<(String, String)> {
    let mut stream = TcpStream::connect(local(port)).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    // Of this version, the whole body comes in one piece.
    let request = format!("GET {target} HTTP/1.0\r\nHost: localhost\r\n\r\n");
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head.split_whitespace().nth(1)?;
    Some((status.to_owned(), body.to_owned()))
}

/// Waits for what `look` finds.
fn wait<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(start.elapsed() < PATIENCE, "no {what}");
        thread::sleep(Duration::from_millis(100));
    }
}

/// Our own metrics, served.
struct Served {
    publisher: Publisher,
    place: Metrics,
    port: u16,
}

impl Served {
    fn new(page: impl FnOnce() -> Page) -> Self {
        let port = free_port();
        let place = Metrics {
            listen: Some(Listen::Tcp(local(port))),
            textfile: None,
        };
        let mut publisher = Publisher::new(&Root::host());
        publisher.publish(&place, page);
        wait("metrics", || get(port, "/metrics"));
        Self {
            publisher,
            place,
            port,
        }
    }
}

/// The real one, on loopback, with a directory of its own.
struct Prometheus {
    child: Child,
    port: u16,
    _dir: tempfile::TempDir,
}

impl Prometheus {
    fn scraping(targets: &[u16]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let rules = alerts(".rules.yaml");
        let targets = targets.iter().map(|port| format!("127.0.0.1:{port}"));
        // YAML takes JSON.
        let configuration = serde_json::json!({
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": rules,
            "scrape_configs": [{
                "job_name": "kube-rebootd",
                "static_configs": [{"targets": targets.collect::<Vec<_>>()}],
            }],
        });
        let file = dir.path().join("prometheus.yml");
        fs::write(&file, configuration.to_string()).unwrap();
        let port = free_port();
        let log = fs::File::create(dir.path().join("log")).unwrap();
        let child = Command::new("prometheus")
            .arg(format!("--config.file={}", file.display()))
            .arg(format!(
                "--storage.tsdb.path={}",
                dir.path().join("data").display()
            ))
            .arg(format!("--web.listen-address=127.0.0.1:{port}"))
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .expect("prometheus runs");
        Self {
            child,
            port,
            _dir: dir,
        }
    }

    fn api(&self, target: &str) -> Option<Value> {
        let (_, body) = get(self.port, target)?;
        serde_json::from_str(&body).ok()
    }

    /// The samples of an expression; it panics where Prometheus cannot read it.
    fn query(&self, expression: &str) -> Option<Vec<Value>> {
        let mut encoded = String::new();
        for byte in expression.bytes() {
            write!(encoded, "%{byte:02X}").unwrap();
        }
        let answer = self.api(&format!("/api/v1/query?query={encoded}"))?;
        assert_eq!(answer["status"], "success", "{expression}: {answer}");
        answer["data"]["result"].as_array().cloned()
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn the_real_prometheus_reads_all_that_is_shown_and_evaluates_every_expression() {
    let counters = counted();
    let first = Served::new(|| busy(&counters));
    let second = Served::new(|| verifying(&counters));
    let prometheus = Prometheus::scraping(&[first.port, second.port]);
    let both = |found: &Vec<Value>| found.len() == 2;
    wait("second scrape of both", || {
        prometheus.query("up == 1").filter(both)?;
        let again = "count_over_time(up[1m]) > 2";
        prometheus.query(again).filter(both)
    });
    for family in Family::ALL {
        let found = prometheus.query(family.name()).unwrap();
        assert!(!found.is_empty(), "{}", family.name());
    }
    for expression in dashboard() {
        let found = prometheus.query(&expression).unwrap();
        // Nobody is stopped here.
        assert!(!found.is_empty(), "nothing for {expression}");
    }
    let rules = wait("evaluated rules", || {
        let answer = prometheus.api("/api/v1/rules")?;
        let groups = answer["data"]["groups"].as_array()?.iter();
        let rules: Vec<Value> = groups
            .flat_map(|group| group["rules"].as_array().unwrap().clone())
            .collect();
        let evaluated = |rule: &Value| rule["health"] != "unknown";
        (!rules.is_empty() && rules.iter().all(evaluated)).then_some(rules)
    });
    assert!(rules.len() > 15);
    for rule in rules {
        assert_eq!(rule["health"], "ok", "{rule}");
    }
}

/// Connections that say nothing take nothing from whoever asks: the oldest make room.
#[test]
fn i14_silent_connections_keep_no_scraper_out() {
    let mut served = Served::new(Page::stopped);
    let silent: Vec<TcpStream> = (0..12)
        .map(|_| TcpStream::connect(local(served.port)).unwrap())
        .collect();
    let began = Instant::now();
    served
        .publisher
        .publish(&served.place, || verifying(&Counters::default()));
    assert!(began.elapsed() < Duration::from_secs(1), "nobody waits");
    let (status, body) = get(served.port, "/metrics").expect("an answer");
    assert_eq!(status, "200");
    assert!(
        body.contains("kube_rebootd_phase{phase=\"Verifying\"} 1"),
        "{body}"
    );
    drop(silent);
    assert_eq!(get(served.port, "/").unwrap().0, "404");
    served.publisher.end();
    assert_eq!(get(served.port, "/metrics"), None);
}
