//! Updaters that reboot the host by themselves, by their own settings and timers (I2): bootc,
//! transactional-update, rpm-ostree and locksmithd.
//!
//! Each counts only while its unit is active: a setting that nobody acts upon reboots nothing.

use std::fs;

use super::settings::{text, unread, value};
use super::{Check, Diagnosis};
use crate::bounded::ReadError;
use crate::root::Root;

const BOOTC: &str = "bootc";
const TRANSACTIONAL: &str = "transactional-update";
const OSTREE: &str = "rpm-ostree";
const LOCKSMITH: &str = "locksmithd";
const BOOTC_TIMER: &str = "bootc-fetch-apply-updates.timer";
const TRANSACTIONAL_TIMER: &str = "transactional-update.timer";
const OSTREE_TIMER: &str = "rpm-ostreed-automatic.timer";
const LOCKSMITHD: &str = "locksmithd.service";
const REBOOTMGRCTL: &str = "/usr/bin/rebootmgrctl";
/// What has to be active for any of them to reboot the host.
pub(super) const UNITS: [&str; 4] = [BOOTC_TIMER, TRANSACTIONAL_TIMER, OSTREE_TIMER, LOCKSMITHD];
/// Names of the checks.
pub(super) const NAMES: [&str; 4] = [BOOTC, TRANSACTIONAL, OSTREE, LOCKSMITH];

/// All four, by the units that are active. `rebootmgr`: its clients ask this daemon.
pub(super) fn checks(root: &Root, active: &[String], rebootmgr: bool) -> Vec<Check> {
    let is = |unit: &str| active.iter().any(|one| one == unit);
    vec![
        judged(BOOTC, is(BOOTC_TIMER), bootc(root)),
        judged(
            TRANSACTIONAL,
            is(TRANSACTIONAL_TIMER),
            transactional(root, rebootmgr),
        ),
        judged(OSTREE, is(OSTREE_TIMER), ostree(root)),
        judged(LOCKSMITH, is(LOCKSMITHD), locksmith(root)),
    ]
}

