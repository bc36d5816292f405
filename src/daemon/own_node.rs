//! What is written on the own Node and on its Lease in kube-node-lease; each answer becomes a fact (I3, I7).

use std::time::Duration;

use kube_rebootd_core::effect::Tell;
use kube_rebootd_core::facts::{Hidden, Point};
use kube_rebootd_core::node::Node;
use kube_rebootd_core::node_fields::{self, Leftovers, NodeFields};
use kube_rebootd_core::now::Now;
use kube_rebootd_core::slot::Shown;
use tracing::warn;

use super::Daemon;
use super::api::Requests;
use crate::cluster::answer::ApiError;

/// After an apply that was changed on its way: somebody must mend a webhook first.
const DROPPED: Duration = Duration::from_secs(5);
/// So long it is tried to take away what was told. With the 30 seconds of `undrain` before it, it must end within the 45 that
/// packages give a removal.
const UNTELL: Duration = Duration::from_secs(8);
/// After a refusal, or a busy server.
const UNTELL_PAUSE: Duration = Duration::from_secs(1);

/// How to find who changes the Node.
fn who(node: &str) -> String {
    format!(
        "does an admission webhook or a tool do that? kubectl get node {node} -o yaml --show-managed-fields names it"
    )
}

/// What the API server says of a dry run when an admission webhook does not know whether it has side effects.
const NO_DRY_RUN: &str = "does not support dry run";

/// Why a request was refused for good: sent again it would be refused again.
pub(super) fn refused(err: &ApiError) -> Option<String> {
    err.refused().then(|| err.to_string())
}

/// What an apply set and its answer does not show; none: all of it stayed.
fn changed_on_its_way(node: &Node, set: &NodeFields) -> Option<String> {
    let dropped = node_fields::dropped(node, set)?;
    Some(format!(
        "Node {}: what was set did not stay ({dropped}); does an admission webhook change Nodes?",
        node.name
    ))
}

impl Daemon {
    pub(super) async fn apply(
        &mut self,
        requests: &Requests,
        set: &NodeFields,
        point: Point,
        now: Now,
    ) -> Result<(), ApiError> {
        match requests.node.apply(set, now.boot).await {
            Ok(node) => {
                let answered = self.now().boot;
                let dropped = changed_on_its_way(&node, set);
                if let Some(why) = &dropped {
                    // It would be tried again at once, and dropped again.
                    self.api_backoff
                        .pause_longer(answered, DROPPED, why.clone());
                }
                let again = self.machine.applied(node, point, dropped.clone(), answered);
                if again && dropped.is_none() && point != Point::default() {
                    let name = &requests.clients.name;
                    let why = format!(
                        "Node {name}: what is set there is changed again and again; {}",
                        who(name)
                    );
                    self.api_backoff.pause_longer(answered, DROPPED, why);
                }
                Ok(())
            }
            Err(err) => {
                self.machine.not_applied(point, refused(&err));
                Err(err)
            }
        }
    }

    /// Whether the apply of a hold would be refused, or changed on its way.
    pub(super) async fn rehearse(
        &mut self,
        requests: &Requests,
        set: &NodeFields,
        now: Now,
    ) -> Result<(), ApiError> {
        let said = match requests.node.rehearse(set, now.boot).await {
            Ok(node) => changed_on_its_way(&node, set).map_or(Ok(()), Err),
            // It says nothing of the apply itself.
            Err(err) if err.refused() && err.to_string().contains(NO_DRY_RUN) => Ok(()),
            Err(err) if err.refused() => Err(err.to_string()),
            Err(err) => {
                self.machine.doubt_node();
                return Err(err);
            }
        };
        if self.machine.rehearsed(said.clone(), now)
            && let Err(why) = said
        {
            warn!("no slot is taken, as what a hold sets on the own Node would be refused: {why}");
        }
        Ok(())
    }

