//! Pods of every sort on one node, each treated as docs/design.md 7 says: what was evicted is read from
//! the audit log (I9).

use serde_json::{Value, json};
use testbed::{Host, HostSpec};

use super::Site;
use super::workload::{Workload, app, bare, budget, deployment, slow, spec, string};

/// Patience of the drain: longer than everything that leaves by itself, rounds of a pod that comes
/// back included.
const SORTS: &str = "[drain]\nmode = \"always\"\ntimeout = \"40s\"\non_timeout = \"reboot\"\n";

/// A kubelet that ends all pods itself when the host goes down.
const GRACEFUL: &str = "shutdownGracePeriod: 10s\nshutdownGracePeriodCriticalPods: 5s\n";

#[test]
fn i9_pods_of_every_sort_leave_as_they_should() {
    every_sort("sorts", None);
}

/// What the daemon leaves on the node, the kubelet ends: only what has a controller, and static pods, come back.
#[test]
fn i9_pods_of_every_sort_leave_as_they_should_where_the_kubelet_shuts_down_gracefully() {
    every_sort("sorts-gns", Some(GRACEFUL));
}

fn every_sort(name: &str, graceful: Option<&str>) {
    let site = Site::new(name, 1);
    let mut spec = HostSpec::real(format!("{name}-1")).config(site.config(SORTS));
    if let Some(settings) = graceful {
        spec = spec.kubelet_config(settings);
    }
    let host = site.boot(&spec);
    if graceful.is_some() {
        // What the kubelet says last of its pods is lost now and then, where nothing else holds the shutdown up.
        host.delay_shutdowns().unwrap();
    }
    let work = Workload::new(&site, name);
    work.apply(&sorts(&host));
    let mirror = static_pod(&site, &work, &host);
    work.wait_running(&host, 14);
    wait_failed(&site, &work, &host, "done");
    let uid = |name: &str| {
        work.pod(&host, name)
            .map(|pod| string(&pod["metadata"]["uid"]))
    };
    let stays = ["agent", "broken", "bare", "done", &mirror];
    let before = stays.map(uid);
    host.touch("/run/reboot-required").unwrap();
    site.wait("the slow pod to be gone", || {
        Ok(work.pod(&host, "slow").is_none())
    });
    assert_eq!(
        work.answers("later").last(),
        Some(&429),
        "its budget allowed nothing yet"
    );
    work.kubectl(&[
        "patch",
        "pdb",
        "later",
        "-p",
        r#"{"spec":{"maxUnavailable":1}}"#,
    ]);
    let held = format!("held by a finalizer: pod {}/held", work.namespace);
    site.wait_status(&host, &held);
    site.wait_rebooted(&host, 1);
    for gone in ["web", "db", "runs", "scratch", "slow", "held"] {
        let pods = if gone == "web" { 2 } else { 1 };
        assert_eq!(work.answers(gone), vec![201; pods], "{gone}");
    }
    for left in stays {
        assert_eq!(work.answers(left), [0; 0], "{left} was asked to leave");
    }
    let after = stays.map(uid);
    if graceful.is_none() {
        assert_eq!(after, before);
    } else {
        assert_eq!(after[2..], before[2..], "nobody makes these again");
        for (set, old) in stays.iter().zip(&before).take(2) {
            site.wait(&format!("another pod of {set}"), || {
                let new = uid(set);
                Ok(new.is_some() && new != *old)
            });
        }
        let bare = work.pod(&host, "bare").unwrap();
        let phase = string(&bare["status"]["phase"]);
        assert!(["Succeeded", "Failed"].contains(&phase.as_str()), "{phase}");
    }
    let later = work.answers("later");
    let (last, refused) = split_last(&later);
    assert!(
        last == 201 && refused.iter().all(|code| *code == 429),
        "{refused:?}"
    );
    let two = work.answers("two");
    assert!(
        !two.is_empty() && two.iter().all(|code| *code == 500),
        "{two:?}"
    );
    // The first, and five more that its controller put back after the cordon.
    let stubborn = work.answers("stubborn");
    let (accepted, late): (Vec<_>, _) = stubborn.iter().partition(|code| **code == 201);
    assert_eq!(accepted.len(), 6, "{stubborn:?}");
    // NodeRestriction has not seen a pod that has just come: looked at again, then evicted.
    let look_again = |code: &&u16| [403, 404, 409].contains(*code);
    assert!(late.iter().all(look_again), "{late:?}");
    site.nothing_left(&host);
}

/// Everything but the static pod.
fn sorts(host: &Host) -> Vec<Value> {
    let plain = spec(host);
    let with = |key: &str, value: Value| {
        let mut spec = plain.clone();
        spec[key] = value;
        spec
    };
    let never_ready = with("readinessGates", json!([{"conditionType": "test/never"}]));
    let scratch = with("volumes", json!([{"name": "scratch", "emptyDir": {}}]));
    let stubborn = with("tolerations", json!([{"operator": "Exists"}]));
    let mut held = deployment("held", 1, &plain);
    held["spec"]["template"]["metadata"]["finalizers"] = json!(["test.example/hold"]);
    vec![
        deployment("web", 2, &plain),
        app("StatefulSet", "db", 1, &plain),
        app("DaemonSet", "agent", 1, &plain),
        app("DaemonSet", "broken", 1, &never_ready),
        job("done", &with("activeDeadlineSeconds", json!(1))),
        job("runs", &plain),
        bare("bare", "Always", &plain),
        deployment("scratch", 1, &scratch),
        deployment("slow", 1, &slow(plain.clone(), 6)),
        held,
        deployment("stubborn", 1, &stubborn),
        deployment("two", 1, &plain),
        budget("two-a", "two", 1),
        budget("two-b", "two", 1),
        deployment("later", 1, &plain),
        budget("later", "later", 0),
    ]
}

