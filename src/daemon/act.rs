//! Effects, one at a time; each answer becomes a fact (I5, I7, I9).

use std::sync::Arc;
use std::time::Duration;

use kube_rebootd_core::config::Method;
use kube_rebootd_core::drain::{Escalated, How, PodRef};
use kube_rebootd_core::effect::Effect;
use kube_rebootd_core::kind::Kind;
use kube_rebootd_core::metrics::Fault;
use kube_rebootd_core::now::Now;
use kube_rebootd_core::pod::EvictAnswer;
use kube_rebootd_core::slot::{Fence, GiveUp, Take};
use kube_rebootd_core::trigger::Verdict;
use tracing::{info, warn};

use super::Daemon;
use super::api::Requests;
use super::own_node::refused;
use super::reads::denied;
use crate::cluster::answer::ApiError;
use crate::cluster::lease::{GiveUpError, Took};
use crate::host::check;
use crate::host::logind::{self, RebootError};

/// How long `reboot.command` may take to ask for the reboot: the loop waits for it, and the watchdog of
/// the unit waits for the loop (3 min).
const COMMAND: Duration = Duration::from_secs(90);
/// To everybody on a terminal, before logind's own words.
const ADOPTED: &str = "kube-rebootd takes the scheduled reboot over: it comes after the drain, when the cluster allows it";
/// What an unpaused installation does last (docs/design.md 5).
const PAUSED_AT_FIRST: &str = "new: remove this annotation to let nodes reboot";

/// An eviction, or an escalation, that was answered.
pub(super) struct Evicted {
    pub(super) uid: String,
    /// It is an escalation.
    pub(super) escalates: Option<How>,
    pub(super) answer: EvictAnswer,
}

/// The effect is a request to the API server.
pub(super) fn asks_api(effect: &Effect) -> bool {
    !matches!(
        effect,
        Effect::Wait
            | Effect::Begin
            | Effect::ReadHost
            | Effect::Hooks(_)
            | Effect::AskReboot
            | Effect::CancelShutdown
    )
}

impl Daemon {
    pub(super) async fn act(&mut self, effect: Effect, now: Now) {
        match effect {
            Effect::Wait => {}
            Effect::Begin => self.machine.begin(),
            Effect::ReadHost => self.read_host().await,
            Effect::Hooks(hook) => self.begin_round(hook),
            Effect::AskReboot => self.ask_reboot().await,
            Effect::CancelShutdown => self.cancel_shutdown(now).await,
            Effect::ReadStart => self.read_start(now).await,
            Effect::Tell(tell) => self.tell(tell, now).await,
            effect => {
                if let Some(requests) = self.connect().await {
                    // Some requests are large: on the heap they are no part of every future that waits for them.
                    Box::pin(self.ask(&requests, effect, now)).await;
                }
            }
        }
    }

    /// What is asked through clients whose files are current; none: there are none, and the pause says when to try again.
    pub(super) async fn connect(&mut self) -> Option<Arc<Requests>> {
        match self.api.connect().await {
            Ok(requests) => Some(requests),
            Err(err) => {
                self.counters.failed(Fault::NotConnected);
                let words = self.api.troubled(&err);
                self.machine.no_leases(words.clone());
                let now = self.now().boot;
                self.api_backoff
                    .pause_longer(now, Duration::from_secs(5), words);
                None
            }
        }
    }

    async fn ask(&mut self, requests: &Requests, effect: Effect, now: Now) {
        self.api_backoff.request_begins(effect.outside());
        let done = match effect {
            Effect::ReadLease(name) => self.read_lease(requests, &name, now).await,
            Effect::ReadNode => self.read_node(requests, now).await,
            Effect::ReadMark => self.read_mark(requests).await,
            Effect::ListPeers => self.list_peers(requests, now).await,
            Effect::ListWaiters => self.list_waiters(requests, now).await,
            Effect::CountWaiters => self.count_waiters(requests).await,
            Effect::ReadHolder(held) => self.read_holder(requests, held, now).await,
            Effect::ListPods => self.list_pods(requests, now).await,
            Effect::Confirm { lease, quorum } => {
                Box::pin(self.confirm(requests, &lease, quorum, now)).await
            }
            Effect::Fence(fence) => self.fence(requests, &fence, now).await,
            Effect::CreateLease => self.create_lease(requests, now).await,
            Effect::Rehearse(set) => self.rehearse(requests, &set, now).await,
            Effect::Take(take) => self.take(requests, &take, now).await,
            Effect::Apply { set, point } => self.apply(requests, &set, point, now).await,
            Effect::Mend(left) => self.mend(requests, &left, now).await,
            Effect::Mark(record) => self.mark(requests, Some(record)).await,
            Effect::Unmark => self.mark(requests, None).await,
            Effect::GiveUp(give_up) => self.give_up(requests, &give_up, now).await,
            Effect::Clear { holder, give_up } => self.clear(requests, &holder, &give_up, now).await,
            Effect::Evict(pods) => self.evict(requests, pods),
            Effect::Escalate(pods) => self.escalate(requests, pods),
            Effect::Wait
            | Effect::Begin
            | Effect::ReadStart
            | Effect::Tell(_)
            | Effect::ReadHost
            | Effect::Hooks(_)
            | Effect::AskReboot
            | Effect::CancelShutdown => Ok(()),
        };
        match done {
            // A refusal that was answered has set its own pause.
            Ok(()) if self.api_backoff.paused_until(self.now().boot).is_some() => {}
            Ok(()) => self.api_backoff.request_worked(self.now().boot),
            Err(err) => self.failed(&err),
        }
    }

