//! The endpoint of a control plane on several hosts: a load balancer for TCP that sends nobody to an API server that is
//! not ready, and cuts the connections of one that no longer is, as those that are put before a control plane do.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{oneshot, watch};

use crate::bed::Bed;
use crate::certs::SERVER;

/// How often each is asked whether it is ready, and how long it may take.
const LOOK: Duration = Duration::from_secs(1);
const PORT: u16 = 6443;

/// Open as long as this value lives.
#[derive(Debug)]
pub(crate) struct Door {
    _end: oneshot::Sender<()>,
}

/// An API server, and whether it is ready.
#[derive(Debug, Clone)]
struct Behind {
    at: SocketAddr,
    ready: watch::Receiver<bool>,
}

impl Door {
    /// Listens where the API server of every other bed does, before those at `addresses`.
    pub(crate) fn open(bed: &Bed, addresses: Vec<String>) -> Result<Self> {
        let (end, ended) = oneshot::channel::<()>();
        let (told, tells) = std::sync::mpsc::channel();
        let bed = bed.clone();
        thread::Builder::new()
            .name("door".to_owned())
            .spawn(move || {
                let run = || {
                    bed.enter()?;
                    let runtime = tokio::runtime::Builder::new_current_thread()
                        .enable_all()
                        .build()?;
                    runtime.block_on(async {
                        let listener = TcpListener::bind((SERVER, PORT)).await?;
                        let _ = told.send(());
                        tokio::select! {
                            done = stand(&bed, listener, &addresses) => done,
                            _ = ended => Ok(()),
                        }
                    })
                };
                if let Err(err) = run() {
                    eprintln!("door: {err:#}");
                }
            })?;
        tells.recv().context("the endpoint cannot listen")?;
        Ok(Self { _end: end })
    }
}

async fn stand(bed: &Bed, listener: TcpListener, addresses: &[String]) -> Result<()> {
    let mut behind = Vec::new();
    for address in addresses {
        let (tell, ready) = watch::channel(false);
        let at = SocketAddr::new(address.parse()?, PORT);
        let client = client(bed, &at).await?;
        tokio::spawn(async move {
            loop {
                let asked = http::Request::get("/readyz").body(Vec::new());
                let answer = async { client.request_text(asked.ok()?).await.ok() };
                let answer = tokio::time::timeout(LOOK, answer).await.ok().flatten();
                let now = answer.as_deref() == Some("ok");
                tell.send_if_modified(|ready| std::mem::replace(ready, now) != now);
                tokio::time::sleep(LOOK).await;
            }
        });
        behind.push(Behind { at, ready });
    }
    let (behind, turn) = (Arc::new(behind), AtomicUsize::new(0));
    loop {
        let (client, _) = listener.accept().await?;
        let turn = turn.fetch_add(1, Ordering::Relaxed);
        let behind = Arc::clone(&behind);
        tokio::spawn(async move { lead(client, &behind, turn).await });
    }
}

/// To the next that is ready, until one side has enough or it no longer is; to none when none is.
async fn lead(mut client: TcpStream, behind: &[Behind], turn: usize) {
    let ready = |one: &&Behind| *one.ready.borrow();
    let ready: Vec<Behind> = behind.iter().filter(ready).cloned().collect();
    if ready.is_empty() {
        return;
    }
    let mut chosen = ready[turn % ready.len()].clone();
    let both = async {
        let mut server = TcpStream::connect(chosen.at).await?;
        tokio::io::copy_bidirectional(&mut client, &mut server).await
    };
    tokio::select! {
        _ = both => {}
        _ = chosen.ready.wait_for(|ready| !ready) => {}
    }
}

/// As an admin, who may ask before there is any role.
async fn client(bed: &Bed, at: &SocketAddr) -> Result<Client> {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut kubeconfig = Kubeconfig::read_from(bed.admin_kubeconfig())?;
    for cluster in &mut kubeconfig.clusters {
        if let Some(cluster) = &mut cluster.cluster {
            cluster.server = Some(format!("https://{at}"));
            cluster.tls_server_name = Some("localhost".to_owned());
        }
    }
    let mut config =
        Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    config.default_retry = false;
    config.proxy_url = None;
    Ok(Client::try_from(config)?)
}
