//! Systems whose /usr nobody writes: what the system extension and the tarball hold, and the examples that put them, or the
//! RPM, into an image.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use testbed::Sources;
use xtask::TOP;

use crate::built::{SYSEXT, content, said};
use crate::held::{Files, installed, listed};

const EXAMPLES: &str = "packaging/examples/images";
const VERSION: &str = env!("CARGO_PKG_VERSION");
const MACHINE: &str = std::env::consts::ARCH;

/// What an image of /usr cannot hold, or must not.
const NOT_IN_IMAGE: [&str; 4] = [
    "etc/kube-rebootd/config.toml",
    "etc/kube-rebootd/config.d",
    "var/lib/kube-rebootd",
    // PID 1 would miss it in each boot, and call that one bad.
    "usr/lib/systemd/system/kube-rebootd-boot-ok.service",
];
const IN_IMAGE_ALONE: [&str; 2] = [
    "usr/lib/kube-rebootd/config.toml",
    "usr/lib/extension-release.d/extension-release.kube-rebootd",
];
/// What stands elsewhere below /opt/kube-rebootd than below /usr.
const BELOW_OPT: [(&str, &str); 5] = [
    (
        "etc/kube-rebootd/config.toml",
        "share/doc/kube-rebootd/config.toml",
    ),
    (
        "usr/lib/systemd/system/kube-rebootd.service",
        "etc/systemd/system/kube-rebootd.service",
    ),
    (
        "usr/lib/systemd/system/kube-rebootd-boot-ok.service",
        "etc/systemd/system/kube-rebootd-boot-ok.service",
    ),
    (
        "usr/lib/tmpfiles.d/kube-rebootd.conf",
        "etc/tmpfiles.d/kube-rebootd.conf",
    ),
    (
        "usr/share/dbus-1/system.d/org.kuberebootd1.conf",
        "etc/dbus-1/system.d/org.kuberebootd1.conf",
    ),
];
const NOT_BELOW_OPT: [&str; 3] = [
    "etc/kube-rebootd/config.d",
    "var/lib/kube-rebootd",
    "usr/lib/systemd/catalog/kube-rebootd.catalog",
];

fn tarball(image: &Path) -> PathBuf {
    image.with_file_name(format!(
        "kube-rebootd-{VERSION}-{MACHINE}-linux-musl.tar.gz"
    ))
}

