//! Decode slots: how many bodies may be held in memory before anyone's request is judged.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use plimsoll_core::Refusal;

use crate::metrics::Metrics;

/// Twice the effective maximum of concurrent runs; one caller may hold at most half. Clones share the slots.
#[derive(Clone, Debug)]
pub struct DecodeSlots(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    total: usize,
    per_caller: usize,
    held: Mutex<Held>,
    metrics: Arc<Metrics>,
}

#[derive(Debug, Default)]
struct Held {
    total: usize,
    by_caller: HashMap<Arc<str>, usize>,
}

/// One slot; dropping it gives the slot back.
#[derive(Debug)]
pub struct DecodeSlot {
    slots: DecodeSlots,
    caller: Arc<str>,
}

impl DecodeSlots {
    /// For a daemon that runs up to `max_concurrent` calls at once.
    pub fn new(max_concurrent: u32, metrics: Arc<Metrics>) -> Self {
        let total = usize::try_from(max_concurrent)
            .unwrap_or(usize::MAX)
            .saturating_mul(2)
            .max(1);
        Self(Arc::new(Shared {
            total,
            per_caller: (total / 2).max(1),
            held: Mutex::default(),
            metrics,
        }))
    }

    /// Takes a slot for a caller, or none: never waits.
    ///
    /// # Errors
    /// Marked `capacity`: the caller's own half first, then all of them.
    pub fn acquire(&self, caller: &Arc<str>) -> Result<DecodeSlot, Refusal> {
        let shared = &*self.0;
        let mut held = shared.held.lock();
        let own = held.by_caller.get(caller).copied().unwrap_or_default();
        if own >= shared.per_caller {
            return Err(Refusal::capacity(format!(
                "{} requests of this caller are being received already; send the next one when one of them is complete",
                shared.per_caller
            )));
        }
        if held.total >= shared.total {
            return Err(Refusal::capacity(format!(
                "{} requests are being received already; try again in a moment",
                shared.total
            )));
        }
        held.total += 1;
        held.by_caller.insert(Arc::clone(caller), own + 1);
        shared.metrics.decode_slot_taken();
        Ok(DecodeSlot {
            slots: self.clone(),
            caller: Arc::clone(caller),
        })
    }
}

impl Drop for DecodeSlot {
    fn drop(&mut self) {
        let shared = &*self.slots.0;
        let mut held = shared.held.lock();
        held.total -= 1;
        if let Some(own) = held.by_caller.get_mut(&self.caller) {
            *own -= 1;
            if *own == 0 {
                held.by_caller.remove(&self.caller);
            }
        }
        shared.metrics.decode_slot_given_back();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(slots: &DecodeSlots, caller: &str) -> Result<DecodeSlot, Refusal> {
        slots.acquire(&caller.into())
    }

    #[test]
    fn one_caller_holds_half_and_all_together_hold_all() {
        let slots = DecodeSlots::new(2, Arc::default());
        let mine = [take(&slots, "a").unwrap(), take(&slots, "a").unwrap()];
        assert!(take(&slots, "a").unwrap_err().message().contains("of this caller"));
        let others = [take(&slots, "b").unwrap(), take(&slots, "c").unwrap()];
        // The caller's own bound speaks first, then the total.
        assert!(take(&slots, "a").unwrap_err().message().contains("of this caller"));
        assert!(take(&slots, "d").unwrap_err().message().starts_with("4 requests are"));
        drop(mine);
        assert!(take(&slots, "d").is_ok());
        drop(others);
        assert!(slots.0.held.lock().by_caller.is_empty());
        assert_eq!(slots.0.held.lock().total, 0);
    }

    #[test]
    fn a_daemon_of_one_run_leaves_a_slot_for_the_second_caller() {
        let slots = DecodeSlots::new(1, Arc::default());
        let _held = take(&slots, "a").unwrap();
        assert_eq!(take(&slots, "a").unwrap_err().reason(), plimsoll_core::Reason::Capacity);
        assert!(take(&slots, "b").is_ok());
    }
}
