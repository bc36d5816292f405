//! The way to the API server is gone, lossy or slow, and so is the API server's own store, in every phase:
//! the daemon lives, begins nothing, and finishes when it can (I1, I7).

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use testbed::verdict;

use super::log::{Since, in_order};
use super::phases::{Journey, PHASES, Phase};
use super::{Own, Site, pods, stop_points};

const SLOW: &str = "[drain]\nmode = \"always\"\nunmanaged = \"evict\"\n[reboot]\nretry = \"1s\"\n";
/// Longer than a request (15 s), a connection (5 s) and the pause after a failure (30 s) together.
const LONG: Duration = Duration::from_secs(55);
/// Longer than a request, a connection, and a silent watch is believed (90 s).
const TWO_MINUTES: Duration = Duration::from_secs(120);
/// A drain, of whose packets every third is lost: a silent watch may be believed, and the kubelet tries again ever later.
const LOSSY: Duration = Duration::from_secs(300);

/// What must last as long as this cannot be waited for otherwise.
fn lasts(duration: Duration) {
    thread::sleep(duration);
}

#[test]
fn i7_the_network_of_a_host_cut_in_every_phase() {
    thread::scope(|scope| {
        for (index, phase) in PHASES.into_iter().enumerate() {
            scope.spawn(move || cut_in(phase, &format!("cut{index}")));
        }
    });
}

fn cut_in(phase: Phase, group: &str) {
    let on = Journey::new(group);
    on.begin();
    for reached in PHASES {
        on.reach(reached);
        if reached != phase {
            on.leave(reached);
            continue;
        }
        let before = on.host.daemon_pid().unwrap();
        on.site.bed.cut_network(on.host.name()).unwrap();
        match phase {
            // The slot becomes free, the host goes down and boots, while it is cut.
            Phase::Queued => {
                on.leave(phase);
                lasts(TWO_MINUTES);
            }
            Phase::Rebooting => {
                on.leave(phase);
                on.site.wait("the next boot", || Ok(on.host.boots()? == 2));
                lasts(TWO_MINUTES);
            }
            Phase::Draining | Phase::Verifying => lasts(TWO_MINUTES),
        }
        if phase != Phase::Rebooting {
            assert_eq!(on.host.daemon_pid().unwrap(), before, "the daemon ended");
        }
        let holder = on.site.holder(&on.lease);
        let kept = if phase == Phase::Queued {
            ""
        } else {
            on.host.name()
        };
        assert_eq!(holder, kept, "{phase:?}");
        on.site.bed.mend_network(on.host.name()).unwrap();
        if matches!(phase, Phase::Draining | Phase::Verifying) {
            on.leave(phase);
        }
    }
    on.end();
}

#[test]
fn i7_with_30_percent_of_all_packets_lost_a_host_reboots_once() {
    let site = Site::new("lossy", 1);
    let host = site.host("lossy-1", SLOW);
    pods::slow(&site, &host, "lossy-slow", 5);
    site.wait_status(&host, "idle");
    site.bed.lose_packets(host.name()).unwrap();
    host.touch("/run/reboot-required").unwrap();
    // The kubelet's packets are lost as well, and TCP waits ever longer: what takes seconds else takes minutes at times.
    let boots = || Ok(host.boots()? == 2);
    site.bed.wait_for("the second boot", LOSSY, boots).unwrap();
    site.wait_rebooted(&host, 1);
    site.nothing_left(&host);
    site.bed.lose_no_packets(host.name()).unwrap();
    pods::gone(&site, "lossy-slow");
}

/// Goes to a phase and waits there.
fn go_to(on: &Journey, phase: Phase) {
    on.begin();
    for before in PHASES {
        on.reach(before);
        if before == phase {
            break;
        }
        on.leave(before);
    }
}

/// Goes on from a phase in which everything but the daemon has moved on already.
fn go_on(on: Journey, phase: Phase) {
    let later = PHASES.into_iter().skip_while(|later| *later != phase);
    for later in later {
        if later != phase {
            on.site.wait_status(&on.host, &on.words(later));
        }
        if later != phase || matches!(later, Phase::Queued | Phase::Draining) {
            on.leave(later);
        }
    }
    let phases = Site::phases(&on.host).unwrap();
    assert!(!phases.contains(&"Undoing".to_owned()), "{phases:?}");
    on.end();
}

