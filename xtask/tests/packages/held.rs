//! What the three packages hold: the tree of `make install`, and what each distribution wants besides.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use xtask::TOP;

use crate::built::{ARCH, DEB, RPM, STAGE, content};

/// Path below /, and mode. Directories that others own are left out, and compression.
pub(crate) type Files = BTreeMap<String, String>;

const ARCH_ALONE: [(&str, &str); 2] = [
    ("usr/share/libalpm/hooks/kube-rebootd.hook", "-rw-r--r--"),
    ("usr/share/libalpm/scripts/kube-rebootd", "-rwxr-xr-x"),
];

/// Debian's names for these; where there is none it has the text itself, or an empty directory, which its
/// tmpfiles.d names and its postinst makes.
const DEBIAN: [(&str, &str); 6] = [
    ("var/lib/kube-rebootd", ""),
    ("etc/kube-rebootd/config.d", ""),
    (
        "usr/share/doc/kube-rebootd/CHANGELOG.md",
        "usr/share/doc/kube-rebootd/changelog",
    ),
    ("usr/share/licenses/kube-rebootd/LICENSE-APACHE", ""),
    ("usr/share/licenses/kube-rebootd/LICENSE-MIT", ""),
    (
        "usr/share/licenses/kube-rebootd/LICENSE.dependencies",
        "usr/share/doc/kube-rebootd/LICENSE.dependencies",
    ),
];
const DEBIAN_ALONE: [&str; 2] = [
    "usr/share/doc/kube-rebootd/changelog.Debian",
    "usr/share/doc/kube-rebootd/copyright",
];

pub(crate) fn put(files: &mut Files, mode: &str, path: &str) {
    let path = path.trim_start_matches("./").trim_matches('/');
    let path = path.strip_suffix(".gz").unwrap_or(path);
    let is_ours = path.starts_with("etc/kube-rebootd/") || path == "var/lib/kube-rebootd";
    // rpmbuild's own link to the binary.
    if (mode.starts_with('d') && !is_ours) || path.starts_with("usr/lib/.build-id/") {
        return;
    }
    files.insert(path.to_owned(), mode.to_owned());
}

pub(crate) fn installed() -> Files {
    fn walk(root: &Path, dir: &Path, files: &mut Files) {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            let metadata = fs::symlink_metadata(&path).unwrap();
            let bits = metadata.permissions().mode();
            let letter = |bit: u32| {
                if bits >> bit & 1 == 1 {
                    b"xwr"[bit as usize % 3]
                } else {
                    b'-'
                }
            };
            let kind = match metadata.file_type() {
                kind if kind.is_dir() => b'd',
                kind if kind.is_symlink() => b'l',
                _ => b'-',
            };
            let mode = [kind].into_iter().chain((0..9).rev().map(letter)).collect();
            let below = path.strip_prefix(root).unwrap().to_str().unwrap();
            put(files, &String::from_utf8(mode).unwrap(), below);
            if metadata.is_dir() {
                walk(root, &path, files);
            }
        }
    }
    let mut files = Files::new();
    walk(STAGE.get(), STAGE.get(), &mut files);
    files
}

/// Lines of `ls -l`'s kind, and that all is root's.
pub(crate) fn listed(text: &str) -> Files {
    let mut files = Files::new();
    for line in text.lines() {
        // Where a link leads follows it.
        let (line, _) = line.split_once(" -> ").unwrap_or((line, ""));
        let words: Vec<&str> = line.split_whitespace().collect();
        let (mode, path) = (words[0], words[words.len() - 1]);
        let metadata = path.starts_with('.') && !path.starts_with("./");
        if !metadata {
            let owner = if words[1].contains('/') {
                words[1]
            } else {
                words[2]
            };
            assert!(["0/0", "root/root", "root"].contains(&owner), "{line}");
            put(&mut files, mode, path);
        }
    }
    files
}

#[test]
fn the_rpm_holds_what_make_install_makes() {
    let format = "[%{FILEMODES:perms} 1 %{FILEUSERNAME} %{FILEGROUPNAME} %{FILENAMES}\\n]";
    let rpm = content("rpm", &["-qp", "--qf", format, &RPM.get().one()]);
    assert_eq!(listed(&rpm), installed());
}

#[test]
fn the_arch_package_holds_it_and_the_hook_of_pacman() {
    let arch = content("bsdtar", &["-tvf", &ARCH.get().one()]);
    let mut wanted = installed();
    wanted.extend(ARCH_ALONE.map(|(path, mode)| (path.to_owned(), mode.to_owned())));
    assert_eq!(listed(&arch), wanted);
}

