use std::collections::BTreeMap;
use std::ffi::OsString;
use std::sync::atomic::{AtomicU64, Ordering};

use plimsoll_core::{Code, Permit, Reason};
use proptest::prelude::*;

use super::*;

/// A clock the test turns.
#[derive(Clone, Default)]
struct Turned(Arc<AtomicU64>);

impl Turned {
    fn advance(&self, by: Duration) {
        self.0
            .fetch_add(u64::try_from(by.as_nanos()).unwrap(), Ordering::SeqCst);
    }
}

impl Clock for Turned {
    fn now(&self) -> Duration {
        Duration::from_nanos(self.0.load(Ordering::SeqCst))
    }
}

fn limits(max_concurrent: u32, per_key_concurrent: u32, rate_per_min: u64, rate_burst: u64) -> Limits {
    Limits {
        max_concurrent,
        per_key_concurrent,
        rate_per_min,
        rate_burst,
        memory: None,
    }
}

fn turned(limits: Limits) -> (Limiter, Turned) {
    let clock = Turned::default();
    (Limiter::with_clock(limits, clock.clone()), clock)
}

fn key(name: &str) -> Arc<str> {
    name.into()
}

fn read(values: &[(&str, &str)], memory_mb: u64, on_host: bool) -> Result<(Limits, Option<Clamp>), String> {
    let lookup: BTreeMap<OsString, OsString> = values.iter().map(|(name, value)| (name.into(), value.into())).collect();
    Limits::read(&lookup, memory_mb, on_host, Pools::default()).map_err(|error| error.to_string())
}

#[test]
fn the_third_run_of_two_slots_is_refused_and_spends_no_token() {
    let (limiter, _) = turned(limits(2, 0, 60, 3));
    let (a, b, c) = (key("a"), key("b"), key("c"));
    let first = limiter.acquire(&a).unwrap();
    let _second = limiter.acquire(&b).unwrap();
    for _ in 0..10 {
        assert_eq!(limiter.acquire(&c).unwrap_err(), Shed::AtCapacity);
    }
    drop(first);
    // c's bucket is still full: three starts, one after another.
    for _ in 0..3 {
        drop(limiter.acquire(&c).unwrap());
    }
    assert_eq!(limiter.acquire(&c).unwrap_err(), Shed::Rate);
}

#[test]
fn a_caller_at_its_cap_is_refused_while_another_is_admitted() {
    let (limiter, _) = turned(limits(4, 1, 0, 0));
    let _held = limiter.acquire(&key("a")).unwrap();
    assert_eq!(limiter.acquire(&key("a")).unwrap_err(), Shed::PerKey);
    let _other = limiter.acquire(&key("b")).unwrap();
    assert_eq!(limiter.in_flight(), 2);
}

#[test]
fn a_rate_of_60_with_burst_2_admits_two_then_one_a_second() {
    let (limiter, clock) = turned(limits(8, 0, 60, 2));
    let start = || limiter.acquire(&key("a")).map(drop);
    assert_eq!([start(), start(), start()], [Ok(()), Ok(()), Err(Shed::Rate)]);
    clock.advance(Duration::from_nanos(999_999_999));
    assert_eq!(start(), Err(Shed::Rate));
    clock.advance(Duration::from_nanos(1));
    assert_eq!([start(), start()], [Ok(()), Err(Shed::Rate)]);
}

#[test]
fn a_rate_of_0_starts_without_limit_whatever_the_burst() {
    let (limiter, _) = turned(limits(8, 0, 0, 5));
    for _ in 0..10_000 {
        limiter.acquire(&key("a")).map(drop).unwrap();
    }
}

#[test]
fn a_slot_is_free_only_when_its_last_holder_is_gone() {
    let (limiter, _) = turned(limits(1, 1, 0, 0));
    let call = Permit::new(limiter.acquire(&key("a")).unwrap());
    let sandbox = call.clone();
    drop(call);
    assert_eq!(limiter.acquire(&key("b")).unwrap_err(), Shed::AtCapacity);
    drop(sandbox);
    assert_eq!(limiter.in_flight(), 0);
    assert!(
        limiter.0.state.lock().per_key.is_empty(),
        "a caller at zero has no entry"
    );
}

