//! `nodes --watch` beside whole daemons: what changes is told, once, also after the server was away (I7).

use std::io::{Error, ErrorKind, Result, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::Timestamp;
use kube_rebootd::cli::nodes::{Ended, Follow, follow};
use serde_json::Value;

use super::world::{HOUR, MINUTE, World};
use crate::memory::{Answer, Fate, Fault, User, Verb};

/// What was shown so far.
#[derive(Clone, Default)]
struct Out(Arc<Mutex<Vec<u8>>>);

impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
}

impl Out {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).expect("text")
    }
}

/// Nobody reads.
struct Gone;

impl Write for Gone {
    fn write(&mut self, _: &[u8]) -> Result<usize> {
        Err(Error::from(ErrorKind::BrokenPipe))
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
}

/// Watches while `work` goes on.
async fn watched(
    world: &World,
    json: bool,
    out: impl Write,
    work: impl Future<Output = ()>,
) -> Option<Ended> {
    let client = world.server.client("admin", User::Admin);
    let this = Follow {
        client: &client,
        namespace: "kube-rebootd",
        group: "default",
        only: false,
        unhealthy: false,
        json,
        ahead: world.server.now().duration_since(Timestamp::now()),
    };
    tokio::select! {
        ended = follow(&this, out, false) => Some(ended),
        () = work => None,
    }
}

const SOON: Duration = Duration::from_secs(20);

#[tokio::test(start_paused = true)]
async fn i7_each_change_is_told_once_and_nothing_is_lost_while_the_server_is_away() {
    let world = World::new(2, 1).await;
    world.pass(MINUTE).await;
    let out = Out::default();
    let work = async {
        world.pass(SOON).await;
        let first = out.text();
        world.require(
            first.starts_with("group default\nslot default: free\n"),
            &first,
        );
        // Heartbeats, and that all grows older, are no change. The clock of who watches is the real one and stands still beside
        // this: ten minutes later the nodes' heartbeats would be of the future.
        world.pass(5 * MINUTE).await;
        world.require(out.text() == first, "nothing happened");
        world.want(0);
        world
            .until("it is taken", HOUR, |world| {
                world.holder("default").is_some()
            })
            .await;
        world.until_rebooted(&[0], 1, HOUR).await;
        world.pass(SOON).await;
        let text = out.text();
        for line in [
            "slot default: held by n0\n",
            "n0: holds default, ",
            "node n0: required, ",
            "slot default: free\n",
        ] {
            world.require(text.contains(line), &text);
        }
        world.server.set(|state| state.down = true);
        world.pass(10 * MINUTE).await;
        let before = out.text().len();
        world.server.set(|state| state.down = false);
        world.want(1);
        world.until_rebooted(&[1], 1, HOUR).await;
        world.pass(2 * MINUTE).await;
        let later = out.text().split_off(before);
        world.require(later.contains("node n1: "), &later);
        // The whole hold may pass before the slots are watched again: then it was free before and is free.
        let held = later.contains("slot default: held by n1\n");
        let free = later.contains("slot default: free\n");
        world.require(free || !held, &later);
    };
    assert!(watched(&world, false, out.clone(), work).await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_script_gets_a_document_on_each_line() {
    let world = World::new(2, 1).await;
    world.pass(MINUTE).await;
    let out = Out::default();
    let work = async {
        world.pass(SOON).await;
        world.want(0);
        world.until_rebooted(&[0], 1, HOUR).await;
        world.pass(SOON).await;
    };
    assert!(watched(&world, true, out.clone(), work).await.is_none());
    let text = out.text();
    let all: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let holders: Vec<&Value> = all.iter().map(|one| &one["slots"][0]["holder"]).collect();
    assert!(holders.contains(&&Value::from("n0")), "{text}");
    assert_eq!(
        (holders[0], holders.last()),
        (&Value::Null, Some(&&Value::Null))
    );
}

#[tokio::test(start_paused = true)]
async fn it_ends_when_nobody_reads_and_where_it_is_denied() {
    let world = World::new(1, 1).await;
    let forever = std::future::pending();
    let ended = watched(&world, false, Gone, forever).await;
    assert!(matches!(ended, Some(Ended::Closed)));
    for (code, unauthorized) in [(401, true), (403, false)] {
        let answer = Answer::status(code, "Forbidden", "no");
        let fault = Fault {
            from: "admin".to_owned(),
            ..Fault::of(Fate::Says(answer), Verb::List, "nodes")
        };
        world.server.set(|state| state.faults = vec![fault]);
        let ended = watched(&world, false, Out::default(), std::future::pending()).await;
        let ended = ended.expect("it ends");
        assert_eq!(
            matches!(ended, Ended::Unauthorized(_)),
            unauthorized,
            "{code}"
        );
        assert_eq!(matches!(ended, Ended::Refused(_)), !unauthorized, "{code}");
    }
}

/// Found by an operator: where the list of those who wait was slow, nobody was said to wait.
#[tokio::test(start_paused = true)]
async fn that_nobody_waits_is_not_said_before_it_is_known() {
    let world = World::new(1, 1).await;
    world.pass(MINUTE).await;
    let silent = Fault {
        from: "admin".to_owned(),
        namespace: "kube-node-lease",
        ..Fault::of(Fate::Silent, Verb::List, "leases")
    };
    world.server.set(|state| state.faults = vec![silent]);
    let out = Out::default();
    let work = async {
        world.pass(MINUTE).await;
        world.require(out.text().is_empty(), &out.text());
        world.server.set(|state| state.faults.clear());
        world.pass(MINUTE).await;
        let text = out.text();
        world.require(text.contains("no node holds or waits"), &text);
    };
    assert!(watched(&world, false, out.clone(), work).await.is_none());
}

/// As a node's identity, or a person who may list and not watch: it is read again instead.
#[tokio::test(start_paused = true)]
async fn who_may_not_watch_sees_the_changes_later() {
    let world = World::new(1, 1).await;
    world.pass(MINUTE).await;
    let answer = Answer::status(403, "Forbidden", "no");
    let fault = Fault {
        from: "admin".to_owned(),
        ..Fault::of(Fate::Says(answer), Verb::Watch, "")
    };
    world.server.set(|state| state.faults = vec![fault]);
    let out = Out::default();
    let work = async {
        world.pass(SOON).await;
        world.server.set(|state| {
            state.edit(("leases", "kube-rebootd", "default"), "x", |lease| {
                lease["metadata"]["annotations"]["kube-rebootd/paused"] = "a bad kernel".into();
            });
        });
        world.pass(3 * MINUTE).await;
        let text = out.text();
        world.require(text.contains("slot default: paused: a bad kernel\n"), &text);
    };
    assert!(watched(&world, false, out.clone(), work).await.is_none());
}
