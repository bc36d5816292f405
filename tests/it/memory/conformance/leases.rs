//! The lock, and the kubelets' heartbeats.

use serde_json::{Value, json};

use super::side::How::{Apply, Delete, Force, Merge, Post, Put};
use super::side::Who::{Admin, Node, Slots};
use super::side::{BEAT, How, LEASE, Side, both, rows};

/// As the daemon writes what it merges.
const OURS: How<'_> = Merge("kube-rebootd");

/// A free slot of a group of the same name.
async fn slot(side: &mut Side, name: &str) -> String {
    let path = format!("{LEASE}/{name}");
    let body = json!({"metadata": {"name": name,
        "labels": {"kube-rebootd/group": name, "kube-rebootd/protocol": "1"}}});
    rows! { side:
        "a slot", Admin, Apply("kube-rebootd-setup"), path, body;
    }
    path
}

fn claim(side: &Side, host: usize, lease: &Value) -> Value {
    let metadata = &lease["metadata"];
    json!({"metadata": {"name": metadata["name"], "uid": metadata["uid"],
        "resourceVersion": metadata["resourceVersion"], "annotations": {"kube-rebootd/role": "worker"}},
        "spec": {"holderIdentity": side.name(host), "acquireTime": "2026-11-21T10:00:00.000001Z"}})
}

/// The same of the Lease as it is now.
async fn claimed(side: &mut Side, host: usize, path: &str) -> Value {
    let lease = get(side, path).await;
    claim(side, host, &lease)
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
    side.get("", Admin, path).await
}

#[tokio::test]
async fn the_lock_answers_as_a_real_server() {
    both(3, async |side| {
        let path = slot(side, "conf-lock").await;
        let (one, two) = (side.name(0).to_owned(), side.name(1).to_owned());
        let bare = |holder: &str| json!({"metadata": {"name": "conf-lock"}, "spec": {"holderIdentity": holder}});
        let owner = json!([{"apiVersion": "v1", "kind": "Node", "name": "a", "uid": "u"}]);
        let mine = json!({"metadata": {"name": "conf-new"}});
        rows! { side:
            "plain node", Node(0), Force(&one), path, bare(&one);
            "take", Slots(0), Apply(&one), path, bare(&one);
            "another's take", Slots(1), Apply(&two), path, bare(&two);
            "the same again", Slots(0), Apply(&one), path, bare(&one);
            "forced", Slots(1), Force(&two), path, bare(&two);
            "merged over", Slots(1), Merge("x"), path, json!({"spec": {"holderIdentity": two}});
            "a label", Slots(1), Merge("x"), path, json!({"metadata": {"labels": {"kube-rebootd/group": "other"}}});
            "a finalizer", Slots(1), Merge("x"), path, json!({"metadata": {"finalizers": ["a.b/c"]}});
            "an owner", Slots(1), Merge("x"), path, json!({"metadata": {"ownerReferences": owner}});
            "a hint", Slots(1), Merge("kube-rebootd-next"), path, json!({"metadata": {"annotations": {"kube-rebootd/next": "n2"}}});
            "release by apply", Slots(0), Force(&one), path, json!({"metadata": {"name": "conf-lock"}});
            "delete", Slots(0), Delete, path, json!(null);
            "make another", Slots(0), Apply(&one), format!("{LEASE}/conf-new"), mine;
            "by POST", Slots(0), Post, LEASE, mine;
        }
    })
    .await;
}

#[tokio::test]
async fn a_fence_answers_as_a_real_server() {
    both(2, async |side| {
        let path = slot(side, "conf-fence").await;
        let one = side.name(0).to_owned();
        let free = get(side, &path).await;
        rows! { side:
            "take", Slots(0), Force(&one), path, claim(side, 0, &free);
        }
        let held = get(side, &path).await;
        rows! { side:
            "of another", Slots(1), Merge(&one), path, fence(&held);
            "old version", Slots(0), Merge(&one), path, fence(&free);
            "of the holder", Slots(0), Merge(&one), path, fence(&held);
            "again, old by now", Slots(0), Merge(&one), path, fence(&held);
            "again", Slots(0), Merge(&one), path, fence(&get(side, &path).await);
            "give up", Slots(0), Merge(&one), path, freed(&get(side, &path).await);
            "when free", Slots(0), Merge(&one), path, fence(&get(side, &path).await);
        }
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
        rows! { side:
            "dry run", Slots(0), Force(&one), format!("{path}?dryRun=All"), first;
            "take", Slots(0), Force(&one), path, first;
            "second", Slots(1), Force(&two), path, second;
            "again", Slots(0), Force(&one), path, first;
        }
        let held = get(side, &path).await;
        rows! { side:
            "over, fresh version", Slots(1), Force(&two), path, claim(side, 1, &held);
            "give up, old version", Slots(0), Merge(&one), path, freed(&free);
            "give up", Slots(0), Merge(&one), path, freed(&held);
            "give up again", Slots(0), Merge(&one), path, freed(&held);
            "by the next", Slots(1), Force(&two), path, claimed(side, 1, &path).await;
            "cleared by a third", Slots(2), Merge("x"), path, freed(&get(side, &path).await);
        }
        let held = get(side, &path).await;
        let mut wrong = claim(side, 0, &held);
        wrong["metadata"]["uid"] = json!("00000000-0000-0000-0000-000000000000");
        let mut old = wrong.clone();
        old["metadata"]["resourceVersion"] = json!("1");
        rows! { side:
            "wrong uid", Slots(0), Force(&one), path, wrong;
            "wrong uid, old version", Slots(0), Force(&one), path, old;
            "deleted", Admin, Delete, path, json!(null);
            "take of nothing", Slots(0), Force(&one), path, first;
            "the same by an admin", Admin, Force(&one), path, first;
            "give up of nothing", Slots(0), Merge(&one), path, freed(&held);
        }
        slot(side, "conf-take").await;
        rows! { side:
            "take of the successor", Slots(0), Force(&one), path, first;
        }
    })
    .await;
}

