//! All that a bed, its hosts and the tests of packages need, made ready once.

use anyhow::{Result, bail};

use crate::sources::{PACKAGES, Sources};
use crate::spec::{Content, Runtime, SUITE};
use crate::tools::Use;
use crate::{image, tools};

/// What is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// A bed with hosts of the usual kind, as `make demo` and `make bed` bring up: a new machine waits for nothing
    /// else.
    Bed,
    /// All that `make test` does.
    Tests,
}

/// Installs and builds whatever is missing, saying what and how long it took.
pub fn prepare(need: Need) -> Result<()> {
    if !nix::unistd::Uid::effective().is_root() {
        bail!("the test bed makes network namespaces and boots hosts: run it as root");
    }
    tools::programs(|of| need == Need::Tests || of == Use::Bed)?;
    tools::binaries()?;
    image::base(SUITE, Content::Bare, Runtime::Kubemark)?;
    if need == Need::Bed {
        return Ok(());
    }
    tools::runtime()?;
    image::base(SUITE, Content::Bare, Runtime::Containerd)?;
    image::base(SUITE, Content::Updaters, Runtime::Kubemark)?;
    // What RHEL 9 and Debian 12 have: systemd 252.
    image::base("bookworm", Content::Bare, Runtime::Kubemark)?;
    for package in PACKAGES {
        image::builder(package)?;
    }
    tools::timed("building cargo-deb", Sources::prepare_deb)
}
