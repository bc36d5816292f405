//! A holder that died keeps its slot (I5) until an admin says otherwise; what it left is put right when
//! it comes back (I3, I6).

use std::path::Path;
use std::process::{Command, Output};

use anyhow::ensure;
use testbed::Host;

use super::{Site, pods};

const SLOW: &str = "[drain]\nmode = \"always\"\nunmanaged = \"evict\"\n";

/// The program as on a laptop: with a kubeconfig, without a host. It is run in the bed's network, as
/// the thread that starts it is there.
fn program(kubeconfig: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_kube-rebootd"))
        .args(args)
        .arg("--kubeconfig")
        .arg(kubeconfig)
        .output()
        .unwrap()
}

/// What it says when all went well.
fn said(output: &Output) -> String {
    let (out, err) = (&output.stdout, String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{}: {err}", output.status);
    String::from_utf8_lossy(out).into_owned()
}

/// A host that lost power while it drained, holding the slot.
fn dies_while_draining(site: &Site, host: &Host, pod: &str) {
    pods::slow(site, host, pod, 60);
    host.touch("/run/reboot-required").unwrap();
    site.wait_status(host, "draining: ");
    host.power_cut().unwrap();
}

/// Runs a line that was printed for somebody with an admin's kubeconfig.
fn run_line(site: &Site, line: &str) {
    let line = line.trim().strip_prefix("kubectl ").unwrap();
    let (args, patch) = line.split_once(" -p ").unwrap();
    let mut args: Vec<&str> = args.split_whitespace().collect();
    args.extend(["-p", patch.trim_matches('\'')]);
    site.kubectl(&args);
}

#[test]
fn i5_a_dead_holder_keeps_its_slot_until_an_admin_frees_it() {
    let site = Site::new("dead", 1);
    let lease = site.leases()[0].clone();
    let (first, second) = (site.host("dead-1", SLOW), site.host("dead-2", SLOW));
    let admin = site.bed.admin_kubeconfig();
    dies_while_draining(&site, &first, "dead-slow-1");
    second.touch("/run/reboot-required").unwrap();
    site.wait_status(&second, &format!("queued: {lease} is held by dead-1"));

    // Its waiting record follows what it says.
    site.wait("nodes to show who holds and who waits", || {
        let table = said(&program(&admin, &["nodes", "--group", "dead"]));
        let held = format!("holds {lease}");
        for words in ["dead-1", &held, "draining", "dead-2", "waits"] {
            ensure!(table.contains(words), "{words:?} is not in\n{table}");
        }
        Ok(true)
    });

    // A node may not: it prints what an admin has to run, and that works.
    let node = site.bed.node_kubeconfig("dead-2").unwrap();
    let refused = program(&node, &["unlock", "dead-1"]);
    assert_eq!(refused.status.code(), Some(4));
    assert_eq!(site.holder(&lease), "dead-1");
    let text = String::from_utf8(refused.stderr).unwrap();
    let lines: Vec<&str> = text
        .lines()
        .filter(|line| line.contains(" patch "))
        .collect();
    assert_eq!(lines.len(), 2, "{text}");
    pods::slow(&site, &second, "dead-slow-2", 60);
    for line in lines {
        run_line(
            &site,
            &line.replace("lease LEASE", &format!("lease {lease}")),
        );
    }

    // The next in the queue takes it, and dies too.
    site.wait_status(&second, "draining: ");
    assert_eq!(site.holder(&lease), "dead-2");
    second.power_cut().unwrap();
    // Its Node is still Ready: the lifecycle controller has not missed it yet.
    let freed = said(&program(&admin, &["unlock", "dead-2", "--force"]));
    assert!(freed.contains(&format!("slot {lease}: free")), "{freed}");
    assert_eq!(site.holder(&lease), "");

    // Back again, with a cordon that nobody else would take off.
    for (host, pod) in [(&first, "dead-slow-1"), (&second, "dead-slow-2")] {
        assert!(site.cordoned(host));
        host.power_on().unwrap();
        site.wait_rebooted(host, 1);
        pods::gone(&site, pod);
        site.nothing_left(host);
    }
}
