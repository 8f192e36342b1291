//! Giving memory back after a busy moment.
//!
//! glibc keeps what was freed for the next allocation, and nearly all of a burst stays resident for good. An allocator that
//! purges by itself was measured instead (mimalloc 0.1: 4 MiB more at rest, and after the same burst it kept more than
//! glibc, because it purges only while it is used), so the one at hand is asked to, when nothing runs.

use std::time::Duration;

use plimsoll_service::limiter::Limiter;

use crate::sys;

/// How often it is looked.
const LOOK: Duration = Duration::from_secs(2);

/// What is worth the walk through the allocator's lists, in bytes.
const WORTH: usize = 4 << 20;

/// Looks now and then until it is dropped.
pub(crate) async fn give_back(limiter: Limiter) {
    let mut water = Water::default();
    loop {
        tokio::time::sleep(LOOK).await;
        if limiter.in_flight() > 0 {
            continue;
        }
        let looked = tokio::task::spawn_blocking(move || {
            if water.has_risen(sys::kept_free()) {
                sys::give_back();
                water = Water {
                    lowest: sys::kept_free(),
                };
            }
            water
        });
        match looked.await {
            Ok(looked) => water = looked,
            Err(_) => return,
        }
    }
}

/// The least the allocator kept since it was last asked. Pages given back still count as kept, so only a rise is news.
#[derive(Clone, Copy, Debug, Default)]
struct Water {
    lowest: usize,
}

impl Water {
    fn has_risen(&mut self, kept: usize) -> bool {
        self.lowest = self.lowest.min(kept);
        kept > self.lowest + WORTH
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_rise_above_the_lowest_is_worth_it() {
        let mut water = Water { lowest: 40 << 20 };
        assert!(!water.has_risen(40 << 20), "given back already");
        assert!(!water.has_risen(1 << 20), "in use");
        assert!(!water.has_risen(5 << 20), "too little");
        assert!(water.has_risen(40 << 20), "free again");
    }
}
