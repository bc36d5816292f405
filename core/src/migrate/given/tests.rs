use proptest::prelude::*;

use super::*;
use crate::migrate::manifest::Variable;

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn set(args: &[&str], env: &[(&str, &str)]) -> DaemonSet {
    let variable = |(name, value): &(&str, &str)| Variable {
        name: (*name).to_owned(),
        value: match value.strip_prefix("from ") {
            Some(from) => Err(from.to_owned()),
            None => Ok((*value).to_owned()),
        },
    };
    DaemonSet {
        command: words(&["/usr/bin/kured"]),
        args: words(args),
        env: env.iter().map(variable).collect(),
        ..DaemonSet::default()
    }
}

fn given(args: &[&str], env: &[(&str, &str)]) -> Values {
    Values::of(&set(args, env))
}

fn sound(args: &[&str], env: &[(&str, &str)]) -> Values {
    let values = given(args, env);
    assert_eq!(values.odd, Vec::<String>::new(), "{args:?} {env:?}");
    values
}

#[test]
fn arguments_are_read_as_pflag_reads_them() {
    let values = sound(
        &[
            "--drain-timeout=1h",
            "--period",
            "30m",
            "--force-reboot",
            "false",
            "--annotate-nodes=false",
            "--reboot-days=mon,tue",
            "--reboot-days",
            "wed",
            "--blocking-pod-selector=a=b,c=d",
            "--blocking-pod-selector=e",
            "--message-template-drain=Draining %s = now",
            "--drain-grace-period",
            "-1",
            "positional",
            "--period=40m",
            "--",
            "--no-flag",
        ],
        &[],
    );
    assert_eq!(values.span("drain-timeout").as_secs(), 3600);
    assert_eq!(values.text("period"), "40m");
    // What comes after a switch is no value of it.
    assert!(values.switch("force-reboot") && !values.switch("annotate-nodes"));
    assert_eq!(values.items("reboot-days"), ["mon", "tue", "wed"]);
    assert_eq!(values.items("blocking-pod-selector"), ["a=b,c=d", "e"]);
    assert_eq!(values.text("message-template-drain"), "Draining %s = now");
    assert!(values.given("drain-grace-period") && !values.set("drain-grace-period"));
    assert_eq!(values.text("reboot-command"), "/bin/systemctl reboot");
    assert!(!values.given("reboot-command"));
    assert_eq!(values.items("pre-reboot-node-labels"), Vec::<&str>::new());
}

#[test]
fn flags_stand_in_the_command_or_behind_another_program_as_well() {
    let mut one = set(&["--period=2h"], &[]);
    one.command = words(&["/sbin/tini", "--", "/usr/bin/kured", "--concurrency=2"]);
    let values = Values::of(&one);
    assert_eq!(
        (values.text("period"), values.text("concurrency")),
        ("2h", "2")
    );
    one.command = Vec::new();
    assert_eq!(Values::of(&one).text("period"), "2h");
    one.command = words(&["sh", "-c", "exec /usr/bin/kured --period=1h"]);
    let values = Values::of(&one);
    assert!(!values.given("period"));
    assert!(
        values.odd[0].contains("runs sh and not kured"),
        "{:?}",
        values.odd
    );
}

/// `flag.Parse()`, then `LoadFromEnv()`, which sets the flags anew (cmd/kured/main.go of 1.23.0).
#[test]
fn the_environment_counts_before_the_arguments_and_lists_grow() {
    let values = sound(
        &["--period=1h", "--reboot-days=mon", "--drain-timeout=1h"],
        &[
            ("KURED_PERIOD", "30m"),
            ("KURED_REBOOT_DAYS", "tue"),
            ("KURED_DRAIN_TIMEOUT", "1h"),
            ("KURED_NODE_ID", "from a field of the Pod"),
            ("OTHER", "x"),
        ],
    );
    assert_eq!(values.text("period"), "30m");
    assert_eq!(values.items("reboot-days"), ["mon", "tue"]);
    assert_eq!(
        values.said("period"),
        "KURED_PERIOD=30m, which counts before --period=1h since kured 1.16.2"
    );
    // Twice the same is nothing to be told.
    assert_eq!(values.said("drain-timeout"), "KURED_DRAIN_TIMEOUT=1h");
    assert_eq!(
        values.said("reboot-days"),
        "--reboot-days=mon KURED_REBOOT_DAYS=tue"
    );
    assert_eq!(values.said("lock-ttl"), "--lock-ttl=0s (kured's default)");
    assert!(!values.given("node-id"));
}

