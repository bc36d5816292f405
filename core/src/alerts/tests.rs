use serde_json::{Value, json};

use super::*;

fn vector(samples: &[Value]) -> Vec<u8> {
    let result: Vec<Value> = samples
        .iter()
        .map(|metric| json!({"metric": metric, "value": [1, "1"]}))
        .collect();
    let answer = json!({"status": "success", "data": {"resultType": "vector", "result": result}});
    answer.to_string().into_bytes()
}

fn alert(name: &str, state: &str, severity: &str) -> Value {
    json!({"__name__": "ALERTS", "alertname": name, "alertstate": state, "severity": severity})
}

fn pattern(text: &str) -> Pattern {
    Pattern::anywhere(text).unwrap()
}

/// Which of these are told, by each selection.
#[test]
fn what_counts_is_what_is_selected_and_never_our_own() {
    let answer = vector(&[
        alert("NodeDown", "firing", "critical"),
        alert("DiskFull", "firing", "warning"),
        alert("DiskFullSoon", "pending", "warning"),
        alert("Watchdog", "firing", ""),
        alert("KubeRebootdHolderDead", "firing", "critical"),
    ]);
    let all = Selection::default();
    let with = |matchers: &[&str]| Selection {
        matchers: matchers.iter().map(|one| one.parse().unwrap()).collect(),
        ..Selection::default()
    };
    let rows = [
        (all.clone(), "DiskFull, NodeDown, Watchdog"),
        (
            Selection {
                pending: true,
                ..all.clone()
            },
            "DiskFull, DiskFullSoon (pending), NodeDown, Watchdog",
        ),
        (
            Selection {
                only: Some(pattern("Disk")),
                ..all.clone()
            },
            "DiskFull",
        ),
        (
            Selection {
                ignore: Some(pattern("^(Watchdog|DiskFull)$")),
                ..all.clone()
            },
            "NodeDown",
        ),
        (
            Selection {
                only: Some(pattern("Kube")),
                ..all.clone()
            },
            "",
        ),
        (
            Selection {
                only: Some(pattern("Disk")),
                ignore: Some(pattern("Full")),
                ..all
            },
            "",
        ),
        (with(&["severity=critical"]), "NodeDown"),
        (
            with(&["severity=critical", "severity=~warn.*"]),
            "DiskFull, NodeDown",
        ),
        (with(&["severity=~warn"]), ""),
        (with(&["severity!=\"\",alertname!~Node.*"]), "DiskFull"),
        (with(&["missing=\"\""]), "DiskFull, NodeDown, Watchdog"),
    ];
    for (selection, wanted) in rows {
        let said = words(&active(&answer, &selection).unwrap());
        let said = said.unwrap_or_default();
        assert_eq!(
            said.trim_start_matches("active alerts: "),
            wanted,
            "{selection:?}"
        );
    }
}

#[test]
fn i14_few_of_many_are_named_and_cleaned() {
    let many: Vec<Value> = (0..9)
        .map(|nth| alert(&format!("A{nth}\u{1b}"), "firing", ""))
        .collect();
    let found = active(&vector(&many), &Selection::default()).unwrap();
    assert_eq!(
        words(&found).unwrap(),
        "active alerts: A0, A1, A2, A3, A4 and 4 more"
    );
}

#[test]
fn i8_an_answer_that_is_not_understood_or_lacks_something_is_none() {
    let all = Selection::default();
    for text in [
        "",
        "[]",
        "{}",
        "{\"status\":\"success\",\"data\":{}}",
        "<html>",
    ] {
        assert_eq!(
            active(text.as_bytes(), &all),
            Err(Unclear::Prometheus),
            "{text}"
        );
        assert_eq!(against(text.as_bytes()), Err(Unclear::Prometheus), "{text}");
    }
    let lacks = json!({"status": "success", "warnings": ["a store is away"], "data": {"resultType": "vector", "result": []}});
    let lacks = lacks.to_string().into_bytes();
    let wanted = Unclear::Lacks("a store is away".to_owned());
    assert_eq!(active(&lacks, &all), Err(wanted.clone()));
    assert_eq!(against(&lacks), Err(wanted));
    // Found by review: what the filter leaves out passed for an answer that lacks nothing.
    let watchdog = json!([{"metric": {"__name__": "ALERTS", "alertname": "Watchdog", "alertstate": "firing"}, "value": [0, "1"]}]);
    let none = Selection {
        ignore: Some(Pattern::anywhere(".").unwrap()),
        ..Selection::default()
    };
    let zero = json!([0, "0"]);
    for (key, value, why) in [
        ("warnings", json!(["a store is away"]), "a store is away"),
        ("isPartial", json!(true), "the answer is partial"),
    ] {
        let wanted = Unclear::Lacks(why.to_owned());
        let mut answer =
            json!({"status": "success", "data": {"resultType": "vector", "result": watchdog}});
        answer[key] = value.clone();
        let answer = answer.to_string().into_bytes();
        assert_eq!(active(&answer, &none), Err(wanted.clone()));
        assert_eq!(
            active(&answer, &all).unwrap().len(),
            1,
            "one that counts does"
        );
        let mut number =
            json!({"status": "success", "data": {"resultType": "scalar", "result": zero}});
        number[key] = value;
        assert_eq!(against(&number.to_string().into_bytes()), Err(wanted));
    }
    let garbled = vector(&[alert("A", "firing", "")]);
    for cut in 0..garbled.len() {
        assert!(active(&garbled[..cut], &all).is_err(), "{cut}");
    }
}

