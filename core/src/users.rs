//! Who is logged in on the host, as systemd-logind tells it, and what is asked of them before a reboot (I14).
//!
//! Interface: `org.freedesktop.login1(5)`, the objects of sessions.

use std::fmt;
use std::time::Duration;

use crate::text::{self, NAME};

/// What somebody who is logged in means for a reboot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Users {
    /// They are told, and have some time.
    #[default]
    Warn,
    /// It waits until they have logged out, or do nothing any more.
    Block,
    /// Nothing: logind is not asked.
    Ignore,
}

impl Users {
    /// As configured.
    pub(crate) const WORDS: &'static [(&'static str, Self)] = &[
        ("warn", Self::Warn),
        ("block", Self::Block),
        ("ignore", Self::Ignore),
    ];
}

/// A session of somebody who is logged in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    /// logind's name of it, which no other session of this boot has.
    pub id: String,
    pub user: String,
    /// Terminal or display; empty for none, such as a command over ssh.
    pub terminal: String,
    /// Where from, when that is another host; else empty.
    pub remote: String,
    /// How long nothing was typed; none: not known, and so it counts as at work (I8).
    pub idle: Option<Duration>,
}

/// What logind tells of a session.
#[derive(Debug, Clone, Default)]
pub struct Told {
    pub id: String,
    /// Name of the user.
    pub user: String,
    /// `user`, `greeter`, `background`, `manager`...; none: logind did not say, and so it counts as a user (I8).
    pub class: Option<String>,
    /// `online`, `active` or `closing`: whoever logged out may have left processes behind.
    pub state: String,
    /// `tty`, `x11`, `wayland`, `unspecified`...
    pub kind: String,
    /// `IdleHint`: on a terminal it follows logind's `IdleActionSec=`, and so says nothing here.
    pub idle_hint: bool,
    /// For how long `IdleSinceHintMonotonic` says so; none when it says nothing.
    pub idle_since: Option<Duration>,
    pub terminal: String,
    pub remote: String,
}

impl Session {
    /// None for what is no user at work: a login screen, a service's or cron's session, one that has logged out.
    pub fn of(told: Told) -> Option<Self> {
        let another = |class: String| !class.starts_with("user");
        if told.class.is_some_and(another) || told.state == "closing" {
            return None;
        }
        // A desktop says itself when it is idle; of a terminal, logind tells when something was typed last.
        let desktop = matches!(told.kind.as_str(), "x11" | "wayland" | "mir");
        let idle = if desktop && !told.idle_hint {
            Some(Duration::ZERO)
        } else {
            told.idle_since
        };
        Some(Self {
            id: told.id,
            user: text::clean(&told.user, NAME),
            terminal: text::clean(&told.terminal, NAME),
            remote: text::clean(&told.remote, NAME),
            idle,
        })
    }

    /// At work: something was typed within `idle`.
    pub fn active(&self, idle: Duration) -> bool {
        self.idle.is_none_or(|passed| passed < idle)
    }
}

impl fmt::Display for Session {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let place = match (self.terminal.as_str(), self.remote.as_str()) {
            ("", "") => return f.write_str(&self.user),
            (terminal, "") => terminal.to_owned(),
            ("", remote) => format!("from {remote}"),
            (terminal, remote) => format!("{terminal} from {remote}"),
        };
        write!(f, "{} ({place})", self.user)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(class: &str, state: &str, kind: &str) -> Told {
        Told {
            id: "3".to_owned(),
            user: "alice".to_owned(),
            class: Some(class.to_owned()),
            state: state.to_owned(),
            kind: kind.to_owned(),
            ..Told::default()
        }
    }

    #[test]
    fn only_somebody_who_is_logged_in_counts() {
        for (class, state, counts) in [
            ("user", "active", true),
            ("user", "online", true),
            ("user-early", "online", true),
            ("user-light", "online", true),
            // tmux goes on after its user has logged out.
            ("user", "closing", false),
            ("greeter", "active", false),
            ("lock-screen", "active", false),
            ("background", "online", false),
            ("manager", "active", false),
            ("manager-early", "active", false),
            ("none", "active", false),
        ] {
            let session = Session::of(told(class, state, "tty"));
            assert_eq!(session.is_some(), counts, "{class} {state}");
        }
    }

    #[test]
    fn i8_a_session_whose_class_is_not_known_counts() {
        let unknown = Told {
            class: None,
            ..told("user", "active", "tty")
        };
        assert!(Session::of(unknown).is_some());
    }

    #[test]
    fn i8_whose_idle_time_is_not_known_is_at_work() {
        let minute = Duration::from_secs(60);
        for (kind, hint, since, active) in [
            ("tty", false, None, true),
            // logind gives no hint on a terminal unless IdleAction= is set.
            ("tty", false, Some(59), true),
            ("tty", false, Some(60), false),
            ("unspecified", false, None, true),
            ("wayland", false, Some(3600), true),
            ("wayland", true, Some(3600), false),
            ("x11", true, None, true),
        ] {
            let told = Told {
                idle_hint: hint,
                idle_since: since.map(Duration::from_secs),
                ..told("user", "active", kind)
            };
            let session = Session::of(told).unwrap();
            assert_eq!(session.active(minute), active, "{kind} {hint} {since:?}");
        }
    }

    #[test]
    fn i14_names_are_cleaned() {
        let session = Session::of(Told {
            user: "mallory\u{1b}[2J".to_owned(),
            terminal: "pts/0".to_owned(),
            remote: "evil\nhost".to_owned(),
            ..told("user", "active", "tty")
        });
        let words = session.unwrap().to_string();
        assert!(!words.chars().any(char::is_control), "{words:?}");
        assert!(words.starts_with("mallory"), "{words}");
    }
}
