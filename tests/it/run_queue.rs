//! The daemon itself in a queue: the built binary on a real API server and a fake system bus (I5, I8).
//!
//! No host reboots here, and no time is spent on booting one: what a hold does to a host is for `e2e`.

use std::os::unix::net::UnixDatagram;
use std::process::Stdio;
use std::time::{Duration, Instant};

use k8s_openapi::api::coordination::v1::Lease as Object;
use kube::Api;
use kube::api::{Patch, PatchParams};
use kube_rebootd::cluster::lease::Leases;
use kube_rebootd_core::slot::Lease;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;
use tokio::process::Child;

use crate::cli_host::{CliHost, binary};
use crate::host_dbus::same_as_status;
use crate::plane::{Host, SOON, enter, make_node, make_slot};

/// A daemon and every STATUS it has told.
pub(crate) struct Running {
    pub(crate) cli: CliHost,
    pub(crate) node: Host,
    child: Child,
    notify: UnixDatagram,
    told: Vec<String>,
}

impl Running {
    /// Starts it with `config` as a member of the group `group`.
    pub(crate) async fn start(group: &str, config: &str) -> Self {
        let plane = enter();
        let node = plane.host().await;
        let cli = CliHost::start().await;
        cli.join(plane.write_kubeconfig(&node.name));
        configure(&cli, group, config);
        let socket = cli.root().path("/run/notify");
        let notify = UnixDatagram::bind(&socket).expect("a socket");
        notify.set_nonblocking(true).expect("not blocking");
        let log = std::fs::File::create(cli.root().path("/run/log")).expect("a log");
        let child = binary()
            .arg("--root")
            .arg(cli.root().path("/"))
            .arg("run")
            .env("DBUS_SYSTEM_BUS_ADDRESS", cli.bus.address())
            .env("NOTIFY_SOCKET", &socket)
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("it runs");
        Self {
            cli,
            node,
            child,
            notify,
            told: Vec::new(),
        }
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.cli.root().path("/run/log")).expect("a log")
    }

    /// Waits until a STATUS that came after the last awaited one contains `words`; that one.
    pub(crate) async fn wait_status(&mut self, words: &str) -> String {
        let begin = Instant::now();
        let from = self.told.len();
        let mut buffer = [0; 4096];
        loop {
            while let Ok(size) = self.notify.recv(&mut buffer) {
                let text = String::from_utf8_lossy(&buffer[..size]).into_owned();
                let status = text.lines().find_map(|line| line.strip_prefix("STATUS="));
                let status = status.unwrap_or_default();
                if !status.is_empty() {
                    self.told.push(status.to_owned());
                }
                if status.contains(words) {
                    return status.to_owned();
                }
            }
            assert!(
                begin.elapsed() < SOON,
                "it never said {words:?} but {:#?}\n{}",
                &self.told[from..],
                self.log()
            );
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// As if nobody had read for long: how much fits, the kernel's settings decide (`net.unix.max_dgram_qlen`), and one
    /// sender's own buffer may be full before.
    fn fill_the_queue(&self) {
        let path = self.cli.root().path("/run/notify");
        let send = |sender: &UnixDatagram| sender.send_to(b"filler", &path).is_ok();
        loop {
            let sender = UnixDatagram::unbound().expect("a socket");
            sender.set_nonblocking(true).expect("not blocking");
            if !send(&sender) {
                return;
            }
            while send(&sender) {}
        }
    }

    async fn until_rebooted(&mut self) {
        self.wait_status("accepted by logind").await;
        assert_eq!(self.cli.bus.knobs().reboots, 1);
    }

    fn reload(&self, group: &str, config: &str) {
        configure(&self.cli, group, config);
        let pid = i32::try_from(self.child.id().expect("it runs")).expect("a pid");
        kill(Pid::from_raw(pid), Signal::SIGHUP).expect("it hears");
    }

    pub(crate) async fn lease(&self, name: &str) -> Lease {
        let leases = Leases::new(self.node.admin.clone(), "kube-rebootd", "test");
        let lease = leases.get(name, Duration::ZERO).await.expect("read");
        lease.expect("there")
    }
}

fn configure(cli: &CliHost, group: &str, config: &str) {
    // No other node need be there to take pods, as there are none.
    let text = format!("[coordination]\ngroup = \"{group}\"\n{config}[drain]\nmode = \"never\"\n");
    cli.write("/etc/kube-rebootd/config.toml", &testbed::at_once(&text));
}

async fn hold_by_admin(host: &Host, lease: &str, holder: &str) {
    let api: Api<Object> = Api::namespaced(host.admin.clone(), "kube-rebootd");
    let held = Patch::Merge(json!({"spec": {"holderIdentity": holder}}));
    let params = PatchParams::default();
    api.patch(lease, &params, &held).await.expect("held");
}

#[tokio::test]
async fn i5_a_daemon_that_has_just_started_counts_the_interval_from_its_start() {
    let slot = "run-rest";
    let admin = enter().host().await;
    make_slot(&admin.admin, slot, slot).await;
    let api: Api<Object> = Api::namespaced(admin.admin.clone(), "kube-rebootd");
    let ended = json!({"metadata": {"annotations": {"kube-rebootd/last-hold": "long ago"}}});
    let params = PatchParams::default();
    let done = api.patch(slot, &params, &Patch::Merge(&ended)).await;
    done.expect("a last hold");
    let rest = "min_interval = \"2s\"\nmax_unavailable = 100000\n";
    let mut daemon = Running::start(slot, rest).await;
    daemon.cli.write("/run/reboot-required", "");
    daemon
        .wait_status("coordination.min_interval ends in")
        .await;
    assert_eq!(daemon.lease(slot).await.holder, None);
    daemon.wait_status("cordoning").await;
    daemon.until_rebooted().await;
}

#[tokio::test]
async fn i5_i8_a_dead_hold_is_cleared_and_the_slot_taken_when_few_enough_are_down() {
    let slot = "run-queue";
    let admin = enter().host().await;
    make_slot(&admin.admin, slot, slot).await;
    hold_by_admin(&admin, slot, "never-was").await;
    // Nobody's kubelet: it never becomes Ready.
    make_node(&admin.admin, "run-queue-down").await;
    let short = "stale_after = \"1s\"\nmin_interval = \"2s\"\n";
    let mut daemon = Running::start(slot, &format!("{short}max_unavailable = 1\n")).await;
    daemon.cli.write("/run/reboot-required", "");

    daemon
        .wait_status("run-queue is held by never-was, whose Node is gone")
        .await;
    // Cleared: the interval counts from then, and after it the budget is in the way.
    daemon
        .wait_status("coordination.min_interval ends in")
        .await;
    daemon
        .wait_status("with 1 or more nobody begins (coordination.max_unavailable)")
        .await;
    let lease = daemon.lease(slot).await;
    assert_eq!(lease.holder, None);
    let last = lease.last_hold.expect("a last hold");
    assert!(
        last.starts_with("never-was until ") && last.contains(&daemon.node.name),
        "{last}"
    );
    assert_eq!(lease.next, [daemon.node.name.clone()]);
    let log = daemon.log();
    assert!(log.contains("cleared slot run-queue"), "{log}");
    assert_eq!(daemon.cli.bus.knobs().reboots, 0);

    // All that are down are allowed now: at once, not at the next look.
    daemon.reload(slot, &format!("{short}max_unavailable = 100000\n"));
    daemon.wait_status("cordoning").await;
    daemon.until_rebooted().await;
    let lease = daemon.lease(slot).await;
    assert_eq!(lease.holder, Some(daemon.node.name.clone()));
}

/// The system manager reads its socket late while it reloads: the daemon stood still until then, holding its slot.
#[tokio::test]
async fn i7_a_service_manager_that_does_not_listen_keeps_no_reboot_back() {
    let slot = "run-deaf";
    let admin = enter().host().await;
    make_slot(&admin.admin, slot, slot).await;
    let mut daemon = Running::start(slot, "max_unavailable = 100000\n").await;
    daemon.fill_the_queue();
    daemon.cli.write("/run/reboot-required", "");
    let asked = daemon.cli.bus.until("a reboot", |knobs| knobs.reboots == 1);
    asked.await;
    daemon.until_rebooted().await;
}

#[tokio::test]
async fn what_a_queue_waits_for_is_on_the_bus_as_in_status() {
    let slot = "run-shown";
    let admin = enter().host().await;
    make_slot(&admin.admin, slot, slot).await;
    hold_by_admin(&admin, slot, &admin.name).await;
    let mut daemon = Running::start(slot, "max_unavailable = 100000\n").await;
    daemon.cli.write("/run/reboot-required", "");
    let holds = format!("{slot} is held by {}", admin.name);
    let told = daemon.wait_status(&holds).await;
    let pid = daemon.child.id().expect("it runs");
    // A node that looks at the cluster shows what it waited for before, until the look is over.
    let mut on_bus = same_as_status(&daemon.cli, pid).await;
    for _ in 0..100 {
        if on_bus["Waits"] == json!([holds]) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
        on_bus = same_as_status(&daemon.cli, pid).await;
    }
    let phase_and_holders = json!([on_bus["Phase"], on_bus["Holders"]]);
    let expected = json!(["queued", [[slot, admin.name]]]);
    assert_eq!(phase_and_holders, expected, "{on_bus}");
    assert_eq!(on_bus["Waits"], json!([holds]));
    assert_eq!(on_bus["Node"], daemon.node.name);
    assert_eq!(on_bus["Status"], told);
}
