//! What is at `/org/kuberebootd1` and `/org/freedesktop/LogControl1`, and the answer to each call, without a bus.
//!
//! Introspection answers what `packaging/dbus/org.kuberebootd1.Node.xml` says, which is installed as well: it is written
//! once.

use std::collections::BTreeMap;
use std::time::Duration;

use kube_rebootd_core::kind::Kind;
use kube_rebootd_core::order::{Order, OrderError};
use kube_rebootd_core::text::printable;
use kube_rebootd_core::trigger::Keeper;
use serde::Serialize;
use thiserror::Error;
use zbus::names::MemberName;
use zbus::{DynamicType, Message, Variant};

use super::Shown;
use crate::host::journal::{Control, IDENTIFIER};

pub const PATH: &str = "/org/kuberebootd1";
pub const INTERFACE: &str = "org.kuberebootd1.Node";
/// Error of an order that may be given again later.
pub const NOT_NOW: &str = "org.kuberebootd1.Error.NotNow";
/// Where every service has it (org.freedesktop.LogControl1(5)).
const LOG_PATH: &str = "/org/freedesktop/LogControl1";
const LOG_INTERFACE: &str = "org.freedesktop.LogControl1";

pub(super) const PROPERTIES: &str = "org.freedesktop.DBus.Properties";
const INTROSPECTABLE: &str = "org.freedesktop.DBus.Introspectable";
const PEER: &str = "org.freedesktop.DBus.Peer";

const NODE_XML: &str = include_str!("../../../packaging/dbus/org.kuberebootd1.Node.xml");
const LOG_XML: &str = include_str!("LogControl1.xml");
const STANDARD_XML: &str = include_str!("standard.xml");

/// Why a call is refused, by the error names of D-Bus.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(super) enum Refused {
    #[error("there is no such object here")]
    Object,
    #[error("this object has no such interface")]
    Interface,
    #[error("this object has no such method")]
    Method,
    #[error("this interface has no such property")]
    Property,
    #[error("this property can only be read")]
    ReadOnly,
    #[error("{0}")]
    Arguments(&'static str),
    #[error("where the log goes is decided when the daemon starts: it stays \"{0}\"")]
    Target(&'static str),
    #[error("only root may change anything here")]
    Denied,
    #[error("nothing here takes an argument of that length")]
    Long,
    #[error("too much was asked that changes something; ask again in a moment")]
    Busy,
    #[error(transparent)]
    Order(OrderError),
    #[error(
        "kube-rebootd did not come to it within {} s, and may still do it: `kube-rebootd status` tells",
        .0.as_secs()
    )]
    Late(Duration),
    #[error("kube-rebootd ends")]
    Ends,
}

impl Refused {
    fn name(&self) -> &'static str {
        match self {
            Self::Object => "org.freedesktop.DBus.Error.UnknownObject",
            Self::Interface => "org.freedesktop.DBus.Error.UnknownInterface",
            Self::Method => "org.freedesktop.DBus.Error.UnknownMethod",
            Self::Property => "org.freedesktop.DBus.Error.UnknownProperty",
            Self::ReadOnly => "org.freedesktop.DBus.Error.PropertyReadOnly",
            Self::Arguments(_) => "org.freedesktop.DBus.Error.InvalidArgs",
            Self::Target(_) => "org.freedesktop.DBus.Error.NotSupported",
            Self::Denied => "org.freedesktop.DBus.Error.AccessDenied",
            Self::Busy | Self::Long => "org.freedesktop.DBus.Error.LimitsExceeded",
            Self::Order(why) if why.passes() => NOT_NOW,
            Self::Order(_) | Self::Ends => "org.freedesktop.DBus.Error.Failed",
            Self::Late(_) => "org.freedesktop.DBus.Error.NoReply",
        }
    }
}

/// One of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Object {
    Node,
    Log,
}

impl Object {
    const ALL: [Self; 2] = [Self::Node, Self::Log];

