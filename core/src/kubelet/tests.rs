//! Whom to believe to be the kubelet, and what a command line says (I14).

use proptest::prelude::*;

use super::*;

const SERVICE: &str = "/system.slice/kubelet.service";

fn main_process() -> MainProcess {
    MainProcess {
        unit: "kubelet.service".to_owned(),
        pid: 7,
        cgroup: SERVICE.to_owned(),
    }
}

fn kubelet() -> Seen {
    Seen {
        status: "Name:\tkubelet\nUmask:\t0022\nTgid:\t7\nUid:\t0\t0\t0\t0\nGid:\t0\t0\t0\t0\nNSpid:\t7\n".to_owned(),
        cgroup: format!("0::{SERVICE}\n"),
        comm: "kubelet\n".to_owned(),
        line: b"/usr/bin/kubelet\0--v=2\0--kubeconfig=/etc/k\0".to_vec(),
    }
}

#[test]
fn i14_only_a_services_main_process_of_root_in_the_hosts_namespace_is_believed() {
    let process = main_process();
    let found = kubeconfig(&process, &kubelet());
    assert_eq!(found, Some(PathBuf::from("/etc/k")));
    let status = |from: &str, to: &str| {
        let seen = kubelet();
        let status = seen.status.replace(from, to);
        assert_ne!(status, seen.status);
        Seen { status, ..seen }
    };
    let grouped = |cgroup: &str| Seen {
        cgroup: cgroup.to_owned(),
        ..kubelet()
    };
    for (why, seen) in [
        (
            "another real uid",
            status("\t0\t0\t0\t0\nGid", "\t65534\t0\t0\t0\nGid"),
        ),
        (
            "another effective uid",
            status("\t0\t0\t0\t0\nGid", "\t0\t65534\t0\t0\nGid"),
        ),
        (
            "another saved uid",
            status("\t0\t0\t0\t0\nGid", "\t0\t0\t65534\t0\nGid"),
        ),
        ("no uid", status("Uid:", "Sid:")),
        (
            "a process of a container",
            status("NSpid:\t7", "NSpid:\t7\t1"),
        ),
        ("the number of another", status("NSpid:\t7", "NSpid:\t77")),
        ("no number", status("NSpid:\t7\n", "")),
        ("another group", grouped("0::/system.slice/other.service\n")),
        (
            "a group with a longer name",
            grouped("0::/system.slice/kubelet.serviced\n"),
        ),
        (
            "a user's group of that name",
            grouped("0::/user.slice/user-1000.slice/system.slice/kubelet.service\n"),
        ),
        (
            "another hierarchy",
            grouped("4:memory:/system.slice/kubelet.service\n"),
        ),
        (
            "one without a controller",
            grouped("4::/system.slice/kubelet.service\n"),
        ),
        (
            "one of version 1 that is numbered as version 2 is",
            grouped("0:memory:/system.slice/kubelet.service\n"),
        ),
        ("no group", grouped("")),
        (
            "a relative path",
            Seen {
                line: b"kubelet\0--kubeconfig=k\0".to_vec(),
                ..kubelet()
            },
        ),
        (
            "another program",
            Seen {
                line: b"/bin/sh\0--kubeconfig=/k\0".to_vec(),
                comm: "sh\n".to_owned(),
                ..kubelet()
            },
        ),
    ] {
        assert_eq!(kubeconfig(&process, &seen), None, "{why}");
    }
    for cgroup in [
        "12:memory:/x\n1:name=systemd:/system.slice/kubelet.service\n",
        "0::/system.slice/kubelet.service/supervised\n",
    ] {
        assert!(kubeconfig(&process, &grouped(cgroup)).is_some(), "{cgroup}");
    }
    for cgroup in ["", "/"] {
        let cgroup = cgroup.to_owned();
        let nowhere = MainProcess {
            cgroup,
            ..process.clone()
        };
        assert_eq!(kubeconfig(&nowhere, &grouped("0::/\n")), None);
    }
}

proptest! {
    #[test]
    fn only_a_kubelets_last_flag_names_a_kubeconfig(
        words in prop::collection::vec(prop_oneof![
            Just("--kubeconfig".to_owned()), Just("-kubeconfig".to_owned()), "--?kubeconfig=[/a-z]{0,5}", "[-a-z=/]{0,8}",
        ], 0..8), program in prop_oneof!["/usr/bin/kubelet", "kubelet", "kubectl", "kube", "grep", ".{0,5}"], comm in prop_oneof!["kubelet", "sh"]) {
        let line: Vec<u8> = std::iter::once(&program).chain(&words).flat_map(|word| word.bytes().chain([0])).collect();
        let found = flag(&line, &comm);
        let kubelet = comm == "kubelet" || Path::new(program.split('\0').next().unwrap_or_default()).file_name() == Some("kubelet".as_ref());
        if let Some(found) = &found {
            prop_assert!(kubelet && !found.as_os_str().is_empty());
            let found = found.to_str().expect("text");
            prop_assert!(words.iter().any(|word| word == found || word.strip_suffix(found).is_some_and(|flag| flag.ends_with("kubeconfig="))));
        }
        let last = words.last().and_then(|word| word.strip_prefix("--kubeconfig=")).filter(|path| !path.is_empty());
        let taken = words.len() > 1 && words[words.len() - 2].trim_start_matches('-') == "kubeconfig";
        if let Some(last) = last.filter(|_| kubelet && !taken && !program.contains('\0') && Path::new(&program).file_name().is_some()) {
            prop_assert_eq!(found, Some(PathBuf::from(last)));
        }
    }

    #[test]
    fn any_bytes_as_a_command_line_are_answered(line in prop::collection::vec(any::<u8>(), 0..80), cut in garble::bytes(b"kubelet\0--kubeconfig\0/k\0".to_vec())) {
        prop_assert_eq!(flag(&line, "init"), None);
        let _ = (flag(&line, "kubelet"), flag(&cut, ""));
    }

    #[test]
    fn i14_no_damage_to_what_proc_says_makes_a_process_more_than_it_is(
        status in garble::text("Name:\tx\nUid:\t1000\t1000\t1000\t1000\nNSpid:\t7\t1\n"), cgroup in garble::text("0::/user.slice\n")) {
        let seen = Seen { status, cgroup, ..kubelet() };
        prop_assert_eq!(kubeconfig(&main_process(), &seen), None);
    }
}
