use std::path::Path;
use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::boot::Boot;
use crate::config::{self, Config};
use crate::effect::Effect;
use crate::node::Node;
use crate::record::{Hold, Record};
use crate::slot::{Lease, Take};

fn at() -> Alertmanager {
    let text = "[notify]\nalertmanager = \"http://a:9093\"\n";
    let notify = config::parse(Path::new("c"), text).unwrap().config.notify;
    notify.alertmanager.unwrap()
}

fn silence() -> Silence {
    Silence {
        at: at(),
        node: "n1".to_owned(),
        uid: "u".to_owned(),
        comment: "c".to_owned(),
    }
}

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
fn alerts_are_silenced_only_while_the_node_is_down_on_purpose() {
    let policy = Policy::of(&Config::default(), Some("n1"), "kube-rebootd", "default");
    let wanted = |phase, reason, policy: &Policy, at: Option<&Alertmanager>| {
        let step = Step {
            phase,
            reason,
            record: Record::default(),
            effect: Effect::Wait,
            wake: None,
            status: String::new(),
            waits: None,
            would: None,
        };
        let node = Seen::Present(Box::new(Node::ready()));
        Silence::wanted(&step, policy, &node, at)
    };
    let at = at();
    let silenced = Phase::ALL
        .into_iter()
        .filter(|phase| wanted(*phase, Reason::of(*phase), &policy, Some(&at)).is_some());
    let silenced: Vec<Phase> = silenced.collect();
    assert_eq!(
        silenced,
        [
            Phase::Draining,
            Phase::Drained,
            Phase::Rebooting,
            Phase::Verifying
        ]
    );
    let draining = wanted(Phase::Draining, Reason::BlockedByBudget, &policy, Some(&at)).unwrap();
    assert_eq!(draining.comment, "n1 (group default): draining the node");
    // It had its time: its alerts are to be heard.
    assert_eq!(
        wanted(Phase::Verifying, Reason::Unhealthy, &policy, Some(&at)),
        None
    );
    assert_eq!(
        wanted(Phase::Draining, Reason::Draining, &policy, None),
        None
    );
    let nameless = Policy::of(&Config::default(), None, "kube-rebootd", "default");
    assert_eq!(
        wanted(Phase::Draining, Reason::Draining, &nameless, Some(&at)),
        None
    );
}

/// Found by an attack: two clusters that share an Alertmanager ended each other's silences.
#[test]
fn i14_the_author_is_one_node_of_one_cluster_before_and_after_its_reboot() {
    let policy = Policy::of(&Config::default(), Some("n1"), "kube-rebootd", "default");
    let at = at();
    let boot = Boot {
        id: "a".to_owned(),
        userspace: 0,
    };
    let lease = Lease::free("default", "default");
    let take = Take::of(&lease, "kube-rebootd", Timestamp::UNIX_EPOCH, false);
    let hold = |uid: Option<&str>| Hold {
        node_uid: uid.map(str::to_owned),
        ..Hold::begin(take.clone(), boot.clone())
    };
    let author = |node: &Seen, hold: Option<Hold>| {
        let step = Step {
            phase: Phase::Verifying,
            reason: Reason::Verifying,
            record: Record {
                hold,
                ..Record::default()
            },
            effect: Effect::Wait,
            wake: None,
            status: String::new(),
            waits: None,
            would: None,
        };
        Silence::wanted(&step, &policy, node, Some(&at)).map(|silence| silence.author())
    };
    let node = |uid: &str| {
        Seen::Present(Box::new(Node {
            uid: uid.to_owned(),
            ..Node::ready()
        }))
    };
    let ours = author(&node("u"), Some(hold(Some("u"))));
    assert_eq!(ours.as_deref(), Some("kube-rebootd on n1 (Node u)"));
    let before_the_api_server = author(&Seen::Unknown, Some(hold(Some("u"))));
    assert_eq!(before_the_api_server, ours);
    // Registered anew, or of another cluster.
    assert_ne!(author(&node("v"), Some(hold(Some("u")))), ours);
    assert_eq!(author(&Seen::Unknown, Some(hold(None))), None);
    assert_eq!(author(&Seen::Unknown, None), None);
    let mut other = silence();
    other.uid = "v".to_owned();
    assert!(!other.covers_what(&silence()));
    let matchers = other.at.silences[0].of("n1", "");
    let all = json!([listed("a-1", &other.author(), "active", &matchers)]);
    let found = own(all.to_string().as_bytes(), &silence().author(), &matchers);
    assert_eq!(found, Ok(Vec::new()));
}

/// As Alertmanager 0.25 lists it.
fn listed(id: &str, author: &str, state: &str, matchers: &[Matcher]) -> Value {
    json!({
        "id": id, "createdBy": author, "comment": "c", "matchers": matchers,
        "startsAt": "2026-11-18T03:00:00.123Z", "endsAt": "2026-11-18T03:15:00.000Z",
        "updatedAt": "2026-11-18T03:00:00.123Z", "status": {"state": state},
    })
}

