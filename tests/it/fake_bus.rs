//! A host's system bus for tests: a private `dbus-daemon` with a fake logind and a fake systemd.
//!
//! Knobs are in [`Knobs`]; change them through [`FakeHostBus::knobs`]. The daemon's binary meets
//! this bus when `DBUS_SYSTEM_BUS_ADDRESS` is [`FakeHostBus::address`].

// clippy.toml allows unwrap in test functions only; all of this is test code.
#![allow(clippy::unwrap_used)]

use std::{
    collections::HashMap,
    fs::File,
    io::{BufRead, BufReader},
    os::fd::AsFd,
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex, MutexGuard},
    time::{Duration, Instant},
};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;
use tokio::sync::Notify;
use zbus::{
    Connection, Guid, Variant,
    connection::{Builder, socket::Channel},
    object_server::SignalEmitter,
};

use crate::fake_login::{
    FakeLogin, FakeSession, FakeSessionObject, FakeTimedate, SESSIONS, inhibited, session_path,
};
use crate::fake_units::{FakeSystemd, Run};

const LOGIN: &str = "org.freedesktop.login1";
const LOGIN_PATH: &str = "/org/freedesktop/login1";
const SYSTEMD: &str = "org.freedesktop.systemd1";
const TIMEDATE: &str = "org.freedesktop.timedate1";
const TIMEDATE_PATH: &str = "/org/freedesktop/timedate1";
const SYSTEMD_PATH: &str = "/org/freedesktop/systemd1";

/// How logind answers `Reboot`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[allow(dead_code)]
pub(crate) enum Refusal {
    /// Accepted.
    #[default]
    No,
    /// A block lock, as systemd 252 to 256 say it.
    Blocked252,
    /// A block lock, as 257 says it.
    Blocked257,
    /// A block lock, as 258 and later say it.
    Blocked258,
    /// reboot.target is masked.
    Masked,
    /// polkit wants a human.
    Interactive,
    /// Something else is going on.
    InProgress,
    /// No answer, ever.
    Silent,
}

/// What, who, why, mode, uid and pid.
pub(crate) type InhibitorRow = (String, String, String, String, u32, u32);

