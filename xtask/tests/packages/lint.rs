//! What rpmlint, lintian and systemd-analyze find: no error, and no warning but those in warnings.txt.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use xtask::TOP;

use crate::built::{DEB, RPM, STAGE, said};

const LISTED: &str = include_str!("warnings.txt");
const CONFIG: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/packages/rpmlint.toml");
/// The exposure that the hardening must reach, in tenths.
const EXPOSURE: &str = "--threshold=27";

/// The tags that warnings.txt has for this tool.
fn listed(tool: &str) -> BTreeSet<&'static str> {
    let lines = LISTED
        .lines()
        .filter(|line| !line.starts_with('#') && !line.is_empty());
    lines
        .filter_map(|line| {
            let (head, reason) = line.split_once(": ").unwrap_or_else(|| panic!("{line}"));
            assert!(!reason.is_empty(), "{line}");
            let (of, tag) = head.split_once(' ').unwrap();
            (of == tool).then_some(tag)
        })
        .collect()
}

#[track_caller]
fn compare(tool: &str, found: &BTreeSet<&str>, output: &str) {
    assert_eq!(
        *found,
        listed(tool),
        "found and listed for {tool}; it said:\n{output}"
    );
}

#[test]
fn rpmlint_finds_no_error() {
    let mut rpmlint = Command::new("rpmlint");
    rpmlint
        .args(["--config", CONFIG, &RPM.get().one()])
        .arg(RPM.get().spec());
    let output = said(&mut rpmlint);
    assert!(output.contains(" 0 errors, "), "{output}");
    let tags = output.lines().filter_map(|line| line.split_once(": W: "));
    let tags = tags.filter_map(|(_, rest)| rest.split_whitespace().next());
    compare("rpmlint", &tags.collect(), &output);
}

#[test]
fn lintian_finds_no_error() {
    let mut lintian = Command::new("lintian");
    lintian.args(["--allow-root", "--fail-on", "error", &DEB.get().one()]);
    let output = said(&mut lintian);
    let tags = output.lines().filter(|line| line.starts_with("W: "));
    let tags = tags.filter_map(|line| line.split_whitespace().nth(2));
    compare("lintian", &tags.collect(), &output);
}

#[test]
fn systemd_analyze_verifies_the_units() {
    // It looks whether the programs are there: ours is where it was staged.
    let staged = STAGE.get().join("usr/bin/kube-rebootd");
    let place = tempfile::tempdir().unwrap();
    for name in ["kube-rebootd.service", "kube-rebootd-boot-ok.service"] {
        let unit = STAGE.get().join("usr/lib/systemd/system").join(name);
        let text = fs::read_to_string(unit).unwrap();
        let unit = place.path().join(name);
        let text = text.replace("/usr/bin/kube-rebootd", staged.to_str().unwrap());
        fs::write(&unit, text).unwrap();
        let mut verify = Command::new("systemd-analyze");
        verify.args(["verify", "--man=no"]).arg(&unit);
        let out = verify.output().unwrap();
        let said = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.success() && said.is_empty(), "{name}: {said}");
    }
}

/// It reads less than the daemon, and writes nothing.
#[test]
fn the_boot_check_is_hardened_as_the_daemon_is() {
    let unit = format!("{TOP}/systemd/kube-rebootd-boot-ok.service");
    let mut analyze = Command::new("systemd-analyze");
    let offline = ["security", "--offline=yes", "--no-pager", EXPOSURE];
    said(analyze.args(offline).arg(&unit));
}

#[test]
fn systemd_analyze_finds_the_unit_hardened_but_for_what_is_listed() {
    let unit = format!("{TOP}/systemd/kube-rebootd.service");
    let security = |more: &str| {
        let mut analyze = Command::new("systemd-analyze");
        analyze.args([
            "security",
            "--offline=yes",
            "--no-pager",
            EXPOSURE,
            more,
            &unit,
        ]);
        said(&mut analyze)
    };
    let table: serde_json::Value = serde_json::from_str(&security("--json=short")).unwrap();
    let open = table
        .as_array()
        .unwrap()
        .iter()
        .filter(|row| row["set"] == false);
    let open = open.map(|row| row["json_field"].as_str().unwrap());
    compare(
        "systemd-analyze",
        &open.collect(),
        &security("--json=pretty"),
    );
}
