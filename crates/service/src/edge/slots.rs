//! Decode slots: how many bodies may be held in memory before anyone's request is judged.

use std::sync::Arc;

use plimsoll_core::Refusal;

use super::ledger::{Entry, Full, Ledger};
use crate::metrics::Metrics;

/// Twice the effective maximum of concurrent runs; one caller may hold at most half. Clones share the slots.
#[derive(Clone, Debug)]
pub struct DecodeSlots {
    ledger: Ledger,
    metrics: Arc<Metrics>,
}

/// One slot; dropping it gives the slot back.
#[derive(Debug)]
pub struct DecodeSlot {
    _entry: Entry,
    metrics: Arc<Metrics>,
}

impl DecodeSlots {
    /// For a daemon that runs up to `max_concurrent` calls at once.
    pub fn new(max_concurrent: u32, metrics: Arc<Metrics>) -> Self {
        let total = usize::try_from(max_concurrent)
            .unwrap_or(usize::MAX)
            .saturating_mul(2)
            .max(1);
        Self {
            ledger: Ledger::new(total, (total / 2).max(1)),
            metrics,
        }
    }

    /// Takes a slot for a caller, or none: never waits.
    ///
    /// # Errors
    /// Marked `capacity`: the caller's own half first, then all of them.
    pub fn acquire(&self, caller: &Arc<str>) -> Result<DecodeSlot, Refusal> {
        let entry = self.ledger.take(caller).map_err(|full| {
            Refusal::capacity(match full {
                Full::Caller => format!(
                    "{} requests of this caller are being received already; send the next one when one of them is complete",
                    self.ledger.per_caller()
                ),
                Full::All => format!(
                    "{} requests are being received already; try again in a moment",
                    self.ledger.total()
                ),
            })
        })?;
        self.metrics.decode_slot_taken();
        Ok(DecodeSlot {
            _entry: entry,
            metrics: Arc::clone(&self.metrics),
        })
    }
}

impl Drop for DecodeSlot {
    fn drop(&mut self) {
        self.metrics.decode_slot_given_back();
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
        assert!(slots.ledger.is_empty());
    }

    #[test]
    fn a_daemon_of_one_run_leaves_a_slot_for_the_second_caller() {
        let slots = DecodeSlots::new(1, Arc::default());
        let _held = take(&slots, "a").unwrap();
        assert_eq!(take(&slots, "a").unwrap_err().reason(), plimsoll_core::Reason::Capacity);
        assert!(take(&slots, "b").is_ok());
    }
}
