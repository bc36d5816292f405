//! A bed: one control plane and its ground, by name.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use kube::{Api, Client};
use serde_json::Value;

use crate::audit::{self, Request};
use crate::certs::{Authority, End};
use crate::components::HOSTS_AUDIT_LOG;
use crate::{ground, reads, shell, tools};

/// Where beds keep their state: on disk, as overlays and etcd want it.
const BEDS: &str = "/var/lib/kube-rebootd-bed";

/// How long [`Bed::wait_for`] rests before it looks again, at first and at most: each look of five tests at a time that
/// starts processes would take the two cores from what they wait for.
const PAUSE: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_millis(400);

/// For kubectl, which lives for a tenth of a second: Go's collector and its threads take half of its CPU.
pub const BRIEF: [(&str, &str); 2] = [("GOGC", "off"), ("GOMAXPROCS", "1")];

/// A control plane with a network of its own, in which hosts boot.
#[derive(Debug, Clone)]
pub struct Bed {
    name: String,
    dir: PathBuf,
}

impl Bed {
    /// The name becomes a directory that `down` removes: it must name exactly one bed.
    pub(crate) fn at(name: &str) -> Result<Self> {
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if name.is_empty() || name.len() > 40 || !name.chars().all(plain) || name.starts_with('-') {
            bail!("a bed's name is 1 to 40 of a-z, 0-9 and -, not {name:?}");
        }
        Ok(Self {
            name: name.to_owned(),
            dir: Path::new(BEDS).join(name),
        })
    }

    /// Whether its API server answers.
    pub(crate) fn ready(&self) -> bool {
        self.kubectl(&["get", "--raw", "/readyz"])
            .is_ok_and(|said| said == "ok")
    }

    /// The bed of this name, which must be up.
    pub fn named(name: &str) -> Result<Self> {
        let bed = Self::at(name)?;
        if !bed.admin_kubeconfig().exists() {
            bail!(
                "no test bed named {name} is up: run `make bed` first (or `make test`, which does)"
            );
        }
        Ok(bed)
    }

    /// Brings a bed up: ground, what `install` puts on its hosts, and the control plane that `start` starts. One that is
    /// up is left as it is.
    pub(crate) fn up_with(
        name: &str,
        install: impl FnOnce(&Path) -> Result<()>,
        start: impl FnOnce(&Self) -> Result<()>,
    ) -> Result<Self> {
        let bed = Self::at(name)?;
        fs::create_dir_all(BEDS)?;
        match fs::create_dir(&bed.dir) {
            Ok(()) => {}
            Err(err) if err.kind() == ErrorKind::AlreadyExists && bed.ready() => {
                eprintln!("bed: {name} is up already");
                return Ok(bed);
            }
            Err(err) if err.kind() == ErrorKind::AlreadyExists => {
                bail!("bed {name} was left half way, or is coming up: bed down --name {name}")
            }
            Err(err) => {
                return Err(err).with_context(|| format!("cannot make {}", bed.dir.display()));
            }
        }
        fs::create_dir(bed.path("hosts"))?;
        fs::create_dir(bed.path("log"))?;
        tools::timed("installing kube-rebootd", || install(&bed.path("install")))?;
        tools::timed(&format!("bringing up bed {name}"), || {
            ground::make(name)?;
            start(&bed)
        })?;
        Ok(bed)
    }

    /// Takes everything of a bed down, in whatever state it is.
    pub fn down(name: &str) -> Result<()> {
        let dir = Self::at(name)?.dir;
        ground::remove(name)?;
        // Not before: a test that still waits for something would start another reader in the old network.
        reads::forget(name);
        audit::forget(&dir);
        if dir.exists() {
            fs::remove_dir_all(&dir).with_context(|| format!("cannot remove {}", dir.display()))?;
        }
        Ok(())
    }

    /// The bed that is up: `$KUBE_REBOOTD_BED`, else `test`.
    pub fn connect() -> Result<Self> {
        let name = std::env::var("KUBE_REBOOTD_BED").unwrap_or_else(|_| "test".to_owned());
        let bed = Self::named(&name)?;
        bed.enter()?;
        Ok(bed)
    }

