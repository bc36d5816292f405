//! Where credentials are found, and what is refused in their place (I7, I8).

use std::fmt::Write as _;
use std::os::unix::fs::symlink;

use proptest::prelude::*;

use super::*;
use crate::bounded::odd::{self, Odd};
use crate::garble;

const CONFIG: &str = "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters:\n- name: c\n  cluster: {server: 'https://127.0.0.1:1', certificate-authority: pki/ca.crt}\ncontexts:\n- name: c\n  context: {cluster: c, user: u}\nusers:\n- name: u\n  user: {client-certificate: /var/lib/kubelet/pki/current.pem, client-key: /var/lib/kubelet/pki/current.pem}\n";

fn put(root: &Root, path: &str, text: &str) {
    let file = root.path(path);
    fs::create_dir_all(file.parent().expect("a parent")).expect("directories");
    fs::write(file, text).expect("a file");
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
    let searched = find(&root, None).expect_err("no kubeconfig");
    assert_eq!(searched.len(), KNOWN.len());
    let wrong = searched[0].wrong.as_deref().expect("there");
    assert!(wrong.contains("KubeletConfiguration"), "{wrong}");
    // No more than its name: most of them are never there.
    assert_eq!(searched[1].wrong, None);
    assert_eq!(searched[1].to_string(), KNOWN[1]);
    let explicit = find(&root, Some(Path::new("/x"))).expect_err("no kubeconfig");
    assert_eq!(explicit.len(), 1);
}

#[test]
fn the_running_kubelet_comes_before_the_known_places() {
    let (_dir, root) = tree();
    put(&root, "/etc/kubernetes/kubelet.conf", CONFIG);
    put(&root, "/opt/kubeconfig", CONFIG);
    put(&root, "/proc/7/comm", "kubelet\n");
    put(
        &root,
        "/proc/7/cmdline",
        "/usr/bin/kubelet\0--v=2\0--kubeconfig\0/opt/kubeconfig\0",
    );
    put(&root, "/proc/8/comm", "grep\n");
    put(&root, "/proc/8/cmdline", "grep\0--kubeconfig=/wrong\0");
    let found = find(&root, None).expect("found");
    assert_eq!(found.path, Path::new("/opt/kubeconfig"));
}

#[test]
fn i7_what_is_no_kubeconfig_is_named_and_passed_over() {
    let (_dir, root) = tree();
    put(&root, KNOWN[2], CONFIG);
    let there = root.clone();
    put(&root, KNOWN[0], "");
    odd::each(&root.path(KNOWN[0]), KUBECONFIG_MAX, move || {
        let found = find(&there, None).expect("another one");
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
    find(&root, Some(Path::new("/k"))).expect("found");
    for name in ["/s/ca", "/s/cert", "/s/key", "/s/token"] {
        let there = root.clone();
        odd::each(&root.path(name), SECRET_MAX, move || {
            let searched = find(&there, Some(Path::new("/k"))).expect_err("refused");
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
    let before = find(&root, Some(Path::new("/k")))
        .expect("found")
        .fingerprint;
    odd::each(&root.path("/s/cert"), SECRET_MAX, move || {
        // Not the sparse one: it is larger than any file of a fingerprint.
        assert!(before.changed());
        "not a regular file; larger than".to_owned()
    });
}

#[test]
fn i7_a_command_line_that_is_no_file_names_no_kubeconfig() {
    let (_dir, root) = tree();
    put(&root, "/opt/kubeconfig", CONFIG);
    let line = "kubelet\0--kubeconfig\0/opt/kubeconfig\0";
    for odd in Odd::ALL {
        put(&root, "/proc/7/comm", "kubelet\n");
        put(&root, "/proc/8/cmdline", line);
        odd.put(&root.path("/proc/7/cmdline"), COMMAND_MAX);
        odd.put(&root.path("/proc/8/comm"), COMM_MAX);
        let there = root.clone();
        // The other process says its name in its command line.
        let found = odd::soon(odd, move || running(&there));
        assert_eq!(found, [Path::new("/opt/kubeconfig")], "{odd:?}");
    }
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
    let found = find(&root, None).expect("found");
    let user = found.kubeconfig.auth_infos[0].auth_info.as_ref();
    let certificate = user.and_then(|user| user.client_certificate.clone());
    let expected = dir.path().join("var/lib/kubelet/pki/1.pem");
    assert_eq!(certificate, Some(expected.display().to_string()));
    assert!(!found.fingerprint.changed());
    put(&root, "/var/lib/kubelet/pki/1.pem", "renewed");
    assert!(found.fingerprint.changed());
    // As the kubelet renews: another link, renamed over the old one.
    let found = find(&root, None).expect("found");
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
    let Ok(found) = find(root, Some(Path::new("/k"))) else {
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
        prop_assert!(find(&root, Some(Path::new("/k"))).is_err());
    }

    #[test]
    fn a_damaged_kubeconfig_is_refused_or_stays_below_the_root(text in prop_oneof![
        garble::text(CONFIG), garble::json(config()).prop_map(|value| value.to_string())]) {
        let (_dir, root) = tree();
        sound(&root, &text)?;
    }

    #[test]
    fn only_a_kubelets_last_flag_names_a_kubeconfig(
        words in prop::collection::vec(prop_oneof![
            Just("--kubeconfig".to_owned()), Just("-kubeconfig".to_owned()), "--?kubeconfig=[/a-z]{0,5}", "[-a-z=/]{0,8}",
        ], 0..8), program in prop_oneof!["/usr/bin/kubelet", "kubelet", "kubectl", "kube", "grep", ".{0,5}"], comm in prop_oneof!["kubelet", "sh"]) {
        let line: Vec<u8> = std::iter::once(&program).chain(&words).flat_map(|word| word.bytes().chain([0])).collect();
        let found = flag(&line, &comm);
        let kubelet = comm == "kubelet" || Path::new(program.split('\0').next().unwrap_or_default()).file_name() == Some("kubelet".as_ref());
        if let Some(found) = &found {
            prop_assert!(kubelet && !found.as_os_str().is_empty());
            let found = found.to_str().expect("text");
            prop_assert!(words.iter().any(|word| word == found || word.strip_suffix(found).is_some_and(|flag| flag.ends_with("kubeconfig="))));
        }
        let last = words.last().and_then(|word| word.strip_prefix("--kubeconfig=")).filter(|path| !path.is_empty());
        let taken = words.len() > 1 && words[words.len() - 2].trim_start_matches('-') == "kubeconfig";
        if let Some(last) = last.filter(|_| kubelet && !taken && !program.contains('\0') && !program.is_empty()) {
            prop_assert_eq!(found, Some(PathBuf::from(last)));
        }
    }

    #[test]
    fn any_bytes_as_a_command_line_are_answered(line in prop::collection::vec(any::<u8>(), 0..80), cut in garble::bytes(b"kubelet\0--kubeconfig\0/k\0".to_vec())) {
        prop_assert_eq!(flag(&line, "init"), None);
        let _ = (flag(&line, "kubelet"), flag(&cut, ""));
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
            find(&there, Some(Path::new("/k"))).map(|found| found.kubeconfig.auth_infos.len())
        });
        assert!(found.is_err(), "{begins}: {found:?}");
    }
    odd::memory();
}
