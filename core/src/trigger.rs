//! From what the triggers say to the request, and what a reboot settled.
//!
//! Keeps I8 (unknown neither adds nor removes a reason) and I10 (a reason that outlived its reboot asks
//! for no second one; `max_per_day`).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::boot::Boot;
use crate::kind::{Kind, Kinds};
use crate::now::Now;

mod builtin;
mod flaps;
mod heard;
mod kernel;
mod kinds;
mod maintenance;
mod request;
mod settled;
#[cfg(test)]
mod tests;
pub mod update_engine;

pub use builtin::Builtin;
pub use flaps::Flaps;
pub use heard::Heard;
pub(crate) use heard::heard;
pub(crate) use kernel::of_kernel;
pub use maintenance::Keeper;
pub use request::{BY_ANNOTATION, BY_NOW, BY_PERSON, Latched, Reason, Request};
pub(crate) use request::{BY_SCHEDULE, wish};
pub use settled::{Settled, SettledReason};

use request::same_pkgs;
use settled::{Again, again, forget, gone};

/// What one configured trigger says now. Every configured trigger has one, [`Verdict::Unknown`] until
/// it was first read: a trigger without a finding is no longer configured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// For example "sentinel /run/reboot-required" or "check dnf".
    pub trigger: String,
    pub verdict: Verdict,
    /// How long it must say so before it counts; a gate.
    pub settle: Duration,
    /// The kind of reboot that it names; none: it names none.
    pub kind: Option<Kind>,
    /// Of a file, what tells it from one that is written later. A file in /run survives a soft-reboot.
    pub mark: Option<String>,
}

impl Finding {
    /// Of a trigger that names no kind of reboot, and is no file.
    pub fn new(trigger: impl Into<String>, verdict: Verdict, settle: Duration) -> Self {
        Self {
            trigger: trigger.into(),
            verdict,
            settle,
            kind: None,
            mark: None,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    Reboot {
        pkgs: BTreeSet<String>,
        words: String,
    },
    No,
    Unknown {
        why: String,
    },
}

/// What asks for a reboot until it is done, and is to be latched.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Wishes<'a> {
    pub annotation: Asked<'a>,
    /// The scheduled shutdown that is adopted, in words.
    pub scheduled: Option<&'a str>,
    /// The deployment that the next boot is to bring: it tells whether what did not take is asked for again.
    pub staged: Option<&'a str>,
    /// The client of FleetLock has stopped to ask, or is not listened to any more.
    pub client_gone: bool,
    pub kinds: Kinds,
}

/// What the Node annotation `kube-rebootd/reboot` asks for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Asked<'a> {
    /// The Node is not known: the last answer counts (I8).
    #[default]
    Unknown,
    /// It is not there, or is not listened to.
    No,
    Yes(&'a str),
}

/// What the triggers come to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Observed {
    pub request: Option<Request>,
    pub settled: Option<Settled>,
    /// Still there although the last reboot was for them: reported and ignored (I10).
    pub uncleared: Vec<Reason>,
    /// Triggers whose file is there still that the last soft-reboot was for: it could not take it away.
    pub served: Vec<String>,
    /// Triggers that do not answer, and why, of which no reason is known: nobody knows whether they want a reboot (I8).
    pub unknown: Vec<(String, String)>,
}

/// Follows the triggers. What was scheduled stays a wish although it is cancelled; the Node annotation is one
/// as long as it stands.
pub(crate) fn observe(
    request: Option<Request>,
    settled: Option<Settled>,
    findings: &[Finding],
    wishes: Wishes<'_>,
    boot: &Boot,
    now: Now,
) -> Observed {
    let mut observed = Observed {
        settled,
        ..Observed::default()
    };
    let (since, known, latched) = request.map_or((now.wall, Vec::new(), Vec::new()), |old| {
        (old.since, old.reasons, old.latched)
    });
    let reasons = reasons(&mut observed, known, findings, wishes, boot, now);
    forget(&mut observed.settled, boot, now);
    let latched = latched_now(&mut observed, latched, wishes, boot, now);
    if !(reasons.is_empty() && latched.is_empty()) {
        observed.request = Some(Request {
            since,
            reasons,
            latched,
        });
    }
    observed
}

/// What the triggers ask for, of which `known` was known. One that does not answer adds nothing and takes nothing
/// back (I8).
fn reasons(
    observed: &mut Observed,
    known: Vec<Reason>,
    findings: &[Finding],
    wishes: Wishes<'_>,
    boot: &Boot,
    now: Now,
) -> Vec<Reason> {
    let mut known: BTreeMap<_, _> = (known.into_iter())
        .map(|reason| (reason.trigger.clone(), reason))
        .collect();
    let mut reasons = Vec::new();
    for finding in findings {
        let old = known.remove(&finding.trigger);
        let (pkgs, words) = match &finding.verdict {
            Verdict::Unknown { why } => {
                match old {
                    Some(old) => reasons.push(in_this_boot(old, now)),
                    None => (observed.unknown).push((finding.trigger.clone(), why.clone())),
                }
                continue;
            }
            Verdict::No => {
                gone(&mut observed.settled, &finding.trigger);
                continue;
            }
            Verdict::Reboot { pkgs, words } => (pkgs, words),
        };
        let fresh = asks(finding, pkgs, words, old.as_ref(), wishes.kinds, now);
        let named = finding.kind.is_some();
        let settled = &mut observed.settled;
        match again(settled, &fresh, named, wishes.staged, boot, now) {
            Again::Served => observed.served.push(fresh.trigger),
            Again::NotCleared => observed.uncleared.push(fresh),
            Again::Asks(kind) => {
                let fresh = Reason {
                    mark: fresh.mark.filter(|_| kind.soft()),
                    kind,
                    ..fresh
                };
                reasons.push(followed(old, fresh, now));
            }
        }
    }
    reasons
}

