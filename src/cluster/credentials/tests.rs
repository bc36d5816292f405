//! Where credentials are found, and what is refused in their place (I7, I8, I14).

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown, symlink};

use proptest::prelude::*;

use super::running::{COMMAND_MAX, SMALL_MAX};
use super::*;
use crate::bounded::odd::{self, Odd};

const CONFIG: &str = "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters:\n- name: c\n  cluster: {server: 'https://127.0.0.1:1', certificate-authority: pki/ca.crt}\ncontexts:\n- name: c\n  context: {cluster: c, user: u}\nusers:\n- name: u\n  user: {client-certificate: /var/lib/kubelet/pki/current.pem, client-key: /var/lib/kubelet/pki/current.pem}\n";

fn put(root: &Root, path: &str, text: &str) {
    let file = root.path(path);
    fs::create_dir_all(file.parent().expect("a parent")).expect("directories");
    fs::write(&file, text).expect("a file");
    // Whatever the umask of whoever runs the tests is.
    mode(root, path, 0o644);
    let directories = Path::new(path).ancestors().skip(1);
    for directory in directories.filter(|path| path.parent().is_some()) {
        mode(root, directory.to_str().expect("text"), 0o755);
    }
}

fn mode(root: &Root, path: &str, mode: u32) {
    fs::set_permissions(root.path(path), fs::Permissions::from_mode(mode)).expect("a mode");
}

/// Says of process 7 in /proc what a kubelet that systemd started says.
fn kubelet(root: &Root, line: &str) -> MainProcess {
    let status = "Name:\tkubelet\nUid:\t0\t0\t0\t0\nNSpid:\t7\n";
    put(root, "/proc/7/status", status);
    put(root, "/proc/7/cgroup", "0::/system.slice/kubelet.service\n");
    put(root, "/proc/7/comm", "kubelet\n");
    put(root, "/proc/7/cmdline", line);
    MainProcess {
        unit: "kubelet.service".to_owned(),
        pid: 7,
        cgroup: "/system.slice/kubelet.service".to_owned(),
    }
}

fn tree() -> (tempfile::TempDir, Root) {
    let dir = tempfile::tempdir().expect("a directory");
    let root = Root::at(dir.path());
    (dir, root)
}

#[test]
fn nothing_found_lists_every_path_with_its_fault() {
    let (_dir, root) = tree();
    put(
        &root,
        "/etc/kubernetes/kubelet.conf",
        "kind: KubeletConfiguration\napiVersion: kubelet.config.k8s.io/v1beta1\n",
    );
    let searched = find(&root, None, &[]).expect_err("no kubeconfig");
    assert_eq!(searched.len(), KNOWN.len());
    let wrong = searched[0].wrong.as_deref().expect("there");
    assert!(wrong.contains("KubeletConfiguration"), "{wrong}");
    // No more than its name: most of them are never there.
    assert_eq!(searched[1].wrong, None);
    assert_eq!(searched[1].to_string(), KNOWN[1]);
    let explicit = find(&root, Some(Path::new("/x")), &[]).expect_err("no kubeconfig");
    assert_eq!(explicit.len(), 1);
}

#[test]
fn i14_the_kubelet_of_a_service_comes_before_the_known_places_and_no_other_process_counts() {
    let (_dir, root) = tree();
    put(&root, "/etc/kubernetes/kubelet.conf", CONFIG);
    put(&root, "/opt/kubeconfig", CONFIG);
    let line = "/usr/bin/kubelet\0--v=2\0--kubeconfig\0/opt/kubeconfig\0";
    let process = kubelet(&root, line);
    let found = |kubelets: &[MainProcess]| find(&root, None, kubelets).expect("found").path;
    // As when there is no system bus, or the process is nobody's service.
    assert_eq!(found(&[]), Path::new(KNOWN[0]));
    assert_eq!(
        found(std::slice::from_ref(&process)),
        Path::new("/opt/kubeconfig")
    );
    let status = "Name:\tkubelet\nUid:\t65534\t65534\t65534\t65534\nNSpid:\t7\n";
    put(&root, "/proc/7/status", status);
    assert_eq!(found(&[process]), Path::new(KNOWN[0]));
}

