//! Alerts of Prometheus that are active.

use super::{State, Words, shut, unknown};
use crate::alerts::OnError;

/// One server that is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Server<'a> {
    pub name: &'a str,
    pub on_error: OnError,
    /// It is asked a query of the admin, whose answer may change each time.
    pub query: bool,
    pub said: Said<'a>,
}

/// What it said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Said<'a> {
    /// It is asked now, and what it said before is too old.
    Asked,
    Nothing,
    /// What speaks against a reboot, in words.
    Against(&'a str),
    /// It could not be asked, and why.
    Failed(&'a str),
}

pub(super) fn alerts(servers: &[Server]) -> State {
    let (mut against, mut unclear) = (Vec::new(), Vec::new());
    for server in servers {
        let name = server.name;
        match (server.said, server.on_error) {
            (Said::Nothing, _) | (Said::Failed(_), OnError::Open) => {}
            (Said::Against(words), _) if server.query => {
                against.push(Words::said(format!("Prometheus {name:?}"), words));
            }
            (Said::Against(words), _) => {
                against.push(format!("Prometheus {name:?}: {words}").into());
            }
            (Said::Failed(why), OnError::Closed) => {
                unclear.push(format!("Prometheus {name:?} cannot be asked: {why}").into());
            }
            (Said::Asked, _) => unclear.push(format!("asking Prometheus {name:?}").into()),
        }
    }
    match (against.is_empty(), unclear.is_empty()) {
        (true, true) => State::Open,
        (true, false) => unknown(Words::joined(&unclear)),
        (false, _) => shut(Words::joined(&[against, unclear].concat())),
    }
}

/// Nothing is known to speak against a reboot, and something is asked still.
pub(crate) fn asked(servers: &[Server]) -> bool {
    let asked = servers.iter().any(|server| server.said == Said::Asked);
    let rest = servers.iter().filter(|server| server.said != Said::Asked);
    let rest: Vec<Server> = rest.cloned().collect();
    asked && alerts(&rest) == State::Open
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(said: Said<'static>, on_error: OnError) -> Server<'static> {
        Server {
            name: "main",
            on_error,
            query: false,
            said,
        }
    }

    #[test]
    fn i8_what_could_not_be_asked_is_closed_unless_somebody_wants_it_open() {
        for (said, closed, open) in [
            (Said::Nothing, None, None),
            (
                Said::Against("active alerts: A"),
                Some("Prometheus \"main\": active alerts: A"),
                Some("Prometheus \"main\": active alerts: A"),
            ),
            (
                Said::Failed("no answer within 10 s"),
                Some("Prometheus \"main\" cannot be asked: no answer within 10 s"),
                None,
            ),
            (
                Said::Asked,
                Some("asking Prometheus \"main\""),
                Some("asking Prometheus \"main\""),
            ),
        ] {
            for (on_error, words) in [(OnError::Closed, closed), (OnError::Open, open)] {
                let why = match alerts(&[server(said, on_error)]) {
                    State::Open => None,
                    State::Closed { why, opens: None } => {
                        assert!(matches!(said, Said::Against(_)), "{why}");
                        Some(why)
                    }
                    State::Unknown { why } => Some(why),
                    other => panic!("{other:?}"),
                };
                assert_eq!(why.as_deref(), words, "{said:?} {on_error:?}");
            }
        }
    }

    #[test]
    fn each_of_several_has_a_word() {
        let all = |said: &[Said<'static>]| {
            let servers: Vec<Server> = said
                .iter()
                .map(|said| server(*said, OnError::Closed))
                .collect();
            (alerts(&servers), asked(&servers))
        };
        assert_eq!(all(&[]), (State::Open, false));
        assert_eq!(all(&[Said::Nothing, Said::Nothing]), (State::Open, false));
        let (state, asked) = all(&[Said::Nothing, Said::Asked]);
        assert!(matches!(state, State::Unknown { .. }) && asked);
        for other in [Said::Against("a"), Said::Failed("b")] {
            let (state, asked) = all(&[other, Said::Asked]);
            assert!(state != State::Open && !asked, "{state:?}");
        }
        let (state, _) = all(&[Said::Failed("b"), Said::Against("a")]);
        let words = "Prometheus \"main\": a; Prometheus \"main\" cannot be asked: b";
        assert_eq!(state, shut(words));
    }
}