    fn path(self) -> &'static str {
        match self {
            Self::Node => PATH,
            Self::Log => LOG_PATH,
        }
    }

    fn interface(self) -> &'static str {
        match self {
            Self::Node => INTERFACE,
            Self::Log => LOG_INTERFACE,
        }
    }

    fn of(call: &Message) -> Result<Self, Refused> {
        let header = call.header();
        let path = header.path().map_or("", |path| path.as_str());
        let known = Self::ALL.into_iter().find(|known| known.path() == path);
        known.ok_or(Refused::Object)
    }
}

/// What a call wants.
pub(super) enum Call {
    /// Here is the answer.
    Answered(Message),
    /// It changes something: [`change`], when the bus has said who asks.
    Changes,
}

/// What a call that changes something comes to.
pub(super) enum Change {
    Answered(Message),
    /// For the loop.
    Ordered(Order),
}

/// Methods of the Node that change something.
const ORDERS: [&str; 8] = [
    "Reboot", "RebootBy", "Cancel", "Retry", "Drain", "Undrain", "Hold", "Release",
];

/// Properties and their values.
pub(super) type Values = BTreeMap<&'static str, Variant<'static>>;

/// What the Node's properties are.
pub(super) fn values(shown: &Shown) -> Values {
    let view = &shown.view;
    let text = |text: &str| Variant::from(word(text));
    let holders = view.holders.iter();
    let holders: Vec<(String, String)> = holders
        .map(|one| (word(&one.slot), word(&one.node)))
        .collect();
    let blockers = view.blockers.iter();
    let blockers: Vec<(String, String, String)> = blockers
        .map(|one| {
            let budget = one.budget.as_deref().unwrap_or_default();
            (word(&one.pod), word(&one.why), word(budget))
        })
        .collect();
    let waits: Vec<String> = view.waits.iter().map(|wait| word(wait)).collect();
    // Everybody reads here.
    let places: Vec<String> = view.config_places.iter().map(|place| word(place)).collect();
    let phase = view.phase.map_or("", |phase| phase.name());
    Values::from([
        ("Version", text(&view.version)),
        ("Node", text(view.node.as_deref().unwrap_or_default())),
        ("Group", text(&view.group)),
        ("Phase", text(&phase.to_ascii_lowercase())),
        ("Kind", text(view.kind.map_or("", Kind::name))),
        ("Status", text(&shown.status)),
        ("Waits", Variant::from(waits)),
        ("KeptBy", Variant::from(view.kept_by.clone())),
        ("Holders", Variant::from(holders)),
        ("Blockers", Variant::from(blockers)),
        ("ConfigError", Variant::from(places)),
    ])
}

/// D-Bus strings hold no NUL: the bus would end a connection that sends one.
fn word(text: &str) -> String {
    printable(text).into_owned()
}

/// Those of `new` that are not as in `old`.
pub(super) fn changed(old: &Shown, new: &Shown) -> Values {
    let old = values(old);
    let mut new = values(new);
    new.retain(|name, value| old.get(name) != Some(value));
    new
}

fn log_values(log: &Control) -> Values {
    Values::from([
        ("LogLevel", Variant::from(log.level())),
        ("LogTarget", Variant::from(log.target())),
        ("SyslogIdentifier", Variant::from(IDENTIFIER)),
    ])
}

/// It may change something: all others are only answered.
pub(super) fn changes(call: &Message) -> bool {
    let header = call.header();
    let member = header.member().map(MemberName::as_str);
    member.is_some_and(|member| member == "Set" || ORDERS.contains(&member))
}

