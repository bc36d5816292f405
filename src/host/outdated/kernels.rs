//! The host's kernels: /usr/lib/modules, /boot, and what the boot loader was told.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use kube_rebootd_outdated::kernel::{self, Image, Kernel, Kernels, Modules};

use super::{Unread, absent, head, names, text, whole};
use crate::root::Root;

/// Hosts keep two or three kernels; a build machine some dozen.
const ENTRIES: usize = 1000;
/// Of the small files in /proc, /etc and /boot.
const SMALL: u64 = 64 * 1024;
/// /proc/stat has a number per interrupt before the line that is wanted.
const STAT: u64 = 4 * 1024 * 1024;
/// The farthest that the pointer in an x86 image's head reaches: 0x200 + 0xffff, and the text.
const HEAD: u64 = 68 * 1024;

/// A directory for each live patch: of kpatch, of Ubuntu Pro, of SUSE.
const PATCHES: &str = "/sys/kernel/livepatch";
/// PID 1 writes it where it runs in a container (systemd, the container interface).
const CONTAINER: &str = "/run/systemd/container";
const MODULES: [&str; 2] = ["/usr/lib/modules", "/lib/modules"];
/// How distributions name images in /boot, by architecture.
const IMAGES: [&str; 5] = ["vmlinuz-", "vmlinux-", "Image-", "image-", "zImage-"];
/// GRUB's environment block: Debian and Arch, then Fedora and SUSE.
const GRUB: [&str; 2] = ["/boot/grub/grubenv", "/boot/grub2/grubenv"];
/// systemd-boot's, wherever the EFI system partition is mounted.
const LOADER: [&str; 3] = [
    "/boot/loader/loader.conf",
    "/efi/loader/loader.conf",
    "/boot/efi/loader/loader.conf",
];

/// All of it.
pub(super) fn read(root: &Root) -> Result<Kernels, Unread> {
    let running = needed(&root.path("/proc/sys/kernel/osrelease"), SMALL)?;
    let running = running.trim().to_owned();
    let build = needed(&root.path("/proc/sys/kernel/version"), SMALL)?;
    let stat = root.path("/proc/stat");
    let booted = (needed(&stat, STAT)?.lines())
        .find_map(|line| line.strip_prefix("btime ")?.trim().parse().ok())
        .ok_or_else(|| Unread::at(&stat)(std::io::Error::other("it has no btime")))?;
    let mut found = BTreeMap::new();
    let mut changed = 0;
    for place in MODULES {
        let place = root.path(place);
        if let Some(metadata) = absent(fs::metadata(&place)).map_err(Unread::at(&place))? {
            changed = changed.max(metadata.ctime());
        }
        for release in names(&place, ENTRIES)? {
            if let Some(kernel) = modules(&place, &release)? {
                // /lib is a link to /usr/lib almost everywhere.
                found.entry(release).or_insert(kernel);
            }
        }
    }
    images(root, &running, &mut found)?;
    let container = root.path(CONTAINER);
    let container = absent(fs::metadata(&container)).map_err(Unread::at(&container))?;
    Ok(Kernels {
        container: container.is_some(),
        running,
        build: build.trim().to_owned(),
        booted,
        changed,
        installed: found.into_values().collect(),
        entries: entries(root)?,
        // They are told alone.
        patches: patches(root).unwrap_or_default(),
    })
}

/// The live patches that are enabled, and on their way neither in nor out (the kernel's `sysfs-kernel-livepatch`).
pub(super) fn patches(root: &Root) -> Result<Vec<String>, Unread> {
    let place = root.path(PATCHES);
    let says = |patch: &str, file: &str, wanted: &str| {
        let said = text(&place.join(patch).join(file), SMALL)?;
        // One that has gone meanwhile says nothing.
        Ok::<bool, Unread>(said.is_some_and(|said| said.trim() == wanted))
    };
    let mut applied = Vec::new();
    for patch in names(&place, ENTRIES)? {
        if says(&patch, "enabled", "1")? && says(&patch, "transition", "0")? {
            applied.push(patch);
        }
    }
    Ok(applied)
}

