//! What each table of the configuration says, and which of its values do not go together (I12).

use std::path::PathBuf;
use std::time::Duration;

use super::super::duration::show as words;
use super::super::keys::{
    coordination, drain, fleet_lock, gates, health, metrics, node, notify, reboot,
};
use super::super::reader::Reader;
use super::super::{
    Address, Alertmanager, Coordination, Drain, FleetLock, Gates, Group, Health, Listen, Method,
    Metrics, Node, Notify, Reboot, Webhook,
};
use crate::drain::Policy;
use crate::fleet_lock::sent_of;
use crate::gates::Force;
use crate::protected::Protection;
use crate::windows::Windows;

pub(super) fn node(r: &mut Reader<'_>) -> Node {
    Node {
        kubeconfig: r.maybe(&node::KUBECONFIG).map(PathBuf::from),
        context: r.maybe(&node::CONTEXT),
        name: r.maybe(&node::NAME),
    }
}

pub(super) fn coordination(r: &mut Reader<'_>) -> Coordination {
    let coordination = Coordination {
        namespace: r.word(&coordination::NAMESPACE),
        group: Group(r.word(&coordination::GROUP)),
        group_label: r.maybe(&coordination::GROUP_LABEL),
        impersonate: r.maybe(&coordination::IMPERSONATE),
        kubeconfig: r.maybe(&coordination::KUBECONFIG).map(PathBuf::from),
        prove_node: r.flag(&coordination::PROVE_NODE),
        max_unavailable: r.budget(&coordination::MAX_UNAVAILABLE),
        count_cordoned: r.flag(&coordination::COUNT_CORDONED),
        min_interval: r.duration(&coordination::MIN_INTERVAL),
        stale_after: r.duration(&coordination::STALE_AFTER),
        autoscaler_protect: r.duration(&coordination::AUTOSCALER_PROTECT),
    };
    let nothing_to_prove = coordination.impersonate.is_none() || coordination.kubeconfig.is_some();
    if coordination.prove_node && nothing_to_prove && r.sound(&["impersonate", "kubeconfig"]) {
        let reason = "proves nothing without an impersonation; remove it, or impersonate = \"\" and kubeconfig";
        r.fault(&coordination::PROVE_NODE, reason);
    }
    coordination
}

pub(super) fn drain(r: &mut Reader<'_>) -> Drain {
    let mode = r.choice(&drain::MODE);
    let timeout = r.duration(&drain::TIMEOUT);
    // Follows a shorter timeout, so that setting only that one stays valid.
    let stall = r.duration_up_to(&drain::STALL, timeout);
    if stall > timeout && r.sound(&["stall", "timeout"]) {
        let (s, t) = (words(stall), words(timeout));
        let reason =
            format!("{s} is above drain.timeout ({t}) and never reached; write at most {t}");
        r.fault(&drain::STALL, reason);
    }
    let pod_timeout_max = r.duration(&drain::POD_TIMEOUT_MAX);
    if pod_timeout_max > timeout.saturating_mul(2) && r.sound(&["pod_timeout_max", "timeout"]) {
        let (p, t) = (words(pod_timeout_max), words(timeout));
        let reason =
            format!("{p} is above twice drain.timeout ({t}), when every drain ends; write less");
        r.fault(&drain::POD_TIMEOUT_MAX, reason);
    }
    let policy = Policy {
        timeout,
        stall,
        on_timeout: r.choice(&drain::ON_TIMEOUT),
        cordon_only: r.duration(&drain::CORDON_ONLY),
        load_balancer_wait: r.duration(&drain::LOAD_BALANCER_WAIT),
        parallelism: usize::try_from(r.number(&drain::PARALLELISM)).unwrap_or(usize::MAX),
        unmanaged: r.choice(&drain::UNMANAGED),
        jobs: r.choice(&drain::JOBS),
        empty_dir: r.choice(&drain::EMPTY_DIR),
        volumes_timeout: r.duration(&drain::VOLUMES_TIMEOUT),
        skip: r.selectors(&drain::SKIP),
        pod_timeout_max,
        order: Vec::new(),
        escalate: Vec::new(),
    };
    Drain { mode, policy }
}

pub(super) fn reboot(r: &mut Reader<'_>) -> Reboot {
    let kind = r.choice_but(&reboot::KIND, |kind| {
        (kind == "kexec").then(|| {
            format!("{kind:?} is not supported: it would skip the firmware; write \"reboot\"")
        })
    });
    let by_command = r.choice(&reboot::METHOD);
    let command = r.command(&reboot::COMMAND, &[]);
    if r.sound(&["method", "command"]) {
        if by_command && command.is_empty() {
            let reason = "is \"command\" but reboot.command is empty; write one";
            r.fault(&reboot::METHOD, reason);
        } else if !by_command && !command.is_empty() {
            let reason = "is unused; write method = \"command\" or remove it";
            r.fault(&reboot::COMMAND, reason);
        }
    }
    if r.sound(&["kind", "method"]) && by_command && kind.soft() {
        let reason = "is \"soft-reboot\", which logind is asked for: reboot.command may do anything; write method = \"logind\", or \
                      kind = \"reboot\"";
        r.fault(&reboot::KIND, reason);
    }
    Reboot {
        kind,
        method: if by_command {
            Method::Command(command)
        } else {
            Method::Logind
        },
        delay: r.duration(&reboot::DELAY),
        timeout: r.duration(&reboot::TIMEOUT),
        max_per_day: r.number(&reboot::MAX_PER_DAY),
        retry: r.duration(&reboot::RETRY),
        guard: r.flag(&reboot::GUARD),
        message: r.word(&reboot::MESSAGE),
    }
}

