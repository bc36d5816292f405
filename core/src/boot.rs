//! What a boot is: the proof that a reboot happened (I4, I6) rests on this pair and on nothing else.

use serde::{Deserialize, Serialize};

/// The pair (`boot_id`, PID 1's `UserspaceTimestampMonotonic`); either changed means a new boot.
///
/// A soft-reboot keeps the boot id and changes the timestamp; daemon-reexec changes neither.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Boot {
    /// `/proc/sys/kernel/random/boot_id`.
    pub id: String,
    /// Microseconds, as the systemd Manager property says them.
    pub userspace: u64,
}

impl Boot {
    /// The boot before a record was lost: unequal to every real one.
    pub fn unknown() -> Self {
        Self {
            id: String::new(),
            userspace: 0,
        }
    }
}
