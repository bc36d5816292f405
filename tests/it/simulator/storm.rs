//! Thousands of waiters against a model of the API server that counts what they list: a group whose pause ends,
//! a label on a Node that nobody knows, a budget that closes. Only the queue is real here: the decisions are
//! `decide`'s, a hold is a stretch of time.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::time::Duration;

use jiff::Timestamp;
use kube_rebootd_core::boot::Boot;
use kube_rebootd_core::config::Config;
use kube_rebootd_core::decide::{Policy, census_matters, decide, ready};
use kube_rebootd_core::effect::Effect;
use kube_rebootd_core::facts::{Facts, Rehearsed};
use kube_rebootd_core::gates::{Closed, Gate};
use kube_rebootd_core::node::{Node, Seen};
use kube_rebootd_core::now::Now;
use kube_rebootd_core::peers::Census;
use kube_rebootd_core::peers::{Peer, Peers};
use kube_rebootd_core::record::Record;
use kube_rebootd_core::slot::{Crowd, Lease, MANY, Mark, Shown, TakeSaid, Waiter, hints};
use kube_rebootd_core::trigger::{Latched, Request};

use super::chance::Chance;

const START: i64 = 1_790_000_000;
const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);
/// What the project promises: lists of all waiters together in any second.
const MOST: usize = 20;
const FLEET: usize = 5_000;
/// From the take to the give-up.
const HOLD: Duration = Duration::from_secs(60);

struct Host {
    policy: Policy,
    facts: Facts,
    shown: Option<Shown>,
    /// From when on it wants a reboot; before it nothing wakes it.
    begins: Duration,
    wake: Duration,
    served: bool,
}

/// What the waiters listed, by the kind of list, with the time of each in the last second.
#[derive(Default)]
struct Lists {
    total: BTreeMap<&'static str, usize>,
    recent: VecDeque<Duration>,
    most: usize,
}

impl Lists {
    fn add(&mut self, what: &'static str, now: Duration) {
        *self.total.entry(what).or_default() += 1;
        self.recent.push_back(now);
        while self
            .recent
            .front()
            .is_some_and(|then| *then + SECOND <= now)
        {
            self.recent.pop_front();
        }
        self.most = self.most.max(self.recent.len());
    }

    fn of(&self, what: &str) -> usize {
        self.total.get(what).copied().unwrap_or_default()
    }
}

struct Storm {
    clock: Duration,
    chance: Chance,
    hosts: Vec<Host>,
    slots: BTreeMap<String, Lease>,
    version: u64,
    due: BinaryHeap<Reverse<(Duration, usize)>>,
    ends: BinaryHeap<Reverse<(Duration, String)>>,
    /// A Node carries a slot label that no group knows.
    stray: bool,
    /// So many Nodes are down.
    down: usize,
    lists: Lists,
    served: Vec<usize>,
}

fn own_node(name: &str) -> Node {
    Node {
        name: name.to_owned(),
        uid: format!("uid-{name}"),
        resource_version: "1".to_owned(),
        unschedulable: false,
        cordon_owners: Vec::new(),
        labels: BTreeMap::new(),
        annotations: BTreeMap::new(),
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
        read: None,
    }
}

