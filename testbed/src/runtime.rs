//! What makes a host one with the real kubelet and the real containerd: its units and configuration, and what the outer
//! machine lacks for them.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::firmware::MACHINE;
use crate::host::Host;
use crate::spec::HostSpec;
use crate::tools;

/// Controllers that limits of containers need.
const CONTROLLERS: [&str; 3] = ["cpu", "memory", "pids"];
/// `CAP_SYS_RESOURCE` (capabilities(7)): runc lowers OOM scores and raises limits with it.
const SYS_RESOURCE: u32 = 24;

/// What this machine has not that runc and the kubelet want: those of a bed do without.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Lacks {
    /// Of cgroup v2, in a host's cgroup.
    controllers: Vec<&'static str>,
    sys_resource: bool,
}

impl Lacks {
    /// A host with a kernel of its own.
    const NOTHING: Self = Self {
        controllers: Vec::new(),
        sys_resource: false,
    };

    /// `controllers` is cgroup.controllers of a host's cgroup, `status` /proc/self/status.
    fn read(controllers: &str, status: &str) -> Self {
        let there: Vec<&str> = controllers.split_whitespace().collect();
        let bound = status.lines().find_map(|line| line.strip_prefix("CapBnd:"));
        let bound = bound.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
        Self {
            controllers: CONTROLLERS
                .into_iter()
                .filter(|one| !there.contains(one))
                .collect(),
            sys_resource: bound.is_none_or(|mask| mask & (1 << SYS_RESOURCE) == 0),
        }
    }

    /// For people; none: nothing is missing.
    fn words(&self) -> Option<String> {
        let mut words = Vec::new();
        if !self.controllers.is_empty() {
            let which = self.controllers.join(", ");
            words.push(format!("cgroup v2 without the controllers {which}"));
        }
        if self.sys_resource {
            words.push("no CAP_SYS_RESOURCE".to_owned());
        }
        (!words.is_empty()).then(|| words.join(", "))
    }
}

impl Host {
    /// Units, configuration and the machine for containerd and the kubelet; `labels` as its flag.
    pub(crate) fn furnish_runtime(
        &self,
        spec: &HostSpec,
        address: &str,
        labels: &str,
    ) -> Result<()> {
        let programs = tools::runtime()?;
        let lacks = if spec.machine {
            Lacks::NOTHING
        } else {
            self.lacks()?
        };
        let words = lacks.words();
        if let Some(words) = &words {
            eprintln!(
                "bed: {}: this machine has {words}; containers run without limits",
                self.name
            );
        }
        let etc = self.upper().join("etc");
        let units = etc.join("systemd/system");
        let bin = if words.is_some() {
            "/opt/runtime/oci"
        } else {
            "/usr/sbin/runc"
        };
        let limits = if lacks.controllers.is_empty() {
            ""
        } else {
            NO_LIMITS
        };
        let kubelet = KUBELET
            .replace("NAME", &self.name)
            .replace("ADDRESS", address);
        for (path, text) in [
            (
                "systemd/system/kubelet.service",
                kubelet.replace("LABELS", labels),
            ),
            (
                "systemd/system/containerd.service",
                CONTAINERD.replace("IMAGE", tools::IMAGE),
            ),
            (
                "systemd/system/bed-sysctls.service",
                SYSCTLS_UNIT.to_owned(),
            ),
            ("bed/sysctls", SYSCTLS.to_owned()),
            (
                "containerd/config.toml",
                CONTAINERD_CONFIG
                    .replace("RUNC", bin)
                    .replace("IMAGE", tools::IMAGE),
            ),
            (
                "cni/net.d/10-bed.conflist",
                NETWORK.replace("SUBNET", &subnet(address)),
            ),
            (
                "kubernetes/kubelet.yaml",
                format!("{KUBELET_CONFIG}{limits}"),
            ),
        ] {
            let path = etc.join(path);
            fs::create_dir_all(path.parent().unwrap_or(&etc))?;
            fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        }
        for empty in ["kubernetes/manifests", "kubernetes/kubelet.d"] {
            fs::create_dir_all(etc.join(empty))?;
        }
        // No overlay stands upon an overlay, which the host's root is.
        let images = self.dir.join("containerd");
        fs::create_dir_all(&images)?;
        let machine = [
            "--capability=all".to_owned(),
            "--bind=/dev/kmsg".to_owned(),
            format!("--bind-ro={}:/opt/runtime", programs.display()),
            format!("--bind={}:/var/lib/containerd", images.display()),
        ];
        fs::write(self.dir.join(MACHINE), machine.join("\n"))?;
        enable(&units, "containerd.service")?;
        // Those of a machine are its own.
        if spec.machine {
            return Ok(());
        }
        enable(&units, "bed-sysctls.service")
    }

    fn lacks(&self) -> Result<Lacks> {
        let cgroup = self.bed.cgroup("control");
        let controllers = fs::read_to_string(cgroup.join("cgroup.controllers"))?;
        Ok(Lacks::read(
            &controllers,
            &fs::read_to_string("/proc/self/status")?,
        ))
    }
}

/// Begins with the host.
pub(crate) fn enable(units: &Path, unit: &str) -> Result<()> {
    let wants = units.join("multi-user.target.wants");
    fs::create_dir_all(&wants)?;
    let target = Path::new("/etc/systemd/system").join(unit);
    std::os::unix::fs::symlink(target, wants.join(unit))
        .with_context(|| format!("cannot enable {unit}"))
}

