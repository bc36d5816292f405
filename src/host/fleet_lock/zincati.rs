//! Whether Zincati is set to ask over `FleetLock` before it reboots (I1). Where it is not, it reboots the host by itself.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use kube_rebootd_core::rivals::strategy_of_zincati;

use crate::bounded;
use crate::root::Root;

/// Where its configuration is; what comes later wins, file by file (Zincati's `docs/usage/configuration.md`).
const PLACES: [&str; 3] = [
    "/usr/lib/zincati/config.d",
    "/etc/zincati/config.d",
    "/run/zincati/config.d",
];
/// Bytes of such a file that are read, and files of one place that are looked at.
const MAX: u64 = 64 * 1024;
const FILES: usize = 100;

/// By its files; whether it was started since they were written is not known. What cannot be read, or is not understood, may
/// say anything (I8).
pub fn asks(root: &Root) -> bool {
    // A file hides those of the same name in earlier places, and the last name wins.
    let mut files = BTreeMap::new();
    for place in PLACES {
        let Ok(found) = named(&root.path(place)) else {
            return false;
        };
        files.extend(found);
    }
    for path in files.values().rev() {
        // So is a file of an earlier place taken away.
        if fs::read_link(path).is_ok_and(|to| to == Path::new("/dev/null")) {
            continue;
        }
        let Ok(text) = bounded::text(path, MAX) else {
            return false;
        };
        match strategy_of_zincati(&text) {
            Ok(None) => {}
            Ok(Some(strategy)) => return strategy == "fleet_lock",
            Err(_) => return false,
        }
    }
    false
}

/// The files of one place that Zincati reads, by name: no hidden ones, and none where there is no such directory. More than are
/// looked at are an error: the last names count most.
fn named(place: &Path) -> io::Result<Vec<(OsString, PathBuf)>> {
    let entries = match fs::read_dir(place) {
        Err(err) if err.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let (name, path) = entry.map(|entry| (entry.file_name(), entry.path()))?;
        let hidden = name.as_encoded_bytes().starts_with(b".");
        if !hidden && path.extension().is_some_and(|it| it == "toml") {
            found.push((name, path));
        }
        if found.len() > FILES {
            return Err(ErrorKind::FileTooLarge.into());
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn i1_only_where_its_last_file_says_so_it_asks() {
        let dir = tempfile::tempdir().expect("a directory");
        let root = Root::at(dir.path());
        let write = |path: &str, text: &str| {
            let path = root.path(path);
            fs::create_dir_all(path.parent().expect("a parent")).expect("made");
            fs::write(path, text).expect("written");
        };
        assert!(!asks(&root));
        write(
            "/usr/lib/zincati/config.d/30-updates-strategy.toml",
            "[updates]\nstrategy = \"immediate\"\n",
        );
        assert!(!asks(&root));
        write(
            "/etc/zincati/config.d/55-kube-rebootd.toml",
            "[updates]\n# strategy = \"periodic\"\nstrategy = \"fleet_lock\" # ours\n\n[updates.fleet_lock]\nbase_url = \"http://127.0.0.1:3333/\"\n",
        );
        assert!(asks(&root));
        write(
            "/etc/zincati/config.d/90-own.conf",
            "[updates]\nstrategy = \"periodic\"\n",
        );
        assert!(asks(&root), "it reads no other files");
        write(
            "/run/zincati/config.d/90-own.toml",
            "[updates]\nstrategy = 'periodic'\n",
        );
        assert!(!asks(&root));
        // A later place hides the file of an earlier one, also where it says nothing.
        write("/run/zincati/config.d/90-own.toml", "");
        assert!(asks(&root));
        write("/run/zincati/config.d/55-kube-rebootd.toml", "");
        assert!(!asks(&root), "the first file says \"immediate\"");
    }

    /// Found by reading: lines were looked at, a place that could not be read was an empty one, and of many files the last
    /// were left out, which win.
    #[test]
    fn i1_i8_it_asks_only_where_all_of_its_files_are_understood() {
        let ours = "[updates]\nstrategy = \"fleet_lock\"\n";
        for (what, later, is) in [
            ("nothing", "", true),
            ("another table", "[identity]\ngroup = 'a'\n", true),
            (
                "an inline table",
                "updates = { strategy = \"immediate\" }\n",
                false,
            ),
            (
                "a quoted key",
                "[updates]\n\"strategy\" = \"immediate\"\n",
                false,
            ),
            ("a dotted key", "updates.strategy = 'periodic'\n", false),
            (
                "ours in another form",
                "updates = { strategy = 'fleet_lock' }\n",
                true,
            ),
            ("no TOML", "[updates\nstrategy = 'fleet_lock'\n", false),
            ("no string", "[updates]\nstrategy = true\n", false),
        ] {
            let dir = tempfile::tempdir().expect("a directory");
            let root = Root::at(dir.path());
            let place = root.path("/etc/zincati/config.d");
            fs::create_dir_all(&place).expect("made");
            fs::write(place.join("55-ours.toml"), ours).expect("written");
            fs::write(place.join("60-later.toml"), later).expect("written");
            assert_eq!(asks(&root), is, "{what}");
        }
        let dir = tempfile::tempdir().expect("a directory");
        let root = Root::at(dir.path());
        let place = root.path("/etc/zincati/config.d");
        fs::create_dir_all(&place).expect("made");
        fs::write(place.join("055.toml"), ours).expect("written");
        for number in 100..=198 {
            fs::write(place.join(format!("{number}.toml")), "").expect("written");
        }
        assert!(asks(&root), "a hundred files");
        // It reads none that is hidden.
        fs::write(place.join(".999.toml"), "updates.strategy = 'immediate'\n").expect("written");
        assert!(asks(&root), "a hidden one");
        fs::write(place.join("199.toml"), "updates.strategy = 'immediate'\n").expect("written");
        assert!(!asks(&root), "the last of many");
        fs::write(place.join("199.toml"), "").expect("written");
        assert!(!asks(&root), "more than are looked at");
        fs::remove_file(place.join("199.toml")).expect("removed");
        fs::remove_file(place.join("198.toml")).expect("removed");
        symlink("/dev/null", place.join("198.toml")).expect("linked");
        assert!(asks(&root), "one that is masked says nothing");
        // What is no directory cannot be listed, also by root.
        let run = root.path("/run/zincati");
        fs::create_dir_all(&run).expect("made");
        fs::write(run.join("config.d"), "").expect("written");
        assert!(!asks(&root), "a place that cannot be read");
    }

    #[test]
    fn i8_a_file_that_cannot_be_read_may_say_anything() {
        let dir = tempfile::tempdir().expect("a directory");
        let root = Root::at(dir.path());
        let place = root.path("/etc/zincati/config.d");
        fs::create_dir_all(&place).expect("made");
        fs::write(
            place.join("50-ours.toml"),
            "updates.strategy = 'fleet_lock'\n",
        )
        .expect("written");
        assert!(asks(&root));
        fs::create_dir(place.join("90-odd.toml")).expect("made");
        assert!(!asks(&root));
    }
}
