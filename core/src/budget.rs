//! How many other Nodes may be down before nobody takes a slot (docs/design.md 5). Keeps I8: what
//! could not be counted is too many.

use crate::peers::Peers;

/// So many names stand in a sentence; the rest is a number.
const NAMED: usize = 5;

/// `coordination.max_unavailable`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MaxUnavailable {
    /// Of the cluster's Nodes, rounded down, at least one; 1 to 100.
    Percent(u32),
    /// So many; at least 1.
    Number(u32),
}

impl MaxUnavailable {
    /// At so many of `nodes` Nodes the budget is used up.
    pub(crate) fn of(self, nodes: usize) -> usize {
        let number = |number| usize::try_from(number).unwrap_or(usize::MAX);
        match self {
            Self::Percent(percent) => (nodes.saturating_mul(number(percent)) / 100).max(1),
            Self::Number(most) => number(most).max(1),
        }
    }
}

/// Why this node's pods could go nowhere although the cluster has other Nodes; none: one of them can take
/// pods, or there is no other. What could not be counted can take none (I8).
///
/// A drain then would only take pods away, and a reboot without a drain would be one that nobody allowed.
pub(crate) fn no_room(peers: &Peers) -> Option<String> {
    let census = match &peers.census {
        Ok(census) => census,
        Err(why) => return Some(format!("it is not known which nodes can take pods: {why}")),
    };
    let closed = census.down.len() + census.cordoned.len();
    if census.alone() || closed + 1 < census.nodes {
        return None;
    }
    let mut named: Vec<String> = (census.cordoned.iter())
        .map(|name| format!("{name} is cordoned"))
        .chain(
            census
                .down
                .iter()
                .map(|name| format!("{name} is not Ready")),
        )
        .collect();
    named.sort_unstable();
    Some(format!(
        "no other node can take this node's pods ({})",
        shortened(&named)
    ))
}

/// The first few, and how many more there are.
fn shortened<T: AsRef<str>>(names: &[T]) -> String {
    let more = match names.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let first: Vec<&str> = names.iter().take(NAMED).map(AsRef::as_ref).collect();
    format!("{}{more}", first.join(", "))
}

