//! What an admin has given that runs with the slot held, or before: hooks, commands of the gate, and the files of
//! `[[gates.prometheus]]`. Whether each could be used is seen here by files alone, long before it is needed (I8, I14).

use std::path::Path;

use kube_rebootd_core::alerts::Source;
use kube_rebootd_core::config::{Config, FleetLock, GateCommand, Listen};
use kube_rebootd_core::hook::Hook;

use crate::alerts::Asker;
use crate::host::check::{Unready, ready};
use crate::host::fleet_lock::{listener, own_id, uid};
use crate::host::hooks::{Survey, Unlisted, survey};
use crate::root::Root;
use crate::trusted::Untrusted;

const COMMANDS: &str = "gate commands";
pub(super) const PROMETHEUS: &str = "prometheus";

/// All of one kind.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) name: &'static str,
    /// What there is.
    pub(super) there: String,
    pub(super) troubles: Vec<Trouble>,
}

/// One that would not be run, or read.
#[derive(Debug)]
pub(super) struct Trouble {
    pub(super) what: String,
    pub(super) cure: String,
    /// Nothing reboots, or not well, until it is cured.
    pub(super) grave: bool,
}

impl Trouble {
    fn grave(what: impl Into<String>, cure: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            cure: cure.into(),
            grave: true,
        }
    }

    fn untrusted(why: &Untrusted) -> Self {
        let (what, cure) = why.parts();
        Self::grave(what, cure)
    }
}

/// All of them; blocks.
pub(super) fn all(root: &Root, config: &Config) -> Vec<Row> {
    let mut rows = hooks(root);
    rows.extend(commands(root, &config.gates.commands));
    rows.extend(config.gates.prometheus.iter().map(|one| files(root, one)));
    rows.extend(config.fleet_lock.as_ref().map(|one| client(root, one)));
    rows
}

/// Whether the updater of this host would be heard, and by whom.
fn client(root: &Root, place: &FleetLock) -> Row {
    let id = place.id.clone().map_or_else(|| own_id(root), Ok);
    let mut troubles = Vec::new();
    if let Err(why) = &id {
        let cure = "write the id that the updater sends into fleet_lock.id";
        troubles.push(Trouble::grave(why.as_str(), cure));
    }
    if uid(root, &place.user).is_none() {
        let heard = match place.listen {
            Listen::Unix(_) => "only root",
            Listen::Tcp(_) => "nobody",
        };
        let what = format!("there is no user {}: {heard} is heard", place.user);
        let cure = "write the user of the updater into fleet_lock.user";
        troubles.push(Trouble::grave(what, cure));
    }
    let listener = listener(root, &place.listen);
    if listener.is_none() {
        let what = format!("nobody listens at {}", place.listen);
        let cure =
            "start kube-rebootd, or have it reload: systemctl reload-or-restart kube-rebootd";
        troubles.push(Trouble {
            grave: false,
            ..Trouble::grave(what, cure)
        });
    }
    if let Some(user) = listener.filter(|user| *user != 0) {
        let what = format!(
            "user {user} listens at {}, and may tell the updater to reboot this host at any time",
            place.listen
        );
        let cure =
            "end that process, or choose another port here and in the updater's configuration";
        troubles.push(Trouble::grave(what, cure));
    }
    Row {
        name: "fleet_lock",
        there: format!(
            "at {} for id {}, group {}, user {}",
            place.listen,
            id.unwrap_or_default(),
            place.group,
            place.user
        ),
        troubles,
    }
}

/// A row per directory.
fn hooks(root: &Root) -> Vec<Row> {
    let of = |hook| survey(root, hook);
    let [gate, drain, reboot, boot, undo] = [
        Hook::Gate,
        Hook::PreDrain,
        Hook::PreReboot,
        Hook::PostBoot,
        Hook::Undo,
    ]
    .map(of);
    // What nobody needs is in nobody's way.
    let needed = [&drain, &reboot]
        .iter()
        .any(|one| !one.hooks.is_empty() || !one.bad.is_empty());
    let alone = !drain.hooks.is_empty() && undo.hooks.is_empty() && undo.bad.is_empty();
    let mut rows = vec![
        directory(Hook::Gate, &gate),
        directory(Hook::PreDrain, &drain),
        directory(Hook::PreReboot, &reboot),
        directory(Hook::PostBoot, &boot),
    ];
    if alone && let Some(row) = rows.get_mut(1) {
        row.there += "; no hook of undo.d takes back what is done here";
    }
    let mut last = directory(Hook::Undo, &undo);
    for trouble in &mut last.troubles {
        trouble.grave = needed;
    }
    rows.push(last);
    rows
}

