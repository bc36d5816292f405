//! What a client of FleetLock asks: what it changes, and what it is answered where (I2, I3, I6, I8). Whole cycles are in
//! `whole::fleet_lock`.

use super::*;
use crate::config::Mode;
use crate::decide::Step;
use crate::effect::Effect;
use crate::fleet_lock::{Ask, BY, Kind};
use crate::phase::Phase;
use crate::reason::Reason;
use crate::record::{Backoff, Why};

fn wish() -> Latched {
    Latched {
        by: BY.to_owned(),
        reason: "the updater of this host waits to reboot it".to_owned(),
        at: wall(),
        boot: Some(boot("now")),
        ended: false,
        kind: crate::kind::Kind::Reboot,
    }
}

fn set(machine: &mut Machine, request: Option<Request>) {
    machine.facts.record.request.clone_from(&request);
    machine.facts.observed.request = request;
}

/// Only the client asks for a reboot.
fn asking(mut machine: Machine) -> Machine {
    let latched = vec![wish()];
    let request = Request {
        latched,
        ..request()
    };
    set(&mut machine, Some(request));
    machine
}

fn within(machine: &mut Machine, time: &str) {
    let text = format!("[fleet_lock]\nlisten = \"unix:/x\"\nreboot_within = \"{time}\"\n");
    let parsed = crate::config::parse(std::path::Path::new("c"), &text).unwrap();
    machine.config.fleet_lock = parsed.config.fleet_lock;
}

/// The client was told to go on so long ago, and may take half an hour.
fn granted(seconds: u64) -> Machine {
    let mut machine = asking(held(Stage::Rebooting));
    within(&mut machine, "30m");
    let hold = machine.facts.record.hold.as_mut().unwrap();
    (hold.granted, hold.asks, hold.asked) = (true, 1, Some(ago(seconds)));
    machine.facts.ask_accepted = Some(ago(seconds));
    machine
}

fn step(phase: Phase, effect: Effect) -> Step {
    Step {
        phase,
        reason: Reason::Pending,
        record: Record::default(),
        effect,
        wake: None,
        status: "words".to_owned(),
        waits: None,
        would: None,
    }
}

/// What it is answered while nothing but the phase matters: none: it may change in a moment.
fn answer(machine: &Machine, ask: Ask, phase: Phase, late: bool) -> Option<Result<(), Kind>> {
    let said = machine.answers_client(ask, &step(phase, Effect::Wait), now(), late)?;
    Some(said.map_err(|no| no.kind))
}

#[test]
fn i6_a_question_is_a_wish_of_this_boot_and_one_only() {
    let mut machine = idle();
    let record = machine.client_asks(Ask::PreReboot, now()).unwrap().unwrap();
    let latched = record.request.unwrap().latched;
    assert_eq!(latched, [wish()]);
    assert_eq!(
        machine.facts.record.request, None,
        "the record is durable before"
    );
    assert_eq!(machine.facts.client.asked, Some(NOW));
    assert_eq!(
        asking(idle()).client_asks(Ask::PreReboot, now()),
        Ok(None),
        "it is known"
    );
    // What is asked for once the reboot was asked for is no part of what it was for.
    let late: Of = || {
        let mut machine = held(Stage::Rebooting);
        machine.facts.record.hold.as_mut().unwrap().asks = 1;
        machine
    };
    let others: [Of; 2] = [|| booted(Stage::Rebooting), || held(Stage::Releasing)];
    for of in others.into_iter().chain([late]) {
        assert_eq!(of().client_asks(Ask::PreReboot, now()), Ok(None));
    }
    // Who else asks, and drains already, is joined.
    let mut machine = held(Stage::Draining);
    let record = machine.client_asks(Ask::PreReboot, now()).unwrap().unwrap();
    assert_eq!(record.request.unwrap().latched.len(), 2);
}

