//! What is run now and then: check commands and built-in checks, both as transient units, and questions to `update_engine` (I8).

use std::time::Duration;

use kube_rebootd_core::config::{Builtin, Check, Config};
use kube_rebootd_core::scatter::share;
use kube_rebootd_core::text::{self, WORDS};
use kube_rebootd_core::trigger::{Verdict, update_engine};
use kube_rebootd_outdated::Answer;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::host::update_engine::Signals;
use crate::host::{self, Bus, check};
use crate::root::Root;

/// Spread of a first run, so that a boot's work comes first and hosts differ.
const FIRST_RUN: Duration = Duration::from_secs(2);
/// A built-in check reads all of /proc: `triggers.period` may be shorter, for the sentinels' sake.
const BUILTIN_PERIOD: Duration = Duration::from_secs(10);
/// While `update_engine` asks for a reboot: that an admin has reset its update is told by no signal.
const RESET_PERIOD: Duration = Duration::from_secs(30);
/// While a package manager works: its end should not wait for a whole period.
const BUSY_PERIOD: Duration = Duration::from_secs(30);

/// One of them.
#[derive(Debug, Clone)]
pub(super) struct Run {
    /// As it stands in reasons.
    pub(super) trigger: String,
    pub(super) settle: Duration,
    period: Duration,
    work: Work,
}

#[derive(Debug, Clone)]
enum Work {
    Command(Root, Check),
    Builtin(Root, Builtin),
    UpdateEngine,
}

/// All that the configuration names.
pub(super) fn all(root: &Root, config: &Config) -> Vec<Run> {
    let triggers = &config.triggers;
    let builtins = triggers.builtin.iter().map(|builtin| Run {
        trigger: builtin.trigger(),
        settle: triggers.builtin_settle,
        period: triggers.period.max(BUILTIN_PERIOD),
        work: Work::Builtin(root.clone(), *builtin),
    });
    let checks = triggers.checks.iter().map(|check| Run {
        trigger: text::clean(&format!("check {}", check.name), WORDS),
        settle: check.settle,
        period: check.period,
        work: Work::Command(root.clone(), check.clone()),
    });
    let update_engine = triggers.update_engine.then(|| Run {
        trigger: update_engine::TRIGGER.to_owned(),
        settle: triggers.settle,
        period: triggers.period.max(BUILTIN_PERIOD),
        work: Work::UpdateEngine,
    });
    builtins.chain(checks).chain(update_engine).collect()
}

impl Run {
    /// Runs it now and then every period, one run at a time, until nobody listens. Never aborted: a run
    /// that is not waited for keeps its unit as long as the bus connection lives.
    pub(super) async fn repeat(self, bus: Bus, send: mpsc::UnboundedSender<(String, Verdict)>) {
        let first = share(FIRST_RUN, &[&self.trigger]);
        tokio::select! {
            () = tokio::time::sleep(first) => {}
            () = send.closed() => return,
        }
        let mut signals = Signals::default();
        loop {
            if matches!(self.work, Work::UpdateEngine) {
                signals.listen(&bus).await;
            }
            let started = Instant::now();
            let (verdict, period) = self.once(&bus).await;
            if send.send((self.trigger.clone(), verdict)).is_err() {
                return;
            }
            tokio::select! {
                () = tokio::time::sleep_until(started + period) => {}
                () = signals.next() => {}
                () = send.closed() => return,
            }
        }
    }

    /// One run, and when to begin the next.
    async fn once(&self, bus: &Bus) -> (Verdict, Duration) {
        match &self.work {
            Work::Command(root, check) => (command(root, bus, check).await, self.period),
            Work::UpdateEngine => {
                let verdict = host::update_engine::ask(bus).await;
                let period = match verdict {
                    Verdict::Reboot { .. } => self.period.min(RESET_PERIOD),
                    Verdict::No | Verdict::Unknown { .. } => self.period,
                };
                (verdict, period)
            }
            Work::Builtin(root, builtin) => {
                let answer = match check::program() {
                    Ok(program) => check::ask(bus, &program, root, *builtin).await,
                    Err(err) => {
                        Answer::unknown(format!("cannot tell where this program is: {err}"))
                    }
                };
                let period = match answer {
                    Answer::Unknown { busy: true, .. } => self.period.min(BUSY_PERIOD),
                    Answer::Unknown { .. } | Answer::Reboot { .. } | Answer::No { .. } => {
                        self.period
                    }
                };
                (answer.verdict(), period)
            }
        }
    }
}

/// What a check command says now.
pub(crate) async fn command(root: &Root, bus: &Bus, check: &Check) -> Verdict {
    let asked = check::Check {
        name: &check.name,
        command: &check.command,
        timeout: check.timeout,
        reboot_codes: &check.reboot_exit_codes,
        ok_codes: &check.ok_exit_codes,
        words: check.words(),
    };
    let outcome = check::run(root, bus, &asked).await;
    let line = outcome.output.lines().next().unwrap_or_default();
    let said = text::clean(line, WORDS);
    match outcome.verdict {
        Verdict::Reboot { pkgs, .. } if !said.is_empty() => Verdict::Reboot { pkgs, words: said },
        verdict => verdict,
    }
}
