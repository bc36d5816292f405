//! What of this node's pods would stop a drain, hold it up or not come back, and whether one of them reboots this host too.

use jiff::Timestamp;
use kube::api::ListParams;
use kube_rebootd_core::config::{Config, DrainMode};
use kube_rebootd_core::drain::{self, Action, Blocker, seen_before_cordon};

use kube_rebootd_core::rivals::{Sign, of_pods};

use super::Check;
use super::refused::refused;
use crate::cluster::answer::{CALL, call};
use crate::cluster::client::Clients;
use crate::cluster::peers;
use crate::cluster::pods::{self as own_pods, Object as Pod, OwnPods, Tried};
use crate::cluster::rights;
use crate::host::{Bus, logind};

pub(super) const PODS: &str = "pods";
pub(super) const BUDGETS: &str = "budgets";
/// Pods on a node are at most some hundred.
const PODS_MAX: u32 = 500;
/// Of pods that keep reboots away; the others are counted.
const NAMED: usize = 3;

/// Pods of this node may be listed; a kured among them is a rival, and one that the drain may not move closes the
/// gate.
pub(super) async fn pods(clients: &Clients, config: &Config) -> Check {
    let own = OwnPods::new(clients.node.clone(), &clients.name);
    let params = ListParams::default().fields(&own.fields()).limit(PODS_MAX);
    match call("list own pods", CALL, own.api().list(&params)).await {
        Ok(list) => match rival(&list.items, config) {
            None => {
                // What logind does not say is another check's matter.
                let locks = logind::locks(&Bus::system()).await;
                let graceful = locks.is_ok_and(|locks| locks.kubelet);
                movable(&list.items, config)
                    .or_else(|| protected(&list.items, config, Timestamp::now()))
                    .or_else(|| impatient(&list.items, config))
                    .unwrap_or_else(|| ending(&list.items, config, graceful))
            }
            Some(check) => check,
        },
        Err(err) => refused(
            PODS,
            &err,
            "a kubelet's credential may do this; another identity needs a ClusterRole with get, list, watch on pods and create on pods/eviction",
        ),
    }
}

/// Which evictions of this node's pods would be refused now: each is tried, as the daemon does before a cordon.
pub(super) async fn budgets(clients: &Clients, config: &Config) -> Check {
    let mode = config.drain.mode;
    // Who cannot look does not know that it is alone (I8), and another check says so.
    let alone = mode == DrainMode::Auto
        && (peers::others(&clients.coordinator, &clients.name).await).is_ok_and(|others| !others);
    if let Some(why) = drain::undrained(mode, alone) {
        return Check::ok(BUDGETS, format!("no pod is evicted: {why}"));
    }
    if let Some(check) = deletes(clients, config).await {
        return check;
    }
    let own = OwnPods::new(clients.node.clone(), &clients.name);
    let Ok(pods) = own.list().await else {
        return Check::skipped(BUDGETS, PODS);
    };
    let tries = drain::to_try(&pods, &config.drain.policy);
    refusing(own.try_all(tries).await)
}

/// What `drain.escalate` is to delete may not be deleted, or nobody knows.
async fn deletes(clients: &Clients, config: &Config) -> Option<Check> {
    let mut all = config.drain.policy.escalate.iter();
    let one = all.find(|one| one.action == Action::Delete)?;
    match rights::deletes(&clients.node).await {
        Ok(true) => None,
        Ok(false) => Some(may_not_delete(&one.name)),
        Err(err) => Some(refused(
            BUDGETS,
            &err,
            "ask again when the API server answers",
        )),
    }
}

fn may_not_delete(name: &str) -> Check {
    Check::fail(
        BUDGETS,
        format!("this identity may not delete pods, as drain.escalate {name:?} wants it to"),
        "a kubelet's credential may delete those of its own node; another identity needs a ClusterRole with delete on pods, or take the table away",
    )
}

fn refusing(tried: Tried) -> Check {
    let number = tried.len();
    let refused = drain::refused(tried);
    if refused.is_empty() {
        return Check::ok(
            BUDGETS,
            format!("{number} evictions were tried, and none would be refused"),
        );
    }
    let named = |one: &Blocker| format!("{}: {}", one.pod.path(), one.why);
    let all: Vec<String> = refused.iter().take(NAMED).map(named).collect();
    let more = match refused.len() - all.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    Check::warn(
        BUDGETS,
        format!(
            "{} of {number} evictions would be refused now: {}{more}",
            refused.len(),
            all.join("; ")
        ),
        "where kubectl get poddisruptionbudgets -A shows no ALLOWED DISRUPTIONS for long: more replicas, or a budget that lets one of them go; one of which another node has just taken a pod allows again in a moment",
    )
}

