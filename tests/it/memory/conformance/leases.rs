//! The lock, and the kubelets' heartbeats.

use serde_json::{Value, json};

use super::side::{BEAT, How, LEASE, Side, Who, both};

/// As the daemon writes what it merges.
const OURS: How<'_> = How::Merge("kube-rebootd");

/// A free slot of a group of the same name.
async fn slot(side: &mut Side, name: &str) -> String {
    let path = format!("{LEASE}/{name}");
    let body = json!({"metadata": {"name": name,
        "labels": {"kube-rebootd/group": name, "kube-rebootd/protocol": "1"}}});
    side.ask(
        "a slot",
        Who::Admin,
        How::Apply("kube-rebootd-setup"),
        &path,
        &body,
    )
    .await;
    path
}

fn claim(side: &Side, host: usize, lease: &Value) -> Value {
    let metadata = &lease["metadata"];
    json!({"metadata": {"name": metadata["name"], "uid": metadata["uid"],
        "resourceVersion": metadata["resourceVersion"], "annotations": {"kube-rebootd/role": "worker"}},
        "spec": {"holderIdentity": side.name(host), "acquireTime": "2026-11-21T10:00:00.000001Z"}})
}

fn freed(lease: &Value) -> Value {
    json!({"metadata": {"resourceVersion": lease["metadata"]["resourceVersion"],
        "annotations": {"kube-rebootd/role": null, "kube-rebootd/going-down": null, "kube-rebootd/next": "n7,n8", "kube-rebootd/last-hold": "x"}},
        "spec": {"holderIdentity": null, "acquireTime": null}})
}

/// The last write before logind: it changes nothing but the words.
fn fence(lease: &Value) -> Value {
    json!({"metadata": {"resourceVersion": lease["metadata"]["resourceVersion"],
        "annotations": {"kube-rebootd/going-down": "now"}}})
}

async fn get(side: &mut Side, path: &str) -> Value {
    side.get("", Who::Admin, path).await
}

#[tokio::test]
async fn the_lock_answers_as_a_real_server() {
    both(3, async |side| {
        let path = slot(side, "conf-lock").await;
        let (one, two) = (side.name(0).to_owned(), side.name(1).to_owned());
        let bare = |holder: &str| json!({"metadata": {"name": "conf-lock"}, "spec": {"holderIdentity": holder}});
        side.ask("plain node", Who::Node(0), How::Force(&one), &path, &bare(&one)).await;
        side.ask("take", Who::Slots(0), How::Apply(&one), &path, &bare(&one)).await;
        side.ask("another's take", Who::Slots(1), How::Apply(&two), &path, &bare(&two)).await;
        side.ask("the same again", Who::Slots(0), How::Apply(&one), &path, &bare(&one)).await;
        side.ask("forced", Who::Slots(1), How::Force(&two), &path, &bare(&two)).await;
        let over = json!({"spec": {"holderIdentity": two}});
        side.ask("merged over", Who::Slots(1), How::Merge("x"), &path, &over).await;
        for (what, body) in [
            ("a label", json!({"metadata": {"labels": {"kube-rebootd/group": "other"}}})),
            ("a finalizer", json!({"metadata": {"finalizers": ["a.b/c"]}})),
            ("an owner", json!({"metadata": {"ownerReferences": [
                {"apiVersion": "v1", "kind": "Node", "name": "a", "uid": "u"}]}})),
        ] {
            side.ask(what, Who::Slots(1), How::Merge("x"), &path, &body).await;
        }
        let hint = json!({"metadata": {"annotations": {"kube-rebootd/next": "n2"}}});
        side.ask("a hint", Who::Slots(1), How::Merge("kube-rebootd-next"), &path, &hint).await;
        let name = json!({"metadata": {"name": "conf-lock"}});
        side.ask("release by apply", Who::Slots(0), How::Force(&one), &path, &name).await;
        side.ask("delete", Who::Slots(0), How::Delete, &path, &json!(null)).await;
        let mine = json!({"metadata": {"name": "conf-new"}});
        side.ask("make another", Who::Slots(0), How::Apply(&one), &format!("{LEASE}/conf-new"), &mine).await;
        side.ask("by POST", Who::Slots(0), How::Post, LEASE, &mine).await;
    })
    .await;
}

