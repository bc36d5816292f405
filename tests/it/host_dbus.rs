//! What the daemon shows on D-Bus, on a private bus, with busctl and gdbus as clients.

use std::os::unix::net::UnixDatagram;
use std::process::Stdio;
use std::time::{Duration, Instant};

use kube_rebootd::host::dbus::{self, Publisher};
use kube_rebootd::host::journal::Control;
use kube_rebootd::host::view::{Blocked, Holder, View};
use kube_rebootd::host::{Bus, dbus::NAME};
use kube_rebootd_core::phase::Phase;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

use crate::cli_host::{CliHost, terminate};
use crate::fake_bus::FakeHostBus;

mod orders;
mod rules;
mod trouble;

/// Far above what an answer needs.
const PATIENCE: Duration = Duration::from_secs(30);
const NODE: (&str, &str) = ("/org/kuberebootd1", "org.kuberebootd1.Node");
const LOG: (&str, &str) = (
    "/org/freedesktop/LogControl1",
    "org.freedesktop.LogControl1",
);
const XML: &str = include_str!("../../packaging/dbus/org.kuberebootd1.Node.xml");

/// Somebody on a bus.
struct Client {
    address: String,
    nobody: bool,
}

impl Client {
    fn root(address: String) -> Self {
        let nobody = false;
        Self { address, nobody }
    }

    fn command(&self, program: &str) -> Command {
        if !self.nobody {
            return Command::new(program);
        }
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups", program]);
        command
    }

    /// What busctl prints, or complains of.
    async fn busctl(&self, words: &[&str]) -> Result<String, String> {
        let mut busctl = self.command("busctl");
        busctl
            .arg(format!("--address={}", self.address))
            .args(words);
        let said = busctl.output().await.expect("busctl runs");
        let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
        if said.status.success() {
            Ok(text(said.stdout))
        } else {
            Err(text(said.stderr))
        }
    }

    async fn get(&self, (path, interface): (&str, &str), name: &str) -> Result<Value, String> {
        let words = ["--json=short", "get-property", NAME, path, interface, name];
        let said = self.busctl(&words).await?;
        let value: Value = serde_json::from_str(&said).expect("JSON");
        Ok(value["data"].clone())
    }

    async fn set(
        &self,
        (path, interface): (&str, &str),
        name: &str,
        value: &str,
    ) -> Result<String, String> {
        let words = ["set-property", NAME, path, interface, name, "s", value];
        self.busctl(&words).await
    }

    /// Every property of the Node.
    async fn all(&self) -> Result<Value, String> {
        let (path, interface) = NODE;
        let standard = "org.freedesktop.DBus.Properties";
        let words = [
            "--json=short",
            "call",
            NAME,
            path,
            standard,
            "GetAll",
            "s",
            interface,
        ];
        let said = self.busctl(&words).await?;
        let answer: Value = serde_json::from_str(&said).expect("JSON");
        Ok(plain(&answer["data"][0]))
    }

