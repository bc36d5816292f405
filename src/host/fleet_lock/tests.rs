use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;

use kube_rebootd_core::config::Listen;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::Instant;

use super::*;
use crate::host::door::CONNECTIONS;

const ID: &str = "0123456789abcdef0123456789abcdef";

/// Served by a task at a socket of a directory of its own; the loop says yes to `pre-reboot`, and no to `steady-state`.
struct There {
    _dir: tempfile::TempDir,
    root: Root,
    path: PathBuf,
    _shown: watch::Sender<Option<FleetLock>>,
}

fn place(listen: Listen) -> FleetLock {
    FleetLock {
        listen,
        user: "zincati".to_owned(),
        id: Some(ID.to_owned()),
        group: "default".to_owned(),
        reboot_within: Duration::from_secs(1800),
    }
}

impl There {
    async fn start() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let root = Root::at(dir.path());
        let path = root.path("/fleet.sock");
        fs::create_dir_all(root.path("/etc")).expect("made");
        fs::create_dir_all(root.path("/proc/net")).expect("made");
        let me = nix::unistd::getuid();
        let users = format!("zincati:x:{me}:{me}::/:/sbin/nologin\n");
        fs::write(root.path("/etc/passwd"), users).expect("written");
        let listen = Listen::new("unix:/fleet.sock").expect("an address");
        let (shown, receiver) = watch::channel(Some(place(listen)));
        let (desk, mut given) = mpsc::channel::<Given>(CONNECTIONS);
        tokio::spawn(serve(root.clone(), receiver, desk));
        tokio::spawn(async move {
            while let Some(given) = given.recv().await {
                let answer = match given.ask {
                    Ask::PreReboot => Ok(()),
                    Ask::SteadyState => Err(No::new(Kind::Verifying, "verifying: \"n1\"")),
                };
                let _ = given.answer(answer);
            }
        });
        yield_now().await;
        Self {
            _dir: dir,
            root,
            path,
            _shown: shown,
        }
    }

    async fn says(&self, request: &[u8]) -> String {
        let mut stream = UnixStream::connect(&self.path).await.expect("connected");
        stream.write_all(request).await.expect("written");
        said(stream).await
    }
}

async fn said<S: AsyncRead + Unpin>(mut stream: S) -> String {
    let mut said = Vec::new();
    // Who sends more than is read may be told of a reset after the answer.
    let _ = stream.read_to_end(&mut said).await;
    String::from_utf8(said).expect("text")
}

