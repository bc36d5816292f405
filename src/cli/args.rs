//! The command line's arguments (docs/design.md 11), and how they differ for kubectl's plugin.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::error::ErrorKind;
use clap::{Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use kube_rebootd_core::config::{self, Builtin};
use kube_rebootd_core::kind::Kind;
use kube_rebootd_core::text::{WORDS, clean};

use super::check;
use crate::root::Root;

/// Reboots this Kubernetes node when the host needs it and the cluster allows it.
#[derive(Debug, Parser)]
#[command(name = "kube-rebootd", version, max_term_width = 100)]
pub struct Cli {
    #[command(flatten)]
    pub host: Host,
    #[command(subcommand)]
    pub verb: Verb,
}

/// Where the host's files are.
#[derive(Debug, Clone, Args)]
pub struct Host {
    /// Use this file instead of config.toml (drop-ins still apply).
    #[arg(long, value_name = "FILE", global = true)]
    pub config: Option<PathBuf>,
    /// Look for every host path below this directory, for tests and images.
    #[arg(long, value_name = "DIR", global = true)]
    pub root: Option<PathBuf>,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Run the daemon; systemd starts it.
    Run,
    /// What this node does and why; exits 3 when the daemon does not run, 1 when systemd does not answer.
    Status {
        /// For programs: one stable JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Why a node is where it is: its triggers, gates and limits, its place in the queue, and what would become of its pods.
    ///
    /// On a host and without NODE all of it, by this host's daemon and credential (as root); exits as `status`. With NODE what the
    /// cluster knows, from anywhere; exits 1 when a person has to look at the node or there is none, and 4 when it may not be seen whether that is
    /// so. Of each pod it is tried whether it could be evicted now, by a dry run. Nothing is changed.
    Explain {
        /// This node, by what the cluster knows [default: this host, as root].
        #[arg(value_name = "NODE", value_parser = node)]
        node: Option<String>,
        /// For programs: one stable JSON object; without NODE with all keys of `status --json`.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        cluster: Cluster,
    },
    /// What the triggers say now; exits 75 while a package manager works or something inhibits a shutdown, 1 when one does
    /// not answer.
    Check {
        /// Only this built-in check, configured or not.
        #[arg(long, value_name = "NAME", value_parser = check::builtins())]
        builtin: Vec<Builtin>,
        /// For programs: one stable JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Look for everything that would keep this node from rebooting well, and name the cures; exits 1 on a failure.
    Doctor {
        /// For programs: one stable JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Whether this boot brought a kubelet that is alive; waits for it, and exits 1 when it does not come.
    ///
    /// For `kube-rebootd-boot-ok.service`, and for greenboot: neither the API server nor the configuration nor the daemon has a say.
    /// A host that never joined a cluster has nothing to prove.
    BootOk {
        /// Where the kubelet answers: `healthzBindAddress` and `healthzPort` of its configuration.
        #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:10248")]
        healthz: SocketAddr,
        /// Wait so long for it.
        #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = duration)]
        wait: Duration,
    },
    /// Take a slot, drain this node and keep it so for maintenance, over reboots as well, until `undrain` (as root).
    ///
    /// It waits for its turn and for the budgets as a reboot does; the daemon does not reboot the host meanwhile, and you may.
    Drain {
        /// Why, for whoever looks [default: who, and when].
        #[arg(long, value_name = "TEXT", value_parser = words)]
        reason: Option<String>,
        /// Wait so long until the node is drained; exits 75 when it is not. It goes on then. Without it the verb asks, and exits 0 at
        /// once.
        #[arg(long, value_name = "DURATION", value_parser = duration)]
        wait: Option<Duration>,
    },
    /// End a `drain`: the host is proved healthy, then the node is uncordoned and its slot freed (as root).
    ///
    /// With --release what a stopped daemon holds is given back at once, whatever it is held for.
    Undrain {
        /// With the daemon stopped: uncordon, take the label off, free the slot, without a look at the host's health.
        #[arg(long, conflicts_with = "wait")]
        release: bool,
        /// Give up trying to release after this many seconds; hooks of undo.d that run then are waited for, as long as they may take.
        #[arg(long, value_name = "SECONDS", default_value_t = 30, requires = "release", value_parser = clap::value_parser!(u64).range(1..=3600))]
        timeout: u64,
        /// Wait so long until the slot is given up; exits 75 when it is not. It goes on then. Without it the verb asks, and exits 0
        /// at once.
        #[arg(long, value_name = "DURATION", value_parser = duration)]
        wait: Option<Duration>,
    },
    /// As `drain`, for scripts that reboot or repair the host themselves; until `release` (as root).
    Hold {
        /// Why, for whoever looks [default: who, and when].
        #[arg(long, value_name = "TEXT", value_parser = words)]
        reason: Option<String>,
        /// Wait so long until the node is drained; exits 75 when it is not, and takes the wish back. Without it the verb asks, and
        /// exits 0 at once.
        #[arg(long, value_name = "DURATION", value_parser = duration)]
        wait: Option<Duration>,
    },
    /// End a `hold`: the host is proved healthy, then the node is uncordoned and its slot freed (as root).
    Release {
        /// Wait so long until the slot is given up; exits 75 when it is not. It goes on then. Without it the verb asks, and exits 0
        /// at once.
        #[arg(long, value_name = "DURATION", value_parser = duration)]
        wait: Option<Duration>,
    },
    /// The group and all nodes, from anywhere: who holds a slot, who waits, who needs a person.
    ///
    /// A node that waits, but not now, keeps its place: one of its gates is closed, or an attempt has just failed. Where a
    /// person has to look at a node, its last column begins with an exclamation mark.
    Nodes {
        #[command(flatten)]
        cluster: Cluster,
        /// The slots and nodes of this group alone [default: the slots of the node's group, with its own credential, else of the
        /// configured one, and all nodes].
        #[arg(long)]
        group: Option<String>,
        /// Only nodes that a person has to look at; exit code 1 if there is one, and also if not all can be seen (not with
        /// --watch).
        #[arg(long)]
        unhealthy: bool,
        /// How many nodes were rebooted and proved within this time since the first reason was seen (`14d`, `36h`), which were
        /// not or wait for longer, and what held them.
        #[arg(long, value_name = "DURATION", value_parser = duration, conflicts_with = "unhealthy")]
        slo: Option<Duration>,
        /// Print JSON; keys are added, never renamed or removed.
        #[arg(long)]
        json: bool,
        /// Show it again whenever it changes, until Ctrl-C: on a terminal drawn anew, else what changed, a line each with a time;
        /// with --json a whole document on each line.
        #[arg(long, conflicts_with = "slo")]
        watch: bool,
    },
    /// Keep nodes, a group, or all groups from beginning a reboot, until `resume`.
    ///
    /// A node that holds a slot of a paused group goes on, reboot included. A paused node goes no further, as long as logind was
    /// not asked; where it was cordoned it stays so until `resume`.
    Pause {
        #[command(flatten)]
        whom: Whom,
        /// Why, for whoever looks [default: who, and when].
        #[arg(long, value_name = "TEXT", value_parser = words)]
        reason: Option<String>,
        #[command(flatten)]
        cluster: Cluster,
    },
    /// End a pause, whoever made it, or open new slots.
    Resume {
        #[command(flatten)]
        whom: Whom,
        /// Only what is paused for this reason.
        #[arg(long, value_name = "TEXT", value_parser = words)]
        reason: Option<String>,
        #[command(flatten)]
        cluster: Cluster,
    },
    /// Ask for a reboot when it is this host's turn, or that of the nodes: gates, slot and drain as ever.
    ///
    /// On a host and without NODE its own daemon is asked, which takes that for a person's wish: it counts for no
    /// `reboot.max_per_day`. With NODE it is an annotation on the Node, from anywhere.
    Reboot {
        /// Of these nodes [default: of this host, as root].
        #[arg(value_name = "NODE")]
        nodes: Vec<String>,
        /// Do not wait for a window, for users, for `gates.min_uptime`, or after a failed attempt; a pause, inhibitors, package
        /// managers, the slot and budgets are waited for as ever.
        #[arg(long, conflicts_with = "nodes")]
        now: bool,
        /// `reboot` is a full one, `soft-reboot` one of the userspace alone; what else asks for a full one gets it
        /// [default: reboot.kind].
        #[arg(long, value_name = "KIND", conflicts_with = "nodes", value_parser = kinds())]
        kind: Option<Kind>,
        /// Why, for whoever looks [default: who, and when].
        #[arg(long, value_name = "TEXT", value_parser = words)]
        reason: Option<String>,
        #[command(flatten)]
        cluster: Cluster,
    },
    /// Take a `reboot` back, also in the middle of its drain.
    Cancel {
        /// Of these nodes [default: of this host, as root].
        #[arg(value_name = "NODE")]
        nodes: Vec<String>,
        #[command(flatten)]
        cluster: Cluster,
    },
    /// End this host's wait after a failed attempt (as root).
    Retry,
    /// Free the slot of a node that will not give it back by itself (as an admin).
    Unlock {
        /// The node that holds.
        node: String,
        /// Also when the node is Ready, so that its own daemon could give the slot back, or said that it goes down now.
        #[arg(long)]
        force: bool,
        #[command(flatten)]
        cluster: Cluster,
    },
    /// Print the manifests that a cluster needs.
    ///
    /// Without --group and --slots they hold the rights and policies and no slot: apply them as often as you
    /// like. With one of the two the paused slots are printed as well: make those once, with
    /// `kubectl create -l kube-rebootd/group -f -`, which leaves existing slots alone.
    Manifests {
        /// The namespace of the slots [default: the configured one].
        #[arg(long)]
        namespace: Option<String>,
        /// Print slots as well, of this group [default: default].
        #[arg(long)]
        group: Option<String>,
        /// Print so many slots as well: how many nodes of the group may be down at once [default: 1].
        #[arg(long)]
        slots: Option<u32>,
        /// These nodes prove who they are (`coordination.prove_node = true` there), and write only
        /// their own name into a slot.
        #[arg(long, value_name = "NODE", num_args = 1.., conflicts_with = "constrained")]
        strict: Option<Vec<String>>,
        /// Nodes act as the coordinator for the daemon's requests only; servers from 1.36.
        #[arg(long)]
        constrained: bool,
        /// Nodes may list the pods of all namespaces as well: for `gates.capacity_wait`.
        #[arg(long)]
        capacity: bool,
    },
    /// Carry the settings of another reboot daemon over.
    #[command(subcommand)]
    Migrate(MigrateVerb),
    /// Look at or check the configuration.
    #[command(subcommand)]
    Config(ConfigVerb),
}

impl Verb {
    /// It names a cluster and none of its nodes, where only this host's daemon would be asked.
    fn misses_node(&self) -> bool {
        match self {
            Self::Reboot { nodes, cluster, .. } | Self::Cancel { nodes, cluster } => {
                nodes.is_empty() && cluster.given()
            }
            Self::Pause { whom, cluster, .. } | Self::Resume { whom, cluster, .. } => {
                whom.nobody() && cluster.given()
            }
            Self::Explain { node, cluster, .. } => node.is_none() && cluster.given(),
            _ => false,
        }
    }
}

/// Nodes, or slots.
#[derive(Debug, Clone, Args)]
#[group(required = false, multiple = false)]
pub struct Whom {
    /// These nodes [default: this host, as root, by its own credential].
    #[arg(value_name = "NODE")]
    pub nodes: Vec<String>,
    /// All slots of this group.
    #[arg(long, value_name = "NAME")]
    pub group: Option<String>,
    /// All slots of all groups.
    #[arg(long)]
    pub all: bool,
}

/// Which cluster, and as whom.
#[derive(Debug, Clone, Args)]
pub struct Cluster {
    /// Use this kubeconfig alone [default: those of $KUBECONFIG merged, else ~/.kube/config].
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Use this context of the kubeconfig [default: its current one].
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,
    /// The namespace of the slots [default: the configured one].
    #[arg(long)]
    pub namespace: Option<String>,
}

#[derive(Debug, Subcommand)]
pub enum ConfigVerb {
    /// Print the effective values, each with the file it came from.
    Show,
    /// Check files alone, or this host's own configuration.
    Check {
        /// Files to check.
        files: Vec<PathBuf>,
    },
}

#[derive(Debug, Subcommand)]
pub enum MigrateVerb {
    /// Print what the flags of a kured become: a configuration, what has no equivalent, and the order of the hand-over.
    ///
    /// The configuration goes to standard output, for a file in /etc/kube-rebootd/config.d of each node; what is to be done by hand and
    /// the hand-over go to standard error. Nothing is changed. Where a flag is not understood, it exits with 78, and the
    /// configuration only observes. Secrets are not repeated.
    Kured {
        /// The DaemonSet of kured in this file, YAML or JSON, among others as well; - is standard input [default: that of the
        /// cluster].
        #[arg(long, value_name = "FILE", conflicts_with_all = ["kubeconfig", "context"])]
        manifest: Option<PathBuf>,
        #[command(flatten)]
        cluster: Cluster,
    },
}

impl Cluster {
    fn given(&self) -> bool {
        self.kubeconfig.is_some() || self.context.is_some() || self.namespace.is_some()
    }
}

impl Whom {
    /// Neither nodes nor slots are named.
    pub(super) fn nobody(&self) -> bool {
        self.nodes.is_empty() && self.group.is_none() && !self.all
    }

    /// Nodes alone.
    pub(super) fn of(nodes: Vec<String>) -> Self {
        Self {
            nodes,
            group: None,
            all: false,
        }
    }
}

/// As in the configuration.
fn duration(text: &str) -> Result<Duration, String> {
    config::duration(text)
}

fn kinds() -> impl TypedValueParser<Value = Kind> {
    let words = Kind::WORDS.iter().map(|(word, _)| *word);
    PossibleValuesParser::new(words).map(|word| Kind::of(&word).unwrap_or_default())
}

/// One that a Node can have: it goes into paths and selectors.
fn node(text: &str) -> Result<String, &'static str> {
    if config::is_subdomain(text) {
        return Ok(text.to_owned());
    }
    Err("no Node can have this name")
}

/// An annotation without words reads as none.
fn words(text: &str) -> Result<String, &'static str> {
    match clean(text, WORDS) {
        text if text.is_empty() => Err("it has no words"),
        text => Ok(text),
    }
}

impl Host {
    /// The root of host paths.
    pub fn root(&self) -> Root {
        self.root.as_ref().map_or_else(Root::host, Root::at)
    }
}

/// What kubectl looks for in `$PATH` where somebody says `kubectl rebootd`.
const PLUGIN: &str = "kubectl-rebootd";
/// What is about the host it runs on: the plugin neither shows nor does it, as it seems to be about a node that is named.
const OF_THE_HOST: [&str; 10] = [
    "run", "status", "check", "doctor", "drain", "undrain", "hold", "release", "retry", "config",
];

/// How a person called this program.
pub(super) fn program() -> &'static str {
    let program = PathBuf::from(std::env::args_os().next().unwrap_or_default());
    match program.file_name() {
        Some(name) if name == PLUGIN => "kubectl rebootd",
        Some(_) | None => "kube-rebootd",
    }
}

/// The command line of this process; what is wrong with it ends the process.
pub fn parse() -> Cli {
    let mut command = Cli::command();
    let program = program();
    if program != "kube-rebootd" {
        command = OF_THE_HOST
            .iter()
            .fold(command.name(PLUGIN).bin_name(program), |command, verb| {
                command.mut_subcommand(verb, |verb| verb.hide(true))
            });
        // It may run anywhere: no host is meant.
        for verb in ["reboot", "cancel"] {
            command = command.mut_subcommand(verb, |verb| {
                verb.mut_arg("nodes", |nodes| nodes.required(true).help("The nodes"))
            });
        }
        command = command.mut_subcommand("reboot", |verb| {
            let verb = verb.mut_arg("now", |now| now.hide(true));
            verb.mut_arg("kind", |kind| kind.hide(true))
        });
        for verb in ["pause", "resume"] {
            command = command.mut_subcommand(verb, |verb| {
                let verb = verb.mut_group("Whom", |whom| whom.required(true));
                verb.mut_arg("nodes", |nodes| nodes.help("These nodes"))
            });
        }
        command = command.mut_subcommand("explain", |verb| {
            verb.mut_arg("node", |node| node.required(true).help("The node"))
        });
    }
    let matches = command.clone().get_matches();
    let hidden = matches
        .subcommand_name()
        .filter(|verb| program != "kube-rebootd" && OF_THE_HOST.contains(verb));
    let parsed = Cli::from_arg_matches(&matches);
    let parsed = parsed.and_then(|cli| {
        if let Some(verb) = hidden {
            let words = format!("`{verb}` is about the host on which it runs: kube-rebootd {verb}, on that host");
            return Err(command.error(ErrorKind::InvalidSubcommand, words));
        }
        if cli.verb.misses_node() {
            let words = "--kubeconfig, --context and --namespace are for nodes that are named: NODE is missing";
            return Err(command.error(ErrorKind::MissingRequiredArgument, words));
        }
        Ok(cli)
    });
    parsed.unwrap_or_else(|err| err.exit())
}
