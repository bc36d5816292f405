//! From merged tables to [`Config`], or to all that is wrong with them (I12).

mod array;
mod escalate;
mod gate_command;
mod order;
mod prometheus;
mod trigger;
mod windows;

use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::duration::show as words;
use super::file::{self, ConfigError, Item, Keys, Origin, Problem, Tables, one_line};
use super::keys::{
    self, Section, Table, check, coordination, drain, fleet_lock, gates, health, hooks, metrics,
    node, notify, reboot, root, triggers,
};
use super::reader::Reader;
use super::{
    Address, Alertmanager, Config, Coordination, Drain, FleetLock, Gates, Group, Health, Hooks,
    Listen, Method, Metrics, Node, Notify, Reboot, Triggers, Webhook,
};
use crate::drain::Policy;
use crate::gates::Force;
use crate::protected::Protection;
use crate::windows::Windows;
use windows::Zones;

/// A valid configuration and its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Effective {
    pub config: Config,
    /// TOML with every key and `# from FILE` or `# default` behind it; [`parse_effective`] reads
    /// it back to the same `config`.
    pub text: String,
    /// Every key as it was read, in the order of `text`.
    pub tables: Vec<Table>,
    /// Where `gates.exclude_dates` was written.
    dates: Option<Origin>,
}

impl Effective {
    /// Every window is shut for all of the time that is looked ahead from `now`, by dates of these years. Whoever checks a
    /// configuration is told; the daemon takes it, as the dates pass, and its clock may be wrong (I5).
    ///
    /// # Errors
    /// It is so, where it was written, and what to do.
    pub fn opens(&self, now: Timestamp) -> Result<(), ConfigError> {
        let (Some(origin), Some(reason)) = (&self.dates, self.config.shut_for_long(now)) else {
            return Ok(());
        };
        let key = file::dotted(gates::SECTION.name, gates::EXCLUDE_DATES.name);
        let problems = vec![Problem::at(origin, key, reason)];
        Err(ConfigError { problems })
    }
}

/// Reads one text alone, which knows no time zone but UTC; `file` is what problems call it.
pub fn parse(file: &Path, text: &str) -> Result<Effective, ConfigError> {
    merged(&[(file.to_owned(), text.to_owned())], Vec::new(), |_| None)
}

/// Reads what `config show` printed: the last valid configuration, kept beside the state (I12). `zone` as in [`merged`].
pub fn parse_effective(
    text: &str,
    zone: impl Fn(&str) -> Option<TimeZone>,
) -> Result<Effective, ConfigError> {
    let file = PathBuf::from("the last valid configuration");
    merged(&[(file, text.to_owned())], Vec::new(), zone)
}

/// Where a hold is on record and no valid configuration is: it is undone, or its reboot is proved by no less than anybody
/// asks for (I12). What the defaults would evict, or take for healthy, may be what the configuration protects from.
pub fn to_end_a_hold() -> Effective {
    const TEXT: &str = "mode = \"observe\"\n[health]\nallow_degraded = false\n";
    let file = Path::new("no valid configuration");
    let tables = file::read(file, TEXT, &reference(), &mut Vec::new());
    Parser::of(&tables, &Zones::new(), Vec::new()).effective()
}

/// Reads texts that are laid over each other, the lowest first, each with the file it came from; `problems` are those of
/// files that could not be read, and `zone` looks up the rules of a time zone by its name.
pub fn merged(
    texts: &[(PathBuf, String)],
    mut problems: Vec<Problem>,
    zone: impl Fn(&str) -> Option<TimeZone>,
) -> Result<Effective, ConfigError> {
    let known = reference();
    let mut tables = Tables::default();
    for (path, text) in texts {
        tables.lay(file::read(path, text, &known, &mut problems));
    }
    let zones = windows::zones(&tables, zone);
    let parsed = Parser::of(&tables, &zones, problems);
    if parsed.problems.is_empty() {
        return Ok(parsed.effective());
    }
    let mut problems = parsed.problems;
    problems.sort_by(|a, b| (&a.file, a.line).cmp(&(&b.file, b.line)));
    Err(ConfigError { problems })
}

/// Every array of tables.
const ARRAYS: [&Section; 6] = [
    &check::SECTION,
    &keys::order::SECTION,
    &keys::escalate::SECTION,
    &keys::gate_command::SECTION,
    &keys::prometheus::SECTION,
    &keys::windows::SECTION,
];

