//! Which gates are closed, by all that was seen (I2, I8).

use super::Machine;
use crate::before::Before;
use crate::drain::{self, Mode};
use crate::facts::{Facts, Fenced};
use crate::gates::{
    self, ApiServers, Blocking, Capacity, ClosePolicy, Commands, Expected, Gate, GateFacts,
    GatePolicy, Pause, Protecting, Signs, WindowFacts,
};
use crate::names;
use crate::node::{Node, Seen};
use crate::now::Now;
use crate::peers::Census;
use crate::pod::Pod;
use crate::protected::Protected;
use crate::record::Stage;
use crate::rivals;
use crate::slot::Lease;
use crate::trigger::{Finding, Request};

impl Machine {
    pub(super) fn gates(&mut self, findings: &[Finding], now: Now) {
        self.note_candidate(now);
        let host = self.memory.host.as_ref();
        self.facts.host_read = host.map(|host| host.read);
        self.facts.before = Before {
            booted: self.memory.booted.clone(),
            staged: self.memory.staged.clone(),
            ..Before::of(host.and_then(|host| host.failed.as_ref()))
        };
        let known = host.and_then(|host| host.shutting_down);
        self.facts.shutting_down = known.unwrap_or_else(|| may_go_down(&self.facts));
        self.facts.scheduled = host.and_then(|host| host.scheduled.clone());
        let commands = self.commands(now);
        let alerts = self.servers(now);
        let capacity = self.capacity(now);
        let api_servers = self.api_servers(now);
        let awaits = [
            (Gate::Commands, matches!(commands, Commands::Awaited(_))),
            (Gate::Alerts, gates::asked(&alerts)),
            (Gate::Capacity, matches!(capacity, Capacity::Asked(_))),
            (Gate::ApiServers, api_servers == ApiServers::Asked),
        ];
        let awaits = awaits
            .into_iter()
            .filter(|(gate, awaits)| *awaits && !self.forced(*gate, now));
        let awaited = awaits.map(|(gate, _)| gate).collect();
        let hold = self.facts.record.hold.as_ref();
        let begun = hold.is_some_and(|hold| cordoned(&hold.stage));
        let gate_facts = GateFacts {
            node_pause: node_pause(&self.facts.node),
            group_pause: self.group_pause(),
            soft_reboots: self.soft_reboots(),
            rivals: self.rivals(),
            capacity,
            api_servers,
            windows: self.window_facts(),
            clock: self.clock(now),
            inhibitors: host
                .filter(|host| host.shutting_down.is_some())
                .and_then(|host| host.inhibitors.clone()),
            packages: self.memory.packages.known(now),
            alerts,
            request: self.facts.observed.request.as_ref(),
            findings,
            live_patches: self.live_patches(),
            autoscaler: self.autoscaler(now),
            candidate_until: self.candidate_until(now),
            conditions: self.conditions(),
            blocking: self.blocking(),
            protecting: self.protecting(now),
            commands,
            users: self.user_facts(begun),
        };
        let policy = GatePolicy {
            min_uptime: self.config.gates.min_uptime,
            close: ClosePolicy {
                close: self.config.gates.window_close,
                overrun: self.config.gates.window_overrun,
            },
            users: self.user_policy(),
            force: self.config.gates.force.clone(),
        };
        let all = gates::all(&gate_facts, &policy, now);
        self.facts.closed = gates::closed(&all);
        self.facts.answers.awaited = awaited;
        self.facts.gates = gates::standing(&self.facts.gates, all, now.boot);
        self.facts.closed_since = match self.facts.closed.as_slice() {
            [] => None,
            _ => Some(self.facts.closed_since.unwrap_or(now.boot)),
        };
    }

    /// An old request passes the gate over, and nobody waits for its answers.
    pub(super) fn forced(&self, gate: Gate, now: Now) -> bool {
        let request = self.facts.observed.request.as_ref();
        self.config.gates.force.passes(gate, request, now)
    }

