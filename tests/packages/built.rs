//! The packages, built once for all tests from two unpacked source tarballs around one release binary.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use testbed::Sources;

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

/// Two trees as a user unpacks them, each with its packages in dist/.
pub(crate) struct Built {
    trees: [Sources; 2],
    /// What `make install` made.
    pub(crate) stage: PathBuf,
}

pub(crate) static BUILT: LazyLock<Built> = LazyLock::new(Built::make);

impl Built {
    fn make() -> Self {
        // Not a temporary directory: nobody would ever drop it.
        let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join("packages");
        let _ = fs::remove_dir_all(&place);
        Sources::own().make(&["build"]).unwrap();
        // Of different length: a path in a package would move what follows.
        let trees = ["a", "another"].map(|name| {
            let tree = Sources::unpacked(&place.join(name)).unwrap();
            tree.pack(&format!("-{}", std::process::id())).unwrap();
            tree
        });
        let stage = place.join("stage");
        let binary = format!("BINARY={}", Sources::binary().display());
        let destination = format!("DESTDIR={}", stage.display());
        trees[0].make(&["install", &binary, &destination]).unwrap();
        Self { trees, stage }
    }

    /// The package with this suffix from the first tree, and from the second.
    pub(crate) fn both(&self, suffix: &str) -> [PathBuf; 2] {
        [0, 1].map(|nth| self.trees[nth].package(suffix).unwrap())
    }

    pub(crate) fn one(&self, suffix: &str) -> String {
        let [one, _] = self.both(suffix);
        one.to_str().unwrap().to_owned()
    }

    /// The spec file as rpmbuild got it.
    pub(crate) fn spec(&self) -> PathBuf {
        let path = self.trees[0].path();
        path.join("target/packaging/rpm/kube-rebootd.spec")
    }
}
