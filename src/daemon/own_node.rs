//! What is written on the own Node and on its Lease in kube-node-lease; each answer becomes a fact (I3, I7).

use std::time::Duration;

use kube_rebootd_core::facts::{Applied, Hidden, Mended, Point, RefusedApply, Rehearsed};
use kube_rebootd_core::node::{Node, Seen};
use kube_rebootd_core::node_set::{self, Leftovers, NodeSet};
use kube_rebootd_core::now::Now;
use kube_rebootd_core::slot::{Mark, Shown};
use tracing::warn;

use super::Daemon;
use crate::cluster::answer::ApiError;

/// After an apply that was changed on its way: somebody must mend a webhook first.
const DROPPED: Duration = Duration::from_secs(5);
/// What comes back on the Node so long after it was taken off is another's doing each time.
const LATELY: Duration = Duration::from_secs(120);
/// What the API server says of a dry run when an admission webhook does not know whether it has side effects.
const NO_DRY_RUN: &str = "does not support dry run";

/// What an apply set and its answer does not show; none: all of it stayed.
fn changed_on_its_way(node: &Node, set: &NodeSet) -> Option<String> {
    let dropped = node_set::dropped(node, set)?;
    Some(format!(
        "Node {}: what was set did not stay ({dropped}); does an admission webhook change Nodes?",
        node.name
    ))
}

impl Daemon {
    pub(super) async fn apply(
        &mut self,
        set: &NodeSet,
        point: Point,
        now: Now,
    ) -> Result<(), ApiError> {
        let Some(connected) = self.api.connected() else {
            return Ok(());
        };
        match connected.node.apply(set, now.boot).await {
            Ok(node) => {
                let answered = self.now().boot;
                self.machine.facts.refused = None;
                if let Some(why) = changed_on_its_way(&node, set) {
                    // It would be tried again at once, and dropped again.
                    self.patience.longer(answered, DROPPED, why.clone());
                    self.machine.facts.refused = Some(RefusedApply { point, why });
                }
                self.machine.facts.node = Seen::Present(Box::new(node));
                self.machine.facts.applied = Some(Applied {
                    point,
                    at: answered,
                });
                Ok(())
            }
            Err(err) => {
                self.machine.facts.node = Seen::Unknown;
                let why = err.to_string();
                self.machine.facts.refused = err.refused().then_some(RefusedApply { point, why });
                Err(err)
            }
        }
    }

    /// Whether the apply of a hold would be refused, or changed on its way.
    pub(super) async fn rehearse(&mut self, set: &NodeSet, now: Now) -> Result<(), ApiError> {
        let Some(connected) = self.api.connected() else {
            return Ok(());
        };
        let said = match connected.node.rehearse(set, now.boot).await {
            Ok(node) => changed_on_its_way(&node, set).map_or(Ok(()), Err),
            // It says nothing of the apply itself.
            Err(err) if err.refused() && err.to_string().contains(NO_DRY_RUN) => Ok(()),
            Err(err) if err.refused() => Err(err.to_string()),
            Err(err) => {
                self.machine.facts.node = Seen::Unknown;
                return Err(err);
            }
        };
        let before = self.machine.facts.rehearsed.as_ref().map(|last| &last.said);
        if let Err(why) = &said
            && before != Some(&said)
        {
            warn!("no slot is taken, as what a hold sets on the own Node would be refused: {why}");
        }
        self.machine.facts.rehearsed = Some(Rehearsed { at: now.boot, said });
        Ok(())
    }

    pub(super) async fn mend(&mut self, left: &Leftovers, now: Now) -> Result<(), ApiError> {
        let Some(connected) = self.api.connected() else {
            return Ok(());
        };
        let answer = connected.node.mend(left, now.boot).await;
        let answered = self.now().boot;
        let node = match answer {
            Ok(node) => node,
            Err(err) => {
                self.machine.facts.node = Seen::Unknown;
                if err.refused() {
                    self.mended(left, answered);
                }
                return Err(err);
            }
        };
        if self.mended(left, answered) {
            // It came back, and would again at once.
            let why = format!(
                "Node {}: {} is there again after it was taken off; does an admission webhook or a tool set it? \
                 kubectl get node {0} -o yaml --show-managed-fields names it",
                node.name,
                left.words()
            );
            self.patience.longer(answered, DROPPED, why);
        }
        self.machine.facts.node = Seen::Present(Box::new(node));
        Ok(())
    }

    /// Remembers what was taken off; whether the same was not long ago.
    fn mended(&mut self, left: &Leftovers, at: Duration) -> bool {
        let point = Point::of_record(&self.machine.facts.record);
        let mended = &mut self.machine.facts.mended;
        mended.retain(|one| one.point == point && at.saturating_sub(one.at) <= LATELY);
        if let Some(before) = mended.iter_mut().find(|one| one.left.same(left)) {
            before.at = at;
            return true;
        }
        let left = left.clone();
        mended.push(Mended { point, at, left });
        false
    }

    /// What the own kube-node-lease Lease shows from now on. A Lease that is not there, or a refusal, must not
    /// keep this node from a slot: it goes on unseen, and tries again later.
    pub(super) async fn mark(&mut self, record: Option<Shown>) -> Result<(), ApiError> {
        let Some(connected) = self.api.connected() else {
            return Ok(());
        };
        let done = match &record {
            Some(shown) => connected.heartbeat.mark(shown).await,
            None => connected.heartbeat.clear().await,
        };
        self.machine.facts.hidden = match &done {
            Err(error) if !error.unanswered() && !error.unauthorized() => Some(Hidden {
                at: self.now().boot,
                missing: matches!(error, ApiError::Gone { .. }),
            }),
            Ok(()) | Err(_) => None,
        };
        if record.is_none() {
            self.machine.facts.crowd = None;
        }
        self.machine.facts.mark = match &done {
            Ok(()) => record.into(),
            Err(_) => Mark::Unknown,
        };
        done
    }
}
