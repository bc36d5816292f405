//! What kured's flags about checks, the lock, the drain and the reboot become.

use std::time::Duration;

use super::draft::{Draft, Table, list, text, within};
use super::flags::Flag;
use super::given::Values;
use super::go;
use super::manifest::{DaemonSet, program};
use super::window::{Times, fitting, times, write, zone};
use crate::label::is_absolute;
use crate::selector::Selector;

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const DAY: Duration = Duration::from_secs(24 * 3600);
/// The longest that most keys take.
const YEAR: Duration = Duration::from_secs(366 * 24 * 3600);
/// `drain.timeout` and `health.timeout` of a host without any file.
const DRAIN: Duration = Duration::from_secs(30 * 60);
const HEALTH: Duration = Duration::from_secs(15 * 60);
/// The shortest period of a check.
const SHORTEST_PERIOD: Duration = Duration::from_secs(10);
/// `/var/run` is a link to `/run`.
const SENTINELS: [&str; 2] = ["/run/reboot-required", "/var/run/reboot-required"];
/// The label by which a load balancer leaves a node alone.
const LOAD_BALANCER: &str = crate::names::EXCLUDED.0;

/// The word of its row.
pub(super) fn instead(name: &str) -> &'static str {
    Flag::of(name).map_or("", |flag| flag.instead)
}

/// `[triggers]`
pub(super) fn triggers(draft: &mut Draft, values: &Values, set: &DaemonSet) {
    let command = values.text("reboot-sentinel-command");
    if command.is_empty() {
        sentinel(draft, values, set);
        if values.set("period") {
            draft
                .absent
                .push((values.said("period"), instead("period").to_owned()));
        }
        return;
    }
    let said = values.said("reboot-sentinel-command");
    let Some(argv) = argv(command) else {
        draft.odd.push(format!(
            "{said} is no command, also for kured; mend it and run this again: the check is missing here"
        ));
        return;
    };
    let beside = "A command takes the place of the file for kured. Files count besides where they are named here.";
    draft.key(Table::Triggers, "sentinels", "[]".to_owned(), &[beside]);
    draft.key(
        Table::Check,
        "name",
        text("kured"),
        &[&said, instead("reboot-sentinel-command")],
    );
    if asks_dnf(&argv) {
        let why = "The preset runs `dnf -C needs-restarting -r` and takes an error for no yes, as the negation of the command does. With dnf 5 write \
                   \"needs-restarting-dnf5\".";
        draft.key(Table::Check, "preset", text("needs-restarting"), &[why]);
    } else {
        draft.key(Table::Check, "preset", text("kured"), &[]);
        let why = "It runs on the host, as root; program and directories on the way there must belong to root.";
        draft.key(Table::Check, "command", list(&argv), &[why]);
    }
    if values.set("period") {
        let period = within(values.span("period"), SHORTEST_PERIOD, YEAR);
        draft.key(Table::Check, "period", period, &[&values.said("period")]);
    }
}

/// The words of a command; none: it names no program, or no program can be called so (execve(2)).
fn argv(text: &str) -> Option<Vec<String>> {
    let argv = go::words(text)?;
    let named = argv.first().is_some_and(|program| !program.is_empty());
    (named && !text.contains('\0')).then_some(argv)
}

/// `! needs-restarting -r`, as kured's documentation has it for RHEL.
fn asks_dnf(argv: &[String]) -> bool {
    let [shell, option, script] = argv else {
        return false;
    };
    let words: Vec<&str> = script.split_whitespace().collect();
    let asked = match words[..] {
        ["!", program, option] => (program, option),
        ["!", dnf, program, option] if self::program(dnf) == "dnf" => (program, option),
        _ => return false,
    };
    matches!(program(shell), "sh" | "bash")
        && option == "-c"
        && program(asked.0) == "needs-restarting"
        && matches!(asked.1, "-r" | "--reboothint")
}

fn sentinel(draft: &mut Draft, values: &Values, set: &DaemonSet) {
    if !values.given("reboot-sentinel") {
        return;
    }
    let (said, inside) = (
        values.said("reboot-sentinel"),
        values.text("reboot-sentinel"),
    );
    let host = set.on_host(inside);
    let path = host.as_deref().unwrap_or(inside);
    if !is_absolute(path) {
        draft.odd.push(format!(
            "{said} is no absolute path; write the one on the host, and run this again"
        ));
        return;
    }
    if SENTINELS.contains(&path) {
        return;
    }
    let why = match host {
        Some(_) if path != inside => "The path on the host, by the volume of the container.",
        Some(_) => "",
        None => "No volume of the host is there in the container: is it the path on the host?",
    };
    draft.key(Table::Triggers, "sentinels", list(&[path]), &[&said, why]);
}

