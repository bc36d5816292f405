//! `nodes`: from any laptop who holds a slot of the group, who waits, since when; and all Nodes with what their daemons
//! told. Reads only.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::time::Duration;

use jiff::Timestamp;
use kube::Client;
use kube_rebootd_core::slot::{Lease, Waiter};
use serde_json::{Value, json};

use crate::cluster::answer::ApiError;
use crate::cluster::heartbeat;
use crate::cluster::lease::Leases;

mod fleet;
mod held;
mod slo;
mod table;
mod watch;

pub use fleet::{Cordon, Member, Reboot};
pub(super) use fleet::{Shown, history, member, silent, unseen};
use held::{Claims, held, labelled, waits};
pub(super) use held::{FREE, slot, state};
pub use held::{Row, What};
pub use slo::Slo;
pub use watch::{Ended, Follow, follow};

/// Characters of the column SLOT: a label, and what is wrong with it.
const SLOT: usize = 110;

/// The group as it is now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    pub name: String,
    pub namespace: String,
    /// The groups of the other slots in the namespace.
    pub others: BTreeSet<String>,
    pub slots: Vec<Lease>,
    /// Holders, claims, then waiters, longest-waiting first.
    pub rows: Vec<Row>,
    /// All Nodes of the cluster, of whatever group, by name.
    pub nodes: Vec<Member>,
    /// Nodes that were left out by [`Group::only`].
    pub left_out: usize,
    /// What could not be looked at, as it was denied: slots or waiters.
    pub hidden: Vec<ApiError>,
}

impl Group {
    /// Without the Nodes of other groups that have nothing to do with its slots, and without those that tell none, unless they
    /// need a person.
    #[must_use]
    pub fn only(mut self) -> Self {
        let all = self.nodes.len();
        let (rows, name) = (&self.rows, &self.name);
        // A node may say any group of itself: what it holds counts.
        self.nodes.retain(|node| {
            let member = match &node.group {
                Some(group) => group == name,
                None => node.person.is_some(),
            };
            member || rows.iter().any(|row| row.node == node.node)
        });
        self.left_out = all - self.nodes.len();
        self
    }
}

/// Reads the group and all Nodes through a client that may list Nodes and Leases; `now` gives the ages.
pub async fn read(
    client: &Client,
    namespace: &str,
    group: &str,
    now: Timestamp,
) -> Result<Group, ApiError> {
    let leases = Leases::new(client.clone(), namespace, "");
    let mut hidden = Vec::new();
    let leases = unless_denied(leases.all(Duration::ZERO).await, &mut hidden)?;
    let nodes = fleet::list(client).await?;
    let waiters = heartbeat::list(client, group, "").await;
    let parts = Parts {
        leases,
        nodes,
        waiters: unless_denied(waiters, &mut hidden)?.unwrap_or_default(),
        hidden,
    };
    Ok(together(namespace, group, parts, now))
}

/// What a group is made of, as it was read.
pub(super) struct Parts {
    /// Of all groups of the namespace; none: they cannot be seen.
    pub(super) leases: Option<Vec<Lease>>,
    pub(super) nodes: Vec<Shown>,
    /// Of the group.
    pub(super) waiters: Vec<Waiter>,
    pub(super) hidden: Vec<ApiError>,
}

/// The group of its parts; `now` gives the ages.
pub(super) fn together(namespace: &str, group: &str, parts: Parts, now: Timestamp) -> Group {
    let unknown = parts.leases.is_none();
    let leases = parts.leases.unwrap_or_default();
    let (slots, others): (Vec<Lease>, Vec<Lease>) =
        leases.into_iter().partition(|lease| lease.group == group);
    let claims = parts.nodes.iter().filter_map(Shown::claim).collect();
    let mut nodes: Vec<Member> = parts.nodes.iter().map(|node| node.at(now)).collect();
    let mut rows = if unknown {
        labelled(&claims)
    } else {
        held(&slots, &others, &claims)
    };
    rows.extend(parts.waiters.into_iter().map(waits));
    judge(&mut nodes, &rows, now);
    judge(&mut nodes, &held(&others, &slots, &Claims::new()), now);
    let others = others.iter().map(|lease| lease.group.clone()).collect();
    Group {
        name: group.to_owned(),
        namespace: namespace.to_owned(),
        others,
        slots,
        rows,
        nodes,
        left_out: 0,
        hidden: parts.hidden,
    }
}

/// Who may see Nodes and no Leases sees the Nodes.
fn unless_denied<T>(
    answer: Result<Vec<T>, ApiError>,
    hidden: &mut Vec<ApiError>,
) -> Result<Option<Vec<T>>, ApiError> {
    match answer {
        Err(err @ ApiError::Denied { code: 403, .. }) => {
            hidden.push(err);
            Ok(None)
        }
        answer => answer.map(Some),
    }
}

