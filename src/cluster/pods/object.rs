//! A pod as it is read: what this daemon looks at, and nothing else of what its author wrote (I14).

use k8s_openapi::api::core::v1::Pod;
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::cluster::lean::Lean;

/// A pod, as far as it is looked at: the rest may hold whatever its author wrote.
pub type Object = Lean<Pod, Spec, Status>;

/// What is looked at of a pod's spec.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Spec {
    #[serde(rename = "hostPID")]
    pub(super) host_pid: Option<bool>,
    pub(super) restart_policy: Option<String>,
    pub(super) priority: Option<i32>,
    pub(super) volumes: Option<Vec<Volume>>,
    pub(super) containers: Option<Vec<Image>>,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Image {
    pub(super) image: Option<String>,
}

/// A volume: its claim, or of which kind it is.
#[allow(clippy::struct_field_names)] // as Kubernetes names them
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Volume {
    #[serde(default)]
    pub(super) name: String,
    pub(super) empty_dir: Option<IgnoredAny>,
    pub(super) host_path: Option<IgnoredAny>,
    pub(super) persistent_volume_claim: Option<Claim>,
    pub(super) ephemeral: Option<IgnoredAny>,
    pub(super) aws_elastic_block_store: Option<IgnoredAny>,
    pub(super) azure_disk: Option<IgnoredAny>,
    pub(super) cinder: Option<IgnoredAny>,
    pub(super) fc: Option<IgnoredAny>,
    pub(super) flex_volume: Option<IgnoredAny>,
    pub(super) gce_persistent_disk: Option<IgnoredAny>,
    pub(super) iscsi: Option<IgnoredAny>,
    pub(super) portworx_volume: Option<IgnoredAny>,
    pub(super) rbd: Option<IgnoredAny>,
    pub(super) vsphere_volume: Option<IgnoredAny>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Claim {
    #[serde(default)]
    pub(super) claim_name: String,
}

/// What is looked at of a pod's status.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    pub(super) phase: Option<String>,
    pub(super) start_time: Option<String>,
    pub(super) conditions: Option<Vec<Condition>>,
    pub(super) container_statuses: Option<Vec<ContainerStatus>>,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Condition {
    #[serde(rename = "type", default)]
    pub(super) type_: String,
    #[serde(default)]
    pub(super) status: String,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ContainerStatus {
    #[serde(default)]
    pub(super) name: String,
    #[serde(rename = "containerID")]
    pub(super) container_id: Option<String>,
    pub(super) state: Option<ContainerState>,
    #[serde(default)]
    pub(super) restart_count: i32,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct ContainerState {
    pub(super) running: Option<Running>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Running {
    pub(super) started_at: Option<String>,
}

/// The images of its containers.
pub fn images(object: &Object) -> impl Iterator<Item = &str> {
    let containers = object.spec.iter().flat_map(|spec| &spec.containers);
    containers
        .flatten()
        .filter_map(|container| container.image.as_deref())
}