fn needed(path: &Path, most: u64) -> Result<String, Unread> {
    whole(path, most).map_err(Unread::at(path))
}

/// A release's directory of modules; none when it is no directory.
fn modules(place: &Path, release: &str) -> Result<Option<Kernel>, Unread> {
    let dir = place.join(release);
    let Some(metadata) = absent(fs::metadata(&dir)).map_err(Unread::at(&dir))? else {
        // A link to nowhere.
        return Ok(None);
    };
    if !metadata.is_dir() || !is_release(release) {
        return Ok(None);
    }
    let has = |name: &str| {
        let path = dir.join(name);
        let found = absent(fs::metadata(&path)).map_err(Unread::at(&path))?;
        Ok(found.is_some())
    };
    let image = image(&dir.join("vmlinuz"))?;
    // A kernel without any module has its lists all the same (Linux, Makefile: modules_install).
    let whole = !names(&dir.join("kernel"), 1)?.is_empty()
        || has("modules.builtin")?
        || has("modules.order")?
        || image.is_some();
    Ok(Some(Kernel {
        release: release.to_owned(),
        modules: if whole {
            Modules::Whole
        } else {
            Modules::Empty
        },
        package: has("pkgbase")?,
        image,
        changed: metadata.ctime(),
    }))
}

/// Adds the images in /boot, and the build of the running release's.
fn images(root: &Root, running: &str, found: &mut BTreeMap<String, Kernel>) -> Result<(), Unread> {
    let boot = root.path("/boot");
    for name in names(&boot, ENTRIES)? {
        let release = IMAGES.iter().find_map(|prefix| name.strip_prefix(prefix));
        let Some(release) = release.filter(|release| is_release(release)) else {
            continue;
        };
        let kernel = found.entry(release.to_owned()).or_insert_with(|| Kernel {
            release: release.to_owned(),
            modules: Modules::Absent,
            package: false,
            image: None,
            changed: 0,
        });
        if kernel.image.is_none() {
            kernel.image = image(&boot.join(&name))?;
        }
        if release == running
            && let Some(image) = &mut kernel.image
        {
            image.build = build(&boot.join(&name))?;
        }
    }
    let beside = root.path(MODULES[0]).join(running).join("vmlinuz");
    let own = found.get_mut(running).and_then(|own| own.image.as_mut());
    if let Some(image) = own
        && image.build.is_none()
    {
        image.build = build(&beside)?;
    }
    Ok(())
}

fn image(path: &Path) -> Result<Option<Image>, Unread> {
    let metadata = absent(fs::metadata(path)).map_err(Unread::at(path))?;
    Ok(metadata.filter(fs::Metadata::is_file).map(|file| Image {
        changed: file.ctime(),
        build: None,
    }))
}

fn build(path: &Path) -> Result<Option<String>, Unread> {
    let head = absent(head(path, HEAD)).map_err(Unread::at(path))?;
    Ok(head.and_then(|head| kernel::build_of_image(&head)))
}

/// Neither `vmlinuz-linux` nor `vmlinuz-0-rescue-ID`.
fn is_release(name: &str) -> bool {
    name.starts_with(|c: char| matches!(c, '1'..='9')) && name.strip_suffix(".old").is_none()
}

fn entries(root: &Root) -> Result<Vec<String>, Unread> {
    let default = text(&root.path("/etc/default/grub"), SMALL)?;
    let environment = first(root, &GRUB)?;
    let loader = first(root, &LOADER)?;
    let or_none = Option::unwrap_or_default;
    Ok(kernel::entries(
        &or_none(default),
        &or_none(environment),
        &or_none(loader),
    ))
}

/// The first of `paths` that is there.
fn first(root: &Root, paths: &[&str]) -> Result<Option<String>, Unread> {
    let mut paths: Vec<PathBuf> = paths.iter().map(|path| root.path(path)).collect();
    paths.reverse();
    while let Some(path) = paths.pop() {
        if let Some(text) = text(&path, SMALL)? {
            return Ok(Some(text));
        }
    }
    Ok(None)
}
