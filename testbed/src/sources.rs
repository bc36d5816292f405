//! The source tree and unpacked tarballs of it, and the packages that `make` builds in them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::clean::Clean;
use crate::{image, shell, tools};

/// A package that `make` builds, for one family of distributions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Package {
    /// Fedora, RHEL, openSUSE.
    Rpm,
    /// Arch Linux.
    Arch,
    /// Debian, Ubuntu.
    Deb,
}

/// All of them.
pub const PACKAGES: [Package; 3] = [Package::Rpm, Package::Arch, Package::Deb];

impl Package {
    /// The target of `make`.
    pub(crate) fn target(self) -> &'static str {
        match self {
            Self::Rpm => "rpm",
            Self::Arch => "arch",
            Self::Deb => "deb",
        }
    }

    /// How its file's name ends.
    fn suffix(self) -> &'static str {
        match self {
            Self::Rpm => ".rpm",
            Self::Arch => ".pkg.tar.zst",
            Self::Deb => ".deb",
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

    /// Builds a package around the one program, in a clean root that has what this is declared to need; its file in
    /// dist/.
    pub fn pack(&self, package: Package) -> Result<PathBuf> {
        let binary = Self::binary();
        let mut clean = Clean {
            root: image::builder(package)?,
            shown: vec![binary.clone()],
            programs: Vec::new(),
        };
        let mut args = vec![
            package.target().to_owned(),
            format!("BINARY={}", binary.display()),
        ];
        if package == Package::Deb {
            // Debian has no cargo-deb, and its Rust is older than ours: both are this machine's.
            Self::prepare_deb()?;
            let rust = shell::run("rustc", &["--print", "sysroot"])?;
            let rust = PathBuf::from(rust.trim());
            clean.programs.push(rust.join("bin"));
            clean.shown.extend([rust, tools::installed()]);
            args.push(format!("TOOLS={}", tools::installed().display()));
        }
        clean.make(&self.path, &args)?;
        self.package(package)
    }

    /// Builds cargo-deb, where it is not there.
    pub(crate) fn prepare_deb() -> Result<()> {
        let program = tools::installed().join("bin/cargo-deb");
        Self::own().make(&[&program.display().to_string()])
    }

    /// The package in dist/.
    fn package(&self, package: Package) -> Result<PathBuf> {
        let suffix = package.suffix();
        let mut found = Vec::new();
        for entry in fs::read_dir(self.path.join("dist"))? {
            let entry = entry?;
            if entry.file_name().to_string_lossy().ends_with(suffix) {
                found.push(entry.path());
            }
        }
        match found.as_slice() {
            [one] => Ok(one.clone()),
            _ => bail!("one package *{suffix} was wanted, there are {found:?}"),
        }
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
