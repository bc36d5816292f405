use proptest::prelude::*;

use super::*;

const HEADERS: &str = "Host: 127.0.0.1:3333\r\nfleet-lock-protocol: true\r\nContent-Length: 2\r\n";

fn asks(line: &str, headers: &str) -> Result<Head, No> {
    head(format!("{line}\r\n{headers}\r\n").as_bytes())
}

fn client() -> Client {
    Client {
        id: "0123456789abcdef0123456789abcdef".to_owned(),
        group: "default".to_owned(),
    }
}

#[test]
fn the_two_calls_are_known() {
    for (path, ask) in [
        ("/v1/pre-reboot", Ask::PreReboot),
        ("/v1/steady-state", Ask::SteadyState),
    ] {
        let line = format!("POST {path} HTTP/1.1");
        assert_eq!(asks(&line, HEADERS), Ok(Head { ask, length: 2 }));
    }
    // As other clients write the names of headers.
    let shouts = HEADERS.to_uppercase().replace("TRUE", "true");
    assert!(asks("POST /v1/pre-reboot HTTP/1.1", &shouts).is_ok());
}

/// A wrong peer is told what is wrong, by a kind of its own, and never with a yes.
#[test]
fn what_is_no_request_of_the_protocol_is_told_why() {
    let post = "POST /v1/pre-reboot HTTP/1.1";
    let without = |name: &str| {
        let kept = HEADERS.split_inclusive("\r\n");
        kept.filter(|line| !line.starts_with(name))
            .collect::<String>()
    };
    let more = |header: &str| format!("{HEADERS}{header}\r\n");
    let cases = [
        ("", HEADERS.to_owned(), Kind::DecodeError),
        ("POST /v1/pre-reboot", HEADERS.to_owned(), Kind::DecodeError),
        (
            "POST /v1/pre-reboot HTTP/2.0",
            HEADERS.to_owned(),
            Kind::DecodeError,
        ),
        ("POST / HTTP/1.1", HEADERS.to_owned(), Kind::NotFound),
        (
            "POST /x/v1/pre-reboot HTTP/1.1",
            HEADERS.to_owned(),
            Kind::NotFound,
        ),
        (
            "GET /v1/pre-reboot HTTP/1.1",
            HEADERS.to_owned(),
            Kind::MethodNotAllowed,
        ),
        (post, without("fleet"), Kind::MissingHeader),
        (post, HEADERS.replace("true", "false"), Kind::MissingHeader),
        (post, more("fleet-lock-protocol: true"), Kind::MissingHeader),
        (post, without("Content"), Kind::LengthRequired),
        (post, more("Content-Length: 3"), Kind::LengthRequired),
        (post, HEADERS.replace(": 2", ": 4097"), Kind::TooLarge),
        (post, HEADERS.replace(": 2", ": -1"), Kind::DecodeError),
        (post, HEADERS.replace(": 2", ": 2, 2"), Kind::DecodeError),
    ];
    for (line, headers, kind) in cases {
        let no = asks(line, &headers).expect_err(line);
        assert_eq!(no.kind, kind, "{line} {headers}");
        assert!(!no.value.is_empty());
        assert!(!kind.status().starts_with('2'), "{}", kind.status());
    }
}

#[test]
fn i14_only_the_client_of_this_host_is_heard() {
    let says = |id: &str, group: &str| {
        let text = format!("{{\n  \"client_params\": {{\"id\": {id:?}, \"group\": {group:?}}}\n}}");
        body(text.as_bytes(), &client())
    };
    let own = client();
    assert_eq!(says(&own.id, &own.group), Ok(()));
    let kind = |answer: Result<(), No>| answer.map_err(|no| no.kind);
    assert_eq!(kind(says("other", "default")), Err(Kind::UnknownClient));
    assert_eq!(
        kind(says(&own.id.to_uppercase(), "default")),
        Err(Kind::UnknownClient)
    );
    assert_eq!(kind(says("", "default")), Err(Kind::UnknownClient));
    assert_eq!(kind(says(&own.id, "workers")), Err(Kind::UnknownGroup));
    for text in ["", "{}", "[]", "{\"client_params\":{\"id\":\"x\"}}", "null"] {
        assert_eq!(
            kind(body(text.as_bytes(), &own)),
            Err(Kind::DecodeError),
            "{text}"
        );
    }
    // What somebody else wrote is told clean.
    let no = says("\u{1b}[31mred", "default").expect_err("another");
    assert!(!no.value.contains('\u{1b}'), "{no}");
}

