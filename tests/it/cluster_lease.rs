//! The lock on a real API server (I1, I4, I5): every trap of docs/design.md 13 that concerns it.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease as Object;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube_rebootd::cluster::answer::ApiError;
use kube_rebootd::cluster::lease::{GiveUpError, Leases, Took, stored};
use kube_rebootd_core::slot::{Fence, GiveUp, Lease, Take};
use serde_json::{Value, json};

use crate::plane::{Host, enter, make_slot};

const AT: Duration = Duration::from_secs(1);

fn leases(host: &Host) -> Leases {
    Leases::new(host.clients.coordinator.clone(), "kube-rebootd", &host.name)
}

fn raw(host: &Host) -> Api<Object> {
    Api::namespaced(host.admin.clone(), "kube-rebootd")
}

async fn get(host: &Host, name: &str) -> Lease {
    leases(host)
        .get(name, AT)
        .await
        .expect("read")
        .expect("there")
}

async fn take_of(host: &Host, name: &str) -> Take {
    let lease = get(host, name).await;
    Take::of(&lease, "kube-rebootd", stored(Timestamp::now()), false)
}

async fn took(host: &Host, name: &str) -> Lease {
    let take = take_of(host, name).await;
    match leases(host).take(&take, AT).await {
        Took::Ours(lease) => {
            assert_eq!(lease.acquire_time, Some(take.acquire_time));
            *lease
        }
        other => panic!("{other:?}"),
    }
}

async fn give_up(host: &Host, name: &str, next: &[&str]) -> Lease {
    let lease = get(host, name).await;
    let give_up = GiveUp {
        lease: lease.name,
        resource_version: lease.resource_version,
        next: next.iter().map(ToString::to_string).collect(),
        last_hold: format!("{} until now", host.name),
    };
    leases(host).give_up(&give_up, AT).await.expect("given up")
}

async fn admin_patch(host: &Host, name: &str, body: Value) {
    let params = PatchParams {
        field_manager: Some("kubectl-edit".to_owned()),
        ..PatchParams::default()
    };
    raw(host)
        .patch(name, &params, &Patch::Merge(body))
        .await
        .expect("patched");
}

#[tokio::test]
async fn i11_node_restriction_refuses_a_plain_lease_write() {
    let host = enter().host().await;
    make_slot(&host.admin, "plain", "plain").await;
    let take = take_of(&host, "plain").await;
    let plain = Leases::new(host.clients.node.clone(), "kube-rebootd", &host.name);
    let answer = plain.take(&take, AT).await;
    assert!(matches!(answer, Took::Refused(_)), "{answer:?}");
}

#[tokio::test]
async fn i1_a_take_is_once_and_labels_of_the_setup_survive_it() {
    let plane = enter();
    let (one, two) = (plane.host().await, plane.host().await);
    make_slot(&one.admin, "once", "once").await;
    let (first, second) = (take_of(&one, "once").await, take_of(&two, "once").await);
    assert!(matches!(leases(&one).take(&first, AT).await, Took::Ours(_)));
    assert_eq!(leases(&two).take(&second, AT).await, Took::Conflict);
    // Our own again: 409 although we hold it; the GET decides.
    assert_eq!(leases(&one).take(&first, AT).await, Took::Conflict);
    let lease = get(&one, "once").await;
    assert_eq!(lease.holder.as_deref(), Some(one.name.as_str()));
    assert_eq!(lease.acquire_time, Some(first.acquire_time));
    assert_eq!((lease.group.as_str(), lease.protocol), ("once", 1));
    let freed = give_up(&one, "once", &["n7", "n8"]).await;
    assert_eq!(freed.next, ["n7", "n8"]);
    assert_eq!((freed.holder, freed.acquire_time), (None, None));
    let lease = took(&two, "once").await;
    assert_eq!(lease.next, ["n7", "n8"], "hints stay over a take");
    assert!(give_up(&two, "once", &[]).await.next.is_empty());
}

