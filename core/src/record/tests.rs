//! What is read back, and what is refused: no damage may pass for a record (I6, I8).

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::before::Before;
use crate::booted::Booted;
use crate::health::Marks;
use crate::slot::{Lease, Take};
use crate::trigger::{Latched, Reason};

pub(super) fn boot(id: &str) -> Boot {
    Boot {
        id: id.to_owned(),
        userspace: 1,
    }
}

pub(super) fn held(stage: Stage, asks: u32) -> Record {
    let lease = Lease::free("default", "default");
    let take = Take::of(&lease, "kube-rebootd", Timestamp::UNIX_EPOCH, false);
    Record {
        hold: Some(Hold {
            step: 4,
            stage,
            asks,
            ..Hold::begin(take, boot("a"))
        }),
        ..Record::default()
    }
}

#[test]
fn i4_an_order_undoes_every_hold_but_an_unanswered_take() {
    let now = now();
    for stage in [Stage::Claiming, Stage::Draining, Stage::Rebooting] {
        let back = held(stage, 0).give_back(&boot("a"), now).expect("ordered");
        let hold = back.hold.as_ref().expect("a hold");
        assert_eq!((&hold.stage, hold.step), (&Stage::Undoing(Why::Ordered), 5));
        assert_eq!(back.give_back(&boot("a"), now), None, "ordered once");
    }
    assert_eq!(held(Stage::Taking, 0).give_back(&boot("b"), now), None);
    assert_eq!(Record::default().give_back(&boot("a"), now), None);
}

fn now() -> Now {
    Now {
        wall: Timestamp::UNIX_EPOCH,
        boot: Duration::from_secs(100),
    }
}

/// Found by review: what a reboot was for asked for one more, when its slot was given up by `undrain --release`.
#[test]
fn i10_a_reboot_that_is_not_proved_settles_what_it_was_for() {
    let request = full().request;
    let record = Record {
        request: request.clone(),
        ..held(Stage::Rebooting, 1)
    };
    let back = record.give_back(&boot("b"), now()).expect("ordered");
    assert_eq!(back.request, None);
    let settled = back.settled.expect("settled");
    let of = Settled::of(request.as_ref(), &boot("b"), now().boot);
    assert_eq!(settled, of);
    // Nothing was rebooted, or not as it was asked for: it asks on.
    let same = record.give_back(&boot("a"), now()).expect("ordered");
    assert_eq!((same.request, same.settled), (request.clone(), None));
    let unasked = Record {
        request: request.clone(),
        ..held(Stage::Draining, 0)
    };
    let back = unasked.give_back(&boot("b"), now()).expect("ordered");
    assert_eq!((back.request, back.settled), (request.clone(), None));
    let soft = Boot {
        userspace: 2,
        ..boot("a")
    };
    let back = record.give_back(&soft, now()).expect("ordered");
    assert_eq!(back.request, request, "it wants a full one");
    assert!(back.settled.expect("settled").reasons.is_empty());
}

#[test]
fn i10_a_reboot_that_was_asked_for_is_counted_though_not_proved() {
    let now = now();
    let record = held(Stage::Rebooting, 1);
    let back = record.give_back(&boot("b"), now).expect("ordered");
    assert_eq!(back.history.len(), 1);
    assert_eq!(back.hold.map(|hold| hold.boot), Some(boot("b")));
    let same = record.give_back(&boot("a"), now).expect("ordered");
    assert!(same.history.is_empty());
}

fn any_boot() -> impl Strategy<Value = Boot> {
    ("[a-f0-9-]{0,36}", 0..1u64 << 50).prop_map(|(id, userspace)| Boot { id, userspace })
}

fn moment() -> impl Strategy<Value = Timestamp> {
    (0..4_000_000_000_i64, 0..1_000_000_000_i32)
        .prop_map(|(second, nano)| Timestamp::new(second, nano).expect("a time"))
}

fn clock() -> impl Strategy<Value = Duration> {
    (0..1_000_000_000_u64, 0..1_000_000_000_u32)
        .prop_map(|(secs, nanos)| Duration::new(secs, nanos))
}

