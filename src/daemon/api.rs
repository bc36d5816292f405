//! The connection to the cluster: clients that are rebuilt when their credential changes, ends or is
//! refused, and the watches that run on them (I7).

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kube_rebootd_core::node::Node;
use kube_rebootd_core::pod::Pod;
use kube_rebootd_core::slot::Lease;
use kube_rebootd_core::text::{self, MESSAGE};
use tokio::task::JoinHandle;
use tracing::{info, warn};

use super::credential::{AGAIN, FLOOR, SOON, connect, renewal, spaced};
use crate::clock::Clock;
use crate::cluster::client::{Access, Clients, Connector, Origin, REREAD};
use crate::cluster::connect_error::ConnectError;
use crate::cluster::heartbeat::Heartbeat;
use crate::cluster::lease::{self, Leases};
use crate::cluster::node::{self, OwnNode};
use crate::cluster::pods::{self, OwnPods};
use crate::cluster::watch::{Select, Signs, Watch};
use crate::host::{Bus, sentinel};
use crate::root::Root;

/// So long after the last wish the own Node is watched as if there were one: a trigger that flaps must not
/// open a watch each time.
const CALM: Duration = Duration::from_secs(600);

/// How long the loop waits for new clients before it looks around again: a plugin may take far longer.
const PATIENCE: Duration = Duration::from_secs(2);
/// Between looks at whether they are there by now.
const GLANCE: Duration = Duration::from_millis(50);

/// What the loop asks the cluster through.
pub(super) struct Api {
    root: Root,
    bus: Bus,
    clock: Clock,
    origin: Origin,
    connector: Connector,
    connected: Option<Connected>,
    /// New clients in the making, beside the loop.
    building: Option<JoinHandle<Result<Clients, ConnectError>>>,
    /// Tells when a file that the clients were built from may have changed; the poll is the truth.
    files: Option<sentinel::Watch>,
    /// Something happened to one of those files.
    touched: bool,
    /// A 401 came: whatever the files say, these clients are of no use.
    stale: bool,
    /// So many credentials in a row lived shorter than the time until the next one.
    short: u32,
    /// Somebody was told that they are short-lived.
    warned: bool,
    /// Kept over a reconnect, so that the node's name never becomes unknown again.
    name: Option<String>,
    trouble: String,
}

/// What is asked through one set of clients.
pub(super) struct Requests {
    pub(super) clients: Clients,
    pub(super) leases: Leases,
    pub(super) node: OwnNode,
    pub(super) pods: OwnPods,
    pub(super) heartbeat: Heartbeat,
    /// Of the Leases.
    pub(super) namespace: String,
}

/// One set of clients and the watches that run on it; moments are those of the boot clock.
pub(super) struct Connected {
    requests: Arc<Requests>,
    clock: Clock,
    pub(super) lease_watch: Option<(String, Watch<Lease>)>,
    pub(super) node_watch: Option<(Signs, Watch<Node>)>,
    /// When something was wanted or held last.
    busy: Option<Duration>,
    pub(super) pod_watch: Option<Watch<Pod>>,
    /// When its files were last looked at.
    looked: Duration,
    /// A renewal failed: not before this.
    again: Option<Duration>,
    /// No renewal before this, whatever end the credential has.
    floor: Duration,
}

impl Api {
    pub(super) fn new(access: Access, origin: Origin, bus: Bus, clock: Clock) -> Self {
        Self {
            root: access.root.clone(),
            bus,
            clock,
            connector: Connector::from(access, origin.clone()),
            origin,
            connected: None,
            building: None,
            files: None,
            touched: false,
            stale: false,
            short: 0,
            warned: false,
            name: None,
            trouble: String::new(),
        }
    }

    /// The node's name; none before the first connection.
    pub(super) fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// The namespace of the Leases, as the clients see it.
    pub(super) fn namespace(&self) -> &str {
        self.connector.namespace()
    }

    pub(super) fn configure(&mut self, access: Access) {
        self.connector = Connector::from(access, self.origin.clone());
        if let Some(outdated) = self.building.take() {
            outdated.abort();
        }
        self.connected = None;
    }

    /// The credentials were refused: read them again before the next request.
    pub(super) fn refused(&mut self) {
        self.stale = true;
    }

    pub(super) fn connected(&mut self) -> Option<&mut Connected> {
        self.connected.as_mut()
    }

    pub(super) fn requests(&self) -> Option<Arc<Requests>> {
        let connected = self.connected.as_ref();
        connected.map(|connected| connected.requests.clone())
    }

    /// There are no clients, or it is time to look at what they were built from.
    pub(super) fn due(&self) -> bool {
        self.building.is_some()
            || self
                .connected
                .as_ref()
                .is_none_or(|connected| self.stale || self.look(connected) || connected.ending())
    }

