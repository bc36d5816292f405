//! The configuration: typed, validated, every value with the file it came from (I12).
//!
//! `keys` holds all that is known of each key: nothing of it stands elsewhere. `file` turns one text into values with
//! lines, `parse` turns the merged values into [`Config`] or into all their problems at once, `reader` takes one value by
//! what `keys` says, `changes` compares what two of them read. Whoever reads the files passes their texts to [`merged`].

mod changes;
mod duration;
mod file;
mod keys;
mod listen;
mod parse;
mod preset;
mod reader;
mod unknown;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use jiff::Timestamp;

pub use crate::label::{is_dns_label, is_label_value, is_subdomain};
pub use changes::{Bound, Change, What, changes};
pub use duration::parse as duration;
pub use file::{ConfigError, Problem};
pub use keys::{Entry, Section, Table};
pub use listen::Listen;
pub use parse::{Effective, merged, parse, parse_effective, reference, to_end_a_hold};
pub use preset::Preset;

pub use crate::drain::Mode as DrainMode;
pub use crate::shutdown::Adoption;
pub use crate::trigger::Builtin;

use crate::alerts::Source;
use crate::budget::MaxUnavailable;
use crate::condition::Unwanted;
use crate::drain;
use crate::gates::Force;
use crate::kind::{Kind, Kinds};
use crate::matcher::Matchers;
use crate::protected::Protection;
use crate::topic::{Template, Topic};
use crate::users::Users;
use crate::windows::{Close, Windows};

/// All settings, within the ranges of `keys`. `Config::default()` is what a host without any file runs on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Whether it acts.
    pub mode: Mode,
    /// `[node]`
    pub node: Node,
    /// `[coordination]`
    pub coordination: Coordination,
    /// `[triggers]`
    pub triggers: Triggers,
    /// `[drain]`
    pub drain: Drain,
    /// `[reboot]`
    pub reboot: Reboot,
    /// `[health]`
    pub health: Health,
    pub hooks: Hooks,
    /// `[gates]`
    pub gates: Gates,
    /// `[notify]`
    pub notify: Notify,
    /// `[metrics]`
    pub metrics: Metrics,
    /// `[fleet_lock]`; none: nothing is served.
    pub fleet_lock: Option<FleetLock>,
}

impl Config {
    /// What it makes of those who ask for a reboot; `staged`: a deployment is to come with the next boot.
    pub(crate) fn kinds(&self, staged: bool) -> Kinds {
        Kinds {
            unnamed: self.reboot.kind,
            by_command: matches!(self.reboot.method, Method::Command(_)),
            staged,
        }
    }

    /// The longest that a drain may take here, by the configuration; zero where nothing is drained.
    pub(crate) fn longest_drain(&self) -> Duration {
        let drain = match self.drain.mode {
            DrainMode::Never => Duration::ZERO,
            DrainMode::Auto | DrainMode::Always => self.drain.policy.timeout,
        };
        let drain = drain.saturating_add(self.rest());
        drain.saturating_add(self.reboot.delay)
    }

    /// What a drain waits for before its first eviction, at most.
    pub(crate) fn rest(&self) -> Duration {
        let policy = &self.drain.policy;
        let only = match self.drain.mode {
            DrainMode::Never => Duration::ZERO,
            DrainMode::Auto | DrainMode::Always => policy.cordon_only,
        };
        policy.load_balancer_wait.max(only)
    }

    /// The longest drain and the longest boot.
    pub(crate) fn longest_reboot(&self) -> Duration {
        self.longest_drain().saturating_add(self.health.timeout)
    }
}

/// `mode`: the one key outside any table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Active,
    /// Says what it would do, and takes no slot.
    Observe,
}

/// `[node]`: which kubeconfig speaks for this host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Absolute path; `None` searches the kubelet's (docs/design.md 3).
    pub kubeconfig: Option<PathBuf>,
    /// Context in it; `None` is its current context.
    pub context: Option<String>,
    /// Node name, only for identities that are not the node's own.
    pub name: Option<String>,
}

/// `[coordination]`: where the slots are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Coordination {
    /// Namespace of the Leases, a DNS label.
    pub namespace: String,
    /// Group of this node.
    pub group: Group,
    /// Node label whose value names the group; the Node without it is in `group`.
    pub group_label: Option<String>,
    /// Service account in `namespace` to impersonate; `None` uses the node's identity plainly.
    pub impersonate: Option<String>,
    /// Absolute path of an identity of its own, instead of the impersonation.
    pub kubeconfig: Option<PathBuf>,
    /// The impersonation says which node it is (`manifests --strict`).
    pub prove_node: bool,
    /// At so many Nodes that are not Ready or cordoned no slot is taken.
    pub max_unavailable: MaxUnavailable,
    /// Whether Nodes that somebody cordoned count among them.
    pub count_cordoned: bool,
    /// From the end of one hold of the group to the next take; zero for none.
    pub min_interval: Duration,
    /// How long a holder's Node must be gone before its slot is cleared.
    pub stale_after: Duration,
    /// For how long after a hold autoscalers are kept from the Node; zero: never.
    pub autoscaler_protect: Duration,
}

