//! Whose kubeconfig root believes: PID 1 names the kubelet's process, and only root can change the files (I14).

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::Path;

use kube_rebootd::cluster::credentials;
use kube_rebootd::daemon;
use kube_rebootd::host::{Bus, systemd};
use kube_rebootd::root::Root;
use serde_json::{Value, json};

use crate::cli_host::{CliHost, terminate};
use crate::fake_bus::FakeHostBus;
use crate::plane::until;

/// Of the user `nobody`.
const NOBODY: u32 = 65534;
const KNOWN: &str = "/etc/kubernetes/kubelet.conf";

/// A kubeconfig of `user`.
fn kubeconfig(user: &Value) -> String {
    json!({"apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1", "insecure-skip-tls-verify": true}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "users": [{"name": "u", "user": user}]})
    .to_string()
}

/// One whose plugin leaves a mark.
fn hostile(mark: &Path) -> String {
    let line = format!("touch {}; echo {{}}", mark.display());
    let exec = json!({"apiVersion": "client.authentication.k8s.io/v1", "interactiveMode": "Never",
        "command": "sh", "args": ["-c", line]});
    kubeconfig(&json!({"exec": exec}))
}

#[tokio::test]
async fn i14_pid_1_says_which_process_is_the_kubelet() {
    let host = FakeHostBus::start().await;
    let service = |name: &str, pid: u32| {
        let cgroup = format!("/system.slice/{name}");
        (name.to_owned(), pid, cgroup)
    };
    host.knobs().services = vec![
        service("kubelet.service", 7),
        service("snap.kubelet-eks.daemon.service", 8),
        // It has no process now.
        service("kubelet-wrapper.service", 0),
        service("containerd.service", 9),
        service("kubelet.scope", 10),
    ];
    let bus = Bus::at(host.address());
    let kubelets = systemd::kubelets(&bus).await.expect("answered");
    let found: Vec<_> = kubelets
        .iter()
        .map(|process| (process.pid, process.unit.as_str(), process.cgroup.as_str()))
        .collect();
    let (unit, snap) = ("kubelet.service", "snap.kubelet-eks.daemon.service");
    let cgroup = format!("/system.slice/{snap}");
    assert_eq!(
        found,
        [
            (7, unit, "/system.slice/kubelet.service"),
            (8, snap, &cgroup)
        ]
    );

    // What it named is believed as far as /proc agrees.
    let tree = CliHost::start().await;
    tree.write("/opt/own.conf", &hostile(Path::new("/nonexistent")));
    let process = |pid: u32, uid: u32, unit: &str| {
        let ids = format!("{uid}\t{uid}\t{uid}\t{uid}");
        let status = format!("Name:\tkubelet\nUid:\t{ids}\nNSpid:\t{pid}\n");
        let write = |name: &str, text: &str| tree.write(&format!("/proc/{pid}/{name}"), text);
        write("status", &status);
        write("cgroup", &format!("0::/system.slice/{unit}\n"));
        write("comm", "kubelet\n");
        write("cmdline", "kubelet\0--kubeconfig=/opt/own.conf\0");
    };
    for pid in [9, 10, 11] {
        process(pid, 0, unit);
    }
    process(7, NOBODY, unit);
    credentials::find(&tree.root(), None, &kubelets).expect_err("none of them");
    process(8, 0, snap);
    let found = credentials::find(&tree.root(), None, &kubelets).expect("that one");
    assert_eq!(found.path, Path::new("/opt/own.conf"));
}

#[tokio::test]
async fn i14_without_a_system_bus_no_process_is_believed() {
    let nowhere = Bus::at("unix:path=/nonexistent");
    systemd::kubelets(&nowhere).await.expect_err("no bus");
    assert_eq!(daemon::kubelets(&Root::host(), &nowhere).await, []);
    // PID 1 knows nothing of a directory tree.
    let tree = CliHost::start().await;
    let service = ("kubelet.service".to_owned(), 7, "/x".to_owned());
    tree.bus.knobs().services = vec![service];
    let bus = Bus::at(tree.bus.address());
    assert_eq!(systemd::kubelets(&bus).await.expect("answered").len(), 1);
    assert_eq!(daemon::kubelets(&tree.root(), &bus).await, []);
}

#[tokio::test]
async fn i14_run_doctor_undrain_and_check_run_nothing_that_others_could_change() {
    let host = CliHost::start().await;
    // The built-in check of the kernel has nothing to look at here.
    host.write(
        "/etc/kube-rebootd/config.toml",
        "[triggers]\nbuiltin = []\n",
    );
    let mark = host.root().path("/ran");
    let file = host.write(KNOWN, &hostile(&mark));
    for (owner, mode, cure) in [
        (NOBODY, 0o644, format!("chown root:root {KNOWN}")),
        (0, 0o666, format!("chmod go-w {KNOWN}")),
    ] {
        chown(&file, Some(owner), None).expect("this test wants root, which alone may chown");
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).expect("a mode");
        let doctor = host.run(&["doctor"]).await;
        assert_eq!(doctor.code, Some(1), "{}", doctor.out);
        assert!(doctor.out.contains(&cure), "{}", doctor.out);
        let undrain = host.run(&["undrain", "--release", "--timeout", "1"]).await;
        assert_eq!(undrain.code, Some(1), "{}", undrain.err);
        assert!(undrain.err.contains(&cure), "{}", undrain.err);
        // It needs no credential, and looks for none.
        let check = host.run(&["check"]).await;
        assert_eq!(check.code, Some(0), "{}", check.err);
        let daemon = host.daemon();
        until("the daemon to refuse it", || async {
            host.log().contains(&cure).then_some(())
        })
        .await;
        terminate(daemon).await;
        assert!(!mark.exists(), "its plugin ran");
    }
    // Where it is root's own it runs: the test can fail.
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).expect("a mode");
    for words in [&["doctor"][..], &["undrain", "--release", "--timeout", "2"]] {
        let said = host.run(words).await;
        assert!(mark.exists(), "{words:?}: {}{}", said.out, said.err);
        fs::remove_file(&mark).expect("removed");
    }
    // By PID 1, outside the daemon's sandbox. Everybody may read a unit's properties: its environment is not there.
    let started = host.bus.knobs().started.clone();
    let plugin = |(name, _): &&(String, Vec<String>)| name.starts_with("kube-rebootd-plugin-sh-");
    let (_, properties) = started.iter().find(plugin).expect("a transient unit");
    let given = |name: &str| properties.iter().any(|property| property == name);
    assert!(
        given("EnvironmentFiles") && !given("Environment"),
        "{properties:?}"
    );
}

#[tokio::test]
async fn i14_an_auth_provider_is_refused() {
    let host = CliHost::start().await;
    let mark = host.root().path("/ran");
    let file = mark.display().to_string();
    let user = json!({"auth-provider": {"name": "gcp", "config": {"cmd-path": "/bin/touch", "cmd-args": file}}});
    let place = host.write(KNOWN, &kubeconfig(&user));
    let said = host.run(&["doctor"]).await;
    assert!(said.out.contains("has an auth-provider"), "{}", said.out);
    let place = place.display().to_string();
    let said = host.run(&["nodes", "--kubeconfig", &place]).await;
    assert!(said.err.contains("has an auth-provider"), "{}", said.err);
    assert!(!mark.exists(), "its program ran");
}
