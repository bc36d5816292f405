//! A row for every flag.

use serde_json::{Value, json};

use super::{comments, keys, manifest, migrated, of};
use crate::migrate::flags::{FLAGS, Flag, Kind};

/// For every flag a value that is not its default, what becomes of it as keys, and what is said.
const ROWS: [(&str, &[&str], &str, &str); 43] = [
    (
        "alert-filter-match-only",
        &[
            "--alert-filter-match-only",
            "--alert-filter-regexp=^Disk",
            "--prometheus-url=http://p.example",
        ],
        "[[gates.prometheus]]\nname = \"kured\"\nurl = \"http://p.example\"\nalerts = \"^Disk\"\nignore = \"\"\npending = true",
        "--alert-filter-match-only=true",
    ),
    (
        "alert-filter-regexp",
        &[
            "--alert-filter-regexp=^RebootRequired$",
            "--prometheus-url=http://p.example",
        ],
        "ignore = \"^RebootRequired$\"",
        "--alert-filter-regexp=^RebootRequired$",
    ),
    (
        "alert-firing-only",
        &[
            "--alert-firing-only=true",
            "--prometheus-url=http://p.example",
        ],
        "ignore = \"\"\npending = false",
        "--alert-firing-only=true",
    ),
    (
        "annotate-nodes",
        &["--annotate-nodes"],
        "",
        "--annotate-nodes=true: kube-rebootd writes annotations of its own",
    ),
    (
        "blocking-pod-selector",
        &[
            "--blocking-pod-selector=runtime=long,cost=expensive",
            "--blocking-pod-selector=name=temperamental",
        ],
        "[gates]\nblocking_pods = [\"runtime=long,cost=expensive\", \"name=temperamental\"]",
        "--blocking-pod-selector=name=temperamental",
    ),
    (
        "concurrency",
        &["--concurrency=3"],
        "",
        "--concurrency=3: It is the number of slots",
    ),
    (
        "drain-delay",
        &["--drain-delay=90s"],
        "[drain]\ncordon_only = \"1m 30s\"",
        "--drain-delay=90s",
    ),
    (
        "drain-grace-period",
        &["--drain-grace-period=30"],
        "",
        "--drain-grace-period=30: Each pod has its own grace period",
    ),
    (
        "drain-pod-selector",
        &["--drain-pod-selector=app=web,tier in (a,b)"],
        "[drain]\nskip = [\"app notin (web)\", \"tier notin (a,b)\"]",
        "--drain-pod-selector=app=web",
    ),
    (
        "drain-timeout",
        &["--drain-timeout=1h30m"],
        "[drain]\ntimeout = \"1h 30m\"\nstall = \"1h 30m\"",
        "--drain-timeout=1h30m",
    ),
    (
        "ds-name",
        &["--ds-name=ops-kured"],
        "",
        "--ds-name=ops-kured: The slots are Leases",
    ),
    (
        "ds-namespace",
        &["--ds-namespace=ops"],
        "",
        "--ds-namespace=ops: The slots are Leases",
    ),
    (
        "end-time",
        &["--end-time=5am"],
        "[[windows]]\nname = \"kured\"\nstart = \"00:00\"\nend = \"05:00\"\ntime_zone = \"UTC\"",
        "--end-time=5am",
    ),
    (
        "force-reboot",
        &["--force-reboot"],
        "",
        "--force-reboot=true",
    ),
    (
        "lock-annotation",
        &["--lock-annotation=ops.example/lock"],
        "",
        "--lock-annotation=ops.example/lock: The slots are Leases",
    ),
    (
        "lock-release-delay",
        &["--lock-release-delay=30m"],
        "[coordination]\nmin_interval = \"30m\"",
        "--lock-release-delay=30m",
    ),
    (
        "lock-ttl",
        &["--lock-ttl=1h"],
        "",
        "--lock-ttl=1h: A slot does not expire by time",
    ),
    (
        "log-format",
        &["--log-format=json"],
        "",
        "--log-format=json: The journal has fields",
    ),
    (
        "message-template-drain",
        &[
            "--message-template-drain=d %s",
            "--slack-hook-url=https://h",
        ],
        "webhook_file = \"/etc/kube-rebootd/webhook\"",
        "--message-template-drain=d %s: The messages are",
    ),
    (
        "message-template-reboot",
        &["--message-template-reboot=r %s"],
        "",
        "--message-template-reboot=r %s: It has no effect without",
    ),
    (
        "message-template-uncordon",
        &["--message-template-uncordon=u %s"],
        "",
        "--message-template-uncordon=u %s: It has no effect without",
    ),
    (
        "metrics-host",
        &["--metrics-host=127.0.0.1"],
        "",
        "--metrics-host=127.0.0.1: They were served by the pod",
    ),
    (
        "metrics-port",
        &["--metrics-port=9000"],
        "",
        "--metrics-port=9000: They were served by the pod",
    ),
    (
        "node-id",
        &["--node-id=n1"],
        "",
        "--node-id=n1: The API server says",
    ),
    (
        "notify-url",
        &["--notify-url=discord://hush@1"],
        "[notify]\nwebhook_file = \"/etc/kube-rebootd/webhook\"\ntemplate = \"discord\"",
        "--notify-url (its value is not repeated here)",
    ),
    (
        "period",
        &["--period=5m"],
        "",
        "--period=5m: Files are watched",
    ),
    (
        "post-reboot-node-labels",
        &["--post-reboot-node-labels=a=b"],
        "",
        "--post-reboot-node-labels=a=b: Only the label",
    ),
    (
        "pre-reboot-node-labels",
        &[
            "--pre-reboot-node-labels=node.kubernetes.io/exclude-from-external-load-balancers=true",
            "--drain-delay=1m",
        ],
        "[drain]\nload_balancer_wait = \"1m\"",
        "--drain-delay=1m --pre-reboot-node-labels=node.kubernetes.io/exclude-from-external-load-balancers=true",
    ),
    (
        "prefer-no-schedule-taint",
        &["--prefer-no-schedule-taint=weave.works/kured-node-reboot"],
        "",
        "--prefer-no-schedule-taint=weave.works/kured-node-reboot: A node that waits",
    ),
    (
        "prometheus-url",
        &["--prometheus-url=https://me:hush@p.example:9443/prom/"],
        "url = \"https://p.example:9443/prom\"\nusername = \"me\"\npassword_file = \"/etc/kube-rebootd/prometheus-password\"",
        "--prometheus-url (its value is not repeated here)",
    ),
    (
        "reboot-command",
        &["--reboot-command=/usr/local/bin/reboot 'a b'"],
        "[reboot]\nmethod = \"command\"\ncommand = [\"/usr/local/bin/reboot\", \"a b\"]",
        "--reboot-command=/usr/local/bin/reboot 'a b'",
    ),
    (
        "reboot-days",
        &["--reboot-days=mon", "--reboot-days=su"],
        "days = [\"mon\", \"sun\"]\nstart = \"00:00\"\nend = \"24:00\"",
        "--reboot-days=mon --reboot-days=su",
    ),
    (
        "reboot-delay",
        &["--reboot-delay=90s"],
        "[reboot]\ndelay = \"1m 30s\"",
        "--reboot-delay=90s",
    ),
    (
        "reboot-method",
        &["--reboot-method=signal"],
        "",
        "--reboot-method=signal: A signal for PID 1 has no equivalent",
    ),
    (
        "reboot-sentinel",
        &["--reboot-sentinel=/sentinel/other"],
        "[triggers]\nsentinels = [\"/var/run/other\"]",
        "--reboot-sentinel=/sentinel/other",
    ),
    (
        "reboot-sentinel-command",
        &[
            "--reboot-sentinel-command=sh -c \"test -f /x\"",
            "--period=20m",
        ],
        "[triggers]\nsentinels = []\n[[triggers.check]]\nname = \"kured\"\npreset = \"kured\"\ncommand = [\"sh\", \"-c\", \"test -f /x\"]\nperiod = \"20m\"",
        "--reboot-sentinel-command=sh -c \"test -f /x\"",
    ),
    (
        "reboot-signal",
        &["--reboot-method=signal", "--reboot-signal=15"],
        "",
        "--reboot-signal=15: systemd-logind is asked",
    ),
    (
        "skip-wait-for-delete-timeout",
        &["--skip-wait-for-delete-timeout=60"],
        "",
        "--skip-wait-for-delete-timeout=60: A pod that does not end",
    ),
    (
        "slack-channel",
        &["--slack-channel=ops", "--slack-hook-url=https://hush"],
        "",
        "--slack-channel=ops: A webhook of Slack",
    ),
    (
        "slack-hook-url",
        &["--slack-hook-url=https://hooks.slack.com/services/T/B/hush"],
        "[notify]\nwebhook_file = \"/etc/kube-rebootd/webhook\"\ntemplate = \"slack\"",
        "--slack-hook-url (its value is not repeated here)",
    ),
    (
        "slack-username",
        &["--slack-username=ops", "--slack-hook-url=https://hush"],
        "",
        "--slack-username=ops: A webhook of Slack",
    ),
    (
        "start-time",
        &["--start-time=22:00"],
        "start = \"22:00\"\nend = \"24:00\"\ntime_zone = \"UTC\"",
        "--start-time=22:00",
    ),
    (
        "time-zone",
        &["--time-zone=Europe/Berlin", "--start-time=1"],
        "start = \"01:00\"\nend = \"24:00\"\ntime_zone = \"Europe/Berlin\"",
        "--time-zone=Europe/Berlin",
    ),
];

