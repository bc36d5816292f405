//! From the small state to the facts of one host, as the daemon would have gathered them, and back.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use kube_rebootd_core::before::Before;
use kube_rebootd_core::boot::Boot;
use kube_rebootd_core::facts::{
    Answers, Applied, Drained, Facts, Fenced, LastList, Point, Refusal, Rehearsed, Waiters,
};
use kube_rebootd_core::gates::{Closed, Gate};
use kube_rebootd_core::health::Marks;
use kube_rebootd_core::hook::Standing;
use kube_rebootd_core::names;
use kube_rebootd_core::node::{self, Seen};
use kube_rebootd_core::peers::{self, Census, Peer};
use kube_rebootd_core::record::{self, Record, Why};
use kube_rebootd_core::slot::{self, Crowd, Mark, Take, TakeAnswer, TakeSaid};
use kube_rebootd_core::trigger::{Latched, Observed, Request, Settled};

use super::local::{Local, Mood};
use super::state::{
    HOSTS, Hold, Holder, Host, Id, LeaseView, Moment, Node, NodeView, SLOTS, Said, Stage,
};

pub(super) const NOW: Duration = Duration::from_secs(10_000);
pub(super) const SLOT_NAMES: [&str; SLOTS] = ["default", "default-1"];
const NODE_UID: &str = "uid";

pub(super) fn name(host: u8) -> String {
    format!("n{host}")
}

/// A moment as a time: 1 s, 65 s or 1000 s ago, in order.
pub(super) fn time(host: &Host, moment: Moment) -> Duration {
    let age = if moment <= host.old {
        1_000
    } else if moment <= host.stale {
        65
    } else {
        1
    };
    NOW.checked_sub(Duration::from_secs(age)).unwrap() + Duration::from_millis(u64::from(moment))
}

pub(super) fn moment(host: &Host, time_of: Duration) -> Moment {
    (1..host.now())
        .find(|moment| time(host, *moment) == time_of)
        .unwrap_or(host.now())
}

pub(super) fn some(host: &Host, moment: Moment) -> Option<Duration> {
    (moment > 0).then(|| time(host, moment))
}

pub(super) fn acquired(id: Id) -> Timestamp {
    Timestamp::from_second(1_790_000_000 + i64::from(id)).unwrap()
}

pub(super) fn id(acquired: Timestamp) -> Id {
    u8::try_from(acquired.as_second() - 1_790_000_000).unwrap()
}

pub(super) fn slot(name: &str) -> u8 {
    let place = SLOT_NAMES.iter().position(|slot| *slot == name);
    u8::try_from(place.unwrap()).unwrap()
}

pub(super) fn boot(here: bool) -> Boot {
    Boot {
        id: if here { "this" } else { "earlier" }.to_owned(),
        userspace: 1,
    }
}

pub(super) fn version(current: bool) -> String {
    if current { "2" } else { "1" }.to_owned()
}

pub(super) fn request() -> Request {
    Request {
        since: acquired(0),
        reasons: Vec::new(),
        latched: vec![Latched {
            by: "the model".to_owned(),
            reason: String::new(),
            at: acquired(0),
            boot: None,
            ended: false,
            kind: kube_rebootd_core::kind::Kind::Reboot,
        }],
    }
}

impl Hold {
    pub(super) fn wide(&self, host: &Host, quorum: bool) -> record::Hold {
        record::Hold {
            take: Take {
                namespace: "kube-rebootd".to_owned(),
                lease: SLOT_NAMES[usize::from(self.slot)].to_owned(),
                uid: format!("{}-uid", SLOT_NAMES[usize::from(self.slot)]),
                resource_version: version(self.current),
                acquire_time: acquired(self.id),
                control_plane: quorum,
            },
            step: u64::from(self.step),
            boot: boot(self.here),
            node_uid: self.node_known.then(|| NODE_UID.to_owned()),
            stage: match self.stage {
                Stage::Taking => record::Stage::Taking,
                Stage::Claiming => record::Stage::Claiming,
                Stage::Draining => record::Stage::Draining,
                Stage::Rebooting => record::Stage::Rebooting,
                Stage::Uncordoned => record::Stage::Uncordoned,
                Stage::Releasing => record::Stage::Releasing,
                Stage::Undoing => record::Stage::Undoing(Why::Ordered),
            },
            foreign_cordon: self.foreign,
            guards: false,
            excluded: false,
            cordoned: None,
            alone: false,
            marks: None,
            kind: kube_rebootd_core::kind::Kind::Reboot,
            hooked: false,
            before: Before::default(),
            drain_spent: 0,
            asks: u32::from(self.asks),
            asked: some(host, self.asked),
            granted: false,
            promised: None,
            askers: BTreeSet::new(),
        }
    }

