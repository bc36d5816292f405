//! Pods of the own node: consistent list, what a watch delivers, and evictions (I9, I11).
//!
//! A pod is never read by GET: a node's identity gets 403 once the pod is gone (seen on 1.36.3).
//! The eviction's body is our own: kube 5.0.0 names `deleteOptions` wrongly, so its precondition would
//! never reach the server.

use std::time::Duration;

use kube::api::ListParams;
use kube::core::Status as Answer;
use kube::{Api, Client, Resource, ResourceExt};
use kube_rebootd_core::drain::{Escalated, How, PodRef};
use kube_rebootd_core::names;
use kube_rebootd_core::pod::{
    Container, Controller, EvictAnswer, Patience, Pod, PodPhase, RestartPolicy, Shield,
};
use kube_rebootd_core::rivals::Rival;
use kube_rebootd_core::text::{self, NAME};
use serde_json::{Value, json};

use crate::cluster::answer::{ApiError, CALL, Failure, bounded, call, cause, retry_after};
use crate::cluster::lean;

mod object;
mod tries;

use object::{ContainerStatus, Spec};
pub use object::{Object, images};
pub use tries::Tried;

/// Annotation by which the kubelet marks its copy of a static pod.
const MIRROR: &str = "kubernetes.io/config.mirror";
/// Longer than any UID that the API server makes (36).
const UID: usize = 64;
/// Labels of a pod that are kept: whoever may make pods can give each a megabyte of them (I14).
const LABELS: usize = 256;
/// What the eviction API says when more than one budget matches (eviction.go); it has no reason.
const TWO_BUDGETS: &str = "more than one PodDisruptionBudget";
/// What `NodeRestriction` says about a pod that meanwhile is another node's: to an eviction, and to a deletion.
const NOT_HERE: [&str; 2] = [
    "can only evict pods with spec.nodeName set to itself",
    "can only delete pods with spec.nodeName set to itself",
];

/// The pods of this node, through the node client.
#[derive(Clone)]
pub struct OwnPods {
    client: Client,
    node: String,
}

impl OwnPods {
    pub fn new(client: Client, node: &str) -> Self {
        Self {
            client,
            node: node.to_owned(),
        }
    }

    /// For a watch, with [`OwnPods::fields`].
    pub fn api(&self) -> Api<Object> {
        Api::all(self.client.clone())
    }

    /// Field selector of the node's pods, the only one a node may use.
    pub fn fields(&self) -> String {
        format!("spec.nodeName={}", self.node)
    }

    /// A consistent list.
    pub async fn list(&self) -> Result<Vec<Pod>, ApiError> {
        let api = self.api();
        let params = ListParams::default().fields(&self.fields());
        let list = call("list own pods", CALL, api.list(&params)).await?;
        Ok(list.items.iter().map(read).collect())
    }

    /// Asks for the eviction of exactly this pod (its UID is the precondition).
    pub async fn evict(&self, pod: &PodRef) -> EvictAnswer {
        self.ask(pod, None, false).await
    }

    /// What would be answered now. It is a dry run: the pod stays, and its budget keeps what it allows
    /// (`cluster_pods::i9_a_dry_run_evicts_nothing_and_takes_nothing_from_the_budget`).
    pub async fn would_evict(&self, pod: &PodRef) -> EvictAnswer {
        self.ask(pod, None, true).await
    }

    /// Does what `drain.escalate` wants with exactly this pod. An eviction of a pod that is terminating asks no budget, and may
    /// shorten its grace period (eviction.go `canIgnorePDB`); nothing but a deletion passes a budget.
    pub async fn escalate(&self, one: &Escalated) -> EvictAnswer {
        match one.how {
            How::Grace(grace) => self.ask(&one.pod, Some(grace), false).await,
            How::Delete(grace) => self.delete(&one.pod, grace).await,
        }
    }

    async fn delete(&self, pod: &PodRef, grace: Option<Duration>) -> EvictAnswer {
        let mut body = json!({"apiVersion": "v1", "kind": "DeleteOptions",
            "preconditions": {"uid": pod.uid}});
        if let Some(grace) = grace {
            body["gracePeriodSeconds"] = json!(seconds(grace));
        }
        let path = format!("/api/v1/namespaces/{}/pods/{}", pod.namespace, pod.name);
        self.send(http::Request::delete(path), &body).await
    }

