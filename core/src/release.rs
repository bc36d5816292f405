//! A kernel release, as `uname -r` says it: which is newer, and which are of one flavour.
//!
//! Distributions write it each in their own way (`6.1.0-28-amd64`, `6.11.4-301.fc41.x86_64+debug`,
//! `6.11.5-arch1-1`), with one thing in common: numbers count upwards and words name the flavour.

use std::cmp::Ordering;

/// Words that say where a build comes from, and come and go between builds of one flavour: Debian's
/// `+deb13`, `+bpo`, `0.deb11`, and release candidates.
const ORIGINS: [&str; 3] = ["deb", "bpo", "rc"];

/// A release taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Release {
    numbers: Vec<u64>,
    flavour: Vec<String>,
}

impl Release {
    /// Never fails: a text without numbers is older than all with some.
    pub fn parse(text: &str) -> Self {
        let (mut numbers, mut flavour) = (Vec::new(), Vec::new());
        let parts: Vec<&str> = (text.split(['.', '-', '+', '~']))
            .filter(|part| !part.is_empty())
            .collect();
        for (index, part) in parts.iter().enumerate() {
            let last = index + 1 == parts.len();
            let word = part.trim_end_matches(|c: char| c.is_ascii_digit() || c == '_');
            if word.is_empty() {
                numbers.extend(counts(part));
            } else if last {
                // `amd64`, `x86_64`, `v8`, `64k`: its digits tell flavours apart.
                flavour.push((*part).to_owned());
            } else {
                // `fc41`, `el9_4`, `arch1`: its digits count.
                numbers.extend(counts(&part[word.len()..]));
                if !ORIGINS.contains(&word) {
                    flavour.push(word.to_owned());
                }
            }
        }
        Self { numbers, flavour }
    }

    /// Built with the same options: only then one replaces the other.
    pub fn same_flavour(&self, other: &Self) -> bool {
        self.flavour == other.flavour
    }

    /// By the numbers alone.
    pub fn newer_than(&self, other: &Self) -> bool {
        self.numbers.cmp(&other.numbers) == Ordering::Greater
    }
}

fn counts(digits: &str) -> impl Iterator<Item = u64> {
    (digits.split('_'))
        .filter(|number| !number.is_empty())
        .map(|number| number.parse().unwrap_or(u64::MAX))
}

/// Which of `releases` a boot loader's entry such as `abc123-6.1.0-28-amd64` names: the longest that
/// stands in it as a whole.
pub fn named<'a>(entry: &str, releases: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    releases
        .filter(|release| stands_in(entry, release))
        .max_by_key(|release| release.len())
}

