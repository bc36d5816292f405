//! Butane, which makes Ignition's configuration of what people write.

use std::fs;
use std::path::PathBuf;

use anyhow::Result;

use crate::sources::repository;
use crate::tools;

/// The program, built when it is missing.
pub fn butane() -> Result<PathBuf> {
    let module = repository().join("testbed/go/butane");
    let sum = fs::read(module.join("go.sum"))?;
    let place = tools::cache().join(format!("butane-{}", tools::key(&[&sum])));
    fs::create_dir_all(&place)?;
    let _lock = tools::alone(&place)?;
    let butane = [("butane", "github.com/coreos/butane/internal")];
    tools::build(&place, &module, &butane, "")?;
    Ok(place.join("butane"))
}
