//! Volumes of a CSI driver that lets them go slowly: the host goes down only when the kubelet has unmounted them, and
//! their pod comes back elsewhere (I2).

use std::process::{Child, Command};
use std::time::{Duration, Instant};

use serde_json::json;
use testbed::{Host, HostSpec, IMAGE};

use super::{Objects, spec, times};
use crate::e2e::Site;
use crate::e2e::workload::{Workload, app};

/// How long the driver takes to let a volume go.
const SLOW: &str = "8s";

/// `maxWaitForUnmountDuration` of the attach-detach controller.
const MAX_WAIT: Duration = Duration::from_secs(6 * 60);
/// Until the next look of the controller, and until the pod has started.
const FORCED: Duration = Duration::from_secs(9 * 60);

/// The external part of the driver, ended with the test.
struct Attacher(Child);

impl Attacher {
    fn start(site: &Site, driver: &str) -> Self {
        let program = testbed::runtime().unwrap().join("csi");
        let mut command = Command::new(program);
        // This thread is in the bed's network, and what it starts.
        command.arg(format!("-driver={driver}"));
        command.arg("-attach").arg(site.bed.admin_kubeconfig());
        Self(command.spawn().unwrap())
    }
}

impl Drop for Attacher {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A host with the node's part of the driver, there before the kubelet and until after it.
fn with_driver(site: &Site, name: &str, driver: &str) -> HostSpec {
    let unit = format!(
        "[Service]\nExecStart=/opt/runtime/csi -driver={driver} -node={name} -slow={SLOW}\nRestart=always\n"
    );
    spec(site, name)
        .label(format!("test.example/driver={driver}"))
        .file("/etc/systemd/system/csi.service", unit)
        .file(
            "/etc/systemd/system/kubelet.service.d/csi.conf",
            "[Unit]\nWants=csi.service\nAfter=csi.service\n",
        )
}

/// A StatefulSet of one pod with one volume, which may run on every host of the driver.
fn database(objects: &mut Objects<'_>, work: &Workload, driver: &str, attach: bool) {
    let namespace = &work.namespace;
    let volume = format!("{namespace}-data");
    objects.make(&json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver",
        "metadata": {"name": driver}, "spec": {"attachRequired": attach},
    }));
    objects.make(&json!({
        "apiVersion": "v1", "kind": "PersistentVolume",
        "metadata": {"name": volume},
        "spec": {
            "capacity": {"storage": "1Mi"}, "accessModes": ["ReadWriteOnce"],
            "csi": {"driver": driver, "volumeHandle": volume},
            "claimRef": {"namespace": namespace, "name": "data-db-0"},
        },
    }));
    let mut pods = json!({
        "nodeSelector": {"test.example/driver": driver},
        "terminationGracePeriodSeconds": 10,
    });
    pods["containers"] = json!([{
        "name": "main", "image": IMAGE,
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }]);
    let mut set = app("StatefulSet", "db", 1, &pods);
    set["spec"]["volumeClaimTemplates"] = json!([{
        "metadata": {"name": "data"},
        "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": "", "volumeName": volume,
            "resources": {"requests": {"storage": "1Mi"}},
        },
    }]);
    work.apply(&[set]);
}

/// Whether the database runs there.
fn runs(work: &Workload, host: &Host) -> bool {
    let pod = work.pod(host, "db-0");
    pod.is_some_and(|pod| pod["status"]["phase"] == "Running")
}

/// Two hosts of a driver and a database: `then` is told the one where it runs first, and the other.
fn with_database(group: &str, attach: bool, then: impl FnOnce(&Site, &Workload, &Host, &Host)) {
    let site = Site::new(group, 1);
    let driver = format!("{group}.test.example");
    let (one, other) = (format!("{group}-1"), format!("{group}-2"));
    let hosts = [one, other].map(|name| site.boot(&with_driver(&site, &name, &driver)));
    let _attacher = Attacher::start(&site, &driver);
    let mut objects = Objects::of(&site);
    let work = Workload::new(&site, group);
    database(&mut objects, &work, &driver, attach);
    let here = |host: &Host| runs(&work, host);
    site.wait("the database to run", || Ok(hosts.iter().any(here)));
    let [one, other] = &hosts;
    let (first, second) = if here(one) {
        (one, other)
    } else {
        (other, one)
    };
    then(&site, &work, first, second);
    site.nothing_left(first);
}

