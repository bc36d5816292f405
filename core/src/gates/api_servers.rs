//! The other API servers of the control plane.

use super::{State, Words, shut, unknown};

/// Whether they are ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ApiServers<'a> {
    /// None is configured, or this is no node of the control plane.
    Ignored,
    /// They are asked now, and what they said before is too old.
    Asked,
    Ready,
    /// Which are not, and why.
    NotReady(&'a str),
}

pub(super) fn api_servers(servers: ApiServers) -> State {
    match servers {
        ApiServers::Ignored | ApiServers::Ready => State::Open,
        ApiServers::Asked => unknown("asking the other API servers whether they are ready"),
        ApiServers::NotReady(why) => shut(Words::said("another API server is not ready", why)),
    }
}
