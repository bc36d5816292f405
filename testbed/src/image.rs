//! The root file systems that hosts boot from, and those in which packages are built.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::sources::{Package, Sources};
use crate::spec::{Content, Runtime, SUITE};
use crate::tools::Use;
use crate::{ground, shell, tools};

const PACKAGES: &str = "systemd,systemd-sysv,dbus,kmod,procps,iproute2,libpam-systemd";

/// What containerd and the kubelet call.
const RUNTIME: &str =
    "runc,containernetworking-plugins,iptables,conntrack,mount,util-linux,ethtool,ca-certificates";

/// What makes a root one that firmware boots, and by what the bed reaches it.
const MACHINE: &str = "udev,systemd-boot,initramfs-tools,zstd,openssh-server";
const KERNELS: &str = include_str!("machine.sh");

/// The updaters of Fedora, Arch, Debian and openSUSE, what makes repositories for them, and what checks ask.
const UPDATERS: &str = "dnf,dnf-plugins-core,python3-systemd,createrepo-c,rpm,pacman-package-manager,makepkg,libarchive-tools,zstd,\
                        apt-utils,unattended-upgrades,zypper,needrestart,lsof";

/// What Zincati is linked with, and what makes its time run faster.
const ZINCATI: &str = "libssl3t64,libfaketime";
/// The bus reads who may own a name before the host could make the user. $1: the root.
const ZINCATI_USER: &str = "chroot \"$1\" systemd-sysusers --inline 'u zincati - \"Zincati\"'";

/// A minimal Debian of `suite` that a host boots from.
pub(crate) fn base(suite: &str, content: Content, runtime: Runtime) -> Result<PathBuf> {
    let (kind, more, hook) = match content {
        Content::Updaters => ("updaters", format!(",{UPDATERS}"), ""),
        Content::Zincati => ("zincati", format!(",{ZINCATI}"), ZINCATI_USER),
        Content::Installed | Content::Bare => ("root", String::new(), ""),
    };
    let (kind, below) = match runtime {
        Runtime::Containerd => (format!("{kind}-runtime"), format!(",{RUNTIME}")),
        Runtime::Kubemark => (kind.to_owned(), String::new()),
    };
    let packages = format!("{PACKAGES}{more}{below}");
    made(&kind, suite, &packages, hook)
}

/// The same with kernels, initrds and systemd-boot: see machine.sh.
pub(crate) fn machine() -> Result<PathBuf> {
    let packages = format!("{PACKAGES},{RUNTIME},{MACHINE}");
    made("machine", SUITE, &packages, KERNELS)
}

/// A minimal Debian in which a package is built: make, and what building this package is declared to need.
pub(crate) fn builder(package: Package) -> Result<PathBuf> {
    let programs = tools::debian(Use::Build(package));
    let packages: Vec<&str> = ["make"].into_iter().chain(programs).collect();
    made(
        &format!("build-{}", package.target()),
        SUITE,
        &packages.join(","),
        "",
    )
}

/// A minimal Debian, made once per list of packages and `hook`, which is a script for its end.
fn made(kind: &str, suite: &str, packages: &str, hook: &str) -> Result<PathBuf> {
    let key = tools::key(&[packages.as_bytes(), hook.as_bytes()]);
    let place = tools::cache().join(format!("{kind}-{suite}-{key}"));
    if place.exists() {
        return Ok(place);
    }
    let _lock = tools::alone(&place)?;
    if place.exists() {
        return Ok(place);
    }
    let part = tools::cache().join(format!("{kind}-{suite}.part-{}", std::process::id()));
    // Left by a process of the same number that died here.
    if part.exists() {
        fs::remove_dir_all(&part)?;
    }
    tools::timed(&format!("making a root of Debian {suite} ({kind})"), || {
        let mut bootstrap = ground::outside("mmdebstrap");
        bootstrap.args(["--quiet", "--variant=minbase"]);
        bootstrap.arg(format!("--include={packages}"));
        bootstrap.args(["--aptopt=Acquire::Check-Valid-Until \"false\"", suite]);
        if !hook.is_empty() {
            bootstrap.arg(format!("--customize-hook={hook}"));
        }
        let made = shell::output(bootstrap.arg(&part));
        if made.is_err() {
            let _ = fs::remove_dir_all(&part);
        }
        made
    })?;
    fs::create_dir_all(part.join("var/log/journal"))?;
    fs::rename(&part, &place)?;
    Ok(place)
}

/// What `make install` puts on a host, as a layer of its own, around `binary`.
pub(crate) fn install(place: &Path, binary: &Path) -> Result<()> {
    let destination = format!("DESTDIR={}", place.display());
    let binary = format!("BINARY={}", binary.display());
    Sources::own().make(&["install", &destination, &binary])
}
