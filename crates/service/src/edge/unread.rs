//! Answers that nobody has taken yet: how many bytes of them callers may leave standing.
//!
//! A run gives its slot back when it is answered, and the answer stays in memory until the peer has read it. Without a
//! bound a caller that reads nothing would make the daemon hold an answer per connection, whatever its slots. An answer
//! itself is never refused, cut or hurried: the caller's next request is refused until it has read.

use std::sync::Arc;

use plimsoll_core::Refusal;
use plimsoll_core::limits::MAX_RESPONSE_BYTES;

use super::ledger::{Entry, Full, Ledger};

/// The ledger of untaken answers, in bytes: all callers together may leave one answer of the greatest length for each run the
/// daemon does at once, one caller half of that. Clones share it.
#[derive(Clone, Debug)]
pub(super) struct UnreadAnswers(Ledger);

/// One untaken answer; dropping it takes its bytes out of the ledger.
pub(super) type Unread = Entry;

impl UnreadAnswers {
    /// For a daemon that runs up to `max_concurrent` calls at once.
    pub(super) fn new(max_concurrent: u32) -> Self {
        let answers = usize::try_from(max_concurrent).unwrap_or(usize::MAX).max(1);
        let total = answers.saturating_mul(MAX_RESPONSE_BYTES);
        Self(Ledger::new(total, total / 2))
    }

    /// Whether a caller may ask for one more answer.
    ///
    /// # Errors
    /// Marked `capacity`: the caller's own half first, then all of it.
    pub(super) fn room(&self, caller: &Arc<str>) -> Result<(), Refusal> {
        self.0.room(caller).map_err(|full| match full {
            Full::Caller => Refusal::capacity(format!(
                "this caller has left {} MiB or more of its answers unread, its limit; read them, or close their \
                 connections, and send this again",
                self.0.per_caller() >> 20
            )),
            Full::All => Refusal::capacity(
                "callers have left as much of their answers unread as this daemon holds; retry later or use another daemon",
            ),
        })
    }

    /// Enters an answer. It is in memory already, so this is never refused.
    pub(super) fn enter(&self, caller: &Arc<str>, bytes: usize) -> Unread {
        self.0.enter(caller, bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    #[test]
    fn one_caller_leaves_half_unread_and_all_together_all() {
        let ledger = UnreadAnswers::new(2);
        let [a, b, c]: [Arc<str>; 3] = ["a".into(), "b".into(), "c".into()];
        let mine = ledger.enter(&a, 32 * MIB - 1);
        assert!(ledger.room(&a).is_ok());
        let one_byte_more = ledger.enter(&a, 1);
        let refusal = ledger.room(&a).unwrap_err();
        assert_eq!(refusal.reason(), plimsoll_core::Reason::Capacity);
        assert!(refusal.message().contains("left 32 MiB"), "{refusal}");
        let theirs = ledger.enter(&b, 32 * MIB);
        // The caller's own bound speaks first, then the total, which tells nobody what others left.
        assert!(ledger.room(&a).unwrap_err().message().contains("this caller"));
        assert!(ledger.room(&c).unwrap_err().message().starts_with("callers have left"));
        drop(one_byte_more);
        assert!(ledger.room(&a).is_ok() && ledger.room(&c).is_ok());
        drop((mine, theirs));
        assert!(ledger.0.is_empty());
    }
}
