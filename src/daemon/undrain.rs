//! `undrain --release`: the daemon's own steps, with every hold ordered back (I3, I4, I6).

use std::time::Duration;

use kube_rebootd_core::decide::released;
use kube_rebootd_core::effect::Effect;
use kube_rebootd_core::hook::Stand;
use kube_rebootd_core::record::Record;
use kube_rebootd_core::slot::Mark;
use tokio::time::{sleep, timeout};

use super::Daemon;
use super::hooks::ROUND;

/// Between two looks while something is waited for: a person looks on.
const LOOK: Duration = Duration::from_millis(200);

/// How much longer than its time limit a hook may take, with what is between two of them.
const SLACK: Duration = Duration::from_secs(60);

/// What could not be given back in time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Left {
    /// What was wrong last, in words.
    pub trouble: String,
    pub namespace: String,
    /// None when not even the node's name could be asked for.
    pub node: Option<String>,
    pub lease: Option<String>,
    /// As [`Released::stays`].
    pub stays: Option<String>,
}

/// What was given back in time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Released {
    /// For people.
    pub words: String,
    /// Why the conditions and annotations that say what this daemon does stay on the Node; none: they are gone.
    pub stays: Option<String>,
}

impl Daemon {
    /// Gives back whatever hold is on record, within `limit`, or as long as hooks of `undo.d` run meanwhile: what was given back,
    /// or what is left and what to do. Being cut off at any point is as harmless as a SIGKILL.
    pub async fn release(mut self, limit: Duration) -> Result<Released, Left> {
        let mut lease = None;
        let begun = self.now();
        // As long as a round of any other directory may take: a person looks on, or a package manager waits.
        let round = ROUND + self.machine.config().hooks.timeout + SLACK;
        let mut done = timeout(limit, self.give_all_back(&mut lease)).await;
        // A hook that takes back is let end: whoever tries again would end it and begin it anew, time after time.
        while done.is_err() && self.takes_back() && self.now().since(begun.boot) < round {
            done = timeout(limit, self.give_all_back(&mut lease)).await;
        }
        // Nobody goes on to say it.
        self.motd.show(None);
        let left = done.err().map(|_| self.left(lease.clone()));
        // Where the Leases are not to be had any more the Node may be written; what is still held goes on to be told.
        let stays = if left.is_none() || self.machine.facts().record.hold.is_none() {
            self.untell().await.err()
        } else {
            None
        };
        if let Some(left) = left {
            return Err(Left { stays, ..left });
        }
        let words = lease.map_or_else(
            || "nothing was held".to_owned(),
            |lease| format!("slot {lease} is given back"),
        );
        Ok(Released { words, stays })
    }

    async fn give_all_back(&mut self, lease: &mut Option<String>) {
        self.machine.tells_nothing();
        loop {
            self.gather().await;
            if self.machine.facts().started
                && let Some(record) = self.machine.facts().record.unkept()
            {
                // Whoever gives all back wants no later daemon to drain the node for somebody who has forgotten it.
                self.durable(record);
            }
            let record = &self.machine.facts().record;
            if self.machine.facts().started && record.guard.is_some() {
                self.durable(Record {
                    guard: None,
                    ..record.clone()
                });
            }
            self.machine.keep_request();
            if released(self.machine.facts(), &self.policy(), self.now()) {
                break;
            }
            if self.machine.facts().started {
                self.order_back();
            }
            if let Some(hold) = &self.machine.facts().record.hold {
                *lease = Some(hold.take.lease.clone());
            }
            if self.step().await.is_some() {
                sleep(LOOK).await;
            }
        }
        // A hint that names a node without a daemon costs its group a moment.
        if let Mark::Shown(_) = &self.machine.facts().mark {
            self.act(Effect::Unmark, self.now()).await;
        }
    }

    /// Hooks of `undo.d` run.
    fn takes_back(&self) -> bool {
        matches!(
            self.machine.facts().hooks.undo,
            Stand::Some { running: true, .. }
        )
    }

    /// Turns the hold on record into one that goes back, durably if that is possible.
    fn order_back(&mut self) {
        let facts = self.machine.facts();
        let Some(record) = facts.record.give_back(&facts.boot, self.now()) else {
            return;
        };
        self.durable(record);
    }

    /// It is the record, on disk if that is possible.
    fn durable(&mut self, record: Record) {
        let written = self.store.write(&record.encode()).is_ok();
        self.machine.writable(written);
        self.machine.wrote(record);
    }

    fn left(&self, lease: Option<String>) -> Left {
        let facts = self.machine.facts();
        let trouble = match (self.api_backoff.trouble(self.now().boot), &facts.listed) {
            (Some(trouble), _) => trouble.to_owned(),
            (None, Err(why)) => why.clone(),
            (None, Ok(())) => match &facts.hooks.undo {
                Stand::Unknown(why) => why.clone(),
                Stand::Some { last, .. } => {
                    let no = last.as_ref().and_then(|last| last.said.no());
                    no.unwrap_or("the hooks of undo.d have not ended")
                        .to_owned()
                }
                Stand::Unlooked | Stand::None => "the API server was too slow".to_owned(),
            },
        };
        Left {
            trouble,
            namespace: self.machine.namespace().to_owned(),
            node: self.api.name().map(str::to_owned),
            lease,
            stays: None,
        }
    }
}
