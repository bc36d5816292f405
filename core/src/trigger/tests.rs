//! Tables and random runs of the triggers.

use proptest::prelude::*;

use jiff::Timestamp;

use super::request::digest;
use super::*;
use crate::booted::{Missed, Target};
use crate::history::Past;

mod annotation;
mod did_not_take;
mod soft_reboots;

fn boot(id: &str) -> Boot {
    Boot {
        id: id.to_owned(),
        userspace: 1,
    }
}

fn at(seconds: u64) -> Now {
    Now {
        wall: Timestamp::from_second(1_700_000_000 + seconds.cast_signed()).unwrap(),
        boot: Duration::from_secs(seconds),
    }
}

fn annotated(reason: &str) -> Wishes<'_> {
    Wishes {
        annotation: Asked::Yes(reason),
        scheduled: None,
        staged: None,
        client_gone: false,
        kinds: Kinds::default(),
    }
}

fn finding(verdict: Verdict) -> Finding {
    Finding {
        trigger: "check dnf".to_owned(),
        verdict,
        settle: Duration::ZERO,
        kind: None,
        mark: None,
    }
}

fn wants(pkg: &str) -> Finding {
    finding(Verdict::Reboot {
        pkgs: BTreeSet::from([pkg.to_owned()]),
        words: "words".to_owned(),
    })
}

fn unknown() -> Finding {
    finding(Verdict::Unknown {
        why: "timeout".to_owned(),
    })
}

/// One look in boot "b".
fn look(before: Observed, finding: &Finding, seconds: u64) -> Observed {
    let findings = std::slice::from_ref(finding);
    let (request, settled) = (before.request, before.settled);
    observe(
        request,
        settled,
        findings,
        Wishes::default(),
        &boot("b"),
        at(seconds),
    )
}

/// A reboot for `finding` that was proved at 0 s of boot "b".
fn rebooted(finding: &Finding) -> Observed {
    let request = look(Observed::default(), finding, 0).request;
    Observed {
        settled: Some(Settled::of(request.as_ref(), &boot("b"), Duration::ZERO)),
        ..Observed::default()
    }
}

#[test]
fn i8_unknown_neither_adds_nor_removes() {
    let first = look(Observed::default(), &unknown(), 1);
    assert_eq!(first.request, None);
    let named = ("check dnf".to_owned(), "timeout".to_owned());
    assert_eq!(first.unknown, [named]);
    let asked = look(Observed::default(), &wants("glibc"), 1);
    let after = look(asked.clone(), &unknown(), 2);
    assert_eq!(after.request, asked.request);
    assert_eq!(after.unknown, [], "what it said before counts");
    assert_eq!(look(after, &finding(Verdict::No), 3).request, None);
}

#[test]
fn i8_unknown_is_not_gone() {
    let hidden = look(rebooted(&wants("glibc")), &unknown(), 2000);
    let after = look(hidden, &wants("glibc"), 2001);
    assert_eq!((after.request, after.uncleared.len()), (None, 1));
}

#[test]
fn i10_there_again_within_15_minutes_must_go_once_more() {
    let no = finding(Verdict::No);
    let back = look(
        look(rebooted(&wants("glibc")), &no, 10),
        &wants("glibc"),
        899,
    );
    assert_eq!((&back.request, back.uncleared.len()), (&None, 1));
    let still = look(back, &wants("glibc"), 5000);
    assert_eq!((&still.request, still.uncleared.len()), (&None, 1));
    let again = look(look(still, &no, 5001), &wants("glibc"), 5002);
    assert!(again.request.is_some() && again.uncleared.is_empty());
}

#[test]
fn i10_gone_and_15_minutes_over_is_a_new_request() {
    let gone = look(rebooted(&wants("glibc")), &finding(Verdict::No), 10);
    assert!(look(gone, &wants("glibc"), 900).request.is_some());
}

#[test]
fn i10_other_packages_are_a_new_reason_at_once() {
    let after = look(rebooted(&wants("glibc")), &wants("kernel"), 1);
    assert!(after.request.is_some() && after.uncleared.is_empty());
}

