//! What values come to: groups, checks, layers of files (I8, I12).

use super::*;
use crate::config::{Check, Config, Group};

fn config(text: &str) -> Config {
    parse(Path::new(FILE), text).unwrap().config
}

fn check(keys: &str) -> Check {
    let text = format!("[[triggers.check]]\nname = \"x\"\n{keys}");
    config(&text).triggers.checks.remove(0)
}

#[test]
fn a_node_is_of_the_group_that_its_label_names() {
    let labelled = "group_label = \"topology.kubernetes.io/zone\"";
    for (keys, zone, group) in [
        (labelled, Some("a"), "a"),
        (labelled, Some(""), "own"),
        (labelled, None, "own"),
        ("", Some("a"), "own"),
    ] {
        let coordination =
            config(&format!("[coordination]\ngroup = \"own\"\n{keys}\n")).coordination;
        let label = |value: &str| ("topology.kubernetes.io/zone".to_owned(), value.to_owned());
        let labels = zone.map(label).into_iter().collect();
        assert_eq!(coordination.group_of(&labels), group, "{keys} {zone:?}");
        assert_eq!(coordination.group.as_str(), "own");
    }
    assert_eq!(Group::new("a b"), None);
}

/// dnf's own errors are 1, too.
#[test]
fn i8_a_code_needs_the_presets_words_where_its_own_command_runs() {
    let required = Some("Reboot is required");
    for (keys, words) in [
        ("preset = \"needs-restarting\"", required),
        ("preset = \"needs-restarting-dnf5\"", required),
        (
            "preset = \"needs-restarting\"\ncommand = [\"/bin/x\"]",
            None,
        ),
        ("preset = \"zypper\"", None),
        ("preset = \"needrestart\"", None),
        ("preset = \"kured\"\ncommand = [\"/bin/x\"]", None),
        ("command = [\"/bin/x\"]\nreboot_exit_codes = [1]", None),
    ] {
        assert_eq!(check(keys).words(), words, "{keys}");
    }
}

#[test]
fn i8_one_code_is_ok_where_none_is_given() {
    for (reboot, ok) in [("[0]", 1), ("[1]", 0), ("[2, 3]", 0), ("[0, 2]", 1)] {
        let keys = format!("command = [\"/bin/x\"]\nreboot_exit_codes = {reboot}");
        assert_eq!(check(&keys).ok_exit_codes, [ok], "{reboot}");
    }
}

#[test]
fn a_drain_may_stall_for_all_its_time() {
    let policy = config("[drain]\nstall = \"30m\"\n").drain.policy;
    assert_eq!(policy.stall, policy.timeout);
}

/// Reasons outlive a release.
#[test]
fn built_in_checks_are_called_the_same_in_every_release() {
    for (name, builtin) in Builtin::WORDS {
        assert_eq!(builtin.name(), *name);
        assert_eq!(builtin.trigger(), format!("builtin {name}"));
    }
}

fn laid(lower: &str, upper: &str) -> Result<Effective, ConfigError> {
    let texts = [("/lower", lower), ("/upper", upper)];
    let texts = texts.map(|(file, text)| (PathBuf::from(file), text.to_owned()));
    merged(&texts, Vec::new(), zone)
}

#[test]
fn i12_a_later_file_replaces_keys_and_whole_checks() {
    let lower = "[drain]\nparallelism = 5\njobs = \"wait\"\n\
        [[triggers.check]]\nname = \"a\"\npreset = \"zypper\"\nsettle = \"1h\"\n\
        [[triggers.check]]\nname = \"b\"\npreset = \"zypper\"\n";
    let upper = "[drain]\nparallelism = 6\n\
        [[triggers.check]]\nname = \"c\"\npreset = \"zypper\"\n\
        [[triggers.check]]\nname = \"a\"\npreset = \"needrestart\"\n";
    let config = laid(lower, upper).unwrap().config;
    assert_eq!(config.drain.policy.parallelism, 6);
    assert_eq!(config.drain.policy.jobs, crate::drain::Jobs::Wait);
    let checks = config.triggers.checks.iter();
    let checks: Vec<_> = checks.map(|it| (&*it.name, &*it.command[0])).collect();
    assert_eq!(
        checks,
        [("a", "needrestart"), ("b", "zypper"), ("c", "zypper")]
    );
    let settle = config.triggers.checks[0].settle;
    assert_eq!(settle, check("preset = \"zypper\"").settle);
}

