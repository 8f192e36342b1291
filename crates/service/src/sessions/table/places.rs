//! Places: who gets one, who makes room for it, and what becomes of it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use plimsoll_core::SessionEnd;
use plimsoll_record::{Chain, Fingerprint};

use super::{
    At, Discarded, Effect, Entry, NewSession, NoPlace, Place, Replacing, Stage, Table, UNCLAIMED, Use, Whose, ended,
};

impl<F, S> Table<F, S> {
    /// A place for one more session. At the owner's cap its least recently used idle sessions make room; their turns come with
    /// the place, so nothing runs in them until they are closed or given back.
    pub(crate) fn reserve(&mut self, caller: &Arc<str>, owner: &str) -> Result<Place, NoPlace> {
        if self.draining {
            return Err(NoPlace::Draining);
        }
        let whose = Whose {
            caller: Arc::clone(caller),
            owner: owner.into(),
        };
        let victims = self.victims(&whose)?;
        if victims.is_empty() {
            self.room(&whose)?;
        }
        let number = self.number();
        self.opening.insert(number, whose);
        for victim in &victims {
            if let Some(entry) = self.sessions.get_mut(victim) {
                entry.makes_room_for = Some(number);
            }
        }
        let victims = victims
            .into_iter()
            .filter_map(|one| self.hold(&one, At::Rest))
            .collect();
        Ok(Place { number, victims })
    }

    /// Who must make room for one more session of this owner.
    fn victims(&self, whose: &Whose) -> Result<Vec<Fingerprint>, NoPlace> {
        let cap = self.caps.per_owner as usize;
        if cap == 0 || whose.owner.is_empty() {
            return Ok(Vec::new());
        }
        let owned = || {
            self.sessions
                .iter()
                .filter(|(_, entry)| entry.whose == *whose && entry.stage.may_live() && !self.gives_way(entry))
        };
        let opening = self.opening.values().filter(|one| *one == whose).count();
        let needed = (owned().count() + opening + 1).saturating_sub(cap);
        let mut idle: Vec<_> = owned().filter(|(_, entry)| entry.is_idle()).collect();
        if idle.len() < needed {
            return Err(NoPlace::OwnerBusy);
        }
        idle.sort_by(|(a, left), (b, right)| left.used.cmp(&right.used).then_with(|| a.as_str().cmp(b.as_str())));
        idle.truncate(needed);
        if idle.iter().any(|(_, entry)| entry.holder.is_some()) {
            return Err(NoPlace::NotYet);
        }
        Ok(idle.into_iter().map(|(one, _)| one.clone()).collect())
    }

    fn room(&self, whose: &Whose) -> Result<(), NoPlace> {
        // A session counts until its sandbox is gone; one that is being replaced has given its place to the open.
        let counted = |of: &dyn Fn(&Whose) -> bool| {
            let there = self.sessions.values().filter(|entry| {
                !matches!(entry.stage, Stage::Ended { .. }) && !self.gives_way(entry) && of(&entry.whose)
            });
            let nameless = self.opening.values().chain(self.discarded.values());
            there.count() + nameless.filter(|one| of(one)).count()
        };
        if counted(&|_| true) >= self.caps.total as usize {
            return Err(NoPlace::Total);
        }
        let cap = self.caps.per_caller as usize;
        if cap > 0 && counted(&|one| one.caller == whose.caller) >= cap {
            return Err(NoPlace::PerCaller);
        }
        Ok(())
    }

    /// Whether an open that is under way counts in the session's stead.
    pub(super) fn gives_way(&self, entry: &Entry<F, S>) -> bool {
        entry
            .makes_room_for
            .is_some_and(|place| self.opening.contains_key(&place))
    }

    /// The sandbox of the first session this place will replace.
    pub(crate) fn first_replaced(&self, place: &Place) -> Option<&S> {
        self.sandbox(place.victims.first()?).ok()
    }

    /// Begins to close the next session the place replaces. One that ended by itself meanwhile keeps that end, and is waited
    /// for like the others.
    pub(crate) fn replace(&mut self, place: &mut Place) -> Option<Replacing<F, S>> {
        while !place.victims.is_empty() {
            let turn = place.victims.remove(0);
            let facts = self.facts(&turn.session);
            let end = ended(SessionEnd::Replaced, "a newer session of its owner took its place");
            let (mut down, mut effects) = self.close(turn, end);
            if down.is_none() {
                let own = effects.pop();
                if let Some(Effect::TearDown(own)) = own {
                    down = Some(own);
                }
            }
            if let (Some(down), Some(facts)) = (down, facts) {
                return Some(Replacing { facts, down, effects });
            }
        }
        None
    }

    /// The open came to nothing.
    pub(crate) fn abandon(&mut self, place: Place) -> Vec<Effect<S>> {
        self.opening.remove(&place.number);
        place
            .victims
            .into_iter()
            .flat_map(|turn| self.release(turn, Use::Nothing, Duration::ZERO))
            .collect()
    }

    /// The open came to nothing and left a sandbox. It counts like a session that has ended, until it is gone.
    pub(crate) fn discard(&mut self, place: Place) -> (Discarded, Vec<Effect<S>>) {
        let number = place.number;
        if let Some(whose) = self.opening.remove(&number) {
            self.discarded.insert(number, whose);
        }
        (Discarded(number), self.abandon(place))
    }

    /// The sandbox an open left is gone.
    pub(crate) fn left(&mut self, discarded: &Discarded) {
        self.discarded.remove(&discarded.0);
    }

    /// The open has succeeded.
    ///
    /// # Errors
    /// A table that drains takes no session; the open is to be discarded.
    pub(crate) fn opened(&mut self, place: Place, new: NewSession<F, S>) -> Result<Vec<Effect<S>>, (Place, S)> {
        if self.draining || self.sessions.contains_key(&new.session) {
            return Err((place, new.sandbox));
        }
        let Some(whose) = self.opening.remove(&place.number) else {
            return Err((place, new.sandbox));
        };
        let mut effects: Vec<_> = place
            .victims
            .into_iter()
            .flat_map(|turn| self.release(turn, Use::Nothing, new.now))
            .collect();
        let window = if new.idle.is_zero() { UNCLAIMED } else { new.idle };
        let entry = Entry {
            whose,
            facts: new.facts,
            stage: Stage::Open(new.sandbox),
            holder: None,
            waiting: VecDeque::new(),
            makes_room_for: None,
            claimed: false,
            suspended: false,
            retired: None,
            chain: Chain::new(new.session.clone()),
            used: new.now,
            idle: new.idle,
            idle_at: Some(new.now.saturating_add(window)),
            expires: new.now.saturating_add(new.lifetime),
            look: None,
        };
        self.sessions.insert(new.session.clone(), entry);
        self.schedule(&new.session);
        effects.extend(self.check_caller(&new.session));
        Ok(effects)
    }
}