/// Packages are added, a process ends: the wish is the same, and has settled as long as before.
#[test]
fn a_changed_package_list_does_not_restart_settling() {
    let asked = look(Observed::default(), &wants("glibc"), 10);
    let changed = look(asked, &wants("kernel"), 500).request.unwrap();
    let [reason] = changed.reasons.as_slice() else {
        panic!("{changed:?}");
    };
    assert_eq!(reason.since_boot, Duration::from_secs(10));
    assert_eq!(reason.since, at(10).wall);
    assert_eq!(reason.pkgs, BTreeSet::from(["kernel".to_owned()]));
}

/// A second update comes while the host waits for the reboot of the first.
#[test]
fn it_is_known_when_each_package_was_first_seen() {
    let both = |two: &str| Finding {
        verdict: Verdict::Reboot {
            pkgs: ["glibc", two].map(str::to_owned).into(),
            words: String::new(),
        },
        ..wants("glibc")
    };
    let first = look(Observed::default(), &wants("glibc"), 10);
    let second = look(first, &both("kernel"), 50);
    let third = look(second, &both("kernel"), 90);
    let request = third.request.clone().expect("it asks");
    let later = BTreeMap::from([("kernel".to_owned(), at(50).wall)]);
    assert_eq!(request.reasons[0].later, later);
    assert_eq!(request.reasons[0].since, at(10).wall);
    assert_eq!(Past::of(Some(&request), at(100).wall).later, later);
    // It is not asked for any more.
    let other = look(third, &both("dbus"), 120).request.expect("it asks");
    assert_eq!(
        other.reasons[0].later,
        BTreeMap::from([("dbus".to_owned(), at(120).wall)])
    );
    // Of a list that is known by its hash nobody can tell what is new.
    let mut short = request;
    short.reasons[0].pkgs = BTreeSet::from([digest(&short.reasons[0].pkgs)]);
    short.shorten();
    assert_eq!(short.reasons[0].later, BTreeMap::new());
    let after = look(
        Observed {
            request: Some(short),
            ..Observed::default()
        },
        &both("dbus"),
        150,
    );
    assert_eq!(
        after.request.expect("it asks").reasons[0].later,
        BTreeMap::new()
    );
}

#[test]
fn the_packages_of_a_request_are_kept_in_the_history() {
    let asked = look(Observed::default(), &wants("glibc"), 10).request;
    let past = Past::of(asked.as_ref(), at(20).wall);
    assert_eq!(past.packages, ["glibc"]);
    let many: Vec<String> = (0..25).map(|n| format!("package-{n:02}")).collect();
    let mut asked = asked.unwrap();
    asked.reasons[0].pkgs = many.iter().cloned().collect();
    let past = Past::of(Some(&asked), at(20).wall);
    assert_eq!(past.packages[..20], many[..20]);
    assert_eq!(past.packages.len(), 21, "{past:?}");
    assert!(
        past.packages[20].contains('5'),
        "and how many more: {past:?}"
    );
}

#[test]
fn i10_in_another_boot_only_the_15_minutes_are_over() {
    let Observed { settled, .. } = rebooted(&wants("glibc"));
    let look = |settled, finding: Finding| {
        observe(
            None,
            settled,
            &[finding],
            Wishes::default(),
            &boot("c"),
            at(1),
        )
    };
    assert_eq!(look(settled.clone(), wants("glibc")).request, None);
    let gone = look(settled, finding(Verdict::No)).settled;
    assert!(look(gone, wants("glibc")).request.is_some());
}

#[test]
fn since_never_lies_ahead_after_a_boot() {
    let asked = look(Observed::default(), &wants("glibc"), 9000);
    let after = look(asked, &wants("glibc"), 5).request.unwrap();
    assert_eq!(after.reasons[0].since_boot, Duration::from_secs(5));
}

