//! Properties of single decisions, over facts put together at random: what must never be the next
//! step, however the world looks (I1-I4, I6, I8, I10, I13). Whole cycles are the simulator's.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use proptest::prelude::*;

use super::context::{FRESH, RECENT};
use super::*;
use crate::boot::Boot;
use crate::budget;
use crate::config::Config;
use crate::drain::Mode;
use crate::facts::{
    Answers, Applied, Drained, Fenced, LastList, Mended, RefusedApply, Rehearsed, Waiters,
};
use crate::gates::{Closed, Gate};
use crate::health::Marks;
use crate::hook::{Hook, Last, Said, Stand, Standing};
use crate::kind::Kind;
use crate::names;
use crate::node::Node;
use crate::node_fields::NodeFields;
use crate::now::fixed::{NOW, now, wall};
use crate::peers::{Census, Peer, Peers};
use crate::record::{Backoff, Record};
use crate::slot::{Crowd, Lease, Mark, Shown, Take, TakeAnswer, TakeSaid, Waiter, Waiting};
use crate::trigger::{Keeper, Latched, Observed, Reason, Request, Settled};

mod boots;
mod drained;
mod ends;
mod gates;
mod granted;
mod guards;
mod hooks;
mod killed;
mod labels;
mod leaks;
mod looks;
mod near;
mod options;
mod others;
mod queue;
mod records;
mod says;
mod soft_reboots;
mod starts;
mod table;
mod taken_back;
mod takes;
mod timed;
mod waits;

const ME: &str = "n1";

fn policy() -> Policy {
    Policy::of(&Config::default(), Some(ME), "kube-rebootd", "default")
}

fn boot(id: &str) -> Boot {
    Boot {
        id: id.to_owned(),
        userspace: 1,
    }
}

fn request() -> Request {
    let reason = Reason {
        trigger: "sentinel".to_owned(),
        pkgs: BTreeSet::new(),
        words: String::new(),
        since: wall(),
        since_boot: Duration::ZERO,
        later: BTreeMap::new(),
        kind: Kind::Reboot,
        mark: None,
    };
    Request {
        since: wall(),
        reasons: vec![reason],
        latched: Vec::new(),
    }
}

/// A wish to keep the node drained.
fn kept(keeper: Keeper, ended: bool) -> Latched {
    Latched {
        by: keeper.begins().to_owned(),
        reason: "a new disk".to_owned(),
        at: wall(),
        boot: None,
        ended,
        kind: Kind::Reboot,
    }
}

fn take() -> Take {
    let lease = Lease {
        resource_version: "5".to_owned(),
        ..Lease::free("default", "default")
    };
    Take::of(&lease, "kube-rebootd", wall(), false)
}

/// A moment some seconds ago, or none: half of them too old to rest anything on.
fn asked() -> impl Strategy<Value = Option<Duration>> {
    prop::option::of((0u64..10).prop_map(|ago| NOW.checked_sub(Duration::from_secs(ago)).unwrap()))
}

fn stage() -> impl Strategy<Value = Stage> {
    prop_oneof![
        Just(Stage::Taking),
        Just(Stage::Claiming),
        Just(Stage::Draining),
        Just(Stage::Drained),
        Just(Stage::Rebooting),
        Just(Stage::Uncordoned),
        Just(Stage::Releasing),
        Just(Stage::Undoing(Why::Uncordoned)),
        Just(Stage::Undoing(Why::Gate("closed".to_owned()))),
    ]
}

fn said() -> impl Strategy<Value = Said> {
    let no = "hook a failed: x".to_owned();
    prop_oneof![
        Just(Said::Well),
        Just(Said::NotNow(no.clone())),
        Just(Said::Failed(no))
    ]
}

prop_compose! {
    fn last()(said in said(), ago in 0u64..1000, failures in 1u32..5) -> Last {
        let then = NOW.checked_sub(Duration::from_secs(ago)).unwrap();
        Last { said, first: then, begun: then, ended: then, failures }
    }
}

fn stand() -> impl Strategy<Value = Stand> {
    let some = (any::<bool>(), prop::option::of(last()));
    prop_oneof![
        1 => Just(Stand::Unlooked),
        1 => Just(Stand::Unknown("denied".to_owned())),
        4 => Just(Stand::None),
        4 => some.prop_map(|(running, last)| Stand::Some { running, last }),
    ]
}

