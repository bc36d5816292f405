//! Alerts about a node that goes down on purpose: when Alertmanager is to be silent about it, and about which alerts (I7, I14).
//!
//! A silence is a lease: it ends by itself where nobody renews it. No decision rests on one. Which silences are our own is
//! read from Alertmanager each time, so that a restart finds them again.

use jiff::Timestamp;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use crate::config::Alertmanager;
use crate::decide::{Policy, Step};
use crate::matcher::Matcher;
use crate::node::Seen;
use crate::phase::Phase;
use crate::reason::Reason;

#[cfg(test)]
mod tests;

/// Characters of the id of a silence; Alertmanager's own are UUIDs.
const ID: usize = 64;
/// Silences of one list that are acted upon, each by a request. There is one, or two after an answer that was lost; more
/// end by themselves.
const OWN_MAX: usize = 16;

/// Alerts about this node are to be silenced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Silence {
    /// Whom to ask, about which alerts, and for how long.
    pub at: Alertmanager,
    /// Name of the Node.
    pub node: String,
    /// UID of the Node.
    pub uid: String,
    /// For whoever looks at Alertmanager; a new phase has another.
    pub comment: String,
}

impl Silence {
    /// None: what happens to the node now is to be heard of. So is a node that is not healthy although it had its time.
    pub fn wanted(
        step: &Step,
        policy: &Policy,
        node: &Seen,
        at: Option<&Alertmanager>,
    ) -> Option<Self> {
        let down = match step.phase {
            Phase::Draining | Phase::Drained | Phase::Rebooting | Phase::Verifying => true,
            Phase::Idle
            | Phase::Pending
            | Phase::Queued
            | Phase::Claiming
            | Phase::Releasing
            | Phase::Undoing => false,
        };
        if !down || step.reason == Reason::Unhealthy {
            return None;
        }
        let uid = match node {
            Seen::Present(node) => node.uid.clone(),
            // After a boot without the API server, the one that was drained.
            Seen::Unknown | Seen::Absent => step.record.hold.as_ref()?.node_uid.clone()?,
        };
        let node = policy.me.clone()?;
        let words = Reason::of(step.phase).words();
        Some(Self {
            at: at?.clone(),
            comment: format!("{node} (group {}): {words}", policy.group),
            node,
            uid,
        })
    }

    /// Who made it, as Alertmanager shows it. With the UID, as another cluster that uses the same Alertmanager may have a node of
    /// this name. It outlives a reboot; a Node that is registered anew has another one, and leaves its silence to end by itself.
    pub fn author(&self) -> String {
        format!("kube-rebootd on {} (Node {})", self.node, self.uid)
    }

    /// The same alerts, by the same Alertmanager.
    pub fn covers_what(&self, other: &Self) -> bool {
        (&self.at, &self.node, &self.uid) == (&other.at, &other.node, &other.uid)
    }

    /// What is sent, for a silence of these alerts from now on; `old`: the one that is renewed.
    pub fn body(&self, matchers: &[Matcher], old: Option<&Own>, wall: Timestamp) -> Value {
        // Alertmanager takes its own time for what began earlier: a clock that is ahead makes no silence of the future.
        let starts = wall.saturating_sub(self.at.length).unwrap_or(wall);
        let ends = wall.saturating_add(self.at.length).unwrap_or(wall);
        let starts = old.map_or_else(|| json!(starts), |old| json!(old.starts));
        let mut body = json!({
            "matchers": matchers,
            "startsAt": starts,
            "endsAt": ends,
            "createdBy": self.author(),
            "comment": self.comment,
        });
        if let Some(old) = old {
            body["id"] = json!(old.id);
        }
        body
    }
}

/// One of our own that Alertmanager has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Own {
    /// Fit for a path of a URL.
    pub id: String,
    /// As Alertmanager wrote it: a renewal has to say the same.
    starts: String,
}

/// As Alertmanager lists it.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Listed {
    id: String,
    created_by: String,
    starts_at: String,
    status: State,
    matchers: Vec<Matcher>,
}

#[derive(Debug, Deserialize)]
struct State {
    state: String,
}

/// What Alertmanager answers is not understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("its answer is none of Alertmanager's API v2")]
pub struct NotUnderstood;

/// Of a list of silences those that `author` made of exactly these matchers, and that have not ended: the first [`OWN_MAX`].
///
/// Each element is read by itself and what is not looked at is passed over: memory is that of the answer, whatever it holds.
pub fn own(answer: &[u8], author: &str, matchers: &[Matcher]) -> Result<Vec<Own>, NotUnderstood> {
    let mut found = Vec::new();
    let list = answer.trim_ascii_start();
    let mut rest = list.strip_prefix(b"[").ok_or(NotUnderstood)?;
    if rest.trim_ascii() == b"]" {
        return Ok(found);
    }
    loop {
        let (one, after) = first(rest)?;
        if found.len() < OWN_MAX {
            found.extend(ours(one, author, matchers));
        }
        rest = match after.split_first() {
            Some((b',', more)) => more,
            Some((b']', end)) if end.trim_ascii().is_empty() => return Ok(found),
            _ => return Err(NotUnderstood),
        };
    }
}

/// The JSON value that a text begins with, and what comes after it.
fn first(text: &[u8]) -> Result<(&[u8], &[u8]), NotUnderstood> {
    let mut values = serde_json::Deserializer::from_slice(text).into_iter::<IgnoredAny>();
    values.next().and_then(Result::ok).ok_or(NotUnderstood)?;
    let parts = text.split_at_checked(values.byte_offset());
    let (one, after) = parts.ok_or(NotUnderstood)?;
    Ok((one, after.trim_ascii_start()))
}

/// None as well: it is of a kind that this release does not know.
fn ours(listed: &[u8], author: &str, matchers: &[Matcher]) -> Option<Own> {
    let one: Listed = serde_json::from_slice(listed).ok()?;
    let ours = one.created_by == author
        && one.status.state != "expired"
        && is_id(&one.id)
        && Matcher::same(&one.matchers, matchers);
    ours.then_some(Own {
        id: one.id,
        starts: one.starts_at,
    })
}

/// The id of the silence that was made.
pub fn made(answer: &[u8]) -> Result<String, NotUnderstood> {
    #[derive(Deserialize)]
    struct Made {
        #[serde(rename = "silenceID")]
        id: String,
    }
    let made: Made = serde_json::from_slice(answer).map_err(|_| NotUnderstood)?;
    Some(made.id).filter(|id| is_id(id)).ok_or(NotUnderstood)
}

/// Whether a silence, as Alertmanager shows it, is of other alerts than these: before 0.22 it did not know negative matchers,
/// and took them for positive ones.
pub fn differs(answer: &[u8], matchers: &[Matcher]) -> bool {
    #[derive(Deserialize)]
    struct Shown {
        matchers: Vec<Matcher>,
    }
    let shown: Result<Shown, _> = serde_json::from_slice(answer);
    shown.is_ok_and(|shown| !Matcher::same(&shown.matchers, matchers))
}

fn is_id(id: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
    (1..=ID).contains(&id.len()) && id.chars().all(plain)
}
