//! What came up with a boot, and whether it is what an update was to bring (docs/design.md 9).
//!
//! Keeps I8: only where a change was expected, and both sides are known, does the same again or an older one count as an
//! update that did not take. A reboot for libraries, a sentinel file or a person has the same kernel before and after.

use serde::{Deserialize, Serialize};

use crate::before::Before;
use crate::release::Release;
use crate::text::{self, NAME};
use crate::trigger::{Builtin, Request};

/// Characters of a deployment that are shown to people.
const SHOWN: usize = 12;
/// Hexadecimal digits of an ostree checksum.
const CHECKSUM: usize = 64;

/// What the boot loader chose. An empty text: there is no such thing here, or it is not known.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Booted {
    /// `uname -r`.
    pub kernel: String,
    /// `uname -v`, which tells builds of one release apart.
    pub build: String,
    /// The deployment of ostree or bootc: `CHECKSUM.SERIAL`, or the digest of its composefs.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub deployment: String,
    /// The number of the snapshot that / is, as snapper and transactional-update count them. Only told: which one was to come is
    /// known to their programs alone.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub snapshot: String,
    /// The release of the system by os-release(5). Only told: nothing names the one that is to come.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub release: String,
}

impl Booted {
    /// By `uname`, /proc/self/mountinfo, /proc/cmdline and os-release.
    pub fn of(kernel: &str, build: &str, mounts: &str, cmdline: &str, release: &str) -> Self {
        Self {
            kernel: kernel.trim().to_owned(),
            build: build.trim().to_owned(),
            deployment: deployed(mounts)
                .or_else(|| composefs(cmdline))
                .unwrap_or_default(),
            snapshot: snapshot(mounts).unwrap_or_default(),
            release: named(release).unwrap_or_default(),
        }
        .cleaned()
    }

    #[must_use]
    pub(crate) fn cleaned(self) -> Self {
        let clean = |one: String| text::name(&one, NAME);
        Self {
            kernel: clean(self.kernel),
            build: clean(self.build),
            deployment: clean(self.deployment),
            snapshot: clean(self.snapshot),
            release: clean(self.release),
        }
    }

    /// What is told of it: what it is, and which one; empty: there is none, or it is not known.
    fn parts(&self) -> [(&'static str, String); 4] {
        [
            ("kernel ", self.kernel.clone()),
            ("deployment ", shown(&self.deployment)),
            ("snapshot ", self.snapshot.clone()),
            ("", self.release.clone()),
        ]
    }

    /// What the boot loader chose.
    fn chosen(&self) -> [&str; 3] {
        [&self.kernel, &self.build, &self.deployment]
    }
}

/// What came up where `was` ran before, for people; none: nothing is known of both.
pub(crate) fn came(was: &Booted, now: &Booted) -> Option<String> {
    let both = was.parts().into_iter().zip(now.parts());
    let both = both.filter(|((_, was), (_, now))| !was.is_empty() && !now.is_empty());
    let (same, new): (Vec<_>, Vec<_>) = both.partition(|(was, now)| was == now);
    if new.is_empty() && was.build != now.build {
        return Some(format!("another build of kernel {}", now.kernel));
    }
    let listed = |parts: Vec<String>| Some(parts.join(", ")).filter(|words| !words.is_empty());
    if new.is_empty() {
        let same = same
            .into_iter()
            .map(|(_, (what, one))| what.to_owned() + &one);
        return listed(same.collect()).map(|same| format!("the same {same}"));
    }
    let new = new
        .into_iter()
        .map(|((_, was), (what, now))| format!("{what}{now} (before: {was})"));
    listed(new.collect())
}

/// What was to come up and did not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Missed {
    /// Of a kernel that was removed and came up again none: its check asks again only once another was installed.
    pub target: Option<Target>,
    /// For people.
    pub words: String,
}

/// What is not tried again until something changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Target {
    /// The kernel that the built-in check names as its package.
    Kernel,
    /// A deployment that begins so: that of one checksum may be staged again with another serial number.
    Deployment(String),
}

