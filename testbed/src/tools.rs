//! What a bed and the tests of packages need on this machine: programs from the distribution, and Kubernetes
//! built once from the pinned Go modules into a cache.

use std::env;
use std::fs;
use std::hash::{DefaultHasher, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use nix::fcntl::{Flock, FlockArg};

use crate::releases::{self, Release};
use crate::shell;
use crate::sources::{Package, repository};

/// Debian's build of OVMF, UEFI for QEMU.
pub(crate) const FIRMWARE: &str = "/usr/share/OVMF/OVMF_CODE_4M.fd";

/// What a program is wanted for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    /// A bed: `make demo` needs no other.
    Bed,
    /// Building one package. The clean root in which the tests build it holds these and no others.
    Build(Package),
    /// Tests alone.
    Test,
    /// `make kernel` alone.
    Machine,
}

/// Debian's packages which would also serve on this machine from their installation on, by a unit of that name: see
/// [`no_service`].
const MONITORING: &str = "prometheus";
const ALERTING: &str = "prometheus-alertmanager";
const PROXY: &str = "nginx";

/// Program, and its package in Debian, Fedora and Arch, each with what it is wanted for.
/// xtask/tests/packages/programs.rs fails when something is called that neither this list has nor every machine with
/// Rust.
#[rustfmt::skip]
const PROGRAMS: [(Use, &str, &str, &str, &str); 55] = [
    (Use::Bed, "systemd-nspawn", "systemd-container", "systemd-container", "systemd"),
    (Use::Bed, "mmdebstrap", "mmdebstrap", "mmdebstrap", "mmdebstrap"),
    (Use::Bed, "ip", "iproute2", "iproute", "iproute2"),
    (Use::Bed, "nft", "nftables", "nftables", "nftables"),
    (Use::Bed, "nsenter", "util-linux", "util-linux-core", "util-linux"),
    (Use::Bed, "journalctl", "systemd", "systemd", "systemd"),
    (Use::Bed, "go", "golang", "golang", "go"),
    (Use::Build(Package::Rpm), "rpmbuild", "rpm", "rpm-build", "rpm-tools"),
    (Use::Build(Package::Arch), "makepkg", "makepkg", "pacman", "pacman"),
    // makepkg asks it what is installed.
    (Use::Build(Package::Arch), "pacman", "pacman-package-manager", "pacman", "pacman"),
    (Use::Build(Package::Arch), "bsdtar", "libarchive-tools", "bsdtar", "libarchive"),
    (Use::Build(Package::Arch), "strip", "binutils", "binutils", "binutils"),
    (Use::Build(Package::Arch), "fakeroot", "fakeroot", "fakeroot", "fakeroot"),
    (Use::Build(Package::Arch), "zstd", "zstd", "zstd", "zstd"),
    (Use::Build(Package::Deb), "dpkg-deb", "dpkg", "dpkg", "dpkg"),
    (Use::Build(Package::Deb), "dpkg-shlibdeps", "dpkg-dev", "dpkg-dev", "dpkg"),
    (Use::Build(Package::Deb), "xz", "xz-utils", "xz", "xz"),
    (Use::Build(Package::Sysext), "mksquashfs", "squashfs-tools", "squashfs-tools", "squashfs-tools"),
    (Use::Build(Package::Sysext), "readelf", "binutils", "binutils", "binutils"),
    (Use::Test, "musl-gcc", "musl-tools", "musl-gcc", "musl"),
    (Use::Test, "unsquashfs", "squashfs-tools", "squashfs-tools", "squashfs-tools"),
    (Use::Test, "dbus-daemon", "dbus", "dbus-daemon", "dbus"),
    (Use::Test, "busctl", "systemd", "systemd", "systemd"),
    (Use::Test, "gdbus", "libglib2.0-bin", "glib2", "glib2"),
    (Use::Test, "rpm", "rpm", "rpm", "rpm-tools"),
    (Use::Test, "rpmspec", "rpm", "rpm-build", "rpm-tools"),
    (Use::Test, "rpmlint", "rpmlint", "rpmlint", "rpmlint"),
    (Use::Test, "lintian", "lintian", "lintian", "lintian"),
    (Use::Test, "systemd-analyze", "systemd", "systemd", "systemd"),
    (Use::Test, "systemd-tmpfiles", "systemd", "systemd", "systemd"),
    (Use::Test, "mandoc", "mandoc", "mandoc", "mandoc"),
    (Use::Test, "zsh", "zsh", "zsh", "zsh"),
    (Use::Test, "fish", "fish", "fish", "fish"),
    (Use::Test, "lsof", "lsof", "lsof", "lsof"),
    (Use::Test, "perl", "perl-base", "perl-interpreter", "perl"),
    (Use::Test, "openssl", "openssl", "openssl", "openssl"),
    (Use::Test, "pgrep", "procps", "procps-ng", "procps-ng"),
    (Use::Test, "prometheus", MONITORING, "golang-github-prometheus", "prometheus"),
    (Use::Test, "promtool", MONITORING, "golang-github-prometheus", "prometheus"),
    (Use::Test, "amtool", ALERTING, "golang-github-prometheus-alertmanager", "alertmanager"),
    // As Debian calls it.
    (Use::Test, "prometheus-alertmanager", ALERTING, "golang-github-prometheus-alertmanager", "alertmanager"),
    (Use::Test, "etcdctl", "etcd-client", "etcd", "etcd"),
    (Use::Test, "nginx", PROXY, "nginx-core", "nginx"),
    // What Zincati is built with: libraries, of which a header is looked for.
    (Use::Test, "pkg-config", "pkg-config", "pkgconf-pkg-config", "pkgconf"),
    (Use::Test, "/usr/include/ostree-1/ostree.h", "libostree-dev", "ostree-devel", "ostree"),
    (Use::Test, "/usr/include/openssl/ssl.h", "libssl-dev", "openssl-devel", "openssl"),
    (Use::Test, "/usr/include/zstd.h", "libzstd-dev", "libzstd-devel", "zstd"),
    (Use::Machine, "qemu-system-x86_64", "qemu-system-x86", "qemu-system-x86-core", "qemu-system-x86"),
    // No program, and at this path in Debian alone.
    (Use::Machine, FIRMWARE, "ovmf", "edk2-ovmf", "edk2-ovmf"),
    (Use::Machine, "sgdisk", "gdisk", "gdisk", "gptfdisk"),
    (Use::Machine, "mkfs.vfat", "dosfstools", "dosfstools", "dosfstools"),
    (Use::Machine, "mcopy", "mtools", "mtools", "mtools"),
    (Use::Machine, "mke2fs", "e2fsprogs", "e2fsprogs", "e2fsprogs"),
    (Use::Machine, "ssh", "openssh-client", "openssh-clients", "openssh"),
    (Use::Machine, "ssh-keygen", "openssh-client", "openssh", "openssh"),
];

