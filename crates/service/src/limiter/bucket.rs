//! The token bucket of one caller, in whole numbers: no rounding ever mints or loses a token.

use std::time::{Duration, Instant};

/// One token in the bucket's unit: a rate of one per minute refills one unit per nanosecond.
const TOKEN: u128 = 60_000_000_000;

/// A clock that never goes back; the zero point is its own business.
pub trait Clock: Send + Sync {
    /// Time since the zero point.
    fn now(&self) -> Duration;
}

/// The system's monotonic clock, counted from its creation.
#[derive(Clone, Copy, Debug)]
pub struct Monotonic(Instant);

impl Default for Monotonic {
    fn default() -> Self {
        Self(Instant::now())
    }
}

impl Clock for Monotonic {
    fn now(&self) -> Duration {
        self.0.elapsed()
    }
}

/// Refill per minute and capacity, both in tokens.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rate {
    per_min: u128,
    capacity: u128,
}

impl Rate {
    /// `None` when rate limiting is off; a burst of 0 means as many as the rate.
    pub(super) fn new(per_min: u64, burst: u64) -> Option<Self> {
        let burst = if burst == 0 { per_min } else { burst };
        (per_min > 0).then(|| Self {
            per_min: per_min.into(),
            capacity: u128::from(burst) * TOKEN,
        })
    }
}

/// What is left of a caller's tokens.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bucket {
    units: u128,
    at: Duration,
}

impl Bucket {
    pub(super) const fn full(rate: Rate, now: Duration) -> Self {
        Self {
            units: rate.capacity,
            at: now,
        }
    }

    /// Takes one token if there is a whole one.
    pub(super) fn take(&mut self, rate: Rate, now: Duration) -> bool {
        self.units = self.refilled(rate, now);
        self.at = self.at.max(now);
        match self.units.checked_sub(TOKEN) {
            Some(rest) => {
                self.units = rest;
                true
            }
            None => false,
        }
    }

    /// Whether forgetting this bucket hands out nothing: unused for `idle`, and full again.
    pub(super) fn forgettable(&self, rate: Rate, now: Duration, idle: Duration) -> bool {
        now.saturating_sub(self.at) > idle && self.refilled(rate, now) >= rate.capacity
    }

    fn refilled(&self, rate: Rate, now: Duration) -> u128 {
        let elapsed = now.saturating_sub(self.at).as_nanos();
        self.units
            .saturating_add(elapsed.saturating_mul(rate.per_min))
            .min(rate.capacity)
    }
}
