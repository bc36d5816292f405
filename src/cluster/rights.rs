//! What the credential of a client may do, asked by `SelfSubjectAccessReview`: RBAC's word alone. What admission refuses only a
//! dry run shows.

use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use kube::api::PostParams;
use kube::{Api, Client};

use crate::cluster::answer::{ApiError, CALL, call};

/// Whether `client` may do what is asked.
pub async fn may(client: &Client, question: ResourceAttributes) -> Result<bool, ApiError> {
    let api: Api<SelfSubjectAccessReview> = Api::all(client.clone());
    let review = SelfSubjectAccessReview {
        spec: SelfSubjectAccessReviewSpec {
            resource_attributes: Some(question),
            ..SelfSubjectAccessReviewSpec::default()
        },
        ..SelfSubjectAccessReview::default()
    };
    let params = PostParams::default();
    let answer = call("ask what we may", CALL, api.create(&params, &review)).await?;
    Ok(answer.status.is_some_and(|status| status.allowed))
}

/// Whether it may delete pods, as a kubelet's identity may those of its own node.
pub async fn deletes(client: &Client) -> Result<bool, ApiError> {
    let question = ResourceAttributes {
        verb: Some("delete".to_owned()),
        group: Some(String::new()),
        resource: Some("pods".to_owned()),
        ..ResourceAttributes::default()
    };
    may(client, question).await
}

/// Whether it may evict pods in this namespace; none: in every one.
pub async fn evicts(client: &Client, namespace: Option<&str>) -> Result<bool, ApiError> {
    let question = ResourceAttributes {
        verb: Some("create".to_owned()),
        group: Some(String::new()),
        resource: Some("pods".to_owned()),
        subresource: Some("eviction".to_owned()),
        namespace: namespace.map(str::to_owned),
        ..ResourceAttributes::default()
    };
    may(client, question).await
}