#[tokio::test]
async fn a_fence_answers_as_a_real_server() {
    both(2, async |side| {
        let path = slot(side, "conf-fence").await;
        let one = side.name(0).to_owned();
        let free = get(side, &path).await;
        let first = claim(side, 0, &free);
        side.ask("take", Who::Slots(0), How::Force(&one), &path, &first)
            .await;
        let held = get(side, &path).await;
        let how = || How::Merge(&one);
        for (what, who, lease) in [
            ("of another", Who::Slots(1), &held),
            ("old version", Who::Slots(0), &free),
            ("of the holder", Who::Slots(0), &held),
            ("again, old by now", Who::Slots(0), &held),
        ] {
            side.ask(what, who, how(), &path, &fence(lease)).await;
        }
        let told = get(side, &path).await;
        side.ask("again", Who::Slots(0), how(), &path, &fence(&told))
            .await;
        let told = get(side, &path).await;
        side.ask("give up", Who::Slots(0), how(), &path, &freed(&told))
            .await;
        let free = get(side, &path).await;
        side.ask("when free", Who::Slots(0), how(), &path, &fence(&free))
            .await;
    })
    .await;
}

#[tokio::test]
async fn a_take_and_a_give_up_answer_as_a_real_server() {
    both(3, async |side| {
        let path = slot(side, "conf-take").await;
        let (one, two) = (side.name(0).to_owned(), side.name(1).to_owned());
        let free = get(side, &path).await;
        let (first, second) = (claim(side, 0, &free), claim(side, 1, &free));
        side.ask(
            "dry run",
            Who::Slots(0),
            How::Force(&one),
            &format!("{path}?dryRun=All"),
            &first,
        )
        .await;
        side.ask("take", Who::Slots(0), How::Force(&one), &path, &first)
            .await;
        side.ask("second", Who::Slots(1), How::Force(&two), &path, &second)
            .await;
        side.ask("again", Who::Slots(0), How::Force(&one), &path, &first)
            .await;
        let held = get(side, &path).await;
        let fresh = claim(side, 1, &held);
        side.ask(
            "over, fresh version",
            Who::Slots(1),
            How::Force(&two),
            &path,
            &fresh,
        )
        .await;
        side.ask(
            "give up, old version",
            Who::Slots(0),
            How::Merge(&one),
            &path,
            &freed(&free),
        )
        .await;
        side.ask(
            "give up",
            Who::Slots(0),
            How::Merge(&one),
            &path,
            &freed(&held),
        )
        .await;
        side.ask(
            "give up again",
            Who::Slots(0),
            How::Merge(&one),
            &path,
            &freed(&held),
        )
        .await;
        let free = get(side, &path).await;
        side.ask(
            "by the next",
            Who::Slots(1),
            How::Force(&two),
            &path,
            &claim(side, 1, &free),
        )
        .await;
        let held = get(side, &path).await;
        side.ask(
            "cleared by a third",
            Who::Slots(2),
            How::Merge("x"),
            &path,
            &freed(&held),
        )
        .await;
        let held = get(side, &path).await;
        let mut wrong = claim(side, 0, &held);
        wrong["metadata"]["uid"] = json!("00000000-0000-0000-0000-000000000000");
        side.ask("wrong uid", Who::Slots(0), How::Force(&one), &path, &wrong)
            .await;
        wrong["metadata"]["resourceVersion"] = json!("1");
        side.ask(
            "wrong uid, old version",
            Who::Slots(0),
            How::Force(&one),
            &path,
            &wrong,
        )
        .await;
        side.ask("deleted", Who::Admin, How::Delete, &path, &json!(null))
            .await;
        side.ask(
            "take of nothing",
            Who::Slots(0),
            How::Force(&one),
            &path,
            &first,
        )
        .await;
        side.ask(
            "the same by an admin",
            Who::Admin,
            How::Force(&one),
            &path,
            &first,
        )
        .await;
        side.ask(
            "give up of nothing",
            Who::Slots(0),
            How::Merge(&one),
            &path,
            &freed(&held),
        )
        .await;
        slot(side, "conf-take").await;
        side.ask(
            "take of the successor",
            Who::Slots(0),
            How::Force(&one),
            &path,
            &first,
        )
        .await;
    })
    .await;
}

