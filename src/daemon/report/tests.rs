//! What is said, and that it is said once per change.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::Timestamp;
use kube_rebootd_core::boot::Boot;
use kube_rebootd_core::config::{self, Config};
use kube_rebootd_core::drain::PodRef;
use kube_rebootd_core::facts::{Refusal, Rehearsed};
use kube_rebootd_core::gates::{Closed, Gate};
use kube_rebootd_core::reason::Reason;
use kube_rebootd_core::record::{Hold, Record, Why};
use kube_rebootd_core::slot::{Lease, Take};
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context, SubscriberExt};

use super::*;
use crate::host::journal::ENDED;

mod drain;

type Said = BTreeMap<String, String>;

/// Collects the records of this thread.
#[derive(Clone, Default)]
struct Records(Arc<Mutex<Vec<Said>>>);

impl<S: Subscriber> Layer<S> for Records {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut fields = Fields(Said::new());
        event.record(&mut fields);
        let level = event.metadata().level().to_string();
        fields.0.insert("LEVEL".to_owned(), level);
        self.0.lock().expect("a lock").push(fields.0);
    }
}

struct Fields(Said);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0
            .insert(field.name().to_ascii_uppercase(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0
            .insert(field.name().to_ascii_uppercase(), value.to_owned());
    }
}

/// A world and what was said of it.
struct World {
    report: Report,
    facts: Facts,
    policy: Policy,
    records: Records,
    waits: Option<String>,
    would: Option<String>,
    effect: Effect,
    /// The next step ends the hold.
    over: bool,
}

fn hold(stage: Stage) -> Hold {
    let lease = Lease::free("default", "default");
    let take = Take::of(&lease, "kube-rebootd", Timestamp::UNIX_EPOCH, false);
    Hold {
        stage,
        asks: 1,
        ..Hold::begin(take, Boot::unknown())
    }
}

impl World {
    fn new(record: Record) -> Self {
        let mut facts = Facts::of_a_start(Boot::unknown(), record);
        facts.started = true;
        Self {
            report: Report::default(),
            facts,
            policy: Policy::of(&Config::default(), Some("n1"), "kube-rebootd", "default"),
            records: Records::default(),
            waits: None,
            would: None,
            effect: Effect::Wait,
            over: false,
        }
    }

    fn made(&self, phase: Phase, status: &str) -> Step {
        let mut record = self.facts.record.clone();
        if self.over {
            record.hold = None;
        }
        Step {
            phase,
            reason: Reason::Idle,
            record,
            effect: self.effect.clone(),
            wake: None,
            status: status.to_owned(),
            waits: self.waits.clone(),
            would: self.would.clone(),
        }
    }

    /// The records of one more step in `phase`.
    fn step(&mut self, phase: Phase, status: &str) -> Vec<Said> {
        let step = self.made(phase, status);
        let registry = tracing_subscriber::registry().with(self.records.clone());
        tracing::subscriber::with_default(registry, || {
            let mut notify = Notify::new();
            self.report
                .step(&step, &self.facts, &self.policy, &mut notify, None);
        });
        std::mem::take(&mut self.records.0.lock().expect("a lock"))
    }
}

impl World {
    /// STATUS, and what is wrong with the configuration as `status` shows it.
    fn shown(&mut self, phase: Phase, status: &str) -> (String, Vec<String>) {
        let step = self.made(phase, status);
        let mut notify = Notify::new();
        self.report
            .step(&step, &self.facts, &self.policy, &mut notify, None);
        self.report.view(&step, &self.facts, &self.policy);
        (
            notify.said().to_owned(),
            self.report.shown().config_error.clone(),
        )
    }
}

fn closed(gate: Gate, why: &str) -> Closed {
    Closed {
        gate,
        why: why.into(),
        opens: None,
    }
}

