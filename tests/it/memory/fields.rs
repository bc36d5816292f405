//! Who owns which field: server-side apply as structured-merge-diff does it, for the objects that the
//! daemon writes. Proved against the real server by `conformance`.

use std::collections::BTreeSet;

use serde_json::{Value, json};

pub(super) use super::tree::Set;
use super::tree::{
    Path, Shape, all_named, drop_nulls, merge, name, parts, shape, step, with_parents, without,
};

/// One entry of managedFields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Manager {
    pub(super) name: String,
    pub(super) apply: bool,
    pub(super) subresource: String,
    pub(super) set: Set,
    pub(super) time: String,
}

/// A field that another manager owns with another value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Conflict {
    pub(super) manager: String,
    pub(super) field: String,
}

/// The fields that an applied configuration names.
pub(super) fn named(value: &Value) -> Set {
    let mut set = Set::new();
    name(&[], value, &mut set);
    set.retain(tracked);
    set
}

/// What the server keeps out of managedFields.
fn tracked(path: &Path) -> bool {
    let fixed = [
        "f:name",
        "f:namespace",
        "f:creationTimestamp",
        "f:uid",
        "f:generation",
        "f:managedFields",
        "f:resourceVersion",
        "f:deletionTimestamp",
        "f:deletionGracePeriodSeconds",
    ];
    let elements: Vec<&str> = path.iter().map(String::as_str).collect();
    match elements.as_slice() {
        [] | ["f:apiVersion" | "f:kind" | "f:metadata"] => false,
        ["f:metadata", field, ..] => !fixed.contains(field),
        _ => true,
    }
}

/// The differences of two objects.
#[derive(Debug, Default)]
struct Comparison {
    written: Set,
    removed: Set,
}

fn compare(before: &Value, after: &Value) -> Comparison {
    let mut found = Comparison::default();
    differ(&[], Some(before), Some(after), &mut found);
    found.written.retain(tracked);
    found.removed.retain(tracked);
    found
}

fn differ(path: &[String], before: Option<&Value>, after: Option<&Value>, found: &mut Comparison) {
    let there = after.or(before);
    let Some(there) = there else { return };
    let split = |value: Option<&Value>| value.and_then(|value| parts(path, value));
    let structured = split(Some(there)).is_some();
    if !structured {
        match (before, after) {
            (Some(before), Some(after)) if before == after => {}
            (_, Some(_)) => {
                found.written.insert(path.to_vec());
            }
            (_, None) => {
                found.removed.insert(path.to_vec());
            }
        }
        return;
    }
    let is_struct = matches!(shape(path, there), Shape::Struct);
    match (before, after) {
        (None, Some(_)) if !is_struct => {
            found.written.insert(path.to_vec());
        }
        (Some(_), None) if !is_struct => {
            found.removed.insert(path.to_vec());
        }
        _ => {}
    }
    let (old, new) = (
        split(before).unwrap_or_default(),
        split(after).unwrap_or_default(),
    );
    let of = |parts: &[(String, Value)], element: &str| {
        let part = parts.iter().find(|(name, _)| name == element);
        part.map(|(_, value)| value.clone())
    };
    let elements: BTreeSet<&String> = old.iter().chain(&new).map(|(name, _)| name).collect();
    for element in elements {
        let (before, after) = (of(&old, element), of(&new, element));
        differ(&step(path, element), before.as_ref(), after.as_ref(), found);
    }
}

/// Takes away what the applier named last time and does not name now, but for what others own and for
/// what nobody does.
fn prune(merged: &Value, last: &Set, managers: &[Manager]) -> Value {
    let last = with_parents(last);
    let pruned = without(&[], merged, &last)
        .filter(Value::is_object)
        .unwrap_or_else(|| json!({}));
    let owned: Set = managers
        .iter()
        .flat_map(|m| m.set.iter().cloned())
        .collect();
    let keep: Set = all_named(&pruned)
        .union(&with_parents(&owned))
        .cloned()
        .collect();
    let gone: Set = all_named(merged).difference(&keep).cloned().collect();
    let pruned = without(&[], merged, &gone)
        .filter(Value::is_object)
        .unwrap_or_else(|| json!({}));
    let there = all_named(&pruned);
    let gone: Set = all_named(merged)
        .difference(&there)
        .filter(|path| last.contains(*path))
        .cloned()
        .collect();
    without(&[], merged, &gone)
        .filter(Value::is_object)
        .unwrap_or_else(|| json!({}))
}

