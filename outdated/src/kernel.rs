//! The built-in check `kernel`: whether the next boot brings another kernel than the one that runs.
//!
//! Keeps I8: a kernel that comes from outside (a container, network boot, a hypervisor) is no reason.
//! What distributions do is in the tests; each has its own way of keeping or removing a running kernel.

use std::collections::BTreeSet;

use kube_rebootd_core::release::{self, Release};

use super::{Answer, some};

/// As many other kernels are named.
const NAMED: usize = 3;

/// What the host tells about its kernels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kernels {
    /// The host is a container: no boot of it brings another kernel, and kernels that it sees are those of its host.
    pub container: bool,
    /// `uname -r`.
    pub running: String,
    /// `uname -v`, for example `#1 SMP PREEMPT_DYNAMIC Debian 6.1.119-1 (2024-11-22)`.
    pub build: String,
    /// When this kernel was started, in seconds since 1970 by the clock that files are stamped with.
    pub booted: i64,
    /// When a kernel's directory was last added or removed, in the same seconds.
    pub changed: i64,
    /// Every release that has modules or an image.
    pub installed: Vec<Kernel>,
    /// What the boot loader was told to boot, in its own words.
    pub entries: Vec<String>,
    /// Live patches of the running kernel that are applied as a whole. They keep no reason from being one: it is told beside
    /// them.
    pub patches: Vec<String>,
}

/// One installed release.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kernel {
    pub release: String,
    pub modules: Modules,
    /// `pkgbase` in its module directory: Arch's packages, by which mkinitcpio tells kernels from rests.
    pub package: bool,
    /// Its image, beside the modules or in /boot.
    pub image: Option<Image>,
    /// When its module directory last changed; 0 without one.
    pub changed: i64,
}

/// A release's directory below /usr/lib/modules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Modules {
    Absent,
    /// It is there, without modules or their lists.
    Empty,
    Whole,
}

/// A kernel image that carries its release in its name or place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// When it was written.
    pub changed: i64,
    /// Its `uname -v`, where the format tells (x86).
    pub build: Option<String>,
}

impl Kernels {
    fn find(&self, release: &str) -> Option<&Kernel> {
        (self.installed.iter()).find(|kernel| kernel.release == release)
    }

    /// Whether the host could boot it. Most distributions have an image with the release in its name,
    /// Arch a `pkgbase`; Arch Linux ARM may have neither, and then whole modules must do.
    fn bootable(&self, kernel: &Kernel) -> bool {
        let marked = |kernel: &Kernel| kernel.image.is_some() || kernel.package;
        if self.installed.iter().any(marked) {
            marked(kernel)
        } else {
            kernel.modules == Modules::Whole
        }
    }

    /// The release that the boot loader was told to boot.
    fn pinned(&self) -> Option<&str> {
        let releases = || (self.installed.iter()).map(|kernel| kernel.release.as_str());
        (self.entries.iter()).find_map(|entry| release::named(entry, releases()))
    }

    /// Since this boot, by the clock of the host.
    fn since_boot(&self, changed: i64) -> bool {
        changed > self.booted
    }
}

/// What they come to.
pub fn judge(kernels: &Kernels) -> Answer {
    let answer = compared(kernels);
    match answer {
        Answer::Reboot { pkgs, words } if !kernels.patches.is_empty() => {
            let patches = kernels.patches.iter().map(String::as_str);
            let words = format!("{words}; live patches applied: {}", some(patches, NAMED));
            Answer::Reboot { pkgs, words }
        }
        answer => answer,
    }
}

fn compared(kernels: &Kernels) -> Answer {
    if kernels.container {
        let words = format!(
            "the running kernel {} is that of the host of this container",
            kernels.running
        );
        return Answer::No { words };
    }
    let running = kernels.find(&kernels.running);
    let others: Vec<&Kernel> = (kernels.installed.iter())
        .filter(|kernel| kernel.release != kernels.running && kernels.bootable(kernel))
        .collect();
    match running {
        Some(running) if kernels.bootable(running) && running.modules != Modules::Empty => {
            succeeded(kernels, running, &others)
        }
        running => gone(kernels, running, &others),
    }
}

/// The running kernel is not one that the host could boot again.
fn gone(kernels: &Kernels, running: Option<&Kernel>, others: &[&Kernel]) -> Answer {
    let release = &kernels.running;
    let state = match running.map(|kernel| kernel.modules) {
        None | Some(Modules::Absent) => "has no modules here",
        Some(Modules::Empty) => "has lost its modules",
        // kernel-modules-hook and the like.
        Some(Modules::Whole) => "was removed, its modules were kept",
    };
    let changed = running.map_or(0, |kernel| kernel.changed);
    let others_changed = others.iter().map(|kernel| newest(kernel));
    let changed = others_changed.fold(changed.max(kernels.changed), i64::max);
    if !kernels.since_boot(changed) {
        let words = format!(
            "the running kernel {release} {state}, and nothing changed since boot: it comes from elsewhere"
        );
        return Answer::No { words };
    }
    // A host without a kernel must not go down.
    if others.is_empty() {
        return Answer::unknown(format!(
            "the running kernel {release} {state}, and no other is installed to boot"
        ));
    }
    let names = others.iter().map(|kernel| kernel.release.as_str());
    Answer::Reboot {
        pkgs: BTreeSet::from([release.clone()]),
        words: format!(
            "the running kernel {release} {state}; installed: {}",
            some(names, NAMED)
        ),
    }
}

