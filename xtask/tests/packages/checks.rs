//! What the packages try before they are made: `%check` of rpm.spec and `check()` of PKGBUILD, run with a cargo that
//! only writes down what it was asked for. A whole build from the sources is `make rpm-from-source`, by hand.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output};

use testbed::Sources;
use xtask::TOP;

use crate::built::STAGE;

/// A directory to run a check in: the sources' Cargo.toml and configuration, and that cargo.
struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let place = Self { dir };
        for name in ["Cargo.toml", "packaging/config.toml"] {
            let file = place.path(name);
            fs::create_dir_all(Path::new(&file).parent().unwrap()).unwrap();
            fs::copy(Path::new(TOP).join(name), file).unwrap();
        }
        let asked = place.path("asked");
        fs::write(&asked, "").unwrap();
        place.program("bin/cargo", &format!("echo \"$*\" >>{asked}"));
        place
    }

    fn path(&self, name: &str) -> String {
        self.dir.path().join(name).display().to_string()
    }

    fn program(&self, name: &str, text: &str) {
        let file = self.path(name);
        fs::create_dir_all(Path::new(&file).parent().unwrap()).unwrap();
        fs::write(&file, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn run(&self, shell: &str, script: &str) -> Output {
        let path = std::env::var("PATH").unwrap();
        let mut command = Command::new(shell);
        command.args(["-e", "-c", script]).current_dir(&self.dir);
        command.env("PATH", format!("{}:{path}", self.path("bin")));
        command.output().unwrap()
    }

    /// What cargo was asked for.
    fn asked(&self) -> String {
        fs::read_to_string(self.path("asked")).unwrap()
    }
}

/// `%check` of a build from the sources, of what lies below `root`.
fn of_the_spec(root: &Path) -> String {
    let mut rpmspec = Command::new("rpmspec");
    rpmspec.args(["-P", "rpm.spec"]).current_dir(TOP);
    let root = format!("buildroot {}", root.display());
    let spec = crate::built::said(rpmspec.args(["--define", &root]));
    let (_, check) = spec.split_once("\n%check\n").unwrap();
    check.split("\n%post\n").next().unwrap().to_owned()
}

/// `check()` of PKGBUILD.
fn of_the_pkgbuild(place: &Place) -> String {
    let sources = place.path("");
    let enter = "cd() { :; }; pkgname=kube-rebootd; pkgver=0.1.0; CARCH=$(uname -m)";
    format!(". {TOP}/PKGBUILD; {enter}; command cd {sources}; check")
}

#[test]
fn the_rpm_is_tried_before_it_is_made() {
    let place = Place::new();
    let root = STAGE.get();
    let run = place.run("sh", &of_the_spec(root));
    assert!(run.status.success(), "{run:?}");
    assert_eq!(place.asked(), "test --offline --workspace --lib\n");
    // Members of the workspace that are in no tarball of crates are not asked for.
    let manifest = fs::read_to_string(place.path("Cargo.toml")).unwrap();
    assert!(!manifest.contains("\nmembers = ") && !manifest.contains("\ntestbed = "));

    // A program that takes any configuration, as one that was built from something else may.
    let other = Place::new();
    other.program("root/usr/bin/kube-rebootd", "echo kube-rebootd 0.1.0");
    let run = other.run("sh", &of_the_spec(Path::new(&other.path("root"))));
    assert!(!run.status.success(), "{run:?}");
    assert_eq!(other.asked(), "");
}

#[test]
fn the_arch_package_is_tried_before_it_is_made() {
    let place = Place::new();
    STAGE.get();
    fs::create_dir_all(place.path("target/release")).unwrap();
    std::os::unix::fs::symlink(Sources::binary(), place.path("target/release/kube-rebootd"))
        .unwrap();
    let run = place.run("bash", &of_the_pkgbuild(&place));
    assert!(run.status.success(), "{run:?}");
    let asked = "test --frozen --workspace --exclude testbed --exclude xtask --lib\n";
    assert_eq!(place.asked(), asked);

    fs::write(place.path("packaging/config.toml"), "no_such_key = 1\n").unwrap();
    let run = place.run("bash", &of_the_pkgbuild(&place));
    assert!(!run.status.success(), "{run:?}");
}
