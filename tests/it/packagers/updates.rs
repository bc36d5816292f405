//! Each distribution's updater brings a kernel, and the host reboots in its turn with what the documentation says
//! and nothing else.

use std::fmt::Write as _;

use testbed::Host;

use super::{Machine, Packager, SITE};
use crate::e2e::Site;

/// What dnf-automatic.service starts; Debian has the module and not the program.
const AUTOMATIC: &str = "#!/bin/sh
exec python3 -c 'import sys, dnf.automatic.main as m; sys.exit(m.main(sys.argv[1:]))' \"$@\"
";
const SOMEBODY: &str = "somebody-else";

/// Of the host's group, idle, with another holder of the slot.
fn waiting(packager: Packager, group: &str, config: &str) -> (Site, Machine, String) {
    let site = Site::new(group, 1);
    let lease = site.leases().remove(0);
    let config = site.config(config);
    let machine = Machine::boot(packager, &site, |spec| {
        spec.file(SITE, config)
            .file("/srv/dnf-automatic", AUTOMATIC)
    });
    machine.install();
    machine.enable();
    site.wait_status(&machine.host, "idle");
    site.hold_by_admin(&lease, SOMEBODY);
    (site, machine, lease)
}

/// It waits for its turn, for these reasons; then it reboots once.
fn in_turn(site: &Site, host: &Host, lease: &str, reasons: &[&str]) {
    site.wait_status(host, &format!("queued: {lease} is held by {SOMEBODY}"));
    site.wait_record(host, reasons);
    assert_eq!(host.boots().unwrap(), 1);
    site.hold_by_admin(lease, "");
    site.wait_rebooted(host, 1);
    site.nothing_left(host);
}

/// The lines of a shipped example, as the administrator puts them into the file that dnf has.
fn automatic(lines: &str) -> String {
    let mut sed = "sed -i".to_owned();
    for line in lines.lines().filter(|line| !line.starts_with(['#', '['])) {
        let (key, _) = line.split_once(" = ").unwrap();
        write!(sed, " -e 's|^{key} = .*|{line}|'").unwrap();
    }
    format!("{sed} /etc/dnf/automatic.conf")
}

/// A transaction whose script takes long, and somebody else's sentinel meanwhile.
fn beside_rpm(site: &Site, machine: &Machine) {
    let host = &machine.host;
    host.touch("/srv/slow").unwrap();
    let slow = "while [ -e /srv/slow ]; do sleep 0.1; done\n";
    host.write("/srv/files.post", slow).unwrap();
    machine.release("slow 1", "echo");
    machine.sh("rm /srv/files.post; systemd-run --unit=slow dnf -y install slow");
    host.touch("/run/reboot-required").unwrap();
    site.wait_status(host, "rpm works (dnf, pid ");
    machine.sh("rm /run/reboot-required /srv/slow");
    site.wait_status(host, "idle");
    site.wait("the transaction to end", || {
        Ok(machine.run("systemctl is-active slow").code != 0)
    });
}

#[test]
fn dnf_automatic_with_our_lines_reboots_the_host_in_turn() {
    let (site, machine, lease) = waiting(Packager::Dnf, "dnf-lines", "");
    machine.release("kernel-core 1", "echo");
    machine.sh(&machine.packager.install("kernel-core"));
    machine.release("kernel-core 2", "echo");
    machine.sh(&automatic(include_str!(
        "../../../packaging/examples/dnf4-automatic.conf"
    )));
    let run = "sh /srv/dnf-automatic --timer";
    beside_rpm(&site, &machine);
    machine.sh(run);
    machine.sh("rpm -q kernel-core-2");
    in_turn(
        &site,
        &machine.host,
        &lease,
        &["sentinel /run/reboot-required"],
    );
    // Nothing was updated: nothing is required.
    machine.sh(run);
    machine.sh("test ! -e /run/reboot-required");
}

