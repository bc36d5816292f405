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

/// Those linked into the binary, by name: neither ours nor build scripts nor procedural macros.
pub(crate) fn crates() -> Result<Vec<Crate>> {
    let mut all = BTreeSet::new();
    for platform in PLATFORMS {
        all.extend(linked(&metadata(platform)?)?);
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

fn metadata(platform: &str) -> Result<Value> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let out = Command::new(cargo)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .args(["metadata", "--locked", "--format-version", "1"])
        .args(["--filter-platform", platform])
        .output()?;
    if !out.status.success() {
        bail!("cargo metadata: {}", String::from_utf8_lossy(&out.stderr));
    }
    Ok(serde_json::from_slice(&out.stdout)?)
}

/// What the graph's normal edges reach from the root.
fn linked(metadata: &Value) -> Result<BTreeSet<Crate>> {
    let by_id = |list: &Value| -> BTreeMap<String, Value> {
        let items = list.as_array().into_iter().flatten();
        items
            .map(|item| (text(&item["id"]), item.clone()))
            .collect()
    };
    let packages = by_id(&metadata["packages"]);
    let nodes = by_id(&metadata["resolve"]["nodes"]);
    let root = text(&metadata["resolve"]["root"]);
    let (mut found, mut seen, mut next) = (BTreeSet::new(), BTreeSet::new(), vec![root.clone()]);
    while let Some(id) = next.pop() {
        if !seen.insert(id.clone()) {
            continue;
        }
        let package = packages
            .get(&id)
            .with_context(|| format!("no package {id}"))?;
        if is_macro(package) {
            continue;
        }
        if id != root {
            found.insert(read(package)?);
        }
        for dep in nodes[&id]["deps"].as_array().into_iter().flatten() {
            let kinds = dep["dep_kinds"].as_array().into_iter().flatten();
            // `null` is a normal dependency.
            if kinds.into_iter().any(|kind| kind["kind"].is_null()) {
                next.push(text(&dep["pkg"]));
            }
        }
    }
    Ok(found)
}

fn is_macro(package: &Value) -> bool {
    let targets = package["targets"].as_array().into_iter().flatten();
    targets
        .flat_map(|target| target["kind"].as_array().into_iter().flatten())
        .any(|kind| kind == "proc-macro")
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