impl Storm {
    /// `hosts` nodes that begin to wait within `within`, and `slots` slots.
    fn new(hosts: usize, slots: usize, within: Duration) -> Self {
        let names = (0..slots).map(|slot| format!("slot-{slot}"));
        let mut storm = Self {
            clock: HOUR,
            chance: Chance::seed(7),
            hosts: Vec::new(),
            slots: names
                .map(|name| (name.clone(), Lease::free(&name, "default")))
                .collect(),
            version: 1,
            due: BinaryHeap::new(),
            ends: BinaryHeap::new(),
            stray: false,
            down: 0,
            lists: Lists::default(),
            served: Vec::new(),
        };
        for index in 0..hosts {
            let name = format!("n{index:04}");
            let boot = Boot {
                id: name.clone(),
                userspace: 1,
            };
            let by = Latched {
                by: "node annotation".to_owned(),
                reason: "please".to_owned(),
                at: Timestamp::UNIX_EPOCH,
                boot: None,
                ended: false,
                kind: kube_rebootd_core::kind::Kind::Reboot,
            };
            let request = Request {
                since: Timestamp::UNIX_EPOCH,
                reasons: Vec::new(),
                latched: vec![by],
            };
            let record = Record {
                request: Some(request),
                ..Record::default()
            };
            let mut facts = Facts::of_a_start(boot, record);
            facts.started = true;
            facts.listed = Ok(());
            facts.observed.request.clone_from(&facts.record.request);
            facts.node = Seen::Present(Box::new(own_node(&name)));
            facts.mark = Mark::None;
            storm.hosts.push(Host {
                policy: Policy::of(&Config::default(), Some(&name), "kube-rebootd", "default"),
                facts,
                shown: None,
                begins: Duration::ZERO,
                wake: Duration::MAX,
                served: false,
            });
            let at = storm.clock + storm.soon(within);
            storm.hosts[index].begins = at;
            storm.wake(index, at);
        }
        storm
    }

    fn soon(&mut self, within: Duration) -> Duration {
        let millis = usize::try_from(within.as_millis()).unwrap();
        Duration::from_millis(u64::try_from(self.chance.below(millis + 1)).unwrap())
    }

    fn wake(&mut self, host: usize, at: Duration) {
        let at = at.max(self.hosts[host].begins);
        if at < self.hosts[host].wake && !self.hosts[host].served {
            self.hosts[host].wake = at;
            self.due.push(Reverse((at, host)));
        }
    }

    /// A Lease changed: every watch shows it within a third of a second.
    fn changed(&mut self, name: &str) {
        self.version += 1;
        let lease = self.slots.get_mut(name).unwrap();
        lease.resource_version = self.version.to_string();
        for host in 0..self.hosts.len() {
            let at = self.clock + self.soon(Duration::from_millis(300));
            self.wake(host, at);
        }
    }

    fn pause(&mut self, why: Option<&str>) {
        let names: Vec<String> = self.slots.keys().cloned().collect();
        for name in names {
            self.slots.get_mut(&name).unwrap().paused = why.map(str::to_owned);
            self.changed(&name);
        }
    }

    fn run(&mut self, time: Duration) {
        let end = self.clock + time;
        loop {
            let host = self.due.peek().map(|next| next.0.0);
            let hold = self.ends.peek().map(|next| next.0.0);
            let next = [host, hold].into_iter().flatten().min();
            let Some(next) = next.filter(|next| *next <= end) else {
                break;
            };
            self.clock = self.clock.max(next);
            if hold == Some(next) {
                if let Some(Reverse((_, name))) = self.ends.pop() {
                    self.end(&name);
                }
            } else if let Some(Reverse((at, host))) = self.due.pop()
                && self.hosts[host].wake == at
            {
                self.hosts[host].wake = Duration::MAX;
                self.turn(host);
            }
        }
        self.clock = end;
    }

    fn now(&self) -> Now {
        let seconds = i64::try_from(self.clock.as_secs()).unwrap();
        let nanos = i32::try_from(self.clock.subsec_nanos()).unwrap();
        Now {
            wall: Timestamp::new(START + seconds, nanos).unwrap(),
            boot: self.clock,
        }
    }

