//! `kube-rebootd boot-ok` on a directory as host, with a small server as the kubelet's /healthz.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::cli_host::{CliHost, Said};

const YES: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// A host that has joined a cluster. Nothing that is wrong with it but the kubelet may make its boot a bad one: neither its
/// kubeconfig nor the configuration.
async fn node() -> CliHost {
    let host = CliHost::start().await;
    host.write("/etc/kubernetes/kubelet.conf", "no kubeconfig at all");
    host.write("/etc/kube-rebootd/config.toml", "no_such_key = 1\n");
    host
}

/// A port of 127.0.0.1 that is free.
async fn port() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").await.expect("a port")
}

/// Answers so from now on, and /proc says that this user has accepted the connection; none: it says nothing.
fn serve(host: &CliHost, listener: TcpListener, answer: &'static str, uid: Option<u32>) {
    host.write("/proc/net/tcp", "");
    let table = host.root().path("/proc/net/tcp");
    tokio::spawn(async move {
        while let Ok((mut stream, peer)) = listener.accept().await {
            let own = stream.local_addr().expect("an address");
            if let Some(uid) = uid {
                std::fs::write(&table, row(own, peer, "01", uid)).expect("written");
            }
            let mut request = [0; 1024];
            let read = stream.read(&mut request).await.unwrap_or(0);
            assert!(request[..read].starts_with(b"GET /healthz HTTP/1."));
            let _ = stream.write_all(answer.as_bytes()).await;
            // As a server that keeps connections: the other end closes it.
            let _ = stream.read(&mut request).await;
        }
    });
}

/// A line of /proc/net/tcp.
fn row(local: SocketAddr, remote: SocketAddr, state: &str, uid: u32) -> String {
    let place = |at: SocketAddr| {
        let ip = match at.ip() {
            std::net::IpAddr::V4(ip) => u32::from_ne_bytes(ip.octets()),
            std::net::IpAddr::V6(_) => 0,
        };
        format!("{ip:08X}:{:04X}", at.port())
    };
    format!(
        "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n   0: {} {} {state} \
         00000000:00000000 00:00000000 00000000 {uid:5}        0 9 1 0 100 0 0 10 0\n",
        place(local),
        place(remote),
    )
}

async fn ask(host: &CliHost, at: SocketAddr, wait: &str) -> Said {
    let at = at.to_string();
    host.run(&["boot-ok", "--healthz", &at, "--wait", wait])
        .await
}

#[tokio::test]
async fn a_kubelet_that_answers_is_all_that_counts() {
    let host = node().await;
    let listener = port().await;
    let at = listener.local_addr().expect("an address");
    serve(&host, listener, YES, Some(0));
    let said = ask(&host, at, "0s").await;
    assert_eq!(
        said.out,
        "the kubelet of this boot is alive: it answers at /healthz\n"
    );
    assert_eq!((said.code, said.err.as_str()), (Some(0), ""));
}

#[tokio::test]
async fn a_kubelet_that_comes_late_is_waited_for() {
    let host = node().await;
    let at = port().await.local_addr().expect("an address");
    let later = async {
        tokio::time::sleep(Duration::from_secs(3)).await;
        let listener = TcpListener::bind(at).await.expect("the same port");
        serve(&host, listener, YES, Some(0));
    };
    let (said, ()) = tokio::join!(ask(&host, at, "1m"), later);
    assert_eq!(said.code, Some(0), "{}", said.err);
}

