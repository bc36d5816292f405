//! A reboot that a client of FleetLock asked for: it is told to go on where logind would be asked, and has its time (I2, I3).

use super::table::{about_to_reboot, own, slot};
use super::*;
use crate::fleet_lock;

const LIMIT: Duration = Duration::from_secs(1800);

fn policy_() -> Policy {
    Policy {
        granted: LIMIT,
        ..policy()
    }
}

fn wish() -> Latched {
    Latched {
        by: fleet_lock::BY.to_owned(),
        reason: fleet_lock::reason(),
        at: wall(),
        boot: Some(boot("now")),
        ended: false,
        kind: Kind::Reboot,
    }
}

fn set(facts: &mut Facts, request: Option<Request>) {
    facts.record.request.clone_from(&request);
    facts.observed.request = request;
}

/// The fence stands, and only the client asks.
fn armed() -> Facts {
    let mut facts = about_to_reboot();
    let request = Request {
        since: wall(),
        reasons: Vec::new(),
        latched: vec![wish()],
    };
    set(&mut facts, Some(request));
    facts.record.hold.as_mut().unwrap().granted = true;
    facts
}

/// Drained, and nobody was asked yet.
fn drained() -> Facts {
    let mut facts = armed();
    facts.fenced = None;
    let hold = facts.record.hold.as_mut().unwrap();
    (hold.asks, hold.asked, hold.granted) = (0, None, false);
    facts
}

/// Told to go on just now.
fn granted() -> Facts {
    let mut facts = armed();
    facts.fenced = None;
    facts.confirmed = None;
    facts.ask_accepted = Some(NOW);
    facts
}

fn at(facts: &Facts, later: Duration) -> Step {
    let now = now();
    let now = Now {
        boot: now.boot + later,
        wall: now.wall + later,
    };
    decide(facts, &policy_(), now)
}

fn stage(step: &Step) -> Stage {
    step.record.hold.clone().unwrap().stage
}

/// I2: nothing is read, written or told before somebody is there to hear it: it would be old by then.
#[test]
fn i2_a_drained_node_waits_until_the_client_asks_again() {
    let mut facts = drained();
    let step = at(&facts, Duration::ZERO);
    assert_eq!(
        (step.phase, &step.effect),
        (Phase::Rebooting, &Effect::Wait)
    );
    assert!(step.status.contains("ask once more"), "{}", step.status);
    facts.client.waits = true;
    let step = at(&facts, Duration::ZERO);
    assert!(matches!(step.effect, Effect::Fence(_)), "{step:?}");
    let hold = step.record.hold.unwrap();
    assert!(hold.granted && hold.asks == 1, "{hold:?}");
    // A gate that has closed meanwhile counts as for logind.
    facts.closed = vec![Closed {
        gate: Gate::GroupPaused,
        why: "a bad kernel".into(),
        opens: None,
    }];
    let step = at(&facts, Duration::ZERO);
    assert!(!matches!(step.effect, Effect::Fence(_)), "{step:?}");
}

#[test]
fn behind_the_fence_the_client_is_told_and_not_logind() {
    let step = at(&armed(), Duration::ZERO);
    assert_eq!(step.effect, Effect::AskReboot);
    assert!(step.status.contains("updater"), "{}", step.status);
    // Nobody asks any more: neither is told.
    let mut facts = armed();
    set(&mut facts, None);
    let step = at(&facts, Duration::ZERO);
    assert_eq!(stage(&step), Stage::Undoing(Why::Withdrawn));
}

/// Between the fence and the word to go on, what asks for the reboot may change: who is told must be on record, or a daemon that was
/// started anew would wait for an updater that nobody told, or ask logind beside one that was.
#[test]
fn i6_who_is_told_is_on_record_before() {
    for (granted, of_client) in [(false, true), (true, false)] {
        let mut facts = armed();
        facts.client.waits = true;
        if !of_client {
            set(&mut facts, Some(request()));
        }
        facts.record.hold.as_mut().unwrap().granted = granted;
        let step = at(&facts, Duration::ZERO);
        assert!(matches!(step.effect, Effect::Fence(_)), "{step:?}");
        assert_eq!(step.record.hold.unwrap().granted, of_client);
    }
}

