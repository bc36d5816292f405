//! The root file systems that hosts boot from.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use crate::{shell, tools};

/// The distribution that hosts run unless they say otherwise: systemd 257.
pub const SUITE: &str = "trixie";

const PACKAGES: &str = "systemd,systemd-sysv,dbus,kmod,procps,iproute2,libpam-systemd";

/// A minimal Debian of `suite`, made once per list of packages.
pub(crate) fn base(suite: &str) -> Result<PathBuf> {
    let key = tools::key(&[PACKAGES.as_bytes()]);
    let place = tools::cache().join(format!("root-{suite}-{key}"));
    if place.exists() {
        return Ok(place);
    }
    let part = tools::cache().join(format!("root-{suite}.part-{}", std::process::id()));
    // Left by a process of the same number that died here.
    if part.exists() {
        fs::remove_dir_all(&part)?;
    }
    tools::timed(&format!("making a root of Debian {suite}"), || {
        let mut bootstrap = Command::new("mmdebstrap");
        bootstrap.args(["--quiet", "--variant=minbase"]);
        bootstrap.arg(format!("--include={PACKAGES}"));
        bootstrap.args(["--aptopt=Acquire::Check-Valid-Until \"false\"", suite]);
        shell::output(bootstrap.arg(&part))
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
    let mut make = Command::new("make");
    // What `cargo test` says about the test would make cargo build ring and all above it again, and
    // the next build outside of a test once more.
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            make.env_remove(&name);
        }
    }
    make.arg("-C").arg(tools::repository()).arg("install");
    shell::output(make.arg(format!("DESTDIR={}", place.display())))?;
    Ok(())
}
