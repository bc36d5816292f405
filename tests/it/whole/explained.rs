//! `explain NODE` beside whole daemons: what it says is what they told, and asking changes nothing (I9, I11).

use jiff::Timestamp;
use kube_rebootd::cli::explain::node::{Seen, Unseen, Which, ask};
use kube_rebootd_core::config::Config;

use super::cluster::{Pod, make_budget};
use super::world::{HOUR, MINUTE, World};
use crate::memory::{Answer, Fate, Fault, User, Verb};

/// Two hosts want one slot, and a budget keeps the first one's pod: the first holds, the second waits.
async fn one_waits() -> World {
    let world = World::new(2, 1).await;
    Pod::new("web", "n0").make(&world.server);
    make_budget(&world.server, "web", "web", 1);
    world.want(0);
    world.until_phase(0, "Draining", HOUR).await;
    world.want(1);
    world.until_phase(1, "Queued", HOUR).await;
    world.pass(3 * MINUTE).await;
    world
}

async fn explained(world: &World, node: &str) -> Result<Seen, Unseen> {
    let client = world.server.client("admin", User::Admin);
    let config = Config::default();
    let which = Which {
        node,
        namespace: "kube-rebootd",
        config: &config,
        own: false,
    };
    let now: Timestamp = world.server.now();
    Box::pin(ask(which, &client, &client, now)).await
}

/// What the person's requests may have changed.
fn changes(world: &World) -> Vec<String> {
    let harmless = [
        "get ",
        "list ",
        "try pods/eviction",
        "create selfsubjectaccessreviews",
    ];
    let state = world.server.state();
    let asked = state.trace.iter().filter(|line| line.contains(" admin: "));
    let changes = asked.filter(|line| !harmless.iter().any(|verb| line.contains(verb)));
    changes.cloned().collect()
}

#[tokio::test(start_paused = true)]
async fn i9_a_node_that_holds_and_one_that_waits_are_told_from_anywhere() {
    let world = one_waits().await;
    let holds = explained(&world, "n0").await.expect("it is seen");
    assert_eq!(holds.place[0].what, "holds");
    assert_eq!(holds.member.reason.as_deref(), Some("BlockedByBudget"));
    assert_eq!(holds.drain.pods[0].fate, "refused");
    assert_eq!(holds.drain.pods[0].budget.as_deref(), Some("shop/web"));
    let all = holds.maintenance.iter();
    let names = all.filter(|one| one.status == "True");
    let names: Vec<&str> = names.map(|one| one.condition).collect();
    assert!(names.contains(&"DrainInProgress"), "{names:?}");
    let events = holds.events.as_ref().expect("they are seen");
    assert!(
        events.iter().any(|event| event.reason == "BlockedByBudget"),
        "{events:?}"
    );
    let waits = explained(&world, "n1").await.expect("it is seen");
    assert_eq!(
        (waits.place[0].what, waits.slots_of.as_str()),
        ("waits", "default")
    );
    let queue = waits.queue.as_ref().expect("it waits");
    assert_eq!((queue.place, queue.waiting), (Some(1), Some(1)));
    assert_eq!(waits.slots.as_ref().expect("seen")[0]["holder"], "n0");
    assert!(waits.member.person.is_none() && !waits.unsure() && !waits.silent);
    assert_eq!(changes(&world), Vec::<String>::new());
    world.require(
        world.holder("default").as_deref() == Some("n0"),
        "nothing changed",
    );
}

/// Whoever may see little sees that, and which right it lacks: a refusal of the person's own is no refusal of the drain.
#[tokio::test(start_paused = true)]
async fn what_is_denied_is_named_and_the_rest_is_shown() {
    let world = one_waits().await;
    let denies = |verb, resource: &'static str, namespace: &'static str| {
        let answer = Answer::status(
            403,
            "Forbidden",
            "x is forbidden: User \"u\" cannot do this",
        );
        Fault {
            from: "admin".to_owned(),
            namespace,
            ..Fault::of(Fate::Says(answer), verb, resource)
        }
    };
    let with = async |fault: Fault| {
        world.server.set(|state| state.faults = vec![fault]);
        let seen = explained(&world, "n0").await.expect("the rest is seen");
        world.server.set(|state| state.faults.clear());
        seen
    };
    let seen = with(denies(Verb::Get, "nodes", "")).await;
    assert_eq!(
        (seen.hidden[0].what, seen.hidden[0].right.as_deref()),
        ("node", Some("get Nodes"))
    );
    assert!(seen.unsure() && seen.place[0].what == "holds" && seen.exists.is_none());
    assert!(seen.member.person.is_none(), "{:?}", seen.member);
    let seen = with(denies(Verb::List, "leases", "kube-rebootd")).await;
    assert_eq!(
        seen.hidden[0].right.as_deref(),
        Some("list Leases in the namespace kube-rebootd")
    );
    assert!(seen.unsure() && seen.slots.is_none());
    assert_eq!(seen.place[0].what, "labelled");
    let seen = with(denies(Verb::List, "events", "")).await;
    assert!(!seen.unsure() && seen.events.is_none() && seen.slots.is_some());
    let seen = with(denies(Verb::List, "pods", "")).await;
    assert!(seen.drain.problem.is_some() && seen.drain.pods.is_empty());
    let seen = with(denies(Verb::Create, "selfsubjectaccessreviews", "")).await;
    assert_eq!(seen.drain.pods[0].fate, "unknown");
    world.server.set(|state| state.may_not_evict = true);
    let seen = explained(&world, "n0").await.expect("it is seen");
    let pod = &seen.drain.pods[0];
    let why = pod.why.as_deref().unwrap_or_default();
    assert_eq!(pod.fate, "unknown");
    assert!(
        why.contains("the right to create pods/eviction in the namespace shop"),
        "{why}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_gone_is_told_by_its_slot() {
    let world = one_waits().await;
    let none = explained(&world, "n7")
        .await
        .map(drop)
        .expect_err("nothing is known");
    assert!(matches!(none, Unseen::NoNode(_)), "{none}");
    world.server.set(|state| {
        state.edit(("leases", "kube-rebootd", "default"), "x", |lease| {
            lease["spec"]["holderIdentity"] = "n7".into();
        });
    });
    let gone = explained(&world, "n7").await.expect("its slot is seen");
    assert_eq!(gone.exists, Some(false));
    assert!(gone.member.person.is_some());
}
