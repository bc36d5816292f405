//! The configuration as one file, with what a person has to know of it; and the order of the hand-over, in the words of docs/kured.md.

use std::fmt::Write as _;

use super::draft::{Draft, comment, item};
use super::flags::{Flag, VERSION};
use super::given::Values;
use super::manifest::DaemonSet;
use crate::label::{is_dns_label, is_label_key, is_subdomain};
use crate::text::{WORDS, clean};

/// The whole file.
pub(super) fn file(draft: &Draft, values: &Values, set: &DaemonSet) -> String {
    let mut text = comment(&format!(
        "What the flags of kured become: DaemonSet {}, image {}, by the flags of kured {VERSION}. For /etc/kube-rebootd/config.d/50-kured.toml of each node. \
         Written by `kube-rebootd migrate kured`; kube-rebootd.toml(5) explains the keys.",
        set.path(),
        if set.image.is_empty() {
            "unknown"
        } else {
            &set.image
        }
    ));
    text += &block("Not understood:", &draft.odd);
    text += &block("To be done by hand:", &draft.todo);
    let toml = draft.toml();
    if toml.is_empty() {
        text += "\n";
        text += &comment(
            "No flag asks for a key: the defaults do what kured does, but for what is told below.",
        );
    } else {
        if !toml.starts_with('\n') {
            text += "\n";
        }
        text += &toml;
    }
    let absent: Vec<String> = draft
        .absent
        .iter()
        .map(|(flag, why)| format!("{flag}: {why}"))
        .collect();
    text += &block("Without an equivalent:", &absent);
    text += &block(
        "Where kured's defaults were left, this is different or worth knowing:",
        &defaults(draft, values),
    );
    text
}

/// A list of comments; nothing of it without an item.
fn block(title: &str, items: &[String]) -> String {
    if items.is_empty() {
        return String::new();
    }
    let items: Vec<String> = items.iter().map(|words| item(words)).collect();
    format!("\n{}{}", comment(title), items.concat())
}

/// What the defaults of the two do differently, with the key that brings kured's way back where there is one.
fn defaults(draft: &Draft, values: &Values) -> Vec<String> {
    let unset = |flags: &[&str]| !flags.iter().any(|flag| values.set(flag));
    let mut notes = Vec::new();
    let mut note = |applies: bool, words: &str| notes.extend(applies.then(|| words.to_owned()));
    note(
        !draft.has("sentinels"),
        "--reboot-sentinel=/var/run/reboot-required --period=1h: the file is watched, and so is /run/reboot-needed; it counts when it has been there for 10 \
         minutes (triggers.settle).",
    );
    note(
        true,
        "A new kernel asks for a reboot as well; without that: builtin = [] in [triggers].",
    );
    note(
        unset(&["reboot-days", "start-time", "end-time"]),
        "--reboot-days=su,mo,tu,we,th,fr,sa --start-time=0:00 --end-time=23:59:59: a reboot may begin at any time, for both.",
    );
    note(
        !unset(&["reboot-days", "start-time", "end-time"]),
        "kured begins until the last moment of its window. Here a drain and a boot have to fit in what is left of it, and the clock has to be synchronized \
         (gates.unsynchronized_clock).",
    );
    note(
        unset(&["drain-timeout"]),
        "--drain-timeout=0: kured's drain has no end. Here it is undone after 30 minutes, or when no pod has left for 10, and tried again later (drain.timeout, \
         drain.stall).",
    );
    note(
        true,
        "Pods without a controller: kured deletes them, here they stay and the kubelet starts them again after the boot (unmanaged = \"evict\" in [drain] does as \
         kured).",
    );
    note(
        unset(&["reboot-command", "reboot-method"]),
        "--reboot-command=/bin/systemctl reboot: systemd-logind is asked instead, which respects block inhibitors.",
    );
    note(unset(&["concurrency"]), "--concurrency=1: one slot.");
    note(
        unset(&["lock-ttl"]),
        "--lock-ttl=0: a slot does not expire by time either.",
    );
    note(
        unset(&["lock-release-delay"]),
        "--lock-release-delay=0: the next node begins when this one is proved healthy ([health]); kured begins when its pod runs again.",
    );
    note(
        true,
        "A reboot waits besides while package managers work, while the pods of this node ask autoscalers not to disturb them (gates.honour_annotations), and \
         while 10% of the other nodes are down (coordination.max_unavailable); it gives users who are logged in 5 minutes (gates.users); and there are at most \
         two a day (reboot.max_per_day).",
    );
    note(
        unset(&["metrics-host", "metrics-port"]),
        "--metrics-port=8080: no metrics are served unless metrics.listen or metrics.textfile is set.",
    );
    notes
}

/// What goes into a command is a name, or a word in its place.
fn plain<'a>(text: &'a str, good: fn(&str) -> bool, else_: &'a str) -> &'a str {
    if good(text) { text } else { else_ }
}

