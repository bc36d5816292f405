//! Transitions in the journal: one `MESSAGE_ID` for each phase, and the record that carries it.
//!
//! `packaging/kube-rebootd.catalog` explains each id to `journalctl -x`; a test keeps both equal.

use kube_rebootd_core::phase::Phase;
use kube_rebootd_core::story::Ended;

use super::TARGET;

/// `MESSAGE_ID` of the transition to `phase`: 128 random bits in hex, never changed once released
/// (`sd-id128(3)`).
pub const fn id(phase: Phase) -> &'static str {
    match phase {
        Phase::Idle => "99c22b20536742d58de7f076b994b6ad",
        Phase::Pending => "8f0a2f2d87d14f8f95204f05e7221e56",
        Phase::Queued => "1ae44739e7bb4e36843577acb78bf865",
        Phase::Claiming => "64ef363d51f7452fa7e749256b5fd76b",
        Phase::Draining => "c93dc70b62634a7ebe5c565fe85e4d15",
        Phase::Drained => "bcc2311641c94b95be6aa4a33a1bcf99",
        Phase::Rebooting => "6b2867e324304fd49b171e6ee840cb4f",
        Phase::Verifying => "6a8c2412ea35464ea911d9d994d014b1",
        Phase::Releasing => "fd0e46c1b1284ad380ca0f7f3130625f",
        Phase::Undoing => "a304b2ee8bb64841b583a366784b6972",
    }
}

/// `MESSAGE_ID` of the warning that the host is not healthy within `health.timeout` after its reboot.
pub const LATE: &str = "2ff973402732f3e0664356699ec06eca";

/// `MESSAGE_ID` of the record that sums up how a slot was used.
pub const ENDED: &str = "e1916f7719374bef80dd5872017197d8";

/// The subjects of a transition, each a journal field when present.
#[derive(Debug, Clone, Copy, Default)]
pub struct Fields<'a> {
    /// `LEASE`: the slot.
    pub lease: Option<&'a str>,
    /// `HOLDER`: the node that has it.
    pub holder: Option<&'a str>,
    /// `REASON`: why, in words.
    pub reason: Option<&'a str>,
    /// `POD`: namespace/name.
    pub pod: Option<&'a str>,
}

/// A warning about `phase` with an id of its own.
pub fn record(id: &str, phase: Phase, fields: &Fields<'_>, text: &str) {
    tracing::warn!(
        target: TARGET,
        message_id = id,
        phase = phase.name(),
        lease = fields.lease,
        holder = fields.holder,
        reason = fields.reason,
        pod = fields.pod,
        "{text}"
    );
}

/// Writes the record of a transition to `phase`, or of a change of what it waits for.
pub fn transition(phase: Phase, fields: &Fields<'_>, text: &str) {
    tracing::info!(
        target: TARGET,
        message_id = id(phase),
        phase = phase.name(),
        lease = fields.lease,
        holder = fields.holder,
        reason = fields.reason,
        pod = fields.pod,
        "{text}"
    );
}

/// Sums up how the slot was used: a record for each hold, with the time in seconds as fields of their own.
pub fn ended(phase: Phase, ended: &Ended) {
    let known = |words: String| Some(words).filter(|words| !words.is_empty());
    let times = ended.times.as_ref();
    let rebooted = times.filter(|_| ended.outcome.reboots());
    tracing::info!(
        target: TARGET,
        message_id = ENDED,
        phase = phase.name(),
        lease = ended.lease,
        outcome = ended.outcome.name(),
        reason = known(ended.reasons.join(", ")),
        packages = known(ended.packages.join(", ")),
        since = ended.since.map(|since| since.to_string()),
        slot_seconds = rebooted.and_then(|times| times.slot),
        drain_seconds = times.map(|times| times.drain),
        pods_evicted = times.map(|times| times.evicted),
        boot_seconds = rebooted.and_then(|times| times.boot),
        verify_seconds = rebooted.map(|times| times.verify),
        "{}",
        ended.words()
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn catalog_explains_every_id_and_no_other() {
        let catalog = include_str!("../../../packaging/kube-rebootd.catalog");
        let explained: Vec<&str> = catalog
            .lines()
            .filter_map(|line| line.strip_prefix("-- "))
            .collect();
        let ids: Vec<&str> = Phase::ALL
            .map(id)
            .into_iter()
            .chain([LATE, ENDED])
            .collect();
        assert_eq!(explained, ids);
        for entry in catalog.split("\n-- ").skip(1) {
            let (head, body) = entry.split_once("\n\n").unwrap();
            assert!(head.contains("\nSubject: "), "{head}");
            assert!(!body.trim().is_empty(), "{head}");
        }
    }

    #[test]
    fn ids_are_128_bits_and_differ() {
        for (index, phase) in Phase::ALL.into_iter().enumerate() {
            let own = id(phase);
            assert!(
                own.len() == 32 && u128::from_str_radix(own, 16).is_ok(),
                "{own}"
            );
            assert!(Phase::ALL[..index].iter().all(|other| id(*other) != own));
            for other in [LATE, ENDED] {
                assert!(own != other && u128::from_str_radix(other, 16).is_ok());
            }
        }
    }
}
