//! Which kind of reboot what asks is served by, and what a soft-reboot settles, which leaves /run as it is (I8, I10).

use super::*;
use crate::fleet_lock;
use crate::kind::{Kind, Kinds};

const FILE: &str = "sentinel /run/reboot-needed";
/// The file of before, and one that was written later.
const OLD: &str = "1:7:100.0";
const NEW: &str = "1:7:900.0";

fn soft_by_default() -> Kinds {
    Kinds {
        unnamed: Kind::SoftReboot,
        ..Kinds::default()
    }
}

/// A sentinel with this content.
fn file(kind: Option<Kind>, mark: &str) -> Finding {
    let verdict = Verdict::Reboot {
        pkgs: BTreeSet::new(),
        words: String::new(),
    };
    Finding {
        kind,
        mark: Some(mark.to_owned()),
        ..Finding::new(FILE, verdict, Duration::ZERO)
    }
}

fn no() -> Finding {
    Finding::new(FILE, Verdict::No, Duration::ZERO)
}

/// A userspace of the boot `id`.
fn of(id: &str, userspace: u64) -> Boot {
    Boot {
        id: id.to_owned(),
        userspace,
    }
}

fn seen(before: Observed, findings: &[Finding], kinds: Kinds, seconds: u64) -> Observed {
    let wishes = Wishes {
        kinds,
        ..Wishes::default()
    };
    let (request, settled) = (before.request, before.settled);
    observe(request, settled, findings, wishes, &of("b", 2), at(seconds))
}

/// A soft-reboot for `finding` that was proved at 0 s of this userspace.
fn soft_rebooted(finding: &Finding, kinds: Kinds) -> Observed {
    let findings = std::slice::from_ref(finding);
    let request = seen(Observed::default(), findings, kinds, 0).request;
    let (served, left) = request.expect("it asks").served_by(Kind::SoftReboot);
    assert_eq!(left, None);
    let settled = Settled::by(
        Kind::SoftReboot,
        served.as_ref(),
        &of("b", 2),
        Duration::ZERO,
    );
    Observed {
        settled: Some(settled),
        ..Observed::default()
    }
}

fn kind(observed: &Observed) -> Option<Kind> {
    observed.request.as_ref().map(Request::kind)
}

/// /run survives a soft-reboot, and the sentinel in it: for ever it would ask again, or be told as not cleared.
#[test]
fn i10_the_file_that_survives_a_soft_reboot_asks_for_no_second_one() {
    for (named, kinds) in [
        (Some(Kind::SoftReboot), soft_by_default()),
        (None, soft_by_default()),
    ] {
        let old = file(named, OLD);
        let mut after = soft_rebooted(&old, kinds);
        for seconds in [0, 100, 1000, 100_000] {
            after = seen(after, std::slice::from_ref(&old), kinds, seconds);
            assert_eq!(after.request, None, "{seconds}");
            assert_eq!(after.uncleared, [], "it is served, and no trouble");
        }
        // Also where it could not be read in between.
        let why = "timeout".to_owned();
        let unknown = Finding::new(FILE, Verdict::Unknown { why }, Duration::ZERO);
        let hidden = seen(after, &[unknown], kinds, 100_001);
        assert_eq!(seen(hidden, &[old], kinds, 100_002).request, None);
    }
}

/// Not every writer touches a file that says it already: a later update would never be served. So it is only where
/// `reboot.kind` says so as well that a file gets a soft-reboot.
#[test]
fn i8_a_file_that_names_a_soft_reboot_gets_a_full_one_by_default() {
    let named = file(Some(Kind::SoftReboot), OLD);
    let named = std::slice::from_ref(&named);
    let asks = seen(Observed::default(), named, Kinds::default(), 1);
    assert_eq!(kind(&asks), Some(Kind::Reboot));
    let words = &asks.request.as_ref().expect("it asks").reasons[0].words;
    assert!(words.ends_with("; a full reboot does it"), "{words}");
    // A person's soft-reboot does not serve it.
    let (served, left) = asks.request.expect("it asks").served_by(Kind::SoftReboot);
    assert!(served.is_none() && left.is_some());
}

