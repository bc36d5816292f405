//! Every key that this release takes, by its table.

/// Every table and its keys: all that this release takes.
#[rustfmt::skip]
pub(super) const SECTIONS: &[(&str, &[&str])] = &[
    ("node", &["kubeconfig", "context", "name"]),
    ("coordination", &[
        "namespace", "group", "group_label", "impersonate", "kubeconfig", "prove_node", "max_unavailable", "count_cordoned",
        "min_interval", "stale_after",
    ]),
    ("triggers", &["sentinels", "node_annotation", "scheduled_shutdown", "period", "settle", "builtin", "builtin_settle", "check"]),
    ("drain", &["mode", "timeout", "stall", "on_timeout", "parallelism", "unmanaged", "jobs", "empty_dir", "volumes_timeout", "skip"]),
    ("reboot", &["kind", "method", "command", "delay", "timeout", "max_per_day", "retry", "message"]),
    ("health", &["timeout", "allow_degraded", "boot_complete", "ready_for", "pods"]),
    ("gates", &["min_uptime"]),
];

/// The keys outside any table.
pub(super) const ROOT_KEYS: &[&str] = &["mode"];

/// The keys of `[[triggers.check]]`.
#[rustfmt::skip]
pub(super) const CHECK_KEYS: &[&str] = &[
    "name", "preset", "command", "reboot_exit_codes", "ok_exit_codes", "period", "timeout", "settle",
];

pub(super) fn section_names() -> impl Iterator<Item = &'static str> {
    SECTIONS.iter().map(|(name, _)| *name)
}

pub(super) fn section_keys(section: &str) -> Option<&'static [&'static str]> {
    let found = SECTIONS.iter().find(|(name, _)| *name == section);
    found.map(|(_, keys)| *keys)
}
