mod any;
mod rows;

use serde_json::{Value, json};

use super::*;
use crate::config::{Config, Method, Mode};

/// As kured-ds.yaml and the Helm chart have it.
fn manifest(args: &[&str]) -> Value {
    json!({"kind": "DaemonSet", "metadata": {"name": "kured", "namespace": "kube-system"}, "spec": {"template": {"spec": {
        "volumes": [{"name": "sentinel", "hostPath": {"path": "/var/run", "type": "Directory"}}],
        "containers": [{"name": "kured", "image": "ghcr.io/kubereboot/kured:1.23.0", "command": ["/usr/bin/kured"], "args": args,
            "volumeMounts": [{"name": "sentinel", "mountPath": "/sentinel", "readOnly": true}],
            "env": [{"name": "KURED_NODE_ID", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}]}]}}}})
}

fn of(object: Value) -> Migration {
    let found = Found::of(&[object]);
    let migration = kured(&found.kured[0], "kube-rebootd");
    if let Err(error) = migration.check() {
        panic!("{error}\n{}", migration.config);
    }
    for line in migration.config.lines() {
        // One word may be longer.
        assert!(
            line.chars().count() <= 100 || !line.starts_with('#') || line.matches(' ').count() < 5,
            "{line}"
        );
    }
    migration
}

fn migrated(args: &[&str]) -> Migration {
    of(manifest(args))
}

/// What it is read as.
fn config(migration: &Migration) -> Config {
    let file = Path::new("migrated").to_owned();
    let zone = |_: &str| Some(TimeZone::UTC);
    merged(&[(file, migration.config.clone())], Vec::new(), zone)
        .expect("valid")
        .config
}

/// Without the lines of comments.
fn keys(migration: &Migration) -> String {
    let lines = migration
        .config
        .lines()
        .filter(|line| !line.starts_with('#') && !line.is_empty());
    lines.collect::<Vec<_>>().join("\n")
}

/// The comments, each paragraph in one line.
fn comments(migration: &Migration) -> String {
    migration.config.replace("\n#   ", " ").replace("\n# ", " ")
}

#[test]
fn a_kured_without_flags_needs_no_key() {
    let plain = migrated(&["--reboot-sentinel=/sentinel/reboot-required"]);
    assert_eq!(keys(&plain), "");
    assert_eq!(config(&plain), Config::default());
    assert_eq!((plain.odd.len(), plain.todo.len()), (0, 0));
    for words in [
        "--reboot-sentinel=/var/run/reboot-required --period=1h",
        "--reboot-days=su,mo,tu,we,th,fr,sa --start-time=0:00",
        "--lock-ttl=0",
        "--drain-timeout=0",
    ] {
        assert!(
            comments(&plain).contains(words),
            "{words}: {}",
            plain.config
        );
    }
    // What the chart always writes changes nothing, but that metrics are told.
    let chart = migrated(&[
        "--ds-name=kured",
        "--ds-namespace=kube-system",
        "--metrics-port=8080",
        "--reboot-sentinel=/sentinel/reboot-required",
        "--reboot-command=/bin/systemctl reboot",
        "--log-format=text",
        "--concurrency=1",
    ]);
    assert_eq!(chart, plain);
}

