//! Check commands on a real host: fake tools behind the presets' own commands, run by PID 1.

use testbed::Host;

use super::{CYCLE, Site};

/// What every preset's fake tool answers: no answer, no reboot, a reboot, another reboot code.
const PRESETS: [(&str, &str, [u8; 4]); 5] = [
    ("needs-restarting", "dnf", [3, 0, 1, 1]),
    ("needs-restarting-dnf5", "dnf5", [2, 0, 1, 1]),
    ("zypper", "zypper", [6, 0, 102, 102]),
    ("needrestart", "needrestart", [3, 0, 1, 2]),
    ("kured", "sentinel-command", [2, 1, 0, 0]),
];

/// Tools that end in odd ways, each with a reboot code that such an end could be mistaken for.
const ODD: [(&str, &str, &str); 4] = [
    (
        "hangs",
        "trap 'exit 1' TERM; while :; do sleep 0.1; done",
        "it took longer than its timeout",
    ),
    ("killed", "kill -KILL $$", "it was killed by signal 9"),
    ("dumped", "kill -ABRT $$", "it was killed by signal 6"),
    ("missing", "", "systemd could not start the command"),
];

/// dnf's own words, below a first line that is empty.
const SAID: &str = "echo; echo Reboot is required to fully utilize these updates.";

fn config() -> String {
    let check = |name: &str, rest: &str| {
        format!(
            "[[triggers.check]]\nname = \"{name}\"\n{rest}\nperiod = \"10s\"\ntimeout = \"2s\"\nsettle = \"0s\"\n"
        )
    };
    let presets = PRESETS.iter().map(|(preset, tool, _)| {
        // The only preset without a command of its own.
        let command = match *preset {
            "kured" => format!("command = [\"/usr/local/bin/{tool}\"]\n"),
            _ => String::new(),
        };
        check(preset, &format!("preset = \"{preset}\"\n{command}"))
    });
    let odd = ODD.iter().map(|(name, ..)| {
        let rest = format!(
            "command = [\"/usr/local/bin/{name}\"]\nreboot_exit_codes = [1, 6, 9, 134, 137, 203]"
        );
        check(name, &rest)
    });
    presets.chain(odd).collect()
}

fn write_tool(host: &Host, name: &str, script: &str) {
    let path = format!("/usr/local/bin/{name}");
    host.write(&path, &format!("#!/bin/sh\n{script}\n"))
        .unwrap();
    host.sh(&format!("chmod +x {path}")).unwrap();
}

/// Lets every preset's tool answer with its `turn`-th code, at once: a reload runs all checks anew.
/// After the next boot they are content, as real ones would be.
fn answer(host: &Host, turn: usize) {
    host.touch("/run/before-the-boot").unwrap();
    for (_, tool, codes) in PRESETS {
        let (ok, code) = (codes[1], codes[turn]);
        write_tool(
            host,
            tool,
            &format!("{SAID}\n[ -e /run/before-the-boot ] || exit {ok}\nexit {code}"),
        );
    }
    host.systemctl(&["reload", "kube-rebootd"]).unwrap();
}

fn verdicts(turn: usize, says: &str) -> Vec<String> {
    let line = |(name, _, codes): &(&str, &str, [u8; 4])| {
        format!(
            "check {name} {}",
            says.replace("CODE", &codes[turn].to_string())
        )
    };
    PRESETS.iter().map(line).collect()
}

/// PID 1 has let go of every check, and none has made the host degraded. A check that was killed is a failed unit for the
/// moment until PID 1 collects it, and those of the last reload may still come: so all is looked at until it is so at once.
fn no_unit_left(site: &Site, host: &Host) {
    site.bed
        .wait_for("the checks' units to be gone", CYCLE, || {
            let units = host.systemctl(&[
                "list-units",
                "--all",
                "--no-legend",
                "'kube-rebootd-check-*'",
            ])?;
            anyhow::ensure!(units.trim().is_empty(), "{units}");
            let failed = host.systemctl(&["--failed", "--no-legend"])?;
            anyhow::ensure!(failed.trim().is_empty(), "failed units: {failed}");
            let state = host.run(&["systemctl", "is-system-running"])?;
            anyhow::ensure!(state.stdout.trim() == "running", "{}", state.stdout);
            Ok(true)
        })
        .unwrap();
}

/// One of the odd checks never answers.
const UNANSWERED: &str = "idle: no reboot needed, but check ";

#[test]
fn i8_only_a_listed_exit_code_of_a_check_reboots() {
    let site = Site::new("chk", 1);
    site.pause("test");
    let host = site.host("chk-1", "");
    for (name, script, _) in ODD.iter().filter(|(_, script, _)| !script.is_empty()) {
        write_tool(&host, name, script);
    }
    host.write("/etc/kube-rebootd/config.toml", &site.config(&config()))
        .unwrap();

    answer(&host, 0);
    let odd = ODD.map(|(name, _, why)| format!("check {name} says nothing: {why}"));
    site.wait_journal(&host, &odd);
    site.wait_journal(
        &host,
        &verdicts(0, "says nothing: exit code CODE is in neither"),
    );
    site.wait_status(&host, UNANSWERED);

    answer(&host, 1);
    site.wait_journal(
        &host,
        &PRESETS.map(|(name, ..)| format!("check {name}: no reboot needed")),
    );
    site.wait_status(&host, UNANSWERED);

    // As where its plugin is not installed.
    for dnf in ["dnf", "dnf5"] {
        write_tool(&host, dnf, "echo No such command; exit 1");
    }
    host.systemctl(&["reload", "kube-rebootd"]).unwrap();
    let unsaid = ["needs-restarting", "needs-restarting-dnf5"]
        .map(|name| format!("check {name} says nothing: it ended as for a reboot and did not say"));
    site.wait_journal(&host, &unsaid);
    site.wait_status(&host, UNANSWERED);

    answer(&host, 2);
    site.wait_journal(&host, &verdicts(2, "wants a reboot: exit code CODE"));
    site.wait_status(&host, "group paused: test");
    answer(&host, 3);
    site.wait_journal(&host, &verdicts(3, "wants a reboot: exit code CODE"));
    assert_eq!(host.boots().unwrap(), 1);

    // A reload in the middle of a check leaves nothing either.
    host.systemctl(&["reload", "kube-rebootd"]).unwrap();
    site.bed
        .wait_for("a check to hang", CYCLE, || {
            Ok(host
                .systemctl(&["list-units", "'kube-rebootd-check-hangs-*'"])?
                .contains("running"))
        })
        .unwrap();
    host.systemctl(&["reload", "kube-rebootd"]).unwrap();
    no_unit_left(&site, &host);
    site.resume();
    site.wait_rebooted(&host, 1);
    site.nothing_left(&host);
    no_unit_left(&site, &host);
}
