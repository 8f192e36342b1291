//! How sessions end, and what time decides: lifetimes, idleness, and what is forgotten.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use plimsoll_core::{SessionEnd, SessionEnded};
use plimsoll_record::Fingerprint;

use super::{
    At, Census, Effect, Entry, REMEMBERED_OF_ONE_CALLER, Stage, Summary, Table, TearDown, Turn, Use, ended, revoked,
    shutdown,
};

impl<F, S> Table<F, S> {
    /// Ends a session whatever it is doing: its lifetime, the daemon's end, or its sandbox's own. The first end wins. A call
    /// that has the turn is cut short and gives it back; only then is the sandbox removed.
    pub(crate) fn end(&mut self, session: &Fingerprint, end: SessionEnded) -> Vec<Effect<S>> {
        let Some(entry) = self.sessions.get_mut(session) else {
            return Vec::new();
        };
        let mut effects = Vec::new();
        entry.stage = match std::mem::replace(&mut entry.stage, Stage::Ending(0, end.clone())) {
            Stage::Open(sandbox) => {
                effects.extend(entry.turn_away(&end));
                Stage::Cut(sandbox, end)
            }
            ended => {
                entry.stage = ended;
                return Vec::new();
            }
        };
        if entry.holder.is_some() {
            effects.push(Effect::Cut(session.clone()));
        } else {
            effects.extend(self.tear_down(session).map(Effect::TearDown));
        }
        effects
    }

    /// Ends a session without cutting anything short: a call that has the turn goes on to its answer, and whoever waits for
    /// the turn is told of the end. The first end wins.
    fn retire(&mut self, session: &Fingerprint, end: SessionEnded) -> Vec<Effect<S>> {
        match self.sessions.get_mut(session) {
            Some(entry) if entry.ended().is_none() && entry.holder.is_some() => {
                let effects = entry.turn_away(&end);
                entry.retired = Some(end);
                effects
            }
            _ => self.end(session, end),
        }
    }

    /// Sessions of these callers are kept too. For callers who are about to be known: one may open a session before those who
    /// are not any more are told.
    pub(crate) fn admit(&mut self, more: HashSet<Arc<str>>) {
        if let Some(callers) = &mut self.callers {
            callers.extend(more);
        }
    }

    /// From here on sessions of these callers are kept and no others; answers how many end by that, and what follows.
    pub(crate) fn retain(&mut self, callers: HashSet<Arc<str>>) -> (usize, Vec<Effect<S>>) {
        let strangers: Vec<_> = self
            .sessions
            .iter()
            .filter(|(_, entry)| entry.ended().is_none() && !callers.contains(&entry.whose.caller))
            .map(|(session, _)| session.clone())
            .collect();
        self.callers = Some(callers);
        let effects = strangers.iter().flat_map(|one| self.retire(one, revoked()));
        let effects = effects.collect();
        (strangers.len(), effects)
    }

    /// Ends a session that is open from here on, where its caller is none any more.
    pub(super) fn check_caller(&mut self, session: &Fingerprint) -> Vec<Effect<S>> {
        let known = match (&self.callers, self.sessions.get(session)) {
            (Some(callers), Some(entry)) => callers.contains(&entry.whose.caller),
            _ => true,
        };
        if known {
            Vec::new()
        } else {
            self.retire(session, revoked())
        }
    }

    /// Whoever has the turn ends the session. `None` when it ended by itself first; that end stays and its teardown is among
    /// the effects.
    pub(crate) fn close(&mut self, turn: Turn, end: SessionEnded) -> (Option<TearDown<S>>, Vec<Effect<S>>) {
        let Some(entry) = self.held_mut(&turn) else {
            return (None, Vec::new());
        };
        entry.holder = None;
        let Turn { session, .. } = turn;
        if entry.stage.ended().is_some() {
            let effects = self.tear_down(&session).map(Effect::TearDown);
            return (None, effects.into_iter().collect());
        }
        let mut down = None;
        let mut effects = Vec::new();
        for effect in self.end(&session, end) {
            match effect {
                Effect::TearDown(one) => down = Some(one),
                other => effects.push(other),
            }
        }
        (down, effects)
    }

    /// Whoever has the turn of a session that nobody had named when it was due closes it. Where somebody has meanwhile, the
    /// turn goes to them.
    pub(crate) fn close_unclaimed(
        &mut self,
        turn: Turn,
        end: SessionEnded,
        now: Duration,
    ) -> (Option<TearDown<S>>, Vec<Effect<S>>) {
        if self.held(&turn).is_some_and(|entry| entry.claimed) {
            return (None, self.release(turn, Use::Nothing, now));
        }
        self.close(turn, end)
    }