#[test]
fn i3_who_was_told_to_go_on_and_does_not_is_undone_after_a_time() {
    let facts = granted();
    for later in [
        Duration::ZERO,
        Duration::from_secs(700),
        Duration::from_secs(1799),
    ] {
        let step = at(&facts, later);
        assert_eq!(
            (step.phase, &step.effect),
            (Phase::Rebooting, &Effect::Wait)
        );
        assert_eq!(stage(&step), Stage::Rebooting);
        assert_eq!(step.wake, Some(NOW + LIMIT));
    }
    let step = at(&facts, LIMIT);
    assert!(
        matches!(stage(&step), Stage::Undoing(Why::Reboot(_))),
        "{step:?}"
    );
    // It asks anew, or nobody does.
    assert_eq!(step.record.request, None);
    // What else asks for a reboot goes on to ask for it.
    let mut facts = granted();
    let mut both = request();
    both.latched.push(wish());
    set(&mut facts, Some(both));
    let step = at(&facts, LIMIT);
    assert_eq!(step.record.request, Some(request()));
}

#[test]
fn i3_who_says_that_it_does_not_reboot_is_undone_at_once() {
    let mut facts = granted();
    set(&mut facts, None);
    assert_eq!(
        stage(&at(&facts, Duration::ZERO)),
        Stage::Undoing(Why::Withdrawn)
    );
    // Drained as it is, the host reboots for what else asks: by logind.
    set(&mut facts, Some(request()));
    let step = at(&facts, Duration::ZERO);
    assert_eq!(stage(&step), Stage::Rebooting);
    assert_ne!(step.effect, Effect::Wait);
    facts.confirmed = Some(NOW);
    facts.record.hold.as_mut().unwrap().asked = Some(NOW.saturating_sub(Duration::from_secs(1)));
    let step = at(&facts, Duration::ZERO);
    assert!(matches!(step.effect, Effect::Fence(_)), "{step:?}");
    assert!(!step.record.hold.unwrap().granted);
}

/// A daemon that was started anew does not know whether it was told; when it asks again, everything is looked at again.
#[test]
fn i2_after_a_restart_all_is_looked_at_again() {
    let mut facts = granted();
    facts.ask_accepted = None;
    let later = Duration::from_secs(11);
    let step = at(&facts, later);
    assert_eq!(
        (stage(&step), step.effect),
        (Stage::Rebooting, Effect::Wait)
    );
    facts.client.waits = true;
    let step = at(&facts, later);
    assert_eq!(stage(&step), Stage::Rebooting);
    assert!(
        !matches!(
            step.effect,
            Effect::Wait | Effect::AskReboot | Effect::Fence(_)
        ),
        "{step:?}"
    );
}

/// Found by reading: a daemon was started anew behind the yes, the updater was gone, and a sentinel asked as well: the slot was kept
/// for ever.
#[test]
fn i3_a_client_that_is_gone_after_a_restart_is_waited_for_no_longer() {
    let mut both = request();
    both.latched.push(wish());
    for told in [Some(NOW), None] {
        let mut facts = granted();
        facts.ask_accepted = told;
        facts.record.request = Some(both.clone());
        facts.observed.request = Some(request());
        let step = at(&facts, Duration::from_secs(1799));
        assert_eq!(
            (stage(&step), step.effect),
            (Stage::Rebooting, Effect::Wait)
        );
        let step = at(&facts, LIMIT);
        assert!(
            matches!(stage(&step), Stage::Undoing(Why::Reboot(_))),
            "{step:?}"
        );
        assert_eq!(step.record.request, Some(request()));
    }
}