#[tokio::test]
async fn i1_a_fresh_version_over_another_holder_is_refused_by_the_policy() {
    let plane = enter();
    let (one, two) = (plane.host().await, plane.host().await);
    make_slot(&one.admin, "over", "over").await;
    took(&one, "over").await;
    let take = take_of(&two, "over").await;
    let Took::Refused(why) = leases(&two).take(&take, AT).await else {
        panic!("taken over")
    };
    assert!(why.contains("must be given up"), "{why}");
    for body in [
        json!({"metadata": {"labels": {"kube-rebootd/group": "other"}}}),
        json!({"metadata": {"finalizers": ["a.b/c"]}}),
        json!({"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "a", "uid": "u"}]}}),
    ] {
        let api: Api<Object> = Api::namespaced(two.clients.coordinator.clone(), "kube-rebootd");
        let answer = api
            .patch("over", &PatchParams::default(), &Patch::Merge(&body))
            .await;
        let Err(kube::Error::Api(status)) = answer else {
            panic!("{body} was let through")
        };
        assert_eq!(status.code, 422, "{body}: {status}");
    }
}

#[tokio::test]
async fn i1_a_deleted_lease_does_not_come_back_to_life() {
    let host = enter().host().await;
    make_slot(&host.admin, "ghost", "ghost").await;
    let take = take_of(&host, "ghost").await;
    let api = raw(&host);
    api.delete("ghost", &DeleteParams::default())
        .await
        .expect("deleted");
    let answer = leases(&host).take(&take, AT).await;
    assert!(!matches!(answer, Took::Ours(_)), "{answer:?}");
    assert_eq!(leases(&host).get("ghost", AT).await, Ok(None));
    make_slot(&host.admin, "ghost", "ghost").await;
    assert_eq!(leases(&host).take(&take, AT).await, Took::Conflict);
    assert_eq!(get(&host, "ghost").await.holder, None);
}

#[tokio::test]
async fn i4_a_give_up_frees_whatever_others_came_to_own() {
    let plane = enter();
    let (one, two) = (plane.host().await, plane.host().await);
    make_slot(&one.admin, "owned", "owned").await;
    let holder = one.name.clone();
    let dump = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "owned"}, "spec": {"holderIdentity": holder}});
    for way in ["empty", "null", "dump", "wiped"] {
        took(&one, "owned").await;
        match way {
            "empty" => admin_patch(&one, "owned", json!({"spec": {"holderIdentity": ""}})).await,
            "null" => admin_patch(&one, "owned", json!({"spec": {"holderIdentity": null}})).await,
            "dump" => {
                let params = PatchParams::apply("argocd").force();
                raw(&one)
                    .patch("owned", &params, &Patch::Apply(&dump))
                    .await
                    .expect("applied");
            }
            _ => admin_patch(&one, "owned", json!({"metadata": {"managedFields": [{}]}})).await,
        }
        let before = get(&one, "owned").await;
        if matches!(way, "empty" | "null") {
            // An admin's unlock: the next taker takes although acquireTime was left.
            assert_eq!(before.holder, None, "{way}");
            took(&two, "owned").await;
            give_up(&two, "owned", &[]).await;
        } else {
            assert_eq!(before.holder.as_ref(), Some(&one.name), "{way}");
            assert_eq!(give_up(&one, "owned", &[]).await.holder, None, "{way}");
            took(&two, "owned").await;
            give_up(&two, "owned", &[]).await;
        }
    }
}

#[tokio::test]
async fn i4_a_give_up_with_an_old_version_changes_nothing() {
    let host = enter().host().await;
    make_slot(&host.admin, "stale", "stale").await;
    let held = took(&host, "stale").await;
    admin_patch(
        &host,
        "stale",
        json!({"metadata": {"annotations": {"a": "b"}}}),
    )
    .await;
    let give_up = GiveUp {
        lease: "stale".to_owned(),
        resource_version: held.resource_version,
        next: Vec::new(),
        last_hold: "x".to_owned(),
    };
    let error = leases(&host)
        .give_up(&give_up, AT)
        .await
        .expect_err("stale");
    assert!(error.to_string().contains("conflict"), "{error}");
    assert_eq!(get(&host, "stale").await.holder, Some(host.name.clone()));
}

