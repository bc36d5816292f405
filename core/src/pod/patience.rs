//! How long a pod's eviction may take, as its author asks for it. Who owns a pod must not decide over the node: it counts only as
//! far as the configuration lets it (I14).

use std::time::Duration;

use super::shield::go_duration;
use crate::text;

/// So much of a value that cannot be read is told (I14).
const VALUE: usize = 40;

/// By the annotation [`DRAIN_TIMEOUT`](crate::names::DRAIN_TIMEOUT) on the pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Patience {
    /// So long.
    Asked(Duration),
    /// No duration: the value.
    Unreadable(String),
}

impl Patience {
    pub fn of(said: Option<&str>) -> Option<Self> {
        let said = said?;
        Some(match go_duration(said) {
            Some(time) => Self::Asked(time),
            None => Self::Unreadable(text::name(said, VALUE)),
        })
    }

    /// What of it counts where at most `most` does; none: nothing.
    pub(crate) fn allowed(&self, most: Duration) -> Option<Duration> {
        match self {
            Self::Asked(time) => Some(*time.min(&most)).filter(|time| !time.is_zero()),
            Self::Unreadable(_) => None,
        }
    }

    /// What is to be told about it where at most `most` counts, after the pod's name; none: nothing.
    pub fn complaint(&self, most: Duration) -> Option<String> {
        let key = crate::names::DRAIN_TIMEOUT;
        match self {
            _ if most.is_zero() => None,
            Self::Asked(time) => (*time > most).then(|| {
                let [time, most] = [*time, most].map(text::span);
                format!("asks for {time} by the annotation {key}, and gets {most} (drain.pod_timeout_max)")
            }),
            Self::Unreadable(value) => Some(format!(
                "has an annotation {key} that is no duration like \"30m\", and is ignored: {value:?}"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn i14_what_a_pod_asks_for_counts_up_to_the_limit_and_is_told_beyond_it() {
        let minutes = |minutes: u64| Duration::from_secs(minutes * 60);
        let limit = minutes(30);
        for (said, allowed, told) in [
            ("10m", Some(minutes(10)), None),
            ("30m", Some(limit), None),
            ("1h30m", Some(limit), Some("asks for 1h 30m by")),
            ("0s", None, None),
            ("soon", None, Some("is ignored: \"soon\"")),
            ("30", None, Some("is ignored")),
            ("-5m", None, Some("is ignored")),
            ("", None, Some("is ignored")),
            ("a\u{1b}[31m", None, Some("is ignored")),
        ] {
            let patience = Patience::of(Some(said)).unwrap();
            assert_eq!(patience.allowed(limit), allowed, "{said}");
            let complaint = patience.complaint(limit);
            assert_eq!(complaint.is_some(), told.is_some(), "{said}: {complaint:?}");
            let has = |words: &str| complaint.as_ref().is_some_and(|said| said.contains(words));
            assert!(told.is_none_or(has), "{said}: {complaint:?}");
            assert!(complaint.iter().all(|said| !said.contains('\u{1b}')));
            // By default nothing counts, and nothing is told.
            assert_eq!(patience.allowed(Duration::ZERO), None);
            assert_eq!(patience.complaint(Duration::ZERO), None);
        }
        assert_eq!(Patience::of(None), None);
    }
}