/// One server-side apply on `live` (null: it is created).
pub(super) fn apply(
    live: &Value,
    mut managers: Vec<Manager>,
    config: &Value,
    by: &Manager,
    force: bool,
) -> Result<(Value, Vec<Manager>), Vec<Conflict>> {
    let nothing = json!({});
    let base = if live.is_null() { &nothing } else { live };
    if managers.is_empty() && !live.is_null() {
        // managedfields/skipnonapplied.go: whatever is there belongs to somebody.
        managers.push(Manager {
            name: "before-first-apply".to_owned(),
            apply: false,
            subresource: String::new(),
            set: compare(&nothing, live).written,
            time: by.time.clone(),
        });
    }
    let set = named(config);
    let last = entry(&managers, by)
        .map(|m| m.set.clone())
        .unwrap_or_default();
    put(&mut managers, by, set.clone());
    let mut merged = merge(&[], base, config);
    if !last.is_empty() {
        merged = prune(&merged, &last, &managers);
    }
    drop_nulls(&mut merged);
    restore(&mut merged, base, config);
    let change = compare(base, &merged);
    let mut conflicts = Vec::new();
    for other in managers.iter_mut().filter(|other| !same(other, by)) {
        for path in other.set.clone().intersection(&change.written) {
            conflicts.push(Conflict {
                manager: other.name.clone(),
                field: path
                    .iter()
                    .fold(String::new(), |field, element| field + "." + &element[2..]),
            });
            other.set.remove(path);
        }
        other.set.retain(|path| !change.removed.contains(path));
    }
    if !force && !conflicts.is_empty() {
        return Err(conflicts);
    }
    managers.retain(|manager| !manager.set.is_empty());
    Ok((merged, managers))
}

/// What identifies the object is never pruned.
fn restore(merged: &mut Value, live: &Value, config: &Value) {
    for field in ["apiVersion", "kind"] {
        merged[field] = config[field].clone();
    }
    let metadata = merged["metadata"].as_object().cloned().unwrap_or_default();
    let mut metadata = Value::Object(metadata);
    for field in [
        "name",
        "namespace",
        "uid",
        "creationTimestamp",
        "generation",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
    ] {
        if let Some(value) = live["metadata"].get(field)
            && metadata.get(field).is_none()
        {
            metadata[field] = value.clone();
        }
    }
    merged["metadata"] = metadata;
}

/// One create, update or patch that is no apply.
pub(super) fn update(
    live: &Value,
    mut managers: Vec<Manager>,
    after: &Value,
    by: &Manager,
) -> Vec<Manager> {
    let nothing = json!({});
    let base = if live.is_null() { &nothing } else { live };
    if managers.is_empty() && !live.is_null() {
        return managers;
    }
    let change = compare(base, after);
    let mut set = entry(&managers, by)
        .map(|m| m.set.clone())
        .unwrap_or_default();
    for other in managers.iter_mut().filter(|other| !same(other, by)) {
        other
            .set
            .retain(|path| !change.written.contains(path) && !change.removed.contains(path));
    }
    set.retain(|path| !change.removed.contains(path));
    set.extend(change.written);
    put(&mut managers, by, set);
    managers.retain(|manager| !manager.set.is_empty());
    managers
}

fn same(one: &Manager, other: &Manager) -> bool {
    (&one.name, one.apply, &one.subresource) == (&other.name, other.apply, &other.subresource)
}

fn entry<'a>(managers: &'a [Manager], by: &Manager) -> Option<&'a Manager> {
    managers.iter().find(|manager| same(manager, by))
}

fn put(managers: &mut Vec<Manager>, by: &Manager, set: Set) {
    match managers.iter_mut().find(|manager| same(manager, by)) {
        Some(there) if there.set == set => {}
        Some(there) => {
            there.set = set;
            there.time.clone_from(&by.time);
        }
        None => managers.push(Manager { set, ..by.clone() }),
    }
}

/// As the API shows them.
pub(super) fn rendered(managers: &[Manager], api_version: &str) -> Value {
    let shown = |manager: &Manager| {
        let mut entry = json!({
            "manager": manager.name,
            "operation": if manager.apply { "Apply" } else { "Update" },
            "apiVersion": api_version,
            "time": manager.time,
            "fieldsType": "FieldsV1",
            "fieldsV1": tree(&manager.set),
        });
        if !manager.subresource.is_empty() {
            entry["subresource"] = json!(manager.subresource);
        }
        entry
    };
    Value::Array(managers.iter().map(shown).collect())
}

fn tree(set: &Set) -> Value {
    let mut root = json!({});
    for path in set {
        let below = set
            .iter()
            .any(|other| other.len() > path.len() && other.starts_with(path));
        let mut at = &mut root;
        for element in path {
            if at.get(element).is_none() {
                at[element] = json!({});
            }
            at = &mut at[element];
        }
        if below {
            at["."] = json!({});
        }
    }
    root
}
