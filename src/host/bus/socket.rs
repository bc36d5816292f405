//! The socket of a connection to the bus: what zbus cannot read costs that message, and not the connection (I14).
//!
//! dbus-broker passes on header fields that it does not know, as the D-Bus specification asks; zbus takes such a field for
//! the end of the stream. Any user of the host may send one to any connection, so that the daemon would lose logind's
//! answers whenever somebody likes. Here a message is read as a whole, and dropped where zbus refuses it.
//!
//! No file descriptors go this way (`descriptors` is the other): the bus is not asked to pass any on, and refuses what others
//! would send (dbus-daemon: `host_bus`; seen with dbus-broker 33). Closing one may take as long as its sender likes, as of a TCP connection that
//! lingers over what it has not sent (socket(7)).

use std::io::{self, Cursor, ErrorKind};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tracing::{debug, warn};
use zbus::address::transport::{Transport, Unix, UnixSocket};
use zbus::connection::Builder;
use zbus::connection::socket::{ReadHalf, Socket, Split, WriteHalf};
use zbus::export::async_trait::async_trait;
use zbus::{Address, Message};

/// Byte order, type, flags, version, and the lengths: of the body at 4 and of the header's fields at 12.
const HEADER: usize = 16;
/// In bytes. The D-Bus specification allows no longer message.
const LONGEST: usize = 128 << 20;
/// In bytes, of a message that nobody asked for.
const TAKEN: usize = 4 << 20;
/// In bytes. The longest answers, lists of all units and of all inhibitors of a large host, have some hundred thousand; a
/// user who holds thousands of inhibitors is not to keep the list of them from us.
const ANSWER_TAKEN: usize = 32 << 20;
/// Bytes that are read at once of a message that is not taken.
const SKIPPED: usize = 64 * 1024;
/// Types of messages that answer a call (D-Bus specification, "Message Format").
const ANSWERS: std::ops::RangeInclusive<u8> = 2..=3;
/// Between two tries while too many others wait for the bus to accept them (unix(7): a full queue has no event of its own).
const FULL: Duration = Duration::from_millis(20);

/// A connection to `address`, still to be made; the caller bounds how long it is tried.
pub(super) async fn builder(address: Address) -> zbus::Result<Builder<'static>> {
    let stream = match address.transport() {
        Transport::Unix(unix) => connect(unix).await?,
        // No system bus of today; zbus then reads it in its own way.
        _ => return Ok(Builder::address(address)),
    };
    Ok(Builder::socket(Stream(stream)))
}

async fn connect(unix: &Unix) -> io::Result<UnixStream> {
    let place = unix.path();
    let address = match place {
        UnixSocket::Abstract(name) => SocketAddr::from_abstract_name(name.as_encoded_bytes())?,
        UnixSocket::File(path) => SocketAddr::from_pathname(path)?,
        other => {
            let what = format!("{other:?} is where a bus makes its socket, and not a socket");
            return Err(io::Error::new(ErrorKind::InvalidInput, what));
        }
    };
    let address = address.into();
    loop {
        match UnixStream::connect_addr(&address).await {
            Err(full) if full.kind() == ErrorKind::WouldBlock => tokio::time::sleep(FULL).await,
            Ok(stream) => return Ok(stream),
            Err(why) => return Err(io::Error::new(why.kind(), format!("{place}: {why}"))),
        }
    }
}

/// The socket of the bus at `address`; the caller bounds how long it is tried.
pub(super) async fn stream(address: &Address) -> io::Result<UnixStream> {
    match address.transport() {
        Transport::Unix(unix) => connect(unix).await,
        other => {
            let what = format!("{other:?} passes on no file descriptors");
            Err(io::Error::new(ErrorKind::Unsupported, what))
        }
    }
}

/// A socket of the host.
#[derive(Debug)]
struct Stream(UnixStream);

impl Socket for Stream {
    type ReadHalf = Reader;
    type WriteHalf = Writer;

    fn split(self) -> Split<Reader, Writer> {
        let (read, write) = self.0.into_split();
        let reader = Reader {
            from: BufReader::new(read),
            said: false,
            said_answer: false,
        };
        Split::new(reader, Writer(write))
    }
}

#[derive(Debug)]
struct Reader {
    from: BufReader<OwnedReadHalf>,
    /// That a message was dropped: once, as whoever sends one may send millions.
    said: bool,
    /// That an answer was.
    said_answer: bool,
}

#[async_trait]
impl ReadHalf for Reader {
    async fn receive_message(
        &mut self,
        seq: u64,
        early: &mut Vec<u8>,
        _fds: &mut Vec<OwnedFd>,
    ) -> zbus::Result<Message> {
        loop {
            let mut header = [0; HEADER];
            self.fill(&mut header, early).await?;
            let length = length(&header)?;
            let taken = if answers(header) { ANSWER_TAKEN } else { TAKEN };
            if length > taken {
                self.skip(length - HEADER, early).await?;
                self.dropped(header, &format!("it has {length} bytes"));
                continue;
            }
            let mut bytes = header.to_vec();
            bytes.resize(length, 0);
            self.fill(&mut bytes[HEADER..], early).await?;
            let mut whole = Whole(Cursor::new(bytes));
            match (whole.receive_message(seq, &mut Vec::new(), &mut Vec::new())).await {
                Ok(message) => return Ok(message),
                Err(why) => self.dropped(header, &why.to_string()),
            }
        }
    }

