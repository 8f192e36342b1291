//! Which limit a call ran into, from what PID 1 saw and, under gVisor, from what the host saw.

use plimsoll_core::{Diagnostics, Limit};
use plimsoll_guest_link::messages::{Captured, LimitFacts};

/// PID 1 itself, which the limit counts and PID 1 does not, and a few that come and go between two looks.
const UNSEEN_TASKS: u64 = 4;

/// How a runtime's facts are to be read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    /// Most tasks a guest may have where the limit inside keeps no count of refusals (gVisor): as many as that seen at
    /// once mean that the limit was met.
    pub(crate) uncounted_tasks: Option<u32>,
}

impl Reading {
    /// The limit that was hit: the first in the wire's order.
    fn limit(self, facts: &LimitFacts, truncated: bool) -> Option<Limit> {
        let at_limit = self
            .uncounted_tasks
            .is_some_and(|most| facts.most_tasks + UNSEEN_TASKS >= u64::from(most));
        if facts.oom_kills > 0 {
            Some(Limit::Memory)
        } else if facts.pids_refused > 0 || at_limit {
            Some(Limit::Pids)
        } else if facts.disk_full {
            Some(Limit::Disk)
        } else {
            truncated.then_some(Limit::Output)
        }
    }

    /// The diagnostics of one snippet or step.
    pub(crate) fn diagnostics(
        self,
        facts: &LimitFacts,
        stdout: &Captured,
        stderr: &Captured,
        truncated: bool,
        signal: i32,
    ) -> Diagnostics {
        Diagnostics {
            limit_hit: self.limit(facts, truncated),
            stdout_bytes: stdout.produced,
            stderr_bytes: stderr.produced,
            peak_memory_bytes: facts.peak_memory,
            signal: u32::try_from(signal).unwrap_or(0),
            trap: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_limit_in_the_wires_order_is_told() {
        let plain = Reading { uncounted_tasks: None };
        let mut facts = LimitFacts::default();
        assert_eq!(plain.limit(&facts, false), None);
        assert_eq!(plain.limit(&facts, true), Some(Limit::Output));
        facts.disk_full = true;
        assert_eq!(plain.limit(&facts, true), Some(Limit::Disk));
        facts.pids_refused = 3;
        assert_eq!(plain.limit(&facts, true), Some(Limit::Pids));
        facts.oom_kills = 1;
        assert_eq!(plain.limit(&facts, true), Some(Limit::Memory));
    }

    #[test]
    fn tasks_at_the_limit_count_only_where_refusals_are_not_counted() {
        let facts = LimitFacts {
            most_tasks: 64,
            ..LimitFacts::default()
        };
        let read = |uncounted_tasks| Reading { uncounted_tasks }.limit(&facts, false);
        assert_eq!(read(None), None);
        assert_eq!(read(Some(69)), None);
        assert_eq!(read(Some(68)), Some(Limit::Pids));
    }
}
