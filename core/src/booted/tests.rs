//! Tables: what came up, and whether it is what was to come.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use proptest::prelude::*;

use super::*;
use crate::trigger::Reason;

const OLD: &str = "6.1.0-28-amd64";
const NEW: &str = "6.1.0-29-amd64";

fn booted(kernel: &str, build: &str, deployment: &str) -> Booted {
    Booted {
        kernel: kernel.to_owned(),
        build: build.to_owned(),
        deployment: deployment.to_owned(),
        ..Booted::default()
    }
}

fn of(booted: Option<Booted>, staged: Option<String>) -> Before {
    Before {
        booted,
        staged,
        ..Before::default()
    }
}

/// A request of this trigger, for these packages.
fn request(trigger: &str, pkgs: &[&str]) -> Request {
    Request {
        since: Timestamp::UNIX_EPOCH,
        reasons: vec![Reason {
            trigger: trigger.to_owned(),
            pkgs: pkgs
                .iter()
                .map(|one| (*one).to_owned())
                .collect::<BTreeSet<_>>(),
            words: String::new(),
            since: Timestamp::UNIX_EPOCH,
            since_boot: Duration::ZERO,
            later: BTreeMap::new(),
            kind: crate::kind::Kind::Reboot,
            mark: None,
        }],
        latched: Vec::new(),
    }
}

fn sum(digit: char, serial: &str) -> String {
    format!("{}.{serial}", digit.to_string().repeat(CHECKSUM))
}

/// What the built-in check named, what ran before it, what runs after it, and what is said.
#[test]
fn i8_a_kernel_did_not_take_only_where_the_check_had_named_one_and_the_same_or_an_older_one_came() {
    let rebuilt = format!("{OLD} #2");
    let again = |wanted: &str| {
        Some(format!(
            "kernel {wanted} was to come up, and {OLD} came again"
        ))
    };
    let rows = [
        ("it took", NEW, (OLD, "#1"), (NEW, "#1"), None),
        ("the same", NEW, (OLD, "#1"), (OLD, "#1"), again(NEW)),
        (
            "a newer one still",
            NEW,
            (OLD, "#1"),
            ("6.1.0-30-amd64", "#1"),
            None,
        ),
        (
            "an older one",
            NEW,
            (OLD, "#1"),
            ("6.1.0-27-amd64", "#1"),
            Some(format!(
                "kernel {NEW} was to come up, and the older 6.1.0-27-amd64 came"
            )),
        ),
        ("the same built anew", NEW, (OLD, "#1"), (OLD, "#2"), None),
        (
            "a build that took",
            &rebuilt,
            (OLD, "#1"),
            (OLD, "#2"),
            None,
        ),
        (
            "a build that did not",
            &rebuilt,
            (OLD, "#1"),
            (OLD, "#1"),
            again(&rebuilt),
        ),
        (
            "removed, and another came",
            OLD,
            (OLD, "#1"),
            (NEW, "#1"),
            None,
        ),
        (
            "removed, and an older one came",
            OLD,
            (OLD, "#1"),
            ("6.1.0-27-amd64", "#1"),
            None,
        ),
        (
            "removed, and there again",
            OLD,
            (OLD, "#1"),
            (OLD, "#1"),
            Some(format!(
                "kernel {OLD} was removed, and came up again: the boot loader still has it"
            )),
        ),
        ("not known before", NEW, ("", ""), (OLD, "#1"), None),
        ("not known after", NEW, (OLD, "#1"), ("", ""), None),
    ];
    for (what, wanted, was, now, said) in rows {
        let before = of(Some(booted(was.0, was.1, "")), None);
        let after = of(Some(booted(now.0, now.1, "")), None);
        let found = missed(&before, &after, Some(&request("builtin kernel", &[wanted])));
        assert_eq!(found.as_ref().map(|it| it.words.clone()), said, "{what}");
        let target = (wanted != OLD).then_some(Target::Kernel);
        assert!(found.is_none_or(|it| it.target == target), "{what}");
    }
}

