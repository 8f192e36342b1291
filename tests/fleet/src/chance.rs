//! Numbers that look random and follow from a seed.
//!
//! Written here and not taken from a library, because a seed that was printed once must mean the same history after every
//! update of that library. The generator is SplitMix64 (Steele, Lea and Flood, 2014).

use std::time::Duration;

/// A stream of numbers.
#[derive(Clone, Debug)]
pub(crate) struct Chance(u64);

impl Chance {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A stream of its own for each triple.
    pub(crate) fn of(seed: u64, one: u64, other: u64) -> Self {
        Self(mix(mix(mix(seed).wrapping_add(one)).wrapping_add(other)))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// 0 to `bound` - 1; the bias of the remainder is far below what any count here could show.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        let drawn = self.next() % u64::try_from(bound).unwrap_or(u64::MAX).max(1);
        usize::try_from(drawn).unwrap_or_default()
    }

    /// Once in `count` times.
    pub(crate) fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }

    /// Whole milliseconds, both ends included.
    pub(crate) fn millis(&mut self, from: u64, to: u64) -> Duration {
        Duration::from_millis(from + self.next() % (to - from + 1))
    }
}

/// The finalizer of SplitMix64: every bit of the input reaches every bit of the output.
pub(crate) const fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}
