//! `cargo run --example packaging`: writes what packages hold that follows from the code: the manual page
//! kube-rebootd(8), the completions, the licences of the crates. tests/packages compares them.

mod licenses;
mod page;
mod written;

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};

fn main() -> Result<()> {
    let packaging = Path::new(env!("CARGO_MANIFEST_DIR")).join("packaging");
    for (name, text) in written::all()? {
        let file = packaging.join(name);
        fs::create_dir_all(file.parent().unwrap_or(&packaging))?;
        fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(())
}