impl Coordination {
    /// The group of the node with these labels: the value of `group_label` where that is configured and set, else
    /// the configured name.
    pub fn group_of(&self, labels: &BTreeMap<String, String>) -> String {
        let label = self.group_label.as_ref();
        let labelled = label.and_then(|label| labels.get(label));
        let labelled = labelled.filter(|group| !group.is_empty());
        labelled.cloned().unwrap_or_else(|| self.group.to_string())
    }
}

/// A group's name: a Kubernetes label value of 1 to 63 characters.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Group(String);

/// `[triggers]`: what says that a reboot is required.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Triggers {
    /// Absolute host paths.
    pub sentinels: Vec<PathBuf>,
    /// Whether the Node annotation `kube-rebootd/reboot` is a trigger.
    pub node_annotation: bool,
    /// What becomes of a shutdown that somebody else scheduled.
    pub scheduled_shutdown: Adoption,
    /// `update_engine` is asked over D-Bus.
    pub update_engine: bool,
    /// rebootmgr's varlink interface is served.
    pub rebootmgr: bool,
    /// Slow poll of the sentinels and period of the built-in checks.
    pub period: Duration,
    /// How long a sentinel must stand before it counts.
    pub settle: Duration,
    /// Built-in checks, none twice.
    pub builtin: Vec<Builtin>,
    /// How long what a built-in check says must stand before it counts.
    pub builtin_settle: Duration,
    /// `[[triggers.check]]`, names are unique.
    pub checks: Vec<Check>,
}

/// `[[triggers.check]]`: a command whose exit code answers (I8: any other code is unknown).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// Its name in reasons and unit names: a label value, 1 to 63 characters.
    pub name: String,
    /// Where command and codes came from, if not written out.
    pub preset: Option<Preset>,
    /// Argument vector, never empty.
    pub command: Vec<String>,
    /// Exit codes that require a reboot, never empty, none of `ok_exit_codes`.
    pub reboot_exit_codes: Vec<u8>,
    /// Exit codes that say no reboot is required.
    pub ok_exit_codes: Vec<u8>,
    /// From one start to the next.
    pub period: Duration,
    /// After this the run is killed and unknown; shorter than `period`.
    pub timeout: Duration,
    /// How long the answer must stand before it counts.
    pub settle: Duration,
}

impl Check {
    /// What must be said for a reboot code to count; none where another command than the preset's runs.
    pub fn words(&self) -> Option<&'static str> {
        let preset = self.preset?;
        let own = preset.command().is_some_and(|own| self.command == own);
        if own { preset.words() } else { None }
    }
}

/// `[drain]`: how pods leave (I9).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Drain {
    /// Whether to evict.
    pub mode: DrainMode,
    /// How.
    pub policy: drain::Policy,
}

/// `[reboot]`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reboot {
    /// Of who names none.
    pub kind: Kind,
    /// Who is asked.
    pub method: Method,
    /// Between the end of the drain and the request.
    pub delay: Duration,
    /// How long a shutdown may take to begin.
    pub timeout: Duration,
    /// Automatic reboots in 24 hours of host time (I10).
    pub max_per_day: u32,
    /// First pause after a failed attempt; doubles up to 6 h.
    pub retry: Duration,
    /// Every other shutdown is inhibited.
    pub guard: bool,
    /// Wall message.
    pub message: String,
}

/// `reboot.method`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Method {
    /// logind's `Reboot` on the system bus.
    Logind,
    /// An argument vector, never empty.
    Command(Vec<String>),
}

/// `[health]`: when a boot counts as proved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Health {
    /// After this the node is reported as not healthy; it keeps its slot.
    pub timeout: Duration,
    /// systemd's `degraded` is good enough.
    pub allow_degraded: bool,
    /// `boot-complete.target` must be reached.
    pub boot_complete: bool,
    /// How long Ready must have held.
    pub ready_for: Duration,
    /// DaemonSet pods that were ready before must be ready again.
    pub pods: bool,
}

/// `[hooks]`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hooks {
    /// After this a hook that changes something, or says whether the host is healthy, is ended.
    pub timeout: Duration,
}

