//! The guarded door on a real host: `systemctl reboot` is refused and says who to ask, over restarts and crashes of the daemon, and the
//! daemon's own reboot goes through it (I2, I7).

use anyhow::ensure;
use testbed::{Host, HostSpec};

use super::Site;

const CONFIG: &str = "[reboot]\nguard = true\n";
/// With systemd 252.
const OLDER: &str = "bookworm";
/// With systemd 257.
const SUITE: &str = "trixie";

/// What systemctl shows on a terminal.
const WORDS: &str = "use kube-rebootd reboot, or --force";

/// The daemon's lock, as logind lists it.
fn locked(host: &Host) -> bool {
    let list = host.sh("systemd-inhibit --list --no-legend").unwrap();
    list.lines()
        .any(|line| line.contains("kube-rebootd") && line.contains("block"))
}

fn wait_locked(site: &Site, host: &Host, locks: bool) {
    site.wait("the daemon's inhibitor", || {
        ensure!(locked(host) == locks, "locked: {}", !locks);
        Ok(true)
    });
}

/// What whoever goes around the daemon is told.
fn refused(host: &Host, command: &[&str]) {
    let output = host.run(command).unwrap();
    let said = format!("{}{}", output.stdout, output.stderr);
    assert!(output.code != 0, "{command:?} was not refused: {said}");
    let said = said.to_lowercase();
    assert!(
        said.contains("denied") || said.contains("inhibit"),
        "{command:?}: {said}"
    );
}

/// The release of Debian that `KUBE_REBOOTD_SUITES` names, if its systemd keeps root from going around an inhibitor.
fn newer() -> String {
    let wanted = std::env::var("KUBE_REBOOTD_SUITES").unwrap_or_default();
    let newer = wanted.split_whitespace().find(|suite| *suite != OLDER);
    newer.unwrap_or(SUITE).to_owned()
}

#[test]
fn i2_only_the_daemon_reboots_a_guarded_host() {
    let site = Site::new("guard", 1);
    let spec = HostSpec {
        suite: newer(),
        ..HostSpec::named("guard-1").config(site.config(CONFIG))
    };
    let host = site.boot(&spec);
    site.wait_status(&host, "idle");
    wait_locked(&site, &host, true);
    // On a terminal it names who is to be asked; a script is denied, and may ask for the same.
    for command in [
        "script -qec 'systemctl reboot' /dev/null",
        "systemctl reboot --check-inhibitors=yes 2>&1",
    ] {
        let out = host.sh(&format!("{command} || true")).unwrap();
        assert!(
            out.contains("\"kube-rebootd\"") && out.contains(WORDS),
            "{command}: {out}"
        );
    }
    refused(&host, &["systemctl", "reboot"]);
    refused(&host, &["systemctl", "poweroff"]);
    refused(&host, &["shutdown", "-r", "+60"]);
    // Neither a restart nor a crash opens the door.
    host.systemctl(&["restart", "kube-rebootd"]).unwrap();
    wait_locked(&site, &host, true);
    host.systemctl(&["stop", "kube-rebootd"]).unwrap();
    wait_locked(&site, &host, false);
    host.systemctl(&["start", "kube-rebootd"]).unwrap();
    wait_locked(&site, &host, true);
    host.kill_daemon().unwrap();
    // systemd has it, as it starts the daemon ten seconds later.
    assert!(locked(&host));
    // logind keeps it as well.
    host.systemctl(&["restart", "systemd-logind"]).unwrap();
    wait_locked(&site, &host, true);
    refused(&host, &["systemctl", "reboot"]);
    assert_eq!(host.boots().unwrap(), 1);
    // Drained for a person, who may do then what they like. The daemon comes back ten seconds after a crash.
    site.wait("the node to be drained", || {
        host.sh("kube-rebootd drain --wait 2m --reason 'a new disk'")
            .map(|_| true)
    });
    wait_locked(&site, &host, false);
    host.sh("kube-rebootd undrain --wait 2m").unwrap();
    wait_locked(&site, &host, true);
    // Its own goes through, at the first ask.
    host.touch("/run/reboot-required").unwrap();
    site.wait_rebooted(&host, 1);
    site.nothing_left(&host);
    let journal = host.journal("kube-rebootd").unwrap();
    assert!(!journal.contains("the reboot was refused"), "{journal}");
    wait_locked(&site, &host, true);
    // Whoever wants it down whatever runs there is let through, as the words say.
    host.sh("systemctl --no-block reboot --force").unwrap();
    site.wait_rebooted(&host, 2);
    site.nothing_left(&host);
    wait_locked(&site, &host, true);
    // Switched off by a reload.
    host.write("/etc/kube-rebootd/config.toml", &site.config(""))
        .unwrap();
    host.systemctl(&["reload", "kube-rebootd"]).unwrap();
    wait_locked(&site, &host, false);
}

/// systemd 252 lets root through beside any inhibitor: none is held, as it would promise what it does not keep.
#[test]
fn where_root_is_let_through_the_daemon_says_so_and_holds_nothing() {
    let site = Site::new("guard-old", 1);
    let spec = HostSpec {
        suite: OLDER.to_owned(),
        ..HostSpec::named("guardold-1").config(site.config(CONFIG))
    };
    let host = site.boot(&spec);
    site.wait_journal(&host, &["version 257 or newer refuses it"]);
    assert!(!locked(&host));
}