#[test]
fn i2_dnf_automatic_as_it_comes_is_taken_over_and_waits_for_its_turn() {
    let config = "[triggers]\nscheduled_shutdown = \"adopt\"\n";
    let (site, machine, lease) = waiting(Packager::Dnf, "dnf-adopt", config);
    machine.release("anything 1", "echo");
    machine.sh(&machine.packager.install("anything"));
    machine.release("anything 2", "echo");
    // reboot_command is `shutdown -r +5`.
    machine.sh(&automatic("apply_updates = yes\nreboot = when-changed"));
    machine.sh("sh /srv/dnf-automatic --timer");
    site.wait("the schedule to be cancelled", || {
        Ok(machine
            .run("test ! -e /run/systemd/shutdown/scheduled")
            .code
            == 0)
    });
    in_turn(&site, &machine.host, &lease, &["scheduled"]);
}

/// Another kernel, as Arch packages it.
fn kernel(machine: &Machine, name: &str, version: &str) {
    let modules = format!("/srv/files/usr/lib/modules/{version}-arch1");
    machine.sh(&format!(
        "rm -rf /srv/files && mkdir -p {modules} && cd {modules} && echo {name} >pkgbase && touch vmlinuz modules.builtin"
    ));
    machine.release(&format!("{name} {version}"), "echo");
}

#[test]
fn pacmans_hook_reboots_the_host_in_turn_and_never_beside_pacman() {
    let (site, machine, lease) = waiting(Packager::Pacman, "pacman", "");
    site.hold_by_admin(&lease, "");
    let host = &machine.host;
    kernel(&machine, "linux", "6.2");
    kernel(&machine, "linux-lts", "6.1");
    let add = |name: &str| format!("pacman -U --noconfirm /srv/repo/{name}-6*.zst");
    // Its hooks run before pacman is done: one of its own that takes long, after ours.
    let hook = "[Trigger]\nOperation = Install\nOperation = Upgrade\nType = Package\nTarget = linux\n\
                [Action]\nWhen = PostTransaction\nExec = /bin/sh -c 'while [ ! -e /srv/go ]; do sleep 0.1; done'\n";
    host.write("/etc/pacman.d/hooks/zz-slow.hook", hook)
        .unwrap();
    machine.sh(&format!(
        "systemd-run --unit=pacman sh -c '{}'",
        add("linux")
    ));
    site.wait_status(
        host,
        "reboot pending: pacman works; if it does not: rm /var/lib/pacman/db.lck",
    );
    site.wait_record(host, &["linux"]);
    assert_eq!(site.holder(&lease), "");
    host.touch("/srv/go").unwrap();
    site.wait_rebooted(host, 1);
    site.nothing_left(host);
    // Another one, and nobody in the way.
    machine.sh(&add("linux-lts"));
    site.wait_rebooted(host, 2);
    site.nothing_left(host);
}

#[test]
fn unattended_upgrades_tells_its_reasons_and_the_host_reboots_in_turn() {
    let (site, machine, lease) = waiting(Packager::Apt, "apt-auto", "");
    // What Debian's kernels run; unattended-upgrades has put its part there.
    let host = &machine.host;
    let post = "#!/bin/sh\nrun-parts --arg=6.1-test /etc/kernel/postinst.d\n\
                while [ -e /srv/slow ]; do sleep 0.1; done\n";
    host.write("/srv/files.post", post).unwrap();
    machine.release("linux-image-test 1", "echo");
    machine.sh(&machine.packager.install("linux-image-test"));
    machine.sh("rm /run/reboot-required*");
    site.wait_status(host, "idle");
    machine.release("linux-image-test 2", "echo");
    let example = include_str!("../../../packaging/examples/52kube-rebootd");
    host.write("/etc/apt/apt.conf.d/52kube-rebootd", example)
        .unwrap();
    host.touch("/srv/slow").unwrap();
    machine.sh("systemd-run --unit=upgrade unattended-upgrade -v");
    // The kernel's script has written the sentinel, and is not done.
    site.wait_status(host, "dpkg or apt works (unattended-upgr, pid ");
    machine.sh("rm /srv/slow");
    site.wait("the upgrade to end", || {
        Ok(machine.run("systemctl is-active upgrade").code != 0)
    });
    assert_eq!(
        machine.sh("dpkg-query -W -f '${Version}' linux-image-test"),
        "2"
    );
    in_turn(&site, host, &lease, &["linux-image-test"]);
}
