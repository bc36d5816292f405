//! Objects of the API server as an admin reads them, without a process for each: kubectl takes a tenth of a second of CPU
//! to start, and a test that waits for something asks many times.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::Value;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::ground;

/// How long one read may take, as one of kubectl.
const LIMIT: Duration = Duration::from_secs(20);

/// The threads that read, by the name of their bed. One each: a socket belongs to the network that its thread is in, and
/// tests are in whatever network, with a runtime of their own or with none.
static READERS: Mutex<BTreeMap<String, UnboundedSender<Read>>> = Mutex::new(BTreeMap::new());

/// One read that is asked for.
struct Read {
    path: String,
    answer: mpsc::Sender<Result<Value>>,
}

/// The object or the list at `path`, in the bed of this name and with the rights of this kubeconfig.
pub(crate) fn get(bed: &str, kubeconfig: &Path, path: &str) -> Result<Value> {
    let (answer, answered) = mpsc::channel();
    let path = path.to_owned();
    let mut readers = READERS.lock().unwrap_or_else(PoisonError::into_inner);
    let reader = readers
        .entry(bed.to_owned())
        .or_insert_with(|| reader(bed.to_owned(), kubeconfig.to_owned()));
    // A reader that could not start has dropped its end; the next read starts another one.
    if reader.send(Read { path, answer }).is_err() {
        readers.remove(bed);
    }
    drop(readers);
    answered
        .recv()
        .context("the thread that reads from the API server has ended")?
}

/// A client for a kubeconfig, which retries nothing.
pub(crate) async fn client(kubeconfig: &Path) -> Result<Client> {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
    let mut config =
        Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    config.default_retry = false;
    config.proxy_url = None;
    config.connect_timeout = Some(Duration::from_secs(5));
    Ok(Client::try_from(config)?)
}

/// Ends the thread that reads in the bed of this name: one that is made again under it has another authority.
pub(crate) fn forget(bed: &str) {
    let mut readers = READERS.lock().unwrap_or_else(PoisonError::into_inner);
    readers.remove(bed);
}

/// Starts the thread that reads in a bed.
fn reader(bed: String, kubeconfig: PathBuf) -> UnboundedSender<Read> {
    let (send, reads) = unbounded_channel();
    thread::spawn(move || {
        if let Err(err) = run(&bed, &kubeconfig, reads) {
            eprintln!("bed {bed}: reads: {err:#}");
        }
    });
    send
}

fn run(bed: &str, kubeconfig: &Path, mut reads: UnboundedReceiver<Read>) -> Result<()> {
    ground::enter(bed)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let client = client(kubeconfig).await?;
        while let Some(read) = reads.recv().await {
            let client = client.clone();
            tokio::spawn(async move {
                let said = tokio::time::timeout(LIMIT, ask(&client, &read.path)).await;
                let said = said.unwrap_or_else(|_| Err(anyhow::anyhow!("no answer in {LIMIT:?}")));
                // Whoever asked may not wait any more.
                let _ = read
                    .answer
                    .send(said.with_context(|| format!("get {}", read.path)));
            });
        }
        Ok(())
    })
}

async fn ask(client: &Client, path: &str) -> Result<Value> {
    let request = http::Request::get(path).body(Vec::new())?;
    Ok(client.request(request).await?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bed::Bed;

    #[test]
    fn a_bed_that_is_taken_down_has_no_reader_any_more() {
        let name = format!("never-up-{}", std::process::id());
        let (reader, mut reads) = unbounded_channel();
        READERS.lock().unwrap().insert(name.clone(), reader);
        Bed::down(&name).unwrap();
        assert!(!READERS.lock().unwrap().contains_key(&name));
        // With its only sender gone the thread ends.
        assert!(reads.blocking_recv().is_none());
    }
}
