use std::os::unix::fs::symlink;

use super::*;

/// A root with these files.
fn tree(files: &[(&str, &str)]) -> (tempfile::TempDir, Root) {
    let dir = tempfile::tempdir().unwrap();
    let root = Root::at(dir.path());
    for (path, text) in files {
        let path = root.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    (dir, root)
}

/// The effective lines that are no defaults, with the root cut off.
fn set(root: &Root, effective: &Effective) -> Vec<String> {
    let cut = root.path("/").display().to_string();
    let lines = effective.text.lines().filter(|l| l.contains("# from"));
    lines.map(|l| l.replace(&cut, "/")).collect()
}

#[test]
fn i12_no_file_is_a_valid_configuration() {
    let (_dir, root) = tree(&[]);
    let effective = load(&root, None).unwrap();
    assert_eq!(effective.config, config::Config::default());
    assert!(set(&root, &effective).is_empty());
}

#[test]
fn the_first_main_file_replaces_and_drop_ins_lay_over_by_name() {
    let (_dir, root) = tree(&[
        (
            "/usr/lib/kube-rebootd/config.toml",
            "[health]\npods = false",
        ),
        (
            "/run/kube-rebootd/config.toml",
            "[drain]\nparallelism = 1\nstall = \"1m\"",
        ),
        (
            "/usr/lib/kube-rebootd/config.d/90-z.toml",
            "[drain]\nparallelism = 9",
        ),
        (
            "/etc/kube-rebootd/config.d/10-a.toml",
            "[drain]\nparallelism = 2\nmode = \"never\"",
        ),
        (
            "/run/kube-rebootd/config.d/50-b.toml",
            "[gates]\nmin_uptime = \"1m\"",
        ),
        (
            "/usr/lib/kube-rebootd/config.d/50-b.toml",
            "[gates]\nmin_uptime = \"2m\"",
        ),
        ("/etc/kube-rebootd/config.d/README", "no TOML"),
        ("/etc/kube-rebootd/config.d/.x.toml", "no TOML"),
    ]);
    assert_eq!(
        set(&root, &load(&root, None).unwrap()),
        [
            "mode = \"never\" # from /etc/kube-rebootd/config.d/10-a.toml",
            "stall = \"1m\" # from /run/kube-rebootd/config.toml",
            "parallelism = 9 # from /usr/lib/kube-rebootd/config.d/90-z.toml",
            "min_uptime = \"1m\" # from /run/kube-rebootd/config.d/50-b.toml",
        ]
    );
    let explicit = root.path("/usr/lib/kube-rebootd/config.toml");
    let shown = set(&root, &load(&root, Some(&explicit)).unwrap());
    assert!(shown.contains(&"pods = false # from /usr/lib/kube-rebootd/config.toml".to_owned()));
    assert!(!shown.iter().any(|l| l.starts_with("stall")), "{shown:?}");
    assert!(
        shown.iter().any(|l| l.starts_with("min_uptime")),
        "{shown:?}"
    );
}

#[test]
fn empty_files_and_links_to_dev_null_mask() {
    let (_dir, root) = tree(&[
        (
            "/usr/lib/kube-rebootd/config.toml",
            "[health]\npods = false",
        ),
        ("/usr/lib/kube-rebootd/config.d/1.toml", "broken"),
        ("/usr/lib/kube-rebootd/config.d/2.toml", "broken"),
        ("/run/kube-rebootd/config.d/1.toml", ""),
        ("/etc/kube-rebootd/config.d/3.toml", ""),
    ]);
    let null = |path: &str| symlink("/dev/null", root.path(path)).unwrap();
    null("/etc/kube-rebootd/config.d/2.toml");
    null("/etc/kube-rebootd/config.toml");
    let effective = load(&root, None).unwrap();
    assert_eq!(effective.config, config::Config::default());
}

#[test]
fn checks_are_added_and_replaced_by_name_as_a_whole() {
    let (_dir, root) = tree(&[
        (
            "/etc/kube-rebootd/config.toml",
            "[[triggers.check]]\nname = \"a\"\npreset = \"zypper\"\nperiod = \"2h\"\n\
             [[triggers.check]]\nname = \"b\"\npreset = \"needrestart\"\n",
        ),
        (
            "/etc/kube-rebootd/config.d/1.toml",
            "[[triggers.check]]\nname = \"a\"\npreset = \"needrestart\"\n\
             [[triggers.check]]\nname = \"c\"\npreset = \"zypper\"\n",
        ),
    ]);
    let checks = load(&root, None).unwrap().config.triggers.checks;
    let names: Vec<_> = checks.iter().map(|c| &*c.name).collect();
    assert_eq!(names, ["a", "b", "c"]);
    assert_eq!(checks[0].command[0], "needrestart");
    assert_eq!(checks[0].period.as_secs(), 3600);
}

#[test]
fn i12_problems_of_all_files_come_at_once() {
    let (_dir, root) = tree(&[
        (
            "/etc/kube-rebootd/config.toml",
            "[drain]\n\ntimeout = \"30 parsecs\"",
        ),
        ("/etc/kube-rebootd/config.d/1.toml", "[drain]\nmod = 1"),
        ("/etc/kube-rebootd/config.d/2.toml", "= 1"),
        (
            "/etc/kube-rebootd/config.d/4.toml",
            "[drain]\nstall = \"2h\"\ntimeout = \"1h\"",
        ),
    ]);
    fs::create_dir(root.path("/etc/kube-rebootd/config.d/3.toml")).unwrap();
    let error = load(&root, None).unwrap_err();
    let found = error
        .to_string()
        .replace(&root.path("/").display().to_string(), "/");
    let heads: Vec<_> = found
        .lines()
        .map(|l| l.split(' ').next().unwrap())
        .collect();
    assert_eq!(
        heads,
        [
            "/etc/kube-rebootd/config.d/1.toml:2:",
            "/etc/kube-rebootd/config.d/2.toml:1:",
            "/etc/kube-rebootd/config.d/3.toml:",
            "/etc/kube-rebootd/config.d/4.toml:2:",
        ],
        "{found}"
    );
    fs::remove_file(root.path("/etc/kube-rebootd/config.d/4.toml")).unwrap();
    let error = load(&root, None).unwrap_err().to_string();
    assert!(
        error.contains("config.toml:3: drain.timeout: \"30 parsecs\" is not a duration; write it like \"30m\" or \"1h 30m\""),
        "{error}"
    );
}

#[test]
fn a_named_file_that_is_missing_is_a_problem() {
    let (_dir, root) = tree(&[]);
    let missing = root.path("/x.toml");
    assert!(load(&root, Some(&missing)).is_err());
    assert!(load_alone(&Root::host(), &missing).is_err());
}

#[test]
fn i7_what_is_no_file_of_ours_is_a_problem() {
    let (_dir, root) = tree(&[("/etc/kube-rebootd/config.d/1.toml", "")]);
    for path in ["config.toml", "config.d/1.toml"] {
        let (file, root) = (root.path("/etc/kube-rebootd").join(path), root.clone());
        let place = file.clone();
        bounded::odd::each(&file, LARGEST, move || {
            let error = load(&root, None).unwrap_err().to_string();
            assert_eq!(
                error,
                load_alone(&Root::host(), &place).unwrap_err().to_string()
            );
            error
        });
        fs::remove_file(file).unwrap();
    }
}

/// Found by review: whoever may change the configuration decides what root runs.
#[test]
fn i14_a_file_that_others_can_change_is_no_configuration_of_the_daemon() {
    use std::os::unix::fs::PermissionsExt;
    let file = "/etc/kube-rebootd/config.d/10-a.toml";
    let (_dir, root) = tree(&[
        ("/etc/kube-rebootd/config.toml", ""),
        (file, "[drain]\nparallelism = 2"),
    ]);
    load_for_root(&root, None).unwrap();
    let mode = |path: &str, mode: u32| {
        fs::set_permissions(root.path(path), fs::Permissions::from_mode(mode)).unwrap();
    };
    for (path, bad, good) in [
        (file, 0o666, 0o644),
        (file, 0o664, 0o640),
        ("/etc/kube-rebootd/config.d", 0o777, 0o755),
        ("/etc/kube-rebootd", 0o775, 0o755),
    ] {
        mode(path, bad);
        // Who only looks at it is told what it says.
        load(&root, None).unwrap();
        let refused = load_for_root(&root, None).unwrap_err().to_string();
        assert!(refused.contains(&format!("chmod go-w {path}")), "{refused}");
        mode(path, good);
        load_for_root(&root, None).unwrap();
    }
    // A directory counts although nothing is left in it: what was there was taken away.
    fs::remove_file(root.path(file)).unwrap();
    mode("/etc/kube-rebootd/config.d", 0o777);
    load_for_root(&root, None).unwrap_err();
}

/// A file that is taken from the command line is the admin's own word; what masks another is a link to /dev/null.
#[test]
fn what_is_named_or_masked_is_not_looked_at_twice() {
    let (dir, root) = tree(&[("/etc/kube-rebootd/config.d/10-a.toml", "")]);
    let masked = root.path("/etc/kube-rebootd/config.d/20-b.toml");
    symlink("/dev/null", masked).unwrap();
    symlink("/dev/null", root.path("/etc/kube-rebootd/config.toml")).unwrap();
    load_for_root(&root, None).unwrap();
    let named = dir.path().join("named.toml");
    fs::write(&named, "[drain]\nparallelism = 2").unwrap();
    load_for_root(&root, Some(&named)).unwrap();
}
