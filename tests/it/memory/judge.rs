//! The invariants, looked at with every write that the server sees and every reboot that begins.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use kube_rebootd_core::names;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::request::Verb;
use super::rules::{SLOTS, User};
use super::store::Event;
use super::{Answer, Request, State};

/// What is older when a host goes down was no answer of a slow server: those of the tests take 12 s at most, and a
/// reboot rests on three that come one after another.
const SLOW: SignedDuration = SignedDuration::from_secs(60);

/// The cordon is (also) the daemon's.
pub(crate) fn cordoned(node: &Value) -> bool {
    let entries = node["metadata"]["managedFields"].as_array();
    let ours = |entry: &Value| {
        entry["manager"] == names::NODE_MANAGER
            && entry["operation"] == "Apply"
            && entry["fieldsV1"]["f:spec"].get("f:unschedulable").is_some()
    };
    node["spec"]["unschedulable"] == true && entries.is_some_and(|entries| entries.iter().any(ours))
}

pub(crate) fn label<'a>(node: &'a Value, key: &str) -> Option<&'a str> {
    node["metadata"]["labels"].get(key)?.as_str()
}

pub(crate) fn annotation<'a>(node: &'a Value, key: &str) -> Option<&'a str> {
    node["metadata"]["annotations"].get(key)?.as_str()
}

/// The Node's condition of this type.
pub(crate) fn condition<'a>(node: &'a Value, kind: &str) -> Option<&'a Value> {
    let conditions = node["status"]["conditions"].as_array()?;
    conditions.iter().find(|one| one["type"] == kind)
}

