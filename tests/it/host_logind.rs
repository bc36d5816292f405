//! logind and systemd on a private bus: refusals by their names, and restarts of everything.

use std::collections::BTreeSet;
use std::time::Duration;

use kube_rebootd::{
    host::{
        Bus, RebootError, boot,
        logind::{self, Changes},
        notify::Notify,
        own_inhibitor::OwnInhibitor,
        systemd,
    },
    root::Root,
};
use kube_rebootd_core::kind::Kind;

use crate::fake_bus::{FakeHostBus, Refusal};

/// Far above what a signal needs, reconnecting included.
const PATIENCE: Duration = Duration::from_secs(30);

async fn until_changed(changes: &mut Changes) {
    tokio::time::timeout(PATIENCE, changes.next())
        .await
        .expect("no change was seen");
}

#[tokio::test]
async fn reboot_is_asked_once_with_its_message() {
    let host = FakeHostBus::start().await;
    let bus = Bus::at(host.address());
    assert!(!logind::preparing_for_shutdown(&bus).await.unwrap());
    logind::announce_reboot(&bus, "kernel update").await;
    logind::ask_reboot(&bus, Kind::Reboot).await.unwrap();
    assert_eq!(host.knobs().reboots, 1);
    assert_eq!(host.knobs().wall, "kernel update");
    assert!(logind::preparing_for_shutdown(&bus).await.unwrap());
}

/// Never more than is asked for: with the flag of kexec, or of a root that is prepared, a full reboot would be none.
#[tokio::test]
async fn a_soft_reboot_is_asked_for_by_its_flag_alone() {
    let host = FakeHostBus::start().await;
    let bus = Bus::at(host.address());
    let asked = || {
        let knobs = host.knobs();
        (knobs.reboots, knobs.soft_reboots)
    };
    logind::ask_reboot(&bus, Kind::SoftReboot).await.unwrap();
    assert_eq!(asked(), (1, 1));
    logind::ask_reboot(&bus, Kind::Reboot).await.unwrap();
    assert_eq!(asked(), (2, 1));
    // A block lock keeps either from it.
    host.knobs().refusal = Refusal::Blocked257;
    let asked = logind::ask_reboot(&bus, Kind::SoftReboot).await;
    assert!(
        matches!(asked, Err(RebootError::BlockedByInhibitor(_))),
        "{asked:?}"
    );
}

/// As systemd 252 says it, and one that has no such method.
#[tokio::test]
async fn i8_an_older_logind_knows_no_soft_reboot_and_does_no_full_one() {
    let host = FakeHostBus::start().await;
    let bus = Bus::at(host.address());
    host.knobs().knows_soft_reboots = false;
    let error = logind::ask_reboot(&bus, Kind::SoftReboot)
        .await
        .unwrap_err();
    assert!(matches!(error, RebootError::NoSoftReboot(_)), "{error}");
    assert_eq!(host.knobs().reboots, 0);
    assert!(!logind::preparing_for_shutdown(&bus).await.unwrap());
}

#[tokio::test]
async fn i2_each_refusal_has_its_name() {
    let host = FakeHostBus::start().await;
    let bus = Bus::at(host.address());
    for refusal in [
        Refusal::Blocked252,
        Refusal::Blocked257,
        Refusal::Blocked258,
        Refusal::Masked,
        Refusal::Interactive,
        Refusal::InProgress,
    ] {
        host.knobs().refusal = refusal;
        let error = logind::ask_reboot(&bus, Kind::Reboot).await.unwrap_err();
        let right = match refusal {
            Refusal::Blocked252 | Refusal::Blocked257 | Refusal::Blocked258 => {
                matches!(error, RebootError::BlockedByInhibitor(_))
            }
            Refusal::Masked | Refusal::Interactive => matches!(error, RebootError::Denied(_)),
            _ => matches!(error, RebootError::InProgress(_)),
        };
        assert!(right, "{refusal:?} became {error:?}");
    }
}

#[tokio::test]
async fn silence_ends_in_a_timeout() {
    let host = FakeHostBus::start().await;
    host.knobs().refusal = Refusal::Silent;
    let bus = Bus::at(host.address());
    let hurry = async {
        host.until("Reboot was called", |state| state.reboots == 1)
            .await;
        tokio::time::pause();
        tokio::time::advance(Duration::from_secs(11)).await;
        tokio::time::resume();
    };
    let (asked, ()) = tokio::join!(logind::ask_reboot(&bus, Kind::Reboot), hurry);
    assert!(matches!(asked, Err(RebootError::NoAnswer(_))), "{asked:?}");
}