fn standing() -> impl Strategy<Value = Standing> {
    let all = (stand(), stand(), stand());
    all.prop_map(|(pre_drain, pre_reboot, undo)| Standing {
        pre_drain,
        pre_reboot,
        undo,
    })
}

/// There are none, or all of them ended well and none runs.
fn well(stand: &Stand) -> bool {
    match stand {
        Stand::None => true,
        Stand::Some { running, last } => {
            !running && last.as_ref().is_some_and(|last| last.said == Said::Well)
        }
        Stand::Unlooked | Stand::Unknown(_) => false,
    }
}

prop_compose! {
    fn hold()(stage in stage(), same_boot in prop::bool::weighted(0.7), asks in 0u32..4,
              foreign in any::<bool>(), ago in 0u64..1000, hooked in any::<bool>()) -> Hold {
        Hold {
            take: take(),
            step: 3,
            boot: boot(if same_boot { "now" } else { "before" }),
            node_uid: Some("node-uid".to_owned()),
            stage,
            foreign_cordon: foreign,
            guards: false,
            excluded: false,
            cordoned: None,
            alone: false,
            marks: Some(Marks::default()),
            hooked,
            before: crate::before::Before::default(),
            drain_spent: 0,
            asks,
            asked: (asks > 0).then(|| NOW.checked_sub(Duration::from_secs(ago)).unwrap()),
            granted: hooked && asks > 0,
            promised: None,
            kind: if foreign { Kind::SoftReboot } else { Kind::Reboot },
            askers: BTreeSet::new(),
        }
    }
}

prop_compose! {
    fn lease()(holder in prop_oneof![Just(None), Just(Some(ME.to_owned())), Just(Some("n2".to_owned()))],
               read in asked(), paused in prop::bool::weighted(0.2), protocol in 1u64..3,
               next in prop::collection::vec("n[1-4]", 0..3), freed in asked()) -> Lease {
        Lease {
            resource_version: "6".to_owned(),
            acquire_time: holder.is_some().then(wall),
            holder,
            paused: paused.then(|| "why".to_owned()),
            protocol,
            next,
            freed,
            read,
            ..Lease::free("default", "default")
        }
    }
}

prop_compose! {
    fn node(hold: Option<Hold>)(present in prop::bool::weighted(0.9), marked in prop::bool::weighted(0.8),
              cordoned in any::<bool>(), foreign in any::<bool>(), quorum in any::<bool>(),
              paused in prop::bool::weighted(0.1), replaced in prop::bool::weighted(0.05),
              read in asked()) -> Seen {
        if !present {
            return Seen::Absent;
        }
        let mut node = Node {
            name: ME.to_owned(),
            uid: if replaced { "other-uid" } else { "node-uid" }.to_owned(),
            resource_version: "9".to_owned(),
            unschedulable: cordoned || foreign,
            cordon_owners: Vec::new(),
            labels: BTreeMap::new(),
            annotations: BTreeMap::new(),
            guarded: Vec::new(),
            exclusion_owners: Vec::new(),
            ready: true,
            heartbeat: None,
            turned: None,
            boot_id: String::new(),
            volumes_in_use: Vec::new(),
            conditions: Vec::new(),
            taints: Vec::new(),
            candidate: None,
            reported: BTreeMap::new(),
            read,
        };
        if cordoned {
            node.cordon_owners.push(names::NODE_MANAGER.to_owned());
        }
        if foreign {
            node.cordon_owners.push("kubectl-cordon".to_owned());
        }
        if quorum {
            node.labels.insert(names::QUORUM_ROLES[0].to_owned(), String::new());
        }
        if paused {
            node.annotations.insert(names::PAUSED.to_owned(), "why".to_owned());
        }
        if let Some(hold) = hold.clone().filter(|_| marked) {
            node.labels.insert(names::SLOT.to_owned(), hold.take.lease.clone());
            let record = Record { hold: Some(hold), ..Record::default() };
            node.annotations.insert(names::STATE.to_owned(), record.annotation().unwrap());
        }
        Seen::Present(Box::new(node))
    }
}

