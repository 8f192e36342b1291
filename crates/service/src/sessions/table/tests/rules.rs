//! The rules that time and order decide, one by one.

use super::super::*;

const SECOND: Duration = Duration::from_secs(1);

const CAPS: Caps = Caps {
    total: 8,
    per_caller: 0,
    per_owner: 0,
};

/// A table with one session of alice's, open since the beginning.
fn one(idle: u64) -> (Table<(), u64>, Fingerprint) {
    let mut table = Table::new(CAPS);
    let session = open(&mut table, 1, "", idle);
    (table, session)
}

/// The `number`th session, of alice's.
fn open(table: &mut Table<(), u64>, number: u64, owner: &str, idle: u64) -> Fingerprint {
    let place = table.reserve(&"alice".into(), owner).unwrap();
    let session = Fingerprint::of(&number.to_string());
    let new = NewSession {
        session: session.clone(),
        facts: Arc::new(()),
        sandbox: number,
        now: Duration::ZERO,
        lifetime: 1000 * SECOND,
        idle: Duration::from_secs(idle),
    };
    table.opened(place, new).unwrap();
    session
}

/// Ends a session nobody uses, and sees it gone.
fn end(table: &mut Table<(), u64>, session: &Fingerprint, now: Duration) {
    let mut effects = table.end(session, ended(SessionEnd::Expired, ""));
    match (effects.pop(), effects.pop()) {
        (Some(Effect::TearDown(down)), None) => drop(table.gone(down, now).unwrap()),
        other => panic!("{other:?}"),
    }
}

