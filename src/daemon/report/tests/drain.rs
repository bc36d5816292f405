//! Of a drain: which pods hold it up, or would (I9).

use super::*;

#[test]
fn i9_an_eviction_that_would_be_refused_is_said_once() {
    let mut world = World::new(Record::default());
    let one = |name: &str| Blocker {
        pod: PodRef {
            namespace: "shop".to_owned(),
            name: name.to_owned(),
            uid: name.to_owned(),
        },
        why: "The disruption budget web needs 2 healthy pods and has 2 currently".to_owned(),
        budget: Some("shop/web".to_owned()),
    };
    let said = |told: &[Said]| {
        let all = told
            .iter()
            .filter(|one| one["MESSAGE"].contains("would be held up"));
        let told: Vec<_> = all
            .map(|one| {
                (
                    one["POD"].clone(),
                    one["BUDGET"].clone(),
                    one["LEVEL"].clone(),
                )
            })
            .collect();
        told
    };
    let of = |pod: &str| (pod.to_owned(), "shop/web".to_owned(), "INFO".to_owned());
    for (refusing, new) in [
        (vec![one("a")], vec![of("shop/a")]),
        (vec![one("a"), one("b")], vec![of("shop/b")]),
        (vec![one("a")], vec![]),
        (vec![], vec![]),
        (vec![one("a")], vec![of("shop/a")]),
    ] {
        world.facts.refusing = refusing;
        let told = world.step(Phase::Pending, "reboot pending: node paused: disk");
        assert_eq!(said(&told), new);
    }
}

fn going(seconds: u64, pods: &[&str], why: &str, budget: Option<&str>) -> Drained {
    let blocker = |name: &&str| Blocker {
        pod: PodRef {
            namespace: "shop".to_owned(),
            name: (*name).to_owned(),
            uid: (*name).to_owned(),
        },
        why: why.to_owned(),
        budget: budget.map(str::to_owned),
    };
    Drained::Going {
        escalate: Vec::new(),
        deleted: false,
        evict: Vec::new(),
        words: String::new(),
        spent: Duration::from_secs(seconds),
        confirm: false,
        unseen: false,
        wake: None,
        blocked: pods.iter().map(blocker).collect(),
    }
}

/// Held-out runs found a warning in ordinary cycles: a budget lets two pods go one after the other, within seconds.
#[test]
fn a_pod_that_holds_up_the_drain_is_a_field_and_a_warning_after_a_minute() {
    let mut world = World::new(Record {
        hold: Some(hold(Stage::Draining)),
        ..Record::default()
    });
    for (seconds, level) in [
        (0, Some("INFO")),
        (59, None),
        (60, Some("WARN")),
        (61, None),
    ] {
        world.facts.drain = going(
            seconds,
            &["web-1"],
            "would violate its budget",
            Some("shop/web"),
        );
        let said = world.step(Phase::Draining, "draining: 1 pod left");
        let of_pod = |one: &&Said| one["MESSAGE"].contains("up the drain");
        let pods: Vec<&Said> = said.iter().filter(of_pod).collect();
        let levels: Vec<&str> = pods.iter().map(|one| one["LEVEL"].as_str()).collect();
        assert_eq!(levels, level.as_slice(), "after {seconds} s");
        for one in pods {
            assert_eq!(one["POD"], "shop/web-1");
            assert_eq!(one["MESSAGE_ID"], id(Phase::Draining));
            assert_eq!(one["REASON"], "shop/web");
        }
        let steps: Vec<&Said> = said.iter().filter(|one| !of_pod(one)).collect();
        assert_eq!(
            steps.len(),
            usize::from(seconds == 0),
            "the transition, once"
        );
        assert!(steps.iter().all(|one| one["POD"] == "shop/web-1"));
    }
}

/// A pod whose eviction is on its way is no blocker for a moment, and a budget counts other pods each time.
#[test]
fn each_pod_that_holds_up_a_drain_is_said_once() {
    let mut world = World::new(Record {
        hold: Some(hold(Stage::Draining)),
        ..Record::default()
    });
    let mut told = |phase, seconds, pods: &[&str], why: &str| {
        world.facts.drain = going(seconds, pods, why, Some("shop/web"));
        let said = world.step(phase, "draining");
        let said = said
            .iter()
            .filter(|one| one["MESSAGE"].contains("up the drain"));
        said.map(|one| one["MESSAGE"].clone()).collect::<Vec<_>>()
    };
    let says = |pod: &str, why: &str| format!("pod shop/{pod} holds up the drain: {why}");
    let drains = Phase::Draining;
    assert_eq!(
        told(drains, 1, &["web-1"], "2 of 2"),
        [says("web-1", "2 of 2")]
    );
    assert_eq!(
        told(drains, 2, &["web-1", "db-0"], "2 of 2"),
        [says("db-0", "2 of 2")]
    );
    assert_eq!(told(drains, 3, &["db-0"], "2 of 3"), [""; 0]);
    assert_eq!(
        told(drains, 70, &["web-1", "db-0"], "2 of 3"),
        ["pod shop/web-1 and 1 more still hold up the drain: 2 of 3"]
    );
    assert_eq!(
        told(drains, 71, &["web-1", "db-1"], "2 of 3"),
        [says("db-1", "2 of 3")]
    );
    assert_eq!(told(Phase::Undoing, 71, &[], ""), [""; 0]);
    assert_eq!(
        told(drains, 1, &["web-1"], "2 of 2"),
        [says("web-1", "2 of 2")]
    );
}
