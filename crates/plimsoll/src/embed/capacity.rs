//! Bounds on what runs at once, for an embedder without the daemon's limiter.

use std::sync::Arc;

use plimsoll_core::vars::{Kind, Lookup, SettingError, Var};
use plimsoll_core::{Permit, Refusal};
use tokio::sync::Semaphore;

use crate::registry::Choice;

/// What one local run takes unless the operator says otherwise, in MiB.
pub(super) const PER_RUN_DEFAULT_MB: u32 = 256;

/// The service's rows of the same names, for programs that embed no service; a test keeps them equal.
const MAX_CONCURRENT: Var = Var::new("SANDBOX_MAX_CONCURRENT", Kind::Int { min: 1, max: 1024 }, "8", "");
const TOTAL_MEMORY_MB: Var = Var::new("SANDBOX_TOTAL_MEMORY_MB", Kind::Int { min: 0, max: i64::MAX }, "0", "");

/// How much may run at once. The default bounds nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capacity {
    max_concurrent: Option<u32>,
    memory: Option<Memory>,
}

/// A total in MiB and what one run may take of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Memory {
    total_mb: u32,
    per_run_mb: u32,
}

/// Bounds under which not a single run fits.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CapacityError {
    /// No run at all.
    #[error("max_concurrent is 0, so nothing could ever run; set it to at least 1, or leave it out")]
    NoSlot,
    /// A run without memory.
    #[error("per_run_mb is 0; set it to what one run may take, in MiB")]
    NoMemory,
    /// One run is larger than everything.
    #[error("per_run_mb {per_run_mb} is above total_mb {total_mb}; raise the total or lower the memory of one run")]
    OneRunTooLarge {
        /// What one run may take, in MiB.
        per_run_mb: u32,
        /// What all runs together may take, in MiB.
        total_mb: u32,
    },
}

impl Capacity {
    /// Bounds nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// At most this many runs at once.
    #[must_use]
    pub const fn max_concurrent(mut self, runs: u32) -> Self {
        self.max_concurrent = Some(runs);
        self
    }

    /// At most as many runs at once as fit into `total_mb` when each takes `per_run_mb` (both in MiB).
    #[must_use]
    pub const fn memory_mb(mut self, total_mb: u32, per_run_mb: u32) -> Self {
        self.memory = Some(Memory { total_mb, per_run_mb });
        self
    }

    /// The bounds of `SANDBOX_MAX_CONCURRENT` and `SANDBOX_TOTAL_MEMORY_MB`, as the daemon reads them.
    pub(super) fn from_lookup(choice: &Choice, lookup: &dyn Lookup) -> Result<Self, SettingError> {
        // Above 32 bits of MiB a budget bounds nothing that exists.
        let narrow = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
        let capacity = Self::new().max_concurrent(narrow(MAX_CONCURRENT.count(lookup)?));
        let total_mb = narrow(TOTAL_MEMORY_MB.count(lookup)?);
        if total_mb == 0 || !choice.on_host() {
            return Ok(capacity);
        }
        let per_run_mb = match choice.resources.memory_mb {
            0 => PER_RUN_DEFAULT_MB,
            asked => asked,
        };
        // What waits ready holds memory as a run does.
        let pooled_mb = per_run_mb.saturating_mul(choice.pooled());
        let left_mb = total_mb.saturating_sub(pooled_mb);
        if per_run_mb > left_mb {
            let problem =
                format!("fits no run: one run is counted as {per_run_mb} MiB, and {pooled_mb} MiB wait ready");
            let least = per_run_mb.saturating_add(pooled_mb);
            return Err(TOTAL_MEMORY_MB.unusable(
                total_mb,
                problem,
                format!("set it to at least {least}, or unset it"),
            ));
        }
        Ok(capacity.memory_mb(left_mb, per_run_mb))
    }

    /// How many runs fit at once; `None` when nothing bounds them.
    pub fn slots(&self) -> Option<u32> {
        let by_memory = self
            .memory
            .map(|memory| memory.total_mb.checked_div(memory.per_run_mb).unwrap_or(0));
        match (self.max_concurrent, by_memory) {
            (Some(runs), Some(fit)) => Some(runs.min(fit)),
            (one, other) => one.or(other),
        }
    }

    /// Refuses bounds under which nothing fits.
    pub(super) fn check(&self) -> Result<(), CapacityError> {
        if self.max_concurrent == Some(0) {
            return Err(CapacityError::NoSlot);
        }
        match self.memory {
            Some(Memory { per_run_mb: 0, .. }) => Err(CapacityError::NoMemory),
            Some(Memory { total_mb, per_run_mb }) if per_run_mb > total_mb => {
                Err(CapacityError::OneRunTooLarge { per_run_mb, total_mb })
            }
            Some(_) | None => Ok(()),
        }
    }
}

