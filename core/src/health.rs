//! Whether the host and its pods are healthy after the boot (docs/design.md 9).
//!
//! Keeps I4 (a slot is given up only when healthy) and I8 (what is not known is not healthy). A Ready
//! from before the boot is no evidence (`real::silent`): values are compared, never clocks (I5).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::before::{Before, failed_anew, users_alone};
use crate::boot::Boot;
use crate::config::is_subdomain;
use crate::node::Seen;
use crate::pod::{Container, Pod};
use crate::scatter::scatter;

#[cfg(test)]
mod tests;

/// Containers on record at most: the record is a Node annotation too (256 KiB for all of them).
const CONTAINERS_MAX: usize = 512;
/// Where the pods are that the cluster itself rests on.
const SYSTEM: &str = "kube-system";
/// Hexadecimal digits of one container's hash there.
const HASH: usize = 16;
/// Bytes of the names of mirror pods and DaemonSets there.
const NAMES_MAX: usize = 12 * 1024;
/// Of a container ID this many characters at its end are kept: enough to tell any two apart.
const ID_KEPT: usize = 16;

/// `[health]` of the configuration, as far as it is judged here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// systemd's `SystemState` `degraded` counts as up, where no unit failed that had not failed before.
    pub allow_degraded: bool,
    /// boot-complete.target must be active.
    pub boot_complete: bool,
    /// How long Ready must have lasted without a break, as observed by this process since it heard the kubelet.
    pub ready_for: Duration,
}

/// A DaemonSet whose pod here was ready before the drain; on record as `UID namespace/name`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub struct DaemonSet {
    pub uid: String,
    /// Empty, as is the name, when it cannot be asked for: it is of another API group than `apps`, or the record is
    /// one of a release that kept the UID alone.
    pub namespace: String,
    pub name: String,
}

impl DaemonSet {
    fn of(pod: &Pod) -> Option<Self> {
        let owner = pod.daemon_set()?;
        // A name that no DaemonSet can have would be another path, and its answer would be about something else (I14).
        let known = owner.api.starts_with("apps/") && is_subdomain(&owner.name);
        let text = |text: &String| if known { text.clone() } else { String::new() };
        Some(Self {
            uid: owner.uid.clone(),
            namespace: text(&pod.namespace),
            name: text(&owner.name),
        })
    }

    /// It is a pod of this one. A pod of another namespace, or of an owner of another name or API group, may have copied
    /// the UID (I14).
    fn has(&self, pod: &Pod) -> bool {
        let same = |of: Self| {
            if self.name.is_empty() {
                of.uid == self.uid
            } else {
                of == *self
            }
        };
        !pod.mirror && Self::of(pod).is_some_and(same)
    }

    /// Its pods here. One that is on its way out, or has ended, is none: whoever made it may keep it so, with a finalizer or
    /// by an owner that no garbage collector knows (I14).
    fn here<'a>(&'a self, pods: &'a [Pod]) -> impl Iterator<Item = &'a Pod> {
        (pods.iter()).filter(|pod| self.has(pod) && !pod.terminating && !pod.finished())
    }

    /// `namespace/name`, or its UID.
    pub fn path(&self) -> String {
        if self.name.is_empty() {
            return format!("with UID {}", self.uid);
        }
        format!("{}/{}", self.namespace, self.name)
    }
}

impl From<String> for DaemonSet {
    fn from(text: String) -> Self {
        let (uid, path) = text.split_once(' ').unwrap_or((&text, ""));
        let (namespace, name) = path.split_once('/').unwrap_or_default();
        Self {
            uid: uid.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }
    }
}

impl From<DaemonSet> for String {
    fn from(set: DaemonSet) -> Self {
        if set.name.is_empty() {
            return set.uid;
        }
        format!("{} {}/{}", set.uid, set.namespace, set.name)
    }
}

/// What the API server says about a DaemonSet that has no pod here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// It does not exist any more, or is being deleted.
    Gone,
    /// Its controller is to make a pod here.
    Wanted,
    /// It exists, but does not select this node; why, in words.
    Unwanted(String),
    /// It may not be read, and why.
    Unreadable(String),
}

