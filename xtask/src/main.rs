//! `make packaging`: writes below packaging/ what follows from the code.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};

fn main() -> Result<()> {
    let packaging = Path::new(xtask::TOP).join("packaging");
    for (name, text) in xtask::written()? {
        let file = packaging.join(name);
        fs::create_dir_all(file.parent().unwrap_or(&packaging))?;
        fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(())
}