/// The same kernel before and after is what most reboots have.
#[test]
fn i8_a_reboot_for_anything_else_is_no_rollback() {
    let same = of(Some(booted(OLD, "#1", "")), None);
    for request in [
        None,
        Some(request(
            "sentinel /run/reboot-required",
            &["linux-image-6.1.0-29-amd64"],
        )),
        Some(request("builtin libraries", &["/usr/lib/libssl.so.3"])),
        Some(request("builtin kernel", &[])),
        Some(request("builtin kernel", &["#200:0123456789abcdef", "b"])),
    ] {
        assert_eq!(missed(&same, &same, request.as_ref()), None, "{request:?}");
    }
    let kernel = request("builtin kernel", &[NEW]);
    for (before, after) in [(of(None, None), same.clone()), (same, of(None, None))] {
        assert_eq!(missed(&before, &after, Some(&kernel)), None, "nobody knows");
    }
}

#[test]
fn i8_a_deployment_did_not_take_only_where_one_was_staged_and_the_same_came_again() {
    let (old, new, third) = (sum('a', "0"), sum('b', "0"), sum('c', "0"));
    let kargs = sum('a', "1");
    let short = |digit: char| digit.to_string().repeat(SHOWN);
    let again = |words: &str| {
        Some(format!(
            "deployment {words} was to come up, and {}.0 came again",
            short('a')
        ))
    };
    let rows = [
        ("it took", Some(&new), &old, &new, None),
        (
            "the same",
            Some(&new),
            &old,
            &old,
            again(&format!("{}.0", short('b'))),
        ),
        ("a third", Some(&new), &old, &third, None),
        ("nothing was staged", None, &old, &old, None),
        ("new arguments took", Some(&kargs), &old, &kargs, None),
        (
            "new arguments did not",
            Some(&kargs),
            &old,
            &old,
            again(&format!("{}.1", short('a'))),
        ),
        (
            "not known",
            Some(&new),
            &String::new(),
            &String::new(),
            None,
        ),
    ];
    for (what, staged, was, now, said) in rows {
        let before = of(Some(booted(OLD, "#1", was)), staged.cloned());
        let after = of(Some(booted(OLD, "#1", now)), None);
        let found = missed(&before, &after, None);
        assert_eq!(found.map(|it| it.words), said, "{what}");
    }
}

#[test]
fn what_did_not_take_is_known_again_under_another_serial_number() {
    let before = of(Some(booted(OLD, "#1", &sum('a', "0"))), Some(sum('b', "0")));
    let target = missed(&before, &before, None).unwrap().target.unwrap();
    let (again, other) = (sum('b', "7"), sum('c', "0"));
    for (staged, same, passed) in [
        (Some(again), true, false),
        (Some(other), false, true),
        (None, false, false),
    ] {
        let staged = staged.as_deref();
        assert_eq!(target.again(true, staged), same, "{staged:?}");
        assert_eq!(target.passed(true, staged), passed, "{staged:?}");
    }
}

/// As Fedora mounts them without and with composefs, and others.
#[test]
fn the_deployment_is_read_from_where_the_root_is_mounted_from() {
    let name = sum('a', "0");
    let plain = format!(
        "24 1 252:4 /ostree/deploy/fedora-coreos/deploy/{name} / rw,relatime shared:1 - xfs /dev/vda4 rw\n\
         25 24 252:4 /ostree/deploy/fedora-coreos/var /var rw,relatime shared:2 - xfs /dev/vda4 rw\n"
    );
    let overlay = format!(
        "67 1 0:33 / / ro,relatime shared:1 - overlay composefs ro,lowerdir=/run/ostree/.private/cfsroot-lower\n\
         69 67 252:4 /ostree/deploy/fedora-coreos/deploy/{name}/etc /etc rw,relatime shared:2 - xfs /dev/vda4 rw\n"
    );
    let elsewhere =
        format!("70 67 252:4 /ostree/deploy/x/deploy/{name}/usr /mnt rw - xfs /dev/vda4 rw\n");
    let debian = "24 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n";
    let digest = "d".repeat(CHECKSUM);
    for (mounts, cmdline, wanted) in [
        (plain.as_str(), "", name.as_str()),
        (&overlay, "ostree=/ostree/boot.1/fedora-coreos/x/0", &name),
        (&elsewhere, "", ""),
        (debian, "root=UUID=x quiet", ""),
        (
            debian,
            &format!("root=UUID=x composefs={digest} rw"),
            &digest,
        ),
        (debian, &format!("composefs=?{digest}"), &digest),
        (debian, "composefs=?", ""),
        (debian, "composefs=/etc/passwd", ""),
        ("", "", ""),
    ] {
        let found = Booted::of("6.1\n", "#1\n", mounts, cmdline, "");
        assert_eq!(found, booted("6.1", "#1", wanted), "{mounts} {cmdline}");
    }
}

