//! What a reboot did not bring is asked for again only once something changes (I10).

use super::*;

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
