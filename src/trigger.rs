//! stub
use crate::boot::Boot;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reason {
    pub trigger: String,
    pub pkgs: BTreeSet<String>,
    pub words: String,
    pub since: Timestamp,
    pub since_boot: Duration,
}
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Latched {
    pub by: String,
    pub reason: String,
    pub at: Timestamp,
}
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    pub since: Timestamp,
    pub reasons: Vec<Reason>,
    pub latched: Vec<Latched>,
}
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SettledReason {
    pub pkgs: BTreeSet<String>,
    pub gone: bool,
}
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settled {
    pub boot: Boot,
    pub proved_boot: Duration,
    pub reasons: BTreeMap<String, SettledReason>,
}
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Past {
    pub at: Timestamp,
    pub automatic: bool,
    pub reasons: Vec<String>,
}
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Observed {
    pub request: Option<Request>,
    pub settled: Option<Settled>,
    pub uncleared: Vec<Reason>,
}
impl Past {
    pub fn of(r: Option<&Request>, at: Timestamp) -> Self {
        Self {
            at,
            automatic: true,
            reasons: r
                .map(|r| r.reasons.iter().map(|r| r.trigger.clone()).collect())
                .unwrap_or_default(),
        }
    }
}
impl Settled {
    pub fn of(r: Option<&Request>, boot: &Boot, proved: Duration) -> Self {
        Self {
            boot: boot.clone(),
            proved_boot: proved,
            reasons: r
                .map(|r| {
                    r.reasons
                        .iter()
                        .map(|x| {
                            (
                                x.trigger.clone(),
                                SettledReason {
                                    pkgs: x.pkgs.clone(),
                                    gone: false,
                                },
                            )
                        })
                        .collect()
                })
                .unwrap_or_default(),
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
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    pub trigger: String,
    pub verdict: Verdict,
    pub settle: Duration,
}
pub fn observe(
    request: Option<Request>,
    settled: Option<Settled>,
    findings: &[Finding],
    ann: Option<&str>,
    boot: &Boot,
    now: crate::now::Now,
) -> Observed {
    let mut settled = settled;
    let mut out = Observed::default();
    let mut reasons = Vec::new();
    let old = request.clone().map(|r| r.reasons).unwrap_or_default();
    for f in findings {
        match &f.verdict {
            Verdict::No => {
                if let Some(s) = &mut settled {
                    if let Some(e) = s.reasons.get_mut(&f.trigger) {
                        e.gone = true
                    }
                }
            }
            Verdict::Unknown { .. } => {
                reasons.extend(old.iter().filter(|r| r.trigger == f.trigger).cloned())
            }
            Verdict::Reboot { pkgs, words } => {
                let over = settled.as_ref().is_none_or(|s| {
                    s.boot != *boot || now.since(s.proved_boot) >= Duration::from_secs(900)
                });
                if let Some(s) = &mut settled
                    && let Some(e) = s.reasons.get_mut(&f.trigger)
                    && e.pkgs == *pkgs
                    && !(e.gone && over)
                {
                    e.gone = false;
                    out.uncleared.push(Reason {
                        trigger: f.trigger.clone(),
                        pkgs: pkgs.clone(),
                        words: words.clone(),
                        since: now.wall,
                        since_boot: now.boot,
                    });
                    continue;
                }
                if let Some(s) = &mut settled {
                    s.reasons.remove(&f.trigger);
                }
                reasons.push(
                    old.iter()
                        .find(|r| r.trigger == f.trigger && r.pkgs == *pkgs)
                        .cloned()
                        .unwrap_or(Reason {
                            trigger: f.trigger.clone(),
                            pkgs: pkgs.clone(),
                            words: words.clone(),
                            since: now.wall,
                            since_boot: now.boot,
                        }),
                );
            }
        }
    }
    let mut latched = request
        .as_ref()
        .map(|r| r.latched.clone())
        .unwrap_or_default();
    if let Some(a) = ann
        && latched.is_empty()
    {
        latched.push(Latched {
            by: "annotation".into(),
            reason: a.into(),
            at: now.wall,
        });
    }
    out.settled = settled;
    if !(reasons.is_empty() && latched.is_empty()) {
        out.request = Some(Request {
            since: request.map_or(now.wall, |r| r.since),
            reasons,
            latched,
        });
    }
    out
}
