//! etcd, the API server, the controllers and the scheduler of one bed.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::bed::Bed;
use crate::certs::{Authority, SERVER};
use crate::components::{AUDIT_POLICY, Seat};
use crate::prepare::{Need, prepare};
use crate::{image, shell};

impl Bed {
    /// Brings a bed up: ground, control plane, and what `make install` puts on hosts around `binary`. One that is up
    /// is left as it is.
    pub fn up(name: &str, binary: &Path) -> Result<Self> {
        prepare(Need::Bed)?;
        let install = |place: &Path| image::install(place, binary);
        Self::up_with(name, install, up)
    }

    /// Another bed, whose hosts get what this one's get: nothing is built.
    pub fn up_beside(&self, name: &str) -> Result<Self> {
        let from = self.path("install").display().to_string();
        let install = |place: &Path| {
            shell::run("cp", &["-a", &from, &place.display().to_string()]).map(|_| ())
        };
        Self::up_with(name, install, up)
    }
}

/// Starts all four and waits until they answer.
fn up(bed: &Bed) -> Result<()> {
    identities(bed)?;
    bed.spawn("etcd", &["etcd"], &seat(bed).etcd())?;
    api_server(bed)?;
    controllers(bed)
}

/// Who everybody is, before anything runs.
pub(crate) fn identities(bed: &Bed) -> Result<()> {
    let pki = bed.path("pki");
    let authority = Authority::make(&pki)?;
    authority.client("admin", "admin", "system:masters")?;
    authority.client("controllers", "system:kube-controller-manager", "")?;
    authority.client("scheduler", "system:kube-scheduler", "")?;
    for name in ["admin", "controllers", "scheduler"] {
        let text = kubeconfig(&pki, name);
        fs::write(pki.join(format!("{name}.kubeconfig")), text)?;
    }
    // The server reads it once: the one host whose kubelet may also show a token is named beforehand.
    let line = format!("{TOKEN},system:node:{TOKEN_HOST},{TOKEN_HOST},system:nodes\n");
    fs::write(pki.join("tokens"), line).context("cannot write the bed's token")?;
    Ok(fs::write(bed.path("audit-policy.yaml"), AUDIT_POLICY)?)
}

/// The host that may prove itself by [`TOKEN`] as well.
pub const TOKEN_HOST: &str = "tokened";
/// Its token.
pub const TOKEN: &str = "the-token-of-tokened";

/// A kubeconfig with files of a directory.
pub(crate) fn kubeconfig(pki: &Path, name: &str) -> String {
    let file = |name: &str| pki.join(name).display().to_string();
    Authority::kubeconfig(
        name,
        &file("ca.crt"),
        &file(&format!("{name}.crt")),
        &file(&format!("{name}.key")),
    )
}

fn seat(bed: &Bed) -> Seat {
    let path = |file: &str| bed.path(file).display().to_string();
    Seat {
        pki: path("pki"),
        audit_policy: path("audit-policy.yaml"),
        audit_log: path("audit.log"),
        etcd_data: path("etcd"),
        address: SERVER.to_owned(),
        members: None,
    }
}

/// Starts the API server alone (again) and waits until it is ready.
pub(crate) fn api_server(bed: &Bed) -> Result<()> {
    let flags = seat(bed).api_server();
    bed.spawn("kube-apiserver", &["kube-apiserver"], &flags)?;
    bed.wait_for(
        "the API server to be ready",
        Duration::from_secs(90),
        || Ok(bed.ready()),
    )
    .with_context(|| bed.log_tail("kube-apiserver"))
}

fn controllers(bed: &Bed) -> Result<()> {
    let seat = seat(bed);
    for (name, flags) in [
        ("kube-controller-manager", seat.controllers()),
        ("kube-scheduler", seat.scheduler()),
    ] {
        bed.spawn(name, &[name], &flags)?;
    }
    bed.wait_for("the controllers to work", Duration::from_secs(60), || {
        Ok(bed
            .kubectl(&["-n", "default", "get", "serviceaccount", "default"])
            .is_ok())
    })
    .with_context(|| bed.log_tail("kube-controller-manager"))
}
