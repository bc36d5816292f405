//! Somebody is logged in on the host.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{State, shut, shut_until, unknown};
use crate::now::Now;
use crate::users::{Session, Users};

/// Who is logged in, and who was told.
#[derive(Debug, Clone)]
pub(crate) struct UserFacts<'a> {
    /// None when logind did not say.
    pub sessions: Option<&'a [Session]>,
    /// When each session was warned, by its id (boot clock).
    pub warned: &'a BTreeMap<String, Duration>,
    /// The node is cordoned for the reboot.
    pub begun: bool,
    /// Somebody has asked for a reboot at once.
    pub urgent: bool,
}

#[cfg(test)]
impl UserFacts<'_> {
    /// Nobody asked logind.
    pub(crate) fn ignored() -> Self {
        static NOBODY: BTreeMap<String, Duration> = BTreeMap::new();
        Self {
            sessions: None,
            warned: &NOBODY,
            begun: false,
            urgent: false,
        }
    }
}

/// What the configuration says about them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct UserPolicy {
    pub users: Users,
    /// Who typed nothing for so long is not at work any more.
    pub idle: Duration,
    /// From the warning to the drain.
    pub delay: Duration,
}

impl Default for UserPolicy {
    fn default() -> Self {
        Self {
            users: Users::Ignore,
            idle: Duration::MAX,
            delay: Duration::ZERO,
        }
    }
}

/// Sessions that are named: `loginctl` shows them all.
const NAMED: usize = 5;

pub(super) fn users(facts: &UserFacts, policy: UserPolicy, now: Now) -> State {
    // Who was warned is not waited for a second time, and who logs in on a cordoned node is told by the message of the day
    // and, at the end, by logind.
    let told = policy.users == Users::Warn && facts.begun;
    if policy.users == Users::Ignore || told || facts.urgent {
        return State::Open;
    }
    let Some(sessions) = facts.sessions else {
        return unknown("not known whether somebody is logged in: logind did not say");
    };
    let at_work = |session: &&Session| session.active(policy.idle);
    let active: Vec<&Session> = sessions.iter().filter(at_work).collect();
    if active.is_empty() {
        return State::Open;
    }
    let who = named(&active);
    match policy.users {
        Users::Ignore => State::Open,
        Users::Block => shut(format!("{who} at work on this host")),
        Users::Warn => {
            let opens = active.iter().map(|session| {
                let warned = facts.warned.get(&session.id)?;
                Some(*warned + policy.delay)
            });
            let last = opens.collect::<Option<Vec<_>>>();
            match last.map(|all| all.into_iter().max().unwrap_or_default()) {
                Some(opens) if opens <= now.boot => State::Open,
                Some(opens) => shut_until(
                    format!("{who} at work on this host, and warned of the reboot"),
                    opens,
                ),
                None => shut(format!(
                    "{who} at work on this host, and warned as soon as nothing else is in the way"
                )),
            }
        }
    }
}

fn named(active: &[&Session]) -> String {
    let first = active.iter().take(NAMED);
    let first: Vec<String> = first.map(|session| format!("{session}")).collect();
    let (first, more) = (first.join(", "), active.len().saturating_sub(NAMED));
    match (active.len(), more) {
        (1, _) => format!("{first} is"),
        (_, 0) => format!("{first} are"),
        (_, more) => format!("{first} and {more} more are"),
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn session(id: &str, idle: u64) -> Session {
        Session {
            id: id.to_owned(),
            user: "alice".to_owned(),
            terminal: format!("pts/{id}"),
            remote: String::new(),
            idle: Some(Duration::from_secs(idle)),
        }
    }

    fn policy(users: Users) -> UserPolicy {
        UserPolicy {
            users,
            idle: 10 * MINUTE,
            delay: 5 * MINUTE,
        }
    }

    fn said(facts: &UserFacts, policy: UserPolicy, boot: u64) -> State {
        let now = Now {
            wall: Timestamp::UNIX_EPOCH,
            boot: Duration::from_secs(boot),
        };
        users(facts, policy, now)
    }

    #[test]
    fn i8_a_logind_that_does_not_say_closes_it_unless_nobody_cares() {
        let facts = UserFacts::ignored();
        for (users, open) in [
            (Users::Warn, false),
            (Users::Block, false),
            (Users::Ignore, true),
        ] {
            let said = said(&facts, policy(users), 0);
            assert_eq!(said == State::Open, open, "{users:?}");
            assert_eq!(matches!(said, State::Unknown { .. }), !open, "{users:?}");
        }
    }

    #[test]
    fn a_session_that_is_idle_or_gone_keeps_nothing_waiting() {
        for (idle, open) in [
            (&[][..], true),
            (&[600], true),
            (&[599], false),
            (&[600, 0], false),
        ] {
            let numbered = idle.iter().zip(["1", "2"]);
            let sessions: Vec<Session> = numbered.map(|(idle, id)| session(id, *idle)).collect();
            let facts = UserFacts {
                sessions: Some(&sessions),
                ..UserFacts::ignored()
            };
            for users in [Users::Warn, Users::Block] {
                let said = said(&facts, policy(users), 0);
                assert_eq!(said == State::Open, open, "{users:?} {idle:?}");
            }
        }
    }

    #[test]
    fn who_was_warned_has_the_delay_and_each_session_has_its_own() {
        let sessions = [session("1", 0), session("2", 0)];
        let mut warned = BTreeMap::from([("1".to_owned(), 2 * MINUTE)]);
        let said = |warned: &BTreeMap<String, Duration>, boot| {
            let facts = UserFacts {
                sessions: Some(&sessions),
                warned,
                ..UserFacts::ignored()
            };
            said(&facts, policy(Users::Warn), boot)
        };
        // The second was not told yet.
        let State::Closed { opens, why } = said(&warned, 3600) else {
            panic!("open");
        };
        assert_eq!(opens, None);
        assert_eq!(
            why,
            "alice (pts/1), alice (pts/2) are at work on this host, and warned as soon as nothing else is in the way"
        );
        warned.insert("2".to_owned(), 3 * MINUTE);
        let State::Closed { opens, .. } = said(&warned, 479) else {
            panic!("open");
        };
        assert_eq!(opens, Some(8 * MINUTE));
        assert_eq!(said(&warned, 480), State::Open);
    }

    #[test]
    fn a_drain_that_has_begun_warns_no_more_and_waits_for_users_only_where_they_block() {
        let sessions = [session("1", 0)];
        let facts = UserFacts {
            sessions: Some(&sessions),
            begun: true,
            ..UserFacts::ignored()
        };
        assert_eq!(said(&facts, policy(Users::Warn), 0), State::Open);
        let State::Closed { why, .. } = said(&facts, policy(Users::Block), 0) else {
            panic!("open");
        };
        assert_eq!(why, "alice (pts/1) is at work on this host");
        let urgent = UserFacts {
            urgent: true,
            begun: false,
            ..facts
        };
        assert_eq!(said(&urgent, policy(Users::Block), 0), State::Open);
    }

    #[test]
    fn i14_few_of_many_sessions_are_named() {
        let sessions: Vec<Session> = (0..40).map(|id| session(&id.to_string(), 0)).collect();
        let facts = UserFacts {
            sessions: Some(&sessions),
            ..UserFacts::ignored()
        };
        let State::Closed { why, .. } = said(&facts, policy(Users::Block), 0) else {
            panic!("open");
        };
        assert!(
            why.ends_with("and 35 more are at work on this host"),
            "{why}"
        );
    }
}