/// Every table and every key that this release takes, each with its default: what a host without any file runs on, and
/// one table of each array.
pub fn reference() -> Vec<Table> {
    let one = |section: &'static Section| Item {
        array: section.name,
        name: String::new(),
        keys: Keys::new(),
        origin: Origin {
            file: PathBuf::new(),
            line: 1,
        },
    };
    let tables = Tables {
        items: ARRAYS.into_iter().map(one).collect(),
        ..Tables::default()
    };
    Parser::of(&tables, &Zones::new(), Vec::new()).read
}

impl Default for Config {
    fn default() -> Self {
        Parser::of(&Tables::default(), &Zones::new(), Vec::new()).config
    }
}

/// What [`Effective`] calls its text.
fn text(tables: &[Table]) -> String {
    let mut text = String::new();
    for table in tables {
        let header = table.section.header();
        if !header.is_empty() {
            text.extend(["\n", &header, "\n"]);
        }
        for entry in &table.entries {
            // A file name may hold a line break, which would end the comment.
            let from = entry.from.as_ref().map_or_else(
                || "default".to_owned(),
                |file| one_line(&format!("from {}", file.display())),
            );
            text.extend([entry.name, " = ", &entry.value, " # ", &from, "\n"]);
        }
    }
    text
}

/// Types and ranges of all values, then the values against each other.
struct Parser<'a> {
    tables: &'a Tables,
    zones: &'a Zones,
    none: Keys,
    /// First those of the texts.
    problems: Vec<Problem>,
    /// What was taken so far.
    read: Vec<Table>,
}

/// What comes of it.
struct Parsed {
    /// To be used only without a problem.
    config: Config,
    problems: Vec<Problem>,
    read: Vec<Table>,
    dates: Option<Origin>,
}

impl Parsed {
    fn effective(self) -> Effective {
        Effective {
            text: text(&self.read),
            config: self.config,
            tables: self.read,
            dates: self.dates,
        }
    }
}

