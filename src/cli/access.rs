//! `nodes` and `unlock` from the command line: which kubeconfig, which namespace, what to say.
//!
//! On a laptop there is no configuration and no kubelet: `--kubeconfig`, the files of `$KUBECONFIG` merged as
//! kubectl merges them, `~/.kube/config`, and only then the host's own credential through the coordinator (I11).

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use jiff::Timestamp;
use kube::{Api, Client, ResourceExt};
use kube_rebootd_core::config::{Config, Coordination};

use super::unlock::{Order, UnlockError};
use super::wish::{Again, Wish, WishError};
use super::{Cluster, Whom, block_on, complain, exit, nodes, print, program, unlock, wish};
use crate::cluster::answer::{ApiError, CALL, call, found};
use crate::cluster::client::{Admin, Clients, Connector, admin, server_time, whoami};
use crate::cluster::connect_error::ConnectError;
use crate::cluster::lean::{Named, Node};
use crate::daemon::{access, connect};
use crate::host::Bus;
use crate::layers;
use crate::root::Root;

/// As a person, or as this host.
enum Identity {
    Person(Admin),
    /// The host's coordinator, and the client and the name of its node.
    Host {
        coordinator: Client,
        node: Client,
        name: String,
    },
}

/// How `nodes` shows what it read.
#[derive(Debug, Clone, Copy)]
pub struct Show {
    /// Only nodes that need a person, and exit code 1 if there is one.
    pub unhealthy: bool,
    /// Who was proved within this time, and who was not.
    pub slo: Option<Duration>,
    pub json: bool,
}

/// Does `work` with the configuration, the namespace of the slots and whoever asks.
fn reached(
    root: &Root,
    file: Option<&Path>,
    cluster: &Cluster,
    work: impl AsyncFnOnce(&Config, &str, Identity) -> ExitCode,
) -> ExitCode {
    let config = match configured(root, file) {
        Ok(config) => config,
        Err(code) => return code,
    };
    let namespace = namespace(&config, cluster);
    block_on(async {
        match identity(root, &config, cluster).await {
            Ok(identity) => work(&config, &namespace, identity).await,
            Err(err) => failed(&err),
        }
    })
}

/// `kube-rebootd nodes`: the group, and all Nodes.
pub fn nodes(
    root: &Root,
    file: Option<&Path>,
    cluster: &Cluster,
    group: Option<String>,
    show: Show,
) -> ExitCode {
    // Who names one wants to see that one.
    let only = group.is_some();
    reached(root, file, cluster, async |config, namespace, identity| {
        let coordination = &config.coordination;
        let now = now(&identity).await;
        let (client, group) = match (identity, group) {
            (Identity::Person(admin), Some(group)) => (admin.client, group),
            (Identity::Person(admin), None) => {
                if let Some(label) = &coordination.group_label {
                    // Which Node this host is, a person's credential does not say.
                    complain(&format!(
                        "the group of a node is what the label {label} of its Node says; this is the configured one, \
                         for those without that label (--group shows another)"
                    ));
                }
                (admin.client, coordination.group.to_string())
            }
            (Identity::Host { coordinator, .. }, Some(group)) => (coordinator, group),
            (
                Identity::Host {
                    coordinator,
                    node,
                    name,
                },
                None,
            ) => match own_group(coordination, &node, &name).await {
                Ok(group) => (coordinator, group),
                Err(err) => return refused(&err),
            },
        };
        match nodes::read(&client, namespace, &group, now).await {
            Ok(seen) if only => shown(&seen.only(), show, now),
            Ok(seen) => shown(&seen, show, now),
            Err(err) => refused(&err),
        }
    })
}

fn shown(seen: &nodes::Group, show: Show, now: Timestamp) -> ExitCode {
    let slo = show
        .slo
        .map(|limit| nodes::Slo::of(&seen.nodes, limit, now));
    let text = match (show, &slo) {
        (Show { json: true, .. }, slo) => {
            let mut report = nodes::report(seen, show.unhealthy);
            if let Some(slo) = slo {
                report["slo"] = slo.report();
            }
            format!("{report:#}\n")
        }
        (_, Some(slo)) => nodes::slo(seen, slo, now),
        (
            Show {
                unhealthy: true, ..
            },
            None,
        ) => nodes::unhealthy(seen, now),
        (Show { .. }, None) => nodes::table(seen, now),
    };
    print(&text);
    for err in &seen.hidden {
        complain(err);
    }
    let sick = seen.nodes.iter().any(|node| node.person.is_some());
    let all = seen.hidden.is_empty();
    // A slot whose Node is gone, or whose label strays, would not be seen.
    if show.unhealthy && (sick || !all) {
        return ExitCode::from(exit::FAILED);
    }
    if all {
        return ExitCode::SUCCESS;
    }
    ExitCode::from(exit::DENIED)
}