    fn look(&self, connected: &Connected) -> bool {
        connected.patient() && (self.touched || self.clock.now().since(connected.looked) >= REREAD)
    }

    /// A file of the credential was written since it was last read.
    pub(super) fn touched(&self) -> bool {
        self.touched
    }

    /// Connects, or again, in one piece: when a file of the clients has changed, their credential ends
    /// soon, or it was refused. What is not refused serves until there is a successor.
    pub(super) async fn connect(&mut self) -> Result<Arc<Requests>, ConnectError> {
        let looks = self
            .connected
            .as_ref()
            .is_some_and(|connected| self.look(connected));
        let connected = match self.connected.take() {
            Some(old) if !self.stale => self.renewed(old, looks).await,
            Some(_) | None => self.build().await?,
        };
        self.stale = false;
        Ok(self.connected.insert(connected).requests.clone())
    }

    async fn renewed(&mut self, mut old: Connected, looks: bool) -> Connected {
        if looks {
            self.touched = false;
            old.looked = self.clock.now().boot;
        }
        let wanted = self.building.is_some() || old.ending();
        let changed = looks && old.requests.clients.outdated();
        if !wanted && !changed {
            return old;
        }
        match self.build().await {
            Ok(new) => new,
            Err(ConnectError::Pending) => old,
            Err(err) => {
                self.troubled(&err);
                // The change is still to be followed.
                self.touched = true;
                old.again = Some(self.clock.now().boot + AGAIN);
                old
            }
        }
    }

    async fn build(&mut self) -> Result<Connected, ConnectError> {
        let building = if let Some(building) = &mut self.building {
            building
        } else {
            self.touched = false;
            let (connector, bus) = (self.connector.clone(), self.bus.clone());
            let root = self.root.clone();
            let connect = async move { Box::pin(connect(&connector, &root, &bus)).await };
            self.building.insert(tokio::spawn(connect))
        };
        let Ok(built) = tokio::time::timeout(PATIENCE, building).await else {
            return Err(ConnectError::Pending);
        };
        self.building = None;
        let clients = match built.unwrap_or(Err(ConnectError::Pending)) {
            Ok(clients) => clients,
            Err(err) => {
                if let ConnectError::NoKubeconfig(searched) = &err
                    && self.files.is_none()
                {
                    self.watch_files(searched.iter().map(|one| one.path.as_path()));
                }
                return Err(err);
            }
        };
        info!(
            "connected as node {} with {}",
            clients.name,
            clients.path.display()
        );
        self.name = Some(clients.name.clone());
        self.trouble.clear();
        self.watch_files(clients.files());
        // What changed between reading and watching.
        self.touched = clients.outdated();
        let spacing = self.spacing(&clients);
        let (namespace, clock) = (self.connector.namespace(), self.clock.clone());
        Ok(Connected::new(clients, namespace, clock, spacing))
    }

    /// How long these clients serve at least. Longer each time when the plugin gives what has ended, or ends at
    /// once: neither this host nor the plugin's service is to be busy with that.
    fn spacing(&mut self, clients: &Clients) -> Duration {
        if !clients.short_lived() {
            (self.short, self.warned) = (0, false);
            return FLOOR;
        }
        if !self.warned {
            self.warned = true;
            let path = clients.path.display();
            warn!(
                "the credential plugin of {path} gives credentials that end within a minute, or have ended: is this host's clock right (timedatectl), and what does the plugin say when root runs it?"
            );
        }
        let (spacing, short) = spaced(self.short, clients.good_for(Timestamp::now()));
        self.short = short;
        spacing
    }

    fn watch_files<'a>(&mut self, files: impl Iterator<Item = &'a Path>) {
        let files: Vec<String> = files
            .filter_map(|file| file.to_str().map(str::to_owned))
            .collect();
        // Given clients have none.
        self.files = (!files.is_empty()).then(|| sentinel::Watch::new(&self.root, &files));
    }

    /// A failed connection, said once per change.
    pub(super) fn troubled(&mut self, err: &ConnectError) -> String {
        let words = text::clean(&err.to_string(), MESSAGE);
        if words != self.trouble {
            warn!("{words}");
            self.trouble.clone_from(&words);
        }
        words
    }

    /// Resolves when a watch has news. Cancel-safe.
    pub(super) async fn changed(&mut self) {
        let Some(connected) = &mut self.connected else {
            touched(self.files.as_mut()).await;
            self.touched = true;
            return;
        };
        // Apart from what the watches below borrow.
        let left = connected.requests.clients.good_for(Timestamp::now());
        let now = self.clock.now().boot;
        let left = left.map(|left| left.max(connected.floor.saturating_sub(now)));
        let pause = connected.again.map(|again| again.saturating_sub(now));
        let renewal = renewal(left, self.touched, pause.unwrap_or_default());
        tokio::select! {
            () = touched(self.files.as_mut()) => {
                self.touched = true;
                let soon = self.clock.now().boot + SOON;
                connected.again = connected.again.map(|again| again.min(soon));
            }
            () = renewal => {}
            () = built(self.building.as_ref()) => {}
            () = news(connected.lease_watch.as_mut().map(|(_, watch)| watch)) => {}
            () = news(connected.node_watch.as_mut().map(|(_, watch)| watch)) => {}
            () = news(connected.pod_watch.as_mut()) => {}
        }
    }
}

