//! Who would repair or remove this node before `health.timeout` is over, as far as its Node shows it.

use std::time::Duration;

use kube_rebootd_core::config::Config;
use kube_rebootd_core::names;
use kube_rebootd_core::node::Node;
use kube_rebootd_core::text::span;

use super::Check;

pub(super) const REPAIR: &str = "node repair";

/// What acts on a node that is not Ready for too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Repairer {
    Aks,
    ClusterAutoscaler,
    Karpenter,
}

impl Repairer {
    const ALL: [Self; 3] = [Self::Aks, Self::ClusterAutoscaler, Self::Karpenter];

    /// What it marks Nodes with is there. What this daemon has set itself says nothing.
    fn shows(self, node: &Node) -> bool {
        let theirs = |key: &&String| !node.guarded.contains(*key);
        let annotations = node.annotations.keys().filter(theirs);
        let mut keys = node.labels.keys().chain(annotations).chain(&node.taints);
        keys.any(|key| match self {
            Self::Aks => key.starts_with("kubernetes.azure.com/"),
            Self::ClusterAutoscaler => {
                key.starts_with("cluster-autoscaler.kubernetes.io/")
                    || (key.ends_with("ClusterAutoscaler")
                        && names::AUTOSCALER_TAINTS.contains(&key.as_str()))
            }
            Self::Karpenter => key.starts_with("karpenter.sh/"),
        })
    }

    /// After so long a time without Ready, by its documentation.
    fn after(self) -> Duration {
        let minutes = match self {
            Self::Aks => 10,
            Self::ClusterAutoscaler => 20,
            Self::Karpenter => 30,
        };
        Duration::from_secs(minutes * 60)
    }

    /// It leaves a Node alone that carries [`names::GUARDS`]. Karpenter's repair ends such a node all the same.
    fn kept_away(self, config: &Config) -> bool {
        let guards = !config.coordination.autoscaler_protect.is_zero();
        match self {
            Self::Aks | Self::ClusterAutoscaler => guards,
            Self::Karpenter => false,
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::Aks => "the repair of AKS",
            Self::ClusterAutoscaler => "cluster-autoscaler",
            Self::Karpenter => "the repair of Karpenter, where it is enabled,",
        }
    }
}

/// Only a warning: a host boots in less time than that, or needs a person.
pub(super) fn repair(node: &Node, config: &Config) -> Check {
    let timeout = config.health.timeout;
    let sooner =
        |one: &Repairer| one.shows(node) && !one.kept_away(config) && timeout >= one.after();
    let Some(first) = Repairer::ALL.into_iter().find(sooner) else {
        let what = "nothing that shows on the Node acts before health.timeout is over";
        return Check::ok(REPAIR, what);
    };
    let (after, who) = (span(first.after()), first.words());
    let protect = match first {
        Repairer::Karpenter => "",
        Repairer::Aks | Repairer::ClusterAutoscaler => {
            ", or coordination.autoscaler_protect = \"15m\""
        }
    };
    Check::warn(
        REPAIR,
        format!(
            "{who} may end this host when its Node is not Ready for {after}, before health.timeout ({}) is over",
            span(timeout)
        ),
        format!("a health.timeout below {after}{protect}"),
    )
}

#[cfg(test)]
mod tests {
    use kube_rebootd_core::slot::Keys;
    use serde_json::json;

    use super::*;
    use crate::cluster::node::read;

    fn node() -> Node {
        let object = serde_json::from_value(json!({"metadata": {"name": "n1"}})).expect("a Node");
        read(&object, None)
    }

    fn key(key: &str) -> Keys {
        Keys::from([(key.to_owned(), "x".to_owned())])
    }

    fn warns(node: &Node, minutes: u64, protect: bool) -> bool {
        let mut config = Config::default();
        config.health.timeout = Duration::from_secs(minutes * 60);
        if !protect {
            config.coordination.autoscaler_protect = Duration::ZERO;
        }
        repair(node, &config).warns()
    }

    #[test]
    fn who_acts_before_health_timeout_is_named() {
        let labelled = |label: &str| Node {
            labels: key(label),
            ..node()
        };
        let annotated = Node {
            annotations: key("cluster-autoscaler.kubernetes.io/scale-down-disabled"),
            ..node()
        };
        let tainted = Node {
            taints: vec!["DeletionCandidateOfClusterAutoscaler".to_owned()],
            ..node()
        };
        // A Node, the time that is compared, and whether our annotations keep it away.
        for (node, minutes, kept_away) in [
            (labelled("kubernetes.azure.com/cluster"), 10, true),
            (annotated, 20, true),
            (tainted, 20, true),
            (labelled("karpenter.sh/nodepool"), 30, false),
        ] {
            assert!(!warns(&node, minutes - 1, false), "{node:?}");
            assert!(warns(&node, minutes, false), "{node:?}");
            assert_eq!(warns(&node, minutes, true), !kept_away, "{node:?}");
        }
        for silent in [node(), labelled("cloud.google.com/gke-nodepool")] {
            assert!(!warns(&silent, 24 * 60, false), "{silent:?}");
        }
    }

    #[test]
    fn what_this_daemon_has_set_shows_nobody() {
        for (guard, _) in names::GUARDS {
            let mut node = Node {
                annotations: key(guard),
                ..node()
            };
            assert!(warns(&node, 60, false), "{guard}");
            node.guarded = vec![guard.to_owned()];
            assert!(!warns(&node, 60, false), "{guard}");
        }
    }
}