    pub(super) fn of(hold: &record::Hold, host: &Host) -> Self {
        Self {
            slot: slot(&hold.take.lease),
            id: id(hold.take.acquire_time),
            current: hold.take.resource_version == version(true),
            step: u8::try_from(hold.step).unwrap(),
            here: hold.boot == boot(true),
            node_known: hold.node_uid.is_some(),
            stage: match hold.stage {
                record::Stage::Taking => Stage::Taking,
                record::Stage::Claiming => Stage::Claiming,
                record::Stage::Draining => Stage::Draining,
                record::Stage::Drained => unreachable!("nobody keeps a node drained here"),
                record::Stage::Rebooting => Stage::Rebooting,
                record::Stage::Uncordoned => Stage::Uncordoned,
                record::Stage::Releasing => Stage::Releasing,
                record::Stage::Undoing(_) => Stage::Undoing,
            },
            foreign: hold.foreign_cordon,
            asks: u8::try_from(hold.asks).unwrap(),
            asked: hold.asked.map_or(0, |asked| moment(host, asked)),
        }
    }
}

impl Local {
    pub(super) fn record(&self, hold: Option<&Hold>, settled: bool) -> Record {
        Record {
            hold: hold.map(|hold| hold.wide(&self.host, self.quorum)),
            request: Some(request()),
            settled: settled.then(|| Settled {
                boot: boot(true),
                proved_boot: Duration::ZERO,
                reasons: BTreeMap::new(),
                annotation: None,
                missed: None,
            }),
            ..Record::default()
        }
    }

    pub(super) fn disk(&self) -> Record {
        let disk = &self.host.disk;
        if disk.blank {
            return Record::default();
        }
        self.record(disk.hold.as_ref(), disk.settled)
    }

    pub(super) fn lease(&self, index: usize, view: &LeaseView) -> slot::Lease {
        slot::Lease {
            resource_version: version(view.current),
            holder: match view.holder {
                Holder::Nobody => None,
                Holder::Me => Some(name(self.me)),
                Holder::Other => Some("other".to_owned()),
            },
            acquire_time: (view.holder != Holder::Nobody).then(|| acquired(view.id)),
            read: some(&self.host, view.read),
            ..slot::Lease::free(SLOT_NAMES[index], "default")
        }
    }

    pub(super) fn node(&self, view: &NodeView) -> Seen {
        let Node {
            label,
            cordon,
            record,
        } = view.node;
        let mut labels = BTreeMap::new();
        if let Some(slot) = label {
            labels.insert(
                names::SLOT.to_owned(),
                SLOT_NAMES[usize::from(slot)].to_owned(),
            );
        }
        if self.quorum {
            labels.insert(names::QUORUM_ROLES[0].to_owned(), String::new());
        }
        let state = record.and_then(|hold| self.record(Some(&hold), false).annotation());
        Seen::Present(Box::new(node::Node {
            name: name(self.me),
            uid: NODE_UID.to_owned(),
            resource_version: version(view.current),
            unschedulable: cordon,
            cordon_owners: (cordon.then(|| names::NODE_MANAGER.to_owned()).into_iter()).collect(),
            labels,
            annotations: (state
                .map(|state| (names::STATE.to_owned(), state))
                .into_iter())
            .collect(),
            guarded: Vec::new(),
            exclusion_owners: Vec::new(),
            ready: true,
            heartbeat: None,
            turned: None,
            boot_id: String::new(),
            volumes_in_use: Vec::new(),
            conditions: Vec::new(),
            taints: Vec::new(),
            candidate: None,
            reported: BTreeMap::new(),
            read: some(&self.host, view.read),
        }))
    }

    /// The last list of the pods: of the confirmation where there is one, else one of now.
    fn listed(&self) -> Duration {
        let hold = self.host.disk.hold;
        let reboots = hold.is_some_and(|hold| hold.stage == Stage::Rebooting);
        let confirmed = some(&self.host, self.host.process.confirmed);
        confirmed.filter(|_| reboots).unwrap_or(NOW)
    }