fn stages() -> impl Strategy<Value = Stage> {
    let why = prop_oneof![
        Just(Why::Uncordoned),
        Just(Why::Lost),
        Just(Why::Withdrawn),
        Just(Why::NodeReplaced),
        Just(Why::Unwritable),
        Just(Why::NoHold),
        Just(Why::Ordered),
        any::<String>().prop_map(Why::Drain),
        any::<String>().prop_map(Why::Budget),
        any::<String>().prop_map(Why::Hook),
    ];
    prop_oneof![
        Just(Stage::Taking),
        Just(Stage::Claiming),
        Just(Stage::Draining),
        Just(Stage::Rebooting),
        Just(Stage::Uncordoned),
        Just(Stage::Releasing),
        why.prop_map(Stage::Undoing),
    ]
}

prop_compose! {
    fn any_hold()(lease in "[a-z]{1,20}", uid in any::<String>(), acquire_time in moment(), step in 0..1000u64,
                  boot in any_boot(), stage in stages(), node_uid in prop::option::of(any::<String>()),
                  flags in any::<(bool, bool, bool, bool)>(), spent in 0..100_000u64, asked in prop::option::of(clock())) -> Hold {
        Hold {
            take: Take {
                namespace: "kube-rebootd".to_owned(),
                lease,
                uid,
                resource_version: "1".to_owned(),
                acquire_time,
                control_plane: flags.0,
            },
            step,
            boot,
            node_uid,
            stage,
            foreign_cordon: flags.1,
            guards: flags.2,
            excluded: flags.3,
            cordoned: asked.filter(|_| flags.3),
            alone: false,
            marks: flags.2.then(Marks::default),
            hooked: flags.3,
            before: Before::of(flags.0.then(|| BTreeSet::from(["a.service".to_owned()])).as_ref()),
            drain_spent: spent,
            asks: u32::from(asked.is_some()),
            asked,
            granted: flags.2 && asked.is_some(),
            promised: asked.filter(|_| flags.2),
            kind: if flags.1 { Kind::SoftReboot } else { Kind::Reboot },
            askers: flags.1.then(|| "kube-rebootd reboot".to_owned()).into_iter().collect(),
        }
    }
}

fn any_times(at: Timestamp) -> Times {
    Times {
        waits: [("Queued".to_owned(), 7)].into(),
        undone: 1,
        drain: 40,
        evicted: 3,
        asked: Some(at),
        ..Times::default()
    }
}

prop_compose! {
    /// Any record that the daemon could write.
    fn any_record()(hold in prop::option::of(any_hold()), words in prop::collection::vec(any::<String>(), 4),
                    at in moment(), since in clock(), boot in any_boot(), flags in any::<[bool; 6]>()) -> Record {
        let pkgs = BTreeSet::from([words[0].clone()]);
        let reason = Reason { trigger: words[1].clone(), pkgs, words: words[2].clone(), since: at, since_boot: since, later: std::collections::BTreeMap::new(),
            kind: if flags[3] { Kind::SoftReboot } else { Kind::Reboot }, mark: flags[3].then(|| words[3].clone()) };
        let latched = Latched { by: words[0].clone(), reason: words[3].clone(), at, boot: flags[2].then(|| boot.clone()), ended: false,
            kind: if flags[4] { Kind::SoftReboot } else { Kind::Reboot } };
        let request = Request { since: at, reasons: vec![reason], latched: vec![latched] };
        Record {
            version: VERSION,
            settled: flags[1].then(|| Settled::by(request.kind(), Some(&request), &boot, since)),
            history: if flags[0] { vec![Past::of(Some(&request), at).took(any_times(at), at); 3] } else { Vec::new() },
            request: flags[2].then_some(request),
            waiting: flags[3].then(|| Waiting { group: words[0].clone(), since: at }),
            kept: flags[4].then(|| Kept { node_uid: words[1].clone(), since: at, why: words[2].clone() }),
            backoff: flags[5].then(|| Backoff { failures: 3, boot: boot.clone(), until: since, why: words[3].clone() }),
            flaps: flags[5].then(|| Flaps { times: 3, boot: boot.clone(), until: since }),
            guard: flags[5].then(|| Guard { boot: boot.clone(), until: since }),
            times: flags[0].then(|| any_times(at)),
            hold,
        }
    }
}