/// Found by review: with a weaker word, or fewer packages, in the same file the full reboot was lost.
#[test]
fn i8_what_has_wanted_a_full_reboot_wants_it_as_long_as_it_asks() {
    let kinds = soft_by_default();
    let full = seen(
        Observed::default(),
        &[file(Some(Kind::Reboot), OLD)],
        kinds,
        1,
    );
    let soft = file(Some(Kind::SoftReboot), NEW);
    let weaker = seen(full, std::slice::from_ref(&soft), kinds, 2);
    assert_eq!(kind(&weaker), Some(Kind::Reboot));
    assert_eq!(weaker.request.as_ref().unwrap().reasons[0].mark, None);
    let gone = seen(weaker, &[no()], kinds, 3);
    assert_eq!(kind(&seen(gone, &[soft], kinds, 4)), Some(Kind::SoftReboot));
}

/// An update that comes later writes the file anew, with the same word in it.
#[test]
fn i10_a_file_that_is_written_anew_is_a_new_request() {
    let named = Some(Kind::SoftReboot);
    let kinds = soft_by_default();
    let look = |before, mark, seconds| seen(before, &[file(named, mark)], kinds, seconds);
    let proved = || look(soft_rebooted(&file(named, OLD), kinds), OLD, 10);
    let again = look(proved(), NEW, 901);
    assert_eq!(kind(&again), Some(Kind::SoftReboot));
    // Within 15 minutes it may be a job of the boot: it must be written once more, or go.
    let early = look(proved(), NEW, 300);
    assert_eq!((kind(&early), early.uncleared.len()), (None, 1));
    let still = look(early, NEW, 5000);
    assert_eq!((kind(&still), still.uncleared.len()), (None, 1));
    let later = look(still.clone(), "1:7:5001.0", 5001);
    assert_eq!(kind(&later), Some(Kind::SoftReboot));
    let gone = seen(still, &[no()], kinds, 5001);
    assert_eq!(kind(&look(gone, NEW, 5002)), Some(Kind::SoftReboot));
}

/// zypp has found since that a kernel is among it.
#[test]
fn a_soft_reboot_has_not_served_what_wants_a_full_one() {
    for (before, after) in [
        (
            file(Some(Kind::SoftReboot), OLD),
            file(Some(Kind::Reboot), NEW),
        ),
        (
            file(Some(Kind::SoftReboot), OLD),
            file(Some(Kind::Reboot), OLD),
        ),
        // The configuration says now that it is no soft one.
        (file(None, OLD), file(None, OLD)),
    ] {
        let proved = soft_rebooted(&before, soft_by_default());
        let asks = seen(proved, &[after], Kinds::default(), 5);
        assert_eq!(kind(&asks), Some(Kind::Reboot));
        let request = asks.request.clone().expect("it asks");
        assert_eq!(request.reasons[0].mark, None);
        // After the full one it is served for good.
        let settled = Settled::of(asks.request.as_ref(), &of("c", 2), Duration::ZERO);
        let full = Observed {
            settled: Some(settled.after(asks.settled)),
            ..Observed::default()
        };
        let left = seen(full, &[file(Some(Kind::Reboot), OLD)], Kinds::default(), 5);
        assert_eq!((kind(&left), left.uncleared.len()), (None, 1));
    }
}