/// The running kernel is there; whether the next boot brings another.
fn succeeded(kernels: &Kernels, running: &Kernel, others: &[&Kernel]) -> Answer {
    let pinned = kernels.pinned();
    let chosen = |kernel: &Kernel| pinned.is_none_or(|pinned| pinned == kernel.release);
    let ours = Release::parse(&running.release);
    let newer = others.iter().copied().filter(|kernel| {
        let release = Release::parse(&kernel.release);
        release.same_flavour(&ours) && release.newer_than(&ours) && chosen(kernel)
    });
    let (since, before): (Vec<&Kernel>, Vec<&Kernel>) =
        newer.partition(|kernel| kernels.since_boot(installed(kernel)));
    if let Some(newest) = newest_of(&since) {
        return Answer::Reboot {
            pkgs: BTreeSet::from([newest.release.clone()]),
            words: format!(
                "kernel {} runs, {} was installed since boot",
                running.release, newest.release
            ),
        };
    }
    if let Some(build) = rebuilt(kernels, running)
        && chosen(running)
    {
        return Answer::Reboot {
            pkgs: BTreeSet::from([format!("{} {build}", running.release)]),
            words: format!(
                "kernel {} was replaced since boot by its build {build}",
                running.release
            ),
        };
    }
    let words = match (pinned, newest_of(&before)) {
        (Some(pinned), _) => format!(
            "kernel {} runs, the boot loader is told to boot {pinned}",
            running.release
        ),
        // A reboot was tried, or would end in the same kernel: it is a person's business.
        (None, Some(passed)) => format!(
            "kernel {} runs, although {} was installed before this boot: it failed to boot, or the boot loader prefers \
             another",
            running.release, passed.release
        ),
        (None, None) => format!(
            "kernel {} runs, no newer one of its flavour was installed since boot",
            running.release
        ),
    };
    Answer::No { words }
}

fn newest_of<'a>(kernels: &[&'a Kernel]) -> Option<&'a Kernel> {
    kernels.iter().copied().reduce(|one, other| {
        let newer = Release::parse(&other.release).newer_than(&Release::parse(&one.release));
        if newer { other } else { one }
    })
}

/// The build in the running release's image, when it is another: Debian and Ubuntu keep the release's
/// name as long as modules fit.
fn rebuilt<'a>(kernels: &Kernels, running: &'a Kernel) -> Option<&'a str> {
    let image = running.image.as_ref()?;
    let build = image.build.as_deref()?;
    let other = !kernels.build.is_empty() && build != kernels.build;
    (other && kernels.since_boot(image.changed)).then_some(build)
}

/// When a kernel was installed: its image is written once, while its module directory changes with every
/// module that DKMS adds.
fn installed(kernel: &Kernel) -> i64 {
    (kernel.image.as_ref()).map_or(kernel.changed, |image| image.changed)
}

fn newest(kernel: &Kernel) -> i64 {
    kernel.changed.max(installed(kernel))
}

/// The `uname -v` in the head of an x86 kernel image, which the boot protocol places (Linux,
/// Documentation/arch/x86/boot.rst: `kernel_version`).
pub fn build_of_image(head: &[u8]) -> Option<String> {
    const MAGIC: std::ops::Range<usize> = 0x202..0x206;
    const POINTER: std::ops::Range<usize> = 0x20e..0x210;
    /// The pointer counts from the second sector.
    const BASE: usize = 0x200;
    if head.get(MAGIC)? != b"HdrS" {
        return None;
    }
    let pointer: [u8; 2] = head.get(POINTER)?.try_into().ok()?;
    let text = head.get(BASE + usize::from(u16::from_le_bytes(pointer))..)?;
    let end = text.iter().position(|byte| *byte == 0)?;
    let text = std::str::from_utf8(&text[..end]).ok()?;
    // "RELEASE (USER@HOST) #1 SMP ...".
    let at = text.find(") #")?;
    Some(text[at + 2..].trim().to_owned())
}

/// What the boot loader was told: `default` is GRUB's /etc/default/grub, `environment` its grubenv,
/// `loader` systemd-boot's loader.conf. Empty when there is none.
pub fn entries(default: &str, environment: &str, loader: &str) -> Vec<String> {
    let next = value(environment, "next_entry");
    let default = value(default, "GRUB_DEFAULT");
    // Without it GRUB does not look at saved_entry.
    let saved = (default.as_deref() == Some("saved"))
        .then(|| value(environment, "saved_entry"))
        .flatten();
    let loader = (loader.lines()).find_map(|line| {
        let (key, value) = line.trim().split_once(char::is_whitespace)?;
        (key == "default").then(|| value.trim().to_owned())
    });
    [next, saved, default, loader]
        .into_iter()
        .flatten()
        .filter(|entry| !entry.is_empty())
        .collect()
}

/// `KEY=value` or `KEY="value"`; the last counts, as in a shell.
fn value(text: &str, key: &str) -> Option<String> {
    let lines = text.lines().filter_map(|line| {
        let (name, value) = line.trim().split_once('=')?;
        (name == key).then_some(value)
    });
    let value = { lines }.next_back()?.trim();
    let quotes = |c| c == '"' || c == '\'';
    Some(value.trim_matches(quotes).to_owned())
}

#[cfg(test)]
mod tests;