    pub(super) fn tear_down(&mut self, session: &Fingerprint) -> Option<TearDown<S>> {
        let number = self.number();
        let entry = self.sessions.get_mut(session)?;
        let placeholder = Stage::Ending(number, ended(SessionEnd::Unknown, ""));
        match std::mem::replace(&mut entry.stage, placeholder) {
            Stage::Cut(sandbox, ended) => {
                entry.stage = Stage::Ending(number, ended);
                Some(TearDown {
                    session: session.clone(),
                    sandbox,
                    number,
                })
            }
            other => {
                entry.stage = other;
                None
            }
        }
    }

    /// The sandbox of a session that was to make room could not be removed, and is as alive as before: the session is open
    /// again. In a table that drains it ends at once, by that.
    ///
    /// # Errors
    /// The session ended for another reason, or the open it made room for is over: that is not undone.
    pub(crate) fn reopen(&mut self, down: TearDown<S>, now: Duration) -> Result<Vec<Effect<S>>, TearDown<S>> {
        let undone = self
            .sessions
            .get(&down.session)
            .is_some_and(|entry| match &entry.stage {
                Stage::Ending(number, _) if *number != down.number => false,
                Stage::Ending(_, end) => match end.end {
                    SessionEnd::Unclaimed => true,
                    // Its place may be somebody else's once the open is over.
                    SessionEnd::Replaced => self.gives_way(entry),
                    _ => false,
                },
                _ => false,
            });
        let Some(entry) = self.sessions.get_mut(&down.session).filter(|_| undone) else {
            return Err(down);
        };
        entry.stage = Stage::Open(down.sandbox);
        entry.retired = None;
        entry.idle_at = (!entry.suspended).then(|| now.saturating_add(entry.window()));
        if self.draining {
            return Ok(self.end(&down.session, shutdown()));
        }
        self.schedule(&down.session);
        Ok(self.check_caller(&down.session))
    }

    /// An end the provider found out by itself before ours took hold wins over ours.
    pub(crate) fn ended_earlier(&mut self, down: &TearDown<S>, end: SessionEnded) {
        if let Some(entry) = self.sessions.get_mut(&down.session)
            && matches!(entry.stage, Stage::Ending(number, _) if number == down.number)
        {
            entry.stage = Stage::Ending(down.number, end);
        }
    }

    /// The sandbox is gone and seen to be gone.
    pub(crate) fn gone(&mut self, down: TearDown<S>, now: Duration) -> Option<(Summary, S)> {
        let entry = self.sessions.get_mut(&down.session)?;
        let Stage::Ending(number, ended) = &entry.stage else {
            return None;
        };
        if *number != down.number {
            return None;
        }
        entry.stage = Stage::Ended {
            ended: ended.clone(),
            since: now,
            collected: false,
        };
        entry.idle_at = None;
        let caller = Arc::clone(&entry.whose.caller);
        self.schedule(&down.session);
        let summary = self.summary(&down.session)?;
        let remembered = self.remembered.entry(caller).or_default();
        remembered.push_back(down.session);
        if remembered.len() > REMEMBERED_OF_ONE_CALLER
            && let Some(oldest) = remembered.pop_front()
        {
            self.forget(&oldest);
        }
        Some((summary, down.sandbox))
    }

    /// The summary of a session whose sandbox is gone.
    pub(crate) fn summary(&self, session: &Fingerprint) -> Option<Summary> {
        let entry = self.sessions.get(session)?;
        let Stage::Ended { ended, .. } = &entry.stage else {
            return None;
        };
        Some(Summary {
            session: session.clone(),
            calls: entry.chain.calls(),
            last_sha256: entry.chain.last_sha256().to_owned(),
            ended: ended.clone(),
        })
    }

    /// The summary, for the caller who closes: from here on the session is unknown to calls, and remembered for whoever asks
    /// again.
    pub(crate) fn collect(&mut self, session: &Fingerprint) -> Option<Summary> {
        let summary = self.summary(session)?;
        if let Some(Entry {
            stage: Stage::Ended { collected, .. },
            ..
        }) = self.sessions.get_mut(session)
        {
            *collected = true;
        }
        Some(summary)
    }

    /// What is known of a session.
    pub(crate) fn facts(&self, session: &Fingerprint) -> Option<Arc<F>> {
        self.sessions.get(session).map(|entry| Arc::clone(&entry.facts))
    }