/// What a trigger asks for now, of which `old` was known.
fn asks(
    finding: &Finding,
    pkgs: &BTreeSet<String>,
    words: &str,
    old: Option<&Reason>,
    kinds: Kinds,
    now: Now,
) -> Reason {
    let kind = kinds.of_reason(finding.kind, &finding.trigger, pkgs);
    // As long as it asks, it wants what it has wanted: who writes less into a file takes nothing back.
    let kind = old.map_or(kind, |old| kind.max(old.kind));
    let names_less = finding.kind.is_some_and(|named| named < kind);
    let words = if names_less {
        format!("{words}; a full reboot does it")
    } else {
        words.to_owned()
    };
    Reason {
        trigger: finding.trigger.clone(),
        pkgs: pkgs.clone(),
        words,
        since: now.wall,
        since_boot: now.boot,
        later: BTreeMap::new(),
        kind,
        // A full reboot settles without it.
        mark: finding.mark.clone().filter(|_| kind.soft()),
    }
}

/// The wishes that stand: of those that were `latched`, what nobody has taken back, and what is wished for anew.
fn latched_now(
    observed: &mut Observed,
    mut latched: Vec<Latched>,
    wishes: Wishes<'_>,
    boot: &Boot,
    now: Now,
) -> Vec<Latched> {
    latched.retain(|wish| wish.lasts(boot) && !(wishes.client_gone && wish.of_client()));
    let mut latch = |by: &str, reason: &str, boot: Option<&Boot>, kind: Kind| {
        let reason = wish(reason);
        if let Some(wish) = latched.iter_mut().find(|wish| wish.by == by) {
            // One that a soft-reboot has not served is asked for anew in this boot.
            (wish.reason, wish.kind, wish.boot) = (reason, kind, boot.cloned());
            return;
        }
        latched.push(Latched {
            by: by.to_owned(),
            reason,
            at: now.wall,
            boot: boot.cloned(),
            ended: false,
            kind,
        });
    };
    let annotation = asked(observed, wishes.annotation, wishes.kinds, boot, now);
    if let Asked::Yes(text) = annotation {
        latch(BY_ANNOTATION, text, None, wishes.kinds.of_wish(None));
    }
    if let Some(text) = wishes.scheduled {
        // Only a full one is taken over.
        latch(BY_SCHEDULE, text, Some(boot), Kind::Reboot);
    }
    if annotation == Asked::No {
        latched.retain(|wish| wish.by != BY_ANNOTATION);
    }
    latched
}

/// What its trigger says now, of which `old` was known.
fn followed(old: Option<Reason>, fresh: Reason, now: Now) -> Reason {
    let Some(old) = old else { return fresh };
    let (kind, mark) = (fresh.kind, fresh.mark);
    let known = in_this_boot(old, now);
    if same_pkgs(&known.pkgs, &fresh.pkgs) {
        // Or the record would be written each time a check counts something.
        let words = if kind == known.kind {
            known.words
        } else {
            fresh.words
        };
        return Reason {
            words,
            kind,
            mark,
            ..known
        };
    }
    Reason {
        later: known.later_with(&fresh.pkgs, now.wall),
        pkgs: fresh.pkgs,
        words: fresh.words,
        kind,
        mark,
        ..known
    }
}

/// What the annotation still asks for: with the text that the last reboot was for it is set again too soon, as by a tool
/// that owns the annotations of its Nodes, and that would be a loop (I10).
fn asked<'a>(
    observed: &mut Observed,
    annotation: Asked<'a>,
    kinds: Kinds,
    boot: &Boot,
    now: Now,
) -> Asked<'a> {
    match annotation {
        Asked::Yes(text) => {
            let reason = Reason {
                trigger: BY_ANNOTATION.to_owned(),
                pkgs: BTreeSet::from([wish(text)]),
                words: wish(text),
                since: now.wall,
                since_boot: now.boot,
                later: BTreeMap::new(),
                kind: kinds.of_wish(None),
                mark: None,
            };
            match again(&mut observed.settled, &reason, true, None, boot, now) {
                Again::Asks(_) => {}
                Again::Served => return Asked::No,
                Again::NotCleared => {
                    observed.uncleared.push(reason);
                    return Asked::No;
                }
            }
        }
        Asked::No => gone(&mut observed.settled, BY_ANNOTATION),
        Asked::Unknown => {}
    }
    annotation
}

/// A start that lies ahead is one of an earlier boot's clock; settling begins anew.
fn in_this_boot(reason: Reason, now: Now) -> Reason {
    Reason {
        since_boot: reason.since_boot.min(now.boot),
        ..reason
    }
}
