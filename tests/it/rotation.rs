//! Certificates that are renewed, and that expire, in every phase of a cycle: the daemon's binary on a fake
//! host, the real API server with client certificates, and the test as kubelet and admin (I2, I4, I6, I7).

use std::fs;
use std::os::unix::fs::symlink;
use std::time::{Duration, Instant};

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use kube_rebootd_core::record::{Record, Stage};
use serde_json::{Value, json};
use testbed::certs::End;
use tokio::process::Child;

use crate::cli_host::{CliHost, terminate};
use crate::fake_bus::Refusal;
use crate::plane::{Host, PORT, Plane, make_slot, own, until};

/// A certificate that is to expire while something is waited for.
const SHORT: Duration = Duration::from_secs(1);
/// One that lasts.
const LONG: Duration = Duration::from_secs(600);
/// What the daemon says when its credential is refused.
const REFUSED: &str = "denied (401)";
/// What it says when it has clients.
const CONNECTED: &str = "connected as node";
const PKI: &str = "/var/lib/kubelet/pki";
const GROUP: &str = "rot";

/// The host, its kubelet's files, and its daemon.
struct Scene {
    plane: Plane,
    node: Host,
    cli: CliHost,
    daemon: Option<Child>,
    renewals: usize,
    /// When the certificate in place ends.
    ends: Instant,
}

impl Drop for Scene {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!(
                "--- the daemon:\n{}\n--- its record:\n{}",
                self.cli.log(),
                self.cli.state()
            );
        }
    }
}

