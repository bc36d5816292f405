//! The built-in check `libraries`: processes of the host that run code from replaced files.
//!
//! Any of them is a reason: a reboot cures all. The words say which units, and whether restarting them
//! would do as well; `settle` gives tools that do so the time (I8: what could not be read is counted).

use std::collections::BTreeSet;

use super::{Answer, cgroup, some};

/// So many files are named to people, and so many units.
const NAMED: usize = 3;
const UNITS: usize = 5;
/// So many stand in the request, which goes into an annotation: after an upgrade of the distribution it
/// could be all.
const PKGS: usize = 100;

/// What cannot be restarted on a running host without losing what depends on it.
const FIXED: [&str; 3] = [
    "dbus.service",
    "dbus-broker.service",
    "systemd-logind.service",
];
/// Processes that outlive the restart of their unit, because they hold its containers.
const KEEPERS: [&str; 2] = ["containerd-shim", "conmon"];

/// A process of the host's own root that runs replaced code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// As /proc/PID/comm says, at most 15 characters.
    pub name: String,
    /// Its systemd unit.
    pub unit: Option<String>,
    /// Never empty.
    pub replaced: BTreeSet<String>,
}

/// What was seen of the host's processes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Processes {
    /// Those with replaced code.
    pub found: Vec<Process>,
    /// How many were read.
    pub read: usize,
    /// How many could not be.
    pub unreadable: usize,
}

/// What they come to.
pub fn judge(processes: &Processes) -> Answer {
    let unreadable = processes.unreadable;
    if processes.found.is_empty() {
        if unreadable > 0 && unreadable >= processes.read {
            return Answer::unknown(format!(
                "{unreadable} of {} processes could not be read; it wants root",
                unreadable + processes.read
            ));
        }
        let words = format!(
            "no process of the host runs replaced code ({} read{})",
            processes.read,
            left_out(unreadable)
        );
        return Answer::No { words };
    }
    let files: BTreeSet<&str> = (processes.found.iter())
        .flat_map(|process| process.replaced.iter().map(|file| base(file)))
        .collect();
    let words = format!(
        "{} replaced under {}{}",
        some(files.iter().copied(), NAMED),
        cure(&processes.found),
        left_out(unreadable)
    );
    let pkgs = files.iter().take(PKGS).map(|file| (*file).to_owned());
    Answer::Reboot {
        pkgs: pkgs.collect(),
        words,
    }
}

/// The owners, and what would do instead of a reboot.
fn cure(found: &[Process]) -> String {
    let (mut again, mut fixed) = (BTreeSet::new(), BTreeSet::new());
    for one in found {
        let (name, restartable) = owner(one);
        let group = if restartable { &mut again } else { &mut fixed };
        group.insert(name);
    }
    let names = |owners: &BTreeSet<String>| some(owners.iter().map(String::as_str), UNITS);
    let command = |owners: &BTreeSet<String>| {
        let first: Vec<&str> = owners.iter().take(UNITS).map(String::as_str).collect();
        let more = if owners.len() > UNITS { " ..." } else { "" };
        format!("`systemctl restart {}{more}`", first.join(" "))
    };
    match (again.is_empty(), fixed.is_empty()) {
        (false, true) => format!("{}; {} would do", names(&again), command(&again)),
        (true, _) => format!("{}; only a reboot helps", names(&fixed)),
        (false, false) => format!(
            "{}; only a reboot helps, and {} for {}",
            names(&fixed),
            command(&again),
            if again.len() == 1 {
                "the other"
            } else {
                "the others"
            },
        ),
    }
}

/// Whom to name, and whether `systemctl restart` of that unit ends the process.
fn owner(process: &Process) -> (String, bool) {
    let keeper = KEEPERS.iter().any(|name| process.name.starts_with(name));
    match &process.unit {
        Some(unit) if keeper => (format!("{} of {unit}", process.name), false),
        Some(unit) => {
            let restartable = cgroup::kind(unit) == "service"
                // A user's manager: its restart ends the sessions.
                && !unit.starts_with("user@")
                && !FIXED.contains(&unit.as_str());
            (unit.clone(), restartable)
        }
        None => (process.name.clone(), false),
    }
}

fn left_out(unreadable: usize) -> String {
    match unreadable {
        0 => String::new(),
        1 => ", 1 process could not be read".to_owned(),
        many => format!(", {many} processes could not be read"),
    }
}

