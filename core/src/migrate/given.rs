//! Which flags a DaemonSet gives kured, and how: by arguments as pflag reads them, and by its environment, which counts before them
//! (`LoadFromEnv` in kured's main.go, since 1.16.2).

use std::collections::BTreeMap;
use std::time::Duration;

use super::flags::{FLAGS, Flag, Kind};
use super::go;
use super::manifest::{DaemonSet, program};
use crate::text::{WORDS, clean};

/// Where a value stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum From {
    Arguments,
    Environment,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Given {
    /// An error says where it comes from: it cannot be read here.
    value: Result<String, String>,
    from: From,
}

/// All that is given.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Values {
    flags: BTreeMap<&'static str, Vec<Given>>,
    /// What could not be understood, each in a sentence.
    pub(super) odd: Vec<String>,
}

impl Values {
    pub(super) fn of(set: &DaemonSet) -> Self {
        let mut values = Self::default();
        values.arguments(set);
        values.environment(set);
        values
    }

    fn arguments(&mut self, set: &DaemonSet) {
        // Without a command the image's own is kured.
        // A shell's words are not read.
        let kured = |word: &String| program(word) == "kured" && !word.contains(char::is_whitespace);
        let words = match set.command.iter().position(kured) {
            Some(at) => &set.command[at + 1..],
            None if set.command.is_empty() => &[],
            None => {
                let program = clean(&set.command[0], WORDS);
                self.odd.push(format!(
                    "the container runs {program} and not kured itself, so its flags cannot be read; write a manifest with the command /usr/bin/kured and \
                     its flags, each an argument"
                ));
                return;
            }
        };
        let mut words = words.iter().chain(&set.args);
        while let Some(word) = words.next() {
            // kured takes no other arguments, and pays no heed to them.
            let Some(text) = word.strip_prefix("--").filter(|text| !text.is_empty()) else {
                if word == "--" {
                    break;
                }
                if word.starts_with('-') && word.len() > 1 {
                    self.unknown(word);
                }
                continue;
            };
            let (name, value) = match text.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (text, None),
            };
            let Some(flag) = Flag::of(name) else {
                self.unknown(&format!("--{name}"));
                continue;
            };
            let value = match value {
                None if flag.kind == Kind::Switch => Some("true"),
                None => words.next().map(String::as_str),
                value => value,
            };
            let Some(value) = value else {
                self.odd.push(format!(
                    "--{name} needs a value and has none: kured does not start with that"
                ));
                break;
            };
            self.take(flag, expanded(set, value), From::Arguments);
        }
    }

    fn environment(&mut self, set: &DaemonSet) {
        for flag in &FLAGS {
            let Some(value) = set.variable(&flag.variable()) else {
                continue;
            };
            let value = match value {
                Ok(value) => expanded(set, value),
                Err(from) => Err(from.clone()),
            };
            match (flag.name, flag.kind) {
                // It is what names the node.
                ("node-id", _) if value.is_err() => {}
                (_, Kind::Each) => self.odd.push(format!(
                    "{} has no effect, as kured reads --{} from its arguments alone; write it there, or remove the variable",
                    flag.variable(), flag.name
                )),
                _ => self.take(flag, value, From::Environment),
            }
        }
        for one in set.env.iter().filter(|one| one.name.starts_with("KURED_")) {
            if !FLAGS.iter().any(|flag| flag.variable() == one.name) {
                self.unknown(&one.name);
            }
        }
        if set.env_from {
            self.odd.push(
                "the container has variables from a whole ConfigMap or Secret (envFrom), which cannot be read here; write those that begin with KURED_ into \
                 the manifest, under env"
                    .to_owned(),
            );
        }
    }

    fn unknown(&mut self, what: &str) {
        self.odd.push(format!(
            "{} is no flag of kured {}; look up what it does, and whether a key of kube-rebootd.toml(5) does the same",
            clean(what, WORDS),
            super::flags::VERSION
        ));
    }

    fn take(&mut self, flag: &'static Flag, value: Result<String, String>, from: From) {
        let name = match from {
            From::Arguments => format!("--{}", flag.name),
            From::Environment => flag.variable(),
        };
        match &value {
            Ok(text) => {
                if let Some(wanted) = wrong(flag.kind, text) {
                    let said = if flag.secret {
                        String::new()
                    } else {
                        format!(" is {:?}, which", clean(text, WORDS))
                    };
                    self.odd.push(format!("{name}{said} is no {wanted}: kured does not start with that; mend it and run this again"));
                    return;
                }
            }
            // What a secret is, is written into a file by hand in any case.
            Err(_) if flag.secret && flag.name != "prometheus-url" => {}
            Err(from) => {
                self.odd.push(format!(
                    "{name} comes from {from}, which cannot be read here; write its value into the manifest, and run this again with --manifest"
                ));
                return;
            }
        }
        self.flags
            .entry(flag.name)
            .or_default()
            .push(Given { value, from });
    }

    /// Somebody gave it, be it the default.
    pub(super) fn given(&self, name: &str) -> bool {
        self.flags.contains_key(name)
    }

    /// Somebody gave it another value than kured's default.
    pub(super) fn set(&self, name: &str) -> bool {
        let default = Flag::of(name).map_or("", |flag| flag.default);
        match Flag::of(name).map(|flag| flag.kind) {
            Some(Kind::Span) => self.span(name) != go::span(default).unwrap_or_default(),
            Some(Kind::Switch) => self.switch(name),
            Some(Kind::List | Kind::Each) => self.given(name),
            Some(Kind::Text | Kind::Number) | None => {
                self.text(name) != default || self.unread(name)
            }
        }
    }

    /// What counts: the last value, else kured's default. One that cannot be read here is empty.
    pub(super) fn text(&self, name: &str) -> &str {
        let default = Flag::of(name).map_or("", |flag| flag.default);
        let last = self.flags.get(name).and_then(|all| all.last());
        last.map_or(default, |one| one.value.as_deref().unwrap_or_default())
    }

    /// It is given, and its value cannot be read here.
    pub(super) fn unread(&self, name: &str) -> bool {
        let last = self.flags.get(name).and_then(|all| all.last());
        last.is_some_and(|one| one.value.is_err())
    }

    pub(super) fn switch(&self, name: &str) -> bool {
        go::switch(self.text(name)).unwrap_or_default()
    }

    pub(super) fn span(&self, name: &str) -> Duration {
        go::span(self.text(name)).unwrap_or_default()
    }

    /// Every item of every value, else of kured's default.
    pub(super) fn items(&self, name: &str) -> Vec<&str> {
        let Some(all) = self.flags.get(name) else {
            return self
                .text(name)
                .split(',')
                .filter(|item| !item.is_empty())
                .collect();
        };
        let parted = Flag::of(name).is_some_and(|flag| flag.kind == Kind::List);
        let texts = all.iter().filter_map(|one| one.value.as_deref().ok());
        if !parted {
            return texts.collect();
        }
        let items = texts.flat_map(|text| text.split(','));
        items
            .map(|item| item.trim_matches('"'))
            .filter(|item| !item.is_empty())
            .collect()
    }

    /// As it is given, for a comment; without the value of a secret.
    pub(super) fn said(&self, name: &str) -> String {
        let (Some(flag), Some(all)) = (Flag::of(name), self.flags.get(name)) else {
            let default = Flag::of(name).map_or("", |flag| flag.default);
            return format!("--{name}={default} (kured's default)");
        };
        let one = |given: &Given| {
            let name = match given.from {
                From::Arguments => format!("--{name}"),
                From::Environment => flag.variable(),
            };
            match &given.value {
                _ if flag.secret => format!("{name} (its value is not repeated here)"),
                Ok(value) => format!("{name}={}", clean(value, WORDS)),
                Err(from) => format!("{name} from {from}"),
            }
        };
        if matches!(flag.kind, Kind::List | Kind::Each) {
            let all: Vec<String> = all.iter().map(one).collect();
            return all.join(" ");
        }
        let Some((last, before)) = all.split_last() else {
            return String::new();
        };
        match before.last() {
            Some(other) if other.from != last.from && other.value != last.value => {
                format!(
                    "{}, which counts before {} since kured 1.16.2",
                    one(last),
                    one(other)
                )
            }
            _ => one(last),
        }
    }
}

