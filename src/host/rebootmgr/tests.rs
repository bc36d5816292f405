use std::fs;

use kube_rebootd_core::rebootmgr::Stands;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::*;
use crate::host::door::CONNECTIONS;

const REBOOT: &str = "org.openSUSE.rebootmgr.Reboot";
const STATUS: &str = "org.openSUSE.rebootmgr.Status";

/// Served at the socket of a directory of its own. The loop does what is asked, but for a reboot that is to be now, to which it does
/// not come.
struct There {
    _dir: tempfile::TempDir,
    root: Root,
    path: PathBuf,
    serves: watch::Sender<bool>,
    shown: watch::Sender<Shown>,
}

impl There {
    async fn start() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let root = Root::at(dir.path());
        fs::create_dir(root.path("/run")).expect("made");
        let path = root.path(SOCKET);
        let (serves, receiver) = watch::channel(true);
        let (shown, looks) = watch::channel(Shown::default());
        let (desk, given) = mpsc::channel::<Given>(CONNECTIONS);
        tokio::spawn(serve(root.clone(), receiver, looks, desk));
        tokio::spawn(loops(given));
        let there = Self {
            _dir: dir,
            root,
            path,
            serves,
            shown,
        };
        there.wait(true).await;
        there
    }

    /// Until somebody listens there, or nobody does.
    async fn wait(&self, listens: bool) {
        let came = async {
            while UnixStream::connect(&self.path).await.is_ok() != listens {
                sleep(Duration::from_millis(1)).await;
            }
        };
        timeout(LIMIT, came).await.expect("it is in time");
    }

    async fn connect(&self) -> UnixStream {
        UnixStream::connect(&self.path).await.expect("connected")
    }

    async fn says(&self, message: &[u8]) -> Option<Value> {
        let mut stream = self.connect().await;
        // Who sends more than is read may be told of a closed connection.
        let _ = stream.write_all(message).await;
        heard(&mut stream).await
    }

    async fn call(&self, method: &str, parameters: &Value) -> Value {
        let message = message(method, parameters);
        self.says(&message).await.expect("an answer")
    }
}

async fn loops(mut given: mpsc::Receiver<Given>) {
    let mut kept = Vec::new();
    while let Some(given) = given.recv().await {
        match given.ask {
            Ask::Reboot { now: false, .. } | Ask::Cancel => {
                given.answer(Ok(()));
            }
            Ask::Reboot { now: true, .. } => kept.push(given),
        }
    }
}

fn message(method: &str, parameters: &Value) -> Vec<u8> {
    let text = json!({"method": method, "parameters": parameters});
    let mut message = text.to_string().into_bytes();
    message.push(END);
    message
}

/// The next answer; none: the connection has ended.
async fn heard(stream: &mut UnixStream) -> Option<Value> {
    let mut answer = Vec::new();
    loop {
        let byte = stream.read_u8().await.ok()?;
        if byte == END {
            return Some(serde_json::from_slice(&answer).expect("JSON"));
        }
        answer.push(byte);
    }
}

#[tokio::test(start_paused = true)]
async fn root_asks_the_loop_and_everybody_how_it_stands() {
    let there = There::start().await;
    let answer = there.call(REBOOT, &json!({"Reboot": 1})).await;
    assert_eq!(answer["parameters"]["Method"], 1, "{answer}");
    let answer = there
        .call("org.openSUSE.rebootmgr.Cancel", &json!({}))
        .await;
    assert_eq!(answer["parameters"]["Success"], true, "{answer}");
    let answer = there.call(STATUS, &json!({})).await;
    assert_eq!(answer["parameters"]["RebootStatus"], 0, "{answer}");
    there.shown.send_replace(Shown {
        stands: Stands::Waits,
        kind: kube_rebootd_core::kind::Kind::Reboot,
        when: "queued".to_owned(),
        disabled: false,
    });
    let answer = there.call(STATUS, &json!({})).await;
    assert_eq!(answer["parameters"]["RebootTime"], "queued", "{answer}");
}

/// As `varlinkctl introspect` asks.
#[tokio::test(start_paused = true)]
async fn one_connection_has_some_calls() {
    let there = There::start().await;
    let mut stream = there.connect().await;
    let ping = message("org.openSUSE.rebootmgr.Ping", &json!({}));
    let oneway = b"{\"method\":\"org.openSUSE.rebootmgr.Ping\",\"oneway\":true}\0";
    // The second has no answer, and the third is only begun.
    let begun = [&ping[..], &oneway[..], &ping[..10]].concat();
    stream.write_all(&begun).await.expect("written");
    let answer = heard(&mut stream).await.expect("an answer");
    assert_eq!(answer["parameters"]["Alive"], true);
    stream.write_all(&ping[10..]).await.expect("written");
    let mut answers = 1;
    while heard(&mut stream).await.is_some() {
        answers += 1;
        let _ = stream.write_all(&ping).await;
    }
    assert_eq!(answers, CALLS - 1);
}

