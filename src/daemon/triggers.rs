//! The configured triggers, watched: sentinels by inotify and a slow poll, checks and built-in checks
//! by their period (I8: what was not read yet, or not well, is unknown).

use std::collections::BTreeMap;
use std::time::Duration;

use kube_rebootd_core::config::Config;
use kube_rebootd_core::text::{self, WORDS};
use kube_rebootd_core::trigger::{Finding, Verdict};
use tokio::sync::mpsc;
use tracing::{info, warn};

use crate::clock::Clock;
use crate::host::sentinel::{Found, Reader, Sentinel, SentinelError, Watch};
use crate::host::{Bus, check};
use crate::root::Root;

mod run;

use run::Run;
pub(crate) use run::command;

/// What watches the triggers.
pub(super) struct Triggers {
    root: Root,
    clock: Clock,
    paths: Vec<String>,
    settle: Duration,
    period: Duration,
    watch: Watch,
    reader: Reader,
    /// When the sentinels were read last, on the boot clock.
    read: Option<Duration>,
    dirty: bool,
    found: Result<Found, SentinelError>,
    runs: Vec<Run>,
    verdicts: BTreeMap<String, Verdict>,
    outcomes: mpsc::UnboundedReceiver<(String, Verdict)>,
}

impl Triggers {
    pub(super) fn new(root: &Root, bus: &Bus, clock: &Clock, config: &Config) -> Self {
        let paths: Vec<String> = config
            .triggers
            .sentinels
            .iter()
            .map(|path| path.display().to_string())
            .collect();
        let (send, outcomes) = mpsc::unbounded_channel();
        let runs = run::all(root, config);
        for run in &runs {
            tokio::spawn(run.clone().repeat(bus.clone(), send.clone()));
        }
        Self {
            root: root.clone(),
            clock: clock.clone(),
            watch: Watch::new(root, &paths),
            paths,
            settle: config.triggers.settle,
            period: config.triggers.period,
            reader: Reader::default(),
            read: None,
            dirty: true,
            found: Ok(Vec::new()),
            runs,
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
        *self = Self::new(root, bus, &self.clock, config);
        let known = |trigger: &String| self.runs.iter().any(|run| run.trigger == *trigger);
        self.verdicts = verdicts
            .into_iter()
            .filter(|(trigger, _)| known(trigger))
            .collect();
    }

    /// Resolves when a trigger may say something else. Cancel-safe.
    pub(super) async fn changed(&mut self) {
        let age = self.age().unwrap_or(self.period);
        let poll = self.period.saturating_sub(age);
        tokio::select! {
            () = self.watch.changed() => self.dirty = true,
            Some((trigger, verdict)) = self.outcomes.recv() => self.note(trigger, verdict),
            () = tokio::time::sleep(poll) => self.dirty = true,
        }
    }

    /// How long ago the sentinels were read.
    fn age(&self) -> Option<Duration> {
        self.read.map(|read| self.clock.now().since(read))
    }

    fn note(&mut self, trigger: String, verdict: Verdict) {
        let before = self.verdicts.get(&trigger);
        if before != Some(&verdict) {
            match &verdict {
                Verdict::Reboot { words, .. } => info!("{trigger} wants a reboot: {words}"),
                Verdict::No => info!("{trigger}: no reboot needed"),
                Verdict::Unknown { why } => warn!("{trigger} says nothing: {why}"),
            }
        }
        self.verdicts.insert(trigger, verdict);
    }

    /// What every configured trigger says now.
    pub(super) async fn findings(&mut self) -> Vec<Finding> {
        while let Ok((trigger, verdict)) = self.outcomes.try_recv() {
            self.note(trigger, verdict);
        }
        // A turn that something else made saves the poll one of its own.
        let soon = self.period / 4 * 3;
        if self.dirty || self.age().is_none_or(|age| age >= soon) {
            self.found = self.reader.look(&self.root, &self.paths).await;
            self.read = Some(self.clock.now().boot);
            self.dirty = false;
        }
        let sentinels = self.paths.iter().enumerate().map(|(index, path)| {
            let trigger = text::clean(&format!("sentinel {path}"), WORDS);
            let found = self.found.as_ref().map(|found| found.get(index));
            let verdict = match found {
                Ok(found) => found.map_or_else(unread, sentinel),
                Err(why) => Verdict::Unknown {
                    why: why.to_string(),
                },
            };
            let there = found.ok().flatten().and_then(|it| it.as_ref().ok());
            let there = there.and_then(Option::as_ref);
            Finding {
                kind: there.and_then(Sentinel::kind),
                mark: there.map(|sentinel| sentinel.identity.mark()),
                ..Finding::new(trigger, verdict, self.settle)
            }
        });
        let runs = self.runs.iter().map(|run| {
            let verdict = self.verdicts.get(&run.trigger);
            let verdict = verdict.cloned().unwrap_or_else(unread);
            Finding::new(&*run.trigger, verdict, run.settle)
        });
        sentinels.chain(runs).collect()
    }
}

fn unread() -> Verdict {
    Verdict::Unknown {
        why: "not read yet".to_owned(),
    }
}

/// What a sentinel says.
pub(crate) fn sentinel(found: &Result<Option<Sentinel>, SentinelError>) -> Verdict {
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
    let line = sentinel.content.lines().next().unwrap_or_default();
    let content = text::clean(line, WORDS);
    sentinel.asks_for().map_or(content, str::to_owned)
}
