//! The bed itself: hosts boot, join, reboot and lose power; the network and the API server go and
//! come back; everything of a bed goes with it. They need a bed that is up (`make bed`).

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use testbed::{Bed, Host, HostSpec, Sources, Standing};

/// Where beds keep their state.
const BEDS: &str = "/var/lib/kube-rebootd-bed";

const LIMIT: Duration = Duration::from_secs(120);

/// A host without the daemon.
fn plain(name: &str) -> HostSpec {
    HostSpec {
        daemon: false,
        ..HostSpec::named(name)
    }
}

/// Whether the host can connect to the API server.
fn reaches(host: &Host) -> anyhow::Result<bool> {
    let dial = "echo > /dev/tcp/10.123.0.1/6443";
    Ok(host.run(&["timeout", "2", "bash", "-c", dial])?.code == 0)
}

#[test]
fn a_host_boots_joins_and_reboots() {
    let bed = Bed::connect().unwrap();
    let host = bed.boot(&plain("self-1")).unwrap();
    bed.wait_ready("self-1").unwrap();
    let before = host.boot_id().unwrap();
    host.reboot().unwrap();
    assert_ne!(host.boot_id().unwrap(), before);
    assert_eq!(host.boots().unwrap(), 2);
    let journal = host
        .sh("journalctl --no-pager --list-boots --quiet")
        .unwrap();
    assert!(journal.contains(&before.replace('-', "")), "{journal}");
    bed.wait_for("the new boot's kubelet", LIMIT, || {
        Ok(host.systemctl(&["is-active", "kubelet"])?.trim() == "active")
    })
    .unwrap();
    bed.wait_ready("self-1").unwrap();
}

/// A command caught by the shutdown once kept the host from ending.
#[test]
fn a_host_that_is_asked_things_all_the_time_reboots_all_the_same() {
    let bed = Bed::connect().unwrap();
    let host = bed
        .boot(&HostSpec {
            kubelet: false,
            ..plain("self-2")
        })
        .unwrap();
    for boots in 2..=4 {
        host.run(&["systemctl", "--no-block", "reboot"]).unwrap();
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    bed.wait_for("the next boot", LIMIT, || {
                        let up = host.sh("sleep 0.2; systemctl is-system-running");
                        Ok(host.boots()? == boots && up.is_ok())
                    })
                    .unwrap();
                });
            }
        });
    }
}

#[test]
fn a_host_that_loses_power_comes_back() {
    let bed = Bed::connect().unwrap();
    let host = bed
        .boot(&HostSpec {
            kubelet: false,
            ..plain("self-3")
        })
        .unwrap();
    let before = host.boot_id().unwrap();
    host.power_cut().unwrap();
    assert!(host.boot_id().is_err());
    host.power_on().unwrap();
    assert_ne!(host.boot_id().unwrap(), before);
}

#[test]
fn a_cut_network_stays_cut_over_a_reboot() {
    let bed = Bed::connect().unwrap();
    let host = bed
        .boot(&HostSpec {
            kubelet: false,
            ..plain("self-4")
        })
        .unwrap();
    let reached = || {
        bed.wait_for("the network", LIMIT, || reaches(&host))
            .unwrap();
    };
    reached();
    bed.cut_network("self-4").unwrap();
    assert!(!reaches(&host).unwrap());
    host.reboot().unwrap();
    assert!(!reaches(&host).unwrap());
    bed.mend_network("self-4").unwrap();
    reached();
}

#[test]
fn a_taken_name_is_refused_and_its_host_lives_on() {
    let bed = Bed::connect().unwrap();
    let spec = HostSpec {
        kubelet: false,
        ..plain("self-5")
    };
    let host = bed.boot(&spec).unwrap();
    let before = host.boot_id().unwrap();
    let refused = bed.boot(&spec).map(|_| ()).unwrap_err();
    assert!(refused.to_string().contains("self-5 exists"), "{refused:#}");
    drop(bed.host("self-5").unwrap());
    assert_eq!(host.boot_id().unwrap(), before);
}

#[test]
fn four_hosts_boot_side_by_side_with_their_roles() {
    let bed = Bed::connect().unwrap();
    let role = "node-role.kubernetes.io/control-plane";
    thread::scope(|scope| {
        for number in 1..=4 {
            let bed = &bed;
            scope.spawn(move || {
                let name = format!("self-6-{number}");
                let spec = plain(&name).label(format!("{role}=")).label("rack=r1");
                let _host = bed.boot(&spec).unwrap();
                bed.wait_ready(&name).unwrap();
                let selector = format!("{role},rack=r1");
                let said = bed.kubectl(&["get", "nodes", "-o", "name", "-l", &selector]);
                assert!(said.unwrap().contains(&format!("node/{name}\n")));
            });
        }
    });
}

#[test]
fn a_name_that_is_no_name_is_refused() {
    let bed = Bed::connect().unwrap();
    for name in ["", "..", "a/b", "-a", "A"] {
        assert!(Bed::down(name).is_err(), "bed {name:?}");
        assert!(bed.boot(&plain(name)).is_err(), "host {name:?}");
    }
    assert!(bed.boot(&plain("thirteen-char")).is_err());
}

#[test]
fn a_second_bed_stands_beside_the_first_and_leaves_nothing() {
    let name = format!("self-{}", std::process::id());
    let _standing = Standing::of(&name);
    let bed = Bed::up(&name, &Sources::binary()).unwrap();
    assert_eq!(bed.kubectl(&["get", "--raw", "/readyz"]).unwrap(), "ok");
    assert_eq!(
        Bed::up(&name, &Sources::binary()).unwrap().name(),
        name,
        "up again is no error"
    );
    bed.boot(&plain("n1")).unwrap().keep();
    bed.wait_ready("n1").unwrap();
    bed.kubectl(&["get", "nodes"]).unwrap();

    bed.stop_api_server().unwrap();
    assert!(bed.kubectl(&["get", "nodes"]).is_err());
    bed.start_api_server().unwrap();
    let agent = "kubectl/";
    let asked = bed.requests_by(agent).unwrap();
    let nodes = |request: &&testbed::Request| request.resource == "nodes" && request.code == 200;
    assert!(asked.iter().any(|request| nodes(&request)), "{asked:?}");

    Bed::down(&name).unwrap();
    Bed::down(&name).unwrap();
    let ground = format!("kbed-{name}");
    for place in ["/run/netns", "/sys/fs/cgroup", "/sys/fs/cgroup/unified"] {
        assert!(!Path::new(place).join(&ground).exists(), "{place}");
    }
    assert!(!Path::new(BEDS).join(&name).exists());
    let left = Command::new("pgrep")
        .args(["-f", &format!("kube-rebootd-bed/{name}")])
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&left.stdout), "", "processes");
    let mounts = fs::read_to_string("/proc/mounts").unwrap();
    assert!(!mounts.contains(&name), "mounts are left");
}

/// One that failed once left its bed running beside a whole later run.
#[test]
fn a_bed_goes_down_with_the_test_that_fails() {
    let name = format!("half-{}", std::process::id());
    // What there is of a bed that has hardly begun to come up.
    let dir = Path::new(BEDS).join(&name);
    let failed = thread::scope(|scope| {
        let test = scope.spawn(|| {
            let _standing = Standing::of(&name);
            fs::create_dir_all(dir.join("hosts")).unwrap();
            panic!("a test that fails, on purpose");
        });
        test.join()
    });
    assert!(failed.is_err());
    assert!(!dir.exists(), "{} is left", dir.display());
}
