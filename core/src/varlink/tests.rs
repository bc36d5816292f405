use proptest::prelude::*;

use super::*;
use crate::text::hostile;

/// As systemd's library sends it.
const REBOOT: &str =
    r#"{"method":"org.openSUSE.rebootmgr.Reboot","parameters":{"Reboot":1,"Force":false}}"#;

fn parsed(message: &[u8]) -> Value {
    let (last, text) = message.split_last().expect("something");
    assert_eq!(*last, END);
    assert!(!text.contains(&END));
    serde_json::from_slice(text).expect("JSON")
}

#[test]
fn calls_are_read() {
    let read = call(REBOOT.as_bytes()).expect("a call");
    assert_eq!(read.method, "org.openSUSE.rebootmgr.Reboot");
    assert_eq!(
        Value::from(read.parameters),
        json!({"Reboot": 1, "Force": false})
    );
    assert!(!read.oneway);
    for (text, oneway) in [
        (r#"{"method":"a.B"}"#, false),
        (r#"{"method":"a.B","parameters":null,"more":true}"#, false),
        (r#"{"method":"a.B","parameters":{},"oneway":false}"#, false),
        (r#" {"oneway":true,"method":"a.B","x":[1]} "#, true),
    ] {
        let read = call(text.as_bytes()).expect(text);
        let wanted = Call {
            method: "a.B".to_owned(),
            oneway,
            ..Call::default()
        };
        assert_eq!(read, wanted, "{text}");
    }
}

/// Whoever sends something else is told what is wrong.
#[test]
fn i14_what_is_no_call_is_told_why() {
    let long = format!(r#"{{"method":"{}"}}"#, "a".repeat(LONGEST));
    let nested = format!(
        r#"{{"method":"a.B","parameters":{}"#,
        "{\"a\":".repeat(3000)
    );
    for (text, parameter) in [
        ("", "message"),
        ("null", "message"),
        ("[]", "message"),
        ("{}", "message"),
        (r#"{"method":1}"#, "message"),
        (r#"{"method":"a.B","parameters":[]}"#, "message"),
        (r#"{"method":"a.B"} x"#, "message"),
        (r#"{"method":"a.B","method":"a.C"}"#, "message"),
        ("GET / HTTP/1.1\r\n\r\n", "message"),
        ("\u{16}\u{3}\u{1}", "message"),
        (&long, "message"),
        (&nested, "message"),
        (r#"{"method":"a.B","upgrade":true}"#, "upgrade"),
    ] {
        let fault = call(text.as_bytes()).expect_err(text);
        assert_eq!(fault.name, "org.varlink.service.InvalidParameter");
        assert_eq!(fault.parameters["parameter"], parameter, "{text}");
        assert!(fault.words().contains(": "), "{}", fault.words());
    }
    assert!(call(b"\xff\xfe").is_err());
}

#[test]
fn answers_are_written() {
    assert_eq!(
        parsed(&reply(Ok(json!({"Alive": true})))),
        json!({"parameters": {"Alive": true}})
    );
    assert_eq!(
        parsed(&reply(Err(Fault::unknown("a.B\0\u{1b}[2J")))),
        json!({"error": "org.varlink.service.MethodNotFound", "parameters": {"method": "a.B[2J"}})
    );
    assert_eq!(
        parsed(&reply(Ok(json!({"x": "\0"})))),
        json!({"parameters": {"x": "\0"}})
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    /// I14: whatever bytes come, reading them ends, and what is given back of them is short and clean.
    #[test]
    fn i14_damaged_calls_are_read_or_told_why(bytes in garble::bytes(REBOOT.as_bytes().to_vec())) {
        if let Err(fault) = call(&bytes) {
            let message = reply(Err(fault.clone()));
            prop_assert!(message.len() < LONGEST);
            let reason = parsed(&message)["parameters"]["Reason"].as_str().map(str::to_owned);
            prop_assert!(!reason.unwrap_or_default().contains(hostile));
        }
    }

    #[test]
    fn i14_names_are_given_back_clean(name in garble::hostile()) {
        for fault in [Fault::unknown(&name), Fault::unserved(&name), Fault::no_interface(&name), Fault::invalid(&name, &name)] {
            let message = reply(Err(fault));
            prop_assert!(message.len() < LONGEST);
            for word in parsed(&message)["parameters"].as_object().expect("an object").values() {
                prop_assert!(!word.as_str().expect("a text").contains(hostile));
            }
        }
    }

    #[test]
    fn i14_other_values_are_read_or_told_why(value in garble::json(serde_json::from_str(REBOOT).expect("JSON"))) {
        let _ = call(value.to_string().as_bytes());
    }
}

/// I14: nesting costs no stack.
#[test]
fn i14_nesting_is_refused() {
    for text in garble::deep(LONGEST - 1) {
        garble::soon(move || call(text.as_bytes()).map(drop)).expect_err("no call");
    }
}
