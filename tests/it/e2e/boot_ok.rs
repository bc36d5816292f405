//! `kube-rebootd-boot-ok.service` in real boots: boot-complete.target is reached in one whose kubelet is alive, with an API server or
//! without one, and not in one without a kubelet; `health.boot_complete` keeps the slot until it is (I4, I7, I8).

use testbed::{Host, HostSpec};

use super::Site;

const UNIT: &str = "kube-rebootd-boot-ok.service";
const TARGET: &str = "boot-complete.target";
const KUBECONFIG: &str = "/etc/kubernetes/kubelet.conf";

fn state(host: &Host, unit: &str) -> String {
    let said = host.systemctl(&["show", "-P", "ActiveState", unit]);
    said.unwrap_or_default().trim().to_owned()
}

/// It waits so long for the kubelet from the next boot on, where ten minutes are the default.
fn waits(host: &Host, wait: &str) {
    let text =
        format!("[Service]\nExecStart=\nExecStart=/usr/bin/kube-rebootd boot-ok --wait {wait}\n");
    let file = format!("/etc/systemd/system/{UNIT}.d/50-wait.conf");
    host.write(&file, &text).unwrap();
    host.systemctl(&["daemon-reload"]).unwrap();
}

/// A person wants a reboot.
fn wants(site: &Site, host: &Host, words: &str) {
    let wish = format!("kube-rebootd/reboot={words}-{}", std::process::id());
    site.kubectl(&["annotate", "--overwrite", "node", host.name(), &wish]);
}

fn reached(site: &Site, host: &Host) {
    site.wait("the boot to be found good", || {
        let (target, unit) = (state(host, TARGET), state(host, UNIT));
        anyhow::ensure!(
            target == "active" && unit == "active",
            "{TARGET} is {target}, {UNIT} is {unit}"
        );
        Ok(true)
    });
    let said = host.journal(UNIT).unwrap();
    assert!(said.contains("the kubelet of this boot is alive"), "{said}");
}

#[test]
fn i4_i7_i8_a_boot_is_good_with_a_kubelet_that_is_alive_and_with_nothing_less() {
    let site = Site::new("bootok", 1);
    // Where all other nodes are cordoned, by other tests, it would wait for them.
    let mut other = HostSpec::named("bootok-2");
    other.daemon = false;
    let _other = site.boot(&other);
    let host = site.boot(&HostSpec::real("bootok-1").config(site.config("")));
    let config = "[health]\nboot_complete = true\n";
    host.write("/etc/kube-rebootd/config.d/50-complete.toml", config)
        .unwrap();
    host.systemctl(&["reload", "kube-rebootd"]).unwrap();
    host.systemctl(&["enable", UNIT]).unwrap();
    // As systemd-boot does in a boot that it counts.
    host.systemctl(&["add-wants", "multi-user.target", TARGET])
        .unwrap();
    waits(&host, "2m");
    assert_eq!(state(&host, TARGET), "inactive");

    wants(&site, &host, "alive");
    site.wait_rebooted(&host, 1);
    reached(&site, &host);

    // Without a kubelet it is no good boot, and the slot is kept.
    waits(&host, "10s");
    host.systemctl(&["disable", "kubelet"]).unwrap();
    wants(&site, &host, "dead");
    site.wait("the third boot", || Ok(host.boots()? == 3));
    site.wait("the unit to fail", || Ok(state(&host, UNIT) == "failed"));
    let said = host.journal(UNIT).unwrap();
    assert!(said.contains("no kubelet is alive within 10s"), "{said}");
    site.wait_status(&host, "boot-complete.target is not active");
    assert_eq!(state(&host, TARGET), "inactive");
    assert_eq!(site.holder(&site.leases()[0]), host.name());
    // It came too late: the target looks again.
    host.systemctl(&["enable", "--now", "kubelet"]).unwrap();
    site.wait("the target to look again", || {
        host.systemctl(&["start", TARGET]).map(|_| true)
    });
    reached(&site, &host);
    site.wait_rebooted(&host, 2);
    site.nothing_left(&host);

    // Neither kubelet nor daemon finds the API server.
    waits(&host, "2m");
    let before = site.node(&host)["status"]["nodeInfo"]["bootID"].clone();
    let kubeconfig = host.read(KUBECONFIG).unwrap();
    host.write(KUBECONFIG, &kubeconfig.replace(":6443", ":1"))
        .unwrap();
    assert_ne!(host.read(KUBECONFIG).unwrap(), kubeconfig);
    host.reboot().unwrap();
    reached(&site, &host);
    let node = site.node(&host);
    assert_eq!(node["status"]["nodeInfo"]["bootID"], before, "it is away");
    host.write(KUBECONFIG, &kubeconfig).unwrap();
    host.systemctl(&["restart", "kubelet", "kube-rebootd"])
        .unwrap();
    site.wait_status(&host, "idle");
    site.nothing_left(&host);
}
