//! What a release is made from: the crates that `make dist` packs, and what `make deny` asks about them.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use xtask::TOP;

use crate::built::said;

/// `NAME-VERSION` of the first crate of this name in Cargo.lock.
fn locked(name: &str) -> String {
    let lock = include_str!("../../../Cargo.lock");
    let (_, rest) = lock
        .split_once(&format!("name = \"{name}\"\nversion = \""))
        .unwrap_or_else(|| panic!("{name} is not in Cargo.lock"));
    format!("{name}-{}", rest.split('"').next().unwrap())
}

/// A crate as `cargo vendor` leaves it.
fn vendored(vendor: &Path, name: &str) {
    let place = vendor.join(locked(name));
    fs::create_dir_all(place.join("src")).unwrap();
    fs::write(place.join("Cargo.toml"), "[package]\n").unwrap();
    fs::write(place.join("src/lib.rs"), "pub fn code() {}\n").unwrap();
    let sums = "{\"files\":{\"src/lib.rs\":\"00\"},\"package\":\"11\"}";
    fs::write(place.join(".cargo-checksum.json"), sums).unwrap();
}

#[test]
fn the_tarball_of_crates_has_the_code_of_what_linux_wants_alone() {
    let place = tempfile::tempdir().unwrap();
    let (wanted, others) = (
        ["rustls", "ring", "serde_derive", "proptest"],
        // Another system's, the test bed's, and those that write the manual.
        [
            "windows-sys",
            "uds_windows",
            "kube-runtime",
            "rcgen",
            "clap_mangen",
        ],
    );
    for name in wanted.iter().chain(&others) {
        vendored(place.path(), name);
    }
    let script = Path::new(TOP).join("packaging/linux-crates.sh");
    said(
        Command::new("sh")
            .current_dir(TOP)
            .arg(script)
            .arg(place.path()),
    );
    let read = |name: &str, file: &str| {
        fs::read_to_string(place.path().join(locked(name)).join(file)).unwrap()
    };
    for name in wanted {
        assert_ne!(read(name, "src/lib.rs"), "", "{name}");
        assert!(
            read(name, ".cargo-checksum.json").contains("src/lib.rs"),
            "{name}"
        );
    }
    for name in others {
        assert_eq!(read(name, "src/lib.rs"), "", "{name}");
        // cargo compares each file that is listed, and the crate's own sum with Cargo.lock.
        assert_eq!(
            read(name, ".cargo-checksum.json"),
            "{\"files\":{},\"package\":\"11\"}",
            "{name}"
        );
        assert_eq!(read(name, "Cargo.toml"), "[package]\n", "{name}");
    }
}

/// `make deny` with a cargo-deny that does as the shell text says; whether it succeeded, and what it said.
fn deny(cargo_deny: &str) -> (bool, String) {
    let place = tempfile::tempdir().unwrap();
    let program = place.path().join("bin/cargo-deny");
    fs::create_dir(place.path().join("bin")).unwrap();
    fs::write(
        &program,
        format!("#!/bin/sh\necho \"called: $*\"\n{cargo_deny}\n"),
    )
    .unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let mut make = Command::new("make");
    make.env("CARGO_HOME", place.path()).env_remove("MAKEFLAGS");
    let tools = format!("TOOLS={}", place.path().display());
    let out = make.args(["-C", TOP, "deny", &tools]).output().unwrap();
    let said = [out.stdout, out.stderr].concat();
    (out.status.success(), String::from_utf8(said).unwrap())
}

#[test]
fn deny_checks_advisories_where_the_database_can_be_had_and_says_where_it_cannot() {
    let words = "ADVISORIES WERE NOT CHECKED";
    let fetched = "case \"$*\" in *'fetch db'*) mkdir -p $CARGO_HOME/advisory-dbs/db/crates ;;";
    let checked = "check --disable-fetch advisories";
    // No network and no copy: what can be checked is, and what was not is said.
    let (well, said) = deny("case \"$*\" in *'fetch db'*) exit 1 ;; esac");
    assert!(
        well && said.contains(words) && !said.contains(checked),
        "{said}"
    );
    assert!(said.contains("check bans licenses sources"), "{said}");
    // With it.
    let (well, said) = deny(&format!("{fetched} esac"));
    assert!(
        well && said.contains(checked) && !said.contains(words),
        "{said}"
    );
    // A copy of another day is better than none.
    let (well, said) = deny(&format!(
        "{fetched} esac; case \"$*\" in *'fetch db'*) exit 1 ;; esac"
    ));
    assert!(
        well && said.contains(checked) && !said.contains(words),
        "{said}"
    );
    assert!(said.contains("cannot be fetched"), "{said}");
    // A hole, and a licence, is a failure.
    for bad in ["advisories", "licenses"] {
        let (well, said) = deny(&format!("{fetched} *{bad}*) exit 1 ;; esac"));
        assert!(!well, "{said}");
    }
}
