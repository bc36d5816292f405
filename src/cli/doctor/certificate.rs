//! What the kubeconfig proves this node by, and until when (docs/design.md 3).

use std::path::Path;

use jiff::{SignedDuration, Timestamp, Unit};
use kube::config::AuthInfo;

use super::Check;
use crate::bounded;
use crate::cluster::certificate::{Validity, validity};
use crate::cluster::credentials::{Found, SECRET_MAX};
use crate::root::Root;

pub(super) const CREDENTIAL: &str = "credential";
/// The kubelet renews at 70 to 90 % of a certificate's life (client-go `util/certificate`).
const RENEWED_BY: i64 = 90;

/// The kubeconfig's user; a kubelet's has one.
pub(super) fn credential(root: &Root, found: &Found, now: Timestamp) -> Check {
    let mut users = found.kubeconfig.auth_infos.iter();
    let Some(user) = users.find_map(|user| user.auth_info.as_ref()) else {
        return Check::fail(CREDENTIAL, "the user is empty", join());
    };
    if let Some(file) = &user.client_certificate {
        let shown = shown(root, file);
        return match bounded::bytes(Path::new(file), SECRET_MAX) {
            Ok(pem) => certificate(&shown, &pem, now),
            Err(err) => Check::fail(CREDENTIAL, format!("{shown}: {err}"), join()),
        };
    }
    if user.client_certificate_data.is_some() {
        return match pem_inside(user) {
            Some(pem) => {
                let shown = format!("the certificate in {}", found.path.display());
                certificate(&shown, &pem, now)
            }
            None => Check::fail(
                CREDENTIAL,
                format!(
                    "{} holds a certificate that cannot be read",
                    found.path.display()
                ),
                join(),
            ),
        };
    }
    other(root, user)
}

fn other(root: &Root, user: &AuthInfo) -> Check {
    let exec = user.exec.as_ref();
    let what = match (
        &user.token_file,
        exec.and_then(|exec| exec.command.as_ref()),
    ) {
        _ if user.token.is_some() => "a token in the kubeconfig".to_owned(),
        (Some(file), _) => format!("the token file {}", shown(root, file)),
        (None, Some(command)) => format!("the plugin {}", shown(root, command)),
        (None, None) => return Check::fail(CREDENTIAL, "the user has none", join()),
    };
    Check::ok(CREDENTIAL, what)
}

/// A path of the kubeconfig as the host sees it.
fn shown(root: &Root, file: &str) -> String {
    let base = root.path("/");
    match Path::new(file).strip_prefix(&base) {
        Ok(rest) => Path::new("/").join(rest).display().to_string(),
        Err(_) => file.to_owned(),
    }
}

/// `client-certificate-data` is base64, as Kubernetes writes bytes everywhere.
fn pem_inside(user: &AuthInfo) -> Option<Vec<u8>> {
    let text = user.client_certificate_data.clone()?;
    let bytes = serde_json::from_value::<k8s_openapi::ByteString>(text.into()).ok()?;
    Some(bytes.0)
}

fn certificate(shown: &str, pem: &[u8], now: Timestamp) -> Check {
    let Some(Validity { begins, ends }) = validity(pem) else {
        return Check::fail(
            CREDENTIAL,
            format!("{shown} holds no certificate that can be read"),
            join(),
        );
    };
    let day = |moment: Timestamp| moment.strftime("%Y-%m-%d %H:%M UTC").to_string();
    if now >= ends {
        let what = format!(
            "{shown} expired {} ({} ago)",
            day(ends),
            rough(now.duration_since(ends))
        );
        return Check::fail(CREDENTIAL, what, join());
    }
    if now < begins {
        return Check::fail(
            CREDENTIAL,
            format!("{shown} begins only {}", day(begins)),
            "is this host's clock right? timedatectl",
        );
    }
    let left = ends.duration_since(now);
    let what = format!("{shown} is good for {}, until {}", rough(left), day(ends));
    let life = ends.duration_since(begins);
    if left.as_secs() < life.as_secs() / 100 * (100 - RENEWED_BY) {
        return Check::warn(
            CREDENTIAL,
            what,
            "it should have been renewed by now: journalctl -u kubelet; as an admin: kubectl get csr",
        );
    }
    Check::ok(CREDENTIAL, what)
}

/// In the unit that people would use.
fn rough(span: SignedDuration) -> String {
    let unit = match span.as_hours() {
        48.. => return format!("{} days", span.as_hours() / 24),
        1.. => Unit::Minute,
        _ => Unit::Second,
    };
    let span = span.round(unit).unwrap_or(span);
    format!("{span:#}")
}

fn join() -> &'static str {
    "restart the kubelet (k3s, rke2: the agent), which renews it if it still can: journalctl -u kubelet; else join the node anew (kubeadm join)"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bounded::odd;
    use crate::cluster::credentials::find;

    #[test]
    fn i7_a_certificate_that_is_no_file_is_told() {
        let dir = tempfile::tempdir().expect("a directory");
        let root = Root::at(dir.path());
        let text =
            "apiVersion: v1\nkind: Config\nusers:\n- name: u\n  user: {client-certificate: cert}\n";
        std::fs::write(root.path("/k"), text).expect("written");
        // It turns into that after the kubeconfig was found.
        let found = find(&root, Some(Path::new("/k")), &[]).expect("a kubeconfig");
        odd::each(&root.path("/cert"), SECRET_MAX, move || {
            format!("{:?}", credential(&root, &found, Timestamp::UNIX_EPOCH))
        });
    }

    #[test]
    fn spans_are_told_as_people_would() {
        for (seconds, words) in [
            (5, "5s"),
            (3 * 3600 + 20 * 60 + 7, "3h 20m"),
            (49 * 3600, "2 days"),
            (400 * 24 * 3600, "400 days"),
        ] {
            assert_eq!(rough(SignedDuration::from_secs(seconds)), words);
        }
    }
}
