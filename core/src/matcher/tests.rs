use proptest::prelude::*;

use super::*;

fn matcher(name: &str, operator: &str, value: &str) -> Matcher {
    Matcher {
        name: name.to_owned(),
        value: value.to_owned(),
        is_regex: operator.ends_with('~'),
        is_equal: operator.starts_with('='),
    }
}

fn others() -> Matcher {
    matcher("alertname", "!~", "KubeRebootd.*")
}

#[test]
fn matchers_are_written_as_for_amtool_and_name_the_node() {
    for (given, expected) in [
        ("node={node}", vec![matcher("node", "=", "n1.a")]),
        (
            " node = \"{node}\" , severity != critical ",
            vec![
                matcher("node", "=", "n1.a"),
                matcher("severity", "!=", "critical"),
            ],
        ),
        (
            "instance=~{hostname}(:[0-9]+)?",
            vec![matcher("instance", "=~", r"h1\.b(:[0-9]+)?")],
        ),
        (
            // What names the node comes first.
            r#"job!~"a|b,\"\\.c",instance=~"({node}|{hostname}):[0-9]{1,5}""#,
            vec![
                matcher("instance", "=~", r"(n1\.a|h1\.b):[0-9]{1,5}"),
                matcher("job", "!~", r#"a|b,"\.c"#),
            ],
        ),
    ] {
        let matchers: Matchers = given.parse().unwrap();
        assert_eq!(matchers.given(), given);
        let all = [expected, vec![others()]].concat();
        assert_eq!(matchers.of("n1.a", "h1.b"), all, "{given}");
    }
    let asks = |given: &str| given.parse::<Matchers>().unwrap().names_host();
    assert!(asks("instance={hostname}") && !asks("node={node}"));
}

#[test]
fn i14_a_silence_that_names_no_node_is_refused() {
    let syntax = |rest: &str| NoMatchers::Syntax(rest.to_owned());
    for (given, why) in [
        ("severity=critical", NoMatchers::Everybody),
        ("node!={node}", NoMatchers::Everybody),
        ("node!~{node}", NoMatchers::Everybody),
        ("{node}=a", syntax("{node}=a")),
        ("", syntax("")),
        ("node", syntax("node")),
        ("node>{node}", syntax("node>{node}")),
        ("node=", syntax("node=")),
        ("node={node},", syntax("")),
        ("node=\"{node}\" x", syntax("x")),
        ("node={node}\"", syntax("node={node}\"")),
        ("1node={node}", syntax("1node={node}")),
        ("node=\"{node}", NoMatchers::Quote),
        // n10 begins with n1.
        ("node=~{node}.*", NoMatchers::RunsOn(NODE)),
        (
            "a={node},b=~\"({node}|{hostname}).+\"",
            NoMatchers::RunsOn(HOSTNAME),
        ),
        ("node=~{node}(.*)", NoMatchers::RunsOn(NODE)),
        ("node=~{node}:1|{node}.*", NoMatchers::RunsOn(NODE)),
        ("node={node}\u{1b}", NoMatchers::Hostile),
    ] {
        assert_eq!(given.parse::<Matchers>(), Err(why), "{given}");
    }
}

/// The words of the refusal, and what excludes alerts.
#[test]
fn what_may_follow_a_name_is_taken() {
    for given in [
        "a=~{node}(:[0-9]+)?",
        "a=~{hostname}([.:].*)?",
        "a=~{node}\\..*",
        "a={node}.*",
        "a=~{node},b!~{node}.*",
        "a=~{node}.{hostname}",
    ] {
        let taken = given.parse::<Matchers>().map(|it| it.given().to_owned());
        assert_eq!(taken.as_deref(), Ok(given));
    }
    let words = NoMatchers::RunsOn(NODE).to_string();
    assert!(words.contains("write {node}(:[0-9]+)?"), "{words}");
}

/// Found by an attack: every image has a `localhost` before its first boot with a network.
#[test]
fn i14_a_host_name_that_others_have_as_well_is_not_this_host() {
    for name in ["n1", "n1.example.com", "Web-01", "localhost1", "1"] {
        assert!(is_own_name(name), "{name}");
    }
    for name in [
        "",
        "localhost",
        "LocalHost",
        "localhost.localdomain",
        "(none)",
        "a_b",
        "a b",
        "-a",
        "a..b",
        "a.",
        "n1:1",
    ] {
        assert!(!is_own_name(name), "{name}");
    }
}

#[test]
fn a_filter_is_quoted_and_escaped() {
    let filter = |operator, value| filter(&[matcher("a", operator, value)]);
    assert_eq!(filter("=", "b"), "%61%3D%22%62%22");
    assert_eq!(filter("=~", r#""\"#), "%61%3D%7E%22%5C%22%5C%5C%22");
}

proptest! {
    #[test]
    fn i12_any_text_is_matchers_or_none_and_those_name_the_node(text in garble::text("job!~\"a,b\",instance=~\"{node}(:[0-9]+)?\"")) {
        if let Ok(matchers) = text.parse::<Matchers>() {
            let all = matchers.of("n1", "h1");
            prop_assert!(all[0].is_equal && (all[0].value.contains("n1") || all[0].value.contains("h1")));
            prop_assert_eq!(all.last(), Some(&others()));
        }
    }

    /// The name of a node in a regular expression means itself.
    #[test]
    fn i14_a_name_in_a_regular_expression_is_a_name(name in "[ -~]{1,20}") {
        let matchers: Matchers = "a=~{hostname}".parse().unwrap();
        let value = matchers.of("n1", &name).remove(0).value;
        let mut bare = String::new();
        let mut chars = value.chars();
        while let Some(c) = chars.next() {
            let c = if c == '\\' { chars.next().unwrap() } else { c };
            bare.push(c);
        }
        prop_assert_eq!(bare, name);
        let special = |c: char| "\\.+*?()|[]{}^$".contains(c);
        prop_assert_eq!(value.matches('\\').count() >= value.matches(|c| special(c) && c != '\\').count(), true);
    }
}
