//! The windows at each moment at which gates are looked at (I2, I8).

use jiff::tz::TimeZone;

use super::*;
use crate::times::Times;
use crate::windows::Clock;

/// Each night from 22:00 to 23:00 UTC.
fn nights(excluded: &[&str]) -> Windows {
    let night = Window {
        name: "nights".to_owned(),
        days: Vec::new(),
        start: Clock::new("22:00").unwrap(),
        end: Clock::new("23:00").unwrap(),
        zone: TimeZone::UTC,
    };
    let excluded = excluded.iter().map(|dates| dates.parse().unwrap());
    Windows::new(vec![night], excluded.collect())
}

fn at(clock: &str) -> Timestamp {
    format!("2026-11-25T{clock}Z").parse().unwrap()
}

fn now(clock: &str) -> Now {
    Now {
        wall: at(clock),
        boot: Duration::from_secs(1000),
    }
}

const fn minutes(minutes: u64) -> Duration {
    Duration::from_secs(minutes * 60)
}

fn facts(windows: &Windows) -> WindowFacts<'_> {
    WindowFacts {
        windows,
        expected: Expected {
            drain: minutes(20),
            boot: minutes(10),
        },
        begun: None,
        urgent: false,
    }
}

fn finish() -> ClosePolicy {
    ClosePolicy {
        close: Close::Finish,
        overrun: minutes(30),
    }
}

fn undo() -> ClosePolicy {
    ClosePolicy {
        close: Close::Undo,
        ..finish()
    }
}

#[test]
fn i2_a_reboot_begins_only_where_drain_and_boot_still_fit() {
    let windows = nights(&[]);
    let look = |clock| super::windows(&facts(&windows), finish(), now(clock));
    for open in ["22:00:00", "22:29:59", "22:30:00"] {
        assert_eq!(look(open), State::Open, "{open}");
    }
    let State::Closed { why, opens } = look("21:59:00") else {
        panic!("open");
    };
    assert_eq!(
        &*why,
        "outside of the windows; \"nights\" opens Wed 2026-11-25 22:00 UTC"
    );
    assert_eq!(opens, Some(Duration::from_secs(1060)));
    let State::Closed { why, opens } = look("22:30:01") else {
        panic!("open");
    };
    assert_eq!(
        &*why,
        "window \"nights\" closes Wed 2026-11-25 23:00 UTC, and drain and boot may take 30m; \"nights\" opens Thu \
         2026-11-26 22:00 UTC"
    );
    assert_eq!(opens, Some(Duration::from_secs(1000 + 23 * 3600 + 1799)));
}

/// What it took here before may be longer than the time-outs that `config check` went by.
#[test]
fn where_nothing_fits_it_is_said_and_opens_at_no_time() {
    let windows = nights(&[]);
    let facts = WindowFacts {
        expected: Expected {
            drain: minutes(60),
            boot: minutes(1),
        },
        ..facts(&windows)
    };
    let State::Closed { why, opens } = super::windows(&facts, finish(), now("12:00:00")) else {
        panic!("open");
    };
    assert_eq!(
        &*why,
        "outside of the windows; no window is long enough for the 1h 1m that drain and boot may take"
    );
    assert_eq!(opens, None);
}

#[test]
fn a_person_who_wants_it_now_is_asked_for_no_window() {
    let windows = nights(&[]);
    let facts = WindowFacts {
        urgent: true,
        ..facts(&windows)
    };
    assert_eq!(
        super::windows(&facts, finish(), now("12:00:00")),
        State::Open
    );
}

