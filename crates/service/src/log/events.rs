//! What rooms below the service have to tell an operator: their `tracing` events of level WARN and above, as records.
//!
//! Rooms below know no log. A provider says `tracing::warn!(container, error, "…")`, and where a daemon serves, that is a
//! record of its stream with the same fields. Events of other crates are not ours to print: their fields may hold anything.

use std::fmt;

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Event, Level, Metadata, Subscriber};

use super::{Log, cut};

/// Longest text of one field, in bytes.
const FIELD_BYTES: usize = 4096;

/// Where our own events come from: crate names begin like this.
const OURS: &str = "plimsoll";

/// Writes our crates' warnings and errors to a log. There are no spans.
#[derive(Debug)]
pub struct Events(Log);

impl Events {
    /// Of this log.
    pub const fn to(log: Log) -> Self {
        Self(log)
    }
}

/// The message and the other fields of an event.
#[derive(Default)]
struct Fields {
    message: String,
    others: Vec<(&'static str, String)>,
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let text = cut(&format!("{value:?}"), FIELD_BYTES).into_owned();
        match field.name() {
            "message" => self.message = text,
            name => self.others.push((name, text)),
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }
}

impl Subscriber for Events {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        if self.enabled(metadata) {
            Interest::always()
        } else {
            Interest::never()
        }
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && *metadata.level() <= Level::WARN && metadata.target().starts_with(OURS)
    }

    fn max_level_hint(&self) -> Option<tracing::metadata::LevelFilter> {
        Some(tracing::metadata::LevelFilter::WARN)
    }

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let mut line = match *event.metadata().level() {
            Level::ERROR => self.0.error(&fields.message),
            _ => self.0.warn(&fields.message),
        };
        for (name, value) in &fields.others {
            line = line.text(name, value);
        }
        line.send();
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::Format;
    use crate::log::tests::Captured;

    #[test]
    fn warnings_of_ours_are_records_and_nothing_else_is() {
        let (log, captured) = Captured::log(Format::Json);
        tracing::subscriber::with_default(Events::to(log.clone()), || {
            tracing::warn!(target: "plimsoll_docker::pool", container = "run-1", attempt = 2, "refill failed: \"x\"");
            tracing::error!(target: "plimsoll_docker", "gone");
            tracing::info!(target: "plimsoll_docker", "quiet");
            tracing::error!(target: "hyper", secret = "hunter2", "not ours");
        });
        let records = captured.records(&log);
        assert_eq!(records.len(), 2);
        assert_eq!(records[0]["level"], "WARN");
        assert_eq!(records[0]["msg"], "refill failed: \"x\"");
        assert_eq!(records[0]["container"], "run-1");
        assert_eq!(records[0]["attempt"], "2");
        assert_eq!(records[1]["level"], "ERROR");
    }
}
