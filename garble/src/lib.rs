//! Damage, for the property tests of every parser of outside input: bytes as a bad disk or line leaves them,
//! JSON with a value that nobody expects, nesting and size as a hostile writer sends them (I6, I8).

use std::sync::mpsc;
use std::time::Duration;

use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Map, Value};

/// Only what hangs takes so long, however busy the machine is.
const PATIENCE: Duration = Duration::from_secs(60);
/// CPU time: far above what a parser takes for 1 MiB in a debug build, below what a quadratic one takes.
const WORK_MAX: Duration = Duration::from_secs(12);
/// Of the thread that reads a kubeconfig (std's default); the daemon's own has more.
const STACK: usize = 2 << 20;

/// One thing that happens to bytes.
#[derive(Debug, Clone)]
enum Edit {
    Cut(Index),
    Flip(Index, u8),
    Insert(Index, Vec<u8>),
    Remove(Index, usize),
    Repeat(Index, usize),
}

fn edit() -> impl Strategy<Value = Edit> {
    let at = any::<Index>;
    prop_oneof![
        1 => at().prop_map(Edit::Cut),
        4 => (at(), any::<u8>()).prop_map(|(at, byte)| Edit::Flip(at, byte)),
        2 => (at(), prop::collection::vec(any::<u8>(), 1..8)).prop_map(|(at, new)| Edit::Insert(at, new)),
        2 => (at(), 1..64usize).prop_map(|(at, length)| Edit::Remove(at, length)),
        1 => (at(), 1..64usize).prop_map(|(at, length)| Edit::Repeat(at, length)),
    ]
}

fn apply(bytes: &mut Vec<u8>, edit: Edit) {
    if bytes.is_empty() {
        return;
    }
    let length = bytes.len();
    let span = |at: Index, many: usize| {
        let at = at.index(length);
        at..(at + many).min(length)
    };
    match edit {
        Edit::Cut(at) => bytes.truncate(at.index(length)),
        Edit::Flip(at, byte) => bytes[at.index(length)] = byte,
        Edit::Insert(at, new) => {
            bytes.splice(span(at, 0), new);
        }
        Edit::Remove(at, many) => {
            bytes.drain(span(at, many));
        }
        Edit::Repeat(at, many) => {
            let again = bytes[span(at, many)].to_vec();
            bytes.splice(span(at, 0), again);
        }
    }
}

/// `whole` with one to four of them.
pub fn bytes(whole: Vec<u8>) -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(edit(), 1..5).prop_map(move |edits| {
        let mut bytes = whole.clone();
        for edit in edits {
            apply(&mut bytes, edit);
        }
        bytes
    })
}