/// The host's state and what was done to it.
#[allow(clippy::struct_excessive_bools)] // knobs of a fake
#[derive(Debug)]
pub(crate) struct Knobs {
    pub(crate) inhibitors: Vec<InhibitorRow>,
    /// Those that were taken by `Inhibit`, each with logind's end.
    pub(crate) locks: Vec<(File, InhibitorRow)>,
    /// `Inhibit` is answered; else that is waited for.
    pub(crate) inhibits: bool,
    /// It is being waited for.
    pub(crate) inhibits_later: bool,
    /// Times `Inhibit` was asked for.
    pub(crate) inhibited: usize,
    /// Root is refused beside a lock: systemd 257 and newer.
    pub(crate) heeds_root: bool,
    /// At most [`SESSIONS`].
    pub(crate) sessions: Vec<FakeSession>,
    /// timedated's `NTPSynchronized`; none: it cannot be read.
    pub(crate) synchronized: Option<bool>,
    pub(crate) refusal: Refusal,
    /// logind's `PreparingForShutdown`.
    pub(crate) preparing: bool,
    /// Whether an accepted `Reboot` begins a shutdown (signal and property).
    pub(crate) prepare_on_reboot: bool,
    /// `Reboot` calls, accepted or not.
    pub(crate) reboots: usize,
    /// Of these, those for a soft-reboot.
    pub(crate) soft_reboots: usize,
    /// The flag of a soft-reboot is known: systemd 254 and newer.
    pub(crate) knows_soft_reboots: bool,
    /// The shutdown that has begun is one of the userspace alone.
    pub(crate) softly: bool,
    /// `ScheduledShutdown`.
    pub(crate) scheduled: (String, u64),
    /// Reading `ScheduledShutdown` fails, and nothing else.
    pub(crate) schedule_unread: bool,
    /// Times `CancelScheduledShutdown` was asked for.
    pub(crate) cancelled: usize,
    /// Told when a shutdown begins.
    pub(crate) going_down: Arc<Notify>,
    /// logind answers nothing at all.
    pub(crate) mute: bool,
    /// The last wall message.
    pub(crate) wall: String,
    /// When the inhibitors were last read.
    pub(crate) listed: Option<tokio::time::Instant>,
    /// systemd's `Version`.
    pub(crate) version: String,
    /// systemd's `SystemState`.
    pub(crate) system_state: String,
    /// Units that have failed.
    pub(crate) failed: Vec<String>,
    /// `ActiveState` of boot-complete.target.
    pub(crate) boot_complete: String,
    /// `RequiredBy` of a unit that is loaded by name.
    pub(crate) required_by: &'static [&'static str],
    /// `ActiveState` of kube-rebootd.service: active or not.
    pub(crate) daemon: bool,
    /// Its main process.
    pub(crate) pid: u32,
    /// PID 1's `UserspaceTimestampMonotonic`: change it for a new boot.
    pub(crate) boot_usec: u64,
    /// What becomes of transient units.
    pub(crate) run: Run,
    /// The same of units whose name contains a text; the first that does counts.
    pub(crate) run_of: Vec<(&'static str, Run)>,
    /// Name and properties' names of each transient unit.
    pub(crate) started: Vec<(String, Vec<String>)>,
    /// Units that were stopped by name.
    pub(crate) stopped: Vec<String>,
    /// Units whose reference was given up by name.
    pub(crate) let_go: Vec<String>,
    /// Units that `ListUnitsByPatterns` knows.
    pub(crate) leftovers: Vec<String>,
    /// Running services that it knows as well: name, main process and control group.
    pub(crate) services: Vec<(String, u32, String)>,
}

impl Default for Knobs {
    fn default() -> Self {
        Self {
            inhibitors: Vec::new(),
            locks: Vec::new(),
            inhibits: true,
            inhibits_later: false,
            inhibited: 0,
            heeds_root: true,
            sessions: Vec::new(),
            synchronized: Some(true),
            refusal: Refusal::No,
            preparing: false,
            prepare_on_reboot: true,
            reboots: 0,
            soft_reboots: 0,
            knows_soft_reboots: true,
            softly: false,
            scheduled: (String::new(), 0),
            schedule_unread: false,
            cancelled: 0,
            going_down: Arc::default(),
            mute: false,
            wall: String::new(),
            listed: None,
            version: "257.13-fake".to_owned(),
            system_state: "running".to_owned(),
            failed: Vec::new(),
            boot_complete: "active".to_owned(),
            required_by: &[],
            daemon: true,
            pid: 0,
            boot_usec: 1_000_000,
            run: Run::Command,
            run_of: Vec::new(),
            started: Vec::new(),
            stopped: Vec::new(),
            let_go: Vec::new(),
            leftovers: Vec::new(),
            services: Vec::new(),
        }
    }
}

impl Knobs {
    /// Those that tests set, and those that are held.
    pub(crate) fn inhibitors_now(&mut self) -> Vec<InhibitorRow> {
        self.locks.retain(|(end, _)| {
            let mut ends = [PollFd::new(end.as_fd(), PollFlags::empty())];
            // What is always told of a pipe: that nobody has its other end any more.
            poll(&mut ends, PollTimeout::ZERO).unwrap() == 0
        });
        let held = self.locks.iter().map(|(_, row)| row.clone());
        self.inhibitors.iter().cloned().chain(held).collect()
    }
}

