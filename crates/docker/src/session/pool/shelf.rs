//! What waits, who gets which, and what is made or let go next. It makes and removes nothing itself, and asks no clock.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use super::demand::{Demand, Languages};

/// How long one kind is left as it is after a member of another was let go for it.
pub(crate) const BETWEEN_MOVES: Duration = Duration::from_secs(60);

/// A member that waits for its session.
#[derive(Debug)]
pub(crate) struct Waiting<M> {
    /// Its sandbox.
    pub(crate) member: M,
    /// The interpreters that are started in it.
    pub(crate) warm: Languages,
    /// When its making began.
    pub(crate) born: Instant,
}

/// Every member of a pool.
#[derive(Debug)]
pub(crate) struct Shelf<M> {
    size: usize,
    demand: Demand,
    waiting: Vec<Waiting<M>>,
    /// Members that were let go and still hold their memory.
    going: usize,
    last_move: Option<Instant>,
}

impl<M> Shelf<M> {
    /// An empty shelf for `size` members that can start these interpreters.
    pub(crate) fn new(size: u32, all: Languages) -> Self {
        Self {
            size: usize::try_from(size).unwrap_or(usize::MAX),
            demand: Demand::new(size, all),
            waiting: Vec::new(),
            going: 0,
            last_move: None,
        }
    }

    /// What sessions ask for.
    pub(crate) fn demand(&mut self) -> &mut Demand {
        &mut self.demand
    }

    /// How many wait.
    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Takes the member that suits a session of this kind best: most of its languages warm, then fewest others, then the
    /// oldest. It is nobody else's from here on.
    pub(crate) fn take(&mut self, kind: &Languages) -> Option<Waiting<M>> {
        let best = (0..self.waiting.len()).min_by_key(|&place| {
            let one = &self.waiting[place];
            let wanted = one.warm.intersection(kind).count();
            (Reverse(wanted), one.warm.len() - wanted, one.born)
        })?;
        Some(self.waiting.remove(best))
    }

    /// The kind of the member to make next; `None` while as many wait, or have not gone yet, as there may be.
    pub(crate) fn missing(&self) -> Option<Languages> {
        (self.waiting.len() + self.going < self.size).then(|| self.demand.missing(&self.held()))
    }

    /// A member is made.
    pub(crate) fn put(&mut self, made: Waiting<M>) {
        self.waiting.push(made);
    }

    /// Takes out what is not to be kept. It counts until [`Shelf::gone`].
    pub(crate) fn let_go(&mut self, keep: impl Fn(&Waiting<M>) -> bool) -> Vec<Waiting<M>> {
        let (kept, going) = std::mem::take(&mut self.waiting).into_iter().partition(keep);
        self.waiting = kept;
        self.going += going.len();
        going
    }

    /// Takes out the oldest member of a kind of which there are too many, where another kind has too few.
    pub(crate) fn let_one_go(&mut self, now: Instant) -> Option<Waiting<M>> {
        if self.missing().is_some() || self.going > 0 {
            // What is made next can still be of the right kind.
            return None;
        }
        if self
            .last_move
            .is_some_and(|last| now.saturating_duration_since(last) < BETWEEN_MOVES)
        {
            return None;
        }
        let kind = self.demand.too_many(&self.held())?;
        let oldest = (0..self.waiting.len())
            .filter(|&place| self.waiting[place].warm == kind)
            .min_by_key(|&place| self.waiting[place].born)?;
        self.last_move = Some(now);
        self.going += 1;
        Some(self.waiting.remove(oldest))
    }

    /// A member that was taken is not to be used after all. It counts until [`Shelf::gone`].
    pub(crate) fn unfit(&mut self) {
        self.going += 1;
    }

    /// A member that was let go is gone.
    pub(crate) fn gone(&mut self) {
        self.going = self.going.saturating_sub(1);
    }

    fn held(&self) -> BTreeMap<Languages, u32> {
        let mut held = BTreeMap::new();
        for one in &self.waiting {
            *held.entry(one.warm.clone()).or_default() += 1;
        }
        held
    }
}

#[cfg(test)]
mod tests;
