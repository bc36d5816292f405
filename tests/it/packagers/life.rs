//! From the installation to the removal, as each distribution's users expect it.

use super::{Machine, Packager, SITE};
use crate::e2e::{Site, pods};

/// What an administrator changed in the file that the package brought.
const MINE: &str = "s/^#message = .*/message = \"mine\"/";

#[test]
fn i6_i4_installed_upgraded_downgraded_and_removed_by_dnf() {
    live(Packager::Dnf);
}

#[test]
fn i6_i4_installed_upgraded_downgraded_and_removed_by_pacman() {
    live(Packager::Pacman);
}

#[test]
fn i6_i4_installed_upgraded_downgraded_and_removed_by_apt() {
    live(Packager::Apt);
}

fn live(packager: Packager) {
    let site = Site::new(&format!("all-{}", packager.word()), 1);
    let config = site.config("[drain]\nmode = \"always\"\nunmanaged = \"evict\"\n");
    let machine = Machine::boot(packager, &site, |spec| spec.file(SITE, config));
    install(&machine);
    enable(&site, &machine);
    upgrade(&machine);
    site.wait_status(&machine.host, "idle");
    require(&machine, "linux");
    // The administrator's own was the first.
    site.wait_rebooted(&machine.host, 2);
    downgrade(&machine);
    site.wait_status(&machine.host, "idle");
    remove(&site, &machine);
}

/// Nothing runs before somebody said so.
fn install(machine: &Machine) {
    machine.install();
    assert!(machine.version().ends_with("-1"), "{}", machine.version());
    assert_eq!(machine.enabled(), "disabled");
    assert_eq!(machine.show("ActiveState"), "inactive");
    assert_eq!(machine.show("LoadState"), "loaded");
    machine.sh(machine.packager.verify());
    let modes = "stat -c '%a %U:%G %F' /usr/bin/kube-rebootd /etc/kube-rebootd/config.toml /etc/kube-rebootd/config.d /var/lib/kube-rebootd";
    let wanted = "755 root:root regular file\n644 root:root regular file\n755 root:root directory\n700 root:root directory";
    assert_eq!(machine.sh(modes), wanted);
    machine.sh("kube-rebootd config check");
    // Not running, as nobody started it.
    assert_eq!(machine.run("kube-rebootd status").code, 3);
}

/// From now on it comes with every boot.
fn enable(site: &Site, machine: &Machine) {
    machine.enable();
    site.wait_status(&machine.host, "idle");
    machine.host.reboot().unwrap();
    site.wait_status(&machine.host, "idle");
    assert_eq!(machine.enabled(), "enabled");
    machine.sh(&format!("sed -i '{MINE}' /etc/kube-rebootd/config.toml"));
}

fn upgrade(machine: &Machine) {
    let (process, begun) = (machine.show("MainPID"), machine.show("InvocationID"));
    machine.publish();
    machine.sh(machine.packager.upgrade());
    assert!(machine.version().ends_with("-2"), "{}", machine.version());
    let beside = match machine.packager {
        Packager::Dnf => "config.toml.rpmnew",
        Packager::Pacman => "config.toml.pacnew",
        Packager::Apt => "config.toml.dpkg-dist",
    };
    machine.sh(&format!("grep -q 'Revision 2' /etc/kube-rebootd/{beside}"));
    kept(machine);
    let still = machine.show("InvocationID") == begun;
    assert_eq!(
        still,
        machine.packager == Packager::Pacman,
        "restarted by {:?}",
        machine.packager
    );
    if still {
        // Nobody restarts it on Arch: its own program was replaced, which is no reason to reboot.
        let program = machine.sh(&format!("readlink /proc/{process}/exe"));
        assert!(program.ends_with(" (deleted)"), "{program}");
        let said = machine.sh("kube-rebootd check --builtin libraries");
        assert!(!said.contains("kube-rebootd.service"), "{said}");
        machine.sh("systemctl restart kube-rebootd");
    }
}

fn downgrade(machine: &Machine) {
    machine.sh(machine.packager.downgrade());
    assert!(machine.version().ends_with("-1"), "{}", machine.version());
    kept(machine);
}

/// The unit and the configuration are the administrator's.
fn kept(machine: &Machine) {
    assert_eq!(machine.enabled(), "enabled");
    assert_eq!(machine.show("ActiveState"), "active");
    let shown = machine.sh("kube-rebootd config show | grep message");
    assert!(shown.contains("\"mine\""), "{shown}");
}

/// For another reason each time: the same one so soon after a reboot would be one that it did not clear (I10).
fn require(machine: &Machine, package: &str) {
    machine.sh(&format!(
        "echo {package} >/run/reboot-required.pkgs && touch /run/reboot-required"
    ));
}

/// In the middle of a drain: nothing of the hold stays behind.
fn remove(site: &Site, machine: &Machine) {
    let (host, pod) = (&machine.host, format!("{}-held", site.group));
    pods::held(site, host, &pod);
    require(machine, "glibc");
    site.wait_status(host, "draining: ");
    assert!(site.cordoned(host));
    let said = machine.sh(machine.packager.remove());
    assert!(
        said.contains("slot ") && said.contains(" is given back"),
        "{said}"
    );
    site.nothing_left(host);
    let node = site.node(host);
    assert!(!node["status"].to_string().contains("RebootRequired"));
    assert_eq!(machine.sh("pidof kube-rebootd || true"), "");
    let unit = match machine.packager {
        Packager::Dnf => "not-found",
        Packager::Pacman => {
            // A hook of Arch's systemd does it.
            machine.sh("systemctl daemon-reload");
            "not-found"
        }
        // Until the purge.
        Packager::Apt => "masked",
    };
    assert_eq!(machine.show("LoadState"), unit);
    assert_eq!(host.boots().unwrap(), 3);
    let changed = match machine.packager {
        Packager::Dnf => "config.toml.rpmsave",
        Packager::Pacman => "config.toml.pacsave",
        Packager::Apt => "config.toml",
    };
    machine.sh(&format!(
        "grep -q mine /etc/kube-rebootd/{changed} && test -e {SITE}"
    ));
    if machine.packager == Packager::Apt {
        machine.sh("apt-get -y purge kube-rebootd");
        assert_eq!(machine.enabled(), "not-found");
        machine.sh("test ! -e /var/lib/kube-rebootd && test ! -e /etc/kube-rebootd/config.toml");
        machine.sh(&format!("test -e {SITE}"));
    }
    // As before it came.
    host.reboot().unwrap();
    let failed = machine.sh("systemctl --failed --no-legend");
    assert_eq!(failed, "");
    pods::let_go(site, &pod);
    pods::gone(site, &pod);
}
