//! The packages, built once for all tests from two unpacked source tarballs around one release binary.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use tempfile::TempDir;

const TREE: &str = env!("CARGO_MANIFEST_DIR");

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
    _place: TempDir,
    trees: [PathBuf; 2],
    /// What `make install` made.
    pub(crate) stage: PathBuf,
}

pub(crate) static BUILT: LazyLock<Built> = LazyLock::new(Built::make);

impl Built {
    fn make() -> Self {
        let place = tempfile::tempdir().unwrap();
        let binary = format!("{TREE}/target/release/kube-rebootd");
        make(Path::new(TREE), &["build", "dist-source"], &[]);
        let version = env!("CARGO_PKG_VERSION");
        let tarball = format!("{TREE}/dist/kube-rebootd-{version}.tar.gz");
        // Of different length: a path in a package would move what follows.
        let trees = ["a", "another"].map(|name| {
            let tree = place.path().join(name);
            fs::create_dir(&tree).unwrap();
            content("tar", &["-xf", &tarball, "-C", tree.to_str().unwrap()]);
            tree.join(format!("kube-rebootd-{version}"))
        });
        let binary = format!("BINARY={binary}");
        // makepkg runs as nobody, who may not enter a directory of `tempfile`.
        let arch = format!(
            "ARCH_DIR=/var/tmp/kube-rebootd-makepkg-{}",
            std::process::id()
        );
        for tree in &trees {
            make(tree, &["rpm", "arch", "deb"], &[&binary, &arch]);
        }
        let stage = place.path().join("stage");
        let destination = format!("DESTDIR={}", stage.display());
        make(&trees[0], &["install"], &[&binary, &destination]);
        Self {
            _place: place,
            trees,
            stage,
        }
    }

    /// The package with this suffix from the first tree, and from the second.
    pub(crate) fn both(&self, suffix: &str) -> [PathBuf; 2] {
        [0, 1].map(|nth| {
            let entries = fs::read_dir(self.trees[nth].join("dist")).unwrap();
            let mut found = entries.map(|entry| entry.unwrap().path()).filter(|path| {
                let name = path.file_name().and_then(OsStr::to_str);
                name.is_some_and(|name| name.ends_with(suffix))
            });
            let one = found.next().unwrap_or_else(|| panic!("no {suffix}"));
            assert!(found.next().is_none(), "more than one {suffix}");
            one
        })
    }

    pub(crate) fn one(&self, suffix: &str) -> String {
        let [one, _] = self.both(suffix);
        one.to_str().unwrap().to_owned()
    }

    /// The spec file as rpmbuild got it.
    pub(crate) fn spec(&self) -> PathBuf {
        self.trees[0].join("target/packaging/rpm/kube-rebootd.spec")
    }
}

/// `make` as from a shell: what cargo tells a test would make it build ring and all above it again, and what
/// make tells its children is about another make.
fn make(tree: &Path, targets: &[&str], variables: &[&str]) {
    let mut command = Command::new("make");
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        let ours = ["CARGO_PKG_", "CARGO_MANIFEST_", "MAKE", "MFLAGS"];
        if ours.iter().any(|prefix| text.starts_with(prefix)) {
            command.env_remove(&name);
        }
    }
    command.arg("-C").arg(tree).args(targets).args(variables);
    said(&mut command);
}
