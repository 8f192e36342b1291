//! Records of refused calls, for operators who ask for them (`PLIMSOLL_LOG_REFUSALS`).
//!
//! Whoever is refused can be refused as often as it likes, so no caller writes more than a few of them a minute; what is left out
//! is counted, and told with the caller's next one or by the look that the daemon takes every minute.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use plimsoll_core::Refusal;

use super::Log;
use crate::limiter::{Clock, Monotonic};

/// Records of one caller in one window.
const MOST: u32 = 20;

/// How long a window is.
const WINDOW: Duration = Duration::from_secs(60);

/// What was written lately, by caller.
pub(super) struct Refusals {
    clock: Box<dyn Clock>,
    callers: Mutex<HashMap<Arc<str>, Window>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Window {
    began: Duration,
    written: u32,
    left_out: u64,
}

impl Window {
    fn is_over(&self, now: Duration) -> bool {
        now.saturating_sub(self.began) >= WINDOW
    }
}

impl Refusals {
    pub(super) fn new(clock: impl Clock + 'static) -> Self {
        Self {
            clock: Box::new(clock),
            callers: Mutex::default(),
        }
    }

    /// Whether one more of this caller's is written; and how many were left out before it, where that is to be told first.
    fn admit(&self, caller: &str) -> Option<u64> {
        let now = self.clock.now();
        let mut callers = self.callers.lock();
        let Some(window) = callers.get_mut(caller) else {
            let first = Window {
                began: now,
                written: 1,
                left_out: 0,
            };
            callers.insert(caller.into(), first);
            return Some(0);
        };
        if window.is_over(now) {
            let left_out = window.left_out;
            *window = Window {
                began: now,
                written: 1,
                left_out: 0,
            };
            return Some(left_out);
        }
        if window.written < MOST {
            window.written += 1;
            return Some(0);
        }
        window.left_out += 1;
        None
    }

    /// Forgets the windows that are over; the callers of whom something was left out, with how much.
    fn over(&self) -> Vec<(Arc<str>, u64)> {
        let now = self.clock.now();
        let mut untold = Vec::new();
        self.callers.lock().retain(|caller, window| {
            let over = window.is_over(now);
            if over && window.left_out > 0 {
                untold.push((Arc::clone(caller), window.left_out));
            }
            !over
        });
        untold
    }
}

impl Log {
    /// The same stream, and refused calls are told in it.
    #[must_use]
    pub fn telling_refusals(self) -> Self {
        self.telling_refusals_by(Monotonic::default())
    }

    fn telling_refusals_by(mut self, clock: impl Clock + 'static) -> Self {
        self.refusals = Some(Arc::new(Refusals::new(clock)));
        self
    }

    /// A call of this caller was refused, and nothing of it ran. `op` is the payload's kind, or the procedure. Neither the
    /// refusal's text nor anything of the request is told: a caller could write into the log with it.
    pub(crate) fn refused(&self, caller: &str, op: &'static str, refusal: &Refusal) {
        let Some(left_out) = self.refusals.as_ref().and_then(|refusals| refusals.admit(caller)) else {
            return;
        };
        self.left_out(caller, left_out);
        self.info("call refused")
            .text("caller", caller)
            .text("op", op)
            .text("code", refusal.code().as_str())
            .text("reason", refusal.reason().as_str())
            .send();
    }

    /// Tells what was left out of windows that are over; asked for now and then, so that the last of a flood is told too.
    pub fn tell_refused(&self) {
        for (caller, left_out) in self.refusals.iter().flat_map(|refusals| refusals.over()) {
            self.left_out(&caller, left_out);
        }
    }

    fn left_out(&self, caller: &str, count: u64) {
        if count > 0 {
            self.warn("refused calls not told")
                .text("caller", caller)
                .uint("count", count)
                .send();
        }
    }
}

#[cfg(test)]
mod tests {
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

    /// A log on a clock of the test's, and what is in it.
    fn telling() -> (Log, Captured, Arc<AtomicU64>) {
        let seconds = Arc::default();
        let (log, captured) = Captured::log(Format::Json);
        (
            log.telling_refusals_by(Seconds(Arc::clone(&seconds))),
            captured,
            seconds,
        )
    }

    #[test]
    fn a_log_that_was_not_asked_tells_nothing() {
        let (log, captured) = Captured::log(Format::Json);
        log.refused("alice", "javascript", &Refusal::isolation("too weak"));
        log.tell_refused();
        assert_eq!(captured.text(&log), "");
    }

    #[test]
    fn a_record_says_who_what_and_why_in_words_of_ours() {
        let (log, captured, _) = telling();
        log.refused("alice", "project", &Refusal::isolation("/etc/secret is too weak"));
        let told = captured.text(&log);
        let fields = r#""msg":"call refused","caller":"alice","op":"project","code":"failed_precondition","reason":"isolation"}"#;
        assert!(told.trim_end().ends_with(fields), "{told}");
    }

    #[test]
    fn one_caller_writes_a_few_and_what_is_left_out_is_counted_and_takes_nobody_elses() {
        let (log, captured, seconds) = telling();
        let refusal = Refusal::capacity("full");
        for _ in 0..100 {
            log.refused("flood", "javascript", &refusal);
        }
        log.refused("alice", "javascript", &refusal);
        log.tell_refused();
        assert_eq!(captured.records(&log).len(), 21);
        seconds.store(60, Ordering::SeqCst);
        log.refused("flood", "javascript", &refusal);
        let told = captured.records(&log);
        assert_eq!(
            (&told[21]["msg"], &told[21]["count"]),
            (&"refused calls not told".into(), &80.into())
        );
        assert_eq!((told.len(), &told[22]["msg"]), (23, &"call refused".into()));
    }

    #[test]
    fn the_last_of_a_flood_is_told_by_the_look_and_its_caller_forgotten() {
        let (log, captured, seconds) = telling();
        for _ in 0..25 {
            log.refused("flood", "open", &Refusal::capacity("full"));
        }
        seconds.store(61, Ordering::SeqCst);
        log.tell_refused();
        log.tell_refused();
        let told = captured.records(&log);
        assert_eq!((told.len(), &told[20]["count"]), (21, &5.into()));
        assert!(log.refusals.unwrap().callers.lock().is_empty());
    }
}