/// 256 addresses for the pods of the host of this address: 10.123.A.B has 10.(130 + A).B.0/24.
fn subnet(address: &str) -> String {
    let mut parts = address
        .split('.')
        .skip(2)
        .filter_map(|part| part.parse::<u8>().ok());
    let (high, low) = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
    format!("10.{}.{low}.0/24", u16::from(high) + 130)
}

const KUBELET: &str = "[Unit]
Description=The kubelet
After=bed-network.service bed-sysctls.service containerd.service
Wants=containerd.service
StartLimitIntervalSec=0
[Service]
ExecStart=/opt/runtime/kubelet --config=/etc/kubernetes/kubelet.yaml --config-dir=/etc/kubernetes/kubelet.d \
 --kubeconfig=/etc/kubernetes/kubelet.conf --hostname-override=NAME --node-ip=ADDRESS --v=1LABELS
Restart=always
RestartSec=1
[Install]
WantedBy=multi-user.target
";

/// As kubeadm writes it, with the runtime's socket. The host has no resolver for pods. Its disk is this machine's: by default
/// a kubelet evicts every pod where less than 15 % of that is free, whatever the size of the disk.
const KUBELET_CONFIG: &str = "apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication:
  anonymous: {enabled: false}
  x509: {clientCAFile: /etc/kubernetes/pki/ca.crt}
cgroupDriver: systemd
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
evictionHard: {memory.available: 100Mi, nodefs.available: 200Mi, imagefs.available: 200Mi}
failSwapOn: false
imageGCHighThresholdPercent: 100
resolvConf: \"\"
staticPodPath: /etc/kubernetes/manifests
";

/// Where cgroup v2 has not the controllers that the kubelet would limit pods by.
const NO_LIMITS: &str = "cgroupsPerQOS: false
enforceNodeAllocatable: [none]
";

/// The image comes from no registry: it is there before any pod is.
const CONTAINERD: &str = "[Unit]
Description=containerd
After=bed-network.service
[Service]
Type=notify
Environment=PATH=/opt/runtime:/usr/sbin:/usr/bin:/sbin:/bin
ExecStart=/opt/runtime/containerd
ExecStartPost=/bin/sh -c '/opt/runtime/ctr -n k8s.io images ls -q | grep -qx IMAGE || \
 /opt/runtime/ctr -n k8s.io images import /opt/runtime/pod.tar'
Delegate=yes
KillMode=process
Restart=always
RestartSec=1
[Install]
WantedBy=multi-user.target
";

const CONTAINERD_CONFIG: &str = "version = 3

[plugins.'io.containerd.cri.v1.images'.pinned_images]
sandbox = 'IMAGE'

[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
runtime_type = 'io.containerd.runc.v2'

[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
BinaryName = 'RUNC'
SystemdCgroup = true

[plugins.'io.containerd.cri.v1.runtime'.cni]
bin_dirs = ['/usr/lib/cni']
conf_dir = '/etc/cni/net.d'
";

/// Addresses that were given are forgotten with the boot.
const NETWORK: &str = r#"{
  "cniVersion": "1.0.0",
  "name": "bed",
  "plugins": [
    {
      "type": "bridge",
      "bridge": "cni0",
      "isGateway": true,
      "ipMasq": false,
      "ipam": {"type": "host-local", "ranges": [[{"subnet": "SUBNET"}]], "dataDir": "/run/cni"}
    }
  ]
}
"#;

const SYSCTLS_UNIT: &str = "[Unit]
Description=Kernel settings as the kubelet wants them
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/sh /etc/bed/sysctls
[Install]
WantedBy=multi-user.target
";

/// What the kubelet sets when it differs (`setupKernelTunables`) are the outer machine's: files with the wanted values
/// stand over them, so that it finds nothing to set.
const SYSCTLS: &str = "set -e
mkdir -p /run/sysctls
for setting in vm/overcommit_memory=1 vm/panic_on_oom=0 kernel/panic=10 kernel/panic_on_oops=1 \\
    kernel/keys/root_maxkeys=1000000 kernel/keys/root_maxbytes=25000000; do
    name=${setting%=*}
    file=/run/sysctls/$(basename \"$name\")
    echo \"${setting#*=}\" >\"$file\"
    mount --bind \"$file\" \"/proc/sys/$name\"
done
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_machine_lacks_is_found_and_named() {
        let all = Lacks::read(
            "cpuset cpu io memory hugetlb pids",
            "CapBnd:\t000001ffffffffff\n",
        );
        assert_eq!(all.words(), None);
        let some = Lacks::read("hugetlb cpu", "CapBnd:\t000001fffeffffff\n");
        let words = "cgroup v2 without the controllers memory, pids, no CAP_SYS_RESOURCE";
        assert_eq!(some.words().unwrap(), words);
        assert!(Lacks::read("cpu memory pids", "").sys_resource, "not known");
    }

    #[test]
    fn each_host_has_addresses_of_its_own_for_pods() {
        assert_eq!(subnet("10.123.0.4"), "10.130.4.0/24");
        assert_eq!(subnet("10.123.3.200"), "10.133.200.0/24");
    }
}
