//! What distributions do to a running kernel, and what the check says of it.

use super::*;

const BOOT: i64 = 1000;
const BEFORE: i64 = 900;
const SINCE: i64 = 1100;
const BUILD: &str = "#1 SMP PREEMPT_DYNAMIC Debian 6.1.119-1 (2024-11-22)";

fn kernel(release: &str, changed: i64) -> Kernel {
    Kernel {
        release: release.to_owned(),
        modules: Modules::Whole,
        package: false,
        image: None,
        changed,
    }
}

/// With its image in /boot or beside the modules.
fn imaged(release: &str, changed: i64) -> Kernel {
    let build = None;
    Kernel {
        image: Some(Image { changed, build }),
        ..kernel(release, changed)
    }
}

/// As Arch packages it.
fn arch(release: &str, changed: i64) -> Kernel {
    Kernel {
        package: true,
        ..imaged(release, changed)
    }
}

fn host(running: &str, installed: Vec<Kernel>) -> Kernels {
    let changed = installed.iter().map(|kernel| kernel.changed).max();
    Kernels {
        container: false,
        running: running.to_owned(),
        build: BUILD.to_owned(),
        booted: BOOT,
        changed: changed.unwrap_or(BEFORE),
        installed,
        entries: Vec::new(),
        patches: Vec::new(),
    }
}

