//! `[[drain.order]]` on a host with the real kubelet: a group leaves when the one before it has gone.

use jiff::{SignedDuration, Timestamp};
use kube_rebootd_core::names;
use serde_json::json;
use testbed::HostSpec;

use super::Site;
use super::workload::{Workload, deployment, slow, spec, string};

const ORDER: &str = "[drain]\nmode = \"always\"\n\
    [[drain.order]]\nname = \"databases\"\npods = [\"app=db\"]\nwait = \"2m\"\n";

#[test]
fn pods_of_a_later_group_leave_when_the_earlier_ones_have_gone() {
    let site = Site::new("order", 1);
    let spec_of_host = HostSpec::real("order-1").config(site.config(ORDER));
    let host = site.boot(&spec_of_host);
    let work = Workload::new(&site, "order");
    work.apply(&[
        deployment("db", 1, &spec(&host)),
        deployment("web", 2, &slow(spec(&host), 10)),
    ]);
    work.wait_running(&host, 3);
    host.touch("/run/reboot-required").unwrap();
    site.wait_status(&host, "1 in later groups of drain.order (next: databases)");
    assert_eq!(work.answers("db"), [0; 0], "not before its turn");
    site.wait_rebooted(&host, 1);
    assert_eq!(apps(&work), ["web", "web", "db"]);
    site.nothing_left(&host);
}

/// Whose pods were asked to leave, in this order.
fn apps(work: &Workload) -> Vec<String> {
    let evicted = work.evictions().into_iter();
    let app = |(pod, _): (String, u16)| pod.split('-').next().unwrap_or_default().to_owned();
    evicted.map(app).collect()
}

const REST: &str = "[drain]\nmode = \"always\"\ncordon_only = \"5s\"\nload_balancer_wait = \"25s\"\n\
    [[drain.order]]\nname = \"databases\"\npriority = 1000\nwait = \"2m\"\n";

/// What goes on before the first eviction, and then in which order: by the priority that a `PriorityClass` gives.
#[test]
fn i9_load_balancers_have_their_time_and_priorities_leave_in_their_order() {
    let site = Site::new("rest", 1);
    let spec_of_host = HostSpec::real("rest-1").config(site.config(REST));
    let host = site.boot(&spec_of_host);
    let work = Workload::new(&site, "rest");
    let class = &work.namespace;
    site.kubectl(&["create", "priorityclass", class, "--value=1000"]);
    let mut important = spec(&host);
    important["priorityClassName"] = json!(class);
    work.apply(&[
        deployment("db", 1, &important),
        deployment("web", 2, &slow(spec(&host), 10)),
    ]);
    work.wait_running(&host, 3);
    let label = || string(&site.node(&host)["metadata"]["labels"][names::EXCLUDED.0]);
    assert_eq!(label(), "");
    let began = Timestamp::now();
    host.touch("/run/reboot-required").unwrap();
    // The longer wait is the one that is named.
    site.wait_status(
        &host,
        "waiting for drain.load_balancer_wait of 25s, 3 pods left",
    );
    assert!(site.cordoned(&host));
    assert_eq!(label(), "true", "with the cordon");
    site.wait_status(&host, "1 in later groups of drain.order (next: databases)");
    assert_eq!(work.answers("db"), [0; 0], "not before its turn");
    site.wait_rebooted(&host, 1);
    assert_eq!(apps(&work), ["web", "web", "db"]);
    let first = work.first_asked().unwrap().duration_since(began);
    assert!(
        first >= SignedDuration::from_secs(25),
        "asked after {first}"
    );
    assert_eq!(label(), "", "it goes with the cordon");
    site.nothing_left(&host);
    site.kubectl(&["delete", "priorityclass", class]);
}
