//! The manifests of `kubernetes/`, as shipped or for another group and number of slots (I1, I11).
//!
//! Slots are apart from the rest, as the rest may be applied again at any time and a slot may not: it is
//! made paused, and once it is open, applying it again would pause it.
//!
//! The files are the only source. Apart from the slots nothing in them depends on the group, and
//! apart from the strict bindings nothing on a node.

use std::fmt::Write;

use kube_rebootd_core::config::{Group, is_dns_label, is_subdomain};
use kube_rebootd_core::names::{NAMESPACE, option};
use kube_rebootd_core::slot::NAME_MAX;

const PLACE: &str = include_str!("../../kubernetes/00-namespace.yaml");
/// Lets nodes act as the coordinator: one of the two.
const PLAIN: &str = include_str!("../../kubernetes/05-impersonation.yaml");
const CONSTRAINED: &str = include_str!("../../kubernetes/options/constrained.yaml");
const SHARED: [&str; 4] = [
    include_str!("../../kubernetes/10-access.yaml"),
    include_str!("../../kubernetes/20-flow.yaml"),
    include_str!("../../kubernetes/30-policy.yaml"),
    include_str!("../../kubernetes/35-node-marks.yaml"),
];
const SLOTS: &str = include_str!("../../kubernetes/40-slots.yaml");
/// Lets the coordinator list all pods (`gates.capacity_wait`).
const CAPACITY: &str = include_str!("../../kubernetes/options/capacity.yaml");
/// The same for nodes with a constrained grant.
const CAPACITY_CONSTRAINED: &str =
    include_str!("../../kubernetes/options/capacity-constrained.yaml");
const STRICT: &str = include_str!("../../kubernetes/options/strict.yaml");
/// Of each node; `NODE` stands for its name.
const STRICT_NODE: &str = include_str!("../../kubernetes/options/strict-node.yaml");
/// More nodes of one group down at once is a typing error.
pub const SLOTS_MAX: u32 = 1000;

/// Why there are no manifests.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ManifestsError {
    #[error(
        "group {0:?} cannot have slots named after it: use letters, digits, '-', '_' and '.', at most {max} of them, beginning and ending with a letter or digit",
        max = NAME_MAX - SUFFIX_MAX
    )]
    Group(String),
    #[error("{0:?} is no name of a namespace: use 1 to 63 lower-case letters, digits or '-'")]
    Namespace(String),
    #[error(
        "namespace {0} is not for the slots alone: nodes may change every Lease in theirs, and taking the manifests back deletes it; name one of its own"
    )]
    Shared(String),
    #[error("{0} slots: use 1 to {SLOTS_MAX}")]
    Slots(u32),
    #[error(
        "{0:?} is no name of a Node; write the names that kubectl get nodes shows, with spaces between"
    )]
    Node(String),
}

/// How nodes come to act as the coordinator.
///
/// One or the other: a server's constrained impersonation of a `ServiceAccount` takes a name and no
/// extra value (apiserver `impersonation/mode.go` `onlyUsernameSet`), and the extra value is the proof.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Grant {
    /// Every node, for all that the coordinator may do.
    Plain,
    /// Every node, for the requests that the daemon makes; servers from 1.36.
    Constrained,
    /// Every node for reading; for writing these, each for its own name (`coordination.prove_node`).
    Strict(Vec<String>),
}

/// Room for `-1000`.
const SUFFIX_MAX: usize = 5;

/// What is shared, for `kubectl apply` as often as one likes: it holds no Lease, and so never touches
/// whether a slot is paused.
pub fn shared(grant: &Grant) -> Result<String, ManifestsError> {
    let act_as = match grant {
        Grant::Plain | Grant::Strict(_) => PLAIN,
        Grant::Constrained => CONSTRAINED,
    };
    let mut files = vec![PLACE, act_as];
    files.extend(SHARED);
    let mut text = files.join("---\n");
    if let Grant::Strict(nodes) = grant {
        strict(nodes, &mut text)?;
    }
    Ok(text)
}

/// What is shared, then `slots` Leases named after `group`, with `-2` and so on, so that a later, larger number
/// keeps those that are there. The Leases are paused: they are made once, with `kubectl create`.
pub fn manifests(group: &str, slots: u32) -> Result<String, ManifestsError> {
    granting(group, slots, &Grant::Plain)
}

/// As [`manifests`], with another grant.
pub fn granting(group: &str, slots: u32, grant: &Grant) -> Result<String, ManifestsError> {
    if Group::new(group).is_none() || group.len() > NAME_MAX - SUFFIX_MAX {
        return Err(ManifestsError::Group(group.to_owned()));
    }
    if slots == 0 || slots > SLOTS_MAX {
        return Err(ManifestsError::Slots(slots));
    }
    let mut text = shared(grant)?;
    // A label value may have what a Lease's name may not.
    let base = group.to_ascii_lowercase().replace(['_', '.'], "-");
    for number in 1..=slots {
        let name = if number == 1 {
            base.clone()
        } else {
            format!("{base}-{number}")
        };
        let slot = SLOTS
            .replace("name: default\n", &format!("name: {}\n", scalar(&name)))
            .replace("group: default\n", &format!("group: {}\n", scalar(group)))
            .replace("group=default ", &format!("group={group} "));
        // Writing to a String does not fail.
        let _ = write!(text, "---\n{slot}");
    }
    Ok(text)
}