/// What one method call wants.
pub(super) fn call(call: &Message, shown: &Shown, log: &Control) -> zbus::Result<Call> {
    let header = call.header();
    let interface = header.interface().map(zbus::names::InterfaceName::as_str);
    let member = header.member().map_or("", |member| member.as_str());
    // Without an interface the method's name decides (D-Bus specification).
    let on = |known| interface.is_none_or(|interface| interface == known);
    let answer = match member {
        "Ping" if on(PEER) => answer(call, &()),
        "Introspect" if on(INTROSPECTABLE) => match introspection(call) {
            Ok(xml) => answer(call, &xml),
            Err(why) => refuse(call, &why),
        },
        "Get" if on(PROPERTIES) => match property(call, shown, log) {
            Ok(value) => answer(call, &value),
            Err(why) => refuse(call, &why),
        },
        "GetAll" if on(PROPERTIES) => match properties(call, shown, log) {
            Ok(values) => answer(call, &values),
            Err(why) => refuse(call, &why),
        },
        "Set" if on(PROPERTIES) => match Object::of(call) {
            Ok(_) => return Ok(Call::Changes),
            Err(why) => refuse(call, &why),
        },
        order if ORDERS.contains(&order) && on(INTERFACE) => match Object::of(call) {
            Ok(Object::Node) => return Ok(Call::Changes),
            Ok(Object::Log) => refuse(call, &Refused::Method),
            Err(why) => refuse(call, &why),
        },
        _ => refuse(call, &Object::of(call).err().unwrap_or(Refused::Method)),
    };
    answer.map(Call::Answered)
}

/// The answer to a call that changes something, once the bus has said which user asks.
pub(super) fn change(call: &Message, user: u32, log: &Control) -> zbus::Result<Change> {
    if user != 0 {
        return refuse(call, &Refused::Denied).map(Change::Answered);
    }
    let header = call.header();
    let done = match header.member().map_or("", |member| member.as_str()) {
        "Set" => set(call, log),
        member => match order(call, member) {
            Ok(order) => return Ok(Change::Ordered(order)),
            Err(why) => Err(why),
        },
    };
    let answer = match done {
        Ok(()) => answer(call, &()),
        Err(why) => refuse(call, &why),
    };
    answer.map(Change::Answered)
}

fn order(call: &Message, member: &str) -> Result<Order, Refused> {
    let body = call.body();
    match member {
        "Reboot" => {
            let (reason, now): (&str, bool) = body.deserialize().map_err(|_| {
                Refused::Arguments("Reboot wants a reason, and whether it is to be now")
            })?;
            Ok(Order::reboot(reason, now, None))
        }
        "RebootBy" => {
            const WRONG: Refused = Refused::Arguments(
                "RebootBy wants a reason, whether it is to be now, and \"reboot\" or \"soft-reboot\"",
            );
            let (reason, now, kind): (&str, bool, &str) = body.deserialize().map_err(|_| WRONG)?;
            let kind = Kind::of(kind).ok_or(WRONG)?;
            Ok(Order::reboot(reason, now, Some(kind)))
        }
        "Drain" | "Hold" => {
            let reason: &str = body
                .deserialize()
                .map_err(|_| Refused::Arguments("this method wants a reason"))?;
            Ok(Order::drain(keeper(member), reason))
        }
        // The signature of none.
        _ if !body.signature().to_string().is_empty() => {
            Err(Refused::Arguments("this method wants no argument"))
        }
        "Cancel" => Ok(Order::Cancel),
        "Retry" => Ok(Order::Retry),
        "Undrain" | "Release" => Ok(Order::Undrain(keeper(member))),
        _ => Err(Refused::Method),
    }
}

/// Whose method this is.
fn keeper(member: &str) -> Keeper {
    match member {
        "Hold" | "Release" => Keeper::Script,
        _ => Keeper::Person,
    }
}