    async fn ask(&self, pod: &PodRef, grace: Option<Duration>, dry: bool) -> EvictAnswer {
        let mut body = json!({
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"namespace": pod.namespace, "name": pod.name},
            "deleteOptions": {"preconditions": {"uid": pod.uid}},
        });
        let mut path = format!(
            "/api/v1/namespaces/{}/pods/{}/eviction",
            pod.namespace, pod.name
        );
        if let Some(grace) = grace {
            body["deleteOptions"]["gracePeriodSeconds"] = json!(seconds(grace));
        }
        // Said twice: admission reads the query, the storage the body (eviction.go, `propagateDryRun`). Where one were lost
        // on its way, the other would still keep the pod.
        if dry {
            body["deleteOptions"]["dryRun"] = json!(["All"]);
            path.push_str("?dryRun=All");
        }
        self.send(http::Request::post(path), &body).await
    }

    async fn send(&self, request: http::request::Builder, body: &Value) -> EvictAnswer {
        let request = request
            .header(http::header::CONTENT_TYPE, "application/json")
            .body(body.to_string().into_bytes());
        let request = match request {
            Ok(request) => request,
            Err(error) => return EvictAnswer::Refused(error.to_string()),
        };
        match bounded(CALL, self.client.request_text(request)).await {
            Ok(_) => EvictAnswer::Accepted,
            Err(Failure::Said(status)) => answer(&status),
            Err(Failure::NoAnswer(why)) => EvictAnswer::Unanswered {
                retry_after: None,
                why,
            },
            Err(Failure::NotSent(why)) => EvictAnswer::Refused(why),
        }
    }
}

/// A grace period of 0 would end a pod without its kubelet.
fn seconds(grace: Duration) -> u64 {
    grace.as_secs().max(1)
}

/// Kubernetes `pkg/registry/core/pod/storage/eviction.go`, and the deletion of a pod.
fn answer(status: &Answer) -> EvictAnswer {
    let message = status.message.clone();
    match status.code {
        404 | 409 => EvictAnswer::LookAgain,
        403 if NOT_HERE.iter().any(|said| message.contains(said)) => EvictAnswer::LookAgain,
        403 if cause(status, "NamespaceTerminating").is_some() => EvictAnswer::NamespaceTerminating,
        401 => EvictAnswer::Unauthorized(message),
        429 => match cause(status, "DisruptionBudget") {
            Some(budget) => EvictAnswer::Budget(budget),
            None => EvictAnswer::Busy {
                retry_after: retry_after(status),
                why: message,
            },
        },
        500 if message.contains(TWO_BUDGETS) => EvictAnswer::TwoBudgets(message),
        400..=499 => EvictAnswer::Refused(message),
        // 5xx, and what is no Status of the server's: see `classify`.
        _ => EvictAnswer::Unanswered {
            retry_after: retry_after(status),
            why: message,
        },
    }
}

/// A UID of an owner, which is whatever the author of the pod wrote: one that the API server made stays as it is.
fn uid(text: &str) -> String {
    let kept = text
        .chars()
        .filter(|one| one.is_ascii_alphanumeric() || *one == '-');
    kept.take(UID).collect()
}

