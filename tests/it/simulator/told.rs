//! What a daemon is told of the answer to its effect, as `src/daemon` tells its machine.

use std::collections::BTreeMap;

use kube_rebootd_core::drain::PodRef;
use kube_rebootd_core::effect::Effect;
use kube_rebootd_core::facts::Waiters;
use kube_rebootd_core::hook;
use kube_rebootd_core::machine::Machine;
use kube_rebootd_core::node::Node;
use kube_rebootd_core::now::Now;
use kube_rebootd_core::pod::EvictAnswer;
use kube_rebootd_core::slot::{Crowd, Fence, GiveUp, Lease, MANY, Shown, TakeSaid};
use kube_rebootd_core::stale::Found;

use super::host::ModelNode;
use super::turn::Said;
use super::world::World;

impl World {
    /// What the daemon learns; `None` is no answer at all.
    pub(super) fn answer(&mut self, index: usize, effect: &Effect, said: Option<Said>, now: Now) {
        let node = self.node_view(index, Some(now.boot));
        let leases = self.leases.clone();
        let mut peers = self.peers(index, now.boot);
        let waiters = Waiters::listed(now.boot, self.waiters(index));
        let waiting = self.hosts[index].waiting.clone();
        let nodes = self.nodes.clone();
        let host = &mut self.hosts[index];
        let looked_at = host.looked_at(now.boot);
        let Some(machine) = &mut host.machine else {
            return;
        };
        let confirms = matches!(effect, Effect::Confirm { .. });
        if !confirms && !machine.counts(&peers, &host.name) {
            (peers.counted, peers.census) = (false, Err("not asked for".to_owned()));
            peers.quorum_down = Err("not asked for".to_owned());
        }
        learn_of_slots(machine, effect, said, &leases, &nodes, now);
        learn_before_logind(machine, effect, said, now);
        learn_of_take(machine, effect, said, &leases, now);
        learn_of_waiters(machine, effect, said, waiters, now);
        learn_of_the_node(machine, effect, said, node.clone(), now);
        if let Effect::Hooks(hook) = effect {
            machine.hooks_begin(*hook, now);
            let failed = || hook::Said::Failed("hook a failed: lost".to_owned());
            let well = said == Some(Said::Done);
            machine.hooks_ended(if well { hook::Said::Well } else { failed() }, now);
        }
        match (effect, said) {
            (Effect::Confirm { quorum, .. }, Some(Said::Done)) => {
                machine.read_node(node);
                if *quorum {
                    machine.see_peers(peers, &BTreeMap::new(), now.boot);
                }
                machine.listed(&host.pods, now.boot);
                machine.confirmed(now);
            }
            (Effect::ReadStart, Some(Said::Done)) => {
                let leases = leases.values().map(|lease| read(lease, now)).collect();
                machine.read_start(leases, waiting, now.boot);
            }
            (Effect::ReadStart, Some(_)) => {
                machine.no_leases("denied".to_owned());
                machine.denied(Some("denied".to_owned()));
            }
            (Effect::Begin, Some(_)) => machine.begin(),
            (Effect::ListPeers, Some(Said::Done)) => {
                machine.see_peers(peers, &BTreeMap::new(), now.boot);
            }
            (Effect::ListPods, Some(Said::Done)) => machine.listed(&host.pods, now.boot),
            (Effect::Evict(pods), said) => {
                machine.sent(pods.len());
                host.answers.extend(answers(pods, said));
            }
            (Effect::Escalate(all), said) => {
                machine.escalations_sent(all.len());
                let pods: Vec<PodRef> = all.iter().map(|one| one.pod.clone()).collect();
                host.answers.extend(answers(&pods, said));
            }
            (Effect::ReadMark, Some(_)) => machine.read_mark(waiting),
            (Effect::Mark(shown), said) => marked(machine, Some(shown), said, waiting),
            (Effect::Unmark, said) => marked(machine, None, said, waiting),
            (Effect::ReadHost, Some(_)) => machine.saw_host(looked_at),
            _ => {}
        }
    }
}

/// Every eviction is answered, a lost one as not.
fn answers(pods: &[PodRef], said: Option<Said>) -> impl Iterator<Item = (String, EvictAnswer)> {
    let answer = match said {
        Some(Said::Done | Said::Conflict) => EvictAnswer::Accepted,
        Some(Said::Refused) => EvictAnswer::Budget("budget web".to_owned()),
        None => EvictAnswer::Unanswered {
            retry_after: None,
            why: "no answer".to_owned(),
        },
    };
    pods.iter()
        .map(move |pod| (pod.uid.clone(), answer.clone()))
}

/// What became of the mark.
fn marked(machine: &mut Machine, wanted: Option<&Shown>, said: Option<Said>, shows: Option<Shown>) {
    match said {
        Some(_) => machine.marked(shows),
        None => machine.not_marked(wanted, None),
    }
}