fn set(call: &Message, log: &Control) -> Result<(), Refused> {
    const WRONG: Refused = Refused::Arguments("Set wants an interface, a property and a value");
    let object = Object::of(call)?;
    let body = call.body();
    let (interface, name, value): (String, String, Variant<'_>) =
        body.deserialize().map_err(|_| WRONG)?;
    owns(object, &interface)?;
    match (object, name.as_str()) {
        (Object::Log, "LogLevel") => {
            let level: String = value.downcast().map_err(|_| WRONG)?;
            let before = log.level();
            if !log.set_level(&level) {
                let why = "a level is emerg, alert, crit, err, warning, notice, info or debug";
                return Err(Refused::Arguments(why));
            }
            if level != before {
                tracing::info!("logging from {level} on, before from {before} on (D-Bus)");
            }
            Ok(())
        }
        (Object::Log, "LogTarget") => match value.downcast::<String>() {
            Ok(target) if target == log.target() => Ok(()),
            Ok(_) => Err(Refused::Target(log.target())),
            Err(_) => Err(WRONG),
        },
        (Object::Log, "SyslogIdentifier") => Err(Refused::ReadOnly),
        (Object::Node, name) if values(&Shown::default()).contains_key(name) => {
            Err(Refused::ReadOnly)
        }
        (Object::Log | Object::Node, _) => Err(Refused::Property),
    }
}

fn property(call: &Message, shown: &Shown, log: &Control) -> Result<Variant<'static>, Refused> {
    let object = Object::of(call)?;
    let body = call.body();
    let wrong = Refused::Arguments("Get wants an interface and a property");
    let (interface, name): (&str, &str) = body.deserialize().map_err(|_| wrong)?;
    owns(object, interface)?;
    let mut all = all(object, shown, log);
    all.remove(name).ok_or(Refused::Property)
}

fn properties(call: &Message, shown: &Shown, log: &Control) -> Result<Values, Refused> {
    let object = Object::of(call)?;
    let body = call.body();
    let wrong = Refused::Arguments("GetAll wants an interface");
    let interface: &str = body.deserialize().map_err(|_| wrong)?;
    // Those of the standard have none.
    if [PROPERTIES, INTROSPECTABLE, PEER].contains(&interface) {
        return Ok(Values::new());
    }
    owns(object, interface)?;
    Ok(all(object, shown, log))
}

fn all(object: Object, shown: &Shown, log: &Control) -> Values {
    match object {
        Object::Node => values(shown),
        Object::Log => log_values(log),
    }
}

/// An empty name means whichever interface has it.
fn owns(object: Object, interface: &str) -> Result<(), Refused> {
    if interface.is_empty() || interface == object.interface() {
        Ok(())
    } else {
        Err(Refused::Interface)
    }
}

/// Ours, or what is on the way to ours.
fn introspection(call: &Message) -> Result<String, Refused> {
    match Object::of(call) {
        Ok(object) => {
            let xml = match object {
                Object::Node => NODE_XML,
                Object::Log => LOG_XML,
            };
            Ok(xml.replace("</node>", &format!("{STANDARD_XML}</node>")))
        }
        Err(why) => {
            let header = call.header();
            let path = header.path().map_or("", |path| path.as_str());
            let below = format!("{}/", path.trim_end_matches('/'));
            let below = Object::ALL.iter().filter_map(|object| {
                let rest = object.path().strip_prefix(&below)?;
                Some(rest.split('/').next().unwrap_or(rest))
            });
            let mut names: Vec<&str> = below.collect();
            names.dedup();
            if names.is_empty() {
                return Err(why);
            }
            let nodes = names.iter().map(|name| format!("<node name=\"{name}\"/>"));
            Ok(format!("<node>{}</node>", nodes.collect::<String>()))
        }
    }
}

pub(super) fn answer<B>(call: &Message, body: &B) -> zbus::Result<Message>
where
    B: Serialize + DynamicType,
{
    Message::method_return(&call.header()).build(body)
}

pub(super) fn refuse(call: &Message, why: &Refused) -> zbus::Result<Message> {
    Message::error(&call.header(), why.name()).build(&why.to_string())
}

#[cfg(test)]
mod tests;