/// A cordon that a person's pause made theirs.
fn kept(node: &Value) -> bool {
    annotation(node, names::STATE).is_some_and(|state| state.contains("\"kept\""))
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

pub(crate) fn holder(lease: &Value) -> Option<&str> {
    lease["spec"]["holderIdentity"]
        .as_str()
        .filter(|holder| !holder.is_empty())
}

impl State {
    fn breaks(&mut self, what: String) {
        let at = self.trace.last().cloned().unwrap_or_default();
        self.broken.push(format!("{what}\n    after {at}"));
    }

    /// A request of a daemon and its answer; what it wrote comes after `version`.
    pub(super) fn judge(
        &mut self,
        from: &str,
        user: &User,
        request: &Request,
        answer: &Answer,
        version: u64,
    ) {
        if *user == User::Admin {
            return;
        }
        if answer.code == 403 && !self.refusals_wanted {
            self.breaks(format!(
                "I11: {from} was refused: {} ({})",
                request.line(),
                answer.body["message"]
            ));
        }
        if request.resource == "pods/eviction" {
            self.judge_eviction(from, request);
        }
        if (request.resource.as_str(), request.verb) == ("pods", Verb::Delete) {
            self.judge_deletion(from, request);
        }
        let events = &self.store.events;
        let new = events.partition_point(|event| event.version <= version);
        let events: Vec<Event> = events[new..].to_vec();
        for event in &events {
            match event.key.0.as_str() {
                "nodes" => self.judge_node(event),
                "leases" if event.key.1 == SLOTS => self.judge_lease(from, event),
                _ => {}
            }
        }
    }

    fn judge_eviction(&mut self, from: &str, request: &Request) {
        if request.body["deleteOptions"]["preconditions"]["uid"]
            .as_str()
            .is_none()
        {
            self.breaks(format!(
                "I9: {from} evicts {} without its uid",
                request.name
            ));
        }
        // What is only tried says so twice, and moves nobody.
        let dry = request.body["deleteOptions"]["dryRun"] == json!(["All"]);
        if dry != request.tries() {
            self.breaks(format!(
                "I9: {from} tries the eviction of {} by half",
                request.name
            ));
        }
        if dry {
            return;
        }
        let node = self.object(("nodes", "", from));
        if node.is_none_or(|node| node["spec"]["unschedulable"] != true) {
            self.breaks(format!(
                "I1: {from} evicts {} without a cordon",
                request.name
            ));
        }
    }

    /// No budget keeps a pod from it: only where a test has configured it, and exactly this pod.
    fn judge_deletion(&mut self, from: &str, request: &Request) {
        let body = &request.body;
        let exact = body["preconditions"]["uid"].is_string() && body["gracePeriodSeconds"] != 0;
        if !self.pods_deleted || !exact {
            self.breaks(format!("I9: {from} deletes {}", request.name));
        }
        let node = self.object(("nodes", "", from));
        if node.is_none_or(|node| node["spec"]["unschedulable"] != true) {
            self.breaks(format!(
                "I1: {from} deletes {} without a cordon",
                request.name
            ));
        }
    }

    fn judge_node(&mut self, event: &Event) {
        let Some(node) = &event.after else { return };
        if !cordoned(node) {
            return;
        }
        let me = name(node).to_owned();
        let slot = label(node, names::SLOT).map(str::to_owned);
        let Some(slot) = slot else {
            let was = event.before.as_ref().is_some_and(|before| cordoned(before));
            // What was unlocked keeps the cordon of a node that is not healthy, and claims nothing.
            let holds = self.objects("leases").into_iter().any(|lease| {
                lease["metadata"]["namespace"] == SLOTS && holder(&lease) == Some(me.as_str())
            });
            if !was || (!kept(node) && holds) {
                self.breaks(format!("I1: {me} is cordoned without a slot"));
            }
            return;
        };
        if event.before.as_ref().is_none_or(|before| !cordoned(before)) {
            let lease = self.object(("leases", SLOTS, &slot));
            let has = lease.as_ref().and_then(|lease| holder(lease));
            if has != Some(&me) {
                self.breaks(format!("I2: {me} cordons for {slot}, which {has:?} holds"));
            }
        }
        let down: Vec<Arc<Value>> = self
            .objects("nodes")
            .into_iter()
            .filter(|node| cordoned(node))
            .collect();
        let same = down
            .iter()
            .filter(|node| label(node, names::SLOT) == Some(&slot));
        if same.count() > 1 {
            self.breaks(format!("I1: two nodes are cordoned for {slot}"));
        }
        let quorum = |node: &&Arc<Value>| {
            names::QUORUM_ROLES
                .iter()
                .any(|role| label(node, role).is_some())
        };
        if down.iter().filter(quorum).count() > 1 {
            self.breaks("I13: two control-plane nodes are cordoned".to_owned());
        }
    }

    fn judge_lease(&mut self, from: &str, event: &Event) {
        let held = |lease: &Option<Arc<Value>>| {
            lease
                .as_ref()
                .and_then(|lease| holder(lease).map(str::to_owned))
        };
        let (before, after) = (held(&event.before), held(&event.after));
        if event
            .after
            .as_ref()
            .is_some_and(|lease| annotation(lease, names::GOING_DOWN).is_some())
        {
            self.fences.insert(from.to_owned(), Instant::now());
            self.judge_others(from);
        }
        if let Some(after) = &after
            && before.as_ref() != Some(after)
            && from != after
        {
            self.breaks(format!("I11: {from} gives {} to {after}", event.key.2));
        }
        if let Some(after) = &after {
            let held = self.objects("leases").into_iter().filter(|lease| {
                lease["metadata"]["namespace"] == SLOTS && holder(lease) == Some(after)
            });
            if held.count() > 1 {
                self.breaks(format!("I1: {after} holds two slots"));
            }
        }
        let Some(before) = before.filter(|_| after.is_none()) else {
            return;
        };
        if from != before {
            self.breaks(format!(
                "I11: {from} frees {}, which {before} holds",
                event.key.2
            ));
        }
        let Some(node) = self.object(("nodes", "", &before)) else {
            return;
        };
        if label(&node, names::SLOT).is_some() {
            self.breaks(format!(
                "I4: {before} gives {} up with its label on",
                event.key.2
            ));
        }
        if cordoned(&node) && !kept(&node) {
            self.breaks(format!(
                "I4: {before} gives {} up while cordoned",
                event.key.2
            ));
        }
    }

    /// `host` says that it goes down now: no other node of a quorum has long been silent (I13).
    fn judge_others(&mut self, host: &str) {
        let quorum = |node: &Arc<Value>| {
            let roles = &names::QUORUM_ROLES;
            roles.iter().any(|role| label(node, role).is_some())
        };
        let own = self.object(("nodes", "", host));
        if !own.as_ref().is_some_and(quorum) {
            return;
        }
        let now = self.store.now;
        let silent = |node: &Arc<Value>| {
            let Some(ready) = condition(node, "Ready") else {
                return false;
            };
            let since = ready["lastTransitionTime"]
                .as_str()
                .and_then(|time| time.parse().ok());
            let since = since.map(|since: Timestamp| now.duration_since(since));
            ready["status"] != "True" && since.is_some_and(|since| since > SLOW)
        };
        let down = self
            .objects("nodes")
            .into_iter()
            .find(|node| name(node) != host && quorum(node) && silent(node));
        if let Some(down) = down {
            self.breaks(format!(
                "I13: {host} goes down while {} is not Ready",
                name(&down)
            ));
        }
    }

    /// logind of `host`, which looked at its inhibitors `listed`, has said yes (I2).
    pub(crate) fn judge_reboot(&mut self, host: &str, listed: Option<Instant>) {
        let Some(node) = self.object(("nodes", "", host)) else {
            return self.breaks(format!("I2: {host} reboots without a Node"));
        };
        let slot = label(&node, names::SLOT).map(str::to_owned);
        let lease = slot
            .as_deref()
            .and_then(|slot| self.object(("leases", SLOTS, slot)));
        let has = lease
            .as_ref()
            .and_then(|lease| holder(lease).map(str::to_owned));
        if has.as_deref() != Some(host) {
            self.breaks(format!("I2: {host} reboots while {has:?} holds {slot:?}"));
        }
        if node["spec"]["unschedulable"] != true {
            self.breaks(format!("I2: {host} reboots without a cordon"));
        }
        let lease = lease.unwrap_or_default();
        if annotation(&lease, names::GOING_DOWN).is_none() {
            self.breaks(format!("I2: {host} reboots and nobody was told"));
        }
        self.judge_fence(host);
        if listed < self.fences.get(host).copied() {
            self.breaks(format!(
                "I2: {host} reboots, and looked at its gates before the fence"
            ));
        }
        // One that has finished is there until the kubelet has unmounted its volumes and deletes the object; when
        // only a finalizer is left, the kubelet has deleted it with a grace of 0.
        let stays = |pod: &Arc<Value>| {
            let (owner, metadata) = (&pod["metadata"]["ownerReferences"][0], &pod["metadata"]);
            let phase = pod["status"]["phase"].as_str();
            let ended = matches!(phase, Some("Succeeded" | "Failed"))
                && metadata.get("deletionTimestamp").is_none();
            let cleaned = metadata["deletionGracePeriodSeconds"] == 0;
            pod["spec"]["nodeName"] == host && owner["kind"] == "ReplicaSet" && !ended && !cleaned
        };
        let left: Vec<String> = self
            .objects("pods")
            .iter()
            .filter(|pod| stays(pod))
            .map(|pod| name(pod).to_owned())
            .collect();
        if !left.is_empty() && !self.pods_may_stay {
            self.breaks(format!("I2: {host} reboots with {left:?}"));
        }
    }

    /// Of all that `host` wrote the fence came last, and right before it all was read that the reboot rests on.
    fn judge_fence(&mut self, host: &str) {
        let own = |line: &&String| {
            let from = line.split_whitespace().nth(1);
            let own = from.is_some_and(|from| from.trim_end_matches(':') == host);
            // Events are written beside the loop, and nothing rests on them.
            own && line.ends_with("-> 200") && !line.contains(" events default/")
        };
        let wrote = |line: &str| line.contains(": patch ") || line.contains(": create ");
        let mut lines = self.trace.iter().rev().filter(own);
        let fence = lines.by_ref().find(|line| wrote(line));
        let fence = fence.cloned().unwrap_or_default();
        let read: Vec<String> = lines.take_while(|line| !wrote(line)).cloned().collect();
        if !fence.contains(&format!("patch leases {SLOTS}/")) {
            self.breaks(format!("I2: {host} reboots, and wrote last: {fence}"));
        }
        let rests_on = [
            format!("get leases {SLOTS}/"),
            format!("get nodes /{host} "),
            "list pods /".to_owned(),
        ];
        let time = |line: &str| line.split_whitespace().next()?.parse::<f64>().ok();
        let fenced = time(&fence).unwrap_or_default();
        for what in rests_on {
            let last = read.iter().find(|line| line.contains(&what));
            let Some(age) = last.and_then(|line| time(line)).map(|read| fenced - read) else {
                self.breaks(format!(
                    "I2: {host} reboots without a {what} before the fence"
                ));
                continue;
            };
            if age > SLOW.as_secs_f64() {
                self.breaks(format!("I2: {host} reboots, and its {what} is {age} s old"));
            }
        }
    }
}
