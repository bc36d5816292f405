//! A real etcd and kube-apiserver for this test binary, in a network namespace of its own.
//!
//! Every node is an identity of the token file, so that a test shows what a kubelet's credential may
//! really do. No controllers run: a test plays them.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{Seek, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use kube_rebootd::cluster::client::{Access, Clients, Connector, admin};
use kube_rebootd::cluster::peers::Question;
use kube_rebootd::root::Root;
use serde_json::json;
use testbed::BRIEF;
use testbed::certs::Authority;

/// Identities in the token file.
const NODES: usize = 200;
pub(crate) const PORT: u16 = 6443;
/// Of the state directories; the process id follows.
const PREFIX: &str = "rebootd-plane-";
/// Longest wait for anything that should happen soon.
pub(crate) const SOON: Duration = Duration::from_secs(30);
/// Longest wait for a server to start: on a machine that builds beside the tests it takes a minute.
const START: Duration = Duration::from_secs(120);

pub(crate) struct Plane {
    dir: PathBuf,
    netns: PathBuf,
    next: AtomicUsize,
    /// Signs the server's certificate, and those of clients that prove themselves by one.
    pub(crate) authority: Authority,
    /// Ends the servers when it is dropped.
    _life: mpsc::Sender<()>,
}

/// A node with its own credential.
pub(crate) struct Host {
    pub(crate) name: String,
    pub(crate) clients: Clients,
    pub(crate) admin: Client,
}

impl Drop for Plane {
    /// Of a test's own: the static one is swept by a later run.
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.dir);
    }
}

static PLANE: OnceLock<Plane> = OnceLock::new();

pub(crate) fn bin(name: &str) -> PathBuf {
    testbed::binaries()
        .expect("the test bed builds them")
        .join(name)
}

/// The plane, with the calling thread in its network namespace.
pub(crate) fn enter() -> &'static Plane {
    let plane = PLANE.get_or_init(Plane::start);
    plane.enter();
    plane
}

/// A plane of the test's own, for manifests that would bind others.
pub(crate) fn own() -> Plane {
    let plane = Plane::start();
    plane.enter();
    plane
}

