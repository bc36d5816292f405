//! FleetLock: what the updater of this host asks, as Zincati does, and what it is answered (docs/design.md 4).
//!
//! The protocol has two calls. `pre-reboot` asks whether the host may be rebooted, and a yes is never answered before the node is
//! drained: whoever asked reboots the host at once (I2). `steady-state` says that the host is up and in use.
//! Keeps I8 (what is not known is no yes) and I14 (a request is read within bounds, and counts only from this host's own
//! client). Source: `docs/development/fleetlock/protocol.md` of Zincati.

use std::time::Duration;

use serde::Deserialize;
use thiserror::Error;

use crate::now::Now;
use crate::phase::Phase;
use crate::text::{MESSAGE, NAME, WORDS, clean, quote};

/// `by` of the request that a client makes.
pub const BY: &str = "FleetLock";
/// Zincati asks again after 5 to 5.5 minutes, for ever. Who has missed three of these does not want to reboot any more.
pub(crate) const SILENT: Duration = Duration::from_secs(20 * 60);
/// Longest body, bytes: that of Zincati has about 100.
pub const BODY_MAX: usize = 4096;

/// What a client asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ask {
    /// Whether the host may be rebooted.
    PreReboot,
    /// The host is up, and reboots no more: what was held may be given up.
    SteadyState,
}

/// Yes, or why not.
pub type Answer = Result<(), No>;

/// Why not: the two fields of the protocol. A client counts by `kind` and logs `value`.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{}: {value}", .kind.name())]
pub struct No {
    pub kind: Kind,
    pub value: String,
}

/// Few and fixed, as a client makes a label of a metric of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// No call of the protocol.
    NotFound,
    MethodNotAllowed,
    MissingHeader,
    DecodeError,
    LengthRequired,
    TooLarge,
    /// The user may not ask.
    Forbidden,
    /// Another host's id.
    UnknownClient,
    UnknownGroup,
    /// Something here is wrong or not ready.
    NotReady,
    /// A gate is closed, or the node is kept from rebooting.
    GateClosed,
    /// Others have the slots.
    SlotTaken,
    /// The node is being drained.
    Draining,
    /// An attempt has failed and is tried again later.
    Undone,
    /// The boot is not proved yet.
    Verifying,
}

impl Kind {
    /// As in the protocol.
    pub fn name(self) -> &'static str {
        match self {
            Self::NotFound => "not_found",
            Self::MethodNotAllowed => "method_not_allowed",
            Self::MissingHeader => "missing_header",
            Self::DecodeError => "decode_error",
            Self::LengthRequired => "length_required",
            Self::TooLarge => "too_large",
            Self::Forbidden => "forbidden",
            Self::UnknownClient => "unknown_client",
            Self::UnknownGroup => "unknown_group",
            Self::NotReady => "not_ready",
            Self::GateClosed => "gate_closed",
            Self::SlotTaken => "slot_taken",
            Self::Draining => "draining",
            Self::Undone => "undone",
            Self::Verifying => "verifying",
        }
    }

    /// The status line of HTTP. Never one of 200 to 299: Zincati takes each of them for a yes.
    pub fn status(self) -> &'static str {
        match self {
            Self::NotFound => "404 Not Found",
            Self::MethodNotAllowed => "405 Method Not Allowed",
            Self::MissingHeader | Self::DecodeError => "400 Bad Request",
            Self::LengthRequired => "411 Length Required",
            Self::TooLarge => "413 Content Too Large",
            Self::Forbidden | Self::UnknownClient | Self::UnknownGroup => "403 Forbidden",
            Self::NotReady => "503 Service Unavailable",
            Self::GateClosed
            | Self::SlotTaken
            | Self::Draining
            | Self::Undone
            | Self::Verifying => "423 Locked",
        }
    }

    /// Why the client of a request is not answered with yes, by where the node is.
    fn of(phase: Phase) -> Self {
        match phase {
            Phase::Idle | Phase::Pending | Phase::Drained => Self::GateClosed,
            Phase::Queued => Self::SlotTaken,
            Phase::Claiming | Phase::Draining | Phase::Rebooting => Self::Draining,
            Phase::Undoing => Self::Undone,
            Phase::Verifying | Phase::Releasing => Self::Verifying,
        }
    }
}

impl No {
    pub fn new(kind: Kind, value: &str) -> Self {
        let value = match clean(value, MESSAGE) {
            empty if empty.is_empty() => kind.name().to_owned(),
            value => value,
        };
        Self { kind, value }
    }

    /// Not yet: what `status` says of this phase.
    pub(crate) fn yet(phase: Phase, status: &str) -> Self {
        Self::new(Kind::of(phase), status)
    }
}

