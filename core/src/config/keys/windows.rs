//! `[[windows]]`

use super::{CLOCK, DaysList, TIME_ZONE, UNIQUE, Word};

keys! {
    /// When a reboot may begin: while one of them is open, and what is expected still fits.
    /// Without one, at any time.
    /// What is expected is the longest drain and the longest boot that this host has had, as its history has them, else
    /// `drain.timeout`, the longer of `drain.cordon_only` and `drain.load_balancer_wait`, `reboot.delay` and `health.timeout`
    /// together; a window that is always shorter than those is refused.
    /// How long hooks take is no part of it.
    /// Windows beside each other count as one.
    /// What becomes of a drain that outlasts its window says `gates.window_close`.
    /// `kube-rebootd reboot --now` asks no window.
    section "windows" each AtWill;

    /// What it is called in messages; its number where it has none.
    /// A drop-in's window with the same name replaces the whole window, one without a name is added.
    NAME "name": Word = Word { default: "", rule: UNIQUE, optional: false };

    /// The days on which it opens; empty for every day.
    /// Each is a weekday ("mon", "monday"), some in a row ("mon-fri"), "weekend", "weekday", a day of the month ("15", "last
    /// day"), one weekday of the month ("second tuesday", "last sunday", "patch tuesday"), or so many days after one of
    /// those ("patch tuesday + 3d").
    DAYS "days": DaysList = DaysList;

    /// When it opens, by the clock of `time_zone`.
    START "start": Word = Word { default: "00:00", rule: CLOCK, optional: false };

    /// When it closes; at or before `start` it is a time of the next day.
    /// "24:00" is the midnight at the end of the day.
    END "end": Word = Word { default: "24:00", rule: CLOCK, optional: false };

    /// Whose clock is meant, as in /usr/share/zoneinfo.
    /// A time that the clock skips in spring is skipped; one that it shows twice in autumn counts once.
    ZONE "time_zone": Word = Word { default: "UTC", rule: TIME_ZONE, optional: false };
}
