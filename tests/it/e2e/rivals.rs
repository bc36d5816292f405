//! Others write what the daemon rests on: an admin frees a slot that is held, another node takes it, labels
//! and Leases name nobody, a Node is registered anew (I1, I3, I6; docs/design.md 3 and 5).

use anyhow::ensure;
use testbed::{Host, verdict};

use super::log::{Since, in_order};
use super::phases::{Journey, Phase};
use super::{HEARTBEATS, Site, pods};

const SLOW: &str = "[drain]\nmode = \"always\"\nunmanaged = \"evict\"\n[reboot]\nretry = \"1s\"\n";
const EMPTY: &str = r#"{"spec":{"holderIdentity":null,"acquireTime":null}}"#;

#[test]
fn i1_a_slot_freed_by_an_admin_in_mid_drain_is_queued_for_again() {
    let site = Site::new("freed", 1);
    let lease = &site.leases()[0];
    let host = site.host("freed-1", SLOW);
    pods::held(&site, &host, "freed-held");
    let since = Since::now();
    host.touch("/run/reboot-required").unwrap();
    site.wait_status(&host, "draining: ");
    site.hold_by_admin(lease, "");
    site.wait_journal(&host, &["undoing: the slot was taken away"]);
    pods::let_go(&site, "freed-held");
    site.wait_rebooted(&host, 1);
    site.nothing_left(&host);
    let phases = Site::phases(&host).unwrap();
    let count = |wanted: &str| phases.iter().filter(|phase| *phase == wanted).count();
    assert_eq!((count("Undoing"), count("Rebooting")), (1, 1), "{phases:?}");
    in_order(&site, &since.of(&site, &[host]), 2);
    pods::gone(&site, "freed-held");
}

/// With a node's own credential, as whoever took over that node would.
fn steal(site: &Site, thief: &str, patch: &str) -> anyhow::Result<String> {
    let kubeconfig = site.bed.node_kubeconfig(thief)?;
    let coordinator = "--as=system:serviceaccount:kube-rebootd:coordinator";
    let lease = &site.leases()[0];
    let args = [
        "-n",
        "kube-rebootd",
        "patch",
        "lease",
        lease,
        "--type=merge",
        "-p",
        patch,
    ];
    site.bed
        .kubectl_as(&kubeconfig, &[&[coordinator], &args[..]].concat())
}

#[test]
fn i1_a_slot_stolen_by_another_node_never_brings_two_down() {
    let site = Site::new("stolen", 1);
    let (first, thief) = (site.host("stolen-1", SLOW), site.host("stolen-2", SLOW));
    pods::held(&site, &first, "stolen-held");
    site.wait_status(&thief, "idle");
    let since = Since::now();
    first.touch("/run/reboot-required").unwrap();
    site.wait_status(&first, "draining: ");
    thief.touch("/run/reboot-required").unwrap();
    site.wait_status(&thief, "queued: ");
    // Name to name is refused by the policy; empty, then taken by the daemon that waits, is not.
    let take = r#"{"spec":{"holderIdentity":"stolen-2"}}"#;
    let refused = steal(&site, "stolen-2", take).unwrap_err().to_string();
    assert!(refused.contains("denied"), "{refused}");
    steal(&site, "stolen-2", EMPTY).unwrap();
    site.wait_journal(&first, &["undoing: the slot was taken away"]);
    pods::let_go(&site, "stolen-held");
    for host in [&first, &thief] {
        site.wait_rebooted(host, 1);
        site.nothing_left(host);
    }
    pods::gone(&site, "stolen-held");
    let hosts = [first, thief];
    let requests = since.of(&site, &hosts);
    assert_eq!(verdict::most_cordoned_at_once(&requests), 1);
    verdict::cordons_while_holding(&requests).unwrap();
}

#[test]
fn i1_a_label_and_a_lease_that_name_nobody_keep_the_others_waiting_until_an_admin_says() {
    let site = Site::new("ghosts", 1);
    let lease = &site.leases()[0];
    let host = site.host("ghosts-1", SLOW);
    site.wait_status(&host, "idle");
    // On its own Node, without a Lease: cleared by the node itself, which holds nothing.
    let label = format!("kube-rebootd/slot={lease}");
    site.kubectl(&["label", "node", host.name(), &label]);
    site.wait("the stray label to go", || {
        let node = site.node(&host);
        let labels = &node["metadata"]["labels"];
        ensure!(labels.get("kube-rebootd/slot").is_none(), "{labels}");
        Ok(true)
    });
    // On another Node, which has no daemon: it counts, as that Node may be down.
    let ghost = format!(
        "apiVersion: v1\nkind: Node\nmetadata: {{name: ghosts-label, labels: {{kube-rebootd/slot: {lease}}}}}\n"
    );
    site.bed.apply(&ghost).unwrap();
    host.touch("/run/reboot-required").unwrap();
    site.wait_status(&host, "ghosts-label");
    assert_eq!(site.holder(lease), "");
    // A Lease that names a Node which never existed is held all the same (I5).
    site.hold_by_admin(lease, "ghosts-never");
    site.kubectl(&["delete", "node", "ghosts-label"]);
    site.wait_status(&host, "is held by ghosts-never");
    assert_eq!(host.boots().unwrap(), 1);
    site.hold_by_admin(lease, "");
    site.wait_rebooted(&host, 1);
    site.nothing_left(&host);
}

/// The Node is deleted, and the kubelet registers it anew, as it does only when it starts.
fn replace(site: &Site, host: &Host) {
    let path = format!("/api/v1/nodes/{}", host.name());
    let uid = || anyhow::Ok(site.bed.get(&path)?["metadata"]["uid"].take());
    let before = uid().unwrap();
    site.kubectl(&["delete", "node", host.name()]);
    host.systemctl(&["restart", "kubelet"]).unwrap();
    site.wait("a Node with another UID", || Ok(uid()? != before));
}

#[test]
fn i6_a_node_registered_anew_in_every_phase_reboots_once_and_leaves_nothing() {
    let on = Journey::new("anew");
    on.begin();
    on.reach(Phase::Queued);
    replace(&on.site, &on.host);
    on.reach(Phase::Queued);
    on.leave(Phase::Queued);

    // The Node that was cordoned is no more: undone, and begun anew.
    on.reach(Phase::Draining);
    replace(&on.site, &on.host);
    on.site
        .wait_journal(&on.host, &["undoing: the Node was deleted or replaced"]);
    on.leave(Phase::Draining);

    on.reach(Phase::Rebooting);
    replace(&on.site, &on.host);
    on.reach(Phase::Rebooting);
    // Gone while it boots, too.
    on.site.kubectl(&["delete", "node", on.host.name()]);
    on.leave(Phase::Rebooting);

    on.site.wait_status(&on.host, "verifying: ");
    on.leave(Phase::Verifying);
    on.site.wait_rebooted(&on.host, 1);
    // Collected with the Node it belonged to; the kubelet makes it again.
    let beat = format!("{HEARTBEATS}/{}", on.host.name());
    on.site.wait("the heartbeat Lease", || {
        on.site.bed.get(&beat).map(|_| true)
    });
    on.end();
}
