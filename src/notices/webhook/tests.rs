//! What goes over the wire, and each way in which it does not arrive.

use std::os::unix::fs::PermissionsExt as _;

use kube_rebootd_core::config::Address;
use kube_rebootd_core::topic::Template;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use super::*;

const LIMIT: Duration = Duration::from_secs(20);

/// One whole request: until its body is as long as it says.
async fn request(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let head = head.to_ascii_lowercase();
            let length = head
                .lines()
                .find_map(|line| line.strip_prefix("content-length: "));
            let length: usize = length.and_then(|length| length.parse().ok()).unwrap_or(0);
            if body.len() >= length {
                return text;
            }
        }
        if stream.read_buf(&mut bytes).await.expect("a request") == 0 {
            return text;
        }
    }
}

/// Answers one request with this status: its address, and what it was asked.
async fn server(status: &'static str) -> (String, JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let asked = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("a client");
        let asked = request(&mut stream).await;
        let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\nlocation: /other\r\n\r\n");
        stream.write_all(answer.as_bytes()).await.expect("answered");
        asked
    });
    (format!("http://{address}"), asked)
}

/// A directory that stands for the host, whose files are its owner's.
struct Files(tempfile::TempDir);

impl Files {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a directory"))
    }

    fn write(&self, name: &str, text: &str, mode: u32) {
        let path = self.0.path().join(name);
        std::fs::write(&path, text).expect("written");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).expect("set");
    }

    async fn post(
        &self,
        to: Address,
        token: Option<&str>,
        limit: Duration,
    ) -> Result<(), AskError> {
        let webhook = Webhook {
            to,
            token_file: token.map(Into::into),
            template: Template::Json,
        };
        let root = Root::at(self.0.path());
        let mut building = Building::default();
        post(
            &root,
            &mut building,
            &webhook,
            &json!({"event": "draining"}),
            limit,
        )
        .await
    }
}

#[tokio::test]
async fn a_notice_is_posted_to_the_whole_url() {
    let (url, asked) = server("204 No Content").await;
    let files = Files::new();
    let to = Address::Url(format!("{url}/hook/a?b=c"));
    files.post(to, None, LIMIT).await.expect("taken");
    let asked = asked.await.expect("asked");
    assert!(
        asked.starts_with("POST /hook/a?b=c HTTP/1.1\r\n"),
        "{asked}"
    );
    assert!(
        asked.ends_with("\r\n\r\n{\"event\":\"draining\"}"),
        "{asked}"
    );
    let head = asked.to_ascii_lowercase();
    assert!(
        head.contains("\r\ncontent-type: application/json\r\n"),
        "{asked}"
    );
    assert!(!head.contains("authorization"), "{asked}");
}

#[tokio::test]
async fn i14_url_and_token_come_from_files_that_only_root_can_change() {
    let (url, asked) = server("200 OK").await;
    let files = Files::new();
    files.write("url", &format!("{url}/secret\nmore\n"), 0o600);
    files.write("token", "abc\n", 0o600);
    files.write("others", "abc\n", 0o622);
    let to = || Address::File("/url".into());
    let refused = files.post(to(), Some("/others"), LIMIT).await;
    assert!(
        matches!(refused, Err(AskError::Changeable { .. })),
        "{refused:?}"
    );
    let missing = files.post(to(), Some("/none"), LIMIT).await;
    assert!(matches!(missing, Err(AskError::Read(..))), "{missing:?}");
    files
        .post(to(), Some("/token"), LIMIT)
        .await
        .expect("taken");
    let asked = asked.await.expect("asked").to_ascii_lowercase();
    assert!(
        asked.starts_with("post /secret http"),
        "only the last one was sent: {asked}"
    );
    assert!(
        asked.contains("\r\nauthorization: bearer abc\r\n"),
        "{asked}"
    );
}

/// Root may have written the secret itself where the name of the file with it belongs.
#[tokio::test]
async fn i14_a_file_that_is_not_used_is_said_by_its_key_alone() {
    let files = Files::new();
    files.write("secret-others", "abc\n", 0o622);
    let long = format!("/secret{}", "x".repeat(300));
    let url = Address::Url("http://127.0.0.1:9/".to_owned());
    let refusals = [
        ("/services/secret", "cannot be read"),
        ("/secret-others", "could change it"),
        (long.as_str(), "cannot see"),
    ];
    for (path, what) in refusals {
        for (to, token, key) in [
            (Address::File(path.into()), None, "notify.webhook_file"),
            (url.clone(), Some(path), "notify.token_file"),
        ] {
            let why = files
                .post(to, token, LIMIT)
                .await
                .expect_err("no such file");
            let (why, debug) = (why.to_string(), format!("{why:?}"));
            assert!(why.contains(what) && why.contains(key), "{why}");
            assert!(!(why + &debug).contains("secret"), "{debug}");
        }
    }
}

#[tokio::test]
async fn what_is_no_yes_was_not_taken_and_the_url_is_not_said() {
    for (status, code) in [("500 No", 500), ("404 No", 404), ("302 There", 302)] {
        let (url, _asked) = server(status).await;
        let answer = Files::new().post(Address::Url(url), None, LIMIT).await;
        assert!(
            matches!(answer, Err(AskError::Answer(it)) if it == code),
            "{answer:?}"
        );
    }
    // Nobody listens where one did a moment ago.
    let (url, asked) = server("200 OK").await;
    asked.abort();
    assert!(asked.await.is_err());
    let refused = Files::new()
        .post(Address::Url(format!("{url}/secret")), None, LIMIT)
        .await;
    let Err(AskError::Client(why)) = refused else {
        panic!("{refused:?}")
    };
    assert!(!why.contains("secret"), "{why}");
    let files = Files::new();
    files.write("url", "no url\n", 0o600);
    let odd = files.post(Address::File("/url".into()), None, LIMIT).await;
    assert!(matches!(odd, Err(AskError::Url)), "{odd:?}");
}

#[tokio::test]
async fn i7_who_does_not_answer_is_not_waited_for() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let to = Address::Url(format!("http://{address}"));
    let limit = Duration::from_millis(300);
    let late = Files::new().post(to, None, limit).await;
    assert!(matches!(late, Err(AskError::Late(_))), "{late:?}");
}