#[test]
fn what_is_not_understood_makes_a_configuration_that_only_observes() {
    for (args, wanted) in [
        (&["--block-on-moon"][..], "--block-on-moon is no flag"),
        (&["--drain-timeout=30"], "no duration"),
        (
            &["--start-time=25:00"],
            "--start-time=25:00 is no time of day",
        ),
        (&["--end-time=x"], "--end-time=x is no time of day"),
        (
            &["--reboot-days=payday"],
            "names a day that kured does not know",
        ),
        (&["--reboot-days="], "names no day"),
        (
            &["--start-time=1:00", "--end-time=1:00"],
            "leave no minute between them",
        ),
        (&["--start-time=1:00", "--end-time=1:01"], "too short"),
        (
            &["--start-time=1:00", "--end-time=3:00", "--reboot-delay=3h"],
            "too short",
        ),
        (
            &["--start-time=1:00", "--time-zone=Berlin Time"],
            "no name of a time zone",
        ),
        (&["--reboot-method=magic"], "neither command nor signal"),
        (&["--reboot-command='"], "is no command"),
        (&["--reboot-command="], "is no command"),
        (&["--reboot-sentinel-command=\""], "is no command"),
        // As kured-ds.yaml has it in its comments: the shell that would take the quotes away is not there.
        (&["--reboot-sentinel-command=\"\""], "is no command"),
        (&["--reboot-sentinel-command=a \0"], "is no command"),
        (&["--reboot-command=a\0"], "is no command"),
        (&["--reboot-sentinel=/a\0"], "no absolute path"),
        (&["--reboot-sentinel=run"], "no absolute path"),
        (&["--blocking-pod-selector=a>1"], "cannot be used here"),
        (&["--drain-pod-selector=a b"], "cannot be used here"),
        (&["--prometheus-url=p:9090"], "no plain URL"),
        (&["--prometheus-url=http://p/?token=hush"], "no plain URL"),
        (
            &[
                "--prometheus-url=http://p.example",
                "--alert-filter-regexp=a{",
            ],
            "no regular expression",
        ),
    ] {
        let migration = migrated(args);
        assert!(
            migration.odd.iter().any(|odd| odd.contains(wanted)),
            "{args:?}: {:?}",
            migration.odd
        );
        assert_eq!(config(&migration).mode, Mode::Observe, "{args:?}");
        assert!(!migration.config.contains("hush"));
        assert!(
            comments(&migration).contains("Not understood:"),
            "{}",
            migration.config
        );
    }
}

#[test]
fn a_window_in_which_a_drain_and_a_boot_never_fit_shortens_both() {
    let migration = migrated(&["--start-time=2:00", "--end-time=2:30", "--reboot-delay=2m"]);
    let read = config(&migration);
    assert_eq!(
        keys(&migration),
        "[drain]\ntimeout = \"14m\"\nstall = \"14m\"\n[reboot]\ndelay = \"2m\"\n[health]\ntimeout = \"14m\"\n\
         [[windows]]\nname = \"kured\"\nstart = \"02:00\"\nend = \"02:30\"\ntime_zone = \"UTC\""
    );
    assert_eq!(read.mode, Mode::Active);
    let migration = migrated(&["--start-time=2:00", "--end-time=4:00", "--drain-timeout=6h"]);
    assert!(
        keys(&migration)
            .starts_with("[drain]\ntimeout = \"1h 45m\"\nstall = \"1h 45m\"\n[[windows]]")
    );
    assert!(
        comments(&migration).contains("--drain-timeout=6h Shorter than otherwise"),
        "{}",
        migration.config
    );
}

#[test]
fn a_night_on_some_days_is_two_windows_and_a_part_that_is_too_short_is_left_out() {
    let migration = migrated(&[
        "--reboot-days=mon,wed",
        "--start-time=22:00",
        "--end-time=5:00",
        "--time-zone=Local",
    ]);
    assert_eq!(
        keys(&migration),
        "[[windows]]\nname = \"kured\"\ndays = [\"mon\", \"wed\"]\nstart = \"22:00\"\nend = \"24:00\"\ntime_zone = \"UTC\"\n\
         [[windows]]\nname = \"kured-2\"\ndays = [\"mon\", \"wed\"]\nstart = \"00:00\"\nend = \"05:00\"\ntime_zone = \"UTC\""
    );
    assert!(comments(&migration).contains("\"Local\" is the zone of its container"));
    let migration = migrated(&["--reboot-days=mon", "--start-time=23:30", "--end-time=5:00"]);
    assert_eq!(
        keys(&migration),
        "[[windows]]\nname = \"kured\"\ndays = [\"mon\"]\nstart = \"00:00\"\nend = \"05:00\"\ntime_zone = \"UTC\""
    );
    assert!(
        migration.todo[0].contains("is left out"),
        "{:?}",
        migration.todo
    );
    let migration = migrated(&["--start-time=22:00", "--end-time=5:00"]);
    assert!(keys(&migration).contains("start = \"22:00\"\nend = \"05:00\""));
}

#[test]
fn local_is_the_zone_of_the_container() {
    let zoned = |env: Value, mount: bool| {
        let mut object = manifest(&["--time-zone=Local", "--start-time=1:00"]);
        let pod = &mut object["spec"]["template"]["spec"];
        pod["containers"][0]["env"] = json!([env]);
        if mount {
            pod["volumes"] = json!([{"name": "time", "hostPath": {"path": "/etc/localtime"}}]);
            pod["containers"][0]["volumeMounts"] =
                json!([{"name": "time", "mountPath": "/etc/localtime"}]);
        }
        of(object)
    };
    let berlin = json!({"name": "TZ", "value": "Europe/Berlin"});
    assert!(keys(&zoned(berlin, false)).contains("time_zone = \"Europe/Berlin\""));
    let none = json!({"name": "A", "value": "b"});
    assert_eq!(config(&zoned(none, true)).mode, Mode::Observe);
}

