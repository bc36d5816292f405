//! How the settings of updaters are read, and what is said of those that cannot be (I8).

use std::path::Path;

use super::Check;
use crate::bounded::{self, ReadError};

/// Bytes of the configuration file of an updater: they are a few KiB.
pub(super) const CONFIG_MAX: u64 = 1024 * 1024;

/// A comment may be in any encoding.
pub(super) fn text(file: &Path) -> Result<String, ReadError> {
    let bytes = bounded::bytes(file, CONFIG_MAX)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// What could not be read is not known to be harmless (I8).
pub(super) fn unread(name: &'static str, file: &Path, error: &ReadError) -> Check {
    Check::warn(
        name,
        format!(
            "whether it reboots by itself is not known: {}: {error}",
            file.display()
        ),
        "run doctor as root; else make it a file that can be read",
    )
}

/// The last value of a key, without the quotes that dnf takes off as well.
pub(super) fn value<'t>(text: &'t str, key: &str) -> Option<&'t str> {
    let mut pairs = text.lines().filter_map(|line| line.split_once('='));
    let said = pairs.rfind(|(name, _)| name.trim() == key);
    said.map(|(_, value)| value.trim().trim_matches(['"', '\'']))
}
