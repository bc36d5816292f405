//! The hooks around a hold: a round of those of one directory at a time, beside the loop (I6, I7, I8).
//!
//! They run one after another in the order of their names, each with a time limit of its own. When a round is begun is the
//! machine's word, and so is what its end counts for.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kube_rebootd_core::hook::{Hook, Said, Told};
use tokio::sync::mpsc;
use tracing::{Instrument as _, debug, warn};

use super::Daemon;
use crate::clock::Clock;
use crate::host::hooks::{Found, Hooks, Unlisted};
use crate::host::{Bus, check};
use crate::root::Root;

/// Of a round: after it no further hook of it is begun, but for `undo.d`.
pub(super) const ROUND: Duration = Duration::from_secs(5 * 60);

/// What runs the rounds.
pub(super) struct Rounds {
    root: Root,
    bus: Bus,
    clock: Clock,
    hooks: Hooks,
    running: Option<Running>,
    ended: mpsc::UnboundedReceiver<Said>,
    send: mpsc::UnboundedSender<Said>,
    /// Why the hooks could not be listed, as it was said.
    trouble: Option<String>,
}

/// A round that runs.
struct Running {
    hook: Hook,
    /// Somebody still waits for it: else no further hook of it is begun.
    wanted: Arc<AtomicBool>,
}

impl Rounds {
    pub(super) fn new(root: &Root, bus: &Bus, clock: &Clock) -> Self {
        let (send, ended) = mpsc::unbounded_channel();
        Self {
            root: root.clone(),
            bus: bus.clone(),
            clock: clock.clone(),
            hooks: Hooks::default(),
            running: None,
            ended,
            send,
            trouble: None,
        }
    }

    /// What the round says that runs, once it has ended. Cancel-safe.
    pub(super) async fn ended(&mut self) -> Said {
        match self.ended.recv().await {
            Some(said) => said,
            // A sender is kept here.
            None => std::future::pending().await,
        }
    }

    /// Whether there are any of this kind; or why that is not known, in words. Of those that are not run yet, but on which it
    /// rests that others are, none may be passed over.
    async fn look(&mut self, hook: Hook, ahead: bool) -> Result<bool, String> {
        let survey = self.hooks.survey(&self.root, hook).await;
        let found = if ahead && hook == Hook::Undo {
            survey.complete()
        } else {
            survey.listed()
        };
        let there = found.map(|found| !found.is_empty());
        there.map_err(|why| unlisted(hook.directory(), &why))
    }

    /// What could not be listed is said once.
    fn tell(&mut self, trouble: Option<String>) {
        if let Some(why) = &trouble
            && self.trouble != trouble
        {
            warn!("{why}");
        }
        self.trouble = trouble;
    }

    /// Only a round of this kind is still wanted.
    fn only(&mut self, hook: Option<Hook>) {
        if let Some(running) = self.running.as_ref()
            && hook != Some(running.hook)
        {
            running.wanted.store(false, Ordering::Relaxed);
        }
    }

    /// `timeout`: of each hook.
    fn begin(&mut self, told: Told, timeout: Duration) {
        let wanted = Arc::new(AtomicBool::new(true));
        self.running = Some(Running {
            hook: told.hook,
            wanted: Arc::clone(&wanted),
        });
        let round = Round {
            root: self.root.clone(),
            bus: self.bus.clone(),
            clock: self.clock.clone(),
            told,
            timeout,
            wanted,
            send: self.send.clone(),
        };
        tokio::spawn(round.run().in_current_span());
    }
}

/// One round, in a task of its own.
struct Round {
    root: Root,
    bus: Bus,
    clock: Clock,
    told: Told,
    timeout: Duration,
    wanted: Arc<AtomicBool>,
    send: mpsc::UnboundedSender<Said>,
}

impl Round {
    async fn run(self) {
        let said = self.says().await;
        // The loop only ends with the process.
        let _ = self.send.send(said);
    }