#[test]
fn every_flag_becomes_what_its_row_says_in_arguments_and_in_the_environment() {
    for ((name, args, wanted, said), flag) in ROWS.iter().zip(&FLAGS) {
        assert_eq!(*name, flag.name);
        let migration = migrated(args);
        assert_eq!(migration.odd, Vec::<String>::new(), "{name}");
        let made = keys(&migration);
        assert!(made.contains(wanted), "{name}: {made}");
        if wanted.is_empty() && !made.is_empty() {
            assert!(args.len() > 1, "{name}: {made}");
        }
        assert!(
            comments(&migration).contains(said),
            "{name}: {said}: {}",
            migration.config
        );
        assert!(
            !migration.config.contains("hush") && !migration.hand_over.contains("hush"),
            "{name}"
        );
        assert!(
            migration.todo.iter().all(|one| !one.contains("hush")),
            "{name}"
        );
        if flag.kind == Kind::Each {
            continue;
        }
        // The same by the environment.
        let mut object = manifest(&[]);
        let variable = |arg: &&str| {
            let (name, value) = arg
                .trim_start_matches("--")
                .split_once('=')
                .unwrap_or((arg.trim_start_matches("--"), "true"));
            json!({"name": Flag::of(name).unwrap().variable(), "value": value})
        };
        let mut variables: Vec<Value> = args.iter().map(variable).collect();
        if *name == "reboot-days" {
            variables = vec![json!({"name": "KURED_REBOOT_DAYS", "value": "mon,su"})];
        }
        object["spec"]["template"]["spec"]["containers"][0]["env"] = variables.into();
        assert_eq!(keys(&of(object)), made, "{name}");
    }
}
