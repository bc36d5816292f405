//! What the watches show, where it is newer than what is known (I5).

use std::time::Duration;

use super::Machine;
use crate::node::{Node, Seen};
use crate::now::Now;
use crate::slot::Lease;

/// So late a watch may be: it is asked again after 90 s of silence, and the new list takes a while. What was read
/// longer ago is no reason any more to take a view for the older one, for example when etcd was restored.
const LATE: Duration = Duration::from_secs(180);

impl Machine {
    /// The Leases of `group` as their watch shows them, none before it has listed them; `trouble`: what is wrong with it.
    /// Leases of other groups stay as they were read.
    pub fn see_leases(
        &mut self,
        group: &str,
        shown: Option<Vec<Lease>>,
        trouble: Option<String>,
        now: Now,
    ) {
        let facts = &mut self.facts;
        facts.listed = match (trouble, &shown) {
            (Some(trouble), _) => Err(trouble),
            (None, Some(_)) => Ok(()),
            // Of another group, or through new clients: what is there is not known yet.
            (None, None) => Err("asking the API server for the Leases".to_owned()),
        };
        let Some(shown) = shown else {
            return;
        };
        let there: Vec<&str> = shown.iter().map(|lease| lease.name.as_str()).collect();
        facts
            .leases
            .retain(|name, lease| lease.group != group || there.contains(&name.as_str()));
        let held = facts.record.hold.as_ref();
        let held = held.map(|hold| hold.take.lease.clone());
        for lease in shown {
            let known = facts.leases.get(&lease.name);
            if known.is_some_and(|known| {
                let same = known.uid == lease.uid || just_read(known.read, now.boot);
                old(same, &lease.resource_version, &known.resource_version)
            }) {
                continue;
            }
            // After a write that failed only a consistent read tells: this view may be older.
            if known.is_none() && held.as_ref() == Some(&lease.name) && facts.started {
                continue;
            }
            facts.absent.remove(&lease.name);
            let lease = lease.follow(known, now.boot);
            facts.leases.insert(lease.name.clone(), lease);
        }
    }

    /// The own Node as its watch shows it, which has listed it.
    pub fn see_node(&mut self, shown: Option<Node>, now: Now) {
        let facts = &mut self.facts;
        match (shown, &facts.node) {
            (Some(node), Seen::Present(known))
                if old(
                    known.uid == node.uid || just_read(known.read, now.boot),
                    &node.resource_version,
                    &known.resource_version,
                ) => {}
            // After a write that failed only a consistent read tells: this view may be older.
            (Some(_), Seen::Unknown) if facts.record.hold.is_some() => {}
            (Some(node), _) => facts.node = Seen::Present(Box::new(node)),
            // A watch alone is not believed when it says gone: read again. It may be older than what was just read.
            (None, Seen::Present(known)) if !just_read(known.read, now.boot) => {
                facts.node = Seen::Unknown;
            }
            (None, _) => {}
        }
    }
}

/// What was read so short a time ago may be newer than what a watch shows.
fn just_read(read: Option<Duration>, now: Duration) -> bool {
    read.is_some_and(|read| now.saturating_sub(read) <= LATE)
}

/// Whether a view tells nothing new; `same`: of the same object, or of one that may have been before it.
fn old(same: bool, view: &str, known: &str) -> bool {
    same && !newer(view, known)
}

/// Whether a view is newer than the known one. resourceVersions of one resource count up (KEP-5504), also from an
/// object that was deleted to the one that was made in its place: what was read is not lost to a watch that is late;
/// where they cannot be compared the view is taken, and what matters is confirmed by a read anyway.
fn newer(view: &str, known: &str) -> bool {
    match (view.parse::<u64>(), known.parse::<u64>()) {
        (Ok(view), Ok(known)) => view > known,
        _ => view != known,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Found by review: after a restore of etcd, whose versions begin lower, an object made anew was never seen again.
    #[test]
    fn i7_what_was_read_long_ago_makes_no_view_the_older_one() {
        let now = Duration::from_secs(1_000);
        for (ago, old_view) in [(1, true), (180, true), (181, false)] {
            let read = Some(now.saturating_sub(Duration::from_secs(ago)));
            assert_eq!(old(just_read(read, now), "7", "900"), old_view, "{ago} s");
        }
        assert!(!old(just_read(None, now), "7", "900"), "from a watch");
        assert!(!old(true, "901", "900") && old(true, "900", "900"));
    }
}
