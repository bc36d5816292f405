//! A state of the model: small and comparable.
//!
//! What only has to be equal or not is a bit: a resourceVersion is that of the object now or an old
//! one, a boot is this one or an earlier one.

/// The most hosts and slots of any model here.
pub(super) const HOSTS: usize = 3;
pub(super) const SLOTS: usize = 2;

/// A moment on a host's boot clock: only its place among the others counts. None is 0.
pub(super) type Moment = u8;

/// Which take of a host; 0 is one it never made.
pub(super) type Id = u8;

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Stage {
    Taking,
    Claiming,
    Draining,
    Rebooting,
    Uncordoned,
    Releasing,
    Undoing,
}

/// A hold on record.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Hold {
    pub(super) slot: u8,
    pub(super) id: Id,
    /// The resourceVersion of its take is the Lease's.
    pub(super) current: bool,
    pub(super) step: u8,
    /// It was taken in this boot.
    pub(super) here: bool,
    /// The Node's UID is on record.
    pub(super) node_known: bool,
    pub(super) stage: Stage,
    pub(super) foreign: bool,
    pub(super) asks: u8,
    pub(super) asked: Moment,
}

/// What outlives the process.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(super) struct Disk {
    /// There is no state file.
    pub(super) blank: bool,
    pub(super) hold: Option<Hold>,
    /// A reboot was proved in this boot.
    pub(super) settled: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(super) struct Node {
    pub(super) label: Option<u8>,
    /// Ours.
    pub(super) cordon: bool,
    /// The annotation `kube-rebootd/state`.
    pub(super) record: Option<Hold>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(super) enum Holder {
    #[default]
    Nobody,
    Me,
    Other,
}

/// A Lease as a host's daemon knows it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct LeaseView {
    pub(super) holder: Holder,
    pub(super) id: Id,
    pub(super) current: bool,
    pub(super) read: Moment,
}

/// The own Node as the daemon knows it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct NodeView {
    pub(super) node: Node,
    pub(super) current: bool,
    pub(super) read: Moment,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(super) enum Said {
    #[default]
    Nothing,
    Taken,
    Conflict(Moment),
    /// Another 4xx.
    Refused,
}

/// The list of labelled Nodes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Peers {
    pub(super) slot_of: [Option<u8>; HOSTS],
    pub(super) hostile: bool,
    pub(super) asked: Moment,
}

/// What a process knows; a crash forgets it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(super) struct Process {
    pub(super) started: bool,
    pub(super) listed: bool,
    pub(super) leases: [Option<LeaseView>; SLOTS],
    pub(super) node: Option<NodeView>,
    /// Identity and step of the last apply that was answered; 0, 0 stands for none of a hold.
    pub(super) applied: Option<(Id, u8, Moment)>,
    pub(super) peers: Option<Peers>,
    pub(super) said: Said,
    pub(super) unanswered: Moment,
    pub(super) refused: Moment,
    pub(super) accepted: Moment,
    pub(super) confirmed: Moment,
    /// Of which ask, and when it was answered.
    pub(super) fence: Option<(u8, Moment)>,
}

/// A write, as it is sent.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Write {
    Take {
        slot: u8,
        id: Id,
        current: bool,
    },
    Apply {
        node: Node,
        current: bool,
        point: (Id, u8),
    },
    Mend {
        label: bool,
        record: bool,
        cordon: bool,
        current: bool,
    },
    GiveUp {
        slot: u8,
        current: bool,
    },
    Fence {
        slot: u8,
        current: bool,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(super) struct Host {
    pub(super) disk: Disk,
    pub(super) process: Process,
    pub(super) node: Node,
    /// Ghost, seen by nobody: the slot whose hold cordoned this node and has not ended.
    pub(super) down: Option<u8>,
    pub(super) shutting_down: bool,
    /// A write on its way that nobody waits for any more.
    pub(super) late: Option<Write>,
    /// Moments up to here are older than a minute, and older than 75 s.
    pub(super) stale: Moment,
    pub(super) old: Moment,
    /// The age of what is known counts while claiming: I13's patience.
    pub(super) timed: bool,
}

/// Who holds a Lease.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(super) enum Owner {
    #[default]
    Nobody,
    Host(u8),
    Hostile,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(super) struct Lease {
    pub(super) owner: Owner,
    pub(super) id: Id,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(super) struct State {
    pub(super) slots: u8,
    pub(super) leases: [Lease; SLOTS],
    pub(super) hosts: [Host; HOSTS],
    /// The hostile node labels itself with slot 0.
    pub(super) hostile_label: bool,
    /// An admin's `unlock` has cleared this host's label; the Lease comes next.
    pub(super) unlocking: Option<u8>,
    /// Ghost: a host set its label after a boot although its Lease did not name it, as far as it knew.
    pub(super) claimed: bool,
    /// How many accidents may still happen; more than any search meets stands for any number.
    pub(super) left: u8,
}
