//! What differs between nodes and stays the same on each: jitter without a random source.

use std::time::Duration;

/// A part of `time` that differs between nodes.
pub fn share(time: Duration, words: &[&str]) -> Duration {
    let millis = u64::try_from(time.as_millis()).unwrap_or(u64::MAX).max(1);
    Duration::from_millis(scatter(words) % millis)
}

/// A number of these words.
pub fn scatter(words: &[&str]) -> u64 {
    // FNV-1a, 64 bit: stable over builds, unlike std's hasher.
    words
        .iter()
        .flat_map(|word| word.bytes().chain([0]))
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        })
}