/// Every program that [`crate::prepare`] sees to.
pub fn prepared() -> impl Iterator<Item = &'static str> {
    PROGRAMS.into_iter().map(|row| row.1)
}

/// Debian's packages for one use.
pub(crate) fn debian(of: Use) -> impl Iterator<Item = &'static str> {
    let rows = PROGRAMS.into_iter().filter(move |row| row.0 == of);
    rows.map(|row| row.2)
}

/// Commands of Kubernetes.
const COMMANDS: [(&str, &str); 4] = [
    ("kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver"),
    (
        "kube-controller-manager",
        "k8s.io/kubernetes/cmd/kube-controller-manager",
    ),
    ("kube-scheduler", "k8s.io/kubernetes/cmd/kube-scheduler"),
    ("kubectl", "k8s.io/kubernetes/cmd/kubectl"),
];

/// Our own around the kubelet's code, from testbed/go/kubernetes.
const KUBEMARK: (&str, &str) = ("kubelet", "./kubelet");

/// The kubelet that nodes have.
const KUBELET: (&str, &str) = ("kubelet", "k8s.io/kubernetes/cmd/kubelet");

/// A CSI driver, from testbed/go/kubernetes.
const CSI: (&str, &str) = ("csi", "./csi");

/// From testbed/go/containerd.
const CONTAINERD: [(&str, &str); 3] = [
    (
        "containerd",
        "github.com/containerd/containerd/v2/cmd/containerd",
    ),
    (
        "containerd-shim-runc-v2",
        "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2",
    ),
    ("ctr", "github.com/containerd/containerd/v2/cmd/ctr"),
];

/// From testbed/go/runtime.
const PODS: [(&str, &str); 3] = [("pod", "./pod"), ("oci", "./oci"), ("archive", "./archive")];

/// The one image of a bed: every container runs it, pause containers too; kubemark takes any name.
pub const IMAGE: &str = "docker.io/bed/pod:1";

/// Where built things are kept between runs: `$KUBE_REBOOTD_CACHE`, else below /var/cache.
pub(crate) fn cache() -> PathBuf {
    env::var_os("KUBE_REBOOTD_CACHE").map_or_else(
        || PathBuf::from("/var/cache/kube-rebootd-bed"),
        PathBuf::from,
    )
}