/// What ran here before the reboot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct Marks {
    /// DaemonSets whose pod here was ready.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub daemon_sets: Vec<DaemonSet>,
    /// `namespace/name` of mirror pods that were ready.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mirrors: Vec<String>,
    /// Containers of those kinds of pods, ready or not, by pod UID; IDs are shortened.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub containers: BTreeMap<String, Vec<Container>>,
    /// The same containers as hashes of pod UID and the three values, 16 hexadecimal digits each: they are only
    /// compared, and the Node's annotation has no room for more.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub hashes: String,
}

/// Each once, in this order: where the Node's annotation has no room for all, what comes first has it.
fn once<T: Ord + Clone>(list: &mut Vec<T>) {
    let mut seen = BTreeSet::new();
    list.retain(|one| seen.insert(one.clone()));
}

impl Marks {
    /// Marks what is here now. What is over the bound is not marked, and so not waited for.
    pub(crate) fn take(pods: &[Pod]) -> Self {
        let mut kept: Vec<_> = (pods.iter())
            .filter(|pod| pod.mirror || pod.daemon_set().is_some())
            .collect();
        // There is a bound, and whoever may make pods could use it up. So what the cluster itself rests on comes first; the
        // other namespaces share what is left, those of their pods with few containers first.
        let first = |pod: &Pod| (!pod.ready, !pod.mirror, pod.namespace != SYSTEM);
        kept.sort_by_key(|pod| (first(pod), pod.containers.len(), pod.path()));
        let mut taken = BTreeMap::new();
        let mut order = Vec::new();
        for pod in kept {
            let share = taken.entry(&pod.namespace).or_insert(0);
            *share += pod.containers.len();
            order.push((first(pod), *share, pod));
        }
        order.sort_by_key(|(first, share, _)| (*first, *share));
        let mut marks = Self::default();
        let mut room = CONTAINERS_MAX;
        for (_, _, pod) in order {
            let Some(left) = room.checked_sub(pod.containers.len()) else {
                continue;
            };
            room = left;
            let containers = pod.containers.iter().map(short).collect();
            marks.containers.insert(pod.uid.clone(), containers);
            if !pod.ready {
                continue;
            }
            if pod.mirror {
                marks.mirrors.push(pod.path());
            } else {
                marks.daemon_sets.extend(DaemonSet::of(pod));
            }
        }
        once(&mut marks.mirrors);
        once(&mut marks.daemon_sets);
        marks
    }

    /// The same in few bytes, for the Node's annotation. What is over the bound is not waited for.
    pub(crate) fn shorten(&mut self) {
        let mut room = NAMES_MAX;
        let mut fits = |bytes: usize| {
            let left = room.checked_sub(bytes + 3);
            room = left.unwrap_or(room);
            left.is_some()
        };
        self.mirrors.retain(|name| fits(name.len()));
        // As on record: the UID, a space, and `namespace/name`.
        (self.daemon_sets).retain(|set| fits(set.uid.len() + 1 + set.path().len()));
        for (pod, containers) in std::mem::take(&mut self.containers) {
            for container in &containers {
                self.hashes.push_str(&hash(&pod, container));
            }
        }
        self.hashes.truncate(CONTAINERS_MAX * HASH);
    }

    /// Nothing has to have started anew: the host was not rebooted.
    pub(crate) fn not_anew(&mut self) {
        self.containers.clear();
        self.hashes.clear();
    }

    /// The container of this pod is as it was marked.
    fn marked(&self, pod: &Pod, now: &Container) -> bool {
        let now = short(now);
        let before = self.containers.get(&pod.uid);
        let hash = hash(&pod.uid, &now);
        before.is_some_and(|before| before.contains(&now))
            || (self.hashes.as_bytes().chunks(HASH)).any(|known| known == hash.as_bytes())
    }

    /// What was ready stays as it was before the cordon; the containers are those of the later list,
    /// as a container may have restarted while the node was drained.
    #[must_use]
    pub(crate) fn with_containers_of(mut self, later: &Self) -> Self {
        self.containers.extend(later.containers.clone());
        self
    }