#[test]
fn the_snapshot_is_the_one_that_the_root_is() {
    let root = |root: &str, point: &str| {
        format!(
            "29 1 0:25 {root} {point} ro,relatime shared:1 - btrfs /dev/vda3 ro,subvolid=270,subvol={root}\n"
        )
    };
    let other = root("/@/.snapshots/9/snapshot", "/mnt");
    let overlay = "67 1 0:33 / / rw,relatime shared:1 - overlay overlay rw\n";
    for (mounts, wanted) in [
        (root("/@/.snapshots/12/snapshot", "/"), "12"),
        (root("/.snapshots/3/snapshot", "/") + &other, "3"),
        (root("/@/.snapshots/12/snapshot", "/") + overlay, ""),
        (root("/@/.snapshots/12/snapshot/etc", "/"), ""),
        (root("/@/.snapshots/x/snapshot", "/"), ""),
        (root("/@/.snapshots//snapshot", "/"), ""),
        (root("/@", "/"), ""),
        (other.clone(), ""),
    ] {
        let found = Booted::of("6.1", "#1", &mounts, "", "");
        assert_eq!(found.snapshot, wanted, "{mounts}");
    }
}

#[test]
fn the_release_is_told_with_its_image_or_build() {
    for (release, wanted) in [
        (
            "NAME=\"Debian GNU/Linux\"\nID=debian\nVERSION_ID=\"13\"\n",
            "debian 13",
        ),
        ("ID=arch\nBUILD_ID=rolling\n", "arch rolling"),
        (
            "ID=flatcar\nVERSION_ID=4081.2.0\nBUILD_ID=2024-11-18-1737\n",
            "flatcar 4081.2.0 (2024-11-18-1737)",
        ),
        (
            "ID='fedora'\nVERSION_ID=43\nBUILD_ID=x\nIMAGE_VERSION=43.7\n",
            "fedora 43 (43.7)",
        ),
        (
            "ID=x\nVERSION_ID=1\nBUILD_ID=1\nVERSION_ID=2\nBUILD_ID=2\n",
            "x 2",
        ),
        ("VERSION_ID=1\n", "linux 1"),
        ("ID=x\nVERSION_ID=\"\"\n", ""),
        ("VERSION_IDS=1\n", ""),
        ("", ""),
    ] {
        let found = Booted::of("6.1", "#1", "", "", release);
        assert_eq!(found.release, wanted, "{release}");
    }
}

