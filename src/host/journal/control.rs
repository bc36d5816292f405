//! How much is logged, and where to, as `org.freedesktop.LogControl1(5)` tells and changes it while the process runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use tracing::level_filters::LevelFilter;
use tracing_subscriber::{Registry, filter::Targets, reload};

use super::targets;

/// syslog(3)'s levels by the names that systemd gives them; the index is the number.
const LEVELS: [&str; 8] = [
    "emerg", "alert", "crit", "err", "warning", "notice", "info", "debug",
];
/// As a process starts.
const INFO: u8 = 6;

/// The log of this process, as somebody may change it. Clones share it.
#[derive(Debug, Clone)]
pub struct Control {
    /// None: nothing is filtered by it, as in tests.
    filter: Option<reload::Handle<Targets, Registry>>,
    level: Arc<AtomicU8>,
    target: &'static str,
}

impl Control {
    /// At `info`, by this filter.
    pub(super) fn new(
        filter: Option<reload::Handle<Targets, Registry>>,
        target: &'static str,
    ) -> Self {
        Self {
            filter,
            level: Arc::new(AtomicU8::new(INFO)),
            target,
        }
    }

    /// A level that filters nothing.
    pub fn unused() -> Self {
        Self::new(None, "null")
    }

    /// `journal`, or `console` where that is standard error.
    pub fn target(&self) -> &'static str {
        self.target
    }

    /// The least important level that is logged.
    pub fn level(&self) -> &'static str {
        let now = self.level.load(Ordering::Relaxed);
        LEVELS.get(usize::from(now)).copied().unwrap_or("info")
    }

    /// Logs this level and what is more important, from now on. False: there is no such level.
    pub fn set_level(&self, name: &str) -> bool {
        let Some(level) = (0..).zip(LEVELS).find(|(_, known)| *known == name) else {
            return false;
        };
        self.level.store(level.0, Ordering::Relaxed);
        if let Some(filter) = &self.filter {
            // Fails only when the subscriber is gone, and it lives as long as the process.
            let _ = filter.reload(targets(filtered(level.0)));
        }
        true
    }
}

/// What our records of 3 (error), 4 (warning), 6 (info) and 7 (debug) are beside a level of syslog.
fn filtered(level: u8) -> LevelFilter {
    match level {
        ..=2 => LevelFilter::OFF,
        3 => LevelFilter::ERROR,
        4 | 5 => LevelFilter::WARN,
        INFO => LevelFilter::INFO,
        7.. => LevelFilter::DEBUG,
    }
}

#[cfg(test)]
mod tests {
    use tracing::Level;

    use super::super::priority;
    use super::*;

    #[test]
    fn a_level_lets_pass_what_is_at_least_as_important() {
        let control = Control::unused();
        assert_eq!(control.level(), "info");
        for (number, name) in (0..).zip(LEVELS) {
            assert!(control.set_level(name));
            assert_eq!(control.clone().level(), name);
            for level in [Level::ERROR, Level::WARN, Level::INFO, Level::DEBUG] {
                let passes = filtered(number) >= level;
                assert_eq!(passes, priority(level) <= number, "{level} at {name}");
            }
        }
        for name in ["", "INFO", "trace", "6", "null"] {
            assert!(!control.set_level(name), "{name:?}");
        }
        assert_eq!(control.level(), "debug", "as it was");
    }
}