#[test]
fn what_was_begun_is_finished_or_undone_as_configured() {
    let windows = nights(&[]);
    let facts = WindowFacts {
        begun: Some(at("22:20:00")),
        ..facts(&windows)
    };
    let open = |policy, clock| super::windows(&facts, policy, now(clock)) == State::Open;
    for (clock, finished, undone) in [
        ("22:25:00", true, true),
        ("22:50:00", true, true),
        ("22:50:01", true, false),
        ("23:00:00", true, false),
        ("23:29:59", true, false),
        ("23:30:00", false, false),
        ("23:59:00", false, false),
        // The clock was set back.
        ("20:00:00", false, false),
    ] {
        assert_eq!(open(finish(), clock), finished, "finish {clock}");
        assert_eq!(open(undo(), clock), undone, "undo {clock}");
    }
    let State::Closed { why, opens } = super::windows(&facts, finish(), now("23:30:00")) else {
        panic!("open");
    };
    assert_eq!(
        &*why,
        "window \"nights\" closed Wed 2026-11-25 23:00 UTC, and gates.window_overrun (30m) is over"
    );
    assert_eq!(opens, None, "what closed in mid-drain is not waited for");
    let State::Closed { why, .. } = super::windows(&facts, undo(), now("22:55:00")) else {
        panic!("open");
    };
    assert!(
        why.starts_with(
            "window \"nights\" closes Wed 2026-11-25 23:00 UTC, and the boot may take 10m;"
        ),
        "{why}"
    );
}

/// A reload took the window away in which the slot was taken.
#[test]
fn what_was_begun_in_no_window_is_late_from_the_start() {
    let windows = nights(&["2026-11-25"]);
    let facts = WindowFacts {
        begun: Some(at("22:20:00")),
        ..facts(&windows)
    };
    let open = |clock| super::windows(&facts, finish(), now(clock)) == State::Open;
    assert!(open("22:49:59"));
    assert!(!open("22:50:00"));
}

fn past(claim: u64, drain: u64, boot: Option<u64>, verify: u64) -> Past {
    let times = Times {
        claim,
        drain,
        boot,
        verify,
        ..Times::default()
    };
    Past::of(None, at("12:00:00")).took(times, at("11:00:00"))
}

#[test]
fn what_is_expected_is_the_longest_that_was_seen_here() {
    let none = Expected {
        drain: minutes(30),
        boot: minutes(15),
    };
    assert_eq!(Expected::of(&[], Kind::Reboot, none, Duration::ZERO), none);
    let unknown = [past(1, 600, None, 5), Past::of(None, at("12:00:00"))];
    assert_eq!(
        Expected::of(&unknown, Kind::Reboot, none, Duration::ZERO),
        none,
        "no boot was seen: nothing was proved"
    );
    let known = [
        past(5, 60, Some(30), 100),
        past(1, 200, Some(90), 10),
        past(9, 9, None, 9),
    ];
    let seconds = Duration::from_secs;
    let longest = Expected {
        drain: seconds(201),
        boot: seconds(130),
    };
    assert_eq!(
        Expected::of(&known, Kind::Reboot, none, Duration::ZERO),
        longest
    );
    // Found by review: with a wait that is newer than the history a node began, rested until its window closed, and gave up,
    // each night.
    let rested = Expected {
        drain: minutes(20),
        ..longest
    };
    assert_eq!(
        Expected::of(&known, Kind::Reboot, none, minutes(20)),
        rested
    );
    assert_eq!(
        Expected::of(&known, Kind::Reboot, none, minutes(40)).drain,
        none.drain
    );
    // Found by review: one reboot that took a weekend closed all windows, which only a reboot could have opened again.
    // Found by review: a full reboot was expected to be back as soon as the soft ones of before.
    let soft = known.clone().map(|past| Past {
        kind: Kind::SoftReboot,
        ..past
    });
    let of = |kind| Expected::of(&soft, kind, none, Duration::ZERO).boot;
    assert_eq!(of(Kind::Reboot), none.boot);
    assert_eq!(of(Kind::SoftReboot), longest.boot);
    let weekend = [past(1, 9_000, Some(200_000), 5)];
    assert_eq!(
        Expected::of(&weekend, Kind::Reboot, none, Duration::ZERO),
        none
    );
}

/// Found by reading: it said that no window was long enough.
#[test]
fn dates_that_leave_out_all_are_named() {
    let windows = nights(&["2026-01-01..2030-12-31"]);
    let State::Closed { why, opens } = super::windows(&facts(&windows), finish(), now("22:10:00"))
    else {
        panic!("open");
    };
    assert_eq!(
        &*why,
        "outside of the windows; no window opens within two years, as gates.exclude_dates leaves out all of them"
    );
    assert_eq!(opens, None);
}