/// As systemd calls it.
fn architecture() -> &'static str {
    match MACHINE {
        "x86_64" => "x86-64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// A file of the image.
fn read(path: &str) -> String {
    let place = tempfile::tempdir().unwrap();
    let to = place.path().join("tree");
    let mut unsquashfs = Command::new("unsquashfs");
    unsquashfs.args(["-quiet", "-no-progress", "-no-xattrs", "-d"]);
    said(unsquashfs.arg(&to).args([&SYSEXT.get().one(), path]));
    fs::read_to_string(to.join(path)).unwrap()
}

#[test]
fn the_system_extension_holds_the_same_below_usr_alone() {
    let all = content("unsquashfs", &["-lls", &SYSEXT.get().one()]);
    let lines = all.lines().filter(|line| line.contains(" squashfs-root/"));
    let lines: Vec<String> = lines
        .map(|line| line.replace(" squashfs-root/", " "))
        .collect();
    let held = listed(&lines.join("\n"));
    let mut wanted = installed();
    for path in NOT_IN_IMAGE {
        assert!(wanted.remove(path).is_some(), "{path}");
    }
    wanted.extend(IN_IMAGE_ALONE.map(|path| (path.to_owned(), "-rw-r--r--".to_owned())));
    let mut held: Files = held;
    // A directory of ours alone, for the distributor's drop-ins.
    held.retain(|_, mode| !mode.starts_with('d'));
    assert_eq!(held, wanted);
    // The directories are laid over those of /usr: nobody else may write them.
    for line in &lines {
        let is_good = !line.starts_with('d') || line.starts_with("drwxr-xr-x root/root ");
        assert!(is_good, "{line}");
    }
    let outside = |line: &&String| {
        !line
            .split(" usr")
            .nth(1)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    assert_eq!(lines.iter().find(outside), None);
}

#[test]
fn every_system_that_merges_it_is_one_of_its_architecture_and_reads_units_again() {
    let release = read(IN_IMAGE_ALONE[1]);
    let wanted = format!(
        "ID=_any\nARCHITECTURE={}\nEXTENSION_RELOAD_MANAGER=1\n",
        architecture()
    );
    assert_eq!(release, wanted);
    let name = Path::new(&SYSEXT.get().one())
        .file_name()
        .unwrap()
        .to_owned();
    assert_eq!(
        name.to_str().unwrap(),
        format!("kube-rebootd-{VERSION}-{}.raw", architecture())
    );
}

/// An image whose files have no label makes /usr one that nothing may read where labels count.
#[test]
fn each_file_and_directory_of_the_system_extension_has_a_label() {
    let labels = SYSEXT.get().tree().join("target/packaging/sysext.labels");
    let labels = fs::read_to_string(labels).unwrap();
    let of = |path: &str| {
        let line = labels
            .lines()
            .find(|line| line.split(' ').next() == Some(path));
        line.unwrap_or_else(|| panic!("{path}: {labels}"))
            .to_owned()
    };
    for (path, label) in [
        ("usr", "usr_t"),
        ("usr/bin", "bin_t"),
        ("usr/bin/kube-rebootd", "bin_t"),
        ("usr/lib", "lib_t"),
        (
            "usr/lib/systemd/system/kube-rebootd.service",
            "systemd_unit_file_t",
        ),
        ("usr/share/dbus-1/system.d/org.kuberebootd1.conf", "usr_t"),
        ("usr/share/man/man8/kube-rebootd.8", "man_t"),
    ] {
        assert_eq!(
            of(path),
            format!("{path} x security.selinux=system_u:object_r:{label}:s0")
        );
    }
    let all = content("unsquashfs", &["-ls", &SYSEXT.get().one()]);
    for path in all
        .lines()
        .filter_map(|line| line.strip_prefix("squashfs-root/"))
    {
        of(path);
    }
    let about = content("unsquashfs", &["-s", &SYSEXT.get().one()]);
    let ids = about
        .lines()
        .find_map(|line| line.strip_prefix("Number of xattr ids "));
    assert_eq!(ids, Some("5"), "{about}");
}

#[test]
fn the_tarball_holds_the_same_below_opt_with_units_that_run_it_there() {
    let tarball = tarball(Path::new(&SYSEXT.get().one()));
    let file = tarball.to_str().unwrap();
    let held = listed(&content("tar", &["-tvzf", file]));
    let mut wanted = Files::new();
    for (path, mode) in installed() {
        if NOT_BELOW_OPT.contains(&path.as_str()) {
            continue;
        }
        let moved = BELOW_OPT.iter().find(|(from, _)| *from == path);
        let below = moved.map_or_else(|| path.trim_start_matches("usr/"), |(_, to)| to);
        // tar writes the permissions of a link, which mean nothing, as those of a program.
        let mode = mode.replace("lrwxrwxrwx", "lrwxr-xr-x");
        wanted.insert(format!("kube-rebootd/{below}"), mode);
    }
    assert_eq!(held, wanted);
    let unit = content(
        "tar",
        &[
            "-xOzf",
            file,
            "kube-rebootd/etc/systemd/system/kube-rebootd.service",
        ],
    );
    assert!(
        unit.contains("\nExecStart=/opt/kube-rebootd/bin/kube-rebootd run\n"),
        "{unit}"
    );
    assert!(!unit.contains("/usr/bin/kube-rebootd"), "{unit}");
}

#[test]
fn extension_and_tarball_are_the_same_whichever_directory_they_were_built_in() {
    let [one, other] = SYSEXT.get().both();
    for (one, other) in [(one.clone(), other.clone()), (tarball(one), tarball(other))] {
        let same = fs::read(&one).unwrap() == fs::read(&other).unwrap();
        assert!(same, "{} and {} differ", one.display(), other.display());
    }
}

/// What Ignition gets of an example.
fn ignition(example: &str) -> serde_json::Value {
    let place = Path::new(TOP).join(EXAMPLES);
    let mut butane = Command::new(testbed::butane().unwrap());
    butane.args(["--strict", "--files-dir"]).arg(&place);
    serde_json::from_str(&said(butane.arg(place.join(example)))).unwrap()
}

/// The text of a data URL, which Butane packs where that is shorter.
fn data(contents: &serde_json::Value) -> String {
    let (_, data) = contents["source"]
        .as_str()
        .unwrap()
        .split_once("data:")
        .unwrap();
    let (kind, data) = data.split_once(',').unwrap();
    let mut filters = Vec::new();
    if kind.ends_with(";base64") {
        filters.push("base64 -d");
    }
    if contents["compression"] == "gzip" {
        filters.push("gzip -dc");
    }
    if filters.is_empty() {
        return percent(data);
    }
    let mut shell = Command::new("sh");
    shell.args(["-c", &filters.join(" | ")]);
    shell.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = shell.spawn().unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), data.as_bytes()).unwrap();
    let out = child.wait_with_output().unwrap();
    assert!(out.status.success(), "{contents}");
    String::from_utf8(out.stdout).unwrap()
}