/// The same, as far as it is text.
pub fn text(whole: &str) -> impl Strategy<Value = String> + use<> {
    bytes(whole.as_bytes().to_vec()).prop_map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// The numbers and words at which parsers break.
fn leaf() -> impl Strategy<Value = Value> {
    let numbers = vec![
        u64::MAX,
        i64::MAX.unsigned_abs(),
        1 << 32,
        u64::from(u32::MAX),
        0,
        1,
        404,
    ];
    let words = vec![
        "",
        " ",
        "true",
        "Ready",
        "\u{0}",
        "9999-12-30T22:00:00Z",
        "-009999-01-02T01:59:59Z",
    ];
    prop_oneof![
        1 => Just(Value::Null),
        1 => any::<bool>().prop_map(Value::from),
        4 => prop::sample::select(numbers).prop_map(Value::from),
        1 => prop::sample::select(vec![-1, i64::MIN]).prop_map(Value::from),
        1 => prop::sample::select(vec![0.5, -1e308, 1e308]).prop_map(Value::from),
        3 => prop::sample::select(words).prop_map(Value::from),
        1 => ".{0,12}".prop_map(Value::from),
    ]
}

/// Characters of our own words around what came in; the longest says who else may have answered 404.
const AROUND: usize = 200;

/// Everything that people are shown of what came in: nothing that is `hostile`, and `most` characters of it.
///
/// # Panics
/// When a text is not as it must be.
pub fn shown(
    words: impl IntoIterator<Item = impl AsRef<str>>,
    hostile: fn(char) -> bool,
    most: usize,
) {
    for text in words {
        let text = text.as_ref();
        assert!(!text.contains(hostile), "{text:?}");
        let long = text.chars().count();
        assert!(long <= most + AROUND, "{long} characters");
    }
}

/// Text with what a terminal obeys: control characters, whole sequences, changes of direction, and far too long.
pub fn hostile() -> impl Strategy<Value = String> {
    let nasty = vec![
        "\u{1b}[2J",
        "\u{1b}]0;x\u{7}",
        "\u{9b}31m",
        "\u{7f}",
        "\r",
        "\n",
        "\t",
        "\0",
        "\u{85}",
        "\u{2028}",
        "\u{202e}",
        "\u{2066}",
        "\u{200f}",
        "\u{61c}",
        "paused",
        " ",
        "\\",
        "…",
        "東",
    ];
    let piece = prop_oneof![
        3 => prop::sample::select(nasty).prop_map(str::to_owned),
        1 => any::<char>().prop_map(String::from),
        1 => "[a-z0-9.-]{1,12}",
    ];
    prop_oneof![
        4 => prop::collection::vec(piece.clone(), 0..20),
        1 => prop::collection::vec(piece, 400..600),
    ]
    .prop_map(|pieces| pieces.concat())
}

/// Any JSON.
pub fn tree() -> impl Strategy<Value = Value> {
    leaf().prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-z]{1,4}", inner, 0..4)
                .prop_map(|map| Value::from(map.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

/// `whole` in which up to three values, wherever they are, are others.
pub fn json(whole: Value) -> impl Strategy<Value = Value> {
    let new = prop_oneof![3 => leaf(), 1 => tree()];
    prop::collection::vec((any::<Index>(), new), 1..4).prop_map(move |new| {
        let mut value = whole.clone();
        for (at, new) in new {
            let at = at.index(count(&value));
            *nth(&mut value, at).0.expect("it was counted") = new;
        }
        value
    })
}

/// `whole` in which one or two of its numbers are the largest of some size.
pub fn numbers(whole: Value) -> impl Strategy<Value = Value> {
    let largest = vec![u64::MAX, i64::MAX.unsigned_abs(), u64::from(u32::MAX)];
    let places: Vec<usize> = (0..count(&whole))
        .filter(|at| {
            nth(&mut whole.clone(), *at)
                .0
                .is_some_and(|value| value.is_number())
        })
        .collect();
    prop::collection::vec((any::<Index>(), prop::sample::select(largest)), 1..3).prop_map(
        move |new| {
            let mut value = whole.clone();
            for (at, number) in new {
                // Numbers are leaves: no place moves.
                let at = places[at.index(places.len())];
                *nth(&mut value, at).0.expect("it was counted") = number.into();
            }
            value
        },
    )
}

/// All values in it, itself too.
fn count(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(count).sum::<usize>(),
        Value::Object(map) => map.values().map(count).sum(),
        _ => 0,
    }
}

/// The value number `left`, or how many are left to pass.
fn nth(value: &mut Value, left: usize) -> (Option<&mut Value>, usize) {
    if left == 0 {
        return (Some(value), 0);
    }
    let mut left = left - 1;
    let inner: Vec<&mut Value> = match value {
        Value::Array(items) => items.iter_mut().collect(),
        Value::Object(map) => map.values_mut().collect(),
        _ => Vec::new(),
    };
    for value in inner {
        match nth(value, left) {
            (None, rest) => left = rest,
            found => return found,
        }
    }
    (None, left)
}

/// Texts of about `length` bytes that are all nesting, in JSON, YAML and TOML.
pub fn deep(length: usize) -> Vec<String> {
    let mut texts = Vec::new();
    for unit in [
        "[", "{\"a\":", "{", "a = [", "[a.", "- ", "a: {", "? ", "((", "!t ", "&a [", "a.",
    ] {
        let many = length / unit.len();
        texts.push(unit.repeat(many));
        texts.push(format!("x = {}", unit.repeat(many)));
    }
    texts.push("[".repeat(length / 2) + &"]".repeat(length / 2));
    texts.push(format!(
        "a = {}{}",
        "[".repeat(length / 2),
        "]".repeat(length / 2)
    ));
    texts
}

/// What `parse` answers, on a thread with as little stack as any of the daemon's, and in a bounded time.
pub fn soon<T: Send + 'static>(parse: impl FnOnce() -> T + Send + 'static) -> T {
    let (send, said) = mpsc::channel();
    let thread = std::thread::Builder::new()
        .stack_size(STACK)
        .spawn(move || send.send((parse(), work())).is_ok())
        .expect("a thread");
    match said.recv_timeout(PATIENCE) {
        Ok((said, work)) => {
            assert!(work < WORK_MAX, "it took {work:?} of CPU time");
            said
        }
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("it takes more than {PATIENCE:?}"),
        Err(mpsc::RecvTimeoutError::Disconnected) => panic!("it panicked: {:?}", thread.join()),
    }
}

/// CPU time of this thread.
fn work() -> Duration {
    let clock = nix::time::ClockId::CLOCK_THREAD_CPUTIME_ID;
    Duration::from(nix::time::clock_gettime(clock).expect("a clock"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_value_can_be_another() {
        let value = json!({"a": [1, {"b": 2}], "c": null});
        assert_eq!(count(&value), 6);
        for at in 0..6 {
            let mut other = value.clone();
            *nth(&mut other, at).0.expect("counted") = json!("other");
            assert_ne!(other, value, "{at}");
        }
    }
}
