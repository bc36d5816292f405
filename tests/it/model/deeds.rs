//! What a host's act, a crash or a boot does to the state: the model's API server and disks.

use super::local::{Act, Outcome};
use super::moves::at;
use super::state::{
    HOSTS, Hold, Holder, Host, Lease, LeaseView, Moment, Node, NodeView, Owner, Peers, Process,
    Said, Stage, State, Write,
};

impl Host {
    /// What is durable before the effect; another hold, or none, voids what was known of the last.
    pub(super) fn keep(&mut self, outcome: &Outcome) {
        let id = |hold: Option<Hold>| hold.map(|hold| hold.id);
        if id(self.disk.hold) != id(outcome.disk.hold) {
            self.process.said = Said::Nothing;
            (self.process.unanswered, self.process.refused) = (0, 0);
            self.process.accepted = 0;
            (self.process.confirmed, self.process.fence) = (0, None);
        }
        self.disk = outcome.disk;
    }

    /// It sets its label anew after a boot, and does not know that the Lease names it.
    fn claims(&self, node: &Node) -> bool {
        let rebooted = self.disk.hold.is_some_and(|hold| !hold.here);
        let Some(slot) = node.label.filter(|_| self.node.label.is_none() && rebooted) else {
            return false;
        };
        let view = self.process.leases[at(slot)];
        view.is_none_or(|view| view.holder != Holder::Me)
    }

    pub(super) fn crash(&mut self) {
        self.process = Process::default();
    }

    pub(super) fn boot(&mut self) {
        self.crash();
        self.shutting_down = false;
        self.disk.settled = false;
        for hold in self.holds() {
            hold.here = false;
            hold.asked = 0;
        }
    }

    pub(super) fn unanswered(&mut self, write: &Write, now: Moment) {
        match write {
            Write::Take { .. } => self.process.unanswered = now,
            Write::Apply { .. } | Write::Mend { .. } => self.process.node = None,
            Write::GiveUp { slot, .. } => self.process.leases[at(*slot)] = None,
            Write::Fence { slot, .. } => {
                self.process.leases[at(*slot)] = None;
                self.process.confirmed = 0;
                self.process.fence = self.disk.hold.map(|hold| (hold.asks, 0));
            }
        }
    }
}

impl State {
    pub(super) fn act(&mut self, index: u8, act: &Act) {
        let host = &mut self.hosts[at(index)];
        let now = host.now();
        match act {
            Act::Nothing => {}
            // The Leases first, the Node by another request: things happen in between.
            Act::ReadStart if !host.process.listed => {
                host.process.listed = true;
                (0..self.slots).for_each(|slot| self.show(index, slot, now));
            }
            Act::ReadStart | Act::ReadNode => self.show_node(index, now),
            Act::Begin => host.process.started = true,
            Act::ReadLease(slot) => self.show(index, *slot, now),
            Act::ListPeers => {
                let mut slot_of: [Option<u8>; HOSTS] = self.hosts.map(|host| host.node.label);
                slot_of[at(index)] = None;
                let hostile = self.hostile_label;
                self.hosts[at(index)].process.peers = Some(Peers {
                    slot_of,
                    hostile,
                    asked: now,
                });
            }
            Act::Confirm(slot) => {
                host.process.confirmed = now;
                self.show(index, *slot, now);
                self.show_node(index, now);
            }
            Act::AskReboot => {
                (host.process.confirmed, host.process.fence) = (0, None);
                host.shutting_down = true;
                host.process.accepted = now;
            }
            Act::Write(write) => {
                if let Write::Apply {
                    node,
                    current: true,
                    ..
                } = write
                {
                    self.claimed |= host.claims(node);
                }
                let done = self.perform(index, write);
                self.answer(index, write, done, now);
            }
        }
    }