/// What a check means nobody knows: where it asks on after the soft-reboot, it needs the full one. Once.
#[test]
fn i8_i10_what_a_soft_reboot_did_not_clear_gets_a_full_one_and_no_more() {
    let kinds = soft_by_default();
    let check = wants("glibc");
    let proved = soft_rebooted(&check, kinds);
    let mut asks = seen(proved, std::slice::from_ref(&check), kinds, 1);
    for seconds in [2, 1000, 100_000] {
        assert_eq!(kind(&asks), Some(Kind::Reboot), "{seconds}");
        assert_eq!(asks.uncleared, []);
        asks = seen(asks, std::slice::from_ref(&check), kinds, seconds);
    }
    let settled = Settled::of(asks.request.as_ref(), &of("c", 2), Duration::ZERO);
    let settled = Some(settled.after(asks.settled));
    let full = Observed {
        settled,
        ..Observed::default()
    };
    let left = seen(full, std::slice::from_ref(&check), kinds, 5);
    assert_eq!((kind(&left), left.uncleared.len()), (None, 1));
    // One that it did clear, and that comes again much later, is a soft one again.
    let gone = seen(
        soft_rebooted(&check, kinds),
        &[finding(Verdict::No)],
        kinds,
        10,
    );
    let again = seen(gone, &[check], kinds, 2000);
    assert_eq!(kind(&again), Some(Kind::SoftReboot));
}

/// A job that writes the file in each userspace: of one that names no kind that says that it was not cleared.
#[test]
fn i10_a_job_that_writes_the_file_at_each_start_makes_no_loop() {
    let kinds = soft_by_default();
    for (named, escalates) in [(Some(Kind::SoftReboot), false), (None, true)] {
        let proved = soft_rebooted(&file(named, OLD), kinds);
        let mut after = proved;
        for seconds in [20, 40, 5000] {
            after = seen(after, &[file(named, NEW)], kinds, seconds);
            assert_eq!(kind(&after), escalates.then_some(Kind::Reboot));
            assert_eq!(after.uncleared.len(), usize::from(!escalates));
        }
    }
}

#[test]
fn the_strongest_kind_is_asked_for() {
    let soft = file(Some(Kind::SoftReboot), OLD);
    let kernel = Finding {
        trigger: Builtin::Kernel.trigger(),
        ..wants("6.9")
    };
    let asks = |findings: &[Finding]| {
        let observed = seen(Observed::default(), findings, soft_by_default(), 1);
        kind(&observed)
    };
    assert_eq!(asks(std::slice::from_ref(&soft)), Some(Kind::SoftReboot));
    assert_eq!(asks(&[kernel.clone(), soft.clone()]), Some(Kind::Reboot));
    assert_eq!(asks(&[soft, kernel]), Some(Kind::Reboot));
}

fn wish(by: &str, kind: Kind, boot: Option<Boot>) -> Latched {
    Latched {
        by: by.to_owned(),
        reason: "please".to_owned(),
        at: at(1).wall,
        boot,
        ended: false,
        kind,
    }
}

/// "Any reboot is the one that was meant" is true of one that is as strong.
#[test]
fn a_wish_for_a_full_reboot_outlives_a_soft_one() {
    let before = of("b", 1);
    for (by, asked, now, lasts) in [
        (BY_PERSON, Kind::Reboot, of("b", 1), true),
        (BY_PERSON, Kind::Reboot, of("b", 2), true),
        (BY_PERSON, Kind::Reboot, of("c", 1), false),
        (BY_PERSON, Kind::SoftReboot, of("b", 1), true),
        (BY_PERSON, Kind::SoftReboot, of("b", 2), false),
        (BY_PERSON, Kind::SoftReboot, of("c", 1), false),
        (BY_SCHEDULE, Kind::Reboot, of("b", 2), true),
        // Its own updater knows what it has done, and asks again.
        (fleet_lock::BY, Kind::Reboot, of("b", 2), false),
    ] {
        let request = Request {
            since: at(1).wall,
            reasons: Vec::new(),
            latched: vec![wish(by, asked, Some(before.clone()))],
        };
        let after = observe(Some(request), None, &[], Wishes::default(), &now, at(2));
        assert_eq!(after.request.is_some(), lasts, "{by} {asked:?} {now:?}");
    }
}

