//! Pauses that double, so that what fails is asked less and less often.

use std::time::Duration;

/// `first` at first, then twice as long each of so many `times`, and never longer than `longest`.
pub fn doubled(first: Duration, times: u32, longest: Duration) -> Duration {
    let factor = 1_u32.checked_shl(times).unwrap_or(u32::MAX);
    first.saturating_mul(factor).min(longest)
}

#[cfg(test)]
mod tests {
    use super::*;

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