/// The places of a bounded sandbox; clones of the sandbox share them.
#[derive(Debug)]
pub(super) struct Slots {
    total: u32,
    free: Arc<Semaphore>,
}

impl Slots {
    /// The places these bounds leave; `None` when they bound nothing.
    pub(super) fn new(capacity: Capacity) -> Option<Self> {
        let total = capacity.slots()?;
        let permits = usize::try_from(total).unwrap_or(usize::MAX).min(Semaphore::MAX_PERMITS);
        Some(Self {
            total,
            free: Arc::new(Semaphore::new(permits)),
        })
    }

    /// A place for one run, at once or not at all.
    pub(super) fn acquire(&self) -> Result<Permit, Refusal> {
        Arc::clone(&self.free).try_acquire_owned().map(Permit::new).map_err(|_| {
            Refusal::capacity(format!(
                "at capacity: {} runs are in progress, as many as this sandbox allows; nothing ran. Try again later, or raise its capacity",
                self.total
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::Environment;

    fn read(values: &[(&str, &str)]) -> Result<Option<u32>, String> {
        let environment = Environment::from_pairs(values.iter().copied());
        let choice = Choice::read(&environment).map_err(|error| error.to_string())?;
        Capacity::from_lookup(&choice, &environment)
            .map(|capacity| capacity.slots())
            .map_err(|error| error.to_string())
    }

    #[test]
    fn the_environment_bounds_runs_as_in_the_daemon() {
        let wasm = ("SANDBOX_PROVIDER", "wasm");
        assert_eq!(read(&[wasm]), Ok(Some(8)));
        assert_eq!(read(&[wasm, ("SANDBOX_TOTAL_MEMORY_MB", "1024")]), Ok(Some(4)));
        assert_eq!(
            read(&[wasm, ("SANDBOX_TOTAL_MEMORY_MB", "1024"), ("SANDBOX_MEMORY_MB", "64")]),
            Ok(Some(8))
        );
        let refused = read(&[wasm, ("SANDBOX_TOTAL_MEMORY_MB", "255")]).unwrap_err();
        assert!(
            refused.contains("SANDBOX_TOTAL_MEMORY_MB") && refused.contains("256"),
            "{refused}"
        );
        read(&[wasm, ("SANDBOX_MAX_CONCURRENT", "0")]).unwrap_err();
    }

    #[cfg(feature = "service")]
    #[test]
    fn the_rows_are_those_of_the_service() {
        for own in [MAX_CONCURRENT, TOTAL_MEMORY_MB] {
            let service = crate::variables::all().find(|var| var.name == own.name).unwrap();
            assert_eq!((service.kind, service.default), (own.kind, own.default), "{}", own.name);
        }
    }

    #[test]
    fn the_tighter_bound_counts() {
        assert_eq!(Capacity::new().slots(), None);
        assert!(Slots::new(Capacity::new()).is_none());
        assert_eq!(Capacity::new().max_concurrent(8).slots(), Some(8));
        assert_eq!(Capacity::new().memory_mb(1024, 256).slots(), Some(4));
        assert_eq!(Capacity::new().max_concurrent(8).memory_mb(1024, 256).slots(), Some(4));
        assert_eq!(Capacity::new().memory_mb(1024, 256).max_concurrent(2).slots(), Some(2));
    }

    #[test]
    fn bounds_that_fit_no_run_are_refused() {
        assert_eq!(Capacity::new().max_concurrent(0).check(), Err(CapacityError::NoSlot));
        assert_eq!(Capacity::new().memory_mb(64, 0).check(), Err(CapacityError::NoMemory));
        assert_eq!(
            Capacity::new().memory_mb(255, 256).check(),
            Err(CapacityError::OneRunTooLarge {
                per_run_mb: 256,
                total_mb: 255
            })
        );
        assert_eq!(Capacity::new().memory_mb(256, 256).check(), Ok(()));
    }

    #[test]
    fn a_full_capacity_sheds_at_once_and_a_dropped_permit_makes_room() {
        let slots = Slots::new(Capacity::new().max_concurrent(1)).unwrap();
        let held = slots.acquire().unwrap();
        let clone = held.clone();
        let refusal = slots.acquire().unwrap_err();
        assert_eq!(refusal.reason(), plimsoll_core::Reason::Capacity);
        drop(held);
        slots.acquire().unwrap_err();
        drop(clone);
        slots.acquire().unwrap();
    }
}
