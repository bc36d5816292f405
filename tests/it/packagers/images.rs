//! Hosts whose /usr nobody writes, as those of Flatcar: kube-rebootd comes as a system extension, or below
//! /opt. Within a container nothing mounts an image, as that wants a loop device: the extension is the image's tree, unpacked.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use testbed::{Content, Host, HostSpec, Package, SUITE, Shared, Sources};

use super::SITE;
use crate::e2e::{Site, pods};

const CONFIG: &str = "[drain]\nmode = \"always\"\nunmanaged = \"evict\"\n";

/// Nobody writes /usr, from before extensions are merged.
const READ_ONLY: &str = "[Unit]\nDefaultDependencies=no\nBefore=systemd-sysext.service sysinit.target\n\
     [Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=mount --bind /usr /usr\nExecStart=mount -o remount,bind,ro /usr\n\
     [Install]\nWantedBy=sysinit.target\n";

/// In a container of 252: see `versions`.
const OWN_BOOT_ID: &str = "[Service]\nProtectKernelTunables=no\nProtectControlGroups=no\n";

/// As a user has it.
const STARTER: &str =
    include_str!("../../../packaging/examples/images/kube-rebootd-sysext.service");
const STARTER_AT: &str = "/etc/systemd/system/kube-rebootd-sysext.service";

/// Where a version's image is, and the extension, which is a link to it. Not below /opt: where something is mounted there, as
/// in a bed, systemd-sysext 257 hides the rest of /opt while an extension is merged.
const PLACE: &str = "/var/lib/extensions.d";
const EXTENSION: &str = "/etc/extensions/kube-rebootd";

/// The image; the tarball is beside it.
pub(crate) static IMAGE: Shared<PathBuf> = Shared::new("`make sysext`", || {
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join("images");
    let _ = fs::remove_dir_all(&place);
    Sources::unpacked(&place)?.pack(Package::Sysext)
});

fn ended_well(command: &mut Command) {
    let out = command.output().unwrap();
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{command:?}: {said}");
}

fn boot(site: &Site, release: &str) -> Host {
    let spec = HostSpec {
        suite: release.to_owned(),
        ..HostSpec::named(format!("{}-1", site.group))
    };
    let spec = spec
        .content(Content::Bare)
        .file(SITE, site.config(CONFIG))
        .file("/etc/systemd/system/read-only-usr.service", READ_ONLY);
    let host = site.boot(&spec);
    host.sh("systemctl enable --now read-only-usr && ! touch /usr/x")
        .unwrap();
    host
}

/// The extension in a version of this name, merged, and what an administrator enables for every boot.
fn extend(host: &Host, version: &str) {
    place(host, version);
    host.sh("systemctl enable --now systemd-sysext").unwrap();
    host.sh("systemctl daemon-reload && systemctl reload dbus")
        .unwrap();
    host.write(STARTER_AT, STARTER).unwrap();
    // As packages: nothing is enabled before somebody says so.
    let enabled = host.run(&["systemctl", "is-enabled", "kube-rebootd"]);
    assert_eq!(enabled.unwrap().stdout.trim(), "disabled");
    host.sh("systemctl enable kube-rebootd kube-rebootd-sysext && systemctl start kube-rebootd")
        .unwrap();
}

/// Puts a version beside those that are there, and links it.
fn place(host: &Host, version: &str) {
    let tree = format!("{PLACE}/kube-rebootd-{version}");
    fs::create_dir_all(host.outer(PLACE)).unwrap();
    let mut unsquashfs = Command::new("unsquashfs");
    unsquashfs.args(["-quiet", "-no-progress", "-no-xattrs", "-d"]);
    ended_well(unsquashfs.arg(host.outer(&tree)).arg(IMAGE.get()));
    host.sh(&format!("mkdir -p /etc/extensions && ln -sfn {tree} {EXTENSION} && echo {version} >{tree}/usr/lib/kube-rebootd/version"))
        .unwrap();
}

/// The version that the host sees.
fn merged(host: &Host) -> String {
    let said = host.sh("! touch /usr/x 2>/dev/null && cat /usr/lib/kube-rebootd/version");
    said.unwrap().trim().to_owned()
}

fn require(host: &Host, package: &str) {
    host.sh(&format!(
        "echo {package} >/run/reboot-required.pkgs && touch /run/reboot-required"
    ))
    .unwrap();
}

fn show(host: &Host, property: &str) -> String {
    let said = host.systemctl(&["show", "-P", property, "kube-rebootd"]);
    said.unwrap().trim().to_owned()
}

