//! Where the kubelet's credential is, and whether it changed.
//!
//! Nothing is guessed: a file counts only when it is a kubeconfig with a user. What was searched and
//! why it did not do is part of the answer, for STATUS and `doctor`.
//!
//! The host's kubeconfig makes root send secrets to a server and run programs, so only root may be able to
//! change it, what it names, and the directories on the way there (I14, `trusted`). A person's own kubeconfig,
//! in the commands for admins, is that person's own business, as it is for kubectl.

use std::collections::BTreeSet;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};

use kube::config::{ExecConfig, Kubeconfig};
use kube_rebootd_core::kubelet::MainProcess;

use crate::bounded::{self, ReadError};
use crate::root::Root;
use crate::trusted;

mod program;
mod running;

/// Where distributions put the kubelet's kubeconfig. `/etc/kubernetes/kubeconfig`
/// is missing on purpose: it holds a bootstrap token, not a node's identity.
const KNOWN: [&str; 7] = [
    "/etc/kubernetes/kubelet.conf",
    "/var/lib/kubelet/kubeconfig",
    "/var/lib/rancher/k3s/agent/kubelet.kubeconfig",
    "/var/lib/rancher/rke2/agent/kubelet.kubeconfig",
    "/var/lib/k0s/kubelet.conf",
    "/var/snap/microk8s/current/credentials/kubelet.config",
    "/etc/kubernetes/kubelet/kubeconfig",
];
/// Bytes of a kubeconfig: a person's with hundreds of clusters is about 1 MiB.
const KUBECONFIG_MAX: u64 = 4 * 1024 * 1024;
/// Bytes of a certificate, key, CA or token: a bundle of all public CAs is about 220 KiB.
pub(crate) const SECRET_MAX: u64 = 1024 * 1024;
const NO_USER: &str = "it names no user";

/// Whose word a kubeconfig is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Whose {
    /// This host's: only root may be able to change it.
    Hosts,
    /// A person's, who named it.
    Persons,
}

/// A path that was looked at and did not do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Searched {
    pub path: PathBuf,
    /// None: there is no such file.
    pub wrong: Option<String>,
}

impl fmt::Display for Searched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        match &self.wrong {
            Some(wrong) => write!(f, "{path} ({wrong})"),
            None => write!(f, "{path}"),
        }
    }
}

/// A kubeconfig, with every path in it absolute and below the root.
#[derive(Debug, Clone)]
pub struct Found {
    /// As the host sees it.
    pub path: PathBuf,
    pub kubeconfig: Kubeconfig,
    pub fingerprint: Fingerprint,
    /// What was looked at before.
    pub searched: Vec<Searched>,
}

/// Contents of the kubeconfig and of the certificates, keys and CAs it names.
///
/// Only a hash is kept: keys do not stay in memory for this. Links are followed anew each time: the
/// kubelet's certificate is one that moves (`real::certificates`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fingerprint {
    root: Root,
    /// As the host sees them.
    files: BTreeSet<PathBuf>,
    hash: u64,
}

impl Fingerprint {
    fn of(root: &Root, files: BTreeSet<PathBuf>) -> Self {
        let mut hasher = DefaultHasher::new();
        for file in &files {
            file.hash(&mut hasher);
            let bytes = root.resolve(file).map_err(ReadError::from);
            let bytes = bytes.and_then(|file| bounded::bytes(&file, KUBECONFIG_MAX));
            bytes.ok().hash(&mut hasher);
        }
        Self {
            root: root.clone(),
            hash: hasher.finish(),
            files,
        }
    }

    /// The files as they are now differ: build new clients. Reads local files.
    pub fn changed(&self) -> bool {
        Self::of(&self.root, self.files.clone()) != *self
    }

    /// The files, to be watched.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        self.files.iter().map(PathBuf::as_path)
    }
}

/// A kubelet of this host has joined a cluster, as far as that is seen: a kubeconfig is at a known place. What cannot be looked at
/// counts as there (I8).
pub fn is_node(root: &Root) -> bool {
    let there = |path: &str| match root.path(path).symlink_metadata() {
        Ok(_) => true,
        Err(error) => !matches!(
            error.kind(),
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
        ),
    };
    KNOWN.iter().any(|path| there(path))
}

/// Finds and reads the host's kubeconfig: `explicit`, else that of a running kubelet, else a known place.
/// `kubelets` are the main processes that PID 1 named. Reads local files only.
///
/// # Errors
/// Every path that was searched, with what was wrong with it.
pub fn find(
    root: &Root,
    explicit: Option<&Path>,
    kubelets: &[MainProcess],
) -> Result<Found, Vec<Searched>> {
    let candidates = if let Some(path) = explicit {
        vec![path.to_owned()]
    } else {
        let mut paths = running::kubeconfigs(root, kubelets);
        for known in KNOWN {
            if !paths.iter().any(|path| path == Path::new(known)) {
                paths.push(PathBuf::from(known));
            }
        }
        paths
    };
    let mut searched = Vec::new();
    for path in candidates {
        match read(root, &path, Whose::Hosts) {
            Ok((kubeconfig, fingerprint)) => {
                return Ok(Found {
                    path,
                    kubeconfig,
                    fingerprint,
                    searched,
                });
            }
            Err(wrong) => searched.push(Searched { path, wrong }),
        }
    }
    Err(searched)
}

