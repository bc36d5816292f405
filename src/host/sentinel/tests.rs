use std::fs;
use std::os::unix::fs::symlink;

use proptest::prelude::*;

use kube_rebootd_core::kind::Kind;
use kube_rebootd_core::text::{MESSAGE, block};
use tokio::time::timeout;

use super::*;
use crate::bounded::odd;

const PATH: &str = "/run/reboot-required";

/// Far above what an event needs, so that only a missing one ends it.
const PATIENCE: Duration = Duration::from_secs(20);

fn host() -> (tempfile::TempDir, Root) {
    let dir = tempfile::tempdir().unwrap();
    let root = Root::at(dir.path());
    fs::create_dir(root.path("/run")).unwrap();
    (dir, root)
}

fn watch(root: &Root, path: &str) -> Watch {
    Watch::new(root, &[path.to_owned()])
}

/// Waits for events until the sentinel is there, or gone.
async fn until(watch: &mut Watch, root: &Root, path: &str, present: bool) {
    timeout(PATIENCE, async {
        while read(root, path).unwrap().is_some() != present {
            watch.changed().await;
        }
    })
    .await
    .unwrap_or_else(|_| panic!("no event for {path} becoming present={present}"));
}

#[test]
fn content_and_packages_are_read() {
    let (_dir, root) = host();
    assert_eq!(read(&root, PATH).unwrap(), None);
    fs::write(root.path(PATH), "*** System restart required ***\n").unwrap();
    let bare = read(&root, PATH).unwrap().unwrap();
    assert!(bare.pkgs.is_empty());
    assert_eq!(bare.content, "*** System restart required ***");
    assert_eq!((bare.kind(), bare.asks_for()), (None, None));
    fs::write(
        root.path("/run/reboot-required.pkgs"),
        "libc6\nlinux\x1b\n\nlibc6\n",
    )
    .unwrap();
    let full = read(&root, PATH).unwrap().unwrap();
    assert_eq!(
        full.pkgs,
        BTreeSet::from(["libc6".to_owned(), "linux".to_owned()])
    );
    assert_eq!(full.identity, bare.identity);
    fs::write(root.path(PATH), "soft-reboot\n").unwrap();
    let other = read(&root, PATH).unwrap().unwrap();
    assert_eq!(other.kind(), Some(Kind::SoftReboot));
    assert_eq!(other.asks_for(), Some("asks for a soft-reboot"));
    assert_ne!(other.identity, bare.identity);
    assert_ne!(other.identity.mark(), bare.identity.mark());
    // As a label that is set anew, or `chmod`.
    let same = Identity {
        ctime: (1, 1),
        ..other.identity.clone()
    };
    assert_eq!(same.mark(), other.identity.mark());
    for (content, kind) in [
        ("reboot\n", Some(Kind::Reboot)),
        // It would skip the firmware; a full one does it as well.
        ("kexec\n", Some(Kind::Reboot)),
        ("Soft-Reboot\n", None),
        ("soft-reboot\nreboot\n", None),
        ("", None),
    ] {
        fs::write(root.path(PATH), content).unwrap();
        assert_eq!(
            read(&root, PATH).unwrap().unwrap().kind(),
            kind,
            "{content:?}"
        );
    }
}