impl Parser<'_> {
    fn of(tables: &Tables, zones: &Zones, problems: Vec<Problem>) -> Parsed {
        let mut parser = Parser {
            tables,
            zones,
            none: Keys::new(),
            problems,
            read: Vec::new(),
        };
        let mut config = Config {
            mode: parser.section(&root::SECTION, |r| r.choice(&root::MODE)),
            node: parser.section(&node::SECTION, node),
            coordination: parser.section(&coordination::SECTION, coordination),
            triggers: parser.triggers(),
            drain: parser.drain(),
            reboot: parser.section(&reboot::SECTION, reboot),
            health: parser.section(&health::SECTION, health),
            gates: parser.gates(),
            hooks: parser.section(&hooks::SECTION, |r| Hooks {
                timeout: r.duration(&hooks::TIMEOUT),
            }),
            notify: parser.section(&notify::SECTION, notify),
            metrics: parser.section(&metrics::SECTION, metrics),
            fleet_lock: parser.section(&fleet_lock::SECTION, fleet_lock),
        };
        config.gates.windows = parser.windows(&config);
        let dates = tables.sections.get(gates::SECTION.name);
        let dates = dates.and_then(|keys| keys.get(gates::EXCLUDE_DATES.name));
        Parsed {
            dates: dates.map(|value| value.origin.clone()),
            config,
            problems: parser.problems,
            read: parser.read,
        }
    }

    fn section<T>(
        &mut self,
        section: &'static Section,
        take: impl FnOnce(&mut Reader<'_>) -> T,
    ) -> T {
        let keys = self.tables.sections.get(section.name).unwrap_or(&self.none);
        let mut reader = Reader::new(section, keys, &mut self.problems);
        let taken = take(&mut reader);
        self.read.push(reader.table());
        taken
    }

    /// After all that bounds them.
    fn windows(&mut self, config: &Config) -> Windows {
        let before = self.problems.len();
        let (each, read) = windows::read(self.tables, self.zones, &mut self.problems);
        self.read.extend(read);
        let windows = Windows::new(each, config.gates.windows.excluded.clone());
        // A duration or a time that is refused is not compared.
        if before == 0 && self.problems.is_empty() {
            let expected = config.longest_reboot();
            windows::check(self.tables, &windows, expected, &mut self.problems);
        }
        if before == 0 && self.problems.is_empty() {
            let expected = config.longest_reboot();
            windows::check_dates(self.tables, &windows, expected, &mut self.problems);
        }
        windows
    }

    fn drain(&mut self) -> Drain {
        let mut drain = self.section(&drain::SECTION, drain);
        let stall = drain.policy.stall;
        for table in self.tables.of(&keys::order::SECTION) {
            let (group, read) = order::read(table, stall, &mut self.problems);
            drain.policy.order.push(group);
            self.read.push(read);
        }
        for table in self.tables.of(&keys::escalate::SECTION) {
            let (escalation, read) = escalate::read(table, stall, &mut self.problems);
            drain.policy.escalate.push(escalation);
            self.read.push(read);
        }
        drain
    }

    fn gates(&mut self) -> Gates {
        let mut gates = self.section(&gates::SECTION, gates);
        for table in self.tables.of(&keys::gate_command::SECTION) {
            let (command, read) = gate_command::read(table, &mut self.problems);
            gates.commands.push(command);
            self.read.push(read);
        }
        let (prometheus, read) = prometheus::read(self.tables, &mut self.problems);
        gates.prometheus = prometheus;
        self.read.extend(read);
        gates
    }

    fn triggers(&mut self) -> Triggers {
        let mut triggers = self.section(&triggers::SECTION, |r| Triggers {
            sentinels: r.paths(&triggers::SENTINELS),
            node_annotation: r.flag(&triggers::NODE_ANNOTATION),
            scheduled_shutdown: r.choice(&triggers::SCHEDULED_SHUTDOWN),
            update_engine: r.flag(&triggers::UPDATE_ENGINE),
            rebootmgr: r.flag(&triggers::REBOOTMGR),
            period: r.duration(&triggers::PERIOD),
            settle: r.duration(&triggers::SETTLE),
            builtin: r.choices(&triggers::BUILTIN),
            builtin_settle: r.duration(&triggers::BUILTIN_SETTLE),
            checks: Vec::new(),
        });
        for table in self.tables.of(&check::SECTION) {
            let (check, read) = trigger::read(table, &mut self.problems);
            triggers.checks.push(check);
            self.read.push(read);
        }
        triggers
    }
}

fn node(r: &mut Reader<'_>) -> Node {
    Node {
        kubeconfig: r.maybe(&node::KUBECONFIG).map(PathBuf::from),
        context: r.maybe(&node::CONTEXT),
        name: r.maybe(&node::NAME),
    }
}

fn coordination(r: &mut Reader<'_>) -> Coordination {
    let coordination = Coordination {
        namespace: r.word(&coordination::NAMESPACE),
        group: Group(r.word(&coordination::GROUP)),
        group_label: r.maybe(&coordination::GROUP_LABEL),
        impersonate: r.maybe(&coordination::IMPERSONATE),
        kubeconfig: r.maybe(&coordination::KUBECONFIG).map(PathBuf::from),
        prove_node: r.flag(&coordination::PROVE_NODE),
        max_unavailable: r.budget(&coordination::MAX_UNAVAILABLE),
        count_cordoned: r.flag(&coordination::COUNT_CORDONED),
        min_interval: r.duration(&coordination::MIN_INTERVAL),
        stale_after: r.duration(&coordination::STALE_AFTER),
        autoscaler_protect: r.duration(&coordination::AUTOSCALER_PROTECT),
    };
    let nothing_to_prove = coordination.impersonate.is_none() || coordination.kubeconfig.is_some();
    if coordination.prove_node && nothing_to_prove && r.sound(&["impersonate", "kubeconfig"]) {
        let reason = "proves nothing without an impersonation; remove it, or impersonate = \"\" and kubeconfig";
        r.fault(&coordination::PROVE_NODE, reason);
    }
    coordination
}