#[test]
fn an_idle_bucket_is_forgotten_only_when_it_is_full_again() {
    let (limiter, clock) = turned(limits(8, 0, 1, 100));
    for _ in 0..100 {
        limiter.acquire(&key("slow")).map(drop).unwrap();
    }
    limiter.acquire(&key("other")).map(drop).unwrap();
    clock.advance(Duration::from_secs(600));
    // "other" lost one token ten minutes ago and is full; "slow" has ten of a hundred.
    limiter.acquire(&key("third")).map(drop).unwrap();
    assert_eq!(limiter.0.state.lock().buckets.len(), 2);
    let started = (0..100)
        .filter(|_| limiter.acquire(&key("slow")).map(drop).is_ok())
        .count();
    assert_eq!(started, 10);
}

#[test]
fn every_refusal_is_marked_capacity_and_tells_no_other_callers_use() {
    let mut of_256_mib = limits(7, 3, 21, 21);
    of_256_mib.memory = Some(Memory {
        per_run: 256 << 20,
        budget: None,
    });
    let (limiter, _) = turned(of_256_mib);
    for (shed, shown) in [
        (Shed::AtCapacity, None),
        (Shed::Memory, None),
        (Shed::PerKey, Some("3")),
        (Shed::PerKeyMemory, Some("each 256 MiB of it take one of 3")),
        (Shed::Rate, Some("21")),
    ] {
        let refusal = limiter.refusal(shed);
        assert_eq!(
            (refusal.code(), refusal.reason()),
            (Code::ResourceExhausted, Reason::Capacity)
        );
        assert_eq!(
            shown.is_some(),
            refusal.message().contains(|c: char| c.is_ascii_digit()),
            "{refusal}"
        );
        assert!(
            shown.is_none_or(|number| refusal.message().contains(number)),
            "{refusal}"
        );
    }
}

#[test]
fn no_slot_leaks_and_no_cap_is_passed_under_contention() {
    let limiter = Limiter::new(limits(5, 2, 0, 0));
    let admitted = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for worker in 0..8 {
            let (limiter, admitted) = (&limiter, &admitted);
            scope.spawn(move || {
                let key = key(["a", "b", "c"][worker % 3]);
                for round in 0..20_000_u32 {
                    let Ok(slot) = limiter.acquire(&key) else { continue };
                    admitted.fetch_add(1, Ordering::Relaxed);
                    let state = limiter.0.state.lock();
                    assert!(state.all.slots <= 5 && state.per_key.values().all(|own| own.slots <= 2));
                    assert_eq!(
                        state.all.slots,
                        state.per_key.values().map(|own| own.slots).sum::<u32>()
                    );
                    drop(state);
                    // Some calls leave a sandbox behind that goes on another thread's time.
                    let permit = Permit::new(slot);
                    let hold = round.is_multiple_of(3).then(|| permit.clone());
                    drop(permit);
                    drop(hold);
                }
            });
        }
    });
    assert!(admitted.into_inner() > 0);
    assert_eq!(limiter.in_flight(), 0);
    assert!(limiter.0.state.lock().per_key.is_empty());
}

#[test]
fn the_memory_budget_lowers_the_runs_in_flight_and_tells() {
    let (limits, clamp) = read(&[("SANDBOX_TOTAL_MEMORY_MB", "1024")], 0, true).unwrap();
    assert_eq!((limits.max_concurrent, limits.per_key_concurrent), (4, 2));
    assert_eq!(
        clamp,
        Some(Clamp {
            total_mb: 1024,
            per_run_mb: 256,
            pooled: 0,
            requested: 8,
            effective: 4
        })
    );
    let error = read(&[("SANDBOX_TOTAL_MEMORY_MB", "255")], 0, true).unwrap_err();
    assert!(
        error.contains("SANDBOX_TOTAL_MEMORY_MB=\"255\"") && error.contains("256"),
        "{error}"
    );
    let over = [("SANDBOX_TOTAL_MEMORY_MB", "512"), ("SANDBOX_PER_KEY_CONCURRENT", "4")];
    let error = read(&over, 256, true).unwrap_err();
    assert!(
        error.contains("SANDBOX_PER_KEY_CONCURRENT=\"4\"") && error.contains("2"),
        "{error}"
    );
    // Runs elsewhere use no memory here.
    assert_eq!(
        read(&[("SANDBOX_TOTAL_MEMORY_MB", "1")], 0, false)
            .unwrap()
            .0
            .max_concurrent,
        8
    );
    // A budget that fits all of them changes nothing.
    assert_eq!(read(&[("SANDBOX_TOTAL_MEMORY_MB", "2048")], 0, true).unwrap().1, None);
}