#[test]
fn i8_who_cannot_be_served_is_told_so_at_once_and_heard_all_the_same() {
    let kind = |machine: &mut Machine, ask| machine.client_asks(ask, now()).map_err(|no| no.kind);
    let mut machine = idle();
    machine.facts.started = false;
    let starts = Err(Kind::NotReady);
    assert_eq!(kind(&mut machine, Ask::SteadyState), starts);
    assert_eq!(machine.facts.client.asked, None, "that is no wish");
    assert_eq!(kind(&mut machine, Ask::PreReboot), starts);
    assert_eq!(machine.facts.client.asked, Some(NOW));
    let mut machine = idle();
    machine.config.mode = Mode::Observe;
    assert_eq!(
        kind(&mut machine, Ask::PreReboot),
        Err(Kind::GateClosed),
        "nobody drains here"
    );
    assert_eq!(kind(&mut machine, Ask::SteadyState), Ok(None));
}

#[test]
fn i3_steady_state_takes_back_what_it_asked_for_in_this_boot_and_nothing_else() {
    let take_back = |machine: &mut Machine| machine.client_asks(Ask::SteadyState, now()).unwrap();
    assert_eq!(take_back(&mut idle()), None);
    assert_eq!(take_back(&mut wanted()), None, "a person's");
    let record = take_back(&mut asking(idle())).unwrap();
    assert_eq!(record.request, None);
    let mut machine = asking(idle());
    let mut both = request();
    both.latched.push(wish());
    set(&mut machine, Some(both));
    let record = take_back(&mut machine).unwrap();
    assert_eq!(record.request, Some(request()), "a person's stays");
    // The boot that it asked in is over: the reboot is done, and is to be proved.
    let mut machine = asking(idle());
    machine.facts.boot = boot("next");
    assert_eq!(take_back(&mut machine), None);
}

#[test]
fn who_reboots_the_host_is_on_record() {
    let mut machine = granted(60);
    assert!(machine.grants());
    machine.client_waits(true);
    assert!(machine.facts.client.waits);
    machine.client_waits(false);
    assert!(!machine.facts.client.waits);
    set(&mut machine, Some(request()));
    assert!(!machine.grants(), "a person asks, and logind is asked");
    set(&mut machine, None);
    assert!(!machine.grants());
    let mut machine = granted(60);
    machine.facts.record.hold.as_mut().unwrap().granted = false;
    assert!(!machine.grants());
    assert!(!asking(idle()).grants());
}

#[test]
fn i2_a_yes_is_said_once_all_was_looked_at_and_by_who_did_so() {
    let yes = Some(Ok(()));
    let asks = |machine: &Machine| answer(machine, Ask::PreReboot, Phase::Rebooting, false);
    assert_eq!(asks(&granted(60)), yes);
    let others: [fn(&mut Machine); 5] = [
        // Another process: it looks at everything again.
        |m| m.facts.ask_accepted = None,
        |m| m.facts.record.hold.as_mut().unwrap().granted = false,
        |m| m.facts.record.hold.as_mut().unwrap().stage = Stage::Draining,
        |m| m.facts.record.hold.as_mut().unwrap().boot = boot("before"),
        |m| set(m, Some(request())),
    ];
    for (place, change) in others.into_iter().enumerate() {
        let mut machine = granted(60);
        change(&mut machine);
        assert_eq!(asks(&machine), None, "{place}");
    }
    // A step that reads what may end the hold speaks against it, and so does one that undoes.
    let reads = step(Phase::Rebooting, Effect::ReadLease("default".to_owned()));
    let machine = granted(60);
    assert_eq!(
        machine.answers_client(Ask::PreReboot, &reads, now(), false),
        None
    );
    let undone = answer(&machine, Ask::PreReboot, Phase::Undoing, false);
    assert_eq!(undone, Some(Err(Kind::Undone)));
}