/// A record with everything in it.
fn full() -> Record {
    let boot = boot("a");
    let at = Timestamp::UNIX_EPOCH;
    let reason = Reason {
        trigger: "sentinel /run/reboot-required".to_owned(),
        pkgs: BTreeSet::from(["linux".to_owned()]),
        words: "System restart required".to_owned(),
        since: at,
        since_boot: Duration::from_secs(7),
        later: std::collections::BTreeMap::new(),
        kind: Kind::Reboot,
        mark: None,
    };
    let request = Request {
        since: at,
        reasons: vec![reason],
        latched: Vec::new(),
    };
    let mut record = held(Stage::Undoing(Why::Gate("closed".to_owned())), 2);
    if let Some(hold) = &mut record.hold {
        hold.asked = Some(Duration::from_secs(100));
        hold.cordoned = Some(Duration::from_secs(50));
        hold.marks = Some(Marks::default());
        hold.node_uid = Some("node".to_owned());
    }
    Record {
        settled: Some(Settled::of(Some(&request), &boot, Duration::from_secs(1))),
        history: vec![Past::of(Some(&request), at).took(any_times(at), at)],
        waiting: Some(Waiting {
            group: "default".to_owned(),
            since: at,
        }),
        kept: Some(Kept {
            node_uid: "u".to_owned(),
            since: at,
            why: "w".to_owned(),
        }),
        guard: Some(Guard {
            boot: boot.clone(),
            until: Duration::from_secs(9),
        }),
        backoff: Some(Backoff {
            failures: 1,
            boot,
            until: Duration::from_secs(9),
            why: "w".to_owned(),
        }),
        request: Some(request),
        times: Some(any_times(at)),
        ..record
    }
}

