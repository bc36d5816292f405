//! Between which moments a certificate is good: for words about one that ended (DESIGN.md 12, `doctor`).
//!
//! Nothing is verified here. Two fields deep in a fixed structure (RFC 5280, 4.1) are read; a crate for all of
//! X.509 would be the largest part of `doctor`.

use jiff::Timestamp;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

/// DER tags (X.690).
const SEQUENCE: u8 = 0x30;
const INTEGER: u8 = 0x02;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
/// `[0]`, the version; a version 1 certificate has none.
const VERSION: u8 = 0xa0;

/// notBefore and notAfter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Validity {
    pub begins: Timestamp,
    pub ends: Timestamp,
}

/// Of the first certificate in `pem`, which is the leaf; none when there is none that can be read.
pub fn validity(pem: &[u8]) -> Option<Validity> {
    let certificate = CertificateDer::from_pem_slice(pem).ok()?;
    let (mut outer, _) = take(&certificate, SEQUENCE)?;
    let mut body = inner(&mut outer, SEQUENCE)?;
    if body.first() == Some(&VERSION) {
        inner(&mut body, VERSION)?;
    }
    // Serial number, signature algorithm, issuer.
    inner(&mut body, INTEGER)?;
    inner(&mut body, SEQUENCE)?;
    inner(&mut body, SEQUENCE)?;
    let mut validity = inner(&mut body, SEQUENCE)?;
    let begins = time(&mut validity)?;
    let ends = time(&mut validity)?;
    Some(Validity { begins, ends })
}

/// The content of the element that `from` begins with, and what follows it.
fn take(from: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (&found, rest) = from.split_first()?;
    let (&first, rest) = rest.split_first()?;
    if found != tag {
        return None;
    }
    let (length, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        // So many bytes of length; certificates are far below 4 GiB.
        0x81..=0x84 => {
            let (bytes, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            let fold = |length: usize, byte: &u8| length << 8 | usize::from(*byte);
            (bytes.iter().fold(0, fold), rest)
        }
        _ => return None,
    };
    rest.split_at_checked(length)
}

/// Takes one element off `from`: its content.
fn inner<'a>(from: &mut &'a [u8], tag: u8) -> Option<&'a [u8]> {
    let (content, rest) = take(from, tag)?;
    *from = rest;
    Some(content)
}

/// RFC 5280, 4.1.2.5: two digits of the year until 2049, four after.
fn time(from: &mut &[u8]) -> Option<Timestamp> {
    let tag = *from.first()?;
    let text = std::str::from_utf8(inner(from, tag)?).ok()?;
    let full = match tag {
        UTC_TIME if text.get(..2)? < "50" => format!("20{text}"),
        UTC_TIME => format!("19{text}"),
        GENERALIZED_TIME => text.to_owned(),
        _ => return None,
    };
    let part = |at: std::ops::Range<usize>| full.get(at);
    let (year, month, day) = (part(0..4)?, part(4..6)?, part(6..8)?);
    let (hour, minute, rest) = (part(8..10)?, part(10..12)?, full.get(12..)?);
    format!("{year}-{month}-{day}T{hour}:{minute}:{rest}")
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
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
        let long =
            format!("{LONG}\n-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n");
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
}