/// What it should have been.
fn wrong(kind: Kind, text: &str) -> Option<&'static str> {
    match kind {
        Kind::Switch => go::switch(text).is_none().then_some("truth value"),
        Kind::Number => text.parse::<i64>().is_err().then_some("integer"),
        Kind::Span => go::span(text)
            .is_none()
            .then_some("duration with a unit, like 30s or 1h30m"),
        Kind::Text | Kind::List | Kind::Each => None,
    }
}

/// With the variables of the container in the place of `$(NAME)`, as the kubelet does it; an error says where one comes from.
fn expanded(set: &DaemonSet, text: &str) -> Result<String, String> {
    let (mut out, mut rest) = (String::new(), text);
    while let Some(at) = rest.find('$') {
        let (before, tail) = rest.split_at(at);
        out.push_str(before);
        let end = tail.find(')').filter(|_| tail.starts_with("$("));
        rest = match end.and_then(|end| Some((tail.get(2..end)?, &tail[end + 1..]))) {
            _ if tail.starts_with("$$") => {
                out.push('$');
                &tail[2..]
            }
            Some((name, after)) => {
                match set.variable(name) {
                    Some(Ok(value)) => out.push_str(value),
                    Some(Err(from)) => return Err(from.clone()),
                    // The kubelet leaves what it does not know.
                    None => out.push_str(&tail[..tail.len() - after.len()]),
                }
                after
            }
            None => {
                out.push('$');
                &tail[1..]
            }
        };
    }
    out.push_str(rest);
    Ok(out)
}

#[cfg(test)]
mod tests;