/// Waits until nobody else makes what stands at `place` in the cache: tests ask for it side by side.
pub(crate) fn alone(place: &Path) -> Result<Flock<fs::File>> {
    let name = place
        .file_name()
        .context("a place in the cache has a name")?;
    let locks = cache().join("locks");
    fs::create_dir_all(&locks)?;
    let file = fs::File::create(locks.join(name))?;
    Ok(Flock::lock(file, FlockArg::LockExclusive).map_err(|(_, errno)| errno)?)
}

/// Where the Makefile puts the programs of others that it builds: its TOOLS.
pub(crate) fn installed() -> PathBuf {
    cache().join("tools")
}

type Row = (Use, &'static str, &'static str, &'static str, &'static str);

fn missing(wanted: &impl Fn(Use) -> bool) -> Vec<Row> {
    PROGRAMS
        .into_iter()
        .filter(|row| wanted(row.0) && which(row.1).is_none())
        .collect()
}

/// Installs what is missing of the programs for some uses.
pub(crate) fn programs(wanted: impl Fn(Use) -> bool) -> Result<()> {
    let rows = missing(&wanted);
    if rows.is_empty() {
        return Ok(());
    }
    if which("apt-get").is_some() {
        timed("installing programs from Debian", || {
            let apt = || {
                let mut apt = Command::new("apt-get");
                apt.env("DEBIAN_FRONTEND", "noninteractive");
                apt
            };
            shell::output(apt().arg("update"))?;
            for package in [MONITORING, ALERTING, PROXY] {
                if rows.iter().any(|row| row.2 == package) {
                    no_service(&format!("{package}.service"))?;
                }
            }
            let packages = rows.iter().map(|row| row.2);
            shell::output(
                apt()
                    .args(["install", "-y", "--no-install-recommends"])
                    .args(packages),
            )?;
            Ok(())
        })?;
    }
    let left = missing(&wanted);
    if left.is_empty() {
        return Ok(());
    }
    let list = |pick: fn(&Row) -> &'static str| left.iter().map(pick).collect::<Vec<_>>().join(" ");
    bail!(
        "missing: {}. Debian: apt-get install {}; Fedora: dnf install {}; Arch: pacman -S {}",
        list(|row| row.1),
        list(|row| row.2),
        list(|row| row.3),
        list(|row| row.4),
    )
}

