//! The verbs that ask the API server, from the command line: which namespace, what to say, which exit code. `identity` says whose
//! kubeconfig is used.

use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;

use jiff::Timestamp;
use kube_rebootd_core::config::Config;
use kube_rebootd_core::migrate::Found;
use kube_rebootd_core::names;

use super::unlock::{Order, UnlockError};
use super::wish::{Again, Wish, WishError};
use super::{
    Cluster, Whom, block_on, complain, exit, explain, migrate, print, program, unlock, wish,
};
use crate::cluster::answer::ApiError;
use crate::cluster::client::whoami;
use crate::cluster::connect_error::ConnectError;
use crate::layers;
use crate::root::Root;

pub mod nodes;

use super::identity::{Identity, host, identity, now, which};

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

/// `kube-rebootd explain NODE`: what the cluster knows of it.
pub fn explain(
    root: &Root,
    file: Option<&Path>,
    cluster: &Cluster,
    name: &str,
    json: bool,
) -> ExitCode {
    reached(root, file, cluster, async |config, namespace, identity| {
        let now = now(&identity).await;
        let (cluster, pods, own) = match identity {
            Identity::Person(admin) => (admin.client.clone(), admin.client, false),
            Identity::Host {
                coordinator,
                node,
                name: own,
            } => (coordinator, node, own == name),
        };
        let which = explain::node::Which {
            node: name,
            namespace,
            config,
            own,
        };
        match Box::pin(explain::node::ask(which, &cluster, &pods, now)).await {
            Ok(seen) => explained(&seen, json, now),
            Err(err) => failed(&err),
        }
    })
}

/// As `nodes --unhealthy`: 1 where the node needs a person, or where the API server did not say; 4 where it may not be seen
/// whether it does.
fn explained(seen: &explain::node::Seen, json: bool, now: Timestamp) -> ExitCode {
    if json {
        // Strings, numbers and timestamps only: nothing in it can fail to encode.
        let text = serde_json::to_string_pretty(seen).unwrap_or_default();
        print(&format!("{text}\n"));
    } else {
        print(&explain::node::page(seen, now));
    }
    if seen.member.person.is_some() || seen.failed() {
        return ExitCode::from(exit::FAILED);
    }
    if seen.unsure() {
        return ExitCode::from(exit::DENIED);
    }
    ExitCode::SUCCESS
}

/// `kube-rebootd migrate kured` without a manifest: what the cluster has, and the namespace of the slots.
pub(super) fn with_daemon_sets(
    root: &Root,
    file: Option<&Path>,
    cluster: &Cluster,
    told: impl FnOnce(Found, &str) -> ExitCode,
) -> ExitCode {
    reached(
        root,
        file,
        cluster,
        async |_, namespace, identity| match migrate::daemon_sets(identity).await {
            Ok(found) => told(found, namespace),
            Err(err) => {
                let code = refused(&err);
                complain(
                    &"who may read the DaemonSet can pass it: kubectl -n kube-system get daemonset kured -o yaml | kube-rebootd migrate kured --manifest -",
                );
                code
            }
        },
    )
}

/// Where the slots are, as far as anybody said: a configuration that is not valid says nothing.
pub(super) fn some_namespace(root: &Root, file: Option<&Path>, cluster: &Cluster) -> String {
    let config = layers::load(root, file).map(|effective| effective.config);
    namespace(&config.unwrap_or_default(), cluster)
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
    reached(root, file, cluster, async |config, namespace, identity| {
        let now = now(&identity).await;
        let mut named = whom.nodes.clone();
        let (nodes, slots) = match identity {
            // A laptop is no node, and an admin on a node may mean more than this one.
            Identity::Person(_) if whom.nobody() => {
                let own = host(root, config).await.ok().map(|clients| clients.name);
                complain(&nobody(own.as_deref()));
                return ExitCode::from(exit::USAGE);
            }
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
                if whom.nobody() {
                    named = vec![name];
                }
                (node, coordinator)
            }
        };
        // Whoever cannot be named stops nothing.
        let user = whoami(&nodes).await.unwrap_or_default();
        let (wish, again) = (wish(wish::by(&user, now)), again(cluster));
        if named.is_empty() {
            let group = whom.group.as_deref().filter(|_| !whom.all);
            let lines = wish::slots(&slots, namespace, group, &wish, &again).await;
            return told_all(lines.unwrap_or_else(|err| vec![Err(err)]));
        }
        let mut lines = Vec::new();
        for name in &named {
            lines.push(wish::node(&nodes, name, &wish, &again, now).await);
        }
        told_all(lines)
    })
}

/// Whom it is about is not said, and a person's kubeconfig is used, which is about no host.
fn nobody(own: Option<&str>) -> String {
    let own = own.map_or_else(String::new, |own| format!("; this host is Node {own}"));
    format!("whom? Name NODE, --group or --all, as a person's kubeconfig is used{own}")
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

/// Writing to a String does not fail.
fn told(node: &str, namespace: &str, done: &unlock::Unlocked) -> String {
    let mut text = String::new();
    if done.node {
        let _ = writeln!(text, "node {node}: label and record taken off");
    }
    for lease in &done.leases {
        let _ = writeln!(text, "slot {lease}: free: the next node may take it now");
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
    if done.excluded {
        let (label, _) = names::EXCLUDED;
        let _ = writeln!(
            text,
            "so does the label that keeps load balancers away; there: kubectl label node {node} {label}-"
        );
    }
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