/// `text` with what `gates.capacity_wait` needs besides, under the same grant.
pub fn with_capacity(text: &str, grant: &Grant) -> String {
    let mut files = vec![text, CAPACITY];
    match grant {
        Grant::Constrained => files.push(CAPACITY_CONSTRAINED),
        Grant::Plain | Grant::Strict(_) => {}
    }
    files.join("---\n")
}

/// How nodes come by that.
pub fn capacity_cure(namespace: &str) -> String {
    format!(
        "as an admin, with the options that the cluster has (--constrained, --strict NODE...): \
         kube-rebootd manifests{} --capacity | kubectl apply --server-side -f -",
        option(namespace)
    )
}

/// The same for another namespace than the files are written for (`coordination.namespace`).
pub fn in_namespace(text: &str, namespace: &str) -> Result<String, ManifestsError> {
    if !is_dns_label(namespace) {
        return Err(ManifestsError::Namespace(namespace.to_owned()));
    }
    // Kubernetes keeps names with this prefix for itself, and other Leases in there.
    let kubernetes = namespace.starts_with("kube-") && !namespace.starts_with(NAMESPACE);
    if kubernetes || namespace == "default" {
        return Err(ManifestsError::Shared(namespace.to_owned()));
    }
    let scalar = scalar(namespace);
    let spelled = [
        ("kind: Namespace\nmetadata:\n  name: ", "\n", &scalar),
        ("namespace: ", "\n", &scalar),
        ("kubernetes.io/metadata.name: ", "\n", &scalar),
        ("namespaces: [", ",", &scalar),
        (".namespace('", "')", &namespace.to_owned()),
        ("kubectl -n ", " ", &namespace.to_owned()),
    ];
    let put = |text: String, (before, after, name): &(&str, &str, &String)| {
        let ours = format!("{before}{NAMESPACE}{after}");
        text.replace(&ours, &format!("{before}{name}{after}"))
    };
    Ok(spelled.iter().fold(text.to_owned(), put))
}

/// What YAML would take for a number or for a truth value is quoted.
fn scalar(name: &str) -> String {
    let letter = name.starts_with(|c: char| c.is_ascii_alphabetic());
    let lower = name.to_ascii_lowercase();
    if letter && !["y", "n", "yes", "no", "on", "off", "true", "false", "null"].contains(&&*lower) {
        return name.to_owned();
    }
    format!("\"{name}\"")
}

