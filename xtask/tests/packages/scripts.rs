//! What the packages' scripts do, run with a /run of their own and programs that only write down how they were
//! called (I6: an upgrade gives nothing up).

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use crate::built::{ARCH, DEB, RPM, content, said};

const REMOVED: [&str; 2] = [
    "timeout 1020 kube-rebootd undrain --release",
    "kube-rebootd undrain --release",
];
/// A scriptlet of rpm 4.20 and newer has no network.
const REMOVED_BY_PID_1: [&str; 2] = [
    "systemd-run --quiet --wait --pipe --collect --property=RuntimeMaxSec=1020 --property=TimeoutStopSec=5 \
     kube-rebootd undrain --release",
    "kube-rebootd undrain --release",
];

/// A place with programs that write down their calls.
struct Host {
    place: TempDir,
    /// Shell that prepares what the script sees.
    before: &'static str,
}

/// Runs systemd, and the daemon has run: a first start leaves this, before there is any state.
const LIVE: &str = "mkdir -p /run/systemd/system /var/lib/kube-rebootd; \
     touch /var/lib/kube-rebootd/config.last-valid.toml";

impl Host {
    fn new(before: &'static str) -> Self {
        let host = Self {
            place: tempfile::tempdir().unwrap(),
            before,
        };
        let log = host.path("log");
        let write = format!("echo \"${{0##*/}} $*\" >>{log}");
        host.program("systemctl", &write);
        host.program("systemd-tmpfiles", &write);
        host.program("deb-systemd-invoke", &write);
        host.program("deb-systemd-helper", &write);
        host.program("timeout", &format!("{write}\nshift\nexec \"$@\""));
        host.program("systemd-run", &format!("{write}\nshift 6\nexec \"$@\""));
        // As when the API server is away.
        host.program("kube-rebootd", &format!("{write}\nexit 1"));
        host
    }

    fn path(&self, name: &str) -> String {
        self.place.path().join(name).to_str().unwrap().to_owned()
    }

    fn program(&self, name: &str, text: &str) {
        let file = self.place.path().join("bin").join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Runs the shell text and answers with the calls it made; it must succeed.
    fn run(&self, shell: &str, script: &str, args: &[&str]) -> Vec<String> {
        let (log, file) = (self.path("log"), self.path("script"));
        fs::write(&log, "").unwrap();
        fs::write(&file, script).unwrap();
        let mut path = std::ffi::OsString::from(self.path("bin"));
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap());
        // The file systems are this script's alone.
        let outer = format!(
            "set -e; mount -t tmpfs tmpfs /run; mount -t tmpfs tmpfs /var/lib; {}; {shell} \"$@\"",
            self.before
        );
        let mut command = Command::new("unshare");
        command
            .args(["--mount", "sh", "-c", &outer, "sh", &file])
            .args(args);
        said(command.env("PATH", path));
        let log = fs::read_to_string(&log).unwrap();
        log.lines().map(str::to_owned).collect()
    }
}

fn rpm_script(name: &str) -> String {
    content(
        "rpm",
        &["-qp", "--qf", &format!("%{{{name}}}"), &RPM.get().one()],
    )
}

fn deb_script(name: &str) -> String {
    content("dpkg-deb", &["-I", &DEB.get().one(), name])
}

/// One function of the Arch package's scriptlets.
fn arch_script(function: &str) -> String {
    let script = content("bsdtar", &["-xOf", &ARCH.get().one(), ".INSTALL"]);
    let call = format!("if type {function} >/dev/null 2>&1; then {function} \"$@\"; fi");
    format!("{script}\n{call}\n")
}

#[test]
fn nothing_is_enabled_or_started_by_an_installation() {
    let host = Host::new("mkdir -p /run/systemd/system");
    let mut calls = host.run("sh", &rpm_script("POSTIN"), &["1"]);
    calls.extend(host.run("bash", &arch_script("post_install"), &["0.1.0-1"]));
    assert_eq!(calls, ["systemctl daemon-reload"]);
    // deb-systemd-helper was-enabled: no.
    let no =
        "echo \"${0##*/} $*\" >>".to_owned() + &host.path("log") + "\n[ \"$2\" != was-enabled ]";
    host.program("deb-systemd-helper", &no);
    let calls = host.run("sh", &deb_script("postinst"), &["configure", ""]);
    let acts = |call: &&String| call.contains("enable ") || call.contains("start");
    assert_eq!(calls.iter().find(acts), None, "{calls:?}");
    let directories = "systemd-tmpfiles --create kube-rebootd.conf".to_owned();
    assert!(calls.contains(&directories), "{calls:?}");
}

#[test]
fn i6_an_upgrade_restarts_but_gives_nothing_up() {
    let host = Host::new(LIVE);
    let mut calls = host.run("sh", &rpm_script("PREUN"), &["1"]);
    calls.extend(host.run("sh", &rpm_script("POSTUN"), &["1"]));
    assert_eq!(
        calls,
        [
            "systemctl daemon-reload",
            "systemctl try-restart kube-rebootd.service"
        ]
    );
    assert_eq!(
        host.run("sh", &deb_script("prerm"), &["upgrade", "0.2.0"]),
        [""; 0]
    );
    let calls = host.run("sh", &deb_script("postinst"), &["configure", "0.1.0-1"]);
    let restart = "deb-systemd-invoke try-restart kube-rebootd.service".to_owned();
    assert!(calls.contains(&restart), "{calls:?}");
    assert!(
        !calls.iter().any(|call| call.contains("undrain")),
        "{calls:?}"
    );
    // Arch restarts nothing.
    let mut calls = host.run("bash", &arch_script("pre_upgrade"), &["0.2.0-1", "0.1.0-1"]);
    calls.extend(host.run(
        "bash",
        &arch_script("post_upgrade"),
        &["0.2.0-1", "0.1.0-1"],
    ));
    assert_eq!(calls, [""; 0]);
}