/// A check whose name is no name replaces none, or its problems would hide those of another.
#[test]
fn i12_each_file_has_its_own_problems() {
    for name in ["", "name = \"\"\n", "name = \"a b\"\n"] {
        let check = format!("[[triggers.check]]\n{name}period = 5\n");
        let problems = laid(&check, &check).unwrap_err().problems;
        let files: Vec<_> = problems
            .iter()
            .map(|it| it.file.to_str().unwrap())
            .collect();
        assert_eq!(
            files,
            ["/lower", "/lower", "/upper", "/upper"],
            "{problems:?}"
        );
    }
}

/// Somebody may write the secret where its file belongs, or miss a quote.
#[test]
fn i12_no_problem_repeats_what_may_be_a_secret() {
    const SECRET: &str = "xoxb-hush-17";
    let of_table = |table: Table| {
        let secret = table.entries.into_iter().filter(|entry| entry.secret);
        secret.map(move |entry| (table.section.name, entry.name))
    };
    let keys: Vec<_> = reference().into_iter().flat_map(of_table).collect();
    assert_eq!(
        keys,
        [
            ("gates.prometheus", "url"),
            ("gates.prometheus", "alertmanager"),
            ("gates.prometheus", "token_file"),
            ("gates.prometheus", "username"),
            ("gates.prometheus", "password_file"),
            ("notify", "webhook"),
            ("notify", "webhook_file"),
            ("notify", "token_file"),
            ("notify", "command"),
            ("notify", "alertmanager"),
            ("notify", "alertmanager_token_file")
        ]
    );
    for (section, key) in keys {
        for value in [
            &format!("\"{SECRET}\""),
            &format!("\"https://u:{SECRET}@h.example/\""),
            &format!("\"https://h.example/ {SECRET}\""),
            &format!("[[\"{SECRET}\"]]"),
            &format!("[\"/bin/tell\", \"{SECRET}\\u0000\"]"),
            &format!("{{ a = \"{SECRET}\" }}"),
            // No TOML.
            SECRET,
            &format!("https://h.example/{SECRET}"),
            &format!("\"{SECRET}"),
            &format!("'''{SECRET}"),
            &format!("\"a\" {SECRET}"),
            &format!("\"\\{SECRET}\""),
            &format!("\"a\"\n{key} = \"{SECRET}\""),
        ] {
            let text = format!("[{section}]\n{key} = {value}\n");
            let said = parse(Path::new(FILE), &text).unwrap_err().to_string();
            assert!(!said.contains("hush"), "{text}: {said}");
        }
    }
    let said = parse(
        Path::new(FILE),
        "[notify]\nwebhook = \"x\"\nwebhook_file = \"\\n\"\n",
    );
    let said = said.unwrap_err().to_string();
    assert!(
        said.contains("webhook: is not allowed; write a URL like"),
        "{said}"
    );
    assert!(
        said.contains("webhook_file: is not allowed; write an absolute path"),
        "{said}"
    );
}

/// Their names tell them apart: a drop-in replaces one, and adds what has none.
#[test]
fn i12_windows_are_laid_over_each_other_by_name() {
    let text = |path: &str, text: &str| (PathBuf::from(path), text.to_owned());
    let window = |name: &str, start: &str| format!("[[windows]]\n{name}start = \"{start}\"\n");
    let texts = [
        text(
            "/a",
            &(window("name = \"nights\"\n", "20:00") + &window("", "21:00")),
        ),
        text(
            "/b",
            &(window("name = \"nights\"\n", "22:00") + &window("", "23:00")),
        ),
    ];
    let windows = merged(&texts, Vec::new(), zone)
        .unwrap()
        .config
        .gates
        .windows;
    let names: Vec<_> = (windows.each.iter())
        .map(|window| (window.name.as_str(), window.start.to_string()))
        .collect();
    let wanted = [("nights", "22:00"), ("2", "21:00"), ("3", "23:00")];
    assert_eq!(names, wanted.map(|(name, start)| (name, start.to_owned())));
    let twice = merged(
        &[text(
            "/a",
            &(window("name = \"2\"\n", "20:00") + &window("", "21:00")),
        )],
        Vec::new(),
        zone,
    );
    let problems = twice.unwrap_err().lines();
    assert_eq!(
        problems,
        ["/a:4: windows.name: \"2\" is another table's; give this one a name"]
    );
}

