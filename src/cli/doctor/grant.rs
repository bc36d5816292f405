//! How this node comes to act as the coordinator, and whether it could act as somebody else (I11).
//!
//! Asked by `SelfSubjectAccessReview`, which knows RBAC; what admission refuses only a dry run shows.

use k8s_openapi::api::authorization::v1::ResourceAttributes;
use kube::Client;
use kube_rebootd_core::config::Coordination;
use kube_rebootd_core::names::option;

use super::Check;
use crate::cluster::answer::{ApiError, CALL, call};
use crate::cluster::client::Clients;
use crate::cluster::rights::may;

pub(super) const GRANT: &str = "grant";
pub(super) const ESCAPE: &str = "impersonation";
/// API group of what is impersonated, but for the plain verb on users and `ServiceAccounts`.
const AUTHENTICATION: &str = "authentication.k8s.io";
/// From here on a grant can be narrowed (`ConstrainedImpersonation`, beta and on).
const CONSTRAINED_SINCE: (u32, u32) = (1, 36);
/// No node is called so: nobody may claim it.
pub(super) const NOBODY: &str = "kube-rebootd-doctor";

/// By which verb RBAC lets this node act as the coordinator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verb {
    None,
    /// `impersonate`.
    Plain,
    /// `impersonate:serviceaccount`.
    Constrained,
    Both,
}

/// Which node it may say that it is, by the extra value `node`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Names {
    None,
    Own,
    /// One that is nobody's, too.
    Any,
}

/// With which grant, and whether it fits the configuration and the server.
pub(super) async fn grant(clients: &Clients, coordination: &Coordination) -> Check {
    let Some(account) = coordination.impersonate.as_deref() else {
        return Check::ok(GRANT, "the node's own identity is used for the Leases");
    };
    if coordination.kubeconfig.is_some() {
        return Check::ok(GRANT, "an identity of its own is used for the Leases");
    }
    let namespace = coordination.namespace.as_str();
    let seen = Box::pin(granted(&clients.node, &clients.name, namespace, account));
    match seen.await {
        Ok((verb, names, server)) => judge(verb, names, server, coordination, &clients.name),
        Err(err) => Check::warn(GRANT, err.to_string(), "run doctor again"),
    }
}

async fn granted(
    node: &Client,
    name: &str,
    namespace: &str,
    account: &str,
) -> Result<(Verb, Names, (u32, u32)), ApiError> {
    let verb = |verb, group| may(node, act_as(verb, group, namespace, account));
    let (plain, constrained, own, any, server) = tokio::try_join!(
        verb("impersonate", ""),
        verb("impersonate:serviceaccount", AUTHENTICATION),
        may(node, be(name)),
        may(node, be(NOBODY)),
        version(node),
    )?;
    let verb = match (plain, constrained) {
        (false, false) => Verb::None,
        (true, false) => Verb::Plain,
        (false, true) => Verb::Constrained,
        (true, true) => Verb::Both,
    };
    let names = match (own, any) {
        (_, true) => Names::Any,
        (true, false) => Names::Own,
        (false, false) => Names::None,
    };
    Ok((verb, names, server))
}

fn judge(
    verb: Verb,
    names: Names,
    server: (u32, u32),
    coordination: &Coordination,
    node: &str,
) -> Check {
    let prove_node = coordination.prove_node;
    let namespace = option(&coordination.namespace);
    let apply = |options: &str| {
        format!(
            "as an admin: kube-rebootd manifests{namespace}{options} | kubectl apply --server-side -f -"
        )
    };
    let strict = format!(" --strict {node}");
    match (verb, names) {
        (Verb::None, _) => Check::fail(GRANT, "nodes may not act as the coordinator", apply("")),
        (Verb::Constrained, _) if server < CONSTRAINED_SINCE => {
            let (major, minor) = server;
            let what = format!(
                "only a constrained grant is there, which this server ({major}.{minor}) does not know"
            );
            Check::fail(GRANT, what, apply(""))
        }
        // The server takes no extra value there (apiserver impersonation/mode.go).
        (Verb::Constrained, _) if prove_node => Check::fail(
            GRANT,
            "a constrained grant carries no proof of the node, and coordination.prove_node is set",
            apply(&strict),
        ),
        (Verb::Constrained, _) => Check::ok(GRANT, "constrained to the daemon's requests"),
        (Verb::Both, _) if !prove_node => Check::warn(
            GRANT,
            "the plain verb impersonate voids the constrained grant beside it",
            apply(" --constrained"),
        ),
        (_, Names::None) if prove_node => Check::fail(
            GRANT,
            format!("nodes may act as the coordinator, but not as node {node} of it"),
            apply(&strict),
        ),
        (_, Names::Any) => Check::warn(
            GRANT,
            "this node may claim any node's name: its proof proves nothing",
            "find and narrow the binding: kubectl get clusterrolebindings -o wide | grep system:node",
        ),
        (_, Names::Own) if prove_node => Check::ok(GRANT, format!("as node {node} and no other")),
        (_, Names::Own) => Check::warn(
            GRANT,
            "this node may prove its name, but does not",
            "set coordination.prove_node = true in the configuration",
        ),
        (_, Names::None) => Check::ok(GRANT, "every node may act as the coordinator"),
    }
}