#[test]
fn the_deb_holds_it_with_debians_names() {
    let deb = content("dpkg-deb", &["-c", &DEB.get().one()]);
    let mut wanted = installed();
    for (path, debian) in DEBIAN {
        let mode = wanted.remove(path).unwrap_or_else(|| panic!("{path}"));
        if !debian.is_empty() {
            wanted.insert(debian.to_owned(), mode);
        }
    }
    wanted.extend(DEBIAN_ALONE.map(|path| (path.to_owned(), "-rw-r--r--".to_owned())));
    let mut held = listed(&deb);
    held.remove("etc/kube-rebootd");
    assert_eq!(held, wanted);
}

#[test]
fn the_contents_are_all_there() {
    let files = installed();
    for path in [
        "usr/bin/kube-rebootd",
        "usr/bin/kubectl-rebootd",
        "usr/lib/systemd/system/kube-rebootd.service",
        "usr/lib/systemd/system/kube-rebootd-boot-ok.service",
        "usr/lib/systemd/catalog/kube-rebootd.catalog",
        "usr/lib/tmpfiles.d/kube-rebootd.conf",
        "usr/share/dbus-1/system.d/org.kuberebootd1.conf",
        "usr/share/dbus-1/interfaces/org.kuberebootd1.Node.xml",
        "etc/kube-rebootd/config.toml",
        "etc/kube-rebootd/config.d",
        "usr/share/man/man8/kube-rebootd.8",
        "usr/share/man/man8/kubectl-rebootd.8",
        "usr/share/man/man5/kube-rebootd.toml.5",
        "usr/share/bash-completion/completions/kube-rebootd",
        "usr/share/zsh/site-functions/_kube-rebootd",
        "usr/share/fish/vendor_completions.d/kube-rebootd.fish",
        "usr/share/doc/kube-rebootd/kubernetes/40-slots.yaml",
        "usr/share/licenses/kube-rebootd/LICENSE.dependencies",
    ] {
        assert!(files.contains_key(path), "{path}: {files:?}");
    }
    // No package enables anything by a link or a preset.
    let enables = |path: &&String| path.contains(".wants/") || path.contains("preset");
    assert_eq!(files.keys().find(enables), None);
}

#[test]
fn the_configuration_is_the_administrators() {
    let rpm = content(
        "rpm",
        &[
            "-qp",
            "--qf",
            "[%{FILEFLAGS:fflags} %{FILENAMES}\\n]",
            &RPM.get().one(),
        ],
    );
    // c: configuration; n: a new one is put beside a changed one.
    let marked: Vec<&str> = rpm
        .lines()
        .filter(|line| line.split(' ').next().unwrap().contains('c'))
        .collect();
    assert_eq!(marked, ["cn /etc/kube-rebootd/config.toml"]);
    let deb = content("dpkg-deb", &["-I", &DEB.get().one(), "conffiles"]);
    assert_eq!(deb.trim(), "/etc/kube-rebootd/config.toml");
    let arch = content("bsdtar", &["-xOf", &ARCH.get().one(), ".PKGINFO"]);
    let kept: Vec<&str> = arch
        .lines()
        .filter(|line| line.starts_with("backup"))
        .collect();
    assert_eq!(kept, ["backup = etc/kube-rebootd/config.toml"]);
}

#[test]
fn packages_are_the_same_whichever_directory_they_were_built_in() {
    for package in [&RPM, &ARCH, &DEB] {
        let [one, other] = package.get().both();
        let same = fs::read(one).unwrap() == fs::read(other).unwrap();
        assert!(same, "{} and {} differ", one.display(), other.display());
    }
}

#[test]
fn every_packager_is_told_version_and_licences() {
    let list = include_str!("../../../packaging/LICENSE.dependencies");
    let licence = list.lines().nth(1).unwrap().trim_end_matches('.');
    let version = env!("CARGO_PKG_VERSION");
    let rpm = content(
        "rpm",
        &["-qp", "--qf", "%{VERSION}|%{LICENSE}", &RPM.get().one()],
    );
    assert_eq!(rpm, format!("{version}|{licence}"));
    let arch = content("bsdtar", &["-xOf", &ARCH.get().one(), ".PKGINFO"]);
    let licences = arch
        .lines()
        .filter_map(|line| line.strip_prefix("license = "));
    let wanted: Vec<&str> = licence
        .split(" AND ")
        .map(|one| one.trim_matches(['(', ')']))
        .collect();
    assert_eq!(licences.collect::<Vec<_>>(), wanted);
    assert!(
        arch.contains(&format!("\npkgver = {version}-1\n")),
        "{arch}"
    );
    let deb = content("dpkg-deb", &["-f", &DEB.get().one(), "Version"]);
    assert_eq!(deb.trim(), format!("{version}-1"));
}

