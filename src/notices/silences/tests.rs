//! What becomes of a silence where Alertmanager refuses, is silent, or is something else; the real one is in tests/it.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Arc, Mutex};

use kube_rebootd_core::config;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::*;

enum Answer {
    /// Status and body.
    Says(u16, String),
    Silence,
}

/// Answers one request after the other from a list, and keeps what was asked.
struct Fake {
    url: String,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Fake {
    async fn new(answers: Vec<Answer>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let asked = Arc::<Mutex<Vec<String>>>::default();
        let log = Arc::clone(&asked);
        tokio::spawn(async move {
            let mut answers = VecDeque::from(answers);
            let mut silent = Vec::new();
            loop {
                let (mut stream, _) = listener.accept().await.expect("a client");
                let asked = request(&mut stream).await;
                log.lock().expect("a lock").push(asked);
                let Answer::Says(status, body) = answers.pop_front().expect("an answer") else {
                    silent.push(stream);
                    continue;
                };
                let length = body.len();
                let answer = format!(
                    "HTTP/1.1 {status} x\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
                );
                // It may have heard enough.
                let _ = stream.write_all(answer.as_bytes()).await;
            }
        });
        Self { url, asked }
    }

    fn silence(&self, more: &str) -> Silence {
        let text = format!(
            "[notify]\nalertmanager = \"{}/prefix/\"\n{more}\n",
            self.url
        );
        let notify = config::parse(Path::new("c"), &text).expect("valid");
        Silence {
            at: notify.config.notify.alertmanager.expect("configured"),
            node: "n1".to_owned(),
            uid: "u".to_owned(),
            comment: "c".to_owned(),
        }
    }

    /// The first line of each request, without the version.
    fn asked(&self) -> Vec<String> {
        let asked = self.asked.lock().expect("a lock");
        let lines = asked.iter().filter_map(|text| text.lines().next());
        lines
            .map(|line| line.trim_end_matches(" HTTP/1.1").to_owned())
            .collect()
    }
}

/// A request with its body.
async fn request(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let head = head.to_ascii_lowercase();
            let mut lines = head.lines();
            let length = lines.find_map(|line| line.strip_prefix("content-length: "));
            if body.len() >= length.map_or(0, |length| length.parse().expect("a number")) {
                return text;
            }
        }
        if stream.read_buf(&mut bytes).await.expect("a request") == 0 {
            return text;
        }
    }
}

fn keeper(dir: &Path) -> Keeper {
    Keeper {
        root: Root::at(dir),
        building: Building::default(),
        kept: None,
    }
}

fn ok(body: &Value) -> Answer {
    Answer::Says(200, body.to_string())
}

fn refused(status: u16) -> Answer {
    Answer::Says(status, "{}".to_owned())
}

/// As Alertmanager shows it.
fn shown(silence: &Silence, id: &str) -> Value {
    json!({
        "id": id, "createdBy": silence.author(), "startsAt": "2026-11-18T03:00:00Z",
        "status": {"state": "active"}, "matchers": silence.at.silences[0].of("n1", "h1"),
    })
}

const LIST: &str = "GET /prefix/api/v2/silences?filter=%6E%6F%64%65%3D%22%6E%31%22";
const POST: &str = "POST /prefix/api/v2/silences";

#[tokio::test]
async fn i7_what_is_refused_or_has_no_answer_is_an_error_and_the_next_try_makes_it() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut keeper = keeper(dir.path());
    let made = ok(&json!({"silenceID": "a-1"}));
    let fake = Fake::new(vec![
        refused(503),
        ok(&json!({"not": "a list"})),
        ok(&json!([])),
        refused(400),
        Answer::Silence,
        ok(&json!([])),
        made,
        refused(404),
        refused(500),
        refused(302),
    ])
    .await;
    let silence = fake.silence("timeout = \"1s\"");
    let why = keeper.follow(Some(&silence)).await.expect_err("busy");
    assert!(matches!(why, NotSilenced::Ask(AskError::Answer(503))));
    let why = keeper.follow(Some(&silence)).await.expect_err("odd");
    assert!(matches!(why, NotSilenced::Answer(_)));
    let why = keeper.follow(Some(&silence)).await.expect_err("refused");
    assert!(matches!(why, NotSilenced::Refused));
    let why = keeper.follow(Some(&silence)).await.expect_err("silent");
    assert!(matches!(why, NotSilenced::Ask(AskError::Late(_))));
    keeper.follow(Some(&silence)).await.expect("made");
    // The end is tried again as long as the silence may be there, and no longer.
    keeper.follow(None).await.expect_err("it is there");
    keeper.kept.as_mut().expect("kept").until = Instant::now();
    keeper.follow(None).await.expect("it has ended by itself");
    assert!(keeper.kept.is_none());
    let check = "GET /prefix/api/v2/silence/a-1";
    assert_eq!(
        fake.asked(),
        [LIST, LIST, LIST, POST, LIST, LIST, POST, check, LIST, LIST]
    );
}

