//! The one set of things of ours on the own Node (I3).
//!
//! The set is a pure function of phase and record, never a delta: a partial apply would drop what it
//! does not name (`cluster_node`), and a restart must reach the same set again.

use crate::names;
use crate::node::Node;
use crate::record::{Hold, Record, Stage};
use crate::slot::Keys;

/// All of ours on the Node: what one apply holds.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NodeFields {
    /// `metadata.uid` of the apply: without it a deleted Node would come back to life (`cluster_node`).
    pub uid: String,
    /// `metadata.resourceVersion` of the apply: without it somebody's uncordon, or a late repeat of
    /// our own, would be overwritten (`cluster_node`).
    pub resource_version: String,
    pub unschedulable: bool,
    pub labels: Keys,
    pub annotations: Keys,
}

/// What is left on the Node of our keys although an apply no longer names it, to be removed by a
/// merge patch; and, as such a patch can also take away what others set, the reboot annotation.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Leftovers {
    pub uid: String,
    pub resource_version: String,
    pub labels: Vec<String>,
    pub annotations: Vec<String>,
    /// The cordon is ours although its owner is `before-first-apply`.
    pub cordon: bool,
}

impl Leftovers {
    /// The same is to go, of whatever version of the Node.
    pub(crate) fn same(&self, other: &Self) -> bool {
        let version = other.resource_version.clone();
        *other
            == Self {
                resource_version: version,
                ..self.clone()
            }
    }

    /// Its keys, for people.
    pub fn words(&self) -> String {
        let keys = self.labels.iter().chain(&self.annotations);
        let mut words: Vec<&str> = keys.map(String::as_str).collect();
        if self.cordon {
            words.push("spec.unschedulable");
        }
        words.join(", ")
    }
}

impl NodeFields {
    /// All of ours that `node` should carry now: label and record while the slot is held, the cordon and what load balancers
    /// look at from Draining until the host is proved healthy or the hold is undone.
    pub fn of(record: &Record, node: &Node) -> Self {
        let mut set = Self {
            uid: node.uid.clone(),
            resource_version: node.resource_version.clone(),
            ..Self::default()
        };
        let history = record
            .history_annotation()
            .or_else(|| node.annotations.get(names::HISTORY).cloned());
        if let Some(history) = history {
            set.annotations.insert(names::HISTORY.to_owned(), history);
        }
        let labelled = match record.hold.as_ref().map(|hold| &hold.stage) {
            None | Some(Stage::Taking | Stage::Releasing | Stage::Undoing(_)) => false,
            Some(Stage::Draining | Stage::Drained | Stage::Rebooting) => {
                set.unschedulable = true;
                set.labels.extend(excluded(record, node));
                true
            }
            Some(Stage::Claiming | Stage::Uncordoned) => true,
        };
        // Kept for a person, and never set again: an uncordon meanwhile is a person's too (I3).
        if record.kept.is_some() {
            set.unschedulable |= node.unschedulable;
        }
        if let Some(hold) = record.hold.as_ref().filter(|_| labelled) {
            set.labels
                .insert(names::SLOT.to_owned(), hold.take.lease.clone());
        }
        if (labelled || record.kept.is_some())
            && let Some(state) = record.annotation()
        {
            set.annotations.insert(names::STATE.to_owned(), state);
        }
        let guards = record.hold.as_ref().is_some_and(|hold| hold.guards);
        if guards || record.guard.is_some() {
            set.annotations.extend(guard(node));
        }
        set
    }

    /// The same where that was refused: no annotation is new or longer than what `node` has.
    ///
    /// All annotations of a Node share 256 KiB, and whoever may write on Nodes can fill them while the host is down. No
    /// cordon or slot may stay for that (I3). While the slot is held, the record stays as it is there: whoever finds no
    /// state file goes on from it. After that only the kept cordon is on record.
    pub(crate) fn least(record: &Record, node: &Node) -> Self {
        let mut set = Self::of(record, node);
        let held = set.labels.contains_key(names::SLOT);
        let kept = Record {
            kept: record.kept.clone(),
            ..Record::default()
        };
        set.annotations.retain(|key, value| {
            let Some(there) = node.annotations.get(key) else {
                return false;
            };
            if key == names::STATE && !held {
                *value = kept.annotation().unwrap_or_default();
                return value.len() <= there.len();
            }
            value.clone_from(there);
            true
        });
        set
    }
}