#[test]
fn what_came_up_is_told_beside_what_ran_before() {
    let whole = |kernel: &str, build: &str, digit: char, snapshot: &str, release: &str| Booted {
        snapshot: snapshot.to_owned(),
        release: release.to_owned(),
        ..booted(kernel, build, &sum(digit, "0"))
    };
    let was = whole(OLD, "#1", 'a', "12", "x 1");
    for (now, wanted) in [
        (
            was.clone(),
            Some(format!(
                "the same kernel {OLD}, deployment aaaaaaaaaaaa.0, snapshot 12, x 1"
            )),
        ),
        (
            whole(NEW, "#1", 'a', "13", "x 1"),
            Some(format!(
                "kernel {NEW} (before: {OLD}), snapshot 13 (before: 12)"
            )),
        ),
        (
            whole(OLD, "#1", 'b', "12", "x 2"),
            Some(
                "deployment bbbbbbbbbbbb.0 (before: aaaaaaaaaaaa.0), x 2 (before: x 1)".to_owned(),
            ),
        ),
        (
            whole(OLD, "#2", 'a', "12", "x 1"),
            Some(format!("another build of kernel {OLD}")),
        ),
        // What is not known now, or was not, is not told.
        (
            booted(OLD, "#1", ""),
            Some(format!("the same kernel {OLD}")),
        ),
        (Booted::default(), None),
    ] {
        let now = Booted {
            build: if now.kernel.is_empty() {
                was.build.clone()
            } else {
                now.build
            },
            ..now
        };
        assert_eq!(came(&was, &now), wanted);
    }
}

/// Nothing says which of them was to come: a person may have gone back.
#[test]
fn i8_an_older_snapshot_or_release_is_no_rollback() {
    let of_snapshot = |snapshot: &str, release: &str| Booted {
        snapshot: snapshot.to_owned(),
        release: release.to_owned(),
        ..booted(OLD, "#1", "")
    };
    let before = of(Some(of_snapshot("13", "x 2")), None);
    for now in [of_snapshot("13", "x 2"), of_snapshot("12", "x 1")] {
        let asked = request("sentinel /run/reboot-needed", &[]);
        assert_eq!(missed(&before, &of(Some(now), None), Some(&asked)), None);
    }
    // Nor does another one make up for a kernel that was removed and came again.
    let asked = request(&Builtin::Kernel.trigger(), &[OLD]);
    let now = of(Some(of_snapshot("14", "x 3")), None);
    assert!(missed(&before, &now, Some(&asked)).is_some());
}

/// As ostree writes it: `a{sv}` with `target`, and what is locked or not.
fn file(target: &str, locked: Option<u8>) -> Vec<u8> {
    let mut file = b"target\0\0name\0\0\0\0".to_vec();
    file.extend(target.as_bytes());
    file.extend(b"\0\0s\x05\0\0osname\0\0fedora-coreos\0\0s\x07bootcsum\0\0\0\0\0\0\0\0");
    file.extend("e".repeat(CHECKSUM).as_bytes());
    file.extend(b"\0\0s\x09\0a{sv}\x07\0");
    if let Some(locked) = locked {
        file.extend(b"locked\0\0");
        file.extend([locked, 0, b'b', 7]);
    }
    file.extend(b"merge-deployment\0\0\0\0\0\0\0\0name\0\0\0\0");
    file.extend(sum('f', "0").as_bytes());
    file.extend(b"\0\0s");
    file
}

#[test]
fn i8_what_is_staged_is_the_target_unless_it_is_locked() {
    let target = sum('b', "0");
    assert_eq!(staged(&file(&target, None)), Some(target.clone()));
    assert_eq!(staged(&file(&target, Some(0))), Some(target.clone()));
    assert_eq!(staged(&file(&target, Some(1))), None);
    assert_eq!(staged(b""), None);
    assert_eq!(staged(b"target\0\0name\0\0\0\0abc.0\0"), None);
    let mut cut = file(&target, None);
    cut.extend(b"locked\0");
    assert_eq!(staged(&cut), None, "it may be");
}

proptest! {
    #[test]
    fn damage_is_read_as_nothing_or_a_deployment(
        file in garble::bytes(file(&sum('b', "0"), Some(0))),
        mounts in ".{0,200}",
    ) {
        let found = staged(&file);
        prop_assert!(found.is_none_or(|name| is_deployment(&name)));
        let booted = Booted::of(&mounts, &mounts, &mounts, &mounts, &mounts);
        prop_assert!(booted.kernel.chars().count() <= NAME);
        prop_assert!(booted.release.chars().count() <= NAME);
    }
}