#[test]
fn limits_have_their_defaults_and_bounds() {
    let defaults = Limits {
        memory: Some(Memory {
            per_run: 256 << 20,
            budget: None,
        }),
        ..limits(8, 4, 30, 30)
    };
    assert_eq!(read(&[], 0, true), Ok((defaults, None)));
    assert_eq!(read(&[], 0, false), Ok((limits(8, 4, 30, 30), None)));
    assert_eq!(
        read(&[("SANDBOX_MAX_CONCURRENT", "1")], 0, true)
            .unwrap()
            .0
            .per_key_concurrent,
        1
    );
    assert_eq!(
        read(&[("SANDBOX_PER_KEY_CONCURRENT", "0")], 0, true)
            .unwrap()
            .0
            .per_key_concurrent,
        0
    );
    assert_eq!(
        read(&[("SANDBOX_RATE_PER_MIN", "0"), ("SANDBOX_RATE_BURST", "5")], 0, true)
            .unwrap()
            .0
            .rate_burst,
        5
    );
    for (name, value) in [
        ("SANDBOX_MAX_CONCURRENT", "0"),
        ("SANDBOX_MAX_CONCURRENT", "1025"),
        ("SANDBOX_MAX_CONCURRENT", "ten"),
        ("SANDBOX_TOTAL_MEMORY_MB", "-1"),
        ("SANDBOX_PER_KEY_CONCURRENT", "9"),
        ("SANDBOX_PER_KEY_CONCURRENT", "-1"),
        ("SANDBOX_RATE_PER_MIN", "-1"),
        ("SANDBOX_RATE_BURST", "1.5"),
    ] {
        let error = read(&[(name, value)], 0, true).unwrap_err();
        assert!(error.starts_with(&format!("{name}={value:?}")), "{error}");
    }
}

proptest! {
    /// Whatever the times of the starts, no window admits more than a full bucket and its refill.
    #[test]
    fn no_schedule_yields_more_tokens_than_capacity_and_refill(
        per_min in 1_u64..200,
        burst in 0_u64..50,
        steps in proptest::collection::vec((0_u64..200_000, 0..3_usize), 1..300),
    ) {
        let (limiter, clock) = turned(limits(1, 0, per_min, burst));
        let keys = [key("a"), key("b"), key("c")];
        let mut started = [0_u128; 3];
        for (ms, caller) in steps {
            clock.advance(Duration::from_millis(ms));
            if limiter.acquire(&keys[caller]).is_ok() {
                started[caller] += 1;
            }
            let capacity = u128::from(if burst == 0 { per_min } else { burst });
            let refill = clock.now().as_nanos() * u128::from(per_min) / 60_000_000_000;
            prop_assert!(started[caller] <= capacity + refill);
        }
    }

    /// A limiter that forgets idle buckets admits exactly what one that never forgets does.
    #[test]
    fn forgetting_idle_buckets_changes_no_answer(
        per_min in 1_u64..10,
        burst in 0_u64..40,
        steps in proptest::collection::vec((0_u64..400, 0..3_usize), 1..200),
    ) {
        let (limiter, clock) = turned(limits(1, 0, per_min, burst));
        let rate = Rate::new(per_min, burst).unwrap();
        let keys = [key("a"), key("b"), key("c")];
        let mut kept = [Bucket::full(rate, Duration::ZERO); 3];
        for (seconds, caller) in steps {
            clock.advance(Duration::from_secs(seconds));
            let expected = kept[caller].take(rate, clock.now());
            prop_assert_eq!(limiter.acquire(&keys[caller]).is_ok(), expected);
        }
    }

    /// Slots in use always equal the guards alive, whatever is acquired and dropped.
    #[test]
    fn slots_in_use_equal_guards_alive(
        max in 1_u32..6,
        cap in 0_u32..4,
        steps in proptest::collection::vec((any::<bool>(), 0..3_usize, any::<prop::sample::Index>()), 1..200),
    ) {
        let (limiter, _) = turned(limits(max, cap, 0, 0));
        let keys = [key("a"), key("b"), key("c")];
        let mut alive: Vec<(usize, Slot)> = Vec::new();
        for (take, caller, index) in steps {
            if take {
                let held = u32::try_from(alive.iter().filter(|(owner, _)| *owner == caller).count()).unwrap();
                let expected = if u32::try_from(alive.len()).unwrap() == max {
                    Some(Shed::AtCapacity)
                } else {
                    (cap > 0 && held == cap).then_some(Shed::PerKey)
                };
                match limiter.acquire(&keys[caller]) {
                    Ok(slot) => {
                        prop_assert_eq!(expected, None);
                        alive.push((caller, slot));
                    }
                    Err(shed) => prop_assert_eq!(Some(shed), expected),
                }
            } else if !alive.is_empty() {
                let gone = index.index(alive.len());
                alive.swap_remove(gone);
            }
            prop_assert_eq!(usize::try_from(limiter.in_flight()).unwrap(), alive.len());
        }
    }
}