/// `[gates]`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gates {
    /// Host uptime below which no reboot begins.
    pub min_uptime: Duration,
    /// `[[windows]]` and `gates.exclude_dates`.
    pub windows: Windows,
    /// What becomes of a drain when its window closes.
    pub window_close: Close,
    /// How long after it a reboot may begin, with [`Close::Finish`].
    pub window_overrun: Duration,
    /// Windows count only while the clock is synchronized.
    pub synchronized: bool,
    /// Other daemons that reboot hosts close a gate.
    pub rivals: bool,
    /// How long a Pod of the cluster waits for room before that closes a gate; zero: it closes none.
    pub capacity_wait: Duration,
    /// How long a newer kernel waits while the running one is patched live; zero: not at all.
    pub live_patch_wait: Duration,
    /// URLs of the API servers of the control plane.
    pub api_servers: Vec<String>,
    /// Conditions of the own Node that close a gate.
    pub conditions: Vec<Unwanted>,
    /// Pods that a reboot waits for.
    pub protection: Protection,
    /// `[[gates.prometheus]]`, names are unique.
    pub prometheus: Vec<Source>,
    /// `[[gates.command]]`, names are unique.
    pub commands: Vec<GateCommand>,
    /// What somebody who is logged in means.
    pub users: Users,
    /// Who typed nothing for so long is not at work any more.
    pub users_idle: Duration,
    /// From the warning of users to the drain.
    pub users_delay: Duration,
    /// Which gates an old request passes over; it has both an age and gates, or neither.
    pub force: Force,
}

impl Gates {
    /// Something is decided by the host's wall clock, which has to be synchronized for that.
    pub fn rest_on_clock(&self) -> bool {
        self.synchronized && !(self.windows.none() && self.force.after.is_zero())
    }
}

/// `[[gates.command]]`: a command whose exit code says whether a reboot may begin (I8: any other code is unknown).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct GateCommand {
    /// Its name in messages and unit names: a label value, 1 to 63 characters.
    pub name: String,
    /// Argument vector, never empty.
    pub command: Vec<String>,
    /// After this the run is killed and unknown.
    pub timeout: Duration,
    /// From one start to the next.
    pub period: Duration,
}

/// `[metrics]`: where Prometheus finds them; by default nowhere.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Metrics {
    /// Where HTTP is spoken.
    pub listen: Option<Listen>,
    /// Absolute path of a file for `node_exporter`; it ends with `.prom`.
    pub textfile: Option<PathBuf>,
}

impl Metrics {
    /// Nobody is shown anything.
    pub fn off(&self) -> bool {
        *self == Self::default()
    }
}

impl Config {
    /// Why no window opens for long from `now` on, for people; none: one does, or there is none.
    pub fn shut_for_long(&self, now: Timestamp) -> Option<String> {
        let windows = &self.gates.windows;
        windows.shut_for_long(now).then(|| {
            "leaves out each day on which a window would open within the next two years: no reboot begins before; take dates away"
                .to_owned()
        })
    }

    /// How long the shutdown may take to begin once logind was asked; `granted`: once a client of FleetLock was told to go on.
    pub fn reboot_within(&self, granted: bool) -> Duration {
        let client = self.fleet_lock.as_ref().filter(|_| granted);
        client.map_or(self.reboot.timeout, |client| client.reboot_within)
    }
}

/// `[fleet_lock]`: where the updater of this host asks whether it may reboot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FleetLock {
    /// Only this host reaches it.
    pub listen: Listen,
    /// Name of the user who may ask, besides root.
    pub user: String,
    /// The id of the client; none: what is made of the host's machine id.
    pub id: Option<String>,
    pub group: String,
    /// From the yes to the shutdown.
    pub reboot_within: Duration,
}

/// `[notify]`: who is told of a reboot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notify {
    pub webhook: Option<Webhook>,
    /// Argument vector; empty: none.
    pub command: Vec<String>,
    /// What is told; empty: all.
    on: Vec<Topic>,
    /// For one try.
    pub timeout: Duration,
    /// Whether the host says it at its login.
    pub motd: bool,
    pub alertmanager: Option<Alertmanager>,
}

impl Notify {
    /// Whether somebody is to be told of this.
    pub fn wants(&self, topic: Topic) -> bool {
        self.on.is_empty() || self.on.contains(&topic)
    }
}

/// Where notices are posted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Webhook {
    pub to: Address,
    /// Absolute path of a file whose first line is a bearer token.
    pub token_file: Option<PathBuf>,
    pub template: Template,
}

/// Who is asked to silence alerts while the node is down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alertmanager {
    pub to: Address,
    /// As of the webhook.
    pub token_file: Option<PathBuf>,
    /// One silence for each.
    pub silences: Vec<Matchers>,
    /// For one request.
    pub timeout: Duration,
    /// So long a silence lasts that is not renewed; 3 minutes to 6 hours.
    pub length: Duration,
}

/// A URL, or where it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// Of http or https.
    Url(String),
    /// Absolute path of a file whose first line it is.
    File(PathBuf),
}

impl Group {
    /// `None` when `text` is no label value of 1 to 63 characters
    /// (apimachinery `IsValidLabelValue`).
    pub fn new(text: &str) -> Option<Self> {
        is_label_value(text).then(|| Self(text.to_owned()))
    }

    /// As it stands in the label `kube-rebootd/group`.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Display for Group {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl Default for Coordination {
    fn default() -> Self {
        Config::default().coordination
    }
}

impl Default for Health {
    fn default() -> Self {
        Config::default().health
    }
}
