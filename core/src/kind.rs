//! How a host goes down: a full reboot, or one of its userspace alone (docs/design.md 8).
//!
//! A full reboot does all that a soft one does, so the strongest kind among those who ask is done. A soft one brings no
//! kernel, firmware or boot loader: whoever may want one of them is never served by it (I8).

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::boot::Boot;
use crate::trigger::{Builtin, of_kernel, update_engine};

/// The stronger is the greater one. What says nothing of its kind, as a record of an older daemon, means a full one.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// systemd ends every service, runs itself anew and starts all again (systemd-soft-reboot.service(8)); the kernel goes on.
    SoftReboot,
    #[default]
    Reboot,
}

impl Kind {
    pub const WORDS: &[(&str, Self)] =
        &[("reboot", Self::Reboot), ("soft-reboot", Self::SoftReboot)];

    /// In the configuration, on the command line and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Reboot => "reboot",
            Self::SoftReboot => "soft-reboot",
        }
    }

    pub fn of(name: &str) -> Option<Self> {
        let mut words = Self::WORDS.iter();
        words.find(|(word, _)| *word == name).map(|(_, kind)| *kind)
    }

    pub fn soft(self) -> bool {
        self == Self::SoftReboot
    }

    /// A record keeps only the other one.
    #[allow(clippy::trivially_copy_pass_by_ref)] // as serde calls it
    pub(crate) fn full(&self) -> bool {
        *self == Self::Reboot
    }

    /// What came between two boots that differ. Of one that is not known it is a full one: of what was asked for then
    /// nothing is known either.
    pub(crate) fn between(before: &Boot, now: &Boot) -> Self {
        if before.id == now.id {
            Self::SoftReboot
        } else {
            Self::Reboot
        }
    }
}

/// What the configuration makes of those who ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Kinds {
    /// `reboot.kind`: of who names none.
    pub unnamed: Kind,
    /// `reboot.command` does it, of which nobody knows what it is.
    pub by_command: bool,
    /// A deployment is to come with the next boot: who names no kind may wait for it.
    pub staged: bool,
}

impl Kinds {
    /// Of a wish.
    pub(crate) fn of_wish(self, named: Option<Kind>) -> Kind {
        if self.by_command {
            return Kind::Reboot;
        }
        let unnamed = if self.staged {
            Kind::Reboot
        } else {
            self.unnamed
        };
        named.unwrap_or(unnamed)
    }

    /// Of what a trigger found, whatever it names. A sentinel that names a soft-reboot gets one only where `reboot.kind` says
    /// so as well: it lies in /run, which a soft-reboot leaves as it is, and not every writer touches a file that says it already.
    pub(crate) fn of_reason(
        self,
        named: Option<Kind>,
        trigger: &str,
        pkgs: &BTreeSet<String>,
    ) -> Kind {
        let full = trigger == Builtin::Kernel.trigger()
            || trigger == update_engine::TRIGGER
            || pkgs.iter().any(|one| of_the_boot(one));
        if full || !self.unnamed.soft() {
            Kind::Reboot
        } else {
            self.of_wish(named)
        }
    }
}

/// Its new version runs only after firmware and boot loader. A list that is known by its hash may have one (I8).
fn of_the_boot(package: &str) -> bool {
    let parts = [
        "kernel",
        "firmware",
        "microcode",
        "ucode",
        "-kmp-",
        "-dkms",
        "selinux-policy",
    ];
    let starts = [
        "#",
        "linux-",
        "grub",
        "shim",
        "systemd-boot",
        "sdbootutil",
        "u-boot",
        "kmod-",
        "dracut",
        "initramfs",
        "mkinitcpio",
        "nvidia",
        "zfs",
    ];
    package == "linux"
        || of_kernel(package)
        || parts.iter().any(|part| package.contains(part))
        || starts.iter().any(|start| package.starts_with(start))
}

/// systemd has soft-reboots from this version on.
pub const SINCE: u32 = 254;

/// The number in systemd's `Version`: `257.13-1~deb13u1` and `v258-rc2` begin with it. None: it is not known.
pub fn systemd_number(version: &str) -> Option<u32> {
    let version = version.trim_start_matches('v');
    let end = version.find(|c: char| !c.is_ascii_digit());
    version[..end.unwrap_or(version.len())].parse().ok()
}

