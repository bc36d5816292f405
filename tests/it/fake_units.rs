//! The fake systemd of [`crate::fake_bus`]: state of the host, and transient units that really run
//! or that say what a test wants.

// clippy.toml allows unwrap in test functions only; all of this is test code.
// The interface macro dictates owned arguments and methods with self.
#![allow(
    clippy::unwrap_used,
    clippy::needless_pass_by_value,
    clippy::unused_self,
    clippy::used_underscore_binding
)]

use std::{
    collections::VecDeque, fmt::Write, os::unix::process::ExitStatusExt, sync::Arc, sync::Mutex,
};

use tokio::sync::Notify;
use zbus::{Connection, OwnedObjectPath, OwnedVariant, fdo, interface};

use crate::fake_bus::Shared;

/// What becomes of a transient unit.
#[derive(Debug, Clone)]
#[allow(dead_code)]
pub(crate) enum Run {
    /// Its command runs for real.
    Command,
    /// It says these one after another, the last one for ever.
    Says(Vec<Unit>),
    /// It is refused.
    Refused,
}

/// What a unit's properties say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unit {
    pub(crate) load_state: &'static str,
    pub(crate) active_state: &'static str,
    pub(crate) job: u32,
    pub(crate) invocation: u8,
    pub(crate) active_exit: u64,
    pub(crate) result: &'static str,
    pub(crate) code: i32,
    pub(crate) status: i32,
    pub(crate) exit_time: u64,
    pub(crate) required_by: &'static [&'static str],
    pub(crate) pid: u32,
}

impl Unit {
    /// Runs still.
    pub(crate) const RUNNING: Self = Self {
        load_state: "loaded",
        active_state: "active",
        job: 0,
        invocation: 1,
        active_exit: 0,
        result: "success",
        code: 0,
        status: 0,
        exit_time: 0,
        required_by: &[],
        pid: 0,
    };

    /// Ended by itself with `status`.
    pub(crate) const fn exited(status: i32) -> Self {
        Self {
            active_state: "inactive",
            active_exit: 200,
            code: 1,
            status,
            exit_time: 200,
            ..Self::RUNNING
        }
    }

    /// Unloaded, as systemd shows it: everything reads as success.
    pub(crate) const COLLECTED: Self = Self {
        load_state: "not-found",
        active_state: "inactive",
        invocation: 0,
        ..Self::RUNNING
    };
}

/// A row of `ListUnitsByPatterns`, spelled out: `make bench` includes this file and has no library.
type UnitRow = (
    String,
    String,
    String,
    String,
    String,
    String,
    OwnedObjectPath,
    u32,
    String,
    OwnedObjectPath,
);

/// A unit's states to come, the present one first.
type Script = Arc<Mutex<VecDeque<Unit>>>;

pub(crate) struct FakeSystemd {
    state: Shared,
    stop: Arc<Notify>,
}

impl FakeSystemd {
    pub(crate) fn new(state: Shared) -> Self {
        Self {
            state,
            stop: Arc::default(),
        }
    }
}

async fn serve(
    connection: &Connection,
    name: &str,
    script: Script,
) -> fdo::Result<OwnedObjectPath> {
    let path = unit_path(name);
    let server = connection.object_server();
    server
        .at(&path, UnitProperties(Arc::clone(&script)))
        .await?;
    server.at(&path, ServiceProperties(script)).await?;
    Ok(path)
}

fn unit_path(name: &str) -> OwnedObjectPath {
    let mut path = "/org/freedesktop/systemd1/unit/".to_owned();
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() {
            path.push(char::from(byte));
        } else {
            write!(path, "_{byte:02x}").unwrap();
        }
    }
    OwnedObjectPath::try_from(path).unwrap()
}

fn job() -> OwnedObjectPath {
    OwnedObjectPath::try_from("/org/freedesktop/systemd1/job/1").unwrap()
}

#[interface(name = "org.freedesktop.systemd1.Manager")]
impl FakeSystemd {
    #[zbus(property)]
    fn system_state(&self) -> String {
        self.state.lock().unwrap().system_state.clone()
    }

    #[zbus(property)]
    fn version(&self) -> String {
        self.state.lock().unwrap().version.clone()
    }

    #[zbus(property)]
    fn userspace_timestamp_monotonic(&self) -> u64 {
        self.state.lock().unwrap().boot_usec
    }

