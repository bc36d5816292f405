//! Whether anything on this host will ever say that a reboot is required.

use std::path::Path;

use kube_rebootd_core::config::{Adoption, Builtin, Config, Mode};
use kube_rebootd_core::trigger::update_engine;

use super::{Check, settings};
use crate::root::Root;

const TRIGGERS: &str = "triggers";
const MODE: &str = "mode";
const CURE: &str = "set triggers.builtin = [\"kernel\", \"libraries\"], or see docs/updaters.md of this package, below /usr/share/doc, for what yours can do";
/// Who is known to write a sentinel: its program, and the sentinel.
const WRITERS: [(&str, &str); 6] = [
    (
        "/usr/share/update-notifier/notify-reboot-required",
        "/run/reboot-required",
    ),
    (
        "/etc/kernel/postinst.d/unattended-upgrades",
        "/run/reboot-required",
    ),
    (
        "/usr/share/libalpm/hooks/kube-rebootd.hook",
        "/run/reboot-required",
    ),
    ("/usr/bin/zypper", "/run/reboot-needed"),
    ("/usr/sbin/transactional-update", "/run/reboot-required"),
    ("/usr/bin/bootc", "/run/reboot-required"),
];
/// What takes a file with `touch` there, as our examples for dnf-automatic do.
const SETTINGS: [&str; 1] = ["/etc/dnf/automatic.conf"];

/// Reads local files.
pub(super) fn checks(root: &Root, config: &Config) -> Vec<Check> {
    let mode = match config.mode {
        Mode::Active => Check::ok(MODE, "active"),
        Mode::Observe => Check::warn(
            MODE,
            "observe: it takes no slot, and only says what it would do",
            "when it is to reboot this host: mode = \"active\" in the configuration",
        )
        .until("mode is \"active\""),
    };
    vec![mode, triggers(root, config)]
}

fn triggers(root: &Root, config: &Config) -> Check {
    let triggers = &config.triggers;
    let mut by = Vec::new();
    by.extend(triggers.builtin.iter().map(|builtin| builtin.trigger()));
    by.extend(
        triggers
            .update_engine
            .then(|| update_engine::TRIGGER.to_owned()),
    );
    let there = |program: &String| {
        let program = Path::new(program);
        // What has no path is looked for in systemd's own, which the shell's may differ from.
        program.is_relative() || root.path(program).exists()
    };
    let runs = triggers
        .checks
        .iter()
        .filter(|check| check.command.first().is_some_and(there));
    by.extend(runs.map(|check| format!("check {}", check.name)));
    for sentinel in &triggers.sentinels {
        let path = sentinel.display().to_string();
        let writes = |(program, file): &&(&str, &str)| *file == path && root.path(program).exists();
        let said = WRITERS.iter().find(writes);
        if root.path(sentinel).exists() || said.is_some() || touched(root, &path) {
            by.push(format!("sentinel {path}"));
        }
    }
    if triggers.scheduled_shutdown == Adoption::Adopt {
        by.push("scheduled shutdowns".to_owned());
    }
    let kernel = Builtin::Kernel.trigger();
    if by == [kernel.clone()] {
        return Check::warn(
            TRIGGERS,
            format!(
                "{kernel}: only a new kernel asks for a reboot, and in a container nothing does; no program that writes a sentinel \
                 was found"
            ),
            CURE,
        )
        .until("something else says as well that a reboot is required");
    }
    if !by.is_empty() {
        return Check::ok(TRIGGERS, by.join(", "));
    }
    let annotation = if triggers.node_annotation {
        ": only somebody who annotates the Node does"
    } else {
        ""
    };
    Check::warn(
        TRIGGERS,
        format!(
            "nothing on this host is known to say that a reboot is required{annotation}. No program that writes a sentinel \
             was found, and no check can run"
        ),
        CURE,
    )
    .until("something says that a reboot is required")
}

fn touched(root: &Root, sentinel: &str) -> bool {
    SETTINGS.iter().any(|file| {
        let text = settings::text(&root.path(file)).unwrap_or_default();
        settings::value(&text, "reboot_command").is_some_and(|command| command.contains(sentinel))
    })
}

#[cfg(test)]
mod tests {
    use super::super::Diagnosis;
    use super::*;

    fn said(config: &str, files: &[(&str, &str)]) -> Diagnosis {
        let place = tempfile::tempdir().expect("a directory");
        let root = Root::at(place.path());
        for (path, text) in files {
            let path = root.path(path);
            std::fs::create_dir_all(path.parent().expect("a parent")).expect("made");
            std::fs::write(path, text).expect("written");
        }
        let config =
            kube_rebootd_core::config::parse(Path::new("config.toml"), config).expect("valid");
        triggers(&root, &config.config).verdict
    }

    #[test]
    fn a_host_on_which_no_trigger_can_ever_fire_is_told() {
        let never = |config: &str, files: &[(&str, &str)]| {
            matches!(said(config, files), Diagnosis::Warn { .. })
        };
        let none = "[triggers]\nbuiltin = []\n";
        assert!(never(none, &[]));
        let gone = "[[triggers.check]]\nname = \"a\"\ncommand = [\"/usr/bin/gone\"]\nreboot_exit_codes = [1]\n";
        assert!(never(&format!("{none}{gone}"), &[]));
        // By default it is the kernel alone, and libraries are replaced more often.
        assert!(never("", &[]));
        assert!(!never("", &[("/usr/bin/zypper", "")]));
        assert!(!never(
            "[triggers]\nbuiltin = [\"kernel\", \"libraries\"]\n",
            &[]
        ));
        assert!(!never(none, &[("/run/reboot-required", "")]));
        assert!(!never(none, &[("/usr/bin/zypper", "")]));
        let dnf = include_str!("../../../packaging/examples/dnf5-automatic.conf");
        assert!(!never(none, &[("/etc/dnf/automatic.conf", dnf)]));
    }
}
