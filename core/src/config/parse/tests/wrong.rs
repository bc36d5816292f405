//! Each wrong value of each key: file, line, key, reason and what to write (I12).

use super::*;

/// A check that is sound but for the key under test.
pub(super) fn around(section: &str, line: &str) -> (String, usize) {
    if section.is_empty() {
        return (format!("# a comment\n{line}\n"), 2);
    }
    if section == "windows" {
        return (format!("[[windows]]\n{line}\n"), 2);
    }
    if section == "gates.command" {
        return command(line);
    }
    if section == "drain.order" {
        let name = if line.starts_with("name") {
            "# none"
        } else {
            "name = \"db\""
        };
        return (format!("[[drain.order]]\n{name}\n{line}\n"), 3);
    }
    if section == "drain.escalate" {
        return escalation(line);
    }
    if section == "gates.prometheus" {
        let url = "url = \"http://127.0.0.1:9090\"";
        let begin = if line.starts_with("url") {
            "# none"
        } else {
            url
        };
        return (format!("[[gates.prometheus]]\n{begin}\n{line}\n"), 3);
    }
    if section != "triggers.check" {
        return (format!("# a comment\n[{section}]\n{line}\n"), 3);
    }
    let mut text = String::from("[[triggers.check]]\n");
    for (key, sound) in [
        ("name", "name = \"kernel\""),
        ("command", "command = [\"/bin/x\"]"),
        ("reboot_exit_codes", "reboot_exit_codes = [1]"),
    ] {
        if !line.starts_with(key) {
            text += sound;
            text.push('\n');
        }
    }
    let at = text.lines().count() + 1;
    (text + line + "\n", at)
}

/// A command of the gate that is sound but for the key under test.
fn command(line: &str) -> (String, usize) {
    let mut text = String::from("[[gates.command]]\n");
    for (key, sound) in [
        ("name", "name = \"ceph\"\n"),
        ("command", "command = [\"/bin/x\"]\n"),
    ] {
        if !line.starts_with(key) {
            text += sound;
        }
    }
    let at = text.lines().count() + 1;
    (text + line + "\n", at)
}

/// An escalation that is sound but for the key under test.
fn escalation(line: &str) -> (String, usize) {
    let mut text = String::from("[[drain.escalate]]\n");
    for (key, sound) in [
        ("name", "name = \"cache\"\n"),
        ("pods", "pods = [\"app=cache\"]\n"),
        ("grace", "grace = \"10s\"\n"),
    ] {
        if !line.starts_with(key) {
            text += sound;
        }
    }
    let at = text.lines().count() + 1;
    (text + line + "\n", at)
}

/// Section and name of every key.
pub(super) fn every_name() -> Vec<(&'static str, &'static str)> {
    let tables = reference().into_iter();
    let names = tables.flat_map(|table| {
        let entries = table.entries.into_iter();
        entries.map(move |entry| (table.section.name, entry.name))
    });
    names.collect()
}

const LONG: &str = "\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"";

