//! Tables of the hooks that change something: when a round of them is begun, waited for, and given up (I3, I6, I7, I8).

use super::gates::about_to_cordon;
use super::table::{about_to_reboot, own};
use super::*;
use crate::reason::Reason;
use crate::waits;

fn ago(seconds: u64) -> Duration {
    NOW.checked_sub(Duration::from_secs(seconds)).unwrap()
}

fn in_seconds(seconds: u64) -> Duration {
    NOW + Duration::from_secs(seconds)
}

fn no(words: &str) -> Said {
    let words = format!("hook a{words}");
    if words.contains("not now") {
        Said::NotNow(words)
    } else {
        Said::Failed(words)
    }
}

/// The last round ended then; the first of them began so long before that.
fn ended(said: Said, seconds: u64, before: u64) -> Stand {
    Stand::Some {
        running: false,
        last: Some(Last {
            said,
            first: ago(seconds + before),
            begun: ago(seconds + 1),
            ended: ago(seconds),
            failures: 1,
        }),
    }
}

fn runs(stand: Stand) -> Stand {
    match stand {
        Stand::Some { last, .. } => Stand::Some {
            running: true,
            last,
        },
        stand => stand,
    }
}

const FRESH: Stand = Stand::Some {
    running: false,
    last: None,
};

/// The node is drained, and its pods are to be listed once more.
fn drained() -> Facts {
    let mut facts = about_to_reboot();
    let hold = facts.record.hold.as_mut().unwrap();
    (hold.stage, hold.asks, hold.asked) = (Stage::Draining, 0, None);
    let text = facts.record.annotation().unwrap();
    let node = own(&mut facts);
    node.annotations.insert(names::STATE.to_owned(), text);
    facts.last_list = None;
    facts
}

/// What comes of it.
#[derive(Debug, PartialEq, Eq)]
enum Comes {
    /// The round is begun.
    Begun,
    /// It is waited until then.
    Waits(Duration),
    Undone(String),
    /// The hold goes on.
    GoesOn,
}

fn comes(facts: &Facts, hook: Hook) -> (Comes, Step) {
    let step = decide(facts, &policy(), now());
    let hold = step.record.hold.as_ref().unwrap();
    let before = facts.record.hold.as_ref().unwrap();
    let comes = match (&hold.stage, &step.effect) {
        (Stage::Undoing(Why::Hook(why)), Effect::Wait) => Comes::Undone(why.clone()),
        (stage, Effect::Hooks(run)) if *run == hook && *stage == before.stage => Comes::Begun,
        (stage, Effect::Wait) if *stage == before.stage => Comes::Waits(step.wake.unwrap()),
        _ => Comes::GoesOn,
    };
    (comes, step)
}

