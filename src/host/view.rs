//! `/run/kube-rebootd.view.json`: what the running daemon sees, for `kube-rebootd status` and `explain`.
//!
//! It is written when it changes, and so nothing in it counts down: times are moments of the boot clock, which whoever shows
//! them compares with now.
//!
//! It is for display alone: nobody decides upon it, so it is not flushed, and a failed write is nobody's
//! trouble. It names the process that wrote it, so that one of a daemon that ended is not believed.

use std::io;
use std::time::Duration;

use jiff::Timestamp;
use kube_rebootd_core::kind::Kind;
use kube_rebootd_core::phase::Phase;
use serde::{Deserialize, Serialize};

use super::replace::replace;
use crate::bounded;
use crate::root::Root;

/// In memory: it ends with the boot.
pub const PATH: &str = "/run/kube-rebootd.view.json";
/// A gate or a pod is a line; a node has at most some hundred pods.
const MAX_BYTES: u64 = 1024 * 1024;
/// As the state file: it names pods and reasons.
const MODE: u32 = 0o600;

/// What one process saw last.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct View {
    /// Who wrote it.
    pub pid: u32,
    /// Of that daemon.
    pub version: String,
    /// Name of the own Node; none until the API server has told it.
    pub node: Option<String>,
    pub group: String,
    pub phase: Option<Phase>,
    /// What keeps the phase from ending: each closed gate, or what is missing after the boot.
    pub waits: Vec<String>,
    /// The commands by which somebody wants the node drained and kept so.
    pub kept_by: Vec<String>,
    /// The group's slots that somebody holds.
    pub holders: Vec<Holder>,
    /// Pods that cannot leave now.
    pub blockers: Vec<Blocked>,
    /// What is wrong with the configuration files, a line each; empty: they are in use.
    #[serde(default)]
    pub config_error: Vec<String>,
    /// Of each of them file, line and key alone, for D-Bus: what is written in the files may be a secret.
    #[serde(skip)]
    pub config_places: Vec<String>,
    // What an older daemon that still runs does not write is empty.
    /// The reason of the condition `RebootRequired`.
    #[serde(default)]
    pub reason: String,
    /// Every configured trigger.
    #[serde(default)]
    pub triggers: Vec<Trigger>,
    /// Every gate.
    #[serde(default)]
    pub gates: Vec<Gate>,
    /// `reboot.max_per_day` is reached until then.
    #[serde(default)]
    pub limited: Option<Timestamp>,
    /// Boot time until which a request that came and went waits.
    #[serde(default)]
    pub flapping: Option<Duration>,
    /// Since when this node waits for a slot; none: it has no place in the queue.
    #[serde(default)]
    pub queued: Option<Timestamp>,
    /// Of the reboot that is asked for; none: none is.
    #[serde(default)]
    pub kind: Option<Kind>,
}

/// What one trigger says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trigger {
    pub trigger: String,
    pub verdict: Verdict,
    /// For people.
    pub words: String,
    /// Boot time since which it says so.
    pub since: Duration,
    /// Boot time from which it counts, if it goes on to ask; none: it does not ask.
    pub settles: Option<Duration>,
}

/// What a trigger says; in `explain --json` by these names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    Yes,
    No,
    Unknown,
    /// It asks for what the last reboot was for, and is ignored (I10).
    NotCleared,
    /// The file is there still that the last soft-reboot was for, and asks for nothing.
    Served,
}

/// How one gate stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gate {
    /// [`kube_rebootd_core::gates::Gate::name`]
    pub gate: String,
    pub state: State,
    /// Why it is closed or unknown.
    pub why: Option<String>,
    /// Boot time since which it stands so.
    pub since: Duration,
    /// Boot time at which it opens by itself, when that is known.
    pub opens: Option<Duration>,
    /// The same in words, where it is closed and there is no time for it.
    pub opens_when: Option<String>,
}

/// How a gate stands; in `explain --json` by these names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    Open,
    Closed,
    Unknown,
    /// It would be closed, and `gates.force_after` passes over it.
    Forced,
    /// Nobody looks, as nothing asks for a reboot, or somebody keeps the node drained.
    NotLookedAt,
}

/// A slot and who holds it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    pub slot: String,
    pub node: String,
}

/// A pod that cannot leave now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Blocked {
    /// namespace/name
    pub pod: String,
    pub why: String,
    pub budget: Option<String>,
}

/// Replaces it as a whole.
pub fn write(root: &Root, view: &View) -> io::Result<()> {
    let text = serde_json::to_string(view)?;
    replace(&root.path(PATH), &text, MODE)
}

/// What process `pid` wrote; none: nothing that can be read, or another process did.
pub fn read(root: &Root, pid: u32) -> Option<View> {
    let text = bounded::text(&root.path(PATH), MAX_BYTES).ok()?;
    let view: View = serde_json::from_str(&text).ok()?;
    (view.pid == pid).then_some(view)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn only_what_the_running_daemon_wrote_is_believed() {
        let dir = tempfile::tempdir().expect("a directory");
        let root = Root::at(dir.path());
        let view = View {
            pid: 7,
            node: Some("n1".to_owned()),
            ..View::default()
        };
        // Nowhere to write it.
        assert!(write(&root, &view).is_err());
        assert_eq!(read(&root, 7), None);
        fs::create_dir(dir.path().join("run")).expect("made");
        write(&root, &view).expect("written");
        assert_eq!(read(&root, 7), Some(view));
        assert_eq!(read(&root, 8), None, "a daemon that ended");
        fs::write(root.path(PATH), "{").expect("written");
        assert_eq!(read(&root, 7), None);
    }
}
