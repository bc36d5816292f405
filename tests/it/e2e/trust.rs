//! Whom root believes to be the kubelet, on a real host with its own PID 1 (I14).

use testbed::{Host, HostSpec};

use super::Site;

const OWN: &str = "/opt/own.conf";
/// What anybody can write: a kubeconfig whose plugin leaves a mark.
const HOSTILE: &str = r#"{"apiVersion": "v1", "kind": "Config", "current-context": "c",
"clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1", "insecure-skip-tls-verify": true}}],
"contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
"users": [{"name": "u", "user": {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "interactiveMode": "Never",
"command": "/bin/sh", "args": ["-c", "id > /tmp/ran"]}}}]}"#;
/// What anybody can be called.
const FAKE: &str = "exec -a kubelet bash -c 'while :; do sleep 1000; done' --kubeconfig=/tmp/x\n";

fn doctor(host: &Host) -> String {
    host.run(&["kube-rebootd", "doctor"]).unwrap().stdout
}

#[test]
fn i14_a_process_that_calls_itself_kubelet_leads_to_nothing() {
    let site = Site::new("trust", 1);
    let drop_in = format!(
        "[Service]\nExecStartPre=-/bin/mv /etc/kubernetes/kubelet.conf {OWN}\nExecStart=\nExecStart=/opt/bed/kubelet --name=trust-1 --kubeconfig={OWN} --v=1\n"
    );
    let spec = HostSpec::named("trust-1")
        .config(site.config(""))
        .file("/etc/systemd/system/kubelet.service.d/own.conf", drop_in);
    let host = site.boot(&spec);
    // The kubelet that PID 1 started is believed, also under the sandbox of the unit.
    host.sh("systemctl restart kube-rebootd").unwrap();
    site.wait_journal(&host, &[format!("connected as node trust-1 with {OWN}")]);

    host.write("/tmp/x", HOSTILE).unwrap();
    host.write("/tmp/fake", FAKE).unwrap();
    for line in [
        "chown 65534 /tmp/x",
        // A user's process; a pod's would be no other.
        "setsid setpriv --reuid=65534 --regid=65534 --clear-groups bash /tmp/fake > /dev/null 2>&1 < /dev/null &",
        // A service of that name which does not run as root.
        "systemd-run --unit=my-kubelet --uid=65534 bash /tmp/fake",
        // One that does, but whose file is everybody's.
        "systemd-run --unit=roots-kubelet bash /tmp/fake",
    ] {
        host.sh(line).unwrap();
    }
    site.wait("three processes called kubelet", || {
        let count = host.sh("grep -lz -- '^--kubeconfig=/tmp/x' /proc/[0-9]*/cmdline | wc -l")?;
        Ok(count.trim() == "3")
    });
    host.sh("systemctl stop kubelet && systemctl restart kube-rebootd")
        .unwrap();
    let refused = "no kubeconfig found; searched /tmp/x (/tmp belongs to uid 0 and has mode 1777";
    site.wait_journal(&host, &[refused]);
    let said = doctor(&host);
    assert!(said.contains("searched /tmp/x (/tmp belongs to"), "{said}");
    host.sh("systemctl stop roots-kubelet").unwrap();
    let said = doctor(&host);
    assert!(said.contains("none found"), "{said}");
    assert!(!said.contains("/tmp/x"), "{said}");
    assert_eq!(host.sh("ls /tmp/ran || echo none").unwrap().trim(), "none");
}
