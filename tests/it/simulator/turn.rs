//! One turn of one host's daemon, the fate of what it writes, and the passing of time.

use std::time::Duration;

use jiff::Timestamp;
use kube_rebootd_core::decide::Step;
use kube_rebootd_core::effect::Effect;
use kube_rebootd_core::machine::Machine;
use kube_rebootd_core::now::Now;
use kube_rebootd_core::phase::Phase;

use super::world::World;

/// What happens to a host's next write, beside being done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    Done,
    /// Done, but nobody hears of it.
    AnswerLost,
    /// Never arrives.
    Lost,
    /// Arrives later.
    Late,
    /// The daemon dies after the write-ahead, before the effect.
    KilledBefore,
    /// The daemon dies after the effect, before it learned of it.
    KilledAfter,
    /// The host loses power instead of the effect.
    PowerLoss,
}

/// A definite answer of the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Said {
    Done,
    Conflict,
    Refused,
}

const START: i64 = 1_790_000_000;

impl World {
    pub(super) fn now(&self, host: usize) -> Now {
        let seconds = i64::try_from(self.clock.as_secs()).unwrap();
        let nanos = i32::try_from(self.clock.subsec_nanos()).unwrap();
        Now {
            wall: Timestamp::new(START + seconds, nanos).unwrap(),
            boot: self.clock.saturating_sub(self.hosts[host].booted) + Duration::from_secs(1),
        }
    }

    /// One turn of one host's daemon; what it wrote meets `fate`. False: it had nothing to do.
    pub(crate) fn turn(&mut self, index: usize, fate: Fate) -> bool {
        self.clock += Duration::from_millis(5);
        self.land();
        let clock = self.clock;
        if self.hosts[index].shutting_down {
            // The shutdown takes its second; then the firmware starts the host again.
            self.clock += Duration::from_secs(1);
            if self.hosts[index].softly {
                self.soft_boot(index);
                return true;
            }
            self.boot(index);
            self.hosts[index].wake = self.clock + self.hosts[index].firmware;
            return true;
        }
        let mut machine = self.gather(index);
        let now = self.now(index);
        let policy = machine.policy(Some(&self.hosts[index].name));
        let step = machine.next(&policy, now);
        self.proved(index, &step);
        self.hear(index, &mut machine, &step);
        let wrote = self.write_ahead(index, machine, &step);
        if step.effect == Effect::Wait {
            let wake = step.wake.unwrap_or(now.boot);
            let wait = wake
                .saturating_sub(now.boot)
                .min(self.poll(index, now.boot));
            // A watch shows it.
            let unmounted = self.hosts[index].unmounted().filter(|at| *at > clock);
            let wake = clock + wait;
            let wakes = [unmounted, self.updater_wakes(index)].into_iter().flatten();
            self.hosts[index].wake = wakes.fold(wake, Duration::min);
            if wrote {
                self.hosts[index].wake = Duration::ZERO;
            } else if step.phase == Phase::Idle {
                // Whatever ends an idle phase wakes the host by itself.
                self.hosts[index].wake += self.nap;
            }
            self.not_too_many_down();
            return wrote;
        }
        if step.effect.outside() {
            self.effects += 1;
        }
        if self.telling {
            self.trace.push(format!(
                "{} {} {:?} {fate:?}",
                self.hosts[index].name, step.phase, step.effect
            ));
        }
        self.hosts[index].wake = Duration::ZERO;
        self.meet(index, &step, fate, now);
        self.not_too_many_down();
        true
    }

    /// How soon its daemon looks again though nothing woke it: the kubelet's life is all that nothing tells of here.
    fn poll(&self, index: usize, now: Duration) -> Duration {
        let machine = self.hosts[index].machine.as_ref();
        let proves = machine.filter(|machine| machine.verifying());
        proves.map_or(Duration::MAX, |machine| machine.poll(now))
    }

    fn write_ahead(&mut self, index: usize, mut machine: Machine, step: &Step) -> bool {
        let host = &mut self.hosts[index];
        let wrote = machine.facts().record != step.record;
        if wrote {
            host.disk = Some(step.record.encode());
            machine.wrote(step.record.clone());
        }
        machine.rests(step);
        if host.phases.last() != Some(&step.phase) {
            host.phases.push(step.phase);
        }
        host.status.clone_from(&step.status);
        host.machine = Some(machine);
        wrote
    }

