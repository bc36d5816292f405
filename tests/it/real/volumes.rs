//! Volumes of a CSI driver that lets them go slowly: the host goes down only when the kubelet has unmounted them, and
//! their pod comes back elsewhere (I2).

use std::process::{Child, Command};

use serde_json::{Value, json};
use testbed::{Host, HostSpec, IMAGE};

use super::{Objects, spec};
use crate::e2e::Site;
use crate::e2e::workload::{Workload, app, string};

/// How long the driver takes to let a volume go.
const SLOW: &str = "8s";

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

/// When each record of a unit that contains `words` was written, in microseconds.
fn times(host: &Host, unit: &str, words: &str) -> Vec<u64> {
    let journal = host.journal_json(unit).unwrap();
    let said = |record: &&Value| string(&record["MESSAGE"]).contains(words);
    let time = |record: &Value| string(&record["__REALTIME_TIMESTAMP"]).parse().unwrap();
    journal.iter().filter(said).map(time).collect()
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
    first.touch("/run/reboot-required").unwrap();
    then(&site, &work, first, second);
    site.nothing_left(first);
}

fn moves(site: &Site, work: &Workload, first: &Host, second: &Host) {
    site.wait_rebooted(first, 1);
    let unmounted = times(first, "csi", "\"unpublished\"");
    let asked = times(first, "kube-rebootd", "asking for the reboot");
    assert_eq!(unmounted.len(), 1, "unmounted once, and not cut off");
    assert_eq!(asked.len(), 1);
    assert!(unmounted[0] < asked[0], "{unmounted:?} {asked:?}");
    let elsewhere = || Ok(runs(work, second));
    site.wait("the database to run elsewhere", elsewhere);
}

#[test]
fn i2_a_volume_that_is_attached_is_unmounted_before_the_host_goes_down() {
    with_database("attached", true, moves);
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
