//! The releases of Kubernetes that a bed can be made of: one by default, others for `make matrix`.

use std::env;
use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::sources::repository;

/// A minor version of Kubernetes, with the patch that is pinned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Release {
    /// As `$KUBE_REBOOTD_KUBERNETES` and `$KUBE_REBOOTD_KUBELET` name it: `1.36`.
    pub minor: &'static str,
    /// What its programs say of themselves; kept in step with its go.mod.
    pub version: &'static str,
}

/// What a bed is made of unless it is told otherwise, the newest: testbed/go/kubernetes.
pub const USUAL: Release = RELEASES[4];

/// The oldest whose kubelet may be a node's of the usual one: three minor versions older (Kubernetes' version skew policy).
pub const OLDEST_KUBELET: Release = RELEASES[1];

/// From the oldest to the newest. All but the usual one are in testbed/go/versions.
pub const RELEASES: [Release; 5] = [
    Release {
        minor: "1.33",
        version: "v1.33.13",
    },
    Release {
        minor: "1.34",
        version: "v1.34.4",
    },
    Release {
        minor: "1.35",
        version: "v1.35.4",
    },
    Release {
        minor: "1.36",
        version: "v1.36.3",
    },
    Release {
        minor: "1.37",
        version: "v1.37.2",
    },
];

/// Names the release of control plane and kubectl.
pub const PLANE: &str = "KUBE_REBOOTD_KUBERNETES";
/// Names the release of the real kubelet.
pub const KUBELET: &str = "KUBE_REBOOTD_KUBELET";

impl Release {
    /// That of control plane and kubectl.
    pub fn plane() -> Result<Self> {
        Self::wanted(PLANE)
    }

    /// That of the real kubelet.
    pub fn kubelet() -> Result<Self> {
        Self::wanted(KUBELET)
    }

    /// The one that a variable of the environment names; unset or empty: the usual one.
    fn wanted(variable: &str) -> Result<Self> {
        match env::var(variable) {
            Ok(minor) if !minor.is_empty() => {
                Self::named(&minor).with_context(|| format!("${variable}"))
            }
            _ => Ok(USUAL),
        }
    }

    /// By its minor version.
    pub fn named(minor: &str) -> Result<Self> {
        let all = || RELEASES.map(|one| one.minor).join(", ");
        let found = RELEASES.into_iter().find(|one| one.minor == minor);
        found.with_context(|| {
            format!(
                "no release {minor:?} of Kubernetes here; there are {}",
                all()
            )
        })
    }

    /// The Go module that pins it.
    pub(crate) fn module(self) -> PathBuf {
        let modules = repository().join("testbed/go");
        if self == USUAL {
            modules.join("kubernetes")
        } else {
            modules.join("versions").join(self.minor)
        }
    }

    /// What is linked into its programs.
    pub(crate) fn flags(self) -> String {
        format!(
            " -X k8s.io/component-base/version.gitVersion={}",
            self.version
        )
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn each_module_pins_the_release_that_its_programs_name() {
        for release in RELEASES {
            let module = fs::read_to_string(release.module().join("go.mod")).unwrap();
            let pinned = format!("k8s.io/kubernetes {}", release.version);
            let mut words = module
                .lines()
                .map(|line| line.trim().trim_end_matches(" // indirect"));
            assert!(
                words.any(|line| line.trim_start_matches("require ") == pinned),
                "{release:?}"
            );
            let staging = format!(
                "k8s.io/apiserver => k8s.io/apiserver v0{}\n",
                release.version.trim_start_matches("v1")
            );
            assert!(module.contains(&staging), "{release:?}");
        }
        assert!(Release::named("1.3").is_err());
    }
}
