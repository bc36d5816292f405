//! Who asks over FleetLock: the id of this host's updater, and the user whose process is connected (I14).

use std::io;

use kube_rebootd_core::alive;
use kube_rebootd_core::config::{FleetLock, Listen};
use kube_rebootd_core::fleet_lock::{Client, Kind, No};
use ring::hmac;

use crate::bounded;
use crate::host::door::Stream;
use crate::host::sockets;
use crate::root::Root;

/// Zincati's own, by which it makes its id of a machine's: `ZINCATI_APP_ID` in `src/identity/mod.rs`.
const APP: [u8; 16] = [
    0xde, 0x35, 0x10, 0x6b, 0x6e, 0xc2, 0x46, 0x88, 0xb6, 0x3a, 0xfd, 0xda, 0xa1, 0x56, 0x67, 0x9b,
];
const MACHINE_ID: &str = "/etc/machine-id";
/// Where users of the system stand; the second on systems with a read-only /usr (nss-altfiles).
const USERS: [&str; 2] = ["/etc/passwd", "/usr/lib/passwd"];
/// Bytes of such a file that are read.
const USERS_MAX: u64 = 1024 * 1024;
/// Bytes of the machine id with its line end, and a few more.
const MACHINE_ID_MAX: u64 = 64;
const ROOT: u32 = 0;

/// Whose requests count, if the connected process is one of a user who may ask. Reads files.
pub(super) fn permitted(root: &Root, place: &FleetLock, stream: &Stream) -> Result<Client, No> {
    let user = user(root, stream).map_err(|err| {
        let why = format!("it is not known which user is connected: {err}");
        No::new(Kind::Forbidden, &why)
    })?;
    // Over TCP not every connection of root's is one of an admin: `kubectl port-forward` to a pod with hostNetwork has root's
    // container runtime connect to whatever its caller names.
    let hears_root = matches!(stream, Stream::Unix(_));
    let heard = hears_root && user == ROOT || Some(user) == uid(root, &place.user);
    if !heard {
        let others = if hears_root { "root and " } else { "" };
        let why = format!(
            "user {user} may not ask here, but {others}{} (fleet_lock.user)",
            place.user
        );
        return Err(No::new(Kind::Forbidden, &why));
    }
    let id = match &place.id {
        Some(id) => id.clone(),
        None => own_id(root).map_err(|why| No::new(Kind::NotReady, &why))?,
    };
    Ok(Client {
        id,
        group: place.group.clone(),
    })
}

fn user(root: &Root, stream: &Stream) -> io::Result<u32> {
    match stream {
        Stream::Unix(stream) => Ok(stream.peer_cred()?.uid()),
        Stream::Tcp(stream) => {
            let (client, server) = (stream.peer_addr()?, stream.local_addr()?);
            let user = sockets::user_of(root, client, server);
            user.ok_or_else(|| io::Error::other(format!("/proc/net/tcp does not show {client}")))
        }
    }
}

/// The user's number; none: no file of the host has one of this name.
pub fn uid(root: &Root, name: &str) -> Option<u32> {
    USERS.iter().find_map(|path| {
        let text = bounded::text(&root.path(path), USERS_MAX).ok()?;
        text.lines().find_map(|line| {
            let mut fields = line.split(':');
            let named = fields.next() == Some(name);
            fields.nth(1).filter(|_| named)?.parse().ok()
        })
    })
}

/// The id that Zincati sends from this host where its configuration names none: the app-specific id of the machine, as
/// `sd_id128_get_machine_app_specific(3)` makes it.
///
/// # Errors
/// The machine has no id, and why.
pub fn own_id(root: &Root) -> Result<String, String> {
    let said = |why: String| format!("{MACHINE_ID}: {why}");
    let text = bounded::text(&root.path(MACHINE_ID), MACHINE_ID_MAX);
    let text = text.map_err(|err| said(err.to_string()))?;
    let machine = text.trim();
    let is_id = machine.len() == 32 && machine.bytes().all(|c| c.is_ascii_hexdigit());
    let machine = u128::from_str_radix(machine, 16).ok().filter(|_| is_id);
    let machine = machine.ok_or_else(|| said("is no id of 32 hexadecimal digits".to_owned()))?;
    Ok(app_specific(&machine.to_be_bytes()))
}

/// The user who listens where the updater is to ask, which takes whatever it is answered there for the answer of this daemon; one
/// who is not root before root.
pub fn listener(root: &Root, listen: &Listen) -> Option<u32> {
    match listen {
        Listen::Unix(path) => root.path(path).exists().then_some(ROOT),
        Listen::Tcp(address) => {
            let who = |line: &str| alive::listens(line, *address);
            let other = sockets::find(root, |line| who(line).filter(|user| *user != ROOT));
            other.or_else(|| sockets::find(root, who))
        }
    }
}

fn app_specific(machine: &[u8; 16]) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, machine);
    let tag = hmac::sign(&key, &APP);
    let mut id = [0; 16];
    for (byte, made) in id.iter_mut().zip(tag.as_ref()) {
        *byte = *made;
    }
    // It is shown as a UUID of version 4.
    id[6] = (id[6] & 0x0f) | 0x40;
    id[8] = (id[8] & 0x3f) | 0x80;
    format!("{:032x}", u128::from_be_bytes(id))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// As `systemd-id128 machine-id -a de35106b6ec24688b63afddaa156679b` says.
    #[test]
    fn the_id_is_the_one_that_systemd_makes_of_the_machines() {
        let dir = tempfile::tempdir().expect("a directory");
        let root = Root::at(dir.path());
        let path = root.path(MACHINE_ID);
        assert!(own_id(&root).is_err());
        fs::create_dir_all(path.parent().expect("a parent")).expect("made");
        fs::write(&path, "0123456789abcdef0123456789abcdef\n").expect("written");
        let id = own_id(&root).expect("an id");
        assert_eq!(id, "583627a932274834a8ebd99f4ed41c0d");
        // In the first boot of an image, and what is no id.
        for text in ["uninitialized\n", "", "+123456789abcdef0123456789abcdef"] {
            fs::write(&path, text).expect("written");
            let why = own_id(&root).expect_err(text);
            assert!(why.contains(MACHINE_ID), "{why}");
        }
    }

    #[test]
    fn a_user_is_found_in_either_file() {
        let dir = tempfile::tempdir().expect("a directory");
        let root = Root::at(dir.path());
        for (path, text) in [
            (
                "/etc/passwd",
                "root:x:0:0:root:/root:/bin/sh\ncore:x:1000:1000::/:/bin/sh\n",
            ),
            (
                "/usr/lib/passwd",
                "zincati:x:981:981:Zincati user:/:/sbin/nologin\n",
            ),
        ] {
            let path = root.path(path);
            fs::create_dir_all(path.parent().expect("a parent")).expect("made");
            fs::write(path, text).expect("written");
        }
        assert_eq!(uid(&root, "core"), Some(1000));
        assert_eq!(uid(&root, "zincati"), Some(981));
        assert_eq!(uid(&root, "x"), None);
        assert_eq!(uid(&root, "zin"), None);
    }
}
