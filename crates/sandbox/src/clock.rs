//! When a call was received: wall clock for people, monotonic clock for arithmetic.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The moment a handler received a request.
#[derive(Clone, Copy, Debug)]
pub struct Received {
    unix_ms: i64,
    at: Instant,
}

impl Received {
    /// This moment.
    pub fn now() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            unix_ms: i64::try_from(since.as_millis()).unwrap_or(i64::MAX),
            at: Instant::now(),
        }
    }

    /// Wall clock at reception, in Unix milliseconds.
    pub const fn unix_ms(&self) -> i64 {
        self.unix_ms
    }

    /// The monotonic moment.
    pub const fn instant(&self) -> Instant {
        self.at
    }

    /// Time passed since.
    pub fn elapsed(&self) -> Duration {
        self.at.elapsed()
    }

    /// Start plus monotonic elapsed: a stepped wall clock never puts an end before its start.
    pub fn ended_unix_ms(&self) -> i64 {
        self.unix_ms
            .saturating_add(i64::try_from(self.elapsed().as_millis()).unwrap_or(i64::MAX))
    }
}
