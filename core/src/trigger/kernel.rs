//! Which reasons want no more than a newer kernel.

use std::time::Duration;

use super::{Builtin, Reason, Request};

/// Packages that are kernels by their whole name: that of RPM distributions, those of Arch Linux, and linux-base, which the
/// kernels of Debian and Ubuntu name as well.
const KERNELS: [&str; 8] = [
    "kernel",
    "linux",
    "linux-base",
    "linux-hardened",
    "linux-lts",
    "linux-rt",
    "linux-rt-lts",
    "linux-zen",
];
/// How the names of the others begin: of Debian and Ubuntu, and of RPM distributions.
const BEGIN: [&str; 3] = ["linux-image-", "linux-modules-", "kernel-"];
/// These begin so and are none: what devices are given to run, and programs.
const OTHERS: [&str; 2] = ["kernel-firmware", "kernel-tools"];

/// A package of a kernel, as sentinels and checks list it.
pub(crate) fn of_kernel(package: &str) -> bool {
    let begins = |all: &[&str]| all.iter().any(|begin| package.starts_with(begin));
    KERNELS.contains(&package) || begins(&BEGIN) && !begins(&OTHERS)
}

impl Reason {
    /// `running`: the release of the running kernel. What has no list of packages may mean anything, and so it wants more: a check
    /// command never has one, and neither has a file that was made with `touch`.
    fn of_newer_kernel(&self, running: Option<&str>) -> bool {
        if self.pkgs.is_empty() || self.trigger == Builtin::Libraries.trigger() {
            return false;
        }
        if self.trigger == Builtin::Kernel.trigger() {
            // It names the running release itself where that was removed or has lost its modules: such a host cannot wait.
            return running.is_some_and(|running| !self.pkgs.contains(running));
        }
        self.pkgs.iter().all(|one| of_kernel(one))
    }
}