/// What it does once its unit runs: none: it leaves the reboot to others; else how it reboots, and the cure.
type Reboots = Result<Option<(String, &'static str)>, Check>;

fn judged(name: &'static str, active: bool, reboots: Reboots) -> Check {
    if !active {
        return Check::ok(name, "does not run by itself");
    }
    match reboots {
        Err(unread) => unread,
        Ok(None) => Check::ok(name, "leaves the reboot to others"),
        Ok(Some((how, cure))) => Check {
            name,
            verdict: Diagnosis::Fail {
                what: format!("it reboots this host by itself ({how}), without a slot or a drain"),
                cure: cure.to_owned(),
            },
        },
    }
}

/// Its unit runs `bootc upgrade --apply`, which reboots; a drop-in may take that away.
fn bootc(root: &Root) -> Reboots {
    let mut command = None;
    for directory in [
        "/usr/lib/systemd/system",
        "/run/systemd/system",
        "/etc/systemd/system",
    ] {
        let directory = format!("{directory}/bootc-fetch-apply-updates.service.d");
        let entries = fs::read_dir(root.path(&directory))
            .into_iter()
            .flatten()
            .flatten();
        let mut files: Vec<_> = entries.map(|entry| entry.path()).collect();
        files.sort();
        for file in files {
            let text = read(BOOTC, &file)?.unwrap_or_default();
            if let Some(said) = value(&text, "ExecStart").filter(|said| !said.is_empty()) {
                command = Some(said.to_owned());
            }
        }
    }
    let applies = command.is_none_or(|command| command.contains("--apply"));
    Ok(applies.then_some((
        format!("{BOOTC_TIMER} runs `bootc upgrade --apply`"),
        "stage updates only, with the drop-in examples/bootc-fetch-apply-updates.conf of this package, or: systemctl mask --now bootc-fetch-apply-updates.timer",
    )))
}

/// The method `auto`, its default, is rebootmgr where `rebootmgrctl is-active` says so, and else systemd (`lib/Reboot.cpp`).
fn transactional(root: &Root, rebootmgr: bool) -> Reboots {
    let mut method = "auto".to_owned();
    for file in [
        "/usr/etc/transactional-update.conf",
        "/etc/transactional-update.conf",
    ] {
        let text = read(TRANSACTIONAL, &root.path(file))?.unwrap_or_default();
        if let Some(said) = value(&text, "REBOOT_METHOD") {
            said.clone_into(&mut method);
        }
    }
    let waits = match method.as_str() {
        "kured" | "notify" | "none" => true,
        "rebootmgr" => rebootmgr,
        "auto" if rebootmgr && root.path(REBOOTMGRCTL).exists() => {
            return Err(Check::warn(
                TRANSACTIONAL,
                "it reboots this host by itself whenever kube-rebootd does not run, and at any time where rebootmgr is older than 3.0 \
                 (REBOOT_METHOD=auto)",
                "set REBOOT_METHOD=rebootmgr in /etc/transactional-update.conf, or kured where `rebootmgrctl --version` is older \
                 than 3.0",
            ));
        }
        _ => false,
    };
    Ok((!waits).then_some((
        format!("REBOOT_METHOD={method}"),
        "set REBOOT_METHOD=kured in /etc/transactional-update.conf: it only writes /run/reboot-required",
    )))
}

fn ostree(root: &Root) -> Reboots {
    let text = read(OSTREE, &root.path("/etc/rpm-ostreed.conf"))?.unwrap_or_default();
    let policy = value(&text, "AutomaticUpdatePolicy").unwrap_or("none");
    Ok((policy == "apply").then_some((
        "AutomaticUpdatePolicy=apply".to_owned(),
        "set AutomaticUpdatePolicy=stage in /etc/rpm-ostreed.conf, then: rpm-ostree reload",
    )))
}

fn locksmith(root: &Root) -> Reboots {
    let mut strategy = "reboot".to_owned();
    for file in [
        "/usr/share/flatcar/update.conf",
        "/etc/coreos/update.conf",
        "/etc/flatcar/update.conf",
    ] {
        let text = read(LOCKSMITH, &root.path(file))?.unwrap_or_default();
        if let Some(said) = value(&text, "REBOOT_STRATEGY") {
            said.clone_into(&mut strategy);
        }
    }
    Ok((strategy != "off").then_some((
        format!("REBOOT_STRATEGY={strategy}"),
        "set REBOOT_STRATEGY=off in /etc/flatcar/update.conf, or: systemctl mask --now locksmithd.service",
    )))
}

fn read(name: &'static str, file: &std::path::Path) -> Result<Option<String>, Check> {
    match text(file) {
        Ok(text) => Ok(Some(text)),
        Err(ReadError::NotRegular) => Ok(None),
        Err(error) if error.absent() => Ok(None),
        Err(error) => Err(unread(name, file, &error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(files: &[(&str, &str)], active: &[&str]) -> Vec<&'static str> {
        let checks = judged_all(files, active, false);
        let failed = checks.into_iter().filter(Check::failed);
        failed.map(|check| check.name).collect()
    }

    fn judged_all(files: &[(&str, &str)], active: &[&str], rebootmgr: bool) -> Vec<Check> {
        let place = tempfile::tempdir().expect("a directory");
        let root = Root::at(place.path());
        for (path, text) in files {
            let path = root.path(path);
            fs::create_dir_all(path.parent().expect("a parent")).expect("made");
            fs::write(path, text).expect("written");
        }
        let active: Vec<String> = active.iter().map(|unit| (*unit).to_owned()).collect();
        checks(&root, &active, rebootmgr)
    }

    /// Where rebootmgr's clients ask this daemon.
    #[test]
    fn i2_transactional_update_may_ask_by_rebootmgrctl() {
        let method = |word: &str| format!("REBOOT_METHOD={word}\n");
        let conf = "/etc/transactional-update.conf";
        let judged = |text: &str, ctl: bool, rebootmgr: bool| {
            let mut files = vec![(conf, text)];
            if ctl {
                files.push((REBOOTMGRCTL, ""));
            }
            let all = judged_all(&files, &[TRANSACTIONAL_TIMER], rebootmgr);
            let own = all.into_iter().find(|check| check.name == TRANSACTIONAL);
            match own.expect("a check").verdict {
                Diagnosis::Ok { .. } => "ok",
                Diagnosis::Warn { .. } => "warn",
                Diagnosis::Fail { .. } => "fail",
                Diagnosis::Skipped { .. } => "skipped",
            }
        };
        for (word, ctl, rebootmgr, verdict) in [
            ("rebootmgr", true, true, "ok"),
            ("rebootmgr", true, false, "fail"),
            ("auto", true, true, "warn"),
            // Then it is systemd.
            ("auto", false, true, "fail"),
            ("auto", true, false, "fail"),
            ("systemd", true, true, "fail"),
            ("kured", true, true, "ok"),
        ] {
            assert_eq!(judged(&method(word), ctl, rebootmgr), verdict, "{word}");
        }
    }

    #[test]
    fn i2_an_updater_that_reboots_by_itself_fails() {
        // As they come: the timer is all there is.
        assert_eq!(judge(&[], &UNITS), [BOOTC, TRANSACTIONAL, LOCKSMITH]);
        assert_eq!(judge(&[], &[]), [""; 0]);
        let apply = [(
            "/etc/rpm-ostreed.conf",
            "[Daemon]\nAutomaticUpdatePolicy=apply\n",
        )];
        assert_eq!(judge(&apply, &[OSTREE_TIMER]), [OSTREE]);
        assert_eq!(judge(&apply, &[]), [""; 0], "nobody acts upon it");
        let systemd = [("/etc/transactional-update.conf", "REBOOT_METHOD=systemd\n")];
        assert_eq!(judge(&systemd, &[TRANSACTIONAL_TIMER]), [TRANSACTIONAL]);
    }

    #[test]
    fn what_leaves_the_reboot_to_others_passes() {
        let bootc = include_str!("../../../packaging/examples/bootc-fetch-apply-updates.conf");
        let transactional = include_str!("../../../packaging/examples/transactional-update.conf");
        let files = [
            (
                "/etc/systemd/system/bootc-fetch-apply-updates.service.d/50-kube-rebootd.conf",
                bootc,
            ),
            (
                "/usr/etc/transactional-update.conf",
                "REBOOT_METHOD=systemd\n",
            ),
            ("/etc/transactional-update.conf", transactional),
            (
                "/etc/rpm-ostreed.conf",
                "[Daemon]\nAutomaticUpdatePolicy=stage\n",
            ),
            ("/etc/flatcar/update.conf", "REBOOT_STRATEGY=\"off\"\n"),
        ];
        assert_eq!(judge(&files, &UNITS), [""; 0]);
    }
}
