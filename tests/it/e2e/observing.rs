//! A host that only observes says what it would do, and does nothing of it (docs/design.md 10).

use super::{HEARTBEATS, Site};

/// An observer looks at the other nodes every five minutes: those of other tests may all be rebooting in that moment.
const MODE: &str = "[drain]\nmode = \"always\"\n";

#[test]
fn i11_an_observer_takes_no_slot_and_makes_nobody_wait() {
    let site = Site::new("observe", 1);
    // The first key stands before any table.
    let config = format!("mode = \"observe\"\n{}", site.config(MODE));
    let spec = testbed::HostSpec::named("observe-1").config(config);
    let host = site.boot(&spec);
    host.touch("/run/reboot-required").unwrap();
    site.wait_journal(&host, &["would take slot observe"]);
    assert_eq!(site.holder("observe"), "");
    let beat = format!("{HEARTBEATS}/{}", host.name());
    site.wait("the kubelet's Lease", || site.bed.get(&beat).map(|_| true));
    site.nothing_left(&host);
    // A shutdown that it would take over goes on.
    host.sh("shutdown -r +60").unwrap();
    site.wait_journal(&host, &["a reboot scheduled for"]);
    host.sh("test -e /run/systemd/shutdown/scheduled && shutdown -c")
        .unwrap();
    // Made to act, it does at once.
    let config = site.config(MODE);
    host.write("/etc/kube-rebootd/config.toml", &config)
        .unwrap();
    // Waited for, it would be cancelled by the reboot.
    host.systemctl(&["--no-block", "reload", "kube-rebootd"])
        .unwrap();
    site.wait_rebooted(&host, 1);
    site.nothing_left(&host);
}