fn drain(r: &mut Reader<'_>) -> Drain {
    let mode = r.choice(&drain::MODE);
    let timeout = r.duration(&drain::TIMEOUT);
    // Follows a shorter timeout, so that setting only that one stays valid.
    let stall = r.duration_up_to(&drain::STALL, timeout);
    if stall > timeout && r.sound(&["stall", "timeout"]) {
        let (s, t) = (words(stall), words(timeout));
        let reason =
            format!("{s} is above drain.timeout ({t}) and never reached; write at most {t}");
        r.fault(&drain::STALL, reason);
    }
    let pod_timeout_max = r.duration(&drain::POD_TIMEOUT_MAX);
    if pod_timeout_max > timeout.saturating_mul(2) && r.sound(&["pod_timeout_max", "timeout"]) {
        let (p, t) = (words(pod_timeout_max), words(timeout));
        let reason =
            format!("{p} is above twice drain.timeout ({t}), when every drain ends; write less");
        r.fault(&drain::POD_TIMEOUT_MAX, reason);
    }
    let policy = Policy {
        timeout,
        stall,
        on_timeout: r.choice(&drain::ON_TIMEOUT),
        cordon_only: r.duration(&drain::CORDON_ONLY),
        load_balancer_wait: r.duration(&drain::LOAD_BALANCER_WAIT),
        parallelism: usize::try_from(r.number(&drain::PARALLELISM)).unwrap_or(usize::MAX),
        unmanaged: r.choice(&drain::UNMANAGED),
        jobs: r.choice(&drain::JOBS),
        empty_dir: r.choice(&drain::EMPTY_DIR),
        volumes_timeout: r.duration(&drain::VOLUMES_TIMEOUT),
        skip: r.selectors(&drain::SKIP),
        pod_timeout_max,
        order: Vec::new(),
        escalate: Vec::new(),
    };
    Drain { mode, policy }
}

fn reboot(r: &mut Reader<'_>) -> Reboot {
    let kind = r.choice_but(&reboot::KIND, |kind| {
        (kind == "kexec").then(|| {
            format!("{kind:?} is not supported: it would skip the firmware; write \"reboot\"")
        })
    });
    let by_command = r.choice(&reboot::METHOD);
    let command = r.command(&reboot::COMMAND, &[]);
    if r.sound(&["method", "command"]) {
        if by_command && command.is_empty() {
            let reason = "is \"command\" but reboot.command is empty; write one";
            r.fault(&reboot::METHOD, reason);
        } else if !by_command && !command.is_empty() {
            let reason = "is unused; write method = \"command\" or remove it";
            r.fault(&reboot::COMMAND, reason);
        }
    }
    if r.sound(&["kind", "method"]) && by_command && kind.soft() {
        let reason = "is \"soft-reboot\", which logind is asked for: reboot.command may do anything; write method = \"logind\", or \
                      kind = \"reboot\"";
        r.fault(&reboot::KIND, reason);
    }
    Reboot {
        kind,
        method: if by_command {
            Method::Command(command)
        } else {
            Method::Logind
        },
        delay: r.duration(&reboot::DELAY),
        timeout: r.duration(&reboot::TIMEOUT),
        max_per_day: r.number(&reboot::MAX_PER_DAY),
        retry: r.duration(&reboot::RETRY),
        guard: r.flag(&reboot::GUARD),
        message: r.word(&reboot::MESSAGE),
    }
}

fn health(r: &mut Reader<'_>) -> Health {
    let health = Health {
        timeout: r.duration(&health::TIMEOUT),
        allow_degraded: r.flag(&health::ALLOW_DEGRADED),
        boot_complete: r.flag(&health::BOOT_COMPLETE),
        ready_for: r.duration(&health::READY_FOR),
        pods: r.flag(&health::PODS),
    };
    if health.ready_for >= health.timeout && r.sound(&["timeout", "ready_for"]) {
        let (f, t) = (words(health.ready_for), words(health.timeout));
        let reason =
            format!("{f} is not below health.timeout ({t}), every boot would be late; write less");
        r.fault(&health::READY_FOR, reason);
    }
    health
}