/// `[coordination]`
pub(super) fn coordination(draft: &mut Draft, values: &Values, namespace: &str) {
    if namespace != crate::config::Config::default().coordination.namespace {
        draft.key(
            Table::Coordination,
            "namespace",
            text(namespace),
            &["--namespace of kube-rebootd migrate"],
        );
    }
    if values.set("lock-release-delay") {
        let delay = within(values.span("lock-release-delay"), Duration::ZERO, YEAR);
        let words = [
            &values.said("lock-release-delay"),
            instead("lock-release-delay"),
        ];
        draft.key(Table::Coordination, "min_interval", delay, &words);
    }
}

/// `[drain]`, `[reboot]` and `[[windows]]`, as one has to fit in the other.
pub(super) fn drain(draft: &mut Draft, values: &Values, set: &DaemonSet) {
    let rest = values.span("drain-delay").min(DAY);
    let excluded = excludes(draft, values);
    // The label is there only where somebody waits.
    let rest = if excluded { rest.max(SECOND) } else { rest };
    let delay = values.span("reboot-delay").min(DAY);
    let wanted = values
        .set("drain-timeout")
        .then(|| values.span("drain-timeout").clamp(SECOND, YEAR));
    let mut limits = Limits {
        drain: wanted,
        health: None,
        why: String::new(),
    };
    let zone = zone(values, container_zone(set));
    match (times(values), zone) {
        (Times::Always, _) => {}
        (Times::Bad(why), _) | (Times::Windows(_), Err(why)) => {
            draft.odd.push(format!(
                "{why}; mend it and run this again: the window is missing here"
            ));
        }
        (Times::Windows(windows), Ok(zone)) => {
            let need = wanted.unwrap_or(DRAIN) + rest + delay + HEALTH;
            let (kept, longest) = fitting(&windows, need);
            if kept.len() < windows.len() {
                let why =
                    "A part of kured's window is left out, as a drain and a boot never fit in it";
                draft.todo.push(format!("{why}: see [[windows]]."));
            }
            if limits.fit(longest, need, rest + delay) {
                write(draft, values, &kept, &zone);
            } else {
                draft.odd.push(format!(
                    "{} {} make a window that is too short for {} and {}, a drain and a boot; make one longer or another shorter, and run this again: the \
                     window is missing here",
                    values.said("start-time"), values.said("end-time"), values.said("drain-delay"), values.said("reboot-delay")
                ));
            }
        }
    }
    limits.write(draft, values);
    force(draft, values, &limits);
    policy(draft, values, rest, excluded);
    reboot(draft, values, delay);
}

/// Limits that follow from flags and windows.
struct Limits {
    drain: Option<Duration>,
    health: Option<Duration>,
    /// Why they are shorter than the flags say.
    why: String,
}

impl Limits {
    /// Whether a drain and a boot fit in a window of this length, with shorter limits where it must be.
    fn fit(&mut self, window: Duration, need: Duration, rest: Duration) -> bool {
        if need <= window {
            return true;
        }
        let left = window.saturating_sub(rest);
        if left < 2 * MINUTE {
            return false;
        }
        let health = HEALTH.min(Duration::from_secs(left.as_secs() / 2));
        self.health = (health < HEALTH).then_some(health);
        self.drain = Some(left.saturating_sub(health));
        "Shorter than otherwise, so that a drain and a boot fit in the window; kured does not look whether they do.".clone_into(&mut self.why);
        true
    }

    fn write(&self, draft: &mut Draft, values: &Values) {
        if let Some(drain) = self.drain {
            let said = values.said("drain-timeout");
            draft.key(
                Table::Drain,
                "timeout",
                within(drain, SECOND, YEAR),
                &[&said, &self.why],
            );
            let why = "kured has no limit of its own for a drain from which no pod leaves; the default is 10m.";
            draft.key(Table::Drain, "stall", within(drain, SECOND, YEAR), &[why]);
        }
        if let Some(health) = self.health {
            draft.key(
                Table::Health,
                "timeout",
                within(health, SECOND, YEAR),
                &[&self.why],
            );
        }
    }
}

