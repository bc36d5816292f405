//! Whether Zincati is set to ask over `FleetLock` before it reboots (I1). Where it is not, it reboots the host by itself.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use kube_rebootd_core::config::Listen;
use kube_rebootd_core::rivals::OfZincati;

use super::client::uid;
use crate::bounded;
use crate::root::Root;

/// Where its configuration is; what comes later wins, file by file (`Settings::assemble` in Zincati's `src/config/mod.rs`).
const PLACES: [&str; 3] = [
    "/usr/lib/zincati/config.d",
    "/run/zincati/config.d",
    "/etc/zincati/config.d",
];
/// The user that it runs as; as another one it does not run.
const USER: &str = "zincati";
/// Bytes of such a file that are read, and files of one place that are looked at.
const MAX: u64 = 64 * 1024;
const FILES: usize = 100;
/// Bits of a mode: for all others, and what moves them to those of the owner.
const SEARCH: u32 = 0o1;
const LIST: u32 = 0o5;
const OWNER: u32 = 6;

/// Whether it asks there, by its files; whether it was started since they were written is not known. What cannot be read, or is not
/// understood, may say anything (I8).
pub fn asks(root: &Root, listen: &Listen) -> bool {
    said(root).is_some_and(|said| said.asks(listen))
}

/// What its files say together; none: not all of them are understood.
fn said(root: &Root) -> Option<OfZincati> {
    let user = uid(root, USER);
    // A file hides those of the same name in earlier places, and the last name wins.
    let mut files = BTreeMap::new();
    for place in PLACES {
        lay_over(&mut files, root, place, user).ok()?;
    }
    let mut said = OfZincati::default();
    for path in files.values() {
        let text = bounded::text(path, MAX).ok()?;
        said = said.then(OfZincati::read(&text).ok()?);
    }
    Some(said)
}

