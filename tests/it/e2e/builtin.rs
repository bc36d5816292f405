//! The built-in checks on a real host, under the real unit: a daemon without the right to look sees what
//! PID 1 lets its own program see (docs/design.md 4).

use testbed::{Host, HostSpec};

use super::Site;

/// Runs code from a library of its own, as services do from the distribution's.
const SERVICE: &str = "[Service]
Environment=LD_PRELOAD=/usr/lib/case/libcase.so
ExecStartPre=/bin/sh -c 'mkdir -p /usr/lib/case; cp -n /usr/lib/*-linux-gnu/libm.so.6 /usr/lib/case/libcase.so'
ExecStart=sleep infinity
[Install]
WantedBy=multi-user.target
";

/// The next boot brings a kernel with its modules. In a container it is the same kernel.
const MODULES: &str = "[Unit]
Before=kube-rebootd.service
[Service]
Type=oneshot
ExecStart=/bin/sh -c 'touch /usr/lib/modules/RELEASE/modules.builtin'
[Install]
WantedBy=multi-user.target
";

fn replace(host: &Host, file: &str) {
    host.sh(&format!("cp {file} {file}.new && mv {file}.new {file}"))
        .unwrap();
}

/// All checks begin anew at once.
fn reload(host: &Host) {
    host.systemctl(&["reload", "kube-rebootd"]).unwrap();
}

#[test]
fn replaced_code_and_a_lost_kernel_reboot_a_host_once() {
    let site = Site::new("builtin", 1);
    site.pause("test");
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let release = release.trim();
    let modules = format!("/usr/lib/modules/{release}");
    let config = site.config(
        "[triggers]\nbuiltin = [\"kernel\", \"libraries\"]\nbuiltin_settle = \"0s\"\nperiod = \"10s\"\n",
    );
    let units = "/etc/systemd/system";
    let host = site.boot(
        &HostSpec::named("builtin-1")
            .config(config)
            .file(format!("{units}/case.service"), SERVICE)
            .file(
                format!("{units}/modules.service"),
                MODULES.replace("RELEASE", release),
            )
            .file(format!("{modules}/modules.builtin"), "")
            // Another kernel that could boot.
            .file("/usr/lib/modules/99.0.0-case/modules.builtin", ""),
    );
    host.systemctl(&["enable", "--now", "case.service", "modules.service"])
        .unwrap();
    reload(&host);
    let no = ["kernel", "libraries"].map(|name| format!("builtin {name}: no reboot needed"));
    site.wait_journal(&host, &no);

    // Half of an upgrade is no state to judge.
    host.sh("mkdir -p /var/lib/pacman && touch /var/lib/pacman/db.lck")
        .unwrap();
    replace(&host, "/usr/lib/case/libcase.so");
    host.sh(&format!("rm {modules}/modules.builtin")).unwrap();
    reload(&host);
    let unknown = ["kernel", "libraries"]
        .map(|name| format!("builtin {name} says nothing: pacman works; if it does not: rm"));
    site.wait_journal(&host, &unknown);
    let unanswered = "idle: no reboot needed, but builtin kernel gives no answer: pacman works";
    site.wait_status(&host, unanswered);

    // An upgrade of our own leaves the old program running, which is no reason.
    replace(&host, "/usr/bin/kube-rebootd");
    host.sh("rm /var/lib/pacman/db.lck").unwrap();
    reload(&host);
    let yes = [
        format!(
            "builtin kernel wants a reboot: the running kernel {release} has lost its modules; \
             installed: 99.0.0-case"
        ),
        "builtin libraries wants a reboot: libcase.so replaced under case.service; \
         `systemctl restart case.service` would do"
            .to_owned(),
    ];
    site.wait_journal(&host, &yes);
    site.wait_status(&host, "group paused: test");
    site.wait_record(&host, &["\"builtin kernel\"", "\"builtin libraries\""]);
    assert_eq!(host.boots().unwrap(), 1);

    site.resume();
    site.wait_rebooted(&host, 1);
    // A container has the kernel of this machine: none was to come up that could.
    site.wait_status(&host, "idle: the update did not take: kernel ");
    site.nothing_left(&host);
    // For a person, on the host itself.
    let said = host.run(&["kube-rebootd", "check"]).unwrap();
    assert_eq!(said.code, 0, "{}{}", said.stdout, said.stderr);
    let words: Vec<Vec<&str>> = (said.stdout.lines())
        .map(|line| line.split_whitespace().take(3).collect())
        .collect();
    assert_eq!(
        words,
        [
            ["sentinel", "/run/reboot-required", "no"],
            ["sentinel", "/run/reboot-needed", "no"],
            ["builtin", "kernel", "no"],
            ["builtin", "libraries", "no"],
        ],
        "{}",
        said.stdout
    );
}
