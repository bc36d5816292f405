//! What `update_engine` of Flatcar Linux says of its update (I8, I10). Source: `update_status.proto` and
//! `dbus_constants.h` of `flatcar/update_engine`.

use std::collections::BTreeSet;

use super::Verdict;
use crate::text::{self, NAME, quote};

/// As it stands in reasons.
pub const TRIGGER: &str = "update_engine";
/// The update is installed, and waits for the reboot.
const WAITS: &str = "UPDATE_STATUS_UPDATED_NEED_REBOOT";
/// The version as it says it once it was restarted, which is all that it still knows of the update.
const UNKNOWN: &str = "0.0.0";
/// It is at something else.
const OTHERS: [&str; 8] = [
    "UPDATE_STATUS_IDLE",
    "UPDATE_STATUS_CHECKING_FOR_UPDATE",
    "UPDATE_STATUS_UPDATE_AVAILABLE",
    "UPDATE_STATUS_DOWNLOADING",
    "UPDATE_STATUS_VERIFYING",
    "UPDATE_STATUS_FINALIZING",
    "UPDATE_STATUS_REPORTING_ERROR_EVENT",
    "UPDATE_STATUS_DISABLED",
];

/// What `current_operation` and `new_version` of an answer to `GetStatus` come to. A version that the reboot did not bring is the
/// same reason again.
pub fn verdict(operation: &str, version: &str) -> Verdict {
    if operation == WAITS && version == UNKNOWN {
        return Verdict::Reboot {
            words: "an update is installed".to_owned(),
            pkgs: BTreeSet::new(),
        };
    }
    if operation == WAITS {
        let version = text::clean(version, NAME);
        return Verdict::Reboot {
            words: format!("version {version} is installed"),
            pkgs: BTreeSet::from([version]),
        };
    }
    if OTHERS.contains(&operation) {
        return Verdict::No;
    }
    let operation = quote(&text::clean(operation, NAME));
    Verdict::Unknown {
        why: format!("{operation} is no status that is known here"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_update_that_waits_for_it_asks_for_a_reboot() {
        for operation in OTHERS {
            assert_eq!(verdict(operation, "4459.2.0"), Verdict::No);
        }
        let waits = verdict(WAITS, "4459.2.0");
        let Verdict::Reboot { pkgs, words } = waits else {
            panic!("{waits:?}");
        };
        assert_eq!(pkgs, BTreeSet::from(["4459.2.0".to_owned()]));
        assert_eq!(words, "version 4459.2.0 is installed");
        let restarted = verdict(WAITS, "0.0.0");
        assert!(
            matches!(&restarted, Verdict::Reboot { pkgs, words } if pkgs.is_empty() && words == "an update is installed"),
            "{restarted:?}"
        );
    }

    /// I14: whoever answers is root, and words of another release are not believed.
    #[test]
    fn i8_i14_other_words_are_unknown_and_shown_clean() {
        for operation in [
            "",
            "UPDATE_STATUS_REBOOTED",
            "\u{1b}[2J",
            "update_status_idle",
        ] {
            let verdict = verdict(operation, "");
            let Verdict::Unknown { why } = verdict else {
                panic!("{verdict:?}");
            };
            assert!(!why.contains('\u{1b}'), "{why}");
        }
    }
}
