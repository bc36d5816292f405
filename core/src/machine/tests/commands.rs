//! What the commands of the gate said, and from when on it counts (I2, I8).

use super::*;
use crate::facts::{Answers, Applied, Fenced, Point};
use crate::gates::{Commands, Gate};
use crate::hook::Answer;
use crate::machine::Asked;
use crate::node_fields::NodeFields;

fn asked(name: &str, answer: Option<(Duration, Answer)>) -> Asked {
    Asked {
        name: name.to_owned(),
        lasts: Duration::from_secs(100),
        answer,
    }
}

fn not_now() -> Answer {
    Answer::NotNow("degraded".to_owned())
}

fn lost() -> Answer {
    Answer::Unknown("killed".to_owned())
}

fn said(machine: &mut Machine, all: Vec<Asked>) -> Commands {
    machine.saw_commands(Ok(all));
    machine.commands(now())
}

#[test]
fn i8_an_answer_that_is_old_or_missing_is_none() {
    let word = str::to_owned;
    let mut machine = wanted();
    for (answer, then) in [
        (Some((NOW, Answer::Yes)), Commands::Yes),
        (Some((ago(100), Answer::Yes)), Commands::Yes),
        (Some((ago(101), Answer::Yes)), Commands::Awaited(word("a"))),
        (None, Commands::Awaited(word("a"))),
        (
            Some((NOW, not_now())),
            Commands::NotNow(word("a"), word("degraded")),
        ),
        (Some((ago(101), not_now())), Commands::Awaited(word("a"))),
        (
            Some((NOW, lost())),
            Commands::Unknown(word("a"), word("killed")),
        ),
    ] {
        let one = asked("a", answer);
        assert_eq!(said(&mut machine, vec![one.clone()]), then, "{one:?}");
        assert_eq!(machine.commands_asked(now()).is_some(), {
            let counts =
                |(asked, _): &(Duration, Answer)| NOW.saturating_sub(*asked).as_secs() <= 100;
            one.answer.as_ref().is_some_and(counts)
        });
    }
    assert_eq!(said(&mut machine, Vec::new()), Commands::Yes);
    machine.saw_commands(Err("denied".to_owned()));
    assert_eq!(machine.commands(now()), Commands::Unlisted(word("denied")));
    assert_eq!(machine.commands_asked(now()), None);
    machine.forget_commands();
    assert!(matches!(machine.commands(now()), Commands::Unlisted(_)));
}

/// A "not now" is said before what is not known, and that before what is awaited; of equals the first.
#[test]
fn one_of_many_is_told() {
    let yes = || asked("yes", Some((NOW, Answer::Yes)));
    let awaited = || asked("awaited", None);
    let unknown = |name| asked(name, Some((NOW, lost())));
    let shut = |name| asked(name, Some((NOW, not_now())));
    for (all, wanted) in [
        (vec![yes(), awaited()], "awaited"),
        (vec![awaited(), unknown("u"), unknown("v")], "u"),
        (vec![awaited(), unknown("u"), shut("s"), shut("t")], "s"),
    ] {
        let mut machine = super::wanted();
        let (Commands::Awaited(name) | Commands::Unknown(name, _) | Commands::NotNow(name, _)) =
            said(&mut machine, all)
        else {
            panic!("{wanted}")
        };
        assert_eq!(name, wanted);
    }
}

/// The hold of this machine is on its Node since `at`.
pub(super) fn label(machine: &mut Machine, at: Duration) {
    let record = machine.facts.record.clone();
    let fields = NodeFields::of(&record, node(machine));
    let node = node(machine);
    node.labels = fields.labels;
    node.annotations = fields.annotations;
    node.read = None;
    machine.facts.applied = Some(Applied {
        point: Point::of_record(&record),
        at,
    });
}

#[test]
fn i2_from_when_on_an_answer_counts() {
    // Nothing rests on them.
    assert_eq!(idle().answers_after(NOW), None);
    assert_eq!(booted(Stage::Rebooting).answers_after(NOW), None);
    let undoing = Stage::Undoing(crate::record::Why::Withdrawn);
    assert_eq!(held(undoing).answers_after(NOW), None);
    // Whenever it was, before there is a slot and before the label says so.
    let any = Some(Duration::ZERO);
    assert_eq!(wanted().answers_after(NOW), any);
    let mut machine = held(Stage::Claiming);
    assert_eq!(machine.answers_after(NOW), any);
    label(&mut machine, ago(7));
    assert_eq!(machine.answers_after(NOW), Some(ago(7)));
    // While it drains, and during the delay.
    let mut machine = held(Stage::Draining);
    assert_eq!(machine.answers_after(NOW), any);
    machine.memory.done = Some(ago(20));
    machine.config.reboot.delay = Duration::from_secs(21);
    assert_eq!(machine.answers_after(NOW), any);
    machine.config.reboot.delay = Duration::from_secs(15);
    assert_eq!(machine.answers_after(NOW), Some(ago(5)));
    machine.facts.record.hold.as_mut().unwrap().stage = Stage::Rebooting;
    assert_eq!(machine.answers_after(NOW), Some(ago(5)));
    // logind was asked, and is to be asked again after 10 s; then that is written ahead.
    let hold = machine.facts.record.hold.as_mut().unwrap();
    (hold.asks, hold.asked) = (1, Some(ago(9)));
    let take = hold.take.acquire_time;
    assert_eq!(machine.answers_after(NOW), Some(ago(5)));
    machine.facts.record.hold.as_mut().unwrap().asked = Some(ago(13));
    assert_eq!(machine.answers_after(NOW), Some(ago(3)));
    machine.facts.fenced = Some(Fenced {
        hold: take,
        asks: 1,
        at: None,
    });
    assert_eq!(machine.answers_after(NOW), Some(ago(5)));
}

/// One that is awaited closes the gate, and is told apart: the hold waits for it.
#[test]
fn i2_i8_who_is_awaited_closes_the_gate_and_ends_no_hold() {
    let answers = |machine: &mut Machine, asked_at: Duration, answer: Answer| {
        machine.saw_commands(Ok(vec![asked("a", Some((asked_at, answer)))]));
        machine.judge(&[], now());
        let shut = machine.facts.closed.iter().map(|closed| closed.gate);
        (shut.collect::<Vec<_>>(), machine.facts.answers.clone())
    };
    let mut machine = held(Stage::Claiming);
    machine.memory.pods = Some(Vec::new());
    label(&mut machine, ago(7));
    let counts = |asked, awaited: &[Gate]| Answers {
        asked,
        awaited: awaited.to_vec(),
    };
    let shut = vec![Gate::Commands];
    assert_eq!(
        answers(&mut machine, ago(8), Answer::Yes),
        (shut.clone(), counts(Some(ago(8)), &[Gate::Commands]))
    );
    assert_eq!(
        answers(&mut machine, ago(7), Answer::Yes),
        (Vec::new(), counts(Some(ago(7)), &[]))
    );
    for answer in [not_now(), lost()] {
        assert_eq!(
            answers(&mut machine, ago(7), answer),
            (shut.clone(), counts(Some(ago(7)), &[]))
        );
    }
}

/// Nothing is rebooted then.
#[test]
fn they_are_not_asked_while_somebody_keeps_the_node_drained() {
    let mut machine = wanted();
    let request = machine.facts.observed.request.as_mut().unwrap();
    request.latched[0].by = crate::trigger::Keeper::Person.begins().to_owned();
    assert_eq!(machine.answers_after(NOW), None);
    machine.forget_commands();
    assert_eq!(machine.commands_asked(now()), Some(Duration::MAX));
}
