//! `kube-rebootd migrate kured`: from the DaemonSet of kured to a configuration, what has no equivalent, and the order of the hand-over
//! (docs/kured.md). Pure: whoever reads the manifest, or asks the API server for it, passes its documents.
//!
//! What is not understood is told, and makes a configuration that only observes: a window or a gate that is lost would reboot
//! where kured did not (I2, I8). What this writes is valid, or it is a fault of ours (I12).

mod draft;
pub mod flags;
mod gates;
mod given;
mod go;
mod keys;
mod manifest;
mod page;
mod window;

use std::path::Path;

use jiff::tz::TimeZone;

use crate::config::{ConfigError, merged};
use crate::text::clean;
use draft::{Draft, REMARK, Table, text};
use given::Values;

pub use manifest::{DaemonSet, Found};

/// What becomes of a kured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Migration {
    /// A file of the configuration, with comments.
    pub config: String,
    /// What was not understood, each in a sentence; the configuration only observes then.
    pub odd: Vec<String>,
    /// What is to be done by hand, each in a sentence.
    pub todo: Vec<String>,
    /// The steps of the hand-over, in lines.
    pub hand_over: String,
}

/// What becomes of this one, with the slots in `namespace`.
pub fn kured(set: &DaemonSet, namespace: &str) -> Migration {
    let mut values = Values::of(set);
    let mut draft = Draft::default();
    draft.odd.append(&mut values.odd);
    keys::triggers(&mut draft, &values, set);
    keys::coordination(&mut draft, &values, namespace);
    keys::drain(&mut draft, &values, set);
    gates::gates(&mut draft, &values);
    gates::notify(&mut draft, &values);
    gates::metrics(&mut draft, &values, set);
    page::rest(&mut draft, &values);
    if !draft.odd.is_empty() {
        let why = "Not all was understood, see above: nothing is rebooted. Remove this once you have written by hand what is missing.";
        draft.key(Table::Top, "mode", text("observe"), &[why]);
    }
    let clean = |words: &Vec<String>| words.iter().map(|words| clean(words, REMARK)).collect();
    Migration {
        config: page::file(&draft, &values, set),
        hand_over: page::hand_over(&draft, &values, namespace),
        odd: clean(&draft.odd),
        todo: clean(&draft.todo),
    }
}

impl Migration {
    /// Whether `config check` will take the configuration, wherever the host knows its time zone.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn check(&self) -> Result<(), ConfigError> {
        let file = Path::new("the migrated configuration").to_owned();
        merged(&[(file, self.config.clone())], Vec::new(), |_| {
            Some(TimeZone::UTC)
        })
        .map(drop)
    }
}

#[cfg(test)]
mod tests;
