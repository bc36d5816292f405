//! `update_engine` as Flatcar Linux has it, on a private bus: what it says, when it is not there, and what others send in its name
//! (I7, I8, I14).

use std::sync::{Arc, Mutex};
use std::time::Duration;

use kube_rebootd::host::Bus;
use kube_rebootd::host::update_engine::{Signals, ask};
use kube_rebootd_core::trigger::Verdict;
use tokio::time::timeout;
use zbus::conn::Builder;
use zbus::{Connection, fdo, interface};

use crate::fake_bus::FakeHostBus;

const NAME: &str = "com.coreos.update1";
const PATH: &str = "/com/coreos/update1";
const INTERFACE: &str = "com.coreos.update1.Manager";
/// Above the rest after a signal.
const LIMIT: Duration = Duration::from_secs(30);

/// What `GetStatus` answers; none: it fails.
pub(crate) type Said = Arc<Mutex<Option<(&'static str, &'static str)>>>;

struct Engine(Said);

#[interface(name = "com.coreos.update1.Manager")]
impl Engine {
    fn get_status(&self) -> fdo::Result<(i64, f64, String, String, i64)> {
        let said = *self.0.lock().unwrap();
        let (operation, version) = said.ok_or_else(|| fdo::Error::Failed("no".to_owned()))?;
        Ok((0, 1.0, operation.to_owned(), version.to_owned(), 0))
    }
}

/// One of another shape.
struct Other;

#[interface(name = "com.coreos.update1.Manager")]
impl Other {
    #[allow(clippy::unused_self)] // as zbus wants it
    fn get_status(&self) -> &'static str {
        "UPDATE_STATUS_UPDATED_NEED_REBOOT"
    }
}

async fn engine(bus: &FakeHostBus, said: &Said) -> Connection {
    serve(&bus.address(), said).await
}

/// `update_engine` on the bus at this address.
pub(crate) async fn serve(address: &str, said: &Said) -> Connection {
    let engine = Engine(Arc::clone(said));
    let builder = Builder::address(address).serve_at(PATH, engine);
    builder.name(NAME).build().await.unwrap()
}

/// Its signal, which says this.
pub(crate) async fn signal<B>(there: &Connection, body: &B)
where
    B: serde::Serialize + zbus::zvariant::DynamicType + Sync,
{
    let sent = there.emit_signal(None::<&str>, PATH, INTERFACE, "StatusUpdate", body);
    sent.await.unwrap();
}

fn waits(verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::Reboot { pkgs, .. } if pkgs.contains("4459.2.0"))
}

#[tokio::test]
async fn i8_what_it_does_not_say_is_unknown() {
    let fake = FakeHostBus::start().await;
    let bus = Bus::at(fake.address());
    let unknown = |verdict: &Verdict| matches!(verdict, Verdict::Unknown { .. });
    let verdict = ask(&bus).await;
    assert!(unknown(&verdict), "it is not there: {verdict:?}");
    let said = Said::default();
    let there = engine(&fake, &said).await;
    let verdict = ask(&bus).await;
    assert!(unknown(&verdict), "it fails: {verdict:?}");
    *said.lock().unwrap() = Some(("UPDATE_STATUS_DOWNLOADING", "4459.2.0"));
    assert_eq!(ask(&bus).await, Verdict::No);
    *said.lock().unwrap() = Some(("UPDATE_STATUS_UPDATED_NEED_REBOOT", "4459.2.0"));
    let verdict = ask(&bus).await;
    assert!(waits(&verdict), "{verdict:?}");
    // A person took it back: ResetStatus.
    *said.lock().unwrap() = Some(("UPDATE_STATUS_IDLE", "0.0.0"));
    assert_eq!(ask(&bus).await, Verdict::No);
    there.close().await.unwrap();
    let address = fake.address();
    let other = Builder::address(address.as_str()).serve_at(PATH, Other);
    let _other = other.name(NAME).build().await.unwrap();
    let verdict = ask(&bus).await;
    assert!(unknown(&verdict), "it is of another shape: {verdict:?}");
}

#[tokio::test]
async fn i14_a_signal_is_a_reason_to_ask_and_nothing_more() {
    let fake = FakeHostBus::start().await;
    let bus = Bus::at(fake.address());
    let said = Said::default();
    *said.lock().unwrap() = Some(("UPDATE_STATUS_IDLE", "0.0.0"));
    let there = engine(&fake, &said).await;
    let mut signals = Signals::default();
    signals.listen(&bus).await;
    assert!(
        timeout(Duration::from_millis(200), signals.next())
            .await
            .is_err(),
        "nothing was sent"
    );
    let body = (
        0_i64,
        1.0_f64,
        "UPDATE_STATUS_UPDATED_NEED_REBOOT",
        "4459.2.0",
        0_i64,
    );
    signal(&there, &body).await;
    timeout(LIMIT, signals.next()).await.expect("it is heard");
    // What it carries counts for nothing.
    assert_eq!(ask(&bus).await, Verdict::No);
    // Of another shape, and thousands of them.
    for _ in 0..3000 {
        signal(&there, &"nonsense").await;
    }
    *said.lock().unwrap() = Some(("UPDATE_STATUS_UPDATED_NEED_REBOOT", "4459.2.0"));
    timeout(LIMIT, signals.next()).await.expect("it is heard");
    let verdict = ask(&bus).await;
    assert!(waits(&verdict), "{verdict:?}");
    // The bus goes, and comes back.
    drop(fake);
    timeout(LIMIT, signals.next()).await.expect("it ends");
    assert!(matches!(ask(&bus).await, Verdict::Unknown { .. }));
    let never = timeout(Duration::from_millis(200), signals.next()).await;
    assert!(never.is_err(), "polling goes on");
}
