//! Leases of the daemon's namespace as slots: read, take, give up (I1, I4, I5).
//!
//! The lock is `metadata.uid` and `metadata.resourceVersion` of the object that was read; force only
//! takes over field ownership that kubectl, a restore or `GitOps` left behind. Proved on 1.36.3.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use kube_rebootd_core::names;
use kube_rebootd_core::scatter::scatter;
use kube_rebootd_core::slot::{Fence, GiveUp, HINTS, Lease, Take, TakeSaid};
use kube_rebootd_core::text::{self, NAME, WORDS};
use serde_json::{Value, json};

use crate::cluster::answer::{ApiError, CALL, call, found};
use crate::cluster::lean::{self, Lease as Object};

/// Longest field manager that the API server accepts (apimachinery `FieldManagerMaxLength`).
const MANAGER_MAX: usize = 128;
/// So much of a longer node name is kept readable; the hash of all of it follows.
const MANAGER_KEPT: usize = 100;

/// The Leases of one namespace, through the coordinator client.
#[derive(Clone)]
pub struct Leases {
    api: Api<Object>,
    manager: String,
    node: String,
}

/// How a take ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Took {
    /// 200: the Lease as it is now.
    Ours(Box<Lease>),
    /// 409, or the Lease is not the one that was read: read it and believe it.
    Conflict,
    /// Another definite 4xx, in words.
    Refused(String),
    /// It may still land; 401 and 429 are here too, as an earlier send of the same may have landed.
    Unanswered(ApiError),
}

impl Took {
    /// The definite answer, if it is one; `at`: boot time.
    pub fn said(&self, at: Duration) -> Option<TakeSaid> {
        match self {
            Self::Ours(_) => Some(TakeSaid::Taken),
            Self::Conflict => Some(TakeSaid::Conflict(at)),
            Self::Refused(why) => Some(TakeSaid::Refused(why.clone())),
            Self::Unanswered(_) => None,
        }
    }
}

/// Why a slot could not be given up or cleared.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GiveUpError {
    #[error(transparent)]
    Api(#[from] ApiError),
    /// The answer still shows a holder.
    #[error("Lease {lease} is still held by {holder}")]
    StillHeld { lease: String, holder: String },
}

impl Leases {
    /// `node` is holderIdentity and, as far as it fits, the field manager.
    pub fn new(coordinator: Client, namespace: &str, node: &str) -> Self {
        Self {
            api: Api::namespaced(coordinator, namespace),
            manager: manager(node),
            node: node.to_owned(),
        }
    }

    /// For a watch of the group's Leases.
    pub fn api(&self) -> Api<Object> {
        self.api.clone()
    }

    /// The group's Leases by a consistent read, asked for at boot time `asked`.
    pub async fn group(&self, group: &str, asked: Duration) -> Result<Vec<Lease>, ApiError> {
        self.list(&selector(group), asked).await
    }

    /// The Leases of all groups by a consistent read.
    pub async fn all(&self, asked: Duration) -> Result<Vec<Lease>, ApiError> {
        self.list(names::GROUP, asked).await
    }

    async fn list(&self, labels: &str, asked: Duration) -> Result<Vec<Lease>, ApiError> {
        let params = ListParams::default().labels(labels);
        let list = call("list Leases", CALL, self.api.list(&params)).await?;
        Ok(list
            .items
            .iter()
            .map(|lease| read(lease, Some(asked)))
            .collect())
    }

    /// One Lease by a consistent read; none on 404.
    pub async fn get(&self, name: &str, asked: Duration) -> Result<Option<Lease>, ApiError> {
        let what = format!("get Lease {name}");
        let object = found(call(&what, CALL, self.api.get(name)).await)?;
        Ok(object.map(|lease| read(&lease, Some(asked))))
    }