/// What keeps autoscalers from `node`. What others have set there is theirs, whatever its value: it is neither changed nor
/// taken away. What is not named by an apply goes only if nobody else owns it as well.
fn guard(node: &Node) -> Keys {
    let free = |key: &str| !node.annotations.contains_key(key) || guarded(node, key);
    let ours = names::GUARDS.into_iter().filter(|(key, _)| free(key));
    ours.map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect()
}

/// This daemon has applied it, and nobody has changed it since.
fn guarded(node: &Node, key: &str) -> bool {
    node.guarded.iter().any(|ours| ours == key)
}

/// The label for load balancers may be set on `node`: as with [`guard`], one of somebody else is theirs.
pub(crate) fn may_exclude(node: &Node) -> bool {
    let (key, _) = names::EXCLUDED;
    !node.labels.contains_key(key) || guarded(node, key)
}

fn excluded(record: &Record, node: &Node) -> Option<(String, String)> {
    let wanted = record.hold.as_ref().is_some_and(|hold| hold.excluded);
    let (key, value) = names::EXCLUDED;
    (wanted && may_exclude(node)).then(|| (key.to_owned(), value.to_owned()))
}

/// Something is on `node` by which this daemon keeps others away from it, and `set` names it no more.
pub(crate) fn keeps_away(node: &Node, set: &NodeFields) -> bool {
    let named = |key: &String| set.annotations.contains_key(key) || set.labels.contains_key(key);
    !node.guarded.iter().all(named)
}

/// What the record on the Node says, if it is one of ours and can be read.
pub fn recorded(node: &Node) -> Option<Record> {
    let record = Record::decode(node.annotations.get(names::STATE)?).ok()?;
    Some(record.cleaned())
}

/// The Node carries this hold at this step: the apply that belongs to it has landed.
pub(crate) fn carries(node: &Node, hold: &Hold) -> bool {
    node.labels.get(names::SLOT) == Some(&hold.take.lease)
        && recorded(node)
            .and_then(|record| record.hold)
            .is_some_and(|there| there.same(hold) && there.step == hold.step)
}

/// What the answer to an apply of `set` lacks of it: a webhook changed the Node on its way. None: nothing.
pub fn dropped(node: &Node, set: &NodeFields) -> Option<String> {
    let lacks = |there: &Keys, wanted: &Keys| -> Vec<String> {
        let missing = wanted
            .iter()
            .filter(|(key, value)| there.get(*key) != Some(*value));
        missing.map(|(key, _)| key.clone()).collect()
    };
    let mut dropped = lacks(&node.labels, &set.labels);
    // No reboot waits because autoscalers cannot be kept away.
    let guard = |key: &String| names::GUARDS.iter().any(|(guard, _)| guard == key);
    let annotations = lacks(&node.annotations, &set.annotations);
    dropped.extend(annotations.into_iter().filter(|key| !guard(key)));
    if set.unschedulable && !node.unschedulable {
        dropped.push("spec.unschedulable".to_owned());
    }
    (!dropped.is_empty()).then(|| dropped.join(", "))
}

/// The Node shows this hold, at whatever step.
pub(crate) fn knows(node: &Node, hold: &Hold) -> bool {
    node.labels.get(names::SLOT) == Some(&hold.take.lease)
        && recorded(node)
            .and_then(|record| record.hold)
            .is_some_and(|there| there.same(hold))
}

/// An earlier step of this hold had the Node cordoned when it was applied.
pub(crate) fn cordoned_before(node: &Node, hold: &Hold) -> bool {
    let there = recorded(node).and_then(|record| record.hold);
    let drains =
        |stage: &Stage| matches!(stage, Stage::Draining | Stage::Drained | Stage::Rebooting);
    there.is_some_and(|there| there.same(hold) && drains(&there.stage))
}

/// Something of a hold is on the Node: label, record or a cordon of ours.
pub(crate) fn marked(node: &Node) -> bool {
    node.labels.contains_key(names::SLOT)
        || node.annotations.contains_key(names::STATE)
        || ours(node)
}

