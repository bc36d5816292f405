//! Presets and the tools they are for: the real ones, each in every state it can be brought to here.

use testbed::Host;

use super::{Machine, Packager, SITE};
use crate::e2e::Site;

/// A tool's preset, what makes it say that a reboot is required, what it says, and what makes it say "no".
struct Case {
    preset: &'static str,
    before: &'static str,
    words: &'static str,
    after: &'static str,
}

/// needrestart looks at no kernel in a container; and a kernel image whose header names its version.
const NEEDRESTART: &str = "printf '#!/bin/sh\nexit 1\n' >/usr/bin/systemd-detect-virt
image() { { head -c 526 /dev/zero; printf '\\0\\002'; head -c 496 /dev/zero; printf '%s (test) %s' $1 \"$(uname -v)\"; head -c 1000000 /dev/zero; } >/boot/vmlinuz-$1; }
";

const CASES: [Case; 3] = [
    Case {
        preset: "needs-restarting",
        // It goes by names of packages, and by when they were installed.
        before: "dnf -y -q install kernel-core",
        words: "Core libraries or services have been updated since boot-up:",
        after: "dnf -y -q remove kernel-core",
    },
    Case {
        preset: "zypper",
        before: "touch /run/reboot-needed",
        words: "Since the last system boot core libraries or services have been updated.",
        after: "rm /run/reboot-needed",
    },
    Case {
        preset: "needrestart",
        before: "image 99.0.0",
        words: "CRIT - Kernel: ",
        after: "rm /boot/vmlinuz-99.0.0; image $(uname -r)",
    },
];

#[test]
fn i8_presets_understand_the_real_tools() {
    let site = Site::new("presets", 1);
    site.pause("test");
    let check = |case: &Case| {
        let name = case.preset;
        format!(
            "[[triggers.check]]\nname = \"{name}\"\npreset = \"{name}\"\nperiod = \"1h\"\nsettle = \"0s\"\n"
        )
    };
    let checks: String = CASES.iter().map(check).collect();
    let config = site.config(&format!("[triggers]\nsentinels = []\n{checks}"));
    let machine = Machine::boot(Packager::Dnf, &site, |spec| spec.file(SITE, config));
    let host = &machine.host;
    machine.release("kernel-core 1", "echo");
    machine.sh(&format!(
        "{NEEDRESTART} chmod 755 /usr/bin/systemd-detect-virt"
    ));
    machine.install();
    // What came with the rest of the distribution came before the boot.
    host.reboot().unwrap();
    machine.enable();
    // No kernel image is there: it cannot tell.
    let mut said = vec![
        "check needs-restarting: no reboot needed".to_owned(),
        "check zypper: no reboot needed".to_owned(),
        "check needrestart says nothing: exit code 3 is in neither".to_owned(),
    ];
    site.wait_journal(host, &said);
    for case in &CASES {
        machine.sh(&format!("{NEEDRESTART} {}", case.before));
        reload(host);
        said = vec![format!(
            "check {} wants a reboot: {}",
            case.preset, case.words
        )];
        site.wait_journal(host, &said);
        site.wait_status(host, "group paused: test");
        machine.sh(&format!("{NEEDRESTART} {}", case.after));
        reload(host);
        site.wait_status(host, "idle: no reboot needed");
    }
    // A host that never had dnf's plugin, or lost it.
    machine.sh("rm /usr/lib/python3/dist-packages/dnf-plugins/needs_restarting.py");
    reload(host);
    let unsaid = "check needs-restarting says nothing: it ended as for a reboot and did not say";
    site.wait_journal(host, &[unsaid]);
    site.wait_status(host, "idle: no reboot needed");
}

/// All checks begin anew at once.
fn reload(host: &Host) {
    host.systemctl(&["reload", "kube-rebootd"]).unwrap();
}