/// Why the budget of `max` is used up, as `peers` shows it; none: it is not.
///
/// A Node that somebody cordoned takes no pods, as one that is not Ready: both are unavailable. A Node that
/// carries a slot label is down by a hold, which the slots count; it does not count here.
pub fn used_up(peers: &Peers, max: MaxUnavailable, count_cordoned: bool) -> Option<String> {
    let census = match &peers.census {
        Ok(census) => census,
        Err(why) => return Some(format!("it is not known which nodes are down: {why}")),
    };
    let held = |name: &str| {
        let mut labelled = peers.labelled.iter();
        labelled.any(|peer| peer.node == name && !peer.gone())
    };
    let mut cordoned = census.cordoned.clone();
    cordoned.retain(|name| count_cordoned && !held(name));
    let not_ready = census.down.iter().filter(|name| !held(name));
    let mut down: Vec<String> = not_ready
        .map(|name| format!("{name} is not Ready"))
        .chain(cordoned.iter().map(|name| format!("{name} is cordoned")))
        .collect();
    let most = max.of(census.nodes);
    if down.len() < most {
        return None;
    }
    down.sort_unstable();
    let spare = if cordoned.is_empty() {
        ""
    } else {
        "; for spare nodes that stay cordoned set coordination.count_cordoned = false"
    };
    Some(format!(
        "{} of {} nodes are unavailable ({}): with {most} or more nobody begins (coordination.max_unavailable){spare}",
        down.len(),
        census.nodes,
        shortened(&down)
    ))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;
    use crate::peers::{Census, Peer};

    fn peers(nodes: usize, down: &[&str], labelled: &[&str]) -> Peers {
        let labelled = labelled.iter().map(|node| Peer {
            node: (*node).to_owned(),
            slot: "other".to_owned(),
            quorum: false,
            out_of_service: false,
        });
        Peers {
            asked: Duration::ZERO,
            came: Duration::ZERO,
            labelled: labelled.collect(),
            leases: BTreeSet::new(),
            census: Ok(Census {
                nodes,
                down: down.iter().map(|node| (*node).to_owned()).collect(),
                cordoned: Vec::new(),
            }),
            quorum_down: Ok(Vec::new()),
            counted: true,
        }
    }

    #[test]
    fn i8_where_others_exist_and_none_can_take_pods_there_is_no_room() {
        let with = |nodes, down: &[&str], cordoned: &[&str]| {
            let mut peers = peers(nodes, down, &[]);
            if let Ok(census) = &mut peers.census {
                census.cordoned = cordoned.iter().map(|node| (*node).to_owned()).collect();
            }
            peers
        };
        for (peers, alone, room) in [
            (with(1, &[], &[]), true, true),
            (with(2, &[], &[]), false, true),
            (with(2, &[], &["n2"]), false, false),
            (with(2, &["n2"], &[]), false, false),
            (with(3, &["n2"], &["n3"]), false, false),
            (with(3, &["n2"], &[]), false, true),
            (with(4, &["n2"], &["n3"]), false, true),
        ] {
            let census = peers.census.as_ref().expect("counted");
            assert_eq!(census.alone(), alone, "{census:?}");
            assert_eq!(no_room(&peers).is_none(), room, "{census:?}");
        }
        assert_eq!(
            no_room(&with(3, &["n3"], &["n2"])).as_deref(),
            Some("no other node can take this node's pods (n2 is cordoned, n3 is not Ready)")
        );
        let unknown = Peers {
            census: Err("denied".to_owned()),
            ..peers(1, &[], &[])
        };
        assert!(no_room(&unknown).is_some());
    }

    #[test]
    fn a_percentage_is_rounded_down_and_never_none() {
        let tenth = MaxUnavailable::Percent(10);
        for (nodes, most) in [
            (0, 1),
            (1, 1),
            (9, 1),
            (19, 1),
            (20, 2),
            (29, 2),
            (5000, 500),
        ] {
            assert_eq!(tenth.of(nodes), most, "{nodes}");
        }
        assert_eq!(MaxUnavailable::Percent(100).of(7), 7);
        assert_eq!(MaxUnavailable::Number(3).of(1000), 3);
    }

    #[test]
    fn it_says_who_is_down_and_how_many_may_be() {
        let tenth = MaxUnavailable::Percent(10);
        assert_eq!(used_up(&peers(20, &["n4"], &[]), tenth, true), None);
        assert_eq!(
            used_up(&peers(20, &["n9", "n4"], &[]), tenth, true).as_deref(),
            Some(
                "2 of 20 nodes are unavailable (n4 is not Ready, n9 is not Ready): with 2 or more nobody begins (coordination.max_unavailable)"
            )
        );
        let many = ["a", "b", "c", "d", "e", "f", "g"];
        let words = used_up(&peers(20, &many, &[]), tenth, true).expect("used up");
        assert!(words.contains("e is not Ready and 2 more)"), "{words}");
    }

    #[test]
    fn a_node_that_is_down_by_a_hold_does_not_count() {
        let one = MaxUnavailable::Number(1);
        assert_eq!(used_up(&peers(3, &["n2"], &["n2"]), one, true), None);
        assert!(used_up(&peers(3, &["n2", "n3"], &["n2"]), one, true).is_some());
        assert_eq!(used_up(&peers(3, &[], &["n2"]), one, true), None);
    }

    #[test]
    fn a_node_that_somebody_cordoned_is_unavailable_and_counts_once() {
        let two = MaxUnavailable::Number(2);
        let cordoned = |down: &[&str], cordoned: &[&str], labelled: &[&str]| {
            let mut peers = peers(20, down, labelled);
            let census = peers.census.as_mut().expect("counted");
            census.cordoned = cordoned.iter().map(|node| (*node).to_owned()).collect();
            used_up(&peers, two, true)
        };
        assert_eq!(cordoned(&[], &["n4"], &[]), None);
        assert_eq!(
            cordoned(&[], &["n9", "n4"], &[]).as_deref(),
            Some(
                "2 of 20 nodes are unavailable (n4 is cordoned, n9 is cordoned): with 2 or more nobody begins (coordination.max_unavailable); for spare nodes that stay cordoned set coordination.count_cordoned = false"
            )
        );
        let words = cordoned(&["n9"], &["n4"], &[]).expect("used up");
        assert!(
            words.contains("2 of 20 nodes are unavailable (n4 is cordoned, n9 is not Ready)"),
            "{words}"
        );
        // Spares that are kept cordoned do not count where the configuration says so.
        let mut spares = peers(20, &["n9"], &[]);
        spares.census.as_mut().expect("counted").cordoned = vec!["n4".to_owned()];
        assert!(used_up(&spares, two, true).is_some());
        assert_eq!(used_up(&spares, two, false), None);
        // What a hold cordoned is the slots' to count.
        assert_eq!(cordoned(&["n9"], &["n4"], &["n4"]), None);
    }

    #[test]
    fn i8_what_could_not_be_counted_is_too_many() {
        let unknown = Peers {
            census: Err("denied".to_owned()),
            ..peers(0, &[], &[])
        };
        let words = used_up(&unknown, MaxUnavailable::Percent(100), true).expect("closed");
        assert!(words.contains("denied"), "{words}");
    }

    proptest! {
        #[test]
        fn one_more_that_is_down_never_opens_it(nodes in 1usize..50, down in 0usize..50, percent in 1u32..=100) {
            let names: Vec<String> = (0..=down).map(|n| format!("n{n}")).collect();
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let max = MaxUnavailable::Percent(percent);
            let (fewer, more) = (peers(nodes, &names[..down], &[]), peers(nodes, &names, &[]));
            prop_assert!(used_up(&fewer, max, true).is_none() || used_up(&more, max, true).is_some());
            prop_assert_eq!(used_up(&fewer, max, true).is_some(), down >= max.of(nodes));
        }
    }
}
