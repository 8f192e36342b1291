//! The trace of a run's host calls: templates and numbers, and no room for anything else (spec 30 §11).
//!
//! A row's route is an [`AllowedRoute`], which only a grant hands out, so no path, query, body or credential of a guest
//! can end up in a trace.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::grant::AllowedRoute;
use crate::route::{Method, Route};

/// Rows a trace keeps: enough to see a pattern, and a bound on what a run can make the daemon hold.
pub const MAX_ROWS: usize = 256;

/// What was measured of one call that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measured {
    /// The API's status; 0 when it gave no answer.
    pub status: u16,
    /// Whether the guest got that answer.
    pub delivered: bool,
    /// Bytes of the request's body.
    pub req_bytes: u64,
    /// Bytes of the decoded answer's body; counts as 0 when it was not delivered.
    pub resp_bytes: u64,
    /// From sending to the end of the answer's body.
    pub latency: Duration,
}

/// One call that was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallRow {
    route: AllowedRoute,
    /// Its place among the run's recorded calls in order of completion, from 1.
    pub seq: u32,
    /// The API's status; 0 when it gave no answer.
    pub status: u16,
    /// Whether the guest got that answer.
    pub delivered: bool,
    /// Bytes of the request's body.
    pub req_bytes: u64,
    /// Bytes of the answer's body; 0 unless delivered.
    pub resp_bytes: u64,
    /// From sending to the end of the answer's body.
    pub latency: Duration,
}

impl CallRow {
    /// A row for a call of an allowed route.
    pub const fn new(seq: u32, route: AllowedRoute, call: Measured) -> Self {
        Self {
            route,
            seq,
            status: call.status,
            delivered: call.delivered,
            req_bytes: call.req_bytes,
            resp_bytes: if call.delivered { call.resp_bytes } else { 0 },
            latency: call.latency,
        }
    }

    /// The entry of the allow list the call fell under.
    pub fn route(&self) -> &Route {
        self.route.route()
    }

    /// The verb of that entry.
    pub fn method(&self) -> Method {
        self.route().method()
    }

    /// Whether the guest got an answer of 200 to 299.
    pub const fn succeeded(&self) -> bool {
        self.delivered && matches!(self.status, 200..=299)
    }
}

/// What a run's calls looked like.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallTrace {
    /// The first [`MAX_ROWS`] calls that were sent, in order of completion.
    pub rows: Vec<CallRow>,
    /// Calls that were sent after those.
    pub dropped: u64,
    /// Calls refused before anything was sent.
    pub denied: u64,
    /// Calls the breaker refused.
    pub shed: u64,
    /// Whether the call budget (not a route's cap) refused one of them.
    pub budget_refused: bool,
}

impl CallTrace {
    /// Whether it says nothing: a run without host calls has no trace.
    pub const fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.dropped == 0 && self.denied == 0 && self.shed == 0
    }
}

/// Told of every call that was sent, those beyond [`MAX_ROWS`] included: metrics count them all.
pub trait CallObserver: Send + Sync + fmt::Debug {
    /// One call was sent and is over.
    fn observed(&self, row: &CallRow);
}

/// Writes the trace of one run while its calls come and go.
#[derive(Debug, Default)]
pub struct TraceRecorder {
    trace: Mutex<CallTrace>,
    observer: Option<Arc<dyn CallObserver>>,
}

impl TraceRecorder {
    /// An empty trace, and who else wants to know.
    pub fn new(observer: Option<Arc<dyn CallObserver>>) -> Self {
        Self {
            trace: Mutex::default(),
            observer,
        }
    }

    /// A call of `route` was sent and is over.
    pub fn record(&self, route: &AllowedRoute, call: Measured) {
        let row = {
            let mut trace = self.trace.lock();
            let recorded = trace.dropped.saturating_add(trace.rows.len() as u64);
            let seq = u32::try_from(recorded).map_or(u32::MAX, |before| before.saturating_add(1));
            let row = CallRow::new(seq, route.clone(), call);
            if trace.rows.len() < MAX_ROWS {
                trace.rows.push(row.clone());
            } else {
                trace.dropped = trace.dropped.saturating_add(1);
            }
            row
        };
        if let Some(observer) = &self.observer {
            observer.observed(&row);
        }
    }

