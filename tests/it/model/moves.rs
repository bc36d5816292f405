//! What can happen in a state, and what it leads to: turns of the daemons, answers that are lost or
//! late, crashes, power loss, watches that lag, time that passes, an admin, a hostile node.

use std::collections::HashMap;

use super::local::{Act, Local, Mood, Outcome};
use super::state::{Id, Lease, Node, Owner, Process, Said, State, Write};

/// What is modelled.
#[derive(Clone, Copy, Debug)]
pub(super) struct Model {
    pub(super) hosts: u8,
    /// At most so many accidents in one story; none: any number.
    pub(super) accidents: Option<u8>,
    pub(super) slots: u8,
    pub(super) quorum: bool,
    /// Answers may be lost, writes may land late.
    pub(super) late: bool,
    /// A take may be refused for a reason that is none of the protocol's.
    pub(super) refusals: bool,
    pub(super) crashes: bool,
    /// A host may boot at any time, not only when logind was asked.
    pub(super) power_loss: bool,
    /// Gates close and requests are withdrawn.
    pub(super) moods: bool,
    /// Hosts are not healthy for a while after a boot.
    pub(super) sick: bool,
    /// Somebody who may clear a Lease does.
    pub(super) clears: bool,
    /// `unlock NODE`: the Lease, then the label.
    pub(super) unlocks: bool,
    pub(super) hostile: bool,
    /// It labels itself too.
    pub(super) labels: bool,
    pub(super) lost_disks: bool,
    /// The daemons are made worse on purpose: they believe a list of peers from before their label.
    pub(super) blind: bool,
}

/// One thing that happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Move {
    /// A daemon decides and acts; its write is done and answered.
    Turn(u8, Mood),
    /// The same, but its write is on its way when the daemon stops waiting for the answer.
    Unanswered(u8, Mood),
    /// A take is refused.
    Refused(u8),
    /// A late write lands, or never does.
    Land(u8),
    Vanish(u8),
    /// Watches catch up.
    ShowLease(u8, u8),
    ShowNode(u8),
    /// All that the host knows is older than 5 s, or than 75 s.
    Stale(u8),
    Old(u8),
    Crash(u8),
    Boot(u8),
    PowerLoss(u8),
    LoseDisk(u8),
    Clear(u8),
    Unlabel(u8),
    Unlock(u8),
    HostileTake(u8),
    /// The hostile node takes a slot in the name of a host, with one of its acquire times or none.
    HostileName(u8, u8, Id),
    HostileLabel,
}

impl Move {
    /// Whom it happens to, by its place in the state: hosts that are alike change places.
    pub(super) fn host(self) -> Option<u8> {
        match self {
            Self::Turn(host, _)
            | Self::Unanswered(host, _)
            | Self::Refused(host)
            | Self::Land(host)
            | Self::Vanish(host)
            | Self::ShowLease(host, _)
            | Self::ShowNode(host)
            | Self::Stale(host)
            | Self::Old(host)
            | Self::Crash(host)
            | Self::Boot(host)
            | Self::PowerLoss(host)
            | Self::LoseDisk(host)
            | Self::Unlabel(host)
            | Self::Unlock(host)
            | Self::HostileName(_, host, _) => Some(host),
            Self::Clear(_) | Self::HostileTake(_) | Self::HostileLabel => None,
        }
    }
}

impl Move {
    /// What need not happen: the rest is work, time, or the end of something begun.
    fn accident(self) -> bool {
        match self {
            Self::Turn(_, mood) => mood != Mood::Wanted,
            Self::Unanswered(..)
            | Self::Refused(_)
            | Self::Crash(_)
            | Self::LoseDisk(_)
            | Self::Clear(_)
            | Self::Unlock(_)
            | Self::HostileTake(_)
            | Self::HostileName(..)
            | Self::HostileLabel
            | Self::PowerLoss(_) => true,
            Self::Land(_)
            | Self::Vanish(_)
            | Self::ShowLease(..)
            | Self::ShowNode(_)
            | Self::Stale(_)
            | Self::Old(_)
            | Self::Boot(_)
            | Self::Unlabel(_) => false,
        }
    }
}

