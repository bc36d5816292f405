//! Between which moments a certificate is good: for words about one that ended, as `doctor` says them.
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
mod tests;
