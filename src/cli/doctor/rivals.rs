//! Others on the host that reboot it by themselves: updaters' own settings, and daemons (I2).

use std::fs;
use std::path::Path;

use super::{Check, aside, slow};
use crate::bounded::{self, ReadError};
use crate::host::systemd::manager;
use crate::host::{Bus, BusError};
use crate::root::Root;

/// Bytes of a configuration file of apt or dnf: they are a few KiB.
const CONFIG_MAX: u64 = 1024 * 1024;
const UNATTENDED: &str = "unattended-upgrades";
const DNF: &str = "dnf-automatic";
const DAEMONS: &str = "other daemons";
/// Units that reboot hosts. kured is a pod: see `rights`.
const UNITS: [&str; 4] = [
    "locksmithd.service",
    "rebootmgr.service",
    "rebootmgrd.service",
    "zincati.service",
];

pub(super) async fn checks(root: &Root, bus: &Bus) -> Vec<Check> {
    let root = root.clone();
    let files = aside(move || [unattended(&root), dnf(&root)]).await;
    let [unattended, dnf] = files.unwrap_or_else(|| [slow(UNATTENDED), slow(DNF)]);
    vec![unattended, dnf, daemons(bus).await]
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
        return Check::warn(
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
    let mut value = "never";
    for line in text.lines() {
        if let Some((key, said)) = line.split_once('=')
            && key.trim() == "reboot"
        {
            value = said.trim();
        }
    }
    if value == "never" {
        return Check::ok(DNF, "does not reboot by itself");
    }
    Check::warn(
        DNF,
        format!("it reboots by itself (reboot = {value}), without a slot or a drain"),
        "set reboot = never in /etc/dnf/automatic.conf",
    )
}

/// A comment may be in any encoding.
fn text(file: &Path) -> Result<String, ReadError> {
    let bytes = bounded::bytes(file, CONFIG_MAX)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// What could not be read is not known to be harmless (I8).
fn unread(name: &'static str, file: &Path, error: &ReadError) -> Check {
    Check::warn(
        name,
        format!(
            "whether it reboots by itself is not known: {}: {error}",
            file.display()
        ),
        "run doctor as root; else make it a file that can be read",
    )
}

async fn daemons(bus: &Bus) -> Check {
    let listed: Result<Vec<String>, BusError> = bus
        .call("listing units", |connection| async move {
            let rows = manager(&connection)
                .await?
                .list_units_by_patterns(&["active"], &UNITS)
                .await?;
            Ok(rows.into_iter().map(|row| row.0).collect())
        })
        .await;
    match listed {
        Err(_) => Check::skipped(DAEMONS, "systemd"),
        Ok(units) if units.is_empty() => Check::ok(DAEMONS, "none that reboot this host"),
        Ok(units) => Check::warn(
            DAEMONS,
            format!("{} may reboot this host, too", units.join(", ")),
            format!(
                "one of both: systemctl disable --now {}, or its strategy off",
                units.join(" ")
            ),
        ),
    }
}

#[cfg(test)]
mod tests {
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
}
