//! Where others of this host come in: an address or a Unix socket, kept open while the configuration names it.
//!
//! Whoever connects has no more than one of a few connections (I14). A socket that another daemon may have as well is never taken
//! away from one that listens there.

use std::collections::VecDeque;
use std::fs::{self, DirBuilder, Permissions};
use std::future::pending;
use std::io;
use std::os::unix::fs::{
    DirBuilderExt as _, FileTypeExt as _, MetadataExt as _, PermissionsExt as _,
};
use std::path::{Path, PathBuf};
use std::time::Duration;

use kube_rebootd_core::config::Listen;
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::root::Root;
use crate::trusted::only_root_can_change;

/// Until an address that cannot be had is tried again: it may come with the network.
const AGAIN: Duration = Duration::from_secs(30);
/// After a connection that could not be taken, as when there are no descriptors left.
const REST: Duration = Duration::from_secs(1);
/// Everybody on the host may read, as on D-Bus; who may enter the directory is decided there.
const MODE: u32 = 0o666;
/// Of a directory that is made for it.
const DIRECTORY: u32 = 0o755;
/// Who listens on a Unix socket takes a connection at once, or its queue is full.
const PROBE: Duration = Duration::from_secs(2);

/// Connections at once. One more ends the oldest.
pub(super) const CONNECTIONS: usize = 8;

/// What is served there, for messages.
#[derive(Debug, Clone, Copy)]
pub(super) struct Served {
    /// The key that names the place.
    pub(super) key: &'static str,
    /// With its verb, as in "metrics are".
    pub(super) what: &'static str,
}

/// Somebody who came in.
#[derive(Debug)]
pub(super) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

#[derive(Debug)]
pub(super) struct Door {
    served: Served,
    /// Another daemon may have the socket, and whoever was killed left it.
    shared: bool,
    listen: Option<Listen>,
    open: Option<Open>,
    again: Option<Instant>,
    /// What was said of an address that cannot be had.
    trouble: String,
}

#[derive(Debug)]
enum Open {
    Tcp(TcpListener),
    Unix(UnixListener, PathBuf, File),
}

/// Which file it is: device and inode. None: it is not there.
type File = Option<(u64, u64)>;

impl Door {
    /// It is closed.
    pub(super) fn new(served: Served) -> Self {
        Self {
            served,
            shared: false,
            listen: None,
            open: None,
            again: None,
            trouble: String::new(),
        }
    }

    /// The same, where another daemon may listen; the socket's directory is made.
    pub(super) fn shared(served: Served) -> Self {
        Self {
            shared: true,
            ..Self::new(served)
        }
    }

    /// It is to be open there, or closed.
    pub(super) fn follow(&mut self, root: &Root, listen: Option<&Listen>) {
        if self.listen.as_ref() == listen {
            return;
        }
        self.close();
        *self = Self {
            shared: self.shared,
            listen: listen.cloned(),
            ..Self::new(self.served)
        };
        if self.shared {
            // First it is seen who listens there.
            self.again = listen.map(|_| Instant::now());
        } else {
            self.open(root);
        }
    }

    /// The socket file goes with it.
    pub(super) fn close(&mut self) {
        if let Some(Open::Unix(listener, path, file)) = self.open.take() {
            drop(listener);
            // Nobody connects to what is left of it; what stands in its place is somebody else's.
            if file.is_some() && which(&path) == file {
                let _ = fs::remove_file(path);
            }
        }
    }

    /// The next who comes in. Cancel-safe.
    pub(super) async fn next(&mut self, root: &Root) -> Stream {
        loop {
            if self.open.is_none() {
                match self.again {
                    Some(again) => sleep_until(again).await,
                    None => pending().await,
                }
                match self.free(root).await {
                    Ok(()) => self.open(root),
                    Err(err) => self.failed(&err),
                }
            }
            let came = match &self.open {
                Some(Open::Tcp(listener)) => listener.accept().await.map(|it| Stream::Tcp(it.0)),
                Some(Open::Unix(listener, path, file)) => tokio::select! {
                    came = listener.accept() => came.map(|it| Stream::Unix(it.0)),
                    () = sleep(AGAIN), if self.shared => {
                        if which(path) != *file {
                            self.lost();
                        }
                        continue;
                    }
                },
                None => continue,
            };
            match came {
                Ok(stream) => return stream,
                Err(err) => {
                    let key = self.served.key;
                    tracing::debug!("a connection to {key} was not taken: {err}");
                    sleep(REST).await;
                }
            }
        }
    }

    fn open(&mut self, root: &Root) {
        let Some(listen) = &self.listen else { return };
        let what = self.served.what;
        let made = match listen {
            Listen::Unix(path) if self.shared => make_directory(root, path),
            Listen::Unix(_) | Listen::Tcp(_) => Ok(()),
        };
        match made.and_then(|()| bind(root, listen)) {
            Ok(open) => {
                tracing::info!("{what} served at {listen}");
                self.open = Some(open);
                self.trouble.clear();
            }
            Err(err) => self.failed(&err),
        }
    }

