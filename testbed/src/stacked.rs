//! A control plane on hosts of a bed, as kubeadm lays it out: etcd, API server, controllers and scheduler are static
//! pods of the real kubelet, and go down with their host.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::bed::Bed;
use crate::certs::Authority;
use crate::components::{HOSTS_AUDIT_LOG, Seat};
use crate::control_plane::{self, kubeconfig};
use crate::door::Door;
use crate::spec::HostSpec;
use crate::standing::Standing;
use crate::{shell, tools};

/// Three etcd that find each other and three API servers that start, on two busy cores.
const UP: Duration = Duration::from_secs(240);

/// A bed whose control plane is its hosts; it goes down with this value.
#[derive(Debug)]
pub struct Stacked {
    pub bed: Bed,
    /// Names and addresses of the hosts.
    members: Vec<(String, String)>,
    /// The endpoint of the control plane, behind which the hosts are.
    _door: Door,
    _standing: Standing,
}

impl Bed {
    /// Another bed, whose hosts get what this one's get; its control plane will be `hosts`.
    pub fn stacked_beside(&self, hosts: &[&str]) -> Result<Stacked> {
        let name = format!("{}-stacked", self.name());
        Self::down(&name).context("cannot take down what an earlier run left")?;
        let from = self.path("install").display().to_string();
        let install = |place: &Path| {
            shell::run("cp", &["-a", &from, &place.display().to_string()]).map(|_| ())
        };
        let standing = Standing::of(&name);
        let bed = Self::up_with(&name, install, control_plane::identities)?;
        let member = |host: &&str| Ok(((*host).to_owned(), bed.address(host)?));
        let members = hosts.iter().map(member).collect::<Result<Vec<_>>>()?;
        let addresses = members.iter().map(|(_, address)| address.clone());
        let addresses: Vec<String> = addresses.collect();
        // Each is also asked by its own address.
        Authority::at(&bed.path("pki")).server_at(&addresses, None)?;
        let door = Door::open(&bed, addresses)?;
        Ok(Stacked {
            bed,
            members,
            _door: door,
            _standing: standing,
        })
    }
}

impl Stacked {
    /// The same host with the static pods of the control plane.
    pub fn member(&self, spec: HostSpec) -> Result<HostSpec> {
        let all = |(name, address): &(String, String)| format!("{name}=http://{address}:2380");
        let all: Vec<String> = self.members.iter().map(all).collect();
        let own = self.members.iter().find(|(name, _)| *name == spec.name);
        let known = || format!("{} is not one of this control plane", spec.name);
        let (name, address) = own.cloned().with_context(known)?;
        let seat = Seat {
            pki: PKI.to_owned(),
            audit_policy: format!("{PKI}/audit-policy.yaml"),
            audit_log: HOSTS_AUDIT_LOG.to_owned(),
            etcd_data: "/var/lib/control-plane/etcd".to_owned(),
            address,
            members: Some((name, all.join(","))),
        };
        let mut spec = self.files(spec)?;
        for (name, flags, [scheme, port, path]) in [
            ("etcd", seat.etcd(), ["HTTP", "2379", "/readyz"]),
            (
                "kube-apiserver",
                seat.api_server(),
                ["HTTPS", "6443", "/readyz"],
            ),
            (
                "kube-controller-manager",
                seat.controllers(),
                ["HTTPS", "10257", "/healthz"],
            ),
            (
                "kube-scheduler",
                seat.scheduler(),
                ["HTTPS", "10259", "/healthz"],
            ),
        ] {
            let port: u16 = port.parse()?;
            let probe = json!({
                "httpGet": {"host": "127.0.0.1", "scheme": scheme, "port": port, "path": path},
                "periodSeconds": 1, "timeoutSeconds": 5,
            });
            let path = format!("/etc/kubernetes/manifests/{name}.yaml");
            spec = spec.file(path, static_pod(name, &flags, &probe).to_string());
        }
        Ok(spec)
    }

    /// What kubeadm leaves on each of its hosts.
    fn files(&self, mut spec: HostSpec) -> Result<HostSpec> {
        let pki = self.bed.path("pki");
        let read = |path: &Path| std::fs::read_to_string(path);
        for file in [
            "ca.key",
            "server.crt",
            "server.key",
            "tokens",
            "service-accounts.key",
            "service-accounts.pub",
        ] {
            spec = spec.file(format!("{PKI}/{file}"), read(&pki.join(file))?);
        }
        for name in ["controllers", "scheduler"] {
            for kind in ["crt", "key"] {
                let file = format!("{name}.{kind}");
                spec = spec.file(format!("{PKI}/{file}"), read(&pki.join(&file))?);
            }
            spec = spec.file(
                format!("{PKI}/{name}.kubeconfig"),
                kubeconfig(Path::new(PKI), name),
            );
        }
        let policy = read(&self.bed.path("audit-policy.yaml"))?;
        Ok(spec.file(format!("{PKI}/audit-policy.yaml"), policy))
    }

    /// The API server of each host, by its own address.
    pub fn api_servers(&self) -> Vec<String> {
        let url = |(_, address): &(String, String)| format!("https://{address}:6443");
        self.members.iter().map(url).collect()
    }

    /// Waits until all of it answers.
    pub fn wait_up(&self) -> Result<()> {
        self.bed.wait_for("the control plane to be up", UP, || {
            for (name, _) in &self.members {
                self.bed.wait_ready(name)?;
            }
            Ok(true)
        })
    }
}

const PKI: &str = "/etc/kubernetes/pki";

/// Every program is on the host, so that no image holds it.
fn static_pod(name: &str, flags: &[String], probe: &Value) -> Value {
    let mut command = vec![format!("/opt/bed/{name}")];
    command.extend_from_slice(flags);
    let places = [
        ("programs", "/opt/bed"),
        ("kubernetes", "/etc/kubernetes"),
        ("data", "/var/lib/control-plane"),
    ];
    let mounts = places.map(|(name, path)| json!({"name": name, "mountPath": path}));
    let volumes = places.map(|(name, path)| {
        json!({"name": name, "hostPath": {"path": path, "type": "DirectoryOrCreate"}})
    });
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "kube-system", "labels": {"tier": "control-plane", "component": name}},
        "spec": {
            "hostNetwork": true,
            "priorityClassName": "system-node-critical",
            "containers": [{
                "name": name, "image": tools::IMAGE, "command": command,
                "readinessProbe": probe, "volumeMounts": mounts,
            }],
            "volumes": volumes,
        },
    })
}