    /// While the bus is told who calls; zbus keeps what comes with the last answer.
    async fn recvmsg(&mut self, buffer: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
        let read = self.from.read(buffer).await?;
        Ok((read, Vec::new()))
    }
}

impl Reader {
    async fn skip(&mut self, mut left: usize, early: &mut Vec<u8>) -> io::Result<()> {
        let mut bytes = vec![0; SKIPPED];
        while left > 0 {
            let some = left.min(SKIPPED);
            self.fill(&mut bytes[..some], early).await?;
            left -= some;
        }
        Ok(())
    }

    fn dropped(&mut self, header: [u8; HEADER], why: &str) {
        let answer = answers(header);
        if answer && !self.said_answer {
            warn!(
                "an answer on the bus cannot be read and is dropped: {why}; whoever waits for it gets none"
            );
            self.said_answer = true;
        } else if !answer && !self.said {
            debug!("a message on the bus cannot be read and is dropped, as more may be: {why}");
            self.said = true;
        }
    }

    /// Fills it with what comes next, of which `early` is here already.
    async fn fill(&mut self, buffer: &mut [u8], early: &mut Vec<u8>) -> io::Result<()> {
        let first = early.len().min(buffer.len());
        let (here, rest) = buffer.split_at_mut(first);
        for (to, from) in here.iter_mut().zip(early.drain(..first)) {
            *to = from;
        }
        self.from.read_exact(rest).await.map(drop)
    }
}

/// It answers a call; the bus passes on only what was asked for.
fn answers(header: [u8; HEADER]) -> bool {
    ANSWERS.contains(&header[1])
}

/// How long the message with this header is (D-Bus specification, "Message Format").
fn length(header: &[u8]) -> io::Result<usize> {
    let number = |at: usize| {
        let four = header.get(at..)?.first_chunk()?;
        let number = match header.first()? {
            b'l' => u32::from_le_bytes(*four),
            b'B' => u32::from_be_bytes(*four),
            _ => return None,
        };
        usize::try_from(number).ok()
    };
    let length = number(4).zip(number(12)).and_then(|(body, fields)| {
        let fields = fields.checked_next_multiple_of(8)?;
        HEADER.checked_add(fields)?.checked_add(body)
    });
    let allowed = length.filter(|length| *length <= LONGEST);
    allowed.ok_or_else(|| io::Error::new(ErrorKind::InvalidData, "this is no D-Bus message"))
}

/// One message, all of it: zbus reads it as it reads a socket.
#[derive(Debug)]
struct Whole(Cursor<Vec<u8>>);

#[async_trait]
impl ReadHalf for Whole {
    async fn recvmsg(&mut self, buffer: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
        let read = io::Read::read(&mut self.0, buffer)?;
        Ok((read, Vec::new()))
    }
}

#[derive(Debug)]
pub(super) struct Writer(pub(super) OwnedWriteHalf);

#[async_trait]
impl WriteHalf for Writer {
    async fn sendmsg(&mut self, buffer: &[u8], _fds: &[BorrowedFd<'_>]) -> io::Result<usize> {
        self.0.write(buffer).await
    }

    async fn flush(&mut self) -> io::Result<()> {
        self.0.flush().await
    }

    async fn close(&mut self) -> io::Result<()> {
        self.0.shutdown().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_says_how_long_its_message_is() {
        let header = |order: u8, body: [u8; 4], fields: [u8; 4]| {
            let start = [order, 4, 0, 1];
            [start, body, [1, 0, 0, 0], fields].concat()
        };
        let rows = [
            (header(b'l', [0; 4], [0; 4]), Some(16)),
            (header(b'l', [5, 0, 0, 0], [9, 0, 0, 0]), Some(16 + 16 + 5)),
            (header(b'B', [0, 0, 0, 5], [0, 0, 0, 8]), Some(16 + 8 + 5)),
            (header(b'l', [0, 0, 0, 8], [0; 4]), None),
            (header(b'l', [0xf0, 0xff, 0xff, 7], [0; 4]), Some(LONGEST)),
            (header(b'l', [0xf1, 0xff, 0xff, 7], [0; 4]), None),
            (header(b'l', [0xff; 4], [0xff; 4]), None),
            (header(b'x', [0; 4], [0; 4]), None),
            (vec![b'l'], None),
        ];
        for (bytes, wanted) in rows {
            assert_eq!(length(&bytes).ok(), wanted, "{bytes:?}");
        }
    }
}