/// Masks a service before its package comes, which would start it now and with every boot; whoever wants it, unmasks it.
fn no_service(unit: &str) -> Result<()> {
    let units = Path::new("/etc/systemd/system");
    fs::create_dir_all(units)?;
    let mask = units.join(unit);
    match std::os::unix::fs::symlink("/dev/null", &mask) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
            Err(error).with_context(|| format!("cannot mask {}", mask.display()))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

pub(crate) fn which(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    let places = env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    places
        .map(|place| place.join(program))
        .find(|file| file.is_file())
}

/// A key of what something is built from.
pub(crate) fn key(parts: &[&[u8]]) -> String {
    let mut key = DefaultHasher::new();
    for part in parts {
        key.write(part);
    }
    format!("{:016x}", key.finish())
}

/// A key of files.
fn key_of(files: &[PathBuf], more: &[u8]) -> Result<String> {
    let read =
        |path: &PathBuf| fs::read(path).with_context(|| format!("cannot read {}", path.display()));
    let mut parts = files.iter().map(read).collect::<Result<Vec<_>>>()?;
    parts.push(more.to_owned());
    let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
    Ok(key(&parts))
}

/// Where somebody's own programs are, which never mix with the pinned ones.
fn assets() -> Vec<u8> {
    let place = env::var_os("KUBEBUILDER_ASSETS").unwrap_or_default();
    place.into_encoded_bytes()
}

/// The directory of the built binaries, keyed by what they are built from.
pub fn binaries() -> Result<PathBuf> {
    let release = Release::plane()?;
    let modules = repository().join("testbed/go");
    let files = [
        modules.join("etcd/go.sum"),
        modules.join("kubernetes/go.sum"),
        modules.join("kubernetes/kubelet/main.go"),
        release.module().join("go.sum"),
    ];
    let key = key_of(&files, &assets())?;
    let place = cache().join(format!("bin-{}-{key}", release.minor));
    fs::create_dir_all(&place)?;
    let _lock = alone(&place)?;
    let etcd = [("etcd", "go.etcd.io/etcd/server/v3")];
    build(&place, &modules.join("etcd"), &etcd, "")?;
    let kubernetes = modules.join("kubernetes");
    if release == releases::USUAL {
        let all = [&COMMANDS[..], &[KUBEMARK]].concat();
        build(&place, &kubernetes, &all, &release.flags())?;
    } else {
        build(&place, &release.module(), &COMMANDS, &release.flags())?;
        build(&place, &kubernetes, &[KUBEMARK], &releases::USUAL.flags())?;
    }
    Ok(place)
}

/// The directory of the real kubelet of a release.
pub fn kubelet(release: Release) -> Result<PathBuf> {
    let key = key_of(&[release.module().join("go.sum")], &assets())?;
    let place = cache().join(format!("kubelet-{}-{key}", release.minor));
    fs::create_dir_all(&place)?;
    let _lock = alone(&place)?;
    build(&place, &release.module(), &[KUBELET], &release.flags())?;
    Ok(place)
}

/// The real kubelet, containerd and what it calls, and the image of every container, keyed by what they are built from.
pub fn runtime() -> Result<PathBuf> {
    let release = Release::kubelet()?;
    let modules = repository().join("testbed/go");
    let files = [
        "kubernetes/go.sum",
        "kubernetes/csi/main.go",
        "containerd/go.sum",
        "runtime/pod/main.go",
        "runtime/oci/main.go",
        "runtime/archive/main.go",
    ];
    let mut files = files.map(|file| modules.join(file)).to_vec();
    files.push(release.module().join("go.sum"));
    let key = key_of(&files, &assets())?;
    let place = cache().join(format!("runtime-{}-{key}", release.minor));
    fs::create_dir_all(&place)?;
    let _lock = alone(&place)?;
    if !place.join("kubelet").exists() {
        let part = place.join(format!("kubelet.part-{}", std::process::id()));
        fs::copy(kubelet(release)?.join("kubelet"), &part)?;
        fs::rename(&part, place.join("kubelet"))?;
    }
    let kubernetes = modules.join("kubernetes");
    build(&place, &kubernetes, &[CSI], &releases::USUAL.flags())?;
    build(&place, &modules.join("containerd"), &CONTAINERD, "")?;
    build(&place, &modules.join("runtime"), &PODS, "")?;
    let image = place.join("pod.tar");
    if !image.exists() {
        let part = place.join(format!("pod.tar.part-{}", std::process::id()));
        let mut archive = Command::new(place.join("archive"));
        shell::output(archive.arg(place.join("pod")).arg(IMAGE).arg(&part))?;
        fs::rename(&part, &image)?;
    }
    Ok(place)
}

/// Name and Go package of each: from `KUBEBUILDER_ASSETS` when it is there, else built, whole or not at all. One
/// `go build` for all that is left: one links while another compiles.
pub(crate) fn build(
    place: &Path,
    module: &Path,
    commands: &[(&str, &str)],
    flags: &str,
) -> Result<()> {
    let mut left = Vec::new();
    for (name, package) in commands {
        let asset = env::var_os("KUBEBUILDER_ASSETS").map(|dir| PathBuf::from(dir).join(name));
        if place.join(name).exists() {
            continue;
        }
        if let Some(asset) = asset.filter(|asset| asset.is_file()) {
            let part = place.join(format!("{name}.part-{}", std::process::id()));
            fs::copy(&asset, &part)?;
            fs::rename(&part, place.join(name))?;
        } else {
            left.push((*name, *package));
        }
    }
    if left.is_empty() {
        return Ok(());
    }
    let names: Vec<&str> = left.iter().map(|(name, _)| *name).collect();
    let part = place.join(format!("part-{}", std::process::id()));
    // Go gives several programs the names of their packages' directories, and one the name that it is told.
    let out = if let [name] = names[..] {
        part.join(name)
    } else {
        part.clone()
    };
    fs::create_dir_all(&part)?;
    timed(&format!("building {}", names.join(", ")), || {
        let mut go = Command::new(which("go").context("go is not installed")?);
        // Thousands of packages, most of them small: one more compiler than there are cores, each on a core of its own
        // and with room for its heap, and no debug information: together an eighth quicker, measured on two cores.
        let cores = std::thread::available_parallelism()?;
        go.current_dir(module)
            .envs([("CGO_ENABLED", "0"), ("GOMAXPROCS", "1"), ("GOGC", "400")])
            .args(["build", "-trimpath", "-gcflags=all=-dwarf=false", "-p"])
            .arg((cores.get() + 1).to_string());
        go.args(["-ldflags", &format!("-s -w{flags}"), "-o"])
            .arg(&out)
            .args(left.iter().map(|(_, package)| package));
        shell::shown(&mut go)
    })?;
    for name in names {
        fs::rename(part.join(name), place.join(name))?;
    }
    Ok(fs::remove_dir(&part)?)
}

/// Does a long step and says so.
pub(crate) fn timed<T>(what: &str, step: impl FnOnce() -> Result<T>) -> Result<T> {
    let start = Instant::now();
    eprintln!("bed: {what} ...");
    let done = step()?;
    eprintln!("bed: {what}: {:.1} s", start.elapsed().as_secs_f32());
    Ok(done)
}