    pub(super) async fn mend(
        &mut self,
        requests: &Requests,
        left: &Leftovers,
        now: Now,
    ) -> Result<(), ApiError> {
        let answer = requests.node.mend(left, now.boot).await;
        let answered = self.now().boot;
        let node = match answer {
            Ok(node) => node,
            Err(err) => {
                self.machine.doubt_node();
                if err.refused() {
                    self.machine.mended(left, answered);
                }
                return Err(err);
            }
        };
        if self.machine.mended(left, answered) {
            // It came back, and would again at once.
            let why = format!(
                "Node {}: {} is there again after it was taken off; {}",
                node.name,
                left.words(),
                who(&node.name)
            );
            self.api_backoff.pause_longer(answered, DROPPED, why);
        }
        self.machine.read_node(Some(node));
        Ok(())
    }

    /// What the cluster sees of this node. Nothing waits for it, and it makes no other request wait: the machine alone
    /// remembers that it failed.
    pub(super) async fn tell(&mut self, tell: Tell, now: Now) {
        let requests = match self.api.connect().await {
            Ok(requests) => requests,
            Err(err) => return self.not_told(&tell, &err.to_string(), false),
        };
        match requests.node.tell(&tell, now.wall, now.boot).await {
            Ok(node) => {
                if let Some(event) = tell.event {
                    let client = requests.clients.node.clone();
                    (self.events).tell(client, &node.name, &tell.uid, event, now.wall);
                }
                if let Some(notice) = self.machine.notice(&node, &tell, now.wall) {
                    (self.notices).tell(&self.machine.config().notify, &notice);
                }
                self.machine.told(node, tell, self.now().boot);
            }
            Err(err) => {
                if err.unauthorized() {
                    self.api.refused();
                }
                // No hold rests on it: whether it is there, and which one, is read when it matters.
                let gone = matches!(err, ApiError::Gone { .. } | ApiError::UidMismatch { .. });
                if gone && self.machine.facts().record.hold.is_none() {
                    self.machine.doubt_node();
                }
                self.not_told(&tell, &err.to_string(), err.refused());
            }
        }
    }

    fn not_told(&mut self, tell: &Tell, why: &str, refused: bool) {
        let now = self.now().boot;
        self.machine.not_told(tell, why, refused, now);
    }

    /// Takes away what was told: nobody is there any more to say that it is over. Why it stays, if it does.
    pub(super) async fn untell(&mut self) -> Result<(), String> {
        let Some(tell) = self.machine.untells() else {
            return Ok(());
        };
        let mut last = "the API server was too slow".to_owned();
        let tries = async {
            loop {
                match self.try_to_untell(&tell).await {
                    Ok(()) => return,
                    Err(why) => last = why,
                }
                tokio::time::sleep(UNTELL_PAUSE).await;
            }
        };
        let done = tokio::time::timeout(UNTELL, tries).await;
        done.map_err(|_| last)
    }

    async fn try_to_untell(&mut self, tell: &Tell) -> Result<(), String> {
        let now = self.now().boot;
        let requests = self.api.connect().await.map_err(|err| err.to_string())?;
        let done = requests.node.untell(tell, now).await;
        done.map(drop).map_err(|err| err.to_string())
    }

    /// What the own kube-node-lease Lease shows from now on. A Lease that is not there, or a refusal, must not
    /// keep this node from a slot: it goes on unseen, and tries again later.
    pub(super) async fn mark(
        &mut self,
        requests: &Requests,
        record: Option<Shown>,
    ) -> Result<(), ApiError> {
        let done = match &record {
            Some(shown) => requests.heartbeat.mark(shown).await,
            None => requests.heartbeat.clear().await,
        };
        let answered = self.now().boot;
        match &done {
            Ok(()) => self.machine.marked(record),
            Err(error) => {
                let definite = !error.unanswered() && !error.unauthorized();
                let hidden = definite.then_some(Hidden {
                    at: answered,
                    missing: matches!(error, ApiError::Gone { .. }),
                });
                self.machine.not_marked(record.as_ref(), hidden);
            }
        }
        done
    }
}