/// Its steps, one after the other. Writing to a String does not fail.
pub(super) fn hand_over(draft: &Draft, values: &Values, slots_in: &str) -> String {
    let namespace = plain(values.text("ds-namespace"), is_dns_label, "NAMESPACE");
    let name = plain(values.text("ds-name"), is_subdomain, "NAME");
    let lock = plain(values.text("lock-annotation"), is_label_key, "ANNOTATION");
    let path = lock.replace('.', r"\.");
    let slots = values
        .text("concurrency")
        .parse::<u32>()
        .unwrap_or(1)
        .max(1);
    let at = if slots_in == crate::config::Config::default().coordination.namespace {
        String::new()
    } else {
        format!(" --namespace {slots_in}")
    };
    let several = slots > 1;
    let mut steps = vec![format!(
        "Make the slots. They are made paused; leave them so.\n       kube-rebootd manifests{at} | kubectl apply -f -\n       kube-rebootd manifests{at} --slots \
         {slots} | kubectl create -l kube-rebootd/group -f -"
    )];
    steps.push(if several {
        "With --concurrency kured's lock cannot be held by hand: do step 5 now, and wait until no node is on its way.".to_owned()
    } else {
        format!(
            "Hold kured. When the first line prints nothing, nobody has its lock; then take it.\n       kubectl -n {namespace} get daemonset {name} -o \
             jsonpath='{{.metadata.annotations.{path}}}'\n       kubectl -n {namespace} annotate daemonset {name} {lock}='{{\"nodeID\":\"manual\"}}'"
        )
    });
    let files = if draft.todo.is_empty() {
        ""
    } else {
        ", do what it says is to be done by hand"
    };
    steps.push(format!(
        "On each node on which kured runs, and on no other one unless you want it to be rebooted, install kube-rebootd, put this configuration into /etc/kube-rebootd/config.d/50-kured.toml{files}, and run `kube-rebootd config check` and \
         `kube-rebootd doctor` there, as root. That the Lease is paused and that kured is at work is expected."
    ));
    steps.push(
        "On one node after the other: systemctl enable --now kube-rebootd. Nothing reboots: the slots are paused, and beside kured nothing begins \
         (gates.other_reboot_daemons)."
            .to_owned(),
    );
    steps.push(format!(
        "Remove kured with what installed it, for example helm uninstall. {}",
        leftovers(values)
    ));
    steps.push(format!(
        "When every node is Ready and none is cordoned, open the slots. Nodes that wait go one after the other.\n       kubectl -n {slots_in} annotate lease -l \
         kube-rebootd/group kube-rebootd/paused-"
    ));
    let mut text = String::from(
        "The hand-over, in this order. The lock of kured and the slots of kube-rebootd do not see each other: with both at work, two nodes can be down at once. \
         Why each step is there: docs/kured.md.\n",
    );
    for (number, step) in steps.iter().enumerate() {
        let _ = writeln!(text, "  {}. {step}", number + 1);
    }
    text
}

/// What kured leaves on Nodes. Writing to a String does not fail.
fn leftovers(values: &Values) -> String {
    let mut text = String::from("Nodes that it had cordoned stay cordoned: kubectl uncordon NODE.");
    let taint = values.text("prefer-no-schedule-taint");
    if !taint.is_empty() {
        let taint = plain(taint, is_label_key, "TAINT");
        let _ = write!(
            text,
            " Its taint stays: kubectl taint node --all {taint}:PreferNoSchedule-"
        );
    }
    let labels = ["pre-reboot-node-labels", "post-reboot-node-labels"]
        .into_iter()
        .flat_map(|flag| values.items(flag));
    let mut keys: Vec<&str> = labels
        .filter_map(|item| item.split('=').next())
        .filter(|key| is_label_key(key))
        .collect();
    keys.sort_unstable();
    keys.dedup();
    if !keys.is_empty() {
        let keys: Vec<String> = keys.iter().map(|key| format!("{key}-")).collect();
        let _ = write!(
            text,
            " So do its labels: kubectl label node --all {}",
            keys.join(" ")
        );
    }
    if values.switch("annotate-nodes") {
        text += " So do its annotations: kubectl annotate node --all weave.works/kured-reboot-in-progress- weave.works/kured-most-recent-reboot-needed-";
    }
    text
}

/// A flag that has a row and no rule of its own: what its row says.
pub(super) fn rest(draft: &mut Draft, values: &Values) {
    const PLAIN: [&str; 11] = [
        "annotate-nodes",
        "concurrency",
        "drain-grace-period",
        "ds-name",
        "ds-namespace",
        "lock-annotation",
        "lock-ttl",
        "log-format",
        "node-id",
        "prefer-no-schedule-taint",
        "skip-wait-for-delete-timeout",
    ];
    for flag in PLAIN.into_iter().filter_map(Flag::of) {
        if values.set(flag.name) {
            let said = clean(&values.said(flag.name), WORDS);
            draft.absent.push((said, flag.instead.to_owned()));
        }
    }
    draft.absent.sort();
}
