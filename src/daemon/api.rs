//! The connection to the cluster: clients that are rebuilt when their files change, and the watches
//! that run on them (I7).

use tokio::time::Instant;
use tracing::{info, warn};

use crate::cluster::client::{Access, Clients, ConnectError, Connector, Origin, REREAD};
use crate::cluster::lease::{self, Leases};
use crate::cluster::node::{self, OwnNode};
use crate::cluster::pods::{self, OwnPods};
use crate::cluster::waiting::Heartbeat;
use crate::cluster::watch::{Select, Watch};
use crate::node::Node;
use crate::pod::Pod;
use crate::slot::Lease;

/// What the loop asks the cluster through.
pub(super) struct Api {
    origin: Origin,
    connector: Connector,
    connected: Option<Connected>,
    /// A 401 came: the credentials may have been replaced.
    stale: bool,
    /// Kept over a reconnect, so that the node's name never becomes unknown again.
    name: String,
    trouble: String,
}

/// One set of clients and what runs on it.
pub(super) struct Connected {
    pub(super) clients: Clients,
    pub(super) leases: Leases,
    pub(super) node: OwnNode,
    pub(super) pods: OwnPods,
    pub(super) heartbeat: Heartbeat,
    pub(super) lease_watch: Option<(String, Watch<Lease>)>,
    pub(super) node_watch: Option<Watch<Node>>,
    pub(super) pod_watch: Option<Watch<Pod>>,
    namespace: String,
    since: Instant,
}

impl Api {
    pub(super) fn new(access: Access, origin: Origin) -> Self {
        Self {
            connector: Connector::from(access, origin.clone()),
            origin,
            connected: None,
            stale: false,
            name: String::new(),
            trouble: String::new(),
        }
    }

    /// The node's name; empty before the first connection.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The namespace of the Leases, as the clients see it.
    pub(super) fn namespace(&self) -> &str {
        self.connector.namespace()
    }

    pub(super) fn configure(&mut self, access: Access) {
        self.connector = Connector::from(access, self.origin.clone());
        self.connected = None;
    }

    /// The credentials were refused: read them again before the next request.
    pub(super) fn refused(&mut self) {
        self.stale = true;
    }

    pub(super) fn connected(&mut self) -> Option<&mut Connected> {
        self.connected.as_mut()
    }

    /// There are no clients, or it is time to look at the files they were built from.
    pub(super) fn due(&self) -> bool {
        self.connected
            .as_ref()
            .is_none_or(|connected| self.stale || connected.since.elapsed() >= REREAD)
    }

    /// Connects, or again when the files the clients were built from have changed.
    pub(super) async fn connect(&mut self) -> Result<&mut Connected, ConnectError> {
        let look = self.stale
            || self
                .connected
                .as_ref()
                .is_some_and(|connected| connected.since.elapsed() >= REREAD);
        if look
            && self
                .connected
                .as_ref()
                .is_some_and(|connected| connected.clients.outdated())
        {
            self.connected = None;
        }
        let mut connected = match self.connected.take() {
            Some(connected) => connected,
            None => self.build().await?,
        };
        if look {
            connected.since = Instant::now();
        }
        self.stale = false;
        self.trouble.clear();
        Ok(self.connected.insert(connected))
    }

    async fn build(&mut self) -> Result<Connected, ConnectError> {
        let clients = self.connector.connect().await?;
        info!(
            "connected as node {} with {}",
            clients.name,
            clients.path.display()
        );
        self.name.clone_from(&clients.name);
        Ok(Connected::new(clients, self.connector.namespace()))
    }

    /// A failed connection, said once per change.
    pub(super) fn troubled(&mut self, err: &ConnectError) -> String {
        let words = err.to_string();
        if words != self.trouble {
            warn!("{words}");
            self.trouble.clone_from(&words);
        }
        words
    }

    /// Resolves when a watch has news. Cancel-safe.
    pub(super) async fn changed(&mut self) {
        let Some(connected) = &mut self.connected else {
            return std::future::pending().await;
        };
        tokio::select! {
            () = news(connected.lease_watch.as_mut().map(|(_, watch)| watch)) => {}
            () = news(connected.node_watch.as_mut()) => {}
            () = news(connected.pod_watch.as_mut()) => {}
        }
    }
}

async fn news<T>(watch: Option<&mut Watch<T>>)
where
    T: Clone + std::fmt::Debug + PartialEq + Send + Sync + 'static,
{
    match watch {
        Some(watch) => watch.changed().await,
        None => std::future::pending().await,
    }
}

impl Connected {
    fn new(clients: Clients, namespace: &str) -> Self {
        Self {
            leases: Leases::new(clients.coordinator.clone(), namespace, &clients.name),
            node: OwnNode::new(clients.node.clone(), &clients.name),
            pods: OwnPods::new(clients.node.clone(), &clients.name),
            heartbeat: Heartbeat::new(clients.node.clone(), &clients.name),
            clients,
            lease_watch: None,
            node_watch: None,
            pod_watch: None,
            namespace: namespace.to_owned(),
            since: Instant::now(),
        }
    }

    /// The last sign of life on any watch.
    pub(super) fn heard(&self) -> Option<Instant> {
        let leases = self
            .lease_watch
            .as_ref()
            .and_then(|(_, watch)| watch.heard());
        let node = self.node_watch.as_ref().and_then(Watch::heard);
        let pods = self.pod_watch.as_ref().and_then(Watch::heard);
        leases.max(node).max(pods)
    }

    pub(super) fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Watches the own Node and the group's Leases; and the own pods only while they matter.
    pub(super) fn watch(&mut self, group: &str, with_pods: bool) {
        if self
            .lease_watch
            .as_ref()
            .is_none_or(|(watched, _)| watched != group)
        {
            let select = Select {
                labels: Some(lease::selector(group)),
                fields: None,
            };
            let watch = Watch::start("watch Leases", self.leases.api(), select, |object| {
                lease::read(object, None)
            });
            self.lease_watch = Some((group.to_owned(), watch));
        }
        if self.node_watch.is_none() {
            let select = Select {
                labels: None,
                fields: Some(self.node.fields()),
            };
            let watch = Watch::start("watch own Node", self.node.api(), select, |object| {
                node::read(object, None)
            });
            self.node_watch = Some(watch);
        }
        if !with_pods {
            self.pod_watch = None;
        } else if self.pod_watch.is_none() {
            let select = Select {
                labels: None,
                fields: Some(self.pods.fields()),
            };
            let watch = Watch::start("watch own pods", self.pods.api(), select, pods::read);
            self.pod_watch = Some(watch);
        }
    }
}
