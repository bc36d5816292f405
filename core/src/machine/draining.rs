//! How far the drain is, from the pods that are seen and what became of their evictions (I9).

use std::time::Duration;

use super::Machine;
use super::memory::Sight;
use crate::decide::labelled;
use crate::drain::{self, Drain, Next, Rest, State};
use crate::facts::Drained;
use crate::node::Seen;
use crate::node_fields;
use crate::pod::Pod;
use crate::record::Stage;

/// Since when pods of this hold could have been evicted.
enum Cordoned {
    /// Nothing is waited for.
    Now,
    /// The cordon is on its way.
    NotYet,
    /// From then on the wait counts.
    Since(Duration),
}

impl Machine {
    pub(super) fn drained(&mut self, pods: &[Pod], now: Duration) -> Drained {
        // What the last step did not send is chosen anew, by what is seen now: a deletion asks no budget.
        if let Some(drain) = &mut self.memory.drain {
            drain.unsent(self.memory.escalate.drain(..).map(|one| one.pod));
        }
        self.facts.cordoned = match self.cordoned(now) {
            Cordoned::Now => None,
            // Nothing is due before it has landed.
            Cordoned::NotYet => return Drained::Starting,
            Cordoned::Since(since) => Some(since),
        };
        if !self.evicts() {
            return self.unevicted(now);
        }
        let (next, spent) = self.progress(pods, now);
        self.memory.queue.extend(next.evict.iter().cloned());
        self.memory.escalate.extend(next.escalate.iter().cloned());
        let words = drain::describe(&next);
        match next.state {
            State::Resting { waits, .. } => {
                self.memory.done = None;
                Drained::Resting {
                    words,
                    waits,
                    wake: next.wake,
                }
            }
            State::Unmounting { .. } => {
                self.never_sent();
                self.memory.done = None;
                let wake = next.wake;
                Drained::Unmounting { words, wake }
            }
            State::Drained { .. } if self.facts.record.keeps() && self.gave_up() => {
                // drain.on_timeout = "reboot" is about reboots: nobody works for days below pods that may not go.
                let why = format!("{words}; a node with such pods is not kept drained");
                Drained::Failed { why }
            }
            State::Drained { volumes, .. } => {
                self.never_sent();
                if self.memory.done.is_none() && !volumes.is_empty() {
                    let volumes = volumes.join(", ");
                    self.say(format!(
                        "going on after drain.volumes_timeout although volumes are in use: {volumes}"
                    ));
                }
                self.done(now)
            }
            State::Failed { .. } => Drained::Failed { why: words },
            State::Going {
                blocked,
                jobs,
                deleted,
                ..
            } => {
                self.memory.done = None;
                Drained::Going {
                    evict: self.memory.queue.clone(),
                    escalate: self.memory.escalate.clone(),
                    deleted: !deleted.is_empty(),
                    words,
                    spent,
                    confirm: next.confirm,
                    unseen: self.memory.sight == Sight::Unseen,
                    wake: next.wake,
                    blocked: blocked.into_iter().chain(deleted).chain(jobs).collect(),
                }
            }
        }
    }

    /// Since when the cordon has been on the Node, where that matters.
    fn cordoned(&self, now: Duration) -> Cordoned {
        let hold = self.facts.record.hold.as_ref();
        // Before logind is asked the wait has been.
        let hold = hold.filter(|hold| hold.stage == Stage::Draining);
        let Some(hold) = hold.filter(|hold| hold.excluded || self.only_cordons()) else {
            return Cordoned::Now;
        };
        if let Some(since) = hold.cordoned {
            return Cordoned::Since(since);
        }
        // Pods have left already, by another configuration: half of them would wait for nothing.
        if hold.drain_spent > 0 {
            return Cordoned::Now;
        }
        match &self.facts.node {
            Seen::Present(node) if node.unschedulable && node_fields::carries(node, hold) => {
                Cordoned::Since(labelled(&self.facts, hold).unwrap_or(now))
            }
            _ => Cordoned::NotYet,
        }
    }