    /// How the session ended, if it did.
    pub(crate) fn ended(&self, session: &Fingerprint) -> Option<SessionEnded> {
        self.sessions.get(session)?.ended().cloned()
    }

    /// What is due: ends, suspensions, unclaimed sessions, and what is no longer remembered. Looks at nothing else.
    pub(crate) fn tick(&mut self, now: Duration) -> Vec<Effect<S>> {
        let mut due = Vec::new();
        while let Some(first) = self.agenda.first_entry()
            && first.key().0 <= now
        {
            due.push(first.remove());
        }
        let mut effects = Vec::new();
        for session in due {
            if let Some(entry) = self.sessions.get_mut(&session) {
                entry.look = None;
                if entry.due().is_some_and(|due| due <= now) {
                    effects.extend(self.overdue(&session, now));
                }
                self.schedule(&session);
            }
        }
        effects
    }

    fn overdue(&mut self, session: &Fingerprint, now: Duration) -> Vec<Effect<S>> {
        let Some(entry) = self.sessions.get_mut(session) else {
            return Vec::new();
        };
        match &entry.stage {
            Stage::Ended { .. } => self.forget(session),
            Stage::Open(_) if entry.expires <= now => {
                return self.end(session, ended(SessionEnd::Expired, "its lifetime passed"));
            }
            Stage::Open(_) if entry.holder.is_some() => {
                entry.idle_at = Some(now.saturating_add(entry.window()));
            }
            Stage::Open(_) if entry.claimed && entry.idle.is_zero() => entry.idle_at = None,
            Stage::Open(_) => {
                let claimed = entry.claimed;
                // Put off first: whatever becomes of it, it is not due again at once.
                entry.idle_at = Some(now.saturating_add(entry.window()));
                if let Some(turn) = self.hold(session, At::Rest) {
                    return vec![if claimed {
                        Effect::Suspend(turn)
                    } else {
                        Effect::Unclaimed(turn)
                    }];
                }
            }
            Stage::Cut(..) | Stage::Ending(..) => {}
        }
        Vec::new()
    }

    /// When something is looked at next.
    pub(crate) fn next_look(&self) -> Option<Duration> {
        self.agenda.first_key_value().map(|((at, _), _)| *at)
    }

    /// Puts the session on the agenda, unless it is looked at before it is due anyway.
    pub(super) fn schedule(&mut self, session: &Fingerprint) {
        let number = self.number();
        let Some(entry) = self.sessions.get_mut(session) else {
            return;
        };
        let Some(due) = entry.due() else { return };
        if entry.look.is_some_and(|(at, _)| at <= due) {
            return;
        }
        if let Some(later) = entry.look.replace((due, number)) {
            self.agenda.remove(&later);
        }
        self.agenda.insert((due, number), session.clone());
    }

    fn forget(&mut self, session: &Fingerprint) {
        let Some(entry) = self.sessions.remove(session) else {
            return;
        };
        if let Some(look) = entry.look {
            self.agenda.remove(&look);
        }
        let caller = &entry.whose.caller;
        if let Some(remembered) = self.remembered.get_mut(caller) {
            remembered.retain(|one| one != session);
            if remembered.is_empty() {
                self.remembered.remove(caller);
            }
        }
    }

    /// No more opens; every session ends.
    pub(crate) fn drain(&mut self) -> Vec<Effect<S>> {
        self.draining = true;
        let all: Vec<_> = self.sessions.keys().cloned().collect();
        all.iter().flat_map(|one| self.end(one, shutdown())).collect()
    }

    /// Whether nothing is left to wait for: no open under way and every sandbox gone.
    pub(crate) fn is_empty(&self) -> bool {
        self.opening.is_empty()
            && self.discarded.is_empty()
            && self
                .sessions
                .values()
                .all(|entry| matches!(entry.stage, Stage::Ended { .. }))
    }

    pub(crate) fn census(&self) -> Census {
        let mut census = Census {
            opening: self.opening.len() as u64,
            ending: self.discarded.len() as u64,
            ..Census::default()
        };
        for entry in self.sessions.values() {
            match &entry.stage {
                Stage::Open(_) if entry.suspended => census.suspended += 1,
                Stage::Open(_) => census.running += 1,
                Stage::Cut(..) | Stage::Ending(..) => census.ending += 1,
                Stage::Ended { .. } => {}
            }
        }
        census
    }
}
