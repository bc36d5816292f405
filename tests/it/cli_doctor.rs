//! `doctor` on a real API server and a fake host: what is wrong is named with its cure.

mod rows;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use crate::cli_host::{CliHost, Said};
use crate::plane::{Host, enter, make_slot, until};

/// A healthy host of the plane, in a group of its own with one open slot.
async fn healthy(group: &str) -> CliHost {
    joined(group).await.0
}

/// The same, with its Node.
async fn joined(group: &str) -> (CliHost, Host) {
    let plane = enter();
    let node = plane.host().await;
    make_slot(&node.admin, group, group).await;
    let host = CliHost::start().await;
    host.join(plane.write_kubeconfig(&node.name));
    configure(&host, group, "coordinator");
    (host, node)
}

fn configure(host: &CliHost, group: &str, impersonate: &str) {
    let text = format!("[coordination]\ngroup = \"{group}\"\nimpersonate = \"{impersonate}\"\n");
    host.write("/etc/kube-rebootd/config.toml", &text);
}

/// The lines of the check `name`: verdict and cure.
pub(crate) fn lines<'a>(said: &'a Said, name: &str) -> (&'a str, &'a str) {
    let mut lines = said.out.lines();
    let found = lines.by_ref().find(|line| {
        let rest = line.get(6..).unwrap_or_default();
        rest.starts_with(&format!("{name} "))
    });
    let verdict = found.unwrap_or_else(|| panic!("no check {name}:\n{}", said.out));
    (verdict, lines.next().unwrap_or_default())
}

fn fails(said: &Said, name: &str, what: &str, cure: &str) {
    assert_eq!(said.code, Some(1), "{}", said.out);
    let (verdict, next) = lines(said, name);
    assert!(verdict.starts_with("FAIL"), "{}", said.out);
    assert!(verdict.contains(what), "{}", said.out);
    assert!(
        next.contains("cure: ") && next.contains(cure),
        "{}",
        said.out
    );
}

#[tokio::test]
async fn a_healthy_host_passes() {
    let host = healthy("doc-healthy").await;
    let said = host.run(&["doctor"]).await;
    assert_eq!(said.code, Some(0), "{}{}", said.out, said.err);
    for name in [
        "configuration",
        "systemd",
        "unit",
        "logind",
        "inhibitors",
        "packages",
        "state",
        "kubeconfig",
        "API server",
        "identity",
        "clock",
        "node repair",
        "own Node",
        "own heartbeat",
        "pods",
        "budgets",
        "grant",
        "other Nodes",
        "waiters",
        "slots",
        "slot write",
        "impersonation",
        "gate.d",
        "pre-drain.d",
        "pre-reboot.d",
        "post-boot.d",
        "undo.d",
    ] {
        let (verdict, _) = lines(&said, name);
        assert!(verdict.starts_with("ok "), "{name}:\n{}", said.out);
    }
    assert!(!said.out.contains('\u{1b}'), "colour only on a terminal");
}

/// Nothing would be drained for it: that is to be known before a reboot is wanted.
#[tokio::test]
async fn i8_a_host_that_does_no_soft_reboots_is_named() {
    let host = healthy("doc-soft").await;
    let text = "[reboot]\nkind = \"soft-reboot\"\n";
    host.write("/etc/kube-rebootd/config.d/50-reboot.toml", text);
    let said = host.run(&["doctor"]).await;
    assert!(
        lines(&said, "soft-reboots").0.starts_with("ok "),
        "{}",
        said.out
    );
    let said = host.run(&["config", "check"]).await;
    assert_eq!(
        (said.code, said.err.as_str()),
        (Some(0), ""),
        "{}",
        said.out
    );
    host.bus.knobs().version = "252.39-1~deb12u1".to_owned();
    let said = host.run(&["doctor"]).await;
    fails(
        &said,
        "soft-reboots",
        "systemd 252 of this host has none",
        "reboot.kind = \"reboot\"",
    );
    let said = host.run(&["config", "check"]).await;
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert!(
        said.err.contains("systemd 252 of this host has none"),
        "{}",
        said.err
    );
}