#[test]
fn sandboxes_that_wait_ready_are_charged_before_the_runs() {
    let lookup: BTreeMap<OsString, OsString> = [("SANDBOX_TOTAL_MEMORY_MB".into(), "2048".into())].into();
    let fitting = |runs, sessions| {
        let pools = Pools { runs, sessions };
        Limits::read(&lookup, 256, true, pools).map(|(limits, _)| limits.max_concurrent)
    };
    assert_eq!(fitting(0, 0), Ok(8));
    assert_eq!(fitting(6, 0), Ok(2));
    assert_eq!(fitting(4, 2), Ok(2));
    assert_eq!(fitting(0, 7), Ok(1));
    for (runs, sessions, lower) in [
        (8, 0, "lower SANDBOX_READY_POOL or SANDBOX_MEMORY_MB"),
        (0, 8, "lower SANDBOX_SESSION_POOL or SANDBOX_MEMORY_MB"),
        (
            4,
            4,
            "lower SANDBOX_READY_POOL, SANDBOX_SESSION_POOL or SANDBOX_MEMORY_MB",
        ),
    ] {
        let refused = fitting(runs, sessions).unwrap_err().to_string();
        for words in ["8 sandboxes that wait ready", "at least 2304", lower] {
            assert!(refused.contains(words), "{refused}");
        }
    }
}

#[test]
fn a_session_holds_a_slot_without_a_token_and_its_calls_pay_tokens_without_a_slot() {
    let limiter = Limiter::new(limits(1, 0, 1, 1));
    let key: Arc<str> = "alice".into();
    let slot = limiter.hold(&key, 0).unwrap();
    assert_eq!(limiter.hold(&key, 0).unwrap_err(), Shed::AtCapacity);
    assert_eq!(limiter.charge(&key), Ok(()));
    assert_eq!(limiter.charge(&key), Err(Shed::Rate));
    drop(slot);
    assert_eq!(limiter.in_flight(), 0);
    drop(limiter.hold(&key, 0).unwrap());
}

/// Limits by which one run is counted as 100 bytes.
fn of_100_bytes(max_concurrent: u32, per_key_concurrent: u32, budget: Option<u64>) -> Limiter {
    let memory = Some(Memory { per_run: 100, budget });
    Limiter::new(Limits {
        memory,
        ..limits(max_concurrent, per_key_concurrent, 0, 0)
    })
}

#[test]
fn what_suspended_sessions_hold_is_counted_against_the_budget_until_they_give_it_back() {
    let limiter = of_100_bytes(2, 0, Some(200));
    let key = key("alice");
    let held = limiter.suspended(&key, 1);
    let first = limiter.acquire(&key).unwrap();
    assert_eq!(limiter.acquire(&key).unwrap_err(), Shed::Memory);
    // The session itself gives its byte back when it runs again, and one that is replaced when its successor starts.
    drop(limiter.hold(&key, held.bytes()).unwrap());
    drop(limiter.acquire_freeing(&key, held.bytes()).unwrap());
    drop(held);
    drop(limiter.acquire(&key).unwrap());
    drop(first);
    assert!(limiter.0.state.lock().per_key.is_empty());
}

#[test]
fn without_a_budget_every_whole_run_that_suspended_sessions_hold_takes_a_place() {
    let limiter = of_100_bytes(3, 0, None);
    let (alice, bob) = (key("alice"), key("bob"));
    let _own = limiter.suspended(&alice, 60);
    let other = limiter.suspended(&bob, 39);
    let slots: Vec<Slot> = (0..3).map(|_| limiter.acquire(&alice).unwrap()).collect();
    assert_eq!(limiter.acquire(&bob).unwrap_err(), Shed::AtCapacity);
    drop(slots);
    let more = limiter.suspended(&bob, 1);
    let _slots: Vec<Slot> = (0..2).map(|_| limiter.acquire(&alice).unwrap()).collect();
    assert_eq!(limiter.acquire(&alice).unwrap_err(), Shed::Memory);
    drop((other, more));
    limiter.acquire(&alice).unwrap();
}

