//! What root asks for on a host itself: `reboot`, `cancel` and `retry`, on real hosts.

use serde_json::{Value, json};
use testbed::Host;

use super::Site;
use super::workload::{Workload, budget, deployment, spec};

/// Exit code and words of the program on the host.
pub(super) fn says(host: &Host, words: &[&str]) -> (i32, String) {
    let said = host.run(&[&["kube-rebootd"], words].concat()).unwrap();
    (said.code, said.stdout + &said.stderr)
}

pub(super) fn status(host: &Host) -> Value {
    let said = host.run(&["kube-rebootd", "status", "--json"]).unwrap();
    serde_json::from_str(&said.stdout).unwrap()
}

/// It waits for the time after the boot like any other reboot, until somebody says now; and is done once.
#[test]
fn i10_a_reboot_that_root_asks_for_is_done_once() {
    let site = Site::new("ordered", 1);
    let host = site.host("ordered-1", "[gates]\nmin_uptime = \"24h\"\n");
    site.wait_status(&host, "idle");
    let (code, said) = says(&host, &["reboot", "--reason", "new firmware"]);
    assert_eq!((code, said.contains("new firmware")), (0, true), "{said}");
    site.wait_status(&host, "up for less than gates.min_uptime");
    assert_eq!(
        status(&host)["reasons"][0]["trigger"],
        "kube-rebootd reboot"
    );
    let (code, said) = says(&host, &["reboot", "--now", "--reason", "new firmware"]);
    assert_eq!(code, 0, "{said}");
    site.wait_rebooted(&host, 1);
    let history = &status(&host)["history"];
    assert_eq!(history[0]["reasons"], json!(["kube-rebootd reboot --now"]));
    assert_eq!(history.as_array().unwrap().len(), 1);
    // I10: it counts for no limit, as no program asked.
    let record = host.read("/var/lib/kube-rebootd/state.json").unwrap();
    let record: Value = serde_json::from_str(&record).unwrap();
    assert_eq!(record["history"][0]["automatic"], false, "{record}");
    site.nothing_left(&host);
}

/// In the middle of a drain that a budget holds up.
#[test]
fn i3_a_reboot_is_taken_back_in_its_drain() {
    let site = Site::new("taken-back", 1);
    let host = site.host("taken-back-1", "[drain]\nmode = \"always\"\n");
    let work = Workload::new(&site, "taken-back");
    work.apply(&[deployment("app", 1, &spec(&host)), budget("none", "app", 0)]);
    work.wait_running(&host, 1);
    let (code, said) = says(&host, &["cancel"]);
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("nobody asked on this host"), "{said}");
    assert_eq!(says(&host, &["reboot"]).0, 0);
    site.wait("the cordon", || Ok(site.cordoned(&host)));
    // By somebody else, from anywhere; both are one reboot, and are taken back at once.
    let wish = "kube-rebootd/reboot=firmware";
    site.kubectl(&["annotate", "node", host.name(), wish]);
    site.wait("both wishes", || {
        Ok(status(&host)["reasons"]
            .as_array()
            .is_some_and(|all| all.len() == 2))
    });
    let (code, said) = says(&host, &["cancel"]);
    assert_eq!(code, 0, "{said}");
    assert!(
        said.contains("taken back: kube-rebootd reboot (by root, "),
        "{said}"
    );
    assert!(
        said.contains("not asked by annotation any more (it was: firmware)"),
        "{said}"
    );
    site.wait_status(&host, "idle: no reboot needed");
    assert_eq!(host.boots().unwrap(), 1);
    site.nothing_left(&host);
}

/// After a failed attempt somebody mends its cause, and does not wait for hours.
#[test]
fn a_wait_after_a_failure_is_ended() {
    let site = Site::new("retried", 1);
    let config = "[drain]\nmode = \"always\"\ntimeout = \"5s\"\n[reboot]\nretry = \"2h\"\n";
    let host = site.host("retried-1", config);
    let work = Workload::new(&site, "retried");
    work.apply(&[deployment("app", 1, &spec(&host)), budget("none", "app", 0)]);
    work.wait_running(&host, 1);
    host.touch("/run/reboot-required").unwrap();
    site.wait_status(&host, "1 failed attempt, next in ");
    work.kubectl(&["delete", "poddisruptionbudget", "none"]);
    let (code, said) = says(&host, &["retry"]);
    assert_eq!(code, 0, "{said}");
    assert!(
        said.contains("does not wait any more after this failure: the drain failed"),
        "{said}"
    );
    site.wait_rebooted(&host, 1);
    site.nothing_left(&host);
}

/// Of root, and of a daemon that runs.
#[test]
fn i14_nobody_else_gives_orders() {
    let site = Site::new("orders", 1);
    let host = site.host("orders-1", "");
    site.wait_status(&host, "idle");
    for verb in ["reboot", "cancel", "retry"] {
        let words =
            format!("setpriv --reuid=65534 --regid=65534 --clear-groups kube-rebootd {verb}");
        let said = host.run(&["sh", "-c", &words]).unwrap();
        assert_eq!(said.code, 4, "{}{}", said.stdout, said.stderr);
        assert!(
            said.stderr.contains("only root may ask for this"),
            "{}",
            said.stderr
        );
    }
    assert_eq!(status(&host)["reasons"], json!([]));
    host.systemctl(&["stop", "kube-rebootd"]).unwrap();
    for verb in ["reboot", "cancel", "retry"] {
        let (code, said) = says(&host, &[verb]);
        assert_eq!(code, 3, "{said}");
    }
}