impl Scene {
    async fn new() -> Self {
        let plane = own();
        let node = plane.host().await;
        make_slot(&node.admin, GROUP, GROUP).await;
        let cli = CliHost::start().await;
        let pem = format!("{PKI}/kubelet-client-current.pem");
        let text = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters:\n- name: c\n  cluster: {{server: 'https://127.0.0.1:{PORT}', certificate-authority: pki/ca.crt}}\ncontexts:\n- name: c\n  context: {{cluster: c, user: u}}\nusers:\n- name: u\n  user: {{client-certificate: {pem}, client-key: {pem}}}\n"
        );
        cli.write("/etc/kubernetes/kubelet.conf", &text);
        let ca = fs::read_to_string(plane.authority.path("ca.crt")).expect("a CA");
        cli.write("/etc/kubernetes/pki/ca.crt", &ca);
        cli.write(
            "/etc/kube-rebootd/config.toml",
            &testbed::at_once(&format!("[health]\nready_for = \"0s\"\n[coordination]\ngroup = \"{GROUP}\"\n[drain]\nmode = \"always\"\n")),
        );
        let mut scene = Self {
            plane,
            node,
            cli,
            daemon: None,
            renewals: 0,
            ends: Instant::now(),
        };
        scene.renew(End::In(LONG));
        scene
    }

    /// As the kubelet does: a new file, and a link to it renamed over the old one (client-go
    /// `util/certificate/certificate_store.go`).
    fn renew(&mut self, end: End) {
        let authority = &self.plane.authority;
        let user = format!("system:node:{}", self.node.name);
        authority
            .client_until("node", &user, "system:nodes", Some(end))
            .expect("signed");
        let read = |name: &str| fs::read_to_string(authority.path(name)).expect("a file");
        let pem = format!("{}{}", read("node.crt"), read("node.key"));
        self.renewals += 1;
        let name = format!("kubelet-client-{}.pem", self.renewals);
        self.cli.write(&format!("{PKI}/{name}"), &pem);
        let pki = self.cli.root().path(PKI);
        let link = pki.join("new");
        symlink(&name, &link).expect("a link");
        fs::rename(&link, pki.join("kubelet-client-current.pem")).expect("renamed");
        self.ends = match end {
            End::In(left) => Instant::now() + left,
            End::Ago(_) => Instant::now(),
        };
    }

    fn start(&mut self) {
        self.daemon = Some(self.cli.daemon());
    }

    fn stage(&self) -> Option<Stage> {
        let hold = Record::decode(&self.cli.state()).ok()?.hold?;
        Some(hold.stage)
    }

    async fn wait(&self, what: &str, done: impl Fn() -> bool) {
        until(what, || async { done().then_some(()) }).await;
    }

    async fn wait_log(&self, words: &str, more_than: usize) {
        let what = format!("the daemon to say {words:?} again");
        self.wait(&what, || self.said(words) > more_than).await;
    }

    fn said(&self, words: &str) -> usize {
        self.cli.log().matches(words).count()
    }

    /// A certificate that ends soon is put in place, used, and has ended. How many refusals were told before it had:
    /// the next may come before anybody looks.
    async fn expires(&mut self) -> usize {
        let mut life = SHORT;
        let told = loop {
            let (connected, refused) = (self.said(CONNECTED), self.said(REFUSED));
            self.renew(End::In(life));
            self.wait("the renewal to be noticed", || {
                self.said(CONNECTED) > connected || self.said(REFUSED) > refused
            })
            .await;
            if self.said(CONNECTED) > connected {
                break self.said(REFUSED);
            }
            // It had ended before it was tried: what was good before goes on being used, and the next is tried up to 10 s
            // later. The same refusal would not be told twice: that one must live longer.
            life *= 16;
            assert!(life < LONG, "no renewed certificate was ever good");
        };
        let left = self.ends.saturating_duration_since(Instant::now());
        // notAfter has whole seconds, and is itself still good.
        tokio::time::sleep(left + Duration::from_millis(1100)).await;
        told
    }

    /// The kubelet gets a new certificate after all.
    async fn recovers(&mut self) {
        let before = self.said(CONNECTED);
        self.renew(End::In(LONG));
        self.wait_log(CONNECTED, before).await;
    }

    async fn holder(&self) -> Option<String> {
        let leases: Api<Lease> = Api::namespaced(self.node.admin.clone(), "kube-rebootd");
        let lease = leases.get(GROUP).await.expect("the Lease");
        lease.spec.and_then(|spec| spec.holder_identity)
    }

    async fn set_holder(&self, name: Value) {
        let leases: Api<Lease> = Api::namespaced(self.node.admin.clone(), "kube-rebootd");
        let patch = Patch::Merge(json!({"spec": {"holderIdentity": name}}));
        let params = PatchParams::default();
        leases.patch(GROUP, &params, &patch).await.expect("patched");
    }

    async fn node(&self) -> Node {
        let nodes: Api<Node> = Api::all(self.node.admin.clone());
        nodes.get(&self.node.name).await.expect("the Node")
    }

    async fn cordoned(&self) -> bool {
        let spec = self.node().await.spec.unwrap_or_default();
        spec.unschedulable == Some(true)
    }

    /// The kubelet's own report, which the test makes with the token that the identity also has.
    async fn report(&self, ready: bool, boot: &str) {
        let nodes: Api<Node> = Api::all(self.node.admin.clone());
        let ready = if ready { "True" } else { "False" };
        let info = [
            "architecture",
            "containerRuntimeVersion",
            "kernelVersion",
            "kubeProxyVersion",
            "kubeletVersion",
            "machineID",
            "operatingSystem",
            "osImage",
            "systemUUID",
        ];
        let mut info: Value = info
            .into_iter()
            .map(|key| (key.to_owned(), json!("x")))
            .collect();
        info["bootID"] = json!(boot);
        let status = json!({"status": {"nodeInfo": info,
            "conditions": [{"type": "Ready", "status": ready}]}});
        nodes
            .patch_status(
                &self.node.name,
                &PatchParams::default(),
                &Patch::Merge(status),
            )
            .await
            .expect("reported");
    }

    /// A pod that a budget keeps here.
    async fn stuck_pod(&self) {
        let pods: Api<Pod> = Api::namespaced(self.node.admin.clone(), "default");
        let pod = json!({"metadata": {"name": "web", "labels": {"app": "web"}, "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "1", "controller": true}]},
            "spec": {"nodeName": self.node.name, "containers": [{"name": "c", "image": "x"}]}});
        let pod: Pod = serde_json::from_value(pod).expect("a pod");
        until("a pod", || async {
            pods.create(&PostParams::default(), &pod).await.ok()
        })
        .await;
        let running = json!({"status": {"phase": "Running",
            "conditions": [{"type": "Ready", "status": "True"}]}});
        let params = PatchParams::default();
        pods.patch_status("web", &params, &Patch::Merge(running))
            .await
            .expect("running");
        let budgets: Api<PodDisruptionBudget> = Api::namespaced(self.node.admin.clone(), "default");
        let budget = json!({"metadata": {"name": "web"}, "spec": {"minAvailable": 1,
            "selector": {"matchLabels": {"app": "web"}}}});
        let budget = serde_json::from_value(budget).expect("a budget");
        budgets
            .create(&PostParams::default(), &budget)
            .await
            .expect("a budget");
        let seen = json!({"status": {"observedGeneration": 1, "disruptionsAllowed": 0, "currentHealthy": 1,
            "desiredHealthy": 1, "expectedPods": 1}});
        budgets
            .patch_status("web", &params, &Patch::Merge(seen))
            .await
            .expect("its status");
    }

    /// The budget goes; the pod, evicted, goes too.
    async fn pod_may_go(&self) {
        let budgets: Api<PodDisruptionBudget> = Api::namespaced(self.node.admin.clone(), "default");
        budgets
            .delete("web", &DeleteParams::default())
            .await
            .expect("deleted");
        let pods: Api<Pod> = Api::namespaced(self.node.admin.clone(), "default");
        until("the pod to be evicted", || async {
            let pod = pods.get("web").await.ok()?;
            pod.metadata.deletion_timestamp.is_some().then_some(())
        })
        .await;
        let now = DeleteParams::default().grace_period(0);
        pods.delete("web", &now).await.expect("gone");
    }

    /// The host goes down and comes up again; the daemon is not started yet.
    async fn boots(&mut self, id: &str) {
        terminate(self.daemon.take().expect("a daemon")).await;
        self.cli
            .write("/proc/sys/kernel/random/boot_id", &format!("{id}\n"));
        let _ = fs::remove_file(self.cli.root().path("/run/reboot-required"));
        let mut knobs = self.cli.bus.knobs();
        knobs.boot_usec += 1_000_000;
        knobs.preparing = false;
    }
}

