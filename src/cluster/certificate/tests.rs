//! Dates of certificates, real and damaged.

use proptest::prelude::*;

use super::*;

/// openssl x509 -req -days 365: version 1.
const OLD: &str = "-----BEGIN CERTIFICATE-----\n\
    MIIBXDCCAQECFG2OS+w29NDR+82oBQDhQJdC4+EQMAoGCCqGSM49BAMCMDAxFTAT\n\
    BgNVBAoMDHN5c3RlbTpub2RlczEXMBUGA1UEAwwOc3lzdGVtOm5vZGU6bjEwHhcN\n\
    MjYxMTIxMTMyNTA2WhcNMjcxMTIxMTMyNTA2WjAwMRUwEwYDVQQKDAxzeXN0ZW06\n\
    bm9kZXMxFzAVBgNVBAMMDnN5c3RlbTpub2RlOm4xMFkwEwYHKoZIzj0CAQYIKoZI\n\
    zj0DAQcDQgAEuEt6aeqehuS8m6LmnGeUDcQV/IqIBRLNLnkYxm4REZMUicprcKH8\n\
    GLtKW3jAAYTa1m5gbW/NlSsFLSBhlE8lITAKBggqhkjOPQQDAgNJADBGAiEAnjBe\n\
    zlUZj08yt3RkEJk2sYmu1antbS5kzKZMEjboNBoCIQD6kpl2H6/ZjxHG1uECll0c\n\
    eIV6tzeBpb/oXxVlzzZrMg==\n\
    -----END CERTIFICATE-----\n";
/// openssl req -x509 -days 20000: version 3, and an end that needs four digits of the year.
const LONG: &str = "-----BEGIN CERTIFICATE-----\n\
    MIIBiTCCAS+gAwIBAgIUaJ2d1tqtXF6chw1Wgm/cPRKdLJ0wCgYIKoZIzj0EAwIw\n\
    GTEXMBUGA1UEAwwOc3lzdGVtOm5vZGU6bjEwIBcNMjYxMTIxMTMyNTA2WhgPMjA4\n\
    MTA4MjQxMzI1MDZaMBkxFzAVBgNVBAMMDnN5c3RlbTpub2RlOm4xMFkwEwYHKoZI\n\
    zj0CAQYIKoZIzj0DAQcDQgAEuEt6aeqehuS8m6LmnGeUDcQV/IqIBRLNLnkYxm4R\n\
    EZMUicprcKH8GLtKW3jAAYTa1m5gbW/NlSsFLSBhlE8lIaNTMFEwHQYDVR0OBBYE\n\
    FLrpytK3RQPtbL73WZsNX89Vk5VZMB8GA1UdIwQYMBaAFLrpytK3RQPtbL73WZsN\n\
    X89Vk5VZMA8GA1UdEwEB/wQFMAMBAf8wCgYIKoZIzj0EAwIDSAAwRQIgPU+jgI8d\n\
    QqtgYx3ybcpf/HvzEVAKB0Y8mXJESoD6EPACIQCwSo9rVuaHbVKI8DaxI9+35Mkf\n\
    dShl/eVPurdjZjowGg==\n\
    -----END CERTIFICATE-----\n";

fn at(text: &str) -> Timestamp {
    text.parse().expect("a time")
}

#[test]
fn both_forms_of_a_date_are_read() {
    let old = validity(OLD.as_bytes()).expect("a certificate");
    assert_eq!(old.begins, at("2026-11-21T13:25:06Z"));
    assert_eq!(old.ends, at("2027-11-21T13:25:06Z"));
    // As the kubelet keeps it: certificate and key in one file.
    let long = format!("{LONG}\n-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n");
    let long = validity(long.as_bytes()).expect("a certificate");
    assert_eq!(long.begins, at("2026-11-21T13:25:06Z"));
    assert_eq!(long.ends, at("2081-08-24T13:25:06Z"));
}

#[test]
fn nonsense_is_none() {
    assert_eq!(validity(b""), None);
    assert_eq!(
        validity(b"-----BEGIN CERTIFICATE-----\nMAo=\n-----END CERTIFICATE-----\n"),
        None
    );
    let der = CertificateDer::from_pem_slice(OLD.as_bytes()).expect("PEM");
    for cut in 0..der.len() {
        // Not one cut panics.
        let _ = take(&der[..cut], SEQUENCE).and_then(|(content, _)| take(content, SEQUENCE));
    }
}