/// The policy, and a binding for each node. Writing to a String does not fail.
fn strict(nodes: &[String], text: &mut String) -> Result<(), ManifestsError> {
    let _ = write!(text, "---\n{STRICT}");
    for node in nodes {
        // As the API server demands of a Node.
        if !is_subdomain(node) {
            return Err(ManifestsError::Node(node.clone()));
        }
        let _ = write!(text, "---\n{}", STRICT_NODE.replace("NODE", node));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_the_shipped_files() {
        let shared = SHARED.join("---\n");
        let shipped = format!("{PLACE}---\n{PLAIN}---\n{shared}---\n{SLOTS}");
        assert_eq!(manifests("default", 1), Ok(shipped));
    }

    #[test]
    fn what_is_applied_again_has_no_slot_and_no_pause() {
        let strict = Grant::Strict(vec!["n1".to_owned()]);
        for grant in [Grant::Plain, Grant::Constrained, strict] {
            let text = shared(&grant).expect("manifests");
            assert!(!text.contains("kind: Lease\n"), "{grant:?}");
            assert!(!text.contains("kube-rebootd/paused:"), "{grant:?}");
            let all = granting("default", 2, &grant).expect("manifests");
            assert!(all.starts_with(&text), "{grant:?}");
        }
    }

    /// A mistake in what is asked about every status that a kubelet writes must keep none from writing it.
    #[test]
    fn i14_the_policy_on_nodes_lets_through_what_it_cannot_judge() {
        let all = manifests("default", 1).expect("manifests");
        let policy = |text: &&str| {
            text.contains("kind: ValidatingAdmissionPolicy\n") && text.contains("nodes/status")
        };
        let found: Vec<&str> = all.split("---\n").filter(policy).collect();
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(
            found[0].contains("\n  failurePolicy: Ignore\n"),
            "{}",
            found[0]
        );
    }

    #[test]
    fn i11_a_constrained_grant_has_no_plain_verb() {
        let plain = "verbs: [impersonate]";
        let text = granting("default", 1, &Grant::Constrained).expect("manifests");
        assert!(!text.contains(plain) && text.contains("impersonate:serviceaccount"));
        assert!(manifests("default", 1).expect("manifests").contains(plain));
    }

    #[test]
    fn i11_each_strict_node_may_claim_its_own_name_only() {
        let nodes = ["n1".to_owned(), "42".to_owned(), "a.example".to_owned()];
        let text = granting("default", 1, &Grant::Strict(nodes.to_vec())).expect("manifests");
        for node in &nodes {
            assert!(
                text.contains(&format!("resourceNames: [\"{node}\"]\n")),
                "{text}"
            );
            assert!(
                text.contains(&format!("name: system:node:{node}\n")),
                "{text}"
            );
        }
        assert_eq!(text.matches("userextras/node").count(), nodes.len());
        assert_eq!(text.matches("name: kube-rebootd-strict\n").count(), 2);
        assert!(!text.contains("NODE"));
        for name in ["", "N1", "-a", "a..b", "a b", "a\"]\nx: y"] {
            let wrong = Grant::Strict(vec![name.to_owned()]);
            let said = granting("default", 1, &wrong);
            assert_eq!(said, Err(ManifestsError::Node(name.to_owned())));
        }
    }

    #[test]
    fn i1_each_slot_is_a_lease_of_its_group() {
        let text = manifests("workers", 3).expect("manifests");
        for name in ["workers", "workers-2", "workers-3"] {
            assert!(text.contains(&format!("  name: {name}\n  namespace: kube-rebootd\n")));
        }
        assert_eq!(text.matches("kube-rebootd/group: workers\n").count(), 3);
        assert!(!text.contains("kube-rebootd/group: default"));
        assert_eq!(text.matches("kube-rebootd/paused:").count(), 3);
    }

    #[test]
    fn i11_all_pods_are_listed_only_where_that_is_asked_for() {
        let strict = Grant::Strict(vec!["n1".to_owned()]);
        for grant in [Grant::Plain, Grant::Constrained, strict] {
            let text = granting("default", 1, &grant).expect("manifests");
            assert!(!text.contains("resources: [pods]"), "{grant:?}");
            let with = with_capacity(&text, &grant);
            assert!(with.starts_with(&text), "{grant:?}");
            let constrained = grant == Grant::Constrained;
            assert_eq!(
                with.matches("resources: [pods]").count(),
                if constrained { 2 } else { 1 }
            );
            let verbs = "verbs: [\"impersonate-on:serviceaccount:list\"]";
            let more = with.matches(verbs).count() - text.matches(verbs).count();
            assert_eq!(more == 1, constrained, "{grant:?}");
            let moved = in_namespace(&with, "ops").expect("manifests");
            assert!(!moved.contains("namespace: kube-rebootd\n"), "{grant:?}");
        }
    }

    #[test]
    fn impossible_values_are_refused() {
        for group in ["", "-a", "a-", "a/b", "a b", &"a".repeat(59)] {
            assert!(manifests(group, 1).is_err(), "{group:?}");
        }
        assert_eq!(manifests("a", 0), Err(ManifestsError::Slots(0)));
        assert!(manifests("a", SLOTS_MAX + 1).is_err());
        for namespace in [
            "",
            "A",
            "a.b",
            "a\nb",
            &"a".repeat(64),
            "default",
            "kube-system",
        ] {
            assert!(in_namespace("", namespace).is_err(), "{namespace:?}");
        }
    }

    /// `coordination.group_label` may name a label with any value.
    #[test]
    fn a_group_that_is_no_name_of_a_lease_has_slots_with_one() {
        let text = manifests("Pool_A.1", 2).expect("manifests");
        assert!(text.contains("  name: pool-a-1-2\n") && text.contains("group: Pool_A.1\n"));
        for (group, quoted) in [("1", true), ("off", true), ("True", true), ("a1", false)] {
            let text = manifests(group, 1).expect("manifests");
            assert_eq!(
                text.contains(&format!("group: \"{group}\"\n")),
                quoted,
                "{group}"
            );
        }
    }

    #[test]
    fn another_namespace_is_meant_everywhere() {
        let strict = Grant::Strict(vec!["n1".to_owned()]);
        for grant in [Grant::Plain, Grant::Constrained, strict] {
            let text = granting("default", 2, &grant).expect("manifests");
            assert_eq!(in_namespace(&text, NAMESPACE).as_ref(), Ok(&text));
            let moved = in_namespace(&text, "42").expect("manifests");
            assert!(moved.contains("kind: Namespace\nmetadata:\n  name: \"42\"\n"));
            let place = |line: &&str| {
                ["namespace", "metadata.name:", "-n "]
                    .iter()
                    .any(|word| line.contains(word))
            };
            let keys = |line: &str| line.replace("kube-rebootd/", "");
            let left = moved.lines().filter(place).map(keys);
            let left: Vec<String> = left.filter(|line| line.contains(NAMESPACE)).collect();
            assert_eq!(left, Vec::<String>::new());
        }
    }
}