#[test]
fn what_has_gone_and_cannot_come_back_is_forgotten() {
    let proved = rebooted(&wants("glibc"));
    for (seconds, left) in [(10, 1), (899, 1), (900, 0)] {
        let gone = look(proved.clone(), &finding(Verdict::No), seconds);
        assert_eq!(gone.settled.unwrap().reasons.len(), left, "{seconds}");
    }
    let there = look(proved, &wants("glibc"), 5000);
    assert_eq!(there.settled.unwrap().reasons.len(), 1);
}

/// Or the record would be written each time a check counts something.
#[test]
fn other_words_for_the_same_packages_are_the_same_reason() {
    let said = |pkg: &str, words: &str| {
        finding(Verdict::Reboot {
            pkgs: BTreeSet::from([pkg.to_owned()]),
            words: words.to_owned(),
        })
    };
    let asked = look(Observed::default(), &said("glibc", "3 processes"), 1);
    let same = look(asked.clone(), &said("glibc", "2 processes"), 2);
    assert_eq!(same.request, asked.request);
    let changed = look(same, &said("kernel", "1 process"), 3).request.unwrap();
    assert_eq!(changed.reasons[0].words, "1 process");
}

#[test]
fn a_request_on_the_node_is_bounded() {
    let reason = |trigger: String, pkgs: BTreeSet<String>| Reason {
        trigger,
        pkgs,
        words: String::new(),
        since: at(0).wall,
        since_boot: at(0).boot,
        later: BTreeMap::new(),
        kind: Kind::Reboot,
        mark: None,
    };
    let shortened = |reasons: Vec<Reason>| {
        let mut request = Request {
            reasons,
            ..request_by(BY_PERSON, "")
        };
        request.shorten();
        request.reasons
    };
    for (bytes, kept) in [(10, 16), (255, 16), (256, 8), (600, 5)] {
        let name = |n: usize| format!("{n:0>bytes$}");
        let all = (0..30).map(|n| reason(name(n), BTreeSet::new())).collect();
        assert_eq!(shortened(all).len(), kept, "{bytes}");
    }
    // A list stays as it is up to 200 bytes of JSON, its first bracket not counted.
    for (bytes, kept) in [(200, true), (201, false)] {
        let pkgs = BTreeSet::from(["a".repeat(97), "b".repeat(bytes - 100 - 3)]);
        let json = serde_json::to_string(&pkgs).unwrap();
        assert_eq!(json.len(), bytes + 1);
        let short = shortened(vec![reason("check".to_owned(), pkgs.clone())]);
        assert_eq!(short[0].pkgs == pkgs, kept, "{bytes}");
    }
}

#[test]
fn a_request_survives_the_state_file() {
    let request = look(Observed::default(), &wants("glibc"), 1).request;
    let text = serde_json::to_string(&request).unwrap();
    assert_eq!(
        serde_json::from_str::<Option<Request>>(&text).unwrap(),
        request
    );
}

proptest! {
    #[test]
    fn i10_what_never_left_never_asks_twice(looks in proptest::collection::vec((any::<bool>(), 0..3000_u64), 1..40)) {
        let mut observed = rebooted(&wants("glibc"));
        let mut seconds = 0;
        for (known, step) in looks {
            seconds += step;
            let finding = if known { wants("glibc") } else { unknown() };
            observed = look(observed, &finding, seconds);
            prop_assert_eq!(&observed.request, &None);
        }
    }
}

