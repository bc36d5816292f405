//! The real Zincati on real hosts asks the daemon over FleetLock and reboots its host by itself (I1, I2, I3, I4, I6): in order, when
//! either of the two is restarted or killed on the way, and when a drain takes longer than a question waits.
//!
//! What it has beside it on its own distribution is played: rpm-ostree and the server of its updates (`testbed/src/zincati.rs`); and
//! its time runs faster.

use anyhow::ensure;
use testbed::{Content, Host, HostSpec, verdict};

use super::kills::killed;
use super::log::{Since, in_order};
use super::{Site, pods};

mod files;

const CONFIG: &str = "[fleet_lock]\nlisten = \"127.0.0.1:3333\"\n\
                      [drain]\nmode = \"always\"\nunmanaged = \"evict\"\n[reboot]\nretry = \"1s\"\n";
/// The newest version that it is offered; a host begins with 1.
const NEWEST: &str = "/var/lib/bed-newest";
/// The version that the host has booted.
const BOOTED: &str = "/var/lib/bed-ostree/booted";
/// While it is there, rpm-ostree does not do what Zincati wants after a yes.
const REFUSES: &str = "/run/bed-ostree-refuses";
/// A made-up node that holds the slot.
const HOLDER: &str = "somebody-else";

/// What Zincati says when it was answered to `steady-state`.
const STEADY: &str = "reached steady state";
/// And when rpm-ostree has refused.
const FAILED: &str = "failed to finalize deployment";

fn spec(site: &Site, name: &str) -> HostSpec {
    let spec = HostSpec::named(name).content(Content::Zincati);
    spec.config(site.config(CONFIG))
}

/// A host whose Zincati waits for an update.
fn host(site: &Site, name: &str) -> Host {
    let host = site.boot(&spec(site, name));
    site.wait_status(&host, "idle");
    // The daemon may not have been there when it asked first.
    restart(site, &host);
    host
}

/// Zincati is started anew, and is content.
fn restart(site: &Site, host: &Host) {
    let before = said(host, STEADY).unwrap();
    host.systemctl(&["restart", "zincati"]).unwrap();
    wait_said(site, host, STEADY, before + 1);
}

/// Waits until Zincati has said this so often, over all boots.
fn wait_said(site: &Site, host: &Host, words: &str, times: usize) {
    let what = format!("Zincati on {} to say {words:?}", host.name());
    site.wait(&what, || {
        let said = said(host, words)?;
        ensure!(said >= times, "{said} of {times} times");
        Ok(true)
    });
}

fn said(host: &Host, words: &str) -> anyhow::Result<usize> {
    Ok(host.journal("zincati")?.matches(words).count())
}

/// Waits until Zincati has said this in this boot.
fn wait_said_now(site: &Site, host: &Host, words: &str) {
    let what = format!("Zincati on {} to say {words:?} in this boot", host.name());
    site.wait(&what, || {
        let journal = host.sh("journalctl --no-pager -b -u zincati")?;
        ensure!(journal.contains(words), "{journal}");
        Ok(true)
    });
}

/// There is an update for it.
fn publish(host: &Host) {
    host.write(NEWEST, "2\n").unwrap();
}

/// Updated by one reboot, which was Zincati's, and nothing is left; Zincati runs again, and is content.
fn updated(site: &Site, host: &Host) {
    site.wait_rebooted(host, 1);
    site.nothing_left(host);
    wait_said_now(site, host, STEADY);
    assert_eq!(host.read(BOOTED).unwrap(), "2\n");
    assert_eq!(host.boots().unwrap(), 2);
    let journal = host.journal("kube-rebootd").unwrap();
    assert!(!journal.contains("asking for the reboot"), "{journal}");
    assert!(journal.contains("to go on"), "{journal}");
}

#[test]
fn i1_i4_three_real_zincatis_reboot_their_hosts_one_after_another() {
    let site = Site::new("zin", 1);
    let hosts: Vec<Host> = ["zin-a", "zin-b", "zin-c"]
        .map(|name| host(&site, name))
        .into();
    let since = Since::now();
    for host in &hosts {
        publish(host);
    }
    for host in &hosts {
        updated(&site, host);
    }
    let requests = since.of(&site, &hosts);
    assert_eq!(verdict::most_cordoned_at_once(&requests), 1);
    in_order(&site, &requests, 3);
}

