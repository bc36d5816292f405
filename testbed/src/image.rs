//! The root file systems that hosts boot from.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::sources::Sources;
use crate::spec::Content;
use crate::{ground, shell, tools};

const PACKAGES: &str = "systemd,systemd-sysv,dbus,kmod,procps,iproute2,libpam-systemd";

/// The updaters of Fedora, Arch, Debian and openSUSE, what makes repositories for them, and what checks ask.
const UPDATERS: &str = "dnf,dnf-plugins-core,python3-systemd,createrepo-c,rpm,pacman-package-manager,makepkg,libarchive-tools,zstd,\
                        apt-utils,unattended-upgrades,zypper,needrestart,lsof";

/// A minimal Debian of `suite`, made once per list of packages.
pub(crate) fn base(suite: &str, content: Content) -> Result<PathBuf> {
    let (packages, kind) = if content == Content::Updaters {
        (format!("{PACKAGES},{UPDATERS}"), "updaters")
    } else {
        (PACKAGES.to_owned(), "root")
    };
    let key = tools::key(&[packages.as_bytes()]);
    let place = tools::cache().join(format!("{kind}-{suite}-{key}"));
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
        let made = shell::output(bootstrap.arg(&part));
        if made.is_err() {
            let _ = fs::remove_dir_all(&part);
        }
        made
    })?;
    fs::create_dir_all(part.join("var/log/journal"))?;
    match fs::rename(&part, &place) {
        // Somebody else was quicker.
        Err(_) if place.exists() => fs::remove_dir_all(&part)?,
        renamed => renamed?,
    }
    Ok(place)
}

/// What `make install` puts on a host, as a layer of its own.
pub(crate) fn install(place: &Path) -> Result<()> {
    let destination = format!("DESTDIR={}", place.display());
    Sources::own().make(&["install", &destination])
}
