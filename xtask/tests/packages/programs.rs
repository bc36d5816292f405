//! Every program that is called here is installed by `make prepare`, or is on every Debian machine with Rust: on a
//! new machine nothing else is.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use xtask::TOP;

use crate::built::said;
use crate::shell::commands;

/// What needs no row in testbed/src/tools.rs: where it comes from, and its programs that are called.
#[rustfmt::skip]
const EVERYWHERE: [(&str, &[&str]); 13] = [
    ("bash, dash", &["bash", "sh"]),
    ("coreutils", &[
        "cat", "chmod", "chown", "cp", "env", "id", "install", "ln", "ls", "mkdir", "mktemp", "mv", "rm", "rmdir", "sha256sum",
        "sort", "stat", "timeout", "touch", "uname",
    ]),
    ("diffutils", &["cmp"]),
    ("findutils", &["find"]),
    ("grep", &["grep"]),
    ("gzip", &["gzip"]),
    ("sed", &["sed"]),
    ("tar", &["tar"]),
    ("util-linux", &["mount", "runuser", "setpriv", "setsid", "unshare"]),
    ("apt", &["apt-get"]),
    ("whoever builds this has them; binutils have the linker", &["cargo", "git", "make", "readelf", "rustc", "rustup"]),
    ("ours", &["kube-rebootd"]),
    ("systemd, on the hosts that a package is installed on", &["systemctl", "systemd-detect-virt", "systemd-run"]),
];

/// How Rust calls a program by its name.
const CALLS: [&str; 4] = ["Command::new(", "shell::run(", "outside(", "content("];

/// Programs by name, each with one place that calls it.
type Called = BTreeMap<String, String>;

/// What Rust's text calls.
fn in_rust(text: &str) -> BTreeSet<String> {
    let after = CALLS.iter().flat_map(|call| text.split(call).skip(1));
    let literal = after.filter_map(|rest| rest.trim_start().strip_prefix('"'));
    let names = literal.filter_map(|rest| rest.split('"').next());
    let is_name = |name: &&str| {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_+.".contains(c);
        !name.is_empty() && name.chars().all(plain)
    };
    names.filter(is_name).map(str::to_owned).collect()
}

fn below(dir: &Path, extension: &str, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            below(&path, extension, found);
        } else if path.extension().is_some_and(|of| of == extension) {
            found.push(path);
        }
    }
}

/// What the Makefile would run for all its targets, and what it runs whenever it is read.
fn recipes() -> String {
    let mut text = String::new();
    let mut targets = Vec::new();
    for file in ["Makefile", "packaging/packages.mk"] {
        let makefile = fs::read_to_string(Path::new(TOP).join(file)).unwrap();
        let phony = makefile
            .lines()
            .filter_map(|line| line.strip_prefix(".PHONY:"));
        targets.extend(phony.flat_map(str::split_whitespace).map(str::to_owned));
        for call in makefile.split("$(shell ").skip(1) {
            text.extend(call.split_whitespace().next());
            text.push('\n');
        }
    }
    targets.retain(|target| !target.contains('$'));
    assert!(targets.len() > 15, "{targets:?}");
    let mut make = Command::new("make");
    for inherited in ["MAKEFLAGS", "MFLAGS", "MAKELEVEL", "CARGO"] {
        make.env_remove(inherited);
    }
    // What is built once is not there.
    make.args([
        "--no-print-directory",
        "-C",
        TOP,
        "-n",
        "TOOLS=/nonexistent",
    ])
    .args(targets);
    text + &said(&mut make)
}

/// The sections of the spec that are shell, with what its macros are here.
fn scriptlets(more: &[&str]) -> String {
    let place = tempfile::tempdir().unwrap();
    let spec = place.path().join("kube-rebootd.spec");
    fs::copy(Path::new(TOP).join("rpm.spec"), &spec).unwrap();
    let text = said(Command::new("rpmspec").arg("-P").args(more).arg(spec));
    let mut shell = false;
    let mut lines = Vec::new();
    for line in text.lines() {
        if let Some(section) = line.strip_prefix('%') {
            let name = section.split_whitespace().next().unwrap_or_default();
            let of_shell = [
                "prep", "build", "install", "check", "post", "preun", "postun",
            ];
            // %setup and its like stand within a section.
            shell = of_shell.contains(&name) || (shell && ["setup", "autosetup"].contains(&name));
        } else if shell {
            lines.push(line);
        }
    }
    assert!(lines.len() > 20, "{text}");
    lines.join("\n")
}

/// All that is called, and where.
fn called() -> Called {
    let mut called = Called::new();
    let mut note = |names: BTreeSet<String>, place: &str| {
        for name in names {
            called.entry(name).or_insert_with(|| place.to_owned());
        }
    };
    let mut files = Vec::new();
    for dir in ["testbed", "tests", "xtask"] {
        below(&Path::new(TOP).join(dir), "rs", &mut files);
    }
    assert!(files.len() > 50, "{files:?}");
    for file in files.iter().filter(|file| !file.ends_with(file!())) {
        note(
            in_rust(&fs::read_to_string(file).unwrap()),
            &file.display().to_string(),
        );
    }
    note(commands(&recipes()), "the Makefile");
    note(commands(&scriptlets(&[])), "rpm.spec");
    let prebuilt = ["--with", "prebuilt", "--define", "prebuilt /x"];
    note(commands(&scriptlets(&prebuilt)), "rpm.spec --with prebuilt");
    for file in [
        "PKGBUILD",
        "packaging/pacman/kube-rebootd.install",
        "packaging/pacman/kube-rebootd",
        "packaging/linux-crates.sh",
        "packaging/deb/postinst",
        "packaging/deb/prerm",
        "packaging/deb/postrm",
    ] {
        let text = fs::read_to_string(Path::new(TOP).join(file)).unwrap();
        note(commands(&text), file);
    }
    called
}

#[test]
fn every_program_that_is_called_is_installed_by_make_prepare_or_is_everywhere() {
    let called = called();
    for known in ["rpmbuild", "makepkg", "mmdebstrap", "ip", "mandoc", "zstd"] {
        let found = called.contains_key(known);
        assert!(found, "{known} is called, and was not found: {called:?}");
    }
    let everywhere: BTreeSet<&str> = EVERYWHERE
        .into_iter()
        .flat_map(|(_, names)| names)
        .copied()
        .collect();
    let prepared: BTreeSet<&str> = testbed::prepared().collect();
    let missing = called.iter().filter(|(name, _)| {
        !everywhere.contains(name.as_str()) && !prepared.contains(name.as_str())
    });
    let missing: Vec<String> = missing
        .map(|(name, place)| format!("{name} ({place})"))
        .collect();
    let unused: Vec<&&str> = everywhere
        .iter()
        .filter(|name| !called.contains_key(**name))
        .collect();
    assert!(
        missing.is_empty() && unused.is_empty(),
        "called, and not in the list PROGRAMS of testbed/src/tools.rs: {}; \
         in EVERYWHERE, and called by nothing: {unused:?}",
        missing.join(", ")
    );
}

#[test]
fn a_call_in_rust_is_seen_however_it_is_wrapped() {
    let text = "Command::new(\n    \"nft\",\n) shell::run(\"ip\", &[]) Command::new(&own) Command::new(\"/bin/x\")";
    let found: Vec<String> = in_rust(text).into_iter().collect();
    assert_eq!(found, ["ip", "nft"]);
}