/// What was decoded is what it says, and can be counted with.
fn sound(text: &str) -> Result<(), TestCaseError> {
    let Ok(record) = Record::decode(text) else {
        return Ok(());
    };
    prop_assert_eq!(record.version, VERSION);
    prop_assert_eq!(Record::decode(&record.encode()), Ok(record.clone()));
    if let Some(hold) = &record.hold {
        prop_assert!(hold.step < COUNT_MAX && u64::from(hold.asks) < COUNT_MAX);
        prop_assert!(hold.drain_spent < CLOCK_MAX.as_secs() && hold.asked < Some(CLOCK_MAX));
        prop_assert!(hold.cordoned < Some(CLOCK_MAX));
    }
    let clocks = (record.backoff.iter().map(|backoff| backoff.until))
        .chain(record.guard.iter().map(|guard| guard.until))
        .chain(record.settled.iter().map(|settled| settled.proved_boot))
        .chain(
            record
                .request
                .iter()
                .flat_map(|request| request.reasons.iter().map(|reason| reason.since_boot)),
        );
    for clock in clocks {
        prop_assert!(clock < CLOCK_MAX, "{clock:?}");
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn i6_what_is_written_is_read_back(record in any_record()) {
        prop_assert_eq!(Record::decode(&record.encode()), Ok(record.clone()));
        let Some(text) = record.annotation() else {
            prop_assert!(record.hold.is_none() && record.kept.is_none());
            return Ok(());
        };
        let there = Record::decode(&text).expect("an annotation of ours");
        // The annotation carries clean words only.
        let kept = record.kept.map(|kept| Kept { why: crate::trigger::wish(&kept.why), ..kept });
        prop_assert_eq!((there.hold, there.request, there.kept), (record.hold, record.request, kept));
        prop_assert_eq!(there.times, record.times);
    }

    #[test]
    fn i8_no_text_at_all_is_a_record(text in any::<String>()) {
        prop_assert!(matches!(Record::decode(&text), Err(CodecError::Damaged(_))));
    }

    #[test]
    fn i8_a_damaged_record_is_refused_or_sound(text in garble::text(&full().encode())) {
        sound(&text)?;
    }

    #[test]
    fn i8_a_record_with_odd_values_is_refused_or_sound(value in garble::json(serde_json::to_value(full()).expect("JSON"))) {
        sound(&value.to_string())?;
    }

    #[test]
    fn i8_numbers_that_cannot_be_counted_with_are_refused(value in garble::numbers(serde_json::to_value(full()).expect("JSON"))) {
        sound(&value.to_string())?;
    }

    #[test]
    fn i8_no_other_json_is_a_record(value in garble::tree()) {
        prop_assert!(Record::decode(&value.to_string()).is_err());
    }

    #[test]
    fn i6_cut_off_anywhere_it_is_damaged(record in any_record(), at in any::<prop::sample::Index>()) {
        let text = record.encode();
        let mut end = at.index(text.len());
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        prop_assert!(Record::decode(&text[..end]).is_err());
    }

    #[test]
    fn i6_only_a_higher_version_is_a_newer_one(version in any::<i64>()) {
        let text = format!("{{\"version\": {version}}}");
        match Record::decode(&text) {
            Ok(record) => prop_assert_eq!((record, version), (Record::default(), 1)),
            Err(CodecError::Newer(newer)) => prop_assert!(i64::from(newer) == version && version > 1),
            Err(CodecError::Damaged(_)) => prop_assert!(version < 1 || version > i64::from(u32::MAX)),
        }
    }
}

#[test]
fn i7_nesting_is_refused_in_bounded_time() {
    for text in garble::deep(1 << 20) {
        for text in [text.clone(), format!("{{\"version\":1,\"hold\":{text}")] {
            let said = garble::soon(move || Record::decode(&text));
            assert!(matches!(said, Err(CodecError::Damaged(_))));
        }
    }
}

#[test]
fn i6_a_full_record_is_sound_itself() {
    // Else the properties above would hold for want of any record.
    assert_eq!(Record::decode(&full().encode()), Ok(full()));
}

#[test]
fn i6_i8_records_that_once_passed_for_ours_are_damaged() {
    let step = full()
        .encode()
        .replace("\"step\": 4", "\"step\": 18446744073709551615");
    for text in ["[1]", "[0]", "{\"version\":0}", &step] {
        let said = Record::decode(text);
        assert!(
            matches!(said, Err(CodecError::Damaged(_))),
            "{text}: {said:?}"
        );
    }
}

/// The annotations of a Node share 256 KiB: what a node with many containers and packages carries stays a small
/// part of it, and is enough to finish the hold by.
#[test]
fn i6_the_record_on_the_node_is_bounded_and_still_enough() {
    use crate::pod::{Container, Pod};
    let container = |pod: usize, number: usize, restarts: u32| Container {
        name: format!("c{number}"),
        id: format!("containerd://{pod:032x}{number:032x}"),
        started: Some(Timestamp::UNIX_EPOCH),
        restarts,
    };
    let pod = |number: usize, restarts: u32| Pod {
        namespace: "kube-system".to_owned(),
        name: format!("static-{}-{number}", "x".repeat(60)),
        mirror: true,
        containers: (0..4).map(|n| container(number, n, restarts)).collect(),
        ..Pod::ready(&format!("{number:08x}-0000-0000-0000-000000000000"))
    };
    let pods: Vec<Pod> = (0..128).map(|number| pod(number, 0)).collect();
    let reason = |trigger: usize| Reason {
        trigger: format!("check number-{trigger}"),
        pkgs: (0..2_000)
            .map(|n| format!("package-{n}-1.2.3-4.fc44.x86_64"))
            .collect(),
        words: "needs a reboot ".repeat(1_000),
        since: Timestamp::UNIX_EPOCH,
        since_boot: Duration::from_secs(1),
        later: std::collections::BTreeMap::new(),
        kind: Kind::Reboot,
        mark: None,
    };
    let take = Take {
        namespace: "kube-rebootd".to_owned(),
        lease: "default".to_owned(),
        uid: "uid".to_owned(),
        resource_version: "1".to_owned(),
        acquire_time: Timestamp::UNIX_EPOCH,
        control_plane: false,
    };
    let before = Boot {
        id: "before".to_owned(),
        userspace: 1,
    };
    let record = Record {
        hold: Some(Hold {
            stage: Stage::Rebooting,
            marks: Some(Marks::take(&pods)),
            ..Hold::begin(take, before)
        }),
        request: Some(Request {
            since: Timestamp::UNIX_EPOCH,
            reasons: (0..4).map(reason).collect(),
            latched: vec![Latched {
                by: crate::trigger::BY_ANNOTATION.to_owned(),
                reason: crate::trigger::wish(&"firmware ".repeat(10_000)),
                at: Timestamp::UNIX_EPOCH,
                boot: None,
                ended: false,
                kind: Kind::Reboot,
            }],
        }),
        ..Record::default()
    };
    let record = Record {
        times: Some(Times {
            waits: crate::reason::Reason::ALL
                .map(|reason| (reason.name().to_owned(), 100 * 366 * 24 * 3600))
                .into(),
            ..any_times(Timestamp::UNIX_EPOCH)
        }),
        ..record
    };
    let text = record.annotation().unwrap();
    assert!(text.len() < 32 * 1024, "{} bytes", text.len());
    let found = Record::decode(&text).unwrap();
    let hold = found.hold.unwrap();
    assert!(hold.same(record.hold.as_ref().unwrap()));
    assert_eq!(found.request.unwrap().reasons.len(), 4);
    // The marks still tell a container that started again from one of before the boot.
    let marks = hold.marks.unwrap();
    assert!(marks.mirrors.len() > 100, "{}", marks.mirrors.len());
    let again: Vec<Pod> = (0..128).map(|number| pod(number, 1)).collect();
    assert!(marks.all_back(&again), "a container that started again");
    assert!(!marks.all_back(&pods), "those of before the boot");
    let twice = Record::decode(&record.annotation().unwrap()).unwrap();
    assert_eq!(
        twice.annotation().unwrap(),
        text,
        "shortened once more it stays the same"
    );
}

/// Found by an attacker: a megabyte of finalizers on a pod came into the state file, which is refused over a mebibyte.
#[test]
fn i6_i14_why_a_hold_is_undone_is_bounded() {
    let long = "x".repeat(1 << 20);
    for why in [
        Why::Drain(long.clone()),
        Why::Gate(long.clone()),
        Why::Paused(long.clone()),
        Why::Refused(long),
    ] {
        let words = why.bounded().words();
        assert!(words.len() < 16 * 1024, "{}", words.len());
    }
    assert_eq!(
        Why::Drain("short".to_owned()).bounded(),
        Why::Drain("short".to_owned())
    );
}

#[test]
fn one_failure_is_forgotten_in_six_hours_and_all_of_them_with_the_boot() {
    let backoff = Backoff {
        failures: 2,
        boot: boot("a"),
        until: Duration::from_secs(100),
        why: String::new(),
    };
    let left = |of: &str, hours: u64, more: u64| {
        let now = Duration::from_secs(100 + hours * 3600 + more);
        backoff.left(&boot(of), now)
    };
    assert_eq!((left("a", 0, 0), left("a", 5, 3599)), (2, 2));
    assert_eq!((left("a", 6, 0), left("a", 12, 0)), (1, 0));
    assert_eq!(left("b", 0, 0), 0);
}

/// Whoever may write the Node's annotation may write any text.
#[test]
fn i14_what_a_record_says_is_cleaned() {
    for why in [Why::Drain, Why::Gate, Why::Reboot] {
        let mut record = held(Stage::Undoing(why("a\u{1b}[2Jb".to_owned())), 0);
        record.backoff = full().backoff.map(|backoff| Backoff {
            why: "c\u{202e}d".to_owned(),
            ..backoff
        });
        let record = record.cleaned();
        let stage = record.hold.map(|hold| hold.stage);
        assert_eq!(stage, Some(Stage::Undoing(why("a[2Jb".to_owned()))));
        assert_eq!(record.backoff.map(|it| it.why).as_deref(), Some("cd"));
    }
}

#[test]
fn i10_a_request_is_what_the_reboot_is_for_from_the_first_ask_on() {
    for (stage, asks, here, settles) in [
        (Stage::Draining, 0, "a", false),
        (Stage::Rebooting, 1, "a", true),
        (Stage::Draining, 0, "b", true),
        (Stage::Releasing, 0, "a", true),
        (Stage::Uncordoned, 0, "a", false),
    ] {
        let hold = held(stage.clone(), asks).hold.expect("a hold");
        assert_eq!(
            hold.settles(&boot(here)),
            settles,
            "{stage:?} {asks} {here}"
        );
    }
}

#[test]
fn i4_an_order_leaves_what_goes_back_already() {
    let now = now();
    let settled = |boot_: &str| Settled::of(None, &boot(boot_), Duration::ZERO);
    for (stage, settled, here, ordered) in [
        (Stage::Undoing(Why::Lost), None, "a", false),
        (Stage::Undoing(Why::Lost), None, "b", true),
        (Stage::Releasing, Some(settled("a")), "a", false),
        (Stage::Releasing, Some(settled("a")), "b", true),
        (Stage::Releasing, None, "a", true),
    ] {
        let record = Record {
            settled,
            ..held(stage.clone(), 0)
        };
        let back = record.give_back(&boot(here), now);
        assert_eq!(back.is_some(), ordered, "{stage:?} {here}");
    }
}

/// A slot stays in the namespace where it was taken.
#[test]
fn i4_a_hold_tells_its_own_namespace() {
    let mut record = held(Stage::Draining, 0);
    record.hold.as_mut().expect("a hold").take.namespace = "before".to_owned();
    assert_eq!(record.namespace("after"), "before");
    assert_eq!(Record::default().namespace("after"), "after");
}

/// Written before the daemon kept how the time went.
#[test]
fn i6_what_was_written_without_times_is_read() {
    let old = r#"{"version":1,"request":{"since":"2026-11-21T09:00:00Z","reasons":[],"latched":[]},
        "history":[{"at":"2026-11-01T03:00:00Z","automatic":true,"reasons":["check dnf"],"packages":["linux"]}]}"#;
    let record = Record::decode(old).expect("a record");
    assert_eq!(record.times, None);
    let [past] = record.history.as_slice() else {
        panic!("{record:?}");
    };
    assert_eq!((past.since.as_slice(), &past.times), ([].as_slice(), &None));
    assert_eq!(past.rolled_back, None);
    // Where there is nothing to tell, an older daemon finds nothing that it does not know.
    let text = record.encode();
    assert!(
        !text.contains("times") && !text.contains("rolled_back"),
        "{text}"
    );
}

