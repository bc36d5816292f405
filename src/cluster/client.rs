//! The two faces of one kubeconfig: the node client and the coordinator client (docs/design.md 3).
//!
//! Both are built from one credential and replaced together. Files are read on a thread of their
//! own under a timeout, plugins run in `plugin`: what hangs must not stop the loop (I7). The node's name
//! is what the API server says about the credential, never guessed (I11).

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use jiff::fmt::rfc2822::DateTimeParser;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use kube::api::PostParams;
use kube::client::Body;
use kube::config::AuthInfo;
use kube::{Api, Client};
use kube_rebootd_core::kubelet::MainProcess;
use kube_rebootd_core::plugin::{Plugin, PluginError};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use crate::cluster::answer::{ApiError, CALL, call};
use crate::cluster::connect_error::{ConnectError, NODE_USER};
use crate::cluster::credentials::Fingerprint;
use crate::cluster::identity::Identity;
use crate::cluster::plugin;
use crate::cluster::readyz::ApiServer;
use crate::root::Root;

/// Longest time for reading the files of one client.
const BUILD: Duration = Duration::from_secs(30);
/// So long before a plugin's credential ends a new one is asked for, as kube and client-go do for tokens.
pub const RENEW: SignedDuration = SignedDuration::from_secs(60);
/// But not before this share of its life is over: what is given for a minute is not asked for all the time.
const SHARE: i32 = 5;
/// How often credentials are looked at without any other sign (docs/design.md 3).
pub const REREAD: Duration = Duration::from_secs(600);
/// On every request, so that an audit log shows who it was.
const AGENT: &str = concat!("kube-rebootd/", env!("CARGO_PKG_VERSION"));
/// Of a person's commands: what the daemon asked can be counted by itself (I11).
const PERSONS_AGENT: &str = concat!("kube-rebootd-cli/", env!("CARGO_PKG_VERSION"));

/// What the clients are built from: `[node]` and `[coordination]` of the configuration.
#[derive(Debug, Clone)]
pub struct Access {
    pub root: Root,
    /// None: search.
    pub kubeconfig: Option<PathBuf>,
    /// None: the kubeconfig's own.
    pub context: Option<String>,
    /// Only for an identity that is no node's.
    pub node_name: Option<String>,
    pub namespace: String,
    /// `ServiceAccount` to act as; None: the node's identity as it is.
    pub impersonate: Option<String>,
    /// An identity of its own instead.
    pub coordinator_kubeconfig: Option<PathBuf>,
    /// Send `Impersonate-Extra-node` (`manifests --strict`).
    pub prove_node: bool,
    /// `gates.api_servers`.
    pub api_servers: Vec<String>,
}

/// Both clients and whose they are. Clones are cheap; drop all of them when rebuilt, as old
/// connections keep their old certificate.
#[derive(Clone)]
pub struct Clients {
    pub node: Client,
    pub coordinator: Client,
    /// The API servers that `gates.api_servers` names.
    pub api_servers: Vec<ApiServer>,
    /// The node's name.
    pub name: String,
    /// The kubeconfig in use, as the host sees it.
    pub path: PathBuf,
    fingerprints: Vec<Fingerprint>,
    /// Until when a plugin said that its credential is good.
    valid_until: Option<Timestamp>,
    /// When it was given, by this host's clock.
    given: Timestamp,
}

impl Clients {
    /// How long no new credential of a plugin is needed, by this host's clock; none: it has no end.
    pub fn good_for(&self, now: Timestamp) -> Option<Duration> {
        Some(good_for(self.given, self.valid_until?, now))
    }

    /// What the plugin gave was good for less than [`RENEW`], or had ended before it was given.
    pub fn short_lived(&self) -> bool {
        let life = |end: Timestamp| end.duration_since(self.given);
        self.valid_until.is_some_and(|end| life(end) < RENEW)
    }

    /// A file they were built from has changed: build new ones. Reads local files.
    pub fn outdated(&self) -> bool {
        self.fingerprints.iter().any(Fingerprint::changed)
    }