/// What is looked at on a pod.
pub fn read(object: &Object) -> Pod {
    let spec = object.spec.as_ref();
    let status = object.status.as_ref();
    let controller = object
        .owner_references()
        .iter()
        .find(|owner| owner.controller == Some(true))
        .map(|owner| Controller {
            api: text::name(&owner.api_version, NAME),
            kind: text::name(&owner.kind, NAME),
            name: text::name(&owner.name, NAME),
            uid: uid(&owner.uid),
        });
    Pod {
        namespace: text::name(&object.namespace().unwrap_or_default(), NAME),
        name: text::name(&object.name_any(), NAME),
        uid: object.uid().unwrap_or_default(),
        labels: (object.labels().iter().take(LABELS))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect(),
        mirror: object.annotations().contains_key(MIRROR),
        shield: {
            let said = |key| object.annotations().get(key).map(String::as_str);
            Shield::of(said(names::SAFE_TO_EVICT), said(names::DO_NOT_DISRUPT))
        },
        patience: {
            let said = object.annotations().get(names::DRAIN_TIMEOUT);
            Patience::of(said.map(String::as_str))
        },
        rival: Rival::of(object.labels(), images(object), reaches(spec)),
        started: status
            .and_then(|status| status.start_time.as_deref())
            .map(lean::time),
        controller,
        phase: match status.and_then(|status| status.phase.as_deref()) {
            Some("Pending") => PodPhase::Pending,
            Some("Running") => PodPhase::Running,
            Some("Succeeded") => PodPhase::Succeeded,
            Some("Failed") => PodPhase::Failed,
            Some(_) | None => PodPhase::Unknown,
        },
        restart_policy: match spec.and_then(|spec| spec.restart_policy.as_deref()) {
            Some("Never") => RestartPolicy::Never,
            Some("OnFailure") => RestartPolicy::OnFailure,
            Some(_) | None => RestartPolicy::Always,
        },
        terminating: object.meta().deletion_timestamp.is_some(),
        grace_seconds: object
            .meta()
            .deletion_grace_period_seconds
            .and_then(|seconds| u64::try_from(seconds).ok())
            .unwrap_or(0),
        finalizers: (object.finalizers().iter())
            .map(|finalizer| text::name(finalizer, NAME))
            .collect(),
        empty_dir: spec
            .and_then(|spec| spec.volumes.as_ref())
            .into_iter()
            .flatten()
            .any(|volume| volume.empty_dir.is_some()),
        volumes: volumes(object),
        priority: spec.and_then(|spec| spec.priority).unwrap_or(0),
        ready: status
            .and_then(|status| status.conditions.as_ref())
            .into_iter()
            .flatten()
            .any(|condition| condition.type_ == "Ready" && condition.status == "True"),
        containers: status
            .and_then(|status| status.container_statuses.as_ref())
            .into_iter()
            .flatten()
            .map(container)
            .collect(),
    }
}

/// It is in the PID namespace of the host, or has a directory of the host.
fn reaches(spec: Option<&Spec>) -> bool {
    let volumes = spec.and_then(|spec| spec.volumes.as_ref());
    let mut volumes = volumes.into_iter().flatten();
    spec.is_some_and(|spec| spec.host_pid == Some(true))
        || volumes.any(|volume| volume.host_path.is_some())
}

/// What the kubelet may attach: claims, those made for this pod alone, and in-line disks of the kinds
/// whose plug-ins attach. Rather one too many: it is an upper bound.
fn volumes(object: &Object) -> Vec<String> {
    let name = |name: String| text::name(&name, NAME);
    let (namespace, pod) = (
        name(object.namespace().unwrap_or_default()),
        name(object.name_any()),
    );
    let all = object
        .spec
        .as_ref()
        .and_then(|spec| spec.volumes.as_ref())
        .into_iter()
        .flatten();
    all.filter_map(|volume| {
        if let Some(claim) = &volume.persistent_volume_claim {
            return Some(format!("{namespace}/{}", name(claim.claim_name.clone())));
        }
        let disk = volume.aws_elastic_block_store.is_some()
            || volume.azure_disk.is_some()
            || volume.cinder.is_some()
            || volume.fc.is_some()
            || volume.flex_volume.is_some()
            || volume.gce_persistent_disk.is_some()
            || volume.iscsi.is_some()
            || volume.portworx_volume.is_some()
            || volume.rbd.is_some()
            || volume.vsphere_volume.is_some();
        // The claim of an ephemeral volume has this name (component-helpers storage/ephemeral).
        (disk || volume.ephemeral.is_some())
            .then(|| format!("{namespace}/{pod}-{}", name(volume.name.clone())))
    })
    .collect()
}

fn container(status: &ContainerStatus) -> Container {
    Container {
        name: text::name(&status.name, NAME),
        id: status.container_id.clone().unwrap_or_default(),
        started: status
            .state
            .as_ref()
            .and_then(|state| state.running.as_ref())
            .and_then(|running| running.started_at.as_deref())
            .map(lean::time),
        restarts: u32::try_from(status.restart_count).unwrap_or(0),
    }
}

#[cfg(test)]
mod tests;
