//! kube-rebootd(8): commands and options from the command line's definition, the rest from rest.roff.

use anyhow::{Result, bail};
use clap::{Arg, Command};
use clap_mangen::Man;
use clap_mangen::roff::{Inline, Roff, bold, italic, roman};

/// What no definition knows, with two places: for options and commands, and for the messages.
const REST: &str = include_str!("rest.roff");
/// When rest.roff or the command line last changed its meaning.
const DATE: &str = "2026-11-21";
/// `MESSAGE_ID`s and their subjects; src/host/journal/message.rs keeps it true.
const CATALOG: &str = include_str!("../../packaging/kube-rebootd.catalog");

/// The page in roff.
pub(crate) fn page(mut command: Command) -> Result<String> {
    command.build();
    let parts: Vec<&str> = REST.split(".\\\" HERE\n").collect();
    let [before, middle, after] = parts[..] else {
        bail!("rest.roff does not name two places");
    };
    let mut text = Vec::new();
    let version = format!("kube-rebootd {}", env!("CARGO_PKG_VERSION"));
    let man = Man::new(command.clone())
        .section("8")
        .date(DATE)
        .source(version)
        .manual("System Administration");
    man.render_title(&mut text)?;
    man.render_name_section(&mut text)?;
    text.extend_from_slice(before.as_bytes());
    man.render_options_section(&mut text)?;
    let mut verbs = Roff::new();
    verbs.control("SH", ["COMMANDS"]);
    for verb in own(&command) {
        explain(&mut verbs, verb);
    }
    verbs.to_writer(&mut text)?;
    Ok(format!(
        "{}{middle}{}{after}",
        String::from_utf8(text)?,
        messages()
    ))
}

/// All but clap's own `help`.
fn own(command: &Command) -> impl Iterator<Item = &Command> {
    command
        .get_subcommands()
        .filter(|verb| verb.get_name() != "help")
}

/// One verb with its arguments, or those below it.
fn explain(roff: &mut Roff, verb: &Command) {
    if verb.has_subcommands() {
        for below in own(verb) {
            explain(roff, below);
        }
        return;
    }
    let path = verb.get_bin_name().unwrap_or(verb.get_name());
    let path = path.strip_prefix("kube-rebootd ").unwrap_or(path);
    roff.control("SS", []);
    let mut head = vec![bold(path)];
    for arg in arguments(verb) {
        head.push(roman(" "));
        head.extend(synopsis(arg));
    }
    roff.text(head);
    if let Some(about) = verb.get_long_about().or(verb.get_about()) {
        roff.text([roman(sentence(&about.to_string()))]);
    }
    for arg in arguments(verb) {
        roff.control("TP", []);
        roff.text(name(arg));
        let help = arg.get_long_help().or(arg.get_help());
        let mut help = help
            .map(|help| sentence(&help.to_string()))
            .unwrap_or_default();
        if let Some(value) = arg.get_default_values().first().and_then(|v| v.to_str())
            && arg.get_action().takes_values()
        {
            help = format!("{help} Default: {value}.");
        }
        roff.text([roman(help)]);
    }
}

/// Those of the verb alone: the global ones have their own section.
fn arguments(verb: &Command) -> impl Iterator<Item = &Arg> {
    verb.get_arguments()
        .filter(|arg| !arg.is_global_set() && arg.get_id() != "help" && arg.get_id() != "version")
}

/// As in a usage line.
fn synopsis(arg: &Arg) -> Vec<Inline> {
    if arg.is_required_set() {
        return name(arg);
    }
    let mut text = vec![roman("[")];
    text.extend(name(arg));
    text.push(roman("]"));
    text
}

/// `--option VALUE`, or the value alone.
fn name(arg: &Arg) -> Vec<Inline> {
    let mut text = Vec::new();
    if let Some(long) = arg.get_long() {
        text.push(bold(format!("--{long}")));
    }
    if arg.get_action().takes_values() {
        if !text.is_empty() {
            text.push(roman(" "));
        }
        let names = arg.get_value_names().unwrap_or_default();
        let value = names
            .first()
            .map_or(arg.get_id().as_str(), |name| name.as_str());
        text.push(italic(value.to_uppercase()));
        if arg
            .get_num_args()
            .is_some_and(|range| range.max_values() > 1)
        {
            text.push(roman("..."));
        }
    }
    text
}

/// clap drops the full stop of a doc comment.
fn sentence(text: &str) -> String {
    let text = text.trim();
    if text.ends_with(['.', ']']) {
        text.to_owned()
    } else {
        format!("{text}.")
    }
}

/// The catalog's ids and subjects, a line each.
fn messages() -> String {
    let entries = CATALOG.split("\n-- ").skip(1);
    let lines = entries.filter_map(|entry| {
        let subject = entry
            .lines()
            .find_map(|line| line.strip_prefix("Subject: "))?;
        Some(format!("{}  {subject}\n", entry.lines().next()?))
    });
    lines.collect()
}