#[test]
fn dnf_behind_a_negation_is_its_preset() {
    for command in [
        "sh -c \"! needs-restarting --reboothint\"",
        "/bin/bash -c '! /usr/bin/needs-restarting -r'",
        "sh -c '! dnf needs-restarting -r'",
    ] {
        let migration = migrated(&[&format!("--reboot-sentinel-command={command}")]);
        assert!(
            keys(&migration).ends_with("name = \"kured\"\npreset = \"needs-restarting\""),
            "{}",
            keys(&migration)
        );
    }
    let migration = migrated(&["--reboot-sentinel-command=sh -c '! needs-restarting'"]);
    assert!(keys(&migration).contains("preset = \"kured\""));
}

#[test]
fn systemctl_reboot_is_logind_wherever_it_is() {
    for command in ["systemctl reboot", "/usr/bin/systemctl reboot"] {
        let migration = migrated(&[&format!("--reboot-command={command}")]);
        assert_eq!(keys(&migration), "", "{command}");
    }
    let migration = migrated(&["--reboot-command=systemctl kexec"]);
    let Method::Command(command) = config(&migration).reboot.method else {
        panic!("{}", migration.config);
    };
    assert_eq!(command, ["systemctl", "kexec"]);
}

#[test]
fn a_prometheus_that_only_pods_find_is_told() {
    for (url, told) in [
        ("http://prometheus.monitoring.svc.cluster.local", true),
        ("http://prometheus.monitoring.svc:9090", true),
        ("http://prometheus:9090", true),
        ("http://localhost:9090", false),
        ("http://10.0.0.1:9090", false),
        ("http://[fd00::1]:9090", false),
        ("https://prometheus.example.com/api", false),
    ] {
        let migration = migrated(&[&format!("--prometheus-url={url}")]);
        assert_eq!(
            migration.todo.len() == 1,
            told,
            "{url}: {:?}",
            migration.todo
        );
        assert_eq!(config(&migration).gates.prometheus[0].url, url);
    }
}

#[test]
fn whoever_is_told_gets_the_template_of_the_service() {
    for (url, wanted) in [
        ("slack://hook:A-B-C@webhook", "slack"),
        ("\"slack://hook:A-B-C@webhook\"", "slack"),
        ("mattermost://me@host/token", "slack"),
        ("teams://group@tenant/a/b?host=x", "teams"),
        ("generic+https://host/path", "json"),
        ("generic://host/path", "json"),
    ] {
        let migration = migrated(&[&format!("--notify-url={url}")]);
        assert!(
            keys(&migration).ends_with(&format!("template = \"{wanted}\"")),
            "{url}"
        );
        assert_eq!(migration.todo.len(), 1, "{url}");
    }
    let migration = migrated(&["--notify-url=smtp://me:hush@host"]);
    assert_eq!(keys(&migration), "");
    assert!(
        comments(&migration).contains("Write a notify.command")
            && !migration.config.contains("hush")
    );
    // kured prefers the newer flag.
    let both = migrated(&["--notify-url=discord://a@b", "--slack-hook-url=https://h"]);
    assert!(keys(&both).contains("template = \"discord\""));
    assert_eq!(keys(&migrated(&["--notify-url="])), "");
}

#[test]
fn metrics_are_served_on_the_host_only_where_they_were() {
    let mut object = manifest(&["--metrics-port=9000"]);
    object["spec"]["template"]["spec"]["hostNetwork"] = true.into();
    assert_eq!(
        keys(&of(object.clone())),
        "[metrics]\nlisten = \"0.0.0.0:9000\""
    );
    object["spec"]["template"]["spec"]["containers"][0]["args"] = json!(["--metrics-host=::1"]);
    assert_eq!(
        keys(&of(object.clone())),
        "[metrics]\nlisten = \"[::1]:8080\""
    );
    object["spec"]["template"]["spec"]["containers"][0]["args"] =
        json!(["--metrics-host=metrics.example"]);
    assert_eq!(keys(&of(object)), "");
}