    pub(super) fn peers(&self) -> Option<peers::Peers> {
        let hold = self.host.disk.hold;
        if hold.is_some_and(|hold| hold.stage == Stage::Rebooting) {
            // Part of what was confirmed: nobody is down but by a hold.
            let asked = some(&self.host, self.host.process.confirmed)?;
            return Some(peers::Peers {
                asked,
                came: asked,
                labelled: Vec::new(),
                leases: SLOT_NAMES.map(str::to_owned).into_iter().collect(),
                census: Ok(Census::default()),
                quorum_down: Ok(Vec::new()),
                counted: true,
            });
        }
        let peers = self.host.process.peers.as_ref()?;
        let mut labelled: Vec<Peer> = (0_u8..)
            .zip(peers.slot_of)
            .filter_map(|(host, slot)| {
                Some(Peer {
                    node: name(host),
                    slot: SLOT_NAMES[usize::from(slot?)].to_owned(),
                    quorum: self.quorum,
                    out_of_service: false,
                })
            })
            .collect();
        labelled.extend(peers.hostile.then(|| Peer {
            node: "hostile".to_owned(),
            slot: SLOT_NAMES[0].to_owned(),
            quorum: false,
            out_of_service: false,
        }));
        Some(peers::Peers {
            // The weakened daemon believes a list from before its label.
            asked: if self.blind {
                NOW
            } else {
                time(&self.host, peers.asked)
            },
            came: NOW,
            labelled,
            census: Ok(Census {
                nodes: HOSTS,
                down: Vec::new(),
                cordoned: Vec::new(),
            }),
            quorum_down: Ok(Vec::new()),
            counted: true,
            leases: SLOT_NAMES.map(str::to_owned).into_iter().collect(),
        })
    }

    pub(super) fn take_answer(&self) -> TakeAnswer {
        let process = &self.host.process;
        TakeAnswer {
            unanswered: some(&self.host, process.unanswered),
            said: match process.said {
                Said::Nothing => None,
                Said::Taken => Some(TakeSaid::Taken),
                Said::Refused => Some(TakeSaid::Refused(String::new())),
                Said::Conflict(when) => Some(TakeSaid::Conflict(time(&self.host, when))),
            },
        }
    }

    fn health(&self) -> Result<(), Vec<String>> {
        match self.mood {
            Mood::Sick => Err(vec!["sick".to_owned()]),
            Mood::Wanted | Mood::Closed | Mood::Withdrawn => Ok(()),
        }
    }

    /// Facts that say no more than the state does; what the lock does not rest on is always there:
    /// pods gone, host healthy, gates read just now.
    pub(super) fn facts(&self) -> Facts {
        let process = &self.host.process;
        let record = self.disk();
        let views = process.leases.iter().enumerate();
        Facts {
            started: process.started,
            shutting_down: self.host.shutting_down,
            host_read: Some(NOW),
            observed: Observed {
                request: (self.mood != Mood::Withdrawn).then(request),
                settled: record.settled.clone(),
                ..Observed::default()
            },
            closed: (self.mood == Mood::Closed)
                .then(|| Closed {
                    gate: Gate::NodePaused,
                    why: "".into(),
                    opens: None,
                })
                .into_iter()
                .collect(),
            node: match &process.node {
                None => Seen::Unknown,
                Some(view) => self.node(view),
            },
            applied: process.applied.map(|(id, step, at)| Applied {
                point: Point {
                    hold: (step > 0).then(|| acquired(id)),
                    step: u64::from(step),
                },
                at: time(&self.host, at),
            }),
            leases: views
                .filter_map(|(index, view)| {
                    let view = view.as_ref()?;
                    Some((SLOT_NAMES[index].to_owned(), self.lease(index, view)))
                })
                .collect(),
            listed: if process.listed {
                Ok(())
            } else {
                Err(String::new())
            },
            peers: self.peers(),
            take: self.take_answer(),
            waiters: Some(Waiters {
                asked: NOW,
                list: Vec::new(),
                failed: 0,
            }),
            mark: Mark::None,
            crowd: Some(Crowd::default()),
            marks: Some(Marks::default()),
            drain: Drained::Done { at: Duration::ZERO },
            last_list: Some(LastList {
                asked: self.listed(),
                clean: true,
                marks: Marks::default(),
            }),
            confirmed: some(&self.host, process.confirmed),
            fenced: (process.fence.zip(self.host.disk.hold)).map(|((asks, at), hold)| Fenced {
                hold: acquired(hold.id),
                asks: u32::from(asks),
                at: some(&self.host, at),
            }),
            ask: some(&self.host, process.refused).map(|at| Refusal {
                at,
                why: String::new(),
            }),
            ask_accepted: some(&self.host, process.accepted),
            rehearsed: Some(Rehearsed {
                at: NOW,
                said: Ok(()),
            }),
            host_health: self.health(),
            pod_health: self.health(),
            answers: Answers::NONE,
            hooks: Standing::NONE,
            ..Facts::of_a_start(boot(true), record)
        }
    }
}