#[test]
fn a_client_that_asks_no_more_is_noticed() {
    let at = |boot: u64| Now {
        boot: Duration::from_secs(boot),
        wall: jiff::Timestamp::UNIX_EPOCH,
    };
    let mut heard = Heard::default();
    // A daemon that starts gives it the time to ask again.
    assert!(!heard.silent(at(100)));
    assert!(!heard.silent(at(100 + SILENT.as_secs() - 1)));
    assert!(heard.silent(at(100 + SILENT.as_secs())));
    heard.waits = true;
    assert!(!heard.silent(at(100_000)));
}

/// No phase says yes, and each is told by a kind of the protocol.
#[test]
fn not_yet_is_never_a_yes() {
    for phase in Phase::ALL {
        let no = No::yet(phase, "");
        assert!(no.kind.status().starts_with('4'), "{no}");
        assert!(!no.value.is_empty());
    }
}

proptest! {
    /// I14: whatever bytes come, reading them ends, with a yes only to what is one.
    #[test]
    fn i14_any_bytes_are_read(text in proptest::collection::vec(any::<u8>(), 0..300)) {
        if let Ok(head) = head(&text) {
            prop_assert!(head.length <= BODY_MAX);
        }
        prop_assert!(body(&text, &client()).is_err());
    }
}

/// Clients count by these, and take each of 200 to 299 for a yes.
#[test]
fn each_no_has_a_word_and_a_status_of_its_own() {
    for (kind, name, status) in [
        (Kind::NotFound, "not_found", "404"),
        (Kind::MethodNotAllowed, "method_not_allowed", "405"),
        (Kind::MissingHeader, "missing_header", "400"),
        (Kind::DecodeError, "decode_error", "400"),
        (Kind::LengthRequired, "length_required", "411"),
        (Kind::TooLarge, "too_large", "413"),
        (Kind::Forbidden, "forbidden", "403"),
        (Kind::UnknownClient, "unknown_client", "403"),
        (Kind::UnknownGroup, "unknown_group", "403"),
        (Kind::NotReady, "not_ready", "503"),
        (Kind::GateClosed, "gate_closed", "423"),
        (Kind::SlotTaken, "slot_taken", "423"),
        (Kind::Draining, "draining", "423"),
        (Kind::Undone, "undone", "423"),
        (Kind::Verifying, "verifying", "423"),
    ] {
        assert_eq!(kind.name(), name);
        assert_eq!(&kind.status()[..3], status, "{name}");
    }
}

/// Found by review: an id that was copied from Zincati's configuration was nobody's, and its host got no update any more.
#[test]
fn an_id_is_known_in_each_spelling_of_a_uuid() {
    let sent = "27e3ac02af3743278ad9a21e8fb0ac71";
    for written in [
        "27e3ac02-af37-4327-8ad9-a21e8fb0ac71",
        "27E3AC02-AF37-4327-8AD9-A21E8FB0AC71",
        "{27e3ac02-af37-4327-8ad9-a21e8fb0ac71}",
        sent,
    ] {
        assert_eq!(sent_of(written), sent, "{written}");
    }
    for other in [
        "n1",
        "a-b",
        "27e3ac02-af37",
        "zze3ac02af3743278ad9a21e8fb0ac71",
        "",
    ] {
        assert_eq!(sent_of(other), other);
    }
}