#[tokio::test]
async fn what_others_came_to_own_of_a_slot_is_as_on_a_real_server() {
    both(2, async |side| {
        let path = slot(side, "conf-owned").await;
        let (one, two) = (side.name(0).to_owned(), side.name(1).to_owned());
        let dump = json!({"metadata": {"name": "conf-owned"}, "spec": {"holderIdentity": one}});
        for way in ["empty", "null", "dump", "wiped"] {
            let free = get(side, &path).await;
            side.ask(
                "take",
                Who::Slots(0),
                How::Force(&one),
                &path,
                &claim(side, 0, &free),
            )
            .await;
            let edit = How::Merge("kubectl-edit");
            match way {
                "empty" => {
                    side.ask(
                        way,
                        Who::Admin,
                        edit,
                        &path,
                        &json!({"spec": {"holderIdentity": ""}}),
                    )
                    .await
                }
                "null" => {
                    side.ask(
                        way,
                        Who::Admin,
                        edit,
                        &path,
                        &json!({"spec": {"holderIdentity": null}}),
                    )
                    .await
                }
                "dump" => {
                    side.ask(way, Who::Admin, How::Force("argocd"), &path, &dump)
                        .await
                }
                _ => {
                    side.ask(
                        way,
                        Who::Admin,
                        edit,
                        &path,
                        &json!({"metadata": {"managedFields": [{}]}}),
                    )
                    .await
                }
            };
            let name = json!({"metadata": {"name": "conf-owned"}});
            let try_it = format!("{path}?dryRun=All");
            side.ask(
                "release by apply, tried",
                Who::Slots(0),
                How::Force(&one),
                &try_it,
                &name,
            )
            .await;
            let taken = json!({"metadata": {"name": "conf-owned"},
                "spec": {"holderIdentity": two, "acquireTime": "2026-11-21T11:00:00.000001Z"}});
            side.ask(
                "take without force, tried",
                Who::Slots(1),
                How::Apply(&two),
                &try_it,
                &taken,
            )
            .await;
            let held = get(side, &path).await;
            side.ask(
                "give up",
                Who::Slots(0),
                How::Merge(&one),
                &path,
                &freed(&held),
            )
            .await;
            let free = get(side, &path).await;
            side.ask(
                "the next",
                Who::Slots(1),
                How::Force(&two),
                &path,
                &claim(side, 1, &free),
            )
            .await;
            let held = get(side, &path).await;
            side.ask(
                "freed",
                Who::Slots(1),
                How::Merge(&two),
                &path,
                &freed(&held),
            )
            .await;
        }
    })
    .await;
}

#[tokio::test]
async fn heartbeats_answer_as_a_real_server() {
    both(2, async |side| {
        let (one, two) = (side.name(0).to_owned(), side.name(1).to_owned());
        let (mine, theirs) = (format!("{BEAT}/{one}"), format!("{BEAT}/{two}"));
        let mark = json!({"metadata": {"labels": {"kube-rebootd/waiting": "conf"},
            "annotations": {"kube-rebootd/since": "then", "kube-rebootd/not-ready": null}}});
        side.get("own", Who::Node(0), &mine).await;
        side.ask("mark", Who::Node(0), OURS, &mine, &mark).await;
        side.ask("mark again", Who::Node(0), OURS, &mine, &mark)
            .await;
        side.ask("another's", Who::Node(0), OURS, &theirs, &mark)
            .await;
        side.get("another's, read", Who::Node(0), &theirs).await;
        let mut lease = side.get("", Who::Node(0), &mine).await;
        lease["spec"]["renewTime"] = json!("2026-11-21T10:00:00.000001Z");
        side.ask("renewed by PUT", Who::Node(0), How::Put, &mine, &lease)
            .await;
        side.ask(
            "renewed with an old version",
            Who::Node(0),
            How::Put,
            &mine,
            &lease,
        )
        .await;
        let waiting = format!("{BEAT}?labelSelector=kube-rebootd/waiting%3Dconf");
        let listed = side.get("", Who::Slots(1), &waiting).await;
        assert_eq!(listed["items"][0]["metadata"]["name"], json!(one));
        let not_ready = json!({"metadata": {"labels": {"kube-rebootd/waiting": "conf"},
            "annotations": {"kube-rebootd/since": "now", "kube-rebootd/not-ready": "true"}}});
        side.ask("not ready", Who::Node(1), OURS, &theirs, &not_ready)
            .await;
        side.ask("ready", Who::Node(1), OURS, &theirs, &mark).await;
        // A page that is full names a next one when any Lease follows in the namespace, labelled or not: with a limit
        // of 2 that is up to the other tests.
        for limit in [1, 3] {
            let what = format!("a page of {limit} waiters");
            let page = format!("{waiting}&limit={limit}");
            let page = side.get(&what, Who::Slots(1), &page).await;
            let more = page["metadata"]["continue"].as_str().unwrap_or_default();
            assert_eq!(more.is_empty(), limit > 1, "{page}");
        }
        let none = json!({"metadata": {"labels": {"kube-rebootd/waiting": null},
            "annotations": {"kube-rebootd/since": null}}});
        side.ask("unmarked", Who::Node(0), OURS, &mine, &none).await;
        side.ask("unmarked again", Who::Node(0), OURS, &mine, &none)
            .await;
        let gone = format!("{BEAT}/nobody");
        side.get("no such", Who::Node(0), &gone).await;
        side.get("elsewhere", Who::Node(0), &format!("{LEASE}/default"))
            .await;
        side.get("the coordinator's read", Who::Slots(0), &mine)
            .await;
        side.ask(
            "the coordinator's write",
            Who::Slots(0),
            How::Merge("x"),
            &mine,
            &mark,
        )
        .await;
    })
    .await;
}