    /// Whether the preconditions held.
    pub(super) fn perform(&mut self, index: u8, write: &Write) -> bool {
        let host = &mut self.hosts[at(index)];
        match *write {
            Write::Take { current, .. }
            | Write::Apply { current, .. }
            | Write::Mend { current, .. }
            | Write::GiveUp { current, .. }
            | Write::Fence { current, .. }
                if !current =>
            {
                return false;
            }
            Write::Take { slot, id, .. } => {
                let owner = Owner::Host(index);
                self.set(slot, Lease { owner, id });
            }
            Write::GiveUp { slot, .. } => self.set(slot, Lease::default()),
            Write::Fence { slot, .. } => self.set(slot, self.leases[at(slot)]),
            Write::Apply { node, .. } => {
                host.node = node;
                self.node_changed(index);
            }
            Write::Mend {
                label,
                record,
                cordon,
                ..
            } => {
                host.node.label = host.node.label.filter(|_| !label);
                host.node.record = host.node.record.filter(|_| !record);
                host.node.cordon &= !cordon;
                self.node_changed(index);
            }
        }
        true
    }

    pub(super) fn answer(&mut self, index: u8, write: &Write, done: bool, now: Moment) {
        let process = &mut self.hosts[at(index)].process;
        match (write, done) {
            (Write::Take { slot, .. }, true) => {
                process.said = Said::Taken;
                self.show(index, *slot, now);
            }
            (Write::Take { .. }, false) => process.said = Said::Conflict(now),
            (Write::Apply { point, .. }, true) => {
                process.applied = Some((point.0, point.1, now));
                self.show_node(index, now);
            }
            (Write::Mend { .. }, true) => self.show_node(index, now),
            (Write::Apply { .. } | Write::Mend { .. }, false) => process.node = None,
            (Write::GiveUp { slot, .. }, true) => self.show(index, *slot, now),
            (Write::GiveUp { slot, .. }, false) => process.leases[at(*slot)] = None,
            (Write::Fence { .. }, false) => self.hosts[at(index)].unanswered(write, now),
            (Write::Fence { slot, .. }, true) => {
                let host = &mut self.hosts[at(index)];
                host.process.fence = host.disk.hold.map(|hold| (hold.asks, now));
                self.show(index, *slot, now);
            }
        }
    }

    /// A Lease changes: every resourceVersion of it that anybody knows is an old one.
    pub(super) fn set(&mut self, slot: u8, lease: Lease) {
        self.leases[at(slot)] = lease;
        for host in &mut self.hosts {
            let holds = host.holds().filter(|hold| hold.slot == slot);
            holds.for_each(|hold| hold.current = false);
            if let Some(view) = &mut host.process.leases[at(slot)] {
                view.current = false;
            }
            if let Some(
                Write::Take {
                    slot: of, current, ..
                }
                | Write::GiveUp { slot: of, current }
                | Write::Fence { slot: of, current },
            ) = &mut host.late
            {
                *current &= *of != slot;
            }
        }
    }

    pub(super) fn node_changed(&mut self, index: u8) {
        let host = &mut self.hosts[at(index)];
        // From the cordon until the label goes; an uncordon in between is not the end of the hold, nor is a label that
        // the host takes off before it is proved.
        let unproved = |hold: Hold| !hold.here && hold.stage != Stage::Releasing;
        host.down = match host.node {
            Node { label: None, .. } if host.disk.hold.is_some_and(unproved) => host.down,
            Node { label: None, .. } => None,
            Node {
                label,
                cordon: true,
                ..
            } => label,
            Node { label, .. } => host.down.and(label),
        };
        if let Some(view) = &mut host.process.node {
            view.current = false;
        }
        if let Some(Write::Apply { current, .. } | Write::Mend { current, .. }) = &mut host.late {
            *current = false;
        }
    }

    pub(super) fn show(&mut self, index: u8, slot: u8, read: Moment) {
        let lease = self.leases[at(slot)];
        let holder = match lease.owner {
            Owner::Nobody => Holder::Nobody,
            Owner::Host(host) if host == index => Holder::Me,
            Owner::Host(_) | Owner::Hostile => Holder::Other,
        };
        self.hosts[at(index)].process.leases[at(slot)] = Some(LeaseView {
            holder,
            id: if holder == Holder::Me { lease.id } else { 0 },
            current: true,
            read,
        });
    }

    pub(super) fn show_node(&mut self, index: u8, read: Moment) {
        let host = &mut self.hosts[at(index)];
        host.process.node = Some(NodeView {
            node: host.node,
            current: true,
            read,
        });
    }
}
