//! A node that comes back without its kubelet, whose kubelet has no runtime, or which cannot start its pods is not
//! healthy although the API server shows it Ready for a while, or for good.

use testbed::{Host, IMAGE};

use super::{pod, probed, ready, spec};
use crate::e2e::Site;
use crate::e2e::workload::{Workload, app, string};

/// A host that comes back without something.
struct Without {
    /// Also the host's name.
    group: &'static str,
    /// Before the boot, while all is well.
    breaks: &'static str,
    mends: &'static str,
    /// How the cluster shows in the end that it is without; a slot that is kept for a moment proves nothing.
    shown: fn(&Workload, &Host) -> bool,
    /// What STATUS says then.
    status: &'static str,
    /// How long the agent takes to be ready: longer than the kubelet to see what is wrong, where it sees that by itself. One
    /// that was ready before has proved what it is to prove.
    ready_after: &'static str,
    /// Uncordoned is a node that reports; the slot is for those whose pods are back too.
    cordoned: bool,
}

const SILENT: &str = "the kubelet has not reported in this boot";
/// Of the pod, or of the DaemonSet where it has none.
const NOT_READY: &str = "/agent";

impl Without {
    /// After the boot the host is as `breaks` made it before: the slot stays until `mends` has run.
    fn keeps_the_slot(&self) {
        let site = Site::new(self.group, 1);
        let spec = spec(&site, self.group).kubelet_config(SOON);
        let host = site.boot(&spec);
        let sh = |line: &str| {
            let words = format!("ctr='{CTR}'; image={IMAGE}; own={OWN_IMAGE}");
            host.sh(&format!("{words}; {line}")).unwrap();
        };
        sh("$ctr tag $image $own");
        let work = Workload::new(&site, self.group);
        let mut agent = probed(pod(
            &host,
            &["-listen", ":8080", "-ready", self.ready_after],
        ));
        agent["containers"][0]["image"] = OWN_IMAGE.into();
        work.apply(&[app("DaemonSet", "agent", 0, &agent)]);
        let is_ready = || work.pod(&host, "agent").is_some_and(|agent| ready(&agent));
        site.wait("the agent to be ready", || Ok(is_ready()));
        sh(self.breaks);
        host.touch("/run/reboot-required").unwrap();
        site.wait("the new boot", || Ok(host.boots()? == 2));
        site.wait("the cluster to see it", || Ok((self.shown)(&work, &host)));
        site.wait_status(&host, self.status);
        site.wait_journal(&host, &[self.status]);
        assert_eq!(site.holder(&site.leases()[0]), host.name());
        assert_eq!(site.cordoned(&host), self.cordoned);
        sh(self.mends);
        site.wait_rebooted(&host, 1);
        site.nothing_left(&host);
    }
}

/// A condition of the Node.
fn condition(work: &Workload, host: &Host, kind: &str) -> String {
    work.bed.condition(host.name(), kind).unwrap()
}

/// The controllers have missed its kubelet for long enough.
fn unknown(work: &Workload, host: &Host) -> bool {
    condition(work, host, "Ready") == "Unknown"
}

fn image_missing(work: &Workload, host: &Host) -> bool {
    let agent = work.pod(host, "agent").unwrap_or_default();
    let why = string(&agent["status"]["containerStatuses"][0]["state"]["waiting"]["reason"]);
    ["ErrImagePull", "ImagePullBackOff"].contains(&why.as_str())
}

fn disk_pressure(work: &Workload, host: &Host) -> bool {
    condition(work, host, "DiskPressure") == "True"
}

const CTR: &str = "/opt/runtime/ctr -n k8s.io images";
/// The bed's image under a name of the agent's own.
const OWN_IMAGE: &str = "docker.io/bed/agent:1";

/// A pressure that is gone is believed at once, and not after five minutes.
const SOON: &str = "evictionPressureTransitionPeriod: 1s\n";

#[test]
fn i4_i8_a_kubelet_that_does_not_start_after_the_boot_keeps_the_slot() {
    let without = Without {
        group: "silent-r",
        breaks: "systemctl disable kubelet",
        mends: "systemctl start kubelet",
        shown: unknown,
        ready_after: "0s",
        status: SILENT,
        cordoned: true,
    };
    without.keeps_the_slot();
}

#[test]
fn i4_i8_a_container_runtime_that_does_not_start_after_the_boot_keeps_the_slot() {
    let without = Without {
        group: "runtime-r",
        breaks: "cp /etc/containerd/config.toml /root/kept && echo broken > /etc/containerd/config.toml",
        // What follows its start may fail once; systemd starts it again.
        mends: "cp /root/kept /etc/containerd/config.toml; systemctl restart containerd || :",
        shown: unknown,
        ready_after: "0s",
        status: SILENT,
        cordoned: true,
    };
    without.keeps_the_slot();
}

#[test]
fn i4_i8_a_full_directory_of_images_after_the_boot_keeps_the_slot() {
    let without = Without {
        group: "full-r",
        breaks: "mkdir /etc/systemd/system/containerd.service.d && printf '[Service]\\nExecStartPre=mount -t tmpfs -o size=4k none \
                 /var/lib/containerd\\n' > /etc/systemd/system/containerd.service.d/full.conf",
        mends: "rm /etc/systemd/system/containerd.service.d/full.conf && systemctl daemon-reload && systemctl stop containerd; \
                while mount | grep -q 'on /var/lib/containerd type tmpfs'; do umount /var/lib/containerd; done; \
                systemctl start containerd || :",
        shown: unknown,
        ready_after: "0s",
        status: SILENT,
        cordoned: true,
    };
    without.keeps_the_slot();
}

#[test]
fn i4_i8_an_image_that_is_gone_after_the_boot_keeps_the_slot() {
    let without = Without {
        group: "image-r",
        breaks: "$ctr rm $own",
        mends: "$ctr tag $image $own",
        shown: image_missing,
        ready_after: "0s",
        status: NOT_READY,
        cordoned: false,
    };
    without.keeps_the_slot();
}

/// The Node is Ready all the time: the kubelet only evicts its pods, and admits none.
#[test]
fn i4_i8_a_full_disk_after_the_boot_keeps_the_slot() {
    let without = Without {
        group: "pressure-r",
        breaks: "cd /etc/kubernetes/kubelet.d && cp 50-test.conf /root/kept && \
                 echo 'evictionHard: {nodefs.available: 99%}' >> 50-test.conf",
        mends: "cp /root/kept /etc/kubernetes/kubelet.d/50-test.conf && systemctl restart kubelet",
        shown: disk_pressure,
        ready_after: "20s",
        status: NOT_READY,
        cordoned: false,
    };
    without.keeps_the_slot();
}
