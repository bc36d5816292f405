//! Others on the host that reboot it by themselves: updaters' own settings, and daemons (I2).

use std::fs;

use kube_rebootd_core::config::{Config, Listen};
use kube_rebootd_core::rivals::{UNITS, ZINCATI};

use super::settings::{text, unread, value};
use super::{Check, aside, slow, updaters};
use crate::bounded::ReadError;
use crate::host::fleet_lock::zincati;
use crate::host::{Bus, BusError, systemd};
use crate::root::Root;

const UNATTENDED: &str = "unattended-upgrades";
const DNF: &str = "dnf-automatic";
const DAEMONS: &str = "other daemons";

pub(super) async fn checks(root: &Root, bus: &Bus, config: Option<&Config>) -> Vec<Check> {
    let units = [UNITS.as_slice(), updaters::UNITS.as_slice()].concat();
    let active = systemd::active_of(bus, &units).await;
    let (root, there, units) = (root.clone(), root.clone(), active.clone());
    let rebootmgr = config.is_some_and(|config| config.triggers.rebootmgr);
    let files = aside(move || {
        let mut checks = vec![unattended(&root), dnf(&root)];
        checks.extend(match &units {
            Ok(units) => updaters::checks(&root, units, rebootmgr),
            Err(_) => updaters::NAMES
                .map(|name| Check::skipped(name, "systemd"))
                .to_vec(),
        });
        checks
    });
    let mut checks = files
        .await
        .unwrap_or_else(|| vec![slow(UNATTENDED), slow(DNF)]);
    let waits = config.is_none_or(|config| config.gates.rivals);
    let served = config.and_then(|config| config.fleet_lock.as_ref());
    let asks = served.is_some_and(|it| zincati::asks(&there, &it.listen));
    // It asks this daemon before it reboots.
    let rival = |unit: &String| !(asks && unit == ZINCATI);
    let active = active.map(|units| units.into_iter().filter(rival).collect());
    checks.push(daemons(active, waits, served.map(|it| &it.listen)));
    checks
}

fn unattended(root: &Root) -> Check {
    let mut files: Vec<_> = fs::read_dir(root.path("/etc/apt/apt.conf.d"))
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .collect();
    files.sort();
    let mut texts = Vec::new();
    for file in &files {
        match text(file) {
            Ok(text) => texts.push(text),
            // apt passes over what is no file, too (GetListOfFilesInDir).
            Err(ReadError::NotRegular) => {}
            Err(error) if error.absent() => {}
            Err(error) => return unread(UNATTENDED, file, &error),
        }
    }
    if reboots(&texts.join("\n")) {
        return Check::fail(
            UNATTENDED,
            "it reboots by itself, without a slot or a drain",
            "set Unattended-Upgrade::Automatic-Reboot \"false\"; in /etc/apt/apt.conf.d",
        );
    }
    Check::ok(UNATTENDED, "does not reboot by itself")
}

/// apt reads its files in order: the last word on the key counts, in either notation.
fn reboots(text: &str) -> bool {
    let mut on = false;
    for line in text.lines() {
        let line = line.trim();
        if line.starts_with("//") || line.starts_with('#') {
            continue;
        }
        let Some((_, rest)) = line.split_once("Automatic-Reboot") else {
            continue;
        };
        // Not -WithUsers, not -Time.
        if rest.starts_with([' ', '\t', '"']) {
            let value = rest.trim_matches([' ', '\t', '"', ';']);
            on = matches!(value, "true" | "yes" | "1" | "on" | "with" | "enable");
        }
    }
    on
}

fn dnf(root: &Root) -> Check {
    let file = root.path("/etc/dnf/automatic.conf");
    let text = match text(&file) {
        Ok(text) => text,
        Err(error) if error.absent() => return Check::ok(DNF, "does not reboot by itself"),
        Err(error) => return unread(DNF, &file, &error),
    };
    let (reboot, command) = (value(&text, "reboot"), value(&text, "reboot_command"));
    let reboot = reboot.unwrap_or("never");
    if reboot == "never" {
        return Check::ok(DNF, "does not reboot by itself");
    }
    if command.is_some_and(tells) {
        return Check::ok(
            DNF,
            "says when a reboot is required, and leaves it to others",
        );
    }
    Check::fail(
        DNF,
        format!("it reboots by itself (reboot = {reboot}), without a slot or a drain"),
        "set reboot = never in /etc/dnf/automatic.conf, or reboot_command = \"touch /run/reboot-required\"",
    )
}

/// A `reboot_command` that only writes a sentinel, as our example for dnf-automatic does.
fn tells(command: &str) -> bool {
    command.starts_with("touch ") && !command.contains([';', '&', '|', '`', '$'])
}

