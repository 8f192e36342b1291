//! Admission: a global slot, a slot per caller, a token per start; all or nothing and never queued.
//!
//! ```text
//! acquire ── global slot? ── caller's slot? ── rate token? ──► Slot ── last holder dropped ──► both slots free
//!              at_capacity     per_key           rate              (the call, and any sandbox that outlives it)
//! ```
//!
//! A refusal leaves everything as it was. The key is the caller's id, so one caller's slots and tokens are never
//! another's.

mod bucket;
mod settings;

pub use bucket::{Clock, Monotonic};
pub use settings::{Budget, Clamp, Limits, PER_RUN_DEFAULT_MB, VARS};

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use plimsoll_core::Refusal;

use bucket::{Bucket, Rate};

/// A bucket nobody used for this long may be forgotten, once it is full again.
const IDLE: Duration = Duration::from_secs(120);

/// Idle buckets are looked for at most this often.
const SWEEP_EVERY: Duration = Duration::from_secs(60);

/// Why a start was shed (the `reason` of `plimsoll_shed_total`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Shed {
    /// Every slot of the daemon is taken.
    AtCapacity,
    /// Every slot of this caller is taken.
    PerKey,
    /// The caller's bucket holds no whole token.
    Rate,
}

impl Shed {
    /// The word of the metric.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::AtCapacity => "at_capacity",
            Self::PerKey => "per_key",
            Self::Rate => "rate",
        }
    }
}

/// Admission state of one daemon. Clones share it.
#[derive(Clone)]
pub struct Limiter(Arc<Shared>);

struct Shared {
    limits: Limits,
    rate: Option<Rate>,
    clock: Box<dyn Clock>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    in_flight: u32,
    /// Callers with at least one slot; a caller at zero has no entry.
    per_key: HashMap<Arc<str>, u32>,
    buckets: HashMap<Arc<str>, Bucket>,
    swept: Duration,
    /// Bytes of suspended sessions that hold no slot.
    kept: u64,
}

impl Limiter {
    /// An empty limiter on the system's monotonic clock.
    pub fn new(limits: Limits) -> Self {
        Self::with_clock(limits, Monotonic::default())
    }

    /// An empty limiter on a clock of the caller's.
    pub fn with_clock(limits: Limits, clock: impl Clock + 'static) -> Self {
        let rate = Rate::new(limits.rate_per_min, limits.rate_burst);
        Self(Arc::new(Shared {
            limits,
            rate,
            clock: Box::new(clock),
            state: Mutex::default(),
        }))
    }

    /// The limits in force.
    pub fn limits(&self) -> Limits {
        self.0.limits
    }

    /// Global slots held right now.
    pub fn in_flight(&self) -> u32 {
        self.0.state.lock().in_flight
    }

    /// Takes a global slot, a slot of the caller and a token, or nothing at all. Never waits.
    ///
    /// # Errors
    /// The first of the three that is missing.
    pub fn acquire(&self, key: &Arc<str>) -> Result<Slot, Shed> {
        let mut state = self.0.state.lock();
        self.room(&state, key, 0)?;
        self.token(&mut state, key)?;
        Ok(self.take(&mut state, key))
    }

    /// A slot without a token, for the time an open session runs; `freed` bytes it was charged for ([`Limiter::keep`]) are
    /// about to be given back.
    ///
    /// # Errors
    /// Every slot of the daemon, or of the caller, is taken.
    pub fn hold(&self, key: &Arc<str>, freed: u64) -> Result<Slot, Shed> {
        let mut state = self.0.state.lock();
        self.room(&state, key, freed)?;
        Ok(self.take(&mut state, key))
    }

    /// A token without a slot: for a call in a session, which has its slot.
    ///
    /// # Errors
    /// The caller's bucket holds no whole token.
    pub fn charge(&self, key: &Arc<str>) -> Result<(), Shed> {
        self.token(&mut self.0.state.lock(), key)
    }

