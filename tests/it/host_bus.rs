//! The connection to the bus, where others on the bus send what zbus cannot read.

use std::io::Read as _;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{
    SocketAddr as StdAddr, UnixListener as StdListener, UnixStream as StdStream,
};
use std::time::Duration;

use futures_util::StreamExt as _;
use kube_rebootd::host::{Bus, DescriptorError, Descriptors, logind};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc;
use zbus::Connection;
use zbus::fdo::Error::NotSupported;

use crate::fake_bus::FakeHostBus;

/// Far above what an answer needs.
const PATIENCE: Duration = Duration::from_secs(30);

/// What dbus-broker 33 gave to its receiver when another user sent a signal with the header field 77 (seen with a socket and
/// the bytes; dbus-daemon takes such fields away).
const UNKNOWN_FIELD: &[u8] = b"l\x04\0\x01\0\0\0\0\x02\0\0\0\x5d\0\0\0\
    \x01\x01o\0\x02\0\0\0/a\0\0\0\0\0\0\
    \x02\x01s\0\x03\0\0\0a.b\0\0\0\0\0\
    \x03\x01s\0\x01\0\0\0C\0\0\0\0\0\0\0\
    \x06\x01s\0\x04\0\0\0:1.3\0\0\0\0\
    M\x01s\0\x07\0\0\0unknown\0\
    \x07\x01s\0\x04\0\0\0:1.2\0\0\0\0";

/// A bus behind a socket of our own, through which it says what it is told to say.
struct Behind {
    bus: FakeHostBus,
    place: TempDir,
    ours: Bus,
}

impl Behind {
    async fn new() -> Self {
        let place = tempfile::tempdir().expect("a directory");
        let bus = FakeHostBus::start().await;
        let ours = Bus::at(format!("unix:path={}", place.path().join("bus").display()));
        Self { bus, place, ours }
    }

    /// One client is let through; with what to say to it.
    fn one(&self) -> mpsc::Sender<&'static [u8]> {
        let path = self.place.path().join("bus");
        // Not there the first time.
        let _ = std::fs::remove_file(&path);
        serve(&self.bus, StdListener::bind(path).expect("a socket"))
    }
}

/// One client is let through to the bus; with what to say to it.
fn serve(bus: &FakeHostBus, listener: StdListener) -> mpsc::Sender<&'static [u8]> {
    let behind = bus.address().replace("unix:path=", "");
    let behind = behind.split(',').next().expect("a path").to_owned();
    listener.set_nonblocking(true).expect("set");
    let listener = UnixListener::from_std(listener).expect("a listener");
    let (say, mut said) = mpsc::channel(1);
    tokio::spawn(async move {
        let (near, _) = listener.accept().await.expect("a client");
        let far = UnixStream::connect(behind).await.expect("the bus");
        let (mut from_near, mut to_near) = near.into_split();
        let (mut from_far, mut to_far) = far.into_split();
        tokio::spawn(async move { tokio::io::copy(&mut from_near, &mut to_far).await });
        let mut buffer = vec![0; 65536];
        loop {
            let bytes: &[u8] = tokio::select! {
                read = from_far.read(&mut buffer) => match read {
                    Ok(0) | Err(_) => return,
                    Ok(read) => &buffer[..read],
                },
                Some(said) = said.recv() => said,
            };
            to_near.write_all(bytes).await.expect("written");
        }
    });
    say
}

async fn asks(connection: &Connection) -> zbus::Result<()> {
    let bus = "org.freedesktop.DBus";
    let call = connection.call_method(Some(bus), "/org/freedesktop/DBus", Some(bus), "GetId", &());
    let answer = tokio::time::timeout(PATIENCE, call).await;
    answer.expect("an answer in time").map(drop)
}

#[tokio::test]
async fn i14_what_zbus_cannot_read_costs_no_connection() {
    let behind = Behind::new().await;
    let say = behind.one();
    let connection = behind.ours.connection().await.expect("a connection");
    asks(&connection).await.expect("an answer");
    for _ in 0..3 {
        say.send(UNKNOWN_FIELD).await.expect("said");
        asks(&connection).await.expect("an answer");
    }
    assert!(!connection.is_closed());
}