#[test]
fn i14_what_others_could_change_is_refused_wherever_it_was_named() {
    let (_dir, root) = tree();
    let user = "client-certificate: /s/cert, client-key: /s/key, tokenFile: /s/token, exec: {command: ../bin/plugin, apiVersion: v1}";
    let config = CONFIG
        .replace("pki/ca.crt", "/s/ca")
        .replace("client-certificate: /var/lib/kubelet/pki/current.pem", user)
        .replace(", client-key: /var/lib/kubelet/pki/current.pem", "");
    let all = [
        "/k/k",
        "/s/ca",
        "/s/cert",
        "/s/key",
        "/s/token",
        "/bin/plugin",
    ];
    for path in all {
        put(&root, path, "PEM");
    }
    put(&root, "/k/k", &config);
    let explicit = || find(&root, Some(Path::new("/k/k")), &[]).map_err(|all| all[0].to_string());
    explicit().expect("good");
    for path in all.into_iter().chain(["/k", "/s", "/bin"]) {
        let good = fs::metadata(root.path(path)).expect("there").permissions();
        mode(&root, path, good.mode() & 0o7777 | 0o020);
        let words = explicit().expect_err(path);
        let cure = format!("to use it: chmod go-w {path}");
        assert!(words.contains(&cure), "{path}: {words}");
        fs::set_permissions(root.path(path), good).expect("a mode");
    }
    explicit().expect("good again");
    chown(root.path("/s"), Some(65534), None).expect("this test wants root, which alone may chown");
    let words = explicit().expect_err("of nobody");
    assert!(words.contains("chown root:root /s"), "{words}");
    chown(root.path("/s"), Some(0), None).expect("back");
    // The same of a known place, and of the one that a kubelet names: another one is used.
    put(&root, KNOWN[1], CONFIG);
    for (place, kubelets) in [
        (KNOWN[0], vec![]),
        (
            "/tmp/x",
            vec![kubelet(&root, "kubelet\0--kubeconfig=/tmp/x\0")],
        ),
    ] {
        put(&root, place, &config);
        mode(&root, place, 0o666);
        let found = find(&root, None, &kubelets).expect("another");
        assert_eq!(found.path, Path::new(KNOWN[1]));
        let words = found.searched[0].to_string();
        assert!(
            words.starts_with(place) && words.contains("chmod go-w"),
            "{words}"
        );
    }
}

#[test]
fn i14_a_plugin_that_path_names_is_roots_and_stays_the_one_that_was_looked_at() {
    let (dir, root) = tree();
    let config = CONFIG.replace(
        "client-certificate: /var/lib/kubelet/pki/current.pem, client-key: /var/lib/kubelet/pki/current.pem",
        "exec: {command: sh, apiVersion: v1}",
    );
    put(&root, "/k", &config);
    let command = |root: &Root| {
        let found = find(root, Some(Path::new("/k")), &[]).expect("found");
        let user = found.kubeconfig.auth_infos[0].auth_info.clone();
        user.and_then(|user| user.exec)
            .and_then(|exec| exec.command)
    };
    let place = command(&root).expect("a command");
    assert!(
        Path::new(&place).is_absolute() && place.ends_with("/sh"),
        "{place}"
    );
    // Of a directory in PATH that is below the root, or not, the same is asked.
    let found = |whose: Whose, path: &str| {
        program::among(&root, "plugin", whose, path.as_ref()).map(Option::unwrap_or_default)
    };
    put(&root, "/bin/plugin", "#!/bin/sh");
    let bin = dir.path().join("bin").display().to_string();
    assert_eq!(
        found(Whose::Hosts, &bin),
        Ok(PathBuf::new()),
        "not executable"
    );
    mode(&root, "/bin/plugin", 0o755);
    let place = dir.path().join("bin/plugin");
    assert_eq!(
        found(Whose::Hosts, &format!("relative::{bin}")),
        Ok(place.clone())
    );
    mode(&root, "/bin", 0o1777);
    let words = found(Whose::Hosts, &format!("/nonexistent:{bin}")).expect_err("others' directory");
    assert!(words.starts_with("/bin belongs to"), "{words}");
    assert_eq!(found(Whose::Persons, &bin), Ok(place));
    let outside = tempfile::tempdir().expect("a directory");
    let plugin = outside.path().join("plugin");
    fs::write(&plugin, "#!/bin/sh").expect("written");
    fs::set_permissions(&plugin, fs::Permissions::from_mode(0o755)).expect("a mode");
    let words = found(Whose::Hosts, outside.path().to_str().expect("text")).expect_err("in /tmp");
    assert!(words.starts_with("/tmp belongs to"), "{words}");
}

#[test]
fn a_persons_kubeconfig_is_used_as_kubectl_does_whoever_could_change_it() {
    let (dir, root) = tree();
    put(&root, "/k", CONFIG);
    mode(&root, "/k", 0o666);
    let found = persons(&[dir.path().join("k")]).expect("found");
    assert_eq!(found.path, dir.path().join("k"));
}