/// Why a host with this systemd does no soft-reboot; none: it does.
pub fn lacking(version: &str) -> Option<String> {
    match systemd_number(version) {
        Some(number) if number >= SINCE => None,
        Some(number) => Some(format!(
            "systemd {number} of this host has none, which came with {SINCE}"
        )),
        None => Some(format!(
            "it is not known whether systemd {version:?} of this host has them"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn boot(id: &str, userspace: u64) -> Boot {
        Boot {
            id: id.to_owned(),
            userspace,
        }
    }

    #[test]
    fn a_full_one_is_the_stronger_and_what_nothing_says() {
        assert_eq!(Kind::Reboot.max(Kind::SoftReboot), Kind::Reboot);
        assert_eq!(Kind::default(), Kind::Reboot);
        for (name, kind) in Kind::WORDS {
            assert_eq!((kind.name(), Kind::of(name)), (*name, Some(*kind)));
            let json = serde_json::to_string(kind).expect("a word");
            assert_eq!(json, format!("{name:?}"));
        }
        assert_eq!(Kind::of("kexec"), None);
    }

    #[test]
    fn boots_are_told_apart() {
        let before = boot("a", 7);
        assert_eq!(Kind::between(&before, &boot("a", 9)), Kind::SoftReboot);
        assert_eq!(Kind::between(&before, &boot("b", 7)), Kind::Reboot);
        assert_eq!(Kind::between(&Boot::unknown(), &before), Kind::Reboot);
    }

    /// I8: whoever may want a kernel, firmware or a boot loader gets a full one, whatever the configuration and the
    /// trigger name.
    #[test]
    fn i8_what_comes_with_the_boot_takes_a_full_one() {
        use Kind::{Reboot, SoftReboot};
        let sentinel = "sentinel /run/reboot-needed";
        for (trigger, pkgs, named, unnamed, kind) in [
            (sentinel, "", None, Reboot, Reboot),
            (sentinel, "", None, SoftReboot, SoftReboot),
            (sentinel, "", Some(SoftReboot), Reboot, Reboot),
            (sentinel, "", Some(SoftReboot), SoftReboot, SoftReboot),
            (sentinel, "", Some(Reboot), SoftReboot, Reboot),
            (sentinel, "libc6 dbus", None, SoftReboot, SoftReboot),
            (sentinel, "libc6 dbus", None, Reboot, Reboot),
            (
                sentinel,
                "libc6 linux-image-6.12-amd64",
                None,
                SoftReboot,
                Reboot,
            ),
            (
                sentinel,
                "intel-microcode",
                Some(SoftReboot),
                SoftReboot,
                Reboot,
            ),
            (sentinel, "kernel-default", Some(SoftReboot), Reboot, Reboot),
            (sentinel, "linux", None, SoftReboot, Reboot),
            (sentinel, "amd-ucode", None, SoftReboot, Reboot),
            (sentinel, "zfs-dkms", None, SoftReboot, Reboot),
            (
                sentinel,
                "nvidia-open-driver-G06-signed-kmp-default",
                None,
                SoftReboot,
                Reboot,
            ),
            (sentinel, "dracut", Some(SoftReboot), SoftReboot, Reboot),
            (
                sentinel,
                "selinux-policy-targeted",
                None,
                SoftReboot,
                Reboot,
            ),
            (sentinel, "grub-efi-amd64", None, SoftReboot, Reboot),
            (sentinel, "#300:00f1", None, SoftReboot, Reboot),
            ("builtin kernel", "6.9", None, SoftReboot, Reboot),
            ("builtin libraries", "sshd", None, SoftReboot, SoftReboot),
            ("builtin libraries", "sshd", None, Reboot, Reboot),
            ("update_engine", "4459.2.0", None, SoftReboot, Reboot),
            ("check dnf", "", None, SoftReboot, SoftReboot),
        ] {
            let kinds = Kinds {
                unnamed,
                ..Kinds::default()
            };
            let pkgs: BTreeSet<String> = pkgs.split_whitespace().map(str::to_owned).collect();
            let of = |kinds: Kinds| kinds.of_reason(named, trigger, &pkgs);
            assert_eq!(of(kinds), kind, "{trigger} {pkgs:?} {named:?}");
            // What a command does nobody knows.
            let by_command = true;
            let command = Kinds {
                by_command,
                ..kinds
            };
            assert_eq!(of(command), Reboot, "{trigger} {pkgs:?}");
            // A deployment comes up with a boot; who names a kind knows of it.
            let comes = if named.is_none() { Reboot } else { kind };
            let staged = Kinds {
                staged: true,
                ..kinds
            };
            assert_eq!(of(staged), comes, "{trigger} {pkgs:?} {named:?}");
            assert_eq!(staged.of_wish(named), named.unwrap_or(Reboot));
        }
    }

    #[test]
    fn i8_a_version_that_is_not_known_has_none() {
        for (version, number, has) in [
            ("257.13-1~deb13u1", Some(257), true),
            ("254", Some(254), true),
            ("v258-rc2", Some(258), true),
            ("253.19-1", Some(253), false),
            ("252.39-1~deb12u1", Some(252), false),
            ("next", None, false),
            ("", None, false),
        ] {
            assert_eq!(systemd_number(version), number);
            assert_eq!(lacking(version).is_none(), has, "{version}");
        }
    }
}
