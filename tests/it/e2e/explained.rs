//! `explain` on a real host, beside everything else that tells where a node is: they agree.

use serde_json::{Value, json};
use testbed::Host;

use super::Site;
use super::workload::{Workload, budget, deployment, spec};

const NODE: &str = "org.kuberebootd1 /org/kuberebootd1 org.kuberebootd1.Node";

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

/// What `explain` says once everything tells of this phase and this reason, and all the same.
fn agreed(site: &Site, host: &Host, phase: &str, reason: &str) -> Value {
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
    let host = site.host("why-1", "[drain]\nmode = \"always\"\n");
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
