//! How the API server's answers are told apart: classified once, here, by code, reason, cause and
//! message as proved on a real server (docs/design.md 13), so that nobody else reads a `Status` (I7, I8).

use std::time::Duration;

use kube::core::Status;

use kube_rebootd_core::metrics::Fault;
use kube_rebootd_core::text::{self, MESSAGE};

/// Longest wait for one answer, above the server's own 60 s limit for none but the slowest list; a
/// server that accepts and never answers must not stop the loop (I7).
pub const CALL: Duration = Duration::from_secs(15);

/// Longest Retry-After that is kept to, seconds. The server itself asks for 1 to 10; whoever stands between
/// and says a day would keep a node cordoned for that day.
const RETRY_AFTER_MOST: u64 = 300;

/// The API server's own word in a 404. A load balancer without a backend, and a proxy, say 404 as well, with a page or
/// a JSON of their own: nothing is known then, least of all that an object is gone (I8). kube's `get_opt` does
/// not tell the two apart and is not used.
const NOT_FOUND: &str = "NotFound";

/// What went wrong with a call, as far as somebody decides upon it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ApiError {
    /// 404, in the API server's own words.
    #[error("{what}: not found")]
    Gone { what: String },
    /// 409: another resourceVersion, or (with `manager`) a field that another manager owns.
    #[error("{what}: conflict: {message}")]
    Conflict {
        what: String,
        message: String,
        /// The cause `FieldManagerConflict`, which names the manager.
        manager: Option<String>,
    },
    /// 409 "uid mismatch" or 422 on `metadata.uid`: the object was deleted or replaced.
    #[error("{what}: the object was deleted or replaced: {message}")]
    UidMismatch { what: String, message: String },
    /// 403 "is not allowed to modify taints" on an apply that holds none: seen as a race with the node
    /// lifecycle controller; retried like a conflict. `node` avoids its other, lasting cause.
    #[error("{what}: the node lifecycle controller changed the taints at the same moment")]
    TaintsRace { what: String },
    /// 401 or 403.
    #[error("{what}: denied ({code}): {message}")]
    Denied {
        what: String,
        message: String,
        code: u16,
    },
    /// 422: a validation or a `ValidatingAdmissionPolicy` refuses it.
    #[error("{what}: refused: {message}")]
    Invalid { what: String, message: String },
    /// 429 or 5xx: it may or may not have been done.
    #[error("{what}: the API server is busy ({code}): {message}")]
    Busy {
        what: String,
        message: String,
        /// Seconds.
        retry_after: Option<u64>,
        code: u16,
    },
    /// No answer, or none that can be read: it may or may not have been done.
    #[error("{what}: no answer: {message}")]
    Unreachable { what: String, message: String },
    /// 410 on a watch or a list: start over with a new list.
    #[error("{what}: the resource version is too old")]
    Expired { what: String },
    /// Anything else, with code 0 when the request was never sent.
    #[error("{what}: {message} ({code})")]
    Other {
        what: String,
        message: String,
        code: u16,
    },
}

impl ApiError {
    /// The request may have been carried out although nobody said so.
    pub fn unanswered(&self) -> bool {
        match self {
            Self::Busy { .. } | Self::Unreachable { .. } => true,
            Self::Gone { .. }
            | Self::Conflict { .. }
            | Self::UidMismatch { .. }
            | Self::TaintsRace { .. }
            | Self::Denied { .. }
            | Self::Invalid { .. }
            | Self::Expired { .. }
            | Self::Other { .. } => false,
        }
    }

    /// The server looked at the request and refuses it: sent again unchanged it would be refused again.
    pub fn refused(&self) -> bool {
        match self {
            Self::Denied { code, .. } => *code == 403,
            Self::Invalid { .. } => true,
            // 408 is a time limit that somebody in between set.
            Self::Other { code, .. } => (400..500).contains(code) && *code != 408,
            Self::Gone { .. }
            | Self::Conflict { .. }
            | Self::UidMismatch { .. }
            | Self::TaintsRace { .. }
            | Self::Busy { .. }
            | Self::Unreachable { .. }
            | Self::Expired { .. } => false,
        }
    }

    /// As it is counted.
    pub fn fault(&self) -> Fault {
        match self {
            Self::Gone { .. } => Fault::NotFound,
            Self::Conflict { .. } | Self::UidMismatch { .. } | Self::TaintsRace { .. } => {
                Fault::Conflict
            }
            Self::Denied { .. } => Fault::Denied,
            Self::Invalid { .. } => Fault::Refused,
            Self::Busy { .. } => Fault::Busy,
            Self::Unreachable { .. } => Fault::Unanswered,
            Self::Expired { .. } => Fault::Expired,
            Self::Other { .. } => Fault::Other,
        }
    }

    /// 401: the credential has ended; read it again and build new clients.
    pub fn unauthorized(&self) -> bool {
        matches!(self, Self::Denied { code: 401, .. })
    }
}

/// An answer that is not a success, before it is classified.
#[derive(Debug)]
pub(crate) enum Failure {
    Said(Box<Status>),
    NoAnswer(String),
    NotSent(String),
}