#[tokio::test]
async fn no_logind_is_an_error_and_not_an_open_gate() {
    let mut host = FakeHostBus::start().await;
    let bus = Bus::at(host.address());
    host.stop_logind().await;
    logind::block_inhibitors(&bus).await.unwrap_err();
    logind::preparing_for_shutdown(&bus).await.unwrap_err();
    let asked = logind::ask_reboot(&bus, Kind::Reboot).await;
    assert!(matches!(asked, Err(RebootError::Bus(_))), "{asked:?}");
    host.start_logind().await;
    assert!(logind::block_inhibitors(&bus).await.unwrap().is_empty());
}

#[tokio::test]
async fn only_locks_that_block_a_reboot_count() {
    let host = FakeHostBus::start().await;
    let bus = Bus::at(host.address());
    host.inhibit(&[
        ("shutdown", "kubelet", "graceful shutdown", "delay"),
        ("sleep:idle", "desktop", "film", "block"),
        ("idle:sleep:shutdown", "RPM", "Transaction running", "block"),
        ("shutdown", "backup", "nightly", "block-weak"),
    ])
    .await;
    let who: Vec<String> = logind::block_inhibitors(&bus)
        .await
        .unwrap()
        .into_iter()
        .map(|inhibitor| inhibitor.who)
        .collect();
    assert_eq!(who, ["RPM"]);
}

#[tokio::test]
async fn changes_survive_logind_and_the_bus() {
    let mut host = FakeHostBus::start().await;
    let mut changes = Changes::new(&Bus::at(host.address()));
    // Subscribed.
    until_changed(&mut changes).await;
    host.inhibit(&[("shutdown", "apt", "installing", "block")])
        .await;
    until_changed(&mut changes).await;
    // A signal without a reboot.
    host.prepare(true).await;
    until_changed(&mut changes).await;
    host.prepare(false).await;
    until_changed(&mut changes).await;
    host.stop_logind().await;
    until_changed(&mut changes).await;
    host.start_logind().await;
    until_changed(&mut changes).await;
    host.inhibit(&[]).await;
    until_changed(&mut changes).await;
    host.stop_bus();
    let back = async {
        host.start_bus().await;
    };
    tokio::join!(until_changed(&mut changes), back);
    host.inhibit(&[]).await;
    until_changed(&mut changes).await;
    let quiet = tokio::time::timeout(Duration::from_millis(50), changes.next()).await;
    assert!(quiet.is_err(), "a change was seen that never happened");
}

/// Found by review: any local user may send a signal of any name; hundreds kept the answers of logind away.
#[tokio::test]
async fn i14_signals_of_anybody_else_on_the_bus_are_not_heard() {
    let host = FakeHostBus::start().await;
    let bus = Bus::at(host.address());
    let mut changes = Changes::new(&bus);
    // Subscribed.
    until_changed(&mut changes).await;
    host.forge(None).await;
    // Sent to one connection alone they go around its match rules.
    let connection = bus.connection().await.unwrap();
    let own = connection.unique_name().unwrap().to_string();
    host.forge(Some(&own)).await;
    let asked = tokio::time::timeout(PATIENCE, logind::preparing_for_shutdown(&bus)).await;
    assert!(!asked.expect("an answer").unwrap());
    let quiet = tokio::time::timeout(Duration::from_millis(200), changes.next()).await;
    assert!(quiet.is_err(), "a forged signal was believed");
    // logind's own is.
    host.prepare(true).await;
    until_changed(&mut changes).await;
}

/// Found by a stranger: more signals than zbus keeps for a reader that is busy held up every answer after them, those that
/// the reader waited for among them.
#[tokio::test]
async fn signals_that_nobody_reads_hold_up_no_answer() {
    let host = FakeHostBus::start().await;
    let bus = Bus::at(host.address());
    let mut changes = Changes::new(&bus);
    // Subscribed.
    until_changed(&mut changes).await;
    // zbus keeps 64.
    for _ in 0..200 {
        host.prepare(false).await;
    }
    let asked = tokio::time::timeout(PATIENCE, logind::preparing_for_shutdown(&bus)).await;
    assert!(!asked.expect("an answer in time").unwrap());
    until_changed(&mut changes).await;
}

#[tokio::test]
async fn calls_survive_a_restart_of_the_bus() {
    let mut host = FakeHostBus::start().await;
    let bus = Bus::at(host.address());
    assert_eq!(systemd::system_state(&bus).await.unwrap(), "running");
    host.stop_bus();
    systemd::system_state(&bus).await.unwrap_err();
    host.start_bus().await;
    host.knobs().system_state = "degraded".to_owned();
    assert_eq!(systemd::system_state(&bus).await.unwrap(), "degraded");
    host.knobs().failed = vec!["a.service".to_owned(), "b\u{1b}.mount".to_owned()];
    let failed = systemd::failed_units(&bus).await.unwrap();
    let cleaned = ["a.service", "b\\u{1b}.mount"].map(str::to_owned);
    assert_eq!(failed, BTreeSet::from(cleaned));
}