/// As in the rule of an alert: `up == 0` returns samples that are 0.
#[test]
fn i8_each_sample_of_a_query_closes_and_each_number_but_zero() {
    let said = |kind: &str, result: Value| {
        let answer = json!({"status": "success", "data": {"resultType": kind, "result": result}});
        against(answer.to_string().as_bytes())
    };
    assert_eq!(said("vector", json!([])), Ok(None));
    assert_eq!(
        said(
            "vector",
            json!([{"metric": {"job": "a"}, "value": [1, "0"]}])
        ),
        Ok(Some("the query returns {job=\"a\"} 0".to_owned()))
    );
    let words = said(
        "vector",
        json!([{"metric": {}, "value": [1, "2"]}, {"metric": {}, "histogram": [1, {}]}]),
    );
    assert_eq!(
        words,
        Ok(Some(
            "the query returns 2 samples, the first is {} 2".to_owned()
        ))
    );
    assert_eq!(said("scalar", json!([1, "0"])), Ok(None));
    for number in ["1", "NaN", "-1", "x"] {
        assert_eq!(
            said("scalar", json!([1, number])),
            Ok(Some(format!("the query is {number}")))
        );
    }
    assert_eq!(said("matrix", json!([])), Err(Unclear::Kind));
    assert_eq!(said("string", json!([1, "a"])), Err(Unclear::Kind));
}

#[test]
fn i8_silenced_is_what_every_copy_of_an_alert_is() {
    let answer = vector(&[
        json!({"alertname": "Down", "alertstate": "firing"}),
        json!({"alertname": "Down", "alertstate": "firing", "node": "n2"}),
    ]);
    let alerts = active(&answer, &Selection::default()).unwrap();
    let known = |labels: Value, silences: &[&str]| json!({"labels": labels, "status": {"state": "x", "silencedBy": silences, "inhibitedBy": ["a"]}});
    let bare = |prometheus: &str| json!({"alertname": "Down", "prometheus": prometheus});
    let n2 = || json!({"alertname": "Down", "node": "n2", "prometheus": "a"});
    let other = || json!({"alertname": "Up", "node": "n2"});
    for (list, left) in [
        (vec![], 2),
        (vec![known(bare("a"), &["s"])], 1),
        (vec![known(n2(), &["s"])], 1),
        (vec![known(n2(), &["s"]), known(bare("a"), &["s"])], 0),
        (vec![known(n2(), &[]), known(bare("a"), &[])], 2),
        // Another replica's copy is not.
        (
            vec![
                known(n2(), &["s"]),
                known(bare("a"), &["s"]),
                known(bare("b"), &[]),
            ],
            1,
        ),
        (vec![known(other(), &["s"])], 2),
    ] {
        let text = Value::from(list).to_string();
        let found = unsilenced(alerts.clone(), text.as_bytes()).unwrap();
        assert_eq!(found.len(), left, "{text}");
    }
    assert_eq!(
        unsilenced(alerts.clone(), b"{}"),
        Err(Unclear::Alertmanager)
    );
    let path = silences_path(&alerts).unwrap();
    let bytes = "alertname=~\"Down\"".bytes();
    let filter = bytes
        .map(|byte| format!("%{byte:02X}"))
        .collect::<Vec<_>>()
        .concat();
    assert!(path.ends_with(&format!("&filter={filter}")), "{path}");
    let pending = vector(&[alert("A", "pending", "")]);
    let selection = Selection {
        pending: true,
        ..Selection::default()
    };
    assert_eq!(silences_path(&active(&pending, &selection).unwrap()), None);
}

#[test]
fn only_what_counts_is_asked_for() {
    let decoded = |asks: Asks| {
        let path = asks.path();
        let hex = path
            .strip_prefix("/api/v1/query?query=")
            .unwrap()
            .to_owned();
        let bytes = hex
            .split('%')
            .skip(1)
            .map(|byte| u8::from_str_radix(byte, 16).unwrap());
        String::from_utf8(bytes.collect()).unwrap()
    };
    let mut selection = Selection::default();
    assert_eq!(
        decoded(Asks::Alerts(selection.clone())),
        "ALERTS{alertstate=\"firing\"}"
    );
    selection.pending = true;
    assert_eq!(decoded(Asks::Alerts(selection)), "ALERTS");
    assert_eq!(decoded(Asks::Query("a + b".to_owned())), "a + b");
}