    /// Sends the take, exactly as recorded.
    pub async fn take(&self, take: &Take, asked: Duration) -> Took {
        let params = PatchParams::apply(&self.manager).force();
        let body = Patch::Apply(claim(take, &self.node));
        let what = format!("take Lease {}", take.lease);
        match call(&what, CALL, self.api.patch(&take.lease, &params, &body)).await {
            Ok(lease) => Took::Ours(Box::new(read(&lease, Some(asked)))),
            Err(error) if error.unanswered() || error.unauthorized() => Took::Unanswered(error),
            Err(
                ApiError::Conflict { .. } | ApiError::UidMismatch { .. } | ApiError::Gone { .. },
            ) => Took::Conflict,
            Err(error) => Took::Refused(error.to_string()),
        }
    }

    /// Says on the own Lease that this node goes down now, if the Lease is still the one that was read.
    pub async fn fence(&self, fence: &Fence, asked: Duration) -> Result<Lease, ApiError> {
        let body = json!({
            "metadata": {
                "resourceVersion": fence.resource_version,
                "annotations": {(names::GOING_DOWN): fence.words},
            },
        });
        let what = format!("say on Lease {} that this node goes down", fence.lease);
        let params = self.by_manager();
        let patch = Patch::Merge(&body);
        let request = self.api.patch(&fence.lease, &params, &patch);
        let lease = call(&what, CALL, request).await?;
        Ok(read(&lease, Some(asked)))
    }

    fn by_manager(&self) -> PatchParams {
        PatchParams {
            field_manager: Some(self.manager.clone()),
            ..PatchParams::default()
        }
    }

    /// Gives the slot up in one request and returns the freed Lease.
    ///
    /// An apply cannot do this: what kubectl, a restore or `GitOps` came to own would stay (`cluster_lease`).
    pub async fn give_up(&self, give_up: &GiveUp, asked: Duration) -> Result<Lease, GiveUpError> {
        let next = Some(give_up.next.join(",")).filter(|next| !next.is_empty());
        let body = json!({
            "metadata": {
                "resourceVersion": give_up.resource_version,
                "annotations": {
                    (names::ROLE): null,
                    (names::GOING_DOWN): null,
                    (names::NEXT): next,
                    (names::LAST_HOLD): give_up.last_hold,
                },
            },
            "spec": {"holderIdentity": null, "acquireTime": null},
        });
        match self.free(&give_up.lease, &body, asked).await {
            // Its annotations may be full, and who filled them must not keep the slot: nothing is added (I4).
            Err(GiveUpError::Api(ApiError::Invalid { .. })) => {
                let least = freed(&give_up.resource_version);
                self.free(&give_up.lease, &least, asked).await
            }
            done => done,
        }
    }

    /// Frees a slot of another node, as it was looked at: whatever happened to it since, such as its node saying that
    /// it goes down now, refuses that ([`ApiError::Conflict`], I1).
    pub async fn unlock(&self, held: &Lease, asked: Duration) -> Result<Lease, GiveUpError> {
        self.free(&held.name, &freed(&held.resource_version), asked)
            .await
    }

    async fn free(&self, name: &str, body: &Value, asked: Duration) -> Result<Lease, GiveUpError> {
        let params = self.by_manager();
        let what = format!("give up Lease {name}");
        let patch = Patch::Merge(body);
        let lease = call(&what, CALL, self.api.patch(name, &params, &patch)).await?;
        let lease = read(&lease, Some(asked));
        match lease.holder {
            Some(holder) => Err(GiveUpError::StillHeld {
                lease: name.to_owned(),
                holder,
            }),
            None => Ok(lease),
        }
    }

    /// Makes a paused Lease for `group`, where RBAC lets it: the shipped role does for `default`.
    ///
    /// An apply, because RBAC checks a name only for a create by PATCH (`cluster_lease`); of an object that is
    /// there nothing is touched, so that an opened slot is not paused again.
    pub async fn create(
        &self,
        name: &str,
        group: &str,
        paused: &str,
        asked: Duration,
    ) -> Result<Lease, ApiError> {
        if let Some(there) = self.get(name, asked).await? {
            return Err(ApiError::Conflict {
                what: format!("create Lease {name}"),
                message: format!(
                    "it exists with the label {}={:?}; label it {group} to make it a slot",
                    names::GROUP,
                    there.group
                ),
                manager: None,
            });
        }
        let body = json!({
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {
                "name": name,
                "labels": {
                    (names::GROUP): group,
                    (names::PROTOCOL): names::PROTOCOL_VERSION.to_string(),
                },
                "annotations": {(names::PAUSED): paused},
            },
        });
        let params = PatchParams::apply(names::SETUP_MANAGER);
        let what = format!("create Lease {name}");
        let patch = Patch::Apply(&body);
        let lease = call(&what, CALL, self.api.patch(name, &params, &patch)).await?;
        Ok(read(&lease, Some(asked)))
    }
}

