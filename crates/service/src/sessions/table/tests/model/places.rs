//! Opens: who gets a place, who makes room for it, and what becomes of it.

use super::*;

impl World {
    pub(super) fn reserve(&mut self) {
        let caller = self.dice.roll(2);
        let owner = ["", "u1", "u2"][self.dice.roll(3)];
        let place = match self.table.reserve(&self.callers[caller].clone(), owner) {
            Ok(place) => place,
            Err(none) => return self.refused(none, caller, owner),
        };
        self.holds("a draining table gives no place", !self.draining);
        let victims: Vec<String> = place
            .victims
            .iter()
            .map(|turn| turn.session.as_str().to_owned())
            .collect();
        for victim in victims {
            let seen = &self.seen[&victim];
            let same = seen.caller == caller && seen.owner == owner;
            self.holds("only the owner's own sessions make room", same);
            self.holds("an ended session is never replaced", seen.ended.is_none());
            self.seen.get_mut(&victim).unwrap().room_for = Some(place.number);
        }
        self.opens.push(Opening {
            place,
            caller,
            owner,
            down: None,
        });
    }

    pub(super) fn refused(&self, none: NoPlace, caller: usize, owner: &str) {
        let full = match none {
            NoPlace::Draining => self.draining,
            NoPlace::Total => self.standing(|_, _| true) == self.caps.total as usize,
            NoPlace::PerCaller => self.standing(|one, _| one == caller) == self.caps.per_caller as usize,
            NoPlace::OwnerBusy | NoPlace::NotYet => self.living(caller, owner) == self.caps.per_owner as usize,
        };
        self.holds("a place is refused only where there is none", full);
        let idle: Vec<_> = self.idle(caller, owner).collect();
        match none {
            NoPlace::OwnerBusy => self.holds("a busy owner has no idle session", idle.is_empty()),
            NoPlace::NotYet => {
                let swept = |session: Fingerprint| self.turns.iter().any(|turn| turn.session == session);
                self.holds("only a sweep is waited for", idle.into_iter().any(swept));
            }
            _ => {}
        }
    }

    /// The open sessions of an owner in which no call runs or waits, and whose turn nobody has but a sweep.
    pub(super) fn idle<'a>(&'a self, caller: usize, owner: &'a str) -> impl Iterator<Item = Fingerprint> + 'a {
        let own = move |seen: &&Seen| seen.caller == caller && seen.owner == owner && !self.gives_way(seen);
        let open = self.seen.values().filter(own).filter(|seen| seen.ended.is_none());
        open.map(|seen| Fingerprint::of(&seen.sandbox.to_string()))
            .filter(|session| {
                let turns: Vec<_> = self.turns.iter().filter(|turn| turn.session == *session).collect();
                self.waiting(session) == 0
                    && self.outstanding(session) == turns.len()
                    && turns.iter().all(|turn| self.swept.contains(&turn.number))
            })
    }

    pub(super) fn waiting(&self, session: &Fingerprint) -> usize {
        self.tickets.iter().filter(|(one, _)| one == session).count()
    }

    /// Calls of a session that have no answer yet: one that runs, and those that wait.
    pub(super) fn ahead(&self, session: &Fingerprint) -> usize {
        let runs = |turn: &&Turn| turn.session == *session && self.running.contains(&turn.number);
        self.waiting(session) + self.turns.iter().filter(runs).count()
    }

    /// Whether an open that is under way counts in the session's stead.
    pub(super) fn gives_way(&self, seen: &Seen) -> bool {
        self.opens.iter().any(|open| Some(open.place.number) == seen.room_for)
    }

    /// Places taken: by sandboxes that are not gone, and by opens.
    pub(super) fn standing(&self, of: impl Fn(usize, &str) -> bool) -> usize {
        let there = self
            .seen
            .values()
            .filter(|seen| !seen.gone && !self.gives_way(seen) && of(seen.caller, seen.owner));
        let unwanted = self.unwanted.iter().filter(|(_, caller)| of(*caller, ""));
        there.count() + self.opens.iter().filter(|open| of(open.caller, open.owner)).count() + unwanted.count()
    }

    /// Sessions of an owner that are open or may be again, and its opens.
    pub(super) fn living(&self, caller: usize, owner: &str) -> usize {
        let own = |one: usize, whose: &str| one == caller && whose == owner;
        let there = self.seen.values().filter(|seen| {
            let alive = seen.ended.is_none_or(|end| end == SessionEnd::Unclaimed) && !seen.gone;
            alive && !self.gives_way(seen) && own(seen.caller, seen.owner)
        });
        there.count() + self.opens.iter().filter(|open| own(open.caller, open.owner)).count()
    }

    /// An open's next step: removing what makes room, seeing it gone or not, and being open at last.
    pub(super) fn go_on_opening(&mut self) {
        let Some(mut open) = self.dice.pick(&mut self.opens) else {
            return;
        };
        match open.down.take() {
            None => {
                if let Some(Replacing { down, effects, .. }) = self.table.replace(&mut open.place) {
                    self.follow(effects, Some(SessionEnd::Replaced));
                    self.torn_down(&down, SessionEnd::Replaced);
                    open.down = Some(down);
                    return self.opens.push(open);
                }
            }
            Some(down) if self.dice.roll(3) > 0 => {
                self.gone(down);
                return self.opens.push(open);
            }
            Some(down) => {
                // It would not go, or not in time: the open is given up.
                let kept = if self.dice.roll(2) == 0 {
                    self.undo(down)
                } else {
                    Some(down)
                };
                self.downs.extend(kept);
                let effects = self.table.abandon(open.place);
                return self.follow(effects, None);
            }
        }
        let Opening {
            place, caller, owner, ..
        } = open;
        match self.dice.roll(10) {
            0 => {
                let effects = self.table.abandon(place);
                return self.follow(effects, None);
            }
            1 => return self.discard(place, caller),
            _ => {}
        }
        self.made += 1;
        let session = Fingerprint::of(&self.made.to_string());
        let new = NewSession {
            session: session.clone(),
            facts: Arc::new(()),
            sandbox: self.made,
            now: self.now,
            lifetime: Duration::from_secs(1 + self.dice.roll(1800) as u64),
            idle: Duration::from_secs([0, 1, 60, 300][self.dice.roll(4)]),
        };
        match self.table.opened(place, new) {
            Ok(effects) => {
                self.holds("a draining table takes no session", !self.draining);
                let seen = Seen {
                    caller,
                    owner,
                    sandbox: self.made,
                    ended: None,
                    gone: false,
                    calls: 0,
                    last: String::new(),
                    room_for: None,
                };
                self.seen.insert(session.as_str().to_owned(), seen);
                self.follow(effects, None);
            }
            Err((place, sandbox)) => {
                self.holds("a refused session gives its sandbox back", sandbox == self.made);
                self.discard(place, caller);
            }
        }
    }

    /// The open leaves a sandbox that nobody wants.
    pub(super) fn discard(&mut self, place: Place, caller: usize) {
        let (discarded, effects) = self.table.discard(place);
        self.unwanted.push((discarded, caller));
        self.follow(effects, None);
    }
}