/// Not as a part of a longer release: `6.1.0-2` is not in `6.1.0-28`.
fn stands_in(entry: &str, release: &str) -> bool {
    let part_of_one = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '+');
    !release.is_empty()
        && entry.match_indices(release).any(|(at, _)| {
            let after = &entry[at + release.len()..];
            // `ID-6.1.0-28-amd64.conf` is how the Boot Loader Specification names its files.
            let after = after.strip_prefix(".conf").unwrap_or(after);
            !entry[..at].ends_with(part_of_one) && !after.starts_with(part_of_one)
        })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn release(text: &str) -> Release {
        Release::parse(text)
    }

    #[test]
    fn newer_builds_of_a_flavour_are_newer_in_every_distribution() {
        let pairs = [
            ("6.1.0-28-amd64", "6.1.0-29-amd64"),
            ("6.1.0-9-amd64", "6.1.0-10-amd64"),
            ("6.1.0-28-amd64", "6.12.41+deb13-amd64"),
            ("6.1.0-0.deb11.21-amd64", "6.1.0-0.deb11.22-amd64"),
            ("6.9.7+bpo-cloud-amd64", "6.10.1+bpo-cloud-amd64"),
            ("5.15.0-91-generic", "5.15.0-100-generic"),
            ("6.8.0-1009-aws", "6.8.0-1010-aws"),
            ("6.11.4-301.fc41.x86_64", "6.11.5-300.fc41.x86_64"),
            ("6.11.4-301.fc40.x86_64", "6.11.4-301.fc41.x86_64"),
            ("6.12.0-0.rc6.49.fc42.x86_64", "6.12.0-300.fc42.x86_64"),
            (
                "5.14.0-427.13.1.el9_4.x86_64+rt",
                "5.14.0-503.11.1.el9_5.x86_64+rt",
            ),
            (
                "6.1.112-122.189.amzn2023.x86_64",
                "6.1.115-126.197.amzn2023.x86_64",
            ),
            ("6.11.5-arch1-1", "6.11.5-arch2-1"),
            ("6.11.5-arch1-1", "6.11.6-arch1-1"),
            ("6.6.58-1-lts", "6.6.59-1-lts"),
            ("6.11.5-zen1-1-zen", "6.11.6-zen1-1-zen"),
            ("6.11.5-1-aarch64-ARCH", "6.11.6-1-aarch64-ARCH"),
            ("6.6.31+rpt-rpi-v8", "6.6.51+rpt-rpi-v8"),
            ("6.4.0-150600.23.22-default", "6.4.0-150600.23.25-default"),
            ("6.8.12-4-pve", "6.8.12-10-pve"),
            ("6.6.58_1", "6.6.58_2"),
        ];
        for (old, new) in pairs {
            let (one, other) = (release(old), release(new));
            assert!(other.newer_than(&one), "{new} over {old}");
            assert!(!one.newer_than(&other), "{old} under {new}");
            assert!(one.same_flavour(&other), "{one:?} {other:?}");
        }
    }

    #[test]
    fn flavours_are_told_apart() {
        let pairs = [
            ("6.1.0-28-amd64", "6.1.0-29-cloud-amd64"),
            ("6.1.0-28-amd64", "6.1.0-29-rt-amd64"),
            ("6.1.0-28-amd64", "6.1.0-28-arm64"),
            ("5.15.0-91-generic", "5.15.0-92-lowlatency"),
            ("6.8.0-1010-aws", "6.8.0-1011-aws-64k"),
            ("6.11.4-301.fc41.x86_64", "6.11.5-300.fc41.x86_64+debug"),
            ("5.14.0-427.el9.aarch64", "5.14.0-503.el9.aarch64+64k"),
            ("6.11.5-arch1-1", "6.11.6-zen1-1-zen"),
            ("6.11.5-arch1-1", "6.12.1-1-lts"),
            ("6.6.31+rpt-rpi-v8", "6.6.51+rpt-rpi-2712"),
            ("6.6.31+rpt-rpi-v7", "6.6.51+rpt-rpi-v8"),
            ("6.4.0-1-default", "6.4.0-2-kvmsmall"),
        ];
        for (one, other) in pairs {
            assert!(!release(one).same_flavour(&release(other)), "{one} {other}");
        }
    }

    #[test]
    fn entries_name_whole_releases() {
        let all = ["6.1.0-2-amd64", "6.1.0-28-amd64", "6.1.0-28", "6.1.0"];
        let cases = [
            ("0123456789abcdef-6.1.0-28-amd64", Some("6.1.0-28-amd64")),
            ("0123456789abcdef-6.1.0-2-amd64.conf", Some("6.1.0-2-amd64")),
            (
                "gnulinux-advanced-UUID>gnulinux-6.1.0-2-amd64-advanced-UUID",
                Some("6.1.0-2-amd64"),
            ),
            (
                "Debian GNU/Linux, with Linux 6.1.0-28-amd64",
                Some("6.1.0-28-amd64"),
            ),
            ("id-6.1.0-281-amd64", None),
            ("16.1.0", None),
            ("0", None),
            ("", None),
        ];
        for (entry, wanted) in cases {
            let found = named(entry, all.iter().copied().filter(|r| *r != "6.1.0"));
            assert_eq!(found, wanted, "{entry}");
        }
        assert_eq!(named("x-6.1.0", all.into_iter()), Some("6.1.0"));
        assert_eq!(named("x", std::iter::once("")), None);
    }

    proptest! {
        #[test]
        fn any_text_is_a_release_and_newer_is_an_order(one in ".{0,40}", other in ".{0,40}") {
            let (one, other) = (release(&one), release(&other));
            prop_assert!(!one.newer_than(&one));
            prop_assert!(!(one.newer_than(&other) && other.newer_than(&one)));
            prop_assert!(one.same_flavour(&one));
        }

        #[test]
        fn numbers_change_the_age_and_not_the_flavour(
            numbers in proptest::collection::vec(0..1000_u64, 4),
            more in 1..1000_u64,
            at in 0..4_usize,
        ) {
            let text = |n: &[u64]| format!("{}.{}.{}-{}-amd64", n[0], n[1], n[2], n[3]);
            let old = release(&text(&numbers));
            let mut numbers = numbers;
            numbers[at] += more;
            let new = release(&text(&numbers));
            prop_assert!(new.newer_than(&old) && new.same_flavour(&old));
        }
    }
}