#[test]
fn what_is_not_understood_is_told_with_what_to_do() {
    for (args, env, wanted) in [
        (
            &["--dry-run"][..],
            &[][..],
            "--dry-run is no flag of kured 1.23.0; look up",
        ),
        (&["-v"], &[], "-v is no flag"),
        (&["--period"], &[], "--period needs a value"),
        (
            &["--period=60"],
            &[],
            "--period is \"60\", which is no duration with a unit",
        ),
        (&["--concurrency=two"], &[], "no integer"),
        (&["--force-reboot=yes"], &[], "no truth value"),
        (&[], &[("KURED_DRY_RUN", "1")], "KURED_DRY_RUN is no flag"),
        (
            &[],
            &[("KURED_PERIOD", "")],
            "KURED_PERIOD is \"\", which is no duration",
        ),
        (
            &[],
            &[("KURED_PERIOD", "from ConfigMap a, key b")],
            "KURED_PERIOD comes from ConfigMap a, key b",
        ),
        (
            &[],
            &[("KURED_PROMETHEUS_URL", "from Secret a, key b")],
            "comes from Secret a, key b",
        ),
        (
            &[],
            &[("KURED_BLOCKING_POD_SELECTOR", "a=b")],
            "KURED_BLOCKING_POD_SELECTOR has no effect",
        ),
        (
            &["--period=$(P)"],
            &[("P", "from ConfigMap a, key b")],
            "--period comes from ConfigMap a",
        ),
    ] {
        let values = given(args, env);
        assert_eq!(values.odd.len(), 1, "{:?}", values.odd);
        assert!(values.odd[0].contains(wanted), "{:?}", values.odd);
    }
    let mut one = set(&[], &[]);
    one.env_from = true;
    assert!(Values::of(&one).odd[0].contains("envFrom"));
}

#[test]
fn variables_are_put_in_as_the_kubelet_does() {
    let env = [("A", "1h"), ("B", "2"), ("EMPTY", "")];
    for (text, wanted) in [
        ("$(A)", "1h"),
        ("x$(A)y$(B)$(EMPTY)z", "x1hy2z"),
        ("$$(A)", "$(A)"),
        ("$$$(A)", "$1h"),
        ("$(NONE)", "$(NONE)"),
        ("$(A", "$(A"),
        ("a$", "a$"),
        ("$A", "$A"),
        ("ä$(A)ö", "ä1hö"),
    ] {
        let values = sound(&[&format!("--message-template-drain={text}")], &env);
        assert_eq!(values.text("message-template-drain"), wanted, "{text}");
    }
}

#[test]
fn i14_a_secret_is_never_said() {
    const SECRET: &str = "https://hooks.slack.com/services/T/B/hush";
    let values = sound(
        &[
            &format!("--slack-hook-url={SECRET}"),
            &format!("--prometheus-url={SECRET}"),
        ],
        &[("KURED_NOTIFY_URL", SECRET)],
    );
    for flag in ["slack-hook-url", "notify-url", "prometheus-url"] {
        assert_eq!(values.text(flag), SECRET);
        assert!(!values.said(flag).contains("hush"), "{}", values.said(flag));
    }
    // One that cannot be read is no fault: it is written by hand in any case.
    let values = sound(&[], &[("KURED_SLACK_HOOK_URL", "from Secret a, key b")]);
    assert!(values.given("slack-hook-url") && values.unread("slack-hook-url"));
}

proptest! {
    #[test]
    fn any_arguments_are_answered(args in prop::collection::vec(prop_oneof![any::<String>(), "--[a-z-]{0,12}=?[$()a-z0-9]{0,6}"], 0..8)) {
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let values = given(&args, &[("KURED_PERIOD", &args.concat()), ("a", "$(a)")]);
        for flag in FLAGS {
            let _ = (values.said(flag.name), values.items(flag.name), values.set(flag.name));
        }
    }
}