/// Found by reading: another reboot forgot what the one before had not cleared, and that asked for one more.
#[test]
fn i10_what_was_not_cleared_is_not_cleared_by_another_reboot() {
    let served = request_by(BY_ANNOTATION, "firmware");
    let first = Settled::of(Some(&served), &boot("b"), Duration::from_secs(100));
    let other = Request {
        latched: Vec::new(),
        reasons: vec![Reason {
            trigger: "/run/s".to_owned(),
            pkgs: BTreeSet::new(),
            words: String::new(),
            since: at(0).wall,
            since_boot: at(0).boot,
            later: BTreeMap::new(),
            kind: Kind::Reboot,
            mark: None,
        }],
        ..served
    };
    for gone in [false, true] {
        let mut first = first.clone();
        first.reasons.get_mut(BY_ANNOTATION).unwrap().gone = gone;
        let second = Settled::of(Some(&other), &boot("c"), Duration::from_secs(100));
        let second = second.after(Some(first));
        assert!(second.reasons.contains_key("/run/s") && second.annotation.is_none());
        let wishes = Wishes {
            annotation: Asked::Yes("firmware"),
            scheduled: None,
            staged: None,
            client_gone: false,
            kinds: Kinds::default(),
        };
        let seen = observe(None, Some(second), &[], wishes, &boot("c"), at(5_000));
        assert_eq!(seen.request.is_some(), gone);
    }
}

/// Found by reading: two triggers that jobs of each boot set, after the proof, made each other ask again for ever.
#[test]
fn i10_triggers_that_come_late_in_each_boot_make_no_loop() {
    let wants = |trigger: &str, verdict: &Verdict| Finding {
        trigger: trigger.to_owned(),
        ..finding(verdict.clone())
    };
    let (yes, no) = (
        Verdict::Reboot {
            pkgs: BTreeSet::new(),
            words: String::new(),
        },
        Verdict::No,
    );
    let both = |x: &Verdict, y: &Verdict| [wants("/run/x", x), wants("/run/y", y)];
    let look = |settled, findings: &[Finding], of: &str, second| {
        observe(
            None,
            settled,
            findings,
            Wishes::default(),
            &boot(of),
            at(second),
        )
    };
    // X was settled and is not cleared; Y asks in the same boot.
    let x = look(None, &both(&yes, &no), "a", 1).request;
    let settled = Settled::of(x.as_ref(), &boot("a"), Duration::from_secs(100));
    let seen = look(Some(settled), &both(&yes, &yes), "a", 2_000);
    let (y, settled) = (seen.request, seen.settled);
    assert_eq!(y.as_ref().map(|request| request.reasons.len()), Some(1));
    // The next boot: neither is there when it is proved, both come after it.
    look(settled.clone(), &both(&no, &no), "b", 50);
    let settled = Settled::of(y.as_ref(), &boot("b"), Duration::from_secs(100)).after(settled);
    let settled = look(Some(settled), &both(&no, &no), "b", 101).settled;
    let seen = look(settled, &both(&yes, &yes), "b", 400);
    assert_eq!(seen.request, None);
    assert_eq!(seen.uncleared.len(), 2);
}

fn request_by(by: &str, reason: &str) -> Request {
    Request {
        since: at(0).wall,
        reasons: Vec::new(),
        latched: vec![Latched {
            by: by.to_owned(),
            reason: reason.to_owned(),
            at: at(0).wall,
            boot: None,
            ended: false,
            kind: Kind::Reboot,
        }],
    }
}

#[test]
fn i10_a_long_list_of_packages_compares_by_its_hash() {
    let pkgs = |from: usize| -> BTreeSet<String> {
        (from..from + 2_000)
            .map(|n| format!("package-{n}-1.2.3-4.x86_64"))
            .collect()
    };
    let wants = |pkgs: BTreeSet<String>| {
        finding(Verdict::Reboot {
            pkgs,
            words: "w".repeat(9_000),
        })
    };
    let mut request = observe(
        None,
        None,
        &[wants(pkgs(0))],
        Wishes::default(),
        &boot("b"),
        at(1),
    )
    .request
    .unwrap();
    request.shorten();
    assert!(serde_json::to_string(&request).unwrap().len() < 1_000);
    let settled = Settled::of(Some(&request), &boot("b"), Duration::from_secs(5));
    let look = |pkgs| {
        let settled = Some(settled.clone());
        observe(
            None,
            settled,
            &[wants(pkgs)],
            Wishes::default(),
            &boot("b"),
            at(9),
        )
        .request
    };
    assert_eq!(look(pkgs(0)), None, "the same reason");
    assert!(look(pkgs(1)).is_some(), "another one");
}
