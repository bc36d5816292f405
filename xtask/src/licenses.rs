//! The licences of what is linked into the binary, with their texts: most want to be handed on with it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

/// Where the packages run; what other systems link is not in them.
const PLATFORMS: [&str; 2] = ["x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"];
/// How crates name the files that hold licences and notices.
const FILES: [&str; 5] = ["licen", "copying", "copyright", "notice", "unlicense"];

/// One crate of the binary.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Crate {
    name: String,
    version: String,
    /// An SPDX expression.
    license: String,
    directory: PathBuf,
}

/// Those linked into the binary, by name: neither ours nor build scripts nor procedural macros, and with the features
/// that the binary is built with.
pub(crate) fn crates() -> Result<Vec<Crate>> {
    let linked = linked()?;
    let mut all = BTreeSet::new();
    for platform in PLATFORMS {
        let known = metadata(platform)?;
        for package in known["packages"].as_array().into_iter().flatten() {
            let name = (text(&package["name"]), text(&package["version"]));
            if linked.contains(&name) {
                all.insert(read(package)?);
            }
        }
    }
    if all.len() != linked.len() {
        bail!(
            "cargo tree names {} crates, cargo metadata knows {} of them",
            linked.len(),
            all.len()
        );
    }
    Ok(all.into_iter().collect())
}

/// The licence of the binary as one SPDX expression, ours first.
fn aggregate(crates: &[Crate]) -> String {
    let ours = alternatives(env!("CARGO_PKG_LICENSE"));
    let all: BTreeSet<String> = crates
        .iter()
        .flat_map(|c| c.license.split(" AND ").map(alternatives))
        .filter(|one| *one != ours)
        .collect();
    let all: Vec<String> = [ours].into_iter().chain(all).collect();
    all.join(" AND ")
}

/// One term of a conjunction, its alternatives in one order so that the same is written once.
fn alternatives(term: &str) -> String {
    let term = term.trim_matches(['(', ')']);
    let all: BTreeSet<&str> = term.split(" OR ").collect();
    let text = all.iter().copied().collect::<Vec<_>>().join(" OR ");
    if all.len() > 1 {
        format!("({text})")
    } else {
        text
    }
}

/// The list, then each text once with the crates that bring it.
pub(crate) fn list(crates: &[Crate]) -> Result<String> {
    let mut out = format!(
        "The binary kube-rebootd is licensed\n{}.\n\n\
         The crates that are linked into it, each with its licence; the texts follow.\n\n",
        aggregate(crates)
    );
    // By its words: the same text is indented and wrapped in many ways.
    let mut texts: BTreeMap<String, (BTreeSet<String>, String)> = BTreeMap::new();
    for c in crates {
        writeln!(out, "{} {}: {}", c.name, c.version, c.license)?;
        for text in texts_of(&c.directory)? {
            let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
            let (names, _) = texts
                .entry(words)
                .or_insert_with(|| (BTreeSet::new(), text));
            names.insert(c.name.clone());
        }
    }
    let mut texts: Vec<_> = texts.into_values().collect();
    texts.sort();
    for (names, text) in texts {
        let names: Vec<String> = names.into_iter().collect();
        let rule = "-".repeat(80);
        writeln!(out, "\n{rule}\n{}\n{rule}\n\n{text}", names.join(", "))?;
    }
    Ok(out)
}

/// What cargo prints.
fn cargo(args: &[&str]) -> Result<Vec<u8>> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let out = Command::new(cargo)
        .current_dir(super::TOP)
        .args(args)
        .output()?;
    if !out.status.success() {
        bail!("cargo {args:?}: {}", String::from_utf8_lossy(&out.stderr));
    }
    Ok(out.stdout)
}

fn metadata(platform: &str) -> Result<Value> {
    let args = ["metadata", "--locked", "--format-version", "1"];
    let out = cargo(&[&args[..], &["--filter-platform", platform]].concat())?;
    Ok(serde_json::from_slice(&out)?)
}

/// Names and versions of what the daemon's package is built from. `cargo metadata` does not tell: in its graph the
/// features of all members of the workspace are on, and so is what these bring for the test bed.
fn linked() -> Result<BTreeSet<(String, String)>> {
    let mut args = vec!["tree", "--locked", "--package", "kube-rebootd"];
    args.extend([
        "--edges",
        "normal,no-proc-macro",
        "--prefix",
        "none",
        "--format",
        "{p}",
    ]);
    args.extend(PLATFORMS.iter().flat_map(|platform| ["--target", platform]));
    let out = String::from_utf8(cargo(&args)?)?;
    let mut found = BTreeSet::new();
    // Ours are paths.
    let theirs = |line: &&str| !line.is_empty() && !line.contains(" (/");
    for line in out.lines().filter(theirs) {
        let (name, rest) = line
            .split_once(" v")
            .with_context(|| format!("cargo tree says {line:?}"))?;
        let version = rest.split(' ').next().unwrap_or_default();
        found.insert((name.to_owned(), version.to_owned()));
    }
    Ok(found)
}

fn read(package: &Value) -> Result<Crate> {
    let name = text(&package["name"]);
    let license = package["license"].as_str();
    let license = license.with_context(|| format!("{name} names no licence"))?;
    let manifest = PathBuf::from(text(&package["manifest_path"]));
    Ok(Crate {
        version: text(&package["version"]),
        // The old way to write it.
        license: license.replace('/', " OR "),
        directory: manifest.parent().unwrap_or(Path::new("/")).to_owned(),
        name,
    })
}

fn texts_of(directory: &Path) -> Result<Vec<String>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().to_lowercase();
        if entry.file_type()?.is_file() && FILES.iter().any(|part| name.starts_with(part)) {
            files.push(entry.path());
        }
    }
    files.sort();
    let read = |file: PathBuf| -> Result<String> {
        let text = String::from_utf8_lossy(&fs::read(file)?).replace('\r', "");
        let lines = text.trim_matches('\n').lines();
        Ok(lines.map(str::trim_end).collect::<Vec<_>>().join("\n"))
    };
    files.into_iter().map(read).collect()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