    /// Pods are not asked to leave at once.
    fn only_cordons(&self) -> bool {
        let configured = || !self.config.drain.policy.cordon_only.is_zero();
        let drain = self.memory.drain.as_ref();
        self.evicts() && drain.map_or_else(configured, Drain::only_cordons)
    }

    /// Load balancers were told to take the Node out.
    fn excluded(&self) -> bool {
        let hold = self.facts.record.hold.as_ref();
        hold.is_some_and(|hold| hold.excluded)
    }

    /// Where no pod is evicted, traffic from outside goes elsewhere all the same before the host goes down.
    fn unevicted(&mut self, now: Duration) -> Drained {
        let policy = &self.config.drain.policy;
        let rest = (self.facts.cordoned).map(|since| Rest::new(policy, since, self.excluded()));
        let Some((waits, until)) = rest.and_then(|rest| rest.waits(false, now)) else {
            return self.done(now);
        };
        self.memory.done = None;
        Drained::Resting {
            words: format!("waiting for {waits}"),
            waits,
            wake: Some(until),
        }
    }

    fn done(&mut self, now: Duration) -> Drained {
        Drained::Done {
            at: *self.memory.done.get_or_insert(now),
        }
    }

    /// Pods leave by eviction: what was seen before the cordon stays true for the whole hold.
    fn evicts(&self) -> bool {
        let hold = self.facts.record.hold.as_ref();
        let mode = self.config.drain.mode;
        mode.evicts(hold.is_some_and(|hold| hold.alone))
    }

    /// Nobody is left to be asked: a pod that comes late must not wait for these answers.
    fn never_sent(&mut self) {
        if let Some(drain) = &mut self.memory.drain {
            let escalate = self.memory.escalate.drain(..).map(|one| one.pod);
            drain.unsent(self.memory.queue.drain(..).chain(escalate));
        }
    }

    /// The drain with all that is new, and the time it took.
    fn progress(&mut self, pods: &[Pod], now: Duration) -> (Next, Duration) {
        let excluded = self.excluded();
        let memory = &mut self.memory;
        if memory.drain.is_none() {
            // Its time begins now: an answer of an hour ago would count this hour.
            (memory.answered, memory.heard) = (None, None);
        }
        let hold = self.facts.record.hold.as_ref();
        let spent = Duration::from_secs(hold.map_or(0, |hold| hold.drain_spent));
        let begin = if memory.begun {
            Drain::new
        } else {
            Drain::resumed
        };
        // One that is under way keeps the policy it began with.
        let policy = &self.config.drain.policy;
        let drain = memory
            .drain
            .get_or_insert_with(|| begin(policy.clone(), spent));
        if let Some(since) = self.facts.cordoned {
            drain.rest(since, excluded, now);
        }
        // Before any other answer: a slow one says that the server was silent, which a later answer would hide.
        if let Some((sent, at)) = memory.answered.take() {
            drain.confirmed(sent, at);
        }
        if let Some(heard) = memory.heard.take() {
            drain.heard(heard);
        }
        drain.blind(memory.sight != Sight::Seen, now);
        drain.pods(pods, now);
        drain.volumes(match &self.facts.node {
            Seen::Present(node) => Some(&node.volumes_in_use),
            Seen::Absent | Seen::Unknown => None,
        });
        let (next, spent) = (drain.next(now), drain.spent());
        let said = drain.take_said();
        self.said.extend(said);
        (next, spent)
    }

    /// The drain has left pods behind on purpose.
    fn gave_up(&self) -> bool {
        self.memory.drain.as_ref().is_some_and(Drain::gave_up)
    }

    /// Whether nothing is left that must go, by one consistent list.
    pub(super) fn clean(&self, pods: &[Pod]) -> bool {
        if !self.evicts() {
            return true;
        }
        match &self.memory.drain {
            // on_timeout = "reboot": what was left behind on purpose does not keep us here.
            Some(drain) => drain.clean(pods) || drain.gave_up(),
            None => Drain::new(self.config.drain.policy.clone(), Duration::ZERO).clean(pods),
        }
    }
}