    /// A call was refused before anything was sent.
    pub fn denied(&self) {
        let mut trace = self.trace.lock();
        trace.denied = trace.denied.saturating_add(1);
    }

    /// The call budget refused a call; counts as denied too.
    pub fn denied_by_budget(&self) {
        let mut trace = self.trace.lock();
        trace.denied = trace.denied.saturating_add(1);
        trace.budget_refused = true;
    }

    /// The breaker refused a call.
    pub fn shed(&self) {
        let mut trace = self.trace.lock();
        trace.shed = trace.shed.saturating_add(1);
    }

    /// The trace so far; nothing when the run made no call at all.
    pub fn snapshot(&self) -> Option<CallTrace> {
        let trace = self.trace.lock();
        (!trace.is_empty()).then(|| trace.clone())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;
    use crate::grant::GrantSpec;

    fn route() -> AllowedRoute {
        let mut spec = GrantSpec::new("https://api.example");
        spec.allow = vec![("get".to_owned(), "/items/*".to_owned())];
        spec.validate().unwrap().allowed().next().unwrap()
    }

    fn call(status: u16, delivered: bool) -> Measured {
        Measured {
            status,
            delivered,
            req_bytes: 3,
            resp_bytes: 5,
            latency: Duration::from_millis(7),
        }
    }

    #[derive(Debug, Default)]
    struct Counter {
        calls: AtomicU32,
        last: AtomicU32,
    }

    impl CallObserver for Counter {
        fn observed(&self, row: &CallRow) {
            self.calls.fetch_add(1, Ordering::Relaxed);
            self.last.store(row.seq, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_run_without_calls_has_no_trace() {
        assert_eq!(TraceRecorder::default().snapshot(), None);
    }

    #[test]
    fn a_row_holds_the_template_and_numbers() {
        let recorder = TraceRecorder::default();
        recorder.record(&route(), call(200, true));
        recorder.record(&route(), call(200, false));
        let rows = recorder.snapshot().unwrap().rows;
        assert_eq!((rows[0].method(), rows[0].route().path()), (Method::Get, "/items/*"));
        assert_eq!((rows[0].seq, rows[0].resp_bytes), (1, 5));
        assert_eq!(
            (rows[1].seq, rows[1].resp_bytes),
            (2, 0),
            "what was not delivered has no bytes"
        );
    }

    #[test]
    fn only_a_delivered_2xx_succeeded() {
        for (status, delivered, good) in [
            (200, true, true),
            (299, true, true),
            (199, true, false),
            (300, true, false),
            (204, false, false),
            (0, false, false),
        ] {
            assert_eq!(
                CallRow::new(1, route(), call(status, delivered)).succeeded(),
                good,
                "{status} {delivered}"
            );
        }
    }

    #[test]
    fn rows_are_bounded_and_the_observer_sees_every_call() {
        let counter = Arc::new(Counter::default());
        let recorder = TraceRecorder::new(Some(Arc::clone(&counter) as Arc<dyn CallObserver>));
        for _ in 0..300 {
            recorder.record(&route(), call(200, true));
        }
        let trace = recorder.snapshot().unwrap();
        assert_eq!((trace.rows.len(), trace.dropped), (256, 44));
        assert_eq!(
            (
                counter.calls.load(Ordering::Relaxed),
                counter.last.load(Ordering::Relaxed)
            ),
            (300, 300)
        );
    }

    #[test]
    fn refused_calls_are_counted_by_kind() {
        let recorder = TraceRecorder::default();
        recorder.shed();
        let trace = recorder.snapshot().unwrap();
        assert_eq!((trace.shed, trace.denied, trace.budget_refused), (1, 0, false));
        recorder.denied();
        assert!(!recorder.snapshot().unwrap().budget_refused);
        recorder.denied_by_budget();
        let trace = recorder.snapshot().unwrap();
        assert_eq!((trace.shed, trace.denied, trace.budget_refused), (1, 2, true));
    }
}