/// Those that close the gate; kured and its like are pods: see `pods`. `waits`: no reboot begins beside one of them. `served`: where
/// Zincati could ask.
fn daemons(listed: Result<Vec<String>, BusError>, waits: bool, served: Option<&Listen>) -> Check {
    let Ok(mut units) = listed else {
        return Check::skipped(DAEMONS, "systemd");
    };
    units.retain(|unit| UNITS.contains(&unit.as_str()));
    if units.is_empty() {
        return Check::ok(DAEMONS, "none that reboot this host");
    }
    let names = units.join(" ");
    let cure = format!(
        "systemctl mask --now {names}; with gates.other_reboot_daemons = \"ignore\" both work"
    );
    let what = units.join(", ");
    if units.iter().any(|unit| unit == ZINCATI) {
        let what = format!("{what}: it reboots this host by itself");
        return match served {
            None => Check::fail(DAEMONS, what, cure),
            Some(place) => Check::fail(
                DAEMONS,
                format!("{what}, as its files together do not say that it asks at {place}"),
                format!("write them as docs/updaters.md shows, and restart it; or {cure}"),
            ),
        };
    }
    let check = Check::warn(DAEMONS, format!("{what} may reboot this host, too"), cure);
    if waits {
        check.until(format!("{what} does not run"))
    } else {
        check
    }
}

#[cfg(test)]
mod tests {
    use super::super::Diagnosis;
    use super::super::settings::CONFIG_MAX;
    use super::*;
    use crate::bounded::odd::{self, Odd};

    #[test]
    fn i8_a_setting_that_cannot_be_read_is_not_called_harmless() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::at(dir.path());
        let (apt, conf) = ("/etc/apt/apt.conf.d/50x", "/etc/dnf/automatic.conf");
        for path in [apt, conf] {
            fs::create_dir_all(root.path(path).parent().unwrap()).unwrap();
        }
        assert_eq!(dnf(&root), Check::ok(DNF, "does not reboot by itself"));
        let there = root.clone();
        odd::each(&root.path(conf), CONFIG_MAX, move || {
            format!("{:?}", dnf(&there))
        });
        for odd in Odd::ALL {
            odd.put(&root.path(apt), CONFIG_MAX);
            let there = root.clone();
            let check = odd::soon(odd, move || unattended(&there));
            let passed = check == Check::ok(UNATTENDED, "does not reboot by itself");
            let no_file = !matches!(odd, Odd::Sparse | Odd::OneOver);
            assert_eq!(passed, no_file, "{odd:?}: {check:?}");
        }
        fs::write(
            root.path(apt),
            b"# caf\xe9\nUnattended-Upgrade::Automatic-Reboot \"true\";",
        )
        .unwrap();
        assert_ne!(
            unattended(&root),
            Check::ok(UNATTENDED, "does not reboot by itself")
        );
    }

    #[test]
    fn zincati_that_does_not_ask_here_is_told_where_it_could() {
        let units = || Ok(vec![ZINCATI.to_owned()]);
        let alone = daemons(units(), true, None);
        assert!(matches!(alone.verdict, Diagnosis::Fail { .. }));
        let place = Listen::new("127.0.0.1:3333").expect("an address");
        let served = daemons(units(), true, Some(&place));
        assert!(matches!(served.verdict, Diagnosis::Fail { .. }));
        let said = format!("{served:?}");
        assert!(said.contains("that it asks at 127.0.0.1:3333"), "{said}");
        assert!(said.contains("docs/updaters.md"), "{said}");
    }

    #[test]
    fn unattended_upgrades_last_word_counts() {
        assert!(reboots("Unattended-Upgrade::Automatic-Reboot \"true\";"));
        assert!(reboots(
            "Unattended-Upgrade {\n  Automatic-Reboot \"true\";\n};"
        ));
        assert!(!reboots("//Unattended-Upgrade::Automatic-Reboot \"true\";"));
        assert!(!reboots(
            "Unattended-Upgrade::Automatic-Reboot-WithUsers \"true\";\n\
             Unattended-Upgrade::Automatic-Reboot-Time \"02:00\";"
        ));
        assert!(!reboots(
            "Unattended-Upgrade::Automatic-Reboot \"true\";\n\
             Unattended-Upgrade::Automatic-Reboot \"false\";"
        ));
    }

    fn judged(automatic: &str) -> Check {
        let place = tempfile::tempdir().expect("a directory");
        let etc = place.path().join("etc/dnf");
        fs::create_dir_all(&etc).expect("a directory");
        fs::write(etc.join("automatic.conf"), automatic).expect("a file");
        dnf(&Root::at(place.path()))
    }

    #[test]
    fn dnf_automatic_may_say_that_a_reboot_is_required() {
        for command in [
            "",
            "reboot_command = \"shutdown -r +5\"",
            "reboot_command = \"touch /run/reboot-required; reboot\"",
        ] {
            let check = judged(&format!("[commands]\nreboot = when-needed\n{command}\n"));
            assert!(matches!(check.verdict, Diagnosis::Fail { .. }), "{command}");
        }
        for example in [
            include_str!("../../../packaging/examples/dnf4-automatic.conf"),
            include_str!("../../../packaging/examples/dnf5-automatic.conf"),
        ] {
            let check = judged(example);
            assert!(matches!(check.verdict, Diagnosis::Ok { .. }), "{example}");
        }
    }
}
