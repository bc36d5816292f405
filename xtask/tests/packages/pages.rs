//! What is checked in below packaging/ is what the code makes, and reads well.

use std::collections::BTreeSet;
use std::path::Path;

use clap::CommandFactory as _;
use kube_rebootd::cli::Cli;
use kube_rebootd::cluster::credentials;
use kube_rebootd::root::Root;
use xtask::TOP;

use crate::built::content;

#[test]
fn what_follows_from_the_code_is_checked_in() {
    for (name, text) in xtask::written().unwrap() {
        let there = std::fs::read_to_string(Path::new(TOP).join("packaging").join(name))
            .unwrap_or_default();
        let differs = there.lines().zip(text.lines()).find(|(a, b)| a != b);
        assert!(
            there == text,
            "packaging/{name} is not what the code makes now ({differs:?}): run `make packaging`"
        );
    }
}

#[test]
fn mandoc_finds_no_fault_in_the_pages() {
    for page in ["man/kube-rebootd.8", "man/kube-rebootd.toml.5"] {
        content(
            "mandoc",
            &[
                "-T",
                "lint",
                "-W",
                "warning",
                &format!("{TOP}/packaging/{page}"),
            ],
        );
    }
}

#[test]
fn the_page_names_every_command_path_and_exit_code() {
    let page = content(
        "mandoc",
        &[
            "-T",
            "utf8",
            "-O",
            "width=1000",
            &format!("{TOP}/packaging/man/kube-rebootd.8"),
        ],
    );
    // Bold is each letter struck twice.
    let page: String = {
        let chars: Vec<char> = page.chars().collect();
        let struck = |at: usize| chars.get(at + 1) == Some(&'\u{8}') || chars[at] == '\u{8}';
        (0..chars.len())
            .filter(|at| !struck(*at))
            .map(|at| chars[at])
            .collect()
    };
    let mut command = Cli::command();
    command.build();
    for verb in command
        .get_subcommands()
        .filter(|verb| verb.get_name() != "help")
    {
        assert!(
            page.contains(&format!("\n   {}", verb.get_name())),
            "{page}"
        );
    }
    let empty = tempfile::tempdir().unwrap();
    let searched = credentials::find(&Root::at(empty.path()), None, &[]).unwrap_err();
    assert!(!searched.is_empty());
    for path in searched {
        let path = path.path.display().to_string();
        assert!(page.contains(&path), "{path} is not in the page");
    }
    for code in [0, 1, 2, 3, 4, 75, 78] {
        assert!(page.contains(&format!("\n       {code} ")), "{code}");
    }
}

#[test]
fn shells_understand_the_completions() {
    content(
        "bash",
        &[
            "-n",
            &format!("{TOP}/packaging/completions/kube-rebootd.bash"),
        ],
    );
    content(
        "zsh",
        &["-n", &format!("{TOP}/packaging/completions/_kube-rebootd")],
    );
    content(
        "fish",
        &[
            "-n",
            &format!("{TOP}/packaging/completions/kube-rebootd.fish"),
        ],
    );
}

#[test]
fn bash_and_fish_complete_every_verb() {
    let script = format!(
        "source {TOP}/packaging/completions/kube-rebootd.bash
        COMP_WORDS=(kube-rebootd '') COMP_CWORD=1
        called=$(complete -p kube-rebootd | sed 's/.* -F \\([^ ]*\\) .*/\\1/')
        $called kube-rebootd '' kube-rebootd; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    );
    let bash = content("bash", &["-c", &script]);
    let script = format!(
        "source {TOP}/packaging/completions/kube-rebootd.fish; complete -C 'kube-rebootd '"
    );
    let fish = content("fish", &["--no-config", "-c", &script]);
    for said in [bash, fish] {
        let offered: BTreeSet<&str> = said
            .lines()
            .filter_map(|l| l.split_whitespace().next())
            .collect();
        for verb in Cli::command().get_subcommands() {
            assert!(
                offered.contains(verb.get_name()),
                "{}: {said}",
                verb.get_name()
            );
        }
    }
}

#[test]
fn the_page_about_updaters_says_what_the_examples_say() {
    let page = include_str!("../../../docs/updaters.md");
    let mut settings = 0;
    for entry in std::fs::read_dir(format!("{TOP}/packaging/examples")).unwrap() {
        let file = entry.unwrap().path();
        if file.is_dir() {
            continue;
        }
        let name = file.file_name().unwrap().to_str().unwrap();
        let text = std::fs::read_to_string(&file).unwrap();
        let comment = |line: &&str| line.starts_with('#') || line.starts_with("//");
        for line in text.lines().filter(|l| !l.is_empty() && !comment(l)) {
            settings += 1;
            assert!(page.contains(&format!("\n    {line}\n")), "{name}: {line}");
        }
    }
    assert!(settings >= 10, "{settings}");
}
