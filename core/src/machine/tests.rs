//! Tables of the machine: what is due when, and what follows from what was seen. Whole cycles are the simulator's.

use std::time::Duration;

use jiff::Timestamp;

use super::*;
use crate::boot::Boot;
use crate::drain::Blocker;
use crate::gates::{State, Words};
use crate::node::Node;
use crate::now::fixed::{NOW, now, wall};
use crate::pod::Controller;
use crate::record::{Hold, Stage};
use crate::slot::{Lease, Take};
use crate::trigger::{BY_PERSON, Latched, Request, Settled};

mod alerts;
mod answers;
mod api_servers;
mod capacity;
mod clock;
mod commands;
mod draining;
mod due;
mod fleet_lock;
mod gates;
mod hooks;
mod live_patches;
mod memory;
mod orders;
mod own_inhibitor;
mod proof;
mod rebootmgr;
mod soft_reboots;
mod tell;
mod times;
mod tries;
mod views;
mod wishes;

fn ago(seconds: u64) -> Duration {
    NOW.checked_sub(Duration::from_secs(seconds)).unwrap()
}

fn boot(id: &str) -> Boot {
    Boot {
        id: id.to_owned(),
        userspace: 1,
    }
}

/// One of those below.
type Of = fn() -> Machine;

/// A person's: it needs no time to settle.
fn request() -> Request {
    Request {
        since: wall(),
        reasons: Vec::new(),
        latched: vec![Latched {
            by: BY_PERSON.to_owned(),
            reason: "kernel".to_owned(),
            at: wall(),
            boot: None,
            ended: false,
            kind: crate::kind::Kind::Reboot,
        }],
    }
}

fn hold(stage: Stage) -> Hold {
    let take = Take::of(
        &Lease::free("default", "default"),
        "kube-rebootd",
        wall(),
        false,
    );
    Hold {
        stage,
        ..Hold::begin(take, boot("now"))
    }
}

/// It has begun, has looked at host and Node, and nothing asks for a reboot.
fn idle() -> Machine {
    let mut facts = Facts::of_a_start(boot("now"), Record::default());
    facts.started = true;
    facts.node = Seen::Present(Box::new(Node::ready()));
    let mut machine = Machine::new(Config::default(), facts);
    machine.saw_host(host(NOW));
    machine
}

/// A reboot is wanted, no slot is held, and no gate is closed.
fn wanted() -> Machine {
    let mut machine = idle();
    machine.facts.record.request = Some(request());
    machine.facts.observed.request = Some(request());
    machine.saw_packages(Ok(None), now());
    machine.saw_commands(Ok(Vec::new()));
    machine.listed_before(&[], now());
    machine.saw_clock(Some(true), now());
    machine
}

/// A slot is held, in the boot in which it was taken.
fn held(stage: Stage) -> Machine {
    let mut machine = wanted();
    machine.facts.record.hold = Some(hold(stage));
    machine
}

/// The host has rebooted; the slot was taken in the boot before.
fn booted(stage: Stage) -> Machine {
    let mut machine = held(stage);
    machine.facts.record.hold.as_mut().unwrap().boot = boot("before");
    machine
}

fn host(read: Duration) -> HostNow {
    HostNow {
        read,
        shutting_down: Some(false),
        inhibitors: Some(Vec::new()),
        graceful: false,
        system_state: Some("running".to_owned()),
        failed: Some(std::collections::BTreeSet::new()),
        boot_complete: Some(true),
        sessions: Some(Vec::new()),
        rivals: Some(Vec::new()),
        live_patches: Some(Vec::new()),
        scheduled: None,
        systemd: Some("257".to_owned()),
    }
}

/// A pod of this controller; without one, of none.
fn pod(name: &str, kind: &str) -> Pod {
    let controller = (!kind.is_empty()).then(|| Controller {
        api: "apps/v1".to_owned(),
        kind: kind.to_owned(),
        name: name.to_owned(),
        uid: format!("{name}-set"),
    });
    Pod {
        controller,
        ..Pod::ready(name)
    }
}

/// A pod that would stop the drain.
fn blocker() -> Blocker {
    Blocker {
        pod: PodRef::of(&pod("bare", "")),
        why: "has no controller".to_owned(),
        budget: None,
    }
}

fn node(machine: &mut Machine) -> &mut Node {
    match &mut machine.facts.node {
        Seen::Present(node) => node,
        Seen::Absent | Seen::Unknown => panic!("no node"),
    }
}

/// The hold of this boot was proved, and is given up.
fn releasing() -> Machine {
    let mut machine = booted(Stage::Releasing);
    let settled = Settled::of(None, &boot("now"), NOW);
    machine.facts.record.settled = Some(settled);
    machine
}

/// The state without which of its words stay.
fn plain(state: &State) -> State {
    match state {
        State::Closed { why, opens } => State::Closed {
            why: Words::from(&**why),
            opens: *opens,
        },
        State::Unknown { why } => State::Unknown {
            why: Words::from(&**why),
        },
        state => state.clone(),
    }
}