#[test]
fn a_persons_kubeconfigs_are_merged_as_kubectl_merges_them() {
    let (dir, root) = tree();
    let named = |context: &str, server: &str| {
        format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: {context}\nclusters:\n- name: c\n  cluster: {{server: '{server}', certificate-authority: ca}}\ncontexts:\n- name: {context}\n  context: {{cluster: c, user: u}}\n"
        )
    };
    put(&root, "/a/k", &named("''", "https://first:1"));
    put(&root, "/b/k", &named("second", "https://second:1"));
    put(&root, "/c/k", CONFIG);
    let path = |name: &str| dir.path().join(name);
    let found = persons(&[path("a/k"), path("b/k"), path("c/k")])
        .expect("found")
        .kubeconfig;
    assert_eq!(found.current_context.as_deref(), Some("second"));
    assert_eq!(found.contexts.len(), 3);
    let cluster = found.clusters[0].cluster.as_ref().expect("a cluster");
    assert_eq!(cluster.server.as_deref(), Some("https://first:1"));
    // A relative path is that of the file it stands in.
    let authority = path("a/ca").display().to_string();
    assert_eq!(cluster.certificate_authority, Some(authority));
    let none = persons(&[path("a/k"), path("b/k")]).expect_err("no user at all");
    assert_eq!(none.len(), 2);
    assert!(none[0].to_string().contains("names no user"));
}

#[test]
fn i7_what_is_no_kubeconfig_is_named_and_passed_over() {
    let (_dir, root) = tree();
    put(&root, KNOWN[2], CONFIG);
    let there = root.clone();
    put(&root, KNOWN[0], "");
    odd::each(&root.path(KNOWN[0]), KUBECONFIG_MAX, move || {
        let found = find(&there, None, &[]).expect("another one");
        assert_eq!(found.path, Path::new(KNOWN[2]));
        found.searched[0].to_string()
    });
}

#[test]
fn i7_what_a_kubeconfig_names_is_refused_before_kube_reads_it() {
    let (_dir, root) = tree();
    let user = "client-certificate: /s/cert, client-key: /s/key, tokenFile: /s/token";
    let config = CONFIG
        .replace("pki/ca.crt", "/s/ca")
        .replace("client-certificate: /var/lib/kubelet/pki/current.pem", user)
        .replace(", client-key: /var/lib/kubelet/pki/current.pem", "");
    put(&root, "/k", &config);
    for name in ["/s/ca", "/s/cert", "/s/key", "/s/token"] {
        put(&root, name, "PEM");
    }
    find(&root, Some(Path::new("/k")), &[]).expect("found");
    for name in ["/s/ca", "/s/cert", "/s/key", "/s/token"] {
        let there = root.clone();
        odd::each(&root.path(name), SECRET_MAX, move || {
            let searched = find(&there, Some(Path::new("/k")), &[]).expect_err("refused");
            let wrong = searched[0].wrong.clone().expect("there");
            assert!(wrong.starts_with(name), "{wrong}");
            wrong
        });
        put(&root, name, "PEM");
    }
}

#[test]
fn i7_a_certificate_that_turns_into_something_else_is_a_change() {
    let (_dir, root) = tree();
    let config = CONFIG.replace("/var/lib/kubelet/pki/current.pem", "/s/cert");
    put(&root, "/k", &config);
    put(&root, "/s/cert", "PEM");
    let before = find(&root, Some(Path::new("/k")), &[])
        .expect("found")
        .fingerprint;
    odd::each(&root.path("/s/cert"), SECRET_MAX, move || {
        // Not the sparse one: it is larger than any file of a fingerprint.
        assert!(before.changed());
        "not a regular file; larger than".to_owned()
    });
}

#[test]
fn i7_a_process_whose_files_are_no_files_names_no_kubeconfig() {
    let (_dir, root) = tree();
    put(&root, "/opt/kubeconfig", CONFIG);
    let line = "kubelet\0--kubeconfig\0/opt/kubeconfig\0";
    for (name, limit) in [
        ("cmdline", COMMAND_MAX),
        ("status", SMALL_MAX),
        ("cgroup", SMALL_MAX),
    ] {
        for odd in Odd::ALL {
            let process = kubelet(&root, line);
            odd.put(&root.path(format!("/proc/7/{name}")), limit);
            let there = root.clone();
            let found = odd::soon(odd, move || running::kubeconfigs(&there, &[process]));
            assert_eq!(found, Vec::<PathBuf>::new(), "{name} {odd:?}");
            fs::remove_dir_all(root.path("/proc")).expect("removed");
        }
    }
    let process = kubelet(&root, line);
    Odd::ALL[0].put(&root.path("/proc/7/comm"), SMALL_MAX);
    // The command line says the program's name as well.
    assert_eq!(
        running::kubeconfigs(&root, &[process]),
        [Path::new("/opt/kubeconfig")]
    );
}

