//! What a bed and the tests of packages need on this machine: programs from the distribution, and Kubernetes
//! built once from the pinned Go modules into a cache.

use std::env;
use std::fs;
use std::hash::{DefaultHasher, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::shell;
use crate::sources::repository;

/// Program, and its package in Debian, Fedora and Arch: what a bed runs, then what the tests of packages and checks run.
#[rustfmt::skip]
const PROGRAMS: [(&str, &str, &str, &str); 22] = [
    ("systemd-nspawn", "systemd-container", "systemd-container", "systemd"),
    ("mmdebstrap", "mmdebstrap", "mmdebstrap", "mmdebstrap"),
    ("ip", "iproute2", "iproute", "iproute2"),
    ("nft", "nftables", "nftables", "nftables"),
    ("dbus-daemon", "dbus", "dbus-daemon", "dbus"),
    ("nsenter", "util-linux", "util-linux-core", "util-linux"),
    ("go", "golang", "golang", "go"),
    ("rpmbuild", "rpm", "rpm-build", "rpm-tools"),
    ("rpmlint", "rpmlint", "rpmlint", "rpmlint"),
    ("makepkg", "makepkg", "pacman", "pacman"),
    ("bsdtar", "libarchive-tools", "bsdtar", "libarchive"),
    ("fakeroot", "fakeroot", "fakeroot", "fakeroot"),
    ("zstd", "zstd", "zstd", "zstd"),
    ("xz", "xz-utils", "xz", "xz"),
    ("dpkg-deb", "dpkg", "dpkg", "dpkg"),
    ("dpkg-shlibdeps", "dpkg-dev", "dpkg-dev", "dpkg"),
    ("lintian", "lintian", "lintian", "lintian"),
    ("mandoc", "mandoc", "mandoc", "mandoc"),
    ("zsh", "zsh", "zsh", "zsh"),
    ("fish", "fish", "fish", "fish"),
    ("lsof", "lsof", "lsof", "lsof"),
    ("perl", "perl-base", "perl-interpreter", "perl"),
];

/// Command of Kubernetes, built from testbed/go/kubernetes.
const KUBERNETES: [&str; 4] = [
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubectl",
];

/// Kept in step with testbed/go/kubernetes/go.mod; the API server reports it.
const VERSION: &str = "v1.36.3";

/// Where built things are kept between runs: `$KUBE_REBOOTD_CACHE`, else below /var/cache.
pub(crate) fn cache() -> PathBuf {
    env::var_os("KUBE_REBOOTD_CACHE").map_or_else(
        || PathBuf::from("/var/cache/kube-rebootd-bed"),
        PathBuf::from,
    )
}

fn missing() -> Vec<(&'static str, &'static str, &'static str, &'static str)> {
    PROGRAMS
        .into_iter()
        .filter(|(program, ..)| which(program).is_none())
        .collect()
}

pub(crate) fn programs() -> Result<()> {
    let wanted = missing();
    if wanted.is_empty() {
        return Ok(());
    }
    if which("apt-get").is_some() {
        timed("installing programs from Debian", || {
            let apt = || {
                let mut apt = Command::new("apt-get");
                apt.env("DEBIAN_FRONTEND", "noninteractive");
                apt
            };
            shell::output(apt().arg("update"))?;
            let packages = wanted.iter().map(|(_, debian, ..)| *debian);
            shell::output(
                apt()
                    .args(["install", "-y", "--no-install-recommends"])
                    .args(packages),
            )?;
            Ok(())
        })?;
    }
    let left = missing();
    if left.is_empty() {
        return Ok(());
    }
    let list =
        |pick: fn(&(&'static str, &'static str, &'static str, &'static str)) -> &'static str| {
            left.iter().map(pick).collect::<Vec<_>>().join(" ")
        };
    bail!(
        "missing: {}. Debian: apt-get install {}; Fedora: dnf install {}; Arch: pacman -S {}",
        list(|row| row.0),
        list(|row| row.1),
        list(|row| row.2),
        list(|row| row.3),
    )
}

fn which(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    let places = env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    places
        .map(|place| place.join(program))
        .find(|file| file.is_file())
}

/// A key of what something is built from.
pub(crate) fn key(parts: &[&[u8]]) -> String {
    let mut key = DefaultHasher::new();
    for part in parts {
        key.write(part);
    }
    format!("{:016x}", key.finish())
}

/// The directory of the built binaries, keyed by what they are built from; those taken from
/// `KUBEBUILDER_ASSETS` never mix with the pinned ones.
pub fn binaries() -> Result<PathBuf> {
    let modules = repository().join("testbed/go");
    let read = |sum: &str| {
        let path = modules.join(sum);
        fs::read(&path).with_context(|| format!("cannot read {}", path.display()))
    };
    let (etcd, kubernetes) = (read("etcd/go.sum")?, read("kubernetes/go.sum")?);
    let kubelet = read("kubernetes/kubelet/main.go")?;
    let assets = env::var_os("KUBEBUILDER_ASSETS").unwrap_or_default();
    let key = key(&[&etcd, &kubernetes, &kubelet, assets.as_encoded_bytes()]);
    let place = cache().join(format!("bin-{key}"));
    fs::create_dir_all(&place)?;
    build(
        &place,
        &modules.join("etcd"),
        "etcd",
        "go.etcd.io/etcd/server/v3",
        "",
    )?;
    let own = ("kubelet", "./kubelet".to_owned());
    let commands = KUBERNETES.map(|command| (command, format!("k8s.io/kubernetes/cmd/{command}")));
    for (command, package) in commands.into_iter().chain([own]) {
        let version = format!(" -X k8s.io/component-base/version.gitVersion={VERSION}");
        build(
            &place,
            &modules.join("kubernetes"),
            command,
            &package,
            &version,
        )?;
    }
    Ok(place)
}

/// One binary: from `KUBEBUILDER_ASSETS` when it is there, else built, whole or not at all.
pub(crate) fn build(
    place: &Path,
    module: &Path,
    name: &str,
    package: &str,
    flags: &str,
) -> Result<()> {
    let target = place.join(name);
    if target.exists() {
        return Ok(());
    }
    let part = place.join(format!("{name}.part-{}", std::process::id()));
    let assets = env::var_os("KUBEBUILDER_ASSETS").map(|dir| PathBuf::from(dir).join(name));
    if let Some(asset) = assets.filter(|asset| asset.is_file()) {
        fs::copy(&asset, &part)?;
    } else {
        timed(&format!("building {name}"), || {
            let mut go = Command::new(which("go").context("go is not installed")?);
            go.current_dir(module)
                .env("CGO_ENABLED", "0")
                .args(["build", "-trimpath"]);
            go.args(["-ldflags", &format!("-s -w{flags}"), "-o"])
                .arg(&part)
                .arg(package);
            shell::shown(&mut go)
        })?;
    }
    fs::rename(&part, &target)?;
    Ok(())
}

/// Does a long step and says so.
pub(crate) fn timed<T>(what: &str, step: impl FnOnce() -> Result<T>) -> Result<T> {
    let start = Instant::now();
    eprintln!("bed: {what} ...");
    let done = step()?;
    eprintln!("bed: {what}: {:.1} s", start.elapsed().as_secs_f32());
    Ok(done)
}
