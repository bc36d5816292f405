//! `mode = "observe"`, `drain.jobs = "wait"`, and a drain that is cut off from the API server.

use std::time::{Duration, Instant};

use serde_json::json;
use testbed::HostSpec;

use super::workload::{Workload, budget, deployment, spec};
use super::{CYCLE, Site};

/// The stall is far shorter than the Job: only pods that should leave count against it.
const WAITS: &str =
    "[drain]\nmode = \"always\"\njobs = \"wait\"\nstall = \"1s\"\n[reboot]\nretry = \"1h\"\n";
const MODE: &str = "/etc/kube-rebootd/config.d/90-mode.toml";

#[test]
fn an_observer_only_says_what_it_would_do_and_a_job_is_waited_for() {
    let site = Site::new("options", 1);
    let config = format!("mode = \"observe\"\n{}", site.config(WAITS));
    let host = site.boot(&HostSpec::named("options-1").config(config));
    let work = Workload::new(&site, "options");
    let mut pod = spec(&host);
    pod["restartPolicy"] = json!("Never");
    work.apply(&[json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "backup"},
        "spec": {"backoffLimit": 0, "template": {"spec": pod}},
    })]);
    work.wait_running(&host, 1);
    host.touch("/run/reboot-required").unwrap();
    let lease = site.leases().remove(0);
    site.wait_status(&host, &format!("observing: would take slot {lease}"));
    site.wait_journal(&host, &[format!("would take slot {lease}")]);
    assert_eq!(site.holder(&lease), "");
    site.nothing_left(&host);

    host.write(MODE, "mode = \"active\"\n").unwrap();
    host.systemctl(&["reload", "kube-rebootd"]).unwrap();
    let job = format!("of Job {}/backup has not finished", work.namespace);
    site.wait_status(&host, &job);
    site.wait_journal(&host, &[job]);
    let pod = work.pod(&host, "backup").unwrap();
    let pod = pod["metadata"]["name"].as_str().unwrap();
    // kubemark's containers run for ever: the kubelet ends this one, and the pod is finished.
    let end = r#"{"spec":{"activeDeadlineSeconds":1}}"#;
    work.kubectl(&["patch", "pod", pod, "-p", end]);
    site.wait_rebooted(&host, 1);
    assert_eq!(work.answers("backup"), [0; 0], "a pod of a Job was evicted");
    let phases = Site::phases(&host).unwrap();
    assert!(!phases.contains(&"Undoing".to_owned()), "{phases:?}");
    site.nothing_left(&host);
}

/// Longer than the whole drain may take.
const CUT: Duration = Duration::from_secs(12);

#[test]
fn i7_a_cut_that_no_watch_has_reported_yet_ends_no_drain() {
    let site = Site::new("cut", 1);
    let config = "[drain]\nmode = \"always\"\ntimeout = \"8s\"\n[reboot]\nretry = \"1h\"\n";
    let host = site.host("cut-1", config);
    let work = Workload::new(&site, "cut");
    work.apply(&[deployment("web", 1, &spec(&host)), budget("web", "web", 0)]);
    work.wait_running(&host, 1);
    host.touch("/run/reboot-required").unwrap();
    site.wait_status(&host, &format!("blocked by budget {}/web", work.namespace));
    site.bed.cut_network(host.name()).unwrap();
    let open = r#"{"spec":{"maxUnavailable":1}}"#;
    work.kubectl(&["patch", "pdb", "web", "-p", open]);
    let since = Instant::now();
    let over = || Ok(since.elapsed() > CUT);
    let waited = site
        .bed
        .wait_for("the cut to be longer than the drain", CYCLE, over);
    site.bed.mend_network(host.name()).unwrap();
    waited.unwrap();
    site.wait_rebooted(&host, 1);
    let phases = Site::phases(&host).unwrap();
    assert!(!phases.contains(&"Undoing".to_owned()), "{phases:?}");
    site.nothing_left(&host);
}
