//! The real Prometheus and Alertmanager say what speaks against a reboot; and each way in which they do not (I7, I8, I14).

use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use kube_rebootd::alerts::Asker;
use kube_rebootd::root::Root;
use kube_rebootd_core::config;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

/// Far above what either needs to start, also on a busy machine.
const PATIENCE: Duration = Duration::from_secs(180);

/// A program that ends with the test.
struct Program(Child);

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    listener.local_addr().unwrap().port()
}

fn start(dir: &Path, program: &str, arguments: &[String]) -> Program {
    let log = fs::File::create(dir.join(format!("{program}.log"))).unwrap();
    let mut command = Command::new(program);
    let child = command
        .args(arguments)
        .current_dir(dir)
        .stdin(Stdio::null())
        .stdout(log.try_clone().unwrap())
        .stderr(log)
        .spawn();
    Program(child.expect("it runs"))
}

/// With the alerts Fires, Waits (for ever pending) and `KubeRebootdOwn`.
fn prometheus(dir: &Path, alertmanager: u16, more: &[String]) -> (Program, u16) {
    let manager = json!({"static_configs": [{"targets": [format!("127.0.0.1:{alertmanager}")]}]});
    prometheus_with(dir, &manager, more)
}

fn prometheus_with(dir: &Path, manager: &Value, more: &[String]) -> (Program, u16) {
    let rules = json!({"groups": [{"name": "g", "interval": "1s", "rules": [
        {"alert": "Fires", "expr": "vector(1)", "labels": {"severity": "critical"}},
        {"alert": "Waits", "expr": "vector(1)", "for": "1h"},
        {"alert": "KubeRebootdOwn", "expr": "vector(1)"},
    ]}]});
    fs::write(dir.join("rules.yml"), rules.to_string()).unwrap();
    let config = json!({
        "global": {"evaluation_interval": "1s", "external_labels": {"cluster": "prod"}},
        "rule_files": ["rules.yml"],
        "alerting": {"alertmanagers": [manager]},
    });
    fs::write(dir.join("prometheus.yml"), config.to_string()).unwrap();
    let port = free_port();
    let mut arguments = vec![
        "--config.file=prometheus.yml".to_owned(),
        "--storage.tsdb.path=data".to_owned(),
        // What it tells an Alertmanager that does not listen yet it tells again a minute later, by default.
        "--rules.alert.resend-delay=1s".to_owned(),
        format!("--web.listen-address=127.0.0.1:{port}"),
    ];
    arguments.extend_from_slice(more);
    (start(dir, "prometheus", &arguments), port)
}

/// One that tells nobody.
fn alertmanager(dir: &Path, more: &[String]) -> (Program, u16) {
    let config = json!({"route": {"receiver": "none"}, "receivers": [{"name": "none"}]});
    fs::write(dir.join("alertmanager.yml"), config.to_string()).unwrap();
    let port = free_port();
    let mut arguments = vec![
        "--config.file=alertmanager.yml".to_owned(),
        "--storage.path=silences".to_owned(),
        format!("--web.listen-address=127.0.0.1:{port}"),
        "--cluster.listen-address=".to_owned(),
    ];
    arguments.extend_from_slice(more);
    (start(dir, "prometheus-alertmanager", &arguments), port)
}

fn asker(root: &Path, keys: &str) -> Asker {
    let text = format!("[[gates.prometheus]]\ntimeout = \"3s\"\n{keys}\n");
    let config = config::parse(Path::new("c"), &text).unwrap().config;
    Asker::new(&Root::at(root), &config.gates.prometheus[0])
}

async fn look(root: &Path, keys: &str) -> Result<Option<String>, String> {
    asker(root, keys).look().await
}