    fn failed(&mut self, err: &io::Error) {
        let Some(listen) = &self.listen else { return };
        let words = format!("{} not served at {listen}: {err}", self.served.what);
        if words != self.trouble {
            tracing::warn!("{words}; tried again");
            self.trouble = words;
        }
        self.again = Some(Instant::now() + AGAIN);
    }

    /// Another daemon was started and put its own socket there, or somebody removed ours.
    fn lost(&mut self) {
        tracing::warn!(
            "{} not served any more: somebody replaced the socket, or removed it",
            self.served.what
        );
        self.close();
        self.again = Some(Instant::now());
    }

    /// Nobody else listens there.
    async fn free(&self, root: &Root) -> io::Result<()> {
        let Some(Listen::Unix(path)) = self.listen.as_ref().filter(|_| self.shared) else {
            return Ok(());
        };
        let taken = || {
            io::Error::other(format!(
                "another process listens there: end it, with `systemctl mask --now` of its unit, or set {} = false",
                self.served.key
            ))
        };
        match timeout(PROBE, UnixStream::connect(root.path(path))).await {
            Ok(Ok(_)) | Err(_) => Err(taken()),
            Ok(Err(err)) => match err.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => Ok(()),
                // Its queue is full.
                io::ErrorKind::WouldBlock => Err(taken()),
                _ => Err(err),
            },
        }
    }
}

fn which(path: &Path) -> File {
    let metadata = fs::symlink_metadata(path).ok()?;
    Some((metadata.dev(), metadata.ino()))
}

/// The directory of a socket, which goes with the boot. One that is there stays as it is.
fn make_directory(root: &Root, path: &Path) -> io::Result<()> {
    let directory = root.path(path.parent().unwrap_or(Path::new("/")));
    match DirBuilder::new().mode(DIRECTORY).create(&directory) {
        // Whatever the umask is.
        Ok(()) => fs::set_permissions(&directory, Permissions::from_mode(DIRECTORY)),
        Err(err) if err.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(err) => Err(err),
    }
}

fn bind(root: &Root, listen: &Listen) -> io::Result<Open> {
    match listen {
        Listen::Tcp(address) => {
            // As tokio does: a daemon that starts again finds the address free (SO_REUSEADDR).
            let listener = std::net::TcpListener::bind(address)?;
            listener.set_nonblocking(true)?;
            TcpListener::from_std(listener).map(Open::Tcp)
        }
        Listen::Unix(path) => {
            // Else somebody could exchange the socket for a link before its mode is set.
            let directory = path.parent().unwrap_or(Path::new("/"));
            only_root_can_change(root, directory).map_err(io::Error::other)?;
            let path = root.path(path);
            stale(&path)?;
            let listener = UnixListener::bind(&path)?;
            fs::set_permissions(&path, Permissions::from_mode(MODE))?;
            let file = which(&path);
            Ok(Open::Unix(listener, path, file))
        }
    }
}

/// Removes the socket of a daemon that was killed: there is one daemon on a host, and nobody listens on one that others may have
/// ([`Door::free`]). Never anything else.
fn stale(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.file_type().is_socket() => fs::remove_file(path),
        Ok(_) => Err(io::Error::other(format!(
            "{} is there already, and no socket: move it away, or choose another path",
            path.display()
        ))),
        Err(err) if err.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(err) => Err(err),
    }
}

/// Who came in and has no answer yet: never more than [`CONNECTIONS`].
#[derive(Debug, Default)]
pub(super) struct Callers {
    tasks: JoinSet<()>,
    /// The oldest first.
    order: VecDeque<AbortHandle>,
}

impl Callers {
    /// Who keeps a connection and asks nothing makes room: whoever asks at once is not kept waiting (I14).
    pub(super) fn admit(&mut self, key: &str, answer: impl Future<Output = ()> + Send + 'static) {
        self.order.retain(|task| !task.is_finished());
        if self.order.len() >= CONNECTIONS
            && let Some(oldest) = self.order.pop_front()
        {
            tracing::debug!("the oldest connection to {key} makes room for another");
            oldest.abort();
        }
        let task = self.tasks.spawn(answer);
        self.order.push_back(task);
    }

