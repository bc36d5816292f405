//! Documents name what exists: pages, tests that prove a fact, and sections that code refers to.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn top() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every Rust file below `dir`.
fn sources(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut dirs = vec![dir.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(&dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                dirs.push(path);
            } else if path.extension().is_some_and(|end| end == "rs") {
                found.push(path);
            }
        }
    }
    found
}

/// The modules that lead to the file, as a test's name has them: `real::volumes`.
fn module(file: &Path, root: &Path) -> String {
    let path = file.strip_prefix(root).unwrap().with_extension("");
    let parts = path.iter().map(|part| part.to_str().unwrap());
    let parts: Vec<&str> = parts.filter(|part| *part != "mod").collect();
    parts.join("::")
}

/// The code spans of a text.
fn code(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// The names of the functions that follow `#[test]`, or another attribute for tests.
fn tests_of(text: &str) -> impl Iterator<Item = &str> {
    let mut marked = false;
    text.lines().filter_map(move |line| {
        let line = line.trim_start();
        marked |= line.starts_with("#[test]") || line.starts_with("#[tokio::test");
        let name = line
            .split_once("fn ")
            .filter(|_| marked)?
            .1
            .split_once('(')?
            .0;
        marked = false;
        Some(name)
    })
}

/// Every test of the project by its full name, and every module of tests.
fn tests() -> BTreeSet<String> {
    let mut tests = BTreeSet::new();
    for root in ["src", "core/src", "outdated/src", "tests/it"].map(|dir| top().join(dir)) {
        for file in sources(&root) {
            let module = module(&file, &root);
            let text = fs::read_to_string(&file).unwrap();
            let names = tests_of(&text).map(|name| format!("{module}::{name}"));
            for name in names {
                let parts = name.match_indices("::").map(|(end, _)| &name[..end]);
                tests.extend(parts.map(str::to_owned));
                tests.insert(name);
            }
        }
    }
    tests
}

#[test]
fn each_test_that_a_page_names_exists() {
    let tests = tests();
    for (page, least) in [("design.md", 15), ("reliability.md", 15)] {
        let text = fs::read_to_string(top().join("docs").join(page)).unwrap();
        let named = code(&text).filter(|span| span.contains("::"));
        let named: Vec<&str> = named.map(|span| span.trim_end_matches("::")).collect();
        assert!(named.len() >= least, "{page}: {named:?}");
        for name in named {
            assert!(
                tests.contains(name),
                "docs/{page} names {name}, which is no test"
            );
        }
    }
}

/// Code says what the API server, the kubelet and systemd do, and names the test that shows it.
#[test]
fn each_test_that_a_comment_names_exists() {
    let tests = tests();
    let roots = fs::read_dir(top().join("tests/it")).unwrap();
    let roots = roots.map(|entry| entry.unwrap().path());
    let roots: BTreeSet<String> = roots
        .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    let mut seen = 0;
    for root in ["src", "core/src", "outdated/src"].map(|dir| top().join(dir)) {
        for file in sources(&root) {
            let text = fs::read_to_string(&file).unwrap();
            let comments = text
                .lines()
                .filter(|line| line.trim_start().starts_with("//"));
            for name in comments.flat_map(code) {
                let module = name.split("::").next().unwrap_or_default();
                // Others are the daemon's own names, as `host::journal`.
                if !roots.contains(module) || module == name && !module.contains('_') {
                    continue;
                }
                let known = tests.contains(name);
                assert!(known, "{}: {name} is no test", file.display());
                seen += 1;
            }
        }
    }
    assert!(seen > 25, "{seen}");
}

#[test]
fn each_section_that_code_refers_to_exists() {
    let design = fs::read_to_string(top().join("docs/design.md")).unwrap();
    let sections = design.lines().filter_map(|line| line.strip_prefix("## "));
    let sections: BTreeSet<&str> = sections
        .filter_map(|line| Some(line.split_once('.')?.0))
        .collect();
    let mut seen = 0;
    for root in ["src", "core", "outdated", "tests", "xtask"].map(|dir| top().join(dir)) {
        for file in sources(&root) {
            let text = fs::read_to_string(&file).unwrap();
            for rest in text.split("docs/design.md ").skip(1) {
                let number: String = rest.chars().take_while(char::is_ascii_digit).collect();
                if number.is_empty() {
                    continue;
                }
                let known = sections.contains(number.as_str());
                assert!(
                    known,
                    "{}: no section {number} in docs/design.md",
                    file.display()
                );
                seen += 1;
            }
        }
    }
    assert!(seen > 20, "{seen}");
}

/// Where the links of a text lead.
fn links(text: &str) -> impl Iterator<Item = &str> {
    let ends = text.split("](").skip(1);
    ends.filter_map(|rest| rest.split_once(')').map(|(target, _)| target))
}

/// A heading leads there, as GitHub and mdBook make the name from its words.
fn has(page: &str, section: &str) -> bool {
    let name = |heading: &str| {
        let words = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = words.replace(' ', "-");
        kept.replace(|one: char| !(one.is_alphanumeric() || one == '-'), "")
    };
    page.lines()
        .filter(|line| line.starts_with('#'))
        .any(|line| name(line) == section)
}

#[test]
fn each_page_that_a_document_links_to_exists() {
    let pages = fs::read_dir(top().join("docs")).unwrap();
    let pages = pages.map(|entry| entry.unwrap().path());
    let pages: Vec<PathBuf> = pages
        .filter(|path| path.extension().is_some_and(|end| end == "md"))
        .collect();
    let tops = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"].map(|name| top().join(name));
    let mut seen = 0;
    for page in pages.iter().chain(&tops) {
        let text = fs::read_to_string(page).unwrap();
        for link in links(&text).filter(|link| !link.contains("://")) {
            let (file, section) = link.split_once('#').unwrap_or((link, ""));
            let file = page.parent().unwrap().join(file);
            let target = if link.starts_with('#') { page } else { &file };
            assert!(target.exists(), "{}: no {link}", page.display());
            let there = section.is_empty() || has(&fs::read_to_string(target).unwrap(), section);
            assert!(there, "{}: no {link}", page.display());
            seen += 1;
        }
    }
    assert!(seen > 20, "{seen}");
    // Each page is in the book.
    let book = fs::read_to_string(top().join("docs/SUMMARY.md")).unwrap();
    for page in pages {
        let name = page.file_name().unwrap().to_str().unwrap();
        assert!(
            name == "SUMMARY.md" || links(&book).any(|link| link == name),
            "{name}"
        );
    }
}