    fn window_facts(&self) -> WindowFacts<'_> {
        let record = &self.facts.record;
        let begun = record.hold.as_ref().filter(|hold| cordoned(&hold.stage));
        let request = self.facts.observed.request.as_ref();
        let may = Expected {
            drain: self.config.longest_drain(),
            boot: self.config.health.timeout,
        };
        WindowFacts {
            windows: &self.config.gates.windows,
            expected: Expected::of(&record.history, self.facts.kind(), may, self.config.rest()),
            begun: begun.map(|hold| hold.take.acquire_time),
            urgent: request.is_some_and(Request::urgent),
        }
    }

    /// Conditions that may not be what they are. One that nobody reports speaks against nothing.
    fn conditions(&self) -> Signs {
        let unwanted = &self.config.gates.conditions;
        if unwanted.is_empty() {
            return Signs::Seen(Vec::new());
        }
        self.signs(|node| {
            let found = unwanted.iter().filter_map(|one| {
                let status = *node.reported.get(one.kind())?;
                (one.forbids(status)).then(|| format!("{} is {status}", one.kind()))
            });
            found.collect()
        })
    }

    pub(super) fn signs(&self, of: impl Fn(&Node) -> Vec<String>) -> Signs {
        match &self.facts.node {
            Seen::Unknown => Signs::Unknown,
            Seen::Absent => Signs::Seen(Vec::new()),
            Seen::Present(node) => Signs::Seen(of(node)),
        }
    }

    /// A pause on every slot of the group; it never affects a holder.
    fn group_pause(&self) -> Pause {
        let group = self.group();
        let slots: Vec<&Lease> = self
            .facts
            .leases
            .values()
            .filter(|lease| lease.group == group)
            .collect();
        let pauses: Option<Vec<&String>> =
            slots.iter().map(|lease| lease.paused.as_ref()).collect();
        let names: Vec<&str> = slots.iter().map(|lease| lease.name.as_str()).collect();
        match pauses.as_deref() {
            Some([first, ..]) if self.facts.record.hold.is_none() => {
                let places = format!("annotation {} of Lease {}", names::PAUSED, names.join(", "));
                Pause::Paused(match first.as_str() {
                    "" => places,
                    first => format!("{first} ({places})"),
                })
            }
            _ => Pause::None,
        }
    }

    /// The cluster has no other Node, as was seen last: by a look, or by the list of the others around a take. What could
    /// not be counted then has others (I8).
    pub(super) fn lonely(&self) -> bool {
        let listed = self.facts.peers.as_ref().filter(|peers| peers.counted);
        let listed = listed.map(|peers| {
            let alone = peers.census.as_ref().is_ok_and(Census::alone);
            (peers.asked, alone)
        });
        let looks = self.memory.alone.into_iter().chain(listed);
        let last = looks.max_by_key(|(read, _)| *read);
        last.is_some_and(|(_, alone)| alone)
    }

    /// Pods that would stop the drain or are protected, while there are some: their watch tells at once when the last of
    /// them has gone. The time of some is over by itself.
    pub(super) fn seen_before_cordon(&mut self, now: Now) {
        self.memory.protected.retain(|one| one.counts(now.wall));
        if self.blocked_before()
            && let Some(pods) = self.memory.pods.take()
        {
            self.look_before_cordon(&pods, now);
            self.memory.pods = Some(pods);
        }
    }

    /// What a look at the own pods before the cordon says.
    pub(super) fn look_before_cordon(&mut self, pods: &[Pod], now: Now) {
        let drain = &self.config.drain;
        let blockers = match drain.mode {
            Mode::Never => Vec::new(),
            Mode::Auto | Mode::Always => drain::seen_before_cordon(pods, &drain.policy),
        };
        self.memory.blocking = Some((now.boot, blockers));
        self.memory.protected = self.protected(pods, now);
        self.memory.rivals = if self.rivals_matter() {
            rivals::of_pods(pods)
        } else {
            Vec::new()
        };
        self.look_what_to_try(pods, now);
    }

    fn protected(&self, pods: &[Pod], now: Now) -> Vec<Protected> {
        let skip = &self.config.drain.policy.skip;
        self.config.gates.protection.of(pods, skip, now.wall)
    }

    /// Pods that a reboot waits for, before the cordon: after it nothing new begins here, and what was begun is ended by
    /// the drain anyway. Also where nothing is evicted: a reboot ends them as well.
    fn protecting(&self, now: Now) -> Protecting {
        let hold = &self.facts.record.hold;
        let begun = hold.as_ref().is_some_and(|hold| cordoned(&hold.stage));
        if begun || self.config.gates.protection.none() {
            return Protecting::Seen(Vec::new());
        }
        match (hold, &self.memory.pods, &self.memory.blocking) {
            (Some(_), Some(pods), _) => Protecting::Seen(self.protected(pods, now)),
            (_, _, Some(_)) => {
                let known = self.memory.protected.iter();
                Protecting::Seen(known.filter(|one| one.counts(now.wall)).cloned().collect())
            }
            // After a restart: there is no cordon before the watch has listed them.
            (Some(_), None, None) => Protecting::Seen(Vec::new()),
            (None, _, None) => Protecting::Unknown,
        }
    }

    /// Pods that would stop a drain, before the cordon: they close a gate, where anything is evicted at all.
    fn blocking(&self) -> Blocking {
        let (hold, policy) = (&self.facts.record.hold, &self.config.drain.policy);
        if hold.as_ref().is_some_and(|hold| cordoned(&hold.stage)) {
            return Blocking::Cordoned;
        }
        if !self.config.drain.mode.evicts(self.lonely()) {
            return Blocking::Undrained;
        }
        match (hold, &self.memory.pods, &self.memory.blocking) {
            (Some(_), Some(pods), _) => Blocking::Seen(drain::seen_before_cordon(pods, policy)),
            (_, _, Some((_, blockers))) => Blocking::Seen(blockers.clone()),
            (Some(_), None, None) => Blocking::Cordoned,
            (None, _, None) => Blocking::Unknown,
        }
    }
}

