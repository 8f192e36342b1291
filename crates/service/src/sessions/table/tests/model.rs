//! The table against a shadow of it that only remembers, over random command sequences; each invariant has a name that a
//! failure prints with the seed of its sequence.

mod places;

use std::collections::{BTreeMap, HashSet};

use super::super::*;

/// Random sequences of commands.
const SEQUENCES: u64 = 120_000;

/// Commands of one sequence.
const COMMANDS: usize = 48;

const ALICE: usize = 0;

/// A small generator; each sequence has its own seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 11).unwrap() % sides
    }

    fn pick<T>(&mut self, from: &mut Vec<T>) -> Option<T> {
        (!from.is_empty()).then(|| from.swap_remove(self.roll(from.len())))
    }
}

/// What the shadow remembers of a session.
#[derive(Debug)]
struct Seen {
    caller: usize,
    owner: &'static str,
    sandbox: u64,
    ended: Option<SessionEnd>,
    gone: bool,
    calls: u64,
    last: String,
    /// The place it was to make room for, by number.
    room_for: Option<u64>,
}

/// An open that is under way.
#[derive(Debug)]
struct Opening {
    place: Place,
    caller: usize,
    owner: &'static str,
    /// What is being removed for it.
    down: Option<TearDown<u64>>,
}

struct World {
    seed: u64,
    dice: Dice,
    caps: Caps,
    callers: [Arc<str>; 2],
    table: Table<(), u64>,
    now: Duration,
    opens: Vec<Opening>,
    turns: Vec<Turn>,
    /// Of the turns, by number: those of calls that have no answer yet, and those of calls that have one.
    running: HashSet<u64>,
    swept: HashSet<u64>,
    tickets: Vec<(Fingerprint, Ticket)>,
    downs: Vec<TearDown<u64>>,
    /// Sandboxes of opens that came to nothing, with their callers.
    unwanted: Vec<(Discarded, usize)>,
    seen: BTreeMap<String, Seen>,
    torn: HashSet<u64>,
    made: u64,
    draining: bool,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let caps = Caps {
            total: u32::try_from(1 + dice.roll(4)).unwrap(),
            per_caller: u32::try_from(dice.roll(3)).unwrap(),
            per_owner: u32::try_from(dice.roll(3)).unwrap(),
        };
        Self {
            seed,
            dice,
            caps,
            callers: ["alice".into(), "bob".into()],
            table: Table::new(caps),
            now: Duration::ZERO,
            opens: Vec::new(),
            turns: Vec::new(),
            running: HashSet::new(),
            swept: HashSet::new(),
            tickets: Vec::new(),
            downs: Vec::new(),
            unwanted: Vec::new(),
            seen: BTreeMap::new(),
            torn: HashSet::new(),
            made: 0,
            draining: false,
        }
    }

    #[track_caller]
    fn holds(&self, invariant: &str, holds: bool) {
        assert!(holds, "invariant {invariant} is broken; seed {}", self.seed);
    }

    fn some_session(&mut self) -> Option<Fingerprint> {
        let ids: Vec<u64> = self.seen.values().map(|seen| seen.sandbox).collect();
        (!ids.is_empty()).then(|| {
            let id = ids[self.dice.roll(ids.len())];
            Fingerprint::of(&id.to_string())
        })
    }

    fn step(&mut self) {
        match self.dice.roll(24) {
            0..=2 => self.reserve(),
            3..=5 => self.go_on_opening(),
            6..=9 => self.ask(),
            10 => self.leave(),
            11..=13 => self.use_turn(),
            14..=15 => self.release(),
            16 => self.close(),
            17 => self.end_from_outside(),
            18..=19 => self.removed(),
            20 => {
                self.now += Duration::from_secs(self.dice.roll(400) as u64);
                let effects = self.table.tick(self.now);
                let done = self.table.next_look().is_none_or(|next| next > self.now);
                self.holds("a tick leaves nothing that is due", done);
                self.follow(effects, Some(SessionEnd::Expired));
                let forgotten: Vec<String> = self
                    .seen
                    .iter()
                    .filter(|(_, seen)| self.table.facts(&Fingerprint::of(&seen.sandbox.to_string())).is_none())
                    .map(|(name, _)| name.clone())
                    .collect();
                for name in forgotten {
                    let seen = self.seen.remove(&name).unwrap();
                    self.holds("only a session whose sandbox is gone is forgotten", seen.gone);
                }
            }
            21..=22 => self.answered(),
            _ if self.dice.roll(40) == 0 => {
                self.draining = true;
                let effects = self.table.drain();
                self.follow(effects, Some(SessionEnd::Shutdown));
            }
            _ => self.find(),
        }
        self.check();
    }

    fn ask(&mut self) {
        let Some(session) = self.some_session() else { return };
        let ended = self.seen[session.as_str()].ended;
        match self.table.ask(&session).unwrap() {
            Asked::Now(turn) => {
                self.holds("a closed session gives no turn", ended.is_none());
                self.running.insert(turn.number);
                self.turns.push(turn);
            }
            Asked::Wait(ticket) => {
                self.holds("nobody waits for a session that has ended", ended.is_none());
                self.tickets.push((session, ticket));
            }
            Asked::Busy => {
                let full = self.ahead(&session) == CALLS_AT_ONCE;
                self.holds("a call is turned away only when two are ahead", full);
            }
            Asked::Ended(end) => self.holds("the first end wins", ended == Some(end.end)),
        }
    }

    /// A call that runs has its answer; its turn is not back yet.
    fn answered(&mut self) {
        let Some(turn) = self.dice.pick(&mut self.turns) else {
            return;
        };
        if self.running.remove(&turn.number) {
            let used = if self.dice.roll(2) == 0 { Use::Ran } else { Use::Nothing };
            self.table.answered(&turn, used, self.now);
            self.swept.insert(turn.number);
        }
        self.turns.push(turn);
    }

    fn leave(&mut self) {
        if let Some((session, ticket)) = self.dice.pick(&mut self.tickets) {
            self.table.leave(&session, ticket);
        }
    }

    fn use_turn(&mut self) {
        let Some(turn) = self.dice.pick(&mut self.turns) else {
            return;
        };
        let name = turn.session.as_str().to_owned();
        let (sandbox, ended) = (self.seen[&name].sandbox, self.seen[&name].ended);
        match self.table.sandbox(&turn) {
            Ok(one) => {
                self.holds("a closed session is not run", ended.is_none());
                self.holds("a turn reaches its own sandbox", *one == sandbox);
            }
            Err(end) => self.holds("the first end wins", ended == Some(end.end)),
        }
        match self.dice.roll(3) {
            0 => {
                let suspended = self.dice.roll(2) == 0;
                self.table.set_suspended(&turn, suspended, self.now);
            }
            1 => self.table.put_off(&turn, self.now),
            _ => {
                // A call that was cut is counted all the same: it may have run.
                let chain = self.table.chain(&turn).unwrap().clone();
                let record = RunRecord {
                    session: name.clone(),
                    sequence: chain.calls() + 1,
                    previous_sha256: chain.last_sha256().to_owned(),
                    record_sha256: format!("{}-{}", name, chain.calls() + 1),
                    ..RunRecord::default()
                };
                self.table.count(&turn, &record).unwrap();
                let seen = self.seen.get_mut(&name).unwrap();
                seen.calls += 1;
                seen.last = record.record_sha256;
            }
        }
        self.turns.push(turn);
    }

    fn release(&mut self) {
        let Some(turn) = self.dice.pick(&mut self.turns) else {
            return;
        };
        let session = turn.session.clone();
        let used = if self.dice.roll(2) == 0 { Use::Ran } else { Use::Nothing };
        let effects = self.table.release(turn, used, self.now);
        self.follow(effects, None);
        let ended = self.seen[session.as_str()].ended.is_some();
        let waits = self.tickets.iter().any(|(one, _)| *one == session);
        self.holds(
            "a free turn leaves nobody waiting",
            ended || !waits || self.turns.iter().any(|one| one.session == session),
        );
    }

    fn close(&mut self) {
        let Some(turn) = self.dice.pick(&mut self.turns) else {
            return;
        };
        let (down, effects) = self.table.close(turn, ended(SessionEnd::Closed, ""));
        if let Some(down) = down {
            self.torn_down(&down, SessionEnd::Closed);
            self.downs.push(down);
        }
        self.follow(effects, Some(SessionEnd::Closed));
    }

    fn end_from_outside(&mut self) {
        let Some(session) = self.some_session() else { return };
        let effects = self.table.end(&session, ended(SessionEnd::MainProcessEnded, ""));
        let seen = self.seen.get_mut(session.as_str()).unwrap();
        seen.ended.get_or_insert(SessionEnd::MainProcessEnded);
        self.follow(effects, Some(SessionEnd::MainProcessEnded));
    }

    fn removed(&mut self) {
        if let Some((discarded, _)) = self.dice.pick(&mut self.unwanted) {
            self.table.left(&discarded);
        }
        let Some(down) = self.dice.pick(&mut self.downs) else {
            return;
        };
        if self.dice.roll(3) == 0 {
            let kept = self.undo(down);
            return self.downs.extend(kept);
        }
        self.gone(down);
    }

    fn gone(&mut self, down: TearDown<u64>) {
        let name = down.session.as_str().to_owned();
        let (summary, sandbox) = self.table.gone(down, self.now).unwrap();
        let seen = &self.seen[&name];
        self.holds("a sandbox is gone once", !seen.gone && seen.sandbox == sandbox);
        self.holds("the first end wins", seen.ended == Some(summary.ended.end));
        self.holds("every counted call is in the summary", seen.calls == summary.calls);
        self.holds("the summary names the last record", seen.last == summary.last_sha256);
        self.seen.get_mut(&name).unwrap().gone = true;
        if self.dice.roll(2) == 0 {
            let session = Fingerprint::of(&sandbox.to_string());
            let (first, second) = (self.table.collect(&session), self.table.collect(&session));
            self.holds("closing is idempotent", first == Some(summary) && second == first);
            let caller = self.callers[self.seen[&name].caller].clone();
            let known = self.table.find(&session, &caller, false).is_some();
            self.holds("a collected session is unknown to calls", !known);
        }
    }

    /// A removal that failed: only an end that was to make room is undone.
    fn undo(&mut self, down: TearDown<u64>) -> Option<TearDown<u64>> {
        let (name, sandbox) = (down.session.as_str().to_owned(), down.sandbox);
        let was = self.seen[&name].ended;
        match self.table.reopen(down, self.now) {
            Err(down) => Some(down),
            Ok(effects) => {
                let ours = matches!(was, Some(SessionEnd::Replaced | SessionEnd::Unclaimed));
                self.holds("an end of its own is not undone", ours);
                self.torn.remove(&sandbox);
                self.seen.get_mut(&name).unwrap().ended = None;
                self.follow(effects, Some(SessionEnd::Shutdown));
                None
            }
        }
    }

    fn find(&mut self) {
        let Some(session) = self.some_session() else { return };
        let caller = self.dice.roll(2);
        let found = self.table.find(&session, &self.callers[caller], true).is_some();
        self.holds(
            "a session is its caller's alone",
            found == (self.seen[session.as_str()].caller == caller),
        );
    }

    /// What a driver would do with the effects. `end` is what ended the sessions among them.
    fn follow(&mut self, effects: Vec<Effect<u64>>, end: Option<SessionEnd>) {
        for effect in effects {
            match effect {
                Effect::Wake(Woken { ticket, news }) => {
                    let place = self.tickets.iter().position(|(_, one)| *one == ticket);
                    self.holds("only who waits is woken", place.is_some());
                    let (session, _) = self.tickets.swap_remove(place.unwrap());
                    match news {
                        Ok(turn) => {
                            self.holds("a waiter is given its own session's turn", turn.session == session);
                            self.running.insert(turn.number);
                            self.turns.push(turn);
                        }
                        Err(told) => {
                            let known = self
                                .seen
                                .get_mut(session.as_str())
                                .unwrap()
                                .ended
                                .get_or_insert(told.end);
                            let same = *known == told.end;
                            self.holds("the first end wins", same);
                        }
                    }
                }
                Effect::TearDown(down) => {
                    let of = self.seen[down.session.as_str()].ended.or(end);
                    self.torn_down(&down, of.unwrap());
                    self.downs.push(down);
                }
                Effect::Cut(session) => {
                    let seen = self.seen.get_mut(session.as_str()).unwrap();
                    seen.ended = seen.ended.or(end);
                    let busy = self.outstanding(&session) == 1;
                    self.holds("only a busy session is cut", busy);
                }
                Effect::Suspend(turn) => {
                    let suspended = self.table.is_suspended(&turn);
                    self.holds("a suspended session is not suspended again", !suspended);
                    self.table.set_suspended(&turn, true, self.now);
                    self.turns.push(turn);
                }
                Effect::Unclaimed(turn) => {
                    let named = self.dice.roll(3) == 0;
                    if named {
                        let caller = self.callers[self.seen[turn.session.as_str()].caller].clone();
                        self.table.find(&turn.session, &caller, true).unwrap();
                    }
                    let end = ended(SessionEnd::Unclaimed, "");
                    let (down, effects) = self.table.close_unclaimed(turn, end, self.now);
                    self.holds("a session named meanwhile is not closed", named == down.is_none());
                    if let Some(down) = down {
                        self.torn_down(&down, SessionEnd::Unclaimed);
                        self.downs.push(down);
                    }
                    self.follow(effects, Some(SessionEnd::Unclaimed));
                }
            }
        }
    }

    fn torn_down(&mut self, down: &TearDown<u64>, end: SessionEnd) {
        let busy = self.outstanding(&down.session);
        self.holds("no sandbox is removed under a call", busy == 0);
        let once = self.torn.insert(down.sandbox);
        self.holds("a sandbox is removed once", once);
        self.seen
            .get_mut(down.session.as_str())
            .unwrap()
            .ended
            .get_or_insert(end);
    }

    fn outstanding(&self, session: &Fingerprint) -> usize {
        let in_places = self.opens.iter().flat_map(|open| &open.place.victims);
        self.turns
            .iter()
            .chain(in_places)
            .filter(|turn| turn.session == *session)
            .count()
    }

    fn check(&self) {
        for seen in self.seen.values() {
            let session = Fingerprint::of(&seen.sandbox.to_string());
            self.holds("one call has the turn", self.outstanding(&session) <= 1);
            self.holds("one call runs and one waits", self.ahead(&session) <= CALLS_AT_ONCE);
            let told = self.table.ended(&session).map(|ended| ended.end);
            self.holds("an end is remembered", told == seen.ended);
        }
        let total = self.standing(|_, _| true);
        self.holds("the daemon's cap", total <= self.caps.total as usize);
        for caller in [ALICE, 1] {
            let cap = self.caps.per_caller as usize;
            self.holds(
                "the caller's cap",
                cap == 0 || self.standing(|one, _| one == caller) <= cap,
            );
            for owner in ["u1", "u2"] {
                let cap = self.caps.per_owner as usize;
                self.holds("the owner's cap", cap == 0 || self.living(caller, owner) <= cap);
            }
        }
        let mut looks = 0;
        for entry in self.table.sessions.values() {
            let in_time = entry
                .due()
                .is_none_or(|due| entry.look.is_some_and(|(at, _)| at <= due));
            self.holds("nothing is looked at later than it is due", in_time);
            looks += usize::from(entry.look.is_some());
        }
        self.holds("a session is on the agenda once", looks == self.table.agenda.len());
        let gone = self.seen.values().filter(|seen| seen.gone).count();
        let remembered: usize = self.table.remembered.values().map(VecDeque::len).sum();
        self.holds("who is gone is remembered once", gone == remembered);
    }

    /// Everybody lets go, the table drains, and nothing may be left.
    fn finish(mut self) {
        while let Some(open) = self.opens.pop() {
            self.downs.extend(open.down);
            let effects = self.table.abandon(open.place);
            self.follow(effects, None);
        }
        let effects = self.table.drain();
        self.follow(effects, Some(SessionEnd::Shutdown));
        while let Some(turn) = self.turns.pop() {
            let effects = self.table.release(turn, Use::Nothing, self.now);
            self.follow(effects, Some(SessionEnd::Shutdown));
        }
        while let Some(down) = self.downs.pop() {
            self.gone(down);
        }
        let unwanted = self.unwanted.len() as u64;
        self.holds("what nobody wants is ending", self.table.census().ending == unwanted);
        while let Some((discarded, _)) = self.unwanted.pop() {
            self.holds("a table is not empty while a sandbox is there", !self.table.is_empty());
            self.table.left(&discarded);
        }
        self.holds("nobody waits for ever", self.tickets.is_empty());
        self.holds(
            "every sandbox is gone in the end",
            self.seen.values().all(|seen| seen.gone),
        );
        self.holds(
            "a drained table is empty",
            self.table.is_empty() && self.table.census() == Census::default(),
        );
        self.table.tick(self.now + REMEMBERED);
        self.holds("an end is forgotten after ten minutes", self.table.sessions.is_empty());
        let nothing = self.table.agenda.is_empty() && self.table.remembered.is_empty();
        self.holds("nothing is kept of who is forgotten", nothing);
    }
}

#[test]
fn random_command_sequences_break_no_invariant() {
    for seed in 1..=SEQUENCES {
        let mut world = World::new(seed);
        for _ in 0..COMMANDS {
            world.step();
        }
        world.finish();
    }
}