    fn meet(&mut self, index: usize, step: &Step, fate: Fate, now: Now) {
        let fate = if step.effect.outside() || !matches!(fate, Fate::Late) {
            fate
        } else {
            Fate::Done
        };
        let api = !matches!(
            step.effect,
            Effect::ReadHost | Effect::Hooks(_) | Effect::AskReboot | Effect::Begin
        );
        if self.hosts[index].cut && api {
            self.answer(index, &step.effect, None, now);
            self.hosts[index].wake = self.clock + Duration::from_secs(20);
            return;
        }
        if self.api_down && api {
            self.unanswered += 1;
            self.answer(index, &step.effect, None, now);
            // The daemon's own back-off between retries.
            self.clock += Duration::from_secs(1);
            return;
        }
        if step.effect.outside() && fate != Fate::Done {
            *self.met.entry(format!("{fate:?}")).or_insert(0) += 1;
        }
        match fate {
            Fate::Done => {
                let said = self.perform(index, &step.effect, now);
                self.answer(index, &step.effect, Some(said), now);
                if said == Said::Refused {
                    // The daemon's own back-off between retries.
                    self.clock += Duration::from_secs(20);
                }
            }
            Fate::AnswerLost => {
                self.perform(index, &step.effect, now);
                self.answer(index, &step.effect, None, now);
            }
            Fate::Lost => self.answer(index, &step.effect, None, now),
            Fate::Late => {
                self.late.push((
                    self.clock + Duration::from_secs(40),
                    index,
                    step.effect.clone(),
                ));
                self.answer(index, &step.effect, None, now);
            }
            Fate::KilledBefore => self.kill(index),
            Fate::KilledAfter => {
                self.perform(index, &step.effect, now);
                self.kill(index);
            }
            Fate::PowerLoss => self.boot(index),
        }
    }

    /// Requests that were on their way arrive.
    fn land(&mut self) {
        let due: Vec<_> = self
            .late
            .iter()
            .filter(|late| late.0 <= self.clock)
            .cloned()
            .collect();
        self.late.retain(|late| late.0 > self.clock);
        for (_, index, effect) in due {
            let now = self.now(index);
            // Neither logind nor a hook is a network: nothing of them comes late.
            // A waiting record is a hint that may be wrong.
            let network = !matches!(effect, Effect::AskReboot | Effect::Hooks(_));
            if network && !matches!(effect, Effect::Mark(_) | Effect::Unmark) {
                if self.telling {
                    self.trace
                        .push(format!("{} late {effect:?}", self.hosts[index].name));
                }
                self.perform(index, &effect, now);
                self.hosts[index].wake = Duration::ZERO;
            }
        }
    }

    /// Turns of all hosts, each write meeting the fate that `fates` gives, until nobody has anything
    /// to do before `patience` has passed.
    pub(crate) fn run(
        &mut self,
        patience: Duration,
        mut fates: impl FnMut(&mut Self, usize) -> Fate,
    ) {
        let deadline = self.clock + patience;
        let mut turns = 0;
        while self.clock < deadline {
            turns += 1;
            assert!(turns < 20_000, "no rest\n{}", self.told());
            self.round(deadline, &mut fates, true);
        }
    }

    /// A turn of every host that has something to do; if none has, time passes until one has. What one does
    /// the others' watches show: whatever it is (`all`), or only what is done to a Lease, as it is.
    pub(super) fn round(
        &mut self,
        deadline: Duration,
        fates: &mut impl FnMut(&mut Self, usize) -> Fate,
        all: bool,
    ) {
        let due = (0..self.hosts.len()).filter(|host| {
            let host = &self.hosts[*host];
            !host.dead && (host.wake <= self.clock || host.shutting_down)
        });
        let due: Vec<usize> = due.collect();
        if due.is_empty() {
            let alive = self.hosts.iter().filter(|host| !host.dead);
            let next = alive.map(|host| host.wake).min();
            self.clock = next.map_or(deadline, |next| next.min(deadline));
        }
        for host in due {
            if self.hosts[host].dead {
                continue;
            }
            let fate = fates(self, host);
            let before = self.lease_changes;
            let acted = self.turn(host, fate);
            if self.lease_changes != before || (all && acted) {
                self.wake_all();
            }
        }
    }
}