/// A daemon that is set back finds what a newer one has added to what is only shown.
#[test]
fn i6_what_a_newer_daemon_adds_to_the_history_loses_no_record() {
    let newer = r#"{"version":1,"history":[{"at":"2026-11-01T03:00:00Z","automatic":true,"reasons":["check dnf"],
        "rolled_back":"kernel 2 was to come up, and 1 came again","times":{"drain":5,"kexec":3},"outcome":"?"}]}"#;
    let record = Record::decode(newer).expect("a record");
    let [past] = record.history.as_slice() else {
        panic!("{record:?}");
    };
    assert_eq!(past.times.as_ref().map(|times| times.drain), Some(5));
    let words = "kernel 2 was to come up, and 1 came again";
    assert_eq!(past.rolled_back.as_deref(), Some(words));
    let again = Record::decode(&record.encode());
    assert_eq!(again.as_ref(), Ok(&record));
    let shown = record.history_annotation().expect("a history");
    assert!(
        shown.contains(&format!(r#""rolled_back":"{words}""#)),
        "{shown}"
    );
}

/// Found by review: with one more word in it the hold was lost, and with it the wish to stay drained, and what was settled.
/// Adds a field to every object below, but to maps, whose keys are names, to enums and to durations.
fn newer(value: &mut serde_json::Value) {
    use serde_json::Value;
    match value {
        Value::Object(fields) => {
            for (name, field) in fields.iter_mut() {
                let no_struct = ["stage", "later", "containers", "waits"].contains(&name.as_str());
                let map = name == "reasons" && field.is_object();
                if map {
                    field
                        .as_object_mut()
                        .into_iter()
                        .flatten()
                        .for_each(|(_, it)| newer(it));
                } else if !no_struct {
                    newer(field);
                }
            }
            if !fields.contains_key("secs") {
                fields.insert("more".to_owned(), "x".into());
            }
        }
        Value::Array(all) => all.iter_mut().for_each(newer),
        _ => {}
    }
}

/// Found by review: a daemon that was downgraded took a request that a newer one had written for a damaged record.
#[test]
fn i6_what_a_newer_daemon_adds_loses_no_record() {
    let mut record = full();
    let hold = record.hold.as_mut().expect("a hold");
    hold.before.booted = Some(Booted {
        kernel: "6.1".to_owned(),
        ..Booted::default()
    });
    let wish = Latched {
        by: "somebody".to_owned(),
        reason: "why".to_owned(),
        at: Timestamp::UNIX_EPOCH,
        boot: Some(boot("a")),
        ended: false,
        kind: Kind::SoftReboot,
    };
    record.request.as_mut().expect("a request").latched = vec![wish];
    record.flaps = Some(Flaps {
        times: 1,
        boot: boot("a"),
        until: Duration::from_secs(1),
    });
    let mut value = serde_json::to_value(&record).expect("JSON");
    newer(&mut value);
    let added = value.to_string().matches("\"more\"").count();
    assert!(added > 20, "{added}: {value:#}");
    assert_eq!(Record::decode(&value.to_string()), Ok(record));
}

/// Nothing rests on them: neither the hold nor the history is lost for them.
#[test]
fn i6_times_beyond_all_bounds_are_left_out() {
    let odd = Times {
        drain: u64::MAX,
        ..Times::default()
    };
    let mut record = held(Stage::Draining, 0);
    record.history = vec![Past::of(None, Timestamp::UNIX_EPOCH)];
    let wanted = record.clone();
    record.times = Some(odd.clone());
    record.history[0].times = Some(odd);
    assert_eq!(Record::decode(&record.encode()), Ok(wanted));
}

/// Others may read the Node, and its room is small: only what the rest of a cycle needs is there.
#[test]
fn the_node_carries_only_what_the_rest_of_a_cycle_needs() {
    let here = boot("a");
    let mut record = held(Stage::Draining, 0);
    let bare = record.annotation();
    let past = Past::of(None, Timestamp::UNIX_EPOCH);
    let long = Past {
        packages: vec!["linux".to_owned(); PACKAGES_SHOWN + 3],
        ..past.clone()
    };
    record.history = vec![long; HISTORY_SHOWN + 1];
    record.backoff = Some(Backoff {
        failures: 1,
        boot: here.clone(),
        until: Duration::ZERO,
        why: String::new(),
    });
    record.flaps = Some(Flaps::ended(None, &here, Duration::ZERO));
    record.waiting = Some(Waiting {
        group: "default".to_owned(),
        since: Timestamp::UNIX_EPOCH,
    });
    record.settled = Some(Settled::of(None, &here, Duration::ZERO));
    assert_eq!(record.annotation(), bare);
    let shown = record.history_annotation().expect("a history");
    let shown: Vec<Past> = serde_json::from_str(&shown).expect("a list");
    let mut newest = past.clone();
    newest.packages = vec!["linux".to_owned(); PACKAGES_SHOWN];
    newest.packages.push("and more".to_owned());
    let mut expected = vec![past; HISTORY_SHOWN];
    expected[0] = newest;
    assert_eq!(shown, expected);
    assert_eq!(Record::default().history_annotation(), None);
}

/// I6: what an older daemon has written names no kind, and means a full reboot; and of a full one nothing is written that it
/// would not read.
#[test]
fn i6_a_record_without_a_kind_is_of_a_full_reboot() {
    let record = full();
    let texts = [record.encode(), record.annotation().expect("a hold")];
    for text in &texts {
        assert!(
            !text.contains("\"kind\"") && !text.contains("\"mark\""),
            "{text}"
        );
    }
    let read = Record::decode(&texts[0]).expect("a record");
    assert_eq!(read.kind(), Some(Kind::Reboot));
    assert_eq!(read.hold.expect("a hold").kind, Kind::Reboot);
    // Of a soft one each copy alone says it.
    let mut soft = record;
    let mark = "1:7:100.000000000:100.000000000".to_owned();
    for reason in &mut soft.request.as_mut().expect("a request").reasons {
        (reason.kind, reason.mark) = (Kind::SoftReboot, Some(mark.clone()));
    }
    for wish in &mut soft.request.as_mut().expect("a request").latched {
        wish.kind = Kind::SoftReboot;
    }
    let hold = soft.hold.as_mut().expect("a hold");
    (hold.kind, hold.asks) = (Kind::SoftReboot, 1);
    for text in [soft.encode(), soft.annotation().expect("a hold")] {
        let read = Record::decode(&text).expect("a record").cleaned();
        assert_eq!(read.kind(), Some(Kind::SoftReboot));
        let request = read.request.expect("a request");
        assert_eq!(request.kind(), Kind::SoftReboot);
        assert_eq!(request.reasons[0].mark.as_ref(), Some(&mark));
    }
}
