//! Installed from a package and triggered by the distribution: the packages of this tree and the real dnf, pacman
//! and apt with local repositories, on real hosts. Fedora's and Arch's tools run on Debian; what their packages
//! would want from the rest of their distribution is one package that provides it.
//!
//! Its place in the alphabet lets it begin when `built` has made the packages: four of five threads once waited for them.

use std::fs;
use std::path::{Path, PathBuf};

use testbed::{Content, Host, HostSpec, Output, Package, Shared, Sources};

use crate::e2e::Site;

pub(crate) mod images;
mod life;
mod presets;
mod updates;
mod upgrade;
mod versions;

/// A slow package manager beside others on two cores.
const SECONDS: u32 = 120;

/// Where the administrator's settings are, whatever a package brings.
const SITE: &str = "/etc/kube-rebootd/config.d/50-site.toml";

/// What the distribution's own tool is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Packager {
    Dnf,
    Pacman,
    Apt,
}

/// A package in two revisions.
pub(crate) type Revisions = [PathBuf; 2];

static RPMS: Shared<Revisions> = Shared::new("`make rpm`", || revisions(Package::Rpm));
static ARCHES: Shared<Revisions> = Shared::new("`make arch`", || revisions(Package::Arch));
static DEBS: Shared<Revisions> = Shared::new("`make deb`", || revisions(Package::Deb));

fn revisions(package: Package) -> anyhow::Result<Revisions> {
    let place = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let place = place.join(format!("revisions-{package:?}"));
    let _ = fs::remove_dir_all(&place);
    Sources::own().make(&["build"])?;
    let packed = |revision: u8| {
        let sources = Sources::unpacked(&place.join(revision.to_string()))?;
        if revision > 1 {
            sources.revise(revision)?;
        }
        sources.pack(package)
    };
    Ok([packed(1)?, packed(2)?])
}

impl Packager {
    /// Its word in names and in package.sh.
    fn word(self) -> &'static str {
        match self {
            Self::Dnf => "dnf",
            Self::Pacman => "pacman",
            Self::Apt => "apt",
        }
    }

    /// The package in the revisions that its users meet, built once.
    pub(crate) fn revisions(self) -> &'static Revisions {
        match self {
            Self::Dnf => RPMS.get(),
            Self::Pacman => ARCHES.get(),
            Self::Apt => DEBS.get(),
        }
    }

    /// Points it at /srv/repo alone.
    fn setup(self) -> &'static str {
        match self {
            // Plugins of Debian's that have nothing to do here.
            Self::Dnf => {
                "mkdir -p /etc/yum.repos.d && echo 42 >/etc/dnf/vars/releasever
                printf '[repo]\nname=repo\nbaseurl=file:///srv/repo\ngpgcheck=0\nmetadata_expire=0\n' >/etc/yum.repos.d/repo.repo
                printf '[main]\nenabled=0\n' | tee /etc/dnf/plugins/local.conf >/etc/dnf/plugins/system_upgrade.conf"
            }
            Self::Pacman => {
                "printf '[repo]\nSigLevel = Never\nServer = file:///srv/repo\n' >>/etc/pacman.conf"
            }
            Self::Apt => {
                "rm -rf /etc/apt/sources.list /etc/apt/sources.list.d
                echo 'deb [trusted=yes] file:/srv/repo ./' >/etc/apt/sources.list
                echo 'Dpkg::Options { \"--force-confold\"; };' >/etc/apt/apt.conf.d/60test
                echo 'Unattended-Upgrade::Origins-Pattern { \"origin=repo\"; };' >>/etc/apt/apt.conf.d/60test"
            }
        }
    }

    /// Makes /srv/repo a repository, and the tool look at it.
    fn refresh(self) -> &'static str {
        match self {
            Self::Dnf => "createrepo_c -q /srv/repo && dnf -q makecache --refresh",
            Self::Pacman => {
                "rm -f /srv/repo/repo.* && repo-add -q /srv/repo/repo.db.tar.gz /srv/repo/*.zst && pacman -Sy"
            }
            Self::Apt => {
                "cd /srv/repo && apt-ftparchive packages . >Packages &&
                apt-ftparchive -o APT::FTPArchive::Release::Origin=repo release . >Release && apt-get -qq update"
            }
        }
    }

    fn install(self, packages: &str) -> String {
        match self {
            Self::Dnf => format!("dnf -y install {packages}"),
            Self::Pacman => format!("pacman -S --noconfirm {packages}"),
            Self::Apt => format!("apt-get -y install {packages}"),
        }
    }

    /// Of everything that has a newer package.
    fn upgrade(self) -> &'static str {
        match self {
            Self::Dnf => "dnf -y upgrade",
            Self::Pacman => "pacman -Su --noconfirm",
            Self::Apt => "apt-get -y upgrade",
        }
    }

    /// To the first revision.
    fn downgrade(self) -> &'static str {
        match self {
            Self::Dnf => "dnf -y downgrade kube-rebootd",
            Self::Pacman => "pacman -U --noconfirm /srv/repo/kube-rebootd-*-1-*.zst",
            Self::Apt => {
                "apt-get -y --allow-downgrades install kube-rebootd=$(apt-cache show kube-rebootd | sed -n 's/^Version: \\(.*-1\\)$/\\1/p')"
            }
        }
    }

    fn remove(self) -> &'static str {
        match self {
            Self::Dnf => "dnf -y remove kube-rebootd",
            Self::Pacman => "pacman -R --noconfirm kube-rebootd",
            Self::Apt => "apt-get -y remove kube-rebootd",
        }
    }

    /// Version and revision, as the package manager knows it.
    fn version(self) -> &'static str {
        match self {
            Self::Dnf => "rpm -q --qf '%{VERSION}-%{RELEASE}' kube-rebootd",
            Self::Pacman => "pacman -Q kube-rebootd | cut -d' ' -f2",
            Self::Apt => "dpkg-query -W -f '${Version}' kube-rebootd",
        }
    }

    /// Complains when a file of the package is another than was packed.
    fn verify(self) -> &'static str {
        match self {
            Self::Dnf => "rpm -V kube-rebootd",
            Self::Pacman => "pacman -Qkkq kube-rebootd",
            Self::Apt => "dpkg -V kube-rebootd",
        }
    }
}