    /// Every one of these pods is ready by evidence of this boot.
    #[cfg(test)]
    pub(crate) fn all_back(&self, pods: &[Pod]) -> bool {
        pods.iter().all(|pod| self.back(pod))
    }

    /// Ready by evidence of this boot: every container runs, and each has started anew since the mark.
    fn back(&self, pod: &Pod) -> bool {
        let anew = |now: &Container| now.started.is_some() && !self.marked(pod, now);
        let running = !pod.containers.is_empty() && pod.containers.iter().all(anew);
        pod.ready && !pod.terminating && running
    }
}

/// A container that was marked, in [`HASH`] hexadecimal digits.
fn hash(pod: &str, container: &Container) -> String {
    let started = container.started.map(|at| at.to_string());
    let words = [
        pod,
        &container.name,
        &container.id,
        started.as_deref().unwrap_or_default(),
        &container.restarts.to_string(),
    ];
    format!("{:016x}", scatter(&words))
}

/// With the end of the ID only.
fn short(container: &Container) -> Container {
    let from = container.id.char_indices().rev().nth(ID_KEPT - 1);
    let id = from.map_or(container.id.as_str(), |(at, _)| &container.id[at..]);
    Container {
        id: id.to_owned(),
        ..container.clone()
    }
}

/// The kubelet's signs of life, collected by this process in this boot.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Pulse {
    renewed: Option<Timestamp>,
    heartbeat: Option<Timestamp>,
    /// One of the two changed between two reads.
    beat: bool,
    /// `renewed` did, which only the node's own credential may write: whoever may patch the status of Nodes writes the other.
    lease_beat: bool,
    /// nodeInfo.bootID of the last Node seen.
    boot_id: String,
    /// Since when Ready is seen to be True without a break, and the value of its last change.
    ready: Option<(Duration, Option<Timestamp>)>,
    /// Since when the kubelet is known to be alive.
    alive: Option<Duration>,
}

impl Pulse {
    /// A read of renewTime of the own kube-node-lease Lease.
    pub(crate) fn renewed(&mut self, renewed: Option<Timestamp>) {
        self.lease_beat |= changed(&mut self.renewed, renewed);
        self.beat |= self.lease_beat;
    }

    /// A view of the own Node at boot time `now`. Only consistent reads count for the heartbeat: a
    /// lagging watch may deliver two old ones.
    pub(crate) fn node(&mut self, node: &Seen, now: Duration) {
        let node = match node {
            // Whether Ready broke meanwhile is told by its last change, once it is read again.
            Seen::Unknown => return,
            Seen::Absent => {
                self.ready = None;
                return;
            }
            Seen::Present(node) => node,
        };
        if node.read.is_some() {
            self.beat |= changed(&mut self.heartbeat, node.heartbeat);
        }
        self.boot_id.clone_from(&node.boot_id);
        // Between two looks it may have been False and True again, which its last change tells.
        let known = self.ready.filter(|(_, turned)| *turned == node.turned);
        self.ready = node.ready.then(|| known.unwrap_or((now, node.turned)));
    }

    /// Follows whether the kubelet is alive in this boot: a Ready from before it was heard is one of the last boot, and
    /// does not count for `health.ready_for`.
    pub(crate) fn hears(&mut self, boot: &Boot, before: Option<&Boot>, now: Duration) {
        let alive = kubelet_alive(self, boot, before).is_ok();
        self.alive = self.alive.or(Some(now)).filter(|_| alive);
    }

    /// Since when the Node is Ready by the word of a kubelet of this boot.
    fn ready_since(&self) -> Option<Duration> {
        let (ready, _) = self.ready?;
        Some(ready.max(self.alive?))
    }
}

fn changed(known: &mut Option<Timestamp>, read: Option<Timestamp>) -> bool {
    let Some(read) = read else { return false };
    known.replace(read).is_some_and(|known| known != read)
}

