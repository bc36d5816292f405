//! Whoever asks rebootmgr for a reboot, as transactional-update does, on real hosts: the socket is the daemon's, below its sandbox
//! (I1, I6, I10, I14).

use anyhow::ensure;
use serde_json::{Value, json};
use testbed::{Host, verdict};

use super::Site;
use super::log::{Since, in_order};
use super::orders::status as shown;
use crate::host_rebootmgr::CLIENT;

const SOCKET: &str = "/run/rebootmgr/rebootmgrd.socket";
const CONFIG: &str = "[triggers]\nrebootmgr = true\n";
const NOBODY: [&str; 4] = [
    "setpriv",
    "--reuid=65534",
    "--regid=65534",
    "--clear-groups",
];

fn calls_as(host: &Host, user: &[&str], method: &str, given: &Value) -> anyhow::Result<Value> {
    let call = json!({"method": format!("org.openSUSE.rebootmgr.{method}"), "parameters": given});
    let call = call.to_string();
    let client = ["perl", "-e", CLIENT, SOCKET, &call];
    let said = host.run(&[user, &client].concat())?;
    ensure!(said.code == 0, "{}", said.stderr);
    Ok(serde_json::from_str(&said.stdout)?)
}

fn calls(host: &Host, method: &str, given: &Value) -> anyhow::Result<Value> {
    calls_as(host, &[], method, given)
}

fn reboot(host: &Host) {
    let answer = calls(host, "Reboot", &json!({"Reboot": 1, "Force": false})).unwrap();
    assert_eq!(answer["parameters"]["Method"], 1, "{answer}");
}

fn host(site: &Site, name: &str, config: &str) -> Host {
    let host = site.host(name, &format!("{CONFIG}{config}"));
    site.wait_status(&host, "idle");
    host
}

#[test]
fn i1_i10_three_hosts_reboot_one_after_another_each_once() {
    let site = Site::new("rebootmgr", 1);
    let hosts: Vec<Host> = ["rebootmgr-a", "rebootmgr-b", "rebootmgr-c"]
        .map(|name| host(&site, name, ""))
        .into();
    let since = Since::now();
    for host in &hosts {
        reboot(host);
    }
    for host in &hosts {
        site.wait_rebooted(host, 1);
        site.nothing_left(host);
        let history = &shown(host)["history"];
        assert_eq!(history[0]["reasons"], json!(["rebootmgrctl reboot"]));
        assert_eq!(history.as_array().unwrap().len(), 1);
        let status = calls(host, "Status", &json!({})).unwrap();
        assert_eq!(status["parameters"]["RebootStatus"], 0, "{status}");
    }
    let requests = since.of(&site, &hosts);
    assert_eq!(verdict::most_cordoned_at_once(&requests), 1);
    in_order(&site, &requests, 3);
}

/// The socket of a daemon that was killed is replaced, and what it had answered is done.
#[test]
fn i6_i14_a_daemon_that_is_killed_knows_what_it_was_asked_and_others_ask_in_vain() {
    let site = Site::new("rbmkill", 1);
    let host = host(&site, "rbmkill-1", "[gates]\nmin_uptime = \"24h\"\n");
    let denied = calls_as(&host, &NOBODY, "Reboot", &json!({"Reboot": 1})).unwrap();
    assert_eq!(denied["error"], "org.varlink.service.PermissionDenied");
    reboot(&host);
    site.wait_status(&host, "up for less than gates.min_uptime");
    host.systemctl(&["kill", "-s", "KILL", "kube-rebootd"])
        .unwrap();
    site.wait("the socket to be served again", || {
        let status = calls_as(&host, &NOBODY, "Status", &json!({}))?;
        ensure!(status["parameters"]["RebootStatus"] == 2, "{status}");
        Ok(true)
    });
    // As systemd's own client asks.
    let line = format!("varlinkctl call -j {SOCKET} org.openSUSE.rebootmgr.Ping '{{}}'");
    let said = host.sh(&line).unwrap();
    assert!(said.contains("\"Alive\":true"), "{said}");
    let cancelled = calls(&host, "Cancel", &json!({})).unwrap();
    assert_eq!(cancelled["parameters"]["Success"], true, "{cancelled}");
    site.wait_status(&host, "idle");
    let answer = calls(&host, "Reboot", &json!({"Reboot": 1, "Force": true})).unwrap();
    assert_eq!(answer["parameters"]["Method"], 1, "{answer}");
    site.wait_rebooted(&host, 1);
    site.nothing_left(&host);
}

/// Whoever has the socket keeps it until he ends.
#[test]
fn i14_somebody_elses_socket_is_left_to_him() {
    let site = Site::new("rbmother", 1);
    let host = site.host("rbmother-1", "");
    site.wait_status(&host, "idle");
    let other = format!(
        "mkdir -p /run/rebootmgr && systemd-run --unit=other perl -MIO::Socket::UNIX -e \
         'my $s = IO::Socket::UNIX->new(Local => \"{SOCKET}\", Listen => 5) or die; while (my $c = $s->accept) {{ close $c }}'"
    );
    host.sh(&other).unwrap();
    site.wait("the other to listen", || {
        host.sh(&format!("test -S {SOCKET}"))?;
        Ok(true)
    });
    host.write("/etc/kube-rebootd/config.d/50-rebootmgr.toml", CONFIG)
        .unwrap();
    host.systemctl(&["reload", "kube-rebootd"]).unwrap();
    site.wait_journal(&host, &["another process listens there"]);
    host.systemctl(&["stop", "other.service"]).unwrap();
    site.wait("the socket to be served", || {
        let status = calls(&host, "Status", &json!({}))?;
        ensure!(status["parameters"]["RebootStatus"] == 0, "{status}");
        Ok(true)
    });
}
