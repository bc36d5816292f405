//! The packages, each built once for all tests, around one release binary (system extensions: around one for musl), from
//! two unpacked source tarballs, in clean roots that have what this package is declared to need.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use testbed::{Package, Shared, Sources};

/// What a tool says, when it is content.
#[track_caller]
pub(crate) fn content(program: &str, args: &[&str]) -> String {
    said(Command::new(program).args(args))
}

/// The same for a prepared command.
#[track_caller]
pub(crate) fn said(command: &mut Command) -> String {
    let run = command.output();
    let out = run.unwrap_or_else(|err| panic!("{command:?}: {err}; `make prepare` installs it"));
    let said = String::from_utf8_lossy(&out.stdout).into_owned();
    let errors = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{command:?}: {said}{errors}");
    said
}

/// One package, from two trees as a user unpacks them.
pub(crate) struct Built {
    trees: [Sources; 2],
    files: [PathBuf; 2],
}

pub(crate) static RPM: Shared<Built> = Shared::new("`make rpm`", || Built::make(Package::Rpm));
pub(crate) static ARCH: Shared<Built> = Shared::new("`make arch`", || Built::make(Package::Arch));
pub(crate) static DEB: Shared<Built> = Shared::new("`make deb`", || Built::make(Package::Deb));
pub(crate) static SYSEXT: Shared<Built> =
    Shared::new("`make sysext`", || Built::make(Package::Sysext));

static PROGRAM: Shared<()> = Shared::new("`make build`", || Sources::own().make(&["build"]));

/// What `make install` made of a tree as a user unpacks it.
pub(crate) static STAGE: Shared<PathBuf> = Shared::new("`make install`", || {
    PROGRAM.get();
    let place = fresh("stage");
    let tree = Sources::unpacked(&place)?;
    let stage = place.join("root");
    let binary = format!("BINARY={}", Sources::binary().display());
    tree.make(&["install", &binary, &format!("DESTDIR={}", stage.display())])?;
    Ok(stage)
});

/// Not a temporary directory: nobody would ever drop it.
fn fresh(name: &str) -> PathBuf {
    let place = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let place = place.join("packages").join(name);
    let _ = fs::remove_dir_all(&place);
    place
}

impl Built {
    fn make(package: Package) -> anyhow::Result<Self> {
        // A system extension has a program of its own.
        if package != Package::Sysext {
            PROGRAM.get();
        }
        let place = fresh(&format!("{package:?}"));
        // Of different length: a path in a package would move what follows.
        let a = Sources::unpacked(&place.join("a"))?;
        let another = Sources::unpacked(&place.join("another"))?;
        Ok(Self {
            files: [a.pack(package)?, another.pack(package)?],
            trees: [a, another],
        })
    }

    /// The package from the first tree, and from the second.
    pub(crate) fn both(&self) -> &[PathBuf; 2] {
        &self.files
    }

    pub(crate) fn one(&self) -> String {
        self.files[0].display().to_string()
    }

    /// Where the first was made.
    pub(crate) fn tree(&self) -> &Path {
        self.trees[0].path()
    }

    /// The spec file as rpmbuild got it.
    pub(crate) fn spec(&self) -> PathBuf {
        self.tree().join("target/packaging/rpm/kube-rebootd.spec")
    }
}
