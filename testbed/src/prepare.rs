//! All that a bed, its hosts and the tests of packages need, made ready once.

use anyhow::{Result, bail};

use crate::spec::{Content, SUITE};
use crate::{image, tools};

/// Installs and builds whatever is missing, saying what and how long it took.
pub fn prepare() -> Result<()> {
    if !nix::unistd::Uid::effective().is_root() {
        bail!("the test bed makes network namespaces and boots hosts: run it as root");
    }
    tools::programs()?;
    tools::binaries()?;
    image::base(SUITE, Content::Bare)?;
    image::base(SUITE, Content::Updaters)?;
    // What RHEL 9 and Debian 12 have: systemd 252.
    image::base("bookworm", Content::Bare)?;
    Ok(())
}
