//! What kured's flags about alerts and pods that block become, and those about whom it tells.

use super::draft::{Draft, Table, list, text};
use super::given::Values;
use super::keys::instead;
use super::manifest::DaemonSet;
use crate::config::Listen;
use crate::label::is_url;
use crate::pattern::Pattern;
use crate::selector::Selector;

/// Where secrets are told to go: root's own directory.
const WEBHOOK: &str = "/etc/kube-rebootd/webhook";
const PASSWORD: &str = "/etc/kube-rebootd/prometheus-password";

/// `[gates]` and `[[gates.prometheus]]`
pub(super) fn gates(draft: &mut Draft, values: &Values) {
    if values.given("blocking-pod-selector") {
        let mut selectors = Vec::new();
        for item in values.items("blocking-pod-selector") {
            match item.parse::<Selector>() {
                Ok(_) => selectors.push(item),
                Err(why) => draft.odd.push(format!(
                    "--blocking-pod-selector={item} cannot be used here: {why}"
                )),
            }
        }
        if !selectors.is_empty() {
            let said = values.said("blocking-pod-selector");
            draft.key(
                Table::Gates,
                "blocking_pods",
                list(&selectors),
                &[&said, instead("blocking-pod-selector")],
            );
        }
    }
    if !values.text("prometheus-url").is_empty() {
        prometheus(draft, values);
        return;
    }
    for flag in [
        "alert-filter-regexp",
        "alert-filter-match-only",
        "alert-firing-only",
    ] {
        if values.set(flag) {
            let why = "It has no effect without --prometheus-url, for kured as well.";
            draft.absent.push((values.said(flag), why.to_owned()));
        }
    }
}

fn prometheus(draft: &mut Draft, values: &Values) {
    let Some(place) = Place::of(values.text("prometheus-url")) else {
        draft.odd.push(
            "the value of --prometheus-url, which is not repeated here, is no plain URL of http or https; write a [[gates.prometheus]] with its url by hand: \
             the gate is missing here"
                .to_owned(),
        );
        return;
    };
    draft.key(Table::Prometheus, "name", text("kured"), &[&place.note()]);
    let said = if place.user.is_some() {
        values.said("prometheus-url")
    } else {
        "--prometheus-url".to_owned()
    };
    draft.key(Table::Prometheus, "url", text(&place.url), &[&said]);
    if place.in_cluster() {
        draft.todo.push(format!(
            "Put a URL that works on the hosts into [[gates.prometheus]]: {} is the name of a Service, which only pods can look up. The address of the Service \
             (`kubectl get service`) works where kube-proxy or the network plugin serves hosts. Until then no reboot begins.",
            place.host
        ));
    }
    if let Some(user) = &place.user {
        draft.key(Table::Prometheus, "username", text(user), &[]);
        let why = "The password is a secret, and is not repeated here: it is to be the first line of this file, which only root can read.";
        draft.key(Table::Prometheus, "password_file", text(PASSWORD), &[why]);
        draft.todo.push(file(
            PASSWORD,
            "the password for Prometheus, from --prometheus-url",
        ));
    }
    alerts(draft, values);
}

fn alerts(draft: &mut Draft, values: &Values) {
    let given = values.given("alert-filter-regexp");
    let filter = match values.text("alert-filter-regexp") {
        // For kured it is found in every name; here it would be none.
        "" if given => ".*",
        filter => filter,
    };
    let only = values.switch("alert-filter-match-only");
    let mut said = if given {
        values.said("alert-filter-regexp")
    } else {
        "Without --alert-filter-regexp every alert counts for kured.".to_owned()
    };
    if only {
        said = format!("{said} {}", values.said("alert-filter-match-only"));
    }
    if let Err(why) = Pattern::anywhere(filter) {
        draft.odd.push(format!("{said} {why}; write it so that it is one for Rust's crate regex as well: the filter is missing here"));
    } else if only && !filter.is_empty() {
        draft.key(Table::Prometheus, "alerts", text(filter), &[&said]);
        draft.key(
            Table::Prometheus,
            "ignore",
            text(""),
            &["Of these kured ignores none."],
        );
    } else {
        let why = "The default of kube-rebootd ignores ^(Watchdog|InfoInhibitor)$, two alerts of kube-prometheus that fire all the time.";
        draft.key(Table::Prometheus, "ignore", text(filter), &[&said, why]);
    }
    let pending = !values.switch("alert-firing-only");
    let why = if pending {
        "Alerts that do not fire yet count for kured."
    } else {
        ""
    };
    draft.key(
        Table::Prometheus,
        "pending",
        pending.to_string(),
        &[&values.said("alert-firing-only"), why],
    );
}

/// Where a Prometheus is.
struct Place {
    /// Without a user.
    url: String,
    host: String,
    user: Option<String>,
}

impl Place {
    fn of(given: &str) -> Option<Self> {
        let (scheme, rest) = given.split_once("://")?;
        let end = rest.find('/').unwrap_or(rest.len());
        let (server, path) = rest.split_at(end);
        let (login, server) = match server.rsplit_once('@') {
            Some((login, server)) => (Some(login), server),
            None => (None, server),
        };
        let user = login.map(|login| login.split_once(':').map_or(login, |(user, _)| user));
        let url = format!("{scheme}://{server}{}", path.trim_end_matches('/'));
        let plain_user = user.is_none_or(|user| {
            // One that is escaped would have to be read as Go reads it.
            !user.is_empty() && user.chars().all(|c| c.is_ascii_graphic() && c != '%')
        });
        if !is_url(&url) || url.contains('?') || !plain_user {
            return None;
        }
        let host = server
            .rsplit_once(':')
            .filter(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit()));
        let host = host.map_or(server, |(host, _)| host).to_owned();
        Some(Self {
            url,
            host,
            user: user.map(str::to_owned),
        })
    }

    fn in_cluster(&self) -> bool {
        let address = self.host.starts_with('[') || self.host.parse::<std::net::Ipv4Addr>().is_ok();
        let service = |name: &str| name.split('.').any(|part| part == "svc") || !name.contains('.');
        !address && self.host != "localhost" && service(&self.host)
    }

    fn note(&self) -> String {
        let host = &self.host;
        format!(
            "It is asked by the host itself, and not by a pod: {host} has to be reachable from every host; `kube-rebootd doctor` asks it once. Alerts \
                 whose names begin with KubeRebootd never count."
        )
    }
}