fn der(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = content.len();
    let mut bytes = vec![tag];
    match u8::try_from(length) {
        Ok(short) if short < 0x80 => bytes.push(short),
        _ => {
            bytes.push(0x82);
            bytes.extend(u16::try_from(length).expect("short").to_be_bytes());
        }
    }
    bytes.extend(content);
    bytes
}

/// A moment as RFC 5280 has it written.
fn written(at: Timestamp) -> Vec<u8> {
    let text = at.strftime("%Y%m%d%H%M%SZ").to_string();
    match text[..4].parse() {
        Ok(1950..=2049) => der(UTC_TIME, &text.as_bytes()[2..]),
        _ => der(GENERALIZED_TIME, text.as_bytes()),
    }
}

/// As much of a certificate as is read, and something behind it.
fn made(begins: Timestamp, ends: Timestamp, version: bool) -> Vec<u8> {
    let mut body = Vec::new();
    if version {
        body.extend(der(VERSION, &der(INTEGER, &[2])));
    }
    body.extend(der(INTEGER, &[7; 20]));
    body.extend(der(SEQUENCE, b"algorithm"));
    body.extend(der(SEQUENCE, &[b'i'; 200]));
    body.extend(der(SEQUENCE, &[written(begins), written(ends)].concat()));
    body.extend(der(SEQUENCE, b"subject"));
    der(SEQUENCE, &der(SEQUENCE, &body))
}

/// PEM of these bytes, by the only encoder at hand.
fn pem(der: &[u8]) -> String {
    let base64 = serde_json::to_value(k8s_openapi::ByteString(der.to_vec())).expect("base64");
    let base64 = base64.as_str().expect("text");
    format!("-----BEGIN CERTIFICATE-----\n{base64}\n-----END CERTIFICATE-----\n")
}

fn moment() -> impl Strategy<Value = Timestamp> {
    // Years 1 to 9999.
    (-62_135_596_800_i64..253_402_207_200)
        .prop_map(|second| Timestamp::from_second(second).expect("a time"))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn dates_are_read_as_they_were_written(begins in moment(), ends in moment(), version in any::<bool>()) {
        let read = validity(pem(&made(begins, ends, version)).as_bytes());
        prop_assert_eq!(read, Some(Validity { begins, ends }));
    }

    #[test]
    fn i8_a_certificate_cut_off_has_no_dates(begins in moment(), at in any::<prop::sample::Index>(), old in any::<bool>()) {
        let whole = if old {
            CertificateDer::from_pem_slice(OLD.as_bytes()).expect("PEM").to_vec()
        } else {
            made(begins, begins, true)
        };
        let cut = &whole[..at.index(whole.len())];
        prop_assert_eq!(validity(pem(cut).as_bytes()), None);
    }

    #[test]
    fn damage_changes_dates_or_loses_them(bytes in prop_oneof![
        garble::bytes(CertificateDer::from_pem_slice(OLD.as_bytes()).expect("PEM").to_vec()),
        prop::collection::vec(any::<u8>(), 0..300),
    ]) {
        if let Some(read) = validity(pem(&bytes).as_bytes()) {
            // Dates come from digits that are there.
            let year = read.ends.strftime("%y").to_string();
            prop_assert!(bytes.windows(2).any(|two| two == year.as_bytes()), "{read:?}");
        }
    }

    #[test]
    fn any_text_around_or_in_place_of_pem_is_answered(text in garble::text(LONG)) {
        let _ = validity(text.as_bytes());
    }
}

#[test]
fn i7_a_length_that_lies_and_nesting_are_refused_in_bounded_time() {
    for unit in [
        &[0x30, 0x80][..],
        &[0x30, 0x84, 0xff, 0xff, 0xff, 0xff],
        &[0x30, 0x02],
        &[0x30],
    ] {
        let bytes = unit.repeat((1 << 20) / unit.len());
        assert_eq!(garble::soon(move || validity(pem(&bytes).as_bytes())), None);
    }
    let text = "-----BEGIN CERTIFICATE-----\n".repeat(30_000);
    assert_eq!(garble::soon(move || validity(text.as_bytes())), None);
}