/// As Zincati sends it.
fn request(path: &str, id: &str) -> Vec<u8> {
    let body = format!(
        "{{\n  \"client_params\": {{\n    \"id\": \"{id}\",\n    \"group\": \"default\"\n  }}\n}}"
    );
    let length = body.len();
    format!(
        "POST {path} HTTP/1.1\r\nfleet-lock-protocol: true\r\naccept: */*\r\nhost: 127.0.0.1:3333\r\n\
         content-length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}

fn kind(answer: &str) -> String {
    let (_, body) = answer.split_once("\r\n\r\n").expect("an answer");
    let fields: serde_json::Value = serde_json::from_str(body).expect(body);
    assert!(!fields["value"].as_str().expect("a value").is_empty());
    fields["kind"].as_str().expect("a kind").to_owned()
}

#[tokio::test(start_paused = true)]
async fn the_loop_answers_yes_or_no() {
    let there = There::start().await;
    let yes = there.says(&request("/v1/pre-reboot", ID)).await;
    assert!(yes.starts_with("HTTP/1.1 200 OK\r\n"), "{yes}");
    let no = there.says(&request("/v1/steady-state", ID)).await;
    assert!(no.starts_with("HTTP/1.1 423 Locked\r\n"), "{no}");
    assert_eq!(kind(&no), "verifying");
    // In pieces, as a network brings them.
    let mut stream = UnixStream::connect(&there.path).await.expect("connected");
    for part in request("/v1/pre-reboot", ID).chunks(7) {
        stream.write_all(part).await.expect("written");
        yield_now().await;
    }
    assert!(said(stream).await.starts_with("HTTP/1.1 200 "));
}

/// I14: what is wrong is told, and none of it is heard as a question.
#[tokio::test(start_paused = true)]
async fn i14_a_bad_peer_is_told_why() {
    let there = There::start().await;
    let good = request("/v1/pre-reboot", ID);
    let text = String::from_utf8(good.clone()).expect("text");
    let without = text.replace("fleet-lock-protocol: true\r\n", "");
    let large = text.replace("content-length: ", "content-length: 9000");
    for (request, expected) in [
        (without.into_bytes(), "missing_header"),
        (large.into_bytes(), "too_large"),
        (request("/v1/pre-reboot", "another"), "unknown_client"),
        (request("/v2/pre-reboot", ID), "not_found"),
        (b"\x16\x03\x01\x02\x00\r\n\r\n".to_vec(), "decode_error"),
        (vec![b'x'; 20_000], "too_large"),
    ] {
        let answer = there.says(&request).await;
        assert!(answer.starts_with("HTTP/1.1 4"), "{answer}");
        assert_eq!(kind(&answer), expected);
    }
    // Half a request costs a connection for some seconds.
    let began = Instant::now();
    assert_eq!(there.says(&good[..good.len() - 5]).await, "");
    assert!(began.elapsed() <= 2 * LIMIT);
}

/// I14: a crowd that says nothing keeps the updater from nothing.
#[tokio::test(start_paused = true)]
async fn i14_a_crowd_keeps_the_updater_from_nothing() {
    let there = There::start().await;
    let began = Instant::now();
    let mut crowd = Vec::new();
    for _ in 0..1000 {
        crowd.push(UnixStream::connect(&there.path).await.expect("connected"));
        yield_now().await;
    }
    let yes = there.says(&request("/v1/pre-reboot", ID)).await;
    assert!(yes.starts_with("HTTP/1.1 200 "), "{yes}");
    assert!(began.elapsed() < LIMIT);
}

/// Who is connected is known by the kernel's table. Found by reading: over TCP root was heard always, and so was whoever may
/// `kubectl port-forward` to a pod with hostNetwork.
#[tokio::test]
async fn i14_over_tcp_only_the_updaters_user_is_heard() {
    let there = There::start().await;
    let users = "root:x:0:0:root:/root:/bin/sh\nzincati:x:981:981::/:/sbin/nologin\n";
    fs::write(there.root.path("/etc/passwd"), users).expect("written");
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
        .await
        .expect("bound");
    let address = listener.local_addr().expect("an address");
    let client = TcpStream::connect(address).await.expect("connected");
    let (stream, _) = listener.accept().await.expect("accepted");
    let stream = Stream::Tcp(stream);
    let place = place(Listen::Tcp(address));
    let hex = |address: SocketAddr| format!("0100007F:{:04X}", address.port());
    let (from, to) = (client.local_addr().expect("an address"), address);
    let of = |user: &str| FleetLock {
        user: user.to_owned(),
        ..place.clone()
    };
    let says = |user: &str, state: &str, uid: u32| {
        let line = format!(
            "   1: {} {} {state} 00000000:00000000 00:00000000 00000000 {uid:5} 0 4711 1 0\n",
            hex(from),
            hex(to)
        );
        fs::write(there.root.path("/proc/net/tcp"), line).expect("written");
        client::permitted(&there.root, &of(user), &stream).map_err(|no| no.kind)
    };
    let heard = fleet_lock::Client {
        id: ID.to_owned(),
        group: "default".to_owned(),
    };
    for (user, uid, is) in [
        ("zincati", 981, true),
        ("zincati", 0, false),
        ("zincati", 982, false),
        // Its updater runs as root, and is told so.
        ("root", 0, true),
        ("root", 981, false),
        ("nobody-of-this-name", 0, false),
    ] {
        let expected = is.then(|| heard.clone()).ok_or(Kind::Forbidden);
        assert_eq!(says(user, "01", uid), expected, "{user} {uid}");
    }
    // One that listens there, or is gone.
    assert_eq!(says("zincati", "0A", 981), Err(Kind::Forbidden));
    fs::remove_file(there.root.path("/proc/net/tcp")).expect("removed");
    let no = client::permitted(&there.root, &place, &stream);
    assert_eq!(no.map_err(|no| no.kind), Err(Kind::Forbidden));
}

/// A socket of the host's is in no network.
#[tokio::test]
async fn over_the_socket_root_is_heard_as_well() {
    let there = There::start().await;
    let (stream, _other) = UnixStream::pair().expect("a pair");
    let stream = Stream::Unix(stream);
    let me = nix::unistd::getuid();
    for (uid, is) in [(me.as_raw(), true), (me.as_raw() + 1, me.is_root())] {
        let users = format!("zincati:x:{uid}:{uid}::/:/sbin/nologin\n");
        fs::write(there.root.path("/etc/passwd"), users).expect("written");
        let place = place(Listen::new("unix:/fleet.sock").expect("an address"));
        let heard = client::permitted(&there.root, &place, &stream);
        assert_eq!(heard.is_ok(), is, "{uid} {heard:?}");
    }
}

/// With the real table of this machine.
#[tokio::test]
async fn a_connection_of_this_process_is_its_users() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
        .await
        .expect("bound");
    let address = listener.local_addr().expect("an address");
    let client = TcpStream::connect(address).await.expect("connected");
    let from = client.local_addr().expect("an address");
    let user = super::super::sockets::user_of(&Root::host(), from, address);
    assert_eq!(user, Some(nix::unistd::getuid().as_raw()));
}