/// Found by a stranger: a TCP connection that lingers over unsent data stopped whoever read the message that brought it.
#[tokio::test]
async fn i14_nobody_can_send_a_descriptor() {
    let bus = FakeHostBus::start().await;
    let ours = Bus::at(bus.address()).connection().await.expect("ours");
    let others = zbus::connection::Builder::address(bus.address().as_str());
    let others = others.build().await.expect("theirs");
    let to = ours.unique_name().expect("a name").to_owned();
    let (near, far) = StdStream::pair().expect("a pair");
    let body = zbus::Fd::from(std::os::fd::AsFd::as_fd(&far));
    let call = others.call_method(Some(&to), "/a", Some("a.b"), "C", &body);
    let answer = tokio::time::timeout(PATIENCE, call).await.expect("in time");
    let refused = matches!(&answer, Err(zbus::Error::FDO(why)) if matches!(**why, NotSupported(_)));
    assert!(refused, "the bus passes it on: {answer:?}");
    drop(far);
    near.set_read_timeout(Some(PATIENCE)).expect("set");
    let closed = tokio::task::spawn_blocking(move || (&near).read(&mut [0])).await;
    assert_eq!(closed.expect("run").expect("read"), 0, "one is still open");
    asks(&ours).await.expect("an answer");
}

/// A TCP connection whose last closing takes `seconds`, with the end that does not read.
fn lingering(seconds: i32) -> (std::net::TcpStream, std::net::TcpStream) {
    use std::io::Write as _;
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let near = std::net::TcpStream::connect(listener.local_addr().expect("bound"));
    let (mut near, far) = (near.expect("connected"), listener.accept().expect("came").0);
    let linger = nix::libc::linger {
        l_onoff: 1,
        l_linger: seconds,
    };
    nix::sys::socket::setsockopt(&near, nix::sys::socket::sockopt::Linger, &linger).expect("set");
    near.set_nonblocking(true).expect("set");
    while near.write(&[0; 4096]).is_ok() {}
    (near, far)
}