/// As the daemon judges them before a cordon.
fn movable(pods: &[Pod], config: &Config) -> Option<Check> {
    let read: Vec<_> = pods.iter().map(own_pods::read).collect();
    let blockers = match config.drain.mode {
        DrainMode::Never => Vec::new(),
        DrainMode::Auto | DrainMode::Always => seen_before_cordon(&read, &config.drain.policy),
    };
    let named = |one: &Blocker| format!("{} {}", one.pod.path(), one.why);
    let all: Vec<String> = blockers.iter().take(NAMED).map(named).collect();
    if all.is_empty() {
        return None;
    }
    let more = match blockers.len() - all.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let words = if blockers.len() == 1 { "pod" } else { "pods" };
    let check = Check::warn(
        PODS,
        format!("{} {words} would block the drain: {}{more}", blockers.len(), all.join("; ")),
        "delete them, wait for their end, or allow it: drain.unmanaged, drain.empty_dir or drain.skip in the configuration",
    )
    .until(format!("pod {} has gone", blockers.first().map_or_else(String::new, |one| one.pod.path())));
    Some(check)
}

/// Pods that a reboot waits for.
fn protected(pods: &[Pod], config: &Config, now: Timestamp) -> Option<Check> {
    let read: Vec<_> = pods.iter().map(own_pods::read).collect();
    let skip = &config.drain.policy.skip;
    let found = config.gates.protection.of(&read, skip, now);
    let first = found.first()?;
    let named = found.iter().take(NAMED);
    let named: Vec<String> = named
        .map(|one| format!("{} {}", one.pod.path(), one.why))
        .collect();
    let more = match found.len() - named.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let check = Check::warn(
        PODS,
        format!("{} protected: {}{more}", found.len(), named.join("; ")),
        "wait for their end; else gates.blocking_pods, gates.honour_annotations or drain.skip in the configuration",
    );
    let path = first.pod.path();
    Some(check.until(match first.until {
        None => format!("pod {path} has ended"),
        Some(until) => format!("pod {path} has ended, or {until:.0} has come"),
    }))
}

/// Pods whose annotation about their drain does not count as it stands.
fn impatient(pods: &[Pod], config: &Config) -> Option<Check> {
    let most = config.drain.policy.pod_timeout_max;
    let read = pods.iter().map(own_pods::read);
    let named = read.filter_map(|pod| {
        let words = pod.patience.as_ref()?.complaint(most)?;
        Some(format!("{} {words}", pod.path()))
    });
    let named: Vec<String> = named.take(NAMED).collect();
    (!named.is_empty()).then(|| {
        Check::warn(
            PODS,
            named.join("; "),
            "mend the annotation on the pod's template, or change drain.pod_timeout_max",
        )
    })
}

/// Pods that end for ever with the next reboot, where the kubelet shuts down gracefully.
fn ending(list: &[Pod], config: &Config, graceful: bool) -> Check {
    let read: Vec<_> = list.iter().map(own_pods::read).collect();
    let bare = drain::not_made_again(&read, &config.drain.policy);
    if bare.is_empty() || !graceful {
        return Check::ok(PODS, format!("{} on this node", list.len()));
    }
    let names: Vec<String> = bare.iter().map(drain::PodRef::path).collect();
    Check::warn(
        PODS,
        format!(
            "without a controller: {}; the kubelet ends them at a shutdown (GracefulNodeShutdown) and does not start them again",
            names.join(", ")
        ),
        "give them a controller; drain.unmanaged = \"block\" lets no reboot happen while there is one",
    )
}

/// A pod of another daemon that reboots hosts.
fn rival(pods: &[Pod], config: &Config) -> Option<Check> {
    let read: Vec<_> = pods.iter().map(own_pods::read).collect();
    let Sign { what, cure } = of_pods(&read).into_iter().next()?;
    let check = Check::warn(
        PODS,
        format!("{what} may reboot this host, too, and does not see the slots"),
        format!("{cure}; with gates.other_reboot_daemons = \"ignore\" both work"),
    );
    Some(if config.gates.rivals {
        check.until(format!("{what} has gone"))
    } else {
        check
    })
}

#[cfg(test)]
mod tests {
    use kube_rebootd_core::pod::EvictAnswer;
    use serde_json::json;

    use super::*;

    /// A pod without a controller.
    fn bare(policy: &str, phase: &str) -> Pod {
        let pod = json!({
            "metadata": {"name": "alone", "namespace": "shop", "uid": "u"},
            "spec": {"containers": [], "restartPolicy": policy},
            "status": {"phase": phase},
        });
        serde_json::from_value(pod).expect("a Pod")
    }

