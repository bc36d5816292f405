//! States that differ in nothing that matters are one state: identities of takes and moments are
//! renumbered, and what a stage does not look at is forgotten. So the states are finite although hosts
//! reboot for ever.

use super::state::{
    HOSTS, Hold, Holder, Host, Id, Lease, Moment, Node, Owner, Said, Stage, State, Write,
};

impl Hold {
    /// The take's resourceVersion is for sending it, the asks are for one stage in one boot.
    pub(super) fn trim(&mut self) {
        self.current &= self.stage == Stage::Taking;
        if !self.here || self.stage != Stage::Rebooting {
            self.asked = 0;
        }
        if !self.here {
            self.asks = 0;
        }
    }
}

impl Write {
    pub(super) fn current(&self) -> bool {
        match self {
            Self::Take { current, .. }
            | Self::Apply { current, .. }
            | Self::Mend { current, .. }
            | Self::Fence { current, .. }
            | Self::GiveUp { current, .. } => *current,
        }
    }
}

impl Host {
    /// Each moment on record, oldest knowledge last to be forgotten.
    pub(super) fn moments(&mut self) -> impl Iterator<Item = &mut Moment> {
        let process = &mut self.process;
        let late = match &mut self.late {
            Some(Write::Apply { node, .. }) => node.record.as_mut(),
            _ => None,
        };
        let said = match &mut process.said {
            Said::Conflict(when) => Some(when),
            Said::Nothing | Said::Taken | Said::Refused => None,
        };
        let leases = process
            .leases
            .iter_mut()
            .flatten()
            .map(|view| &mut view.read);
        let (read, inner) = match &mut process.node {
            Some(view) => (Some(&mut view.read), view.node.record.as_mut()),
            None => (None, None),
        };
        leases
            .chain(said)
            .chain(read)
            .chain(inner.map(|hold| &mut hold.asked))
            .chain(process.applied.as_mut().map(|applied| &mut applied.2))
            .chain(process.peers.as_mut().map(|peers| &mut peers.asked))
            .chain([
                &mut process.unanswered,
                &mut process.refused,
                &mut process.accepted,
                &mut process.confirmed,
            ])
            .chain(process.fence.as_mut().map(|fence| &mut fence.1))
            .chain(self.disk.hold.as_mut().map(|hold| &mut hold.asked))
            .chain(self.node.record.as_mut().map(|hold| &mut hold.asked))
            .chain(late.map(|hold| &mut hold.asked))
            .filter(|moment| **moment > 0)
    }

    /// A moment after all others.
    pub(super) fn now(&self) -> Moment {
        let mut copy = *self;
        1 + copy.moments().map(|moment| *moment).max().unwrap_or(0)
    }

    /// Everything known is older than 5 s, or than 75 s.
    pub(super) fn age(&mut self, old: bool) {
        self.stale = self.now();
        if old {
            self.old = self.stale;
        }
    }

    /// Drops what no decision of this stage looks at, so that states that differ in nothing else are
    /// one. Where in doubt the list of peers looks newer than all else, which is the worse case.
    pub(super) fn forget(&mut self) {
        if let Some(hold) = &mut self.disk.hold {
            hold.trim();
        }
        self.holds().for_each(Hold::trim);
        let process = &mut self.process;
        let stage = self.disk.hold.map(|hold| hold.stage);
        let point = self.disk.hold.map_or((0, 0), |hold| (hold.id, hold.step));
        process.applied = process
            .applied
            .filter(|applied| (applied.0, applied.1) == point);
        if stage != Some(Stage::Taking) {
            process.said = Said::Nothing;
            process.unanswered = 0;
        }
        if stage != Some(Stage::Rebooting) {
            (process.refused, process.accepted) = (0, 0);
            (process.confirmed, process.fence) = (0, None);
        }
        if matches!(stage, None | Some(Stage::Taking)) {
            let stale = self.stale;
            process.peers = process.peers.filter(|peers| peers.asked > stale);
        } else if stage != Some(Stage::Claiming) {
            process.peers = None;
        }
        self.forget_reads(stage);
        // A write under an old resourceVersion changes nothing any more.
        self.late = self.late.filter(Write::current);
    }

    /// When something was read: whether at all, whether just now, or in which order, as the stage asks.
    pub(super) fn forget_reads(&mut self, stage: Option<Stage>) {
        let stale = self.stale;
        let strict = matches!(
            stage,
            Some(Stage::Draining | Stage::Rebooting | Stage::Uncordoned)
        );
        let process = &mut self.process;
        if !strict && process.node.is_none_or(|view| view.node == Node::default()) {
            process.applied = None;
            process.node.iter_mut().for_each(|view| view.read = 0);
        }
        for view in process.leases.iter_mut().flatten() {
            let idle = stage.is_none() && view.holder != Holder::Me;
            if idle || stage == Some(Stage::Taking) && process.said == Said::Nothing {
                view.read = 0;
            }
        }
        let fresh = |moment: &mut Moment| *moment = if *moment > stale { 2 } else { 1 };
        let known = |moment: &mut Moment| *moment = 1;
        match stage {
            Some(Stage::Taking) => {}
            Some(Stage::Claiming) if self.timed => {}
            Some(Stage::Claiming) => {
                let reads = self.process.leases.iter_mut().flatten();
                reads
                    .filter(|view| view.read > 0)
                    .for_each(|view| fresh(&mut view.read));
                let order = self.order();
                order.for_each(|moment| *moment += 2);
                self.stale = 1;
            }
            Some(Stage::Draining | Stage::Rebooting) => {
                self.moments().for_each(fresh);
                self.stale = 1;
            }
            Some(Stage::Uncordoned | Stage::Releasing | Stage::Undoing) | None => {
                self.moments().for_each(known);
                self.stale = 1;
                if let Some(peers) = &mut self.process.peers {
                    peers.asked = 2;
                }
            }
        }
        self.old = self.old.min(self.stale);
    }