/// Seen on a machine with systemd-boot: after a reboot into an entry that was found good before nothing begins the target.
#[tokio::test]
async fn i4_a_boot_complete_target_that_nothing_begins_is_named() {
    let host = healthy("doc-complete").await;
    let text = "[health]\nboot_complete = true\n";
    host.write("/etc/kube-rebootd/config.d/50-health.toml", text);
    for (required_by, verdict) in [
        (&["systemd-bless-boot.service"][..], "warn"),
        (&[], "warn"),
        (&["systemd-bless-boot.service", "multi-user.target"], "ok"),
    ] {
        host.bus.knobs().required_by = required_by;
        let said = host.run(&["doctor"]).await;
        let (line, cure) = lines(&said, "boot-complete");
        let line = line.to_lowercase();
        assert!(line.starts_with(verdict), "{required_by:?}\n{}", said.out);
        let cured = cure.contains("systemctl add-wants multi-user.target");
        assert_eq!(cured, verdict == "warn", "{}", said.out);
    }
}

/// What the command prints for another namespace gives a node there all that it needs, and binds it as well.
#[tokio::test]
async fn manifests_for_another_namespace_are_complete() {
    let plane = enter();
    let host = CliHost::start().await;
    let node = plane.host().await;
    let elsewhere = format!("elsewhere-{}", node.name);
    let said = host
        .run(&["manifests", "--namespace", &elsewhere, "--group", "Pool_A"])
        .await;
    assert_eq!(said.code, Some(0), "{}", said.err);
    host.join(plane.write_kubeconfig(&node.name));
    let config = format!("[coordination]\nnamespace = \"{elsewhere}\"\ngroup = \"Pool_A\"\n");
    host.write("/etc/kube-rebootd/config.toml", &config);
    let before = host.run(&["doctor"]).await;
    let cure = format!("kube-rebootd manifests --namespace {elsewhere} |");
    fails(&before, "slots", "denied (403)", &cure);
    // What belongs to the whole cluster is there already for the usual namespace, and is not to be changed.
    let all = said
        .out
        .replace("ame: kube-rebootd", &format!("ame: {elsewhere}"));
    plane.kubectl(&["apply", "--server-side", "-f", "-"], &all);
    let said = host.run(&["doctor"]).await;
    assert_eq!(said.code, Some(0), "{}{}", said.out, said.err);
    for name in [
        "grant",
        "other Nodes",
        "waiters",
        "slot write",
        "impersonation",
    ] {
        assert!(
            lines(&said, name).0.starts_with("ok "),
            "{name}:\n{}",
            said.out
        );
    }
    let (verdict, cure) = lines(&said, "slots");
    assert!(
        verdict.starts_with("warn") && verdict.contains("pool-a"),
        "{}",
        said.out
    );
    assert!(
        cure.contains(&format!("-n {elsewhere} annotate lease pool-a ")),
        "{cure}"
    );
    // The policy on Leases is in force there: a node cannot take what another one holds.
    let me = format!("--as=system:serviceaccount:{elsewhere}:coordinator");
    let take = |holder: &str| {
        let body = format!("{{\"spec\":{{\"holderIdentity\":\"{holder}\"}}}}");
        let words = [
            "-n",
            &elsewhere,
            "patch",
            "lease",
            "pool-a",
            "--type=merge",
            "-p",
            &body,
            &me,
        ];
        plane.try_kubectl(&words, "")
    };
    let taken = until("a policy binds some time after it is stored", || {
        // Taken by one, and then by the other, as long as nothing forbids it.
        let (refused, words) = take("n1");
        let (other, more) = take("n2");
        let told = format!("{words}{more}").contains("must be given up before");
        std::future::ready((told && (refused != other)).then_some(()))
    });
    taken.await;
    plane.kubectl(&["delete", "--wait=false", "-f", "-"], &all);
}

