//! `explain` on a real host, beside everything else that tells where a node is: they agree.

use kube_rebootd_core::boot::Boot;
use kube_rebootd_core::names;
use kube_rebootd_core::record::Record;
use serde_json::{Value, json};
use testbed::Host;

use super::Site;
use super::orders::says;
use super::phases::{self, Journey};
use super::workload::{Workload, budget, deployment, spec};

const NODE: &str = "org.kuberebootd1 /org/kuberebootd1 org.kuberebootd1.Node";

const TEXTFILE: &str = "/run/kube-rebootd.prom";
const METRICS: &str = "[metrics]\ntextfile = \"/run/kube-rebootd.prom\"\n";
/// Phases in which a hold is on record.
const HELD: [&str; 4] = ["draining", "drained", "rebooting", "verifying"];

fn said(host: &Host, verb: &str) -> anyhow::Result<Value> {
    let said = host.sh(&format!("kube-rebootd {verb} --json"))?;
    Ok(serde_json::from_str(&said)?)
}

fn property(host: &Host, name: &str) -> anyhow::Result<Value> {
    let said = host.sh(&format!("busctl --json=short get-property {NODE} {name}"))?;
    let value: Value = serde_json::from_str(&said)?;
    Ok(value["data"].clone())
}

fn condition(site: &Site, host: &Host) -> Value {
    let node = site.node(host);
    let conditions = node["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    let one = conditions.find(|one| one["type"] == "RebootRequired");
    one.map_or(Value::Null, |one| one["reason"].clone())
}

/// The textfile is replaced some seconds after a change.
fn metrics(host: &Host, phase: &str, reason: &str) -> anyhow::Result<()> {
    let text = host.sh(&format!("cat {TEXTFILE}"))?;
    let mut chars = phase.chars();
    let first = chars.next().map(|c| c.to_ascii_uppercase());
    let phase: String = first.into_iter().chain(chars).collect();
    for line in [
        format!("kube_rebootd_phase{{phase=\"{phase}\"}} 1.0"),
        format!("kube_rebootd_reason{{reason=\"{reason}\"}} 1.0"),
    ] {
        anyhow::ensure!(text.contains(&line), "{line} is not among the metrics");
    }
    Ok(())
}

/// The phase that the Node's annotation tells; none: there is no hold.
fn on_node(site: &Site, host: &Host) -> anyhow::Result<Option<String>> {
    let node = site.node(host);
    let Some(text) = node["metadata"]["annotations"][names::STATE].as_str() else {
        return Ok(None);
    };
    let record = Record::decode(text)?;
    let userspace = host.sh("systemctl show -P UserspaceTimestampMonotonic")?;
    let boot = Boot {
        id: host.boot_id()?,
        userspace: userspace.trim().parse()?,
    };
    Ok(Some(record.phase(Some(&boot)).name().to_lowercase()))
}

/// What `explain` says once everything tells of this phase and this reason, and all the same.
fn agreed(site: &Site, host: &Host, phase: &str, reason: &str) -> Value {
    let held = HELD.contains(&phase).then_some(phase);
    agreed_with(site, host, phase, reason, held)
}

/// The same with the phase that the annotation tells.
fn agreed_with(
    site: &Site,
    host: &Host,
    phase: &str,
    reason: &str,
    annotation: Option<&str>,
) -> Value {
    let mut found = Value::Null;
    site.wait(&format!("all to tell of {phase} and {reason}"), || {
        let (explained, status) = (said(host, "explain")?, said(host, "status")?);
        anyhow::ensure!(explained["phase"] == phase, "{}", explained["phase"]);
        anyhow::ensure!(explained["reason"] == reason, "{}", explained["reason"]);
        let told = condition(site, host);
        anyhow::ensure!(told == reason, "the condition says {told}");
        for (key, value) in status.as_object().into_iter().flatten() {
            let same = explained[key] == *value;
            anyhow::ensure!(same, "{key}: {value} and {}", explained[key]);
        }
        for (name, key) in [
            ("Phase", "phase"),
            ("Node", "node"),
            ("Group", "group"),
            ("Waits", "waits"),
            ("Status", "status"),
        ] {
            let on_bus = property(host, name)?;
            let same = explained[key] == on_bus;
            anyhow::ensure!(same, "{name}: {on_bus} and {}", explained[key]);
        }
        let (says, sentence) = (host.status()?, &explained["status"]);
        anyhow::ensure!(sentence == says.as_str(), "STATUS: {says} and {sentence}");
        metrics(host, phase, reason)?;
        let held = on_node(site, host)?;
        let told = held.as_deref() == annotation;
        anyhow::ensure!(told, "the annotation: {held:?}");
        found = explained;
        Ok(true)
    });
    found
}

fn one<'a>(explained: &'a Value, list: &str, key: &str, name: &str) -> &'a Value {
    let mut all = explained[list].as_array().into_iter().flatten();
    let one = all.find(|one| one[key] == name);
    one.unwrap_or_else(|| panic!("no {name} among {}", explained[list]))
}

fn fate<'a>(explained: &'a Value, pod: &str) -> &'a Value {
    let mut all = explained["drain"]["pods"].as_array().into_iter().flatten();
    let one = all.find(|one| one["pod"].as_str().is_some_and(|name| name.contains(pod)));
    one.unwrap_or_else(|| panic!("no {pod} among {}", explained["drain"]))
}