#[test]
fn i6_i8_what_becomes_of_a_hold_by_what_its_hooks_say() {
    let (shut, failed) = (" says not now: x", " failed: x");
    let undone = |words: &str| Comes::Undone(format!("hook a{words}"));
    let unknown = || Stand::Unknown("denied".to_owned());
    for (hook, stand, comes_then) in [
        (Hook::PreDrain, Stand::None, Comes::GoesOn),
        (Hook::PreDrain, FRESH, Comes::Begun),
        (Hook::PreDrain, Stand::Unlooked, Comes::Waits(in_seconds(1))),
        (
            Hook::PreDrain,
            unknown(),
            Comes::Undone("denied".to_owned()),
        ),
        (Hook::PreDrain, runs(FRESH), Comes::Waits(in_seconds(300))),
        (Hook::PreDrain, ended(Said::Well, 9, 0), Comes::GoesOn),
        (Hook::PreDrain, ended(no(shut), 0, 0), undone(shut)),
        (Hook::PreDrain, ended(no(failed), 0, 0), undone(failed)),
        (Hook::PreReboot, Stand::None, Comes::GoesOn),
        (Hook::PreReboot, FRESH, Comes::Begun),
        (
            Hook::PreReboot,
            Stand::Unlooked,
            Comes::Waits(in_seconds(1)),
        ),
        (
            Hook::PreReboot,
            unknown(),
            Comes::Undone("denied".to_owned()),
        ),
        (Hook::PreReboot, runs(FRESH), Comes::Waits(in_seconds(300))),
        (Hook::PreReboot, ended(Said::Well, 9, 0), Comes::GoesOn),
        (Hook::PreReboot, ended(no(failed), 0, 0), undone(failed)),
        // Not now is waited for: 30 s to the next round, five minutes from the first.
        (
            Hook::PreReboot,
            ended(no(shut), 0, 0),
            Comes::Waits(in_seconds(30)),
        ),
        (
            Hook::PreReboot,
            ended(no(shut), 29, 0),
            Comes::Waits(in_seconds(1)),
        ),
        (Hook::PreReboot, ended(no(shut), 30, 0), Comes::Begun),
        (Hook::PreReboot, ended(no(shut), 30, 269), Comes::Begun),
        (Hook::PreReboot, ended(no(shut), 30, 270), undone(shut)),
        (Hook::PreReboot, ended(no(shut), 0, 300), undone(shut)),
        (
            Hook::PreReboot,
            runs(ended(no(shut), 31, 0)),
            Comes::Waits(in_seconds(1)),
        ),
        (
            Hook::PreReboot,
            runs(ended(no(shut), 31, 300)),
            Comes::Waits(in_seconds(300)),
        ),
    ] {
        let mut facts = if hook == Hook::PreDrain {
            about_to_cordon()
        } else {
            drained()
        };
        let place = match hook {
            Hook::PreDrain => &mut facts.hooks.pre_drain,
            _ => &mut facts.hooks.pre_reboot,
        };
        place.clone_from(&stand);
        let (comes, step) = comes(&facts, hook);
        assert_eq!(comes, comes_then, "{hook:?} {stand:?}: {step:?}");
        // The mark comes with the first round, and is durable before it.
        assert_eq!(
            step.record.hold.as_ref().unwrap().hooked,
            comes == Comes::Begun
        );
        let waits = waits::waits(&step, &facts, &policy());
        match comes {
            Comes::GoesOn | Comes::Undone(_) => assert!(waits.is_empty(), "{waits:?}"),
            // Without what a hook says, which may change with each run.
            Comes::Begun | Comes::Waits(_) => {
                assert_eq!(waits.len(), 1);
                assert!(!waits[0].ends_with('x'), "{waits:?}");
            }
        }
        // The time of the hooks is their own.
        assert_eq!(
            rests(&facts, &step),
            matches!(comes, Comes::Waits(_)),
            "{step:?}"
        );
    }
}

/// What could not be taken back is not begun; that is said before the cordon also where only the reboot has hooks.
#[test]
fn i3_i8_what_could_not_be_taken_back_is_not_begun() {
    let unknown = || Stand::Unknown("denied".to_owned());
    let undone = || Comes::Undone("what hooks do could not be taken back: denied".to_owned());
    let kept_drained = |facts: &mut Facts| {
        let mut request = request();
        request.latched.push(kept(Keeper::Person, false));
        facts.record.request = Some(request.clone());
        facts.observed.request = Some(request);
    };
    let (soon, none) = (|| Comes::Waits(in_seconds(1)), || Stand::None);
    // Before the cordon, before the reboot, what takes back; whether a hook has run; then for a reboot, and for a drain.
    for (drain, reboot, back, hooked, comes_then, of_drains) in [
        (FRESH, none(), unknown(), false, undone(), undone()),
        (FRESH, none(), Stand::Unlooked, false, soon(), soon()),
        // Found by review: the node was emptied again and again for a reboot that could not come.
        (
            FRESH,
            unknown(),
            none(),
            false,
            Comes::Undone("denied".to_owned()),
            Comes::Begun,
        ),
        (FRESH, none(), FRESH, false, Comes::Begun, Comes::Begun),
        (FRESH, none(), unknown(), true, Comes::Begun, Comes::Begun),
        (none(), FRESH, unknown(), false, undone(), Comes::GoesOn),
        (none(), FRESH, Stand::Unlooked, false, soon(), Comes::GoesOn),
        (none(), FRESH, FRESH, false, Comes::GoesOn, Comes::GoesOn),
        (none(), FRESH, none(), false, Comes::GoesOn, Comes::GoesOn),
        (
            none(),
            unknown(),
            none(),
            false,
            Comes::Undone("denied".to_owned()),
            Comes::GoesOn,
        ),
        (
            none(),
            Stand::Unlooked,
            none(),
            false,
            soon(),
            Comes::GoesOn,
        ),
        (
            none(),
            none(),
            unknown(),
            false,
            Comes::GoesOn,
            Comes::GoesOn,
        ),
    ] {
        for keeps in [false, true] {
            let mut facts = about_to_cordon();
            facts.record.hold.as_mut().unwrap().hooked = hooked;
            if keeps {
                kept_drained(&mut facts);
            }
            facts.hooks = Standing {
                pre_drain: drain.clone(),
                pre_reboot: reboot.clone(),
                undo: back.clone(),
            };
            let wanted = if keeps { &of_drains } else { &comes_then };
            let (comes, step) = comes(&facts, Hook::PreDrain);
            assert_eq!(comes, *wanted, "{:?}: {step:?}", facts.hooks);
        }
    }
    // The hooks came while the node was drained.
    let mut facts = drained();
    (facts.hooks.pre_reboot, facts.hooks.undo) = (FRESH, unknown());
    assert_eq!(comes(&facts, Hook::PreReboot).0, undone());
    facts.record.hold.as_mut().unwrap().hooked = true;
    assert_eq!(comes(&facts, Hook::PreReboot).0, Comes::Begun);
}

