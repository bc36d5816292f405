//! Who is told of a reboot on a real host: outside of the daemon's sandbox, each moment once; and at the login, from inside of it.

use super::Site;

const PROGRAM: &str = "/usr/local/bin/tell";
/// Where the sandbox would not let the daemon write.
const TOLD: &str = "/var/log/told";

#[test]
fn i7_a_command_is_told_a_whole_cycle() {
    let site = Site::new("notices", 1);
    let config = format!("[notify]\ncommand = [\"{PROGRAM}\"]\n");
    let host = site.host("notices-1", &config);
    site.wait_status(&host, "idle");
    let script = format!("#!/bin/sh\necho \"$KUBE_REBOOTD_NODE $KUBE_REBOOTD_EVENT\" >> {TOLD}\n");
    host.write(PROGRAM, &script).unwrap();
    host.sh(&format!("chmod 755 {PROGRAM}")).unwrap();
    host.touch("/run/reboot-required").unwrap();
    site.wait_rebooted(&host, 1);
    let told = || host.sh(&format!("cat {TOLD} || true"));
    site.wait("the end to be told", || {
        Ok(told()?.contains("notices-1 rebooted"))
    });
    let told = told().unwrap();
    // Moments that pass within seconds may be passed over; what is told is told once and in this order.
    let all =
        ["required", "draining", "rebooting", "rebooted"].map(|event| format!("notices-1 {event}"));
    let seen: Vec<&str> = told.lines().collect();
    let expected: Vec<&str> = (all.iter().map(String::as_str))
        .filter(|line| seen.contains(line))
        .collect();
    assert_eq!(seen, expected, "{told}");
    // A restart repeats nothing: what was told stands on the Node.
    host.systemctl(&["restart", "kube-rebootd"]).unwrap();
    site.wait_status(&host, "idle");
    assert_eq!(host.sh(&format!("cat {TOLD}")).unwrap(), told);
    site.nothing_left(&host);
}

/// The unit's umask and sandbox: whoever logs in can read it, and it goes with the daemon.
#[test]
fn i14_a_login_is_told_what_status_says_until_the_daemon_stops() {
    const MOTD: &str = "/run/motd.d/kube-rebootd";
    let site = Site::new("motd", 1);
    site.pause("a test");
    let host = site.host("motd-1", "[notify]\nmotd = true\n");
    site.wait_status(&host, "idle");
    host.sh(&format!("test ! -e {MOTD}")).unwrap();
    host.touch("/run/reboot-required").unwrap();
    site.wait_status(&host, "group paused");
    site.wait("the login to tell", || {
        let told = host.sh(&format!("cat {MOTD} || true"))?;
        Ok(told.starts_with("This host requires a reboot since ")
            && told.contains(&format!("kube-rebootd: {}", host.status()?)))
    });
    let modes = host.sh(&format!("stat -c %a /run/motd.d {MOTD}")).unwrap();
    assert_eq!(modes.trim(), "755\n644");
    // A daemon that was killed is followed by one that says the same.
    host.write(MOTD, "old").unwrap();
    host.sh("systemctl kill -s KILL kube-rebootd").unwrap();
    site.wait("the next one to tell", || {
        Ok(host
            .sh(&format!("cat {MOTD} || true"))?
            .contains("group paused"))
    });
    host.systemctl(&["stop", "kube-rebootd"]).unwrap();
    host.sh(&format!("test ! -e {MOTD}")).unwrap();
}