const NEW_BOOT: &str = "b1111111-1111-4111-8111-111111111111";

#[tokio::test]
async fn i7_a_certificate_expires_and_is_renewed_in_every_phase() {
    let mut scene = Scene::new().await;
    let me = scene.node.name.clone();
    scene.report(true, "").await;
    scene.stuck_pod().await;
    scene.set_holder(json!("another")).await;
    scene.start();
    scene.wait_log(CONNECTED, 0).await;

    // Queued.
    scene.cli.write("/run/reboot-required", "");
    let beats: Api<Lease> = Api::namespaced(scene.node.admin.clone(), "kube-node-lease");
    until("the waiting record", || async {
        let beat = beats.get(&me).await.ok()?;
        beat.labels()
            .contains_key("kube-rebootd/waiting")
            .then_some(())
    })
    .await;
    let refused = scene.expires().await;
    scene.set_holder(Value::Null).await;
    scene.wait_log(REFUSED, refused).await;
    assert_eq!(scene.holder().await, None);
    scene.recovers().await;

    // Draining; the server's own certificate is another from here on.
    scene
        .wait("Draining", || scene.stage() == Some(Stage::Draining))
        .await;
    until("the cordon", || async {
        scene.cordoned().await.then_some(())
    })
    .await;
    assert_eq!(scene.holder().await.as_deref(), Some(me.as_str()));
    scene.plane.authority.server(None).expect("signed");
    let refused = scene.expires().await;
    scene.wait_log(REFUSED, refused).await;
    assert_eq!(scene.stage(), Some(Stage::Draining));
    assert!(scene.cordoned().await);
    scene.recovers().await;
    scene.cli.bus.knobs().refusal = Refusal::InProgress;
    scene.pod_may_go().await;

    // Rebooting: logind refuses at first, and is not asked again without a fresh look at the Lease (I2).
    scene
        .wait("logind to be asked", || scene.cli.bus.knobs().reboots == 1)
        .await;
    assert_eq!(scene.stage(), Some(Stage::Rebooting));
    let refused = scene.expires().await;
    // Asked again while a certificate was good, and refused, where the first that ends soon had ended too soon.
    let asked = scene.cli.bus.knobs().reboots;
    scene.cli.bus.knobs().refusal = Refusal::No;
    scene.wait_log(REFUSED, refused).await;
    assert_eq!(scene.cli.bus.knobs().reboots, asked);
    scene.recovers().await;
    scene
        .wait("logind to be asked again", || {
            scene.cli.bus.knobs().reboots == asked + 1
        })
        .await;

    // A new boot: expired while the host was down, and so is the server's.
    scene.boots(NEW_BOOT).await;
    scene.renew(End::Ago(Duration::from_secs(60)));
    let refused = scene.said(REFUSED);
    scene.start();
    scene.wait_log(REFUSED, refused).await;
    assert_eq!(scene.holder().await.as_deref(), Some(me.as_str()));
    scene.recovers().await;

    // Verifying: the kubelet is not Ready yet.
    scene.report(false, NEW_BOOT).await;
    let refused = scene.expires().await;
    scene.wait_log(REFUSED, refused).await;
    assert!(scene.cordoned().await, "nothing is proved");
    scene.report(true, NEW_BOOT).await;
    scene.recovers().await;
    until("the slot to be free", || async {
        scene.holder().await.is_none().then_some(())
    })
    .await;
    let node = scene.node().await;
    assert!(!node.labels().contains_key("kube-rebootd/slot"));
    assert!(!scene.cordoned().await);
    assert_eq!(scene.cli.bus.knobs().reboots, asked + 1);
}