#[test]
fn i8_what_cannot_be_read_is_an_error() {
    let (_dir, root) = host();
    // Root reads every mode, so the cases are ones that no privilege passes.
    fs::create_dir(root.path(PATH)).unwrap();
    assert!(matches!(read(&root, PATH), Err(SentinelError::Kind { .. })));
    fs::write(root.path("/run/file"), "").unwrap();
    assert!(matches!(
        read(&root, "/run/file/x"),
        Err(SentinelError::Read { .. })
    ));
    symlink("/run/loop", root.path("/run/loop")).unwrap();
    assert!(matches!(
        read(&root, "/run/loop"),
        Err(SentinelError::Read { .. })
    ));
    nix::unistd::mkfifo(&root.path("/run/fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    assert!(matches!(
        read(&root, "/run/fifo"),
        Err(SentinelError::Kind { .. })
    ));
    fs::write(root.path("/run/ok"), "").unwrap();
    fs::create_dir(root.path("/run/ok.pkgs")).unwrap();
    assert!(matches!(
        read(&root, "/run/ok"),
        Err(SentinelError::Kind { path }) if path == "/run/ok.pkgs"
    ));
    // An empty FIFO reads as an empty file: no packages, which would be another reason (I10).
    fs::remove_dir(root.path("/run/ok.pkgs")).unwrap();
    nix::unistd::mkfifo(&root.path("/run/ok.pkgs"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    assert!(matches!(
        read(&root, "/run/ok"),
        Err(SentinelError::Kind { .. })
    ));
}

#[test]
fn reads_are_bounded_and_cut_at_a_line() {
    let (_dir, root) = host();
    fs::write(root.path(PATH), vec![b'x'; 1024 * 1024]).unwrap();
    let lines: Vec<String> = (0..20_000).map(|n| format!("package-{n:05}")).collect();
    fs::write(root.path("/run/reboot-required.pkgs"), lines.join("\n")).unwrap();
    let found = read(&root, PATH).unwrap().unwrap();
    assert_eq!(found.content.chars().count(), MESSAGE);
    assert!(
        found
            .pkgs
            .iter()
            .all(|name| name.len() == "package-00000".len())
    );
    assert_eq!(found.pkgs.len() as u64, MAX_BYTES / 14);
}

#[test]
fn links_stay_below_the_root() {
    let (dir, root) = host();
    fs::create_dir(root.path("/var")).unwrap();
    symlink("/run", root.path("/var/run")).unwrap();
    symlink("../../../../run", root.path("/var/up")).unwrap();
    let real = dir.path().join("run/x");
    for path in ["/var/run/x", "/var/up/x"] {
        assert_eq!(root.resolve(Path::new(path)).unwrap(), real);
        assert_eq!(read(&root, path).unwrap(), None);
    }
    fs::write(real, "").unwrap();
    assert!(read(&root, "/var/up/x").unwrap().is_some());
}

#[tokio::test]
async fn look_reads_each_on_its_own() {
    let (_dir, root) = host();
    fs::write(root.path(PATH), "").unwrap();
    fs::create_dir(root.path("/run/bad")).unwrap();
    let paths = [PATH, "/run/bad", "/run/none"].map(str::to_owned);
    let mut reader = Reader::default();
    for _ in 0..2 {
        let found = reader.look(&root, &paths).await.unwrap();
        assert!(matches!(
            found[..],
            [Ok(Some(_)), Err(SentinelError::Kind { .. }), Ok(None)]
        ));
    }
}

#[tokio::test]
async fn a_reading_that_was_given_up_is_not_answered_later() {
    let (_dir, root) = host();
    let (release, held) = std::sync::mpsc::channel::<()>();
    let mut reader = Reader::default();
    reader.beside.running = Some(tokio::task::spawn_blocking(move || {
        held.recv().unwrap();
        Vec::new()
    }));
    fs::write(root.path(PATH), "").unwrap();
    let paths = [PATH.to_owned()];
    let given_up = timeout(Duration::ZERO, reader.look(&root, &paths)).await;
    assert!(given_up.is_err());
    release.send(()).unwrap();
    let found = reader.look(&root, &paths).await.unwrap();
    assert!(matches!(found[..], [Ok(Some(_))]), "{found:?}");
}

#[tokio::test]
async fn a_hundred_flips_are_seen() {
    let (_dir, root) = host();
    let mut watch = watch(&root, PATH);
    for _ in 0..100 {
        fs::write(root.path(PATH), "").unwrap();
        until(&mut watch, &root, PATH, true).await;
        fs::remove_file(root.path(PATH)).unwrap();
        until(&mut watch, &root, PATH, false).await;
    }
}

#[tokio::test]
async fn directory_made_later_and_lost_again() {
    let (_dir, root) = host();
    let path = "/run/a/b/reboot-required";
    let mut watch = watch(&root, path);
    for _ in 0..3 {
        fs::create_dir_all(root.path("/run/a/b")).unwrap();
        fs::write(root.path(path), "").unwrap();
        until(&mut watch, &root, path, true).await;
        fs::remove_dir_all(root.path("/run/a")).unwrap();
        until(&mut watch, &root, path, false).await;
    }
}

#[tokio::test]
async fn directory_behind_a_link() {
    let (_dir, root) = host();
    fs::create_dir(root.path("/var")).unwrap();
    symlink("/run", root.path("/var/run")).unwrap();
    let path = "/var/run/reboot-required";
    let mut watch = watch(&root, path);
    fs::write(root.path(PATH), "").unwrap();
    until(&mut watch, &root, path, true).await;
}

#[tokio::test]
async fn renamed_into_place_and_replaced() {
    let (_dir, root) = host();
    let mut watch = watch(&root, PATH);
    let mut identities = Vec::new();
    for text in ["one", "two", "three"] {
        fs::write(root.path("/run/.new"), text).unwrap();
        fs::rename(root.path("/run/.new"), root.path(PATH)).unwrap();
        let found = timeout(PATIENCE, async {
            loop {
                watch.changed().await;
                if let Some(found) = read(&root, PATH).unwrap()
                    && found.content == text
                {
                    return found;
                }
            }
        })
        .await
        .unwrap();
        assert!(!identities.contains(&found.identity));
        identities.push(found.identity);
    }
}

#[tokio::test]
async fn packages_written_later_are_seen() {
    let (_dir, root) = host();
    fs::write(root.path(PATH), "").unwrap();
    let mut watch = watch(&root, PATH);
    fs::write(root.path("/run/reboot-required.pkgs"), "linux\n").unwrap();
    timeout(PATIENCE, watch.changed()).await.unwrap();
}

#[test]
fn i8_what_is_no_file_is_neither_a_sentinel_nor_none() {
    let (_dir, root) = host();
    let list = format!("{PATH}.pkgs");
    fs::write(root.path(PATH), "").unwrap();
    for (place, path) in [(list.as_str(), list.as_str()), (PATH, PATH)] {
        let there = root.clone();
        odd::each(&root.path(place), MAX_BYTES, move || {
            match read(&there, PATH) {
                Err(error) => error.to_string(),
                // A file that is too large is one all the same: the rest of it is not needed.
                Ok(Some(sentinel)) => {
                    assert!(sentinel.content.len() as u64 <= MAX_BYTES);
                    "larger than what is kept".to_owned()
                }
                Ok(None) => format!("{PATH}: none"),
            }
        });
        fs::remove_file(root.path(path)).unwrap();
    }
}

proptest! {
    #[test]
    fn any_content_is_a_sentinel_of_a_bounded_size(
        content in prop_oneof![prop::collection::vec(any::<u8>(), 0..80), garble::bytes(b"soft-reboot\n".to_vec())],
        list in prop_oneof![prop::collection::vec(any::<u8>(), 0..200), garble::bytes(b"linux\nlibc6\n\nsystemd".to_vec())]) {
        let (_dir, root) = host();
        fs::write(root.path(PATH), &content).unwrap();
        fs::write(root.path("/run/reboot-required.pkgs"), &list).unwrap();
        let found = read(&root, PATH).unwrap().expect("it is there");
        // Control characters are gone before it is compared (I14), also those inside of the word.
        let text = block(String::from_utf8_lossy(&content).trim(), MESSAGE);
        prop_assert_eq!(&found.content, &text);
        let words = [("kexec", Kind::Reboot), ("reboot", Kind::Reboot), ("soft-reboot", Kind::SoftReboot)];
        prop_assert_eq!(found.kind(), words.into_iter().find(|(word, _)| text == *word).map(|(_, kind)| kind));
        // I14: what others write tells files apart, and no more.
        prop_assert!(found.identity.mark().chars().all(|c| c.is_ascii_digit() || ":.-".contains(c)));
        for name in &found.pkgs {
            prop_assert!(!name.is_empty() && name.trim() == name && !name.contains(char::is_control));
        }
        prop_assert!(found.pkgs.len() <= list.len());
    }

    #[test]
    fn i10_who_asked_is_the_same_in_any_order(names in prop::collection::vec("[a-z0-9.+-]{1,12}", 0..12), crlf in any::<bool>()) {
        let end = if crlf { "\r\n" } else { "\n" };
        let mut other: Vec<_> = names.iter().rev().chain(&names).cloned().collect();
        other.push(String::new());
        let one = packages((names.join("\n"), false));
        prop_assert_eq!(&one, &packages((other.join(end), false)));
        prop_assert_eq!(one, names.into_iter().collect::<BTreeSet<_>>());
    }
}