/// Where a host of the debug build is stopped: what it asks for next will not be answered.
const BETWEEN: [(&str, &str); 2] = [
    ("take", "wrote taking*"),
    // The apply right before logind is asked: nothing may be undone for it.
    ("apply", "wrote rebooting*"),
];

fn stopped_at(on: &Journey, point: &str) -> String {
    on.begin();
    on.reach(Phase::Queued);
    stop_points::record(&on.host, Some(point)).unwrap();
    // Whichever comes first: neither the pod nor the slot is in its way.
    on.leave(Phase::Draining);
    on.leave(Phase::Queued);
    on.site.wait("the daemon to stop itself", || {
        Ok(stop_points::stopped(&on.host).is_some())
    });
    stop_points::stopped(&on.host).unwrap()
}

/// One API server dies under six hosts: one in every phase, and two between a request and its answer.
#[test]
fn i7_the_api_server_killed_with_a_host_in_every_phase() {
    let own = Own::up("outage");
    let since = Since::now();
    let site = |name: String| Site::on(own.bed.clone(), &name, 1);
    let (inside, between) = thread::scope(|scope| {
        let inside = PHASES.map(|phase| {
            scope.spawn(move || {
                let group = format!("out-{phase:?}").to_lowercase()[..7].to_owned();
                let on = Journey::on(site(group));
                go_to(&on, phase);
                (on, phase)
            })
        });
        let between = BETWEEN.map(|(name, point)| {
            scope.spawn(move || {
                let on = Journey::with(site(format!("out-{name}")), stop_points::program);
                let pid = stopped_at(&on, point);
                (on, pid)
            })
        });
        (
            inside.map(|thread| thread.join().unwrap()),
            between.map(|thread| thread.join().unwrap()),
        )
    });
    // The requests of those two reach an API server whose store stands still, so that it cannot answer.
    own.bed.pause_store().unwrap();
    for (on, pid) in &between {
        on.host.sh(&format!("kill -CONT {pid}")).unwrap();
    }
    lasts(Duration::from_secs(2));
    own.bed.stop_api_server().unwrap();
    own.bed.resume_store().unwrap();
    let [queued, draining, rebooting, verifying] = &inside;
    // The host goes down and boots, and another has a kubelet again, without an API server.
    rebooting.0.leave(Phase::Rebooting);
    verifying.0.leave(Phase::Verifying);
    lasts(LONG);
    for (on, boots) in [(queued, 1), (draining, 1), (rebooting, 2), (verifying, 2)] {
        assert_eq!(
            on.0.host.boots().unwrap(),
            boots,
            "{:?}: began something",
            on.1
        );
    }
    let all = inside
        .into_iter()
        .chain(between.map(|(on, _)| (on, Phase::Draining)));
    let all: Vec<(Journey, Phase)> = all.collect();
    for (on, phase) in &all {
        let restarts = on
            .host
            .systemctl(&["show", "-P", "NRestarts", "kube-rebootd"]);
        assert_eq!(restarts.unwrap().trim(), "0", "{phase:?}: the daemon ended");
    }
    own.bed.start_api_server().unwrap();
    thread::scope(|scope| {
        for (on, phase) in all {
            let since = &since;
            scope.spawn(move || {
                let requests = since.of_group(&on.site, &on.site.group);
                verdict::one_holder_at_a_time(&requests, &on.lease).unwrap();
                go_on(on, phase);
            });
        }
    });
}

#[test]
fn i7_with_a_store_that_takes_seconds_per_write_hosts_go_one_after_another() {
    let own = Own::up("slowstore");
    let site = Site::on(own.bed.clone(), "slowstore", 1);
    let hosts = ["sst-1", "sst-2"].map(|name| site.host(name, SLOW));
    for host in &hosts {
        site.wait_status(host, "idle");
    }
    let since = Since::now();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| own.bed.slow_store(&stop).unwrap());
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            for host in &hosts {
                host.touch("/run/reboot-required").unwrap();
            }
            for host in &hosts {
                site.wait("the second boot", || Ok(host.boots()? == 2));
            }
        }));
        stop.store(true, Ordering::Relaxed);
        done.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
    for host in &hosts {
        site.wait_rebooted(host, 1);
        site.nothing_left(host);
    }
    let requests = since.of(&site, &hosts);
    in_order(&site, &requests, 2);
    assert_eq!(verdict::most_cordoned_at_once(&requests), 1);
}