/// Decisions of the code by what they rest on: the code is asked once for each.
#[derive(Default)]
pub(super) struct Decisions(HashMap<Local, Outcome>);

impl Decisions {
    pub(super) fn reboots(&self) -> bool {
        self.0.values().any(|outcome| outcome.act == Act::AskReboot)
    }

    pub(super) fn asked(&self) -> usize {
        self.0.len()
    }

    fn of(&mut self, local: Local) -> Outcome {
        *self.0.entry(local).or_insert_with(|| local.decide())
    }
}

pub(super) fn at(index: u8) -> usize {
    usize::from(index)
}

impl Model {
    pub(super) fn start(&self) -> State {
        let mut state = State {
            slots: self.slots,
            left: self.accidents.unwrap_or(u8::MAX),
            ..State::default()
        };
        for host in &mut state.hosts {
            host.timed = self.quorum;
        }
        state
    }

    /// All that can happen next, and where it leads.
    pub(super) fn next(
        &self,
        state: &State,
        known: &mut Decisions,
        found: &mut Vec<(Move, State)>,
    ) {
        for host in 0..self.hosts {
            self.turns(state, host, known, found);
            self.accidents(state, host, found);
        }
        for slot in 0..self.slots {
            self.people(state, slot, found);
        }
        if self.labels {
            let mut labelled = *state;
            labelled.hostile_label = !state.hostile_label;
            found.push((Move::HostileLabel, labelled));
        }
        if self.unlocks {
            self.unlock(state, found);
        }
        if self.accidents.is_some() {
            found.retain_mut(|(what, next)| {
                let left = next.left.checked_sub(u8::from(what.accident()));
                next.left = left.unwrap_or_default();
                left.is_some()
            });
        }
    }

    fn local(&self, state: &State, host: u8, mood: Mood) -> Local {
        let mut own = state.hosts[at(host)];
        // Not seen by the daemon itself.
        (own.node, own.late, own.down) = (Node::default(), None, None);
        Local {
            me: if self.quorum { host } else { 0 },
            slots: self.slots,
            quorum: self.quorum,
            mood,
            host: own,
            id: state.fresh_id(at(host)),
            blind: self.blind,
        }
    }

    pub(super) fn act_of(&self, state: &State, host: u8, mood: Mood, known: &mut Decisions) -> Act {
        known.of(self.local(state, host, mood)).act
    }

    fn turns(
        &self,
        state: &State,
        host: u8,
        known: &mut Decisions,
        found: &mut Vec<(Move, State)>,
    ) {
        let moods: &[Mood] = match (self.moods, self.sick) {
            (true, true) => &[Mood::Wanted, Mood::Closed, Mood::Withdrawn, Mood::Sick],
            (true, false) => &[Mood::Wanted, Mood::Closed, Mood::Withdrawn],
            (false, true) => &[Mood::Wanted, Mood::Sick],
            (false, false) => &[Mood::Wanted],
        };
        for mood in moods {
            let outcome = known.of(self.local(state, host, *mood));
            let mut decided = *state;
            decided.hosts[at(host)].keep(&outcome);
            let written = match outcome.act {
                Act::Write(write) => Some(write),
                _ => None,
            };
            let mut done = decided;
            done.act(host, &outcome.act);
            found.push((Move::Turn(host, *mood), done));
            if self.refusals && matches!(written, Some(Write::Take { .. })) {
                let mut refused = decided;
                refused.hosts[at(host)].process.said = Said::Refused;
                found.push((Move::Refused(host), refused));
            }
            if let (Some(write), true) =
                (written, self.late && state.hosts[at(host)].late.is_none())
            {
                let mut late = decided;
                let now = late.hosts[at(host)].now();
                late.hosts[at(host)].unanswered(&write, now);
                if !self.refusals {
                    late.hosts[at(host)].process.unanswered = 0;
                }
                late.hosts[at(host)].late = Some(write);
                found.push((Move::Unanswered(host, *mood), late));
            }
        }
    }