fn reasons(kernels: &Kernels) -> Vec<String> {
    match judge(kernels) {
        Answer::Reboot { pkgs, .. } => pkgs.into_iter().collect(),
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn no(kernels: &Kernels) {
    let answer = judge(kernels);
    assert!(matches!(answer, Answer::No { .. }), "{answer:?}");
}

#[track_caller]
fn unknown(kernels: &Kernels) {
    let answer = judge(kernels);
    assert!(
        matches!(answer, Answer::Unknown { busy: false, .. }),
        "{answer:?}"
    );
}

#[test]
fn a_newer_kernel_beside_the_running_one() {
    let debian = |new: &str, changed| {
        host(
            "6.1.0-28-amd64",
            vec![imaged("6.1.0-28-amd64", BEFORE), imaged(new, changed)],
        )
    };
    assert_eq!(
        reasons(&debian("6.1.0-29-amd64", SINCE)),
        ["6.1.0-29-amd64"]
    );
    // There before the boot, which chose the other.
    no(&debian("6.1.0-29-amd64", BEFORE));
    // An older one, another flavour.
    no(&debian("6.1.0-27-amd64", SINCE));
    no(&debian("6.1.0-29-cloud-amd64", SINCE));
    // A rest of one that was removed: no image.
    let mut rest = debian("6.1.0-29-amd64", SINCE);
    rest.installed[1].image = None;
    no(&rest);
    // DKMS builds a module for a kernel that was there before.
    let mut dkms = debian("6.1.0-29-amd64", BEFORE);
    dkms.installed[1].changed = SINCE;
    no(&dkms);
    no(&host(
        "6.1.0-28-amd64",
        vec![imaged("6.1.0-28-amd64", SINCE)],
    ));
}

#[test]
fn a_newer_kernel_that_a_boot_passed_over_is_named_and_is_no_reason() {
    let fell_back = |entries: Vec<String>| Kernels {
        entries,
        ..host(
            "6.1.0-28-amd64",
            vec![
                imaged("6.1.0-28-amd64", BEFORE),
                imaged("6.1.0-30-amd64", BEFORE),
                imaged("6.1.0-29-amd64", BEFORE),
            ],
        )
    };
    let words = |kernels: &Kernels| match judge(kernels) {
        Answer::No { words } => words,
        other => panic!("{other:?}"),
    };
    let said = words(&fell_back(Vec::new()));
    assert!(
        said.contains("although 6.1.0-30-amd64 was installed before this boot"),
        "{said}"
    );
    // Where an administrator chose the older one, nothing failed.
    let said = words(&fell_back(vec!["6.1.0-28-amd64".to_owned()]));
    assert!(!said.contains("although"), "{said}");
}

/// Whoever has the kernel patched may take the time for the reboot; it is required all the same.
#[test]
fn live_patches_are_told_beside_the_reason_and_make_none() {
    let (old, new) = ("6.1.0-28-amd64", "6.1.0-29-amd64");
    let patched = |installed: Vec<Kernel>| Kernels {
        patches: vec!["kpatch_1".to_owned(), "lkp_2".to_owned()],
        ..host(old, installed)
    };
    let both = || vec![imaged(old, BEFORE), imaged(new, SINCE)];
    let Answer::Reboot { words, pkgs } = judge(&patched(both())) else {
        panic!("a newer one is there");
    };
    assert_eq!(pkgs.into_iter().collect::<Vec<_>>(), [new]);
    let plain = "kernel 6.1.0-28-amd64 runs, 6.1.0-29-amd64 was installed since boot";
    assert_eq!(
        words,
        format!("{plain}; live patches applied: kpatch_1 and lkp_2")
    );
    let Answer::Reboot { words, .. } = judge(&host(old, both())) else {
        panic!("a newer one is there");
    };
    assert_eq!(words, plain);
    no(&patched(vec![imaged(old, BEFORE)]));
}

/// What `make kernel` found on its machine, in `kernels.txt`.
fn real(text: &str) -> Kernels {
    let mut lines = text.lines();
    let (running, build) = (lines.next().unwrap(), lines.next().unwrap());
    let time = |line: &str| {
        let (time, path) = line.split_once(' ')?;
        Some((time.parse::<i64>().ok()?, path.to_owned()))
    };
    let btime = |line: &str| line.strip_prefix("btime ")?.parse::<i64>().ok();
    let images = text.lines().filter_map(time).filter_map(|(changed, path)| {
        let release = path.strip_prefix("vmlinuz-")?;
        Some(imaged(release, changed))
    });
    Kernels {
        build: build.to_owned(),
        booted: text.lines().find_map(btime).unwrap(),
        ..host(running, images.collect())
    }
}

#[test]
fn a_real_host_asked_for_its_new_kernel_and_asks_no_more() {
    let kernels = real(include_str!("../../../tests/kernel/upgrade/kernels.txt"));
    assert_eq!(kernels.installed.len(), 2, "{kernels:?}");
    no(&kernels);
    let (old, new) = (&kernels.installed[0], &kernels.installed[1]);
    assert_eq!(new.release, kernels.running);
    let before = Kernels {
        running: old.release.clone(),
        booted: installed(new) - 1,
        ..kernels.clone()
    };
    assert_eq!(reasons(&before), std::slice::from_ref(&new.release));
}

#[test]
fn a_real_host_that_fell_back_asks_for_nothing_and_names_the_kernel() {
    let kernels = real(include_str!("../../../tests/kernel/fallback/kernels.txt"));
    let Answer::No { words } = judge(&kernels) else {
        panic!("{kernels:?}")
    };
    let named = "although 6.12.999+deb13-cloud-amd64 was installed before this boot";
    assert!(words.contains(named), "{words}");
}

#[test]
fn the_newest_of_several_is_the_reason() {
    let releases = ["6.1.0-29-amd64", "6.1.0-31-amd64", "6.1.0-30-amd64"];
    let mut installed = vec![imaged("6.1.0-28-amd64", BEFORE)];
    installed.extend(releases.map(|release| imaged(release, SINCE)));
    let kernels = host("6.1.0-28-amd64", installed);
    assert_eq!(reasons(&kernels), ["6.1.0-31-amd64"]);
}

#[test]
fn what_the_boot_loader_is_told_counts() {
    let fedora = |entry: &str| Kernels {
        entries: vec![entry.to_owned()],
        ..host(
            "6.11.4-301.fc41.x86_64",
            vec![
                imaged("6.11.4-301.fc41.x86_64", BEFORE),
                imaged("6.11.5-300.fc41.x86_64", SINCE),
            ],
        )
    };
    no(&fedora("0123456789abcdef-6.11.4-301.fc41.x86_64"));
    let new = ["6.11.5-300.fc41.x86_64"];
    assert_eq!(
        reasons(&fedora("0123456789abcdef-6.11.5-300.fc41.x86_64")),
        new
    );
    // Names none that is installed: the newest is next, as without a choice.
    assert_eq!(reasons(&fedora("0")), new);
    assert_eq!(reasons(&fedora("windows")), new);
}

#[test]
fn arch_keeps_one_directory_per_package() {
    let new = || arch("6.11.6-arch1-1", SINCE);
    let old = "6.11.5-arch1-1";
    // Removed with its package.
    assert_eq!(reasons(&host(old, vec![new()])), [old]);
    // A rest that DKMS left.
    let mut rest = kernel(old, SINCE);
    rest.modules = Modules::Empty;
    assert_eq!(reasons(&host(old, vec![rest, new()])), [old]);
    // kernel-modules-hook keeps kernel/ and modules*, and neither image nor pkgbase.
    let kept = kernel(old, SINCE);
    assert_eq!(reasons(&host(old, vec![kept, new()])), [old]);
    // A downgrade is a removal too.
    let older = arch("6.11.4-arch1-1", SINCE);
    assert_eq!(reasons(&host(old, vec![older])), [old]);
    // The running one is there; another package's kernel is not meant.
    let other = arch("6.6.59-1-lts", SINCE);
    no(&host(old, vec![arch(old, BEFORE), other]));
}

#[test]
fn arch_linux_arm_has_no_image_by_release() {
    let old = "6.11.5-1-aarch64-ARCH";
    no(&host(old, vec![kernel(old, BEFORE)]));
    no(&host(old, vec![kernel(old, SINCE)]));
    let new = || kernel("6.11.6-1-aarch64-ARCH", SINCE);
    assert_eq!(reasons(&host(old, vec![new()])), [old]);
    // Kept by kernel-modules-hook: no mark tells, the newer one does.
    let both = host(old, vec![kernel(old, SINCE), new()]);
    assert_eq!(reasons(&both), ["6.11.6-1-aarch64-ARCH"]);
    // With a pkgbase, no image all the same.
    let packaged = |release, changed| Kernel {
        package: true,
        ..kernel(release, changed)
    };
    no(&host(old, vec![packaged(old, BEFORE)]));
    let kept = vec![
        kernel(old, BEFORE),
        packaged("6.11.6-1-aarch64-ARCH", SINCE),
    ];
    assert_eq!(reasons(&host(old, kept)), [old]);
}

#[test]
fn the_running_release_is_built_anew_under_its_name() {
    let with = |build: Option<&str>, changed| {
        let mut kernel = imaged("6.1.0-28-amd64", BEFORE);
        let build = build.map(str::to_owned);
        kernel.image = Some(Image { changed, build });
        host("6.1.0-28-amd64", vec![kernel])
    };
    let new = "#1 SMP PREEMPT_DYNAMIC Debian 6.1.123-1 (2025-01-02)";
    assert_eq!(
        reasons(&with(Some(new), SINCE)),
        [format!("6.1.0-28-amd64 {new}")]
    );
    // Touched, relabelled or restored, but the same; or there before the boot.
    no(&with(Some(BUILD), SINCE));
    no(&with(Some(new), BEFORE));
    // Not told.
    no(&with(None, SINCE));
    let mut pinned = with(Some(new), SINCE);
    pinned.installed.push(imaged("6.1.0-27-amd64", BEFORE));
    pinned.entries = vec!["id-6.1.0-27-amd64".to_owned()];
    no(&pinned);
}

#[test]
fn i8_a_kernel_from_elsewhere_is_no_reason() {
    // A container, or a host booted over the network, without any kernel of its own.
    no(&host("6.18.44", Vec::new()));
    // A hypervisor brings the kernel; the image's own was never booted.
    no(&host("6.18.44", vec![imaged("6.1.0-28-amd64", BEFORE)]));
    let mut emptied = kernel("6.18.44", BEFORE);
    emptied.modules = Modules::Empty;
    no(&host("6.18.44", vec![emptied.clone()]));
    // All kernels removed or emptied: the host would not come back.
    let mut removed = host("6.1.0-28-amd64", Vec::new());
    removed.changed = SINCE;
    unknown(&removed);
    emptied.changed = SINCE;
    unknown(&host("6.18.44", vec![emptied.clone()]));
    // With one to boot it is a reason.
    let new = kernel("6.18.45", SINCE);
    assert_eq!(reasons(&host("6.18.44", vec![emptied, new])), ["6.18.44"]);
}

/// Found by review: where the host's modules are mounted, each of its updates asked for a reboot of every container.
#[test]
fn i8_the_kernels_of_its_host_are_no_reason_for_a_container() {
    let new = vec![
        imaged("6.1.0-28-amd64", BEFORE),
        imaged("6.1.0-29-amd64", SINCE),
    ];
    let mut kernels = host("6.1.0-28-amd64", new);
    assert!(matches!(judge(&kernels), Answer::Reboot { .. }));
    kernels.container = true;
    no(&kernels);
    kernels.installed.clear();
    kernels.changed = SINCE;
    no(&kernels);
}

#[test]
fn an_image_tells_its_build() {
    let text = format!("6.1.0-28-amd64 (debian-kernel@lists.debian.org) {BUILD}\0rest");
    let mut head = vec![0; 0x300];
    head[0x202..0x206].copy_from_slice(b"HdrS");
    head[0x20e..0x210].copy_from_slice(&0x100_u16.to_le_bytes());
    head.extend_from_slice(text.as_bytes());
    assert_eq!(build_of_image(&head).as_deref(), Some(BUILD));
    // Cut short, not an image, a pointer to nowhere.
    assert_eq!(build_of_image(&head[..0x310]), None);
    assert_eq!(build_of_image(b"MZ"), None);
    assert_eq!(build_of_image(&[0; 0x1000]), None);
    head[0x20e..0x210].copy_from_slice(&u16::MAX.to_le_bytes());
    assert_eq!(build_of_image(&head), None);
}

#[test]
fn boot_loaders_are_understood() {
    let saved = "GRUB_TIMEOUT=5\nGRUB_DEFAULT=saved\n";
    let environment = "# GRUB Environment Block\nsaved_entry=id-6.1.0-28-amd64\n####";
    assert_eq!(
        entries(saved, environment, ""),
        ["id-6.1.0-28-amd64", "saved"]
    );
    // Not asked for: an old saved_entry is not looked at.
    assert_eq!(entries("GRUB_DEFAULT=0", environment, ""), ["0"]);
    let once = "saved_entry=id-1\nnext_entry=id-2\n";
    assert_eq!(entries(saved, once, ""), ["id-2", "id-1", "saved"]);
    assert_eq!(
        entries("#GRUB_DEFAULT=1\nGRUB_DEFAULT=\"A>B 6.1\"\n", "", ""),
        ["A>B 6.1"]
    );
    assert_eq!(
        entries("", "", "timeout 3\ndefault  id-6.1.0.conf\n"),
        ["id-6.1.0.conf"]
    );
    assert_eq!(entries("", "next_entry=\n", "#default x\n"), [""; 0]);
}