#[test]
fn each_change_of_what_is_missing_after_the_boot_is_one_record() {
    let mut world = World::new(Record {
        hold: Some(hold(Stage::Rebooting)),
        ..Record::default()
    });
    // Nothing is known yet: that is the API server's matter, under no MESSAGE_ID of Verifying.
    world.facts.started = false;
    assert_eq!(
        world.step(Phase::Verifying, "starting: asking the API server"),
        []
    );
    world.facts.started = true;
    world.facts.host_health = Err(vec!["systemd is starting".to_owned()]);
    let said = world.step(Phase::Verifying, "verifying: systemd is starting");
    assert_eq!(said.len(), 1, "{said:?}");
    assert_eq!(said[0]["MESSAGE_ID"], id(Phase::Verifying));
    assert_eq!(said[0]["MESSAGE"], "verifying: systemd is starting");
    assert_eq!(said[0]["REASON"], "systemd is starting");
    assert_eq!(
        world.step(Phase::Verifying, "verifying: systemd is starting"),
        []
    );
    world.facts.host_health = Ok(());
    world.facts.pod_health = Err(vec![
        "DaemonSet pod kube-system/net is not ready".to_owned(),
    ]);
    let said = world.step(
        Phase::Verifying,
        "verifying: DaemonSet pod kube-system/net is not ready",
    );
    assert_eq!(said.len(), 1, "{said:?}");
    assert_eq!(
        said[0]["REASON"],
        "DaemonSet pod kube-system/net is not ready"
    );
}

#[test]
fn past_health_timeout_one_warning_has_an_id_of_its_own() {
    let mut world = World::new(Record {
        hold: Some(hold(Stage::Rebooting)),
        ..Record::default()
    });
    world.facts.host_health = Err(vec!["the Node is not Ready".to_owned()]);
    world.facts.verifying = world.policy.health_timeout;
    let first = world.step(Phase::Verifying, "verifying: the Node is not Ready");
    assert!(
        first.iter().all(|said| said["MESSAGE_ID"] != LATE),
        "{first:?}"
    );
    world.facts.verifying += Duration::from_secs(1);
    let late = world.step(Phase::Verifying, "not healthy within health.timeout");
    assert_eq!(late.len(), 1, "{late:?}");
    assert_eq!(late[0]["MESSAGE_ID"], LATE);
    assert_eq!(late[0]["LEVEL"], "WARN");
    assert_eq!(late[0]["LEASE"], "default");
    assert_eq!(late[0]["REASON"], "the Node is not Ready");
    world.facts.verifying += Duration::from_secs(3600);
    assert_eq!(
        world.step(Phase::Verifying, "not healthy within health.timeout"),
        []
    );
}

#[test]
fn a_changed_gate_or_holder_inside_a_phase_is_said_once() {
    let mut world = World::new(Record::default());
    world.facts.closed = vec![closed(Gate::NodePaused, "node paused: disk")];
    assert_eq!(
        world
            .step(Phase::Pending, "reboot pending: node paused: disk")
            .len(),
        1
    );
    assert_eq!(
        world.step(Phase::Pending, "reboot pending: node paused: disk"),
        []
    );
    world.facts.closed = vec![closed(Gate::Inhibitors, "shutdown inhibited by backup")];
    let said = world.step(
        Phase::Pending,
        "reboot pending: shutdown inhibited by backup",
    );
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0]["MESSAGE"].contains("backup"));
    world.facts.closed.clear();
    let held = |by: &str| Lease {
        holder: Some(by.to_owned()),
        ..Lease::free("default", "default")
    };
    for (holder, records) in [("n2", 1), ("n2", 0), ("n3", 1), ("n3", 0)] {
        world.facts.leases = BTreeMap::from([("default".to_owned(), held(holder))]);
        let said = world.step(
            Phase::Queued,
            &format!("queued: default is held by {holder}"),
        );
        assert_eq!(said.len(), records, "{holder}: {said:?}");
        assert!(said.iter().all(|one| one["HOLDER"] == holder), "{said:?}");
    }
}

/// Found by an operator: what closes a free slot stood in STATUS alone, and nowhere once that had changed.
#[test]
fn why_a_free_slot_is_not_taken_is_said_once_per_change() {
    let mut world = World::new(Record::default());
    for (waits, effect, records) in [
        ("3 of 9 nodes are unavailable", Effect::Wait, 1),
        ("3 of 9 nodes are unavailable", Effect::Wait, 0),
        ("", Effect::ListPeers, 0),
        ("3 of 9 nodes are unavailable", Effect::Wait, 0),
        ("coordination.min_interval is not over", Effect::Wait, 1),
    ] {
        world.waits = (!waits.is_empty()).then(|| waits.to_owned());
        world.effect = effect;
        let said = world.step(Phase::Queued, &format!("queued: {waits}"));
        assert_eq!(said.len(), records, "{waits}: {said:?}");
        assert!(said.iter().all(|one| one["MESSAGE"].contains(waits)));
    }
}

