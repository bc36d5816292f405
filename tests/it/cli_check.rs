//! `kube-rebootd check` on a directory as host: its words, its exit codes, its JSON.

use serde_json::json;

use crate::cli_host::CliHost;

/// A host with a kernel, and a newer one that was installed since boot.
async fn host() -> CliHost {
    let host = CliHost::start().await;
    host.write("/proc/sys/kernel/osrelease", "6.1.0-28-amd64\n");
    host.write("/proc/sys/kernel/version", "#1 SMP\n");
    // All files are made after it.
    host.write("/proc/stat", "cpu 1 2 3\nbtime 1000\nprocesses 5\n");
    host.write("/boot/vmlinuz-6.1.0-28-amd64", "MZ");
    host.write("/usr/lib/modules/6.1.0-28-amd64/kernel/fs/a.ko", "");
    host
}

fn with_builtin(host: &CliHost, more: &str) {
    let text = format!("[triggers]\nbuiltin = [\"kernel\"]\n{more}");
    host.write("/etc/kube-rebootd/config.toml", &text);
}

#[tokio::test]
async fn every_trigger_is_asked() {
    let host = host().await;
    with_builtin(
        &host,
        "sentinels = [\"/run/a\", \"/run/b\"]\n[[triggers.check]]\nname = \"dnf\"\n\
         command = [\"/bin/sh\", \"-c\", \"echo glibc; exit 1\"]\nreboot_exit_codes = [1]\n",
    );
    host.write("/run/b", "updates");
    host.write("/boot/vmlinuz-6.1.0-29-amd64", "MZ");
    let said = host.run(&["check"]).await;
    assert_eq!(
        said.out,
        "sentinel /run/a  no\n\
         sentinel /run/b  reboot   updates\n\
         builtin kernel   reboot   kernel 6.1.0-28-amd64 runs, 6.1.0-29-amd64 was installed since boot\n\
         check dnf        reboot   glibc\n"
    );
    assert_eq!((said.code, said.err.as_str()), (Some(0), ""));
}

#[tokio::test]
async fn only_a_live_patch_that_is_applied_is_told() {
    let host = host().await;
    with_builtin(&host, "sentinels = []\n");
    host.write("/boot/vmlinuz-6.1.0-29-amd64", "MZ");
    for (name, enabled, transition) in [
        ("kpatch_1", "1", "0"),
        ("out", "0", "1"),
        ("off", "0", "0"),
        ("in", "1", "1"),
    ] {
        let file = |file: &str, text: &str| {
            let path = format!("/sys/kernel/livepatch/{name}/{file}");
            host.write(&path, &format!("{text}\n"));
        };
        file("enabled", enabled);
        file("transition", transition);
    }
    // It says nothing.
    host.write("/sys/kernel/livepatch/odd/enabled", "1\n");
    let said = host.run(&["check"]).await;
    assert_eq!(
        said.out,
        "builtin kernel  reboot   kernel 6.1.0-28-amd64 runs, 6.1.0-29-amd64 was installed since boot; live patches \
         applied: kpatch_1\n"
    );
}

#[tokio::test]
async fn i8_what_does_not_answer_has_an_exit_code() {
    let host = host().await;
    with_builtin(&host, "sentinels = []\n");
    let said = host.run(&["check"]).await;
    assert!(said.out.starts_with("builtin kernel  no "), "{}", said.out);
    assert_eq!(said.code, Some(0));
    // A directory has no processes to look at.
    let said = host.run(&["check", "--builtin", "libraries"]).await;
    assert!(said.out.contains("unknown"), "{}", said.out);
    assert_eq!(said.code, Some(1));

    let row = ["shutdown:sleep", "rpm", "Transaction running", "block"].map(str::to_owned);
    let [what, who, why, mode] = row;
    host.bus.knobs().inhibitors = vec![(what, who, why, mode, 0, 1)];
    let said = host.run(&["check", "--json"]).await;
    let json: serde_json::Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!(
        json,
        json!({"triggers": [{
            "trigger": "builtin kernel",
            "verdict": "unknown",
            "words": "shutdown is inhibited by rpm (Transaction running)",
            "busy": true,
        }]})
    );
    assert_eq!(said.code, Some(75));
    // Not known whether somebody is at work is not "nobody".
    host.bus.knobs().inhibitors.clear();
    host.bus.knobs().mute = true;
    let said = host.run(&["check"]).await;
    assert!(
        said.out
            .contains("unknown  not known whether something inhibits"),
        "{}",
        said.out
    );
    assert_eq!(said.code, Some(1));
}

#[tokio::test]
async fn a_bad_configuration_is_told_and_does_not_keep_a_named_check() {
    let host = host().await;
    with_builtin(&host, "no_such_key = 1\n");
    let said = host.run(&["check"]).await;
    assert_eq!(said.code, Some(78));
    assert!(said.err.contains("no_such_key"), "{}", said.err);
    let said = host.run(&["check", "--builtin", "kernel"]).await;
    assert_eq!(said.code, Some(0), "{}", said.err);
    let said = host.run(&["check", "--builtin", "kernels"]).await;
    assert_eq!(said.code, Some(2));
    assert!(said.err.contains("kernel, libraries"), "{}", said.err);
}
