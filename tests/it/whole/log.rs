//! What the daemons of a test log, so that a failure can be understood and a phase be waited for.

use std::fmt::{Debug, Write};
use std::sync::{Arc, Mutex};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id};
use tracing::subscriber::DefaultGuard;
use tracing::{Event, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;

use kube_rebootd::clock::Clock;

/// One record.
#[derive(Debug, Clone)]
pub(super) struct Record {
    pub(super) host: String,
    pub(super) phase: String,
    pub(super) text: String,
    /// `MESSAGE_ID`; empty: it has none.
    pub(super) id: String,
    at: f64,
}

/// Of this thread, which is the whole runtime of a test.
pub(super) struct Log {
    records: Arc<Mutex<Vec<Record>>>,
    _guard: DefaultGuard,
}

struct Collect {
    records: Arc<Mutex<Vec<Record>>>,
    clock: Clock,
}

/// The host of a span.
struct Host(String);

#[derive(Default)]
struct Words {
    host: String,
    phase: String,
    id: String,
    message: String,
}

impl Visit for Words {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "host" => value.clone_into(&mut self.host),
            "phase" => value.clone_into(&mut self.phase),
            "message_id" => value.clone_into(&mut self.id),
            _ => {}
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            let _ = write!(self.message, "{value:?}");
        }
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Collect {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut words = Words::default();
        attributes.record(&mut words);
        if let Some(span) = context.span(id) {
            span.extensions_mut().insert(Host(words.host));
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        if !event.metadata().target().starts_with("kube_rebootd") {
            return;
        }
        let mut words = Words::default();
        event.record(&mut words);
        let host = context.event_scope(event).and_then(|mut scope| {
            scope.find_map(|span| span.extensions().get::<Host>().map(|host| host.0.clone()))
        });
        self.records.lock().unwrap().push(Record {
            host: host.unwrap_or_default(),
            phase: words.phase,
            text: words.message,
            id: words.id,
            at: self.clock.now().boot.as_secs_f64(),
        });
    }
}

impl Log {
    pub(super) fn start(clock: Clock) -> Self {
        let records = Arc::default();
        let collect = Collect {
            records: Arc::clone(&records),
            clock,
        };
        let subscriber = tracing_subscriber::registry().with(collect);
        Self {
            records,
            _guard: tracing::subscriber::set_default(subscriber),
        }
    }

    /// The last phase that a host's daemon told of.
    pub(super) fn phase(&self, host: &str) -> Option<String> {
        let records = self.records.lock().unwrap();
        let mut newest = records.iter().rev();
        let last = newest.find(|record| record.host == host && !record.phase.is_empty());
        last.map(|record| record.phase.clone())
    }

    /// The records of a host, oldest first.
    pub(super) fn of(&self, host: &str) -> Vec<Record> {
        let records = self.records.lock().unwrap();
        records
            .iter()
            .filter(|record| record.host == host)
            .cloned()
            .collect()
    }

    pub(super) fn told(&self, lines: usize) -> String {
        let records = self.records.lock().unwrap();
        let from = records.len().saturating_sub(lines);
        let line = |record: &Record| {
            format!(
                "{:>10.3} {} {} {}",
                record.at, record.host, record.phase, record.text
            )
        };
        records[from..]
            .iter()
            .map(line)
            .collect::<Vec<_>>()
            .join("\n")
    }
}
