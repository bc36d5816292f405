//! Which other nodes of the quorum are alive, by their heartbeats (I5, I13).
//!
//! A node that has lost its power is Ready until the controllers miss its heartbeat, which takes 40 to 55 s
//! (`--node-monitor-grace-period` of kube-controller-manager, 50 s; it looks every 5 s). So the heartbeat itself is looked
//! at: its `renewTime` has to change between two reads. Values are compared, never clocks.

use std::collections::BTreeMap;
use std::time::Duration;

/// One that was alive so much longer ago than its heartbeats are apart is alive: so those of several nodes are fresh at
/// once.
const ALIVE: Duration = Duration::from_secs(5);
/// A kubelet renews its Lease as often as this in its `leaseDurationSeconds`, which is 40 by default (kubelet
/// `nodeLeaseRenewIntervalFraction`; `real::heartbeat`).
const RENEWALS: u32 = 4;
/// The longest time between two heartbeats that is believed: whoever says more does not beat.
const APART_MAX: Duration = Duration::from_secs(60);

/// What one read shows of each node; none where it has no such Lease.
pub type Read = BTreeMap<String, Option<Shown>>;

/// A heartbeat as it is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown {
    /// `spec.renewTime`, as it is written.
    pub renewed: String,
    /// `spec.leaseDurationSeconds`
    pub lasts: Duration,
}

impl Shown {
    /// How far apart its heartbeats are.
    fn apart(&self) -> Duration {
        (self.lasts / RENEWALS).min(APART_MAX)
    }
}

/// What this process has seen of the heartbeats.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Beats {
    nodes: BTreeMap<String, Beat>,
    /// How long the last read took: with a slow server what is known is older by that, and so is the read before it.
    took: Duration,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Beat {
    shown: Option<Shown>,
    /// When (boot clock) it was read last.
    read: Duration,
    /// It was alive after this read, as the next one showed another value.
    alive: Option<Duration>,
}

impl Beats {
    /// A read that was asked for at boot time `asked`, and there at `came`.
    pub(crate) fn see(&mut self, read: &Read, asked: Duration, came: Duration) {
        self.took = came.saturating_sub(asked);
        self.nodes.retain(|node, _| read.contains_key(node));
        for (node, shown) in read {
            let before = self.nodes.get(node);
            let renewed = |shown: &Option<Shown>| shown.as_ref().map(|shown| shown.renewed.clone());
            let now = renewed(shown);
            let changed = before.filter(|before| now.is_some() && renewed(&before.shown) != now);
            let alive = before.and_then(|before| before.alive);
            let beat = Beat {
                shown: shown.clone(),
                read: asked,
                alive: changed.map(|before| before.read).or(alive),
            };
            self.nodes.insert(node.clone(), beat);
        }
    }

    /// The nodes that are not seen alive at boot time `now`.
    pub(crate) fn unseen(&self, now: Duration) -> Vec<&str> {
        let alive = |beat: &Beat| {
            let apart = beat.shown.as_ref().map_or(Duration::ZERO, Shown::apart);
            let limit = apart + ALIVE + self.took.saturating_mul(2);
            beat.alive
                .is_some_and(|alive| now.saturating_sub(alive) <= limit)
        };
        let unseen = self.nodes.iter().filter(|(_, beat)| !alive(beat));
        unseen.map(|(node, _)| node.as_str()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn read(values: &[(&str, Option<&str>)]) -> Read {
        let shown = |value: &str| Shown {
            renewed: value.to_owned(),
            lasts: at(40),
        };
        let pair = |(node, value): &(&str, Option<&str>)| ((*node).to_owned(), value.map(shown));
        values.iter().map(pair).collect()
    }

    #[test]
    fn i13_a_node_is_alive_when_its_heartbeat_changes_between_two_reads() {
        let mut beats = Beats::default();
        assert!(beats.unseen(at(0)).is_empty(), "there is no other");
        beats.see(&read(&[("n2", Some("a")), ("n3", None)]), at(0), at(0));
        assert_eq!(beats.unseen(at(0)), ["n2", "n3"], "one read says nothing");
        beats.see(&read(&[("n2", Some("a")), ("n3", None)]), at(5), at(5));
        assert_eq!(beats.unseen(at(5)), ["n2", "n3"]);
        // Made only now: it was written.
        beats.see(&read(&[("n2", Some("b")), ("n3", Some("x"))]), at(7), at(7));
        assert!(beats.unseen(at(7)).is_empty());
        assert!(beats.unseen(at(20)).is_empty(), "alive after the read at 5");
        assert_eq!(beats.unseen(at(21)), ["n2", "n3"]);
        // Deleted is no sign of life, and what it said before gets old.
        beats.see(&read(&[("n2", None), ("n3", Some("x"))]), at(8), at(8));
        assert!(beats.unseen(at(10)).is_empty());
        assert_eq!(beats.unseen(at(11)), ["n2"]);
        beats.see(&read(&[("n3", Some("y"))]), at(22), at(22));
        assert!(beats.unseen(at(22)).is_empty(), "n2 is no other any more");
    }

    #[test]
    fn i5_a_renew_time_that_goes_back_is_a_sign_of_life() {
        let mut beats = Beats::default();
        beats.see(&read(&[("n2", Some("2026"))]), at(0), at(0));
        beats.see(&read(&[("n2", Some("1970"))]), at(2), at(2));
        assert!(beats.unseen(at(2)).is_empty());
    }

    /// Found by reading: where kubelets renew every 30 s, those of several nodes were never fresh at once.
    #[test]
    fn i13_rare_heartbeats_of_several_nodes_are_fresh_at_once() {
        for lasts in [40, 120, 400] {
            let apart = (lasts / 4).min(100);
            let mut beats = Beats::default();
            let mut seen = 0;
            for second in (0..10 * apart).step_by(2) {
                let shown = |phase: u64| Shown {
                    renewed: ((second + apart - phase % apart) / apart).to_string(),
                    lasts: at(lasts),
                };
                let phases = [0, apart / 4, apart / 2, 3 * apart / 4];
                let nodes = phases.map(|phase| (format!("n{phase}"), Some(shown(phase))));
                beats.see(&nodes.into(), at(second), at(second));
                seen += usize::from(beats.unseen(at(second)).is_empty());
            }
            assert_eq!(seen > 0, apart <= 60, "{apart} s apart: {seen}");
        }
    }

    /// Each read of a slow server takes as long as three answers: what it shows is as old.
    #[test]
    fn i13_a_slow_server_shows_that_a_node_is_alive() {
        for took in [0, 3, 9, 15, 36] {
            let mut beats = Beats::default();
            let mut seen = 0;
            for look in 0..20_u64 {
                let asked = look * (took + 2);
                let beat = (asked + took / 2) / 10;
                let read = read(&[("n2", Some(&beat.to_string()))]);
                beats.see(&read, at(asked), at(asked + took));
                seen += usize::from(beats.unseen(at(asked + took)).is_empty());
            }
            assert!(seen >= 10, "{took} s a read: {seen} of 20");
        }
    }
}