    fn accidents(&self, state: &State, index: u8, found: &mut Vec<(Move, State)>) {
        let host = &state.hosts[at(index)];
        let mut add = |what: Move, change: &dyn Fn(&mut State)| {
            let mut next = *state;
            change(&mut next);
            found.push((what, next));
        };
        if let Some(write) = host.late {
            add(Move::Land(index), &|next| {
                next.hosts[at(index)].late = None;
                next.perform(index, &write);
            });
            add(Move::Vanish(index), &|next| {
                next.hosts[at(index)].late = None;
            });
        }
        if host.process.listed {
            for slot in 0..self.slots {
                if host.process.leases[at(slot)].is_none_or(|view| !view.current) {
                    add(Move::ShowLease(index, slot), &|next| {
                        next.show(index, slot, 0);
                    });
                }
            }
            if host.process.node.is_none_or(|view| !view.current) {
                add(Move::ShowNode(index), &|next| next.show_node(index, 0));
            }
        }
        let newest = host.now() - 1;
        if host.stale < newest {
            add(Move::Stale(index), &|next| next.hosts[at(index)].age(false));
        }
        // What is on its way has landed by then, or never does.
        if (self.refusals || self.quorum) && host.old < newest && host.late.is_none() {
            add(Move::Old(index), &|next| next.hosts[at(index)].age(true));
        }
        if self.crashes && host.process != Process::default() {
            add(Move::Crash(index), &|next| next.hosts[at(index)].crash());
        }
        if host.shutting_down {
            add(Move::Boot(index), &|next| next.hosts[at(index)].boot());
        } else if self.power_loss {
            add(Move::PowerLoss(index), &|next| next.hosts[at(index)].boot());
        }
        if self.lost_disks && !host.disk.blank {
            add(Move::LoseDisk(index), &|next| {
                next.hosts[at(index)].boot();
                next.hosts[at(index)].disk = super::state::Disk {
                    blank: true,
                    ..Default::default()
                };
            });
        }
    }

    /// Whoever may write a Lease: a held slot may become free, a free one may get a name.
    fn people(&self, state: &State, slot: u8, found: &mut Vec<(Move, State)>) {
        let mut set = |what: Move, owner: Owner, id: Id| {
            let mut next = *state;
            next.set(slot, Lease { owner, id });
            found.push((what, next));
        };
        if state.leases[at(slot)].owner != Owner::Nobody {
            if self.clears || self.hostile {
                set(Move::Clear(slot), Owner::Nobody, 0);
            }
            return;
        }
        if self.hostile {
            set(Move::HostileTake(slot), Owner::Hostile, 0);
            for host in 0..self.hosts {
                // With an acquire time that the host never had, or with that of the hold it is in.
                set(Move::HostileName(slot, host, 0), Owner::Host(host), 0);
                if let Some(hold) = state.hosts[at(host)].disk.hold {
                    set(
                        Move::HostileName(slot, host, hold.id),
                        Owner::Host(host),
                        hold.id,
                    );
                }
            }
        }
    }

    fn unlock(&self, state: &State, found: &mut Vec<(Move, State)>) {
        if let Some(host) = state.unlocking {
            let mut next = *state;
            next.unlocking = None;
            let node = &mut next.hosts[at(host)].node;
            (node.label, node.record) = (None, None);
            next.node_changed(host);
            // The person answers for it.
            next.hosts[at(host)].down = None;
            found.push((Move::Unlabel(host), next));
            return;
        }
        for host in 0..self.hosts {
            let mut next = *state;
            next.unlocking = Some(host);
            let node = &state.hosts[at(host)].node;
            let mut marked = node.label.is_some() || node.record.is_some();
            for slot in 0..self.slots {
                if state.leases[at(slot)].owner == Owner::Host(host) {
                    next.set(slot, Lease::default());
                    marked = true;
                }
            }
            if marked {
                found.push((Move::Unlock(host), next));
            }
        }
    }
}
