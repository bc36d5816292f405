//! `nodes` from the command line: once, or again whenever it changes.

use std::io::IsTerminal as _;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use jiff::Timestamp;
use kube::{Api, Client, ResourceExt};
use kube_rebootd_core::config::{Config, Coordination};

use super::{reached, refused};
use crate::cli::identity::{Identity, identity, now};
use crate::cli::nodes::{Ended, Follow};
use crate::cli::{Cluster, complain, exit, nodes, print};
use crate::cluster::answer::{ApiError, CALL, call, found};
use crate::cluster::lean::{Named, Node};
use crate::root::Root;

/// How `nodes` shows what it read.
#[derive(Debug, Clone, Copy)]
pub struct Show {
    /// Only nodes that need a person, and exit code 1 if there is one.
    pub unhealthy: bool,
    /// Who was proved within this time, and who was not.
    pub slo: Option<Duration>,
    pub json: bool,
    /// Again whenever it changes.
    pub watch: bool,
}

/// `kube-rebootd nodes`: the group, and all Nodes.
pub fn main(
    root: &Root,
    file: Option<&Path>,
    cluster: &Cluster,
    group: Option<String>,
    show: Show,
) -> ExitCode {
    // Who names one wants to see that one.
    let only = group.is_some();
    reached(root, file, cluster, async |config, namespace, identity| {
        if show.watch {
            let watched = Watched {
                root,
                config,
                cluster,
                namespace,
                group,
                show,
            };
            return watched.until_it_ends(identity).await;
        }
        let now = now(&identity).await;
        let (client, group) = match whose(config, identity, group).await {
            Ok(whose) => whose,
            Err(err) => return refused(&err),
        };
        match nodes::read(&client, namespace, &group, now).await {
            Ok(seen) if only => shown(&seen.only(), show, now),
            Ok(seen) => shown(&seen, show, now),
            Err(err) => refused(&err),
        }
    })
}

/// Whose slots are shown, and by which client.
async fn whose(
    config: &Config,
    identity: Identity,
    group: Option<String>,
) -> Result<(Client, String), ApiError> {
    let coordination = &config.coordination;
    match (identity, group) {
        (Identity::Person(admin), Some(group)) => Ok((admin.client, group)),
        (Identity::Person(admin), None) => {
            if let Some(label) = &coordination.group_label {
                // Which Node this host is, a person's credential does not say.
                complain(&format!(
                    "the group of a node is what the label {label} of its Node says; this is the configured one, \
                     for those without that label (--group shows another)"
                ));
            }
            Ok((admin.client, coordination.group.to_string()))
        }
        (Identity::Host { coordinator, .. }, Some(group)) => Ok((coordinator, group)),
        (
            Identity::Host {
                coordinator,
                node,
                name,
            },
            None,
        ) => Ok((coordinator, own_group(coordination, &node, &name).await?)),
    }
}

/// `nodes --watch`.
struct Watched<'a> {
    root: &'a Root,
    config: &'a Config,
    cluster: &'a Cluster,
    namespace: &'a str,
    group: Option<String>,
    show: Show,
}

/// Before a credential that has ended is asked for again.
const RENEW: Duration = Duration::from_secs(10);

impl Watched<'_> {
    /// Until nobody reads any more, or it is denied. A credential that ends is asked for anew.
    async fn until_it_ends(&self, first: Identity) -> ExitCode {
        let mut known = Some(first);
        loop {
            let next = match known.take() {
                Some(identity) => Ok(identity),
                None => identity(self.root, self.config, self.cluster).await,
            };
            let ended = match next {
                Ok(identity) => self.follow(identity).await,
                Err(err) => {
                    complain(&err);
                    None
                }
            };
            match ended {
                Some(Ended::Closed) => return ExitCode::SUCCESS,
                Some(Ended::Refused(err)) => return refused(&err),
                Some(Ended::Unauthorized(err)) => complain(&err),
                None => {}
            }
            tokio::time::sleep(RENEW).await;
        }
    }

    /// None: the group is not known.
    async fn follow(&self, identity: Identity) -> Option<Ended> {
        let ahead = now(&identity).await.duration_since(Timestamp::now());
        let whose = whose(self.config, identity, self.group.clone()).await;
        let (client, group) = match whose {
            Ok(whose) => whose,
            Err(err) => {
                complain(&err);
                return None;
            }
        };
        let follow = Follow {
            client: &client,
            namespace: self.namespace,
            group: &group,
            only: self.group.is_some(),
            unhealthy: self.show.unhealthy,
            json: self.show.json,
            ahead,
        };
        let out = std::io::stdout();
        let terminal = out.is_terminal();
        Some(Box::pin(nodes::follow(&follow, out, terminal)).await)
    }
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