/// What to do with a secret.
fn file(path: &str, what: &str) -> String {
    format!("Write {what} into {path} on each host, as root: install -m 600 /dev/stdin {path}")
}

/// `[notify]`
pub(super) fn notify(draft: &mut Draft, values: &Values) {
    // kured takes this one where both are given.
    let (flag, service) = if values.given("notify-url") {
        let url = values.text("notify-url").trim_matches(['"', '\'']);
        if url.is_empty() && values.text("notify-url").is_empty() && !values.unread("notify-url") {
            return words_of_kured(draft, values, false);
        }
        (
            "notify-url",
            url.split_once(':')
                .map_or("", |(scheme, _)| scheme)
                .to_ascii_lowercase(),
        )
    } else if values.given("slack-hook-url")
        && (values.unread("slack-hook-url") || !values.text("slack-hook-url").is_empty())
    {
        ("slack-hook-url", "slack".to_owned())
    } else {
        return words_of_kured(draft, values, false);
    };
    let said = values.said(flag);
    // shoutrrr's services, and the URL that each of them stands for.
    let (template, url) = match service.as_str() {
        "slack" if flag == "slack-hook-url" => ("slack", "the URL of --slack-hook-url".to_owned()),
        "slack" => (
            "slack",
            whose(
                flag,
                "https://hooks.slack.com/services/A/B/C of slack://hook:A-B-C@webhook",
            ),
        ),
        "mattermost" => (
            "slack",
            whose(
                flag,
                "https://HOST/hooks/TOKEN of mattermost://USER@HOST/TOKEN",
            ),
        ),
        "rocketchat" => (
            "slack",
            whose(flag, "https://HOST/hooks/A/B of rocketchat://HOST/A/B"),
        ),
        "googlechat" => (
            "slack",
            whose(flag, "https:// and what follows googlechat://"),
        ),
        "discord" => (
            "discord",
            whose(
                flag,
                "https://discord.com/api/webhooks/ID/TOKEN of discord://TOKEN@ID",
            ),
        ),
        "teams" => (
            "teams",
            "the URL of a workflow of Microsoft Teams, as connectors are retired".to_owned(),
        ),
        "generic" | "generic+https" | "generic+http" => (
            "json",
            whose(
                flag,
                "https:// and what follows generic://, without shoutrrr's own parameters",
            ),
        ),
        _ => {
            let why = "This service takes no webhook that kube-rebootd knows, or cannot be seen here. Write a notify.command that tells it, or a \
                       notify.webhook_file with a template for another one.";
            draft.absent.push((said, why.to_owned()));
            return words_of_kured(draft, values, true);
        }
    };
    let secret =
        "The URL is a secret: it is to be the first line of this file, which only root can read.";
    draft.key(
        Table::Notify,
        "webhook_file",
        text(WEBHOOK),
        &[&said, secret],
    );
    draft.key(Table::Notify, "template", text(template), &["Six events are told; kured's three are on = [\"draining\", \"rebooting\", \"rebooted\"]."]);
    draft.todo.push(file(WEBHOOK, &url));
    words_of_kured(draft, values, true);
}

fn whose(flag: &str, url: &str) -> String {
    format!("the URL that --{flag} stands for ({url})")
}

fn words_of_kured(draft: &mut Draft, values: &Values, told: bool) {
    for flag in [
        "slack-username",
        "slack-channel",
        "message-template-drain",
        "message-template-reboot",
        "message-template-uncordon",
    ] {
        if values.set(flag) {
            let why = if told {
                instead(flag)
            } else {
                "It has no effect without --notify-url or --slack-hook-url, for kured as well."
            };
            draft.absent.push((values.said(flag), why.to_owned()));
        }
    }
}

/// `[metrics]`
pub(super) fn metrics(draft: &mut Draft, values: &Values, set: &DaemonSet) {
    let flags = ["metrics-host", "metrics-port"]
        .into_iter()
        .filter(|flag| values.set(flag));
    let said: Vec<String> = flags.map(|flag| values.said(flag)).collect();
    if said.is_empty() && !set.host_network {
        return;
    }
    let said = if said.is_empty() {
        "hostNetwork: true".to_owned()
    } else {
        said.join(" ")
    };
    let host = values.text("metrics-host");
    let host = if host.is_empty() { "0.0.0.0" } else { host };
    let port = values.text("metrics-port");
    let address = if host.contains(':') {
        format!("[{host}]:{port}")
    } else {
        format!("{host}:{port}")
    };
    if set.host_network && Listen::new(&address).is_some() {
        let why = "The metrics have other names. Until kured has gone the port is taken.";
        draft.key(Table::Metrics, "listen", text(&address), &[&said, why]);
        return;
    }
    let why = "They were served by the pod; on the host nothing is opened unasked. Choose metrics.listen, for example \"127.0.0.1:9797\", or metrics.textfile for \
               node_exporter. The metrics have other names.";
    draft.absent.push((said, why.to_owned()));
}
