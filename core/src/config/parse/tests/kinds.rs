//! What the documentation says of a key's type and range is what is checked (I12).

use super::*;

#[test]
fn i12_types_and_ranges_are_those_that_are_checked() {
    for table in reference() {
        for Entry { name, kind, .. } in table.entries {
            let (value, wants) = wrong(&kind);
            let (text, _) = around(table.section.name, &format!("{name} = {value}"));
            let error = parse(Path::new(FILE), &text).unwrap_err();
            let dotted = dotted(table.section.name, name);
            let found = error.problems.iter().find(|p| p.key == dotted);
            let found = found.unwrap_or_else(|| panic!("{text}: {error}"));
            assert!(
                found.reason.contains(&wants),
                "{dotted} is {kind:?}; {value} is refused by {:?}, without {wants:?}",
                found.reason
            );
            // What is enumerated is all there is.
            if kind.starts_with('"') && !kind.contains('%') {
                let (_, all) = found.reason.split_once("write ").unwrap();
                let said = quoted(&kind) + usize::from(kind.ends_with("or empty"));
                assert_eq!(said, quoted(all), "{dotted}: {kind} but {all}");
            }
        }
    }
}

/// In the manual, and in the file that documents every key.
#[test]
fn words_to_choose_from_are_shown_as_one_reads_them() {
    let tables = reference();
    let entries = || tables.iter().flat_map(|table| &table.entries);
    for (name, wanted) in [
        ("kind", "\"reboot\" or \"soft-reboot\""),
        ("jobs", "\"evict\" or \"wait\""),
        ("unmanaged", "\"leave\", \"evict\" or \"block\""),
    ] {
        let entry = entries().find(|entry| entry.name == name).unwrap();
        assert_eq!(entry.kind, wanted);
    }
}

fn quoted(text: &str) -> usize {
    text.matches('"').count() / 2
}

/// A value that a key of this type must refuse, and what the reason must say.
fn wrong(kind: &str) -> (String, String) {
    let (kind, range) = kind.split_once(", ").unwrap_or((kind, ""));
    let (least, most) = range.split_once(" to ").unwrap_or_default();
    let most = most.split(',').next().unwrap_or_default();
    let longest = most == "366d";
    let (value, wants) = match kind {
        "duration" if least != "0s" => ("\"0s\"", format!("write {least} to {most}")),
        "duration" if longest => ("\"8785h\"", format!("write at most {most}")),
        "duration" => ("\"8784h\"", format!("write {least} to {most}")),
        "integer" if least == "0" => ("-1", format!("write {least} to {most}")),
        "integer" => ("0", format!("write {least} to {most}")),
        "boolean" => ("1", "write true or false".into()),
        "URL" => ("\"x\"", "write a URL".into()),
        "unix:PATH or ADDRESS:PORT" | "unix:PATH or ADDRESS:PORT of this host" => {
            ("\"x\"", "write `unix:` and".into())
        }
        "path that ends with .prom" => ("\"/x\"", "ends with .prom".into()),
        "path" => ("\"x\"", "write an absolute path".into()),
        "list of built-in checks" => ("[\"x\"]", "\"kernel\" or \"libraries\"".into()),
        "list of gates" => ("[\"inhibitors\"]", "\"windows\" or ".into()),
        "list of events" => ("[\"x\"]", "\"required\" or ".into()),
        "list of paths" => ("[\"x\"]", "not an absolute path".into()),
        "list of integers" => ("[256]", format!("write {least} to {most}")),
        "list of label selectors" => ("[1]", "label selectors".into()),
        "list of days" => ("[1]", "write days like".into()),
        "list of selectors of pods" => ("[1]", "write selectors of pods like".into()),
        "list of servers by https" => ("[1]", "write servers like".into()),
        "list of conditions" => ("[1]", "write conditions like".into()),
        "list of dates" => ("[1]", "write dates like".into()),
        "list of matchers" => ("[1]", "write matchers like".into()),
        "command" => ("[1]", "write words like".into()),
        "string"
        | "DNS label"
        | "label value"
        | "regular expression"
        | "PromQL"
        | "user name"
        | "group of FleetLock"
        | "time of day"
        | "time zone"
        | "label key"
        | "name of a Node"
        | "name of a ServiceAccount" => ("1", "write ".into()),
        "\"1%\" to \"100%\"" => (
            "true",
            "write \"1%\" to \"100%\", or an integer of 1 or more".into(),
        ),
        words if words.starts_with('"') => ("\"?\"", words.split('"').nth(1).unwrap().to_owned()),
        other => panic!("no wrong value is known for {other:?}"),
    };
    (value.to_owned(), wants)
}