#[tokio::test]
async fn missing_rights_are_cured_by_the_manifests() {
    let host = healthy("doc-rights").await;
    // Nobody let nodes act as this one: as if the Roles had never been applied.
    configure(&host, "doc-rights", "nobody");
    let said = host.run(&["doctor"]).await;
    for name in ["other Nodes", "waiters", "slots"] {
        fails(&said, name, "denied (403)", "kube-rebootd manifests");
    }
    assert!(
        lines(&said, "slot write")
            .0
            .contains("skipped: needs slots")
    );
    assert!(
        lines(&said, "own Node").0.starts_with("ok "),
        "{}",
        said.out
    );
}

#[tokio::test]
async fn a_missing_lease_and_a_paused_one_are_told() {
    let host = healthy("doc-lease").await;
    configure(&host, "doc-none", "coordinator");
    let said = host.run(&["doctor"]).await;
    fails(
        &said,
        "slots",
        "group doc-none has no Lease",
        "kube-rebootd manifests --group doc-none",
    );
    // As shipped: the last step of an installation opens it.
    configure(&host, "default", "coordinator");
    let said = host.run(&["doctor"]).await;
    assert_eq!(said.code, Some(0), "{}", said.out);
    let (verdict, cure) = lines(&said, "slots");
    assert!(verdict.starts_with("warn"), "{}", said.out);
    assert!(
        cure.contains("annotate lease default kube-rebootd/paused-"),
        "{cure}"
    );
}

#[tokio::test]
async fn an_unreachable_server_fails_once_and_the_rest_is_skipped() {
    let host = healthy("doc-away").await;
    let file = host.root().path("/etc/kubernetes/kubelet.conf");
    let text = fs::read_to_string(&file).expect("a kubeconfig");
    fs::write(&file, text.replace(":6443", ":1")).expect("written");
    let said = host.run(&["doctor"]).await;
    fails(&said, "API server", "no answer", "can be reached from here");
    assert_eq!(said.out.matches("FAIL").count(), 1, "{}", said.out);
    assert!(
        lines(&said, "slots")
            .0
            .contains("skipped: needs API server")
    );
    assert!(lines(&said, "logind").0.starts_with("ok "), "{}", said.out);
}

#[tokio::test]
async fn a_host_without_logind_or_with_an_old_systemd_is_told() {
    let mut host = healthy("doc-host").await;
    host.bus.stop_logind().await;
    host.bus.knobs().version = "240".to_owned();
    let said = host.run(&["doctor"]).await;
    fails(
        &said,
        "logind",
        "logind",
        "systemctl restart systemd-logind",
    );
    fails(
        &said,
        "systemd",
        "240 is older than 252",
        "update the distribution",
    );
    assert!(
        lines(&said, "inhibitors")
            .0
            .contains("skipped: needs logind")
    );
    assert!(
        lines(&said, "slot write").0.starts_with("ok "),
        "{}",
        said.out
    );
}

/// Found by review: all was said to be well on a host that would wait for its window for ever.
#[tokio::test]
async fn a_clock_that_nobody_synchronizes_is_told_where_windows_rest_on_it() {
    let host = healthy("doc-clock").await;
    host.bus.knobs().synchronized = Some(false);
    let said = host.run(&["doctor"]).await;
    assert!(!said.out.contains("clock sync"), "{}", said.out);
    let window = "[[windows]]\nstart = \"22:00\"\nend = \"05:00\"\ntime_zone = \"UTC\"\n";
    host.write("/etc/kube-rebootd/config.d/50-windows.toml", window);
    for (synchronized, verdict) in [(Some(true), "ok "), (None, "warn"), (Some(false), "warn")] {
        host.bus.knobs().synchronized = synchronized;
        let said = host.run(&["doctor"]).await;
        let (found, cure) = lines(&said, "clock sync");
        assert!(found.starts_with(verdict), "{synchronized:?}: {}", said.out);
        let cured = cure.contains("timedatectl set-ntp true");
        assert_eq!(cured, verdict == "warn", "{}", said.out);
        let last = said.out.lines().last().unwrap_or_default();
        assert_eq!(last.contains("the clock is synchronized"), cured, "{last}");
    }
}

