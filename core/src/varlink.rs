//! Varlink (varlink.org): one call as it comes over a socket, and its answer. JSON without a byte 0 in it, and such a byte behind.
//!
//! It is as much as the service of one interface needs: no answers in parts, and no connection that becomes another protocol. Keeps
//! I14: a call has a limit of size, what is none is answered with the reason, and what is given back of it is short and clean.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::text::{MESSAGE, NAME, clean};

/// Longest message, bytes: a call of a real client has about 100.
pub const LONGEST: usize = 16 * 1024;
/// Ends each message.
pub const END: u8 = 0;

/// What every service answers to.
pub const SERVICE: &str = "org.varlink.service";
/// Its description, as <https://varlink.org/Service> has it, with the error that systemd's library adds.
pub const DESCRIPTION: &str = include_str!("varlink/org.varlink.service.varlink");

/// One call.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Call {
    pub method: String,
    pub parameters: Map<String, Value>,
    /// No answer is read.
    pub oneway: bool,
}

#[derive(Debug, Deserialize)]
struct Text {
    method: String,
    #[serde(default)]
    parameters: Option<Map<String, Value>>,
    #[serde(default)]
    oneway: Option<bool>,
    #[serde(default)]
    upgrade: Option<bool>,
}

/// An error that is answered: its name, and what belongs to it.
#[derive(Debug, Clone, PartialEq)]
pub struct Fault {
    pub name: String,
    pub parameters: Value,
}

/// An answer: its parameters, or an error.
pub type Answer = Result<Value, Fault>;

impl Fault {
    pub fn new(name: String, parameters: Value) -> Self {
        Self { name, parameters }
    }

    fn of_service(name: &str, parameters: Value) -> Self {
        Self::new(format!("{SERVICE}.{name}"), parameters)
    }

    /// A parameter of the call is missing, unknown or wrong; `why` is for people.
    pub fn invalid(parameter: &str, why: &str) -> Self {
        let parameters =
            json!({"parameter": clean(parameter, NAME), "Reason": clean(why, MESSAGE)});
        Self::of_service("InvalidParameter", parameters)
    }

    /// There is no such method.
    pub fn unknown(method: &str) -> Self {
        Self::of_service("MethodNotFound", json!({"method": clean(method, NAME)}))
    }

    /// There is, and it does nothing here.
    pub fn unserved(method: &str) -> Self {
        Self::of_service(
            "MethodNotImplemented",
            json!({"method": clean(method, NAME)}),
        )
    }

    /// There is no such interface.
    pub fn no_interface(interface: &str) -> Self {
        let parameters = json!({"interface": clean(interface, NAME)});
        Self::of_service("InterfaceNotFound", parameters)
    }

    /// Whoever asks may not.
    pub fn denied() -> Self {
        Self::of_service("PermissionDenied", json!({}))
    }

    /// For the journal: the name and the reason that stands beside it.
    pub fn words(&self) -> String {
        let reason = self.parameters.get("Reason").and_then(Value::as_str);
        match reason {
            Some(reason) => format!("{}: {reason}", self.name),
            None => self.name.clone(),
        }
    }
}

/// Reads a message, without the byte that ends it.
///
/// # Errors
/// It is no call, and what is wrong.
pub fn call(message: &[u8]) -> Result<Call, Fault> {
    if message.len() > LONGEST {
        return Err(long());
    }
    let text: Text = serde_json::from_slice(message).map_err(|err| {
        let why =
            format!("a call must be {{\"method\":\"…\",\"parameters\":{{…}}}} and a byte 0: {err}");
        Fault::invalid("message", &why)
    })?;
    if text.upgrade == Some(true) {
        return Err(Fault::invalid(
            "upgrade",
            "no other protocol is spoken here",
        ));
    }
    Ok(Call {
        method: text.method,
        parameters: text.parameters.unwrap_or_default(),
        oneway: text.oneway == Some(true),
    })
}

/// The answer to more than is read.
pub fn long() -> Fault {
    Fault::invalid(
        "message",
        &format!("a call may have {LONGEST} bytes at most"),
    )
}

/// An answer as it is sent.
pub fn reply(answer: Answer) -> Vec<u8> {
    let text = match answer {
        Ok(parameters) => json!({ "parameters": parameters }),
        Err(fault) => json!({"error": fault.name, "parameters": fault.parameters}),
    };
    // JSON writes a byte 0 of a text as an escape.
    let mut message = text.to_string().into_bytes();
    message.push(END);
    message
}

#[cfg(test)]
mod tests;