/// Found by review: with `reboot.guard` any user of the host could stop the daemon by a descriptor again, sent to the connection on which
/// the lock is taken.
#[tokio::test]
async fn i7_i14_a_descriptor_of_somebody_else_stops_neither_the_loop_nor_the_lock() {
    let bus = FakeHostBus::start().await;
    bus.knobs().inhibits = false;
    let others = zbus::connection::Builder::address(bus.address().as_str());
    let others = others.build().await.expect("theirs");
    let names = zbus::fdo::DBusProxy::new(&others).await.expect("a proxy");
    let mut came = names.receive_name_owner_changed().await.expect("signals");
    let ours = Bus::at(bus.address());
    let taken = tokio::spawn(async move {
        let descriptors = Descriptors::default();
        let taken = logind::inhibit(&ours, &descriptors, "why").await;
        (taken, descriptors, ours)
    });
    let new = tokio::time::timeout(PATIENCE, came.next()).await;
    let new = new.expect("in time").expect("a name");
    let to = new.args().expect("arguments").name().to_string();
    let asked = async {
        while !bus.knobs().inhibits_later {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let asked = tokio::time::timeout(PATIENCE, asked).await;
    asked.expect("logind is asked");
    let (near, far) = lingering(120);
    let body = zbus::Fd::from(std::os::fd::AsFd::as_fd(&near));
    let sent = others.emit_signal(Some(to.as_str()), "/a", "a.b", "C", &body);
    sent.await.expect("sent");
    // An answer to this says that the bus has passed the signal on.
    names.get_id().await.expect("an answer");
    drop(near);
    bus.knobs().inhibits = true;
    let taken = tokio::time::timeout(PATIENCE, taken).await;
    let (taken, descriptors, ours) = taken.expect("the loop turns").expect("run");
    let taken = taken.expect("the lock");
    assert_eq!(bus.knobs().inhibitors_now().len(), 1);
    drop(taken);
    // Another test of this process may just be starting a program, which has it until it is another program.
    let gone = async {
        while !bus.knobs().inhibitors_now().is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let gone = tokio::time::timeout(PATIENCE, gone).await;
    gone.expect("it is open somewhere");
    // Somebody else's is being closed as long as the sender likes.
    let again = logind::inhibit(&ours, &descriptors, "why").await;
    assert!(matches!(again, Err(DescriptorError::Busy)), "{again:?}");
    drop(far);
    let again = async {
        // Until the thread of before has seen that.
        while logind::inhibit(&ours, &descriptors, "why").await.is_err() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, again).await.expect("ended");
}

/// Two connections of ours to a bus.
async fn two() -> (FakeHostBus, Connection, Connection) {
    let bus = FakeHostBus::start().await;
    let connect = async || Bus::at(bus.address()).connection().await.expect("one");
    let (ours, theirs) = (connect().await, connect().await);
    (bus, ours, theirs)
}

/// The next message whose member is C.
async fn next(messages: &mut zbus::MessageStream) -> zbus::Message {
    loop {
        let message = messages.next().await.expect("open").expect("a message");
        if message.header().member().is_some_and(|name| *name == "C") {
            return message;
        }
    }
}

/// Found by a stranger: a message as long as the bus lets it be was held twice.
#[tokio::test]
async fn i14_a_message_without_measure_is_not_held_and_costs_no_connection() {
    let (_bus, ours, theirs) = two().await;
    let to = ours.unique_name().expect("a name").to_owned();
    let mut messages = zbus::MessageStream::from(&ours);
    for (bytes, last) in [(6 << 20, "long"), (1 << 20, "taken")] {
        let body = (vec![7_u8; bytes], last);
        let sent = theirs.emit_signal(Some(&to), "/a", "a.b", "C", &body);
        sent.await.expect("sent");
    }
    let message = tokio::time::timeout(PATIENCE, next(&mut messages))
        .await
        .expect("in time");
    let (_, last): (Vec<u8>, String) = message.body().deserialize().expect("its body");
    assert_eq!(last, "taken");
    asks(&ours).await.expect("an answer");
}

/// Found by reading: a user who held enough inhibitors could have kept logind's list of them from the daemon.
#[tokio::test]
async fn a_long_answer_is_taken() {
    let (_bus, ours, theirs) = two().await;
    let to = theirs.unique_name().expect("a name").to_owned();
    let mut calls = zbus::MessageStream::from(&theirs);
    let answers = async {
        let call = next(&mut calls).await;
        let body = vec![7_u8; 6 << 20];
        theirs.reply(&call.header(), &body).await.expect("sent");
        std::future::pending::<()>().await;
    };
    let answer = tokio::select! {
        answer = ours.call_method(Some(&to), "/a", Some("a.b"), "C", &()) => answer.expect("an answer"),
        () = answers => unreachable!("it waits"),
    };
    let body: Vec<u8> = answer.body().deserialize().expect("its body");
    assert_eq!(body.len(), 6 << 20);
}

/// Found by reading: whoever filled the queue of those that wait to be accepted kept the daemon from the bus at once.
#[tokio::test]
async fn a_bus_that_accepts_late_is_waited_for() {
    let bus = FakeHostBus::start().await;
    let place = tempfile::tempdir().expect("a directory");
    let name = place.path().join("late");
    let bytes = name.as_os_str().as_encoded_bytes();
    let kinds = [
        ("path", StdAddr::from_pathname(&name)),
        ("abstract", StdAddr::from_abstract_name(bytes)),
    ];
    for (kind, place) in kinds {
        let place = place.expect("an address");
        let address = format!("unix:{kind}={}", name.display());
        let listener = StdListener::bind_addr(&place).expect("a socket");
        nix::sys::socket::listen(&listener, nix::sys::socket::Backlog::new(0).expect("none"))
            .expect("a short queue");
        let first = StdStream::connect_addr(&place).expect("it fills the queue");
        let ours = Bus::at(address);
        let connecting = tokio::spawn(async move { ours.connection().await });
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert!(!connecting.is_finished(), "refused at once");
        drop(listener.accept().expect("the first"));
        drop(first);
        serve(&bus, listener);
        let connection = connecting.await.expect("run").expect("a connection");
        asks(&connection).await.expect("an answer");
    }
}

#[tokio::test]
async fn what_is_no_message_ends_the_connection_and_the_next_call_has_another() {
    let behind = Behind::new().await;
    let say = behind.one();
    let connection = behind.ours.connection().await.expect("a connection");
    say.send(b"this is no message").await.expect("said");
    assert!(asks(&connection).await.is_err());
    assert!(connection.is_closed());
    let _say = behind.one();
    let again = behind.ours.connection().await.expect("a connection");
    asks(&again).await.expect("an answer");
}