/// A host on which a package manager works; the daemon comes from its repository.
struct Machine {
    packager: Packager,
    host: Host,
}

impl Machine {
    /// With the first revision in its repository, and nothing installed.
    fn boot(packager: Packager, site: &Site, special: impl FnOnce(HostSpec) -> HostSpec) -> Self {
        let spec = HostSpec::named(format!("{}-1", site.group));
        let host = site.boot(&special(Self::spec(packager, spec)));
        let machine = Self { packager, host };
        machine.furnish();
        machine
    }

    fn spec(packager: Packager, spec: HostSpec) -> HostSpec {
        let mask =
            |spec: HostSpec, unit: &str| spec.file(format!("/etc/systemd/system/{unit}"), "");
        // What Debian would do by itself.
        let spec = mask(spec.content(Content::Updaters), "apt-daily.timer");
        let spec = mask(spec, "apt-daily-upgrade.timer");
        let spec = match packager {
            Packager::Apt => spec,
            Packager::Dnf | Packager::Pacman => mask(spec, "unattended-upgrades.service"),
        };
        spec.file("/srv/package.sh", include_str!("package.sh"))
    }

    /// The repository, and the rest of the distribution.
    fn furnish(&self) {
        self.sh(self.packager.setup());
        self.put(0);
        match self.packager {
            Packager::Dnf => self.release(
                "base-system 1",
                "rpm -qp --requires /srv/repo/kube-rebootd-*.rpm | grep -v '^rpmlib' | sort -u",
            ),
            Packager::Pacman => {
                self.release("base-system 1", "printf 'glibc\ngcc-libs\nsystemd\n'");
            }
            Packager::Apt => {
                self.sh(self.packager.refresh());
            }
        }
    }

    /// Another package of the distribution, by name and version, that provides what a command prints.
    fn release(&self, package: &str, provides: &str) {
        let packager = self.packager.word();
        self.sh(&format!(
            "{provides} | sh /srv/package.sh {packager} {package}"
        ));
        self.sh(self.packager.refresh());
    }

    /// Copies the packages of a revision, counted from 0, into the repository.
    fn put(&self, revision: usize) {
        let package = &self.packager.revisions()[revision];
        let place = self.host.outer("/srv/repo");
        fs::create_dir_all(&place).unwrap();
        fs::copy(package, place.join(package.file_name().unwrap())).unwrap();
    }

    /// The second revision is in the repository.
    fn publish(&self) {
        self.put(1);
        self.sh(self.packager.refresh());
    }

    /// What installs a package does this, and the administrator enables it.
    fn install(&self) {
        self.sh(&self.packager.install("kube-rebootd"));
    }

    fn enable(&self) {
        self.sh("systemctl enable --now kube-rebootd");
    }

    fn run(&self, line: &str) -> Output {
        // Nobody answers questions.
        let line = format!("export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8\n{line}");
        self.host.run_for(SECONDS, &["sh", "-c", &line]).unwrap()
    }

    /// What a command prints; it must succeed.
    #[track_caller]
    fn sh(&self, line: &str) -> String {
        let out = self.run(line);
        let said = format!("{line}: exit {}: {}{}", out.code, out.stdout, out.stderr);
        assert_eq!(out.code, 0, "{said}");
        out.stdout.trim().to_owned()
    }

    fn version(&self) -> String {
        self.sh(self.packager.version())
    }

    /// A property of the unit.
    fn show(&self, property: &str) -> String {
        self.sh(&format!("systemctl show -P {property} kube-rebootd"))
    }

    /// "enabled", and other words of systemctl(1).
    fn enabled(&self) -> String {
        let out = self.run("systemctl is-enabled kube-rebootd");
        out.stdout.trim().to_owned()
    }
}
