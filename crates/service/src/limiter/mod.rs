//! Admission: a global slot, a slot per caller, a token per start; all or nothing and never queued.
//!
//! ```text
//! acquire ── global slot? ── caller's slot? ── rate token? ──► Slot ── last holder dropped ──► both slots free
//!              at_capacity     per_key           rate              (the call, and any sandbox that outlives it)
//! ```
//!
//! A refusal leaves everything as it was. The key is the caller's id, so one caller's slots and tokens are never
//! another's.
//!
//! A suspended session without a slot still holds memory, and memory takes the places of runs: every whole run's worth that
//! all of them hold is one place less for the daemon, and every whole one that a caller's hold is one place less for that
//! caller. So no caller keeps more than its slots could, and a part of a run's worth costs nobody a place. Where the daemon
//! has a memory budget, runs and suspended sessions together stay within it to the byte as well.

mod bucket;
mod settings;

pub use bucket::{Clock, Monotonic};
pub use settings::{Clamp, Limits, Memory, PER_RUN_DEFAULT_MB, Pools, VARS};

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
    /// What suspended sessions hold leaves no memory for another run.
    Memory,
    /// Every slot of this caller is taken.
    PerKey,
    /// What this caller's suspended sessions hold takes its last place.
    PerKeyMemory,
    /// The caller's bucket holds no whole token.
    Rate,
}

impl Shed {
    /// The word of the metric.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::AtCapacity | Self::Memory => "at_capacity",
            Self::PerKey | Self::PerKeyMemory => "per_key",
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
    /// What all callers use together.
    all: Usage,
    /// Callers that use anything; one that uses nothing has no entry.
    per_key: HashMap<Arc<str>, Usage>,
    buckets: HashMap<Arc<str>, Bucket>,
    swept: Duration,
}

/// What a caller, or all of them, use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Usage {
    slots: u32,
    /// Bytes of suspended sessions that hold no slot.
    suspended: u64,
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
        self.0.state.lock().all.slots
    }

    /// Takes a global slot, a slot of the caller and a token, or nothing at all. Never waits.
    ///
    /// # Errors
    /// The first of the three that is missing.
    pub fn acquire(&self, key: &Arc<str>) -> Result<Slot, Shed> {
        self.acquire_freeing(key, 0)
    }

    /// The same for a start that first gives `freed` bytes back which this caller is charged for ([`Limiter::suspended`]).
    ///
    /// # Errors
    /// As [`Limiter::acquire`].
    pub fn acquire_freeing(&self, key: &Arc<str>, freed: u64) -> Result<Slot, Shed> {
        let mut state = self.0.state.lock();
        self.room(&state, key, freed)?;
        self.token(&mut state, key)?;
        Ok(self.take(&mut state, key))
    }

    /// A slot without a token, for the time an open session runs; `freed` bytes it was charged for
    /// ([`Limiter::suspended`]) are about to be given back.
    ///
    /// # Errors
    /// Every slot of the daemon, or of the caller, is taken, or the memory is.
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

    /// Charges a caller what its suspended session without a slot still holds, as measured. It is there already, so this is
    /// never refused; runs that no longer fit beside it are.
    pub fn suspended(&self, key: &Arc<str>, bytes: u64) -> SuspendedMemory {
        let mut state = self.0.state.lock();
        state.change(key, |usage| usage.suspended = usage.suspended.saturating_add(bytes));
        SuspendedMemory {
            limiter: self.clone(),
            key: Arc::clone(key),
            bytes,
        }
    }

    fn room(&self, state: &State, key: &Arc<str>, freed: u64) -> Result<(), Shed> {
        let limits = &self.0.limits;
        if state.all.slots >= limits.max_concurrent {
            return Err(Shed::AtCapacity);
        }
        if let Some(memory) = limits.memory
            && !memory.fits(state.all.without(freed), limits.max_concurrent, memory.budget)
        {
            return Err(Shed::Memory);
        }
        let cap = limits.per_key_concurrent;
        if cap == 0 {
            return Ok(());
        }
        let own = state.per_key.get(key).copied().unwrap_or_default();
        if own.slots >= cap {
            return Err(Shed::PerKey);
        }
        match limits.memory {
            Some(memory) if !memory.fits(own.without(freed), cap, None) => Err(Shed::PerKeyMemory),
            _ => Ok(()),
        }
    }

    fn token(&self, state: &mut State, key: &Arc<str>) -> Result<(), Shed> {
        match self.0.rate {
            Some(rate) => state.take_token(rate, key, self.0.clock.now()),
            None => Ok(()),
        }
    }

    fn take(&self, state: &mut State, key: &Arc<str>) -> Slot {
        state.change(key, |usage| usage.slots += 1);
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
            Shed::Memory => {
                "suspended sessions hold the memory of another run; retry later or use another daemon".to_owned()
            }
            Shed::PerKey => format!(
                "this caller already has {} runs in flight or sessions open, its limit; wait for a run to end or close \
                 a session",
                limits.per_key_concurrent
            ),
            Shed::PerKeyMemory => format!(
                "this caller's suspended sessions hold the memory of its last free place: each {} MiB of it take one of \
                 {}, its limit; close a session",
                limits.memory.map_or(0, |memory| memory.per_run >> 20),
                limits.per_key_concurrent
            ),
            Shed::Rate => format!(
                "this caller starts runs faster than {} per minute, its limit; retry later",
                limits.rate_per_min
            ),
        })
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

impl Usage {
    /// Whether it is nothing, and need not be remembered.
    fn is_nothing(self) -> bool {
        self == Self::default()
    }

    fn without(self, freed: u64) -> Self {
        Self {
            suspended: self.suspended.saturating_sub(freed),
            ..self
        }
    }
}

impl Memory {
    /// Whether one more run fits beside this usage, where `slots` are all there are.
    fn fits(self, used: Usage, slots: u32, budget: Option<u64>) -> bool {
        let runs = u64::from(used.slots) + 1;
        let taken = used.suspended.checked_div(self.per_run).unwrap_or(0);
        let within = |budget| runs.saturating_mul(self.per_run).saturating_add(used.suspended) <= budget;
        runs.saturating_add(taken) <= slots.into() && budget.is_none_or(within)
    }
}

impl State {
    /// Changes what a caller uses, and with it what all do.
    fn change(&mut self, key: &Arc<str>, change: impl Fn(&mut Usage)) {
        change(&mut self.all);
        match self.per_key.get_mut(key) {
            Some(own) => {
                change(own);
                if own.is_nothing() {
                    self.per_key.remove(key);
                }
            }
            None => {
                let mut own = Usage::default();
                change(&mut own);
                if !own.is_nothing() {
                    self.per_key.insert(Arc::clone(key), own);
                }
            }
        }
    }

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

/// What a suspended session holds, charged to its caller and to the daemon until this is dropped.
#[derive(Debug)]
pub struct SuspendedMemory {
    limiter: Limiter,
    key: Arc<str>,
    bytes: u64,
}

impl SuspendedMemory {
    /// What is charged.
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for SuspendedMemory {
    fn drop(&mut self) {
        let bytes = self.bytes;
        self.limiter.0.state.lock().change(&self.key, |usage| {
            usage.suspended = usage.suspended.saturating_sub(bytes);
        });
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.limiter.0.state.lock().change(&self.key, |usage| usage.slots -= 1);
    }
}

impl fmt::Debug for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slot").field("key", &self.key).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
