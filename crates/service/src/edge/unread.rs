//! Answers that nobody has taken yet: how many bytes of them callers may leave standing.
//!
//! A run gives its slot back when it is answered, and the answer stays in memory until the peer has read it. Without a
//! bound a caller that reads nothing would make the daemon hold an answer per connection, whatever its slots. An answer
//! itself is never refused, cut or hurried: the caller's next request is refused until it has read.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use plimsoll_core::Refusal;
use plimsoll_core::limits::MAX_RESPONSE_BYTES;

/// The ledger of untaken answers: all callers together may leave one answer of the greatest length for each run the daemon
/// does at once, one caller half of that. Clones share it.
#[derive(Clone, Debug)]
pub(super) struct UnreadAnswers(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    total: usize,
    per_caller: usize,
    held: Mutex<Held>,
}

#[derive(Debug, Default)]
struct Held {
    total: usize,
    by_caller: HashMap<Arc<str>, usize>,
}

/// One untaken answer; dropping it takes its bytes out of the ledger.
#[derive(Debug)]
pub(super) struct Unread {
    ledger: UnreadAnswers,
    caller: Arc<str>,
    bytes: usize,
}

impl UnreadAnswers {
    /// For a daemon that runs up to `max_concurrent` calls at once.
    pub(super) fn new(max_concurrent: u32) -> Self {
        let answers = usize::try_from(max_concurrent).unwrap_or(usize::MAX).max(1);
        let total = answers.saturating_mul(MAX_RESPONSE_BYTES);
        Self(Arc::new(Shared {
            total,
            per_caller: total / 2,
            held: Mutex::default(),
        }))
    }

    /// Whether a caller may ask for one more answer.
    ///
    /// # Errors
    /// Marked `capacity`: the caller's own half first, then all of it.
    pub(super) fn room(&self, caller: &Arc<str>) -> Result<(), Refusal> {
        let Shared {
            total,
            per_caller,
            held,
        } = &*self.0;
        let held = held.lock();
        let own = held.by_caller.get(caller).copied().unwrap_or_default();
        if own >= *per_caller {
            return Err(Refusal::capacity(format!(
                "this caller has left {} MiB or more of its answers unread, its limit; read them, or close their \
                 connections, and send this again",
                per_caller >> 20
            )));
        }
        if held.total >= *total {
            return Err(Refusal::capacity(
                "callers have left as much of their answers unread as this daemon holds; retry later or use another daemon",
            ));
        }
        Ok(())
    }

    /// Enters an answer. It is in memory already, so this is never refused.
    pub(super) fn enter(&self, caller: &Arc<str>, bytes: usize) -> Unread {
        let mut held = self.0.held.lock();
        held.total = held.total.saturating_add(bytes);
        match held.by_caller.get_mut(caller) {
            Some(own) => *own = own.saturating_add(bytes),
            None => {
                held.by_caller.insert(Arc::clone(caller), bytes);
            }
        }
        Unread {
            ledger: self.clone(),
            caller: Arc::clone(caller),
            bytes,
        }
    }
}

impl Drop for Unread {
    fn drop(&mut self) {
        let mut held = self.ledger.0.held.lock();
        held.total = held.total.saturating_sub(self.bytes);
        if let Some(own) = held.by_caller.get_mut(&self.caller) {
            *own = own.saturating_sub(self.bytes);
            if *own == 0 {
                held.by_caller.remove(&self.caller);
            }
        }
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
        assert_eq!(ledger.0.held.lock().total, 0);
        assert!(ledger.0.held.lock().by_caller.is_empty());
    }
}