    async fn says(&self) -> Said {
        let directory = self.told.hook.directory();
        if let Err(why) = check::end_left_rounds(&self.bus).await {
            return Said::Failed(format!("the hooks of {directory} cannot be run: {why}"));
        }
        let found = Hooks::default().look(&self.root, self.told.hook).await;
        match found {
            Ok(found) => self.each(&found).await,
            Err(why) => Said::Failed(unlisted(directory, &why)),
        }
    }

    async fn each(&self, found: &[Found]) -> Said {
        let directory = self.told.hook.directory();
        let begun = self.clock.now();
        let mut first = None;
        for one in found {
            if !self.wanted.load(Ordering::Relaxed) || self.send.is_closed() {
                return Said::Failed(format!("the hooks of {directory} are not needed any more"));
            }
            // What is not begun in one round of `undo.d` would be begun in none.
            let undoes = self.told.hook == Hook::Undo;
            if !undoes && self.clock.now().since(begun.boot) >= ROUND {
                let minutes = ROUND.as_secs() / 60;
                let why = format!("the hooks of {directory} took longer than {minutes} minutes");
                return Said::Failed(why);
            }
            let said = self.one(one).await;
            if said == Said::Well {
                continue;
            }
            // As much as possible is taken back.
            if self.told.hook != Hook::Undo {
                return said;
            }
            first.get_or_insert(said);
        }
        first.unwrap_or(Said::Well)
    }

    async fn one(&self, one: &Found) -> Said {
        let place = format!("{}/{}", self.told.hook.directory(), one.name);
        let command = [one.path.to_string_lossy().into_owned()];
        let hook = check::Hook {
            name: &place,
            command: &command,
            timeout: self.timeout,
            round: true,
        };
        let environment = self.told.environment();
        let answer = check::hook(&self.root, &self.bus, &hook, environment).await;
        debug!("{place}: {answer:?}");
        Said::of(&place, answer)
    }
}

fn unlisted(directory: &str, why: &Unlisted) -> String {
    match why {
        Unlisted::Idle(_) => format!("a hook of {directory} could not be run: {why}"),
        _ => format!("not known which hooks there are in {directory}: {why}"),
    }
}

impl Daemon {
    /// Which hooks there are of those that are needed now, and what the round says that has ended; a round that is due is
    /// begun.
    pub(super) async fn hooks(&mut self) {
        while let Ok(said) = self.rounds.ended.try_recv() {
            self.round_ended(said);
        }
        let wanted = self.machine.hooks_wanted();
        self.rounds.only(wanted);
        self.machine.forget_hooks();
        let Some(hook) = wanted else {
            return;
        };
        let there = self.rounds.look(hook, false).await;
        let mut trouble = there.as_ref().err().cloned();
        self.machine.saw_hooks(hook, there);
        while let Some(ahead) = self.machine.hooks_ahead() {
            let there = self.rounds.look(ahead, true).await;
            trouble = trouble.or_else(|| there.as_ref().err().cloned());
            self.machine.saw_hooks(ahead, there);
        }
        self.rounds.tell(trouble);
        if self.machine.post_boot_due(self.now()) {
            self.begin_round(Hook::PostBoot);
        }
    }

    /// Never waits: what the round says comes later.
    pub(super) fn begin_round(&mut self, hook: Hook) {
        let Some(me) = self.api.name() else {
            return;
        };
        let told = Told {
            hook,
            node: me.to_owned(),
            group: self.machine.group(),
            phase: self.machine.phase(),
            reasons: self.machine.hold_reasons(),
        };
        debug!("running the hooks of {}", hook.directory());
        self.machine.hooks_begin(hook, self.now());
        let timeout = self.machine.config().hooks.timeout;
        self.rounds.begin(told, timeout);
    }

    pub(super) fn round_ended(&mut self, said: Said) {
        self.rounds.running = None;
        self.machine.hooks_ended(said, self.now());
    }
}
