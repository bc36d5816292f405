//! The table.

/// A verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Says {
    Reboot,
    No,
    Unknown,
}

/// One host.
pub(super) struct Case {
    pub(super) name: &'static str,
    /// In the words of prelude.sh.
    pub(super) setup: &'static str,
    /// What the built-in checks say together.
    pub(super) builtin: Says,
    /// What the script says, where it differs.
    pub(super) script: Option<Says>,
    /// Part of what the built-in checks say in words.
    pub(super) words: &'static str,
    /// Whether apt inhibits a shutdown.
    pub(super) inhibited: bool,
}

const fn same(name: &'static str, setup: &'static str, builtin: Says, words: &'static str) -> Case {
    Case {
        name,
        setup,
        builtin,
        script: None,
        words,
        inhibited: false,
    }
}

/// `name` says why.
const fn differs(
    name: &'static str,
    setup: &'static str,
    builtin: Says,
    script: Says,
    words: &'static str,
) -> Case {
    Case {
        script: Some(script),
        ..same(name, setup, builtin, words)
    }
}

pub(super) const CASES: &[Case] = &[
    same(
        "nothing changed",
        "kernel $RUNNING arch",
        Says::No,
        "no newer one of its flavour was installed since boot | no process of the host",
    ),
    same(
        "kernel removed, another installed",
        "kernel 99.1.1-arch1-1 arch",
        Says::Reboot,
        "has no modules here; installed: 99.1.1-arch1-1",
    ),
    same(
        "kernel kept by kernel-modules-hook",
        "kernel $RUNNING; kernel 99.1.1-arch1-1 arch",
        Says::Reboot,
        "was removed, its modules were kept",
    ),
    same(
        "another package's kernel",
        "kernel $RUNNING arch; kernel 99.1.1-1-lts arch",
        Says::No,
        "",
    ),
    same("Arch Linux ARM", "kernel $RUNNING", Says::No, ""),
    same(
        "Arch Linux ARM, kernel removed",
        "kernel 99.1.1-1-aarch64-ARCH",
        Says::Reboot,
        "installed: 99.1.1-1-aarch64-ARCH",
    ),
    same(
        "library replaced under a running process",
        "kernel $RUNNING; loads /usr/lib/case/libcase.so.1; replaces /usr/lib/case/libcase.so.1",
        Says::Reboot,
        "libcase.so.1 replaced under sleep; only a reboot helps",
    ),
    same(
        "library in /opt removed under a running process",
        "kernel $RUNNING; loads /opt/case/libcase.so; rm /opt/case/libcase.so",
        Says::Reboot,
        "libcase.so replaced",
    ),
    same(
        "kernel and library",
        "kernel 99.1.1-arch1-1 arch; loads /opt/case/a.so; replaces /opt/case/a.so",
        Says::Reboot,
        "has no modules here; installed: 99.1.1-arch1-1 | a.so replaced",
    ),
    same(
        "library replaced, its process has ended",
        "kernel $RUNNING; loads /opt/case/a.so; replaces /opt/case/a.so; kill $PID; wait $PID || true",
        Says::No,
        "",
    ),
    same(
        "library replaced where no package puts one",
        "kernel $RUNNING; loads $SCRATCH/a.so; replaces $SCRATCH/a.so",
        Says::No,
        "",
    ),
    same("memfd", "kernel $RUNNING; maps memfd", Says::No, ""),
    same(
        "SysV segment",
        "kernel $RUNNING; maps segment",
        Says::No,
        "",
    ),
    same("shared memory", "kernel $RUNNING; maps zero", Says::No, ""),
    same(
        "code of a just-in-time compiler in /tmp",
        "kernel $RUNNING; maps file $SCRATCH/jit",
        Says::No,
        "",
    ),
    same(
        "database locked",
        "kernel 99.1.1-arch1-1 arch; touch /var/lib/pacman/db.lck",
        Says::Unknown,
        "pacman works",
    ),
    same(
        "database locked, library replaced",
        "kernel $RUNNING; touch /var/lib/pacman/db.lck; loads /opt/case/a.so; replaces /opt/case/a.so",
        Says::Unknown,
        "pacman works",
    ),
    differs(
        "lsof missing: needed by the script alone",
        "kernel $RUNNING; loads /opt/case/a.so; replaces /opt/case/a.so; mount --bind /dev/null $(command -v lsof)",
        Says::Reboot,
        Says::Unknown,
        "a.so replaced",
    ),
    differs(
        "program replaced: lsof calls it txt, not DEL",
        "kernel $RUNNING; runs /opt/case/program; replaces /opt/case/program",
        Says::Reboot,
        Says::No,
        "program replaced under program",
    ),
    differs(
        "data replaced: lsof does not tell it from code",
        "kernel $RUNNING; maps data /usr/lib/case.db",
        Says::No,
        Says::Reboot,
        "",
    ),
    differs(
        "container: its process goes with its pod",
        CONTAINER,
        Says::No,
        Says::Reboot,
        "",
    ),
    differs(
        "our own program upgraded: it is started again by itself or by nobody",
        "kernel $RUNNING; runs /opt/case/kube-rebootd; kill $PID; \
         loads /opt/case/a.so /opt/case/kube-rebootd; \
         replaces /opt/case/a.so; replaces /opt/case/kube-rebootd",
        Says::No,
        Says::Reboot,
        "",
    ),
    differs(
        "dpkg works: the script knows pacman only",
        "kernel $RUNNING; locks /var/lib/dpkg/lock",
        Says::Unknown,
        Says::No,
        "dpkg works",
    ),
    differs(
        "rpm works, beside a kernel that was removed",
        "kernel 99.1.1-300.fc99.x86_64; mkdir -p /usr/lib/sysimage/rpm; \
         locks /usr/lib/sysimage/rpm/.rpm.lock",
        Says::Unknown,
        Says::Reboot,
        "rpm works",
    ),
    differs(
        "zypper works",
        "kernel $RUNNING; mount -t tmpfs case /run; echo $$ >/run/zypp.pid",
        Says::Unknown,
        Says::No,
        "zypper or PackageKit works (sh, pid ",
    ),
    same(
        "locks that nobody holds",
        "kernel $RUNNING; touch /var/lib/dpkg/lock /var/lib/dpkg/lock-frontend; \
         mount -t tmpfs case /run; echo 999999 >/run/zypp.pid",
        Says::No,
        "",
    ),
    Case {
        inhibited: true,
        ..differs(
            "apt inhibits a shutdown",
            "kernel $RUNNING",
            Says::Unknown,
            Says::No,
            "shutdown is inhibited by apt (installing)",
        )
    },
    differs(
        "kernel removed and no other installed: the host would not come back",
        "true",
        Says::Unknown,
        Says::Reboot,
        "no other is installed to boot",
    ),
    differs(
        "a user deletes a library of his own, on a file system of his own over the host's (I14)",
        "kernel $RUNNING arch; user_maps /opt/case/libssl.so.3",
        Says::No,
        Says::Reboot,
        "no process of the host runs replaced code",
    ),
    differs(
        "the same on the host's file system, in a directory of his own (I14)",
        "kernel $RUNNING arch; user_maps /opt/other/libssl.so.3",
        Says::No,
        Says::Reboot,
        "no process of the host runs replaced code",
    ),
    differs(
        "a user mounts a file that root deletes over a library, in a user namespace of his own (I14)",
        "kernel $RUNNING arch; user_mounts /opt/case/libssl.so.3",
        Says::No,
        Says::Reboot,
        "no process of the host runs replaced code",
    ),
    differs(
        "a user maps a file that is no code, and root replaces it (I14)",
        "kernel $RUNNING arch; cp /etc/passwd /opt/case/data; user_calls_code /opt/case/data; replaces /opt/case/data",
        Says::No,
        Says::Reboot,
        "no process of the host runs replaced code",
    ),
    same(
        "a library of root's was replaced under the process of a user",
        "kernel $RUNNING arch; user_loads /opt/case/libssl.so.3; replaces /opt/case/libssl.so.3",
        Says::Reboot,
        "libssl.so.3 replaced under",
    ),
];

/// A root of its own with a library replaced in it, as a container has.
const CONTAINER: &str = "kernel $RUNNING; mkdir $SCRATCH/c; cat >$SCRATCH/container <<'END'
set -e
. $0.words
mount -t tmpfs container $1
cd $1
mkdir old proc
for file in $(command -v sh sleep) $(ldd $(command -v sh) $(command -v sleep) $(command -v perl) | grep -o '/[^ :]*'); do
    mkdir -p .${file%/*}
    cp $file .$file
done
mkdir -p usr/lib/case
cp $(ldd $(command -v perl) | sed -n 's/.* => \\(.*libm\\.so\\.6\\) .*/\\1/p') usr/lib/case/a.so
pivot_root . old
LD_PRELOAD=/usr/lib/case/a.so exec sleep 1000
END
touch $SCRATCH/container.words
unshare --mount sh $SCRATCH/container $SCRATCH/c & PID=$!
until_true mapped /usr/lib/case/a.so
# From outside: its root is a mount of its own namespace.
rm /proc/$PID/root/usr/lib/case/a.so
until_true mapped 'a.so (deleted)'";