fn base(file: &str) -> &str {
    file.rsplit('/').next().unwrap_or(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(name: &str, unit: &str, files: &[&str]) -> Process {
        Process {
            name: name.to_owned(),
            unit: (!unit.is_empty()).then(|| unit.to_owned()),
            replaced: files.iter().map(|file| (*file).to_owned()).collect(),
        }
    }

    fn words(found: Vec<Process>) -> String {
        let read = found.len();
        match judge(&Processes {
            found,
            read,
            unreadable: 0,
        }) {
            Answer::Reboot { words, .. } => words,
            other => panic!("{other:?}"),
        }
    }

    const SSL: &str = "/usr/lib/x86_64-linux-gnu/libssl.so.3";
    const LIBC: &str = "/usr/lib/x86_64-linux-gnu/libc.so.6";

    #[test]
    fn units_that_can_be_restarted_are_named_with_the_command() {
        assert_eq!(
            words(vec![
                process("sshd", "ssh.service", &[SSL]),
                process("cron", "cron.service", &[LIBC]),
                process("sshd", "ssh.service", &[SSL, LIBC]),
            ]),
            "libc.so.6 and libssl.so.3 replaced under cron.service and ssh.service; \
             `systemctl restart cron.service ssh.service` would do"
        );
    }

    #[test]
    fn what_cannot_be_restarted_wants_the_reboot() {
        for (name, unit, owner) in [
            ("systemd", "init.scope", "init.scope"),
            ("dbus-daemon", "dbus.service", "dbus.service"),
            ("dbus-broker", "dbus-broker.service", "dbus-broker.service"),
            (
                "systemd-logind",
                "systemd-logind.service",
                "systemd-logind.service",
            ),
            ("bash", "session-1.scope", "session-1.scope"),
            ("systemd", "user@0.service", "user@0.service"),
            ("odd", "", "odd"),
            (
                "containerd-shim",
                "containerd.service",
                "containerd-shim of containerd.service",
            ),
        ] {
            assert_eq!(
                words(vec![process(name, unit, &[LIBC])]),
                format!("libc.so.6 replaced under {owner}; only a reboot helps")
            );
        }
        assert_eq!(
            words(vec![
                process("systemd", "init.scope", &[LIBC]),
                process("cron", "cron.service", &[LIBC]),
            ]),
            "libc.so.6 replaced under init.scope; only a reboot helps, and \
             `systemctl restart cron.service` for the other"
        );
    }

    #[test]
    fn i10_pkgs_are_the_files_whoever_runs_them() {
        let pkgs = |found: Vec<Process>| match judge(&Processes {
            found,
            read: 9,
            unreadable: 0,
        }) {
            Answer::Reboot { pkgs, .. } => pkgs,
            other => panic!("{other:?}"),
        };
        let one = pkgs(vec![process("a", "a.service", &[SSL, LIBC])]);
        let other = pkgs(vec![
            process("b", "b.service", &[LIBC]),
            process("c", "", &[SSL]),
        ]);
        assert_eq!(one, other);
        assert_eq!(
            one.into_iter().collect::<Vec<_>>(),
            ["libc.so.6", "libssl.so.3"]
        );
        let many: Vec<String> = (0..1000).map(|n| format!("/usr/lib/{n}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert_eq!(pkgs(vec![process("a", "", &many)]).len(), PKGS);
    }

    #[test]
    fn many_are_counted() {
        let found = (0..9).map(|n| process("x", &format!("x{n}.service"), &[LIBC]));
        assert_eq!(
            words(found.collect()),
            "libc.so.6 replaced under x0.service, x1.service, x2.service, x3.service, x4.service and \
             4 more; `systemctl restart x0.service x1.service x2.service x3.service x4.service ...` would do"
        );
    }

    #[test]
    fn i8_processes_that_cannot_be_read_are_counted() {
        let answer = |read, unreadable| {
            judge(&Processes {
                found: Vec::new(),
                read,
                unreadable,
            })
        };
        assert_eq!(
            answer(9, 0),
            Answer::No {
                words: "no process of the host runs replaced code (9 read)".to_owned()
            }
        );
        assert_eq!(
            answer(9, 1),
            Answer::No {
                words:
                    "no process of the host runs replaced code (9 read, 1 process could not be read)"
                        .to_owned()
            }
        );
        // Nobody but root sees enough to say no.
        assert!(matches!(
            answer(2, 100),
            Answer::Unknown { busy: false, .. }
        ));
        assert!(matches!(answer(1, 1), Answer::Unknown { busy: false, .. }));
    }
}