#[tokio::test]
async fn doctor_names_the_certificate_that_expired_and_when() {
    let mut scene = Scene::new().await;
    // Below a root a link is followed; on a host the name is the link's.
    let good = scene.cli.run(&["doctor"]).await;
    let credential = |said: &str| {
        let line = said.lines().position(|line| line.contains("credential "));
        let at = line.unwrap_or_else(|| panic!("{said}"));
        said.lines().skip(at).take(2).collect::<Vec<_>>().join("\n")
    };
    let text = credential(&good.out);
    assert!(text.starts_with("ok"), "{}", good.out);
    assert!(
        text.contains(&format!("{PKI}/kubelet-client-1.pem is good for")),
        "{text}"
    );

    scene.renew(End::In(Duration::from_secs(120)));
    let late = scene.cli.run(&["doctor"]).await;
    let text = credential(&late.out);
    assert!(
        text.starts_with("warn") && text.contains("renewed by now"),
        "{text}"
    );

    scene.renew(End::Ago(Duration::from_secs(3 * 24 * 3600)));
    let expired = scene.cli.run(&["doctor"]).await;
    let text = credential(&expired.out);
    assert!(text.starts_with("FAIL"), "{}", expired.out);
    assert!(text.contains("kubelet-client-3.pem expired 20"), "{text}");
    assert!(
        text.contains("(3 days ago)") && text.contains("cure: restart the kubelet"),
        "{text}"
    );
    assert!(expired.out.contains(REFUSED), "{}", expired.out);

    // The other end: what the server shows.
    scene.renew(End::In(LONG));
    let ended = End::Ago(Duration::from_secs(3600));
    scene.plane.authority.server(Some(ended)).expect("signed");
    until("the server to use it", || async {
        let said = scene.cli.run(&["doctor"]).await;
        let text = said.out;
        (text.contains("certificate expired") && text.contains("kubeadm certs check-expiration"))
            .then_some(())
    })
    .await;
}