fn directory(hook: Hook, survey: &Survey) -> Row {
    let names: Vec<&str> = survey.hooks.iter().map(|one| one.name.as_str()).collect();
    let there = match names.len() {
        0 => "no hooks".to_owned(),
        1 => format!("1 hook: {}", names.join(", ")),
        number => format!("{number} hooks: {}", names.join(", ")),
    };
    let bad = survey.bad.iter().map(unlisted);
    let idle = survey.idle.iter().map(|path| idle(path));
    Row {
        name: hook.directory(),
        there,
        troubles: bad.chain(idle).collect(),
    }
}

fn unlisted(why: &Unlisted) -> Trouble {
    match why {
        Unlisted::Untrusted(why) => Trouble::untrusted(why),
        Unlisted::Unread { path, .. } => {
            let cure = format!(
                "see what stands there, as root, and mend or remove it: ls -ld {}",
                path.display()
            );
            Trouble::grave(why.to_string(), cure)
        }
        Unlisted::TooMany(_) => {
            Trouble::grave(why.to_string(), "take away what is no hook of yours")
        }
        Unlisted::Slow => Trouble::grave(why.to_string(), "look for a mount that hangs: findmnt"),
        Unlisted::Idle(path) => idle(path),
    }
}

fn idle(path: &Path) -> Trouble {
    let path = path.display();
    Trouble {
        what: format!("nobody may execute {path}, so it is passed over"),
        cure: format!(
            "chmod +x {path}; to have it passed over: remove it, or put a link to /dev/null in its place"
        ),
        grave: false,
    }
}

fn commands(root: &Root, all: &[GateCommand]) -> Option<Row> {
    let names: Vec<&str> = all.iter().map(|one| one.name.as_str()).collect();
    let troubles = all.iter().filter_map(|one| {
        let why = ready(root, &one.command).err()?;
        let Trouble { what, cure, grave } = unready(&why);
        let what = format!("command {}: {what}", one.name);
        Some(Trouble { what, cure, grave })
    });
    (!all.is_empty()).then(|| Row {
        name: COMMANDS,
        there: names.join(", "),
        troubles: troubles.collect(),
    })
}

fn unready(why: &Unready) -> Trouble {
    let cure = match why {
        Unready::Untrusted(why) => return Trouble::untrusted(why),
        Unready::Mode(path) => format!("chmod +x {}", path.display()),
        Unready::Absent(_) | Unready::Nowhere(_) | Unready::NoFile(_) => {
            "install the program, or mend `command` in [[gates.command]]".to_owned()
        }
        Unready::Unseen { .. } => "run it as root".to_owned(),
    };
    Trouble::grave(why.to_string(), cure)
}

