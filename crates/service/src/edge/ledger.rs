//! What callers hold of something there is a limit of: each on its own, and all together.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

/// Clones share what is held.
#[derive(Clone, Debug)]
pub(super) struct Ledger(Arc<Shared>);

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

/// What one caller holds; dropping it takes it out of the ledger.
#[derive(Debug)]
pub(super) struct Entry {
    ledger: Ledger,
    caller: Arc<str>,
    amount: usize,
}

/// Which limit is reached. The caller's own speaks first, so that nobody learns what others hold before it must.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Full {
    Caller,
    All,
}

impl Ledger {
    /// Of which all callers together hold `total` and one `per_caller`.
    pub(super) fn new(total: usize, per_caller: usize) -> Self {
        Self(Arc::new(Shared {
            total,
            per_caller,
            held: Mutex::default(),
        }))
    }

    pub(super) fn total(&self) -> usize {
        self.0.total
    }

    pub(super) fn per_caller(&self) -> usize {
        self.0.per_caller
    }

    /// Whether a caller is below both limits.
    pub(super) fn room(&self, caller: &Arc<str>) -> Result<(), Full> {
        self.0.room(&self.0.held.lock(), caller)
    }

    /// Enters what is there already, whatever the limits say.
    pub(super) fn enter(&self, caller: &Arc<str>, amount: usize) -> Entry {
        self.add(&mut self.0.held.lock(), caller, amount)
    }

    /// One more, if the caller is below both limits.
    pub(super) fn take(&self, caller: &Arc<str>) -> Result<Entry, Full> {
        let mut held = self.0.held.lock();
        self.0.room(&held, caller)?;
        Ok(self.add(&mut held, caller, 1))
    }

    /// Whether nobody holds anything, and nobody is remembered.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        let held = self.0.held.lock();
        held.total == 0 && held.by_caller.is_empty()
    }

    fn add(&self, held: &mut Held, caller: &Arc<str>, amount: usize) -> Entry {
        held.total = held.total.saturating_add(amount);
        match held.by_caller.get_mut(caller) {
            Some(own) => *own = own.saturating_add(amount),
            None => {
                held.by_caller.insert(Arc::clone(caller), amount);
            }
        }
        Entry {
            ledger: self.clone(),
            caller: Arc::clone(caller),
            amount,
        }
    }
}

impl Shared {
    fn room(&self, held: &Held, caller: &Arc<str>) -> Result<(), Full> {
        let own = held.by_caller.get(caller).copied().unwrap_or_default();
        if own >= self.per_caller {
            return Err(Full::Caller);
        }
        if held.total >= self.total {
            return Err(Full::All);
        }
        Ok(())
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let mut held = self.ledger.0.held.lock();
        held.total = held.total.saturating_sub(self.amount);
        if let Some(own) = held.by_caller.get_mut(&self.caller) {
            *own = own.saturating_sub(self.amount);
            if *own == 0 {
                held.by_caller.remove(&self.caller);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_callers_own_limit_speaks_first_and_nothing_is_kept_of_who_holds_nothing() {
        let ledger = Ledger::new(4, 2);
        let [a, b, c]: [Arc<str>; 3] = ["a".into(), "b".into(), "c".into()];
        let mine = [ledger.take(&a).unwrap(), ledger.take(&a).unwrap()];
        assert_eq!((ledger.take(&a).unwrap_err(), ledger.room(&b)), (Full::Caller, Ok(())));
        // What is there already is entered past the limits.
        let theirs = ledger.enter(&b, 7);
        assert_eq!(ledger.room(&a), Err(Full::Caller));
        assert_eq!(ledger.take(&c).unwrap_err(), Full::All);
        drop(theirs);
        assert!(ledger.take(&c).is_ok());
        drop(mine);
        assert!(ledger.is_empty());
    }
}