#[test]
fn i12_a_window_in_which_nothing_can_ever_fit_is_refused() {
    for (text, fits) in [
        ("[[windows]]\nend = \"00:45\"\n", true),
        ("[[windows]]\nend = \"00:44\"\n", false),
        (
            "[drain]\ntimeout = \"10m\"\n[[windows]]\nend = \"00:25\"\n",
            true,
        ),
        (
            "[drain]\nmode = \"never\"\n[[windows]]\nend = \"00:15\"\n",
            true,
        ),
        (
            "[reboot]\ndelay = \"1h\"\n[[windows]]\nend = \"01:44\"\n",
            false,
        ),
        // Two that are one.
        (
            "[[windows]]\nstart = \"23:30\"\n[[windows]]\nend = \"00:15\"\n",
            true,
        ),
    ] {
        assert_eq!(parse(Path::new(FILE), text).is_ok(), fits, "{text}");
    }
    let found = parse(
        Path::new(FILE),
        "[[windows]]\nend = \"20:00\"\n[[windows]]\nstart = \"22:00\"\nend = \"22:30\"",
    );
    let wanted = format!(
        "{FILE}:5: windows.end: makes a window that is never as long as drain.timeout, the longer of drain.cordon_only and drain.load_balancer_wait, reboot.delay and health.timeout together \
         (45m); make it longer, or one of those shorter"
    );
    assert_eq!(found.unwrap_err().lines(), [wanted]);
}

/// Found by reading: such a configuration was valid, and no reboot ever began.
#[test]
fn i12_dates_that_leave_nothing_of_a_window_are_refused() {
    let read = |text: &str| parse(Path::new(FILE), text);
    let lines = |text: &str| -> Vec<String> { read(text).unwrap_err().lines() };
    let dates = "[gates]\nexclude_dates = [\"01-01..12-31\"]\n";
    let begin = format!("{FILE}:2: gates.exclude_dates: leaves in no year an opening of window");
    let rest = "that is as long as a drain and a boot may take (45m): no reboot would ever begin there; take dates away";
    assert_eq!(lines(dates), [format!("{begin} \"always\" {rest}")]);
    let window = "[[windows]]\nname = \"nights\"\nstart = \"23:00\"\nend = \"01:00\"\n";
    assert_eq!(
        lines(&format!("{dates}{window}")),
        [format!("{begin} \"nights\" {rest}, or that window")]
    );
    // One day is left, and an hour of it.
    let one = dates.replace("12-31", "12-30");
    assert!(read(&format!("{one}{window}")).is_ok());
    let longer = format!("{one}{window}[health]\ntimeout = \"31m\"\n");
    assert!(lines(&longer)[0].contains("gates.exclude_dates"));
    // What these years leave out passes: whoever checks a configuration is told, by his clock, and the daemon takes it.
    let years = read(&dates.replace("01-01..12-31", "2026-01-01..2035-12-31")).unwrap();
    let at = |text: &str| text.parse::<Timestamp>().unwrap();
    let refused = years.opens(at("2027-05-05T00:00:00Z")).unwrap_err();
    let wanted = format!(
        "{FILE}:2: gates.exclude_dates: leaves out each day on which a window would open within the next two years: no reboot \
         begins before; take dates away"
    );
    assert_eq!(refused.lines(), [wanted]);
    for open in ["2025-05-05T00:00:00Z", "2034-05-05T00:00:00Z"] {
        assert_eq!(years.opens(at(open)), Ok(()), "{open}");
    }
}