/// Found by review: a node that said meanwhile that it goes down now lost its slot, and a second one went down with it.
#[tokio::test]
async fn i1_i5_unlock_frees_a_slot_only_as_it_was_looked_at() {
    let host = enter().host().await;
    make_slot(&host.admin, "locked", "locked").await;
    let seen = took(&host, "locked").await;
    let fence = Fence {
        lease: "locked".to_owned(),
        resource_version: seen.resource_version.clone(),
        words: "goes down now".to_owned(),
    };
    let fenced = leases(&host).fence(&fence, AT).await.expect("fenced");
    let admin = Leases::new(host.admin.clone(), "kube-rebootd", "admin");
    let refused = admin.unlock(&seen, AT).await;
    assert!(
        matches!(refused, Err(GiveUpError::Api(ApiError::Conflict { .. }))),
        "{refused:?}"
    );
    assert_eq!(get(&host, "locked").await.holder, Some(host.name.clone()));
    let freed = admin.unlock(&fenced, AT).await.expect("freed");
    assert_eq!(freed.holder, None);
    took(&host, "locked").await;
}

#[tokio::test]
async fn i11_only_default_can_be_made_and_it_is_paused() {
    let host = enter().host().await;
    let leases = leases(&host);
    let refused = leases.create("other", "other", "why", AT).await;
    assert!(
        matches!(refused, Err(ApiError::Denied { code: 403, .. })),
        "{refused:?}"
    );
    raw(&host)
        .delete("default", &DeleteParams::default())
        .await
        .expect("deleted");
    // The policy: nobody gains a slot by making the one that may be made.
    let stolen = leases.create("default", "workers", "why", AT).await;
    assert!(
        matches!(stolen, Err(ApiError::Invalid { .. })),
        "{stolen:?}"
    );
    let made = leases
        .create("default", "default", "not opened yet", AT)
        .await
        .expect("made");
    assert_eq!(made.paused.as_deref(), Some("not opened yet"));
    assert_eq!((made.group.as_str(), made.protocol), ("default", 1));
    let lease = took(&host, "default").await;
    assert_eq!(
        lease.paused, made.paused,
        "the taker's apply drops nothing of the setup"
    );
    give_up(&host, "default", &[]).await;
    let again = leases.create("default", "default", "again", AT).await;
    assert!(matches!(again, Err(ApiError::Conflict { .. })), "{again:?}");
}

#[tokio::test]
async fn a_group_lists_its_own_slots_and_all_lists_every_group() {
    let host = enter().host().await;
    for (name, group) in [("g1", "pair"), ("g2", "pair"), ("g3", "single")] {
        make_slot(&host.admin, name, group).await;
    }
    let names = |list: Vec<Lease>| list.into_iter().map(|l| l.name).collect::<Vec<_>>();
    let group = leases(&host).group("pair", AT).await.expect("a list");
    assert!(group.iter().all(|lease| lease.read == Some(AT)));
    assert_eq!(names(group), ["g1", "g2"]);
    let all = names(leases(&host).all(AT).await.expect("a list"));
    assert!(all.contains(&"g3".to_owned()) && all.contains(&"g1".to_owned()));
}

/// Found by reading: a Lease with a time that jiff does not know kept the slots of all groups from everybody, `unlock` too.
#[tokio::test]
async fn i7_i14_a_lease_with_a_time_that_jiff_does_not_know_is_read_and_freed() {
    let host = enter().host().await;
    make_slot(&host.admin, "late", "late").await;
    let body =
        json!({"spec": {"holderIdentity": "n", "acquireTime": "9999-12-31T23:59:59.000000Z"}});
    let patched = raw(&host)
        .patch("late", &PatchParams::default(), &Patch::Merge(body))
        .await;
    assert!(
        matches!(patched, Err(kube::Error::SerdeError(_))),
        "{patched:?}"
    );
    let held = get(&host, "late").await;
    assert_eq!(held.holder.as_deref(), Some("n"));
    let all = leases(&host).all(AT).await.expect("a list");
    assert!(all.iter().any(|lease| lease.name == "late"));
    let freed = leases(&host).unlock(&held, AT).await.expect("freed");
    assert_eq!(freed.holder, None);
}
