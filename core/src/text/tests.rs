//! Whatever comes in, nothing that a terminal obeys goes out (I14).

use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::gates;
use crate::inhibitor::Inhibitor;
use crate::now::Now;
use crate::shutdown::Scheduled;

proptest! {
    #[test]
    fn i14_cleaned_text_is_one_short_line_and_stays_so(text in garble::hostile(), max in 1..400_usize) {
        let once = clean(&text, max);
        prop_assert!(!once.contains(hostile), "{once:?}");
        prop_assert!(once.chars().count() <= max);
        prop_assert_eq!(clean(&once, max), once);
    }

    #[test]
    fn i14_several_lines_hold_nothing_but_lines(text in garble::hostile(), max in 1..400_usize) {
        let once = block(&text, max);
        prop_assert!(!once.replace('\n', "").contains(hostile), "{once:?}");
        prop_assert!(once.chars().count() <= max);
    }

    #[test]
    fn i14_a_name_that_is_no_name_equals_none(text in garble::hostile(), max in 10..400_usize) {
        let once = name(&text, max);
        prop_assert!(!once.contains(hostile), "{once:?}");
        prop_assert!(once.chars().count() <= max);
        prop_assert_eq!(name(&once, max), once.clone());
        // Escaped or cut, it is no name that Kubernetes accepts.
        prop_assert!(once == text || once.contains(['\\', ELLIPSIS]));
    }

    #[test]
    fn i14_what_goes_out_is_looked_at_once_more(text in garble::hostile()) {
        let once = printable(&text).into_owned();
        prop_assert!(!once.replace(['\n', '\t'], "").contains(hostile), "{once:?}");
        prop_assert_eq!(printable(&once).into_owned(), once.clone());
    }
}

#[test]
fn durations_are_told_in_days_as_they_are_written() {
    for (seconds, shown) in [
        (0, "0s"),
        (5400, "1h 30m"),
        (24 * 3600, "1d"),
        (14 * 24 * 3600, "14d"),
        (36 * 3600 + 1, "1d 12h 1s"),
    ] {
        assert_eq!(span(Duration::from_secs(seconds)), shown);
    }
}

#[test]
fn i14_what_a_terminal_obeys_is_gone() {
    let rows = [
        (
            "disk\u{1b}[2J\u{1b}]0;pwned\u{7} is full",
            "disk[2J]0;pwned is full",
        ),
        (
            "one\r\ntwo\tthree\u{85}four\u{2028}five",
            "one  two three four five",
        ),
        ("\u{202e}ton si siht\u{2066}", "ton si siht"),
        ("csi\u{9b}31m del\u{7f}", "csi31m del"),
        (
            "ordinary: größer, 東京 — 100 %",
            "ordinary: größer, 東京 — 100 %",
        ),
    ];
    for (text, wanted) in rows {
        assert_eq!(clean(text, WORDS), wanted);
    }
    assert_eq!(clean("abcdef", 4), "abc…");
    assert_eq!(block("a\u{1b}\r\nb\n", 99), "a\nb");
    assert_eq!(name("node-1.example", NAME), "node-1.example");
    assert_eq!(name("n1\u{202e}", NAME), "n1\\u{202e}");
    assert_eq!(name("abcdef", 4), "abc…");
    assert_eq!(name("abcdef", 6), "abcdef");
    assert_eq!(
        printable("two\tcolumns\nand a line"),
        "two\tcolumns\nand a line"
    );
    assert_eq!(printable("\ta\u{1b}[2Jb\n\u{202e}"), "\ta[2Jb\n");
}

fn shown(words: impl IntoIterator<Item = impl AsRef<str>>) {
    garble::shown(words, hostile, MESSAGE);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn i14_nothing_of_the_host_is_hostile(a in garble::hostile(), b in garble::hostile()) {
        let row = ("shutdown".to_owned(), a.clone(), b.clone(), "block".to_owned(), 1000, 7);
        let one = Inhibitor::of(row);
        shown([&one.who, &one.why]);
        let facts = gates::GateFacts {
            node_pause: gates::Pause::None,
            group_pause: gates::Pause::None,
            soft_reboots: gates::SoftReboots::NotWanted,
            rivals: gates::Rivals::Ignored,
            capacity: gates::Capacity::Ignored,
            api_servers: gates::ApiServers::Ignored,
            windows: gates::WindowFacts::any_time(),
            clock: gates::Clock::Unused,
            alerts: Vec::new(),
            inhibitors: Some(vec![one]),
            packages: gates::Packages::Quiet,
            commands: gates::Commands::Yes,
            request: None,
            findings: &[],
            live_patches: gates::LivePatches::Ignored,
            autoscaler: gates::Signs::Seen(vec![name(&a, NAME)]),
            candidate_until: None,
            conditions: gates::Signs::Seen(vec![name(&b, NAME); 9]),
            blocking: gates::Blocking::Cordoned,
            protecting: gates::Protecting::Seen(Vec::new()),
            users: gates::UserFacts::ignored(),
        };
        let now = Now { wall: jiff::Timestamp::UNIX_EPOCH, boot: Duration::ZERO };
        let said = gates::all(&facts, &gates::GatePolicy::default(), now);
        shown(gates::closed(&said).into_iter().map(|closed| closed.why.to_string()));
        shown(Scheduled::of(&a, 7).map(|it| it.words()));
    }
}