/// The group of this host. Its Node is read only where a label of it may name the group.
async fn own_group(
    coordination: &Coordination,
    node: &Client,
    name: &str,
) -> Result<String, ApiError> {
    let nodes: Api<Named<Node>> = Api::all(node.clone());
    if coordination.group_label.is_none() {
        return Ok(coordination.group.to_string());
    }
    let node = found(call("get own Node", CALL, nodes.get(name)).await)?;
    let labels = node.map(|node| node.labels().clone()).unwrap_or_default();
    Ok(coordination.group_of(&labels))
}

/// `kube-rebootd unlock NODE`.
pub fn unlock(
    root: &Root,
    file: Option<&Path>,
    cluster: &Cluster,
    node: &str,
    force: bool,
) -> ExitCode {
    let config = match configured(root, file) {
        Ok(config) => config,
        Err(code) => return code,
    };
    let namespace = namespace(&config, cluster);
    block_on(async {
        let client = match identity(root, &config, cluster).await {
            Ok(Identity::Person(admin)) => {
                print(&which(&admin));
                admin.client
            }
            Ok(Identity::Host { node: client, .. }) => client,
            // No admin here: the lines work wherever one is.
            Err(ConnectError::NoKubeconfig(_)) if cluster.kubeconfig.is_none() => {
                let lines = unlock::lines(&namespace, node, None);
                complain(&format!(
                    "no kubeconfig of an admin here (--kubeconfig FILE); where there is one run\n{lines}"
                ));
                return ExitCode::from(exit::DENIED);
            }
            Err(err) => return failed(&err),
        };
        let order = Order {
            namespace: &namespace,
            node,
            force,
        };
        match unlock::unlock(&client, &order).await {
            Ok(done) => {
                print(&told(node, &namespace, &done));
                ExitCode::SUCCESS
            }
            Err(err @ UnlockError::NodeIdentity { .. }) => {
                complain(&err);
                ExitCode::from(exit::DENIED)
            }
            Err(UnlockError::Api(err @ ApiError::Denied { .. })) => {
                let lines = unlock::lines(&namespace, node, None);
                complain(&format!("{err}; as an admin run\n{lines}"));
                ExitCode::from(exit::DENIED)
            }
            Err(err) => failed(&err),
        }
    })
}

/// `pause`, `resume`, `reboot` and `cancel`; `wish` makes the wish, of who asks, and when, where nobody said why.
pub fn wish(
    root: &Root,
    file: Option<&Path>,
    cluster: &Cluster,
    whom: &Whom,
    wish: impl FnOnce(String) -> Wish,
) -> ExitCode {
    reached(root, file, cluster, async |_, namespace, identity| {
        let now = now(&identity).await;
        let (nodes, slots) = match identity {
            Identity::Person(admin) => {
                print(&which(&admin));
                (admin.client.clone(), admin.client)
            }
            Identity::Host {
                node,
                coordinator,
                name,
            } => {
                print(&format!("as node {name}, by the credential of this host\n"));
                (node, coordinator)
            }
        };
        // Whoever cannot be named stops nothing.
        let user = whoami(&nodes).await.unwrap_or_default();
        let (wish, again) = (wish(wish::by(&user, now)), again(cluster));
        if whom.nodes.is_empty() {
            let group = whom.group.as_deref().filter(|_| !whom.all);
            let lines = wish::slots(&slots, namespace, group, &wish, &again).await;
            return told_all(lines.unwrap_or_else(|err| vec![Err(err)]));
        }
        let mut lines = Vec::new();
        for name in &whom.nodes {
            lines.push(wish::node(&nodes, name, &wish, &again, now).await);
        }
        told_all(lines)
    })
}

/// Takes the annotation of this host's Node away, with the host's own credential: whose kubeconfig root has does not matter.
pub fn cancel_own(root: &Root, file: Option<&Path>) -> ExitCode {
    let config = match configured(root, file) {
        Ok(config) => config,
        Err(code) => return code,
    };
    let again = Again {
        program: program(),
        options: String::new(),
    };
    block_on(async {
        let clients = match host(root, &config).await {
            Ok(clients) => clients,
            Err(err) => return failed(&err),
        };
        let (node, now) = (&clients.name, Timestamp::now());
        told_all(vec![
            wish::node(&clients.node, node, &Wish::Cancel, &again, now).await,
        ])
    })
}

/// By the API server's clock: the ages of a laptop whose clock is wrong would call every node silent. A node's own is kept.
async fn now(identity: &Identity) -> Timestamp {
    let theirs = match identity {
        Identity::Person(admin) => server_time(&admin.client).await,
        Identity::Host { .. } => None,
    };
    theirs.unwrap_or_else(Timestamp::now)
}

/// Each line, or why there is none; the exit code is that of the last failure.
fn told_all(lines: Vec<Result<String, WishError>>) -> ExitCode {
    let mut code = ExitCode::SUCCESS;
    for line in lines {
        match line {
            Ok(line) => print(&(line + "\n")),
            Err(WishError::Api(err)) => code = refused(&err),
            Err(err) => code = failed(&err),
        }
    }
    code
}

