//! /proc/PID/cgroup: which systemd unit a process belongs to, and whether to a container
//! (cgroups(7); systemd's own reading of a path is `cg_path_get_unit`).

/// First words of the cgroups that container runtimes make, whichever driver they use: kubelet,
/// containerd, CRI-O (with its conmon), Docker, Podman, LXC; systemd-machined's hosts are in machine.slice.
const CONTAINERS: [&str; 9] = [
    "kubepods",
    "cri-containerd-",
    "crio-",
    "docker-",
    "libpod-",
    "libpod_",
    "lxc.payload",
    "lxc.monitor",
    "machine.slice",
];
/// cgroupfs drivers name a directory after the runtime, with the container below it.
const PARENTS: [&str; 3] = ["docker", "containerd", "lxc"];

/// What the lines `ID:CONTROLLERS:PATH` of a process tell of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    pub container: bool,
    pub unit: Option<String>,
}

/// Reads /proc/PID/cgroup.
pub fn place(text: &str) -> Place {
    let lines = || {
        text.lines().filter_map(|line| {
            let (_, rest) = line.split_once(':')?;
            rest.split_once(':')
        })
    };
    // systemd's hierarchy is v2, which has no controllers in its line, or a named one of v1. A host may
    // show both, with the other one empty.
    let unit_in = |wanted: &str| {
        lines().find_map(|(controllers, path)| (controllers == wanted).then(|| unit(path))?)
    };
    Place {
        container: lines().any(|(_, path)| of_container(path)),
        unit: unit_in("").or_else(|| unit_in("name=systemd")),
    }
}

/// Whether the path is that of a container: it ends with its pod, not with the host.
fn of_container(path: &str) -> bool {
    let parts: Vec<&str> = path.split('/').collect();
    let below = parts.iter().rev().skip(1);
    let named = |part: &&str| {
        // `crio.service`, `docker-registry.service`: services of the host.
        kind(part) != "service" && CONTAINERS.iter().any(|word| part.starts_with(word))
    };
    parts.iter().any(named) || { below }.any(|part| PARENTS.contains(part))
}

/// The unit of the path: its first part that is no slice.
fn unit(path: &str) -> Option<String> {
    let part = (path.split('/')).find(|part| !part.is_empty() && kind(part) != "slice")?;
    // A name that the kernel could mistake for a file of its own is escaped by one underscore.
    let unit = part.strip_prefix('_').unwrap_or(part);
    ["service", "scope"]
        .contains(&kind(unit))
        .then(|| unit.to_owned())
}

/// A unit's kind, as the end of its name says it.
pub fn kind(unit: &str) -> &str {
    unit.rsplit_once('.').map_or("", |(_, kind)| kind)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_unit_is_systemds() {
        let place = |text: &str| {
            let place = place(text);
            (place.container, place.unit.unwrap_or_default())
        };
        let host = |unit: &str| (false, unit.to_owned());
        let v1 = "12:pids:/x\n1:name=systemd:/system.slice/a.service\n0::/\n";
        assert_eq!(place(v1), host("a.service"));
        // A v2 system inside a hybrid one (proved in nspawn).
        let nested = "1:name=systemd:/\n0::/system.slice/a.service\n";
        assert_eq!(place(nested), host("a.service"));
        assert_eq!(place("0::/init.scope\n"), host("init.scope"));
        assert_eq!(place("0::/a:b.service\n"), host("a:b.service"));
        assert_eq!(place("7:cpu:/a.service\n"), host(""));
        assert_eq!(place(""), host(""));
        assert_eq!(place("nothing"), host(""));
        let pod = "4:memory:/kubepods/besteffort/pod1/0123\n0::/\n";
        assert_eq!(place(pod), (true, String::new()));
    }

    #[test]
    fn units_are_found_in_slices() {
        for (path, wanted) in [
            ("/system.slice/ssh.service", Some("ssh.service")),
            (
                "/system.slice/system-getty.slice/getty@tty1.service",
                Some("getty@tty1.service"),
            ),
            ("/init.scope", Some("init.scope")),
            (
                "/user.slice/user-0.slice/session-1.scope",
                Some("session-1.scope"),
            ),
            (
                "/user.slice/user-0.slice/user@0.service/app.slice/dbus.service",
                Some("user@0.service"),
            ),
            ("/system.slice/k3s.service/init", Some("k3s.service")),
            ("/system.slice/_cpu.service", Some("cpu.service")),
            ("/", None),
            ("/custom/group", None),
        ] {
            assert_eq!(unit(path).as_deref(), wanted, "{path}");
        }
    }

    #[test]
    fn containers_are_told_from_services() {
        for path in [
            "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1.slice/cri-containerd-1.scope",
            "/kubepods/besteffort/pod1/0123",
            "/kubelet.slice/kubelet-kubepods.slice/cri-containerd-1.scope",
            "/system.slice/docker-0123.scope",
            "/docker/0123",
            "/machine.slice/libpod-0123.scope/container",
            "/machine.slice/systemd-nspawn@a.service/payload/init.scope",
            "/user.slice/user-1.slice/user@1.service/user.slice/libpod-1.scope",
            "/system.slice/crio-0123.scope",
            "/system.slice/crio-conmon-0123.scope",
            "/lxc.payload.a/init.scope",
        ] {
            assert!(of_container(path), "{path}");
        }
        for path in [
            "/system.slice/containerd.service",
            "/system.slice/docker.service",
            "/system.slice/docker-registry.service",
            "/system.slice/crio.service",
            "/system.slice/kubelet.service",
            "/system.slice/k3s.service",
            "/init.scope",
            "/",
            "",
        ] {
            assert!(!of_container(path), "{path}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read(text in "(?s).{0,80}") {
            if let Some(unit) = place(&text).unit {
                prop_assert!(["service", "scope"].contains(&kind(&unit)));
            }
        }
    }
}