async fn until(root: &Path, keys: &str, wanted: Option<&str>) {
    let start = Instant::now();
    loop {
        let said = look(root, keys).await;
        if said.as_ref().is_ok_and(|said| said.as_deref() == wanted) {
            return;
        }
        assert!(start.elapsed() < PATIENCE, "{wanted:?}: {said:?}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

#[tokio::test]
async fn i8_the_real_prometheus_and_alertmanager_are_understood() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path();
    let (_alertmanager, manager) = alertmanager(path, &[]);
    let (server, port) = prometheus(path, manager, &[]);
    let url = format!("url = \"http://127.0.0.1:{port}\"");
    let fires = Some("active alerts: Fires");
    until(path, &url, fires).await;
    for (keys, wanted) in [
        (
            "pending = true",
            Some("active alerts: Fires, Waits (pending)"),
        ),
        ("ignore = \"^Fires$\"", None),
        ("alerts = \"KubeRebootd\"", None),
        ("matchers = [\"severity=critical\"]", fires),
        ("matchers = [\"severity=warning\"]", None),
        ("query = \"vector(0) > 1\"", None),
        ("query = \"vector(0)\"", Some("the query returns {} 0")),
        ("query = \"scalar(vector(0))\"", None),
        ("query = \"1 > bool 0\"", Some("the query is 1")),
        ("query = \"absent(ALERTS{alertname='Fires'})\"", None),
    ] {
        let said = look(path, &format!("{url}\n{keys}")).await;
        assert_eq!(said, Ok(wanted.map(str::to_owned)), "{keys}");
    }
    let wrong = look(path, &format!("{url}\nquery = \"((\""))
        .await
        .unwrap_err();
    assert!(wrong.contains("gates.prometheus.query"), "{wrong}");
    let matrix = look(path, &format!("{url}\nquery = \"ALERTS[1m]\"")).await;
    assert!(matrix.unwrap_err().contains("another result"));
    // Silenced by the external label, which Prometheus itself does not show.
    let with = format!("{url}\nalertmanager = \"http://127.0.0.1:{manager}\"");
    until(path, &with, fires).await;
    let silence = json!({
        "matchers": [{"name": "cluster", "value": "prod", "isRegex": false, "isEqual": true}],
        "startsAt": "2020-01-01T00:00:00Z", "endsAt": "2099-01-01T00:00:00Z",
        "createdBy": "test", "comment": "test",
    })
    .to_string();
    let mut stream = tokio::net::TcpStream::connect((Ipv4Addr::LOCALHOST, manager))
        .await
        .unwrap();
    let length = silence.len();
    let request = format!(
        "POST /api/v2/silences HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{silence}"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    until(path, &with, None).await;
    let away = look(
        path,
        &format!("{url}\nalertmanager = \"http://127.0.0.1:1\""),
    )
    .await;
    assert!(
        away.unwrap()
            .unwrap()
            .contains("gates.prometheus.alertmanager cannot be asked")
    );
    drop(server);
    assert!(look(path, &url).await.is_err(), "away");
}

#[tokio::test]
async fn i8_who_answers_garbage_or_nothing_is_not_quiet() {
    let dir = tempfile::tempdir().unwrap();
    for answer in [Some("<html>"), Some("{\"status\":\"success\"}"), None] {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!(
            "url = \"http://{}\"\ntimeout = \"1s\"",
            listener.local_addr().unwrap()
        );
        let url = url.replace("\ntimeout = \"1s\"", "");
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut bytes = [0; 4096];
            let _ = stream.read(&mut bytes).await;
            match answer {
                Some(body) => {
                    let length = body.len();
                    let text = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{body}");
                    let _ = stream.write_all(text.as_bytes()).await;
                }
                None => std::future::pending().await,
            }
        });
        let said = look(dir.path(), &url).await.unwrap_err();
        let wanted = if answer.is_some() {
            "none of Prometheus' API v1"
        } else {
            "no answer within 3 s"
        };
        assert!(said.contains(wanted), "{said}");
    }
}

/// Of the password "test", as a file of `--web.config.file` has it.
const HASH: &str = "$2b$12$hNf2lSsxfm0.i4a.1kVpSOVyBCfIB51VRjgBUyv6kdnyTlgWj81Ay";

/// A certificate of its own, for 127.0.0.1.
fn certificate(dir: &Path) {
    let config = "[req]\ndistinguished_name = dn\nx509_extensions = ext\nprompt = no\n[dn]\nCN = prometheus\n\
                  [ext]\nsubjectAltName = IP:127.0.0.1\nbasicConstraints = critical,CA:FALSE\n";
    fs::write(dir.join("openssl.cnf"), config).unwrap();
    let words = "req -x509 -config openssl.cnf -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes \
                 -keyout key.pem -out ca.pem -days 2";
    let made = Command::new("openssl")
        .args(words.split_whitespace())
        .current_dir(dir)
        .output()
        .expect("it runs");
    assert!(made.status.success(), "{made:?}");
}

#[tokio::test]
async fn the_real_prometheus_and_alertmanager_are_asked_by_tls_with_a_password() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path();
    certificate(path);
    fs::write(path.join("password"), "test\n").unwrap();
    fs::write(path.join("wrong"), "another\n").unwrap();
    let web = json!({
        "tls_server_config": {"cert_file": "ca.pem", "key_file": "key.pem"},
        "basic_auth_users": {"n1": HASH},
    });
    fs::write(path.join("web.yml"), web.to_string()).unwrap();
    let tls = ["--web.config.file=web.yml".to_owned()];
    let (_alertmanager, manager) = alertmanager(path, &tls);
    let told = json!({
        "scheme": "https",
        "tls_config": {"ca_file": "ca.pem"},
        "basic_auth": {"username": "n1", "password": "test"},
        "static_configs": [{"targets": [format!("127.0.0.1:{manager}")]}],
    });
    let (_server, port) = prometheus_with(path, &told, &tls);
    let url = format!("url = \"https://127.0.0.1:{port}\"");
    let user = |file: &str| format!("username = \"n1\"\npassword_file = \"/{file}\"");
    let believed = format!("{url}\nca = \"/ca.pem\"");
    let all = format!("{believed}\n{}", user("password"));
    until(path, &all, Some("active alerts: Fires")).await;
    for (keys, wanted) in [
        (believed.clone(), "it answered 401"),
        (format!("{believed}\n{}", user("wrong")), "it answered 401"),
        (format!("{url}\n{}", user("password")), "certificate"),
        (
            format!("{believed}\n{}", user("none")),
            "the file of gates.prometheus.password_file cannot be read",
        ),
    ] {
        let why = look(path, &keys).await.unwrap_err();
        assert!(why.contains(wanted), "{keys}: {why}");
    }
    // The same certificates and the same password for both.
    let with = format!("{all}\nalertmanager = \"https://127.0.0.1:{manager}\"");
    until(path, &with, Some("active alerts: Fires")).await;
    let web = json!({
        "tls_config": {"ca_file": "ca.pem"},
        "basic_auth": {"username": "n1", "password": "test"},
    });
    fs::write(path.join("amtool.yml"), web.to_string()).unwrap();
    let words =
        "silence add --author=test --comment=test --http.config.file=amtool.yml cluster=prod";
    let silenced = Command::new("amtool")
        .args(words.split_whitespace())
        .arg(format!("--alertmanager.url=https://127.0.0.1:{manager}"))
        .current_dir(path)
        .output()
        .expect("it runs");
    assert!(silenced.status.success(), "{silenced:?}");
    until(path, &with, None).await;
}