/// How the same cluster is named in a next command.
fn again(cluster: &Cluster) -> Again {
    let mut options = String::new();
    let file = cluster
        .kubeconfig
        .as_ref()
        .map(|file| file.display().to_string());
    for (option, value) in [
        ("kubeconfig", file),
        ("context", cluster.context.clone()),
        ("namespace", cluster.namespace.clone()),
    ] {
        if let Some(value) = value {
            // Writing to a String does not fail.
            let _ = write!(options, " --{option} {}", quoted(&value));
        }
    }
    Again {
        program: program(),
        options,
    }
}

/// As one word of a shell.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-/:@%+".contains(c);
    if word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Said before anything is changed: the wrong cluster is a mistake that people make.
fn which(admin: &Admin) -> String {
    let server = admin.server.trim_end_matches('/');
    format!("cluster {server}, context {}\n", admin.context)
}

/// Writing to a String does not fail.
fn told(node: &str, namespace: &str, done: &unlock::Unlocked) -> String {
    let mut text = String::new();
    if done.node {
        let _ = writeln!(text, "node {node}: label and record taken off");
    }
    for lease in &done.leases {
        let _ = writeln!(text, "slot {lease}: free");
    }
    if text.is_empty() {
        let where_else = if done.no_slots {
            ", which has no slots at all (--namespace)"
        } else {
            ""
        };
        return format!("{node} holds nothing in namespace {namespace}{where_else}\n");
    }
    let _ = writeln!(
        text,
        "a cordon stays until the node is healthy, and its daemon takes it off; where kube-rebootd does not run any more: \
         kubectl uncordon {node}"
    );
    text
}

/// The host's configuration; a laptop has none, which is a valid one.
fn configured(root: &Root, file: Option<&Path>) -> Result<Config, ExitCode> {
    layers::load(root, file)
        .map(|effective| effective.config)
        .map_err(|err| {
            complain(&err);
            ExitCode::from(exit::CONFIGURATION)
        })
}

/// Where the slots are; an error is told already.
pub fn configured_namespace(root: &Root, file: Option<&Path>) -> Result<String, ExitCode> {
    configured(root, file).map(|config| config.coordination.namespace)
}

fn namespace(config: &Config, cluster: &Cluster) -> String {
    cluster
        .namespace
        .clone()
        .unwrap_or_else(|| config.coordination.namespace.clone())
}

async fn identity(
    root: &Root,
    config: &Config,
    cluster: &Cluster,
) -> Result<Identity, ConnectError> {
    let files = match &cluster.kubeconfig {
        Some(file) => vec![file.clone()],
        None => persons(),
    };
    if !files.is_empty() {
        // A person's file is where the shell says, not below --root.
        let absolute = |file: PathBuf| std::path::absolute(&file).unwrap_or(file);
        let files = files.into_iter().map(absolute).collect();
        let admin = admin(files, cluster.context.clone()).await;
        return admin.map(Identity::Person);
    }
    // A context that was named, or a file, is not this host's cluster.
    let named = std::env::var_os("KUBECONFIG").filter(|named| !named.is_empty());
    if let Some(named) = named {
        return Err(ConnectError::Unusable {
            path: named.into(),
            why: "$KUBECONFIG names it, and there is no such file; unset it, or name another with --kubeconfig"
                .to_owned(),
        });
    }
    if let Some(context) = &cluster.context {
        return Err(ConnectError::Unusable {
            path: "~/.kube/config".into(),
            why: format!(
                "there is none, and so no context {context}; name another with --kubeconfig"
            ),
        });
    }
    let clients = host(root, config).await?;
    Ok(Identity::Host {
        coordinator: clients.coordinator,
        node: clients.node,
        name: clients.name,
    })
}

/// As this host.
pub(super) async fn host(root: &Root, config: &Config) -> Result<Clients, ConnectError> {
    connect(&Connector::new(access(root, config)), root, &Bus::system()).await
}

/// The files of `$KUBECONFIG` that exist, else `~/.kube/config` if that does.
fn persons() -> Vec<PathBuf> {
    let named = std::env::var_os("KUBECONFIG").unwrap_or_default();
    let named: Vec<PathBuf> = std::env::split_paths(&named)
        .filter(|path| !path.as_os_str().is_empty())
        .collect();
    let files = if named.is_empty() {
        let home = std::env::var_os("HOME").filter(|home| !home.is_empty());
        let file = home.map(|home| Path::new(&home).join(".kube/config"));
        file.into_iter().collect()
    } else {
        named
    };
    files.into_iter().filter(|path| path.exists()).collect()
}

fn refused(err: &ApiError) -> ExitCode {
    complain(err);
    match err {
        ApiError::Denied { .. } => ExitCode::from(exit::DENIED),
        _ => ExitCode::from(exit::FAILED),
    }
}

fn failed(err: &dyn std::fmt::Display) -> ExitCode {
    complain(err);
    ExitCode::from(exit::FAILED)
}
