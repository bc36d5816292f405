//! Where the kubelet's credential is, and whether it changed (DESIGN.md 3, kubernetes.md 2).
//!
//! Nothing is guessed: a file counts only when it is a kubeconfig with a user. What was searched and
//! why it did not do is part of the answer, for STATUS and `doctor`.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

use kube::config::Kubeconfig;

use crate::bounded::{self, ReadError};
use crate::root::Root;

/// Where distributions put the kubelet's kubeconfig (kubernetes.md 2). `/etc/kubernetes/kubeconfig`
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
/// Bytes of a command line: a kubelet's is a few KiB. The last flag counts, so a part of one says nothing.
const COMMAND_MAX: u64 = 1024 * 1024;
/// Bytes of a process's name: 16, kernel threads up to 64 (`proc_pid_comm(5)`).
const COMM_MAX: u64 = 256;

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
/// kubelet's certificate is one that moves.
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

/// Finds and reads the kubeconfig: `explicit`, else the running kubelet's, else a known place.
/// Reads local files only.
///
/// # Errors
/// Every path that was searched, with what was wrong with it.
pub fn find(root: &Root, explicit: Option<&Path>) -> Result<Found, Vec<Searched>> {
    let candidates = if let Some(path) = explicit {
        vec![path.to_owned()]
    } else {
        let mut paths = running(root);
        for known in KNOWN {
            if !paths.iter().any(|path| path == Path::new(known)) {
                paths.push(PathBuf::from(known));
            }
        }
        paths
    };
    let mut searched = Vec::new();
    for path in candidates {
        match read(root, &path) {
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

/// `--kubeconfig` of every running kubelet. A relative path is left out: it is relative to a
/// directory that nobody but the kubelet knows.
fn running(root: &Root) -> Vec<PathBuf> {
    let Ok(processes) = fs::read_dir(root.path("/proc")) else {
        return Vec::new();
    };
    let mut paths = Vec::new();
    for process in processes.flatten() {
        let number = process.file_name();
        if !number.as_encoded_bytes().iter().all(u8::is_ascii_digit) {
            continue;
        }
        let Ok(line) = bounded::bytes(&process.path().join("cmdline"), COMMAND_MAX) else {
            continue;
        };
        let comm = bounded::text(&process.path().join("comm"), COMM_MAX).unwrap_or_default();
        if let Some(path) = flag(&line, comm.trim_end())
            && path.is_absolute()
            && !paths.contains(&path)
        {
            paths.push(path);
        }
    }
    paths
}

/// Value of `--kubeconfig` in a kubelet's command line, whose words end with NUL.
fn flag(line: &[u8], comm: &str) -> Option<PathBuf> {
    let words: Vec<&[u8]> = line.split(|byte| *byte == 0).collect();
    let program = Path::new(std::str::from_utf8(words.first()?).ok()?).file_name()?;
    if program != "kubelet" && comm != "kubelet" {
        return None;
    }
    let mut rest = words.iter().skip(1);
    let mut found = None;
    while let Some(word) = rest.next() {
        // The last one counts, as in pflag; one dash is accepted there too by the kubelet's users.
        let word = word.strip_prefix(b"-").unwrap_or(word);
        let word = word.strip_prefix(b"-").unwrap_or(word);
        if let Some(value) = word.strip_prefix(b"kubeconfig=") {
            found = Some(value);
        } else if word == b"kubeconfig" {
            found = rest.next().copied();
        }
    }
    let path = String::from_utf8(found?.to_vec()).ok()?;
    (!path.is_empty()).then(|| PathBuf::from(path))
}

/// What a path in a kubeconfig names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Names {
    /// A certificate, key or CA, which kube reads once: watched.
    Secret,
    /// kube reads it again every minute by itself.
    Token,
    Program,
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
fn read(root: &Root, path: &Path) -> Result<(Kubeconfig, Fingerprint), Option<String>> {
    let text = root.resolve(path).map_err(ReadError::from);
    match text.and_then(|file| bounded::text(&file, KUBECONFIG_MAX)) {
        Ok(text) => usable(root, path, &text).map_err(Some),
        Err(error) if error.absent() => Err(None),
        Err(error) => Err(Some(error.to_string())),
    }
}

fn usable(root: &Root, path: &Path, text: &str) -> Result<(Kubeconfig, Fingerprint), String> {
    let mut kubeconfig =
        Kubeconfig::from_yaml(text).map_err(|error| format!("not a kubeconfig: {error}"))?;
    match kubeconfig.kind.as_deref() {
        Some("Config") | None => {}
        Some(kind) => return Err(format!("its kind is {kind}, not Config")),
    }
    if kubeconfig.auth_infos.is_empty() {
        return Err("it names no user".to_owned());
    }
    let mut files = BTreeSet::from([path.to_owned()]);
    let directory = path.parent().unwrap_or(Path::new("/"));
    let mut place = |field: &mut Option<String>, what: Names| -> Result<(), String> {
        let Some(value) = field.as_deref().filter(|value| !value.is_empty()) else {
            return Ok(());
        };
        let host_path = directory.join(value);
        let wrong = |error: &dyn fmt::Display| format!("{}: {error}", host_path.display());
        let place = root.resolve(&host_path).map_err(|error| wrong(&error))?;
        match what {
            Names::Secret | Names::Token => readable(&place).map_err(|error| wrong(&error))?,
            Names::Program => {}
        }
        *field = Some(place.display().to_string());
        if what == Names::Secret {
            files.insert(host_path);
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
        if let Some(exec) = &mut user.exec
            && exec
                .command
                .as_ref()
                .is_some_and(|command| command.contains('/'))
        {
            place(&mut exec.command, Names::Program)?;
        }
    }
    Ok((kubeconfig, Fingerprint::of(root, files)))
}

#[cfg(test)]
mod tests;
