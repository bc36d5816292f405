//! Requests that come and go: each end makes the pause longer before the next one counts.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::backoff::{doubled, remembered};
use crate::boot::Boot;

/// After the first end; a person who takes a wish back and has it again hardly notices.
const FIRST: Duration = Duration::from_secs(10);
/// The longest pause: a trigger that never rests is taken and undone no more than once in that time.
const LONGEST: Duration = Duration::from_secs(3600);
/// In so long a time one end is forgotten.
const FORGOTTEN: Duration = Duration::from_secs(3600);

/// How often a request ended without a reboot of late, and until when the next one waits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flaps {
    pub times: u32,
    /// In another boot it is void.
    pub boot: Boot,
    /// On the boot clock of `boot`.
    pub until: Duration,
}

impl Flaps {
    /// A request ended at `now` of `boot`. One that ended before its pause was over had no effect, and makes
    /// the pause no longer: else a trigger that never rests would never be heard again.
    pub(crate) fn ended(before: Option<&Self>, boot: &Boot, now: Duration) -> Self {
        let before = before.filter(|flaps| flaps.boot == *boot);
        if let Some(flaps) = before.filter(|flaps| now < flaps.until) {
            return flaps.clone();
        }
        let times = before.map_or(0, |flaps| flaps.left(boot, now)) + 1;
        Self {
            times,
            boot: boot.clone(),
            until: now + doubled(FIRST, times - 1, LONGEST),
        }
    }

    /// How many ends still count.
    pub(crate) fn left(&self, boot: &Boot, now: Duration) -> u32 {
        if self.boot != *boot {
            return 0;
        }
        remembered(self.times, self.until, now, FORGOTTEN)
    }

    /// Until when a request waits, if it does.
    pub(crate) fn waits(&self, boot: &Boot, now: Duration) -> Option<Duration> {
        (self.boot == *boot && now < self.until).then_some(self.until)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn boot() -> Boot {
        Boot {
            id: "a".to_owned(),
            userspace: 1,
        }
    }

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn the_pause_doubles_to_an_hour_and_one_end_is_forgotten_each_hour() {
        let mut now = at(1000);
        let mut flaps = Flaps::ended(None, &boot(), now);
        for pause in [10, 20, 40, 80, 160, 320, 640, 1280, 2560, 3600, 3600] {
            assert_eq!(flaps.until, now + at(pause));
            let waits = |at| flaps.waits(&boot(), at);
            assert_eq!(waits(now), Some(flaps.until));
            assert_eq!(waits(flaps.until), None);
            now = flaps.until;
            flaps = Flaps::ended(Some(&flaps), &boot(), now);
        }
        let left = |hours: u64| flaps.left(&boot(), flaps.until + at(3600 * hours));
        assert_eq!(
            (left(0), left(1), left(11), left(12), left(99)),
            (12, 11, 1, 0, 0)
        );
        let other = Boot {
            id: "b".to_owned(),
            userspace: 1,
        };
        assert_eq!(
            (flaps.left(&other, now), flaps.waits(&other, now)),
            (0, None)
        );
        assert_eq!(Flaps::ended(Some(&flaps), &other, now).times, 1);
    }

    proptest! {
        #[test]
        fn however_it_flaps_it_counts_seldom(gaps in prop::collection::vec(0u64..600, 1..400)) {
            let mut now = at(0);
            let (mut flaps, mut counted) = (None::<Flaps>, 0u64);
            for gap in gaps {
                now += at(gap);
                let waits = flaps.as_ref().and_then(|flaps| flaps.waits(&boot(), now));
                // It came, counted if it had not to wait, and ended.
                counted += u64::from(waits.is_none());
                flaps = Some(Flaps::ended(flaps.as_ref(), &boot(), now));
            }
            let hours = now.as_secs() / 3600;
            prop_assert!(counted <= 12 + 2 * hours, "{counted} in {hours} hours");
        }
    }
}