/// Reads a person's kubeconfigs and merges them as kubectl does: of each name the first one counts, and the
/// first current context.
///
/// # Errors
/// The file that cannot be used, or none that names a user.
pub fn persons(files: &[PathBuf]) -> Result<Found, Vec<Searched>> {
    let (root, mut merged) = (Root::host(), Kubeconfig::default());
    let mut all = BTreeSet::new();
    for path in files {
        let searched = |wrong| {
            let path = path.clone();
            vec![Searched { path, wrong }]
        };
        let (mut next, fingerprint) = read(&root, path, Whose::Persons).map_err(searched)?;
        // An empty one, as kubectl writes it when there is none, is none.
        next.current_context = next.current_context.filter(|context| !context.is_empty());
        let together = merged.merge(next);
        merged = together.map_err(|error| searched(Some(error.to_string())))?;
        all.extend(fingerprint.files);
    }
    if merged.auth_infos.is_empty() {
        let wrong = Some(NO_USER.to_owned());
        let searched = |path: &PathBuf| Searched {
            path: path.clone(),
            wrong: wrong.clone(),
        };
        return Err(files.iter().map(searched).collect());
    }
    Ok(Found {
        path: files.first().cloned().unwrap_or_default(),
        kubeconfig: merged,
        fingerprint: Fingerprint::of(&root, all),
        searched: Vec::new(),
    })
}

/// What a path in a kubeconfig names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Names {
    /// A certificate, key or CA, which kube reads once: watched.
    Secret,
    /// kube reads it again every minute by itself.
    Token,
}

/// kube reads these by itself, whatever they are: what it must not be given is refused before. What is
/// missing, or may not be read, it says of the user that is used; others do not matter.
fn readable(file: &Path) -> Result<(), ReadError> {
    match bounded::bytes(file, SECRET_MAX) {
        Ok(_) | Err(ReadError::Io(_)) => Ok(()),
        Err(odd @ (ReadError::NotRegular | ReadError::Larger(_) | ReadError::NotText(_))) => {
            Err(odd)
        }
    }
}

/// None: there is no such file.
fn read(
    root: &Root,
    path: &Path,
    whose: Whose,
) -> Result<(Kubeconfig, Fingerprint), Option<String>> {
    believed(root, path, whose).map_err(Some)?;
    let text = root.resolve(path).map_err(ReadError::from);
    match text.and_then(|file| bounded::text(&file, KUBECONFIG_MAX)) {
        Ok(text) => usable(root, path, &text, whose).map_err(Some),
        Err(error) if error.absent() => Err(None),
        Err(error) => Err(Some(error.to_string())),
    }
}

/// What the host's kubeconfig names must be root's as well.
fn believed(root: &Root, path: &Path, whose: Whose) -> Result<(), String> {
    match whose {
        Whose::Hosts => {
            trusted::only_root_can_change(root, path).map_err(|error| error.to_string())
        }
        Whose::Persons => Ok(()),
    }
}

fn usable(
    root: &Root,
    path: &Path,
    text: &str,
    whose: Whose,
) -> Result<(Kubeconfig, Fingerprint), String> {
    let mut kubeconfig =
        Kubeconfig::from_yaml(text).map_err(|error| format!("not a kubeconfig: {error}"))?;
    match kubeconfig.kind.as_deref() {
        Some("Config") | None => {}
        Some(kind) => return Err(format!("its kind is {kind}, not Config")),
    }
    // Of several files of a person's one may name only clusters.
    if kubeconfig.auth_infos.is_empty() && whose == Whose::Hosts {
        return Err(NO_USER.to_owned());
    }
    let mut files = BTreeSet::from([path.to_owned()]);
    let directory = path.parent().unwrap_or(Path::new("/"));
    let mut place = |field: &mut Option<String>, what: Names| -> Result<(), String> {
        let Some(value) = field.as_deref().filter(|value| !value.is_empty()) else {
            return Ok(());
        };
        let host_path = directory.join(value);
        let wrong = |error: &dyn fmt::Display| format!("{}: {error}", host_path.display());
        believed(root, &host_path, whose)?;
        let place = root.resolve(&host_path).map_err(|error| wrong(&error))?;
        readable(&place).map_err(|error| wrong(&error))?;
        *field = Some(place.display().to_string());
        match what {
            Names::Secret => {
                files.insert(host_path);
            }
            Names::Token => {}
        }
        Ok(())
    };
    for cluster in &mut kubeconfig.clusters {
        if let Some(cluster) = &mut cluster.cluster {
            place(&mut cluster.certificate_authority, Names::Secret)?;
        }
    }
    for user in &mut kubeconfig.auth_infos {
        let Some(user) = &mut user.auth_info else {
            continue;
        };
        place(&mut user.client_certificate, Names::Secret)?;
        place(&mut user.client_key, Names::Secret)?;
        place(&mut user.token_file, Names::Token)?;
        if let Some(ExecConfig {
            command: Some(command),
            ..
        }) = &mut user.exec
        {
            *command = program::find(root, directory, command, whose)?;
        }
    }
    Ok((kubeconfig, Fingerprint::of(root, files)))
}

#[cfg(test)]
mod tests;