/// What the slots say of each Node, also of one that is gone.
fn judge(nodes: &mut Vec<Member>, rows: &[Row], now: Timestamp) {
    for row in rows {
        match nodes.iter_mut().find(|node| node.node == row.node) {
            Some(node) => fleet::judged(node, &row.what, now),
            None if matches!(row.what, What::Holds(_)) => nodes.push(fleet::missing(&row.node)),
            None => {}
        }
    }
    nodes.sort_by(|one, other| one.node.cmp(&other.node));
}

/// The group for people; `now` gives the ages.
pub fn table(group: &Group, now: Timestamp) -> String {
    let mut lines = vec![["NODE", "SLOT", "SINCE", "STAGE"].map(str::to_owned)];
    for row in &group.rows {
        let since = row.since.map_or_else(|| "-".to_owned(), |t| age(now, t));
        let stage = row.stage.clone().unwrap_or_else(|| "-".to_owned());
        lines.push([row.node.clone(), row.what.words(), since, stage]);
    }
    // Writing to a String does not fail.
    let mut text = format!("group {}\n", group.name);
    for slot in &group.slots {
        let _ = writeln!(text, "slot {}: {}", slot.name, state(slot));
    }
    if group.slots.is_empty() && group.hidden.is_empty() {
        let _ = writeln!(
            text,
            "no slots: no Lease of this group is in namespace {} (--namespace)",
            group.namespace
        );
    }
    if group.rows.is_empty() && group.hidden.is_empty() {
        text.push_str("no node holds or waits\n");
    } else if group.rows.is_empty() {
        text.push_str("who holds or waits cannot be seen\n");
    } else {
        text.push_str(&table::aligned(&lines, SLOT));
    }
    if !group.others.is_empty() {
        let others: Vec<&str> = group.others.iter().map(String::as_str).collect();
        let _ = writeln!(text, "other groups (--group): {}", others.join(", "));
    }
    if !group.nodes.is_empty() {
        let whose = match group.left_out {
            0 => "all nodes, of whatever group".to_owned(),
            _ => format!("all nodes of the group {}", group.name),
        };
        let _ = writeln!(text, "\n{whose}:");
        text.push_str(&table::members(&group.nodes, now));
    }
    text.push_str(&left_out(group));
    text
}

/// A node that is not shown must not be believed to be well.
fn left_out(group: &Group) -> String {
    match group.left_out {
        0 => String::new(),
        1 => "not shown: 1 node of another group, or that tells no group\n".to_owned(),
        more => format!("not shown: {more} nodes of other groups, or that tell no group\n"),
    }
}

/// Only those that need a person, for people.
pub fn unhealthy(group: &Group, now: Timestamp) -> String {
    let (sick, rest): (Vec<Member>, Vec<Member>) =
        (group.nodes.iter().cloned()).partition(|node| node.person.is_some());
    if !sick.is_empty() {
        return table::members(&sick, now) + &left_out(group);
    }
    let report = rest.iter().filter(|node| node.required.is_some()).count();
    let all = rest.len();
    let seen = if group.hidden.is_empty() {
        "no node needs a person"
    } else {
        "slots or waiters cannot be seen; no Node shows that it needs a person"
    };
    format!(
        "{seen}; {report} of {all} nodes report\n{}",
        left_out(group)
    )
}

/// How many nodes were rebooted and proved in time, for people.
pub fn slo(group: &Group, slo: &Slo, now: Timestamp) -> String {
    slo.table(now) + &left_out(group)
}

/// The same for scripts; stable: keys are added, never renamed or removed. `unhealthy`: `nodes` are only those that need a
/// person.
pub fn report(group: &Group, unhealthy: bool) -> Value {
    let nodes = group.nodes.iter();
    let nodes: Vec<&Member> = nodes
        .filter(|node| node.person.is_some() || !unhealthy)
        .collect();
    let rows = group.rows.iter().map(|row| {
        let (what, slot) = row.what.name();
        json!({"node": row.node, "what": what, "slot": slot, "since": row.since, "stage": row.stage})
    });
    json!({
        "group": group.name,
        "namespace": group.namespace,
        "other_groups": group.others,
        "slots": group.slots.iter().map(slot).collect::<Vec<_>>(),
        "queue": rows.collect::<Vec<_>>(),
        "nodes": nodes,
        "left_out": group.left_out,
        "hidden": group.hidden.iter().map(ToString::to_string).collect::<Vec<_>>(),
    })
}

