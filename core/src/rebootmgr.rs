//! rebootmgr's varlink interface: what its clients ask, as `rebootmgrctl` and transactional-update do, and what they are answered.
//!
//! A reboot that is asked for here waits for the node's turn as any other. Keeps I14 (only root changes anything; parameters are
//! looked at one by one). Sources: `src/rebootmgrd.c`, `src/rebootmgrctl.c` and `src/varlink-org.openSUSE.rebootmgr.c` of
//! `SUSE/rebootmgr` 3.3.

use serde_json::{Map, Value, json};
use thiserror::Error;

use crate::kind::Kind;
use crate::order::OrderError;
use crate::phase::Phase;
use crate::text::{MESSAGE, clean};
use crate::varlink::{self, Answer, Call, Fault};

/// Where rebootmgr's clients look for it: `RM_VARLINK_SOCKET` of `src/rebootmgr.h`.
pub const SOCKET: &str = "/run/rebootmgr/rebootmgrd.socket";
pub const INTERFACE: &str = "org.openSUSE.rebootmgr";
const DESCRIPTION: &str = include_str!("rebootmgr/org.openSUSE.rebootmgr.varlink");

/// `by` of the request that `Reboot` makes. Updaters make it by themselves: it counts as any that no person made.
pub const BY: &str = "rebootmgrctl reboot";
/// The same with `Force`, which no updater sends: a person's.
pub const BY_NOW: &str = "rebootmgrctl reboot now";
/// The same of a soft-reboot.
pub const BY_SOFT: &str = "rebootmgrctl soft-reboot";
pub const BY_SOFT_NOW: &str = "rebootmgrctl soft-reboot now";
/// What is kept as its reason.
pub(crate) const REASON: &str = "asked for at the socket of rebootmgr";

/// When a reboot will be. `rebootmgrctl` says "The reboot got scheduled for", and this.
pub const TURN: &str = "its turn among the nodes of the cluster (kube-rebootd status)";
const GOING_DOWN: &str = "now: the host goes down";

/// `RM_RebootMethod`.
const HARD: i64 = 1;
const SOFT: i64 = 2;
const METHODS: &str = "Reboot must be 1, a full reboot, or 2, a soft-reboot";
/// `RM_RebootStrategy`: "best-effort" is in a window where there is one, else at once.
const BEST_EFFORT: i64 = 1;

/// What changes something, and is the loop's business.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ask {
    Reboot {
        kind: Kind,
        /// `rebootmgrctl reboot now`.
        now: bool,
    },
    /// Takes back what `Reboot` has asked for.
    Cancel,
}

impl Ask {
    /// The command of `rebootmgrctl` that asks so.
    pub fn name(self) -> &'static str {
        match self {
            Self::Reboot { kind, now } => match (kind, now) {
                (Kind::Reboot, false) => BY,
                (Kind::Reboot, true) => BY_NOW,
                (Kind::SoftReboot, false) => BY_SOFT,
                (Kind::SoftReboot, true) => BY_SOFT_NOW,
            },
            Self::Cancel => "rebootmgrctl cancel",
        }
    }
}

/// Why it is not done.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum No {
    #[error("it is asked for already, and `rebootmgrctl cancel` takes that back")]
    Asked,
    #[error(
        "nobody asked for a reboot here; `kube-rebootd status` says what else asks for one, and `kube-rebootd cancel` ends that"
    )]
    NotAsked,
    #[error(transparent)]
    Order(#[from] OrderError),
    #[error("too much was asked at once; ask again in a moment")]
    Busy,
    #[error(
        "kube-rebootd did not come to it in time, and may still do it: `kube-rebootd status` tells"
    )]
    Late,
    #[error("kube-rebootd ends")]
    Ends,
}

/// Whether a reboot is asked for, by anybody.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Stands {
    #[default]
    Nothing,
    /// It waits for its turn.
    Waits,
    /// The node has its slot, and is on its way.
    Due,
}

impl Stands {
    /// Of a node on which something asks for a reboot.
    pub(crate) fn of(phase: Phase) -> Self {
        match phase {
            Phase::Idle | Phase::Pending | Phase::Queued | Phase::Drained | Phase::Undoing => {
                Self::Waits
            }
            Phase::Claiming | Phase::Draining | Phase::Rebooting => Self::Due,
            // That was done.
            Phase::Verifying | Phase::Releasing => Self::Nothing,
        }
    }

    /// `RM_RebootStatus`. For the last `rebootmgrctl` says that it waits for a window.
    fn number(self) -> i64 {
        match self {
            Self::Nothing => 0,
            Self::Due => 1,
            Self::Waits => 2,
        }
    }
}

/// What everybody is shown.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Shown {
    pub stands: Stands,
    /// Of the reboot that is asked for.
    pub kind: Kind,
    /// In place of a time, which nobody knows.
    pub when: String,
    /// Paused, or only looking.
    pub disabled: bool,
}

/// What one call comes to.
#[derive(Debug, Clone, PartialEq)]
pub enum Wants {
    Answered(Value),
    /// For the loop.
    Asks(Ask),
}

/// What this call wants. `root`: whoever asks is.
///
/// # Errors
/// It is refused, and why.
pub fn wants(call: &Call, root: bool, shown: &Shown) -> Result<Wants, Fault> {
    let unknown = || Fault::unknown(&call.method);
    let (interface, method) = call.method.rsplit_once('.').ok_or_else(unknown)?;
    match interface {
        INTERFACE => own(call, method, root, shown),
        varlink::SERVICE => service(call, method).map(Wants::Answered),
        _ => Err(unknown()),
    }
}