/// Found by an operator: each look at the cluster made an observer repeat itself, 288 times a day.
#[test]
fn what_an_observer_would_do_is_said_once() {
    let mut world = World::new(Record::default());
    let take = "take slot default";
    for (said, effect, records) in [
        (Some(take), Effect::Wait, 1),
        (None, Effect::ListPeers, 0),
        (Some(take), Effect::Wait, 0),
        (None, Effect::Wait, 0),
        (Some(take), Effect::Wait, 1),
    ] {
        world.would = said.map(str::to_owned);
        world.effect = effect;
        let told = world.step(Phase::Pending, "observing");
        let told = told.iter().filter(|one| one["MESSAGE"].contains(take));
        assert_eq!(told.count(), records, "{said:?}");
    }
}

/// Found by an operator: a gate that opened and closed beside a pause of hours was told each time, in the pause's words.
/// Before the cordon: of each once, and no warning.
#[test]
fn what_keeps_a_reboot_pending_is_said_and_not_what_lies_behind_it() {
    let mut world = World::new(Record::default());
    let inhibited = || vec![closed(Gate::Inhibitors, "shutdown inhibited by backup")];
    for (waits, gates, records) in [
        (Some("reboot.max_per_day is reached"), Vec::new(), 1),
        (Some("reboot.max_per_day is reached"), inhibited(), 0),
        (Some("2 failed attempts, the next is later"), inhibited(), 1),
        (None, inhibited(), 1),
        (None, Vec::new(), 1),
    ] {
        world.waits = waits.map(str::to_owned);
        world.facts.closed = gates;
        let told = world.step(Phase::Pending, "reboot pending");
        assert_eq!(told.len(), records, "{waits:?}: {told:?}");
    }
}

/// Found by an operator: a webhook that refuses what a hold sets made three records every five minutes.
#[test]
fn a_refusal_that_stays_is_said_once() {
    let mut world = World::new(Record::default());
    let mut step = |said: Result<(), String>, phase, effect, waits: Option<&str>| {
        world.facts.rehearsed = Some(Rehearsed {
            at: Duration::ZERO,
            said,
        });
        world.effect = effect;
        world.waits = waits.map(str::to_owned);
        world.step(phase, "words").len()
    };
    let no = || Err("no such label here".to_owned());
    let why = Some("what a hold sets on this Node would be refused");
    assert_eq!(step(no(), Phase::Pending, Effect::Wait, why), 1);
    for _ in 0..3 {
        assert_eq!(step(no(), Phase::Queued, Effect::ListPeers, None), 0);
        assert_eq!(step(no(), Phase::Pending, Effect::Wait, why), 0);
    }
    assert_eq!(step(Ok(()), Phase::Queued, Effect::ListPeers, None), 1);
}

#[test]
fn the_end_of_a_hold_is_summed_up_with_seconds_in_fields() {
    let mut world = World::new(Record {
        hold: Some(Hold {
            boot: Boot {
                id: "a".to_owned(),
                userspace: 0,
            },
            ..hold(Stage::Undoing(Why::Lost))
        }),
        ..Record::default()
    });
    world.facts.times.drain = 65;
    assert!(
        (world.step(Phase::Undoing, "undoing").iter()).all(|one| one["MESSAGE_ID"] != ENDED),
        "it goes on"
    );
    world.over = true;
    let said = world.step(Phase::Pending, "the slot is given up");
    let said: Vec<&Said> = (said.iter())
        .filter(|one| one["MESSAGE_ID"] == ENDED)
        .collect();
    let [summary] = said.as_slice() else {
        panic!("one summary: {said:?}");
    };
    let field = |key: &str| summary.get(key).map(String::as_str);
    assert_eq!(
        field("MESSAGE"),
        Some("not rebooted: the slot was taken away; drain 1m 5s (no pod evicted)")
    );
    assert_eq!(field("OUTCOME"), Some("undone"));
    assert_eq!(field("LEASE"), Some("default"));
    assert_eq!(field("DRAIN_SECONDS"), Some("65"));
    assert_eq!(field("PODS_EVICTED"), Some("0"));
    assert_eq!(field("VERIFY_SECONDS"), None, "nothing was rebooted");
}

