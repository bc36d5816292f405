//! Which files of its configuration the real Zincati reads, and whether ours reads the same of them (I1): where ours saw a strategy
//! that the real one does not follow, both would reboot hosts.

use anyhow::Context;
use kube_rebootd::host::fleet_lock::zincati::asks;
use kube_rebootd::root::Root;
use kube_rebootd_core::config::Listen;
use testbed::Host;

use super::super::Site;
use super::{host, restart, said, wait_said};

/// Its administrator's, this boot's and its distributor's directory.
const SETUP: &str =
    "etc=/etc/zincati/config.d run=/run/zincati/config.d lib=/usr/lib/zincati/config.d
says() { printf '[updates]\\nstrategy = \"%s\"\\n' \"$1\"; }
at() { printf '[updates.fleet_lock]\\nbase_url = \"%s\"\\n' \"$1\"; }
";
/// Back to what a host has.
const CLEAR: &str = "rm -rf $run/* $run/.[!.]* $etc/[6-8]* $etc/.[!.]* $lib/[6-9]* $etc/../own
chmod 755 $etc $etc/.. $run";

/// What it does where nothing else is said, by the distributor's file.
const ALONE: &str = "immediate";
/// The daemon's address.
const HERE: &str = "127.0.0.1:3333";
const OURS: &str = "fleet_lock at http://127.0.0.1:3333/";
const ELSEWHERE: &str = "fleet_lock at http://127.0.0.1:4499/";

/// What is laid out over docs/updaters.md's file, which is `$etc/55-kube-rebootd.toml`, and what Zincati does then.
const LAID_OUT: [(&str, &str, &str); 25] = [
    ("nothing more", "", OURS),
    ("a later name", "says immediate >$etc/60.toml", ALONE),
    ("of the distributor", "says immediate >$lib/60.toml", ALONE),
    ("of this boot", "says immediate >$run/60.toml", ALONE),
    (
        "one name: the administrator's before this boot's",
        "says immediate >$run/60.toml; says fleet_lock >$etc/60.toml",
        OURS,
    ),
    (
        "one name: this boot's is hidden",
        "says fleet_lock >$run/60.toml; says immediate >$etc/60.toml",
        ALONE,
    ),
    (
        "one name: this boot's before the distributor's",
        "says immediate >$lib/60.toml; says fleet_lock >$run/60.toml",
        OURS,
    ),
    (
        "an empty one hides",
        "says immediate >$run/60.toml; : >$etc/60.toml",
        OURS,
    ),
    (
        "a link",
        "says immediate >$etc/../own; ln -s ../own $etc/60.toml",
        OURS,
    ),
    (
        "a link hides nothing",
        "says immediate >$run/60.toml; says fleet_lock >$etc/../own; ln -s ../own $etc/60.toml",
        ALONE,
    ),
    (
        "a link says nothing",
        "says immediate >$etc/60.toml; says fleet_lock >$etc/../own; ln -s ../own $etc/70.toml",
        ALONE,
    ),
    (
        "a mask",
        "says immediate >$run/60.toml; ln -s /dev/null $etc/60.toml",
        OURS,
    ),
    (
        "a mask of an earlier place",
        "ln -s /dev/null $lib/60.toml; says immediate >$run/60.toml",
        ALONE,
    ),
    (
        "another way to /dev/null",
        "says immediate >$run/60.toml; ln -s /dev/../dev/null $etc/60.toml",
        ALONE,
    ),
    ("a hidden one", "says immediate >$etc/.60.toml", OURS),
    (
        "other endings",
        "says immediate | tee $etc/60.conf $etc/60.TOML $etc/60.toml~ >$etc/60",
        OURS,
    ),
    ("a directory", "mkdir $etc/60.toml", OURS),
    ("a FIFO", "mkfifo $etc/60.toml", OURS),
    (
        "a directory hides nothing",
        "says immediate >$run/60.toml; mkdir $etc/60.toml",
        ALONE,
    ),
    ("no strategy", "says '' >$etc/60.toml", ALONE),
    (
        "another server",
        "at http://127.0.0.1:4499/ >$run/60.toml",
        ELSEWHERE,
    ),
    (
        "another server by a hidden file",
        "at http://127.0.0.1:4499/ >$run/55-kube-rebootd.toml",
        OURS,
    ),
    (
        "a strategy without a server",
        "at http://127.0.0.1:4499/ >$run/60.toml; says immediate >$etc/60.toml",
        ALONE,
    ),
    ("a place that it may not list", "chmod 700 $etc", ALONE),
    ("a place that it does not reach", "chmod 700 $etc/..", ALONE),
];

/// What it says that it does, at its last start.
fn follows(host: &Host) -> anyhow::Result<String> {
    let journal = host.journal("zincati")?;
    let last = journal.rsplit("starting update agent").next();
    let after = |words: &str| {
        let said = last?.split_once(words)?.1;
        said.split_whitespace().next()
    };
    let strategy = after("update strategy: ").context("it says no strategy")?;
    Ok(match after("reboot manager: ") {
        Some(server) => format!("{strategy} at {server}"),
        None => strategy.to_owned(),
    })
}

#[test]
fn i1_its_files_are_read_as_the_real_zincati_reads_them() {
    let site = Site::new("zinfiles", 1);
    let host = host(&site, "zinfiles-1");
    let root = Root::at(host.outer("/"));
    let here = Listen::new(HERE).unwrap();
    let set_up = |lines: &str| host.sh(&format!("{SETUP}{lines}")).unwrap();
    // Where it may not look there is no server of updates for it either, and it would not start.
    set_up("cp $etc/90-bed.toml $lib/50-zz.toml; mv $etc/90-bed.toml $etc/50-bed.toml");
    let mut wrong = Vec::new();
    for (what, lines, does) in LAID_OUT {
        set_up(&format!("{CLEAR}\n{lines}"));
        let starts = said(&host, "update strategy: ").unwrap();
        host.sh("systemctl reset-failed zincati; systemctl restart zincati")
            .context(what)
            .unwrap();
        wait_said(&site, &host, "update strategy: ", starts + 1);
        let (real, ours) = (follows(&host).unwrap(), asks(&root, &here));
        if real != does || ours != (does == OURS) {
            wrong.push(format!("{what}: it does {real:?}, and ours says {ours}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    // Not by the words of a log alone.
    set_up(CLEAR);
    restart(&site, &host);
}
