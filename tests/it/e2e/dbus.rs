//! What the daemon shows on a host's own system bus, to what every administrator has there.

use serde_json::Value;
use testbed::Host;

use super::Site;

const NODE: &str = "org.kuberebootd1 /org/kuberebootd1 org.kuberebootd1.Node";
const LOG: &str =
    "org.kuberebootd1 /org/freedesktop/LogControl1 org.freedesktop.LogControl1 LogLevel";
/// Somebody who may do nothing.
const NOBODY: &str = "setpriv --reuid=65534 --regid=65534 --clear-groups";

fn property(host: &Host, name: &str) -> anyhow::Result<Value> {
    let said = host.sh(&format!("busctl --json=short get-property {NODE} {name}"))?;
    let value: Value = serde_json::from_str(&said)?;
    Ok(value["data"].clone())
}

fn wait_phase(site: &Site, host: &Host, phase: &str) {
    site.wait(&format!("the phase {phase} on the bus"), || {
        let now = property(host, "Phase")?;
        anyhow::ensure!(now == phase, "it is {now}");
        Ok(true)
    });
}

#[test]
fn everybody_reads_what_it_does_and_root_sets_its_level() {
    let site = Site::new("shown", 1);
    site.pause("test");
    let host = site.host("shown-1", "[triggers]\nsentinels = [\"/run/wanted\"]\n");
    site.wait_status(&host, "idle");
    wait_phase(&site, &host, "idle");
    let systemctl = |words: &[&str]| host.systemctl(words).unwrap().trim().to_owned();
    let unit = |name| systemctl(&["show", "-P", name, "kube-rebootd"]);
    assert_eq!(unit("BusName"), "org.kuberebootd1");
    assert_eq!(unit("Type"), "notify");

    host.touch("/run/wanted").unwrap();
    wait_phase(&site, &host, "pending");
    let status = host.sh("kube-rebootd status --json").unwrap();
    let status: Value = serde_json::from_str(&status).unwrap();
    for (name, key) in [("Node", "node"), ("Group", "group"), ("Waits", "waits")] {
        assert_eq!(property(&host, name).unwrap(), status[key], "{status}");
    }
    let read = host.sh(&format!("{NOBODY} busctl get-property {NODE} Phase"));
    assert_eq!(read.unwrap().trim(), "s \"pending\"");

    // Of root alone.
    let set = host.sh(&format!("{NOBODY} busctl set-property {LOG} s debug"));
    let refused = set.unwrap_err().to_string();
    assert!(refused.contains("Access denied"), "{refused}");
    let level = || systemctl(&["service-log-level", "kube-rebootd"]);
    assert_eq!(level(), "info");
    systemctl(&["service-log-level", "kube-rebootd", "debug"]);
    assert_eq!(level(), "debug");
    site.wait_journal(&host, &["logging from debug on, before from info on"]);
    let target = || systemctl(&["service-log-target", "kube-rebootd"]);
    assert_eq!(target(), "journal");
    let other = host.run(&["systemctl", "service-log-target", "kube-rebootd", "kmsg"]);
    assert_ne!(other.unwrap().code, 0);
    assert_eq!(target(), "journal");

    // The bus goes and takes the name with it.
    let pid = unit("MainPID");
    host.systemctl(&["restart", "dbus"]).unwrap();
    wait_phase(&site, &host, "pending");
    assert_eq!(level(), "debug", "the same process");
    assert_eq!(unit("MainPID"), pid);
}