    /// Moves the calling thread into the bed's network, so that sockets made here reach it.
    pub fn enter(&self) -> Result<()> {
        ground::enter(&self.name)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn path(&self, file: &str) -> PathBuf {
        self.dir.join(file)
    }

    /// A cgroup of its tree.
    pub(crate) fn cgroup(&self, name: &str) -> PathBuf {
        ground::cgroup(&self.name).join(name)
    }

    /// A command that will run in the bed's network and in `cgroup` of its tree.
    pub(crate) fn within(&self, cgroup: &str, program: &Path) -> Command {
        self.within_network(&ground::netns(&self.name), cgroup, program)
    }

    /// The same in the network of stubs.
    pub(crate) fn within_annex(&self, cgroup: &str, program: &Path) -> Command {
        self.within_network(&ground::annex_path(&self.name), cgroup, program)
    }

    fn within_network(&self, network: &Path, cgroup: &str, program: &Path) -> Command {
        let procs = self.cgroup(cgroup).join("cgroup.procs");
        let mut command = Command::new("sh");
        command
            .arg("-c")
            .arg("echo $$ > \"$1\" && shift && exec \"$@\"")
            .arg("sh")
            .arg(procs);
        command
            .arg("nsenter")
            .arg(format!("--net={}", network.display()));
        command.arg("--").arg(program);
        command
    }

    /// Bytes that all stubs of this bed have received and sent, as their network's only link counts them.
    pub fn stub_bytes(&self) -> Result<u64> {
        let annex = ground::annex(&self.name);
        let text = shell::run(
            "ip",
            &["-n", &annex, "-j", "-s", "link", "show", "dev", "host0"],
        )?;
        let links: Value = serde_json::from_str(&text)?;
        let bytes = |way: &str| links[0]["stats64"][way]["bytes"].as_u64();
        let both = bytes("rx").zip(bytes("tx")).map(|(rx, tx)| rx + tx);
        both.context("the link of the stubs has no counters")
    }

    /// Starts a process of the control plane, logging to a file of its name.
    pub(crate) fn spawn(&self, log: &str, program: &[&str], args: &[String]) -> Result<()> {
        let binary = tools::binaries()?.join(program[0]);
        let mut command = self.within("control", &binary);
        self.detached(command.args(args), log)
    }

    /// Starts a process that outlives this one.
    pub(crate) fn detached(&self, command: &mut Command, log: &str) -> Result<()> {
        let path = self.path("log").join(log);
        let file = fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(path)?;
        command
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            .process_group(0);
        command
            .spawn()
            .with_context(|| format!("cannot start {log}"))?;
        Ok(())
    }

    pub(crate) fn log_tail(&self, log: &str) -> String {
        let text = fs::read_to_string(self.path("log").join(log)).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        let from = lines.len().saturating_sub(20);
        format!("{log} says:\n{}", lines[from..].join("\n"))
    }

    /// The admin's kubeconfig.
    pub fn admin_kubeconfig(&self) -> PathBuf {
        self.path("pki/admin.kubeconfig")
    }

    /// A kubeconfig for any identity, with a certificate made on demand.
    pub fn kubeconfig(&self, user: &str, group: &str) -> Result<PathBuf> {
        let name = user.replace([':', '/'], "_");
        let pki = self.path("pki");
        let path = pki.join(format!("{name}.kubeconfig"));
        if !path.exists() {
            Authority::at(&pki).client(&name, user, group)?;
            let file = |file: &str| pki.join(file).display().to_string();
            let text = Authority::kubeconfig(
                user,
                &file("ca.crt"),
                &file(&format!("{name}.crt")),
                &file(&format!("{name}.key")),
            );
            fs::write(&path, text)?;
        }
        Ok(path)
    }

    /// The kubeconfig of a node's own identity.
    pub fn node_kubeconfig(&self, node: &str) -> Result<PathBuf> {
        self.kubeconfig(&format!("system:node:{node}"), "system:nodes")
    }

    /// A new certificate of a node and its key, in one text as the kubelet keeps them.
    pub fn node_pem(&self, node: &str, end: End) -> Result<String> {
        let authority = Authority::at(&self.path("pki"));
        let (name, user) = (format!("ends_{node}"), format!("system:node:{node}"));
        authority.client_until(&name, &user, "system:nodes", Some(end))?;
        let read = |kind: &str| fs::read_to_string(authority.path(&format!("{name}.{kind}")));
        Ok(read("crt")? + &read("key")?)
    }

    /// A client for a kubeconfig; call it on a thread that has entered the bed.
    pub async fn client(&self, kubeconfig: &Path) -> Result<Client> {
        reads::client(kubeconfig).await
    }

    /// A client with an admin's rights.
    pub async fn admin(&self) -> Result<Client> {
        self.client(&self.admin_kubeconfig()).await
    }

    /// The object or the list at a path such as `/api/v1/nodes/n1`, as an admin reads it; an error where there is none.
    pub fn get(&self, path: &str) -> Result<Value> {
        reads::get(&self.name, &self.admin_kubeconfig(), path)
    }

    /// Runs the bed's own kubectl as an admin.
    pub fn kubectl(&self, args: &[&str]) -> Result<String> {
        self.kubectl_as(&self.admin_kubeconfig(), args)
    }

    /// Runs the bed's own kubectl with another identity.
    pub fn kubectl_as(&self, kubeconfig: &Path, args: &[&str]) -> Result<String> {
        let kubectl = tools::binaries()?.join("kubectl");
        let mut command = Command::new("nsenter");
        command
            .arg(format!("--net={}", ground::netns(&self.name).display()))
            .arg("--")
            .arg(kubectl);
        command.envs(BRIEF);
        command
            .arg("--request-timeout=20s")
            .arg("--kubeconfig")
            .arg(kubeconfig)
            .args(args);
        shell::output(&mut command)
    }

    /// Applies a manifest as an admin.
    pub fn apply(&self, manifest: &str) -> Result<()> {
        let path = self.path(&format!("apply-{:?}.yaml", thread::current().id()));
        fs::write(&path, manifest)?;
        let file = path.display().to_string();
        let apply = || self.kubectl(&["apply", "-f", &file]);
        // Tests that begin beside one another make the same objects: who was later finds them.
        let said = apply().or_else(|err| {
            if err.to_string().contains("(AlreadyExists)") {
                apply()
            } else {
                Err(err)
            }
        });
        fs::remove_file(&path)?;
        said.map(|_| ())
    }

    /// A slot.
    pub async fn lease(&self, name: &str) -> Result<Lease> {
        let api: Api<Lease> = Api::namespaced(self.admin().await?, "kube-rebootd");
        Ok(api.get(name).await?)
    }

    /// A Node.
    pub async fn node(&self, name: &str) -> Result<Node> {
        let api: Api<Node> = Api::all(self.admin().await?);
        Ok(api.get(name).await?)
    }

    /// Every request in the audit log whose User-Agent begins with `agent`, in order of arrival.
    pub fn requests_by(&self, agent: &str) -> Result<Vec<Request>> {
        let mut requests = Vec::new();
        for log in self.audit_logs()? {
            requests.extend(audit::read(&log, agent)?);
        }
        requests.sort_by_key(|request| request.at);
        Ok(requests)
    }

    /// Its own, or those of its hosts that are its control plane.
    fn audit_logs(&self) -> Result<Vec<PathBuf>> {
        let mut logs = vec![self.path("audit.log")];
        for host in fs::read_dir(self.path("hosts"))? {
            let upper = host?.path().join("upper");
            logs.push(upper.join(HOSTS_AUDIT_LOG.trim_start_matches('/')));
        }
        logs.retain(|log| log.exists());
        if logs.is_empty() {
            bail!("bed {} has no audit log", self.name);
        }
        Ok(logs)
    }

    /// Waits until `done` says true; the error says what was waited for and what it said last.
    pub fn wait_for(
        &self,
        what: &str,
        limit: Duration,
        mut done: impl FnMut() -> Result<bool>,
    ) -> Result<()> {
        let deadline = Instant::now() + limit;
        let mut pause = PAUSE;
        loop {
            let said = done();
            if matches!(said, Ok(true)) {
                return Ok(());
            }
            if Instant::now() > deadline {
                let last = said
                    .err()
                    .map_or_else(String::new, |err| format!(": {err:#}"));
                bail!("waited {limit:?} in vain for {what}{last}");
            }
            thread::sleep(pause);
            pause = PAUSE_MAX.min(pause * 3 / 2);
        }
    }

    /// Waits until a Node is Ready.
    pub fn wait_ready(&self, node: &str) -> Result<()> {
        let what = format!("{node} to be Ready");
        self.wait_for(&what, Duration::from_secs(60), || {
            Ok(self.condition(node, "Ready")? == "True")
        })
    }

    /// The status of a condition of a Node; empty where it has none of this type.
    pub fn condition(&self, node: &str, kind: &str) -> Result<String> {
        let node = self.get(&format!("/api/v1/nodes/{node}"))?;
        let conditions = node["status"]["conditions"].as_array();
        let of_kind = |one: &&Value| one["type"] == kind;
        let found = conditions.and_then(|all| all.iter().find(of_kind));
        let status = found.and_then(|one| one["status"].as_str());
        Ok(status.unwrap_or_default().to_owned())
    }

    /// A file that `make install` put on every host.
    pub fn installed(&self, file: &str) -> PathBuf {
        self.path("install").join(file)
    }

    /// Where the bed's own kubectl and the rest are.
    pub fn binaries(&self) -> Result<PathBuf> {
        tools::binaries()
    }
}
