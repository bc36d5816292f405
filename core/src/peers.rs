//! The other Nodes, from one consistent list: who claims a slot, who of the quorum is down, how many there are (I1, I13).

use std::collections::BTreeSet;
use std::time::Duration;

use crate::names;

/// Another Node that carries the slot label (or, before a take, a role that counts).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    pub node: String,
    /// The value of `kube-rebootd/slot`.
    pub slot: String,
    /// It has a role label of a quorum.
    pub quorum: bool,
    /// A person tainted it `node.kubernetes.io/out-of-service`: its host is off.
    pub out_of_service: bool,
}

impl Peer {
    /// Its host is off for good, by a person's word: its label claims nothing any more. Never a control-plane
    /// node's, whose quorum a person must judge (I13).
    pub(crate) fn gone(&self) -> bool {
        self.out_of_service && !self.quorum
    }
}

/// One consistent list of the labelled Nodes and of the names of all Leases of all groups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peers {
    /// Boot time at which the list was asked for: it shows at least what was true then.
    pub asked: Duration,
    /// When it was there: a pause before the next list counts from then, as a list itself may take longer.
    pub came: Duration,
    pub labelled: Vec<Peer>,
    pub leases: BTreeSet<String>,
    /// All Nodes, ready or not, or why they could not be counted.
    pub census: Result<Census, String>,
    /// Other Nodes of the quorum that are not Ready, or why that is not known (I13). Only a node of the quorum asks.
    pub quorum_down: Result<Vec<String>, String>,
    /// The two above were asked for; else the labels had decided before.
    pub counted: bool,
}

/// All Nodes of the cluster, from one consistent list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Census {
    /// How many there are, with the own one.
    pub nodes: usize,
    /// Names of those that are not Ready, without the own one.
    pub down: Vec<String>,
    /// Names of those that are Ready and cordoned, by whomever, without the own one.
    pub cordoned: Vec<String>,
}

impl Census {
    /// The cluster has no Node but the own one: evicted pods could only wait for it.
    pub(crate) fn alone(&self) -> bool {
        self.nodes <= 1 && self.down.is_empty() && self.cordoned.is_empty()
    }
}

/// What the other labelled Nodes mean for a take of `lease`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Claims {
    Clear,
    /// A Node claims this slot, or one that no group knows: not ours to take.
    Collision(String),
    /// Other nodes of the quorum are down, by a hold or because they are not Ready; `first`: all of them by
    /// a hold that may go back, and of those that collide this node has the smallest name, so it may
    /// wait until it is alone (I13).
    Quorum {
        who: String,
        first: bool,
    },
}

impl Peers {
    /// docs/design.md 3: the second record against a compromised node, and the quorum (I13).
    pub(crate) fn claims(&self, lease: &str, me: &str, quorum: bool) -> Claims {
        let claim = |peer: &&Peer| {
            !peer.gone() && (peer.slot == lease || !self.leases.contains(&peer.slot))
        };
        if let Some(peer) = self.labelled.iter().find(claim) {
            return Claims::Collision(format!(
                "Node {} carries {}={}",
                peer.node,
                names::SLOT,
                peer.slot
            ));
        }
        if !quorum {
            return Claims::Clear;
        }
        let mut others: Vec<&str> = (self.labelled.iter())
            .filter(|peer| peer.quorum)
            .map(|peer| peer.node.as_str())
            .collect();
        others.sort_unstable();
        let not_ready = self.not_ready();
        let down = self.quorum_down.as_deref().unwrap_or_default();
        let holding: Vec<&str> = (others.iter())
            .filter(|node| !down.iter().any(|down| down == *node))
            .copied()
            .collect();
        let holding =
            (!holding.is_empty()).then(|| format!("{} (holds a slot)", holding.join(", ")));
        let Some(who) = holding
            .into_iter()
            .chain(not_ready.clone())
            .reduce(|holding, not_ready| format!("{holding}, {not_ready}"))
        else {
            return Claims::Clear;
        };
        // Nobody gives back what is not Ready: waiting for it is for the queue.
        let first = not_ready.is_none() && others.first().is_some_and(|smallest| me < *smallest);
        Claims::Quorum { who, first }
    }

    /// Other Nodes of the quorum that are not Ready, in words; what is not known counts as one (I8).
    pub(crate) fn not_ready(&self) -> Option<String> {
        match &self.quorum_down {
            Ok(down) if down.is_empty() => None,
            Ok(down) => Some(format!("{} (not Ready)", down.join(", "))),
            Err(why) => Some(format!("it is not known which are Ready ({why})")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(node: &str, quorum: bool, out_of_service: bool) -> Peer {
        Peer {
            node: node.to_owned(),
            slot: "other".to_owned(),
            quorum,
            out_of_service,
        }
    }

    fn peers(labelled: Vec<Peer>, down: &[&str]) -> Peers {
        Peers {
            asked: Duration::ZERO,
            came: Duration::ZERO,
            labelled,
            leases: BTreeSet::from(["default".to_owned()]),
            census: Ok(Census::default()),
            quorum_down: Ok(down.iter().map(|node| (*node).to_owned()).collect()),
            counted: true,
        }
    }

    /// A label that no Lease belongs to is a claim, but for a worker that a person declared off.
    #[test]
    fn i13_only_a_worker_that_is_out_of_service_claims_nothing() {
        for (quorum, out_of_service, claims) in [
            (false, false, true),
            (false, true, false),
            (true, false, true),
            (true, true, true),
        ] {
            let peer = peer("n2", quorum, out_of_service);
            assert_eq!(peer.gone(), !claims);
            let said = peers(vec![peer], &[]).claims("default", "n1", false);
            assert_eq!(said != Claims::Clear, claims, "{quorum} {out_of_service}");
        }
    }

    /// One that holds a slot and is not Ready is told once, and the smallest name of those that may go back is the first.
    #[test]
    fn i13_of_the_quorum_each_other_is_told_once() {
        let claims = |me: &str, down: &[&str]| {
            let mut peers = peers(vec![peer("n3", true, false), peer("n2", true, false)], down);
            peers.leases.insert("other".to_owned());
            peers.claims("default", me, true)
        };
        for (me, down, who, first) in [
            ("n1", &[][..], "n2, n3 (holds a slot)", true),
            ("n2", &[], "n2, n3 (holds a slot)", false),
            ("n4", &[], "n2, n3 (holds a slot)", false),
            ("n1", &["n2"], "n3 (holds a slot), n2 (not Ready)", false),
            ("n1", &["n2", "n3"], "n2, n3 (not Ready)", false),
        ] {
            let who = who.to_owned();
            assert_eq!(claims(me, down), Claims::Quorum { who, first }, "{me}");
        }
    }
}