    /// The files they were built from, to be watched.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        self.fingerprints.iter().flat_map(Fingerprint::files)
    }
}

/// Until a minute before its end, or until four fifths of its life are over, whichever comes later.
fn good_for(given: Timestamp, end: Timestamp, now: Timestamp) -> Duration {
    let share = end.duration_since(given) / SHARE;
    let left = end.duration_since(now) - RENEW.min(share);
    Duration::try_from(left).unwrap_or_default()
}

/// How a daemon comes by its clients.
#[derive(Clone)]
pub enum Origin {
    /// Built from the kubeconfig, and again when it changes.
    Kubeconfig,
    /// Made elsewhere, for a server in the same process. Whose they are is asked all the same.
    Given {
        node: Client,
        coordinator: Box<Client>,
        /// The other API servers, where the configuration names them.
        api_servers: Vec<ApiServer>,
    },
}

/// Builds clients, one attempt at a time: a file system that hangs costs one thread, not one a retry.
#[derive(Clone)]
pub struct Connector {
    access: Access,
    origin: Origin,
    /// Which processes are the kubelet, when that was asked for.
    kubelets: Vec<MainProcess>,
    building: Arc<AtomicBool>,
}

impl Connector {
    pub fn new(access: Access) -> Self {
        Self::from(access, Origin::Kubeconfig)
    }

    /// With another origin of the clients than the kubeconfig.
    pub fn from(access: Access, origin: Origin) -> Self {
        Self {
            access,
            origin,
            kubelets: Vec::new(),
            building: Arc::default(),
        }
    }

    /// The kubeconfig is searched for: whoever connects may name running kubelets first.
    pub fn searches(&self) -> bool {
        self.access.kubeconfig.is_none() && matches!(self.origin, Origin::Kubeconfig)
    }

    /// The same, with the main processes that PID 1 names as kubelets.
    #[must_use]
    pub fn with_kubelets(mut self, kubelets: Vec<MainProcess>) -> Self {
        self.kubelets = kubelets;
        self
    }

    /// Of the Leases.
    pub fn namespace(&self) -> &str {
        &self.access.namespace
    }

    /// Comes by both clients and asks the API server for the node's name. A credential plugin is run as a child.
    pub async fn connect(&self) -> Result<Clients, ConnectError> {
        self.connect_by(plugin::directly).await
    }

    /// The same, where `run` runs the credential plugins.
    pub async fn connect_by<F>(&self, run: impl Fn(Plugin) -> F) -> Result<Clients, ConnectError>
    where
        F: Future<Output = Result<Vec<u8>, PluginError>>,
    {
        let Origin::Given {
            node,
            coordinator,
            api_servers,
        } = &self.origin
        else {
            return self.read_kubeconfig(run).await;
        };
        Ok(Clients {
            node: node.clone(),
            coordinator: Client::clone(coordinator),
            api_servers: api_servers.clone(),
            name: self.name(node).await?,
            path: PathBuf::new(),
            fingerprints: Vec::new(),
            valid_until: None,
            given: Timestamp::now(),
        })
    }

    /// Reads the credentials and builds both clients.
    async fn read_kubeconfig<F>(&self, run: impl Fn(Plugin) -> F) -> Result<Clients, ConnectError>
    where
        F: Future<Output = Result<Vec<u8>, PluginError>>,
    {
        let access = &self.access;
        let context = access.context.clone();
        let mut own = self.read(access.kubeconfig.clone(), context).await?;
        let mut valid_until = own.settle(&run).await?;
        let given = Timestamp::now();
        let node = self.client(&own, AGENT).await?;
        let name = self.name(&node).await?;
        let path = own.path.clone();
        let mut fingerprints = vec![own.fingerprint.clone()];
        let mut api_servers = Vec::new();
        for url in &access.api_servers {
            let client = self.client(&own.at(url)?, AGENT).await?;
            api_servers.push(ApiServer::new(url, client));
        }
        let coordinator = if let Some(path) = access.coordinator_kubeconfig.clone() {
            let mut other = self.read(Some(path), None).await?;
            let end = other.settle(&run).await?;
            valid_until = valid_until.into_iter().chain(end).min();
            fingerprints.push(other.fingerprint.clone());
            self.client(&other, AGENT).await?
        } else if let Some(account) = &access.impersonate {
            act_as(&mut own.config.auth_info, access, account, &name);
            self.client(&own, AGENT).await?
        } else {
            node.clone()
        };
        Ok(Clients {
            node,
            coordinator,
            api_servers,
            name,
            path,
            fingerprints,
            valid_until,
            given,
        })
    }

