//! Whatever a cluster or a host says, nothing that a terminal obeys is shown (I14). The tests of
//! `text` in the core cover the cleaning itself.

use kube_rebootd_core::boot::Boot;
use kube_rebootd_core::pod::Pod;
use kube_rebootd_core::record::{Hold, Kept, Record, Stage, Why};
use kube_rebootd_core::text::{MESSAGE, hostile};
use kube_rebootd_core::trigger::{Builtin, Verdict};
use kube_rebootd_core::{names, node_fields, slot};
use kube_rebootd_outdated::heard;
use proptest::prelude::*;
use serde_json::json;

use crate::cluster::answer::{Failure, classify};
use crate::cluster::{lease, node, pods};
use crate::root::Root;

fn shown(words: impl IntoIterator<Item = impl AsRef<str>>) {
    garble::shown(words, hostile, MESSAGE);
}

/// Every kind of error, with more words than anybody reads. Once the property below came to such a message with
/// code 404 in one run of some hundred, and failed.
#[test]
fn i14_a_long_answer_is_cut_whatever_its_code() {
    let long = "x".repeat(2 * MESSAGE);
    for code in std::iter::once(0).chain(400..600) {
        let status = json!({"kind": "Status", "code": code, "message": long, "reason": long,
            "details": {"causes": [{"reason": "FieldManagerConflict", "message": long}]}});
        let said = Failure::said(serde_json::from_value(status).expect("a Status"));
        shown([classify("take", said).to_string()]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn i14_nothing_of_a_lease_is_hostile(a in garble::hostile(), b in garble::hostile(), c in garble::hostile()) {
        let object = serde_json::from_value(json!({
            "metadata": {"name": a, "labels": {(names::GROUP): "default"}, "annotations": {
                (names::PAUSED): b, (names::NEXT): c, (names::LAST_HOLD): a}},
            "spec": {"holderIdentity": c},
        })).expect("a Lease");
        let lease = lease::read(&object, None);
        shown([&lease.name]);
        shown(lease.next);
        shown([lease.paused, lease.holder.clone(), lease.last_hold].into_iter().flatten());
        // What is compared with a name is that name or no name at all.
        prop_assert_eq!(lease.holder.as_deref() == Some("n1"), c == "n1");
    }

    #[test]
    fn i14_nothing_of_a_node_is_hostile(a in garble::hostile(), b in garble::hostile()) {
        let lease = slot::Lease::free("default", "default");
        let take = slot::Take::of(&lease, "kube-rebootd", jiff::Timestamp::UNIX_EPOCH, false);
        let take = slot::Take { lease: a.clone(), ..take };
        let record = Record {
            hold: Some(Hold { stage: Stage::Undoing(Why::Drain(b.clone())), ..Hold::begin(take, Boot::unknown()) }),
            kept: Some(Kept { node_uid: String::new(), since: jiff::Timestamp::UNIX_EPOCH, why: a.clone() }),
            ..Record::default()
        };
        let state = record.annotation().expect("a record");
        let object = serde_json::from_value(json!({
            "metadata": {"name": a, "annotations": {
                (names::PAUSED): b, (names::REBOOT): a, (names::STATE): state, (names::HISTORY): a}},
            "status": {"volumesInUse": [a, b]},
        })).expect("a Node");
        let node = node::read(&object, None);
        shown([&node.name, &node.annotations[names::PAUSED], &node.annotations[names::REBOOT]]);
        shown(&node.volumes_in_use);
        let there = node_fields::recorded(&node).expect("the record");
        shown(there.hold.iter().map(|hold| &hold.take.lease));
        shown(there.kept.iter().map(|kept| &kept.why));
        let Some(Hold { stage: Stage::Undoing(why), .. }) = there.hold else { panic!("another stage") };
        shown([why.words()]);
        // What is carried over or compared with what was written is as it was.
        prop_assert_eq!(&node.annotations[names::STATE], &state);
        prop_assert_eq!(&node.annotations[names::HISTORY], &a);
    }

    #[test]
    fn i14_nothing_of_a_pod_is_hostile(a in garble::hostile(), b in garble::hostile()) {
        let object = serde_json::from_value(json!({
            "metadata": {"name": a, "namespace": b, "ownerReferences": [
                {"apiVersion": "v1", "kind": a, "name": b, "uid": "u", "controller": true}]},
            "spec": {"containers": [], "volumes": [
                {"name": b, "persistentVolumeClaim": {"claimName": a}}, {"name": a, "ephemeral": {}}]},
            "status": {"containerStatuses": [{"name": a, "image": "", "imageID": "", "ready": true, "restartCount": 0}]},
        })).expect("a Pod");
        let pod: Pod = pods::read(&object);
        shown([pod.path()]);
        shown(&pod.volumes);
        shown(pod.controller.iter().flat_map(|owner| [&owner.kind, &owner.name]));
        shown(pod.containers.iter().map(|container| &container.name));
    }

    #[test]
    fn i14_nothing_of_an_answer_is_hostile(code in prop_oneof![Just(0_u16), 400..600_u16], a in garble::hostile(), b in garble::hostile()) {
        let status = json!({"kind": "Status", "code": code, "message": a, "reason": b,
            "details": {"causes": [{"reason": "DisruptionBudget", "message": b}, {"reason": "FieldManagerConflict", "message": b}]}});
        let said = || Failure::said(serde_json::from_value(status.clone()).expect("a Status"));
        shown([classify("take", said()).to_string()]);
        shown([classify("take", Failure::of(kube::Error::Discovery(
            kube::error::DiscoveryError::MissingKind(a.clone())))).to_string()]);
    }

    #[test]
    fn i14_nothing_of_a_built_in_check_is_hostile(a in garble::hostile(), b in garble::hostile()) {
        let report = json!({"triggers": [{"trigger": "builtin libraries", "verdict": "reboot", "pkgs": [a], "words": b}]});
        let said = heard(&report.to_string(), Builtin::Libraries).verdict();
        let Verdict::Reboot { pkgs, words } = said else { panic!("another verdict") };
        shown(pkgs);
        shown([words]);
    }

    #[test]
    fn i14_nothing_of_a_sentinel_is_hostile(a in garble::hostile(), b in garble::hostile()) {
        let dir = tempfile::tempdir().expect("a directory");
        let root = Root::at(dir.path());
        std::fs::write(dir.path().join("s"), &a).expect("written");
        std::fs::write(dir.path().join("s.pkgs"), &b).expect("written");
        let found = crate::host::sentinel::read(&root, "/s");
        let sentinel = found.as_ref().expect("read").as_ref().expect("there");
        shown(&sentinel.pkgs);
        let Verdict::Reboot { words, .. } = crate::daemon::sentinel(&found) else { panic!("no reboot") };
        shown([words]);
    }
}