/// Name and version of each crate that LICENSE.dependencies lists.
fn bundled() -> Vec<(&'static str, &'static str)> {
    let list = include_str!("../../../packaging/LICENSE.dependencies");
    let (_, list) = list.split_once("the texts follow.\n\n").unwrap();
    let lines = list.lines().take_while(|line| !line.is_empty());
    let crates = lines.map(|line| line.split_once(": ").unwrap().0.split_once(' ').unwrap());
    let crates: Vec<_> = crates.collect();
    assert!(crates.len() > 100, "{crates:?}");
    crates
}

#[test]
fn the_rpm_provides_every_crate_that_is_linked_and_no_other() {
    let format = "[%{PROVIDES} %{PROVIDEFLAGS:depflags} %{PROVIDEVERSION}\\n]";
    let tags = content("rpm", &["-qp", "--qf", format, &RPM.get().one()]);
    let mut provided: Vec<&str> = tags
        .lines()
        .filter(|line| line.starts_with("bundled("))
        .collect();
    let mut wanted: Vec<String> = bundled()
        .into_iter()
        .map(|(name, version)| {
            let version = version.split('+').next().unwrap();
            format!("bundled(crate({name})) = {version}")
        })
        .collect();
    provided.sort_unstable();
    wanted.sort_unstable();
    assert_eq!(provided, wanted);
}

#[test]
fn no_crate_of_the_test_bed_is_listed_as_linked() {
    let names: Vec<&str> = bundled().into_iter().map(|(name, _)| name).collect();
    for of_the_bed in [
        "kube-runtime",
        "backon",
        "rcgen",
        "async-broadcast",
        "proptest",
    ] {
        assert!(
            !names.contains(&of_the_bed),
            "{of_the_bed} is in LICENSE.dependencies"
        );
    }
    for linked in ["kube-client", "rustls", "ring", "zbus"] {
        assert!(
            names.contains(&linked),
            "{linked} is not in LICENSE.dependencies"
        );
    }
}

#[test]
fn the_arch_package_is_of_a_tarball_that_its_pkgbuild_names_by_checksum() {
    let place = Path::new(&ARCH.get().one()).parent().unwrap().to_owned();
    let tarball = format!("kube-rebootd-{}.tar.gz", env!("CARGO_PKG_VERSION"));
    let sum = content("sha256sum", &[place.join(tarball).to_str().unwrap()]);
    let sum = sum.split(' ').next().unwrap();
    let made = fs::read_to_string(place.join("PKGBUILD")).unwrap();
    assert!(
        made.contains(&format!("\nsha256sums=('{sum}')\n")),
        "{made}"
    );
    let ours = include_str!("../../../PKGBUILD");
    assert!(!ours.contains("SKIP"), "makepkg would take any tarball");
}

#[test]
fn the_deb_wants_a_system_bus() {
    let depends = content("dpkg-deb", &["-f", &DEB.get().one(), "Depends"]);
    let mut all = depends.trim().split(", ");
    assert!(
        all.any(|one| one == "default-dbus-system-bus | dbus-system-bus"),
        "{depends}"
    );
}

#[test]
fn directories_are_made_where_a_package_or_an_image_cannot_hold_them() {
    let place = tempfile::tempdir().unwrap();
    let root = place.path().to_str().unwrap();
    let conf = format!("{TOP}/packaging/tmpfiles.d/kube-rebootd.conf");
    content("systemd-tmpfiles", &["--root", root, "--create", &conf]);
    for (path, mode) in [
        ("var/lib/kube-rebootd", 0o700),
        ("etc/kube-rebootd/config.d", 0o755),
    ] {
        let made = fs::metadata(place.path().join(path)).unwrap();
        assert_eq!(made.permissions().mode() & 0o7777, mode, "{path}");
        // As `make install` makes them, and thus the packages.
        let installed = fs::metadata(STAGE.get().join(path)).unwrap();
        assert_eq!(installed.permissions().mode() & 0o7777, mode, "{path}");
    }
}