pub(super) fn health(r: &mut Reader<'_>) -> Health {
    let health = Health {
        timeout: r.duration(&health::TIMEOUT),
        allow_degraded: r.flag(&health::ALLOW_DEGRADED),
        boot_complete: r.flag(&health::BOOT_COMPLETE),
        ready_for: r.duration(&health::READY_FOR),
        pods: r.flag(&health::PODS),
    };
    if health.ready_for >= health.timeout && r.sound(&["timeout", "ready_for"]) {
        let (f, t) = (words(health.ready_for), words(health.timeout));
        let reason =
            format!("{f} is not below health.timeout ({t}), every boot would be late; write less");
        r.fault(&health::READY_FOR, reason);
    }
    health
}

pub(super) fn gates(r: &mut Reader<'_>) -> Gates {
    let force = Force {
        after: r.duration(&gates::FORCE_AFTER),
        gates: r.choices(&gates::FORCE),
    };
    let sound = r.sound(&["force_after", "force"]);
    match (force.after.is_zero(), force.gates.is_empty()) {
        _ if !sound => {}
        (false, true) => r.fault(
            &gates::FORCE_AFTER,
            "passes over nothing; name gates in `gates.force`, or remove it",
        ),
        (true, false) => r.fault(
            &gates::FORCE,
            "is never used; write `gates.force_after` as well, or remove it",
        ),
        (true, true) | (false, false) => {}
    }
    Gates {
        min_uptime: r.duration(&gates::MIN_UPTIME),
        windows: Windows::new(Vec::new(), r.dates(&gates::EXCLUDE_DATES)),
        window_close: r.choice(&gates::WINDOW_CLOSE),
        window_overrun: r.duration(&gates::WINDOW_OVERRUN),
        synchronized: r.choice(&gates::UNSYNCHRONIZED_CLOCK),
        rivals: r.choice(&gates::OTHER_REBOOT_DAEMONS),
        capacity_wait: r.duration(&gates::CAPACITY_WAIT),
        live_patch_wait: r.duration(&gates::LIVE_PATCH_WAIT),
        api_servers: r.servers(&gates::API_SERVERS),
        conditions: r.conditions(&gates::CONDITIONS),
        protection: Protection {
            blocking: r.pods(&gates::BLOCKING_PODS),
            annotations: r.flag(&gates::HONOUR_ANNOTATIONS),
        },
        commands: Vec::new(),
        users: r.choice(&gates::USERS),
        users_idle: r.duration(&gates::USERS_IDLE),
        users_delay: r.duration(&gates::USERS_DELAY),
        force,
        prometheus: Vec::new(),
    }
}

pub(super) fn notify(r: &mut Reader<'_>) -> Notify {
    let url = r.maybe(&notify::WEBHOOK).map(Address::Url);
    let file = r.maybe(&notify::WEBHOOK_FILE);
    if url.is_some() && file.is_some() && r.sound(&["webhook", "webhook_file"]) {
        let reason = "is there beside notify.webhook; write one of them";
        r.fault(&notify::WEBHOOK_FILE, reason);
    }
    let token_file = r.maybe(&notify::TOKEN_FILE).map(PathBuf::from);
    let to = url.or(file.map(|file| Address::File(file.into())));
    if to.is_none() && token_file.is_some() && r.sound(&["webhook", "webhook_file", "token_file"]) {
        let reason = "is unused without a webhook; write one or remove it";
        r.fault(&notify::TOKEN_FILE, reason);
    }
    let template = r.choice(&notify::TEMPLATE);
    let command = r.command(&notify::COMMAND, &[]);
    let on = r.choices(&notify::ON);
    let timeout = r.duration(&notify::TIMEOUT);
    Notify {
        webhook: to.map(|to| Webhook {
            to,
            token_file,
            template,
        }),
        command,
        on,
        timeout,
        motd: r.flag(&notify::MOTD),
        alertmanager: alertmanager(r, timeout),
    }
}

fn alertmanager(r: &mut Reader<'_>, timeout: Duration) -> Option<Alertmanager> {
    let url = r.maybe(&notify::ALERTMANAGER);
    let token_file = r.maybe(&notify::ALERTMANAGER_TOKEN_FILE);
    if url.is_none()
        && token_file.is_some()
        && r.sound(&["alertmanager", "alertmanager_token_file"])
    {
        let reason = "is unused without notify.alertmanager; write that or remove it";
        r.fault(&notify::ALERTMANAGER_TOKEN_FILE, reason);
    }
    let silences = r.silences(&notify::SILENCE);
    let length = r.duration(&notify::SILENCE_FOR);
    url.map(|url| Alertmanager {
        to: Address::Url(url),
        token_file: token_file.map(PathBuf::from),
        silences,
        timeout,
        length,
    })
}

pub(super) fn fleet_lock(r: &mut Reader<'_>) -> Option<FleetLock> {
    let listen = r.maybe(&fleet_lock::LISTEN_ON);
    let user = r.word(&fleet_lock::CLIENT);
    let (id, group) = (r.maybe(&fleet_lock::ID), r.word(&fleet_lock::GROUP));
    let id = id.map(|id| sent_of(&id));
    let reboot_within = r.duration(&fleet_lock::REBOOT_WITHIN);
    let listen = listen.as_deref().and_then(Listen::new);
    listen.map(|listen| FleetLock {
        listen,
        user,
        id,
        group,
        reboot_within,
    })
}

pub(super) fn metrics(r: &mut Reader<'_>) -> Metrics {
    let listen = r.maybe(&metrics::LISTEN_ON);
    Metrics {
        listen: listen.as_deref().and_then(Listen::new),
        textfile: r.maybe(&metrics::TEXTFILE).map(PathBuf::from),
    }
}