#[test]
fn i4_a_removal_stops_the_daemon_then_gives_all_back_in_bounded_time() {
    let host = Host::new(LIVE);
    let with = |stop: &'static str| [&[stop], &REMOVED[..]].concat();
    let by_pid_1 = |stop: &'static str| [&[stop], &REMOVED_BY_PID_1[..]].concat();
    let rpm = host.run("sh", &rpm_script("PREUN"), &["0"]);
    assert_eq!(
        rpm,
        by_pid_1(
            "systemctl --no-reload disable --now kube-rebootd.service kube-rebootd-boot-ok.service"
        )
    );
    let deb = host.run("sh", &deb_script("prerm"), &["remove"]);
    assert_eq!(deb, with("deb-systemd-invoke stop kube-rebootd.service"));
    let arch = host.run("bash", &arch_script("pre_remove"), &["0.1.0-1"]);
    assert_eq!(arch, with("systemctl stop kube-rebootd.service"));
}

#[test]
fn a_removal_asks_nothing_where_the_daemon_never_joined() {
    let removals = [
        ("sh", rpm_script("PREUN"), "0"),
        ("sh", deb_script("prerm"), "remove"),
        ("bash", arch_script("pre_remove"), "0.1.0-1"),
    ];
    for (shell, script, arg) in &removals {
        let never_joined = Host::new("mkdir -p /run/systemd/system /var/lib/kube-rebootd").run(
            shell,
            script,
            &[arg],
        );
        assert!(
            !never_joined.iter().any(|call| call.contains("undrain")),
            "{never_joined:?}"
        );
        let image = "mkdir -p /var/lib/kube-rebootd; touch /var/lib/kube-rebootd/state.json";
        let image = Host::new(image).run(shell, script, &[arg]);
        assert_eq!(image, [""; 0]);
    }
}

/// boot-complete.target would want a unit that is not there, and no boot were a good one any more.
#[test]
fn a_removal_takes_the_boot_check_out_of_the_boot() {
    const LINK: &str =
        "/etc/systemd/system/boot-complete.target.requires/kube-rebootd-boot-ok.service";
    // An image that is built, too; there rpm's own macro does it.
    let host = Host::new(
        "mkdir -p /var/lib/kube-rebootd; mount -t tmpfs tmpfs /etc/systemd; \
         mkdir -p /etc/systemd/system/boot-complete.target.requires; \
         ln -s /usr/lib/systemd/system/kube-rebootd-boot-ok.service /etc/systemd/system/boot-complete.target.requires/",
    );
    let run = |shell, script: &str, wanted: &str, args: &[&str]| {
        host.run(shell, &format!("{script}\n[ {wanted} {LINK} ]\n"), args)
    };
    run("sh", &deb_script("prerm"), "! -L", &["remove"]);
    run("bash", &arch_script("pre_remove"), "! -L", &["0.1.0-1"]);
    run("sh", &deb_script("prerm"), "-L", &["upgrade", "0.2.0"]);
}

#[test]
fn a_purge_leaves_nothing_but_the_administrators_drop_ins() {
    let host = Host::new("mkdir -p /run/systemd/system /var/lib/kube-rebootd");
    let etc = host.path("etc");
    let postrm = deb_script("postrm").replace("/etc/kube-rebootd", &etc);
    let postrm = format!("{postrm}\n[ ! -e /var/lib/kube-rebootd ]\n");
    fs::create_dir_all(format!("{etc}/config.d")).unwrap();
    host.run("sh", &postrm, &["purge"]);
    assert!(!Path::new(&etc).exists());
    fs::create_dir_all(format!("{etc}/config.d")).unwrap();
    fs::write(format!("{etc}/config.d/50-site.toml"), "").unwrap();
    host.run("sh", &postrm, &["purge"]);
    assert!(Path::new(&etc).join("config.d/50-site.toml").exists());
}

#[test]
fn pacmans_hook_writes_the_sentinel_and_the_names() {
    let hook = include_str!("../../../packaging/pacman/kube-rebootd.hook");
    assert!(hook.contains("\nExec = /usr/share/libalpm/scripts/kube-rebootd\n"));
    let script = include_str!("../../../packaging/pacman/kube-rebootd");
    let host = Host::new("mkdir -p /run/systemd/system; echo dbus >/run/reboot-required.pkgs");
    let out = host.path("out");
    let targets =
        "printf 'usr/lib/modules/9-x/vmlinuz\\nusr/lib/modules/9-x/modules.builtin\\nsystemd\\n'";
    let hook = |script: &str| {
        let file = host.path("hook");
        fs::write(&file, script).unwrap();
        format!(
            "{targets} | sh {file}; ls /run | grep reboot >{out}; cat /run/reboot-required.pkgs >>{out} || true"
        )
    };
    host.run("sh", &hook(script), &[]);
    let made = fs::read_to_string(&out).unwrap();
    let wanted = "reboot-required\nreboot-required.pkgs\ndbus\nkernel 9-x\nsystemd\n";
    assert_eq!(made, wanted);
    // Neither in a chroot nor in an image.
    let image = Host {
        place: tempfile::tempdir().unwrap(),
        before: "true",
    };
    fs::write(image.path("log"), "").unwrap();
    image.run("sh", &hook(script), &[]);
    assert_eq!(fs::read_to_string(&out).unwrap(), "");
}