fn own(call: &Call, method: &str, root: bool, shown: &Shown) -> Result<Wants, Fault> {
    let given = &call.parameters;
    let ask = match method {
        "Ping" => {
            known(given, &[])?;
            return Ok(Wants::Answered(json!({"Alive": true})));
        }
        "Status" | "FullStatus" => {
            known(given, &[])?;
            return Ok(Wants::Answered(status(shown, method == "FullStatus")));
        }
        "Reboot" => reboot(given)?,
        "Cancel" => {
            known(given, &[])?;
            Ask::Cancel
        }
        "SetStrategy" | "SetWindow" | "Quit" | "SetLogLevel" | "GetEnvironment" => {
            return Err(Fault::unserved(&call.method));
        }
        _ => return Err(Fault::unknown(&call.method)),
    };
    if root {
        Ok(Wants::Asks(ask))
    } else {
        Err(Fault::denied())
    }
}

fn reboot(given: &Map<String, Value>) -> Result<Ask, Fault> {
    known(given, &["Reboot", "Force"])?;
    let Some(method) = given.get("Reboot").and_then(Value::as_i64) else {
        return Err(Fault::invalid("Reboot", METHODS));
    };
    let now = match given.get("Force") {
        None | Some(Value::Null) => false,
        Some(Value::Bool(force)) => *force,
        Some(_) => return Err(Fault::invalid("Force", "Force must be true or false")),
    };
    let kind = match method {
        HARD => Kind::Reboot,
        SOFT => Kind::SoftReboot,
        _ => return Err(Fault::invalid("Reboot", METHODS)),
    };
    Ok(Ask::Reboot { kind, now })
}

fn number(kind: Kind) -> i64 {
    match kind {
        Kind::Reboot => HARD,
        Kind::SoftReboot => SOFT,
    }
}

/// As rebootmgr does: a parameter that it does not know may be one that matters.
fn known(given: &Map<String, Value>, names: &[&str]) -> Result<(), Fault> {
    match given.keys().find(|name| !names.contains(&name.as_str())) {
        Some(other) => Err(Fault::invalid(other, "there is no such parameter")),
        None => Ok(()),
    }
}

fn service(call: &Call, method: &str) -> Answer {
    let given = &call.parameters;
    match method {
        "GetInfo" => {
            known(given, &[])?;
            Ok(json!({
                "vendor": "kube-rebootd",
                "product": "kube-rebootd, in place of rebootmgr",
                "version": env!("CARGO_PKG_VERSION"),
                "url": env!("CARGO_PKG_REPOSITORY"),
                "interfaces": [varlink::SERVICE, INTERFACE],
            }))
        }
        "GetInterfaceDescription" => {
            known(given, &["interface"])?;
            let Some(interface) = given.get("interface").and_then(Value::as_str) else {
                return Err(Fault::invalid("interface", "the name of an interface"));
            };
            let description = match interface {
                INTERFACE => DESCRIPTION,
                varlink::SERVICE => varlink::DESCRIPTION,
                other => return Err(Fault::no_interface(other)),
            };
            Ok(json!({ "description": description }))
        }
        _ => Err(Fault::unknown(&call.method)),
    }
}

fn status(shown: &Shown, full: bool) -> Value {
    let mut fields = Map::new();
    let mut field = |name: &str, value: Value| fields.insert(name.to_owned(), value);
    field("RebootStatus", shown.stands.number().into());
    field("RebootDisabled", shown.disabled.into());
    if full {
        field("RebootStrategy", BEST_EFFORT.into());
    }
    if shown.stands != Stands::Nothing {
        field("RequestedMethod", number(shown.kind).into());
        field("RebootTime", clean(&shown.when, MESSAGE).into());
    }
    Value::Object(fields)
}

/// What is answered to `ask` when the loop has said what came of it.
///
/// # Errors
/// By rebootmgr's own names.
pub fn answer(ask: Ask, done: &Result<(), No>) -> Answer {
    let method = match ask {
        Ask::Reboot { kind, .. } => number(kind),
        Ask::Cancel => HARD,
    };
    let scheduled = |when: &str| json!({"Method": method, "Scheduled": when});
    match (ask, done) {
        (Ask::Reboot { .. }, Ok(())) => Ok(scheduled(TURN)),
        (Ask::Cancel, Ok(())) => Ok(json!({"Success": true})),
        (_, Err(No::Asked)) => Err(error("AlreadyInProgress", scheduled(TURN))),
        (_, Err(No::NotAsked)) => Err(error("NoRebootScheduled", json!({}))),
        (Ask::Reboot { .. }, Err(No::Order(OrderError::GoingDown))) => {
            Err(error("AlreadyInProgress", scheduled(GOING_DOWN)))
        }
        (_, Err(No::Order(why @ OrderError::NoSoftReboot(_)))) => Err(error(
            "InvalidParameter",
            json!({"Reason": clean(&why.to_string(), MESSAGE)}),
        )),
        (_, Err(why @ (No::Order(_) | No::Busy | No::Late | No::Ends))) => Err(error(
            "InternalError",
            json!({"Reason": clean(&why.to_string(), MESSAGE)}),
        )),
    }
}

fn error(name: &str, parameters: Value) -> Fault {
    Fault::new(format!("{INTERFACE}.{name}"), parameters)
}

#[cfg(test)]
mod tests;