fn turn(table: &mut Table<(), u64>, session: &Fingerprint) -> Turn {
    match table.ask(session).unwrap() {
        Asked::Now(turn) => turn,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_session_nobody_names_is_closed_after_its_first_idle_time_and_a_named_one_is_suspended() {
    let (mut table, session) = one(10);
    assert!(table.tick(9 * SECOND).is_empty());
    assert!(matches!(table.tick(10 * SECOND).as_slice(), [Effect::Unclaimed(one)] if one.session == session));
    let (mut table, session) = one(10);
    table.find(&session, "alice", false).unwrap();
    assert!(matches!(table.tick(10 * SECOND).as_slice(), [Effect::Suspend(_)]));
}

#[test]
fn without_an_idle_time_an_unnamed_session_has_five_minutes_and_a_named_one_is_never_suspended() {
    let (mut table, _) = one(0);
    assert!(table.tick(299 * SECOND).is_empty());
    assert!(matches!(table.tick(300 * SECOND).as_slice(), [Effect::Unclaimed(_)]));
    let (mut table, session) = one(0);
    table.find(&session, "alice", false).unwrap();
    assert!(table.tick(999 * SECOND).is_empty());
}

#[test]
fn a_refused_call_does_not_put_off_idleness_and_a_call_that_ran_does() {
    for (used, due) in [(Use::Nothing, 10), (Use::Ran, 19)] {
        let (mut table, session) = one(10);
        table.find(&session, "alice", false).unwrap();
        let held = turn(&mut table, &session);
        table.release(held, used, 9 * SECOND);
        assert!(table.tick((due - 1) * SECOND).is_empty(), "{used:?}");
        assert!(
            matches!(table.tick(due * SECOND).as_slice(), [Effect::Suspend(_)]),
            "{used:?}"
        );
    }
}

#[test]
fn a_busy_session_is_looked_at_again_after_another_idle_time() {
    let (mut table, session) = one(10);
    table.find(&session, "alice", false).unwrap();
    let held = turn(&mut table, &session);
    assert!(table.tick(10 * SECOND).is_empty());
    assert_eq!(table.next_look(), Some(20 * SECOND));
    table.release(held, Use::Nothing, 11 * SECOND);
    assert!(matches!(table.tick(20 * SECOND).as_slice(), [Effect::Suspend(_)]));
}

#[test]
fn a_lifetime_that_passes_cuts_the_call_and_tells_the_waiter() {
    let (mut table, session) = one(0);
    let held = turn(&mut table, &session);
    assert!(matches!(table.ask(&session), Some(Asked::Wait(_))));
    let effects = table.tick(1000 * SECOND);
    assert!(
        matches!(effects.as_slice(), [Effect::Wake(Woken { news: Err(end), .. }), Effect::Cut(_)] if end.end == SessionEnd::Expired)
    );
    assert_eq!(table.sandbox(&held).unwrap_err().end, SessionEnd::Expired);
    let effects = table.release(held, Use::Ran, 1001 * SECOND);
    assert!(matches!(effects.as_slice(), [Effect::TearDown(_)]));
}

fn waits(table: &mut Table<(), u64>, session: &Fingerprint) -> Ticket {
    match table.ask(session).unwrap() {
        Asked::Wait(ticket) => ticket,
        other => panic!("{other:?}"),
    }
}

/// The turn goes to this one, and to nobody else.
fn given(mut effects: Vec<Effect<u64>>, to: Ticket) -> Turn {
    match (effects.pop(), effects.pop()) {
        (Some(Effect::Wake(Woken { ticket, news: Ok(turn) })), None) if ticket == to => turn,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_call_that_has_its_answer_is_ahead_of_nobody() {
    let (mut table, session) = one(0);
    let first = turn(&mut table, &session);
    let second = waits(&mut table, &session);
    assert!(matches!(table.ask(&session), Some(Asked::Busy)));
    table.answered(&first, Use::Ran, SECOND);
    let third = waits(&mut table, &session);
    assert!(matches!(table.ask(&session), Some(Asked::Busy)));
    // They have the turn in their order, and from here on the second one runs.
    let second = given(table.release(first, Use::Ran, SECOND), second);
    assert!(matches!(table.ask(&session), Some(Asked::Busy)));
    let third = given(table.release(second, Use::Ran, SECOND), third);
    waits(&mut table, &session);
    drop(third);
}

#[test]
fn while_a_session_is_being_suspended_two_may_wait_and_both_are_told_of_its_end() {
    let (mut table, session) = one(10);
    table.find(&session, "alice", false).unwrap();
    let Some(Effect::Suspend(rest)) = table.tick(10 * SECOND).pop() else {
        panic!("not suspended");
    };
    let tickets = [waits(&mut table, &session), waits(&mut table, &session)];
    assert!(matches!(table.ask(&session), Some(Asked::Busy)));
    let effects = table.end(&session, ended(SessionEnd::Shutdown, ""));
    let told: Vec<_> = effects
        .iter()
        .filter_map(|effect| match effect {
            Effect::Wake(Woken { ticket, news: Err(_) }) => Some(*ticket),
            _ => None,
        })
        .collect();
    assert_eq!(told, tickets);
    assert!(matches!(
        table.release(rest, Use::Nothing, 11 * SECOND).as_slice(),
        [Effect::TearDown(_)]
    ));
}

#[test]
fn a_session_that_is_only_being_swept_makes_room_when_its_turn_is_back() {
    let caps = Caps { per_owner: 2, ..CAPS };
    let mut table = Table::new(caps);
    let older = open(&mut table, 1, "u1", 0);
    let newer = open(&mut table, 2, "u1", 0);
    let swept = turn(&mut table, &older);
    table.answered(&swept, Use::Ran, SECOND);
    let held = turn(&mut table, &newer);
    table.release(held, Use::Ran, 2 * SECOND);
    // The other one is free, and was used later.
    let reserve = |table: &mut Table<(), u64>| table.reserve(&"alice".into(), "u1");
    assert!(matches!(reserve(&mut table), Err(NoPlace::NotYet)));
    // A call that waits is a use to come: the other one is the idle one then.
    let ticket = waits(&mut table, &older);
    let place = reserve(&mut table).unwrap();
    assert_eq!(place.victims[0].session, newer);
    table.abandon(place);
    let held = turn(&mut table, &newer);
    assert!(matches!(reserve(&mut table), Err(NoPlace::OwnerBusy)));
    table.release(held, Use::Ran, 4 * SECOND);
    table.leave(&older, ticket);
    assert!(table.release(swept, Use::Ran, 3 * SECOND).is_empty());
    assert_eq!(reserve(&mut table).unwrap().victims[0].session, older);
}

#[test]
fn a_providers_own_earlier_end_wins_over_ours() {
    let (mut table, session) = one(0);
    let held = turn(&mut table, &session);
    let (down, _) = table.close(held, ended(SessionEnd::Replaced, ""));
    let down = down.unwrap();
    table.ended_earlier(&down, ended(SessionEnd::DiskExceeded, ""));
    assert_eq!(table.gone(down, SECOND).unwrap().0.ended.end, SessionEnd::DiskExceeded);
}

#[test]
fn a_session_named_between_its_timer_and_its_close_is_not_closed_and_its_caller_gets_the_turn() {
    let (mut table, session) = one(10);
    let Some(Effect::Unclaimed(late)) = table.tick(10 * SECOND).pop() else {
        panic!("not unclaimed");
    };
    table.find(&session, "alice", false).unwrap();
    let Some(Asked::Wait(ticket)) = table.ask(&session) else {
        panic!("the timer has no turn");
    };
    let (down, effects) = table.close_unclaimed(late, ended(SessionEnd::Unclaimed, ""), 10 * SECOND);
    assert!(down.is_none());
    assert!(
        matches!(effects.as_slice(), [Effect::Wake(Woken { ticket: woken, news: Ok(_) })] if *woken == ticket),
        "{effects:?}"
    );
    assert_eq!(table.ended(&session), None);
}

#[test]
fn a_session_that_is_being_removed_for_an_open_takes_no_place_of_its_own_until_that_is_given_up() {
    let caps = Caps {
        total: 2,
        per_caller: 2,
        per_owner: 1,
    };
    for given_up in [false, true] {
        let mut table = Table::new(caps);
        open(&mut table, 1, "u1", 10);
        let mut place = table.reserve(&"alice".into(), "u1").unwrap();
        let replacing = table.replace(&mut place).unwrap();
        let (_removed, other) = if given_up {
            table.abandon(place);
            (replacing.down, table.reserve(&"alice".into(), "u2").unwrap())
        } else {
            (replacing.down, table.reserve(&"alice".into(), "u2").unwrap())
        };
        // One place is the open's or that of the sandbox that is not gone, the other one is `other`'s.
        assert!(
            matches!(table.reserve(&"alice".into(), "u3"), Err(NoPlace::Total)),
            "{given_up}"
        );
        drop(other);
    }
}

#[test]
fn of_one_callers_ended_sessions_the_oldest_are_forgotten_and_of_anothers_none() {
    let mut table = Table::new(CAPS);
    let bobs = {
        let place = table.reserve(&"bob".into(), "").unwrap();
        let new = NewSession {
            session: Fingerprint::of("bob's"),
            facts: Arc::new(()),
            sandbox: 0,
            now: Duration::ZERO,
            lifetime: 1000 * SECOND,
            idle: SECOND,
        };
        let session = new.session.clone();
        table.opened(place, new).unwrap();
        session
    };
    end(&mut table, &bobs, SECOND);
    let many = REMEMBERED_OF_ONE_CALLER as u64 + 10;
    for number in 1..=many {
        let session = open(&mut table, number, "", 10);
        end(&mut table, &session, SECOND);
    }
    let remembered = |number: u64| table.summary(&Fingerprint::of(&number.to_string())).is_some();
    assert!((1..=10).all(|number| !remembered(number)));
    assert!((11..=many).all(remembered));
    assert!(table.summary(&bobs).is_some());
    assert_eq!(table.sessions.len(), REMEMBERED_OF_ONE_CALLER + 1);
    assert_eq!(table.agenda.len(), table.sessions.len());
    assert!(table.tick(SECOND + REMEMBERED).is_empty());
    assert!(table.sessions.is_empty() && table.remembered.is_empty() && table.agenda.is_empty());
}

#[test]
fn a_call_costs_no_look_at_other_sessions() {
    const SESSIONS: u64 = 20_000;
    let caps = Caps {
        total: u32::MAX,
        ..CAPS
    };
    let mut table = Table::new(caps);
    // Their places are reserved first: a reservation does count.
    for number in 0..SESSIONS {
        table.opening.insert(number, whose());
        let place = Place {
            number,
            victims: Vec::new(),
        };
        let new = NewSession {
            session: Fingerprint::of(&number.to_string()),
            facts: Arc::new(()),
            sandbox: number,
            now: Duration::ZERO,
            lifetime: 1_000_000 * SECOND,
            idle: 100_000 * SECOND,
        };
        table.opened(place, new).unwrap();
    }
    let busy = Fingerprint::of("7");
    table.find(&busy, "alice", false).unwrap();
    let began = std::time::Instant::now();
    for call in 0..20_000 {
        let now = SECOND + Duration::from_millis(call);
        let held = turn(&mut table, &busy);
        assert!(table.release(held, Use::Ran, now).is_empty());
        assert!(table.tick(now).is_empty());
        assert_eq!(table.next_look(), Some(100_000 * SECOND));
    }
    // Looking at every session would be 400 million looks.
    assert!(began.elapsed() < SECOND, "{:?}", began.elapsed());
}

#[test]
fn a_clock_that_jumps_ends_what_expired_and_suspends_nothing_first() {
    let (mut table, session) = one(10);
    table.find(&session, "alice", false).unwrap();
    let effects = table.tick(100_000 * SECOND);
    assert!(matches!(effects.as_slice(), [Effect::TearDown(_)]), "{effects:?}");
    assert_eq!(table.ended(&session).unwrap().end, SessionEnd::Expired);
}

#[test]
fn a_time_before_the_last_one_decides_nothing() {
    let (mut table, session) = one(10);
    table.find(&session, "alice", false).unwrap();
    let held = turn(&mut table, &session);
    table.release(held, Use::Ran, 5 * SECOND);
    let held = turn(&mut table, &session);
    table.release(held, Use::Ran, SECOND);
    assert!(table.tick(14 * SECOND).is_empty());
    assert!(table.tick(2 * SECOND).is_empty());
    assert!(matches!(table.tick(15 * SECOND).as_slice(), [Effect::Suspend(_)]));
}

fn whose() -> Whose {
    Whose {
        caller: "alice".into(),
        owner: "".into(),
    }
}

#[test]
fn a_session_of_a_caller_who_has_just_become_one_is_kept() {
    for admitted in [true, false] {
        let mut table: Table<(), u64> = Table::new(CAPS);
        assert_eq!(table.retain(HashSet::from(["bob".into()])).0, 0);
        if admitted {
            table.admit(HashSet::from(["alice".into()]));
        }
        let session = open(&mut table, 1, "a", 0);
        table.retain(HashSet::from(["alice".into()]));
        assert_eq!(table.ended(&session).is_none(), admitted);
    }
}

#[test]
fn a_session_that_would_not_make_room_is_closed_where_its_caller_is_none_any_more() {
    for known in [true, false] {
        let mut table: Table<(), u64> = Table::new(Caps { per_owner: 1, ..CAPS });
        let session = open(&mut table, 1, "a", 0);
        let mut place = table.reserve(&"alice".into(), "a").unwrap();
        let Replacing { down, .. } = table.replace(&mut place).unwrap();
        let callers = if known {
            HashSet::from(["alice".into()])
        } else {
            HashSet::new()
        };
        assert_eq!(table.retain(callers).0, 0, "it has ended already");
        let effects = table.reopen(down, SECOND).unwrap();
        match effects.as_slice() {
            [] if known => drop(turn(&mut table, &session)),
            [Effect::TearDown(down)] if !known => assert_eq!(down.session, session),
            other => panic!("{known}: {other:?}"),
        }
    }
}
