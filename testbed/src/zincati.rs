//! The real Zincati, and what it needs on a host that is none of its distribution's: an rpm-ostree and a server of the update
//! graph that are played. It asks our daemon over FleetLock and reboots its host by itself (docs/updaters.md).

use std::env;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::host::Host;
use crate::runtime::enable;
use crate::{ground, shell, tools};

/// Its crate has a binary and a lock file of its own.
const VERSION: &str = "0.0.32";

/// What is compiled quickly is enough, as it mostly waits: a release takes several times as long.
const QUICK: [(&str, &str); 3] = [
    ("CARGO_PROFILE_DEV_DEBUG", "false"),
    ("CARGO_PROFILE_DEV_OPT_LEVEL", "0"),
    ("CARGO_INCREMENTAL", "0"),
];

/// Files of its sources, each where its distribution has it: unit, bus policy, directories and default configuration.
const FILES: [(&str, &str); 4] = [
    ("systemd/system", "usr/lib/systemd/system"),
    ("dbus-1/system.d", "usr/share/dbus-1/system.d"),
    ("tmpfiles.d", "usr/lib/tmpfiles.d"),
    ("config.d", "usr/lib/zincati/config.d"),
];

/// What is played: path on the host, and the script.
const SCRIPTS: [(&str, &str); 3] = [
    ("usr/bin/rpm-ostree", include_str!("zincati/rpm-ostree")),
    (
        "usr/libexec/bed-ostreed",
        include_str!("zincati/rpm-ostreed"),
    ),
    ("usr/libexec/bed-graph", include_str!("zincati/graph")),
];

/// Sockets, each with its port and with what answers there: a process for each connection.
const SOCKETS: [(&str, u16, &str); 2] = [
    ("bed-ostreed", 4410, "/usr/libexec/bed-ostreed"),
    ("bed-graph", 4411, "/usr/libexec/bed-graph"),
];

/// Its time runs fifteen times as fast: it asks again after 20 to 22 seconds instead of after 5 minutes, which it has as a constant,
/// and still waits 2 minutes for an answer, where our daemon takes 90 seconds at most.
const DROP_IN: &str = "[Service]
BindReadOnlyPaths=/etc/bed/cmdline:/proc/cmdline
Environment=LD_PRELOAD=/usr/$LIB/faketime/libfaketime.so.1 \"FAKETIME=+0 x15\"
";

/// Below the administrator's directory. As docs/updaters.md says, but for the last, which is a bed's own; it looks for updates every
/// second.
const CONFIG: [(&str, &str); 2] = [
    (
        "55-kube-rebootd.toml",
        "[updates]
strategy = \"fleet_lock\"

[updates.fleet_lock]
base_url = \"http://127.0.0.1:3333/\"
",
    ),
    (
        "90-bed.toml",
        "[cincinnati]
base_url = \"http://127.0.0.1:4411\"

[agent.timing]
steady_interval_secs = 15
",
    ),
];

/// Its program and its files as a layer of a host's file system, built once into the cache.
pub(crate) fn layer() -> Result<PathBuf> {
    let key = tools::key(&[format!("{QUICK:?} {FILES:?}").as_bytes()]);
    let place = tools::cache().join(format!("zincati-{VERSION}-{key}"));
    if place.exists() {
        return Ok(place);
    }
    let _lock = tools::alone(&place)?;
    if place.exists() {
        return Ok(place);
    }
    let part = tools::cache().join(format!("zincati-{VERSION}.part-{}", std::process::id()));
    // Left by a process of the same number that died here.
    if part.exists() {
        fs::remove_dir_all(&part)?;
    }
    let made = tools::timed("building Zincati", || build(&part));
    if made.is_err() {
        let _ = fs::remove_dir_all(&part);
    }
    fs::rename(made?, &place)?;
    fs::remove_dir_all(&part)?;
    Ok(place)
}

/// The layer, below `part`.
fn build(part: &Path) -> Result<PathBuf> {
    let (root, layer) = (part.join("root"), part.join("layer"));
    let mut cargo = ground::outside("cargo");
    cargo.envs(QUICK);
    cargo.args(["install", "--quiet", "--locked", "--debug", "--no-track"]);
    cargo.arg("--target-dir").arg(part.join("target"));
    cargo.arg("--root").arg(&root);
    shell::shown(cargo.arg(format!("zincati@{VERSION}")))?;
    let program = layer.join("usr/libexec/zincati");
    fs::create_dir_all(layer.join("usr/libexec"))?;
    fs::rename(root.join("bin/zincati"), program)?;
    let sources = sources()?.join("dist");
    for (from, to) in FILES {
        let to = layer.join(to);
        fs::create_dir_all(&to)?;
        for entry in fs::read_dir(sources.join(from))? {
            let entry = entry?;
            fs::copy(entry.path(), to.join(entry.file_name()))?;
        }
    }
    Ok(layer)
}

/// Where cargo has unpacked its sources.
fn sources() -> Result<PathBuf> {
    let own = env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = || env::var_os("HOME").map(|home| PathBuf::from(home).join(".cargo"));
    let cargo = own
        .or_else(home)
        .context("neither CARGO_HOME nor HOME is set")?;
    let all = cargo.join("registry/src");
    // One directory for each registry, named after it.
    for entry in fs::read_dir(&all).with_context(|| format!("cannot read {}", all.display()))? {
        let found = entry?.path().join(format!("zincati-{VERSION}"));
        if found.is_dir() {
            return Ok(found);
        }
    }
    anyhow::bail!(
        "the sources of zincati {VERSION} are not below {}",
        all.display()
    )
}

impl Host {
    /// Whether Zincati is on it.
    pub(crate) fn has_zincati(&self) -> bool {
        self.upper().join(SCRIPTS[0].0).exists()
    }

    /// What Zincati needs beside its layer; it begins with the host.
    pub(crate) fn furnish_zincati(&self) -> Result<()> {
        let upper = self.upper();
        let put = |path: &str, text: &str, mode: u32| -> Result<()> {
            let path = upper.join(path);
            fs::create_dir_all(path.parent().unwrap_or(&upper))?;
            fs::write(&path, text)?;
            Ok(fs::set_permissions(
                &path,
                fs::Permissions::from_mode(mode),
            )?)
        };
        for (path, script) in SCRIPTS {
            put(path, script, 0o755)?;
        }
        let units = "etc/systemd/system";
        for (name, port, program) in SOCKETS {
            let socket = SOCKET.replace("PORT", &port.to_string());
            put(&format!("{units}/{name}.socket"), &socket, 0o644)?;
            let service = SERVICE.replace("PROGRAM", program);
            put(&format!("{units}/{name}@.service"), &service, 0o644)?;
            enable(&upper.join(units), &format!("{name}.socket"))?;
        }
        put(
            &format!("{units}/zincati.service.d/50-bed.conf"),
            DROP_IN,
            0o644,
        )?;
        symlink(
            "/usr/lib/systemd/system/zincati.service",
            upper
                .join(units)
                .join("multi-user.target.wants/zincati.service"),
        )?;
        put("etc/bed/cmdline", "ignition.platform.id=bed\n", 0o644)?;
        for (name, text) in CONFIG {
            put(&format!("etc/zincati/config.d/{name}"), text, 0o644)?;
        }
        Ok(())
    }
}

const SOCKET: &str = "[Unit]
Description=A part of the system that is played
[Socket]
ListenStream=127.0.0.1:PORT
Accept=yes
";

const SERVICE: &str = "[Unit]
Description=A part of the system that is played
[Service]
ExecStart=PROGRAM
StandardInput=socket
StandardError=journal
";