/// Reads and writes of the own Node.
fn learn_of_the_node(
    machine: &mut Machine,
    effect: &Effect,
    said: Option<Said>,
    node: Option<Node>,
    now: Now,
) {
    match (effect, said) {
        (Effect::Apply { point, .. }, Some(Said::Done)) => {
            machine.applied(node.unwrap(), *point, None, now.boot);
        }
        (Effect::Apply { point, .. }, said) => {
            let refused = (said == Some(Said::Refused)).then(|| "a policy".to_owned());
            machine.not_applied(*point, refused);
        }
        (Effect::ReadNode, Some(_)) => {
            machine.answered(now.boot, now.boot);
            machine.read_node(node);
        }
        (Effect::Mend(_), Some(Said::Done)) | (Effect::ReadStart, Some(_)) => {
            machine.read_node(node);
        }
        (Effect::Mend(_), _) => machine.doubt_node(),
        (Effect::Tell(tell), Some(Said::Done)) => {
            machine.told(node.unwrap(), tell.clone(), now.boot);
        }
        (Effect::Tell(tell), said) => {
            let refused = said == Some(Said::Refused);
            machine.not_told(tell, "no answer", refused, now.boot);
        }
        (Effect::Rehearse(_), Some(said)) => {
            let said = match said {
                Said::Done => Ok(()),
                Said::Conflict | Said::Refused => Err("a policy".to_owned()),
            };
            machine.rehearsed(said, now);
        }
        _ => {}
    }
}

fn learn_of_waiters(
    machine: &mut Machine,
    effect: &Effect,
    said: Option<Said>,
    waiters: Waiters,
    now: Now,
) {
    match (effect, said) {
        (Effect::ListWaiters, Some(Said::Done)) => machine.see_waiters(Some(waiters)),
        (Effect::ListWaiters, said) => {
            let before = machine.facts().waiters.as_ref();
            let none = Waiters::unlisted(before, now.boot, said.is_some());
            machine.see_waiters(Some(none));
        }
        (Effect::CountWaiters, Some(Said::Done)) => {
            let others = waiters.list;
            let many = others.len() >= MANY as usize;
            machine.see_crowd(Crowd { others, many });
        }
        _ => {}
    }
}

fn learn_of_take(
    machine: &mut Machine,
    effect: &Effect,
    said: Option<Said>,
    leases: &BTreeMap<String, Lease>,
    now: Now,
) {
    let Effect::Take(take) = effect else { return };
    let answer = said.map(|said| match said {
        Said::Done => TakeSaid::Taken,
        Said::Conflict => TakeSaid::Conflict(now.boot),
        Said::Refused => TakeSaid::Refused("no".to_owned()),
    });
    machine.took(answer, said.is_none(), now);
    if said == Some(Said::Done) {
        machine.know(read(&leases[&take.lease], now), now.boot);
    }
}

/// As a consistent read shows it.
fn read(lease: &Lease, now: Now) -> Lease {
    Lease {
        read: Some(now.boot),
        ..lease.clone()
    }
}

/// The fence, whatever became of it, and logind's call.
fn learn_before_logind(machine: &mut Machine, effect: &Effect, said: Option<Said>, now: Now) {
    match (effect, said) {
        (Effect::Fence(fence), said) => {
            let point = machine.fences().unwrap();
            // The Lease is learned with all others'.
            if said == Some(Said::Done) {
                let lease = machine.facts().leases[&fence.lease].clone();
                machine.fenced(lease, now.boot);
            } else {
                machine.not_fenced(&fence.lease, point, None);
            }
        }
        // Whoever did not wait is told when it asks again; a word that is lost on its way counts as told.
        (Effect::AskReboot, said) if machine.grants() => {
            machine.asks_reboot();
            if said != Some(Said::Refused) {
                machine.accepted(now.boot);
            }
        }
        (Effect::AskReboot, said) => {
            machine.asks_reboot();
            machine.host_changed();
            match said {
                Some(_) => machine.accepted(now.boot),
                None => machine.not_accepted("no answer".to_owned(), now.boot),
            }
        }
        _ => {}
    }
}

/// Giving up, clearing, and what is asked about a slot or its holder.
fn learn_of_slots(
    machine: &mut Machine,
    effect: &Effect,
    said: Option<Said>,
    leases: &BTreeMap<String, Lease>,
    nodes: &BTreeMap<String, ModelNode>,
    now: Now,
) {
    match (effect, said) {
        (
            Effect::GiveUp(GiveUp { lease, .. })
            | Effect::Clear {
                give_up: GiveUp { lease, .. },
                ..
            }
            | Effect::ReadLease(lease)
            | Effect::Confirm { lease, .. }
            | Effect::Fence(Fence { lease, .. }),
            Some(Said::Done),
        ) => {
            machine.denied(None);
            machine.know(read(&leases[lease], now), now.boot);
        }
        (Effect::ReadLease(_), Some(_)) => machine.denied(Some("denied".to_owned())),
        // A lost answer of a write says nothing; the object must be read again.
        (Effect::GiveUp(give_up), said) => {
            machine.doubt_lease(&give_up.lease);
            machine.denied((said == Some(Said::Refused)).then(|| "denied".to_owned()));
        }
        (Effect::Clear { give_up, .. }, _) => {
            machine.doubt_lease(&give_up.lease);
            machine.forget_look(&give_up.lease);
        }
        (Effect::ReadHolder(held), said) => {
            let found = said.map(|_| match nodes.get(&held.holder) {
                None => Found::Absent,
                Some(node) if node.out_of_service => Found::OutOfService,
                Some(_) => Found::Present,
            });
            machine.see_holder(held.clone(), found, now);
        }
        _ => {}
    }
}