#[tokio::test]
async fn i8_a_boot_without_a_kubelet_is_no_good_one() {
    let host = node().await;
    let at = port().await.local_addr().expect("an address");
    let begins = format!("kube-rebootd: no kubelet is alive within 0s: {at}: ");
    let said = ask(&host, at, "0s").await;
    assert_eq!((said.code, said.out.as_str()), (Some(1), ""));
    assert!(said.err.starts_with(&begins), "{}", said.err);
    assert!(said.err.contains("refused"), "{}", said.err);
    // k3s has the kubelet in it, and may crash again.
    host.bus.knobs().services = vec![("k3s-agent.service".to_owned(), 7, "/x".to_owned())];
    let said = ask(&host, at, "0s").await;
    assert_eq!(said.code, Some(1));
    assert!(
        said.err.ends_with("; k3s-agent.service runs for 0s only\n"),
        "{}",
        said.err
    );

    let listener = port().await;
    let at = listener.local_addr().expect("an address");
    serve(
        &host,
        listener,
        "HTTP/1.1 500 Internal Server Error\r\n\r\n",
        Some(0),
    );
    let said = ask(&host, at, "0s").await;
    assert_eq!(said.code, Some(1));
    let wanted = "the answer to /healthz is HTTP/1.1 500 Internal Server Error";
    assert!(said.err.contains(wanted), "{}", said.err);
}

#[tokio::test]
async fn i7_a_kubelet_that_hangs_is_not_waited_for_without_end() {
    let host = node().await;
    // The kernel takes the connection.
    let listener = port().await;
    let at = listener.local_addr().expect("an address");
    let said = ask(&host, at, "0s").await;
    assert_eq!(said.code, Some(1));
    assert!(
        said.err.contains("no answer within 5 seconds"),
        "{}",
        said.err
    );
}

#[tokio::test]
async fn i14_a_server_of_an_ordinary_user_proves_nothing() {
    // Not known who answers, then a user.
    for uid in [None, Some(1000)] {
        let (host, listener) = (node().await, port().await);
        let at = listener.local_addr().expect("an address");
        serve(&host, listener, YES, uid);
        let said = ask(&host, at, "0s").await;
        assert_eq!(said.code, Some(1), "{}", said.out);
        assert!(said.err.contains("not known to be root,"), "{}", said.err);
    }
}

/// Found by review: any user could make every boot a bad one. Whoever listens in place of the kubelet keeps it from being heard;
/// that its process runs is seen all the same, and has to do once it stays for a minute.
#[tokio::test]
async fn i14_who_listens_before_the_kubelet_makes_no_boot_a_bad_one() {
    let host = node().await;
    let at = port().await.local_addr().expect("an address");
    host.bus.knobs().services = vec![("kubelet.service".to_owned(), 7, "/x".to_owned())];
    let said = ask(&host, at, "0s").await;
    assert!(!said.err.contains("kubelet.service"), "{}", said.err);
    let nobody = "0.0.0.0:0".parse().expect("an address");
    host.write("/proc/net/tcp", &row(at, nobody, "0A", 1000));
    let said = ask(&host, at, "0s").await;
    assert_eq!(said.code, Some(1));
    let runs = "; kubelet.service runs for 0s only\n";
    assert!(said.err.ends_with(runs), "{}", said.err);
    // One who has the port and listens to nobody stands in no table.
    host.write("/proc/net/tcp", "");
    let socket = tokio::net::TcpSocket::new_v4().expect("a socket");
    socket.bind(at).expect("the same port");
    let said = ask(&host, at, "0s").await;
    assert!(said.err.ends_with(runs), "{}", said.err);
    drop(socket);
    // What root's server says counts, whoever listens beside it.
    let rows = [row(at, nobody, "0A", 0), row(at, nobody, "0A", 1000)].concat();
    host.write("/proc/net/tcp", &rows);
    let said = ask(&host, at, "0s").await;
    assert!(!said.err.contains("kubelet.service"), "{}", said.err);
}

#[tokio::test]
async fn a_host_that_never_joined_has_nothing_to_prove() {
    let host = CliHost::start().await;
    let at = port().await.local_addr().expect("an address");
    let said = ask(&host, at, "0s").await;
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert!(said.out.starts_with("this host is no node yet"));
    // One that was a node, and whose kubeconfig is lost.
    host.write("/var/lib/kube-rebootd/state.json", "{}");
    assert_eq!(ask(&host, at, "0s").await.code, Some(1));
}