    #[test]
    fn i9_evictions_that_would_be_refused_are_named() {
        let pods: Vec<_> = ["a", "b", "c", "d", "e"]
            .into_iter()
            .map(|name| {
                let pod = json!({
                    "metadata": {"name": name, "namespace": "shop", "uid": name, "ownerReferences": [
                        {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "uid": name, "controller": true}]},
                    "spec": {"containers": []}, "status": {"phase": "Running"},
                });
                own_pods::read(&serde_json::from_value(pod).expect("a Pod"))
            })
            .collect();
        let tries = drain::to_try(&pods, &Config::default().drain.policy);
        let says = "The disruption budget web needs 2 healthy pods and has 2 currently";
        let answers = |refused: usize| {
            let full = EvictAnswer::Budget(says.to_owned());
            let answers = std::iter::repeat_n(full, refused);
            let answers = answers.chain(std::iter::repeat(EvictAnswer::Accepted));
            refusing(tries.iter().cloned().zip(answers).collect())
        };
        let fine = format!("{:?}", answers(0));
        assert!(
            fine.contains("5 evictions were tried, and none would be refused"),
            "{fine}"
        );
        let said = format!("{:?}", answers(4));
        assert!(answers(4).warns());
        let first =
            format!("4 of 5 evictions would be refused now: shop/a: {says}; the pod is not Ready");
        assert!(
            said.contains(&first) && said.contains(" and 1 more"),
            "{said}"
        );
    }

    /// Once nothing was wrong by doctor while such a pod closed the gate.
    #[test]
    fn a_pod_that_nobody_makes_again_is_named_while_it_stops_the_drain() {
        let config = Config::default();
        let said = movable(&[bare("Never", "Running")], &config).map(|check| format!("{check:?}"));
        let said = said.expect("a warning");
        assert!(
            said.contains("1 pod would block the drain: shop/alone"),
            "{said}"
        );
        assert!(movable(&[bare("Always", "Running")], &config).is_none());
        assert!(movable(&[bare("Never", "Succeeded")], &config).is_none());
    }

    #[test]
    fn a_pod_that_keeps_reboots_away_is_named() {
        let now: Timestamp = "2026-11-18T11:00:00Z".parse().expect("a time");
        let config = Config::default();
        let said = |value: &str| {
            let pod = json!({
                "metadata": {"name": "work", "namespace": "shop", "uid": "u",
                    "annotations": {"karpenter.sh/do-not-disrupt": value}},
                "spec": {"containers": []},
                "status": {"phase": "Running", "startTime": "2026-11-18T10:00:00Z"},
            });
            let pod = serde_json::from_value(pod).expect("a Pod");
            protected(&[pod], &config, now).map(|check| format!("{check:?}"))
        };
        for (value, words) in [
            ("true", Some("1 protected: shop/work has the annotation")),
            ("2h", Some("or 2026-11-18T12:00:00Z has come")),
            (
                "soon",
                Some("shop/work has the annotation karpenter.sh/do-not-disrupt with a value that"),
            ),
            ("false", None),
            ("30m", None),
        ] {
            let said = said(value);
            assert_eq!(said.is_some(), words.is_some(), "{value}: {said:?}");
            let says = |words: &str| said.as_deref().is_some_and(|said| said.contains(words));
            assert!(words.is_none_or(says), "{value}: {said:?}");
        }
    }

    #[test]
    fn an_annotation_that_does_not_count_is_named_where_any_counts() {
        let pod = |value: &str| {
            let pod = json!({
                "metadata": {"name": "work", "namespace": "shop", "uid": "u",
                    "annotations": {"kube-rebootd/drain-timeout": value}},
                "spec": {"containers": []}, "status": {"phase": "Running"},
            });
            serde_json::from_value::<Pod>(pod).expect("a Pod")
        };
        let mut config = Config::default();
        assert!(
            impatient(&[pod("soon")], &config).is_none(),
            "by default none counts"
        );
        config.drain.policy.pod_timeout_max = std::time::Duration::from_secs(1800);
        for (value, words) in [
            (
                "soon",
                Some("shop/work has an annotation kube-rebootd/drain-timeout that is no duration"),
            ),
            ("2h", Some("gets 30m (drain.pod_timeout_max)")),
            ("10m", None),
        ] {
            let said = impatient(&[pod(value)], &config).map(|check| format!("{check:?}"));
            assert_eq!(said.is_some(), words.is_some(), "{value}");
            let has = |words: &str| said.as_deref().is_some_and(|said| said.contains(words));
            assert!(words.is_none_or(has), "{value}: {said:?}");
        }
    }

    #[test]
    fn a_pod_that_a_graceful_shutdown_ends_for_ever_is_named() {
        let (pods, config) = ([bare("Always", "Running")], Config::default());
        let said = |graceful| format!("{:?}", ending(&pods, &config, graceful));
        assert!(
            said(true).contains("without a controller: shop/alone"),
            "{}",
            said(true)
        );
        assert!(!said(false).contains("shop/alone"), "{}", said(false));
    }
}