    async fn load_unit(
        &self,
        name: String,
        #[zbus(connection)] connection: &Connection,
    ) -> fdo::Result<OwnedObjectPath> {
        let active = {
            let state = self.state.lock().unwrap();
            match name.as_str() {
                "boot-complete.target" => Some(state.boot_complete == "active"),
                "kube-rebootd.service" => Some(state.daemon),
                _ => None,
            }
        };
        if let Some(active) = active {
            let active_state = if active { "active" } else { "inactive" };
            let (required_by, pid) = {
                let state = self.state.lock().unwrap();
                (state.required_by, state.pid)
            };
            let unit = Unit {
                active_state,
                required_by,
                pid,
                ..Unit::RUNNING
            };
            let path = unit_path(&name);
            // The state may have changed since it was last asked for.
            let server = connection.object_server();
            server.remove::<UnitProperties, _>(&path).await.ok();
            server.remove::<ServiceProperties, _>(&path).await.ok();
            return serve(connection, &name, Arc::new(Mutex::new([unit].into()))).await;
        }
        Ok(unit_path(&name))
    }

    async fn start_transient_unit(
        &self,
        name: String,
        mode: String,
        properties: Vec<(String, OwnedVariant)>,
        _auxiliary: Vec<(String, Vec<(String, OwnedVariant)>)>,
        #[zbus(connection)] connection: &Connection,
    ) -> fdo::Result<OwnedObjectPath> {
        assert_eq!(mode, "fail");
        let run = {
            let mut state = self.state.lock().unwrap();
            let names = properties.iter().map(|(name, _)| name.clone()).collect();
            state.started.push((name.clone(), names));
            let mut runs = state.run_of.iter();
            let own = runs.find(|(part, _)| name.contains(part));
            own.map_or(&state.run, |(_, run)| run).clone()
        };
        let real = matches!(run, Run::Command);
        let script: Script = match run {
            Run::Refused => return Err(fdo::Error::InvalidArgs("no such property".to_owned())),
            Run::Says(units) => Arc::new(Mutex::new(units.into())),
            Run::Command => Arc::new(Mutex::new([Unit::RUNNING].into())),
        };
        serve(connection, &name, Arc::clone(&script)).await?;
        if real {
            tokio::spawn(command(properties, script, Arc::clone(&self.stop)));
        }
        Ok(job())
    }

    fn stop_unit(&self, name: String, _mode: String) -> OwnedObjectPath {
        self.state.lock().unwrap().stopped.push(name);
        self.stop.notify_waiters();
        job()
    }

    fn unref_unit(&self, name: String) {
        self.state.lock().unwrap().let_go.push(name);
    }

    #[allow(clippy::type_complexity)]
    async fn list_units_by_patterns(
        &self,
        states: Vec<String>,
        patterns: Vec<String>,
        #[zbus(connection)] connection: &Connection,
    ) -> Vec<UnitRow> {
        if states == ["failed"] {
            let failed = &self.state.lock().unwrap().failed;
            return failed.iter().map(|name| row(name)).collect();
        }
        let (leftovers, services) = {
            let state = self.state.lock().unwrap();
            (state.leftovers.clone(), state.services.clone())
        };
        for (name, pid, cgroup) in &services {
            let process = MainProcess(*pid, cgroup.clone());
            let server = connection.object_server();
            server.at(&unit_path(name), process).await.unwrap();
        }
        let services = services.into_iter().map(|(name, ..)| name);
        let names = leftovers.into_iter().chain(services);
        let wanted = |name: &String| patterns.iter().any(|pattern| matches(pattern, name));
        names.filter(wanted).map(|name| row(&name)).collect()
    }
}

/// As `fnmatch(3)`, with `*` alone.
fn matches(pattern: &str, name: &str) -> bool {
    let Some((before, after)) = pattern.split_once('*') else {
        return pattern == name;
    };
    let Some(rest) = name.strip_prefix(before) else {
        return false;
    };
    (0..=rest.len()).any(|at| rest.is_char_boundary(at) && matches(after, &rest[at..]))
}

fn row(name: &str) -> UnitRow {
    let (text, none) = (String::new, OwnedObjectPath::try_from("/").unwrap());
    let path = unit_path(name);
    (
        name.to_owned(),
        text(),
        text(),
        text(),
        text(),
        text(),
        path,
        0,
        text(),
        none,
    )
}

/// A running service: the number of its main process, and its control group.
struct MainProcess(u32, String);

#[interface(name = "org.freedesktop.systemd1.Service")]
impl MainProcess {
    #[zbus(property, name = "MainPID")]
    fn main_pid(&self) -> u32 {
        self.0
    }

    #[zbus(property)]
    fn control_group(&self) -> String {
        self.1.clone()
    }
}

/// The variables of an `EnvironmentFile=` whose values are all in double quotes.
fn variables(text: &str) -> Vec<(String, String)> {
    let (mut all, mut rest) = (Vec::new(), text);
    while let Some((name, after)) = rest.split_once("=\"") {
        let (mut value, mut chars) = (String::new(), after.chars());
        while let Some(c) = chars.next() {
            match c {
                '"' => break,
                '\\' => value.extend(chars.next()),
                c => value.push(c),
            }
        }
        all.push((name.to_owned(), value));
        rest = chars.as_str().strip_prefix('\n').unwrap();
    }
    all
}

