//! Which record takes the times of the cycle with it, and where they end.

use super::super::held::apply;
use super::*;
use crate::times::Times;

fn so_far() -> Times {
    Times {
        waits: [("Queued".to_owned(), 9)].into(),
        undone: 1,
        claim: 2,
        drain: 3,
        evicted: 4,
        asked: Some(wall() - Duration::from_secs(900)),
        ..Times::default()
    }
}

fn of(stage: Stage, asks: u32) -> Record {
    let hold = Hold {
        stage,
        asks,
        ..Hold::begin(take(), boot("now"))
    };
    Record {
        hold: Some(hold),
        request: Some(request()),
        ..Record::default()
    }
}

fn carried(before: Record, after: Record) -> Option<Times> {
    let facts = Facts {
        times: so_far(),
        ..Facts::of_a_start(boot("now"), before)
    };
    crate::decide::timed::carried(&facts, after, now()).times
}

#[test]
fn i6_times_alone_are_never_written() {
    let before = Record {
        times: Some(Times::default()),
        ..of(Stage::Draining, 0)
    };
    assert_eq!(carried(before.clone(), before.clone()), before.times);
}

#[test]
fn times_go_with_what_is_written_until_the_cycle_is_over() {
    let waits = Record {
        request: Some(request()),
        ..Record::default()
    };
    let idle = Record::default();
    let kept = Some(so_far());
    let unasked = Some(Times {
        asked: None,
        ..so_far()
    });
    // The attempt before took 2 + 3 s.
    let again = Some(Times {
        waits: so_far().waits,
        undone: 6,
        ..Times::default()
    });
    let asked = Some(Times {
        asked: Some(wall()),
        ..so_far()
    });
    let undoing = of(Stage::Undoing(Why::Lost), 1);
    let check = |before: &Record, after: &Record, wanted: &Option<Times>| {
        let times = carried(before.clone(), after.clone());
        assert_eq!(times, *wanted, "{before:?} -> {after:?}");
    };
    check(&idle, &waits, &kept);
    check(&waits, &of(Stage::Taking, 0), &again);
    check(&of(Stage::Taking, 0), &of(Stage::Claiming, 0), &kept);
    check(&of(Stage::Claiming, 0), &of(Stage::Draining, 0), &kept);
    check(&of(Stage::Rebooting, 0), &of(Stage::Rebooting, 1), &asked);
    check(&of(Stage::Rebooting, 1), &undoing, &unasked);
    check(&of(Stage::Uncordoned, 1), &of(Stage::Releasing, 1), &None);
    check(&waits, &idle, &None);
    check(&undoing, &idle, &None);
}

/// The record of a step and its copy on the Node tell the same.
#[test]
fn i6_the_cordon_takes_the_times_to_the_node() {
    let record = of(Stage::Draining, 0);
    let mut facts = Facts::of_a_start(boot("now"), of(Stage::Claiming, 0));
    facts.times = so_far();
    let node = Node::ready();
    let context = Context {
        facts: &facts,
        policy: &policy(),
        me: ME,
        now: now(),
    };
    let step = apply(&context, Phase::Draining, record, &node, "cordoning");
    let Effect::Apply { set, .. } = &step.effect else {
        panic!("{step:?}");
    };
    let there = Record::decode(&set.annotations[names::STATE]).expect("ours");
    assert_eq!(there.times, Some(so_far()));
    assert_eq!(step.record.times, there.times);
}