/// A node that may act as any user escapes `NodeRestriction` (`hostile`): then no record of
/// a node's own is worth more than another's word.
pub(super) async fn escape(node: &Client) -> Check {
    let question = ResourceAttributes {
        verb: Some("impersonate".to_owned()),
        resource: Some("users".to_owned()),
        ..ResourceAttributes::default()
    };
    match may(node, question).await {
        Ok(true) => Check::warn(
            ESCAPE,
            "nodes may impersonate users, and so escape NodeRestriction",
            "find and narrow the binding: kubectl get clusterrolebindings -o wide | grep system:node",
        ),
        Ok(false) => Check::ok(ESCAPE, "nodes may not act as users"),
        Err(err) => Check::warn(
            ESCAPE,
            err.to_string(),
            "ask as an admin: kubectl auth can-i impersonate users --as-group=system:nodes --as=x",
        ),
    }
}

fn act_as(verb: &str, group: &str, namespace: &str, account: &str) -> ResourceAttributes {
    ResourceAttributes {
        verb: Some(verb.to_owned()),
        group: Some(group.to_owned()),
        resource: Some("serviceaccounts".to_owned()),
        namespace: Some(namespace.to_owned()),
        name: Some(account.to_owned()),
        ..ResourceAttributes::default()
    }
}

fn be(node: &str) -> ResourceAttributes {
    ResourceAttributes {
        verb: Some("impersonate".to_owned()),
        group: Some(AUTHENTICATION.to_owned()),
        resource: Some("userextras".to_owned()),
        subresource: Some("node".to_owned()),
        name: Some(node.to_owned()),
        ..ResourceAttributes::default()
    }
}

/// Major and minor; a provider's minor may read `36+`.
async fn version(client: &Client) -> Result<(u32, u32), ApiError> {
    let info = call("ask for the version", CALL, client.apiserver_version()).await?;
    let number = |text: &str| {
        let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
        digits.parse().unwrap_or(0)
    };
    Ok((number(&info.major), number(&info.minor)))
}

#[cfg(test)]
mod tests {
    use super::super::Diagnosis;
    use super::*;

    fn said(verb: Verb, names: Names, server: (u32, u32), prove: bool) -> (&'static str, String) {
        let coordination = Coordination {
            prove_node: prove,
            ..Coordination::default()
        };
        match judge(verb, names, server, &coordination, "n1").verdict {
            Diagnosis::Ok { what } => ("ok", what),
            Diagnosis::Warn { what, cure, .. } => ("warn", format!("{what}: {cure}")),
            Diagnosis::Fail { what, cure } => ("fail", format!("{what}: {cure}")),
            Diagnosis::Skipped { needs } => ("-", needs.to_owned()),
        }
    }

    #[test]
    fn i11_each_grant_is_told_with_what_does_not_fit_it() {
        let new = CONSTRAINED_SINCE;
        for (verb, names, server, prove_node, verdict, words) in [
            (
                Verb::None,
                Names::None,
                new,
                false,
                "fail",
                "manifests | kubectl",
            ),
            (Verb::Plain, Names::None, new, false, "ok", "every node"),
            (Verb::Plain, Names::None, new, true, "fail", "--strict n1"),
            (
                Verb::Constrained,
                Names::None,
                new,
                false,
                "ok",
                "constrained",
            ),
            (
                Verb::Constrained,
                Names::None,
                (1, 35),
                false,
                "fail",
                "does not know",
            ),
            (
                Verb::Constrained,
                Names::None,
                new,
                true,
                "fail",
                "--strict n1",
            ),
            (Verb::Both, Names::None, new, false, "warn", "--constrained"),
            (
                Verb::Plain,
                Names::Own,
                new,
                true,
                "ok",
                "node n1 and no other",
            ),
            (
                Verb::Plain,
                Names::Own,
                new,
                false,
                "warn",
                "prove_node = true",
            ),
            (
                Verb::Plain,
                Names::Any,
                new,
                true,
                "warn",
                "any node's name",
            ),
        ] {
            let (found, text) = said(verb, names, server, prove_node);
            assert_eq!(found, verdict, "{verb:?} {names:?}: {text}");
            assert!(text.contains(words), "{verb:?} {names:?}: {text}");
        }
    }
}