#[test]
fn paths_resolve_below_the_root_and_a_rotation_is_noticed() {
    let (dir, root) = tree();
    put(&root, "/var/lib/kubelet/kubeconfig", CONFIG);
    put(&root, "/var/lib/kubelet/pki/ca.crt", "ca");
    put(&root, "/var/lib/kubelet/pki/1.pem", "one");
    put(&root, "/var/lib/kubelet/pki/2.pem", "two");
    let link = root.path("/var/lib/kubelet/pki/current.pem");
    symlink("/var/lib/kubelet/pki/1.pem", &link).expect("a link");
    let found = find(&root, None, &[]).expect("found");
    let user = found.kubeconfig.auth_infos[0].auth_info.as_ref();
    let certificate = user.and_then(|user| user.client_certificate.clone());
    let expected = dir.path().join("var/lib/kubelet/pki/1.pem");
    assert_eq!(certificate, Some(expected.display().to_string()));
    assert!(!found.fingerprint.changed());
    put(&root, "/var/lib/kubelet/pki/1.pem", "renewed");
    assert!(found.fingerprint.changed());
    // As the kubelet renews: another link, renamed over the old one.
    let found = find(&root, None, &[]).expect("found");
    let other = root.path("/var/lib/kubelet/pki/next.pem");
    symlink("/var/lib/kubelet/pki/2.pem", &other).expect("a link");
    fs::rename(&other, &link).expect("renamed");
    assert!(found.fingerprint.changed());
}

/// `CONFIG` as JSON, which is YAML too.
fn config() -> serde_json::Value {
    serde_json::json!({"apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1", "certificate-authority": "pki/ca.crt"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "users": [{"name": "u", "user": {"client-certificate": "/s/cert", "client-key": "../../../../s/key",
            "tokenFile": "/s/token", "exec": {"command": "./plugin", "apiVersion": "v1"}}}]})
}

/// What was found has a user, and every path in it lies below the root.
fn sound(root: &Root, text: &str) -> Result<(), TestCaseError> {
    put(root, "/k", text);
    let Ok(found) = find(root, Some(Path::new("/k")), &[]) else {
        return Ok(());
    };
    let users = &found.kubeconfig.auth_infos;
    prop_assert!(!users.is_empty());
    prop_assert!(matches!(
        found.kubeconfig.kind.as_deref(),
        None | Some("Config")
    ));
    let users = users.iter().filter_map(|user| user.auth_info.as_ref());
    let paths =
        users.flat_map(|user| [&user.client_certificate, &user.client_key, &user.token_file]);
    let clusters = found.kubeconfig.clusters.iter();
    let authorities =
        clusters.filter_map(|named| Some(&named.cluster.as_ref()?.certificate_authority));
    for path in paths
        .chain(authorities)
        .flatten()
        .filter(|path| !path.is_empty())
    {
        prop_assert!(Path::new(path).starts_with(root.path("/")), "{path}");
        prop_assert!(!path.contains(".."), "{path}");
    }
    Ok(())
}

proptest! {
    #[test]
    fn i8_no_text_at_all_is_a_kubeconfig(text in any::<String>()) {
        let (_dir, root) = tree();
        put(&root, "/k", &text);
        prop_assert!(find(&root, Some(Path::new("/k")), &[]).is_err());
    }

    #[test]
    fn a_damaged_kubeconfig_is_refused_or_stays_below_the_root(text in prop_oneof![
        garble::text(CONFIG), garble::json(config()).prop_map(|value| value.to_string())]) {
        let (_dir, root) = tree();
        sound(&root, &text)?;
    }
}

#[test]
fn i7_a_kubeconfig_that_grows_when_it_is_read_is_refused_in_bounded_time_and_memory() {
    let (_dir, root) = tree();
    // Each anchor is ten of the one before: 10^9 words in 1 KiB.
    let mut bomb = "a0: &a0 [lol,lol,lol,lol,lol,lol,lol,lol,lol,lol]\n".to_owned();
    for n in 1..9 {
        let aliases = vec![format!("*a{}", n - 1); 10].join(",");
        let _ = writeln!(bomb, "a{n}: &a{n} [{aliases}]");
    }
    let merges = "users:\n- name: u\n  user: &u {username: x}\n".to_owned()
        + &"- {<<: *u, name: v}\n".repeat(60_000);
    let many = "users: [".to_owned() + &"{name: u},".repeat(300_000) + "]\n";
    let mut texts = garble::deep(1 << 20);
    texts.extend([
        format!("{bomb}{CONFIG}"),
        format!("{CONFIG}{bomb}"),
        merges,
        many,
        "---\n".repeat(1 << 20),
        "&a ".repeat(1 << 20),
    ]);
    for text in texts {
        let begins: String = text.chars().take(40).collect();
        eprintln!("{begins:?}");
        put(&root, "/k", &text);
        let there = root.clone();
        let found = garble::soon(move || {
            find(&there, Some(Path::new("/k")), &[]).map(|found| found.kubeconfig.auth_infos.len())
        });
        assert!(found.is_err(), "{begins}: {found:?}");
    }
    odd::memory();
}