fn percent(data: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = data.as_bytes();
    while let [first, more @ ..] = rest {
        if *first == b'%' {
            let hex = std::str::from_utf8(&more[..2]).unwrap();
            bytes.push(u8::from_str_radix(hex, 16).unwrap());
            rest = &more[2..];
        } else {
            bytes.push(*first);
            rest = more;
        }
    }
    String::from_utf8(bytes).unwrap()
}

fn is_ours(path: &str) -> bool {
    path.starts_with("/etc/kube-rebootd/config.d/")
}

/// The files of an example that are written, and not downloaded.
fn written(config: &serde_json::Value) -> Vec<(String, String)> {
    let files = config["storage"]["files"].as_array().unwrap().iter();
    let local = files.filter(|file| file["contents"]["verification"].is_null());
    let text = |file: &serde_json::Value| {
        (
            file["path"].as_str().unwrap().to_owned(),
            data(&file["contents"]),
        )
    };
    local.map(text).collect()
}

#[test]
fn butane_takes_the_examples_and_kube_rebootd_what_they_write() {
    let place = tempfile::tempdir().unwrap();
    let program = Sources::musl().unwrap();
    for (example, wanted) in [
        ("flatcar.bu", "update_engine = true"),
        ("fedora-coreos.bu", "listen = \"127.0.0.1:3333\""),
    ] {
        let config = ignition(example);
        let files = written(&config);
        let (path, text) = files.iter().find(|(path, _)| is_ours(path)).unwrap();
        assert!(text.contains(wanted), "{path}: {text}");
        for (path, text) in files.iter().filter(|(path, _)| is_ours(path)) {
            let file = place.path().join(Path::new(path).file_name().unwrap());
            fs::write(&file, text).unwrap();
            said(Command::new(&program).args(["config", "check"]).arg(&file));
        }
    }
}

