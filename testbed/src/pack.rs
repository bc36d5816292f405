//! Packages, each built by `make` in a clean root.

use std::fs;
use std::path::PathBuf;

use anyhow::{Result, bail};

use crate::clean::Clean;
use crate::sources::{Package, Sources};
use crate::{image, shell, tools};

impl Sources {
    /// Builds a package around the program that is built once, in a clean root that has what this is declared to need;
    /// its file in dist/.
    pub fn pack(&self, package: Package) -> Result<PathBuf> {
        let (name, binary) = match package {
            Package::Rpm | Package::Arch | Package::Deb => ("BINARY", Self::binary()),
            Package::Sysext => ("MUSL_BINARY", Self::musl()?),
        };
        let mut clean = Clean {
            root: image::builder(package)?,
            shown: vec![binary.clone()],
            programs: Vec::new(),
        };
        let mut args = vec![
            package.target().to_owned(),
            format!("{name}={}", binary.display()),
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
        clean.make(self.path(), &args)?;
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
        for entry in fs::read_dir(self.path().join("dist"))? {
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
}
