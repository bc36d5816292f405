//! One host: its directory, its logind, its clock, and its life of boots and daemons.

use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use http::{Request, Response, StatusCode};
use jiff::Timestamp;
use kube::Client;
use kube::client::Body;
use kube_rebootd::clock::Clock;
use kube_rebootd::cluster::client::Origin;
use kube_rebootd::cluster::readyz::ApiServer;
use kube_rebootd::daemon::{self, Daemon, Left, Released, StartError};
use kube_rebootd::host::Bus;
use kube_rebootd::root::Root;
use kube_rebootd_core::now::Now;
use tempfile::TempDir;
use testbed::at_once;
use tokio::sync::{Notify, mpsc};
use tracing::{Instrument, info_span};

use super::cluster;
use crate::fake_bus::{InhibitorRow, Knobs, Shared, in_process};
use crate::memory::{Server, User};

/// From logind's yes to the end of the daemon.
const SHUTDOWN: Duration = Duration::from_secs(5);
/// systemd alone.
const USERSPACE: Duration = Duration::from_secs(3);
/// Firmware, kernel, systemd.
const BOOT: Duration = Duration::from_secs(40);
/// From the daemon's start to the kubelet's first sign of life.
const KUBELET: Duration = Duration::from_secs(10);

/// What a test does to a host.
#[derive(Debug, Clone, Copy)]
pub(super) enum Order {
    /// SIGKILL; systemd starts it again after this time.
    Kill(Duration),
    /// The plug.
    PowerLoss,
    /// Somebody has asked logind for one, or systemd itself.
    SoftReboot,
}

/// A host; clones are the same one.
#[derive(Clone)]
pub(super) struct Host {
    pub(super) name: String,
    dir: Arc<TempDir>,
    pub(super) logind: Shared,
    server: Server,
    state: Arc<Mutex<State>>,
    orders: mpsc::UnboundedSender<Order>,
    /// In place of SIGHUP, which all daemons of the process would hear.
    reload: Arc<Notify>,
    /// Another API server of the control plane, at 192.0.2.7, says to this host that it is ready.
    other_ready: Arc<AtomicBool>,
}

pub(super) struct State {
    clock: Clock,
    /// Boots so far, the first one not counted.
    pub(super) boots: u64,
    /// Of the userspace alone.
    pub(super) soft_reboots: u64,
    /// The sentinel comes back with the boot.
    pub(super) sticky: bool,
    /// The kubelet stays dead in later boots.
    pub(super) no_kubelet: bool,
    /// The daemon ended by itself, with these words.
    pub(super) ended: Option<String>,
}

/// Why a daemon is no more.
enum End {
    Itself(String),
    Ordered(Order),
    Down,
}

impl Host {
    pub(super) fn start(server: &Server, name: &str, config: &str, wall: Timestamp) -> Self {
        // In memory where there is such a place: every write of the state waits for the disk.
        let place = ["/dev/shm", "/tmp"]
            .into_iter()
            .find(|place| std::path::Path::new(place).is_dir());
        let dir = tempfile::tempdir_in(place.unwrap()).unwrap();
        let (orders, ordered) = mpsc::unbounded_channel();
        let clock = Clock::starting_at(Now {
            wall,
            boot: Duration::from_secs(600),
        });
        let host = Self {
            name: name.to_owned(),
            dir: Arc::new(dir),
            logind: Shared::default(),
            server: server.clone(),
            state: Arc::new(Mutex::new(State {
                clock,
                boots: 0,
                soft_reboots: 0,
                sticky: false,
                no_kubelet: false,
                ended: None,
            })),
            orders,
            reload: Arc::default(),
            other_ready: Arc::new(AtomicBool::new(true)),
        };
        host.write("/etc/kube-rebootd/config.toml", &at_once(config));
        std::fs::create_dir_all(host.path("/run")).unwrap();
        host.write("/proc/sys/kernel/osrelease", "6.1.0-28-amd64\n");
        host.write("/proc/sys/kernel/version", "#1 SMP Debian 6.1.119-1\n");
        host.name_boot();
        tokio::spawn(host.clone().live(ordered));
        host
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    pub(super) fn logind(&self) -> MutexGuard<'_, Knobs> {
        self.logind.lock().unwrap()
    }

    pub(super) fn path(&self, path: &str) -> PathBuf {
        Root::at(self.dir.path()).path(path)
    }

    pub(super) fn write(&self, path: &str, text: &str) {
        let file = self.path(path);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    }

    pub(super) fn order(&self, order: Order) {
        self.orders.send(order).unwrap();
    }

    /// The daemon reads its configuration again.
    pub(super) fn reload(&self) {
        self.reload.notify_one();
    }

    /// Whether another API server is ready, where `gates.api_servers` is set.
    pub(super) fn other_api_server(&self, ready: bool) {
        self.other_ready.store(ready, Ordering::Relaxed);
    }

    fn another(&self) -> ApiServer {
        let ready = Arc::clone(&self.other_ready);
        let service = tower::service_fn(move |_: Request<Body>| {
            let ready = ready.load(Ordering::Relaxed);
            async move {
                let mut response = Response::new(Body::empty());
                if !ready {
                    *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
                }
                Ok::<_, Infallible>(response)
            }
        });
        ApiServer::new("https://192.0.2.7:6443", Client::new(service, "default"))
    }

