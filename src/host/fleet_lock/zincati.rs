//! Whether Zincati is set to ask over `FleetLock` before it reboots (I1). Where it is not, it reboots the host by itself.

use std::collections::BTreeMap;
use std::fs;

use crate::bounded;
use crate::root::Root;

/// Where its configuration is; what comes later wins, file by file (Zincati's `docs/usage/configuration.md`).
const PLACES: [&str; 3] = [
    "/usr/lib/zincati/config.d",
    "/etc/zincati/config.d",
    "/run/zincati/config.d",
];
/// Bytes of such a file that are read, and files that are looked at.
const MAX: u64 = 64 * 1024;
const FILES: usize = 100;

/// By its files; whether it was started since they were written is not known. One that cannot be read may say anything (I8).
pub fn asks(root: &Root) -> bool {
    // A file hides those of the same name in earlier places, and the last name wins.
    let mut files = BTreeMap::new();
    for place in PLACES {
        let entries = fs::read_dir(root.path(place)).into_iter().flatten();
        let paths = entries.flatten().map(|entry| entry.path());
        let mut paths: Vec<_> = paths
            .filter(|path| path.extension().is_some_and(|it| it == "toml"))
            .collect();
        paths.sort();
        for path in paths.into_iter().take(FILES) {
            let name = path.file_name().unwrap_or_default().to_owned();
            files.insert(name, path);
        }
    }
    for path in files.values().rev() {
        let Ok(text) = bounded::text(path, MAX) else {
            return false;
        };
        if let Some(strategy) = text.lines().rev().find_map(strategy) {
            return strategy == "fleet_lock";
        }
    }
    false
}

/// The value of `strategy = "..."`, or of `updates.strategy`.
fn strategy(line: &str) -> Option<String> {
    let (key, value) = line.split_once('=')?;
    let known = ["strategy", "updates.strategy"].contains(&key.trim());
    let value = value.split('#').next()?.trim();
    let value = value.strip_prefix(['"', '\''])?.strip_suffix(['"', '\''])?;
    known.then(|| value.to_owned())
}

#[cfg(test)]
mod tests {
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
            "strategy = \"periodic\"\n",
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

    #[test]
    fn i8_a_file_that_cannot_be_read_may_say_anything() {
        let dir = tempfile::tempdir().expect("a directory");
        let root = Root::at(dir.path());
        let place = root.path("/etc/zincati/config.d");
        fs::create_dir_all(&place).expect("made");
        fs::write(place.join("50-ours.toml"), "strategy = 'fleet_lock'\n").expect("written");
        assert!(asks(&root));
        fs::create_dir(place.join("90-odd.toml")).expect("made");
        assert!(!asks(&root));
    }
}