/// As the kubelet names it in `status.volumesInUse`, where it is attached.
fn in_use(site: &Site, host: &Host) -> String {
    let path = "jsonpath={.status.volumesInUse}";
    site.kubectl(&["get", "node", host.name(), "-o", path])
}

fn attached_moves(site: &Site, work: &Workload, first: &Host, second: &Host) {
    first.touch("/run/reboot-required").unwrap();
    site.wait("the kubelet to say that it unmounts", || {
        Ok(!times(first, "csi", "\"unpublishing\"").is_empty())
    });
    let named = in_use(site, first);
    assert!(named.contains("attached.test.example"), "{named:?}");
    moved(site, work, first, second);
}

fn moves(site: &Site, work: &Workload, first: &Host, second: &Host) {
    first.touch("/run/reboot-required").unwrap();
    moved(site, work, first, second);
}

fn moved(site: &Site, work: &Workload, first: &Host, second: &Host) {
    site.wait_rebooted(first, 1);
    let unmounted = times(first, "csi", "\"unpublished\"");
    let asked = times(first, "kube-rebootd", "asking for the reboot");
    assert_eq!(unmounted.len(), 1, "unmounted once, and not cut off");
    assert_eq!(asked.len(), 1);
    assert!(unmounted[0] < asked[0], "{unmounted:?} {asked:?}");
    let elsewhere = || Ok(runs(work, second));
    site.wait("the database to run elsewhere", elsewhere);
    let mounted = times(second, "csi", "\"published\"");
    assert!(
        mounted.first() > unmounted.first(),
        "{mounted:?} {unmounted:?}"
    );
}

#[test]
fn i2_a_volume_that_is_attached_is_unmounted_before_the_host_goes_down() {
    with_database("attached", true, attached_moves);
}

/// The finished pod is all that tells of its volume: the host once went down in the middle of its unmounting.
#[test]
fn i2_a_volume_that_is_not_attached_is_unmounted_before_the_host_goes_down() {
    with_database("mounted", false, moves);
}

/// The next boot is not one that the daemon asked for: the host has rebooted, which is all that was wanted.
#[test]
fn i4_i6_power_is_lost_while_a_volume_is_unmounted() {
    with_database("lost", true, |site, work, first, second| {
        first.touch("/run/reboot-required").unwrap();
        let unmounting = || Ok(!times(first, "csi", "\"unpublishing\"").is_empty());
        site.wait("the volume to be on its way", unmounting);
        first.power_cut().unwrap();
        first.power_on().unwrap();
        site.wait_rebooted(first, 1);
        let said = |words| times(first, "kube-rebootd", words).len();
        assert_eq!(said("cordoning the node"), 1, "its journal is there");
        assert_eq!(said("asking for the reboot"), 0);
        // Where depends on which was quicker, the end of its pod or that of the cordon.
        site.wait("the database to run again", || {
            Ok(runs(work, first) || runs(work, second))
        });
    });
}

/// What `drain.volumes_timeout` is worth waiting for: the volume of a host that went down with it.
#[test]
#[ignore = "takes eight minutes, and tries Kubernetes alone: docs/reliability.md has its figures"]
fn i2_a_volume_of_a_host_that_is_gone_is_detached_by_force_after_six_minutes() {
    with_database("forced", true, |site, work, first, second| {
        first.power_cut().unwrap();
        site.wait("the Node to be Unknown", || {
            Ok(site.bed.condition(first.name(), "Ready")? == "Unknown")
        });
        work.kubectl(&["delete", "pod", "db-0", "--force", "--grace-period=0"]);
        let since = Instant::now();
        let elsewhere = || Ok(runs(work, second));
        (site
            .bed
            .wait_for("the database to run elsewhere", FORCED, elsewhere))
        .unwrap();
        let took = since.elapsed();
        println!("it ran elsewhere after {} s", took.as_secs());
        assert!(took >= MAX_WAIT, "{took:?}");
        first.power_on().unwrap();
        site.bed.wait_ready(first.name()).unwrap();
    });
}
