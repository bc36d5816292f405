//! All that a bed, its hosts and the tests of packages need, made ready once.

use anyhow::{Result, bail};

use crate::butane::butane;
use crate::releases::OLDEST_KUBELET;
use crate::sources::Package;
use crate::sources::{PACKAGES, Sources};
use crate::spec::{Content, Runtime, SUITE};
use crate::tools::Use;
use crate::{image, tools, zincati};

/// What is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// A control plane; the root of a host is made when the first one boots.
    Bed,
    /// The same and hosts with the real kubelet and containerd, as `make demo` brings up: a new machine waits for
    /// nothing else.
    Demo,
    /// All that `make test` does.
    Tests,
    /// A virtual machine, as `make kernel` boots.
    Machine,
}

/// Installs and builds whatever is missing, saying what and how long it took.
pub fn prepare(need: Need) -> Result<()> {
    if !nix::unistd::Uid::effective().is_root() {
        bail!("the test bed makes network namespaces and boots hosts: run it as root");
    }
    tools::programs(|of| match of {
        Use::Bed => true,
        Use::Build(Package::Deb) => matches!(need, Need::Tests | Need::Machine),
        Use::Build(_) | Use::Test => need == Need::Tests,
        Use::Machine => need == Need::Machine,
    })?;
    // One process at a time makes a root: first, while cargo keeps the other core busy. Go has work for all of them.
    if need == Need::Tests {
        roots()?;
    }
    tools::binaries()?;
    if need == Need::Bed {
        return Ok(());
    }
    tools::runtime()?;
    if need == Need::Machine {
        image::machine()?;
        image::base(SUITE, Content::Bare, Runtime::Kubemark)?;
        return Ok(());
    }
    image::base(SUITE, Content::Bare, Runtime::Containerd)?;
    if need == Need::Demo {
        return Ok(());
    }
    butane()?;
    Sources::own().make(&["musl-library"])?;
    // The one that a host's kubelet is upgraded from.
    tools::kubelet(OLDEST_KUBELET)?;
    zincati::layer().map(|_| ())
}

/// What hosts of tests boot from, and what packages are built in.
fn roots() -> Result<()> {
    image::base(SUITE, Content::Bare, Runtime::Kubemark)?;
    image::base(SUITE, Content::Updaters, Runtime::Kubemark)?;
    image::base(SUITE, Content::Zincati, Runtime::Kubemark)?;
    // What RHEL 9 and Debian 12 have: systemd 252.
    image::base("bookworm", Content::Bare, Runtime::Kubemark)?;
    for package in PACKAGES {
        image::builder(package)?;
    }
    tools::timed("building cargo-deb", Sources::prepare_deb)
}
