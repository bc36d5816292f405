//! Applying the manifests again leaves slots alone, whatever applies them; new slots are paused.

use kube_rebootd::cluster::lease::Leases;

use crate::cli_host::{binary, said};
use crate::plane::{Plane, own};

const CLIENT_SIDE: &[&str] = &["apply", "-f", "-"];
const SERVER_SIDE: &[&str] = &["apply", "--server-side", "--force-conflicts", "-f", "-"];
/// As docs/get-started.md says: of what is printed only the slots, and only those that are not there.
const CREATE: &[&str] = &["create", "-l", "kube-rebootd/group", "-f", "-"];

async fn printed(words: &[&str]) -> String {
    let output = binary().arg("manifests").args(words).output().await;
    let answer = said(output.expect("it runs"));
    assert_eq!(answer.code, Some(0), "{words:?}: {}", answer.err);
    answer.out
}

/// Why a slot is paused.
async fn paused(plane: &Plane, name: &str) -> Option<String> {
    let leases = Leases::new(plane.admin().await, "kube-rebootd", "x");
    let at = std::time::Duration::ZERO;
    let lease = leases.get(name, at).await.expect("read");
    lease.unwrap_or_else(|| panic!("no Lease {name}")).paused
}

fn open(plane: &Plane, name: &str) {
    let key = "kube-rebootd/paused-";
    plane.kubectl(&["-n", "kube-rebootd", "annotate", "lease", name, key], "");
}

#[tokio::test]
async fn applying_the_manifests_again_pauses_and_opens_nothing_and_new_slots_are_paused() {
    let plane = own();
    slots_stay(&plane).await;
    new_slots_are_paused(&plane).await;
    one_line_pauses_all(&plane).await;
}

/// Open, paused since they were made, or paused by an admin: whatever applies the manifests again.
async fn slots_stay(plane: &Plane) {
    // What earlier versions printed and people applied has the slots in it.
    let before = printed(&["--group", "old", "--slots", "2"]).await;
    plane.kubectl(CLIENT_SIDE, &before);
    let first = paused(plane, "old").await;
    assert!(first.is_some() && paused(plane, "old-2").await == first);
    open(plane, "old");
    // The plane's own installation, by server-side apply.
    assert!(paused(plane, "default").await.is_some());
    open(plane, "default");
    for how in [CLIENT_SIDE, SERVER_SIDE, CLIENT_SIDE] {
        for words in [&[][..], &["--constrained"], &["--strict", "n1"], &[]] {
            plane.kubectl(how, &printed(words).await);
            assert_eq!(paused(plane, "old").await, None, "{how:?} {words:?}");
            assert_eq!(paused(plane, "old-2").await, first, "{how:?} {words:?}");
            assert_eq!(paused(plane, "default").await, None, "{how:?} {words:?}");
        }
    }
    // An admin's own reason stays as well.
    let why = "kube-rebootd/paused=look at the disks";
    plane.kubectl(&["-n", "kube-rebootd", "annotate", "lease", "old", why], "");
    for how in [CLIENT_SIDE, SERVER_SIDE] {
        plane.kubectl(how, &printed(&[]).await);
        let reason = paused(plane, "old").await;
        assert_eq!(reason.as_deref(), Some("look at the disks"), "{how:?}");
    }
}

/// Also one more beside one that is there, which stays as it is.
async fn new_slots_are_paused(plane: &Plane) {
    plane.kubectl(CREATE, &printed(&["--group", "web"]).await);
    assert!(paused(plane, "web").await.is_some());
    open(plane, "web");
    // One slot more, by the same line: it says that the first is there, and leaves it alone.
    let more = printed(&["--group", "web", "--slots", "2"]).await;
    let (done, said) = plane.try_kubectl(CREATE, &more);
    assert!(!done && said.contains("\"web\" already exists"), "{said}");
    assert_eq!(said.matches("already exists").count(), 1, "{said}");
    assert_eq!(paused(plane, "web").await, None);
    assert!(paused(plane, "web-2").await.is_some());
}

/// As docs/operating.md says to stop all reboots: a slot that was paused before keeps its reason, and every other is paused.
async fn one_line_pauses_all(plane: &Plane) {
    let before = paused(plane, "old").await;
    assert!(before.is_some() && paused(plane, "default").await.is_none());
    let (group, why) = ("kube-rebootd/group", "kube-rebootd/paused=why");
    let line = ["-n", "kube-rebootd", "annotate", "lease", "-l", group, why];
    let (_, said) = plane.try_kubectl(&line, "");
    assert!(said.contains("already has a value"), "{said}");
    assert_eq!(paused(plane, "old").await, before);
    for slot in ["default", "web"] {
        assert_eq!(
            paused(plane, slot).await.as_deref(),
            Some("why"),
            "{slot}: {said}"
        );
    }
}