fn peers() -> impl Strategy<Value = Option<Peers>> {
    let peer = (0..3usize, any::<bool>()).prop_map(|(slot, quorum)| Peer {
        node: "n2".to_owned(),
        slot: ["default", "other", "unknown"][slot].to_owned(),
        quorum,
        out_of_service: false,
    });
    let list = (asked(), prop::collection::vec(peer, 0..2), queue::census());
    list.prop_map(|(asked, labelled, census)| {
        let leases = ["default", "other"]
            .map(str::to_owned)
            .into_iter()
            .collect();
        asked.map(|asked| Peers {
            asked,
            came: asked,
            labelled,
            leases,
            census,
            quorum_down: Ok(Vec::new()),
            counted: true,
        })
    })
}

fn drained() -> impl Strategy<Value = Drained> {
    prop_oneof![
        Just(Drained::Starting),
        Just(Drained::Failed {
            why: "stuck".to_owned()
        }),
        Just(Drained::Done {
            at: NOW.checked_sub(Duration::from_secs(20)).unwrap()
        }),
        Just(Drained::Resting {
            words: "waiting".to_owned(),
            waits: "it".to_owned(),
            wake: Some(NOW + Duration::from_secs(20)),
        }),
        Just(Drained::Going {
            escalate: Vec::new(),
            deleted: false,
            evict: Vec::new(),
            words: "1 pod left".to_owned(),
            spent: Duration::from_secs(1),
            confirm: false,
            unseen: false,
            wake: None,
            blocked: Vec::new(),
        }),
    ]
}

prop_compose! {
    fn facts()(hold in prop::option::weighted(0.8, hold()))
             (node in node(hold.clone()), hold in Just(hold), lease in prop::option::weighted(0.95, lease()),
              peers in peers(), drain in drained(), list in prop::option::of((asked(), any::<bool>())),
              flags in prop::collection::vec(any::<bool>(), 8), closed in prop::bool::weighted(0.3),
              host_read in asked(), confirmed in asked(), fence in asked(), wanted in prop::bool::weighted(0.8),
              keeps in prop::bool::weighted(0.3), ended in prop::bool::weighted(0.3), hooks in standing()) -> Facts {
        let keep = |mut request: Request| {
            request.latched.extend(keeps.then(|| kept(Keeper::Person, ended)));
            request
        };
        let wish = wanted.then(request).map(keep);
        let record = Record {
            hold: hold.clone(),
            request: wish.clone(),
            backoff: flags[0].then(|| Backoff {
                failures: 1,
                boot: boot("now"),
                until: NOW + Duration::from_secs(60),
                why: "failed".to_owned(),
            }),
            settled: flags[6].then(|| Settled {
                boot: boot("now"),
                proved_boot: NOW,
                reasons: BTreeMap::new(),
                annotation: None,
                missed: None,
            }),
            ..Record::default()
        };
        let settled = record.settled.clone();
        Facts {
            started: true,
            writable: flags[1] || flags[2],
            shutting_down: flags[3] && flags[4],
            host_read,
            observed: Observed { request: wish, settled, ..Observed::default() },
            rehearsed: Some(Rehearsed { at: NOW, said: Ok(()) }),
            closed: closed.then(|| Closed { gate: Gate::Inhibitors, why: "shut".into(), opens: None }).into_iter().collect(),
            node,
            applied: hold.as_ref().filter(|_| flags[5]).map(|hold| Applied { point: Point::of(hold), at: NOW.checked_sub(Duration::from_secs(3)).unwrap() }),
            leases: lease.into_iter().map(|lease| (lease.name.clone(), lease)).collect(),
            listed: Ok(()),
            peers,
            take: TakeAnswer { unanswered: None, said: flags[7].then_some(TakeSaid::Taken) },
            waiters: flags[4].then(|| Waiters { asked: NOW, list: vec![Waiter { node: "n3".to_owned(), since: wall(), ready: true }], failed: 0 }),
            mark: Mark::None,
            ready: Some(Duration::ZERO),
            crowd: (flags[0] || flags[6]).then(Crowd::default),
            marks: Some(Marks::default()),
            drain,
            answers: if flags[6] { Answers::default() } else { Answers::NONE },
            hooks,
            last_list: list.and_then(|(asked, clean)| Some(LastList { asked: asked?, clean, marks: Marks::default() })),
            confirmed,
            fenced: hold.as_ref().filter(|_| flags[1]).map(|hold| Fenced { hold: hold.take.acquire_time, asks: hold.asks, at: fence }),
            host_health: if flags[2] { Ok(()) } else { Err(vec!["kubelet".to_owned()]) },
            pod_health: if flags[3] { Ok(()) } else { Err(vec!["pods".to_owned()]) },
            ..Facts::of_a_start(boot("now"), record)
        }
    }
}