    /// A request failed.
    pub(super) fn failed(&mut self, err: &ApiError) {
        self.counters.failed(err.fault());
        if err.unauthorized() {
            self.api.refused();
        }
        let now = self.now().boot;
        self.api_backoff.request_failed(err, now);
    }

    async fn create_lease(&mut self, requests: &Requests, now: Now) -> Result<(), ApiError> {
        let group = self.machine.group();
        match requests
            .leases
            .create("default", &group, PAUSED_AT_FIRST, now.boot)
            .await
        {
            Ok(lease) => {
                info!(LEASE = lease.name, "made the Lease default, paused");
                self.machine.know(lease, self.clock.now().boot);
                Ok(())
            }
            Err(err) if err.unanswered() => Err(err),
            Err(err) => {
                self.machine.not_created(err.to_string());
                Ok(())
            }
        }
    }

    async fn take(&mut self, requests: &Requests, take: &Take, now: Now) -> Result<(), ApiError> {
        let took = requests.leases.take(take, now.boot).await;
        let answered = self.now().boot;
        let unanswered = matches!(took, Took::Unanswered(_));
        self.machine.took(took.said(answered), unanswered, now);
        match took {
            Took::Ours(lease) => self.machine.know(*lease, answered),
            Took::Conflict => {}
            Took::Refused(why) => {
                // The slot may look free for ever: no herd on a policy that refuses.
                self.api_backoff
                    .pause_longer(answered, Duration::from_secs(5), why);
            }
            Took::Unanswered(err) => return Err(err),
        }
        Ok(())
    }

    pub(super) async fn give_up(
        &mut self,
        requests: &Requests,
        give_up: &GiveUp,
        now: Now,
    ) -> Result<(), ApiError> {
        match requests.leases.give_up(give_up, now.boot).await {
            Ok(lease) => {
                self.machine.know(lease, self.clock.now().boot);
                Ok(())
            }
            Err(err) => {
                if let GiveUpError::Api(err) = &err {
                    let why = denied(err, self.machine.namespace());
                    self.machine.denied(why);
                }
                // What it is now must be read: the request may have been done, or refused.
                self.machine.doubt_lease(&give_up.lease);
                match err {
                    GiveUpError::Api(err) => Err(err),
                    GiveUpError::StillHeld { .. } => Err(ApiError::Other {
                        what: format!("give up Lease {}", give_up.lease),
                        message: err.to_string(),
                        code: 200,
                    }),
                }
            }
        }
    }

    /// What can be ready before logind is asked is ready now: the connection, and what terminals are told.
    async fn fence(
        &mut self,
        requests: &Requests,
        fence: &Fence,
        now: Now,
    ) -> Result<(), ApiError> {
        let Some(point) = self.machine.fences() else {
            return Ok(());
        };
        if self.machine.config().reboot.method == Method::Logind {
            logind::announce_reboot(&self.bus, &self.machine.config().reboot.message).await;
        }
        match requests.leases.fence(fence, now.boot).await {
            Ok(lease) => {
                self.machine.fenced(lease, self.clock.now().boot);
                Ok(())
            }
            Err(err) => {
                self.machine.not_fenced(&fence.lease, point, refused(&err));
                Err(err)
            }
        }
    }