#[tokio::test]
async fn what_others_came_to_own_of_a_slot_is_as_on_a_real_server() {
    both(2, async |side| {
        let path = slot(side, "conf-owned").await;
        let (one, two) = (side.name(0).to_owned(), side.name(1).to_owned());
        let name = json!({"metadata": {"name": "conf-owned"}});
        let held_by = |who: &str| json!({"metadata": {"name": "conf-owned"}, "spec": {"holderIdentity": who}});
        let mut taken = held_by(&two);
        taken["spec"]["acquireTime"] = json!("2026-11-21T11:00:00.000001Z");
        let tried = format!("{path}?dryRun=All");
        for (way, how, body) in [
            ("empty", Merge("kubectl-edit"), json!({"spec": {"holderIdentity": ""}})),
            ("null", Merge("kubectl-edit"), json!({"spec": {"holderIdentity": null}})),
            ("dump", Force("argocd"), held_by(&one)),
            ("wiped", Merge("kubectl-edit"), json!({"metadata": {"managedFields": [{}]}})),
        ] {
            rows! { side:
                "take", Slots(0), Force(&one), path, claimed(side, 0, &path).await;
                way, Admin, how, path, body;
                "release by apply, tried", Slots(0), Force(&one), tried, name;
                "take without force, tried", Slots(1), Apply(&two), tried, taken;
                "give up", Slots(0), Merge(&one), path, freed(&get(side, &path).await);
                "the next", Slots(1), Force(&two), path, claimed(side, 1, &path).await;
                "freed", Slots(1), Merge(&two), path, freed(&get(side, &path).await);
            }
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
        side.get("own", Node(0), &mine).await;
        rows! { side:
            "mark", Node(0), OURS, mine, mark;
            "mark again", Node(0), OURS, mine, mark;
            "another's", Node(0), OURS, theirs, mark;
        }
        side.get("another's, read", Node(0), &theirs).await;
        let mut lease = side.get("", Node(0), &mine).await;
        lease["spec"]["renewTime"] = json!("2026-11-21T10:00:00.000001Z");
        rows! { side:
            "renewed by PUT", Node(0), Put, mine, lease;
            "renewed with an old version", Node(0), Put, mine, lease;
        }
        let waiting = format!("{BEAT}?labelSelector=kube-rebootd/waiting%3Dconf");
        let listed = side.get("", Slots(1), &waiting).await;
        assert_eq!(listed["items"][0]["metadata"]["name"], json!(one));
        let not_ready = json!({"metadata": {"labels": {"kube-rebootd/waiting": "conf"},
            "annotations": {"kube-rebootd/since": "now", "kube-rebootd/not-ready": "true"}}});
        rows! { side:
            "not ready", Node(1), OURS, theirs, not_ready;
            "ready", Node(1), OURS, theirs, mark;
        }
        // A page that is full names a next one when any Lease follows in the namespace, labelled or not: with a limit
        // of 2 that is up to the other tests.
        for limit in [1, 3] {
            let what = format!("a page of {limit} waiters");
            let page = format!("{waiting}&limit={limit}");
            let page = side.get(&what, Slots(1), &page).await;
            let more = page["metadata"]["continue"].as_str().unwrap_or_default();
            assert_eq!(more.is_empty(), limit > 1, "{page}");
        }
        let none = json!({"metadata": {"labels": {"kube-rebootd/waiting": null},
            "annotations": {"kube-rebootd/since": null}}});
        rows! { side:
            "unmarked", Node(0), OURS, mine, none;
            "unmarked again", Node(0), OURS, mine, none;
        }
        let gone = format!("{BEAT}/nobody");
        side.get("no such", Node(0), &gone).await;
        side.get("elsewhere", Node(0), &format!("{LEASE}/default"))
            .await;
        side.get("the coordinator's read", Slots(0), &mine).await;
        side.ask(
            "the coordinator's write",
            Slots(0),
            Merge("x"),
            &mine,
            &mark,
        )
        .await;
    })
    .await;
}
