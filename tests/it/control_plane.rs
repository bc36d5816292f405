//! Hosts that are the control plane themselves, as kubeadm makes them: etcd, the API server and the controllers go down
//! with their host, and two of three keep the quorum (I13).
//!
//! It takes longest of all and mostly waits: its place in the alphabet lets it begin early.

use std::time::Duration;

use serde_json::Value;
use testbed::{Bed, Host, HostSpec, Stacked, verdict};

use crate::e2e::log::{Since, in_order};
use crate::e2e::{CYCLE, Site};

const NAMES: [&str; 3] = ["cp-1", "cp-2", "cp-3"];
const ROLE: &str = "node-role.kubernetes.io/control-plane=";
/// etcd, API server, controllers and scheduler on each.
const STATIC_PODS: usize = 12;
/// Three cycles, each with the start of an API server.
const ALL: Duration = Duration::from_secs(360);
const CONFIG: &str = "[health]\nready_for = \"0s\"\n[coordination]\ngroup = \"stacked\"\nmax_unavailable = \"100%\"\n[drain]\nmode = \"always\"\n";

/// Without it systemd ends all containers at once, one of them waits for another that has gone, and systemd kills it
/// only after a minute and a half (seen).
const GRACEFUL: &str = "shutdownGracePeriod: 20s\nshutdownGracePeriodCriticalPods: 10s\n";

/// The hosts, with a daemon each; three slots would let all go at once.
fn up(stacked: &Stacked) -> (Vec<Host>, Site) {
    let hosts: Vec<Host> = NAMES
        .iter()
        .map(|name| {
            let mut spec = HostSpec::real(*name)
                .config(CONFIG)
                .kubelet_config(GRACEFUL);
            spec.daemon = false;
            stacked.bed.boot(&stacked.member(spec).unwrap()).unwrap()
        })
        .collect();
    stacked.wait_up().unwrap();
    wait_pods(&stacked.bed);
    let site = Site::on(stacked.bed.clone(), "stacked", 3);
    for host in &hosts {
        site.kubectl(&["label", "node", host.name(), ROLE]);
        let enable = ["enable", "--now", "kube-rebootd"];
        host.systemctl(&enable).unwrap();
    }
    for host in &hosts {
        site.wait_status(host, "idle");
    }
    (hosts, site)
}

/// Every static pod is ready.
fn wait_pods(bed: &Bed) {
    let path = "/api/v1/namespaces/kube-system/pods?labelSelector=tier%3Dcontrol-plane";
    let is_ready = |pod: &&Value| {
        let conditions = pod["status"]["conditions"].as_array();
        let yes = |one: &Value| one["type"] == "Ready" && one["status"] == "True";
        conditions.is_some_and(|all| all.iter().any(yes))
    };
    bed.wait_for("the static pods", CYCLE, || {
        let list = bed.get(path)?;
        let pods = list["items"].as_array().cloned().unwrap_or_default();
        let ready = pods.iter().filter(is_ready).count();
        anyhow::ensure!(ready == STATIC_PODS, "{ready} of {} are ready", pods.len());
        Ok(true)
    })
    .unwrap();
}

#[test]
fn i13_hosts_with_etcd_and_the_api_server_go_down_one_at_a_time() {
    let bed = Bed::connect().unwrap();
    let stacked = bed.stacked_beside(&NAMES).unwrap();
    let (hosts, site) = up(&stacked);
    let since = Since::now();
    for host in &hosts {
        host.touch("/run/reboot-required").unwrap();
    }
    let done = |host: &Host| Ok(host.boots()? == 2 && host.status()?.starts_with("idle"));
    let all = || -> anyhow::Result<bool> {
        let done = hosts.iter().map(done).collect::<anyhow::Result<Vec<_>>>()?;
        Ok(done.iter().all(|done| *done))
    };
    site.bed.wait_for("all to have rebooted", ALL, all).unwrap();
    for host in &hosts {
        site.nothing_left(host);
    }
    let requests = since.of(&site, &hosts);
    in_order(&site, &requests, hosts.len());
    assert_eq!(verdict::most_cordoned_at_once(&requests), 1);
    wait_pods(&site.bed);
    one_is_off(&site, &hosts, &stacked.api_servers());
}

/// Two are left, and neither may go: etcd would have no quorum. The first sees it by the Nodes, the second asks the API server that
/// is off.
fn one_is_off(site: &Site, hosts: &[Host], api_servers: &[String]) {
    let [first, second, off] = hosts else {
        panic!("three hosts");
    };
    off.power_cut().unwrap();
    site.wait("the Node to be told off", || {
        Ok(site.bed.condition(off.name(), "Ready")? == "Unknown")
    });
    // It has rebooted within the last quarter of an hour, after which a sentinel that comes back is believed.
    let wish = format!("kube-rebootd/reboot={}", std::process::id());
    site.kubectl(&["annotate", "node", first.name(), &wish]);
    let words = format!("control-plane nodes go one at a time: {}", off.name());
    site.wait_status(first, &words);
    assert_eq!(first.boots().unwrap(), 2);
    let text = format!("[gates]\napi_servers = {api_servers:?}\n");
    let file = "/etc/kube-rebootd/config.d/api-servers.toml";
    second.write(file, &text).unwrap();
    second.systemctl(&["reload", "kube-rebootd"]).unwrap();
    site.kubectl(&["annotate", "node", second.name(), &wish]);
    let words = format!(
        "another API server is not ready: ask {}/readyz",
        api_servers[2]
    );
    site.wait_status(second, &words);
    assert_eq!(second.boots().unwrap(), 2);
    off.power_on().unwrap();
    let both = [first, second];
    let again = || {
        let done = both.map(|host| Ok(host.boots()? == 3 && host.status()?.starts_with("idle")));
        let done: anyhow::Result<Vec<bool>> = done.into_iter().collect();
        Ok(done?.iter().all(|done| *done))
    };
    site.bed.wait_for("both to reboot", ALL, again).unwrap();
    for host in both {
        site.nothing_left(host);
    }
}
