//! Whether Zincati is set to ask over `FleetLock` before it reboots (I1). Where it is not, it reboots the host by itself.

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

/// By its files; whether it was started since they were written is not known.
pub fn asks(root: &Root) -> bool {
    let mut strategies = Vec::new();
    for place in PLACES {
        let entries = fs::read_dir(root.path(place)).into_iter().flatten();
        let paths = entries.flatten().map(|entry| entry.path());
        let mut paths: Vec<_> = paths
            .filter(|path| path.extension().is_some_and(|it| it == "toml"))
            .collect();
        paths.sort();
        for path in paths.iter().take(FILES) {
            let text = bounded::text(path, MAX).unwrap_or_default();
            let name = path.file_name().unwrap_or_default().to_owned();
            strategies.extend(
                text.lines()
                    .filter_map(strategy)
                    .map(|one| (name.clone(), one)),
            );
        }
    }
    // Files of one name replace each other, and the last name wins.
    strategies.sort_by(|one, other| one.0.cmp(&other.0));
    strategies
        .last()
        .is_some_and(|(_, strategy)| strategy == "fleet_lock")
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
    }
}
