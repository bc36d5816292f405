//! Killed after every durable write and every outside effect, in every way (I6): the one request ends in
//! one reboot, and nothing is left.
//!
//! The points are not chosen here: an undisturbed cycle of a debug build writes them down
//! (`src/daemon/stop_point.rs`), and each becomes a row.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Mutex;
use std::thread;

use jiff::Timestamp;
use testbed::{Runtime, verdict};

use self::case::Case;
use self::station::Station;
use super::log::Since;
use super::{Site, stop_points};

mod case;
pub(super) mod elsewhere;
mod station;
mod table;

/// What becomes of the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// The host reboots for it.
    Rebooted,
    /// It is withdrawn while the host drains.
    Undone,
    /// It comes from the host's updater, which reboots the host when it is told to go on.
    Updater,
}

/// Hosts side by side: a boot with its kubelet is two seconds of a CPU, and CI has two. One has the real kubelet, whose
/// pods and mounts are there when the daemon is not, and two let nobody but the daemon reboot them; which cases come to
/// which, the queue decides.
const STATIONS: [(Kind, &str, Runtime, &str); 7] = [
    (Kind::Rebooted, "km-a", Runtime::Kubemark, ""),
    (Kind::Rebooted, "km-b", Runtime::Kubemark, ""),
    (Kind::Rebooted, "km-c", Runtime::Kubemark, GUARDED),
    (Kind::Rebooted, "km-real", Runtime::Containerd, ""),
    (Kind::Undone, "km-u", Runtime::Kubemark, GUARDED),
    (Kind::Updater, "km-f", Runtime::Kubemark, FLEET_LOCK),
    (Kind::Updater, "km-g", Runtime::Kubemark, FLEET_LOCK),
];
/// What stands below `[reboot]` besides.
const GUARDED: &str = "guard = true\n";
const FLEET_LOCK: &str = "[fleet_lock]\nlisten = \"127.0.0.1:3333\"\n";

/// Effects that no cycle of a group that has its Lease comes to, and the test that has them.
const ELSEWHERE: [(&str, &str); 6] = [
    (
        "CancelShutdown",
        "i6_killed_after_cancelling_a_scheduled_reboot_it_reboots_once",
    ),
    (
        "CreateLease",
        "i6_killed_after_making_the_first_lease_it_reboots_once",
    ),
    (
        "Clear",
        "i6_killed_after_clearing_the_slot_of_a_node_that_is_gone_it_reboots_once",
    ),
    (
        "Hooks",
        "i3_i6_killed_beside_a_hook_it_reboots_once_and_takes_back_what_hooks_set",
    ),
    ("Escalate", "i6_i9_killed_after_escalating_it_reboots_once"),
    // How often it is written hangs on how long the phases take.
    (
        "Tell",
        "i6_killed_after_telling_what_it_does_it_reboots_once",
    ),
];

#[test]
fn i6_killed_at_every_write_and_every_effect_it_reboots_once_and_leaves_nothing() {
    // Applies the manifests that all groups share.
    let shared = Site::new("km", 1);
    let since = Since::now();
    let mut stations = in_parallel(STATIONS.into(), |(kind, group, kubelet, config)| {
        Station::new(kind, group, kubelet, config)
    });
    let listed = in_parallel(stations.iter_mut().collect(), |station| {
        let undisturbed = case::undisturbed(station);
        (
            station.kind,
            undisturbed.unwrap_or_else(|why| panic!("undisturbed: {why}")),
        )
    });
    let points = |kind: Kind| {
        let of = listed.iter().find(|(listed, _)| *listed == kind);
        of.map(|(_, points)| points.clone()).unwrap_or_default()
    };
    let rebooted = points(Kind::Rebooted);
    // Up to there it is the same cycle.
    let mut undone = points(Kind::Undone);
    let withdrawn = undone.iter().position(|point| point == case::WITHDRAWN_AT);
    undone.drain(..=withdrawn.unwrap());
    every_effect_is_among(&rebooted.iter().chain(&undone).collect::<Vec<_>>());

    let rows: Vec<(Kind, String)> = rebooted
        .into_iter()
        .map(|point| (Kind::Rebooted, point))
        .chain(undone.into_iter().map(|point| (Kind::Undone, point)))
        .chain(
            points(Kind::Updater)
                .into_iter()
                .map(|point| (Kind::Updater, point)),
        )
        .collect();
    let cases = rows
        .iter()
        .flat_map(|(kind, point)| Case::all(*kind, point));
    let queue = Mutex::new(cases.collect::<VecDeque<Case>>());
    let results = Mutex::new(BTreeMap::new());
    let stations = in_parallel(stations, |mut station| {
        while let Some(case) = next(&queue, station.kind) {
            let began = Timestamp::now();
            let result = case.run(&station);
            eprintln!(
                "{} {}: {}",
                station.host.name(),
                case.name(),
                said(&result, began)
            );
            if result.is_err() {
                station.renew();
            }
            results
                .lock()
                .unwrap()
                .insert((case.kind, case.point.clone(), case.mode), result);
        }
        station
    });
    let results = results.into_inner().unwrap();
    let text = table::text(&rows, &results);
    table::write(&text);
    in_order(&stations, &since);
    // Nobody needs to hear of hosts that are as they should be.
    drop((stations, shared));
    let wrong = results.values().filter(|result| result.is_err()).count();
    assert!(
        !results.is_empty() && wrong == 0,
        "{wrong} cases went wrong: the table is above"
    );
}