impl Target {
    /// The same is asked for again; `pkgs`: the trigger names the same packages, `staged`: what the next boot is to bring.
    pub(crate) fn again(&self, pkgs: bool, staged: Option<&str>) -> bool {
        match self {
            Self::Kernel => pkgs,
            Self::Deployment(missed) => staged.is_some_and(|staged| staged.starts_with(missed)),
        }
    }

    /// Another one is to come.
    pub(crate) fn passed(&self, pkgs: bool, staged: Option<&str>) -> bool {
        match self {
            Self::Kernel => !pkgs,
            Self::Deployment(missed) => staged.is_some_and(|staged| !staged.starts_with(missed)),
        }
    }

    /// It asked this trigger for a reboot. Behind a deployment may be any: a sentinel, a check, a person.
    pub(crate) fn behind(&self, trigger: &str) -> bool {
        match self {
            Self::Kernel => trigger == Builtin::Kernel.trigger(),
            Self::Deployment(_) => true,
        }
    }
}

/// What was expected of the reboot for `request` and did not come; none: nothing was, it came, or nobody knows.
pub(crate) fn missed(before: &Before, now: &Before, request: Option<&Request>) -> Option<Missed> {
    let (was, now) = (before.booted.as_ref()?, now.booted.as_ref()?);
    if let Some(staged) = &before.staged {
        return deployment(staged, was, now);
    }
    kernel(request?, was, now)
}

fn deployment(staged: &str, was: &Booted, now: &Booted) -> Option<Missed> {
    if was.deployment.is_empty() || now.deployment != was.deployment || now.deployment == staged {
        return None;
    }
    let checksum = |one: &str| one.split('.').next().unwrap_or_default().to_owned();
    // Of one checksum with other kernel arguments the serial number tells.
    let target = Some(checksum(staged)).filter(|one| *one != checksum(&was.deployment));
    Some(Missed {
        target: Some(Target::Deployment(
            target.unwrap_or_else(|| staged.to_owned()),
        )),
        words: format!(
            "deployment {} was to come up, and {} came again",
            shown(staged),
            shown(&now.deployment)
        ),
    })
}

/// Without the most of its checksum.
fn shown(deployment: &str) -> String {
    let (checksum, serial) = deployment.split_once('.').unwrap_or((deployment, ""));
    let short: String = checksum.chars().take(SHOWN).collect();
    match serial {
        "" => short,
        serial => format!("{short}.{serial}"),
    }
}

/// By the one package of the built-in check: the release that was installed, that release and its new build, or the running
/// release where that was removed.
fn kernel(request: &Request, was: &Booted, now: &Booted) -> Option<Missed> {
    let trigger = Builtin::Kernel.trigger();
    let reason = request.reasons.iter().find(|one| one.trigger == trigger)?;
    let wanted = reason.pkgs.first().filter(|_| reason.pkgs.len() == 1)?;
    if was.kernel.is_empty()
        || now.kernel.is_empty()
        || *wanted == now.kernel && was.chosen() != now.chosen()
    {
        return None;
    }
    let same = (&was.kernel, &was.build) == (&now.kernel, &now.build);
    let older = Release::parse(&was.kernel).newer_than(&Release::parse(&now.kernel));
    let removed = *wanted == was.kernel;
    let words = match (same, older && !removed) {
        (true, _) if removed => {
            format!("kernel {wanted} was removed, and came up again: the boot loader still has it")
        }
        (true, _) => format!(
            "kernel {wanted} was to come up, and {} came again",
            was.kernel
        ),
        (false, true) => format!(
            "kernel {wanted} was to come up, and the older {} came",
            now.kernel
        ),
        (false, false) => return None,
    };
    Some(Missed {
        target: (!removed).then_some(Target::Kernel),
        words,
    })
}

