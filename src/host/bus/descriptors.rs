//! One call of the bus whose answer is a file descriptor, beside the loop.
//!
//! Where descriptors are taken, anybody on the bus may send some, and closing one may take as long as its sender likes
//! (`socket`). So such a call has a connection and a thread of its own, and gives its answer away before anything is closed
//! that others may have sent: what they send costs that thread, and neither the loop (I7) nor the answer (I14).

use std::fs::File;
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileTypeExt as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use thiserror::Error;
use tokio::io::Interest;
use tokio::net::UnixStream;
use tokio::net::unix::OwnedReadHalf;
use tokio::runtime;
use tokio::sync::{Semaphore, oneshot};
use tokio::time::timeout;
use zbus::Connection;
use zbus::connection::socket::{ReadHalf, Socket, Split};
use zbus::export::async_trait::async_trait;

use super::socket::Writer;
use super::{Bus, BusError, bounded};

/// The kernel passes on no more with one message (`SCM_MAX_FD`, unix(7)).
const AT_ONCE: usize = 253;
/// A thread ends as soon as its connection is closed, which takes milliseconds.
const ENDS_WITHIN: Duration = Duration::from_secs(2);
/// So many in one call are nothing that this daemon has asked for.
const KEPT: usize = 1024;

/// Why there is no descriptor.
#[derive(Debug, Error)]
pub enum DescriptorError {
    /// The thread of an earlier call has not ended.
    #[error("something that others on the bus sent during the last attempt is not closed yet")]
    Busy,
    /// The call failed.
    #[error(transparent)]
    Bus(BusError),
}

/// Whoever makes such calls, one at a time.
#[derive(Debug, Clone)]
pub struct Descriptors {
    /// Goes with the thread, and comes back when that ends.
    turn: Arc<Semaphore>,
}

impl Default for Descriptors {
    fn default() -> Self {
        let turn = Arc::new(Semaphore::new(1));
        Self { turn }
    }
}

impl Descriptors {
    /// What `call` answers on a connection of its own; `what` names it in errors.
    ///
    /// # Errors
    /// [`DescriptorError::Busy`] as long as the thread of an earlier call waits for something to be closed.
    pub async fn call<F>(
        &self,
        bus: &Bus,
        what: &'static str,
        call: impl FnOnce(Connection) -> F + Send + 'static,
    ) -> Result<OwnedFd, DescriptorError>
    where
        F: Future<Output = zbus::Result<OwnedFd>>,
    {
        let turn = timeout(ENDS_WITHIN, Arc::clone(&self.turn).acquire_owned()).await;
        let Ok(Ok(turn)) = turn else {
            return Err(DescriptorError::Busy);
        };
        let (answer, answered) = oneshot::channel();
        let bus = bus.clone();
        let failed = |error: io::Error| DescriptorError::Bus(BusError::Connect(error.into()));
        let thread = thread::Builder::new().name("descriptors".to_owned());
        let begun = thread.spawn(move || {
            apart(&bus, what, call, answer);
            drop(turn);
        });
        begun.map_err(failed)?;
        match answered.await {
            Ok(answer) => answer.map_err(DescriptorError::Bus),
            Err(_) => Err(failed(io::ErrorKind::BrokenPipe.into())),
        }
    }
}

/// All of the call, on this thread, which ends when everything is closed.
fn apart<F>(
    bus: &Bus,
    what: &'static str,
    call: impl FnOnce(Connection) -> F,
    answer: oneshot::Sender<Result<OwnedFd, BusError>>,
) where
    F: Future<Output = zbus::Result<OwnedFd>>,
{
    let kept = Kept::default();
    let runtime = match runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            let _ = answer.send(Err(BusError::Connect(error.into())));
            return;
        }
    };
    runtime.block_on(async {
        let connection = match bus.connect_for_descriptors(&kept).await {
            Ok(connection) => connection,
            Err(error) => {
                let _ = answer.send(Err(error));
                return;
            }
        };
        let taken = bounded(what, call(connection.clone())).await;
        // Else one that nobody asks for any more would stay open behind one that does not close.
        kept.close_pipes();
        let _ = answer.send(taken);
        let _ = bounded("closing a connection to the bus", connection.close()).await;
    });
}

/// A second descriptor for each that came, so that whoever drops the first closes nothing yet.
#[derive(Debug, Clone, Default)]
pub(super) struct Kept(Arc<Mutex<Vec<OwnedFd>>>);

impl Kept {
    fn keep(&self, came: &[OwnedFd]) -> io::Result<()> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for one in came {
            kept.push(one.try_clone()?);
        }
        if kept.len() > KEPT {
            return Err(io::Error::other(
                "others on the bus send too many file descriptors",
            ));
        }
        Ok(())
    }

    /// A lock of logind's is a FIFO, whose closing waits for nobody.
    fn close_pipes(&self) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|fd| !is_pipe(fd));
    }
}

fn is_pipe(fd: &OwnedFd) -> bool {
    let kind = fd.try_clone().and_then(|fd| File::from(fd).metadata());
    kind.is_ok_and(|kind| kind.file_type().is_fifo())
}

/// A socket of the host on which descriptors come.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) stream: UnixStream,
    pub(super) kept: Kept,
}

impl Socket for Stream {
    type ReadHalf = Reader;
    type WriteHalf = Writer;

    fn split(self) -> Split<Reader, Writer> {
        let (from, to) = self.stream.into_split();
        let kept = self.kept;
        Split::new(Reader { from, kept }, Writer(to))
    }
}

#[derive(Debug)]
pub(super) struct Reader {
    from: OwnedReadHalf,
    kept: Kept,
}

#[async_trait]
impl ReadHalf for Reader {
    async fn recvmsg(&mut self, buffer: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
        let stream: &UnixStream = self.from.as_ref();
        loop {
            stream.readable().await?;
            let came = stream.try_io(Interest::READABLE, || received(stream.as_fd(), buffer));
            match came {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
                Ok((read, fds)) => {
                    self.kept.keep(&fds)?;
                    return Ok((read, fds));
                }
            }
        }
    }

    fn can_pass_unix_fd(&self) -> bool {
        true
    }
}

/// Bytes, and the descriptors that came with them.
fn received(from: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(AT_ONCE))];
    let mut beside = RecvAncillaryBuffer::new(&mut space);
    let mut into = [IoSliceMut::new(buffer)];
    let read = recvmsg(from, &mut into, &mut beside, RecvFlags::CMSG_CLOEXEC)?.bytes;
    let mut fds = Vec::new();
    for one in beside.drain() {
        if let RecvAncillaryMessage::ScmRights(some) = one {
            fds.extend(some);
        }
    }
    Ok((read, fds))
}
