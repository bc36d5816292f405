//! The updater of each host asks over FleetLock, as a user of its own and over TCP, and reboots its host by itself when it is told to
//! go on (I1, I2, I4, I6, I14). It asks as Zincati does: header, body, no Content-Type.

use std::collections::BTreeSet;

use anyhow::ensure;
use testbed::{Host, verdict};

use super::Site;
use super::log::{Since, in_order};

const CONFIG: &str = "[fleet_lock]\nlisten = \"127.0.0.1:3333\"\n[reboot]\nretry = \"1s\"\n";
/// The id that Zincati makes of the machine's.
const APP: &str = "de35106b6ec24688b63afddaa156679b";

/// A host whose updater has a user.
fn host(site: &Site, name: &str) -> Host {
    let host = site.host(name, CONFIG);
    let user = "echo 'u zincati - \"Zincati user\"' | systemd-sysusers -";
    host.sh(user).unwrap();
    site.wait_status(&host, "idle");
    host
}

/// A script of bash that asks what its first argument says, and prints the answer: the first line and the body.
pub(super) fn question() -> String {
    format!(
        r#"id=$(systemd-id128 machine-id -a {APP} | tr -d -)
body='{{"client_params":{{"id":"'$id'","group":"default"}}}}'
head='HTTP/1.1\r\nfleet-lock-protocol: true\r\ncontent-length'
exec 3<>/dev/tcp/127.0.0.1/3333
printf "POST /v1/%s $head: %d\r\n\r\n%s" "$1" ${{#body}} "$body" >&3
tr -d '\r' <&3"#
    )
}

/// What this user's question is answered.
fn asks(host: &Host, user: &str, call: &str) -> anyhow::Result<String> {
    let quoted = question().replace('\'', "'\\''");
    host.sh(&format!(
        "runuser -u {user} -- bash -c '{quoted}' ask {call}"
    ))
}

fn says_yes(answer: &str) -> bool {
    answer.starts_with("HTTP/1.1 200 ")
}

/// Until the host is told to go on: drained, with its slot.
fn wait_yes(site: &Site, host: &Host) {
    site.wait("the updater to be told to go on", || {
        let answer = asks(host, "zincati", "pre-reboot")?;
        ensure!(says_yes(&answer), "{answer}");
        Ok(true)
    });
    assert!(site.cordoned(host));
    assert!(
        site.leases()
            .iter()
            .any(|lease| site.holder(lease) == host.name())
    );
}

#[test]
fn i1_i4_three_updaters_reboot_their_hosts_one_after_another() {
    let site = Site::new("fleet", 1);
    let hosts: Vec<Host> = ["fleet-a", "fleet-b", "fleet-c"]
        .map(|name| host(&site, name))
        .into();
    let since = Since::now();
    let mut waiting: BTreeSet<usize> = (0..hosts.len()).collect();
    site.wait("each updater to have rebooted its host", || {
        for (index, host) in hosts.iter().enumerate() {
            if !waiting.contains(&index) {
                continue;
            }
            let answer = asks(host, "zincati", "pre-reboot")?;
            if says_yes(&answer) {
                ensure!(site.cordoned(host), "{answer}");
                host.sh("systemctl --no-block reboot")?;
                waiting.remove(&index);
            }
        }
        ensure!(waiting.is_empty(), "these wait: {waiting:?}");
        Ok(true)
    });
    for host in &hosts {
        site.wait_rebooted(host, 1);
        site.nothing_left(host);
        // In use, and nothing is held.
        let answer = asks(host, "zincati", "steady-state").unwrap();
        assert!(says_yes(&answer), "{answer}");
        let journal = host.journal("kube-rebootd").unwrap();
        assert!(!journal.contains("asking for the reboot"), "{journal}");
        assert!(journal.contains("to go on"), "{journal}");
    }
    let requests = since.of(&site, &hosts);
    assert_eq!(verdict::most_cordoned_at_once(&requests), 1);
    in_order(&site, &requests, 3);
}

/// Also after the daemon was killed; and whoever is not the updater is not heard.
#[test]
fn i3_i6_i14_an_updater_is_answered_again_after_a_kill_and_others_are_not() {
    let site = Site::new("fleetkill", 1);
    let host = host(&site, "fleetkill-1");
    // Root neither: so does connect who may `kubectl port-forward` to a pod with hostNetwork.
    for user in ["nobody", "root"] {
        let no = asks(&host, user, "pre-reboot").unwrap();
        assert!(
            no.starts_with("HTTP/1.1 403 ") && no.contains("\"forbidden\""),
            "{user}: {no}"
        );
    }
    assert!(host.status().unwrap().starts_with("idle"));
    wait_yes(&site, &host);
    host.systemctl(&["kill", "-s", "KILL", "kube-rebootd"])
        .unwrap();
    // Everything is looked at again.
    wait_yes(&site, &host);
    // Zincati was started anew.
    asks(&host, "zincati", "steady-state").unwrap();
    site.wait("the slot to be given up", || {
        let answer = asks(&host, "zincati", "steady-state")?;
        ensure!(says_yes(&answer), "{answer}");
        Ok(true)
    });
    assert!(!site.cordoned(&host));
    site.nothing_left(&host);
    assert_eq!(host.boots().unwrap(), 1);
    wait_yes(&site, &host);
    host.sh("systemctl --no-block reboot").unwrap();
    site.wait_rebooted(&host, 1);
    site.nothing_left(&host);
}
