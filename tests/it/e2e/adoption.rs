//! A reboot that an updater schedules with logind takes its turn instead (docs/design.md 4): the real logind, the
//! real `shutdown`.

use super::Site;

const SCHEDULED: &str = "test -e /run/systemd/shutdown/scheduled";
const GONE: &str = "test ! -e /run/systemd/shutdown/scheduled";

#[test]
fn i2_a_scheduled_reboot_is_taken_over_and_waits_for_its_turn() {
    let site = Site::new("adopt", 1);
    let config = "[triggers]\nscheduled_shutdown = \"adopt\"\n";
    let host = site.host("adopt-1", config);
    site.wait_status(&host, "idle");
    site.hold_by_admin("adopt", "somebody-else");

    // No poweroff, whoever asks.
    host.sh("shutdown -P +5").unwrap();
    site.wait_journal(
        &host,
        &["a poweroff scheduled for", "only a reboot is taken over"],
    );
    host.sh(&format!("{SCHEDULED} && shutdown -c")).unwrap();

    // Seen at the start as well as while it runs.
    for stopped in [true, false] {
        if stopped {
            host.systemctl(&["stop", "kube-rebootd"]).unwrap();
        }
        host.sh("shutdown -r +5").unwrap();
        if stopped {
            host.systemctl(&["start", "kube-rebootd"]).unwrap();
        }
        site.wait("the schedule to be cancelled", || Ok(host.sh(GONE).is_ok()));
        site.wait_status(&host, "queued: adopt is held by somebody-else");
    }
    site.wait_journal(&host, &["is cancelled: it is a request now"]);
    assert_eq!(host.boots().unwrap(), 1);
    site.hold_by_admin("adopt", "");
    site.wait_rebooted(&host, 1);
    site.nothing_left(&host);
}

#[test]
fn a_scheduled_reboot_is_told_of_and_left_alone_unless_configured() {
    let site = Site::new("warned", 1);
    let host = site.host("warned-1", "");
    site.wait_status(&host, "idle");
    host.sh("shutdown -r +60").unwrap();
    site.wait_journal(
        &host,
        &["a reboot scheduled for", "will go around slot and drain"],
    );
    host.sh(&format!("{SCHEDULED} && shutdown -c")).unwrap();
    site.wait_status(&host, "idle");
}