/// Found by thinking it through: the wish of a schedule that a soft-reboot did not serve kept the boot of before, so that the
/// next schedule was never cancelled, and went around slot and drain.
#[test]
fn i2_a_schedule_is_taken_over_for_this_boot_also_where_a_soft_reboot_came_between() {
    let request = Request {
        since: at(1).wall,
        reasons: Vec::new(),
        latched: vec![wish(BY_SCHEDULE, Kind::Reboot, Some(of("b", 1)))],
    };
    let wishes = Wishes {
        scheduled: Some("a reboot scheduled"),
        ..Wishes::default()
    };
    let after = observe(Some(request), None, &[], wishes, &of("b", 2), at(2));
    let latched = after.request.expect("it asks").latched;
    assert_eq!(latched[0].boot, Some(of("b", 2)));
}

#[test]
fn the_same_annotation_after_a_soft_reboot_is_a_loop() {
    let kinds = soft_by_default();
    let wishes = || Wishes {
        kinds,
        ..annotated("patch day")
    };
    let boot = of("b", 2);
    let request = observe(None, None, &[], wishes(), &boot, at(0)).request;
    assert_eq!(request.as_ref().map(Request::kind), Some(Kind::SoftReboot));
    let settled = Settled::by(Kind::SoftReboot, request.as_ref(), &boot, Duration::ZERO);
    let again = observe(None, Some(settled), &[], wishes(), &boot, at(20));
    assert_eq!((again.request, again.uncleared.len()), (None, 1));
}

fn kinds() -> impl Strategy<Value = Kind> {
    prop_oneof![Just(Kind::Reboot), Just(Kind::SoftReboot)]
}

prop_compose! {
    fn any_request()(reasons in prop::collection::vec(kinds(), 0..4),
                     wishes in prop::collection::vec((kinds(), 0usize..4), 0..4)) -> Request {
        let who = [BY_PERSON, BY_ANNOTATION, fleet_lock::BY, "kube-rebootd drain"];
        let reason = |(n, kind): (usize, Kind)| Reason {
            trigger: format!("check {n}"),
            pkgs: BTreeSet::new(),
            words: String::new(),
            since: at(1).wall,
            since_boot: Duration::ZERO,
            later: BTreeMap::new(),
            kind,
            mark: None,
        };
        Request {
            since: at(1).wall,
            reasons: reasons.into_iter().enumerate().map(reason).collect(),
            latched: wishes.into_iter().map(|(kind, by)| wish(who[by], kind, None)).collect(),
        }
    }
}

proptest! {
    /// A full reboot serves all; a soft one nothing that wants a full one; and nothing is lost between the two.
    #[test]
    fn a_full_reason_is_never_served_by_a_soft_one(request in any_request()) {
        let count = |it: &Option<Request>| it.as_ref().map_or(0, |it| it.reasons.len() + it.latched.len());
        let (all, none) = request.clone().served_by(Kind::Reboot);
        prop_assert_eq!(&none, &None);
        prop_assert_eq!(count(&all), count(&Some(request.clone())));
        let (served, left) = request.clone().served_by(Kind::SoftReboot);
        prop_assert_eq!(count(&served) + count(&left), count(&Some(request.clone())));
        if let Some(served) = &served {
            prop_assert!(served.reasons.iter().all(|reason| reason.kind.soft()));
        }
        // What is asked for is strong enough for each.
        let wants = request.kind();
        prop_assert!(request.reasons.iter().all(|reason| reason.kind <= wants));
        if wants.soft() {
            prop_assert_eq!(&left, &None);
        }
        let both = Request::with(served, left);
        prop_assert_eq!(count(&both), count(&Some(request)));
    }

    /// I10: whatever the file looks like later, without being written anew it asks for no second soft-reboot.
    #[test]
    fn i10_the_same_file_never_asks_twice(looks in prop::collection::vec((1u64..2000, any::<bool>()), 1..12)) {
        let named = Some(Kind::SoftReboot);
        let mut now = 0;
        let mut observed = soft_rebooted(&file(named, OLD), soft_by_default());
        for (later, unread) in looks {
            now += later;
            let look = if unread {
                Finding::new(FILE, Verdict::Unknown { why: String::new() }, Duration::ZERO)
            } else {
                file(named, OLD)
            };
            observed = seen(observed, &[look], soft_by_default(), now);
            prop_assert_eq!(&observed.request, &None);
        }
    }
}
