//! What the refusal of a request that changes nothing means, and what cures it.

use kube_rebootd_core::names::option;

use super::Check;
use crate::cluster::answer::ApiError;

/// Field manager of the dry runs: leaves the daemon's own fields alone even in their answers.
pub(super) const MANAGER: &str = "kube-rebootd-doctor";

/// Cures missing rights and policies of this namespace; what it applies has no slot in it, and so pauses none.
pub(super) fn manifests(namespace: &str) -> String {
    format!(
        "as an admin, with the options that the cluster has (--constrained, --strict NODE...): kube-rebootd manifests{} | kubectl apply --server-side -f -",
        option(namespace)
    )
}

/// A right that is missing, or another answer.
pub(super) fn refused(name: &'static str, err: &ApiError, denied: &str) -> Check {
    let cure = match err {
        ApiError::Denied { message, .. } if message.contains("userextras") => {
            "coordination.prove_node is set, but this node may not prove its name: see grant"
        }
        ApiError::Denied { .. } => denied,
        ApiError::Invalid { .. } => "look at the cluster's admission policies for what refuses it",
        _ => "see what the API server's log says, and run doctor again",
    };
    Check::fail(name, err.to_string(), cure)
}