#[test]
fn it_says_what_status_bus_and_condition_say_and_what_would_happen() {
    let site = Site::new("why", 1);
    let lease = &site.leases()[0];
    let host = site.host("why-1", &format!("[drain]\nmode = \"always\"\n{METRICS}"));
    let work = Workload::new(&site, "why");
    work.apply(&[
        deployment("web", 1, &spec(&host)),
        budget("web", "web", 0),
        deployment("free", 1, &spec(&host)),
    ]);
    work.wait_running(&host, 2);
    agreed(&site, &host, "idle", "Idle");

    // By a gate.
    site.pause("the rack is moved");
    host.touch("/run/reboot-required").unwrap();
    let pending = agreed(&site, &host, "pending", "Paused");
    let gate = one(&pending, "gates", "gate", "group-paused");
    assert_eq!(gate["state"], "closed");
    assert!(
        gate["why"].to_string().contains("the rack is moved"),
        "{gate}"
    );
    assert!(gate["opens_when"].to_string().contains("resume"), "{gate}");
    assert_eq!(
        one(&pending, "gates", "gate", "inhibitors")["state"],
        "open"
    );
    let sentinel = "sentinel /run/reboot-required";
    assert_eq!(
        one(&pending, "triggers", "trigger", sentinel)["verdict"],
        "yes"
    );

    // In the queue, with what a drain would do: nothing of it is done.
    site.hold_by_admin(lease, "somebody");
    site.resume();
    let queued = agreed(&site, &host, "queued", "Queued");
    let open = |gate: &Value| gate["state"] == "open";
    assert!(
        queued["gates"].as_array().unwrap().iter().all(open),
        "{queued}"
    );
    assert_eq!(
        (&queued["queue"]["place"], &queued["queue"]["waiting"]),
        (&json!(1), &json!(1))
    );
    assert_eq!(
        queued["holders"],
        json!([{"slot": lease, "node": "somebody"}])
    );
    let namespace = &work.namespace;
    assert_eq!(
        fate(&queued, &format!("{namespace}/free"))["fate"],
        "evicted"
    );
    let refused = fate(&queued, &format!("{namespace}/web"));
    assert_eq!(refused["fate"], "refused");
    assert_eq!(refused["budget"], json!(format!("{namespace}/web")));
    let page = host.sh("kube-rebootd explain").unwrap();
    assert!(
        page.contains(&format!("by budget {namespace}/web: ")),
        "{page}"
    );
    assert!(page.contains("1 of 1"), "{page}");
    for pod in work.pods(&host) {
        assert_eq!(
            pod["metadata"].get("deletionTimestamp"),
            None,
            "it was a dry run"
        );
    }

    // In its drain, against a budget.
    site.hold_by_admin(lease, "");
    let draining = agreed(&site, &host, "draining", "BlockedByBudget");
    assert_eq!(draining["hold"]["lease"], json!(lease));
    let blocked = one(&draining, "blockers", "budget", &format!("{namespace}/web"));
    let refused = fate(&draining, &format!("{namespace}/web"));
    assert_eq!(blocked["pod"], refused["pod"]);

    host.sh("rm /run/reboot-required").unwrap();
    site.wait_status(&host, "idle");
    site.nothing_left(&host);
    host.systemctl(&["stop", "kube-rebootd"]).unwrap();
    let stopped = host.run(&["kube-rebootd", "explain"]).unwrap();
    assert_eq!(stopped.code, 3);
    assert!(
        stopped
            .stdout
            .contains("not known: the daemon does not run"),
        "{}",
        stopped.stdout
    );
    assert!(
        stopped
            .stdout
            .contains(&format!("by budget {namespace}/web: ")),
        "{}",
        stopped.stdout
    );
    host.systemctl(&["start", "kube-rebootd"]).unwrap();
}

/// The phases that are over in a moment are held up in `whole::agree`.
#[test]
fn all_that_tells_where_a_node_is_agrees_in_every_phase_of_a_reboot() {
    let site = Site::new("agree", 1);
    let config = site.config(&format!("{}{METRICS}", phases::CONFIG));
    let on = Journey::with(site, |spec| spec.config(config));
    agreed(&on.site, &on.host, "idle", "Idle");
    on.in_every_phase(|on, phase| {
        let (phase, reason) = match phase {
            phases::Phase::Queued => ("queued", "Queued"),
            phases::Phase::Draining => ("draining", "BlockedByBudget"),
            phases::Phase::Rebooting => ("rebooting", "Rebooting"),
            phases::Phase::Verifying => ("verifying", "Verifying"),
        };
        agreed(&on.site, &on.host, phase, reason);
    });
}

#[test]
fn all_that_tells_where_a_node_is_agrees_in_every_phase_of_maintenance() {
    let site = Site::new("agree-kept", 1);
    let host = site.host("agree-kept-1", METRICS);
    agreed(&site, &host, "idle", "Idle");
    let (code, said) = says(&host, &["drain", "--wait", "5m"]);
    assert_eq!(code, 0, "{said}");
    agreed(&site, &host, "drained", "Maintenance");
    host.systemctl(&["stop", "kubelet"]).unwrap();
    assert_eq!(says(&host, &["undrain"]).0, 0);
    // The Node is not written to until there is an uncordon.
    agreed_with(&site, &host, "verifying", "Verifying", Some("drained"));
    host.systemctl(&["start", "kubelet"]).unwrap();
    agreed(&site, &host, "idle", "Idle");
    site.nothing_left(&host);
}