/// The cordon is (also) ours.
pub fn ours(node: &Node) -> bool {
    node.unschedulable
        && node
            .cordon_owners
            .iter()
            .any(|owner| owner == names::NODE_MANAGER)
}

/// The cordon is ours, or nobody is on record for it (wiped managed fields).
pub(crate) fn ours_or_unowned(node: &Node) -> bool {
    ours(node) || (node.unschedulable && unowned(&node.cordon_owners))
}

/// Nobody is on record: what was there before the first apply has no real owner.
fn unowned(owners: &[String]) -> bool {
    owners.iter().all(|owner| owner == "before-first-apply")
}

/// Somebody other than us cordoned the Node.
pub fn foreign_cordon(node: &Node) -> bool {
    node.unschedulable
        && (node.cordon_owners.is_empty()
            || node
                .cordon_owners
                .iter()
                .any(|owner| owner != names::NODE_MANAGER))
}

/// What an apply of `set` could not take away, read from its answer. What `hold` says was ours is ours still where nobody
/// is on record for it (`before-first-apply` is no real owner): the cordon, if it was ours alone, and the label for load balancers.
///
/// An admin's server-side dump or wiped managedFields leave such keys behind (`cluster_node`).
pub fn leftovers(node: &Node, set: &NodeFields, hold: Option<&Hold>) -> Option<Leftovers> {
    let cordoned = hold.is_some_and(|hold| !hold.foreign_cordon);
    let excluded = hold.is_some_and(|hold| hold.excluded) && unowned(&node.exclusion_owners);
    let unset = |key: &str| !set.labels.contains_key(key) && node.labels.contains_key(key);
    let (exclusion, value) = names::EXCLUDED;
    let exclusion =
        (excluded && node.labels.get(exclusion).is_some_and(|is| is == value)).then_some(exclusion);
    let labels = [Some(names::SLOT), exclusion].into_iter().flatten();
    let labels: Vec<String> = labels.filter(|key| unset(key)).map(str::to_owned).collect();
    let state = (!set.annotations.contains_key(names::STATE)
        && node.annotations.contains_key(names::STATE))
    .then(|| names::STATE.to_owned());
    let cordon =
        cordoned && !set.unschedulable && node.unschedulable && unowned(&node.cordon_owners);
    if labels.is_empty() && state.is_none() && !cordon {
        return None;
    }
    Some(Leftovers {
        uid: node.uid.clone(),
        resource_version: node.resource_version.clone(),
        labels,
        annotations: state.into_iter().collect(),
        cordon,
    })
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::boot::Boot;
    use crate::record::{Guard, Kept, Why};
    use crate::slot::{Lease, Take};

    fn key(key: &str, value: &str) -> Keys {
        Keys::from([(key.to_owned(), value.to_owned())])
    }

    fn held(stage: Stage) -> Record {
        let lease = Lease::free("default", "default");
        let take = Take::of(&lease, "kube-rebootd", Timestamp::UNIX_EPOCH, false);
        let boot = Boot {
            id: "b".to_owned(),
            userspace: 1,
        };
        let mut hold = Hold::begin(take, boot);
        hold.stage = stage;
        Record {
            hold: Some(hold),
            ..Record::default()
        }
    }

    fn kept() -> Record {
        let kept = Kept {
            node_uid: "u".to_owned(),
            since: Timestamp::UNIX_EPOCH,
            why: "broken disk".to_owned(),
        };
        Record {
            kept: Some(kept),
            ..Record::default()
        }
    }

    /// The Node after an apply of all that `record` wants on it.
    fn after(record: &Record) -> Node {
        let set = NodeFields::of(record, &Node::ready());
        Node {
            unschedulable: set.unschedulable,
            labels: set.labels,
            annotations: set.annotations,
            ..Node::ready()
        }
    }

    #[test]
    fn what_a_webhook_dropped_is_named() {
        let set = NodeFields {
            unschedulable: true,
            labels: key(names::SLOT, "default"),
            annotations: key(names::STATE, "{}"),
            ..NodeFields::default()
        };
        let mut node = Node {
            unschedulable: true,
            labels: set.labels.clone(),
            annotations: set.annotations.clone(),
            ..Node::ready()
        };
        assert_eq!(dropped(&node, &set), None);
        node.labels = key(names::SLOT, "another");
        node.unschedulable = false;
        let named = dropped(&node, &set).unwrap();
        assert_eq!(named, format!("{}, spec.unschedulable", names::SLOT));
        // What others set is theirs; a cordon of theirs is not asked for.
        node.labels = Keys::new();
        assert_eq!(dropped(&node, &NodeFields::default()), None);
    }

    #[test]
    fn what_is_left_over_is_named() {
        let left = Leftovers {
            labels: vec![names::SLOT.to_owned()],
            annotations: vec![names::STATE.to_owned()],
            ..Leftovers::default()
        };
        let keys = format!("{}, {}", names::SLOT, names::STATE);
        assert_eq!(left.words(), keys);
        let cordon = Leftovers {
            cordon: true,
            ..left
        };
        assert_eq!(cordon.words(), format!("{keys}, spec.unschedulable"));
    }

    /// Which keys an apply sets: what is absent or ours, and never what others have set, whatever its value.
    #[test]
    fn i3_autoscalers_are_kept_away_by_what_is_absent_or_ours() {
        let [(first, _), (second, _), (third, _)] = names::GUARDS;
        let mut guards = held(Stage::Claiming);
        if let Some(hold) = &mut guards.hold {
            hold.guards = true;
        }
        let after = Record {
            guard: Some(Guard {
                boot: Boot::unknown(),
                until: std::time::Duration::ZERO,
            }),
            ..Record::default()
        };
        let stages = [Stage::Draining, Stage::Rebooting, Stage::Uncordoned];
        let stages = stages
            .into_iter()
            .chain([Stage::Releasing, Stage::Undoing(Why::Lost)]);
        let records = stages.map(|stage| {
            let mut record = guards.clone();
            record.hold.as_mut().expect("a hold").stage = stage;
            record
        });
        let mut records: Vec<Record> = records.collect();
        records.extend([guards, after]);
        let set = |record: &Record, node: &Node| {
            let set = NodeFields::of(record, node);
            let keys = set.annotations.into_iter();
            keys.filter(|(key, _)| names::GUARDS.iter().any(|(guard, _)| guard == key))
                .collect::<Keys>()
        };
        for record in records {
            let mut node = Node::ready();
            assert_eq!(set(&record, &node).len(), 3, "{record:?}");
            // Somebody's own, with any value, and one of ours.
            node.annotations = key(first, "false");
            node.annotations.extend(key(second, "upgrade"));
            node.guarded = vec![second.to_owned()];
            let mut wanted = key(second, "upgrade");
            wanted.extend(key(third, "true"));
            assert_eq!(set(&record, &node), wanted, "{record:?}");
            // Nothing of it is asked any more.
            let nothing = Record::default();
            assert_eq!(set(&nothing, &node), Keys::new());
            assert_eq!(set(&held(Stage::Draining), &node), Keys::new());
        }
    }

    /// From the cordon on, and never over what others have set.
    #[test]
    fn i3_load_balancers_are_told_from_the_cordon_on() {
        let (label, value) = names::EXCLUDED;
        for (stage, named) in [
            (Stage::Claiming, false),
            (Stage::Draining, true),
            (Stage::Drained, true),
            (Stage::Rebooting, true),
            (Stage::Uncordoned, false),
            (Stage::Releasing, false),
            (Stage::Undoing(Why::Lost), false),
        ] {
            let mut record = held(stage);
            let set = |record: &Record, node: &Node| {
                let mut set = NodeFields::of(record, node);
                set.labels.remove(label)
            };
            let free = Node::ready();
            assert_eq!(set(&record, &free), None, "not configured");
            record.hold.as_mut().expect("a hold").excluded = true;
            let wanted = named.then(|| value.to_owned());
            assert_eq!(set(&record, &free), wanted, "{record:?}");
            let mut ours = Node::ready();
            ours.labels = key(label, value);
            ours.guarded = vec![label.to_owned()];
            assert_eq!(set(&record, &ours), wanted, "{record:?}");
            assert_eq!(keeps_away(&ours, &NodeFields::of(&record, &ours)), !named);
            let mut theirs = ours.clone();
            theirs.guarded.clear();
            assert_eq!(set(&record, &theirs), None, "{record:?}");
            assert!(!keeps_away(&theirs, &NodeFields::default()));
            // It was asked for: a webhook that takes it away is said before the take.
            let set = NodeFields::of(&record, &free);
            let mut there = Node::ready();
            there.labels = set.labels.clone();
            there.labels.remove(label);
            there.annotations = set.annotations.clone();
            there.unschedulable = set.unschedulable;
            let lacks = named.then(|| label.to_owned());
            assert_eq!(dropped(&there, &set), lacks);
        }
    }

    /// A webhook that takes them away keeps no node from rebooting.
    #[test]
    fn what_keeps_autoscalers_away_may_be_dropped() {
        let (guard, value) = names::GUARDS[0];
        let set = NodeFields {
            annotations: key(guard, value),
            ..NodeFields::default()
        };
        assert_eq!(dropped(&Node::ready(), &set), None);
    }

    /// Of a full Node nothing new is asked, and of what is there nothing that is longer.
    #[test]
    fn i3_the_least_set_adds_nothing_to_a_full_node() {
        let record = held(Stage::Draining);
        let empty = NodeFields::least(&record, &Node::ready());
        assert_eq!(empty.labels, key(names::SLOT, "default"));
        assert!(empty.unschedulable);
        assert_eq!(empty.annotations, Keys::new(), "none is new");

        // While the slot is held the record stays as it is there, and a history too.
        let mut full = Node::ready();
        full.annotations = key(names::STATE, "as it was");
        full.annotations.extend(key(names::HISTORY, "[]"));
        let least = NodeFields::least(&record, &full);
        assert_eq!(least.annotations, full.annotations);
        assert_eq!(least.uid, full.uid);

        // Afterwards only the kept cordon is on record, if that is no longer than what is there.
        let mut record = held(Stage::Releasing);
        record.kept = kept().kept;
        let words = kept().annotation().expect("a record");
        for (there, wanted) in [
            (words.len() - 1, None),
            (words.len(), Some(&words)),
            (words.len() + 1, Some(&words)),
        ] {
            full.annotations = key(names::STATE, &"x".repeat(there));
            let least = NodeFields::least(&record, &full);
            assert_eq!(least.annotations.get(names::STATE), wanted, "{there}");
            assert!(least.labels.is_empty());
        }
    }

    #[test]
    fn i3_a_node_carries_a_hold_with_its_label_and_its_record_at_this_step() {
        let record = held(Stage::Draining);
        let hold = record.hold.as_ref().expect("a hold");
        let there = after(&record);
        assert!(carries(&there, hold) && knows(&there, hold));

        let mut later = hold.clone();
        later.step += 1;
        assert!(!carries(&there, &later), "an earlier step landed");
        assert!(knows(&there, &later));

        let mut another = hold.clone();
        another.take.uid = "another".to_owned();
        let mut labelled = Node::ready();
        labelled.labels = key(names::SLOT, "default");
        let mut recorded = there.clone();
        recorded.labels = Keys::new();
        let mut elsewhere = there.clone();
        elsewhere.labels = key(names::SLOT, "another");
        for (node, hold) in [
            (&there, &another),
            (&labelled, hold),
            (&recorded, hold),
            (&elsewhere, hold),
            (&Node::ready(), hold),
        ] {
            assert!(!carries(node, hold) && !knows(node, hold), "{node:?}");
        }
    }

    #[test]
    fn i3_only_an_earlier_step_of_the_same_hold_had_it_cordoned() {
        for (stage, cordoned) in [
            (Stage::Claiming, false),
            (Stage::Draining, true),
            (Stage::Rebooting, true),
            (Stage::Uncordoned, false),
        ] {
            let record = held(stage.clone());
            let hold = record.hold.as_ref().expect("a hold");
            assert_eq!(
                cordoned_before(&after(&record), hold),
                cordoned,
                "{stage:?}"
            );
            let mut another = hold.clone();
            another.take.uid = "another".to_owned();
            assert!(!cordoned_before(&after(&record), &another), "{stage:?}");
            assert!(!cordoned_before(&Node::ready(), hold), "{stage:?}");
        }
    }

    #[test]
    fn i3_label_record_or_cordon_alone_is_a_mark() {
        let ours = vec![names::NODE_MANAGER.to_owned()];
        let mut nodes = vec![(Node::ready(), false)];
        let mut one = Node::ready();
        one.labels = key(names::SLOT, "default");
        nodes.push((one, true));
        let mut one = Node::ready();
        one.annotations = key(names::STATE, "{}");
        nodes.push((one, true));
        for (unschedulable, owners, mark) in [
            (true, ours.clone(), true),
            (true, vec!["kubectl".to_owned()], false),
            (true, Vec::new(), false),
            (false, ours, false),
        ] {
            let mut one = Node::ready();
            one.unschedulable = unschedulable;
            one.cordon_owners = owners;
            nodes.push((one, mark));
        }
        for (node, mark) in nodes {
            assert_eq!(marked(&node), mark, "{node:?}");
        }
    }

    #[test]
    fn i3_a_cordon_that_nobody_is_on_record_for_may_be_ours() {
        let nobody = "before-first-apply";
        for (unschedulable, owners, may_be) in [
            (true, &[names::NODE_MANAGER][..], true),
            (true, &["kubectl", names::NODE_MANAGER], true),
            (true, &[], true),
            (true, &[nobody], true),
            (true, &[nobody, "kubectl"], false),
            (true, &["kubectl"], false),
            (false, &[], false),
        ] {
            let mut node = Node::ready();
            node.unschedulable = unschedulable;
            node.cordon_owners = owners.iter().map(|owner| (*owner).to_owned()).collect();
            assert_eq!(ours_or_unowned(&node), may_be, "{owners:?}");
            // What an apply that names no cordon could not take away.
            let unowned = unschedulable && owners.iter().all(|owner| *owner == nobody);
            let mut record = held(Stage::Uncordoned);
            let left = leftovers(&node, &NodeFields::default(), record.hold.as_ref());
            assert_eq!(left.is_some_and(|left| left.cordon), unowned, "{owners:?}");
            assert_eq!(leftovers(&node, &NodeFields::default(), None), None);
            record.hold.as_mut().expect("a hold").foreign_cordon = true;
            let left = leftovers(&node, &NodeFields::default(), record.hold.as_ref());
            assert_eq!(left, None, "{owners:?}");
        }
    }

    #[test]
    fn i4_only_what_is_not_wanted_any_more_is_left_over() {
        let there = after(&held(Stage::Draining));
        let wanted = NodeFields::of(&held(Stage::Draining), &there);
        let record = held(Stage::Draining);
        let hold = record.hold.as_ref();
        assert_eq!(leftovers(&there, &wanted, hold), None);
        let left = leftovers(&there, &NodeFields::default(), hold).expect("left");
        assert_eq!(left.labels, [names::SLOT]);
        assert_eq!(left.annotations, [names::STATE]);
        assert_eq!(left.uid, there.uid);
        assert_eq!(
            leftovers(&Node::ready(), &NodeFields::default(), hold),
            None
        );
    }

    /// Found by review: where the owners of a Node's fields were wiped the label stayed for ever, and no load balancer sent
    /// anything there.
    #[test]
    fn i3_a_label_for_load_balancers_that_nobody_is_on_record_for_goes_where_it_was_ours() {
        let (label, value) = names::EXCLUDED;
        for (was_ours, nobody, is, named, goes) in [
            (true, true, value, false, true),
            (false, true, value, false, false),
            (true, false, value, false, false),
            (true, true, "false", false, false),
            (true, true, value, true, false),
        ] {
            let mut record = held(Stage::Uncordoned);
            record.hold.as_mut().expect("a hold").excluded = was_ours;
            let mut node = Node::ready();
            node.labels = key(label, is);
            node.exclusion_owners = vec![
                if nobody {
                    "before-first-apply"
                } else {
                    "kubectl"
                }
                .to_owned(),
            ];
            let set = NodeFields {
                labels: if named {
                    key(label, value)
                } else {
                    Keys::new()
                },
                ..NodeFields::default()
            };
            let left = leftovers(&node, &set, record.hold.as_ref());
            let goes = goes.then(|| vec![label.to_owned()]);
            assert_eq!(
                left.map(|left| left.labels),
                goes,
                "{was_ours} {nobody} {is}"
            );
        }
    }
}