/// The kubelet is alive in this boot; `before` is the boot of the hold. Or what is missing, in words.
///
/// A kubelet that names its boot must name this one: its heartbeat Lease may be renewed before it has looked at a
/// single pod, while the Node still says Ready from before. One that names none (kubemark) is told by a change alone
/// (`e2e::one_host`); and by one of the Lease a boot that kept its ID (a soft-reboot), which everybody knows (I14).
fn kubelet_alive(pulse: &Pulse, boot: &Boot, before: Option<&Boot>) -> Result<(), String> {
    if !pulse.boot_id.is_empty() && pulse.boot_id != boot.id {
        return Err(format!(
            "the Node still reports boot {}, this one is {}: the kubelet has not reported in this boot",
            pulse.boot_id, boot.id
        ));
    }
    let rebooted = before.is_some_and(|before| before.id != boot.id);
    let named = !pulse.boot_id.is_empty();
    let soft = before.is_some_and(|before| before.id == boot.id && before != boot);
    let alive = match (named, soft) {
        (true, true) => pulse.lease_beat,
        _ => named && rebooted || pulse.beat,
    };
    if alive {
        return Ok(());
    }
    Err(match before {
        Some(_) => "no sign of the kubelet in this boot".to_owned(),
        None => "no sign of the kubelet since".to_owned(),
    })
}

/// The host, as far as the first step of the proof looks at it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HostSeen {
    pub boot: Boot,
    /// The boot of the hold; none: the host was to be worked on and not rebooted.
    pub before: Option<Boot>,
    /// systemd's `SystemState`, when it answered.
    pub system_state: Option<String>,
    /// Units that have failed, when it answered.
    pub failed: Option<BTreeSet<String>>,
    /// As it was before the reboot, or before the host was worked on.
    pub was: Before,
    /// boot-complete.target is active, when systemd answered.
    pub boot_complete: Option<bool>,
}

/// The first step, before the uncordon; or what is missing, in words. `pods`: none before their first list.
/// `late`: `health.timeout` has passed.
#[allow(clippy::too_many_arguments)] // each is another fact
pub(crate) fn host_healthy(
    host: &HostSeen,
    pulse: &Pulse,
    node: &Seen,
    marks: &Marks,
    pods: Option<&[Pod]>,
    policy: &Policy,
    late: bool,
    now: Duration,
) -> Result<(), Vec<String>> {
    let mut missing = Vec::new();
    if host.before.as_ref() == Some(&host.boot) {
        missing.push("the host has not rebooted".to_owned());
    }
    match host.system_state.as_deref() {
        Some("running") => {}
        Some("degraded") if policy.allow_degraded => {
            missing.extend(failed_anew(host.failed.as_ref(), &host.was));
        }
        Some("degraded") if users_alone(host.failed.as_ref()) => {}
        Some(state) => missing.push(format!("systemd is {state}")),
        None => missing.push("systemd does not say its state".to_owned()),
    }
    if policy.boot_complete && host.boot_complete != Some(true) {
        missing.push("boot-complete.target is not active".to_owned());
    }
    missing.extend(kubelet_alive(pulse, &host.boot, host.before.as_ref()).err());
    missing.extend(not_ready(pulse, node, policy.ready_for, now));
    match pods {
        None => missing.push("the pods of this node are not listed yet".to_owned()),
        Some(pods) => {
            missing.extend(mirrors_not_ready(marks, pods));
            if !late {
                missing.extend(mirrors_absent(marks, pods));
            }
        }
    }
    if missing.is_empty() {
        Ok(())
    } else {
        Err(missing)
    }
}

fn not_ready(pulse: &Pulse, node: &Seen, ready_for: Duration, now: Duration) -> Option<String> {
    match node {
        Seen::Unknown => Some("the Node is not read yet".to_owned()),
        Seen::Absent => Some("the Node does not exist".to_owned()),
        Seen::Present(node) if !node.ready => Some("the Node is not Ready".to_owned()),
        Seen::Present(_) => {
            let lasted = |since| now.saturating_sub(since) >= ready_for;
            // Of one that is not heard that is said already.
            let short = pulse.alive.is_some() && !pulse.ready_since().is_some_and(lasted);
            short.then(|| {
                format!("the Node has been Ready for less than health.ready_for of {ready_for:?}")
            })
        }
    }
}