/// Label selector of the group's Leases.
pub fn selector(group: &str) -> String {
    format!("{}={group}", names::GROUP)
}

/// The body of a take: nothing in it depends on anything but the record, so that it can be repeated.
fn claim(take: &Take, node: &str) -> Value {
    let role = if take.control_plane {
        "control-plane"
    } else {
        "worker"
    };
    json!({
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {
            "name": take.lease,
            "uid": take.uid,
            "resourceVersion": take.resource_version,
            "annotations": {(names::ROLE): role},
        },
        "spec": {"holderIdentity": node, "acquireTime": MicroTime(take.acquire_time)},
    })
}

/// The node name, or its first 100 characters, `-` and the FNV-1a hash of all of it: the same after
/// a reinstallation, else the old manager would keep the fields. Node names are ASCII.
fn manager(node: &str) -> String {
    if node.len() <= MANAGER_MAX {
        return node.to_owned();
    }
    let kept: String = node.chars().take(MANAGER_KEPT).collect();
    format!("{kept}-{:016x}", scatter(&[node]))
}

/// A Lease as a slot; `asked`: boot time of a consistent read, none for what a watch delivered.
pub fn read(object: &Object, asked: Option<Duration>) -> Lease {
    let labels = object.labels();
    let annotations = object.annotations();
    let spec = object.spec.as_ref();
    Lease {
        name: text::name(&object.name_any(), NAME),
        uid: object.uid().unwrap_or_default(),
        resource_version: object.resource_version().unwrap_or_default(),
        group: labels.get(names::GROUP).cloned().unwrap_or_default(),
        holder: spec
            .and_then(|spec| spec.holder_identity.as_deref())
            .filter(|holder| !holder.is_empty())
            .map(|holder| text::name(holder, NAME)),
        acquire_time: spec
            .and_then(|spec| spec.acquire_time.as_deref())
            .map(lean::time),
        paused: annotations
            .get(names::PAUSED)
            .map(|why| text::clean(why, WORDS)),
        protocol: labels.get(names::PROTOCOL).map_or(0, |protocol| {
            // What cannot be read may be newer than this build.
            protocol.parse().unwrap_or(u64::MAX)
        }),
        control_plane: annotations
            .get(names::ROLE)
            .is_some_and(|role| role == "control-plane"),
        next: annotations.get(names::NEXT).map_or_else(Vec::new, |next| {
            next.split(',')
                .map(str::trim)
                .filter(|node| !node.is_empty())
                .take(HINTS)
                .map(|node| text::name(node, NAME))
                .collect()
        }),
        last_hold: annotations
            .get(names::LAST_HOLD)
            .map(|last| text::clean(last, WORDS)),
        going_down: annotations
            .get(names::GOING_DOWN)
            .map(|words| text::clean(words, WORDS)),
        freed: None,
        last_seen: None,
        held: None,
        read: asked,
    }
}

/// The merge patch that frees a Lease of this version, and adds nothing.
fn freed(resource_version: &str) -> Value {
    json!({
        "metadata": {
            "resourceVersion": resource_version,
            "annotations": {(names::ROLE): null, (names::GOING_DOWN): null},
        },
        "spec": {"holderIdentity": null, "acquireTime": null},
    })
}

/// The moment as a Lease stores it: whole microseconds, so that what is read back compares equal.
pub fn stored(moment: Timestamp) -> Timestamp {
    Timestamp::from_microsecond(moment.as_microsecond()).unwrap_or(moment)
}

#[cfg(test)]
mod tests;
