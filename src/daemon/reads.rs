//! What is asked of the API server so that a step can rest on it; each answer becomes a fact (I2, I5, I7).

use kube_rebootd_core::facts::Waiters;
use kube_rebootd_core::names::option;
use kube_rebootd_core::node::Seen;
use kube_rebootd_core::now::Now;
use kube_rebootd_core::peers::Peers;
use kube_rebootd_core::slot::Crowd;

use super::Daemon;
use super::api::Requests;
use crate::cluster::answer::ApiError;
use crate::cluster::heartbeat;
use crate::cluster::peers::Question;

/// So often the others are counted without an answer, with growing pauses of a minute or two together, before they are
/// taken for many.
const UNCOUNTED: u32 = 8;

impl Daemon {
    /// The three reads of a start.
    pub(super) async fn read_start(&mut self, now: Now) {
        let Some(requests) = self.connect().await else {
            return;
        };
        let clock = self.clock.clone();
        let leases = requests.leases.all(now.boot).await;
        // Later than the Leases, and it says so: what has happened in between shows on one of both only.
        let node = requests.node.get(clock.now().boot).await;
        let beat = requests.heartbeat.get().await;
        // A node that has rebooted can prove itself and uncordon by what it reads of its own Node alone.
        if let Ok(node) = &node {
            self.machine.read_node(node.clone());
        }
        match (leases, node, beat) {
            (Ok(leases), Ok(_), Ok(beat)) => {
                let mark = beat.and_then(|beat| beat.waiting);
                self.machine.read_start(leases, mark, clock.now().boot);
                self.api_backoff.request_begins(false);
                self.api_backoff.request_worked(now.boot);
            }
            (Err(err), ..) | (_, Err(err), _) | (.., Err(err)) => {
                let denied = denied(&err, self.machine.namespace());
                self.machine.denied(denied.clone());
                self.machine
                    .no_leases(denied.unwrap_or_else(|| err.to_string()));
                self.failed(&err);
            }
        }
    }

    pub(super) async fn read_lease(
        &mut self,
        requests: &Requests,
        name: &str,
        now: Now,
    ) -> Result<(), ApiError> {
        let read = requests.leases.get(name, now.boot).await;
        let namespace = self.machine.namespace();
        let why = read.as_ref().err();
        let why = why.and_then(|err| denied(err, namespace));
        self.machine.denied(why);
        let seen = self.now().boot;
        self.machine.read_lease(name, read?, now, seen);
        Ok(())
    }

    pub(super) async fn read_node(
        &mut self,
        requests: &Requests,
        now: Now,
    ) -> Result<(), ApiError> {
        let node = requests.node.get(now.boot).await;
        if !node.as_ref().is_err_and(ApiError::unanswered) {
            let answered = self.now().boot;
            self.machine.answered(now.boot, answered);
        }
        self.machine.read_node(node?);
        Ok(())
    }

    pub(super) async fn read_mark(&mut self, requests: &Requests) -> Result<(), ApiError> {
        let beat = requests.heartbeat.get().await?;
        self.machine.read_mark(beat.and_then(|beat| beat.waiting));
        Ok(())
    }

    pub(super) async fn list_peers(
        &mut self,
        requests: &Requests,
        now: Now,
    ) -> Result<(), ApiError> {
        // A Node that is not known may be one of the quorum.
        let quorum = !matches!(&self.machine.facts().node, Seen::Present(node) if !node.quorum());
        let question = others(requests, quorum, now);
        let me = &requests.clients.name;
        let matters = |peers: &Peers| self.machine.counts(peers, me);
        let list = question.list(matters).await?;
        let (peers, beats) = list;
        self.machine.see_peers(peers, &beats, self.clock.now().boot);
        Ok(())
    }

    pub(super) async fn list_waiters(
        &mut self,
        requests: &Requests,
        now: Now,
    ) -> Result<(), ApiError> {
        let group = self.machine.group();
        let clients = &requests.clients;
        let list = heartbeat::list(&clients.coordinator, &group, &clients.name).await;
        let before = self.machine.facts().waiters.as_ref();
        let waiters = match &list {
            Ok(list) => Some(Waiters::listed(now.boot, list.clone())),
            // New credentials may read it.
            Err(err) if err.unauthorized() => None,
            Err(err) => Some(Waiters::unlisted(before, now.boot, !err.unanswered())),
        };
        self.machine.see_waiters(waiters);
        list.map(drop)
    }

    /// All at once, and all or nothing: what was answered alone is no proof.
    pub(super) async fn confirm(
        &mut self,
        requests: &Requests,
        name: &str,
        quorum: bool,
        now: Now,
    ) -> Result<(), ApiError> {
        let peers = async {
            if !quorum {
                return Ok(None);
            }
            others(requests, true, now).list_all().await.map(Some)
        };
        let (lease, node, pods, peers) = tokio::join!(
            requests.leases.get(name, now.boot),
            requests.node.get(now.boot),
            requests.pods.list(),
            peers
        );
        let (lease, node, pods, peers) = (lease?, node?, pods?, peers?);
        let answered = self.now().boot;
        self.machine.read_lease(name, lease, now, answered);
        self.machine.read_node(node);
        self.machine.listed(&pods, now.boot);
        if let Some((peers, beats)) = peers {
            self.machine.see_peers(peers, &beats, answered);
        }
        self.machine.confirmed(now);
        Ok(())
    }

    /// Who may not list them does not know how many wait, and must not act as if it were alone.
    pub(super) async fn count_waiters(&mut self, requests: &Requests) -> Result<(), ApiError> {
        let group = self.machine.group();
        let clients = &requests.clients;
        let counted = heartbeat::count(&clients.coordinator, &group, &clients.name).await;
        let unknown = Crowd {
            many: true,
            ..Crowd::default()
        };
        let crowd = match counted {
            Ok(crowd) => crowd,
            // While the whole server is silent this waits like all else; where only this list is not to be had, no
            // node waits for it for ever.
            Err(error) if error.unanswered() && self.uncounted < UNCOUNTED => {
                self.uncounted += 1;
                return Err(error);
            }
            Err(error) if error.unauthorized() => return Err(error),
            Err(_) => unknown,
        };
        self.uncounted = 0;
        self.machine.see_crowd(crowd);
        Ok(())
    }

    pub(super) async fn list_pods(
        &mut self,
        requests: &Requests,
        now: Now,
    ) -> Result<(), ApiError> {
        let pods = requests.pods.list().await?;
        self.machine.listed(&pods, now.boot);
        Ok(())
    }
}

/// What is asked about the other Nodes.
fn others(requests: &Requests, quorum: bool, now: Now) -> Question<'_> {
    let clients = &requests.clients;
    Question {
        coordinator: &clients.coordinator,
        namespace: &requests.namespace,
        me: &clients.name,
        quorum,
        asked: now.boot,
    }
}

/// A refusal of what only the coordinator may do, with its cure; none: another kind of trouble.
pub(super) fn denied(err: &ApiError, namespace: &str) -> Option<String> {
    err.refused().then(|| {
        format!(
            "{err}; are the manifests applied, with the same options as before? \
             kube-rebootd manifests{} [--constrained | --strict NODE...] | kubectl apply -f -",
            option(namespace)
        )
    })
}