/// Runs `ExecStartEx` as systemd would, as far as a check can tell.
async fn command(properties: Vec<(String, OwnedVariant)>, script: Script, stop: Arc<Notify>) {
    let property = |name: &str| {
        let (_, value) = properties.iter().find(|(key, _)| key == name).unwrap();
        value.try_clone().unwrap()
    };
    let exec: Vec<(String, Vec<String>, Vec<String>)> = property("ExecStartEx").try_into().unwrap();
    assert_eq!(exec[0].2, ["no-env-expand"]);
    let limit: u64 = property("RuntimeMaxUSec").try_into().unwrap();
    // As PID 1 does: opened to write, never made.
    let opened = |name: &str| {
        let path: String = property(name).try_into().unwrap();
        std::fs::OpenOptions::new().write(true).open(path).unwrap()
    };
    let mut process = tokio::process::Command::new(&exec[0].0);
    process
        .args(&exec[0].1[1..])
        .stdout(opened("StandardOutputFile"))
        .kill_on_drop(true);
    let given = |name: &str| properties.iter().any(|(key, _)| key == name);
    if given("StandardErrorFile") {
        process.stderr(opened("StandardErrorFile"));
    }
    if given("EnvironmentFiles") {
        let files: Vec<(String, bool)> = property("EnvironmentFiles").try_into().unwrap();
        let text = std::fs::read_to_string(&files[0].0).unwrap();
        process.env_clear().envs(variables(&text));
    }
    if given("Environment") {
        let all: Vec<String> = property("Environment").try_into().unwrap();
        process.envs(all.iter().filter_map(|one| one.split_once('=')));
    }
    let spawned = process.spawn();
    let end = match spawned {
        // EXIT_EXEC of systemd.exec(5).
        Err(_) => Unit::exited(203),
        Ok(mut child) => tokio::select! {
            status = child.wait() => {
                let status = status.unwrap();
                match status.code() {
                    Some(code) => Unit::exited(code),
                    None => Unit { code: 2, ..Unit::exited(status.signal().unwrap()) },
                }
            }
            () = tokio::time::sleep(std::time::Duration::from_micros(limit)) => {
                Unit { result: "timeout", code: 2, active_exit: 100, ..Unit::exited(15) }
            }
            () = stop.notified() => Unit { active_exit: 100, ..Unit::exited(1) },
        },
    };
    *script.lock().unwrap() = [end].into();
}

struct UnitProperties(Script);

impl UnitProperties {
    fn now(&self) -> Unit {
        self.0.lock().unwrap()[0].clone()
    }
}

#[interface(name = "org.freedesktop.systemd1.Unit")]
impl UnitProperties {
    fn unref(&self) {}

    #[zbus(property)]
    fn load_state(&self) -> String {
        self.now().load_state.to_owned()
    }

    #[zbus(property)]
    fn active_state(&self) -> String {
        self.now().active_state.to_owned()
    }

    #[zbus(property)]
    fn wanted_by(&self) -> Vec<String> {
        Vec::new()
    }

    #[zbus(property)]
    fn required_by(&self) -> Vec<String> {
        let units = self.now().required_by;
        units.iter().map(|unit| (*unit).to_owned()).collect()
    }

    #[zbus(property)]
    fn job(&self) -> (u32, OwnedObjectPath) {
        (self.now().job, OwnedObjectPath::try_from("/").unwrap())
    }

    #[zbus(property, name = "InvocationID")]
    fn invocation_id(&self) -> Vec<u8> {
        vec![self.now().invocation; 16]
    }

    #[zbus(property)]
    fn active_exit_timestamp_monotonic(&self) -> u64 {
        self.now().active_exit
    }
}

struct ServiceProperties(Script);

impl ServiceProperties {
    fn now(&self) -> Unit {
        self.0.lock().unwrap()[0].clone()
    }
}

#[interface(name = "org.freedesktop.systemd1.Service")]
impl ServiceProperties {
    #[zbus(property)]
    fn result(&self) -> String {
        self.now().result.to_owned()
    }

    #[zbus(property, name = "MainPID")]
    fn main_pid(&self) -> u32 {
        self.now().pid
    }

    #[zbus(property)]
    fn exec_main_code(&self) -> i32 {
        self.now().code
    }

    #[zbus(property)]
    fn exec_main_status(&self) -> i32 {
        self.now().status
    }

    /// Moves the script on: a check reads the service after the unit, and this once each time.
    #[zbus(property)]
    fn exec_main_exit_timestamp_monotonic(&self) -> u64 {
        let time = self.now().exit_time;
        let mut script = self.0.lock().unwrap();
        if script.len() > 1 {
            script.pop_front();
        }
        time
    }
}