#[test]
fn the_node_is_named_in_the_journal_once_it_is_known() {
    let mut world = World::new(Record::default());
    let naming = Naming::default();
    world.report.names(naming.clone());
    world.policy.me = None;
    world.step(Phase::Idle, "idle");
    assert_eq!(naming.name(), None);
    world.policy.me = Some("n1".to_owned());
    world.step(Phase::Idle, "idle");
    assert_eq!(naming.name().as_deref(), Some("n1"));
}

#[test]
fn an_ordinary_reboot_is_no_warning_at_the_stop() {
    let asked = || {
        let mut facts = Facts::of_a_start(
            Boot::unknown(),
            Record {
                hold: Some(hold(Stage::Rebooting)),
                ..Record::default()
            },
        );
        // logind was asked a moment ago, and PreparingForShutdown has not been read since.
        facts.shutting_down = false;
        facts
    };
    assert!(going_down(&asked()));
    let mut refused = asked();
    refused.ask = Some(Refusal {
        at: Duration::ZERO,
        why: "inhibited".to_owned(),
    });
    assert!(!going_down(&refused), "it will not reboot by itself");
    let mut draining = asked();
    draining.record.hold = Some(hold(Stage::Draining));
    assert!(!going_down(&draining), "systemctl stop");
    draining.shutting_down = true;
    assert!(going_down(&draining), "somebody else's reboot");
    let mut later = asked();
    later.boot.id = "another".to_owned();
    assert!(
        !going_down(&later),
        "this boot is the one that was asked for"
    );
}

#[test]
fn status_is_shown_what_the_daemon_sees() {
    let mut world = World::new(Record::default());
    world.facts.closed = vec![
        closed(Gate::NodePaused, "node paused: disk"),
        closed(
            Gate::MinUptime,
            "the host has been up for less than gates.min_uptime (1h)",
        ),
    ];
    let step = Step {
        phase: Phase::Pending,
        reason: Reason::Pending,
        record: Record::default(),
        effect: Effect::Wait,
        wake: None,
        status: String::new(),
        waits: None,
        would: None,
    };
    let view = world
        .report
        .view(&step, &world.facts, &world.policy)
        .cloned();
    let view = view.expect("it is new");
    assert_eq!(view.node.as_deref(), Some("n1"));
    assert_eq!(view.group, "default");
    assert_eq!(view.version, env!("CARGO_PKG_VERSION"));
    assert_eq!(view.waits.len(), 2, "every gate: {view:?}");
    assert_eq!(world.report.view(&step, &world.facts, &world.policy), None);
}

/// In `status` in full; in STATUS and on D-Bus, which everybody reads, in short.
#[test]
fn i12_a_refused_configuration_is_shown_until_it_is_right() {
    let mut world = World::new(Record::default());
    let bad = config::parse(Path::new("/etc/x.toml"), "a = 1\nmode = 2\n");
    world.facts.config_error = bad.err();
    let idle = "idle: no reboot needed";
    let (status, lines) = world.shown(Phase::Idle, idle);
    let short = "configuration refused and not in use: /etc/x.toml:1: a (and 1 more)";
    assert_eq!(status, format!("{idle}; {short}"));
    assert_eq!(lines.len(), 2, "{lines:?}");
    let view = world.report.shown();
    assert_eq!(
        view.config_places,
        ["/etc/x.toml:1: a", "/etc/x.toml:2: mode"]
    );
    let file = serde_json::to_string(view).expect("it can be written");
    assert!(file.contains("mode: is a number"), "{file}");
    world.facts.config_error = None;
    assert_eq!(
        world.shown(Phase::Idle, idle),
        (idle.to_owned(), Vec::new())
    );
}