impl Request {
    /// Boot time since which it asks, where it asks for nothing but a newer kernel.
    pub(crate) fn newer_kernel_since(&self, running: Option<&str>) -> Option<Duration> {
        let only = self.latched.is_empty()
            && self
                .reasons
                .iter()
                .all(|reason| reason.of_newer_kernel(running));
        let since = self.reasons.iter().map(|reason| reason.since_boot).min();
        since.filter(|_| only)
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::trigger::{BY_PERSON, Latched};

    fn reason(trigger: &str, pkgs: &[&str], since: u64) -> Reason {
        Reason {
            trigger: trigger.to_owned(),
            pkgs: pkgs.iter().map(|one| (*one).to_owned()).collect(),
            words: String::new(),
            since: Timestamp::UNIX_EPOCH,
            since_boot: Duration::from_secs(since),
            later: std::collections::BTreeMap::new(),
            kind: crate::kind::Kind::Reboot,
            mark: None,
        }
    }

    /// Names of packages as they are: of Debian, Ubuntu, Fedora, openSUSE and Arch Linux. Found by reading: openSUSE's firmware
    /// passed for a kernel.
    #[test]
    fn kernels_are_told_from_what_is_called_like_them() {
        let kernels = [
            // Debian and Ubuntu.
            "linux-base",
            "linux-image-amd64",
            "linux-image-6.12.57+deb13-amd64",
            "linux-image-cloud-amd64",
            "linux-image-rt-amd64",
            "linux-image-6.8.0-47-generic",
            "linux-image-unsigned-6.8.0-47-lowlatency",
            "linux-modules-6.8.0-47-generic",
            "linux-modules-extra-6.8.0-47-generic",
            // Fedora.
            "kernel",
            "kernel-core",
            "kernel-modules",
            "kernel-modules-core",
            "kernel-modules-extra",
            "kernel-rt-core",
            "kernel-uki-virt",
            "kernel-devel",
            // openSUSE.
            "kernel-default",
            "kernel-default-base",
            "kernel-default-extra",
            "kernel-azure",
            "kernel-longterm",
            "kernel-64kb",
            // Arch Linux.
            "linux",
            "linux-lts",
            "linux-zen",
            "linux-hardened",
            "linux-rt",
            "linux-rt-lts",
        ];
        let others = [
            // Debian and Ubuntu.
            "firmware-linux",
            "firmware-linux-free",
            "firmware-amd-graphics",
            "intel-microcode",
            "amd64-microcode",
            "linux-firmware",
            "linux-libc-dev",
            "libc6",
            "dbus",
            "systemd",
            // Fedora.
            "linux-firmware-whence",
            "amd-gpu-firmware",
            "microcode_ctl",
            "kernel-tools",
            "kernel-tools-libs",
            "glibc",
            // openSUSE.
            "kernel-firmware",
            "kernel-firmware-all",
            "kernel-firmware-amdgpu",
            "kernel-firmware-bnx2",
            "kernel-firmware-nvidia",
            "ucode-intel",
            "ucode-amd",
            "kernelshark",
            // Arch Linux.
            "linux-firmware-amdgpu",
            "linux-api-headers",
            "linux-atm",
            "linux-tools-meta",
            "intel-ucode",
            "amd-ucode",
        ];
        for (packages, is) in [(&kernels[..], true), (&others, false)] {
            for package in packages {
                assert_eq!(of_kernel(package), is, "{package}");
            }
        }
    }

    #[test]
    fn only_a_newer_kernel_can_wait() {
        let sentinel = "sentinel /run/reboot-required";
        let running = "6.8.0-45-generic";
        for (trigger, pkgs, only) in [
            (
                sentinel,
                &["linux-image-6.8.0-47-generic", "linux-base"][..],
                true,
            ),
            (sentinel, &["kernel-core", "kernel"], true),
            ("builtin kernel", &["6.8.0-47-generic"], true),
            ("builtin kernel", &["6.8.0-45-generic #46"], true),
            // It was removed, or has lost its modules.
            ("builtin kernel", &["6.8.0-45-generic"], false),
            (sentinel, &["linux-image-6.8.0-47-generic", "libc6"], false),
            (sentinel, &["linux-firmware"], false),
            (sentinel, &["kernel-default", "kernel-firmware-all"], false),
            // A list that is known by its hash alone, or none.
            (sentinel, &["#300:00f1"], false),
            (sentinel, &[], false),
            ("check dnf", &[], false),
            ("builtin libraries", &["kernel-helper"], false),
        ] {
            let request = Request {
                since: Timestamp::UNIX_EPOCH,
                reasons: vec![reason(trigger, pkgs, 7)],
                latched: Vec::new(),
            };
            let since = request.newer_kernel_since(Some(running));
            assert_eq!(
                since,
                only.then_some(Duration::from_secs(7)),
                "{trigger} {pkgs:?}"
            );
        }
    }

    #[test]
    fn whatever_else_asks_cannot_wait() {
        let kernel = |since| reason("builtin kernel", &["6.9"], since);
        let mut request = Request {
            since: Timestamp::UNIX_EPOCH,
            reasons: vec![kernel(9), reason("sentinel /run/a", &["kernel"], 5)],
            latched: Vec::new(),
        };
        let since = |request: &Request, running| request.newer_kernel_since(running);
        assert_eq!(since(&request, Some("6.8")), Some(Duration::from_secs(5)));
        // Whether it is the running one that was removed is not known.
        assert_eq!(since(&request, None), None);
        let mut both = request.clone();
        both.reasons
            .push(reason("sentinel /run/b", &["systemd"], 6));
        assert_eq!(since(&both, Some("6.8")), None);
        both.reasons.pop();
        both.reasons.push(reason("check dnf", &[], 6));
        assert_eq!(since(&both, Some("6.8")), None);
        request.latched.push(Latched {
            by: BY_PERSON.to_owned(),
            reason: "now".to_owned(),
            at: Timestamp::UNIX_EPOCH,
            boot: None,
            ended: false,
            kind: crate::kind::Kind::Reboot,
        });
        assert_eq!(since(&request, Some("6.8")), None);
    }
}