#[tokio::test]
async fn updaters_that_reboot_fail_and_what_passes_is_waited_for() {
    let host = healthy("doc-rivals").await;
    host.write(
        "/etc/apt/apt.conf.d/50unattended-upgrades",
        "Unattended-Upgrade::Automatic-Reboot \"true\";\n",
    );
    host.write(
        "/etc/dnf/automatic.conf",
        "[commands]\nreboot = when-needed\n",
    );
    host.write("/var/lib/pacman/db.lck", "");
    host.bus.knobs().leftovers = vec![
        "locksmithd.service".to_owned(),
        "bootc-fetch-apply-updates.timer".to_owned(),
        "rebootmgr.service".to_owned(),
    ];
    host.bus
        .inhibit(&[("shutdown", "backup", "tapes are turning", "block")])
        .await;
    let said = host.run(&["doctor"]).await;
    for (name, cure) in [
        ("unattended-upgrades", "Automatic-Reboot \"false\""),
        ("dnf-automatic", "reboot = never"),
        ("locksmithd", "REBOOT_STRATEGY=off"),
        (
            "bootc",
            "systemctl mask --now bootc-fetch-apply-updates.timer",
        ),
    ] {
        fails(&said, name, "reboots", cure);
    }
    for (name, cure) in [
        (
            "other daemons",
            "systemctl mask --now locksmithd.service rebootmgr.service",
        ),
        ("inhibitors", "systemd-inhibit --list"),
        ("packages", "a reboot waits until that has finished"),
    ] {
        let (verdict, next) = lines(&said, name);
        assert!(verdict.starts_with("warn"), "{}", said.out);
        assert!(next.contains(cure), "{}", said.out);
    }
    let last = said.out.lines().last().unwrap_or_default();
    assert!(last.starts_with("4 failures, "), "{last}");
    let json = host.run(&["doctor", "--json"]).await;
    assert_eq!(json.code, Some(1));
    let value: serde_json::Value = serde_json::from_str(&json.out).expect("JSON");
    assert_eq!(value["failures"], 4, "{value}");
}

/// Else each would be noticed with the slot held.
#[tokio::test]
async fn hooks_commands_and_servers_that_are_not_ready_are_told_with_their_cures() {
    let host = healthy("doc-admins").await;
    host.write(
        "/etc/kube-rebootd/config.d/50-gates.toml",
        "[[gates.command]]\nname = \"ceph\"\ncommand = [\"/opt/none\"]\n\
         [[gates.prometheus]]\nname = \"main\"\nurl = \"http://127.0.0.1:1\"\n",
    );
    let mode = |name: &str, mode| {
        let file = host.write(&format!("/etc/kube-rebootd/hooks/{name}"), "#!/bin/sh\n");
        fs::set_permissions(file, fs::Permissions::from_mode(mode)).expect("a mode");
    };
    mode("gate.d/10-ceph", 0o775);
    mode("pre-drain.d/10-noout", 0o755);
    mode("post-boot.d/10-ceph", 0o644);
    mode("undo.d/10-noout", 0o644);
    let said = host.run(&["doctor"]).await;
    fails(&said, "gate.d", "mode 0775", "chmod go-w /etc/kube-rebootd");
    fails(&said, "undo.d", "nobody may execute", "chmod +x /etc");
    fails(
        &said,
        "gate commands",
        "ceph: there is no /opt/none",
        "install",
    );
    fails(&said, "prometheus", "main cannot be asked", "can reach it");
    let (idle, cure) = lines(&said, "post-boot.d");
    assert!(
        idle.starts_with("warn") && cure.contains("chmod +x"),
        "{}",
        said.out
    );
    let (alone, _) = lines(&said, "pre-drain.d");
    assert!(
        alone.starts_with("ok ") && alone.contains("no hook of undo.d"),
        "{}",
        said.out
    );
    assert_eq!(said.out.matches("FAIL").count(), 4, "{}", said.out);
}