    async fn until(&self, what: &str, name: &str, value: impl Into<Value>) {
        let (begin, value) = (Instant::now(), value.into());
        loop {
            let now = self.get(NODE, name).await;
            if now.as_ref() == Ok(&value) {
                return;
            }
            assert!(begin.elapsed() < PATIENCE, "{what}: {now:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// Names and values, without their types.
fn plain(properties: &Value) -> Value {
    let properties = properties.as_object().expect("properties").iter();
    let plain = properties.map(|(name, value)| (name.clone(), value["data"].clone()));
    Value::Object(plain.collect())
}

fn view(phase: Phase) -> View {
    View {
        pid: 7,
        version: "1.2.3".to_owned(),
        kind: Some(kube_rebootd_core::kind::Kind::SoftReboot),
        node: Some("n1".to_owned()),
        group: "default".to_owned(),
        phase: Some(phase),
        kept_by: vec!["kube-rebootd drain".to_owned()],
        waits: vec!["default is held by n2".to_owned()],
        holders: vec![Holder {
            slot: "default".to_owned(),
            node: "n2".to_owned(),
        }],
        blockers: vec![Blocked {
            pod: "ns/web".to_owned(),
            why: "its budget allows none".to_owned(),
            budget: Some("web".to_owned()),
        }],
        config_error: vec!["/etc/kube-rebootd/config.toml:2: mode: is a number".to_owned()],
        config_places: vec!["/etc/kube-rebootd/config.toml:2: mode".to_owned()],
        ..View::default()
    }
}

/// Serves in this process; from the first view on.
fn served(bus: &FakeHostBus) -> (Publisher, Client) {
    let (publisher, _) = dbus::serve(Bus::at(bus.address()), Control::unused());
    publisher.publish(&view(Phase::Queued), "queued: default is held by n2");
    (publisher, Client::root(bus.address()))
}

/// The signals of the Node, as busctl sees them.
struct Signals {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Signals {
    async fn of(client: &Client) -> Self {
        let rule =
            "type='signal',interface='org.freedesktop.DBus.Properties',path='/org/kuberebootd1'";
        let mut busctl = client.command("busctl");
        busctl
            .arg(format!("--address={}", client.address))
            .args(["--json=short", "monitor", "--match", rule])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        let mut child = busctl.spawn().expect("busctl runs");
        let stderr = child.stderr.take().expect("piped");
        let mut said = BufReader::new(stderr).lines();
        // "Monitoring bus message stream."
        said.next_line()
            .await
            .expect("a line")
            .expect("it monitors");
        let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        Self { child, lines }
    }

    /// What the next one changed.
    async fn next(&mut self) -> Value {
        let line = tokio::time::timeout(PATIENCE, self.lines.next_line()).await;
        let line = line.expect("a signal").expect("a line").expect("not ended");
        let signal: Value = serde_json::from_str(&line).expect("JSON");
        assert_eq!(signal["member"], "PropertiesChanged", "{signal}");
        let data = &signal["payload"]["data"];
        assert_eq!(data[0], NODE.1);
        assert_eq!(data[2], json!([]), "{signal}");
        plain(&data[1])
    }
}

/// The properties of the daemon on this host, after a look that `status --json` shows the same.
pub(crate) async fn same_as_status(host: &CliHost, pid: u32) -> Value {
    host.bus.knobs().pid = pid;
    let client = Client::root(host.bus.address());
    let begin = Instant::now();
    let (on_bus, json) = loop {
        let before = client.all().await;
        let said = host.run(&["status", "--json"]).await;
        // Nothing changed while one was asked after the other.
        match before {
            Ok(before) if client.all().await.as_ref() == Ok(&before) => break (before, said.out),
            other => assert!(begin.elapsed() < PATIENCE, "{other:?}"),
        }
    };
    let json: Value = serde_json::from_str(&json).expect("JSON");
    for (property, key) in [
        ("Version", "version"),
        ("Group", "group"),
        ("Phase", "phase"),
        ("Waits", "waits"),
    ] {
        assert_eq!(on_bus[property], json[key], "{on_bus} {json}");
    }
    let rows = |key: &str, columns: &[&str]| {
        let rows = json[key].as_array().expect("rows").iter();
        let word = |value: &Value| json!(value.as_str().unwrap_or_default());
        let row = |row: &Value| columns.iter().map(|name| word(&row[*name])).collect();
        rows.map(row).collect::<Vec<Value>>()
    };
    assert_eq!(on_bus["Holders"], json!(rows("holders", &["slot", "node"])));
    assert_eq!(
        on_bus["Blockers"],
        json!(rows("blockers", &["pod", "why", "budget"]))
    );
    // Without the words, which may repeat what only root may read.
    let places = on_bus["ConfigError"].as_array().expect("places").iter();
    let lines = json["config_error"].as_array().expect("lines");
    assert_eq!(places.len(), lines.len());
    for (place, line) in places.zip(lines) {
        let (place, line) = (place.as_str(), line.as_str().expect("a line"));
        assert!(place.is_some_and(|place| line.starts_with(place) && line != place));
    }
    assert_eq!(on_bus["Node"], json["node"].as_str().unwrap_or_default());
    assert_eq!(on_bus["Version"], env!("CARGO_PKG_VERSION"));
    on_bus
}

/// With a cluster: `run_queue`.
#[tokio::test]
async fn what_status_shows_is_on_the_bus() {
    let host = CliHost::start().await;
    let config = "[coordination]\ngroup = \"web\"\n";
    host.write("/etc/kube-rebootd/config.toml", config);
    let socket = host.root().path("/run/notify");
    let notify = UnixDatagram::bind(&socket).expect("a socket");
    let daemon = host.daemon_with(|command| {
        command.env("NOTIFY_SOCKET", &socket);
    });
    let client = Client::root(host.bus.address());
    client.until("the name", "Group", "web").await;
    let on_bus = same_as_status(&host, daemon.id().expect("a process")).await;
    let mut told = String::new();
    let mut buffer = [0; 4096];
    notify.set_nonblocking(true).expect("not blocking");
    while let Ok(size) = notify.recv(&mut buffer) {
        let text = String::from_utf8_lossy(&buffer[..size]).into_owned();
        let status = text.lines().find_map(|line| line.strip_prefix("STATUS="));
        told = status.map_or(told, str::to_owned);
    }
    assert!(!told.is_empty());
    assert_eq!(on_bus["Status"], told);
    terminate(daemon).await;
}

#[tokio::test]
async fn every_property_can_be_read_and_what_is_installed_is_what_is_told() {
    let bus = FakeHostBus::start().await;
    let (_publisher, client) = served(&bus);
    client.until("the name", "Phase", "queued").await;
    let all = client.all().await.expect("properties");
    let expected = json!({
        "Version": "1.2.3", "Node": "n1", "Group": "default", "Phase": "queued",
        "Kind": "soft-reboot", "Status": "queued: default is held by n2", "Waits": ["default is held by n2"],
        "KeptBy": ["kube-rebootd drain"],
        "Holders": [["default", "n2"]], "Blockers": [["ns/web", "its budget allows none", "web"]],
        "ConfigError": ["/etc/kube-rebootd/config.toml:2: mode"],
    });
    assert_eq!(all, expected);
    for (name, value) in expected.as_object().expect("an object") {
        assert_eq!(&client.get(NODE, name).await.expect("a value"), value);
    }
    // Both understand what is told of it, from the root on.
    let tree = client.busctl(&["--list", "tree", NAME]).await;
    let tree = tree.expect("a tree");
    assert!(tree.contains(NODE.0) && tree.contains(LOG.0), "{tree}");
    for (path, interface) in [NODE, LOG] {
        let words = ["introspect", NAME, path, interface];
        let rows = client.busctl(&words).await.expect("it is told");
        let properties = rows.lines().filter(|row| row.contains(" property "));
        assert_eq!(
            properties.count(),
            if path == NODE.0 { 11 } else { 3 },
            "{rows}"
        );
    }
    let words = ["introspect", "--xml-interface", NAME, NODE.0];
    let told = client.busctl(&words).await.expect("XML");
    let inside = |xml: &str| {
        let (_, rest) = xml
            .split_once("<interface name=\"org.kuberebootd1.Node\">")
            .expect("it");
        rest.split("</interface>")
            .next()
            .expect("its end")
            .to_owned()
    };
    assert_eq!(inside(&told), inside(XML));
    let gdbus = client
        .command("gdbus")
        .args(["introspect", "--address", &client.address, "--recurse"])
        .args(["--dest", NAME, "--object-path", "/"])
        .output()
        .await
        .expect("gdbus runs (package libglib2.0-bin)");
    let text = String::from_utf8(gdbus.stdout).expect("UTF-8");
    for line in [
        "readonly s Phase = 'queued';",
        "readonly a(ss) Holders = [('default', 'n2')];",
        "readwrite s LogLevel = 'info';",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
}

#[tokio::test]
async fn each_change_is_told_once_and_only_what_changed() {
    let bus = FakeHostBus::start().await;
    let (publisher, client) = served(&bus);
    client.until("the name", "Phase", "queued").await;
    let mut signals = Signals::of(&client).await;
    publisher.publish(&view(Phase::Claiming), "claiming default");
    assert_eq!(
        signals.next().await,
        json!({"Phase": "claiming", "Status": "claiming default"})
    );
    publisher.publish(&view(Phase::Claiming), "claiming default");
    let mut other = view(Phase::Claiming);
    other.pid = 8;
    publisher.publish(&other, "claiming default");
    other.blockers.clear();
    publisher.publish(&other, "claiming default");
    assert_eq!(signals.next().await, json!({"Blockers": []}));
    other.node = None;
    publisher.publish(&other, "claiming default");
    assert_eq!(signals.next().await, json!({"Node": ""}));
    signals.child.kill().await.expect("ended");
}

async fn level_of(client: &Client) -> Result<Value, String> {
    client.get(LOG, "LogLevel").await
}

#[tokio::test]
async fn the_level_filters_what_is_logged() {
    let host = CliHost::start().await;
    let group = |name: &str| {
        let text = format!("[coordination]\ngroup = \"{name}\"\n");
        host.write("/etc/kube-rebootd/config.toml", &text);
    };
    group("one");
    let daemon = host.daemon();
    let client = Client::root(host.bus.address());
    client.until("the start", "Group", "one").await;
    assert_eq!(client.get(LOG, "LogTarget").await, Ok(json!("console")));
    let pid = i32::try_from(daemon.id().expect("a process")).expect("a number");
    let reload = || {
        let pid = nix::unistd::Pid::from_raw(pid);
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGHUP).expect("told");
    };
    let reloads = || host.log().matches("configuration reloaded").count();
    for (level, name, expected) in [
        ("info", "two", 1),
        ("warning", "three", 1),
        ("info", "four", 2),
    ] {
        client.set(LOG, "LogLevel", level).await.expect("set");
        assert_eq!(level_of(&client).await, Ok(json!(level)));
        group(name);
        reload();
        client.until("the reload", "Group", name).await;
        let begin = Instant::now();
        while reloads() < expected && begin.elapsed() < PATIENCE {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(reloads(), expected, "{level}: {}", host.log());
    }
    terminate(daemon).await;
}