/// The largest whole unit of the time since `then`; clocks may disagree, so never less than 0.
pub(super) fn age(now: Timestamp, then: Timestamp) -> String {
    let seconds = now.as_second().saturating_sub(then.as_second()).max(0);
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7_200 => format!("{}m", seconds / 60),
        7_200..172_800 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::held::stage;
    use super::*;

    #[test]
    fn holders_claims_and_waiters_are_told_apart() {
        let now: Timestamp = "2026-11-21T12:00:00Z".parse().expect("a time");
        let lease = |name: &str, holder: Option<&str>| Lease {
            holder: holder.map(str::to_owned),
            acquire_time: "2026-11-21T11:55:00Z".parse().ok(),
            ..Lease::free(name, "default")
        };
        let slots = vec![lease("default", Some("n1")), lease("default-2", None)];
        let claims = BTreeMap::from([
            (
                "n1".to_owned(),
                ("default".to_owned(), Some("draining".to_owned())),
            ),
            ("n3".to_owned(), ("default".to_owned(), None)),
            ("n4".to_owned(), ("other-group".to_owned(), None)),
            ("n5".to_owned(), ("deleted".to_owned(), None)),
        ]);
        let rows = held(&slots, &[lease("other-group", None)], &claims);
        let group = Group {
            name: "default".to_owned(),
            namespace: "kube-rebootd".to_owned(),
            others: ["gpu", "workers"].map(str::to_owned).into(),
            slots,
            rows,
            nodes: Vec::new(),
            left_out: 0,
            hidden: Vec::new(),
        };
        let text = table(&group, now);
        let queue = report(&group, false);
        assert_eq!(queue["queue"][0]["what"], "holds");
        assert_eq!(queue["slots"][1]["holder"], Value::Null);
        assert_eq!(
            text,
            "group default\n\
             slot default: held by n1\n\
             slot default-2: free\n\
             NODE  SLOT                                             SINCE  STAGE\n\
             n1    holds default                                    5m     draining\n\
             n3    claims default, which is not its own             -      -\n\
             n5    claims deleted, which is no slot: nobody begins  -      -\n\
             other groups (--group): gpu, workers\n"
        );
    }

    /// Found by an operator's reading: rightful holders were called strays that stop everybody.
    #[test]
    fn where_no_slots_are_no_holder_is_a_stray() {
        let claims = BTreeMap::from([("n1".to_owned(), ("pool-a".to_owned(), None))]);
        let group = Group {
            name: "default".to_owned(),
            namespace: "kube-rebootd".to_owned(),
            others: BTreeSet::new(),
            slots: Vec::new(),
            rows: held(&[], &[], &claims),
            nodes: Vec::new(),
            left_out: 0,
            hidden: Vec::new(),
        };
        let text = table(&group, Timestamp::UNIX_EPOCH);
        let says = "n1    claims pool-a, of another namespace or deleted";
        assert!(text.contains(says), "{text}");
        assert!(text.contains("is in namespace kube-rebootd (--namespace)"));
    }

    /// Found by an operator's reading: a slot that a Node had which is gone was nobody's.
    #[test]
    fn a_holder_whose_node_is_gone_needs_a_person() {
        let lease = Lease {
            holder: Some("n1".to_owned()),
            ..Lease::free("default", "default")
        };
        let mut group = Group {
            name: "default".to_owned(),
            namespace: "kube-rebootd".to_owned(),
            others: BTreeSet::new(),
            rows: held(&[lease], &[], &BTreeMap::new()),
            slots: Vec::new(),
            nodes: Vec::new(),
            left_out: 0,
            hidden: Vec::new(),
        };
        let now = Timestamp::UNIX_EPOCH;
        assert_eq!(
            unhealthy(&group, now),
            "no node needs a person; 0 of 0 nodes report\n"
        );
        judge(&mut group.nodes, &group.rows, now);
        assert!(unhealthy(&group, now).contains("there is no such Node"));
        let nodes = report(&group, true);
        assert_eq!(nodes["nodes"][0]["node"], "n1");
    }

    /// Whoever looks at one group is told that there are others.
    #[test]
    fn the_nodes_of_one_group_alone() {
        let member = |name: &str, group: Option<&str>, person: Option<&str>| Member {
            group: group.map(str::to_owned),
            person: person.map(str::to_owned),
            ..fleet::missing(name)
        };
        let lease = Lease {
            holder: Some("n5".to_owned()),
            ..Lease::free("gpu", "gpu")
        };
        let group = Group {
            name: "gpu".to_owned(),
            namespace: "kube-rebootd".to_owned(),
            others: BTreeSet::new(),
            rows: held(&[lease], &[], &BTreeMap::new()),
            slots: Vec::new(),
            nodes: vec![
                member("n1", Some("gpu"), None),
                member("n2", Some("web"), Some("not healthy")),
                member("n3", None, None),
                member("n4", None, Some("not healthy")),
                member("n5", Some("web"), None),
            ],
            left_out: 0,
            hidden: Vec::new(),
        };
        let group = group.only();
        let names: Vec<&str> = group.nodes.iter().map(|node| node.node.as_str()).collect();
        assert_eq!(names, ["n1", "n4", "n5"]);
        let says = "not shown: 2 nodes of other groups, or that tell no group\n";
        let now = Timestamp::UNIX_EPOCH;
        for text in [table(&group, now), unhealthy(&group, now)] {
            assert!(text.ends_with(says), "{text}");
        }
        assert_eq!(report(&group, false)["left_out"], 2);
    }

    #[test]
    fn a_record_that_cannot_be_read_says_so() {
        assert_eq!(stage("{"), "unreadable");
    }
}