    async fn read(
        &self,
        explicit: Option<PathBuf>,
        context: Option<String>,
    ) -> Result<Identity, ConnectError> {
        let (root, kubelets) = (self.access.root.clone(), self.kubelets.clone());
        self.build(move || Identity::read(&root, explicit.as_deref(), &kubelets, context))
            .await
    }

    async fn client(
        &self,
        identity: &Identity,
        agent: &'static str,
    ) -> Result<Client, ConnectError> {
        let identity = identity.clone();
        self.build(move || identity.client(agent)).await
    }

    /// Runs `work`, which may block for as long as it likes, for at most [`BUILD`].
    async fn build<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, ConnectError> + Send + 'static,
    ) -> Result<T, ConnectError> {
        if self.building.swap(true, Ordering::AcqRel) {
            return Err(ConnectError::Slow(BUILD));
        }
        let (send, receive) = oneshot::channel();
        let building = Arc::clone(&self.building);
        let handle = Handle::current();
        // Not tokio's blocking pool: the runtime would wait for it when the daemon ends.
        std::thread::spawn(move || {
            let _entered = handle.enter();
            let result = work();
            building.store(false, Ordering::Release);
            let _ = send.send(result);
        });
        match tokio::time::timeout(BUILD, receive).await {
            Ok(Ok(result)) => result,
            Ok(Err(_)) | Err(_) => Err(ConnectError::Slow(BUILD)),
        }
    }

    /// The node's name, by the API server's word.
    async fn name(&self, node: &Client) -> Result<String, ConnectError> {
        let user = whoami(node).await?;
        named(&user, self.access.node_name.as_deref())
    }
}

fn named(user: &str, configured: Option<&str>) -> Result<String, ConnectError> {
    match (user.strip_prefix(NODE_USER), configured) {
        (Some(real), Some(configured)) if real != configured => Err(ConnectError::OtherNode {
            configured: configured.to_owned(),
            real: real.to_owned(),
        }),
        (Some(real), _) if !real.is_empty() => Ok(real.to_owned()),
        (None, Some(configured)) => Ok(configured.to_owned()),
        (Some(_) | None, _) => Err(ConnectError::NotANode {
            user: user.to_owned(),
        }),
    }
}

fn act_as(user: &mut AuthInfo, access: &Access, account: &str, name: &str) {
    user.impersonate = Some(format!(
        "system:serviceaccount:{}:{account}",
        access.namespace
    ));
    user.impersonate_uid = None;
    user.impersonate_groups = None;
    user.impersonate_user_extra = access
        .prove_node
        .then(|| HashMap::from([("node".to_owned(), vec![name.to_owned()])]));
}

/// A client of a person's kubeconfig, and which cluster it leads to.
pub struct Admin {
    pub client: Client,
    /// Address of the API server.
    pub server: String,
    /// Name of the context in the kubeconfig.
    pub context: String,
}

