//! The shape of `status` and `status --json`.

use std::collections::BTreeMap;

use jiff::Timestamp;
use kube_rebootd_core::history::Past;
use kube_rebootd_core::phase::Phase;
use kube_rebootd_core::record::{Backoff, Hold, Stage, Why};
use kube_rebootd_core::slot::{Lease, Take};
use kube_rebootd_core::times::Times;
use kube_rebootd_core::trigger::Request;

use super::*;
use crate::host::view::{Blocked, Holder};

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
            reasons: vec![kube_rebootd_core::trigger::Reason {
                trigger: "sentinel /run/reboot-required".to_owned(),
                pkgs: std::collections::BTreeSet::from(["libc6".to_owned()]),
                words: "libc6".to_owned(),
                since: time("2026-11-21T09:00:00Z"),
                since_boot: Duration::from_secs(60),
                later: BTreeMap::new(),
                kind: kube_rebootd_core::kind::Kind::Reboot,
                mark: None,
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
            packages: vec!["linux-image".to_owned()],
            since: vec![time("2026-10-31T20:00:00Z")],
            later: BTreeMap::new(),
            times: Some(Times {
                slot: Some(24_900),
                waits: [("Settling".to_owned(), 600), ("Queued".to_owned(), 24_290)].into(),
                claim: 2,
                drain: 75,
                evicted: 12,
                boot: Some(48),
                verify: 31,
                ..Default::default()
            }),
            rolled_back: Some("kernel 2 was to come up, and 1 came again".to_owned()),
            kind: kube_rebootd_core::kind::Kind::Reboot,
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
        pid: 7,
        exit: 0,
    }
}

fn seen() -> View {
    View {
        pid: 7,
        version: "1.2.3".to_owned(),
        node: Some("n1".to_owned()),
        group: "default".to_owned(),
        phase: Some(Phase::Undoing),
        kept_by: Vec::new(),
        waits: vec![
            "node paused: disk".to_owned(),
            "shutdown inhibited by backup (runs)".to_owned(),
        ],
        holders: vec![Holder {
            slot: "default".to_owned(),
            node: "n1".to_owned(),
        }],
        blockers: vec![Blocked {
            pod: "shop/web-0".to_owned(),
            why: "would violate its budget".to_owned(),
            budget: Some("shop/web".to_owned()),
        }],
        config_error: vec!["/etc/kube-rebootd/config.toml:2: mode: is a number".to_owned()],
        ..View::default()
    }
}

#[test]
fn a_host_without_a_record_has_no_phase() {
    let status = tell(Ok(None), Some(&boot("a")), Ok(active()), None, now());
    assert_eq!(status.phase, None);
    assert!(
        table(&status).contains("phase     none"),
        "{}",
        table(&status)
    );
}

#[test]
fn a_unit_that_failed_with_78_is_sent_to_config_check() {
    let ended = |active: &str, exit| {
        let unit = Unit {
            active: active.to_owned(),
            exit,
            ..Unit::default()
        };
        let status = tell(Ok(None), None, Ok(unit), Some(seen()), now());
        assert_eq!(status.running, Some(false));
        assert_eq!(status.node, None, "a daemon that ended sees nothing");
        table(&status)
    };
    assert!(ended("failed", 78).contains("kube-rebootd config check"));
    assert!(!ended("failed", 1).contains("config check"));
    assert!(ended("inactive", 0).contains("systemctl start kube-rebootd"));
}

#[test]
fn the_json_is_stable() {
    let why = Why::Drain("web-0 is blocked".to_owned());
    let status = tell(
        Ok(Some(record(Stage::Undoing(why)))),
        Some(&boot("a")),
        Ok(active()),
        Some(seen()),
        now(),
    );
    insta::assert_snapshot!(serde_json::to_string_pretty(&status).expect("JSON"));
    insta::assert_snapshot!(table(&status));
}

#[test]
fn after_a_new_boot_a_hold_is_being_verified_and_a_back_off_is_over() {
    let status = tell(
        Ok(Some(record(Stage::Rebooting))),
        Some(&boot("b")),
        Ok(active()),
        None,
        now(),
    );
    assert_eq!(status.phase, Some(Phase::Verifying));
    assert_eq!(status.backoff.map(|later| later.seconds_left), Some(0));
    let same = tell(
        Ok(Some(record(Stage::Rebooting))),
        Some(&boot("a")),
        Ok(active()),
        None,
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
        None,
        now(),
    );
    assert_eq!(
        status.running, None,
        "no answer is no word about the daemon"
    );
    assert_eq!((status.phase, &status.unit), (None, &None));
    assert_eq!(status.problems.len(), 2);
    let text = table(&status);
    assert!(
        text.contains("systemd did not answer") && !text.contains("does not run"),
        "{text}"
    );
    assert!(!text.contains("nothing is on record"), "{text}");
}

#[test]
fn i7_a_state_that_is_no_file_of_ours_is_told() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("state.json");
    assert_eq!(read(&path), Ok(None));
    bounded::odd::each(&path.clone(), store::MAX_BYTES, move || {
        read(&path).expect_err("no state")
    });
}