#[tokio::test]
async fn a_silence_that_is_there_is_renewed_a_second_one_ended_and_another_place_has_its_own() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut keeper = keeper(dir.path());
    let silence = |fake: &Fake| fake.silence("silence_for = \"3m\"");
    let place = Fake::new(Vec::new()).await;
    let both = json!([
        shown(&silence(&place), "a-1"),
        shown(&silence(&place), "b-2")
    ]);
    let fake = Fake::new(vec![
        ok(&both),
        ok(&json!({"silenceID": "a-1"})),
        ok(&json!({})),
        ok(&both),
        refused(404),
        ok(&json!({})),
    ])
    .await;
    keeper.follow(Some(&silence(&fake))).await.expect("renewed");
    let asked = fake.asked.lock().expect("a lock")[1].clone();
    let (_, body) = asked.split_once("\r\n\r\n").expect("a body");
    let body: Value = serde_json::from_str(body).expect("JSON");
    assert_eq!(body["id"], "a-1");
    // By a reload.
    let other = Fake::new(vec![
        ok(&json!([])),
        ok(&json!({"silenceID": "c-3"})),
        refused(404),
    ])
    .await;
    keeper.follow(Some(&silence(&other))).await.expect("made");
    let delete = |id| format!("DELETE /prefix/api/v2/silence/{id}");
    let (a, b) = (delete("a-1"), delete("b-2"));
    assert_eq!(fake.asked(), [LIST, POST, &b, LIST, &a, &b]);
    assert_eq!(other.asked().len(), 3);
}

#[tokio::test]
async fn i14_an_alertmanager_that_takes_a_negative_matcher_for_a_positive_one_gets_no_silence() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut keeper = keeper(dir.path());
    let place = Fake::new(Vec::new()).await;
    let mut old = shown(&place.silence(""), "a-1");
    for matcher in old["matchers"].as_array_mut().expect("a list") {
        matcher.as_object_mut().expect("one").remove("isEqual");
    }
    let fake = Fake::new(vec![
        ok(&json!([])),
        ok(&json!({"silenceID": "a-1"})),
        ok(&old),
        ok(&json!({})),
    ])
    .await;
    let why = keeper.follow(Some(&fake.silence(""))).await;
    assert!(matches!(why, Err(NotSilenced::Old)), "{why:?}");
    assert_eq!(
        fake.asked().last().expect("asked"),
        "DELETE /prefix/api/v2/silence/a-1"
    );
}

#[tokio::test]
async fn what_needs_no_host_name_is_silenced_on_a_host_without_one() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut keeper = keeper(dir.path());
    let made = ok(&json!({"silenceID": "a-1"}));
    let fake = Fake::new(vec![ok(&json!([])), made, refused(404)]).await;
    let both = fake.silence("silence = [\"instance={hostname}\", \"node={node}\"]");
    let why = keeper.follow(Some(&both)).await;
    assert!(matches!(why, Err(NotSilenced::Hostname(_))), "{why:?}");
    let check = "GET /prefix/api/v2/silence/a-1";
    assert_eq!(fake.asked(), [LIST, POST, check]);
}

#[tokio::test]
async fn i14_an_answer_without_an_end_and_a_host_without_a_name_are_errors() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut keeper = keeper(dir.path());
    let long = "[".repeat(2 * 1024 * 1024 + 1);
    let fake = Fake::new(vec![Answer::Says(200, long)]).await;
    let why = keeper.follow(Some(&fake.silence(""))).await;
    assert!(
        matches!(why, Err(NotSilenced::Ask(AskError::Long))),
        "{why:?}"
    );
    keeper.kept = None;
    let named = fake.silence("silence = [\"instance={hostname}\"]");
    let why = keeper.follow(Some(&named)).await;
    assert!(matches!(why, Err(NotSilenced::Hostname(_))), "{why:?}");
    let file = dir.path().join("proc/sys/kernel/hostname");
    std::fs::create_dir_all(file.parent().expect("a parent")).expect("made");
    for name in ["", "localhost", "localhost.localdomain", "(none)"] {
        std::fs::write(&file, format!("{name}\n")).expect("written");
        let why = keeper.follow(Some(&named)).await;
        assert!(matches!(why, Err(NotSilenced::Anybody)), "{why:?}");
    }
    keeper.follow(None).await.expect("none was made");
    assert_eq!(fake.asked(), [LIST], "nothing was asked without it");
}