/// Who keeps the node drained reboots nothing.
#[test]
fn before_maintenance_no_hook_of_the_reboot_runs() {
    let mut facts = drained();
    facts.hooks.pre_reboot = FRESH;
    let mut request = request();
    request.latched.push(kept(Keeper::Person, false));
    facts.record.request = Some(request.clone());
    facts.observed.request = Some(request);
    assert_eq!(comes(&facts, Hook::PreReboot).0, Comes::GoesOn);
}

/// The slot of a hold that ends so, with nothing of it left on the Node.
fn giving_back(stage: Stage) -> Facts {
    let mut facts = about_to_reboot();
    facts.record.settled = Some(Settled::of(None, &boot("now"), NOW));
    let hold = facts.record.hold.as_mut().unwrap();
    (hold.stage, hold.hooked) = (stage, true);
    let point = Point::of(hold);
    facts.applied = Some(Applied { point, at: NOW });
    facts.waiters = Some(Waiters::listed(NOW, Vec::new()));
    let node = own(&mut facts);
    (node.unschedulable, node.labels) = (false, BTreeMap::new());
    node.cordon_owners.clear();
    node.annotations.clear();
    facts
}

#[test]
fn i3_i4_what_hooks_have_done_is_taken_back_before_the_lease() {
    let failed = || no(" failed: x");
    let times = |failures: u32, seconds: u64| {
        let mut stand = ended(failed(), seconds, 0);
        if let Stand::Some {
            last: Some(last), ..
        } = &mut stand
        {
            last.failures = failures;
        }
        stand
    };
    let unknown = || Stand::Unknown("denied".to_owned());
    let wait = Some(None);
    let until = |seconds| Some(Some(in_seconds(seconds)));
    // None: it is run; then until when it is waited.
    for (stand, waits, fails) in [
        (FRESH, None, false),
        (runs(FRESH), wait, false),
        (Stand::Unlooked, until(1), false),
        (unknown(), until(30), true),
        (runs(times(1, 40)), wait, true),
        (times(1, 29), until(1), true),
        (times(1, 30), None, true),
        (times(3, 119), until(1), true),
        (times(3, 120), None, true),
        (times(40, 1799), until(1), true),
        (times(40, 1800), None, true),
        (ended(no(" says not now: x"), 29, 0), until(1), true),
    ] {
        for (stage, other) in [
            (Stage::Undoing(Why::Withdrawn), Reason::Undoing),
            (Stage::Releasing, Reason::Releasing),
        ] {
            let mut facts = giving_back(stage.clone());
            facts.hooks.undo = stand.clone();
            facts.giving_back = Duration::from_secs(601);
            if stage == Stage::Releasing {
                facts.record.hold.as_mut().unwrap().boot = boot("before");
            }
            let step = decide(&facts, &policy(), now());
            assert_eq!(step.record, facts.record);
            match waits {
                None => assert_eq!(step.effect, Effect::Hooks(Hook::Undo), "{stand:?}"),
                Some(until) => {
                    assert_eq!(step.effect, Effect::Wait, "{stand:?}");
                    assert!(until.is_none() || until == step.wake, "{step:?}");
                }
            }
            // What fails is said as that, however long it takes.
            let late = if fails {
                Reason::UndoHookFailed
            } else {
                Reason::NotReleased
            };
            assert_eq!(step.reason, late, "{stand:?}");
            facts.giving_back = Duration::ZERO;
            let soon = if fails { Reason::UndoHookFailed } else { other };
            assert_eq!(decide(&facts, &policy(), now()).reason, soon);
            let said = waits::waits(&step, &facts, &policy());
            assert!(
                !fails || said.iter().all(|words| !words.ends_with('x')),
                "{said:?}"
            );
            // Nobody waits for what was not begun.
            facts.record.hold.as_mut().unwrap().hooked = false;
            let step = decide(&facts, &policy(), now());
            assert!(matches!(step.effect, Effect::GiveUp(_)), "{step:?}");
        }
    }
    for stand in [Stand::None, ended(Said::Well, 9, 0)] {
        let mut facts = giving_back(Stage::Undoing(Why::Withdrawn));
        facts.hooks.undo = stand;
        let mut step = decide(&facts, &policy(), now());
        if facts.hooks.undo != Stand::None {
            // Found by review: a daemon that was killed after it had given the slot up ran them beside the next holder.
            assert_eq!(step.effect, Effect::Wait);
            let mut hold = facts.record.hold.clone().unwrap();
            hold.hooked = false;
            assert_eq!(step.record.hold, Some(hold), "on disk before the slot goes");
            facts.record = step.record;
            facts.hooks.undo = Stand::Unlooked;
            step = decide(&facts, &policy(), now());
        }
        assert!(matches!(step.effect, Effect::GiveUp(_)), "{step:?}");
    }
}