/// Both services without a bus, in this process and on its clock: the connection of the services, and
/// the other end, for `Bus::given`.
pub(crate) async fn in_process(state: &Shared) -> (Connection, Connection) {
    let guid = Guid::generate();
    let (ours, theirs) = Channel::pair();
    let login = FakeLogin {
        state: Arc::clone(state),
    };
    let timedate = FakeTimedate {
        state: Arc::clone(state),
    };
    let services = Builder::authenticated_socket(ours, guid.clone()).p2p();
    let services = with_sessions(services, state)
        .serve_at(LOGIN_PATH, login)
        .serve_at(SYSTEMD_PATH, FakeSystemd::new(Arc::clone(state)))
        .serve_at(TIMEDATE_PATH, timedate)
        .build();
    let client = Builder::authenticated_socket(theirs, guid).p2p().build();
    let (services, client) = tokio::join!(services, client);
    (services.unwrap(), client.unwrap())
}

fn with_sessions<'a>(builder: Builder<'a>, state: &Shared) -> Builder<'a> {
    (0..SESSIONS).fold(builder, |builder, number| {
        let state = Arc::clone(state);
        builder.serve_at(session_path(number), FakeSessionObject { state, number })
    })
}

/// Knobs shared with the fakes.
pub(crate) type Shared = Arc<Mutex<Knobs>>;

/// The bus and its two services; all end when it is dropped.
pub(crate) struct FakeHostBus {
    dir: TempDir,
    /// Added to the configuration of the bus.
    more: String,
    daemon: Child,
    state: Shared,
    login: Option<Connection>,
    systemd: Option<Connection>,
}

impl Drop for FakeHostBus {
    fn drop(&mut self) {
        let _ = self.daemon.kill();
        let _ = self.daemon.wait();
    }
}

#[allow(dead_code)]
impl FakeHostBus {
    /// A bus with a healthy host on it. Needs a tokio runtime as long as it lives.
    pub(crate) async fn start() -> Self {
        Self::configured("").await
    }

    /// The same with more in the configuration of the bus.
    pub(crate) async fn configured(more: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut bus = Self {
            daemon: start_daemon(&dir, more),
            dir,
            more: more.to_owned(),
            state: Shared::default(),
            login: None,
            systemd: None,
        };
        bus.start_logind().await;
        bus.start_systemd().await;
        bus
    }

    /// For `DBUS_SYSTEM_BUS_ADDRESS` or `Bus::at`.
    pub(crate) fn address(&self) -> String {
        address(&self.dir)
    }