    fn turn(&mut self, index: usize) {
        let now = self.now();
        let paused = self.slots.values().all(|lease| lease.paused.is_some());
        let host = &mut self.hosts[index];
        for (name, lease) in &self.slots {
            let known = host.facts.leases.get(name);
            if known.is_none_or(|known| known.resource_version != lease.resource_version) {
                let lease = lease.clone().follow(known, now.boot);
                host.facts.leases.insert(name.clone(), lease);
            }
        }
        let pause = Closed {
            gate: Gate::GroupPaused,
            why: "paused".into(),
            opens: None,
        };
        host.facts.closed = paused.then_some(pause).into_iter().collect();
        let step = decide(&host.facts, &host.policy, now);
        host.facts.ready = ready(&host.facts, &step, now);
        let wrote = host.facts.record != step.record;
        host.facts.record = step.record;
        let mut wake = self.clock + Duration::from_millis(20);
        if step.effect == Effect::Wait && !wrote {
            wake = step.wake.unwrap_or(self.clock + MINUTE);
        }
        self.act(index, step.effect, now.boot);
        self.wake(index, wake);
    }

    fn act(&mut self, index: usize, effect: Effect, now: Duration) {
        match effect {
            Effect::Wait => {}
            Effect::Mark(shown) => {
                self.hosts[index].shown = Some(shown.clone());
                self.hosts[index].facts.mark = Mark::Shown(shown);
            }
            Effect::CountWaiters => {
                self.lists.add("a page of waiters", now);
                let mut others = self.waiters(index);
                let many = others.len() > MANY as usize;
                others.truncate(MANY as usize);
                self.hosts[index].facts.crowd = Some(Crowd { others, many });
            }
            Effect::ListPeers => {
                let peers = self.peers(index, now);
                self.hosts[index].facts.peers = Some(peers);
            }
            Effect::ReadHost => self.hosts[index].facts.host_read = Some(now),
            Effect::Rehearse(_) => {
                let said = Ok(());
                self.hosts[index].facts.rehearsed = Some(Rehearsed { at: now, said });
            }
            Effect::ReadLease(name) => {
                let lease = Lease {
                    read: Some(now),
                    ..self.slots[&name].clone()
                };
                let facts = &mut self.hosts[index].facts;
                let lease = lease.follow(facts.leases.get(&name), now);
                facts.leases.insert(name, lease);
                facts.take.said = Some(TakeSaid::Conflict(Duration::ZERO));
            }
            Effect::Take(take) => {
                let lease = self.slots.get_mut(&take.lease).unwrap();
                if lease.resource_version != take.resource_version {
                    self.hosts[index].facts.take.said = Some(TakeSaid::Conflict(now));
                    return;
                }
                lease.holder.clone_from(&self.hosts[index].policy.me);
                lease.acquire_time = Some(take.acquire_time);
                self.hosts[index].served = true;
                self.hosts[index].shown = None;
                self.served.push(index);
                self.ends.push(Reverse((now + HOLD, take.lease.clone())));
                self.changed(&take.lease);
            }
            other => panic!("{other:?} is not modelled"),
        }
    }

    /// All that wait but `me`, by name.
    fn waiters(&self, me: usize) -> Vec<Waiter> {
        let others = self
            .hosts
            .iter()
            .enumerate()
            .filter(|(host, _)| *host != me);
        let waiter = |host: &Host| {
            let shown = host.shown.as_ref()?;
            Some(Waiter {
                node: host.policy.me.clone()?,
                since: shown.place.since,
                ready: shown.ready,
            })
        };
        others.filter_map(|(_, host)| waiter(host)).collect()
    }

    /// The requests of `cluster::peers::Question::list`, in its order.
    fn peers(&mut self, index: usize, asked: Duration) -> Peers {
        self.lists.add("labels", asked);
        let peer = |node: &str, slot: &str| Peer {
            node: node.to_owned(),
            slot: slot.to_owned(),
            quorum: false,
            out_of_service: false,
        };
        let held = self.slots.values();
        let held = held.filter_map(|lease| Some(peer(lease.holder.as_deref()?, &lease.name)));
        let mut peers = Peers {
            asked,
            came: asked,
            labelled: held.collect(),
            leases: self.slots.keys().cloned().collect(),
            census: Err("not asked for".to_owned()),
            quorum_down: Err("not asked for".to_owned()),
            counted: false,
        };
        if self.stray {
            peers.labelled.push(peer("other", "forged"));
        }
        if !peers.labelled.is_empty() {
            self.lists.add("Leases", asked);
        }
        let host = &self.hosts[index];
        if census_matters(&host.facts, &host.policy, &peers) {
            self.lists.add("all Nodes", asked);
            (peers.counted, peers.quorum_down) = (true, Ok(Vec::new()));
            peers.census = Ok(Census {
                nodes: self.hosts.len(),
                down: (0..self.down).map(|node| format!("down-{node}")).collect(),
                cordoned: Vec::new(),
            });
        }
        peers
    }

