//! The commands of the gate, `[[gates.command]]` and the hooks of `gate.d`, run beside the loop (I7, I8).
//!
//! Each has a run of its own: one that hangs is ended at its time limit, and delays no other. When one is to be asked is the
//! machine's word, and so is what its answer counts for.

use std::collections::BTreeMap;
use std::time::Duration;

use kube_rebootd_core::config::{Config, GateCommand};
use kube_rebootd_core::hook::{Answer, Hook, Told};
use kube_rebootd_core::machine::Asked;
use tokio::sync::mpsc;
use tracing::{debug, warn};

use super::Daemon;
use crate::clock::Clock;
use crate::host::hooks::{Found, Hooks};
use crate::host::{Bus, check};
use crate::root::Root;

/// Of a hook of `gate.d`.
const TIMEOUT: Duration = Duration::from_secs(60);
const PERIOD: Duration = Duration::from_secs(60);
/// How much longer than its time limit a run may take: PID 1 ends it in that time.
const SLACK: Duration = Duration::from_secs(30);

/// What runs the commands.
pub(super) struct Commands {
    root: Root,
    bus: Bus,
    clock: Clock,
    configured: Vec<GateCommand>,
    hooks: Hooks,
    known: BTreeMap<GateCommand, Known>,
    answers: mpsc::UnboundedReceiver<Ended>,
    send: mpsc::UnboundedSender<Ended>,
    /// Why the hooks could not be listed, as it was said.
    trouble: Option<String>,
}

/// What is known of one.
#[derive(Debug, Default)]
struct Known {
    running: bool,
    answer: Option<(Duration, Answer)>,
}

/// A run that ended.
struct Ended {
    command: GateCommand,
    asked: Duration,
    answer: Answer,
}

impl Commands {
    pub(super) fn new(root: &Root, bus: &Bus, clock: &Clock, config: &Config) -> Self {
        let (send, answers) = mpsc::unbounded_channel();
        Self {
            root: root.clone(),
            bus: bus.clone(),
            clock: clock.clone(),
            configured: config.gates.commands.clone(),
            hooks: Hooks::default(),
            known: BTreeMap::new(),
            answers,
            send,
            trouble: None,
        }
    }

    /// From now on these are configured; what one that stays has said is kept.
    pub(super) fn configure(&mut self, config: &Config) {
        self.configured.clone_from(&config.gates.commands);
    }

    /// Resolves when one has answered. Cancel-safe.
    pub(super) async fn changed(&mut self) {
        // Never closed: a sender is kept here.
        if let Some(ended) = self.answers.recv().await {
            self.note(ended);
        }
    }

    fn note(&mut self, ended: Ended) {
        // One that is configured no more has nothing to say.
        if let Some(known) = self.known.get_mut(&ended.command) {
            debug!("{}: {:?}", ended.command.name, ended.answer);
            known.running = false;
            known.answer = Some((ended.asked, ended.answer));
        }
    }

    /// Nothing rests on them: what they have said is void.
    fn forget(&mut self) {
        self.known.retain(|_, known| known.running);
        for known in self.known.values_mut() {
            known.answer = None;
        }
    }

    /// What each says, after all that must be asked now was asked: those without an answer, those whose period is over, and
    /// those that answered what was asked before `after`.
    async fn look(&mut self, after: Duration, told: &Told) -> Result<Vec<Asked>, String> {
        while let Ok(ended) = self.answers.try_recv() {
            self.note(ended);
        }
        let hooks = self.hooks.look(&self.root, Hook::Gate).await;
        let hooks = match hooks {
            Ok(hooks) => hooks,
            Err(why) => {
                let why = why.to_string();
                if self.trouble.as_ref() != Some(&why) {
                    warn!("not known which hooks there are in gate.d: {why}");
                }
                self.trouble = Some(why.clone());
                return Err(why);
            }
        };
        self.trouble = None;
        let configured = self.configured.iter();
        let configured = configured.map(|one| (format!("command {}", one.name), one.clone()));
        let all: Vec<(String, GateCommand)> = configured.chain(hooks.iter().map(of_hook)).collect();
        self.known
            .retain(|one, _| all.iter().any(|(_, command)| command == one));
        let now = self.clock.now();
        let mut asked = Vec::new();
        for (name, command) in all {
            let known = self.known.entry(command.clone()).or_default();
            let due = |(asked, _): &(Duration, Answer)| {
                *asked < after || now.since(*asked) >= command.period
            };
            if !known.running && known.answer.as_ref().is_none_or(due) {
                known.running = true;
                let run = Run {
                    root: self.root.clone(),
                    bus: self.bus.clone(),
                    asked: now.boot,
                    environment: told.environment(),
                    command: command.clone(),
                };
                tokio::spawn(run.once(self.send.clone()));
            }
            asked.push(Asked {
                name,
                // Until the answer of the next run is there, however long that takes.
                lasts: command.period + 2 * (command.timeout + SLACK),
                answer: known.answer.clone(),
            });
        }
        Ok(asked)
    }
}

/// A hook's file as a command.
fn of_hook(hook: &Found) -> (String, GateCommand) {
    let place = format!("{}/{}", Hook::Gate.directory(), hook.name);
    let command = GateCommand {
        name: place.clone(),
        command: vec![hook.path.to_string_lossy().into_owned()],
        timeout: TIMEOUT,
        period: PERIOD,
    };
    (format!("hook {place}"), command)
}

/// One run.
struct Run {
    root: Root,
    bus: Bus,
    command: GateCommand,
    asked: Duration,
    environment: Vec<String>,
}

impl Run {
    async fn once(self, send: mpsc::UnboundedSender<Ended>) {
        let hook = check::Hook {
            name: &self.command.name,
            command: &self.command.command,
            timeout: self.command.timeout,
            round: false,
        };
        let answer = check::hook(&self.root, &self.bus, &hook, self.environment).await;
        // The loop only ends with the process.
        let _ = send.send(Ended {
            command: self.command,
            asked: self.asked,
            answer,
        });
    }
}

impl Daemon {
    /// The commands of the gate, once something rests on them and the node has a name.
    pub(super) async fn commands(&mut self) {
        let now = self.now();
        let (Some(after), Some(me)) = (self.machine.answers_after(now.boot), self.api.name())
        else {
            self.commands.forget();
            self.machine.forget_commands();
            return;
        };
        let told = Told {
            hook: Hook::Gate,
            node: me.to_owned(),
            group: self.machine.group(),
            phase: self.machine.phase(),
            reasons: self.machine.reasons(),
        };
        let seen = self.commands.look(after, &told).await;
        self.machine.saw_commands(seen);
    }
}