/// The slot was taken away: what was done on the host, or elsewhere, is taken back all the same.
#[test]
fn i3_a_hold_whose_slot_is_gone_ends_when_its_hooks_are_taken_back() {
    let mut facts = giving_back(Stage::Undoing(Why::Lost));
    facts.leases.get_mut("default").unwrap().holder = None;
    facts.hooks.undo = FRESH;
    let step = decide(&facts, &policy(), now());
    assert_eq!(step.effect, Effect::Hooks(Hook::Undo));
    facts.hooks.undo = ended(Said::Well, 1, 0);
    facts.record = decide(&facts, &policy(), now()).record;
    facts.hooks.undo = Stand::Unlooked;
    assert_eq!(decide(&facts, &policy(), now()).record.hold, None);
}

/// Whoever finds a hold without the newest file does not know whether hooks have run in it.
#[test]
fn i3_i6_a_hold_that_is_found_elsewhere_than_in_the_file_may_have_run_hooks() {
    let start = |change: fn(&mut Facts)| {
        let mut facts = about_to_reboot();
        facts.started = false;
        change(&mut facts);
        let step = decide(&facts, &policy(), now());
        assert_eq!(step.effect, Effect::Begin, "{}", step.status);
        step.record.hold.unwrap().hooked
    };
    assert!(!start(|_| {}), "the file says that none has run");
    assert!(start(
        |facts| facts.record.hold.as_mut().unwrap().hooked = true
    ));
    assert!(
        start(|facts| facts.record = Record::default()),
        "the Node's record"
    );
    assert!(
        start(|facts| {
            facts.record = Record::default();
            own(facts).annotations.clear();
        }),
        "the Lease alone"
    );
    assert!(
        start(|facts| facts.record.hold.as_mut().unwrap().step = 1),
        "the Node's record is newer"
    );
}
