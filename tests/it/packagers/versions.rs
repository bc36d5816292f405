//! The same package on other systemd versions: 252 (RHEL 9, Debian 12) by default, any Debian suite by
//! `KUBE_REBOOTD_SUITES="bookworm sid"`. All other hosts run trixie's 257.

use std::fs;
use std::thread;

use testbed::{Content, Host, HostSpec};

use super::{Packager, SITE};
use crate::e2e::Site;

/// Short, so that a test can wait for it.
const WATCHDOG: &str = "[Service]\nWatchdogSec=5s\nRestartSec=1s\n";
/// In a container 252 shows a service that is kept from the kernel's settings the boot ID of the machine outside;
/// the Node reports the host's own, which the daemon then waits for. On a machine the two are the same.
const OWN_BOOT_ID: &str = "[Service]\nProtectKernelTunables=no\nProtectControlGroups=no\n";
/// 252 sends no signal when a shutdown is scheduled.
const CONFIG: &str = "[triggers]\nscheduled_shutdown = \"adopt\"\n[drain]\nmode = \"always\"\n";

#[test]
fn a_whole_cycle_reload_stop_and_watchdog_on_other_versions_of_systemd() {
    let wanted = std::env::var("KUBE_REBOOTD_SUITES").unwrap_or_else(|_| "bookworm".to_owned());
    // Applies the manifests that all share.
    let shared = Site::new("suites", 1);
    thread::scope(|scope| {
        for release in wanted.split_whitespace() {
            scope.spawn(move || on(release));
        }
    });
    drop(shared);
}

fn on(release: &str) {
    let site = Site::beside(release);
    let spec = HostSpec {
        suite: release.to_owned(),
        ..HostSpec::named(format!("on-{release}"))
    };
    let spec = spec.content(Content::Bare).file(SITE, site.config(CONFIG));
    let host = site.boot(&spec);
    let package = &Packager::Apt.revisions()[0];
    fs::copy(package, host.outer("/root/kube-rebootd.deb")).unwrap();
    host.sh("dpkg -i /root/kube-rebootd.deb").unwrap();
    let version = host.run(&["kube-rebootd", "--version"]).unwrap();
    let libc = "it does not start here; was it built with a newer libc?";
    assert_eq!(version.code, 0, "{libc} {}", version.stderr);
    println!(
        "{release}: {}",
        host.sh("systemctl --version | head -1").unwrap()
    );
    // Everything that the unit asks for exists, or is ignored without harm.
    let said = host
        .run(&["systemd-analyze", "verify", "kube-rebootd.service"])
        .unwrap();
    assert!(!said.stderr.contains("Unknown"), "{}", said.stderr);
    let unit = "/etc/systemd/system/kube-rebootd.service.d/container.conf";
    host.write(unit, OWN_BOOT_ID).unwrap();
    host.systemctl(&["daemon-reload"]).unwrap();
    host.systemctl(&["enable", "--now", "kube-rebootd"])
        .unwrap();
    site.wait_status(&host, "idle");
    host.systemctl(&["reload", "kube-rebootd"]).unwrap();
    site.wait_journal(&host, &["configuration reloaded"]);

    host.touch("/run/reboot-required").unwrap();
    site.wait_rebooted(&host, 1);
    site.nothing_left(&host);
    host.sh("shutdown -r +5").unwrap();
    site.wait_rebooted(&host, 2);
    site.nothing_left(&host);
    stuck(&site, &host);

    host.systemctl(&["stop", "kube-rebootd"]).unwrap();
    assert_eq!(show(&host, "Result"), "success");
    assert_eq!(show(&host, "ActiveState"), "inactive");
}

/// A loop that is stuck is found by systemd, and started anew.
fn stuck(site: &Site, host: &Host) {
    let unit = "/etc/systemd/system/kube-rebootd.service.d/watchdog.conf";
    host.write(unit, WATCHDOG).unwrap();
    host.sh("systemctl daemon-reload && systemctl restart kube-rebootd")
        .unwrap();
    site.wait_status(host, "idle");
    let pid = show(host, "MainPID");
    host.sh(&format!("kill -STOP {pid}")).unwrap();
    site.wait("the watchdog", || {
        let other = show(host, "MainPID");
        Ok(other != pid && other != "0")
    });
    site.wait_status(host, "idle");
}

fn show(host: &Host, property: &str) -> String {
    let said = host.systemctl(&["show", "-P", property, "kube-rebootd"]);
    said.unwrap().trim().to_owned()
}