/// The files of one place that Zincati reads, over those of earlier places: none that is hidden, and none where there is no such
/// directory. It passes over links as over all that is no file; only a link to /dev/null takes a name away. More files than are
/// looked at are an error: the last names count most.
fn lay_over(
    files: &mut BTreeMap<OsString, PathBuf>,
    root: &Root,
    place: &str,
    user: Option<u32>,
) -> io::Result<()> {
    let entries = match fs::read_dir(root.path(place)) {
        Err(err) if err.kind() == ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    reaches(root, Path::new(place), user)?;
    let mut seen = 0;
    for entry in entries {
        let entry = entry?;
        let (name, path) = (entry.file_name(), entry.path());
        let hidden = name.as_encoded_bytes().starts_with(b".");
        if hidden || path.extension().is_none_or(|it| it != "toml") {
            continue;
        }
        seen += 1;
        if seen > FILES {
            return Err(ErrorKind::FileTooLarge.into());
        }
        let kind = entry.file_type()?;
        if kind.is_file() {
            files.insert(name, path);
        } else if kind.is_symlink() && fs::read_link(&path)? == Path::new("/dev/null") {
            files.remove(&name);
        }
    }
    Ok(())
}

/// Whether its user may list the directory: where it may not, it says nothing and goes on without these files.
fn reaches(root: &Root, place: &Path, user: Option<u32>) -> io::Result<()> {
    // Everybody reaches `/`.
    let dirs = place.ancestors().filter(|dir| dir.parent().is_some());
    for (depth, dir) in dirs.enumerate() {
        let seen = fs::metadata(root.path(dir))?;
        let wanted = if depth == 0 { LIST } else { SEARCH };
        let owns = user.is_some_and(|user| user == seen.uid());
        let wanted = if owns { wanted << OWNER } else { wanted };
        if seen.mode() & wanted != wanted {
            return Err(ErrorKind::PermissionDenied.into());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use tempfile::TempDir;

    use super::*;

    /// A tree in which Zincati's user owns what is made, whatever the umask.
    fn tree() -> (TempDir, Root) {
        let dir = tempfile::tempdir().expect("a directory");
        let root = Root::at(dir.path());
        let own = fs::metadata(dir.path()).expect("looked at").uid();
        let user = format!("zincati:x:{own}:1::/:/sbin/nologin\n");
        fs::create_dir_all(root.path("/etc")).expect("made");
        fs::write(root.path("/etc/passwd"), user).expect("written");
        (dir, root)
    }

    /// The strategy that they say; where it leads is `OfZincati`'s.
    fn asks(root: &Root) -> bool {
        said(root).is_some_and(|said| said.strategy.as_deref() == Some("fleet_lock"))
    }

    #[test]
    fn i1_only_where_its_last_file_says_so_it_asks() {
        let (_dir, root) = tree();
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
        write("/etc/zincati/config.d/90-own.toml", "");
        assert!(asks(&root));
        write("/run/zincati/config.d/55-kube-rebootd.toml", "");
        assert!(asks(&root), "the administrator's is the last place");
        write("/etc/zincati/config.d/55-kube-rebootd.toml", "");
        assert!(!asks(&root), "the first file says \"immediate\"");
    }

    /// Found beside the real one (`e2e::zincati::files`): links were followed, and this boot's files came last.
    #[test]
    fn i1_files_that_zincati_passes_over_say_nothing() {
        let says = |strategy: &str| format!("updates.strategy = '{strategy}'\n");
        let (dir, root) = tree();
        let [lib, run, etc] = PLACES.map(|place| root.path(place));
        for place in [&lib, &run, &etc] {
            fs::create_dir_all(place).expect("made");
        }
        fs::write(run.join("50.toml"), says("fleet_lock")).expect("written");
        fs::write(etc.join("50.toml"), says("immediate")).expect("written");
        assert!(!asks(&root), "the administrator's hides this boot's");
        fs::remove_file(etc.join("50.toml")).expect("removed");
        assert!(asks(&root));
        let own = dir.path().join("own");
        fs::write(&own, says("immediate")).expect("written");
        symlink(&own, etc.join("50.toml")).expect("linked");
        assert!(asks(&root), "a link hides nothing");
        fs::remove_file(run.join("50.toml")).expect("removed");
        fs::write(&own, says("fleet_lock")).expect("written");
        assert!(!asks(&root), "a link is passed over");
        fs::write(lib.join("60.toml"), says("fleet_lock")).expect("written");
        assert!(asks(&root));
        symlink("/dev/null", run.join("60.toml")).expect("linked");
        assert!(!asks(&root), "a mask takes it away");
        fs::write(etc.join("60.toml"), says("fleet_lock")).expect("written");
        assert!(asks(&root), "but for later places");
    }

    /// Of many the last were left out once, which win; and a place that could not be read was an empty one.
    #[test]
    fn i1_i8_it_asks_only_where_all_of_its_files_were_looked_at() {
        let (_dir, root) = tree();
        let place = root.path("/etc/zincati/config.d");
        fs::create_dir_all(&place).expect("made");
        let write = |name: &str, text: &str| fs::write(place.join(name), text).expect("written");
        write("055.toml", "updates.strategy = 'fleet_lock'\n");
        for number in 100..=198 {
            write(&format!("{number}.toml"), "");
        }
        assert!(asks(&root), "a hundred files");
        write(".999.toml", "updates.strategy = 'immediate'\n");
        assert!(asks(&root), "it reads none that is hidden");
        write("199.toml", "");
        assert!(!asks(&root), "more than are looked at");
        fs::remove_file(place.join("199.toml")).expect("removed");
        write("198.toml", "updates.strategy = 'immediate'\n");
        assert!(!asks(&root), "the last of many");
        fs::remove_file(place.join("198.toml")).expect("removed");
        assert!(asks(&root));
        // What is no directory cannot be listed, also by root.
        fs::create_dir_all(root.path("/run/zincati")).expect("made");
        fs::write(root.path("/run/zincati/config.d"), "").expect("written");
        assert!(!asks(&root), "a place that cannot be read");
    }

    /// Zincati is not root: what it may not list it goes on without.
    #[test]
    fn i1_a_place_that_zincati_may_not_list_may_as_well_not_be_there() {
        use std::os::unix::fs::PermissionsExt;

        let (_dir, root) = tree();
        let passwd = root.path("/etc/passwd");
        let user = fs::read_to_string(&passwd).expect("read");
        let place = root.path("/etc/zincati/config.d");
        fs::create_dir_all(&place).expect("made");
        let mode = |path: &Path, bits: u32| {
            fs::set_permissions(path, fs::Permissions::from_mode(bits)).expect("changed");
        };
        for dir in ["/etc", "/etc/zincati", "/etc/zincati/config.d"] {
            mode(&root.path(dir), 0o755);
        }
        fs::write(place.join("50.toml"), "updates.strategy = 'fleet_lock'\n").expect("written");
        for (dir, bits) in [
            ("/etc/zincati/config.d", 0o700),
            ("/etc/zincati/config.d", 0o754),
            ("/etc/zincati", 0o750),
        ] {
            mode(&root.path(dir), bits);
            assert!(asks(&root), "its own: {bits:o} of {dir}");
            fs::remove_file(&passwd).expect("removed");
            assert!(!asks(&root), "{bits:o} of {dir}");
            mode(&root.path(dir), 0o755);
            assert!(asks(&root), "everybody's");
            fs::write(&passwd, &user).expect("written");
        }
    }

    #[test]
    fn i8_a_file_that_cannot_be_read_may_say_anything() {
        let (_dir, root) = tree();
        let place = root.path("/etc/zincati/config.d");
        fs::create_dir_all(&place).expect("made");
        fs::write(
            place.join("50-ours.toml"),
            "updates.strategy = 'fleet_lock'\n",
        )
        .expect("written");
        assert!(asks(&root));
        fs::create_dir(place.join("90-odd.toml")).expect("made");
        assert!(asks(&root), "it reads no directory");
        fs::write(place.join("95-odd.toml"), [0xff]).expect("written");
        assert!(!asks(&root));
    }
}