fn said(result: &Result<(), String>, began: Timestamp) -> String {
    let took = Timestamp::now().duration_since(began).as_secs();
    match result {
        Ok(()) => format!("ok after {took} s"),
        Err(why) => format!("NOT ok after {took} s: {why}"),
    }
}

fn next(queue: &Mutex<VecDeque<Case>>, kind: Kind) -> Option<Case> {
    let mut queue = queue.lock().unwrap();
    let at = queue.iter().position(|case| case.kind == kind)?;
    queue.remove(at)
}

/// One thread for each, in the bed's network.
fn in_parallel<T: Send, R: Send>(all: Vec<T>, each: impl Fn(T) -> R + Sync) -> Vec<R> {
    thread::scope(|scope| {
        let each = &each;
        let run = |one| {
            scope.spawn(move || {
                testbed::Bed::connect().unwrap();
                each(one)
            })
        };
        let running: Vec<_> = all.into_iter().map(run).collect();
        let done = running.into_iter().map(thread::ScopedJoinHandle::join);
        done.map(|result| result.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    })
}

/// Every variant that `Effect::outside` names has a row, or its own test.
fn every_effect_is_among(points: &[&String]) {
    let outside = outside();
    assert!(outside.len() > 5, "{outside:?}");
    for effect in outside {
        let elsewhere = ELSEWHERE.iter().any(|(name, _)| *name == effect);
        let row = format!("did {effect} ");
        let among = points.iter().any(|point| point.starts_with(&row));
        assert!(
            among != elsewhere,
            "{effect}: killed after it here: {among}, in a test of its own: {elsewhere}"
        );
    }
}

/// The variants of `Effect` that change something outside the process, by the source itself: Rust has
/// no list of them at run time.
fn outside() -> Vec<&'static str> {
    let source = include_str!("../../../../core/src/effect.rs");
    let (_, body) = source.split_once("pub fn outside(&self)").unwrap();
    let (arm, _) = body.split_once("=> true").unwrap();
    arm.split("Self::")
        .skip(1)
        .map(|rest| rest.split(|c: char| !c.is_alphanumeric()).next().unwrap())
        .collect()
}

/// I1, I3, I4 for all that the hosts asked for.
fn in_order(stations: &[Station], since: &Since) {
    for station in stations {
        let requests = since.of_group(&station.site, &station.site.group);
        verdict::one_holder_at_a_time(&requests, &station.site.group).unwrap();
        assert!(verdict::cordons_while_holding(&requests).unwrap() > 0);
        verdict::uncordoned_before_give_up(&requests).unwrap();
    }
}

#[test]
fn i6_the_release_has_no_stop_points() {
    let has = |program: &std::path::Path| {
        let bytes = std::fs::read(program).unwrap();
        let word = b"kube-rebootd.stop-at";
        bytes.windows(word.len()).any(|window| window == word)
    };
    let bed = testbed::Bed::connect().unwrap();
    assert!(!has(&bed.installed("usr/bin/kube-rebootd")));
    assert!(has(std::path::Path::new(stop_points::PROGRAM)));
}