/// The image comes under the name that it has, behind a link with the extension's, and by its checksum.
#[test]
fn the_examples_link_the_image_that_they_download_and_enable_what_starts_the_daemon() {
    for example in ["flatcar.bu", "fedora-coreos.bu"] {
        let config = ignition(example);
        let files = config["storage"]["files"].as_array().unwrap();
        let image = files
            .iter()
            .find(|file| file["contents"]["verification"].is_object())
            .unwrap();
        let path = image["path"].as_str().unwrap();
        let name = path.rsplit('/').next().unwrap();
        assert_eq!(name, format!("kube-rebootd-{VERSION}-x86-64.raw"));
        assert!(
            image["contents"]["source"]
                .as_str()
                .unwrap()
                .ends_with(name)
        );
        assert!(image["contents"]["verification"]["hash"].is_string());
        let links = config["storage"]["links"].as_array().unwrap();
        let target = |of: &str| {
            links
                .iter()
                .find(|link| link["path"] == of)
                .map(|link| &link["target"])
        };
        assert_eq!(target("/etc/extensions/kube-rebootd.raw").unwrap(), path);
        let enabled = "/etc/systemd/system/multi-user.target.wants/kube-rebootd.service";
        assert_eq!(
            target(enabled).unwrap(),
            "/usr/lib/systemd/system/kube-rebootd.service"
        );
        let units = config["systemd"]["units"].as_array().unwrap();
        let starter = units
            .iter()
            .find(|unit| unit["name"] == "kube-rebootd-sysext.service")
            .unwrap();
        assert_eq!(starter["enabled"], true);
        let text =
            fs::read_to_string(format!("{TOP}/{EXAMPLES}/kube-rebootd-sysext.service")).unwrap();
        assert_eq!(starter["contents"], text.as_str());
    }
}

/// As the page about updaters says.
#[test]
fn nobody_else_reboots_a_host_of_the_examples() {
    let flatcar = ignition("flatcar.bu");
    let masked = flatcar["systemd"]["units"].as_array().unwrap().iter();
    let masked = masked
        .filter(|unit| unit["mask"] == true)
        .map(|unit| &unit["name"]);
    assert_eq!(masked.collect::<Vec<_>>(), ["locksmithd.service"]);
    let off = (
        "/etc/flatcar/update.conf".to_owned(),
        "REBOOT_STRATEGY=off\n".to_owned(),
    );
    assert!(written(&flatcar).contains(&off));
    let page = include_str!("../../../docs/updaters.md");
    let coreos = written(&ignition("fedora-coreos.bu"));
    let (_, zincati) = coreos
        .iter()
        .find(|(path, _)| path == "/etc/zincati/config.d/55-kube-rebootd.toml")
        .unwrap();
    for line in zincati.lines().filter(|line| !line.is_empty()) {
        assert!(page.contains(&format!("\n    {line}\n")), "{line}");
    }
}

/// No engine builds it here: what it copies and enables is there.
#[test]
fn the_containerfile_of_bootc_names_files_and_units_that_exist() {
    let text = fs::read_to_string(format!("{TOP}/{EXAMPLES}/Containerfile.bootc")).unwrap();
    let rpm = format!("dist/kube-rebootd-{VERSION}-1.x86_64.rpm");
    let mut copied = Vec::new();
    let lines = text
        .lines()
        .filter(|line| !line.starts_with('#') && !line.is_empty());
    for line in lines {
        let (word, rest) = line.split_once(' ').unwrap();
        match word {
            "ARG" | "FROM" => assert!(rest.contains("BASE"), "{line}"),
            "COPY" => {
                let from = rest.split(' ').next().unwrap();
                let there = match from.split_once('*') {
                    // Of several versions in dist/ dnf would be given all.
                    Some((head, tail)) => {
                        head.contains(VERSION) && rpm.starts_with(head) && rpm.ends_with(tail)
                    }
                    None => Path::new(TOP).join(from).is_file(),
                };
                assert!(there, "{line}");
                copied.push(from);
            }
            "RUN" => {
                let mut words = rest.split(' ');
                if let Some(unit) = rest.strip_prefix("systemctl enable ") {
                    let unit = format!("usr/lib/systemd/system/{unit}");
                    assert!(installed().contains_key(&unit), "{line}");
                } else {
                    assert!(matches!(words.next(), Some("dnf" | "bootc")), "{line}");
                }
            }
            _ => panic!("{line}"),
        }
    }
    assert_eq!(copied.len(), 2, "{copied:?}");
}