/// For `nodes` and `unlock`: the client of a person's kubeconfigs, merged, with `context` or the current one.
pub async fn admin(files: Vec<PathBuf>, context: Option<String>) -> Result<Admin, ConnectError> {
    let connector = Connector::new(Access {
        root: Root::host(),
        kubeconfig: None,
        context: None,
        node_name: None,
        namespace: String::new(),
        impersonate: None,
        coordinator_kubeconfig: None,
        prove_node: false,
        api_servers: Vec::new(),
    });
    let read = connector.build(move || Identity::persons(&files, context));
    let mut identity = read.await?;
    identity.settle(plugin::directly).await?;
    Ok(Admin {
        client: connector.client(&identity, PERSONS_AGENT).await?,
        server: identity.config.cluster_url.to_string(),
        context: identity.context,
    })
}

/// Who the API server says this client is.
pub async fn whoami(client: &Client) -> Result<String, ApiError> {
    let api: Api<SelfSubjectReview> = Api::all(client.clone());
    let (params, question) = (PostParams::default(), SelfSubjectReview::default());
    let review = call("ask who we are", CALL, api.create(&params, &question)).await?;
    Ok(review
        .status
        .and_then(|status| status.user_info)
        .and_then(|user| user.username)
        .unwrap_or_default())
}

/// The API server's clock, in whole seconds, as each of its answers tells it; none: it does not say.
pub async fn server_time(client: &Client) -> Option<Timestamp> {
    // Anybody may ask for it, and a refusal tells the time as well.
    let request = http::Request::get("/version").body(Body::empty()).ok()?;
    let answer = tokio::time::timeout(CALL, client.send(request)).await;
    let answer = answer.ok()?.ok()?;
    let date = answer.headers().get(http::header::DATE)?.to_str().ok()?;
    DateTimeParser::new().parse_timestamp(date).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_the_servers_and_a_configured_one_only_for_others() {
        assert!(matches!(named("system:node:n1", None), Ok(name) if name == "n1"));
        assert!(matches!(named("system:node:n1", Some("n1")), Ok(name) if name == "n1"));
        assert!(matches!(
            named("system:node:n1", Some("n2")),
            Err(ConnectError::OtherNode { .. })
        ));
        assert!(matches!(named("rebootd", Some("n2")), Ok(name) if name == "n2"));
        assert!(matches!(
            named("rebootd", None),
            Err(ConnectError::NotANode { .. })
        ));
        assert!(matches!(
            named("system:node:", None),
            Err(ConnectError::NotANode { .. })
        ));
    }

    #[test]
    fn a_credential_is_renewed_a_minute_before_its_end_or_after_four_fifths_of_a_short_life() {
        let given = Timestamp::UNIX_EPOCH;
        let at = |seconds: i64| given + SignedDuration::from_secs(seconds);
        for (life, passed, left) in [
            (3600, 0, 3540),
            (3600, 3539, 1),
            (3600, 3540, 0),
            (62, 2, 47),
            (30, 0, 24),
            (30, 24, 0),
            (5, 0, 4),
            (0, 0, 0),
            (-50, 0, 0),
            (-3600, 0, 0),
        ] {
            let found = good_for(given, at(life), at(passed));
            assert_eq!(found.as_secs(), left, "{life} {passed}");
        }
    }

    #[tokio::test]
    async fn i7_a_file_system_that_hangs_costs_one_thread() {
        let connector = Connector::new(Access {
            root: Root::host(),
            kubeconfig: None,
            context: None,
            node_name: None,
            namespace: String::new(),
            impersonate: None,
            coordinator_kubeconfig: None,
            prove_node: false,
            api_servers: Vec::new(),
        });
        let (release, held) = std::sync::mpsc::channel::<()>();
        let other = connector.clone();
        let first = tokio::spawn(async move {
            other
                .build(move || {
                    let _ = held.recv();
                    Ok(())
                })
                .await
        });
        while !connector.building.load(Ordering::Acquire) {
            tokio::task::yield_now().await;
        }
        let second = connector.build(|| Ok(())).await;
        assert!(matches!(second, Err(ConnectError::Slow(_))));
        drop(release);
        assert!(first.await.expect("joined").is_ok());
        assert!(connector.build(|| Ok(())).await.is_ok());
    }
}