/// The stage begins with the cordon, or comes after it.
pub(super) fn cordoned(stage: &Stage) -> bool {
    !matches!(stage, Stage::Taking | Stage::Claiming)
}

/// Not known is not "no" once logind was asked in this boot: nothing is undone on a host that may go down. What is written
/// ahead of the first call is no call yet; after an earlier one the host may go down at any time.
fn may_go_down(facts: &Facts) -> bool {
    let hold = facts.record.hold.as_ref();
    let asked = hold.is_some_and(|hold| hold.asked() && hold.boot == facts.boot);
    let first = |fenced: &Fenced| fenced.asks <= 1;
    asked && !facts.fenced.as_ref().is_some_and(first)
}

fn node_pause(node: &Seen) -> Pause {
    match node {
        Seen::Unknown => Pause::Unknown,
        Seen::Absent => Pause::None,
        Seen::Present(node) => node
            .annotations
            .get(names::PAUSED)
            .cloned()
            .map_or(Pause::None, Pause::Paused),
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::boot::Boot;
    use crate::record::{Hold, Record};
    use crate::slot::Take;

    /// Found by review: beside the second ask an unknown answer passed for "it does not go down", and the slot was given
    /// up on a host that the first ask was taking down.
    #[test]
    fn i1_i8_a_host_that_was_asked_to_reboot_may_go_down_as_long_as_logind_does_not_say_no() {
        let lease = Lease::free("default", "default");
        let take = Take::of(&lease, "kube-rebootd", Timestamp::UNIX_EPOCH, false);
        for (asks, fenced, same_boot, may) in [
            (0, None, true, false),
            (1, Some(1), true, false),
            (1, None, true, true),
            (2, Some(2), true, true),
            (2, None, true, true),
            (1, None, false, false),
        ] {
            let mut facts = Facts::of_a_start(Boot::unknown(), Record::default());
            facts.record.hold = Some(Hold {
                stage: Stage::Rebooting,
                asks,
                ..Hold::begin(take.clone(), Boot::unknown())
            });
            facts.fenced = fenced.map(|asks| Fenced {
                hold: take.acquire_time,
                asks,
                at: None,
            });
            if !same_boot {
                facts.boot.id = "another".to_owned();
            }
            assert_eq!(may_go_down(&facts), may, "{asks} {fenced:?} {same_boot}");
        }
    }
}
