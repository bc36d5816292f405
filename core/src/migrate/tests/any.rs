//! The hand-over, and what holds whatever a manifest says.

use proptest::prelude::*;

use super::{config, keys, manifest, migrated};
use crate::config::{Config, Mode};
use crate::migrate::flags::{FLAGS, Kind};
use crate::migrate::{Found, kured};

#[test]
fn the_hand_over_names_what_is_there_and_comes_in_order() {
    let one = migrated(&[
        "--ds-name=ops-kured",
        "--ds-namespace=ops",
        "--lock-annotation=ops.example/lock",
    ])
    .hand_over;
    let order = [
        "do not see each other",
        "kube-rebootd manifests --slots 1 |",
        "kubectl -n ops get daemonset ops-kured -o jsonpath='{.metadata.annotations.ops\\.example/lock}'",
        "kubectl -n ops annotate daemonset ops-kured ops.example/lock='{\"nodeID\":\"manual\"}'",
        "one node after the other",
        "Remove kured",
        "kubectl -n kube-rebootd annotate lease -l kube-rebootd/group kube-rebootd/paused-",
    ];
    let mut at = 0;
    for words in order {
        let lower = words == "one node after the other";
        let text = if lower {
            one.to_lowercase()
        } else {
            one.clone()
        };
        let found = text[at..]
            .find(words)
            .unwrap_or_else(|| panic!("{words}: {one}"));
        at += found;
    }
    let several = migrated(&[
        "--concurrency=3",
        "--prefer-no-schedule-taint=a/b",
        "--pre-reboot-node-labels=c=d",
        "--post-reboot-node-labels=c=e",
        "--annotate-nodes",
    ]);
    for words in [
        "--slots 3",
        "cannot be held by hand",
        "kubectl taint node --all a/b:PreferNoSchedule-",
        "kubectl label node --all c-",
        "weave.works/kured-reboot-in-progress-",
    ] {
        assert!(
            several.hand_over.contains(words),
            "{words}: {}",
            several.hand_over
        );
    }
    assert!(!several.hand_over.contains("nodeID"));
    // Nobody's words go into a command but what a name may be.
    let odd = migrated(&[
        "--ds-name=$(rm)",
        "--ds-namespace=a;b",
        "--lock-annotation=a b'c",
    ])
    .hand_over;
    assert!(
        odd.contains("kubectl -n NAMESPACE annotate daemonset NAME ANNOTATION="),
        "{odd}"
    );
    let elsewhere = kured(&Found::of(&[manifest(&[])]).kured[0], "ops");
    assert!(
        elsewhere
            .hand_over
            .contains("kube-rebootd manifests --namespace ops --slots 1")
            && elsewhere
                .hand_over
                .contains("kubectl -n ops annotate lease")
    );
    assert_eq!(keys(&elsewhere), "[coordination]\nnamespace = \"ops\"");
}

#[test]
fn i14_nothing_of_a_manifest_ends_a_comment() {
    let hostile = "x\n[reboot]\nmethod = \"command\"\r\u{2028}mode = \"observe\"\u{1b}[2J";
    for flag in FLAGS
        .iter()
        .filter(|flag| matches!(flag.kind, Kind::Text | Kind::List | Kind::Each))
    {
        let migration = migrated(&[&format!("--{}={hostile}", flag.name), "--period=5m"]);
        let read = config(&migration);
        // Whose own command it is may hold any word.
        let own = flag.name == "reboot-command";
        assert!(
            own || read.reboot == Config::default().reboot,
            "{}: {}",
            flag.name,
            migration.config
        );
        assert_eq!(
            read.mode == Mode::Observe,
            !migration.odd.is_empty(),
            "{}",
            flag.name
        );
        assert!(!migration.config.contains('\u{1b}'), "{}", flag.name);
        for words in migration.odd.iter().chain(&migration.todo) {
            assert!(!words.contains(crate::text::hostile), "{words:?}");
        }
    }
}

fn value(kind: Kind) -> BoxedStrategy<String> {
    let of = |words: &'static [&'static str]| prop::sample::select(words).prop_map(str::to_owned);
    match kind {
        Kind::Switch => of(&["true", "false", "x"]).boxed(),
        Kind::Number => of(&["0", "-1", "8080", "99999999999", "x"]).boxed(),
        Kind::Span => of(&["0", "1ns", "90s", "30m", "5h", "24h", "100000h", "-1s", "x"]).boxed(),
        Kind::List => of(&[
            "",
            "mo,tu",
            "sat",
            "0,6",
            "a=b",
            "node.kubernetes.io/exclude-from-external-load-balancers=true",
            "x",
        ])
        .boxed(),
        Kind::Each => of(&["a=b", "a in (b,c),!d", "", "a>1"]).boxed(),
        Kind::Text => prop_oneof![
            of(&[
                "",
                "command",
                "signal",
                "/a b",
                "0:00",
                "23:30",
                "12:10am",
                "5:20:30",
                "Local",
                "Europe/Berlin",
                "http://a:b@c/d",
                "slack://x",
                "^a",
                "a=b,!c"
            ]),
            any::<String>(),
        ]
        .boxed(),
    }
}

proptest! {
    /// Whatever kured was given, `config check` takes what comes of it, and it acts only if all was understood.
    #[test]
    fn i12_every_configuration_is_valid(given in prop::collection::vec(
        prop::sample::select(&FLAGS[..]).prop_flat_map(|flag| value(flag.kind).prop_map(move |value| format!("--{}={value}", flag.name))), 0..12)) {
        let args: Vec<&str> = given.iter().map(String::as_str).collect();
        let migration = migrated(&args);
        prop_assert_eq!(config(&migration).mode == Mode::Observe, !migration.odd.is_empty());
    }
}