fn gates(r: &mut Reader<'_>) -> Gates {
    let force = Force {
        after: r.duration(&gates::FORCE_AFTER),
        gates: r.choices(&gates::FORCE),
    };
    let sound = r.sound(&["force_after", "force"]);
    match (force.after.is_zero(), force.gates.is_empty()) {
        _ if !sound => {}
        (false, true) => r.fault(
            &gates::FORCE_AFTER,
            "passes over nothing; name gates in `gates.force`, or remove it",
        ),
        (true, false) => r.fault(
            &gates::FORCE,
            "is never used; write `gates.force_after` as well, or remove it",
        ),
        (true, true) | (false, false) => {}
    }
    Gates {
        min_uptime: r.duration(&gates::MIN_UPTIME),
        windows: Windows::new(Vec::new(), r.dates(&gates::EXCLUDE_DATES)),
        window_close: r.choice(&gates::WINDOW_CLOSE),
        window_overrun: r.duration(&gates::WINDOW_OVERRUN),
        synchronized: r.choice(&gates::UNSYNCHRONIZED_CLOCK),
        rivals: r.choice(&gates::OTHER_REBOOT_DAEMONS),
        capacity_wait: r.duration(&gates::CAPACITY_WAIT),
        live_patch_wait: r.duration(&gates::LIVE_PATCH_WAIT),
        api_servers: r.servers(&gates::API_SERVERS),
        conditions: r.conditions(&gates::CONDITIONS),
        protection: Protection {
            blocking: r.pods(&gates::BLOCKING_PODS),
            annotations: r.flag(&gates::HONOUR_ANNOTATIONS),
        },
        commands: Vec::new(),
        users: r.choice(&gates::USERS),
        users_idle: r.duration(&gates::USERS_IDLE),
        users_delay: r.duration(&gates::USERS_DELAY),
        force,
        prometheus: Vec::new(),
    }
}

fn notify(r: &mut Reader<'_>) -> Notify {
    let url = r.maybe(&notify::WEBHOOK).map(Address::Url);
    let file = r.maybe(&notify::WEBHOOK_FILE);
    if url.is_some() && file.is_some() && r.sound(&["webhook", "webhook_file"]) {
        let reason = "is there beside notify.webhook; write one of them";
        r.fault(&notify::WEBHOOK_FILE, reason);
    }
    let token_file = r.maybe(&notify::TOKEN_FILE).map(PathBuf::from);
    let to = url.or(file.map(|file| Address::File(file.into())));
    if to.is_none() && token_file.is_some() && r.sound(&["webhook", "webhook_file", "token_file"]) {
        let reason = "is unused without a webhook; write one or remove it";
        r.fault(&notify::TOKEN_FILE, reason);
    }
    let template = r.choice(&notify::TEMPLATE);
    let command = r.command(&notify::COMMAND, &[]);
    let on = r.choices(&notify::ON);
    let timeout = r.duration(&notify::TIMEOUT);
    Notify {
        webhook: to.map(|to| Webhook {
            to,
            token_file,
            template,
        }),
        command,
        on,
        timeout,
        motd: r.flag(&notify::MOTD),
        alertmanager: alertmanager(r, timeout),
    }
}

fn alertmanager(r: &mut Reader<'_>, timeout: Duration) -> Option<Alertmanager> {
    let url = r.maybe(&notify::ALERTMANAGER);
    let token_file = r.maybe(&notify::ALERTMANAGER_TOKEN_FILE);
    if url.is_none()
        && token_file.is_some()
        && r.sound(&["alertmanager", "alertmanager_token_file"])
    {
        let reason = "is unused without notify.alertmanager; write that or remove it";
        r.fault(&notify::ALERTMANAGER_TOKEN_FILE, reason);
    }
    let silences = r.silences(&notify::SILENCE);
    let length = r.duration(&notify::SILENCE_FOR);
    url.map(|url| Alertmanager {
        to: Address::Url(url),
        token_file: token_file.map(PathBuf::from),
        silences,
        timeout,
        length,
    })
}

fn fleet_lock(r: &mut Reader<'_>) -> Option<FleetLock> {
    let listen = r.maybe(&fleet_lock::LISTEN_ON);
    let user = r.word(&fleet_lock::CLIENT);
    let (id, group) = (r.maybe(&fleet_lock::ID), r.word(&fleet_lock::GROUP));
    let reboot_within = r.duration(&fleet_lock::REBOOT_WITHIN);
    let listen = listen.as_deref().and_then(Listen::new);
    listen.map(|listen| FleetLock {
        listen,
        user,
        id,
        group,
        reboot_within,
    })
}

fn metrics(r: &mut Reader<'_>) -> Metrics {
    let listen = r.maybe(&metrics::LISTEN_ON);
    Metrics {
        listen: listen.as_deref().and_then(Listen::new),
        textfile: r.maybe(&metrics::TEXTFILE).map(PathBuf::from),
    }
}

#[cfg(test)]
mod tests;
