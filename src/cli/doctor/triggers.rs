//! Whether anything on this host will ever say that a reboot is required.

use std::path::Path;

use kube_rebootd_core::config::{Adoption, Builtin, Config, Mode};
use kube_rebootd_core::trigger::update_engine;

use super::{Check, settings};
use crate::root::Root;

const TRIGGERS: &str = "triggers";
const MODE: &str = "mode";
const PATCHES: &str = "live patches";
const CURE: &str = "set triggers.builtin = [\"kernel\", \"libraries\"], or see docs/updaters.md of this package, below /usr/share/doc, for what yours can do";
/// Who is known to write a sentinel: its program, the sentinel, and whether it lists packages beside it.
const WRITERS: [(&str, &str, bool); 6] = [
    (
        "/usr/share/update-notifier/notify-reboot-required",
        "/run/reboot-required",
        true,
    ),
    (
        "/etc/kernel/postinst.d/unattended-upgrades",
        "/run/reboot-required",
        true,
    ),
    (
        "/usr/share/libalpm/hooks/kube-rebootd.hook",
        "/run/reboot-required",
        true,
    ),
    ("/usr/bin/zypper", "/run/reboot-needed", false),
    (
        "/usr/sbin/transactional-update",
        "/run/reboot-required",
        false,
    ),
    ("/usr/bin/bootc", "/run/reboot-required", false),
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
    let all = [mode, triggers(root, config)].into_iter();
    all.chain(live_patches(root, config)).collect()
}

/// `gates.live_patch_wait` beside what has no list of packages, and so lets nothing wait.
fn live_patches(root: &Root, config: &Config) -> Option<Check> {
    if config.gates.live_patch_wait.is_zero() {
        return None;
    }
    let triggers = &config.triggers;
    let checks = triggers.checks.iter();
    let mut by: Vec<String> = checks
        .map(|check| format!("check {}", check.name))
        .collect();
    for sentinel in &triggers.sentinels {
        let path = sentinel.display().to_string();
        let bare = |(program, file, lists): &&(&str, &str, bool)| {
            !lists && *file == path && root.path(program).exists()
        };
        let list = root.path(format!("{path}.pkgs"));
        let unlisted = root.path(sentinel).exists() && !list.exists();
        if unlisted || WRITERS.iter().any(|one| bare(&one)) || touched(root, &path) {
            by.push(format!("sentinel {path}"));
        }
    }
    if by.is_empty() {
        return Some(Check::ok(
            PATCHES,
            "all that asks for a reboot can say that it wants a newer kernel alone",
        ));
    }
    Some(Check::warn(
        PATCHES,
        format!(
            "gates.live_patch_wait lets nothing wait beside {}: without a list of packages it may mean anything",
            by.join(", ")
        ),
        "leave only the built-in checks, triggers.sentinels = [] and triggers.builtin = [\"kernel\", \"libraries\"] without a \
         [[triggers.check]], or take gates.live_patch_wait away",
    ))
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
        let writes =
            |(program, file, _): &&(&str, &str, bool)| *file == path && root.path(program).exists();
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
        on(config, files, triggers).verdict
    }

    fn on<T>(config: &str, files: &[(&str, &str)], look: fn(&Root, &Config) -> T) -> T {
        let place = tempfile::tempdir().expect("a directory");
        let root = Root::at(place.path());
        for (path, text) in files {
            let path = root.path(path);
            std::fs::create_dir_all(path.parent().expect("a parent")).expect("made");
            std::fs::write(path, text).expect("written");
        }
        let config =
            kube_rebootd_core::config::parse(Path::new("config.toml"), config).expect("valid");
        look(&root, &config.config)
    }

    /// Found by review: on SUSE, and with a check of dnf, the key did nothing, and nobody said so.
    #[test]
    fn a_wait_for_live_patches_that_lets_nothing_wait_is_told() {
        let wait = "[gates]\nlive_patch_wait = \"14d\"\n";
        let check =
            format!("{wait}[[triggers.check]]\nname = \"dnf\"\npreset = \"needs-restarting\"\n");
        let only =
            format!("{wait}[triggers]\nsentinels = []\nbuiltin = [\"kernel\", \"libraries\"]\n");
        let dnf = include_str!("../../../packaging/examples/dnf5-automatic.conf");
        let (file, list) = ("/run/reboot-required", "/run/reboot-required.pkgs");
        for (config, files, beside) in [
            ("", &[("/usr/bin/zypper", "")][..], None),
            (wait, &[], Some("")),
            (wait, &[(file, ""), (list, "linux-base\n")], Some("")),
            (wait, &[(file, "")], Some("sentinel /run/reboot-required")),
            (
                wait,
                &[("/usr/bin/zypper", "")],
                Some("sentinel /run/reboot-needed"),
            ),
            (
                wait,
                &[("/etc/dnf/automatic.conf", dnf)],
                Some("sentinel /run/reboot-required"),
            ),
            (&check, &[], Some("check dnf")),
            (&only, &[("/usr/bin/zypper", ""), (file, "")], Some("")),
        ] {
            let told = match on(config, files, live_patches).map(|check| check.verdict) {
                None => None,
                Some(Diagnosis::Warn { what, .. }) => {
                    let (_, beside) = what.split_once(" beside ").expect("what is beside it");
                    beside.split_once(':').map(|(beside, _)| beside.to_owned())
                }
                Some(other) => matches!(other, Diagnosis::Ok { .. }).then(String::new),
            };
            assert_eq!(told.as_deref(), beside, "{config} {files:?}");
        }
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