/// Who may ask: the client of this host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Client {
    pub id: String,
    pub group: String,
}

/// What the head of a request says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    pub ask: Ask,
    /// Bytes of the body, at most [`BODY_MAX`].
    pub length: usize,
}

/// Reads request line and headers, up to the empty line.
///
/// # Errors
/// It is no request of the protocol, and what is wrong.
pub fn head(text: &[u8]) -> Result<Head, No> {
    let no = |kind, value: &str| Err(No::new(kind, value));
    let text = String::from_utf8_lossy(text);
    let mut lines = text.split("\r\n");
    let words: Vec<&str> = lines.next().unwrap_or_default().split(' ').collect();
    let [method, target, "HTTP/1.1" | "HTTP/1.0"] = words[..] else {
        return no(Kind::DecodeError, "this is no request of HTTP/1.1");
    };
    let ask = match target {
        "/v1/pre-reboot" => Ask::PreReboot,
        "/v1/steady-state" => Ask::SteadyState,
        _ => {
            let known = "there are /v1/pre-reboot and /v1/steady-state; a base_url ends with `/`";
            return no(Kind::NotFound, known);
        }
    };
    if method != "POST" {
        return no(Kind::MethodNotAllowed, "the method must be POST");
    }
    let headers: Vec<(&str, &str)> = lines.filter_map(|line| line.split_once(':')).collect();
    let values = |wanted: &str| {
        let same = |name: &str| name.eq_ignore_ascii_case(wanted);
        let of = headers.iter().filter(move |(name, _)| same(name));
        of.map(|(_, value)| value.trim()).collect::<Vec<_>>()
    };
    if values("fleet-lock-protocol") != ["true"] {
        return no(
            Kind::MissingHeader,
            "the header `fleet-lock-protocol: true` is missing",
        );
    }
    let lengths = values("content-length");
    let [length] = lengths[..] else {
        return no(
            Kind::LengthRequired,
            "one header Content-Length must say how long the body is",
        );
    };
    match length.parse() {
        Ok(length) if length <= BODY_MAX => Ok(Head { ask, length }),
        Ok(_) => no(
            Kind::TooLarge,
            &format!("the body may have {BODY_MAX} bytes at most"),
        ),
        Err(_) => no(Kind::DecodeError, "Content-Length is no number"),
    }
}

#[derive(Debug, Deserialize)]
struct Body {
    client_params: Params,
}

#[derive(Debug, Deserialize)]
struct Params {
    id: String,
    group: String,
}

/// Reads the body: whether it is from the client that may ask.
///
/// # Errors
/// It is not, or cannot be read, and what is wrong.
pub fn body(text: &[u8], client: &Client) -> Result<(), No> {
    let Body { client_params: is } = serde_json::from_slice(text).map_err(|err| {
        let why = format!("the body must be {{\"client_params\":{{\"id\":…,\"group\":…}}}}: {err}");
        No::new(Kind::DecodeError, &why)
    })?;
    if is.id != client.id {
        let is = quote(&clean(&is.id, NAME));
        // It is nobody else's business which it is.
        let why = format!(
            "{is} is not the id of this host: only its own updater is answered here; `kube-rebootd doctor` shows the id, and \
             fleet_lock.id names another one"
        );
        return Err(No::new(Kind::UnknownClient, &why));
    }
    if is.group != client.group {
        let is = quote(&clean(&is.group, NAME));
        let why = format!(
            "the group {is} is not the one in fleet_lock.group, \"{}\": make them the same",
            client.group
        );
        return Err(No::new(Kind::UnknownGroup, &why));
    }
    Ok(())
}

/// How the client sends an id: of a UUID, in whatever spelling it is written, Zincati sends 32 lower-case digits.
pub fn sent_of(id: &str) -> String {
    let digits: String = id.chars().filter(|c| !"-{}".contains(*c)).collect();
    let uuid = digits.len() == 32 && digits.chars().all(|c| c.is_ascii_hexdigit());
    if uuid {
        digits.to_ascii_lowercase()
    } else {
        id.to_owned()
    }
}

/// What one process knows of the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Heard {
    /// When it asked last for the reboot, on the boot clock; a process that starts waits for it as if it had just asked.
    pub asked: Option<Duration>,
    /// It waits for an answer to that now.
    pub waits: bool,
}

impl Heard {
    /// It has stopped to ask.
    pub(crate) fn silent(&mut self, now: Now) -> bool {
        let asked = *self.asked.get_or_insert(now.boot);
        !self.waits && now.since(asked) >= SILENT
    }
}

/// What a client gives as its reason, for the record.
pub(crate) fn reason() -> String {
    clean("the updater of this host waits to reboot it", WORDS)
}

#[cfg(test)]
mod tests;