fn mirrors_not_ready(marks: &Marks, pods: &[Pod]) -> Vec<String> {
    (pods.iter())
        .filter(|pod| pod.mirror && marks.mirrors.contains(&pod.path()) && !marks.back(pod))
        .map(|pod| format!("static pod {} is not ready", pod.path()))
        .collect()
}

/// Only the kubelet knows whether it is to run a static pod: one that an update has taken away is waited for until
/// `health.timeout`.
fn mirrors_absent(marks: &Marks, pods: &[Pod]) -> Vec<String> {
    let here: BTreeSet<_> = (pods.iter().filter(|pod| pod.mirror))
        .map(Pod::path)
        .collect();
    (marks.mirrors.iter())
        .filter(|path| !here.contains(*path))
        .map(|path| format!("static pod {path} is not here"))
        .collect()
}

/// The marked DaemonSets that are to be looked at: those that have no pod here; and once `health.timeout` has passed (`late`), those
/// whose pod is here and not ready, as the owner that a pod names need not exist (I14). One without a name cannot be asked for.
pub(crate) fn looked_at<'a>(marks: &'a Marks, pods: &[Pod], late: bool) -> Vec<&'a DaemonSet> {
    let absent = |set: &DaemonSet| {
        let mut here = set.here(pods).peekable();
        here.peek().is_none() || late && !here.any(|pod| marks.back(pod))
    };
    let sets = marks.daemon_sets.iter();
    sets.filter(|set| !set.name.is_empty() && absent(set))
        .collect()
}

/// What has been missing until `health.timeout` and is not demanded after it, in words: nobody can say whether it is
/// to come at all.
pub(crate) fn waived(
    marks: &Marks,
    pods: &[Pod],
    found: &BTreeMap<DaemonSet, Found>,
) -> Vec<String> {
    let judged = |late: bool| {
        pods_healthy(marks, pods, found, late)
            .err()
            .unwrap_or_default()
    };
    let (before, after) = (judged(false), judged(true));
    let mut waived = mirrors_absent(marks, pods);
    waived.extend(before.into_iter().filter(|words| !after.contains(words)));
    waived
}

/// The second step, after the uncordon: each marked DaemonSet has a ready pod here as long as it exists. Under the
/// kubelet's graceful shutdown the pods of before are deleted, and the controller makes new ones only when the Node is
/// Ready (`real::graceful`). `found` is what the API server says about those without a pod; `late`: `health.timeout` has
/// passed.
pub(crate) fn pods_healthy(
    marks: &Marks,
    pods: &[Pod],
    found: &BTreeMap<DaemonSet, Found>,
    late: bool,
) -> Result<(), Vec<String>> {
    let missing = |set: &DaemonSet| {
        let mut here = set.here(pods).peekable();
        let Some(first) = here.peek().copied() else {
            return no_pod(set, found.get(set), late);
        };
        // Whoever may make pods may name any owner: one that does not exist keeps no slot for ever.
        let made_up = late && found.get(set) == Some(&Found::Gone);
        let ready = made_up || here.any(|pod| marks.back(pod));
        (!ready).then(|| format!("DaemonSet pod {} is not ready", first.path()))
    };
    let missing: Vec<_> = marks.daemon_sets.iter().filter_map(missing).collect();
    if missing.is_empty() {
        Ok(())
    } else {
        Err(missing)
    }
}

/// What is missing of a DaemonSet without a pod here. One that is not looked for yet is missing (I8).
fn no_pod(set: &DaemonSet, found: Option<&Found>, late: bool) -> Option<String> {
    let none = format!("DaemonSet {} has no pod here", set.path());
    match found {
        Some(Found::Gone) => None,
        Some(Found::Unwanted(why) | Found::Unreadable(why)) => {
            (!late).then(|| format!("{none} ({why})"))
        }
        None if set.name.is_empty() => (!late).then(|| format!("{none} (it cannot be asked for)")),
        Some(Found::Wanted) | None => Some(none),
    }
}