/// I14: the kernel says who is connected.
#[tokio::test(start_paused = true)]
async fn i14_who_is_not_root_changes_nothing() {
    let there = There::start().await;
    let (mut client, stream) = UnixStream::pair().expect("a pair");
    assert!(is_root(&there.root, &stream).expect("known"));
    let of_host = is_root(&Root::host(), &stream).expect("known");
    assert_eq!(of_host, nix::unistd::getuid().is_root());
    let (desk, mut given) = mpsc::channel(1);
    let stranger = Client {
        stream,
        heard: Vec::new(),
        root: false,
        shown: there.shown.subscribe(),
        desk,
        trouble: Arc::default(),
    };
    tokio::spawn(stranger.hear());
    for (method, parameters) in [
        (REBOOT, json!({"Reboot": 1})),
        (REBOOT, json!({"Reboot": 2})),
        ("org.openSUSE.rebootmgr.Cancel", json!({})),
    ] {
        let call = message(method, &parameters);
        client.write_all(&call).await.expect("written");
        let answer = heard(&mut client).await.expect("an answer");
        assert_eq!(answer["error"], "org.varlink.service.PermissionDenied");
    }
    let status = message(STATUS, &json!({}));
    client.write_all(&status).await.expect("written");
    let answer = heard(&mut client).await.expect("an answer");
    assert_eq!(answer["parameters"]["RebootStatus"], 0, "{answer}");
    drop(client);
    assert!(given.recv().await.is_none(), "nothing came to the loop");
}

/// I14: what is wrong is told, and none of it comes to the loop.
#[tokio::test(start_paused = true)]
async fn i14_a_bad_client_is_told_why() {
    let there = There::start().await;
    let good = message(REBOOT, &json!({"Reboot": 1}));
    for bad in [
        vec![b'x'; 4 * LONGEST],
        b"GET / HTTP/1.1\r\n\r\n\0".to_vec(),
        b"\0".to_vec(),
        // Half a call.
        good[..good.len() - 5].to_vec(),
    ] {
        let began = Instant::now();
        let answer = there.says(&bad).await.expect("an answer");
        let name = "org.varlink.service.InvalidParameter";
        assert_eq!(answer["error"], name, "{answer}");
        assert!(answer["parameters"]["Reason"].is_string(), "{answer}");
        assert!(began.elapsed() <= 2 * LIMIT);
    }
    // Who says nothing is told nothing.
    let began = Instant::now();
    assert_eq!(there.says(b"").await, None);
    assert!(began.elapsed() <= 2 * LIMIT);
}

/// I14: calls without end whose answers nobody reads cost a connection for some seconds.
#[tokio::test(start_paused = true)]
async fn i14_who_never_reads_keeps_a_connection_for_some_seconds() {
    let there = There::start().await;
    let mut stream = there.connect().await;
    let describe = message(
        "org.varlink.service.GetInterfaceDescription",
        &json!({"interface": rebootmgr::INTERFACE}),
    );
    let began = Instant::now();
    let all = async {
        for _ in 0..100_000 {
            stream.write_all(&describe).await?;
        }
        io::Result::Ok(())
    };
    let ends = timeout(10 * LIMIT, all).await.expect("it ends");
    assert!(ends.is_err());
    assert!(began.elapsed() <= 2 * LIMIT);
}

/// I14: a crowd that says nothing keeps root from nothing.
#[tokio::test(start_paused = true)]
async fn i14_a_crowd_keeps_root_from_nothing() {
    let there = There::start().await;
    let began = Instant::now();
    let mut crowd = Vec::new();
    for _ in 0..1000 {
        crowd.push(there.connect().await);
        yield_now().await;
    }
    let answer = there.call(REBOOT, &json!({"Reboot": 1})).await;
    assert_eq!(answer["parameters"]["Method"], 1, "{answer}");
    assert!(began.elapsed() < LIMIT);
}

/// I7: the loop does not come to it.
#[tokio::test(start_paused = true)]
async fn i7_a_loop_that_stands_still_is_told_of() {
    let there = There::start().await;
    let began = Instant::now();
    let now = json!({"Reboot": 1, "Force": true});
    let answer = there.call(REBOOT, &now).await;
    assert_eq!(answer["error"], "org.openSUSE.rebootmgr.InternalError");
    assert_eq!(began.elapsed().as_secs(), ANSWER.as_secs());
}

#[tokio::test(start_paused = true)]
async fn it_is_served_as_long_as_it_is_configured() {
    let there = There::start().await;
    let mut waits = there.connect().await;
    yield_now().await;
    there.serves.send_replace(false);
    there.wait(false).await;
    assert!(!there.path.exists());
    // Who is connected goes as well.
    assert_eq!(heard(&mut waits).await, None);
    there.serves.send_replace(true);
    there.wait(true).await;
    let answer = there.call(STATUS, &json!({})).await;
    assert_eq!(answer["parameters"]["RebootStatus"], 0, "{answer}");
}
