//! The Nodes of `nodes`, and all its tables, for people.

use std::fmt::Write as _;

use jiff::Timestamp;
use kube_rebootd_core::reason::Reason;
use kube_rebootd_core::text::clean;

use super::age;
use super::fleet::{Cordon, Member, Reboot};

/// Characters of a name in the first column: it is copied into commands, and few are longer.
const NAME: usize = 63;
/// Characters of each other column but the last: one Node's words must not push those of all others off the screen (I14).
pub(super) const CELL: usize = 40;

/// The Nodes for people.
pub(super) fn members(members: &[Member], now: Timestamp) -> String {
    let head = [
        "NODE",
        "GROUP",
        "VERSION",
        "REBOOT",
        "FOR",
        "REASON",
        "CORDON",
        "LAST REBOOT",
        "WHY",
    ];
    let mut lines = vec![head.map(str::to_owned)];
    let or = |word: Option<String>| word.unwrap_or_else(|| "-".to_owned());
    for one in members {
        lines.push([
            one.node.clone(),
            or(one.group.clone()),
            or(one.version.clone()),
            or(required(one).map(str::to_owned)),
            or(one.since.map(|since| age(now, since))),
            or(one.reason.clone()),
            or(cordon(one).map(str::to_owned)),
            or(one.last_reboot.as_ref().map(|last| last_reboot(last, now))),
            why(one),
        ]);
    }
    aligned(&lines, CELL)
}

/// Whether a reboot is required; none: no daemon ever told.
pub(super) fn required(one: &Member) -> Option<&'static str> {
    one.required.map(|status| match status {
        "True" => "required",
        "False" => "no",
        _ => "unknown",
    })
}

/// When it was proved, and that the update did not take.
fn last_reboot(last: &Reboot, now: Timestamp) -> String {
    let age = age(now, last.at);
    match last.rolled_back {
        None => age,
        Some(_) => format!("{age} (rolled back)"),
    }
}

/// Whose cordon it has.
pub(super) fn cordon(one: &Member) -> Option<&'static str> {
    one.cordon.map(|cordon| match cordon {
        Cordon::KubeRebootd => "kube-rebootd",
        Cordon::Others => "others",
    })
}

/// Why it is where it is, or has to be looked at.
pub(super) fn why(one: &Member) -> String {
    let why = match (&one.person, &one.message) {
        (Some(why), _) => format!("! {why}"),
        (None, Some(message)) => message.clone(),
        (None, None) => "no report from kube-rebootd".to_owned(),
    };
    // Only a node that wants to reboot says so itself.
    let says = one.reason.as_deref() == Some(Reason::Paused.name());
    let why = match &one.paused {
        Some(pause) if !says => format!("paused ({pause}); {why}"),
        _ => why,
    };
    if one.ready || one.person.is_some() {
        why
    } else {
        format!("not Ready; {why}")
    }
}

/// In columns of at most `widest` characters; the first one may hold a name, and the last one is as long as it is.
pub(super) fn aligned<const N: usize>(lines: &[[String; N]], widest: usize) -> String {
    let mut text = String::new();
    let most = |column: usize| if column == 0 { NAME } else { widest };
    let width = |column: usize| {
        let cells = lines.iter().map(|line| line[column].chars().count());
        cells.max().unwrap_or(0).min(most(column))
    };
    let widths: Vec<usize> = (0..N).map(width).collect();
    for line in lines {
        let (last, cells) = line
            .split_last()
            .map_or(("", &[][..]), |(last, cells)| (last.as_str(), cells));
        for (cell, width) in cells.iter().zip(&widths) {
            let cell = clean(cell, *width);
            // Writing to a String does not fail.
            let _ = write!(text, "{cell:width$}  ");
        }
        let _ = writeln!(text, "{last}");
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::fleet::tests::{NOW, at, of, shows};
    use super::*;

    /// Found by an attacker: one annotation pushed the last column of every node off the screen.
    #[test]
    fn i14_long_words_of_one_node_push_nothing_off_the_screen() {
        let long = "x".repeat(253);
        let named = |group: &str, version: &str, name: &str| {
            of(json!({"metadata": {"name": name,
                "annotations": {"kube-rebootd/group": group, "kube-rebootd/version": version}},
                "status": {"conditions": [{"type": "RebootRequired", "status": "True", "reason": long, "message": "words"}]}}))
        };
        let loud = named(&long, &long, &long);
        assert_eq!((&loud.group, &loud.version), (&None, &None));
        let most = ("x".repeat(63), "x".repeat(30));
        let longest = named(&most.0, &most.1, "n1");
        assert_eq!(
            (&longest.group, &longest.version),
            (&Some(most.0.clone()), &Some(most.1.clone()))
        );
        let text = members(&[loud, longest], at(NOW));
        for line in text.lines() {
            assert!(line.chars().count() < 300, "{line}");
        }
        let head = text.lines().next().expect("a head");
        let why = head.find("WHY").expect("the last column");
        assert!(why < 250, "{why}: {head}");
        let cut = format!("{}…", "x".repeat(CELL - 1));
        assert!(
            text.lines().all(|line| line == head || line.contains(&cut)),
            "{text}"
        );
    }

    #[test]
    fn every_node_has_a_line_also_without_the_daemon() {
        let history =
            r#"[{"at":"2026-11-23T12:00:00Z","automatic":true,"reasons":["kernel\u001b"]}]"#;
        let cordoned = |manager: &str| {
            json!({"metadata": {"name": manager, "annotations": {"kube-rebootd/history": history}, "managedFields": [
                {"manager": manager, "operation": "Apply", "fieldsType": "FieldsV1",
                 "fieldsV1": {"f:spec": {"f:unschedulable": {}}}}]}, "spec": {"unschedulable": true}})
        };
        let members = [
            shows(
                "n1",
                true,
                ["True", "Unhealthy", "not healthy", "2026-11-24T11:59:00Z"],
            ),
            shows(
                "n2",
                true,
                [
                    "False",
                    "Idle",
                    "idle: no reboot needed",
                    "2026-11-24T11:59:00Z",
                ],
            ),
            of(cordoned("kube-rebootd")),
            of(cordoned("kubectl-cordon")),
        ];
        assert_eq!(members[2].cordon, Some(Cordon::KubeRebootd));
        let last = members[2].last_reboot.as_ref().expect("a reboot");
        assert_eq!(last.reasons, ["kernel"]);
        let mut rolled_back = last.clone();
        assert_eq!(last_reboot(&rolled_back, at(NOW)), "24h");
        rolled_back.rolled_back = Some("kernel 1 came again".to_owned());
        assert_eq!(last_reboot(&rolled_back, at(NOW)), "24h (rolled back)");
        let never = "not Ready; no report from kube-rebootd";
        let lines = [
            "NODE            GROUP  VERSION  REBOOT    FOR  REASON     CORDON        LAST REBOOT  WHY".to_owned(),
            "n1              gpu    0.2.0    required  3h   Unhealthy  -             -            ! not healthy".to_owned(),
            "n2              gpu    0.2.0    no        3h   Idle       -             -            idle: no reboot needed".to_owned(),
            format!("kube-rebootd    -      -        -         -    -          kube-rebootd  24h          {never}"),
            format!("kubectl-cordon  -      -        -         -    -          others        24h          {never}"),
        ];
        let text = super::members(&members, at(NOW));
        assert_eq!(text.lines().collect::<Vec<_>>(), lines);
    }
}
