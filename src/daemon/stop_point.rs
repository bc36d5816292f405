//! Where a test stops the daemon to kill it (I6): after each durable write and each outside effect.
//! Debug builds only: nothing of this is in a release.
//!
//! Two files beside the state directory, where a reboot leaves them and the tests' drop-in for the unit's sandbox
//! lets the daemon write: every point is appended to `points` if that exists; the first that equals the text of
//! `stop-at` (or begins so, when that ends with `*`) stops the process by SIGSTOP, once. What happens then
//! is the test's business.

use std::fs::{self, OpenOptions};
use std::io::Write;

use kube_rebootd_core::effect::Effect;
use kube_rebootd_core::record::{Record, Stage};
use nix::sys::signal::{Signal, raise};

use crate::bounded;
use crate::root::Root;

/// Points passed, one a line.
const POINTS: &str = "/var/lib/kube-rebootd.points";
/// The point to stop at.
const STOP_AT: &str = "/var/lib/kube-rebootd.stop-at";
/// Bytes of a point.
const POINT_MAX: u64 = 4096;

/// The point after a durable write, by what it says.
pub(super) fn wrote(record: &Record) -> String {
    let mut words = vec![format!("wrote {}", stage(record))];
    if let Some(hold) = &record.hold {
        words.push(format!("step {}", hold.step));
        if hold.asks > 0 {
            words.push(format!("asks {}", hold.asks));
        }
    }
    let labelled = record.hold.as_ref().and_then(|hold| hold.node_uid.as_ref());
    let also = [
        ("labelled", labelled.is_some()),
        ("request", record.request.is_some()),
        ("waiting", record.waiting.is_some()),
        ("kept", record.kept.is_some()),
        ("backoff", record.backoff.is_some()),
    ];
    let also = also.iter().filter(|(_, there)| *there);
    words.extend(also.map(|(word, _)| (*word).to_owned()));
    words.join(" ")
}

/// The point after an outside effect.
pub(super) fn did(effect: &Effect, record: &Record) -> Option<String> {
    let debug = format!("{effect:?}");
    // A variant's name begins its Debug text.
    let name = debug.split(|c: char| !c.is_alphanumeric()).next()?;
    effect
        .outside()
        .then(|| format!("did {name} {}", stage(record)))
}

/// The point after the answer to an eviction, which comes beside the loop.
pub(super) const EVICTED: &str = "did Evict answered";

/// The point after an order of root is durable, before anybody is told.
pub(super) const ORDERED: &str = "wrote an order";

fn stage(record: &Record) -> &'static str {
    match record.hold.as_ref().map(|hold| &hold.stage) {
        None => "no-hold",
        Some(Stage::Taking) => "taking",
        Some(Stage::Claiming) => "claiming",
        Some(Stage::Draining) => "draining",
        Some(Stage::Drained) => "drained",
        Some(Stage::Rebooting) => "rebooting",
        Some(Stage::Uncordoned) => "uncordoned",
        Some(Stage::Releasing) => "releasing",
        Some(Stage::Undoing(_)) => "undoing",
    }
}

/// Passes a point. Every failure is silent: a test that waits for a stop says what it waits for.
pub(super) fn pass(root: &Root, point: &str) {
    let points = root.path(POINTS);
    let append = |line: &str| {
        if let Ok(mut file) = OpenOptions::new().append(true).open(&points) {
            let _ = writeln!(file, "{line}");
        }
    };
    append(point);
    let stop_at = root.path(STOP_AT);
    let Ok(wanted) = bounded::text(&stop_at, POINT_MAX) else {
        return;
    };
    let wanted = wanted.trim();
    let begins = wanted.strip_suffix('*');
    let here = wanted == point || begins.is_some_and(|begin| point.starts_with(begin));
    if here && fs::remove_file(&stop_at).is_ok() {
        append(&format!("stopped {}", std::process::id()));
        let _ = raise(Signal::SIGSTOP);
    }
}
