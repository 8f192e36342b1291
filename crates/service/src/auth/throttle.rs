//! Refused credentials are counted, and told to the log without flooding it.

use std::time::Duration;

use parking_lot::Mutex;

use crate::limiter::{Clock, Monotonic};
use crate::log::Log;

/// At most one record per window.
const WINDOW: Duration = Duration::from_secs(30);

/// Counts events and writes one WARN at once, then at most one per 30 s that carries the count since the last.
pub struct Throttle {
    message: &'static str,
    log: Log,
    clock: Box<dyn Clock>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    told: Option<Duration>,
    untold: u64,
}

impl Throttle {
    /// A throttle that writes `message` to `log`.
    pub fn new(log: Log, message: &'static str) -> Self {
        Self::with_clock(log, message, Monotonic::default())
    }

    /// The same on a clock of the caller's.
    pub fn with_clock(log: Log, message: &'static str, clock: impl Clock + 'static) -> Self {
        Self {
            message,
            log,
            clock: Box::new(clock),
            state: Mutex::default(),
        }
    }

    /// One more event.
    pub fn event(&self) {
        self.state.lock().untold += 1;
        self.tell();
    }

    /// Writes the count of a window that is over; called now and then so that the last events of a burst are told too.
    pub fn tell(&self) {
        let now = self.clock.now();
        let (count, window) = {
            let mut state = self.state.lock();
            let since = state.told.map(|told| now.saturating_sub(told));
            if state.untold == 0 || since.is_some_and(|since| since < WINDOW) {
                return;
            }
            state.told = Some(now);
            (std::mem::take(&mut state.untold), since.unwrap_or_default())
        };
        self.log
            .warn(self.message)
            .uint("count", count)
            .uint("window_s", window.as_secs())
            .send();
    }
}

impl std::fmt::Debug for Throttle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Throttle")
            .field("message", &self.message)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use crate::log::Format;
    use crate::log::tests::Captured;

    struct Seconds(Arc<AtomicU64>);

    impl Clock for Seconds {
        fn now(&self) -> Duration {
            Duration::from_secs(self.0.load(Ordering::SeqCst))
        }
    }

    #[test]
    fn a_hundred_events_are_one_record_at_once_and_one_count_later() {
        let (log, captured) = Captured::log(Format::Json);
        let now = Arc::new(AtomicU64::new(5));
        let throttle = Throttle::with_clock(log.clone(), "credentials refused", Seconds(Arc::clone(&now)));
        throttle.tell();
        for event in 0..100 {
            now.store(5 + event / 10, Ordering::SeqCst);
            throttle.event();
        }
        let records = captured.records(&log);
        assert_eq!(records.len(), 1);
        assert_eq!(
            (&records[0]["level"], &records[0]["count"]),
            (&"WARN".into(), &1.into())
        );
        now.store(34, Ordering::SeqCst);
        throttle.tell();
        assert_eq!(captured.records(&log).len(), 1);
        now.store(35, Ordering::SeqCst);
        throttle.tell();
        let records = captured.records(&log);
        assert_eq!(
            (records.len(), &records[1]["count"], &records[1]["window_s"]),
            (2, &99.into(), &30.into())
        );
        now.store(500, Ordering::SeqCst);
        throttle.tell();
        assert_eq!(captured.records(&log).len(), 2, "nothing happened since");
    }
}