/// Waits for `future` at most `limit`; `what` names the call in errors.
pub async fn call<T>(
    what: &str,
    limit: Duration,
    future: impl Future<Output = kube::Result<T>>,
) -> Result<T, ApiError> {
    bounded(limit, future)
        .await
        .map_err(|failure| classify(what, failure))
}

/// The object of a GET, or none where the API server itself says that there is none.
pub fn found<T>(answer: Result<T, ApiError>) -> Result<Option<T>, ApiError> {
    match answer {
        Ok(object) => Ok(Some(object)),
        Err(ApiError::Gone { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// As [`call`], for a caller that looks at the `Status` itself.
pub(crate) async fn bounded<T>(
    limit: Duration,
    future: impl Future<Output = kube::Result<T>>,
) -> Result<T, Failure> {
    match tokio::time::timeout(limit, future).await {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(Failure::of(error)),
        Err(_) => Err(Failure::NoAnswer(format!(
            "nothing within {} s",
            limit.as_secs()
        ))),
    }
}

impl Failure {
    /// What the server, a webhook or a proxy on the way wrote is for people, and is cleaned here (I14).
    pub(crate) fn said(mut status: Status) -> Self {
        status.message = text::clean(&status.message, MESSAGE);
        if let Some(details) = &mut status.details {
            for cause in &mut details.causes {
                cause.message = text::clean(&cause.message, MESSAGE);
            }
        }
        Self::Said(Box::new(status))
    }

    pub(crate) fn of(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => Self::said(*status),
            kube::Error::BuildRequest(error) => Self::NotSent(chain(&error)),
            kube::Error::HttpError(error) => Self::NotSent(chain(&error)),
            other => Self::NoAnswer(chain(&other)),
        }
    }
}

/// An error with its causes: the outermost of kube and hyper says only "client error (Connect)".
fn chain(error: &dyn std::error::Error) -> String {
    let mut words = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_words = cause.to_string();
        if !words.contains(&cause_words) {
            words.push_str(": ");
            words.push_str(&cause_words);
        }
        source = cause.source();
    }
    text::clean(&words, MESSAGE)
}

/// What a real server says with a 500, as its store refused the whole object (seen on 1.36.3): sent again it would be
/// refused again.
const TOO_LARGE: [&str; 2] = [
    "etcdserver: request is too large",
    "trying to send message larger than max",
];

/// The one table from answers to errors.
pub(crate) fn classify(what: &str, failure: Failure) -> ApiError {
    let what = what.to_owned();
    let status = match failure {
        Failure::Said(status) => status,
        Failure::NoAnswer(message) => return ApiError::Unreachable { what, message },
        Failure::NotSent(message) => {
            return ApiError::Other {
                what,
                message,
                code: 0,
            };
        }
    };
    let code = status.code;
    let message = status.message.clone();
    match code {
        404 if status.reason == NOT_FOUND => ApiError::Gone { what },
        404 => ApiError::Unreachable {
            what,
            message: format!(
                "404 without the word of a Kubernetes API server; does a load balancer or a proxy answer? {message}"
            ),
        },
        409 if message.contains("uid mismatch") => ApiError::UidMismatch { what, message },
        422 if on_uid(&status) => ApiError::UidMismatch { what, message },
        409 => ApiError::Conflict {
            what,
            manager: cause(&status, "FieldManagerConflict"),
            message,
        },
        410 => ApiError::Expired { what },
        403 if message.contains("is not allowed to modify taints") => ApiError::TaintsRace { what },
        401 | 403 => ApiError::Denied {
            what,
            message,
            code,
        },
        422 => ApiError::Invalid { what, message },
        500 if TOO_LARGE.iter().any(|words| message.contains(words)) => {
            ApiError::Invalid { what, message }
        }
        429 | 500..=599 => ApiError::Busy {
            what,
            retry_after: retry_after(&status),
            message,
            code,
        },
        400..=499 => ApiError::Other {
            what,
            message,
            code,
        },
        // kube takes any JSON for a Status, with code 0 when it has none: a proxy's, not the server's word.
        _ => ApiError::Unreachable {
            what,
            message: format!("an answer of trouble without its code: {message}"),
        },
    }
}

fn on_uid(status: &Status) -> bool {
    status
        .details
        .iter()
        .flat_map(|details| &details.causes)
        .any(|cause| cause.field == "metadata.uid")
        || status.message.contains("metadata.uid: Invalid value")
}

/// Message of the first cause with this reason.
pub(crate) fn cause(status: &Status, reason: &str) -> Option<String> {
    status
        .details
        .iter()
        .flat_map(|details| &details.causes)
        .find(|cause| cause.reason == reason)
        .map(|cause| cause.message.clone())
}

/// `details.retryAfterSeconds`, which the server also sends as Retry-After; 0 is none. At most
/// [`RETRY_AFTER_MOST`].
pub(crate) fn retry_after(status: &Status) -> Option<u64> {
    status
        .details
        .as_ref()
        .map(|details| u64::from(details.retry_after_seconds).min(RETRY_AFTER_MOST))
        .filter(|seconds| *seconds > 0)
}

#[cfg(test)]
mod tests;