impl Plane {
    fn start() -> Self {
        sweep();
        let prefix = format!("{PREFIX}{}-", std::process::id());
        let dir = tempfile::Builder::new().prefix(&prefix).tempdir();
        let dir = dir.expect("a directory").keep();
        let mut tokens = "admin,admin,admin,system:masters\n".to_owned();
        for number in 0..NODES {
            let _ = writeln!(
                tokens,
                "n{number},system:node:n{number},n{number},system:nodes"
            );
        }
        fs::write(dir.join("tokens"), tokens).expect("tokens");
        // For service account tokens, which no test uses; the server insists.
        let key = dir.join("sa.key");
        run(Command::new("openssl")
            .args(["genrsa", "-out"])
            .arg(&key)
            .arg("2048"));
        let authority = Authority::make(&dir.join("pki")).expect("certificates");
        let (send, receive) = mpsc::channel();
        let (life, end) = mpsc::channel();
        let home = dir.clone();
        // The children die with the thread that started them (PDEATHSIG): it waits for the end.
        std::thread::spawn(move || {
            nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNET).expect("unshare (root)");
            run(Command::new("ip").args(["link", "set", "lo", "up"]));
            let etcd = spawn(&home, "etcd", &etcd_flags(&home));
            spawn(&home, "kube-apiserver", &server_flags(&home));
            send.send(etcd).expect("sent");
            let _ = end.recv();
        });
        let etcd = receive.recv().expect("started");
        let plane = Self {
            netns: PathBuf::from(format!("/proc/{etcd}/ns/net")),
            next: AtomicUsize::new(1),
            dir,
            authority,
            _life: life,
        };
        plane.write_kubeconfig("admin");
        let (server, netns) = (plane.dir.join("admin"), plane.netns.clone());
        // A thread of its own: the caller may be inside a runtime.
        std::thread::spawn(move || ready(&server, &netns))
            .join()
            .expect("kube-apiserver is ready");
        plane
    }

    fn enter(&self) {
        let namespace = File::open(&self.netns).expect("the namespace");
        nix::sched::setns(namespace, nix::sched::CloneFlags::CLONE_NEWNET).expect("setns (root)");
    }

    /// Runs kubectl as the admin, from the namespace of the calling thread.
    pub(crate) fn kubectl(&self, words: &[&str], input: &str) -> String {
        let (done, said) = self.try_kubectl(words, input);
        assert!(done, "kubectl {words:?}: {said}");
        said
    }

    /// The same where it may fail: whether it was done, and what it said.
    pub(crate) fn try_kubectl(&self, words: &[&str], input: &str) -> (bool, String) {
        // Of its own: tests beside this one call it too.
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(input.as_bytes()).expect("input");
        file.rewind().expect("input");
        let mut command = Command::new(bin("kubectl"));
        command.arg("--kubeconfig").arg(self.dir.join("admin"));
        let output = command
            .envs(BRIEF)
            .args(words)
            .stdin(file)
            .output()
            .expect("kubectl runs");
        let done = output.status.success();
        let said = if done { output.stdout } else { output.stderr };
        (done, String::from_utf8_lossy(&said).into_owned())
    }

    pub(crate) fn write_kubeconfig(&self, token: &str) -> PathBuf {
        let file = self.dir.join(token);
        let text = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters:\n- name: c\n  cluster: {{server: 'https://127.0.0.1:{PORT}', insecure-skip-tls-verify: true}}\ncontexts:\n- name: c\n  context: {{cluster: c, user: u}}\nusers:\n- name: u\n  user: {{token: '{token}'}}\n"
        );
        // Tests beside this one read the same: never half of it.
        let part = file.with_extension(format!("{:?}", std::thread::current().id()));
        fs::write(&part, text).expect("a kubeconfig");
        fs::rename(&part, &file).expect("in place");
        file
    }

    pub(crate) async fn admin(&self) -> Client {
        admin(vec![self.dir.join("admin")], None)
            .await
            .expect("the admin's client")
            .client
    }

    pub(crate) fn access(&self, token: &str) -> Access {
        self.write_kubeconfig(token);
        // The directory stands for a host: on the real one nothing below /tmp is believed.
        Access {
            root: Root::at(&self.dir),
            kubeconfig: Some(Path::new("/").join(token)),
            context: None,
            node_name: None,
            namespace: "kube-rebootd".to_owned(),
            impersonate: Some("coordinator".to_owned()),
            coordinator_kubeconfig: None,
            prove_node: false,
            api_servers: Vec::new(),
        }
    }

    /// A new node: its Node object, its heartbeat Lease and both of its clients.
    pub(crate) async fn host(&self) -> Host {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        assert!(number < NODES, "more NODES are needed");
        let name = format!("n{number}");
        let admin = self.admin().await;
        make_node(&admin, &name).await;
        let clients = Connector::new(self.access(&name))
            .connect()
            .await
            .expect("clients");
        let beat = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": name}, "spec": {"holderIdentity": name, "leaseDurationSeconds": 40}});
        let leases: Api<Lease> = Api::namespaced(clients.node.clone(), "kube-node-lease");
        let made: Lease = serde_json::from_value(beat).expect("a Lease");
        leases
            .create(&kube::api::PostParams::default(), &made)
            .await
            .expect("own heartbeat");
        Host {
            name,
            clients,
            admin,
        }
    }
}

impl Host {
    /// What this node asks about the others, at boot time `asked`.
    pub(crate) fn others(&self, quorum: bool, asked: Duration) -> Question<'_> {
        Question {
            coordinator: &self.clients.coordinator,
            namespace: "kube-rebootd",
            me: &self.name,
            quorum,
            asked,
        }
    }
}

pub(crate) async fn make_node(admin: &Client, name: &str) -> Node {
    let nodes: Api<Node> = Api::all(admin.clone());
    let node = serde_json::from_value(json!({"metadata": {"name": name,
        "labels": {"kubernetes.io/hostname": name}}}))
    .expect("a Node");
    nodes
        .create(&kube::api::PostParams::default(), &node)
        .await
        .expect("a Node")
}

/// A slot of `group`, free and open, made as an installation makes it.
pub(crate) async fn make_slot(admin: &Client, name: &str, group: &str) {
    let leases: Api<Lease> = Api::namespaced(admin.clone(), "kube-rebootd");
    let body = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name,
        "labels": {"kube-rebootd/group": group, "kube-rebootd/protocol": "1"}}});
    leases
        .patch(
            name,
            &PatchParams::apply("kube-rebootd-setup"),
            &Patch::Apply(body),
        )
        .await
        .expect("a slot");
}

