//! The shape of `status` and `status --json`.

use super::*;
use crate::record::{Backoff, Why};
use crate::slot::{Lease, Take};
use crate::trigger::Request;

fn time(text: &str) -> Timestamp {
    text.parse().expect("a time")
}

fn boot(id: &str) -> Boot {
    Boot {
        id: id.to_owned(),
        userspace: 1,
    }
}

fn record(stage: Stage) -> Record {
    let lease = Lease::free("default", "default");
    let since = time("2026-11-21T10:00:00Z");
    let take = Take::of(&lease, "kube-rebootd", since, false);
    Record {
        hold: Some(Hold {
            step: 3,
            stage,
            asks: 1,
            ..Hold::begin(take, boot("a"))
        }),
        request: Some(Request {
            since: time("2026-11-21T09:00:00Z"),
            reasons: vec![crate::trigger::Reason {
                trigger: "sentinel /run/reboot-required".to_owned(),
                pkgs: std::collections::BTreeSet::from(["libc6".to_owned()]),
                words: "libc6".to_owned(),
                since: time("2026-11-21T09:00:00Z"),
                since_boot: Duration::from_secs(60),
            }],
            latched: Vec::new(),
        }),
        backoff: Some(Backoff {
            failures: 2,
            boot: boot("a"),
            until: Duration::from_secs(700),
            why: "the drain failed: web-0 is blocked".to_owned(),
        }),
        history: vec![Past {
            at: time("2026-11-01T03:00:00Z"),
            automatic: true,
            reasons: vec!["sentinel /run/reboot-required".to_owned()],
        }],
        ..Record::default()
    }
}

fn now() -> Now {
    Now {
        wall: time("2026-11-21T10:10:00Z"),
        boot: Duration::from_secs(400),
    }
}

fn active() -> Unit {
    Unit {
        active: "active".to_owned(),
        text: "undoing: the drain failed".to_owned(),
    }
}

#[test]
fn the_json_is_stable() {
    let why = Why::Drain("web-0 is blocked".to_owned());
    let status = tell(
        Ok(record(Stage::Undoing(why))),
        Some(&boot("a")),
        Ok(active()),
        now(),
    );
    insta::assert_snapshot!(serde_json::to_string_pretty(&status).expect("JSON"));
    insta::assert_snapshot!(table(&status));
}

#[test]
fn after_a_new_boot_a_hold_is_being_verified_and_a_back_off_is_over() {
    let status = tell(
        Ok(record(Stage::Rebooting)),
        Some(&boot("b")),
        Ok(active()),
        now(),
    );
    assert_eq!(status.phase, Some(Phase::Verifying));
    assert_eq!(status.backoff.map(|later| later.seconds_left), Some(0));
    let same = tell(
        Ok(record(Stage::Rebooting)),
        Some(&boot("a")),
        Ok(active()),
        now(),
    );
    assert_eq!(same.phase, Some(Phase::Rebooting));
}

#[test]
fn i8_what_cannot_be_read_is_unknown_and_said() {
    let late = BusError::Timeout {
        what: "reading the unit's status",
        limit: Duration::from_secs(10),
    };
    let status = tell(
        Err("state.json: damaged".to_owned()),
        None,
        Err(late),
        now(),
    );
    assert!(!status.running);
    assert_eq!((status.phase, status.unit), (None, None));
    assert_eq!(status.problems.len(), 2);
}

#[test]
fn i7_a_state_that_is_no_file_of_ours_is_told() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("state.json");
    assert_eq!(read(&path), Ok(Record::default()));
    bounded::odd::each(&path.clone(), store::MAX_BYTES, move || {
        read(&path).expect_err("no state")
    });
}
