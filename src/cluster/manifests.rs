//! The manifests of `kubernetes/`, as shipped or for another group and number of slots (I1, I11).
//!
//! The files are the only source. Apart from the slots nothing in them depends on the group.

use std::fmt::Write;

use crate::slot::NAME_MAX;

const SHARED: [&str; 4] = [
    include_str!("../../kubernetes/00-namespace.yaml"),
    include_str!("../../kubernetes/10-access.yaml"),
    include_str!("../../kubernetes/20-flow.yaml"),
    include_str!("../../kubernetes/30-policy.yaml"),
];
const SLOTS: &str = include_str!("../../kubernetes/40-slots.yaml");
/// More nodes of one group down at once is a typing error.
pub const SLOTS_MAX: u32 = 1000;

/// Why there are no manifests.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ManifestsError {
    #[error(
        "group {0:?} is no name of a Lease: use lower case letters, digits and '-', at most {max} of them, beginning and ending with a letter or digit",
        max = NAME_MAX - SUFFIX_MAX
    )]
    Group(String),
    #[error("{0} slots: use 1 to {SLOTS_MAX}")]
    Slots(u32),
}

/// Room for `-1000`.
const SUFFIX_MAX: usize = 5;

/// Everything an installation applies: what is shared, then `slots` Leases named `group`, `group-2`
/// and so on, so that a later, larger number keeps those that are there.
pub fn manifests(group: &str, slots: u32) -> Result<String, ManifestsError> {
    if !valid(group) {
        return Err(ManifestsError::Group(group.to_owned()));
    }
    if slots == 0 || slots > SLOTS_MAX {
        return Err(ManifestsError::Slots(slots));
    }
    let mut text = SHARED.join("---\n");
    for number in 1..=slots {
        let name = if number == 1 {
            group.to_owned()
        } else {
            format!("{group}-{number}")
        };
        let slot = SLOTS
            .replace("name: default\n", &format!("name: {name}\n"))
            .replace("group: default\n", &format!("group: {group}\n"))
            .replace("group=default ", &format!("group={group} "));
        // Writing to a String does not fail.
        let _ = write!(text, "---\n{slot}");
    }
    Ok(text)
}

/// A DNS label (RFC 1123) with room for the number: it is a Lease's name and a label value.
fn valid(group: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    !group.is_empty()
        && group.len() <= NAME_MAX - SUFFIX_MAX
        && group.bytes().all(inner)
        && !group.starts_with('-')
        && !group.ends_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_the_shipped_files() {
        let shipped = format!("{}---\n{SLOTS}", SHARED.join("---\n"));
        assert_eq!(manifests("default", 1), Ok(shipped));
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
    fn impossible_values_are_refused() {
        for group in ["", "-a", "a-", "A", "a.b", "a b", &"a".repeat(60)] {
            assert!(manifests(group, 1).is_err(), "{group:?}");
        }
        assert_eq!(manifests("a", 0), Err(ManifestsError::Slots(0)));
        assert!(manifests("a", SLOTS_MAX + 1).is_err());
    }
}
