//! The credential of the connection: how this host comes by it (I14), and when the next one is asked for (I7).

use std::time::Duration;

use kube_rebootd_core::backoff::doubled;
use kube_rebootd_core::config::Config;
use kube_rebootd_core::kubelet::MainProcess;
use kube_rebootd_core::record::Record;
use tracing::debug;

use crate::cluster::client::{Access, Clients, Connector};
use crate::cluster::connect_error::ConnectError;
use crate::host::{Bus, check, systemd};
use crate::root::Root;

/// After a failed renewal of a credential that is not refused yet.
pub(super) const AGAIN: Duration = Duration::from_secs(10);
/// The same when one of its files was written since then.
pub(super) const SOON: Duration = Duration::from_secs(1);

/// Between two credentials, however soon the plugin says that one ends.
pub(super) const FLOOR: Duration = Duration::from_secs(5);
/// The same when none of them lives even that long: it doubles up to this.
const FLOOR_MAX: Duration = Duration::from_secs(300);

/// What the clients are built from.
pub fn access(root: &Root, config: &Config) -> Access {
    Access {
        root: root.clone(),
        kubeconfig: config.node.kubeconfig.clone(),
        context: config.node.context.clone(),
        node_name: config.node.name.clone(),
        namespace: config.coordination.namespace.clone(),
        impersonate: config.coordination.impersonate.clone(),
        coordinator_kubeconfig: config.coordination.kubeconfig.clone(),
        prove_node: config.coordination.prove_node,
        api_servers: config.gates.api_servers.clone(),
    }
}

/// The same, with the namespace of the hold while there is one.
pub(super) fn held_access(root: &Root, config: &Config, record: &Record) -> Access {
    Access {
        namespace: record.namespace(&config.coordination.namespace).to_owned(),
        ..access(root, config)
    }
}

/// Connects as this host. Credential plugins are run by systemd, outside the daemon's sandbox. Which process is
/// the kubelet is PID 1's word (I14). Without that word, and below another root, whose /proc and PID 1 are not
/// ours, only the known places are searched.
pub async fn connect(
    connector: &Connector,
    root: &Root,
    bus: &Bus,
) -> Result<Clients, ConnectError> {
    let kubelets = if connector.searches() {
        kubelets(root, bus).await
    } else {
        Vec::new()
    };
    let connector = connector.clone().with_kubelets(kubelets);
    if bus.connection().await.is_err() {
        // A command on a machine without systemd: it has no sandbox to leave.
        return connector.connect().await;
    }
    let run = |plugin| {
        let (root, bus) = (root.clone(), bus.clone());
        async move { check::plugin(&root, &bus, &plugin).await }
    };
    connector.connect_by(run).await
}

/// The processes that are to be believed to be the kubelet.
pub async fn kubelets(root: &Root, bus: &Bus) -> Vec<MainProcess> {
    if !root.is_host() {
        return Vec::new();
    }
    systemd::kubelets(bus).await.unwrap_or_else(|error| {
        debug!(%error, "No running kubelet is looked for");
        Vec::new()
    })
}

/// How long to wait after a credential that is good for `left`, the one after `short` others that did not last;
/// and how many those are now.
pub(super) fn spaced(short: u32, left: Option<Duration>) -> (Duration, u32) {
    let spacing = doubled(FLOOR, short, FLOOR_MAX);
    match left {
        Some(left) if left < FLOOR => (spacing, short.saturating_add(1)),
        Some(_) | None => (FLOOR, 0),
    }
}

/// Resolves when new clients are to be built: the credential ends in `left`, or a file of it was `touched`;
/// after a failure not before `pause` is over.
pub(super) async fn renewal(left: Option<Duration>, touched: bool, pause: Duration) {
    let left = match left {
        _ if touched => Duration::ZERO,
        Some(left) => left,
        None => return std::future::pending().await,
    };
    // While the API server is paused nothing follows from this: not at full speed.
    tokio::time::sleep(left.max(pause).max(SOON)).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_that_do_not_last_are_asked_for_less_and_less() {
        let mut short = 0;
        let mut waits = Vec::new();
        for _ in 0..8 {
            let spacing;
            (spacing, short) = spaced(short, Some(Duration::ZERO));
            waits.push(spacing.as_secs());
        }
        assert_eq!(waits, [5, 10, 20, 40, 80, 160, 300, 300]);
        // One of 50 s would serve for 40 s: it is asked for again then, as often as it comes.
        let fifty = Some(Duration::from_secs(40));
        assert_eq!(spaced(0, fifty), (FLOOR, 0));
        assert_eq!(spaced(7, fifty), (FLOOR, 0));
    }
}
