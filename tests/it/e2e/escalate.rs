//! `[[drain.escalate]]` with the real kubelet: past a budget (I9).

use testbed::HostSpec;

use super::Site;
use super::workload::{Workload, budget, deployment, spec};

const ESCALATE: &str = "[drain]\nmode = \"always\"\n\
    [[drain.escalate]]\nname = \"web\"\npods = [\"app=web\"]\nafter = \"10s\"\naction = \"delete\"\n";

#[test]
fn i9_a_chosen_pod_is_deleted_past_its_budget() {
    let site = Site::new("escalate", 1);
    let spec_of_host = HostSpec::real("escalate-1".to_owned()).config(site.config(ESCALATE));
    let host = site.boot(&spec_of_host);
    let work = Workload::new(&site, "escalate");
    work.apply(&[deployment("web", 1, &spec(&host)), budget("web", "web", 0)]);
    work.wait_running(&host, 1);
    host.touch("/run/reboot-required").unwrap();
    let deleted = format!("is deleted past budget {}/web", work.namespace);
    site.wait_journal(&host, &[deleted]);
    site.wait_rebooted(&host, 1);
    let web = work.answers("web");
    assert!(web.iter().all(|code| *code == 429), "{web:?}");
    site.nothing_left(&host);
}
