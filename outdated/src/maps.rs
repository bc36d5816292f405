//! Lines of /proc/PID/maps: code that runs from a file which is no longer there (`proc_pid_maps(5)`).
//!
//! Package managers replace files by rename, so what runs from the old one shows as deleted (proved for
//! dpkg, rpm and pacman). The path is not looked up: in another mount namespace it would be another file.

/// Where packages put code. Elsewhere (/memfd:, /dev/zero, SYSV segments, /tmp, /run, [aio]) a deleted
/// file is how programs make memory of their own.
const PLACES: [&str; 7] = [
    "/usr/", "/lib/", "/lib32/", "/lib64/", "/bin/", "/sbin/", "/opt/",
];
const DELETED: &str = " (deleted)";
/// rpm unpacks into `name;HEX` before it renames, and dentries may keep that name.
const RPM_HEX: usize = 8;

/// The file behind an executable mapping of replaced code.
pub fn replaced(line: &str) -> Option<&str> {
    let (permissions, path) = fields(line)?;
    if permissions.as_bytes().get(2) != Some(&b'x') {
        return None;
    }
    let path = deleted(path)?;
    // `#123` is an O_TMPFILE, which never had a name.
    let name = path.rsplit('/').next().unwrap_or_default();
    let counts = PLACES.iter().any(|place| path.starts_with(place)) && !name.starts_with('#');
    counts.then_some(path)
}

/// The path of a file that is no longer there, as the kernel tells it.
pub fn deleted(path: &str) -> Option<&str> {
    path.strip_suffix(DELETED).map(without_rpm)
}

/// The name in `/proc/PID/map_files` of the mapping in a line: its addresses, there without leading zeros.
pub fn range(line: &str) -> Option<String> {
    let (range, _) = line.split_once(' ')?;
    let (from, to) = range.split_once('-')?;
    let number = |text: &str| u64::from_str_radix(text, 16).ok();
    Some(format!("{:x}-{:x}", number(from)?, number(to)?))
}

/// `ADDRESS PERMISSIONS OFFSET DEVICE INODE   PATH`; the path may hold blanks.
fn fields(line: &str) -> Option<(&str, &str)> {
    let (_, rest) = line.split_once(' ')?;
    let (permissions, mut rest) = rest.split_once(' ')?;
    for _ in 0..3 {
        rest = rest.trim_start_matches(' ');
        rest = &rest[rest.find(' ')?..];
    }
    let path = rest.trim_start_matches(' ');
    (!path.is_empty()).then_some((permissions, path))
}

fn without_rpm(path: &str) -> &str {
    match path.rsplit_once(';') {
        Some((file, hex))
            if hex.len() >= RPM_HEX && hex.bytes().all(|byte| byte.is_ascii_hexdigit()) =>
        {
            file
        }
        _ => path,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn line(permissions: &str, path: &str) -> String {
        format!(
            "7f21a4c00000-7f21a4c9b000 {permissions} 00026000 fe:00 393449                     {path}"
        )
    }

    #[test]
    fn code_below_the_packages_places_counts() {
        for (path, file) in [
            (
                "/usr/lib/x86_64-linux-gnu/libssl.so.3",
                "/usr/lib/x86_64-linux-gnu/libssl.so.3",
            ),
            (
                "/lib/x86_64-linux-gnu/libc.so.6",
                "/lib/x86_64-linux-gnu/libc.so.6",
            ),
            ("/usr/sbin/sshd", "/usr/sbin/sshd"),
            ("/opt/an agent/bin/agent", "/opt/an agent/bin/agent"),
            ("/usr/lib64/libz.so.1;5f3a1b2c", "/usr/lib64/libz.so.1"),
            ("/usr/lib64/a;b", "/usr/lib64/a;b"),
        ] {
            let text = line("r-xp", &format!("{path} (deleted)"));
            assert_eq!(replaced(&text), Some(file), "{text}");
            // As it is, or not as code, it says nothing.
            assert_eq!(replaced(&line("r-xp", path)), None);
            for data in ["r--p", "rw-p", "r--s", "rw-s"] {
                assert_eq!(replaced(&line(data, &format!("{path} (deleted)"))), None);
            }
        }
    }

    #[test]
    fn memory_that_only_looks_like_a_file_does_not() {
        for path in [
            "/memfd:runc_cloned:/proc/self/exe (deleted)",
            "/dev/zero (deleted)",
            "/dev/shm/x (deleted)",
            "/SYSV00000000 (deleted)",
            "/[aio] (deleted)",
            "/tmp/jna123.tmp (deleted)",
            "/var/tmp/x (deleted)",
            "/run/user/0/orcexec.1 (deleted)",
            "/usr/lib/#1234 (deleted)",
            "/usrx/lib/a (deleted)",
            "/home/me/a.out (deleted)",
            "[vdso]",
            "",
        ] {
            assert_eq!(replaced(&line("r-xp", path)), None, "{path}");
        }
        // An anonymous mapping ends after the inode.
        assert_eq!(replaced("7ffd0000-7ffd1000 r-xp 00000000 00:00 0 "), None);
        assert_eq!(replaced("7ffd0000-7ffd1000 r-xp 00000000 00:00 0"), None);
        assert_eq!(replaced(" (deleted)"), None);
    }

    #[test]
    fn a_mapping_is_named_as_map_files_names_it() {
        for (line, name) in [
            (
                "7f21a4c00000-7f21a4c9b000 r-xp 0 fe:00 3 /x",
                Some("7f21a4c00000-7f21a4c9b000"),
            ),
            ("00400000-00452000 r-xp 0 fe:00 3 /x", Some("400000-452000")),
            ("../../x-0 r-xp", None),
            ("00400000 r-xp", None),
            ("", None),
        ] {
            assert_eq!(range(line).as_deref(), name, "{line}");
        }
    }

    proptest! {
        #[test]
        fn any_line_is_read(text in ".{0,80}") {
            let _ = (replaced(&text), range(&text));
        }

        #[test]
        fn only_deleted_code_of_a_place_is_ever_named(
            permissions in "[r-][w-][x-][ps]",
            path in "(/usr/|/opt/|/tmp/|/)[a-z ;#/]{1,12}",
            deleted in any::<bool>(),
        ) {
            let text = line(&permissions, &format!("{path}{}", if deleted { DELETED } else { "" }));
            if let Some(found) = replaced(&text) {
                prop_assert!(deleted && permissions.contains('x'));
                prop_assert!(path.starts_with(found));
                prop_assert!(found.starts_with("/usr/") || found.starts_with("/opt/"));
            }
        }
    }
}
