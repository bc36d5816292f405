//! Every flag of kured 1.23.0, a row each: what it takes, its default, and what becomes of it here, or why nothing does and what to
//! do instead. A test compares the names with those of kured's own source.

/// The release whose flags these are. The newest one, of June 2026; kured's main branch of August 2026 has the same.
pub const VERSION: &str = "1.23.0";

/// What kured takes as a value (pflag's types).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Text,
    /// `--flag` alone is true.
    Switch,
    Number,
    Span,
    /// Whatever comes again is added, and commas part items.
    List,
    /// Whatever comes again is added. kured does not read this kind from its environment.
    Each,
}

/// One of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flag {
    pub name: &'static str,
    pub kind: Kind,
    /// As kured's help has it.
    pub default: &'static str,
    /// The keys that it becomes; empty: none.
    pub becomes: &'static str,
    /// Why nothing becomes of it, or of a part of it, and what to do; empty where the keys are all.
    pub instead: &'static str,
    /// Its value may be a secret: it is never printed.
    pub secret: bool,
}

impl Flag {
    /// By its name, without the dashes.
    pub fn of(name: &str) -> Option<&'static Self> {
        FLAGS.iter().find(|flag| flag.name == name)
    }

    /// The variable of kured's environment that counts before it.
    pub fn variable(&self) -> String {
        let name = self.name.replace('-', "_").to_ascii_uppercase();
        format!("KURED_{name}")
    }
}

const fn key(
    name: &'static str,
    kind: Kind,
    default: &'static str,
    becomes: &'static str,
    instead: &'static str,
) -> Flag {
    Flag {
        name,
        kind,
        default,
        becomes,
        instead,
        secret: false,
    }
}

const fn none(
    name: &'static str,
    kind: Kind,
    default: &'static str,
    instead: &'static str,
) -> Flag {
    key(name, kind, default, "", instead)
}

const fn secret(name: &'static str, becomes: &'static str) -> Flag {
    let mut flag = key(name, Kind::Text, "", becomes, "");
    flag.secret = true;
    flag
}

const OWN_WORDS: &str =
    "The messages are kube-rebootd's own. For words of your own write a `notify.command`.";
const NODE_LABELS: &str = "Only the label that keeps external load balancers away has an equivalent, drain.load_balancer_wait. A hook in \
     pre-drain.d and one in undo.d can do anything else.";
const HOOK_OF_SLACK: &str = "A webhook of Slack brings its own name and channel.";
const LEASES: &str = "The slots are Leases in coordination.namespace, those of coordination.group. The hand-over names kured's lock.";