    /// The moments whose order says whether others were looked for after the label.
    pub(super) fn order(&mut self) -> impl Iterator<Item = &mut Moment> {
        let process = &mut self.process;
        (process.node.as_mut().map(|view| &mut view.read).into_iter())
            .chain(process.applied.as_mut().map(|applied| &mut applied.2))
            .chain(process.peers.as_mut().map(|peers| &mut peers.asked))
            .filter(|moment| **moment > 0)
    }

    pub(super) fn renumber_moments(&mut self) {
        let mut copy = *self;
        let mut used = [false; 64];
        copy.moments()
            .for_each(|moment| used[usize::from(*moment)] = true);
        let mut names = [0; 64];
        let (mut next, mut stale, mut old) = (0, 0, 0);
        for (moment, _) in used.iter().enumerate().filter(|(_, used)| **used) {
            next += 1;
            names[moment] = next;
            if moment <= usize::from(self.stale) {
                stale = next;
            }
            if moment <= usize::from(self.old) {
                old = next;
            }
        }
        self.moments()
            .for_each(|moment| *moment = names[usize::from(*moment)]);
        (self.stale, self.old) = (stale, old);
    }

    /// Every identity of a take of this host, but the Leases' own.
    pub(super) fn ids(&mut self) -> impl Iterator<Item = &mut Id> {
        let process = &mut self.process;
        let late = match &mut self.late {
            Some(Write::Take { id, .. }) => [Some(id), None],
            Some(Write::Apply { node, point, .. }) => [
                Some(&mut point.0),
                node.record.as_mut().map(|hold| &mut hold.id),
            ],
            _ => [None, None],
        };
        (self.disk.hold.as_mut().map(|hold| &mut hold.id).into_iter())
            .chain(self.node.record.as_mut().map(|hold| &mut hold.id))
            .chain(
                (process.node.as_mut())
                    .and_then(|view| view.node.record.as_mut())
                    .map(|hold| &mut hold.id),
            )
            .chain(process.leases.iter_mut().flatten().map(|view| &mut view.id))
            .chain(process.applied.as_mut().map(|applied| &mut applied.0))
            .chain(late.into_iter().flatten())
    }

    /// Every copy of a hold, whose `current` follows its Lease.
    pub(super) fn holds(&mut self) -> impl Iterator<Item = &mut Hold> {
        let late = match &mut self.late {
            Some(Write::Apply { node, .. }) => node.record.as_mut(),
            _ => None,
        };
        (self.disk.hold.as_mut().into_iter())
            .chain(self.node.record.as_mut())
            .chain(
                self.process
                    .node
                    .as_mut()
                    .and_then(|view| view.node.record.as_mut()),
            )
            .chain(late)
    }
}

impl State {
    /// An identity that host `index` has not used.
    pub(super) fn fresh_id(&self, index: usize) -> Id {
        let mut host = self.hosts[index];
        let own = host.ids().map(|id| *id).max().unwrap_or(0);
        let held = self.held_by(index).map(|lease| lease.id).max().unwrap_or(0);
        1 + own.max(held)
    }

    pub(super) fn held_by(&self, index: usize) -> impl Iterator<Item = &Lease> {
        let me = Owner::Host(u8::try_from(index).unwrap());
        self.leases.iter().filter(move |lease| lease.owner == me)
    }

    /// A slot seen held by another: which other, and under which version, changes nothing.
    pub(super) fn see_others_alike(&mut self, index: usize) {
        let me = Owner::Host(u8::try_from(index).unwrap());
        for (lease, view) in self
            .leases
            .iter()
            .zip(&mut self.hosts[index].process.leases)
        {
            if let Some(view) = view
                && view.holder == Holder::Other
            {
                view.current = lease.owner != me && lease.owner != Owner::Nobody;
            }
        }
    }

    /// The one form of all states that differ in names of moments and takes only.
    pub(super) fn canonical(mut self) -> Self {
        for index in 0..HOSTS {
            self.hosts[index].forget();
            self.see_others_alike(index);
            self.hosts[index].renumber_moments();
            let mut names = [0_u8; 64];
            let mut next = 0;
            let mut rename = |id: &mut Id| {
                if *id > 0 {
                    let name = &mut names[usize::from(*id)];
                    if *name == 0 {
                        next += 1;
                        *name = next;
                    }
                    *id = *name;
                }
            };
            self.hosts[index].ids().for_each(&mut rename);
            let me = Owner::Host(u8::try_from(index).unwrap());
            let held = self.leases.iter_mut().filter(|lease| lease.owner == me);
            held.for_each(|lease| rename(&mut lease.id));
        }
        self
    }

    /// Hosts in another order: `order[new] = old`.
    pub(super) fn permuted(&self, order: [usize; HOSTS]) -> Self {
        let place = |old: u8| {
            let new = order.iter().position(|from| *from == usize::from(old));
            u8::try_from(new.unwrap()).unwrap()
        };
        let mut new = *self;
        new.hosts = order.map(|old| self.hosts[old]);
        for peers in new
            .hosts
            .iter_mut()
            .filter_map(|host| host.process.peers.as_mut())
        {
            peers.slot_of = order.map(|old| peers.slot_of[old]);
        }
        for lease in &mut new.leases {
            if let Owner::Host(old) = lease.owner {
                lease.owner = Owner::Host(place(old));
            }
        }
        new.unlocking = self.unlocking.map(place);
        new
    }
}