    /// The holder gives its slot up, and names who has waited longest.
    fn end(&mut self, name: &str) {
        let next = hints(&self.waiters(usize::MAX), "");
        let last = format!("until {:?}", self.clock);
        let lease = self.slots.get_mut(name).unwrap();
        (lease.holder, lease.acquire_time) = (None, None);
        (lease.next, lease.last_hold) = (next, Some(last));
        self.changed(name);
    }

    /// Starts to count anew.
    fn measure(&mut self) {
        self.lists = Lists::default();
    }

    fn calm(&self, what: &str) {
        let Lists { total, most, .. } = &self.lists;
        println!("{what}: at most {most} lists in a second; {total:?}");
        assert!(*most <= MOST, "{what}: {most} lists in a second; {total:?}");
    }

    /// Those that were served from `from` on came first: of all that still waited, nobody but the few who were
    /// named beside them had waited longer.
    fn in_order(&self, from: usize) {
        let since = |host: usize| {
            let place = self.hosts[host].facts.record.waiting.as_ref();
            (place.unwrap().since, host)
        };
        for (index, host) in self.served.iter().enumerate().skip(from) {
            let before = (0..self.hosts.len()).filter(|other| {
                since(*other) < since(*host) && !self.served[..index].contains(other)
            });
            let before = before.count();
            assert!(
                before < 3 + self.slots.len(),
                "{before} had waited longer than n{host:04}"
            );
        }
    }
}

/// A fleet that has waited for hours: everybody is seen, and knows whether many wait.
fn waiting_fleet(slots: usize) -> Storm {
    let mut storm = Storm::new(FLEET, slots, 10 * MINUTE);
    storm.pause(Some("not yet"));
    storm.run(30 * MINUTE);
    storm.calm("waiting behind a pause");
    assert!(storm.served.is_empty());
    assert_eq!(storm.waiters(usize::MAX).len(), FLEET);
    assert_eq!(storm.lists.of("all Nodes") + storm.lists.of("labels"), 0);
    storm.measure();
    storm
}

#[test]
fn a_pause_that_ends_wakes_no_herd() {
    let mut storm = waiting_fleet(3);
    storm.pause(None);
    storm.run(15 * SECOND);
    let (looked, taken) = (storm.lists.of("labels"), storm.served.len());
    assert_eq!(taken, 3, "the slots are taken soon, after {looked} looks");
    storm.run(10 * MINUTE);
    storm.calm("a pause that ends");
    let served = storm.served.len();
    assert!(served >= 25, "{served} were served");
    storm.in_order(3);
}

/// What blocks everybody at the end of the pause, and ends after half an hour.
fn blocked_for_half_an_hour(what: &str, block: fn(&mut Storm), unblock: fn(&mut Storm)) {
    let mut storm = waiting_fleet(3);
    block(&mut storm);
    storm.pause(None);
    storm.run(30 * MINUTE);
    storm.calm(what);
    assert!(storm.served.is_empty());
    let looks = storm.lists.of("labels");
    assert!(looks >= 1000, "{looks} looks: nobody would notice the end");
    let counted = storm.lists.of("all Nodes");
    assert!(
        counted == 0 || !storm.stray,
        "the labels come first: {counted}"
    );
    unblock(&mut storm);
    storm.run(30 * SECOND);
    assert_eq!(storm.served.len(), 3, "{what}: somebody looks soon");
    storm.run(5 * MINUTE);
    storm.calm(what);
    let served = storm.served.len();
    assert!(served >= 12, "{served} were served");
    storm.in_order(3);
}