    /// Charges what a suspended session without a slot still holds, as measured. It is there already, so this is never
    /// refused; runs that no longer fit beside it are.
    pub fn keep(&self, bytes: u64) -> Kept {
        let mut state = self.0.state.lock();
        state.kept = state.kept.saturating_add(bytes);
        Kept {
            limiter: self.clone(),
            bytes,
        }
    }

    fn room(&self, state: &State, key: &Arc<str>, freed: u64) -> Result<(), Shed> {
        let limits = &self.0.limits;
        if state.in_flight >= limits.max_concurrent {
            return Err(Shed::AtCapacity);
        }
        if let Some(budget) = limits.memory
            && (u64::from(state.in_flight) + 1)
                .saturating_mul(budget.per_run)
                .saturating_add(state.kept.saturating_sub(freed))
                > budget.bytes
        {
            return Err(Shed::AtCapacity);
        }
        let cap = limits.per_key_concurrent;
        if cap > 0 && state.per_key.get(key).is_some_and(|held| *held >= cap) {
            return Err(Shed::PerKey);
        }
        Ok(())
    }

    fn token(&self, state: &mut State, key: &Arc<str>) -> Result<(), Shed> {
        match self.0.rate {
            Some(rate) => state.take_token(rate, key, self.0.clock.now()),
            None => Ok(()),
        }
    }

    fn take(&self, state: &mut State, key: &Arc<str>) -> Slot {
        state.in_flight += 1;
        *state.per_key.entry(Arc::clone(key)).or_insert(0) += 1;
        Slot {
            limiter: self.clone(),
            key: Arc::clone(key),
        }
    }

    /// The refusal a shed call is answered with. It names the caller's own limit and nobody else's use.
    pub fn refusal(&self, shed: Shed) -> Refusal {
        let limits = self.0.limits;
        Refusal::capacity(match shed {
            Shed::AtCapacity => {
                "all runs this daemon does at once are in use; retry later or use another daemon".to_owned()
            }
            Shed::PerKey => format!(
                "this caller already has {} runs in flight, its limit; wait for one to end",
                limits.per_key_concurrent
            ),
            Shed::Rate => format!(
                "this caller starts runs faster than {} per minute, its limit; retry later",
                limits.rate_per_min
            ),
        })
    }

    fn release(&self, key: &Arc<str>) {
        let mut state = self.0.state.lock();
        state.in_flight -= 1;
        if let Some(held) = state.per_key.get_mut(key) {
            *held -= 1;
            if *held == 0 {
                state.per_key.remove(key);
            }
        }
    }
}

impl fmt::Debug for Limiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Limiter")
            .field("limits", &self.0.limits)
            .field("in_flight", &self.in_flight())
            .finish()
    }
}

impl State {
    fn take_token(&mut self, rate: Rate, key: &Arc<str>, now: Duration) -> Result<(), Shed> {
        if now.saturating_sub(self.swept) >= SWEEP_EVERY {
            self.swept = now;
            self.buckets.retain(|_, bucket| !bucket.forgettable(rate, now, IDLE));
        }
        let bucket = match self.buckets.get_mut(key) {
            Some(bucket) => bucket,
            None => self
                .buckets
                .entry(Arc::clone(key))
                .or_insert_with(|| Bucket::full(rate, now)),
        };
        if bucket.take(rate, now) {
            Ok(())
        } else {
            Err(Shed::Rate)
        }
    }
}

/// One admitted call's slots: an owned guard whose drop gives both back, once. Wrap it in
/// [`plimsoll_core::Permit`] so that a sandbox that outlives its call keeps them.
pub struct Slot {
    limiter: Limiter,
    key: Arc<str>,
}

/// Memory of a suspended session, charged until this is dropped.
#[derive(Debug)]
pub struct Kept {
    limiter: Limiter,
    bytes: u64,
}

impl Kept {
    /// What is charged.
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        let mut state = self.limiter.0.state.lock();
        state.kept = state.kept.saturating_sub(self.bytes);
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.limiter.release(&self.key);
    }
}

impl fmt::Debug for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slot").field("key", &self.key).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
