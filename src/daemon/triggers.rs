//! The configured triggers, watched: sentinels by inotify and a slow poll, checks by their period
//! (I8: what was not read yet, or not well, is unknown).

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::Instant;
use tracing::{info, warn};

use crate::config::{Check, Config};
use crate::host::sentinel::{Found, Reader, Sentinel, SentinelError, Watch};
use crate::host::{Bus, check};
use crate::root::Root;
use crate::slot::scatter;
use crate::trigger::{Finding, Verdict};

/// Spread of a check's first run, so that a boot's work comes first and hosts differ.
const FIRST_RUN_MILLIS: u64 = 2_000;

/// What watches the triggers.
pub(super) struct Triggers {
    root: Root,
    paths: Vec<String>,
    settle: Duration,
    period: Duration,
    watch: Watch,
    reader: Reader,
    read: Option<Instant>,
    dirty: bool,
    found: Result<Found, SentinelError>,
    checks: Vec<Check>,
    verdicts: BTreeMap<String, Verdict>,
    outcomes: mpsc::UnboundedReceiver<(String, Verdict)>,
}

impl Triggers {
    pub(super) fn new(root: &Root, bus: &Bus, config: &Config) -> Self {
        let paths: Vec<String> = config
            .triggers
            .sentinels
            .iter()
            .map(|path| path.display().to_string())
            .collect();
        let (send, outcomes) = mpsc::unbounded_channel();
        let checks = config.triggers.checks.clone();
        for check in &checks {
            tokio::spawn(repeat(bus.clone(), check.clone(), send.clone()));
        }
        Self {
            root: root.clone(),
            watch: Watch::new(root, &paths),
            paths,
            settle: config.triggers.settle,
            period: config.triggers.period,
            reader: Reader::default(),
            read: None,
            dirty: true,
            found: Ok(Vec::new()),
            checks,
            verdicts: BTreeMap::new(),
            outcomes,
        }
    }

    /// Starts over with a new configuration; verdicts of checks that stay are kept.
    pub(super) async fn configure(&mut self, root: &Root, bus: &Bus, config: &Config) {
        // What runs would overlap with its successor; its task lets go of its unit and ends.
        if let Err(err) = check::stop_leftovers(bus).await {
            warn!("cannot stop the checks that run: {err}");
        }
        let verdicts = std::mem::take(&mut self.verdicts);
        *self = Self::new(root, bus, config);
        let known = |name: &String| self.checks.iter().any(|check| check.name == *name);
        self.verdicts = verdicts
            .into_iter()
            .filter(|(name, _)| known(name))
            .collect();
    }

    /// Resolves when a trigger may say something else. Cancel-safe.
    pub(super) async fn changed(&mut self) {
        let poll = self.read.map_or(Duration::ZERO, |read| {
            self.period.saturating_sub(read.elapsed())
        });
        tokio::select! {
            () = self.watch.changed() => self.dirty = true,
            Some((name, verdict)) = self.outcomes.recv() => self.note(name, verdict),
            () = tokio::time::sleep(poll) => self.dirty = true,
        }
    }

    fn note(&mut self, name: String, verdict: Verdict) {
        let before = self.verdicts.get(&name);
        if before != Some(&verdict) {
            match &verdict {
                Verdict::Reboot { words, .. } => info!("check {name} wants a reboot: {words}"),
                Verdict::No => info!("check {name}: no reboot needed"),
                Verdict::Unknown { why } => warn!("check {name} says nothing: {why}"),
            }
        }
        self.verdicts.insert(name, verdict);
    }

    /// What every configured trigger says now.
    pub(super) async fn findings(&mut self) -> Vec<Finding> {
        while let Ok((name, verdict)) = self.outcomes.try_recv() {
            self.note(name, verdict);
        }
        if self.dirty {
            self.found = self.reader.look(&self.root, &self.paths).await;
            self.read = Some(Instant::now());
            self.dirty = false;
        }
        let sentinels = self.paths.iter().enumerate().map(|(index, path)| Finding {
            trigger: format!("sentinel {path}"),
            verdict: match &self.found {
                Ok(found) => found.get(index).map_or_else(unread, sentinel),
                Err(why) => Verdict::Unknown {
                    why: why.to_string(),
                },
            },
            settle: self.settle,
        });
        let checks = self.checks.iter().map(|check| Finding {
            trigger: format!("check {}", check.name),
            verdict: self
                .verdicts
                .get(&check.name)
                .cloned()
                .unwrap_or_else(unread),
            settle: check.settle,
        });
        sentinels.chain(checks).collect()
    }
}

fn unread() -> Verdict {
    Verdict::Unknown {
        why: "not read yet".to_owned(),
    }
}

fn sentinel(found: &Result<Option<Sentinel>, SentinelError>) -> Verdict {
    match found {
        Ok(None) => Verdict::No,
        Ok(Some(sentinel)) => Verdict::Reboot {
            pkgs: sentinel.pkgs.clone(),
            words: words(sentinel),
        },
        Err(why) => Verdict::Unknown {
            why: why.to_string(),
        },
    }
}

/// What a sentinel says, for people.
fn words(sentinel: &Sentinel) -> String {
    let content = sentinel.content.lines().next().unwrap_or_default().trim();
    match sentinel.other_kind() {
        Some(kind) => format!("asks for {kind}; an ordinary reboot does it"),
        None => content.to_owned(),
    }
}

/// Runs a check now and then every period, one run at a time, until nobody listens. Never aborted: a
/// run that is not waited for keeps its unit as long as the bus connection lives.
async fn repeat(bus: Bus, check: Check, send: mpsc::UnboundedSender<(String, Verdict)>) {
    let first = scatter(&[&check.name]) % FIRST_RUN_MILLIS;
    tokio::select! {
        () = tokio::time::sleep(Duration::from_millis(first)) => {}
        () = send.closed() => return,
    }
    loop {
        let started = Instant::now();
        let outcome = check::run(
            &bus,
            &check::Check {
                name: &check.name,
                command: &check.command,
                timeout: check.timeout,
                reboot_codes: &check.reboot_exit_codes,
                ok_codes: &check.ok_exit_codes,
            },
        )
        .await;
        let said = outcome
            .output
            .lines()
            .next()
            .unwrap_or_default()
            .trim()
            .to_owned();
        let verdict = match outcome.verdict {
            check::Verdict::Reboot { reasons } => Verdict::Reboot {
                pkgs: std::collections::BTreeSet::new(),
                words: if said.is_empty() {
                    reasons.join(", ")
                } else {
                    said
                },
            },
            check::Verdict::Ok => Verdict::No,
            check::Verdict::Unknown { why } => Verdict::Unknown { why },
        };
        if send.send((check.name.clone(), verdict)).is_err() {
            return;
        }
        tokio::select! {
            () = tokio::time::sleep_until(started + check.period) => {}
            () = send.closed() => return,
        }
    }
}