/// Whoever was told to go on asks once more before it reboots, where users are logged in, and is told no then.
#[test]
fn i2_i3_a_person_ends_what_was_granted() {
    let undone = |change: fn(&mut Facts)| {
        let mut facts = granted();
        change(&mut facts);
        stage(&at(&facts, Duration::ZERO))
    };
    assert_eq!(undone(|_| ()), Stage::Rebooting);
    let uncordoned = undone(|facts| own(facts).unschedulable = false);
    assert_eq!(uncordoned, Stage::Undoing(Why::Uncordoned));
    let paused = undone(|facts| {
        let annotations = &mut own(facts).annotations;
        annotations.insert(names::PAUSED.to_owned(), "a disk".to_owned());
    });
    assert_eq!(paused, Stage::Undoing(Why::Paused("a disk".to_owned())));
    let replaced = undone(|facts| own(facts).uid = "another".to_owned());
    assert_eq!(replaced, Stage::Undoing(Why::NodeReplaced));
    let deleted = undone(|facts| facts.node = Seen::Absent);
    assert_eq!(deleted, Stage::Undoing(Why::NodeReplaced));
    // An API server that does not answer ends nothing.
    assert_eq!(undone(|facts| facts.node = Seen::Unknown), Stage::Rebooting);
    // What the watch shows is confirmed, and counts then.
    let mut facts = granted();
    slot(&mut facts).holder = Some("n2".to_owned());
    slot(&mut facts).read = None;
    let step = at(&facts, Duration::ZERO);
    assert!(matches!(step.effect, Effect::ReadLease(_)), "{step:?}");
    slot(&mut facts).read = Some(NOW);
    let lost = stage(&at(&facts, Duration::ZERO));
    assert_eq!(lost, Stage::Undoing(Why::Lost));
}

/// Found by reading: the words had no end, told of the whole limit, and nothing of them was shown as what is waited for.
#[test]
fn what_is_waited_for_is_the_updater_and_says_until_when() {
    let once_more =
        "the updater of this host must ask once more, which Zincati does every 5 minutes";
    let waits = |facts: &Facts, later: u64| {
        let step = at(facts, Duration::from_secs(later));
        assert_eq!(
            (step.phase, &step.effect),
            (Phase::Rebooting, &Effect::Wait)
        );
        // A client that comes later finds all the time that looks may take.
        assert!(rests(facts, &step), "{step:?}");
        let waits = step.waits.expect("what it waits for");
        assert!(step.status.ends_with(&waits), "{}", step.status);
        waits
    };
    let mut facts = drained();
    let words = format!("{once_more}; after 20m without a question the drain is undone");
    assert_eq!(waits(&facts, 0), words);
    // The same while the host is looked at.
    let step = at(&facts, Duration::from_secs(900));
    assert_eq!(step.effect, Effect::ReadHost);
    assert_eq!(step.waits.as_ref(), Some(&words));
    facts.host_read = Some(NOW + Duration::from_secs(900));
    assert_eq!(waits(&facts, 900), words);
    let mut both = request();
    both.latched.push(wish());
    let mut facts = drained();
    set(&mut facts, Some(both));
    let words =
        format!("{once_more}; after 20m without a question the host is rebooted without it");
    assert_eq!(waits(&facts, 0), words);
    // The slot was taken for it.
    let askers = &mut facts.record.hold.as_mut().unwrap().askers;
    askers.insert(fleet_lock::BY.to_owned());
    let words = format!("{once_more}; after 20m without a question the drain is undone");
    assert_eq!(waits(&facts, 0), words);
    // The same words at each look.
    let due = wall() + jiff::SignedDuration::from_secs(1800);
    let due = due.strftime("%H:%M UTC");
    let mut facts = granted();
    for later in [0, 700, 1799] {
        let words = format!(
            "the updater of this host was told to reboot it; if it has not done so by {due}, the drain is undone"
        );
        assert_eq!(waits(&facts, later), words);
    }
    facts.ask_accepted = None;
    let words =
        format!("{once_more}; if it has not rebooted the host by {due}, the drain is undone");
    assert_eq!(waits(&facts, 11), words);
}
