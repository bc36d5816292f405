//! What of a group is another than before, a line each. Ages grow by themselves: they are in no line, and change nothing.

use std::collections::BTreeMap;

use super::super::table::{cordon, required, why};
use super::super::{Group, Member, state};

/// What a line is about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum About {
    Slot(String),
    /// What a node holds, claims or waits for.
    Place(String),
    Node(String),
}

/// One line.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Line {
    /// What is compared.
    same: String,
    says: String,
}

/// What was shown.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Lines(BTreeMap<About, Line>);

impl Lines {
    /// Those of the group; `unhealthy`: of the nodes that need a person alone.
    pub(super) fn of(group: &Group, unhealthy: bool) -> Self {
        let mut lines = BTreeMap::new();
        let nodes = group.nodes.iter();
        let nodes = nodes.filter(|node| node.person.is_some() || !unhealthy);
        lines.extend(nodes.map(|one| (About::Node(one.node.clone()), node(one))));
        if unhealthy {
            return Self(lines);
        }
        for slot in &group.slots {
            let says = state(slot);
            let line = Line {
                same: says.clone(),
                says: format!("slot {}: {says}", slot.name),
            };
            lines.insert(About::Slot(slot.name.clone()), line);
        }
        for row in &group.rows {
            let stage = row.stage.as_ref();
            let stage = stage.map_or_else(String::new, |stage| format!(", {stage}"));
            let says = format!("{}{stage}", row.what.words());
            let line = lines
                .entry(About::Place(row.node.clone()))
                .or_insert_with(|| Line {
                    same: String::new(),
                    says: format!("{}:", row.node),
                });
            line.same.push_str(&says);
            line.says = format!("{} {says}", line.says);
        }
        Self(lines)
    }

    /// What differs from `before`.
    pub(super) fn since(&self, before: &Self) -> Vec<String> {
        let differs = |(about, line): &(&About, &Line)| {
            before.0.get(about).map(|line| &line.same) != Some(&line.same)
        };
        let now = self.0.iter().filter(differs);
        let now = now.map(|(_, line)| line.says.clone());
        let gone = before.0.keys().filter(|about| !self.0.contains_key(about));
        now.chain(gone.map(gone_words)).collect()
    }
}

fn gone_words(about: &About) -> String {
    match about {
        About::Slot(name) => format!("slot {name}: is no slot of the group any more"),
        About::Place(node) => format!("{node}: neither holds nor waits any more"),
        About::Node(node) => format!("node {node}: is not shown any more"),
    }
}

fn node(one: &Member) -> Line {
    let reboot = required(one).unwrap_or("-");
    let reason = one.reason.as_deref().unwrap_or("-");
    let cordon = cordon(one).map_or_else(String::new, |whose| format!(", cordoned by {whose}"));
    // Why somebody has to look may tell for how long.
    let timeless = Member {
        person: one.person.as_ref().map(|_| String::new()),
        ..one.clone()
    };
    let message = one.message.as_deref().unwrap_or_default();
    let head = format!("node {}: {reboot}, {reason}{cordon}", one.node);
    Line {
        same: format!("{head} {message} {}", why(&timeless)),
        says: format!("{head}: {}", why(one)),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use jiff::Timestamp;
    use kube_rebootd_core::slot::Lease;

    use super::super::super::fleet::tests::shows;
    use super::super::super::{Row, What, unseen};
    use super::*;

    fn group(holder: Option<&str>, nodes: Vec<Member>) -> Group {
        let slot = Lease {
            holder: holder.map(str::to_owned),
            ..Lease::free("default", "default")
        };
        let row = holder.map(|holder| Row {
            node: holder.to_owned(),
            what: What::Holds("default".to_owned()),
            since: Some(Timestamp::UNIX_EPOCH),
            stage: Some("draining".to_owned()),
        });
        Group {
            name: "default".to_owned(),
            namespace: "kube-rebootd".to_owned(),
            others: BTreeSet::new(),
            slots: vec![slot],
            rows: row.into_iter().collect(),
            nodes,
            left_out: 0,
            hidden: Vec::new(),
        }
    }

    fn told(at: &str, reason: &str) -> Member {
        shows("n1", true, ["True", reason, "words", at])
    }

    #[test]
    fn only_what_differs_is_said() {
        let fresh = "2026-11-24T11:30:00Z";
        let before = Lines::of(&group(None, vec![told(fresh, "Queued")]), false);
        let now = Lines::of(&group(Some("n1"), vec![told(fresh, "Draining")]), false);
        assert_eq!(
            now.since(&before),
            [
                "slot default: held by n1",
                "n1: holds default, draining",
                "node n1: required, Draining: words",
            ]
        );
        let gone = Lines::of(&group(None, Vec::new()), false);
        assert_eq!(
            gone.since(&now),
            [
                "slot default: free",
                "n1: neither holds nor waits any more",
                "node n1: is not shown any more",
            ]
        );
    }

    /// A sign of life is no news, nor is it that somebody is silent for longer.
    #[test]
    fn what_only_grows_older_is_no_change() {
        let lines = |member| Lines::of(&group(None, vec![member]), false);
        let one = lines(told("2026-11-24T11:30:00Z", "Queued"));
        let later = lines(told("2026-11-24T11:50:00Z", "Queued"));
        assert_eq!(later.since(&one), Vec::<String>::new());
        let silent = lines(told("2026-11-24T10:00:00Z", "Queued"));
        let longer = lines(told("2026-11-24T08:00:00Z", "Queued"));
        assert_eq!(silent.since(&one).len(), 1);
        assert_eq!(longer.since(&silent), Vec::<String>::new());
    }

    #[test]
    fn of_the_unhealthy_only_those_are_told() {
        let sick = Member {
            person: Some("not healthy".to_owned()),
            ..unseen("n2")
        };
        let all = group(Some("n1"), vec![unseen("n1"), sick]);
        let lines = Lines::of(&all, true);
        assert_eq!(
            lines.since(&Lines::default()),
            ["node n2: -, -: ! not healthy"]
        );
    }
}
