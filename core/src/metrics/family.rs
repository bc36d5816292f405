//! The families: their names, kinds, labels and meanings. They are part of the interface: rules and dashboards name them.

/// How Prometheus reads the samples of a family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Gauge,
    /// Begins at 0 with each start of the daemon; its name ends with `_total`.
    Counter,
}

/// All that is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Family {
    Running,
    Info,
    Phase,
    Reason,
    RebootRequired,
    RequiredSince,
    TriggerAsks,
    GateClosed,
    WaitingSeconds,
    HoldingSeconds,
    DrainSeconds,
    VerifySeconds,
    BlockedPods,
    FailedAttempts,
    LastReboot,
    LastStages,
    Evictions,
    Escalations,
    Reboots,
    ApiErrors,
    Reloads,
    ReloadSuccessful,
}

impl Family {
    /// All of them, in the order in which they are written.
    pub const ALL: [Self; 22] = [
        Self::Running,
        Self::Info,
        Self::Phase,
        Self::Reason,
        Self::RebootRequired,
        Self::RequiredSince,
        Self::TriggerAsks,
        Self::GateClosed,
        Self::WaitingSeconds,
        Self::HoldingSeconds,
        Self::DrainSeconds,
        Self::VerifySeconds,
        Self::BlockedPods,
        Self::FailedAttempts,
        Self::LastReboot,
        Self::LastStages,
        Self::Evictions,
        Self::Escalations,
        Self::Reboots,
        Self::ApiErrors,
        Self::Reloads,
        Self::ReloadSuccessful,
    ];

    /// The whole name, with the unit where it has one.
    pub fn name(self) -> &'static str {
        match self {
            Self::Running => "kube_rebootd_running",
            Self::Info => "kube_rebootd_info",
            Self::Phase => "kube_rebootd_phase",
            Self::Reason => "kube_rebootd_reason",
            Self::RebootRequired => "kube_rebootd_reboot_required",
            Self::RequiredSince => "kube_rebootd_required_since_timestamp_seconds",
            Self::TriggerAsks => "kube_rebootd_trigger_asks",
            Self::GateClosed => "kube_rebootd_gate_closed",
            Self::WaitingSeconds => "kube_rebootd_waiting_seconds",
            Self::HoldingSeconds => "kube_rebootd_holding_seconds",
            Self::DrainSeconds => "kube_rebootd_drain_seconds",
            Self::VerifySeconds => "kube_rebootd_verify_seconds",
            Self::BlockedPods => "kube_rebootd_drain_blocked_pods",
            Self::FailedAttempts => "kube_rebootd_failed_attempts",
            Self::LastReboot => "kube_rebootd_last_reboot_timestamp_seconds",
            Self::LastStages => "kube_rebootd_last_reboot_seconds",
            Self::Evictions => "kube_rebootd_evictions_total",
            Self::Escalations => "kube_rebootd_escalations_total",
            Self::Reboots => "kube_rebootd_reboots_total",
            Self::ApiErrors => "kube_rebootd_api_errors_total",
            Self::Reloads => "kube_rebootd_configuration_reloads_total",
            Self::ReloadSuccessful => "kube_rebootd_configuration_last_reload_successful",
        }
    }

    pub fn kind(self) -> Kind {
        match self {
            Self::Evictions
            | Self::Escalations
            | Self::Reboots
            | Self::ApiErrors
            | Self::Reloads => Kind::Counter,
            Self::Running
            | Self::Info
            | Self::Phase
            | Self::Reason
            | Self::RebootRequired
            | Self::RequiredSince
            | Self::TriggerAsks
            | Self::GateClosed
            | Self::WaitingSeconds
            | Self::HoldingSeconds
            | Self::DrainSeconds
            | Self::VerifySeconds
            | Self::BlockedPods
            | Self::FailedAttempts
            | Self::LastReboot
            | Self::LastStages
            | Self::ReloadSuccessful => Kind::Gauge,
        }
    }

    /// Names of the labels of each of its samples.
    pub fn labels(self) -> &'static [&'static str] {
        match self {
            Self::Info => &["version", "group", "mode"],
            Self::Phase => &["phase"],
            Self::Reason => &["reason"],
            Self::TriggerAsks => &["trigger"],
            Self::GateClosed => &["gate"],
            Self::LastStages => &["stage"],
            Self::Evictions => &["answer"],
            Self::Escalations => &["action"],
            Self::Reboots => &["outcome", "reason"],
            Self::ApiErrors => &["kind"],
            Self::Reloads => &["result"],
            Self::Running
            | Self::RebootRequired
            | Self::RequiredSince
            | Self::WaitingSeconds
            | Self::HoldingSeconds
            | Self::DrainSeconds
            | Self::VerifySeconds
            | Self::BlockedPods
            | Self::FailedAttempts
            | Self::LastReboot
            | Self::ReloadSuccessful => &[],
        }
    }

    /// What it says, in one sentence.
    pub fn help(self) -> &'static str {
        match self {
            Self::Running => {
                "1 while the daemon runs, 0 in the textfile that a stopped daemon leaves."
            }
            Self::Info => "Version, group and mode of the daemon; always 1.",
            Self::Phase => "1 for the phase that the node is in, 0 for all others.",
            Self::Reason => "1 for the reason of the condition RebootRequired, 0 for all others.",
            Self::RebootRequired => "1 if the host requires a reboot, or one is under way.",
            Self::RequiredSince => {
                "Since when the host requires a reboot; absent if it requires none."
            }
            Self::TriggerAsks => {
                "1 for each trigger, and for each command of a person, that asks for something; absent for all others."
            }
            Self::GateClosed => "1 for each gate that is closed, 0 for all others.",
            Self::WaitingSeconds => {
                "For how long the node has waited for a slot; 0 if it does not wait."
            }
            Self::HoldingSeconds => {
                "For how long the node has held a slot, its reboot included; 0 if it holds none."
            }
            Self::DrainSeconds => {
                "Time that the drain of this hold has used of drain.timeout; 0 without a hold."
            }
            Self::VerifySeconds => {
                "For how long the daemon has waited for the host to be healthy after its reboot; 0 in other phases."
            }
            Self::BlockedPods => "Pods that cannot leave now, while the node is drained.",
            Self::FailedAttempts => {
                "Attempts that failed in a row; the next one is later each time."
            }
            Self::LastReboot => {
                "When the last reboot was proved that the daemon made; absent before the first one."
            }
            Self::LastStages => {
                "How long each stage of the last reboot took; absent where it is not known."
            }
            Self::Evictions => "Evictions by the answer of the API server.",
            Self::Escalations => {
                "Pods that drain.escalate gave a shorter grace period, or deleted past their budget."
            }
            Self::Reboots => {
                "Reboots that were proved or undone, and for what reason; one that is undone did not begin."
            }
            Self::ApiErrors => "Requests to the API server that failed, by kind of the failure.",
            Self::Reloads => "Reloads of the configuration by their result.",
            Self::ReloadSuccessful => {
                "1 if the configuration in force is the one that was read last, 0 if that one was refused."
            }
        }
    }
}