#[test]
fn what_one_callers_sessions_hold_takes_that_callers_places_and_nobody_elses() {
    let limiter = of_100_bytes(8, 2, None);
    let (alice, bob) = (key("alice"), key("bob"));
    let first = limiter.suspended(&alice, 100);
    let one = limiter.acquire(&alice).unwrap();
    assert_eq!(limiter.acquire(&alice).unwrap_err(), Shed::PerKeyMemory);
    drop(one);
    let second = limiter.suspended(&alice, 100);
    assert_eq!(limiter.acquire(&alice).unwrap_err(), Shed::PerKeyMemory);
    let _two = [limiter.acquire(&bob).unwrap(), limiter.acquire(&bob).unwrap()];
    assert_eq!(limiter.acquire(&bob).unwrap_err(), Shed::PerKey);
    // Each of alice's sessions can run again, one after the other.
    drop(limiter.hold(&alice, second.bytes()).unwrap());
    drop(second);
    let _again = limiter.hold(&alice, first.bytes()).unwrap();
}

#[test]
fn a_session_holds_a_slot_and_its_memory_is_not_lost_when_its_caller_runs_nothing_else() {
    let limiter = of_100_bytes(2, 1, None);
    let alice = key("alice");
    let slot = limiter.acquire(&alice).unwrap();
    let held = limiter.suspended(&alice, 100);
    drop(slot);
    assert_eq!(limiter.in_flight(), 0);
    assert_eq!(limiter.acquire(&alice).unwrap_err(), Shed::PerKeyMemory);
    drop(held);
    limiter.acquire(&alice).unwrap();
}

proptest! {
    /// Whoever only ever starts when let in, and whose sessions hold at most what a run is counted as, holds less than a run
    /// more than its slots' runs; and so do all callers together.
    #[test]
    fn no_caller_holds_more_than_its_places_and_a_part(
        max in 1_u32..6,
        cap in 0_u32..4,
        steps in proptest::collection::vec((0..4_u8, 0..3_usize, any::<prop::sample::Index>(), 0_u64..=100), 1..200),
    ) {
        let limiter = of_100_bytes(max, cap, None);
        let keys = [key("a"), key("b"), key("c")];
        let mut running: Vec<(usize, Slot)> = Vec::new();
        let mut suspended: Vec<(usize, SuspendedMemory)> = Vec::new();
        for (step, caller, index, bytes) in steps {
            match step {
                0 => running.extend(limiter.acquire(&keys[caller]).map(|slot| (caller, slot))),
                1 if !running.is_empty() => {
                    let (caller, slot) = running.swap_remove(index.index(running.len()));
                    suspended.push((caller, limiter.suspended(&keys[caller], bytes)));
                    drop(slot);
                }
                2 if !suspended.is_empty() => {
                    let at = index.index(suspended.len());
                    let (caller, held) = (suspended[at].0, suspended[at].1.bytes());
                    if let Ok(slot) = limiter.hold(&keys[caller], held) {
                        suspended.swap_remove(at);
                        running.push((caller, slot));
                    }
                }
                3 if !suspended.is_empty() => {
                    suspended.swap_remove(index.index(suspended.len()));
                }
                _ => {}
            }
            let held = |of: Option<usize>| -> u64 {
                let of_caller = |caller: usize| of.is_none_or(|one| one == caller);
                let slots = running.iter().filter(|(caller, _)| of_caller(*caller)).count() as u64;
                let bytes: u64 = suspended.iter().filter(|(caller, _)| of_caller(*caller)).map(|(_, held)| held.bytes()).sum();
                slots * 100 + bytes
            };
            prop_assert!(held(None) < u64::from(max) * 100 + 100);
            for caller in 0..3 {
                prop_assert!(cap == 0 || held(Some(caller)) < u64::from(cap) * 100 + 100);
            }
        }
        drop((running, suspended));
        prop_assert_eq!(limiter.0.state.lock().all, Usage::default());
        prop_assert!(limiter.0.state.lock().per_key.is_empty());
    }
}