/// Table, key, values that are each wrong in one way. The first is of the wrong type.
#[rustfmt::skip]
pub(super) const WRONG: &[(&str, &str, &[&str])] = &[
    ("", "mode", &["true", "\"off\""]),
    ("node", "kubeconfig", &["1", "\"relative\""]),
    ("node", "context", &["true"]),
    ("node", "name", &["[]", "\"Upper\"", "\"a..b\""]),
    ("coordination", "namespace", &["1", "\"\"", "\"a.b\"", "\"-a\"", LONG]),
    ("coordination", "group", &["1", "\"\"", "\"a b\"", "\"-a\"", LONG]),
    ("coordination", "group_label", &["1", "\"a b\"", "\"/x\""]),
    ("coordination", "impersonate", &["false", "\"a:b\""]),
    ("coordination", "kubeconfig", &["1", "\"x\""]),
    ("coordination", "prove_node", &["\"yes\""]),
    ("coordination", "max_unavailable", &["true", "0", "-1", "0.5", "\"5\"", "\"0%\"", "\"101%\"", "\"+5%\"", "\"%\"", "99999999999"]),
    ("coordination", "count_cordoned", &["\"yes\"", "1"]),
    ("coordination", "min_interval", &["60", "\"-1s\"", "\"9000h\""]),
    ("coordination", "stale_after", &["30", "\"0s\"", "\"9000h\""]),
    ("coordination", "autoscaler_protect", &["15", "true", "\"25h\""]),
    ("triggers", "sentinels", &["\"/run/x\"", "[1]", "[\"run/x\"]", "[\"/x\\u0000\"]"]),
    ("triggers", "node_annotation", &["\"yes\"", "1"]),
    ("triggers", "update_engine", &["1", "\"true\""]),
    ("triggers", "rebootmgr", &["1", "\"true\""]),
    ("triggers", "scheduled_shutdown", &["\"cancel\"", "true"]),
    ("triggers", "period", &["5", "\"5\"", "\"0s\"", "\"25h\"", "\"-1m\""]),
    ("triggers", "settle", &["0", "\"10\"", "\"30 parsecs\"", "\"9000h\""]),
    ("triggers", "builtin", &["\"kernel\"", "[1]", "[\"kernels\"]", "[\"kernel\", \"kernel\"]"]),
    ("triggers", "builtin_settle", &["0", "\"9000h\""]),
    ("triggers", "check", &["1", "{}", "[1]", "[{}]", "[{name = 1}]"]),
    ("triggers.check", "name", &["1", "\"\"", "\"a b\"", LONG]),
    ("triggers.check", "preset", &["1", "\"apt\""]),
    ("triggers.check", "command", &["\"/bin/x\"", "[]", "[1]", "[\"\"]", "[\"a\\u0000\"]"]),
    ("triggers.check", "reboot_exit_codes", &["1", "[]", "[256]", "[-1]", "[\"1\"]"]),
    ("triggers.check", "ok_exit_codes", &["0", "[1]", "[256]", "[0.5]"]),
    ("triggers.check", "period", &["60", "\"9s\"", "\"9000h\""]),
    ("triggers.check", "timeout", &["60", "\"0s\"", "\"1h\""]),
    ("triggers.check", "settle", &["60", "\"-1s\""]),
    ("", "windows", &["1", "{}", "[1]", "\"nights\""]),
    ("windows", "name", &["1", "\"\"", "\"a b\"", LONG]),
    ("windows", "days", &["\"mon\"", "[1]", "[\"moon\"]", "[\"sixth monday\"]", "[\"32\"]"]),
    ("windows", "start", &["22", "\"25:00\"", "\"22\"", "\"24:00\"", "\"23:30\""]),
    ("windows", "end", &["5", "\"24:01\"", "\"00:00\"", "\"00:10\"", "05:00:00"]),
    ("windows", "time_zone", &["1", "\"\"", "\"Mars/Phobos\"", "\"../../etc/passwd\"", "\"/etc\""]),
    ("drain", "mode", &["1", "\"sometimes\""]),
    ("drain", "timeout", &["30", "\"30 parsecs\"", "\"0s\"", "2020-01-01"]),
    ("drain", "stall", &["30", "\"0s\"", "\"31m\""]),
    ("drain", "on_timeout", &["1", "\"force\""]),
    ("drain", "cordon_only", &["5", "\"-1s\"", "\"25h\""]),
    ("drain", "load_balancer_wait", &["30", "\"-1s\"", "\"25h\""]),
    ("drain", "parallelism", &["\"25\"", "0", "501", "-1", "99999999999999999999"]),
    ("drain", "unmanaged", &["1", "\"delete\""]),
    ("drain", "jobs", &["true", "\"leave\""]),
    ("drain", "empty_dir", &["1", "\"leave\""]),
    ("drain", "volumes_timeout", &["2", "\"25h\""]),
    ("drain", "skip", &["\"a=b\"", "[1]", "[\"a b\"]", "[\"\"]"]),
    ("drain", "pod_timeout_max", &["5", "\"-1s\"", "\"61m\"", "\"25h\""]),
    ("drain", "order", &["1", "{}", "[1]", "\"db\"", "[{name = 1}]"]),
    ("drain.order", "name", &["1", "\"\"", "\"a b\"", LONG]),
    ("drain.order", "pods", &["\"app=db\"", "[1]", "[\"\"]", "[\": app=db\"]"]),
    ("drain.order", "priority", &["\"high\"", "-1", "1000000001"]),
    ("drain.order", "wait", &["5", "\"0s\"", "\"10m\"", "\"9000h\""]),
    ("drain", "escalate", &["1", "{}", "[1]", "\"cache\"", "[{name = 1}]"]),
    ("drain.escalate", "name", &["1", "\"\"", "\"a b\"", LONG]),
    ("drain.escalate", "pods", &["\"app=db\"", "[]", "[1]", "[\"\"]", "[\": app=db\"]"]),
    ("drain.escalate", "after", &["5", "\"0s\"", "\"10m\"", "\"9000h\""]),
    ("drain.escalate", "grace", &["30", "\"0s\"", "\"500ms\"", "\"25h\""]),
    ("drain.escalate", "action", &["1", "\"force\""]),
    ("reboot", "kind", &["1", "\"kexec\"", "\"soft\"", "\"halt\"", "true"]),
    ("reboot", "method", &["1", "\"systemctl\"", "\"command\""]),
    ("reboot", "command", &["\"reboot\"", "[\"/sbin/reboot\"]", "[1]"]),
    ("reboot", "delay", &["0", "\"25h\""]),
    ("reboot", "timeout", &["0", "\"0s\"", "\"25h\""]),
    ("reboot", "max_per_day", &["\"2\"", "0", "101"]),
    ("reboot", "retry", &["300", "\"0s\"", "\"7h\""]),
    ("reboot", "guard", &["1", "\"yes\""]),
    ("reboot", "message", &["1", "\"a\\u0000\""]),
    ("health", "timeout", &["1", "\"0s\""]),
    ("health", "allow_degraded", &["\"true\""]),
    ("health", "boot_complete", &["0"]),
    ("health", "ready_for", &["1", "\"15m\""]),
    ("health", "pods", &["1"]),
    ("gates", "min_uptime", &["1", "\"1 fortnight\"", "{}"]),
    ("gates", "exclude_dates", &["\"12-24\"", "[1]", "[\"24.12.\"]", "[\"2026-02-30\"]", "[2026-12-24]", "[\"01-01..12-31\"]"]),
    ("gates", "window_close", &["1", "\"wait\""]),
    ("gates", "window_overrun", &["30", "\"9000h\""]),
    ("gates", "other_reboot_daemons", &["1", "true", "\"warn\""]),
    ("hooks", "timeout", &["1", "\"0s\"", "\"11m\"", "\"soon\""]),
    ("gates", "capacity_wait", &["15", "true", "\"9000h\""]),
    ("gates", "live_patch_wait", &["14", "true", "\"9000h\""]),
    ("gates", "api_servers", &["\"https://a\"", "[1]", "[\"a\"]", "[\"http://a:6443\"]", "[\"https://a:6443/x\"]", "[\"https://u:p@a\"]", "[\"https://a:0\"]", "[\"https://a:65536\"]", "[\"https://[::1\"]", "[\"https://A B\"]"]),
    ("gates", "unsynchronized_clock", &["1", "true", "\"warn\""]),
    ("gates", "conditions", &["\"KernelDeadlock\"", "[1]", "[\"\"]", "[\"A=yes\"]", "[\"a b\"]", "[\"RebootRequired\"]", "[\"Drained=False\"]"]),
    ("gates", "blocking_pods", &["\"app=db\"", "[1]", "[\"\"]", "[\"a b\"]", "[\"Shop: app=db\"]", "[\": app=db\"]", "[\"shop: a b\"]"]),
    ("gates", "honour_annotations", &["\"yes\"", "1"]),
    ("gates", "command", &["1", "{}", "[1]", "[\"/bin/x\"]", "[{name = 1}]"]),
    ("gates.command", "name", &["1", "\"\"", "\"a b\"", LONG]),
    ("gates.command", "command", &["\"/bin/x\"", "[]", "[1]", "[\"\"]", "[\"a\\u0000\"]"]),
    ("gates.command", "timeout", &["60", "\"0s\"", "\"3m\""]),
    ("gates.command", "period", &["60", "\"9s\"", "\"25h\""]),
    ("gates", "users", &["1", "true", "\"wait\""]),
    ("gates", "users_idle", &["60", "\"59s\"", "\"9000h\""]),
    ("gates", "force_after", &["14", "\"400d\"", "\"-1d\"", "\"14d\""]),
    ("gates", "force", &["\"windows\"", "[1]", "[\"inhibitors\"]", "[\"windows\", \"windows\"]", "[\"windows\"]"]),
    ("gates", "users_delay", &["5", "\"9000h\""]),
    ("gates", "prometheus", &["1", "{}", "[1]", "\"http://a\""]),
    ("gates.prometheus", "name", &["1", "\"\"", "\"a b\"", LONG]),
    ("gates.prometheus", "url", &["1", "\"\"", "\"x\"", "\"ftp://a/\"", "\"https://u:p@a/\""]),
    ("gates.prometheus", "alerts", &["1", "[\"a\"]", "\"a(\"", "\"(?=a)\"", "\"(a{1000}){1000}\""]),
    ("gates.prometheus", "ignore", &["1", "\"[\""]),
    ("gates.prometheus", "matchers", &["\"a=b\"", "[1]", "[\"a\"]", "[\"\"]", "[\"a=~\\\"(\\\"\"]"]),
    ("gates.prometheus", "pending", &["1", "\"yes\""]),
    ("gates.prometheus", "query", &["1", "\"a\\nb\"", "[\"up\"]"]),
    ("gates.prometheus", "alertmanager", &["1", "\"x\"", "\"https://u:p@a/\""]),
    ("gates.prometheus", "ca", &["1", "\"x\"", "\"/etc/ca.pem\""]),
    ("gates.prometheus", "token_file", &["1", "\"x\""]),
    ("gates.prometheus", "username", &["1", "\"a:b\"", "\"a\""]),
    ("gates.prometheus", "password_file", &["1", "\"x\"", "\"/etc/password\""]),
    ("gates.prometheus", "timeout", &["10", "\"0s\"", "\"31s\""]),
    ("gates.prometheus", "on_error", &["1", "\"ignore\""]),
    ("notify", "webhook", &["1", "\"x\"", "\"ftp://a/\"", "\"https://\"", "\"https://a b/\"", "\"https://u:p@a/\""]),
    ("notify", "webhook_file", &["1", "\"x\""]),
    ("notify", "token_file", &["1", "\"x\"", "\"/etc/token\""]),
    ("notify", "template", &["1", "\"irc\""]),
    ("notify", "command", &["\"a\"", "[1]", "[\"\"]"]),
    ("notify", "on", &["\"required\"", "[\"reboot\"]", "[\"failed\", \"failed\"]"]),
    ("notify", "timeout", &["1", "\"0s\"", "\"6m\""]),
    ("notify", "motd", &["1", "\"true\""]),
    ("notify", "alertmanager", &["1", "\"x\"", "\"https://u:p@a/\""]),
    ("notify", "alertmanager_token_file", &["1", "\"x\"", "\"/etc/token\""]),
    ("notify", "silence", &["1", "[1]", "[\"node\"]", "[\"a=b\"]", "[\"a!={node}\"]", "[\"a=~{node}.*\"]"]),
    ("notify", "silence_for", &["1", "\"2m\"", "\"7h\""]),
    ("fleet_lock", "listen", &["3333", "\"0.0.0.0:3333\"", "\"192.0.2.1:3333\"", "\"[::]:3333\"", "\"localhost:3333\"", "\"unix:x\""]),
    ("fleet_lock", "user", &["1", "\"\"", "\"a:b\""]),
    ("fleet_lock", "id", &["1", "\"a\\nb\""]),
    ("fleet_lock", "group", &["1", "\"\"", "\"a b\"", "\"a/b\""]),
    ("fleet_lock", "reboot_within", &["1", "\"59s\"", "\"25h\""]),
    ("metrics", "listen", &["9797", "\"localhost:9797\"", "\":9797\"", "\"unix:x\"", "\"127.0.0.1:0\""]),
    ("metrics", "textfile", &["1", "\"x.prom\"", "\"/x\"", "\"/.prom\""]),
];

pub(super) fn dotted(section: &str, key: &str) -> String {
    format!("{section}.{key}")
        .trim_start_matches('.')
        .to_owned()
}

#[test]
fn i12_each_wrong_value_is_one_line_with_file_line_and_key() {
    for (section, key, values) in WRONG {
        for value in *values {
            let (text, line) = around(section, &format!("{key} = {value}"));
            let found = problems(&text);
            // `check = [{..}]` is blamed on the name within it.
            let expected = format!("{FILE}:{line}: {}", dotted(section, key));
            assert_eq!(found.len(), 1, "{text}\n{found:#?}");
            assert!(found[0].starts_with(&expected), "{text}\n{found:#?}");
        }
    }
}

#[test]
fn i12_each_key_has_wrong_values_in_the_table() {
    let mut all = every_name();
    all.extend([
        ("triggers", "check"),
        ("drain", "order"),
        ("drain", "escalate"),
        ("gates", "command"),
        ("gates", "prometheus"),
        ("", "windows"),
    ]);
    for (section, key) in &all {
        let there = WRONG.iter().any(|(s, k, _)| s == section && k == key);
        assert!(there, "{section}.{key}");
    }
    assert_eq!(all.len(), WRONG.len());
}
