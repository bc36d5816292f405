//! `[[drain.order]]` on a host with the real kubelet: a group leaves when the one before it has gone.

use testbed::HostSpec;

use super::Site;
use super::workload::{Workload, deployment, slow, spec};

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
    let evicted: Vec<String> = work.evictions().into_iter().map(|(pod, _)| pod).collect();
    let app = |pod: &String| pod.split('-').next().unwrap_or_default().to_owned();
    let apps: Vec<String> = evicted.iter().map(app).collect();
    assert_eq!(apps, ["web", "web", "db"], "{evicted:?}");
    site.nothing_left(&host);
}