/// The zone that `Local` is in the container.
fn container_zone(set: &DaemonSet) -> Option<&str> {
    if set.on_host("/etc/localtime").is_some() {
        // The host's, which nobody here knows.
        return Some("the zone of the host (/etc/localtime)");
    }
    let zone = set.variable("TZ")?.as_deref();
    Some(zone.unwrap_or("a zone that cannot be read here (TZ)")).filter(|zone| !zone.is_empty())
}

/// Whether kured labels the node so that load balancers leave it alone. Other labels have no equivalent.
fn excludes(draft: &mut Draft, values: &Values) -> bool {
    let flags = ["pre-reboot-node-labels", "post-reboot-node-labels"];
    let key = |item: &str| item.split('=').next().unwrap_or_default().to_owned();
    let other = |item: &&str| key(item) != LOAD_BALANCER;
    for flag in flags.into_iter().filter(|flag| values.given(flag)) {
        let said = values.said(flag);
        if values.items(flag).iter().any(other) {
            draft.absent.push((said, instead(flag).to_owned()));
        }
    }
    values.items(flags[0]).iter().any(|item| !other(item))
}

/// `--force-reboot`: without a limit kured's drain waits for budgets for ever, and so it must not become a reboot past them.
fn force(draft: &mut Draft, values: &Values, limits: &Limits) {
    if !values.switch("force-reboot") {
        return;
    }
    let said = values.said("force-reboot");
    if values.set("drain-timeout") && limits.why.is_empty() {
        let why = "It follows drain.timeout, and drain.stall as well.";
        draft.key(Table::Drain, "on_timeout", text("reboot"), &[&said, why]);
    } else {
        let why = "kured's drain is not over when ours is, and would pass over no budget by then. Set drain.on_timeout = \"reboot\" with drain.timeout and \
                   drain.stall by hand if the node is to reboot with pods on it then.";
        draft.absent.push((said, why.to_owned()));
    }
}

fn policy(draft: &mut Draft, values: &Values, rest: Duration, excluded: bool) {
    let delay = within(rest, Duration::ZERO, DAY);
    if excluded {
        let said = format!(
            "{} {}",
            values.said("drain-delay"),
            values.said("pre-reboot-node-labels")
        );
        let why = "The node carries the label from the cordon to the uncordon, and is cordoned already in this time. Take what the load balancer needs to send \
                   nobody to it any more.";
        draft.key(Table::Drain, "load_balancer_wait", delay, &[&said, why]);
    } else if !rest.is_zero() {
        draft.key(
            Table::Drain,
            "cordon_only",
            delay,
            &[&values.said("drain-delay"), instead("drain-delay")],
        );
    }
    let only = values.text("drain-pod-selector");
    if !only.is_empty() {
        let said = values.said("drain-pod-selector");
        match only.parse::<Selector>() {
            Ok(selector) => {
                let why = "The other way round: kured drains what it selects, and these are the pods that stay.";
                draft.key(
                    Table::Drain,
                    "skip",
                    list(&selector.opposite()),
                    &[&said, why],
                );
            }
            Err(why) => draft.odd.push(format!("{said} cannot be used here: {why}")),
        }
    }
}

fn reboot(draft: &mut Draft, values: &Values, delay: Duration) {
    if !delay.is_zero() {
        let said = values.said("reboot-delay");
        draft.key(
            Table::Reboot,
            "delay",
            within(delay, Duration::ZERO, DAY),
            &[&said],
        );
    }
    match values.text("reboot-method") {
        "command" => {}
        "signal" => {
            draft.absent.push((
                values.said("reboot-method"),
                instead("reboot-method").to_owned(),
            ));
            if values.set("reboot-signal") {
                draft.absent.push((
                    values.said("reboot-signal"),
                    instead("reboot-signal").to_owned(),
                ));
            }
            return;
        }
        _ => {
            draft.odd.push(format!("{} is neither command nor signal: kured does not start with that; mend it and run this again", values.said("reboot-method")));
            return;
        }
    }
    let said = values.said("reboot-command");
    match argv(values.text("reboot-command")).as_deref() {
        Some([systemctl, verb]) if program(systemctl) == "systemctl" && verb == "reboot" => {}
        Some(argv) => {
            let why = "It runs on the host, as root. Without these two keys systemd-logind is asked, which respects block inhibitors and has the kubelet end \
                       its pods.";
            draft.key(Table::Reboot, "method", text("command"), &[&said, why]);
            draft.key(Table::Reboot, "command", list(argv), &[]);
        }
        None => draft.odd.push(format!(
            "{said} is no command, also for kured; mend it and run this again"
        )),
    }
}