    /// Evictions go beside the loop; every one is answered, a lost one as busy.
    #[allow(clippy::unnecessary_wraps)] // as every other effect
    fn evict(&mut self, requests: &Requests, pods: Vec<PodRef>) -> Result<(), ApiError> {
        self.machine.sent(pods.len());
        for pod in pods {
            let (own, send) = (requests.pods.clone(), self.evictions.clone());
            tokio::spawn(async move {
                let answer = own.evict(&pod).await;
                // The loop only ends with the process.
                let _ = send.send(Evicted {
                    uid: pod.uid,
                    escalates: None,
                    answer,
                });
            });
        }
        Ok(())
    }

    /// As evictions: each is answered.
    #[allow(clippy::unnecessary_wraps)] // as every other effect
    fn escalate(&mut self, requests: &Requests, pods: Vec<Escalated>) -> Result<(), ApiError> {
        self.machine.escalations_sent(pods.len());
        for one in pods {
            let (own, send) = (requests.pods.clone(), self.evictions.clone());
            tokio::spawn(async move {
                let answer = own.escalate(&one).await;
                // The loop only ends with the process.
                let _ = send.send(Evicted {
                    uid: one.pod.uid,
                    escalates: Some(one.how),
                    answer,
                });
            });
        }
        Ok(())
    }

    /// An eviction was answered; nothing else may be asked while a drain waits, so a refused credential
    /// is noticed here.
    pub(super) fn evicted(&mut self, evicted: Evicted, now: Duration) {
        match evicted.escalates {
            None => self.counters.evicted(&evicted.answer),
            Some(how) if evicted.answer == EvictAnswer::Accepted => self.counters.escalated(how),
            Some(_) => {}
        }
        if let EvictAnswer::Unauthorized(message) = &evicted.answer {
            self.failed(&ApiError::Denied {
                what: "evict".to_owned(),
                message: message.clone(),
                code: 401,
            });
        }
        self.machine.evicted(&evicted.uid, evicted.answer, now);
    }

    /// The scheduled shutdown that has become a request. Whether it is gone, and none has begun, is read
    /// again at once.
    async fn cancel_shutdown(&mut self, now: Now) {
        let words = self.machine.cancels();
        let words = words.map_or_else(String::new, |it| it.words());
        self.machine.cancelled(now);
        match logind::cancel_shutdown(&self.bus, ADOPTED).await {
            Ok(true) => info!("{words} is cancelled: it is a request now, and waits for its turn"),
            Ok(false) => info!("{words} was cancelled by somebody else; the request stays"),
            Err(err) => {
                warn!("{words} cannot be cancelled, and may go around slot and drain: {err}");
            }
        }
        self.machine.host_changed();
    }

    /// logind, the configured command, or a client of FleetLock, which is told to go on.
    async fn ask_reboot(&mut self) {
        let asked = self.now().boot;
        self.machine.asks_reboot();
        if self.machine.grants() {
            if self.tell_clients_to_go_on() {
                info!("the updater of this host, which asked over FleetLock, is told to go on");
                self.machine.accepted(asked);
            } else {
                info!(
                    "the updater of this host has not waited: it is told to go on when it asks again"
                );
            }
            return;
        }
        // As it stands on record (I6).
        let hold = self.machine.facts().record.hold.as_ref();
        let kind = hold.map_or(Kind::Reboot, |hold| hold.kind);
        info!("asking for the {}", kind.name());
        let refused = match &self.machine.config().reboot.method {
            Method::Logind => match logind::ask_reboot(&self.bus, kind).await {
                Ok(()) => Ok(()),
                Err(err) => {
                    if let RebootError::NoSoftReboot(_) = &err {
                        self.machine.no_soft_reboots(err.to_string());
                    }
                    Err(err.to_string())
                }
            },
            // Nobody knows what it does: the gate of soft-reboots has closed.
            Method::Command(_) if kind.soft() => {
                Err("reboot.command is asked for no soft-reboot".to_owned())
            }
            Method::Command(command) => {
                let check = check::Check {
                    name: "reboot",
                    command,
                    timeout: COMMAND.min(self.machine.config().reboot.timeout),
                    reboot_codes: &[0],
                    ok_codes: &[],
                    words: None,
                };
                match check::run(&self.root, &self.bus, &check).await.verdict {
                    Verdict::Reboot { .. } => Ok(()),
                    Verdict::No => Err("reboot.command did nothing".to_owned()),
                    Verdict::Unknown { why } => Err(format!("reboot.command: {why}")),
                }
            }
        };
        self.machine.host_changed();
        match refused {
            Ok(()) => self.machine.accepted(asked),
            Err(why) => {
                warn!("the reboot was refused: {why}");
                self.machine.not_accepted(why, self.clock.now().boot);
            }
        }
    }
}
