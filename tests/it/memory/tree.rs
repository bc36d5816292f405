//! Objects as trees of fields: their parts by path, put together and taken apart.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

/// Elements as in fieldsV1: `f:name` for a field, `k:{...}` for an item of a keyed list, `v:"..."` for
/// a member of a set.
pub(super) type Path = Vec<String>;
pub(super) type Set = BTreeSet<Path>;

/// What a place in an object is made of.
pub(super) enum Shape {
    /// Fields have names of their own; the struct itself is owned only when empty.
    Struct,
    /// Keys are data; the map can be owned as such.
    Map,
    /// Items are told apart by this field.
    Keyed(&'static str),
    /// Members are told apart by their value.
    Members,
    /// Owned as a whole.
    Leaf,
}

pub(super) fn shape(path: &[String], value: &Value) -> Shape {
    let last = path.last().map_or("", String::as_str);
    match (value, last) {
        (Value::Object(_), "f:labels" | "f:annotations" | "f:capacity" | "f:allocatable") => {
            Shape::Map
        }
        // A label selector and a reference are atomic.
        (Value::Object(_), "f:selector" | "f:involvedObject") => Shape::Leaf,
        (Value::Object(_), _) => Shape::Struct,
        (Value::Array(_), "f:conditions") => Shape::Keyed("type"),
        (Value::Array(_), "f:ownerReferences") => Shape::Keyed("uid"),
        (Value::Array(_), "f:containers" | "f:volumes") => Shape::Keyed("name"),
        (Value::Array(_), "f:finalizers") => Shape::Members,
        _ => Shape::Leaf,
    }
}

/// The parts of a value, each with its path element; none: it is owned as a whole.
pub(super) fn parts(path: &[String], value: &Value) -> Option<Vec<(String, Value)>> {
    match shape(path, value) {
        Shape::Struct | Shape::Map => {
            let object = value.as_object()?;
            let part = |(key, value): (&String, &Value)| (format!("f:{key}"), value.clone());
            Some(object.iter().map(part).collect())
        }
        Shape::Keyed(key) => {
            let part = |item: &Value| (format!("k:{}", json!({ key: item[key] })), item.clone());
            Some(value.as_array()?.iter().map(part).collect())
        }
        Shape::Members => {
            let part = |item: &Value| (format!("v:{item}"), item.clone());
            Some(value.as_array()?.iter().map(part).collect())
        }
        Shape::Leaf => None,
    }
}

pub(super) fn step(path: &[String], element: &str) -> Path {
    let mut next = path.to_vec();
    next.push(element.to_owned());
    next
}

pub(super) fn empty(value: &Value) -> bool {
    value.is_null() || value.as_object().is_some_and(Map::is_empty)
}

pub(super) fn name(path: &[String], value: &Value, set: &mut Set) {
    let Some(parts) = parts(path, value) else {
        set.insert(path.to_vec());
        return;
    };
    let is_struct = matches!(shape(path, value), Shape::Struct);
    for (element, part) in parts {
        let next = step(path, &element);
        if empty(&part) || !is_struct {
            set.insert(next.clone());
        }
        if !empty(&part) {
            name(&next, &part, set);
        }
    }
}

/// `live` with all that `config` names.
pub(super) fn merge(path: &[String], live: &Value, config: &Value) -> Value {
    let (Some(old), Some(new)) = (parts(path, live), parts(path, config)) else {
        return config.clone();
    };
    let mut result = old;
    for (element, value) in new {
        let next = step(path, &element);
        match result.iter_mut().find(|(name, _)| *name == element) {
            Some((_, there)) => *there = merge(&next, there, &value),
            None => result.push((element, value)),
        }
    }
    join(config, result)
}

/// The parts together again, in the form of `like`.
pub(super) fn join(like: &Value, parts: Vec<(String, Value)>) -> Value {
    if like.is_array() {
        return Value::Array(parts.into_iter().map(|(_, value)| value).collect());
    }
    let field = |(name, value): (String, Value)| (name[2..].to_owned(), value);
    Value::Object(parts.into_iter().map(field).collect())
}

/// `value` without what is in `gone`. What has lost all its fields is null: it still counts as named.
pub(super) fn without(path: &[String], value: &Value, gone: &Set) -> Option<Value> {
    if gone.contains(path) {
        return None;
    }
    let below = |path: &[String]| {
        // What begins with a path comes right after it.
        let mut after = gone.range(path.to_vec()..);
        after.next().is_some_and(|other| other.starts_with(path))
    };
    let Some(parts) = parts(path, value).filter(|parts| !parts.is_empty() && below(path)) else {
        return Some(value.clone());
    };
    let kept: Vec<_> = parts
        .into_iter()
        .filter_map(|(element, part)| {
            let left = without(&step(path, &element), &part, gone)?;
            Some((element, left))
        })
        .collect();
    Some(if kept.is_empty() {
        Value::Null
    } else {
        join(value, kept)
    })
}

/// Fields that are null are not there.
pub(super) fn drop_nulls(value: &mut Value) {
    if let Some(object) = value.as_object_mut() {
        object.retain(|_, field| !field.is_null());
        object.values_mut().for_each(drop_nulls);
    }
}

/// With every field that lies on the way to a member: a struct goes and stays with its fields.
pub(super) fn with_parents(set: &Set) -> Set {
    let mut all = set.clone();
    for path in set {
        for end in 1..path.len() {
            if path[end - 1].starts_with("f:") {
                all.insert(path[..end].to_vec());
            }
        }
    }
    all
}

pub(super) fn all_named(value: &Value) -> Set {
    let mut set = Set::new();
    name(&[], value, &mut set);
    with_parents(&set)
}