fn job(name: &str, pod: &Value) -> Value {
    let mut pod = pod.clone();
    pod["restartPolicy"] = json!("Never");
    json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"backoffLimit": 0, "template": {"spec": pod}},
    })
}

/// Drops a manifest into the kubelet's folder; the name of the mirror pod.
fn static_pod(site: &Site, work: &Workload, host: &Host) -> String {
    let pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "static", "namespace": work.namespace},
        "spec": {"containers": [{"name": "main", "image": testbed::IMAGE}]},
    });
    host.write("/etc/kubernetes/manifests/static.json", &pod.to_string())
        .unwrap();
    let name = format!("static-{}", host.name());
    site.wait("the mirror pod", || Ok(work.pod(host, &name).is_some()));
    name
}

fn wait_failed(site: &Site, work: &Workload, host: &Host, name: &str) {
    site.wait(&format!("pod {name} to have failed"), || {
        Ok(work
            .pod(host, name)
            .is_some_and(|pod| pod["status"]["phase"] == "Failed"))
    });
}

fn split_last(codes: &[u16]) -> (u16, &[u16]) {
    codes
        .split_last()
        .map_or((0, codes), |(last, rest)| (*last, rest))
}

/// Not asserted are the seconds: two cores run the cluster, its hosts and other tests beside.
#[test]
fn i9_a_full_node_drains_with_hardly_more_requests_than_pods() {
    let site = Site::new("full", 1);
    let host = site.host("full-1", "[drain]\nmode = \"always\"\n");
    let work = Workload::new(&site, "full");
    let apps: Vec<Value> = (0..10)
        .map(|app| deployment(&format!("app-{app}"), 11, &spec(&host)))
        .collect();
    work.apply(&apps);
    work.wait_running(&host, 110);
    let since = jiff::Timestamp::now();
    host.touch("/run/reboot-required").unwrap();
    site.wait("the host to reboot", || Ok(host.boots()? == 2));
    let asked = requests(&site, &host, since);
    let (first, last) = (asked.first().unwrap(), asked.last().unwrap());
    let evictions = asked.iter().filter(|one| one.resource == "pods/eviction");
    println!(
        "110 pods: {} pod requests, {} of them evictions, {:.2} s from cordon to the last list",
        asked.len(),
        evictions.clone().count(),
        last.done.duration_since(first.at).as_secs_f64()
    );
    for one in asked.iter().filter(|one| one.resource != "pods/eviction") {
        println!("{} {} {} {}", one.at, one.verb, one.code, one.uri);
    }
    assert_eq!(evictions.filter(|one| one.code == 201).count(), 110);
    // Lists and a watch; some more where an eviction is asked for again.
    assert!(asked.len() <= 120, "{} requests", asked.len());
    site.wait_rebooted(&host, 1);
    site.nothing_left(&host);
}

/// What the daemon of a host asked about pods since then and before its boot, in order: reading the log may take so long that
/// it has asked again after the boot. A watch is logged when it is opened and again when it ends.
fn requests(site: &Site, host: &Host, since: jiff::Timestamp) -> Vec<testbed::Request> {
    let user = format!("system:node:{}", host.name());
    let time = since..host.booted().unwrap();
    let mut all = site.bed.requests_by("kube-rebootd/").unwrap();
    all.retain(|one| {
        let tried = one.uri.contains("dryRun=");
        time.contains(&one.at) && one.user == user && one.resource.starts_with("pods") && !tried
    });
    all.dedup_by(|one, before| one.verb == "watch" && one.at == before.at);
    all
}

#[test]
fn i9_pods_that_nobody_makes_again_close_the_gate_until_the_admin_decides() {
    let site = Site::new("bare", 1);
    let strict = "[drain]\nmode = \"always\"\nempty_dir = \"block\"\n";
    let host = site.host("bare-1", strict);
    let work = Workload::new(&site, "bare");
    let mut scratch = spec(&host);
    scratch["volumes"] = json!([{"name": "scratch", "emptyDir": {}}]);
    work.apply(&[
        bare("always", "Always", &spec(&host)),
        bare("on-failure", "OnFailure", &spec(&host)),
        bare("never", "Never", &spec(&host)),
        deployment("scratch", 1, &scratch),
    ]);
    work.wait_running(&host, 4);
    host.touch("/run/reboot-required").unwrap();
    // Not "always": the kubelet starts it again.
    site.wait_status(&host, "3 pods would block the drain");
    assert!(!site.cordoned(&host));
    assert_eq!(site.holder(&site.leases()[0]), "");
    assert_eq!(work.evictions(), []);
    let decided = "[drain]\nmode = \"always\"\nunmanaged = \"evict\"\n";
    host.write("/etc/kube-rebootd/config.toml", &site.config(decided))
        .unwrap();
    host.systemctl(&["reload", "kube-rebootd"]).unwrap();
    site.wait_rebooted(&host, 1);
    for gone in ["always", "on-failure", "never", "scratch"] {
        assert_eq!(work.answers(gone), [201], "{gone}");
    }
    site.nothing_left(&host);
}
