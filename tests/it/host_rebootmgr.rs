//! rebootmgr's socket, with clients that are processes of their own: root and somebody else (I14).

use std::time::Duration;

use kube_rebootd::host::rebootmgr::Clients;
use kube_rebootd::root::Root;
use kube_rebootd_core::kind::Kind;
use kube_rebootd_core::rebootmgr::{Ask, SOCKET, Shown, Stands};
use serde_json::{Value, json};
use tokio::process::Command;
use tokio::time::timeout;

/// A client in Perl: it sends its second argument to the socket that is the first, and prints the answer. `varlinkctl` came with
/// systemd 255.
pub(crate) const CLIENT: &str = r#"use IO::Socket::UNIX; $/ = "\0"; my ($path, $call) = @ARGV;
my $socket = IO::Socket::UNIX->new(Peer => $path) or die "cannot connect: $!\n";
print $socket $call . "\0"; $socket->flush; my $answer = <$socket>;
defined $answer or die "no answer\n"; chomp $answer; print $answer;"#;
const LIMIT: Duration = Duration::from_secs(60);

async fn calls(root: &Root, nobody: bool, method: &str, parameters: &Value) -> Value {
    let mut command = Command::new("setpriv");
    if nobody {
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
    }
    let call =
        json!({"method": format!("org.openSUSE.rebootmgr.{method}"), "parameters": parameters});
    command.args(["perl", "-e", CLIENT]);
    command.arg(root.path(SOCKET)).arg(call.to_string());
    let said = timeout(LIMIT, command.output()).await.expect("in time");
    let said = said.expect("it runs");
    let words = String::from_utf8_lossy(&said.stderr).into_owned();
    serde_json::from_slice(&said.stdout).unwrap_or_else(|_| panic!("{words}"))
}

#[tokio::test]
async fn i14_only_root_asks_for_a_reboot_and_everybody_how_it_stands() {
    let dir = tempfile::tempdir().expect("a directory");
    let root = Root::at(dir.path());
    std::fs::create_dir(root.path("/run")).expect("made");
    for path in ["/", "/run"] {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(root.path(path), mode).expect("set");
    }
    let mut clients = Clients::new(&root);
    clients.show(Shown {
        stands: Stands::Due,
        kind: Kind::Reboot,
        when: "draining".to_owned(),
        disabled: false,
    });
    clients.follow(true);
    let there = async {
        while !root.path(SOCKET).exists() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(LIMIT, there).await.expect("it is served");
    let loops = async {
        let mut asked = Vec::new();
        for _ in 0..2 {
            let given = clients.next().await;
            asked.push(given.ask);
            given.answer(Ok(()));
        }
        asked
    };
    let asks = async {
        for nobody in [true, false] {
            let reboot = calls(&root, nobody, "Reboot", &json!({"Reboot": 1})).await;
            let cancel = calls(&root, nobody, "Cancel", &json!({})).await;
            for answer in [reboot, cancel] {
                let denied = answer["error"] == "org.varlink.service.PermissionDenied";
                assert_eq!(denied, nobody, "{answer}");
                assert_eq!(answer.get("error").is_some(), nobody, "{answer}");
            }
            let status = calls(&root, nobody, "Status", &json!({})).await;
            assert_eq!(status["parameters"]["RebootTime"], "draining", "{status}");
        }
    };
    let (asked, ()) = tokio::join!(loops, asks);
    assert_eq!(
        asked,
        [
            Ask::Reboot {
                kind: Kind::Reboot,
                now: false
            },
            Ask::Cancel
        ]
    );
}