async fn touched(files: Option<&mut sentinel::Watch>) {
    match files {
        Some(files) => files.changed().await,
        None => std::future::pending().await,
    }
}

/// Resolves when the new clients are there.
async fn built<T>(building: Option<&JoinHandle<T>>) {
    let Some(building) = building else {
        return std::future::pending().await;
    };
    while !building.is_finished() {
        tokio::time::sleep(GLANCE).await;
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
    /// They serve at least as long as `spacing` says.
    fn new(clients: Clients, namespace: &str, clock: Clock, spacing: Duration) -> Self {
        let now = clock.now().boot;
        let requests = Requests {
            leases: Leases::new(clients.coordinator.clone(), namespace, &clients.name),
            node: OwnNode::new(clients.node.clone(), &clients.name),
            pods: OwnPods::new(clients.node.clone(), &clients.name),
            heartbeat: Heartbeat::new(clients.node.clone(), &clients.name),
            clients,
            namespace: namespace.to_owned(),
        };
        Self {
            requests: Arc::new(requests),
            clock,
            lease_watch: None,
            node_watch: None,
            busy: None,
            pod_watch: None,
            looked: now,
            again: None,
            floor: now + spacing,
        }
    }

    /// A renewal may be tried.
    fn patient(&self) -> bool {
        self.again
            .is_none_or(|again| self.clock.now().boot >= again)
    }

    fn ending(&self) -> bool {
        self.patient()
            && self.clock.now().boot >= self.floor
            && self.requests.clients.good_for(Timestamp::now()) == Some(Duration::ZERO)
    }

    /// The last sign of life on any watch.
    pub(super) fn heard(&self) -> Option<Duration> {
        let leases = self
            .lease_watch
            .as_ref()
            .and_then(|(_, watch)| watch.heard());
        let node = self.node_watch.as_ref();
        let node = node.and_then(|(_, watch)| watch.heard());
        let pods = self.pod_watch.as_ref().and_then(Watch::heard);
        leases.max(node).max(pods)
    }

    /// Watches the own Node and the group's Leases; and the own pods only while they matter. An idle
    /// node is woken by no bookmark for its Node: what it misses is a new connection some minutes earlier.
    pub(super) fn watch(&mut self, group: &str, busy: bool, with_pods: bool) {
        if self
            .lease_watch
            .as_ref()
            .is_none_or(|(watched, _)| watched != group)
        {
            let select = Select {
                labels: Some(lease::selector(group)),
                fields: None,
                ..Select::default()
            };
            let (api, signs) = (self.requests.leases.api(), Signs::Bookmarks);
            let clock = self.clock.clone();
            let watch = Watch::start("watch Leases", api, select, signs, clock, |object| {
                lease::read(object, None)
            });
            self.lease_watch = Some((group.to_owned(), watch));
        }
        let now = self.clock.now();
        self.busy = if busy { Some(now.boot) } else { self.busy };
        let signs = match self.busy {
            Some(since) if now.since(since) < CALM => Signs::Bookmarks,
            Some(_) | None => Signs::NodeStatus,
        };
        if self
            .node_watch
            .as_ref()
            .is_none_or(|(watched, _)| *watched != signs)
        {
            let select = Select {
                labels: None,
                fields: Some(self.requests.node.fields()),
                ..Select::default()
            };
            let api = self.requests.node.api();
            let clock = self.clock.clone();
            let watch = Watch::start("watch own Node", api, select, signs, clock, |object| {
                node::read(object, None)
            });
            self.node_watch = Some((signs, watch));
        }
        if !with_pods {
            self.pod_watch = None;
        } else if self.pod_watch.is_none() {
            let select = Select {
                labels: None,
                fields: Some(self.requests.pods.fields()),
                ..Select::default()
            };
            let (api, signs) = (self.requests.pods.api(), Signs::Bookmarks);
            let clock = self.clock.clone();
            let watch = Watch::start("watch own pods", api, select, signs, clock, pods::read);
            self.pod_watch = Some(watch);
        }
    }
}
