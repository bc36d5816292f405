//! A request by the Node annotation, and what is scheduled.

use super::*;

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