/// The deployment that / or /etc is mounted from: with composefs / is an overlay, and /etc is the deployment's own.
fn deployed(mounts: &str) -> Option<String> {
    let found = mounts.lines().filter_map(|line| {
        let mut fields = line.split(' ').skip(3);
        let (root, point) = (fields.next()?, fields.next()?);
        if !["/", "/etc"].contains(&point) {
            return None;
        }
        let (_, name) = root
            .strip_prefix("/ostree/deploy/")?
            .split_once("/deploy/")?;
        let name = name.split('/').next()?;
        is_deployment(name).then(|| name.to_owned())
    });
    // What is mounted later lies above.
    { found }.next_back()
}

/// The snapshot that / is mounted from, by its place among the subvolumes of btrfs.
fn snapshot(mounts: &str) -> Option<String> {
    let roots = mounts.lines().filter_map(|line| {
        let mut fields = line.split(' ').skip(3);
        let (root, point) = (fields.next()?, fields.next()?);
        (point == "/").then_some(root)
    });
    let root = { roots }.next_back()?;
    let (_, number) = root
        .strip_suffix("/snapshot")?
        .rsplit_once("/.snapshots/")?;
    let digits = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| number.to_owned())
}

/// System, version, and the image or build where there is one.
fn named(release: &str) -> Option<String> {
    let value = |key: &str| {
        let mut values = release
            .lines()
            .filter_map(|line| line.trim().strip_prefix(key)?.strip_prefix('='));
        let value = values.next_back()?.trim_matches(['"', '\'']);
        Some(value).filter(|value| !value.is_empty())
    };
    let (version, image) = (value("VERSION_ID"), value("IMAGE_VERSION"));
    let image = image.or_else(|| value("BUILD_ID"));
    let which = match (version, image) {
        (Some(version), Some(image)) if version != image => format!("{version} ({image})"),
        (version, image) => version.or(image)?.to_owned(),
    };
    Some(format!("{} {which}", value("ID").unwrap_or("linux")))
}

fn composefs(cmdline: &str) -> Option<String> {
    let digest = cmdline
        .split_ascii_whitespace()
        .find_map(|one| one.strip_prefix("composefs="))?;
    // With a question mark a digest that does not fit is passed over.
    let digest = digest.strip_prefix('?').unwrap_or(digest);
    let hex = !digest.is_empty() && digest.bytes().all(|byte| byte.is_ascii_hexdigit());
    hex.then(|| digest.to_owned())
}

fn is_deployment(name: &str) -> bool {
    let hex = |one: &str| one.len() == CHECKSUM && one.bytes().all(|byte| byte.is_ascii_hexdigit());
    let number = |one: &str| !one.is_empty() && one.bytes().all(|byte| byte.is_ascii_digit());
    name.split_once('.')
        .is_some_and(|(checksum, serial)| hex(checksum) && number(serial))
}

/// The deployment that ostree brings with the next boot, by its /run/ostree/staged-deployment; none: none that is known, or
/// one that is locked, which stays as it is over a reboot.
///
/// The file is a dictionary of `GVariant`: the first entry, `target`, begins with the name of the deployment as a text that a
/// zero byte ends (ostree, `ostree-sysroot-deploy.c`).
pub fn staged(file: &[u8]) -> Option<String> {
    if locked(file) {
        return None;
    }
    file.split(|byte| *byte == 0).find_map(|word| {
        let text = std::str::from_utf8(word).ok()?;
        is_deployment(text).then(|| text.to_owned())
    })
}

/// The entry `locked`, a truth value: the byte before the type that ends it.
fn locked(file: &[u8]) -> bool {
    const KEY: &[u8] = b"locked\0";
    let Some(at) = file.windows(KEY.len()).position(|word| word == KEY) else {
        return false;
    };
    let after = &file[at + KEY.len()..];
    let kind = after.iter().take(16).position(|byte| *byte == b'b');
    // What cannot be told counts as locked: nothing is expected then (I8).
    kind.is_none_or(|kind| kind < 2 || after[kind - 2] != 0)
}

#[cfg(test)]
mod tests;