#[test]
fn a_stray_label_makes_no_herd_and_its_end_is_noticed() {
    let (block, unblock) = (
        |storm: &mut Storm| storm.stray = true,
        |storm: &mut Storm| storm.stray = false,
    );
    blocked_for_half_an_hour("a stray label", block, unblock);
}

#[test]
fn a_closed_budget_makes_no_herd_and_its_end_is_noticed() {
    let (block, unblock) = (
        |storm: &mut Storm| storm.down = FLEET / 10,
        |storm: &mut Storm| storm.down = 0,
    );
    blocked_for_half_an_hour("a closed budget", block, unblock);
}

/// In the middle of the rolling, with everybody awake at each give-up.
#[test]
fn a_label_that_appears_between_two_holds_makes_no_herd() {
    let mut storm = waiting_fleet(1);
    storm.pause(None);
    storm.run(5 * MINUTE);
    let before = storm.served.len();
    assert!(before >= 4, "{before}");
    storm.in_order(2);
    (storm.stray, storm.down) = (true, FLEET / 2);
    storm.run(30 * MINUTE);
    storm.calm("a label in the middle");
    let until_then = storm.served.len();
    assert!(until_then <= before + 1);
    (storm.stray, storm.down) = (false, 0);
    storm.run(5 * MINUTE);
    storm.calm("and gone");
    assert!(storm.served.len() >= before + 4);
    // Who notices the end is chance; from then on the next are named again.
    storm.in_order(until_then + 1);
}

/// All of them in the same second, and a slot is free: each asks once for one page of the waiters, and only a
/// few look at the Nodes.
#[test]
fn a_fleet_that_comes_at_once_does_not_list_all_nodes() {
    let mut storm = Storm::new(FLEET, 1, SECOND);
    storm.stray = true;
    storm.run(5 * MINUTE);
    let (pages, looks) = (
        storm.lists.of("a page of waiters"),
        storm.lists.of("labels"),
    );
    assert_eq!(pages, FLEET);
    assert!(looks <= 5 * 60 * MOST / 2, "{looks} looks in five minutes");
    assert_eq!(storm.lists.of("all Nodes"), 0);
}

#[test]
fn few_waiters_are_as_quick_as_ever() {
    for hosts in [1, 3] {
        let mut storm = Storm::new(hosts, 1, 10 * SECOND);
        storm.run(10 * SECOND + SECOND);
        assert_eq!(storm.served.len(), 1, "of {hosts}");
        // Handed over to the next that waits, without any delay.
        for served in 2..=hosts {
            let end = storm.ends.peek().unwrap().0.0;
            storm.run(end.saturating_sub(storm.clock) + SECOND / 2);
            assert_eq!(storm.served.len(), served, "of {hosts}");
        }
    }
    // Alone, and asked for while the slot is free: at once.
    let mut storm = Storm::new(1, 1, Duration::ZERO);
    storm.run(SECOND / 4);
    assert_eq!(storm.served.len(), 1);
    // After an `unlock` nobody is named: they look one after another.
    let mut storm = Storm::new(5, 1, SECOND);
    storm.slots.get_mut("slot-0").unwrap().holder = Some("dead".to_owned());
    storm.run(5 * MINUTE);
    storm.slots.get_mut("slot-0").unwrap().holder = None;
    storm.changed("slot-0");
    storm.run(5 * SECOND);
    assert_eq!(storm.served.len(), 1);
}

#[test]
fn everybody_of_two_hundred_gets_a_turn_in_the_order_in_which_they_came() {
    let mut storm = Storm::new(200, 2, HOUR);
    storm.run(4 * HOUR);
    assert_eq!(storm.served.len(), 200);
    storm.in_order(0);
    storm.calm("two hundred");
}
