//! What rpm.spec is where it was not built: the macros of Fedora, RHEL and openSUSE, each standing for itself.

use std::path::Path;
use std::process::Command;

use xtask::TOP;

use crate::built::said;

/// Macro, and what it leaves behind.
const MACROS: [&str; 6] = [
    "cargo_prep(v:) echo PREP %{-v*}",
    "cargo_build echo BUILD",
    "systemd_post() echo POST %*",
    "systemd_preun() echo PREUN %*",
    "systemd_postun_with_restart() echo POSTUN %*",
    "systemd_requires Requires(post): systemd",
];

fn expanded(distribution: &str) -> String {
    let place = tempfile::tempdir().unwrap();
    let spec = place.path().join("kube-rebootd.spec");
    let source = Path::new(TOP).join("rpm.spec");
    std::fs::copy(source, &spec).unwrap();
    let mut rpmspec = Command::new("rpmspec");
    rpmspec.arg("-P").arg(spec);
    for define in MACROS.iter().chain([&distribution]) {
        rpmspec.args(["--define", define]);
    }
    said(&mut rpmspec)
}

#[test]
fn the_spec_uses_each_distributions_own_macros() {
    let cases = [
        ("fedora 43", "cargo-rpm-macros >= 24", "cargo-packaging"),
        ("rhel 10", "cargo-rpm-macros >= 24", "cargo-packaging"),
        ("suse_version 1600", "cargo-packaging", "cargo-rpm-macros"),
    ];
    for (distribution, needs, others) in cases {
        let spec = expanded(distribution);
        for words in [
            needs,
            "BuildRequires:  systemd-rpm-macros",
            "Requires(post): systemd",
            "echo BUILD\n",
            "echo POST kube-rebootd.service kube-rebootd-boot-ok.service\n",
            "echo PREUN kube-rebootd.service kube-rebootd-boot-ok.service\n",
            // What a boot has proved is not asked again by an upgrade.
            "echo POSTUN kube-rebootd.service\n",
        ] {
            assert!(spec.contains(words), "{distribution}: {words}:\n{spec}");
        }
        let vendored = spec.contains("echo PREP vendor\n");
        assert_eq!(vendored, needs != "cargo-packaging", "{distribution}");
        // Our own way to do the same, for where there is no macro.
        for words in [others, "daemon-reload", "--remap-path-prefix"] {
            assert!(!spec.contains(words), "{distribution}: {words}:\n{spec}");
        }
        // After the daemon was stopped by the macro.
        let (stop, release) = (spec.find("echo PREUN"), spec.find("undrain --release"));
        assert!(stop < release, "{distribution}:\n{spec}");
    }
}
