//! Decisions over records that were damaged and yet can be read: on disk or on the Node, where whoever may
//! annotate it writes (I6, I8).

use super::*;

/// The record in place of the one of `facts`; with `on_node` at a start, from the Node's annotation.
fn with(mut facts: Facts, text: &str, on_node: bool) -> Facts {
    if on_node {
        facts.started = false;
        facts.record = Record::default();
        if let Seen::Present(node) = &mut facts.node {
            let annotations = &mut node.annotations;
            annotations.insert(names::STATE.to_owned(), text.to_owned());
            annotations.insert(names::HISTORY.to_owned(), text.to_owned());
        }
    } else {
        facts.record = Record::decode(text).unwrap_or_default();
    }
    facts
}

fn damaged() -> impl Strategy<Value = (Facts, String)> {
    facts().prop_flat_map(|facts| {
        let value = serde_json::to_value(&facts.record).expect("JSON");
        let damaged = prop_oneof![garble::json(value.clone()), garble::numbers(value)];
        (Just(facts), damaged.prop_map(|value| value.to_string()))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn i8_a_damaged_record_never_stops_the_daemon_nor_asks_for_a_reboot((facts, text) in damaged(), on_node in any::<bool>()) {
        let facts = with(facts, &text, on_node);
        let step = decide(&facts, &policy(), now());
        // What is written next can be read again.
        prop_assert_eq!(Record::decode(&step.record.encode()), Ok(step.record.clone()));
        if step.effect == Effect::AskReboot {
            let hold = facts.record.hold.as_ref().unwrap();
            let lease = &facts.leases[&hold.take.lease];
            prop_assert!(hold.matches(lease, ME) && fresh(lease.read) && facts.closed.is_empty());
            prop_assert!(facts.last_list.as_ref().is_some_and(|list| list.clean));
        }
    }
}
