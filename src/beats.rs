//! Which other nodes of the quorum are alive, by their heartbeats (I5, I13).
//!
//! A node that has lost its power is Ready for another 40 s, until the controllers miss its heartbeat. So the heartbeat
//! itself is looked at: its `renewTime` has to change between two reads. Values are compared, never clocks.

use std::collections::BTreeMap;
use std::time::Duration;

/// A kubelet renews its Lease every 10 s (a quarter of `nodeLeaseDurationSeconds`); one that was alive this long ago is
/// alive. Longer than one heartbeat, so that those of several nodes are fresh at once.
const ALIVE: Duration = Duration::from_secs(15);

/// What one read shows: the `renewTime` of each node, none where it has no such Lease.
pub type Read = BTreeMap<String, Option<String>>;

/// What this process has seen of the heartbeats.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Beats {
    nodes: BTreeMap<String, Beat>,
    /// How long the last read took: with a slow server what is known is older by that, and so is the read before it.
    took: Duration,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Beat {
    value: Option<String>,
    /// When (boot clock) it was read last.
    read: Duration,
    /// It was alive after this read, as the next one showed another value.
    alive: Option<Duration>,
}

impl Beats {
    /// A read that was asked for at boot time `asked`, and there at `came`.
    pub fn see(&mut self, read: &Read, asked: Duration, came: Duration) {
        self.took = came.saturating_sub(asked);
        self.nodes.retain(|node, _| read.contains_key(node));
        for (node, value) in read {
            let before = self.nodes.get(node);
            let changed = before.filter(|before| value.is_some() && before.value != *value);
            let alive = before.and_then(|before| before.alive);
            let beat = Beat {
                value: value.clone(),
                read: asked,
                alive: changed.map(|before| before.read).or(alive),
            };
            self.nodes.insert(node.clone(), beat);
        }
    }

    /// The nodes that are not seen alive at boot time `now`.
    pub fn unseen(&self, now: Duration) -> Vec<&str> {
        let limit = ALIVE.saturating_add(self.took.saturating_mul(2));
        let alive = |beat: &Beat| {
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
        let pair =
            |(node, value): &(&str, Option<&str>)| ((*node).to_owned(), value.map(str::to_owned));
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
        beats.see(&read(&[("n2", None), ("n3", Some("x"))]), at(22), at(22));
        assert_eq!(beats.unseen(at(22)), ["n2", "n3"]);
        beats.see(&read(&[("n3", Some("y"))]), at(24), at(24));
        assert!(beats.unseen(at(24)).is_empty(), "n2 is no other any more");
    }

    #[test]
    fn i5_a_renew_time_that_goes_back_is_a_sign_of_life() {
        let mut beats = Beats::default();
        beats.see(&read(&[("n2", Some("2026"))]), at(0), at(0));
        beats.see(&read(&[("n2", Some("1970"))]), at(2), at(2));
        assert!(beats.unseen(at(2)).is_empty());
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