    /// The knobs and records. Do not hold it across an await.
    pub(crate) fn knobs(&self) -> MutexGuard<'_, Knobs> {
        self.state.lock().unwrap()
    }

    /// Sets the locks that `ListInhibitors` shows, with the signal that logind sends.
    pub(crate) async fn inhibit(&self, rows: &[(&str, &str, &str, &str)]) {
        self.knobs().inhibitors = rows
            .iter()
            .map(|(what, who, why, mode)| {
                let [what, who, why, mode] = [what, who, why, mode].map(|s| (*s).to_owned());
                (what, who, why, mode, 0, 1)
            })
            .collect();
        let Some(login) = &self.login else { return };
        let changed = HashMap::from([("BlockInhibited", Variant::from(inhibited(&self.state)))]);
        let body = (
            "org.freedesktop.login1.Manager",
            changed,
            Vec::<String>::new(),
        );
        login
            .emit_signal(
                None::<&str>,
                LOGIN_PATH,
                "org.freedesktop.DBus.Properties",
                "PropertiesChanged",
                &body,
            )
            .await
            .unwrap();
    }

    /// Anybody else on the bus sends logind's signals, many times.
    pub(crate) async fn forge(&self, to: Option<&str>) {
        let address = self.address();
        let stranger = Builder::address(address.as_str()).build().await.unwrap();
        let interface = "org.freedesktop.login1.Manager";
        for _ in 0..500 {
            stranger
                .emit_signal(to, LOGIN_PATH, interface, "PrepareForShutdown", &true)
                .await
                .unwrap();
        }
        stranger.close().await.unwrap();
    }

    /// Sends `PrepareForShutdown` and sets the property.
    pub(crate) async fn prepare(&self, start: bool) {
        self.knobs().preparing = start;
        if let Some(login) = &self.login {
            let emitter = SignalEmitter::new(login, LOGIN_PATH).unwrap();
            FakeLogin::prepare_for_shutdown(&emitter, start)
                .await
                .unwrap();
        }
    }

    /// logind leaves the bus.
    pub(crate) async fn stop_logind(&mut self) {
        if let Some(login) = self.login.take() {
            login.close().await.unwrap();
        }
    }

    /// logind comes (back).
    pub(crate) async fn start_logind(&mut self) {
        let login = with_sessions(Builder::address(self.address().as_str()), &self.state)
            .serve_at(
                LOGIN_PATH,
                FakeLogin {
                    state: Arc::clone(&self.state),
                },
            )
            .serve_at(
                TIMEDATE_PATH,
                FakeTimedate {
                    state: Arc::clone(&self.state),
                },
            )
            .name(LOGIN)
            .name(TIMEDATE)
            .build()
            .await
            .unwrap();
        self.login = Some(login);
    }

    async fn start_systemd(&mut self) {
        let systemd = Builder::address(self.address().as_str())
            .serve_at(SYSTEMD_PATH, FakeSystemd::new(Arc::clone(&self.state)))
            .name(SYSTEMD)
            .build()
            .await
            .unwrap();
        self.systemd = Some(systemd);
    }

    /// The bus reads and writes nothing, or goes on.
    pub(crate) fn stand_still(&self, still: bool) {
        let pid = i32::try_from(self.daemon.id()).unwrap();
        let signal = if still {
            Signal::SIGSTOP
        } else {
            Signal::SIGCONT
        };
        kill(Pid::from_raw(pid), signal).unwrap();
    }

    /// The bus dies and takes all connections with it.
    pub(crate) fn stop_bus(&mut self) {
        self.daemon.kill().unwrap();
        self.daemon.wait().unwrap();
        self.login = None;
        self.systemd = None;
    }

    /// The bus comes back at the same address, with both services.
    pub(crate) async fn start_bus(&mut self) {
        self.daemon = start_daemon(&self.dir, &self.more);
        self.start_logind().await;
        self.start_systemd().await;
    }

    /// Waits until the state fulfils `done`.
    pub(crate) async fn until(&self, what: &str, done: impl Fn(&Knobs) -> bool) {
        let deadline = Instant::now() + Duration::from_secs(20);
        while !done(&self.knobs()) {
            assert!(Instant::now() < deadline, "never happened: {what}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

fn address(dir: &TempDir) -> String {
    format!("unix:path={}", dir.path().join("bus").display())
}

/// With room for the daemons of a thousand hosts: `make bench` puts them all on one bus.
fn start_daemon(dir: &TempDir, more: &str) -> Child {
    let config = dir.path().join("bus.conf");
    let text = format!(
        r#"<busconfig>
  <type>session</type>
  <listen>{}</listen>
  <auth>EXTERNAL</auth>
  <policy context="default">
    <allow user="*"/>
    <allow own="*"/>
    <allow send_type="method_call"/>
    <allow send_destination="*"/>
    <allow receive_sender="*"/>
  </policy>
  <limit name="max_completed_connections">20000</limit>
  <limit name="max_incomplete_connections">1000</limit>
  <limit name="max_connections_per_user">20000</limit>
  {more}
</busconfig>"#,
        address(dir)
    );
    std::fs::write(&config, text).unwrap();
    let mut daemon = Command::new("dbus-daemon")
        .args(["--nofork", "--nopidfile", "--print-address=1"])
        .arg(format!("--config-file={}", config.display()))
        .stdout(Stdio::piped())
        .spawn()
        .expect("the tests need dbus-daemon (package dbus-daemon)");
    // It prints its address when it listens.
    let mut line = String::new();
    BufReader::new(daemon.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    assert!(line.starts_with("unix:path="), "dbus-daemon said {line:?}");
    daemon
}