/// A new Zincati knows nothing of the yes that the old one heard: what was drained for it is given back.
#[test]
fn i3_zincati_restarted_after_the_yes_gives_the_drain_back_and_goes_on_later() {
    let site = Site::new("zinagain", 1);
    let host = host(&site, "zinagain-1");
    host.touch(REFUSES).unwrap();
    publish(&host);
    site.wait_status(&host, "was told to reboot it");
    wait_said(&site, &host, FAILED, 1);
    assert!(site.cordoned(&host));
    // Nothing for the new one to ask for at once.
    host.write(NEWEST, "1\n").unwrap();
    restart(&site, &host);
    site.wait_status(&host, "idle");
    site.nothing_left(&host);
    assert_eq!(host.boots().unwrap(), 1);
    host.sh(&format!("rm {REFUSES}")).unwrap();
    publish(&host);
    updated(&site, &host);
}

/// In the queue, in the drain, between the yes and the shutdown, and after the boot.
#[test]
fn i6_the_daemon_killed_in_every_phase_of_an_updaters_hold_reboots_once() {
    let site = Site::new("zinkill", 1);
    let lease = site.leases().remove(0);
    let host = host(&site, "zinkill-1");
    let pod = "zinkill-held";
    pods::held(&site, &host, pod);
    site.hold_by_admin(&lease, HOLDER);
    host.systemctl(&["disable", "kubelet"]).unwrap();
    host.touch(REFUSES).unwrap();
    let since = Since::now();
    publish(&host);
    // Killed there, it is there again.
    let killed_in = |words: &str| {
        site.wait_status(&host, words);
        killed(&site, &host);
        site.wait_status(&host, words);
    };
    killed_in(&format!("queued: {lease} is held by {HOLDER}"));
    site.hold_by_admin(&lease, "");
    killed_in("draining: ");
    pods::let_go(&site, pod);
    // It looks at everything again, and tells Zincati when that asks once more.
    killed_in("was told to reboot it");
    let failed = said(&host, FAILED).unwrap();
    wait_said(&site, &host, FAILED, failed + 1);
    host.sh(&format!("rm {REFUSES}")).unwrap();
    site.wait("the second boot", || Ok(host.boots()? == 2));
    killed_in("verifying: ");
    assert_eq!(site.holder(&lease), host.name());
    host.systemctl(&["enable", "--now", "kubelet"]).unwrap();
    updated(&site, &host);
    in_order(&site, &since.of(&site, std::slice::from_ref(&host)), 1);
    pods::gone(&site, pod);
}

/// It is told no after a while, asks once more, and hears yes when the last pod has gone.
#[test]
fn i2_a_drain_that_takes_longer_than_a_question_waits_is_asked_for_again() {
    let site = Site::new("zinlong", 1);
    let host = host(&site, "zinlong-1");
    let pod = "zinlong-held";
    pods::held(&site, &host, pod);
    publish(&host);
    wait_said(&site, &host, "server-side error, code 423: draining: ", 1);
    assert_eq!(host.boots().unwrap(), 1);
    assert!(site.cordoned(&host));
    pods::let_go(&site, pod);
    updated(&site, &host);
    let phases = Site::phases(&host).unwrap();
    assert!(!phases.contains(&"Undoing".to_owned()), "{phases:?}");
    pods::gone(&site, pod);
}

/// In either boot it asks where nobody listens, looks for no update, and goes on when the daemon is up.
#[test]
fn i6_zincati_that_is_up_before_the_daemon_waits_for_it() {
    let site = Site::new("zinearly", 1);
    let spec = HostSpec {
        daemon: false,
        ..spec(&site, "zinearly-1")
    };
    let host = site.boot(&spec);
    publish(&host);
    let nobody = "lock-manager steady-state failure: client-side error";
    wait_said(&site, &host, nobody, 2);
    assert_eq!(said(&host, "update staged").unwrap(), 0);
    // It does not start with the next boot either.
    host.systemctl(&["start", "kube-rebootd"]).unwrap();
    site.wait("the second boot", || Ok(host.boots()? == 2));
    wait_said_now(&site, &host, nobody);
    // Held over the boot, by whom no daemon has spoken for yet.
    let lease = site.leases().remove(0);
    assert_eq!(site.holder(&lease), host.name());
    host.systemctl(&["start", "kube-rebootd"]).unwrap();
    updated(&site, &host);
}