/// Waits until `look` gives something.
pub(crate) async fn until<T, F: Future<Output = Option<T>>>(
    what: &str,
    mut look: impl FnMut() -> F,
) -> T {
    let begin = Instant::now();
    loop {
        if let Some(seen) = look().await {
            return seen;
        }
        assert!(begin.elapsed() < SOON, "{what}: not within {SOON:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Removes what earlier runs left: a static is never dropped.
fn sweep() {
    let Ok(entries) = fs::read_dir(std::env::temp_dir()) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let owner = name
            .strip_prefix(PREFIX)
            .and_then(|rest| rest.split_once('-'));
        if let Some((pid, _)) = owner
            && !Path::new("/proc").join(pid).exists()
        {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

fn etcd_flags(dir: &Path) -> Vec<String> {
    vec![
        format!("--data-dir={}", dir.join("etcd-data").display()),
        "--listen-client-urls=http://127.0.0.1:2379".to_owned(),
        "--advertise-client-urls=http://127.0.0.1:2379".to_owned(),
        "--listen-peer-urls=http://127.0.0.1:2380".to_owned(),
        "--unsafe-no-fsync".to_owned(),
    ]
}

fn server_flags(dir: &Path) -> Vec<String> {
    let at = |name: &str| dir.join(name).display().to_string();
    vec![
        "--etcd-servers=http://127.0.0.1:2379".to_owned(),
        format!("--tls-cert-file={}", at("pki/server.crt")),
        format!("--tls-private-key-file={}", at("pki/server.key")),
        format!("--client-ca-file={}", at("pki/ca.crt")),
        "--bind-address=127.0.0.1".to_owned(),
        "--advertise-address=127.0.0.1".to_owned(),
        // From 1.37 on no loopback address is taken for the Endpoints of the API server, which nobody uses here.
        "--endpoint-reconciler-type=none".to_owned(),
        format!("--secure-port={PORT}"),
        format!("--token-auth-file={}", at("tokens")),
        "--authorization-mode=Node,RBAC".to_owned(),
        "--enable-admission-plugins=NodeRestriction".to_owned(),
        "--disable-admission-plugins=ServiceAccount".to_owned(),
        "--service-account-issuer=https://127.0.0.1".to_owned(),
        format!("--service-account-key-file={}", at("sa.key")),
        format!("--service-account-signing-key-file={}", at("sa.key")),
        "--service-cluster-ip-range=10.0.0.0/24".to_owned(),
    ]
}

fn spawn(dir: &Path, name: &str, flags: &[String]) -> u32 {
    let log = File::create(dir.join(format!("{name}.log"))).expect("a log");
    Command::new("setpriv")
        .args(["--pdeathsig", "KILL"])
        .arg(bin(name))
        .args(flags)
        .stdin(Stdio::null())
        .stdout(log.try_clone().expect("a log"))
        .stderr(log)
        .spawn()
        .unwrap_or_else(|error| panic!("{name}: {error}"))
        .id()
}

fn run(command: &mut Command) {
    let output = command.output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {said}");
}

/// Waits for the server, applies the shipped manifests and waits until they bind.
fn ready(kubeconfig: &Path, netns: &Path) {
    let namespace = File::open(netns).expect("the namespace");
    nix::sched::setns(namespace, nix::sched::CloneFlags::CLONE_NEWNET).expect("setns (root)");
    let kubectl = |words: &[&str]| {
        let mut command = Command::new(bin("kubectl"));
        command.arg("--kubeconfig").arg(kubeconfig).args(words);
        command.envs(BRIEF);
        command
    };
    let wait = |what: &str, done: &dyn Fn() -> bool| {
        let begin = Instant::now();
        while !done() {
            assert!(
                begin.elapsed() < START,
                "{what}: see {}",
                kubeconfig.display()
            );
            std::thread::sleep(Duration::from_millis(100));
        }
    };
    let ok = |words: &[&str]| kubectl(words).output().is_ok_and(|o| o.status.success());
    wait("readyz", &|| ok(&["get", "--raw", "/readyz"]));
    let file = kubeconfig.with_file_name("manifests.yaml");
    let text = kube_rebootd::cluster::manifests::manifests("default", 1).expect("manifests");
    fs::write(&file, text).expect("manifests");
    let file = file.display().to_string();
    wait("kube-node-lease", &|| {
        ok(&["get", "namespace", "kube-node-lease"])
    });
    run(&mut kubectl(&["apply", "--server-side", "-f", &file]));
    // The policy binds some time after it is stored: a probe says when.
    let lease = "apiVersion: coordination.k8s.io/v1\nkind: Lease\nmetadata: {name: probe, namespace: kube-rebootd}\nspec: {holderIdentity: a}\n";
    let probe = kubeconfig.with_file_name("probe.yaml");
    fs::write(&probe, lease).expect("a probe");
    run(&mut kubectl(&[
        "create",
        "-f",
        &probe.display().to_string(),
    ]));
    wait("the policy", &|| {
        let answer = kubectl(&[
            "--as=system:serviceaccount:kube-rebootd:coordinator",
            "-n",
            "kube-rebootd",
            "patch",
            "lease",
            "probe",
            "--dry-run=server",
            "--type=merge",
            "-p",
            "{\"spec\":{\"holderIdentity\":\"b\"}}",
        ])
        .output()
        .expect("kubectl runs");
        String::from_utf8_lossy(&answer.stderr).contains("must be given up")
    });
}