    /// One of them has ended; none: there is none. Cancel-safe.
    pub(super) async fn ended(&mut self) -> Option<()> {
        self.tasks.join_next().await.map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SERVED: Served = Served {
        key: "metrics.listen",
        what: "metrics are",
    };

    fn socket() -> (tempfile::TempDir, Root, Listen, PathBuf) {
        let dir = tempfile::tempdir().expect("a directory");
        let root = Root::at(dir.path());
        let listen = Listen::new("unix:/metrics.sock").expect("an address");
        let path = root.path("/metrics.sock");
        (dir, root, listen, path)
    }

    #[tokio::test]
    async fn everybody_may_use_the_socket_and_it_goes_with_the_daemon() {
        let (_dir, root, listen, path) = socket();
        // One that was killed left its own.
        drop(std::os::unix::net::UnixListener::bind(&path).expect("bound"));
        let mut door = Door::new(SERVED);
        door.follow(&root, Some(&listen));
        let mode = fs::metadata(&path).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, MODE);
        let _client = UnixStream::connect(&path).await.expect("connected");
        assert!(matches!(door.next(&root).await, Stream::Unix(_)));
        door.follow(&root, None);
        assert!(!path.exists());
    }

    #[tokio::test(start_paused = true)]
    async fn i14_what_is_no_socket_stays_and_is_tried_again() {
        let (_dir, root, listen, path) = socket();
        fs::write(&path, "precious").expect("written");
        let mut door = Door::new(SERVED);
        door.follow(&root, Some(&listen));
        assert!(door.open.is_none());
        assert_eq!(fs::read_to_string(&path).expect("read"), "precious");
        // Somebody moves it away.
        fs::remove_file(&path).expect("removed");
        let began = Instant::now();
        let client = async {
            loop {
                match UnixStream::connect(&path).await {
                    Ok(client) => return client,
                    Err(_) => sleep(REST).await,
                }
            }
        };
        let (_client, _stream) = tokio::join!(client, door.next(&root));
        assert!(began.elapsed() >= AGAIN);
    }

    /// One that listens keeps its socket, one that was killed does not; and what somebody else puts there later is his.
    #[tokio::test(start_paused = true)]
    async fn i14_the_socket_of_another_daemon_is_left_to_it() {
        let (_dir, root, _, _) = socket();
        let listen = Listen::new("unix:/other/other.sock").expect("an address");
        let path = root.path("/other/other.sock");
        let mut door = Door::shared(SERVED);
        fs::create_dir(root.path("/other")).expect("made");
        let other = UnixListener::bind(&path).expect("bound");
        door.follow(&root, Some(&listen));
        assert!(timeout(AGAIN / 2, door.next(&root)).await.is_err());
        assert!(
            door.trouble.contains("another process listens there"),
            "{}",
            door.trouble
        );
        let its = which(&path);
        door.follow(&root, None);
        assert_eq!(which(&path), its);
        // It is killed, and its directory goes as well.
        drop(other);
        door.follow(&root, Some(&listen));
        assert!(timeout(AGAIN / 2, door.next(&root)).await.is_err());
        let _client = UnixStream::connect(&path).await.expect("connected");
        assert!(matches!(door.next(&root).await, Stream::Unix(_)));
        door.close();
        fs::remove_dir(root.path("/other")).expect("it is empty");
        door.follow(&root, None);
        door.follow(&root, Some(&listen));
        assert!(timeout(AGAIN / 2, door.next(&root)).await.is_err());
        let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o777;
        assert_eq!(mode(&root.path("/other")), DIRECTORY);
        assert_eq!(mode(&path), MODE);
        // It is started, and takes the path.
        fs::remove_file(&path).expect("removed");
        let other = UnixListener::bind(&path).expect("bound");
        let its = which(&path);
        assert!(timeout(AGAIN * 3, door.next(&root)).await.is_err());
        assert!(door.open.is_none());
        door.close();
        assert_eq!(which(&path), its);
        drop(other);
    }

    /// Who may write there could put a link in the place of the socket before its mode is set.
    #[tokio::test]
    async fn i14_a_directory_of_everybody_has_no_socket() {
        let (_dir, root, _, _) = socket();
        let below = root.path("/open");
        fs::create_dir(&below).expect("made");
        fs::set_permissions(&below, Permissions::from_mode(0o1777)).expect("set");
        let in_it = Listen::new("unix:/open/metrics.sock").expect("an address");
        let refused = bind(&root, &in_it).expect_err("refused").to_string();
        assert!(refused.contains("/open"), "{refused}");
        assert!(!below.join("metrics.sock").exists());
    }

    #[tokio::test]
    async fn an_address_is_open_as_long_as_it_is_named() {
        let free = std::net::TcpListener::bind("127.0.0.1:0").expect("bound");
        let address = free.local_addr().expect("an address");
        drop(free);
        let (root, listen) = (Root::host(), Listen::Tcp(address));
        let mut door = Door::new(SERVED);
        door.follow(&root, Some(&listen));
        let client = TcpStream::connect(address).await.expect("connected");
        assert!(matches!(door.next(&root).await, Stream::Tcp(_)));
        drop(client);
        door.close();
        assert!(TcpStream::connect(address).await.is_err());
    }
}
