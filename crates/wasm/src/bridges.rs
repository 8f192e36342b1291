//! Keeps the pages that a usual run writes together, so that all of them stay warm.
//!
//! After a run the pool asks the kernel which pages of the slot were written, restores those in place, and gives back to the
//! kernel whatever lies behind the 32nd stretch of them. A usual run writes some seventy pages in nearly fifty stretches,
//! because the snapshot's objects lie where they were made. Without help the last of them are given back after every run and
//! faulted in again by the next, which takes that one a third of its time. Writing to the few clean pages between two
//! stretches that are close makes them one; a page is restored in a tenth of the time that faulting one in takes.

use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::sys;

/// Bytes of a page. Where the host's are larger, the kernel's answers still are multiples of this.
const PAGE: usize = 4096;

/// Stretches to leave, of the 32 that the pool looks at: a program that does more than the usual one needs some of its own.
const STRETCHES: usize = 24;

/// Pages a usual run may have, bridges included: half of what the pool keeps of a slot.
const MOST: usize = 160;

/// Which runs of an engine may teach it what is usual. Not the first: a process that lives for a few runs gains nothing.
const LESSONS: Range<u32> = 32..96;

/// What an engine knows about its usual run.
#[derive(Debug, Default)]
pub(crate) struct Habit {
    runs: AtomicU32,
    bridges: OnceLock<Bridges>,
}

impl Habit {
    /// Prepares a fresh memory.
    pub(crate) fn before_run(&self, memory: &mut [u8]) {
        if let Some(bridges) = self.bridges.get() {
            bridges.lay(memory);
        }
    }

    /// Learns from a memory that a run has ended in, until one has taught what is usual.
    pub(crate) fn after_run(&self, memory: &[u8]) {
        if self.bridges.get().is_none()
            && LESSONS.contains(&self.runs.fetch_add(1, Ordering::Relaxed))
            && let Some(bridges) = Bridges::for_memory(memory)
        {
            // Another run may have been first; one is as good as the other.
            let _: Result<(), Bridges> = self.bridges.set(bridges);
        }
    }
}

/// A part of a memory that was written: offset of its first byte, and of the byte after its last.
pub(crate) type Stretch = (usize, usize);

/// Offsets of the pages to write to, one each.
#[derive(Debug, Default, PartialEq, Eq)]
struct Bridges(Vec<usize>);

impl Bridges {
    /// What joins the stretches this memory was written in. Empty where the kernel does not tell: then nothing is kept by
    /// stretches either. `None` if the run that wrote them was not a usual one.
    fn for_memory(memory: &[u8]) -> Option<Self> {
        sys::written(memory).map_or_else(|| Some(Self::default()), |stretches| Self::joining(&stretches))
    }

    fn joining(stretches: &[Stretch]) -> Option<Self> {
        let mut gaps: Vec<Stretch> = stretches.windows(2).map(|pair| (pair[0].1, pair[1].0)).collect();
        gaps.sort_by_key(|(from, to)| to - from);
        gaps.truncate(stretches.len().saturating_sub(STRETCHES));
        let pages: Vec<usize> = gaps.iter().flat_map(|(from, to)| (*from..*to).step_by(PAGE)).collect();
        let written: usize = stretches.iter().map(|(from, to)| (to - from) / PAGE).sum();
        (written + pages.len() <= MOST).then_some(Self(pages))
    }

    /// Writes to each of the pages what it holds.
    fn lay(&self, memory: &mut [u8]) {
        for at in &self.0 {
            if let Some(byte) = memory.get_mut(*at) {
                // The compiler would leave out a write that changes nothing.
                *byte = std::hint::black_box(*byte);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Bridges, PAGE, STRETCHES, Stretch};

    /// Stretches of one page, with these many clean pages between one and the next.
    fn apart(gaps: impl IntoIterator<Item = usize>) -> Vec<Stretch> {
        let mut stretches = vec![(0, PAGE)];
        for gap in gaps {
            let from = stretches[stretches.len() - 1].1 + gap * PAGE;
            stretches.push((from, from + PAGE));
        }
        stretches
    }

    #[test]
    fn the_narrowest_gaps_are_bridged_until_few_stretches_are_left() {
        let few = apart(vec![1; STRETCHES - 1]);
        assert_eq!(Bridges::joining(&few), Some(Bridges::default()));
        let two_too_many = apart([9, 2, 9, 1].into_iter().chain(vec![9; STRETCHES - 3]));
        assert_eq!(
            Bridges::joining(&two_too_many),
            Some(Bridges(vec![24 * PAGE, 11 * PAGE, 12 * PAGE]))
        );
    }

    #[test]
    fn a_run_that_wrote_all_over_its_memory_teaches_nothing() {
        assert_eq!(Bridges::joining(&apart(vec![9; 2 * STRETCHES])), None);
        assert_eq!(Bridges::joining(&[(0, 1000 * PAGE)]), None);
    }

    #[test]
    fn a_bridge_changes_no_byte() {
        let mut memory: Vec<u8> = (0..3 * PAGE).map(|at| at.to_le_bytes()[0] ^ 0x5a).collect();
        let before = memory.clone();
        Bridges(vec![0, PAGE, 2 * PAGE, 99 * PAGE]).lay(&mut memory);
        assert!(memory == before);
    }
}
