//! Pauses that double, so that what fails is asked less and less often; and how what failed is forgotten.

use std::time::Duration;

/// `first` at first, then twice as long each of so many `times`, and never longer than `longest`.
pub fn doubled(first: Duration, times: u32, longest: Duration) -> Duration {
    let factor = 1_u32.checked_shl(times).unwrap_or(u32::MAX);
    first.saturating_mul(factor).min(longest)
}

/// How many of so many `times` still count at `now`: since `until` one is forgotten in each `period`.
pub(crate) fn remembered(times: u32, until: Duration, now: Duration, period: Duration) -> u32 {
    let quiet = now.saturating_sub(until).as_secs() / period.as_secs().max(1);
    times.saturating_sub(u32::try_from(quiet).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_the_times_is_forgotten_in_each_period_after_the_end() {
        let at = Duration::from_secs;
        let left = |now| remembered(3, at(100), at(now), at(60));
        assert_eq!(
            [0, 100, 159, 160, 219, 220, 280].map(left),
            [3, 3, 3, 2, 2, 1, 0]
        );
        assert_eq!(remembered(3, at(0), Duration::MAX, at(1)), 0);
        assert_eq!(
            remembered(3, at(0), at(2), Duration::ZERO),
            1,
            "a period is a second at least"
        );
    }

    #[test]
    fn it_doubles_up_to_the_longest_and_never_overflows() {
        let (first, longest) = (Duration::from_secs(5), Duration::from_secs(60));
        let seconds = |times| doubled(first, times, longest).as_secs();
        assert_eq!(
            [0, 1, 2, 3, 4, 31, 32, u32::MAX].map(seconds),
            [5, 10, 20, 40, 60, 60, 60, 60]
        );
        assert_eq!(doubled(Duration::MAX, 40, Duration::MAX), Duration::MAX);
        assert_eq!(doubled(Duration::ZERO, 40, longest), Duration::ZERO);
    }
}
