//! Tables and random runs of the triggers.

use proptest::prelude::*;

use super::*;
use crate::booted::{Missed, Target};
use crate::history::Past;

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
fn an_annotation_is_latched_beside_others() {
    let by = |by: &str| Latched {
        by: by.to_owned(),
        reason: "please".to_owned(),
        at: at(1).wall,
        boot: None,
        ended: false,
        kind: Kind::Reboot,
    };
    let request = Request {
        since: at(1).wall,
        reasons: Vec::new(),
        latched: vec![by(BY_PERSON)],
    };
    assert!(!Past::of(Some(&request), at(1).wall).automatic);
    let first = observe(
        Some(request),
        None,
        &[],
        annotated("please"),
        &boot("b"),
        at(1),
    )
    .request;
    let after = observe(first, None, &[], Wishes::default(), &boot("b"), at(2)).request;
    let latched = after.map(|request| request.latched);
    assert_eq!(latched, Some(vec![by(BY_PERSON), by(BY_ANNOTATION)]));
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

/// Any reboot is the one that somebody scheduled.
#[test]
fn what_was_scheduled_is_a_wish_of_its_boot() {
    let scheduled = Wishes {
        annotation: Asked::No,
        scheduled: Some("a reboot"),
        staged: None,
        client_gone: false,
        kinds: Kinds::default(),
    };
    let asked = observe(None, None, &[], scheduled, &boot("b"), at(1)).request;
    let after = |of: &str| {
        let wishes = Wishes {
            annotation: Asked::No,
            scheduled: None,
            staged: None,
            client_gone: false,
            kinds: Kinds::default(),
        };
        observe(asked.clone(), None, &[], wishes, &boot(of), at(2)).request
    };
    assert!(asked.is_some());
    assert_eq!(after("b"), asked);
    assert_eq!(after("c"), None);
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

/// Once: a request by the Node annotation stayed for ever although the annotation was taken away.
#[test]
fn an_annotation_is_a_request_as_long_as_it_stands() {
    let look = |request, annotation, seconds| {
        let wishes = Wishes {
            annotation,
            scheduled: None,
            staged: None,
            client_gone: false,
            kinds: Kinds::default(),
        };
        observe(request, None, &[], wishes, &boot("b"), at(seconds)).request
    };
    let asked = look(None, Asked::Yes("firmware"), 1);
    let words = |request: &Option<Request>| request.as_ref().map(|it| it.latched[0].reason.clone());
    assert_eq!(words(&asked).as_deref(), Some("firmware"));
    // Not known is not gone.
    let asked = look(asked, Asked::Unknown, 2);
    assert_eq!(words(&asked).as_deref(), Some("firmware"));
    let asked = look(asked, Asked::Yes("more of it"), 3);
    assert_eq!(words(&asked).as_deref(), Some("more of it"));
    assert_eq!(look(asked, Asked::No, 4), None);
}

/// Found by reading: a tool that owns the annotations of its Nodes set it again after each reboot, and the host rebooted
/// twice a day for ever.
#[test]
fn i10_an_annotation_that_is_set_again_at_once_is_not_cleared() {
    let served = request_by(BY_ANNOTATION, "firmware");
    let proved = Settled::of(Some(&served), &boot("b"), Duration::from_secs(100));
    // (text, at second): a request or not, one after another.
    let rows: [(Option<&str>, u64, bool); 9] = [
        (None, 101, false),
        (Some("firmware"), 102, false),
        (Some("firmware"), 100 + 3600, false),
        (Some("more of it"), 100 + 3601, true),
        // What the last reboot was for is forgotten by then.
        (Some("firmware"), 100 + 3602, true),
        (None, 100 + 3603, false),
        (Some("firmware"), 100 + 3604, true),
        (None, 100 + 3605, false),
        (None, 100 + 3606, false),
    ];
    let mut settled = Some(proved.clone());
    for (annotation, second, wanted) in rows {
        let wishes = Wishes {
            annotation: annotation.map_or(Asked::No, Asked::Yes),
            scheduled: None,
            staged: None,
            client_gone: false,
            kinds: Kinds::default(),
        };
        let seen = observe(None, settled, &[], wishes, &boot("b"), at(second));
        assert_eq!(seen.request.is_some(), wanted, "{annotation:?} {second}");
        let told = annotation.is_some() && !wanted;
        assert_eq!(!seen.uncleared.is_empty(), told, "{annotation:?} {second}");
        settled = seen.settled;
    }
    // Gone within the 15 minutes, and set again after them: a person's new wish.
    let seen = |annotation, settled, second| {
        let wishes = Wishes {
            annotation,
            scheduled: None,
            staged: None,
            client_gone: false,
            kinds: Kinds::default(),
        };
        observe(None, settled, &[], wishes, &boot("b"), at(second))
    };
    let gone = seen(Asked::No, Some(proved.clone()), 102).settled;
    assert!(
        seen(Asked::Yes("firmware"), gone, 100 + 901)
            .request
            .is_some()
    );
    // Gone for once after the 15 minutes, it asks again.
    let mut settled = Some(proved);
    for (annotation, second, wanted) in [
        (Asked::Yes("firmware"), 102, false),
        (Asked::No, 100 + 901, false),
        (Asked::Yes("firmware"), 100 + 902, true),
    ] {
        let wishes = Wishes {
            annotation,
            scheduled: None,
            staged: None,
            client_gone: false,
            kinds: Kinds::default(),
        };
        let seen = observe(None, settled, &[], wishes, &boot("b"), at(second));
        assert_eq!(seen.request.is_some(), wanted, "{second}");
        settled = seen.settled;
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

/// What the boot of [`rebooted`] was to bring and did not.
fn missed(finding: &Finding, target: Target) -> Observed {
    let mut before = rebooted(finding);
    before.settled.as_mut().unwrap().did_not_take(&Missed {
        target: Some(target),
        words: "the same came again".to_owned(),
    });
    before
}

/// The same, while this deployment is staged.
fn look_staged(before: Observed, finding: &Finding, staged: &str, seconds: u64) -> Observed {
    let wishes = Wishes {
        staged: Some(staged).filter(|staged| !staged.is_empty()),
        ..Wishes::default()
    };
    let (request, settled) = (before.request, before.settled);
    let findings = std::slice::from_ref(finding);
    observe(request, settled, findings, wishes, &boot("b"), at(seconds))
}

/// However long it was silent: a kernel that did not come up is not tried again, another one is.
#[test]
fn i10_a_kernel_that_did_not_take_is_asked_for_again_only_by_another_name() {
    let kernel = |pkgs: &str| Finding {
        trigger: Builtin::Kernel.trigger(),
        ..wants(pkgs)
    };
    let no = Finding {
        verdict: Verdict::No,
        ..kernel("")
    };
    let first = missed(&kernel("6.1.0-29"), Target::Kernel);
    let silent = look(look(first, &no, 10), &no, 90_000);
    let again = look(silent, &kernel("6.1.0-29"), 90_001);
    assert_eq!((&again.request, again.uncleared.len()), (&None, 1));
    let other = look(look(again, &no, 90_010), &kernel("6.1.0-30"), 90_011);
    assert!(other.request.is_some() && other.uncleared.is_empty());
}

/// Checks of ostree name no packages, and never rest while the deployment is the next one to boot.
#[test]
fn i10_a_deployment_that_did_not_take_is_not_tried_again_until_another_is_staged() {
    let asks = wants("");
    let no = finding(Verdict::No);
    let first = || missed(&asks, Target::Deployment("bbb".to_owned()));
    let rows = [
        ("the same, at once", first(), "bbb.0", 10, false),
        ("the same, staged anew", first(), "bbb.1", 90_000, false),
        (
            "the same, after a silence",
            look_staged(first(), &no, "", 10),
            "bbb.0",
            90_000,
            false,
        ),
        ("another, at once", first(), "ccc.0", 10, true),
        (
            "nothing that is known, and never silent",
            first(),
            "",
            90_000,
            false,
        ),
        (
            "nothing that is known, after a silence",
            look_staged(first(), &no, "", 10),
            "",
            90_000,
            true,
        ),
    ];
    for (what, before, staged, seconds, asked) in rows {
        let after = look_staged(before, &asks, staged, seconds);
        assert_eq!(after.request.is_some(), asked, "{what}");
        assert_eq!(after.uncleared.is_empty(), asked, "{what}");
    }
}

/// A person's reboot for another reason does not forget it, nor does a restart.
#[test]
fn i10_what_did_not_take_is_remembered_over_later_reboots() {
    let asks = wants("");
    let settled = missed(&asks, Target::Deployment("bbb".to_owned())).settled;
    let gone = look(
        Observed {
            settled,
            ..Observed::default()
        },
        &finding(Verdict::No),
        10,
    );
    let later = Settled::of(None, &boot("b"), Duration::ZERO).after(gone.settled);
    assert_eq!(later.missed, None, "this boot missed nothing");
    let text = serde_json::to_string(&later).unwrap();
    let settled = Some(serde_json::from_str(&text).unwrap());
    let before = Observed {
        settled,
        ..Observed::default()
    };
    let after = look_staged(before, &asks, "bbb.2", 90_000);
    assert_eq!((&after.request, after.uncleared.len()), (&None, 1));
}

/// Who writes the annotation is a person, and may try again.
#[test]
fn a_person_may_ask_again_for_what_did_not_take() {
    let request = Request {
        since: at(0).wall,
        reasons: Vec::new(),
        latched: vec![Latched {
            by: BY_ANNOTATION.to_owned(),
            reason: "update".to_owned(),
            at: at(0).wall,
            boot: None,
            ended: false,
            kind: Kind::Reboot,
        }],
    };
    let mut settled = Settled::of(Some(&request), &boot("b"), Duration::ZERO);
    settled.did_not_take(&Missed {
        target: Some(Target::Deployment("bbb".to_owned())),
        words: String::new(),
    });
    let look = |settled, annotation, second| {
        let wishes = Wishes {
            annotation,
            staged: Some("bbb.0"),
            ..Wishes::default()
        };
        observe(None, settled, &[], wishes, &boot("b"), at(second))
    };
    let gone = look(Some(settled), Asked::No, 1);
    let again = look(gone.settled, Asked::Yes("update"), 1000);
    assert!(again.request.is_some());
}

mod soft_reboots;
