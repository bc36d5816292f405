//! The source tree and unpacked tarballs of it, in which `make` runs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::shell;

/// What `make` builds for one family of distributions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Package {
    /// Fedora, RHEL, openSUSE.
    Rpm,
    /// Arch Linux.
    Arch,
    /// Debian, Ubuntu.
    Deb,
    /// Those whose /usr nobody writes: a system extension, and the tarball for /opt beside it.
    Sysext,
}

/// All of them.
pub const PACKAGES: [Package; 4] = [Package::Rpm, Package::Arch, Package::Deb, Package::Sysext];

impl Package {
    /// The target of `make`.
    pub(crate) fn target(self) -> &'static str {
        match self {
            Self::Rpm => "rpm",
            Self::Arch => "arch",
            Self::Deb => "deb",
            Self::Sysext => "sysext",
        }
    }

    /// How its file's name ends.
    pub(crate) fn suffix(self) -> &'static str {
        match self {
            Self::Rpm => ".rpm",
            Self::Arch => ".pkg.tar.zst",
            Self::Deb => ".deb",
            Self::Sysext => ".raw",
        }
    }
}

/// Where `revise` finds the revision, and as what.
const REVISIONS: [(&str, &str); 3] = [
    ("rpm.spec", "\nRelease:        "),
    ("PKGBUILD", "\npkgrel="),
    ("Cargo.toml", "\nrevision = \""),
];

/// The repository this was built from.
pub(crate) fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .unwrap_or(Path::new("/"))
}

/// A tree in which `make` runs.
#[derive(Debug)]
pub struct Sources {
    path: PathBuf,
}

impl Sources {
    /// The one that this was built from.
    pub fn own() -> Self {
        Self {
            path: repository().to_owned(),
        }
    }

    /// What a user gets: the tarball, unpacked below `place`.
    pub fn unpacked(place: &Path) -> Result<Self> {
        let own = Self::own();
        own.make(&["dist-source"])?;
        let name = format!("kube-rebootd-{}", env!("CARGO_PKG_VERSION"));
        let tarball = own.path.join("dist").join(format!("{name}.tar.gz"));
        fs::create_dir_all(place)?;
        let mut tar = Command::new("tar");
        shell::output(tar.arg("-xf").arg(tarball).arg("-C").arg(place))?;
        Ok(Self {
            path: place.join(name),
        })
    }

    /// Its directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The program that `make build` makes of this repository: packed everywhere, built once.
    pub fn binary() -> PathBuf {
        repository().join("target/release/kube-rebootd")
    }

    /// The program of system extensions, as `make musl` makes it quickly.
    pub fn musl() -> Result<PathBuf> {
        Self::own().make(&["musl"])?;
        let target = format!("{}-unknown-linux-musl", std::env::consts::ARCH);
        let target = repository().join("target").join(target);
        Ok(target.join("debug/kube-rebootd"))
    }

    /// `make` as from a shell: what cargo tells a test would make it build ring and all above it again, and the
    /// next build outside of a test once more; what make tells its children is about another make.
    pub fn make(&self, args: &[&str]) -> Result<()> {
        let mut make = Command::new("make");
        for (name, _) in std::env::vars_os() {
            let text = name.to_string_lossy();
            let ours = ["CARGO_PKG_", "CARGO_MANIFEST_", "MAKE", "MFLAGS"];
            if ours.iter().any(|prefix| text.starts_with(prefix)) {
                make.env_remove(&name);
            }
        }
        // A tarball that is unpacked within a clone is none: git must not find the outer one.
        if let Some(parent) = self.path.parent() {
            make.env("GIT_CEILING_DIRECTORIES", parent);
        }
        shell::output(make.arg("-C").arg(&self.path).args(args)).map(|_| ())
    }

    /// Makes it the package's next revision, with another configuration file as its upgrades meet them.
    pub fn revise(&self, revision: u8) -> Result<()> {
        for (file, before) in REVISIONS {
            let path = self.path.join(file);
            let text = fs::read_to_string(&path)?;
            let (head, tail) = text
                .split_once(&format!("{before}1"))
                .with_context(|| format!("{file} names no revision"))?;
            fs::write(path, format!("{head}{before}{revision}{tail}"))?;
        }
        let config = self.path.join("packaging/config.toml");
        let text = fs::read_to_string(&config)?;
        fs::write(config, format!("{text}# Revision {revision}.\n"))?;
        Ok(())
    }
}