    /// Sets the host's wall clock.
    pub(super) fn set_wall(&self, seconds: i64) {
        self.state().clock.set_wall(seconds);
    }

    /// Its wall clock.
    pub(super) fn now(&self) -> Timestamp {
        self.state().clock.now().wall
    }

    pub(super) fn boot_id(&self) -> String {
        format!("{}-boot-{}", self.name, self.state().boots)
    }

    fn name_boot(&self) {
        self.write(
            "/proc/sys/kernel/random/boot_id",
            &format!("{}\n", self.boot_id()),
        );
    }

    async fn live(self, mut ordered: mpsc::UnboundedReceiver<Order>) {
        loop {
            match Box::pin(self.run(&mut ordered)).await {
                End::Itself(why) => {
                    self.state().ended = Some(why);
                    tokio::time::sleep(Duration::from_secs(10)).await;
                }
                End::Ordered(Order::Kill(_)) if self.logind().preparing => {
                    // The shutdown goes on without the daemon.
                    tokio::time::sleep(SHUTDOWN).await;
                    self.goes_on().await;
                }
                End::Ordered(Order::Kill(time)) => tokio::time::sleep(time).await,
                End::Ordered(Order::PowerLoss) => self.boot().await,
                End::Ordered(Order::SoftReboot) => self.soft_reboot().await,
                End::Down => self.goes_on().await,
            }
        }
    }

    async fn daemon(&self, bus: zbus::Connection) -> Result<Daemon, StartError> {
        let client = |user| self.server.client(&self.name, user);
        let clients = Origin::Given {
            node: client(User::Node(self.name.clone())),
            coordinator: Box::new(client(User::Coordinator)),
            api_servers: vec![self.another()],
        };
        let clock = self.state().clock.clone();
        let root = Root::at(self.dir.path());
        let started = daemon::start(root, None, Bus::given(bus), clock, clients).await;
        started.map(|daemon| daemon.reloads_by(Arc::clone(&self.reload)))
    }

    /// `undrain --release`, while no daemon runs.
    pub(super) async fn release(&self, limit: Duration) -> Result<Released, Left> {
        let (_services, bus) = in_process(&self.logind).await;
        let daemon = self.daemon(bus).await.expect("it starts");
        Box::pin(daemon.release(limit)).await
    }

    /// One daemon, from its start to its end.
    async fn run(&self, ordered: &mut mpsc::UnboundedReceiver<Order>) -> End {
        let (_services, bus) = in_process(&self.logind).await;
        let down = Arc::clone(&self.logind().going_down);
        let span = info_span!("daemon", host = self.name.as_str());
        let life = async {
            match self.daemon(bus).await {
                Ok(daemon) => match Box::pin(daemon.run()).await {
                    Ok(()) => "it stopped".to_owned(),
                    Err(err) => err.to_string(),
                },
                Err(err) => err.to_string(),
            }
        };
        let shutdown = async {
            down.notified().await;
            let blocks = |row: &InhibitorRow| row.3 == "block" && row.0.contains("shutdown");
            let (blocked, listed) = {
                let logind = self.logind();
                (logind.inhibitors.iter().any(blocks), logind.listed)
            };
            self.server.set(|state| {
                state.judge_reboot(&self.name, listed);
                if blocked {
                    let what = format!("I2: {} reboots beside a block inhibitor", self.name);
                    state.broken.push(what);
                }
            });
            tokio::time::sleep(SHUTDOWN).await;
        };
        tokio::select! {
            why = life.instrument(span) => End::Itself(why),
            Some(order) = ordered.recv() => End::Ordered(order),
            () = shutdown => End::Down,
        }
    }

    /// After the shutdown, as logind was asked.
    async fn goes_on(&self) {
        if self.logind().softly {
            self.soft_reboot().await;
        } else {
            self.boot().await;
        }
    }

    /// All services end and start: kernel, boot ID, clock and /run stay.
    async fn soft_reboot(&self) {
        cluster::kubelet_gone(&self.server, &self.name);
        tokio::time::sleep(USERSPACE).await;
        self.state().soft_reboots += 1;
        self.starts(&self.boot_id());
    }

    /// A userspace begins, on the kernel `boot`.
    fn starts(&self, boot: &str) {
        {
            let mut logind = self.logind();
            logind.preparing = false;
            logind.softly = false;
            logind.boot_usec += 1;
        }
        if self.state().no_kubelet {
            return;
        }
        let (host, boot) = (self.clone(), boot.to_owned());
        tokio::spawn(async move {
            tokio::time::sleep(KUBELET).await;
            cluster::kubelet_back(&host.server, &host.name, &boot);
        });
    }

    /// Down, and up again.
    async fn boot(&self) {
        cluster::kubelet_gone(&self.server, &self.name);
        tokio::time::sleep(BOOT).await;
        {
            let mut state = self.state();
            state.boots += 1;
            // The hardware clock went on; nobody set it.
            let wall = state.clock.now().wall;
            state.clock = Clock::starting_at(Now {
                wall,
                boot: Duration::from_secs(8),
            });
        }
        self.name_boot();
        if !self.state().sticky {
            for name in ["reboot-required", "reboot-required.pkgs", "reboot-needed"] {
                let _ = std::fs::remove_file(self.path("/run").join(name));
            }
        }
        self.starts(&self.boot_id());
    }
}