/// All of them, by their names.
pub const FLAGS: [Flag; 43] = {
    use Kind::{Each, List, Number, Span, Switch, Text};
    [
        key(
            "alert-filter-match-only",
            Switch,
            "false",
            "gates.prometheus.alerts",
            "",
        ),
        key(
            "alert-filter-regexp",
            Text,
            "",
            "gates.prometheus.ignore",
            "",
        ),
        key(
            "alert-firing-only",
            Switch,
            "false",
            "gates.prometheus.pending",
            "",
        ),
        none(
            "annotate-nodes",
            Switch,
            "false",
            "kube-rebootd writes annotations of its own, kube-rebootd/state and kube-rebootd/history, always. Programs that read those of \
             kured have to read these, or the conditions of the Node.",
        ),
        key(
            "blocking-pod-selector",
            Each,
            "",
            "gates.blocking_pods",
            "Pods of DaemonSets and static pods do not count here; for kured they do.",
        ),
        none(
            "concurrency",
            Number,
            "1",
            "It is the number of slots: see the hand-over, which makes so many.",
        ),
        key(
            "drain-delay",
            Span,
            "0s",
            "drain.cordon_only",
            "The node is cordoned already in this time; kured cordons after it.",
        ),
        none(
            "drain-grace-period",
            Number,
            "-1",
            "Each pod has its own grace period, all together up to twice drain.timeout. [[drain.escalate]] gives chosen pods a shorter one.",
        ),
        key("drain-pod-selector", Text, "", "drain.skip", ""),
        key(
            "drain-timeout",
            Span,
            "0s",
            "drain.timeout and drain.stall",
            "",
        ),
        none("ds-name", Text, "kured", LEASES),
        none("ds-namespace", Text, "kube-system", LEASES),
        key("end-time", Text, "23:59:59", "windows.end", ""),
        key("force-reboot", Switch, "false", "drain.on_timeout", ""),
        none(
            "lock-annotation",
            Text,
            "weave.works/kured-node-lock",
            LEASES,
        ),
        key(
            "lock-release-delay",
            Span,
            "0s",
            "coordination.min_interval",
            "The slot itself is given up as soon as the node is proved healthy; the next node waits for so long after that.",
        ),
        none(
            "lock-ttl",
            Span,
            "0s",
            "A slot does not expire by time. The slot of a node that was deleted is freed after coordination.stale_after, any other one by \
             `kube-rebootd unlock NODE`.",
        ),
        none(
            "log-format",
            Text,
            "text",
            "The journal has fields of its own: `journalctl -u kube-rebootd -o json`.",
        ),
        none(
            "message-template-drain",
            Text,
            "Draining node %s",
            OWN_WORDS,
        ),
        none(
            "message-template-reboot",
            Text,
            "Rebooting node %s",
            OWN_WORDS,
        ),
        none(
            "message-template-uncordon",
            Text,
            "Node %s rebooted & uncordoned successfully!",
            OWN_WORDS,
        ),
        key("metrics-host", Text, "", "metrics.listen", ""),
        key("metrics-port", Number, "8080", "metrics.listen", ""),
        none(
            "node-id",
            Text,
            "",
            "The API server says to which node the credential of a host belongs.",
        ),
        secret("notify-url", "notify.webhook_file and notify.template"),
        key(
            "period",
            Span,
            "1h0m0s",
            "triggers.check.period",
            "Files are watched and need no period; triggers.period is how often they are looked at all the same. A slot that becomes free is \
             taken at once.",
        ),
        key(
            "post-reboot-node-labels",
            List,
            "",
            "drain.load_balancer_wait",
            NODE_LABELS,
        ),
        key(
            "pre-reboot-node-labels",
            List,
            "",
            "drain.load_balancer_wait",
            NODE_LABELS,
        ),
        none(
            "prefer-no-schedule-taint",
            Text,
            "",
            "A node that waits for its turn gets no taint. Take off the one that kured leaves: see the hand-over.",
        ),
        secret(
            "prometheus-url",
            "gates.prometheus.url, username and password_file",
        ),
        key(
            "reboot-command",
            Text,
            "/bin/systemctl reboot",
            "reboot.command",
            "`systemctl reboot` alone becomes logind, which respects block inhibitors.",
        ),
        key(
            "reboot-days",
            List,
            "su,mo,tu,we,th,fr,sa",
            "windows.days",
            "",
        ),
        key("reboot-delay", Span, "0s", "reboot.delay", ""),
        key(
            "reboot-method",
            Text,
            "command",
            "reboot.method",
            "A signal for PID 1 has no equivalent: systemd-logind is asked, which respects block inhibitors and has the kubelet end its pods.",
        ),
        key(
            "reboot-sentinel",
            Text,
            "/var/run/reboot-required",
            "triggers.sentinels",
            "",
        ),
        key(
            "reboot-sentinel-command",
            Text,
            "",
            "triggers.check.command",
            "Only exit code 0 is a reboot and only 1 is none; any other one is unknown here, and none for kured.",
        ),
        none(
            "reboot-signal",
            Number,
            "39",
            "systemd-logind is asked, which respects block inhibitors and has the kubelet end its pods.",
        ),
        none(
            "skip-wait-for-delete-timeout",
            Number,
            "0",
            "A pod that does not end is waited for and named, and ends the drain after drain.stall; drain.on_timeout says what follows. [[drain.escalate]] shortens the end of chosen pods.",
        ),
        none("slack-channel", Text, "", HOOK_OF_SLACK),
        secret("slack-hook-url", "notify.webhook_file and notify.template"),
        none("slack-username", Text, "kured", HOOK_OF_SLACK),
        key("start-time", Text, "0:00", "windows.start", ""),
        key("time-zone", Text, "UTC", "windows.time_zone", ""),
    ]
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::migrate::go;

    /// The names after `flag.…Var(&…, "` in cmd/kured/main.go of that release, sorted.
    const OF_SOURCE: &str = include_str!("kured-1.23.0.flags");

    #[test]
    fn every_flag_of_kured_has_its_row() {
        let names: Vec<&str> = FLAGS.iter().map(|flag| flag.name).collect();
        let source: Vec<&str> = OF_SOURCE.lines().collect();
        assert_eq!(names, source);
    }

    #[test]
    fn every_row_says_what_becomes_of_it_and_has_a_default_of_its_kind() {
        for flag in FLAGS {
            assert!(
                !flag.becomes.is_empty() || !flag.instead.is_empty(),
                "{flag:?}"
            );
            let good = match flag.kind {
                Kind::Switch => go::switch(flag.default).is_some(),
                Kind::Number => flag.default.parse::<i64>().is_ok(),
                Kind::Span => go::span(flag.default).is_some(),
                Kind::Each => flag.default.is_empty(),
                Kind::Text | Kind::List => true,
            };
            assert!(good, "{flag:?}");
        }
    }

    #[test]
    fn the_manual_has_a_row_for_every_flag() {
        let page = include_str!("../../../docs/kured.md");
        for flag in FLAGS {
            let family = match flag.name.split_once('-') {
                Some((first @ ("slack" | "message"), _)) => first,
                _ => flag.name,
            };
            assert!(page.contains(&format!("`--{family}")), "{}", flag.name);
        }
    }
}