#[tokio::test]
async fn boot_changes_with_either_half() {
    let host = FakeHostBus::start().await;
    let bus = Bus::at(host.address());
    let dir = tempfile::tempdir().unwrap();
    let root = Root::at(dir.path());
    let id = root.path("/proc/sys/kernel/random/boot_id");
    std::fs::create_dir_all(id.parent().unwrap()).unwrap();
    std::fs::write(&id, "one\n").unwrap();
    let first = boot::read(&root, &bus).await.unwrap();
    assert_eq!(first, boot::read(&root, &bus).await.unwrap());
    host.knobs().boot_usec += 1;
    let soft = boot::read(&root, &bus).await.unwrap();
    assert_ne!(first, soft);
    std::fs::write(&id, "two\n").unwrap();
    assert_ne!(soft, boot::read(&root, &bus).await.unwrap());
}

#[tokio::test]
async fn boot_complete_is_read_each_time() {
    let host = FakeHostBus::start().await;
    let bus = Bus::at(host.address());
    assert!(systemd::boot_complete(&bus).await.unwrap());
    host.knobs().boot_complete = "inactive".to_owned();
    assert!(!systemd::boot_complete(&bus).await.unwrap());
    assert!(systemd::version(&bus).await.unwrap().starts_with("257"));
}

/// As a real kubelet with `GracefulNodeShutdown` writes it (proved with 1.36.3).
#[tokio::test]
async fn the_kubelets_delay_lock_says_that_it_shuts_down_gracefully() {
    let host = FakeHostBus::start().await;
    let bus = Bus::at(host.address());
    let kubelet = |what, who, mode| {
        [(
            what,
            who,
            "Kubelet needs time to handle node shutdown",
            mode,
        )]
    };
    let rows = [
        (kubelet("shutdown", "kubelet", "delay"), true),
        (kubelet("sleep:shutdown", "k3s", "delay"), true),
        (kubelet("sleep", "kubelet", "delay"), false),
        (kubelet("shutdown", "kubelet", "block"), false),
        (
            [(
                "shutdown",
                "Unattended Upgrades Shutdown",
                "Stop ongoing upgrades",
                "delay",
            )],
            false,
        ),
    ];
    for (row, graceful) in rows {
        host.inhibit(&row).await;
        let locks = logind::locks(&bus).await.unwrap();
        assert_eq!(locks.kubelet, graceful, "{row:?}");
        let blocks = usize::from(row[0].3 == "block");
        assert_eq!(locks.block.len(), blocks, "{row:?}");
    }
}

/// `reboot.guard`: held until it is let go, and taken anew where logind has lost it; no reason for anybody to wait.
#[tokio::test]
async fn i2_the_own_inhibitor_is_gone_before_the_reboot_is_asked_for() {
    let host = FakeHostBus::start().await;
    let bus = Bus::at(host.address());
    let mut own = OwnInhibitor::new(&bus);
    let mut notify = Notify::default();
    let mut at = Duration::ZERO;
    own.keep(false, &mut notify, at).await;
    assert_eq!(host.knobs().inhibited, 0, "nothing is wanted");
    own.keep(true, &mut notify, at).await;
    own.keep(true, &mut notify, at).await;
    let locks = logind::locks(&bus).await.unwrap();
    assert!(locks.own && locks.block.is_empty(), "{locks:?}");
    assert_eq!(host.knobs().inhibited, 1);
    own.seen(locks.own);
    own.keep(false, &mut notify, at).await;
    assert!(host.knobs().inhibitors_now().is_empty());
    // logind has lost it.
    own.keep(true, &mut notify, at).await;
    host.knobs().locks.clear();
    own.seen(logind::locks(&bus).await.unwrap().own);
    own.keep(true, &mut notify, at).await;
    assert!(logind::locks(&bus).await.unwrap().own);
    own.keep(false, &mut notify, at).await;
    // It is tried once a minute where it cannot be had.
    host.knobs().heeds_root = false;
    let before = host.knobs().inhibited;
    own.keep(true, &mut notify, at).await;
    assert_eq!(host.knobs().inhibited, before, "root would be let through");
    host.knobs().heeds_root = true;
    own.keep(true, &mut notify, at).await;
    assert_eq!(host.knobs().inhibited, before);
    at += Duration::from_secs(60);
    own.keep(true, &mut notify, at).await;
    assert_eq!(host.knobs().inhibited, before + 1);
}