#[test]
fn i14_only_what_is_our_own_to_the_letter_is_renewed_or_ended() {
    let silence = silence();
    let author = silence.author();
    let ours = silence.at.silences[0].of("n1", "");
    let mut sorted = ours.clone();
    sorted.sort();
    assert_ne!(sorted, ours, "alertname is before node");
    let more = [ours.clone(), vec![matcher("severity", "=", "info")]].concat();
    let all = json!([
        listed("a-1", &author, "active", &sorted),
        listed("b-2", "somebody", "active", &ours),
        listed("c-3", &author, "expired", &ours),
        listed("d-4", &author, "active", &more),
        listed("e-5/../..", &author, "active", &ours),
        listed("f-6", &author, "pending", &ours),
        listed("g-7", "kube-rebootd on n10 (Node u)", "active", &ours),
        {"id": 7},
        "nonsense",
    ]);
    let found = own(all.to_string().as_bytes(), &author, &ours).unwrap();
    let ids: Vec<&str> = found.iter().map(|one| one.id.as_str()).collect();
    assert_eq!(ids, ["a-1", "f-6"]);
    let wall = Timestamp::from_second(1_790_000_000).unwrap();
    let body = silence.body(&ours, Some(&found[0]), wall);
    assert_eq!(body["id"], "a-1");
    assert_eq!(body["startsAt"], "2026-11-18T03:00:00.123Z");
    let new = silence.body(&ours, None, wall);
    assert_eq!(new.get("id"), None);
    let length = |time: &str| new[time].as_str().unwrap().parse::<Timestamp>().unwrap();
    let length = length("endsAt").duration_since(wall);
    assert_eq!(Duration::try_from(length).unwrap(), silence.at.length);
    assert_eq!(made(br#"{"silenceID":"a-1"}"#), Ok("a-1".to_owned()));
    assert_eq!(made(br#"{"silenceID":"../x"}"#), Err(NotUnderstood));
}

/// Found by an attack: an answer of 4 MiB became some 390 MiB of values.
#[test]
fn i14_an_answer_of_the_largest_size_becomes_a_few_silences() {
    const ANSWER: usize = 1024 * 1024;
    let silence = silence();
    let author = silence.author();
    let ours = silence.at.silences[0].of("n1", "");
    let one = listed("a-1", &author, "active", &ours).to_string();
    let kept = |filler: &str| {
        let fillers = (ANSWER - one.len() - 2) / (filler.len() + 1);
        let answer = format!("[{}{one}]", format!("{filler},").repeat(fillers));
        own(answer.as_bytes(), &author, &ours).map(|found| found.len())
    };
    for filler in ["0", "[]", "{}", "\"\"", " null "] {
        assert_eq!(kept(filler), Ok(1), "{filler}");
    }
    assert_eq!(kept(&one), Ok(OWN_MAX));
    // Values would be nested as deep; nothing is built of what is not looked at.
    let half = ANSWER / 4;
    let deep = format!("{}{}", "[".repeat(half), "]".repeat(half));
    assert_eq!(kept(&deep), Ok(1));
    assert_eq!(
        kept(&one.replacen('{', &format!("{{\"new\":{deep},"), 1)),
        Ok(2)
    );
    let bad = |answer: &str| own(answer.as_bytes(), &author, &ours);
    assert_eq!(bad(" [ ] "), Ok(Vec::new()));
    for answer in [
        "", "[", "[,]", "[0,]", "[0 0]", "[0]]", "[0", "{}", "[0]x", "[]x",
    ] {
        assert_eq!(bad(answer), Err(NotUnderstood), "{answer}");
    }
}

/// Before 0.22 `isEqual` was not known: our own alerts, and no others, would be silenced.
#[test]
fn an_alertmanager_that_knows_no_negative_matchers_is_found_out() {
    let silence = silence();
    let ours = silence.at.silences[0].of("n1", "");
    let shown = |equal: Option<bool>| {
        let mut one = listed("a", "a", "active", &ours);
        for matcher in one["matchers"].as_array_mut().unwrap() {
            match equal {
                None => {
                    matcher.as_object_mut().unwrap().remove("isEqual");
                }
                Some(equal) if matcher["name"] == "alertname" => matcher["isEqual"] = json!(equal),
                Some(_) => {}
            }
        }
        differs(one.to_string().as_bytes(), &ours)
    };
    assert!(!shown(Some(false)));
    assert!(shown(Some(true)) && shown(None));
    assert!(!differs(b"<html>", &ours), "that proves nothing");
}

proptest! {
    #[test]
    fn i14_whatever_alertmanager_answers_is_answered(
        answer in garble::bytes(
            serde_json::to_vec(&json!([listed("a", "kube-rebootd on n1", "active", &[others()])])).unwrap(),
        ),
    ) {
        for own in own(&answer, "kube-rebootd on n1", &[others()]).into_iter().flatten() {
            prop_assert!(is_id(&own.id));
        }
        let _ = made(&answer);
        let _ = differs(&answer, &[others()]);
    }
}
