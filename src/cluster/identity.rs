//! From a kubeconfig to a client: what of it is used, and how (I7, I14).

use std::path::{Path, PathBuf};
use std::time::Duration;

use http::HeaderValue;
use http::header::USER_AGENT;
use jiff::Timestamp;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use kube_rebootd_core::kubelet::MainProcess;
use kube_rebootd_core::plugin::{Plugin, PluginError};
use tokio::runtime::Handle;

use crate::cluster::connect_error::ConnectError;
use crate::cluster::credentials::{self, Fingerprint, Found};
use crate::cluster::plugin;
use crate::root::Root;

/// Longest wait for a TCP and TLS connection.
const CONNECT: Duration = Duration::from_secs(5);

/// A kubeconfig's user and cluster, before there is a client.
#[derive(Clone)]
pub(super) struct Identity {
    pub(super) path: PathBuf,
    /// The name of the context in use.
    pub(super) context: String,
    pub(super) fingerprint: Fingerprint,
    pub(super) config: Config,
}

impl Identity {
    /// This host's. Runs on a thread that may block and that has entered the runtime.
    pub(super) fn read(
        root: &Root,
        explicit: Option<&Path>,
        kubelets: &[MainProcess],
        context: Option<String>,
    ) -> Result<Self, ConnectError> {
        let found = credentials::find(root, explicit, kubelets);
        Self::of(found.map_err(ConnectError::NoKubeconfig)?, context)
    }

    /// A person's; runs where [`Identity::read`] does.
    pub(super) fn persons(
        files: &[PathBuf],
        context: Option<String>,
    ) -> Result<Self, ConnectError> {
        let found = credentials::persons(files);
        Self::of(found.map_err(ConnectError::NoKubeconfig)?, context)
    }

    fn of(found: Found, context: Option<String>) -> Result<Self, ConnectError> {
        let used = context.clone().or(found.kubeconfig.current_context.clone());
        let config = config(&found.kubeconfig, &found.path, context)?;
        Ok(Self {
            path: found.path,
            context: used.unwrap_or_default(),
            fingerprint: found.fingerprint,
            config,
        })
    }

    /// The same user at another server, which the same CA must prove.
    pub(super) fn at(&self, url: &str) -> Result<Self, ConnectError> {
        let server = url.parse();
        let cluster_url = server.map_err(|error| ConnectError::Unusable {
            path: self.path.clone(),
            why: format!("gates.api_servers: {url}: {error}"),
        })?;
        let mut other = self.clone();
        other.config.cluster_url = cluster_url;
        Ok(other)
    }

    /// Asks the plugin, if there is one, as `run` runs it; until when what it gave is good.
    pub(super) async fn settle<F>(
        &mut self,
        run: impl Fn(Plugin) -> F,
    ) -> Result<Option<Timestamp>, ConnectError>
    where
        F: Future<Output = Result<Vec<u8>, PluginError>>,
    {
        let user = &mut self.config.auth_info;
        let exec = user.exec.as_ref();
        let command = exec.and_then(|exec| exec.command.clone());
        plugin::settle(user, run)
            .await
            .map_err(|why| ConnectError::Plugin {
                path: self.path.clone(),
                command: command.unwrap_or_default(),
                why,
            })
    }

    /// Reads certificate, key and CA; runs where [`Identity::read`] does.
    pub(super) fn client(mut self, agent: &'static str) -> Result<Client, ConnectError> {
        let header = (USER_AGENT, HeaderValue::from_static(agent));
        self.config.headers.push(header);
        // Without a CA kube asks for the host's own, and fails where there is none (a minimal image), even when
        // nothing is to be verified.
        if self.config.accept_invalid_certs && self.config.root_cert.is_none() {
            self.config.root_cert = Some(Vec::new());
        }
        Client::try_from(self.config).map_err(|error| ConnectError::Unusable {
            path: self.path,
            why: error.to_string(),
        })
    }
}

fn config(
    kubeconfig: &Kubeconfig,
    path: &Path,
    context: Option<String>,
) -> Result<Config, ConnectError> {
    let unusable = |why: String| ConnectError::Unusable {
        path: path.to_owned(),
        why,
    };
    let options = KubeConfigOptions {
        context,
        ..KubeConfigOptions::default()
    };
    let mut config = Handle::current()
        .block_on(Config::from_custom_kubeconfig(kubeconfig.clone(), &options))
        .map_err(|error| unusable(error.to_string()))?;
    // kube would run the program that an auth-provider names, and send its secrets to the server that it names.
    if config.auth_info.auth_provider.is_some() {
        return Err(unusable(
            "its user has an auth-provider, which Kubernetes 1.26 gave up and which is not used here; give it a client certificate, a token file or a credential plugin (exec) instead"
                .to_owned(),
        ));
    }
    config.connect_timeout = Some(CONNECT);
    // An overall limit per call is ours; this one would also end idle watches.
    config.read_timeout = None;
    // It would hide a budget's 429 for minutes, and send a take again.
    config.default_retry = false;
    // from_custom_kubeconfig falls back to HTTPS_PROXY of the environment.
    config.proxy_url = proxy(kubeconfig, options.context.as_deref())
        .map(|url| url.parse())
        .transpose()
        .map_err(|error| unusable(format!("proxy-url: {error}")))?;
    Ok(config)
}

/// `proxy-url` of the context's cluster.
fn proxy(kubeconfig: &Kubeconfig, context: Option<&str>) -> Option<String> {
    let context = context.or(kubeconfig.current_context.as_deref())?;
    let context = kubeconfig
        .contexts
        .iter()
        .find(|named| named.name == context)?;
    let cluster = &context.context.as_ref()?.cluster;
    let cluster = kubeconfig
        .clusters
        .iter()
        .find(|named| &named.name == cluster)?;
    let url = cluster.cluster.as_ref()?.proxy_url.clone()?;
    (!url.is_empty()).then_some(url)
}
