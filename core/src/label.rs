//! What Kubernetes allows as a label key, a label value or an object's name; and what is a URL, a path or a time zone (I12).

use std::net::Ipv6Addr;

/// A label value that is not empty: 1 to 63 of `[A-Za-z0-9._-]`, alphanumeric at both ends.
pub fn is_label_value(text: &str) -> bool {
    let bytes = text.as_bytes();
    let inner = |b: &u8| b.is_ascii_alphanumeric() || b"._-".contains(b);
    let end = |b: Option<&u8>| b.is_some_and(u8::is_ascii_alphanumeric);
    bytes.len() <= 63 && end(bytes.first()) && end(bytes.last()) && bytes.iter().all(inner)
}

/// `[prefix/]name`: a name like a label value, a prefix like a DNS subdomain
/// (apimachinery `IsQualifiedName`).
pub(crate) fn is_label_key(text: &str) -> bool {
    match text.split_once('/') {
        Some((prefix, name)) => is_subdomain(prefix) && is_label_value(name),
        None => is_label_value(text),
    }
}

/// A DNS subdomain: the name of most objects.
pub fn is_subdomain(text: &str) -> bool {
    // Unlike a DNS label, each part of a subdomain has no length limit of its own in Kubernetes.
    text.len() <= 253 && text.split('.').all(is_dns_part)
}

/// A DNS label (RFC 1123), as a namespace has.
pub fn is_dns_label(text: &str) -> bool {
    text.len() <= 63 && is_dns_part(text)
}

/// Lower-case letters, digits and `-`, alphanumeric at both ends.
fn is_dns_part(text: &str) -> bool {
    let word = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let bytes = text.as_bytes();
    bytes.first().copied().is_some_and(word)
        && bytes.last().copied().is_some_and(word)
        && bytes.iter().all(|b| word(*b) || *b == b'-')
}

/// Of a file below /usr/share/zoneinfo: parts of letters, digits, `-`, `+` and `_` (tzdata's theory.html).
pub(crate) fn is_zone_name(text: &str) -> bool {
    let inner = |b: u8| b.is_ascii_alphanumeric() || b"-+_".contains(&b);
    let part = |part: &str| !part.is_empty() && part.bytes().all(inner);
    text.len() <= 64 && text.split('/').all(part)
}

/// Of a file; no path has a NUL (`path_resolution(7)`).
pub(crate) fn is_absolute(path: &str) -> bool {
    path.starts_with('/') && !path.contains('\0')
}

/// A server by https, as `https://10.0.0.1:6443`: what a kubeconfig calls one, without a path.
pub(crate) fn is_server(text: &str) -> bool {
    let Some(rest) = text.strip_prefix("https://") else {
        return false;
    };
    let (sound, port) = if let Some(rest) = rest.strip_prefix('[') {
        let (host, port) = rest.split_once(']').unwrap_or_default();
        (host.parse::<Ipv6Addr>().is_ok(), port)
    } else {
        let (host, port) = rest.split_at(rest.find(':').unwrap_or(rest.len()));
        (is_subdomain(host), port)
    };
    let number = |port: &str| port.parse::<u16>().is_ok_and(|port| port > 0);
    sound && (port.is_empty() || port.strip_prefix(':').is_some_and(number))
}

/// An absolute URL of http or https, without a user: `config show` would print his password.
pub(crate) fn is_url(text: &str) -> bool {
    let rest = text.strip_prefix("https://");
    let Some(rest) = rest.or_else(|| text.strip_prefix("http://")) else {
        return false;
    };
    let server = rest.split(['/', '?']).next().unwrap_or_default();
    let plain = |c: char| c.is_ascii_graphic() && !"\"<>\\^`{|}#".contains(c);
    !server.is_empty() && !server.contains('@') && text.chars().all(plain)
}