/// A proxy before the server at `behind`, by TLS, which lets nobody through but who has the token "secret": Prometheus itself knows
/// no tokens.
fn proxy(dir: &Path, behind: u16) -> (Program, u16) {
    let port = free_port();
    let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
    let temporary = temporary.map(|kind| format!("{kind}_temp_path {kind};"));
    let config = format!(
        "daemon off;\nuser root;\npid nginx.pid;\nerror_log stderr;\nevents {{}}\n\
         http {{\naccess_log off;\n{}\nserver {{\nlisten 127.0.0.1:{port} ssl;\n\
         ssl_certificate {dir}/ca.pem;\nssl_certificate_key {dir}/key.pem;\n\
         location / {{\nif ($http_authorization != \"Bearer secret\") {{ return 401; }}\n\
         proxy_pass http://127.0.0.1:{behind};\n}}\n}}\n}}\n",
        temporary.join("\n"),
        dir = dir.display(),
    );
    fs::write(dir.join("nginx.conf"), config).unwrap();
    let place = dir.display().to_string();
    let words = ["-p", &place, "-c", "nginx.conf", "-e", "stderr"];
    let arguments = words.map(str::to_owned);
    // It knows its configuration by the directory that `-p` names.
    (start(dir, "nginx", &arguments), port)
}

#[tokio::test]
async fn the_real_prometheus_is_asked_through_a_proxy_with_a_token() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path();
    certificate(path);
    fs::write(path.join("token"), "secret\n").unwrap();
    fs::write(path.join("wrong"), "another\n").unwrap();
    let (server, behind) = prometheus(path, free_port(), &[]);
    let (_proxy, port) = proxy(path, behind);
    let url = format!("url = \"https://127.0.0.1:{port}\"\nca = \"/ca.pem\"");
    let token = |file: &str| format!("{url}\ntoken_file = \"/{file}\"");
    until(path, &token("token"), Some("active alerts: Fires")).await;
    // A token that is replaced counts from the next question on.
    let asker = &mut asker(path, &token("token"));
    assert_eq!(
        asker.look().await.unwrap().as_deref(),
        Some("active alerts: Fires")
    );
    fs::write(path.join("token"), "old\n").unwrap();
    assert_eq!(asker.look().await.unwrap_err(), "it answered 401");
    fs::write(path.join("token"), "secret\n").unwrap();
    assert_eq!(
        asker.look().await.unwrap().as_deref(),
        Some("active alerts: Fires")
    );
    for (keys, wanted) in [
        (url.clone(), "it answered 401"),
        (token("wrong"), "it answered 401"),
        (
            token("none"),
            "the file of gates.prometheus.token_file cannot be read",
        ),
    ] {
        let why = look(path, &keys).await.unwrap_err();
        assert!(why.contains(wanted), "{keys}: {why}");
        assert!(!why.contains("secret") && !why.contains("another"), "{why}");
    }
    // The proxy answers, and what is behind it does not.
    drop(server);
    let why = look(path, &token("token")).await.unwrap_err();
    assert!(why.contains("it answered 502"), "{why}");
}
