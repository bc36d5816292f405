//! What the server says: `Status` bodies as the real one words them, as far as the daemon reads them.

use serde_json::{Value, json};

use super::fields::Conflict;

/// One answer.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Answer {
    pub(crate) code: u16,
    pub(crate) body: Value,
}

impl Answer {
    pub(super) fn ok(body: Value) -> Self {
        Self { code: 200, body }
    }

    pub(super) fn created(body: Value) -> Self {
        Self { code: 201, body }
    }

    pub(crate) fn status(code: u16, reason: &str, message: &str) -> Self {
        let mut body = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": message, "code": code});
        if !reason.is_empty() {
            body["reason"] = json!(reason);
        }
        Self { code, body }
    }

    fn with(mut self, details: Value) -> Self {
        self.body["details"] = details;
        self
    }

    pub(super) fn forbidden(resource: &str, name: &str, why: &str) -> Self {
        let message = format!("{resource} \"{name}\" is forbidden: {why}");
        Self::status(403, "Forbidden", &message)
    }

    pub(super) fn not_found(resource: &str, name: &str) -> Self {
        Self::status(404, "NotFound", &format!("{resource} \"{name}\" not found"))
    }

    pub(super) fn exists(resource: &str, name: &str) -> Self {
        let message = format!("{resource} \"{name}\" already exists");
        Self::status(409, "AlreadyExists", &message)
    }

    pub(super) fn conflict(resource: &str, name: &str, why: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {resource} \"{name}\": {why}");
        Self::status(409, "Conflict", &message)
    }

    pub(super) fn invalid(name: &str, field: &str, why: &str) -> Self {
        let message = format!("\"{name}\" is invalid: {field}: Invalid value: {why}");
        let cause = json!({"reason": "FieldValueInvalid", "message": why, "field": field});
        // The real server says it twice.
        Self::status(422, "Invalid", &message).with(json!({"causes": [cause.clone(), cause]}))
    }

    pub(super) fn too_long(name: &str, field: &str, why: &str) -> Self {
        let message = format!("\"{name}\" is invalid: {field}: Too long: {why}");
        let cause = json!({"reason": "FieldValueTooLong", "message": format!("Too long: {why}"), "field": field});
        Self::status(422, "Invalid", &message).with(json!({"causes": [cause]}))
    }

    /// A `ValidatingAdmissionPolicy` says no.
    pub(super) fn policy(resource: &str, name: &str, why: &str) -> Self {
        let denied = format!(
            "ValidatingAdmissionPolicy 'kube-rebootd' with binding 'kube-rebootd' denied request: {why}"
        );
        let message = format!("{resource} \"{name}\" is forbidden: {denied}");
        Self::status(422, "Invalid", &message).with(json!({"causes": [{"message": denied}]}))
    }

    /// Others own what an apply wants to change.
    pub(super) fn owned(conflicts: &[Conflict]) -> Self {
        let cause = |conflict: &Conflict| {
            json!({"reason": "FieldManagerConflict",
                "message": format!("conflict with \"{}\"", conflict.manager), "field": conflict.field})
        };
        let causes: Vec<Value> = conflicts.iter().map(cause).collect();
        let message = format!("Apply failed with {} conflicts", causes.len());
        Self::status(409, "Conflict", &message).with(json!({"causes": causes}))
    }

    /// A budget allows no disruption now.
    pub(super) fn budget(why: &str, retry_after: u32) -> Self {
        let message = "Cannot evict pod as it would violate the pod's disruption budget.";
        let mut answer = Self::status(429, "TooManyRequests", message).with(json!({"causes": [
            {"reason": "DisruptionBudget", "message": why}]}));
        if retry_after > 0 {
            answer.body["details"]["retryAfterSeconds"] = json!(retry_after);
        }
        answer
    }

    /// The server, or priority and fairness, has no time.
    pub(crate) fn busy(code: u16, retry_after: u32) -> Self {
        let reason = if code == 429 {
            "TooManyRequests"
        } else {
            "InternalError"
        };
        let mut answer = Self::status(code, reason, "the server is busy, please try again later");
        if retry_after > 0 {
            answer = answer.with(json!({"retryAfterSeconds": retry_after}));
        }
        answer
    }

    pub(super) fn expired() -> Self {
        Self::status(410, "Expired", "too old resource version")
    }
}