/// What the administrator asks, and that it is on the bus. Not `doctor`: its requests are not the daemon's (`requests`).
fn in_order(site: &Site, host: &Host, program: &str) {
    let said = host.run(&[program, "status"]).unwrap();
    assert_eq!(said.code, 0, "{}{}", said.stdout, said.stderr);
    site.wait("its name on the bus", || {
        host.sh("busctl --no-pager status org.kuberebootd1")?;
        Ok(true)
    });
}

#[test]
fn i6_i4_a_system_extension_is_merged_by_every_boot_and_replaced_in_mid_drain() {
    let site = Site::new("sysext", 1);
    let host = boot(&site, SUITE);
    extend(&host, "first");
    site.wait_status(&host, "idle");
    assert_eq!(merged(&host), "first");
    in_order(&site, &host, "kube-rebootd");
    // The distributor's own file is one that only root can change.
    host.sh("kube-rebootd config check").unwrap();

    require(&host, "linux");
    site.wait_rebooted(&host, 1);
    site.nothing_left(&host);
    assert_eq!(host.sh("systemctl --failed --no-legend").unwrap(), "");

    // A new version, while a hold is under way.
    let pod = format!("{}-held", site.group);
    pods::held(&site, &host, &pod);
    require(&host, "glibc");
    site.wait_status(&host, "draining: ");
    place(&host, "second");
    host.sh("systemd-sysext refresh && systemctl daemon-reload && systemctl restart kube-rebootd")
        .unwrap();
    site.wait_status(&host, "draining: ");
    assert_eq!(merged(&host), "second");
    pods::let_go(&site, &pod);
    site.wait_rebooted(&host, 2);
    site.nothing_left(&host);
    pods::gone(&site, &pod);

    // Who stops it is obeyed, also by the next boot where it is disabled.
    host.sh("systemctl stop kube-rebootd && systemctl disable kube-rebootd")
        .unwrap();
    assert_eq!(show(&host, "ActiveState"), "inactive");
    host.reboot().unwrap();
    assert_eq!(show(&host, "ActiveState"), "inactive");
    assert_eq!(host.sh("systemctl --failed --no-legend").unwrap(), "");

    // A boot that does not merge it is not silent.
    not_merged(&host);
}

/// Nobody merges what has no link.
fn not_merged(host: &Host) {
    host.sh(&format!("systemctl enable kube-rebootd && rm {EXTENSION}"))
        .unwrap();
    host.reboot().unwrap();
    let failed = host.sh("systemctl --failed --no-legend --plain").unwrap();
    assert!(
        failed.starts_with("kube-rebootd-sysext.service "),
        "{failed}"
    );
    let said = host.journal("kube-rebootd-sysext").unwrap();
    assert!(said.contains("its extension was not merged"), "{said}");
}

#[test]
fn a_system_extension_is_merged_and_started_by_systemd_252() {
    let site = Site::new("sysext-252", 1);
    let host = boot(&site, "bookworm");
    host.write(
        "/etc/systemd/system/kube-rebootd.service.d/container.conf",
        OWN_BOOT_ID,
    )
    .unwrap();
    extend(&host, "first");
    site.wait_status(&host, "idle");
    in_order(&site, &host, "kube-rebootd");
    host.reboot().unwrap();
    site.wait_status(&host, "idle");
    not_merged(&host);
}

#[test]
fn the_tarball_serves_a_host_from_below_opt() {
    let site = Site::new("opt", 1);
    let host = boot(&site, SUITE);
    let dist = IMAGE.get().parent().unwrap();
    let name = format!(
        "kube-rebootd-{}-{}-linux-musl.tar.gz",
        env!("CARGO_PKG_VERSION"),
        std::env::consts::ARCH
    );
    let opt = host.outer("/opt");
    ended_well(
        Command::new("tar")
            .arg("-C")
            .arg(opt)
            .arg("-xf")
            .arg(dist.join(name)),
    );
    host.sh(
        "umask 077; cp -r --preserve=mode /opt/kube-rebootd/etc/. /etc && systemctl daemon-reload && systemctl reload dbus",
    )
    .unwrap();
    host.sh("systemctl enable --now kube-rebootd").unwrap();
    site.wait_status(&host, "idle");
    let program = host
        .sh(&format!("readlink /proc/{}/exe", show(&host, "MainPID")))
        .unwrap();
    assert_eq!(program.trim(), "/opt/kube-rebootd/bin/kube-rebootd");
    in_order(&site, &host, "/opt/kube-rebootd/bin/kube-rebootd");
    require(&host, "linux");
    site.wait_rebooted(&host, 1);
    site.nothing_left(&host);
}
