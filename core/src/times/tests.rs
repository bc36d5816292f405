use super::*;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).expect("a time")
}

fn waits(waits: &[(&str, u64)]) -> BTreeMap<String, u64> {
    let each = waits.iter();
    each.map(|(reason, seconds)| ((*reason).to_owned(), *seconds))
        .collect()
}

#[test]
fn each_second_counts_for_one_thing() {
    let mut times = Times::default();
    for (spent, seconds) in [
        (Spent::Wait("Settling"), 600),
        (Spent::Wait("Queued"), 5),
        (Spent::Wait("Queued"), 7),
        (Spent::Wait("Paused"), 0),
        (Spent::Claim, 1),
        (Spent::Drain, 40),
        (Spent::LastLook, 2),
        (Spent::Verify, 30),
        (Spent::Undone, 3),
    ] {
        times.add(spent, seconds);
    }
    let wanted = Times {
        waits: waits(&[("Settling", 600), ("Queued", 12)]),
        undone: 3,
        claim: 1,
        drain: 40,
        last_look: 2,
        verify: 30,
        ..Times::default()
    };
    assert_eq!(times, wanted);
    times.evicted = 4;
    times.again();
    let wanted = Times {
        waits: waits(&[("Settling", 600), ("Queued", 12)]),
        undone: 3 + 1 + 40 + 2 + 30,
        ..Times::default()
    };
    assert_eq!(times, wanted, "another attempt begins at nothing");
}

#[test]
fn a_boot_is_as_long_as_the_wall_clock_says_and_never_negative() {
    for (asked, look, boot) in [
        (Some(100), 148, Some(48)),
        (Some(100), 100, Some(0)),
        // The clock of the host was set back meanwhile.
        (Some(100), 40, None),
        // It was set by centuries.
        (Some(100), 200_000_000_000, None),
        (None, 148, None),
    ] {
        let mut times = Times {
            asked: asked.map(at),
            ..Times::default()
        };
        times.booted(at(look));
        // The first look is the one that counts.
        times.booted(at(look + 1000));
        assert_eq!((times.boot, times.asked), (boot, None), "{asked:?} {look}");
    }
}

#[test]
fn the_way_to_the_slot_begins_with_the_first_reason() {
    let slot = |since: Option<i64>, taken| Times::default().over(since.map(at), at(taken)).slot;
    assert_eq!(slot(Some(100), 700), Some(600));
    assert_eq!(slot(Some(700), 100), None, "a clock that was set back");
    assert_eq!(slot(None, 700), None, "the request is lost");
}

#[test]
fn i14_what_no_daemon_has_written_is_not_believed() {
    let odd = [
        Times {
            drain: u64::MAX,
            ..Times::default()
        },
        Times {
            boot: Some(u64::MAX),
            ..Times::default()
        },
        Times {
            waits: waits(&[("Queued", u64::MAX)]),
            ..Times::default()
        },
        Times {
            evicted: u32::MAX,
            ..Times::default()
        },
    ];
    for times in odd {
        assert!(times.beyond(), "{times:?}");
        assert_eq!(times.cleaned(), None);
    }
    let mut most = Times {
        waits: waits(&[("Queued", LONGEST)]),
        undone: LONGEST,
        drain: LONGEST,
        verify: LONGEST,
        evicted: PODS_MAX,
        ..Times::default()
    };
    most.evicts();
    most.add(Spent::Wait("Queued"), u64::MAX);
    most.again();
    assert!(!most.beyond(), "what is counted stays readable: {most:?}");
    let many: BTreeMap<String, u64> = (0..1000).map(|n| (format!("\u{1b}[{n:04}"), n)).collect();
    let times = Times {
        waits: many,
        ..Times::default()
    };
    let waits = times.cleaned().expect("small numbers").waits;
    assert_eq!(waits.len(), WAITS_MAX);
    assert!(waits.keys().all(|reason| !reason.contains('\u{1b}')));
}

#[test]
fn parts_go_by_the_reason_of_the_condition() {
    let times = Times {
        waits: BTreeMap::from([("Queued".to_owned(), 60), ("Paused".to_owned(), 0)]),
        drain: 30,
        last_look: 2,
        boot: Some(40),
        ..Times::default()
    };
    let parts = times.by_reason();
    let parts: Vec<(&str, u64)> = parts
        .iter()
        .map(|(what, it)| (what.as_str(), *it))
        .collect();
    assert_eq!(parts, [("Draining", 30), ("Queued", 60), ("Rebooting", 42)]);
}

#[test]
fn words_leave_out_what_is_not_known() {
    assert_eq!(
        Times::default().words(),
        "drain 0s (no pod evicted), verified in 0s"
    );
    let times = Times {
        slot: Some(3700),
        waits: waits(&[("Settling", 600), ("Queued", 3100)]),
        undone: 90,
        claim: 1,
        drain: 75,
        evicted: 1,
        boot: Some(48),
        verify: 31,
        ..Times::default()
    };
    assert_eq!(
        times.words(),
        "slot after 1h 1m 40s (Queued 51m 40s, Settling 10m), failed attempts 1m 30s, drain 1m 15s (1 pod evicted), \
         boot 48s, verified in 31s"
    );
}
