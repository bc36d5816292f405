//! The unit on a real host: its sandbox, and what a bad configuration does to it (I12).

use std::time::Duration;

use testbed::Host;

use super::{CYCLE, Site};

/// Nobody reads this key.
const BAD: &str = "[drain]\nno_such_key = 1\n";

/// The exposure that the hardening must reach.
const EXPOSURE: f64 = 2.7;

fn show(host: &Host, property: &str) -> String {
    let said = host
        .systemctl(&["show", "-P", property, "kube-rebootd"])
        .unwrap();
    said.trim().to_owned()
}

fn drop_in(host: &Host, text: &str) {
    host.write("/etc/kube-rebootd/config.d/50-test.toml", text)
        .unwrap();
}

#[test]
fn the_unit_is_hardened_as_measured() {
    let site = Site::new("hardened", 1);
    let host = site.host("hardened-1", "");
    let said = host
        .sh("systemd-analyze security --no-pager kube-rebootd | tail -n 1")
        .unwrap();
    let exposure = said
        .split_once("kube-rebootd.service:")
        .and_then(|(_, rest)| rest.split_whitespace().next())
        .and_then(|number| number.parse::<f64>().ok());
    let exposure = exposure.unwrap_or_else(|| panic!("no exposure in {said:?}"));
    assert!(exposure <= EXPOSURE, "{said}");
}

#[test]
fn i12_a_reload_is_told_key_by_key_and_a_bad_one_keeps_the_old_and_is_shown() {
    let site = Site::new("reload", 1);
    site.pause("test");
    let host = site.host("reload-1", "[triggers]\nsentinels = [\"/run/old\"]\n");
    site.wait_status(&host, "idle");
    let pid = show(&host, "MainPID");
    let reload = || host.run(&["systemctl", "reload", "kube-rebootd"]).unwrap();
    let problems = || host.run(&["kube-rebootd", "status"]).unwrap().stdout;

    drop_in(&host, "[drain]\nstall = \"9m\"\n");
    assert_eq!(reload().code, 0);
    let change = "drain.stall: \"10m\" -> \"9m\" (/etc/kube-rebootd/config.d/50-test.toml)";
    site.wait_journal(&host, &[change]);
    assert_eq!(reload().code, 0);
    site.wait_journal(&host, &["configuration reloaded, nothing has changed"]);

    // Both who asks and the daemon are told what is wrong.
    drop_in(&host, BAD);
    let refused = reload();
    assert_ne!(refused.code, 0, "{}{}", refused.stdout, refused.stderr);
    let place = "50-test.toml:2: drain.no_such_key";
    let words = "configuration not reloaded, the old one stays in force";
    site.wait_journal(&host, &[words, place]);
    let short = "configuration refused and not in use: /etc/kube-rebootd/config.d/50-test.toml:2: drain.no_such_key";
    site.wait_status(&host, short);
    assert!(
        problems().contains("is unknown; remove it"),
        "{}",
        problems()
    );
    let told = || {
        let node = site.node(&host);
        let all = node["status"]["conditions"].as_array();
        let all = all.cloned().unwrap_or_default();
        let ours = all.into_iter().find(|one| one["type"] == "RebootRequired");
        ours.map_or_else(String::new, |one| one["message"].to_string())
    };
    site.wait("the condition to say so", || Ok(told().contains(short)));
    assert_eq!(show(&host, "ActiveState"), "active");
    assert_eq!(show(&host, "MainPID"), pid);

    // The old one is in force: its sentinel still counts.
    host.touch("/run/old").unwrap();
    site.wait_record(&host, &["\"sentinel /run/old\""]);
    host.sh("rm /etc/kube-rebootd/config.d/50-test.toml")
        .unwrap();
    assert_eq!(reload().code, 0);
    site.wait_journal(&host, &["drain.stall: \"9m\" -> \"10m\" (default)"]);
    site.wait("it to be over", || Ok(!told().contains(short)));
    assert!(!problems().contains("no_such_key"), "{}", problems());
    site.resume();
    site.wait_rebooted(&host, 1);
    site.nothing_left(&host);
}

#[test]
fn i12_a_start_with_a_bad_configuration_exits_78_and_is_not_repeated() {
    let site = Site::new("exit78", 1);
    let host = site.host("exit78-1", "");
    site.wait_status(&host, "idle");
    drop_in(&host, BAD);
    let _ = host.run(&["systemctl", "restart", "kube-rebootd"]).unwrap();
    site.bed
        .wait_for("the unit to fail", CYCLE, || {
            Ok(show(&host, "ActiveState") == "failed")
        })
        .unwrap();
    assert_eq!(show(&host, "ExecMainStatus"), "78");
    assert_eq!(show(&host, "NRestarts"), "0");
    // "auto-restart" would be a restart that waits for RestartSec=.
    assert_eq!(show(&host, "SubState"), "failed");
    // journald may write a process' last words after systemd has seen it end.
    site.wait_journal(&host, &["50-test.toml", "no_such_key"]);
    // Found by a full run: sent as a datagram, they had no unit when journald came to look for the process.
    let journal = host.journal_json("kube-rebootd").unwrap();
    let refused =
        |record: &&serde_json::Value| record["MESSAGE"].to_string().contains("50-test.toml");
    let refused = journal.iter().find(refused).unwrap();
    assert_eq!(refused["_TRANSPORT"], "stdout", "{refused}");
    assert_eq!(refused["PRIORITY"], "3", "{refused}");
    // Mended, it starts as it ever did.
    drop_in(&host, "");
    host.systemctl(&["start", "kube-rebootd"]).unwrap();
    site.wait_status(&host, "idle");
}

#[test]
fn i12_with_a_hold_on_record_it_runs_on_the_last_valid_configuration() {
    let site = Site::new("lastvalid", 1);
    let host = site.host("lastvalid-1", "");
    // Verifying cannot end while there is no kubelet.
    host.systemctl(&["disable", "kubelet"]).unwrap();
    host.touch("/run/reboot-required").unwrap();
    site.bed
        .wait_for("the second boot", CYCLE, || Ok(host.boots()? == 2))
        .unwrap();
    site.wait_status(&host, "verifying: ");
    let lease = &site.leases()[0];
    assert_eq!(site.holder(lease), host.name());

    // Neither the group's name nor anything else of the configuration can be read any more.
    host.write("/etc/kube-rebootd/config.toml", BAD).unwrap();
    host.systemctl(&["restart", "kube-rebootd"]).unwrap();
    site.wait_journal(
        &host,
        &["a slot is held: going on with the last valid configuration"],
    );
    site.wait_status(&host, "verifying: ");
    assert_eq!(site.holder(lease), host.name());
    host.systemctl(&["enable", "--now", "kubelet"]).unwrap();
    site.wait_rebooted(&host, 1);
    site.nothing_left(&host);
    // Without a hold it is refused again.
    let _ = host.run(&["systemctl", "restart", "kube-rebootd"]).unwrap();
    site.bed
        .wait_for("the unit to fail", Duration::from_secs(30), || {
            Ok(show(&host, "ActiveState") == "failed")
        })
        .unwrap();
    assert_eq!(show(&host, "ExecMainStatus"), "78");
}