fn present(facts: &Facts) -> Option<&Node> {
    match &facts.node {
        Seen::Present(node) => Some(node),
        Seen::Absent | Seen::Unknown => None,
    }
}

fn fresh(asked: Option<Duration>) -> bool {
    asked.is_some_and(|asked| NOW.saturating_sub(asked) <= FRESH)
}

fn recent(asked: Duration) -> bool {
    NOW.saturating_sub(asked) <= RECENT
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(5_000))]

    #[test]
    fn i1_i3_a_cordon_is_set_only_while_holding_and_with_its_record_in_the_same_apply(facts in facts()) {
        let step = decide(&facts, &policy(), now());
        let Effect::Apply { set, .. } = &step.effect else { return Ok(()) };
        let node = present(&facts).unwrap();
        prop_assert_eq!((&set.uid, &set.resource_version), (&node.uid, &node.resource_version));
        if !set.unschedulable || step.record.kept.is_some() {
            return Ok(());
        }
        let hold = step.record.hold.as_ref().unwrap();
        prop_assert!(matches!(hold.stage, Stage::Draining | Stage::Drained | Stage::Rebooting));
        prop_assert_eq!(set.labels.get(names::SLOT), Some(&"default".to_owned()));
        prop_assert!(set.annotations.contains_key(names::STATE));
        let lease = facts.leases.get("default");
        prop_assert_eq!(lease.and_then(|lease| lease.holder.as_deref()), Some(ME), "cordoned without holding");
        prop_assert!(facts.writable && facts.closed.is_empty() || hold.stage == facts.record.hold.as_ref().unwrap().stage);
    }

    #[test]
    fn i4_the_lease_goes_last(facts in facts()) {
        let step = decide(&facts, &policy(), now());
        if let Effect::GiveUp(give_up) = &step.effect {
            let hold = facts.record.hold.as_ref().unwrap();
            prop_assert!(matches!(hold.stage, Stage::Releasing | Stage::Undoing(_)));
            prop_assert_eq!(&give_up.resource_version, &facts.leases["default"].resource_version);
            prop_assert_eq!(facts.leases["default"].holder.as_deref(), Some(ME));
            if let Some(node) = present(&facts) {
                prop_assert!(!node.labels.contains_key(names::SLOT), "the label is still there");
                prop_assert!(!node.annotations.contains_key(names::STATE));
            }
            prop_assert!(!(matches!(hold.stage, Stage::Undoing(_)) && facts.shutting_down));
        }
    }

    #[test]
    fn i3_i6_hooks_run_with_their_mark_on_record_and_are_taken_back_before_the_lease_goes(facts in facts()) {
        let step = decide(&facts, &policy(), now());
        let Some(hold) = &facts.record.hold else { return Ok(()) };
        let next = step.record.hold.as_ref();
        if next.is_none() || matches!(step.effect, Effect::GiveUp(_)) {
            let taken = !hold.hooked || well(&facts.hooks.undo) || hold.stage == Stage::Taking;
            prop_assert!(taken, "{:?}", facts.hooks.undo);
        }
        let stays = hold.hooked && !well(&facts.hooks.undo);
        prop_assert!(!stays || next.is_none_or(|next| next.hooked), "the mark is gone");
        let marked = next.is_some_and(|next| next.hooked);
        prop_assert!(hold.hooked || !marked || matches!(step.effect, Effect::Hooks(_)), "a mark without hooks");
        if let Effect::Hooks(hook) = step.effect {
            prop_assert!(marked);
            let (stand, stage) = match hook {
                Hook::PreDrain => (&facts.hooks.pre_drain, hold.stage == Stage::Claiming),
                Hook::PreReboot => (&facts.hooks.pre_reboot, hold.stage == Stage::Draining),
                Hook::Undo => (&facts.hooks.undo, matches!(hold.stage, Stage::Undoing(_) | Stage::Releasing)),
                Hook::Gate | Hook::PostBoot => return Err(TestCaseError::fail("not by an effect")),
            };
            prop_assert!(stage && matches!(stand, Stand::Some { running: false, .. }), "{:?} {:?}", hold.stage, stand);
            let lease = facts.leases.get("default");
            let ours = lease.is_some_and(|lease| lease.holder.as_deref() == Some(ME));
            prop_assert!(hook == Hook::Undo || (ours && facts.writable && facts.closed.is_empty()));
            let back = matches!(facts.hooks.undo, Stand::None | Stand::Some { .. });
            prop_assert!(hook == Hook::Undo || hold.hooked || back, "it could not be taken back");
        }
        let stage = next.map(|next| &next.stage);
        let from = |stage: Stage| hold.stage == stage && hold.boot == facts.boot;
        let cordons = from(Stage::Claiming) && stage == Some(&Stage::Draining);
        prop_assert!(!cordons || well(&facts.hooks.pre_drain));
        let reboots = from(Stage::Draining) && stage == Some(&Stage::Rebooting);
        prop_assert!(!reboots || well(&facts.hooks.pre_reboot));
    }

    #[test]
    fn i4_only_a_healthy_host_of_a_new_boot_counts_as_rebooted(facts in facts()) {
        let step = decide(&facts, &policy(), now());
        let was = facts.record.hold.as_ref();
        let settled = step.record.hold.as_ref().is_some_and(|hold| hold.stage == Stage::Releasing)
            && was.is_some_and(|hold| hold.stage != Stage::Releasing);
        if settled {
            prop_assert!(facts.host_health.is_ok() && facts.pod_health.is_ok());
            prop_assert_ne!(&was.unwrap().boot, &facts.boot);
            prop_assert_eq!(step.record.history.len(), facts.record.history.len() + 1);
            prop_assert!(step.record.request.is_none_or(|request| !request.reboots()));
        }
    }

    #[test]
    fn i2_nothing_is_rebooted_while_somebody_keeps_the_node_drained(facts in facts()) {
        let step = decide(&facts, &policy(), now());
        let asks = matches!(step.effect, Effect::AskReboot | Effect::Fence(_));
        prop_assert!(!asks || facts.answers.asked.is_some(), "a command of the gate, or Prometheus, has not answered");
        prop_assert!(!asks || facts.observed.request.is_some_and(|request| !request.keeps()));
    }

    /// I4: what was drained for somebody takes pods again only once it is proved, or when a person uncordoned or paused it, or
    /// took its slot away.
    #[test]
    fn i4_what_was_kept_drained_is_given_back_proved(facts in facts()) {
        let step = decide(&facts, &policy(), now());
        let Some(hold) = facts.record.hold.as_ref().filter(|hold| hold.stage == Stage::Drained) else { return Ok(()) };
        let next = step.record.hold.unwrap().stage;
        if next == hold.stage {
            return Ok(());
        }
        let proved = facts.host_health.is_ok() && !facts.record.keeps();
        match next {
            Stage::Uncordoned => prop_assert!(proved && hold.boot != facts.boot),
            // Of a Node that was registered anew after a reboot: it is proved, and drained once more.
            Stage::Draining => prop_assert!(hold.boot != facts.boot && present(&facts).unwrap().uid == "other-uid"),
            Stage::Undoing(Why::Maintained) => prop_assert!(proved && facts.pod_health.is_ok() && hold.boot == facts.boot),
            Stage::Undoing(why) => {
                prop_assert_eq!(&hold.boot, &facts.boot);
                let persons = matches!(why, Why::Lost | Why::NodeReplaced | Why::Uncordoned | Why::Paused(_));
                prop_assert!(persons, "{:?}", why);
            }
            other => prop_assert!(false, "{:?}", other),
        }
    }

    #[test]
    fn i6_a_hold_never_vanishes_while_the_lease_is_known_to_be_ours(facts in facts()) {
        let step = decide(&facts, &policy(), now());
        let Some(hold) = &facts.record.hold else { return Ok(()) };
        let ours = facts.leases.get("default").is_some_and(|lease| hold.matches(lease, ME));
        if ours {
            prop_assert!(step.record.hold.is_some(), "forgotten: {}", step.status);
        }
    }

    #[test]
    fn i8_a_node_that_does_not_know_its_name_only_reads(facts in facts()) {
        let nobody = Policy { me: None, ..policy() };
        let step = decide(&facts, &nobody, now());
        prop_assert_eq!((&step.effect, &step.record), (&Effect::ReadStart, &facts.record));
        prop_assert!(!released(&facts, &nobody, now()));
    }
}
