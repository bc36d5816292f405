use std::os::unix::net::UnixDatagram;

use kube_rebootd_core::phase::Phase;

use super::*;

/// Far above what a local datagram needs.
const PATIENCE: Duration = Duration::from_secs(20);

fn journald() -> (tempfile::TempDir, Root, UnixDatagram) {
    let dir = tempfile::tempdir().unwrap();
    let root = Root::at(dir.path());
    std::fs::create_dir_all(root.path("/run/systemd/journal")).unwrap();
    let socket = UnixDatagram::bind(root.path("/run/systemd/journal/socket")).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    (dir, root, socket)
}

fn receive(socket: &UnixDatagram) -> String {
    let mut bytes = vec![0; 64 * 1024];
    let length = socket.recv(&mut bytes).unwrap();
    String::from_utf8_lossy(&bytes[..length]).into_owned()
}

fn logging(journal: &Journal, log: impl FnOnce()) {
    let layer = journal
        .queue
        .clone()
        .with_filter(targets(LevelFilter::INFO));
    tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), log);
}

#[test]
fn transition_carries_its_fields() {
    let (_dir, root, socket) = journald();
    let journal = Journal::writing_to(Sink::journald(&root));
    journal.naming().set("n1");
    let fields = Fields {
        lease: Some("default"),
        reason: Some("linux\nlibc6"),
        ..Fields::default()
    };
    logging(&journal, || {
        transition(Phase::Draining, &fields, "Draining n1");
    });
    let seen = receive(&socket);
    for expected in [
        "MESSAGE=Draining n1\n",
        "PRIORITY=6\n",
        "SYSLOG_IDENTIFIER=kube-rebootd\n",
        "KUBE_NODE=n1\n",
        "LEASE=default\n",
        "PHASE=Draining\n",
        "REASON\n\u{b}\0\0\0\0\0\0\0linux\nlibc6\n",
        &format!("MESSAGE_ID={}\n", id(Phase::Draining)),
    ] {
        assert!(seen.contains(expected), "{expected:?} is not in {seen:?}");
    }
    assert!(
        !seen.contains("HOLDER") && !seen.contains("POD"),
        "{seen:?}"
    );
}

#[test]
fn foreign_noise_is_filtered_and_names_are_made_valid() {
    let (_dir, root, socket) = journald();
    let journal = Journal::writing_to(Sink::journald(&root));
    logging(&journal, || {
        tracing::error!(target: "kube_client::client::builder", "500");
        tracing::info!(target: "hyper", "noise");
        tracing::debug!(target: "kube_rebootd::host", "detail");
        tracing::warn!(target: "kube_rebootd::host", priority = 0, long = "x".repeat(20_000), "kept");
    });
    let seen = receive(&socket);
    assert!(
        seen.starts_with("MESSAGE=kept\nPRIORITY=4\n"),
        "{}",
        &seen[..80]
    );
    assert!(!seen.contains("PRIORITY=0"));
    assert_eq!(key("_9.odd-name").as_deref(), Some("ODD_NAME"));
    assert_eq!(key("__"), None);
    assert!(seen.contains(&format!("LONG={}\n", "x".repeat(MAX_VALUE_BYTES))));
}

/// docs/design.md 11: a stuck journald blocks its senders, and must not block us.
#[test]
fn stuck_journald_blocks_nobody_and_the_loss_is_told() {
    let (_dir, root, socket) = journald();
    let journal = Journal::writing_to(Sink::journald(&root));
    let records = 4 * QUEUE;
    logging(&journal, || {
        // Nobody reads the socket: this returns only because the caller never waits.
        for number in 0..records {
            tracing::info!(target: TARGET, number, "record");
        }
    });
    assert!(!journal.flush(Duration::from_millis(10)));
    let (mut written, mut dropped) = (0, 0);
    while written + dropped < records {
        let seen = receive(&socket);
        let message = seen.lines().next().unwrap();
        if message == "MESSAGE=record" {
            written += 1;
        } else {
            let number = message.trim_start_matches("MESSAGE=");
            dropped += number.split_once(' ').unwrap().0.parse::<usize>().unwrap();
        }
    }
    assert_eq!(written + dropped, records);
    assert!(dropped > 0);
    assert!(journal.flush(PATIENCE));
}

/// The socket goes with systemd-journald.socket; until another one is there the records go to standard error.
#[test]
fn a_journald_that_was_gone_gets_records_again() {
    let (_dir, root, socket) = journald();
    let path = root.path("/run/systemd/journal/socket");
    let journal = Journal::writing_to(Sink::journald(&root));
    let say = |what: &'static str| {
        logging(&journal, || tracing::info!(target: TARGET, "{what}"));
        assert!(journal.flush(PATIENCE), "{what}");
    };
    say("before");
    assert!(receive(&socket).starts_with("MESSAGE=before\n"));
    drop(socket);
    say("nobody listens");
    std::fs::remove_file(&path).unwrap();
    say("no socket");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    say("after");
    assert!(receive(&socket).starts_with("MESSAGE=after\n"));
}

#[test]
fn lines_for_a_terminal_stay_one_line() {
    let record = Record {
        priority: 3,
        message: "two\nlines".to_owned(),
        fields: BTreeMap::from([
            ("POD".to_owned(), "ns/web".to_owned()),
            ("MESSAGE_ID".to_owned(), "0".to_owned()),
        ]),
    };
    assert_eq!(sink::line(&record), "ERROR two lines pod=ns/web\n");
    assert_eq!(sink::stream(&record), "<3>two\n<3>lines\n");
}