/// It would reboot the host in the middle of the undoing.
#[test]
fn i1_no_yes_is_said_again_where_the_time_is_nearly_over() {
    for (time, promised, last) in [
        ("30m", None, 1500),
        // Of a short time the second half.
        ("2m", None, 60),
        ("2m", Some(1800), 1500),
        ("1h", Some(1800), 3300),
    ] {
        for (seconds, yes) in [(last - 1, true), (last, false)] {
            let mut machine = granted(seconds);
            within(&mut machine, time);
            let hold = machine.facts.record.hold.as_mut().unwrap();
            hold.promised = promised.map(Duration::from_secs);
            let said = answer(&machine, Ask::PreReboot, Phase::Rebooting, false);
            let wanted = if yes { Ok(()) } else { Err(Kind::Undone) };
            assert_eq!(said, Some(wanted), "{time} {promised:?} {seconds}");
        }
    }
}

#[test]
fn what_moves_is_waited_for_and_what_rests_is_told() {
    let machine = asking(wanted());
    for (phase, moves, kind) in [
        (Phase::Idle, true, Kind::GateClosed),
        (Phase::Pending, false, Kind::GateClosed),
        (Phase::Queued, false, Kind::SlotTaken),
        (Phase::Claiming, true, Kind::Draining),
        (Phase::Draining, true, Kind::Draining),
        (Phase::Rebooting, true, Kind::Draining),
        (Phase::Drained, false, Kind::GateClosed),
        (Phase::Undoing, false, Kind::Undone),
        (Phase::Verifying, false, Kind::Verifying),
        (Phase::Releasing, false, Kind::Verifying),
    ] {
        let no = Some(Err(kind));
        let soon = answer(&machine, Ask::PreReboot, phase, false);
        assert_eq!(soon, if moves { None } else { no }, "{phase:?}");
        let late = answer(&machine, Ask::PreReboot, phase, true);
        assert_eq!(late, no, "{phase:?}");
    }
    // An attempt has failed in this boot, and the next one is not due.
    for (of, until, kind) in [
        ("now", NOW + Duration::from_secs(1), Kind::Undone),
        ("now", NOW, Kind::GateClosed),
        ("before", NOW + Duration::from_secs(1), Kind::GateClosed),
    ] {
        let mut machine = asking(wanted());
        machine.facts.record.backoff = Some(Backoff {
            failures: 1,
            boot: boot(of),
            until,
            why: String::new(),
        });
        let pending = answer(&machine, Ask::PreReboot, Phase::Pending, false);
        assert_eq!(pending, Some(Err(kind)), "{of} {until:?}");
        let queued = answer(&machine, Ask::PreReboot, Phase::Queued, false);
        assert_eq!(queued, Some(Err(Kind::SlotTaken)));
    }
}

/// The client looks for no update before that.
#[test]
fn i4_steady_state_is_answered_with_yes_where_nothing_of_the_clients_is_held() {
    fn alone(stage: Stage) -> Machine {
        let mut machine = held(stage);
        set(&mut machine, None);
        machine
    }
    let all: [(&str, Of, bool); 9] = [
        ("no hold", idle, true),
        ("kept drained", || alone(Stage::Drained), true),
        ("others drain", || held(Stage::Draining), true),
        ("nobody wants it", || alone(Stage::Draining), false),
        ("to be proved", || booted(Stage::Draining), false),
        ("given back", || held(Stage::Undoing(Why::Withdrawn)), false),
        ("given back, nearly", || held(Stage::Uncordoned), false),
        ("given up", || held(Stage::Releasing), false),
        ("told to go on", || granted(60), false),
    ];
    for (what, of, free) in all {
        let machine = of();
        let yes = answer(&machine, Ask::SteadyState, Phase::Idle, false);
        assert_eq!(yes, free.then_some(Ok(())), "{what}");
        let late = answer(&machine, Ask::SteadyState, Phase::Undoing, true);
        let wanted = if free { Ok(()) } else { Err(Kind::Undone) };
        assert_eq!(late, Some(wanted), "{what}");
    }
}