/// The files that it names.
fn files(root: &Root, source: &Source) -> Row {
    let name = &source.name;
    let troubles = Asker::new(root, source).unusable().into_iter().map(|why| {
        let cure = "root alone must own that file and be able to change it, and the directories on the way there: namei -l FILE, then chown root:root or chmod go-w";
        Trouble::grave(format!("{name}: {why}"), cure)
    });
    Row {
        name: PROMETHEUS,
        there: format!("{name}: its files can be read"),
        troubles: troubles.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::check::put;

    fn said(root: &Root, config: &str, name: &str) -> Vec<String> {
        let read = kube_rebootd_core::config::parse(Path::new("config.toml"), config);
        let rows = all(root, &read.expect("valid").config);
        let row = rows.into_iter().find(|row| row.name == name);
        let row = row.expect("the row");
        let troubles = row.troubles.into_iter();
        let troubles = troubles.map(|one| format!("{} {}; {}", one.grave, one.what, one.cure));
        [row.there].into_iter().chain(troubles).collect()
    }

    const HOOKS: &str = "/etc/kube-rebootd/hooks";

    #[test]
    fn each_hook_that_would_not_run_is_told_with_its_cure() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::at(dir.path());
        for name in [
            "gate.d",
            "pre-drain.d",
            "pre-reboot.d",
            "post-boot.d",
            "undo.d",
        ] {
            assert_eq!(said(&root, "", name), ["no hooks"]);
        }
        put(&root, &format!("{HOOKS}/undo.d/10-noout"), 0o644);
        // Nothing would have to be taken back.
        let idle = said(&root, "", "undo.d");
        assert!(idle[1].starts_with("false nobody may execute"), "{idle:?}");
        assert!(idle[1].contains(&format!("chmod +x {HOOKS}/undo.d/10-noout")));
        put(&root, &format!("{HOOKS}/pre-drain.d/10-noout"), 0o755);
        assert!(said(&root, "", "undo.d")[1].starts_with("true nobody may"));
        assert_eq!(
            said(&root, "", "pre-drain.d"),
            ["1 hook: 10-noout; no hook of undo.d takes back what is done here"]
        );
        put(&root, &format!("{HOOKS}/undo.d/10-noout"), 0o775);
        let loose = said(&root, "", "undo.d");
        assert_eq!(loose[0], "no hooks");
        assert!(loose[1].ends_with(&format!(
            "could change it; chmod go-w {HOOKS}/undo.d/10-noout"
        )));
        put(&root, &format!("{HOOKS}/undo.d/10-noout"), 0o755);
        assert_eq!(said(&root, "", "undo.d"), ["1 hook: 10-noout"]);
        assert_eq!(said(&root, "", "pre-drain.d"), ["1 hook: 10-noout"]);
        for name in ["a", "b", "c"] {
            put(&root, &format!("{HOOKS}/gate.d/{name}"), 0o757);
        }
        put(&root, &format!("{HOOKS}/gate.d/d"), 0o600);
        let gate = said(&root, "", "gate.d");
        let graves = gate.iter().filter(|one| one.starts_with("true "));
        assert_eq!((gate.len(), graves.count()), (5, 3), "{gate:?}");
    }

    #[test]
    fn each_command_of_the_gate_that_could_not_run_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::at(dir.path());
        put(&root, "/usr/bin/good", 0o755);
        put(&root, "/opt/text", 0o644);
        put(&root, "/opt/loose", 0o775);
        let config: String = [
            ("a", "good"),
            ("b", "/opt/none"),
            ("c", "/opt/text"),
            ("d", "/opt/loose"),
        ]
        .map(|(name, program)| {
            format!("[[gates.command]]\nname = \"{name}\"\ncommand = [\"{program}\"]\n")
        })
        .concat();
        let said = said(&root, &config, COMMANDS);
        assert_eq!(said[0], "a, b, c, d");
        assert!(said[1].starts_with("true command b: there is no /opt/none; install"));
        assert_eq!(
            said[2],
            "true command c: nobody may execute /opt/text; chmod +x /opt/text"
        );
        assert!(said[3].starts_with("true command d: /opt/loose belongs to"));
        assert!(said[3].ends_with("; chmod go-w /opt/loose"));
        assert_eq!(said.len(), 4);
    }

    #[test]
    fn each_file_of_a_prometheus_that_cannot_be_read_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::at(dir.path());
        put(&root, "/etc/token", 0o600);
        put(&root, "/etc/loose", 0o666);
        put(&root, "/etc/ca.pem", 0o644);
        for (more, words) in [
            ("", None),
            ("token_file = \"/etc/token\"", None),
            (
                "token_file = \"/etc/none\"",
                Some("p: the file of gates.prometheus.token_file cannot be read"),
            ),
            (
                "token_file = \"/etc/loose\"",
                Some("p: the file of gates.prometheus.token_file is not used"),
            ),
            (
                "username = \"u\"\npassword_file = \"/etc/none\"",
                Some("p: the file of gates.prometheus.password_file cannot"),
            ),
            (
                "ca = \"/etc/ca.pem\"",
                Some("p: the file of gates.prometheus.ca holds no certificate"),
            ),
        ] {
            let config = format!(
                "[[gates.prometheus]]\nname = \"p\"\nurl = \"https://prometheus.example\"\n{more}\n"
            );
            let said = said(&root, &config, PROMETHEUS);
            match words {
                None => assert_eq!(said.len(), 1, "{said:?}"),
                Some(words) => assert!(said[1].contains(words), "{said:?}"),
            }
        }
    }
}
