//! Verbs without the name of a node: this host's own daemon is asked, over D-Bus.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use jiff::Timestamp;
use kube_rebootd_core::order::Order;
use kube_rebootd_core::record::Record;
use kube_rebootd_core::text::{MESSAGE, clean};
use kube_rebootd_core::trigger::{BY_ANNOTATION, Keeper};

use zbus::{DBusError as _, Error, fdo};

use super::{access, block_on, complain, exit, print, status, wish};
use crate::host::Bus;
use crate::host::bus::{BusError, within};
use crate::host::dbus::{INTERFACE, NAME, NOT_NOW, PATH};
use crate::root::Root;

/// Longer than the daemon takes to say that it did not come to it.
const PATIENCE: Duration = Duration::from_secs(25);

/// Has the daemon do it, and tells what it said.
pub fn main(root: &Root, file: Option<&Path>, order: &Order) -> ExitCode {
    // As it was before: the daemon knows by now what it is to take back.
    let annotated = matches!(order, Order::Cancel) && annotated(root);
    let done = block_on(async {
        match given(&Bus::system(), order).await {
            Ok(lines) => {
                print(&format!("{}\n", lines.join("\n")));
                ExitCode::SUCCESS
            }
            Err(err) => failed(&err),
        }
    });
    if annotated && done == ExitCode::SUCCESS {
        return access::cancel_own(root, file);
    }
    done
}

/// What stands there where nobody gives a reason: who, and when.
pub fn by() -> String {
    let user = std::env::var("SUDO_USER").unwrap_or_else(|_| "root".to_owned());
    wish::by(&user, Timestamp::now())
}

/// The annotation of the own Node asks for the reboot, which every kubectl may have set.
fn annotated(root: &Root) -> bool {
    let request = |record: Record| record.request;
    let request = status::record(root).ok().flatten().and_then(request);
    request.is_some_and(|it| it.latched.iter().any(|wish| wish.by == BY_ANNOTATION))
}

/// What the daemon behind this bus says that it did.
pub async fn given(bus: &Bus, order: &Order) -> Result<Vec<String>, BusError> {
    let connection = bus.connect_for(PATIENCE).await?;
    within(PATIENCE, "asking kube-rebootd", async {
        let (to, path, on) = (Some(NAME), PATH, Some(INTERFACE));
        let answer = match order {
            Order::Reboot {
                reason,
                now,
                kind: None,
            } => {
                let body = (reason.as_str(), *now);
                connection
                    .call_method(to, path, on, "Reboot", &body)
                    .await?
            }
            Order::Reboot {
                reason,
                now,
                kind: Some(kind),
            } => {
                let body = (reason.as_str(), *now, kind.name());
                connection
                    .call_method(to, path, on, "RebootBy", &body)
                    .await?
            }
            Order::Drain { keeper, reason } => {
                let method = match keeper {
                    Keeper::Person => "Drain",
                    Keeper::Script => "Hold",
                };
                let body = reason.as_str();
                connection.call_method(to, path, on, method, &body).await?
            }
            Order::Cancel | Order::Retry | Order::Undrain(_) => {
                let method = match order {
                    Order::Cancel => "Cancel",
                    Order::Undrain(Keeper::Person) => "Undrain",
                    Order::Undrain(Keeper::Script) => "Release",
                    _ => "Retry",
                };
                connection.call_method(to, path, on, method, &()).await?
            }
        };
        answer.body().deserialize()
    })
    .await
}

/// Somebody has said no: it is not done. Without an answer it may be.
pub(super) fn refused(err: &BusError) -> bool {
    match err {
        BusError::Connect(_) => true,
        BusError::Timeout { .. } => false,
        BusError::Call { source, .. } => match source {
            Error::MethodError(..) => true,
            Error::FDO(standard) => !matches!(
                &**standard,
                // The daemon may have ended after it did it, and before it said so.
                fdo::Error::NoReply(_)
                    | fdo::Error::Timeout(_)
                    | fdo::Error::TimedOut(_)
                    | fdo::Error::Disconnected(_)
                    | fdo::Error::NameHasNoOwner(_)
                    | fdo::Error::ServiceUnknown(_)
            ),
            _ => false,
        },
    }
}

/// Which error this is, and what helps.
pub(super) fn failed(err: &BusError) -> ExitCode {
    let source = match err {
        BusError::Call { source, .. } => source,
        BusError::Connect(_) | BusError::Timeout { .. } => {
            complain(err);
            return ExitCode::from(exit::FAILED);
        }
    };
    let said = || clean(source.description().unwrap_or_default(), MESSAGE);
    let (words, code) = match source {
        Error::MethodError(name, ..) if name.as_str() == NOT_NOW => (said(), exit::NOT_NOW),
        Error::FDO(standard) => match &**standard {
            fdo::Error::ServiceUnknown(_) | fdo::Error::NameHasNoOwner(_) => (
                "the daemon does not run, or is not on the bus: `kube-rebootd status` tells"
                    .to_owned(),
                exit::NOT_RUNNING,
            ),
            fdo::Error::AccessDenied(_) => {
                ("only root may ask for this: sudo".to_owned(), exit::DENIED)
            }
            fdo::Error::UnknownMethod(_)
            | fdo::Error::UnknownObject(_)
            | fdo::Error::UnknownInterface(_) => (
                "the daemon that runs is older than this program: systemctl restart kube-rebootd"
                    .to_owned(),
                exit::FAILED,
            ),
            other => (
                clean(other.description().unwrap_or_default(), MESSAGE),
                exit::FAILED,
            ),
        },
        _ => (err.to_string(), exit::FAILED),
    };
    complain(&words);
    ExitCode::from(code)
}
