use plimsoll_guest_link::messages::Language::{self, JavaScript, Python};
use proptest::prelude::*;

use super::*;

fn set(languages: &[Language]) -> Languages {
    languages.iter().copied().collect()
}

fn both() -> Languages {
    set(&[JavaScript, Python])
}

/// A shelf and the clock it is told.
struct Tended {
    shelf: Shelf<u32>,
    now: Instant,
    made: u32,
}

impl Tended {
    fn of(size: u32) -> Self {
        Self {
            shelf: Shelf::new(size, both()),
            now: Instant::now(),
            made: 0,
        }
    }

    /// Puts a member of this kind, a second younger than the one before; they are numbered from 1.
    fn put(&mut self, warm: &[Language]) {
        self.made += 1;
        self.now += Duration::from_secs(1);
        self.shelf.put(Waiting {
            member: self.made,
            warm: set(warm),
            born: self.now,
        });
    }

    fn take(&mut self, kind: &[Language]) -> Option<u32> {
        self.shelf.take(&set(kind)).map(|taken| taken.member)
    }
}

#[test]
fn a_session_gets_most_of_its_languages_then_fewest_others_then_the_oldest() {
    let mut one = Tended::of(9);
    one.put(&[JavaScript]);
    one.put(&[JavaScript, Python]);
    one.put(&[Python]);
    one.put(&[Python]);
    one.put(&[]);
    assert_eq!(one.take(&[Python]), Some(3));
    assert_eq!(one.take(&[Python]), Some(4));
    // None is only Python's: both are better than neither.
    assert_eq!(one.take(&[Python]), Some(2));
    // Nothing warm of use: fewest others.
    assert_eq!(one.take(&[Python]), Some(5));
    assert_eq!(one.take(&[Python]), Some(1));
    assert_eq!(one.take(&[Python]), None);
}

#[test]
fn a_session_of_both_languages_prefers_the_member_that_has_both() {
    let mut one = Tended::of(9);
    one.put(&[JavaScript]);
    one.put(&[JavaScript, Python]);
    assert_eq!(one.take(&[JavaScript, Python]), Some(2));
}

#[test]
fn what_is_being_removed_takes_its_place_until_it_is_gone() {
    let mut one = Tended::of(2);
    one.put(&[JavaScript, Python]);
    one.put(&[JavaScript, Python]);
    assert_eq!(one.shelf.missing(), None);
    assert_eq!(one.shelf.let_go(|waiting| waiting.member != 1).len(), 1);
    assert_eq!(one.shelf.missing(), None);
    one.shelf.gone();
    assert_eq!(one.shelf.missing(), Some(both()));
    // So does one that was taken and found unfit; one that was taken by a session does not.
    one.put(&[JavaScript, Python]);
    assert!(one.take(&[]).is_some());
    one.shelf.unfit();
    assert_eq!(one.shelf.missing(), None);
    one.shelf.gone();
    assert!(one.take(&[]).is_some());
    assert_eq!((one.shelf.len(), one.shelf.missing()), (0, Some(both())));
}

/// A full shelf of both languages each, in a pool of which only Python is asked for.
fn outdated() -> Tended {
    let mut one = Tended::of(8);
    for _ in 0..8 {
        one.put(&[JavaScript, Python]);
    }
    for _ in 0..100 {
        one.shelf.demand().opened(&set(&[Python]));
    }
    one
}

#[test]
fn the_oldest_of_a_kind_nobody_asks_for_gives_way_once_a_minute() {
    let mut one = outdated();
    let now = one.now;
    assert_eq!(one.shelf.let_one_go(now).map(|gone| gone.member), Some(1));
    // As long as it goes, or its successor is not there, nothing else does.
    let later = now + BETWEEN_MOVES;
    assert!(one.shelf.let_one_go(later).is_none());
    one.shelf.gone();
    assert!(one.shelf.let_one_go(later).is_none());
    assert_eq!(one.shelf.missing(), Some(set(&[Python])));
    one.put(&[Python]);
    assert!(one.shelf.let_one_go(later - Duration::from_millis(1)).is_none());
    assert_eq!(one.shelf.let_one_go(later).map(|gone| gone.member), Some(2));
}

#[test]
fn nothing_gives_way_while_a_member_is_missing() {
    let mut one = outdated();
    assert!(one.take(&[Python]).is_some());
    let now = one.now;
    assert!(one.shelf.let_one_go(now).is_none());
    assert_eq!(one.shelf.missing(), Some(set(&[Python])));
}

/// What can happen to a pool.
#[derive(Clone, Debug)]
enum Event {
    Opened(Languages),
    Taken(Languages),
    TakenAndUnfit(Languages),
    Made,
    Gone,
    /// Time passes and members up to this age are kept.
    Look(u64, u64),
}

fn kind() -> impl Strategy<Value = Languages> {
    prop_oneof![Just(set(&[JavaScript])), Just(set(&[Python])), Just(both())]
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => kind().prop_map(Event::Opened),
        3 => kind().prop_map(Event::Taken),
        1 => kind().prop_map(Event::TakenAndUnfit),
        6 => Just(Event::Made),
        3 => Just(Event::Gone),
        2 => (1_u64..200, 100_u64..3600).prop_map(|(passed, kept)| Event::Look(passed, kept)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn never_more_than_the_size_never_one_to_two_and_nothing_lost(
        size in 1_u32..12,
        events in prop::collection::vec(event(), 1..120),
    ) {
        let mut one = Tended::of(size);
        let (mut going, mut given, mut moves) = (0_usize, std::collections::BTreeSet::new(), Vec::new());
        for event in events {
            match event {
                Event::Opened(kind) => one.shelf.demand().opened(&kind),
                Event::Taken(kind) => {
                    let before: Vec<Languages> = one.shelf.waiting.iter().map(|waiting| waiting.warm.clone()).collect();
                    if let Some(taken) = one.shelf.take(&kind) {
                        prop_assert!(given.insert(taken.member));
                        let warm = |languages: &Languages| languages.intersection(&kind).count();
                        prop_assert!(before.iter().all(|other| warm(other) <= warm(&taken.warm)));
                    } else {
                        prop_assert!(before.is_empty());
                    }
                }
                Event::TakenAndUnfit(kind) => if let Some(taken) = one.shelf.take(&kind) {
                    prop_assert!(given.insert(taken.member));
                    one.shelf.unfit();
                    going += 1;
                },
                Event::Made => {
                    let short = one.shelf.len() + going < usize::try_from(size).unwrap();
                    let missing = one.shelf.missing();
                    prop_assert_eq!(missing.is_some(), short);
                    if let Some(warm) = missing {
                        prop_assert!(size > 4 || warm == both());
                        one.put(&Vec::from_iter(warm));
                    }
                }
                Event::Gone => {
                    one.shelf.gone();
                    going = going.saturating_sub(1);
                }
                Event::Look(passed, kept) => {
                    one.now += Duration::from_secs(passed);
                    let now = one.now;
                    let gone = one.shelf.let_go(|waiting| now - waiting.born <= Duration::from_secs(kept));
                    going += gone.len();
                    for old in gone {
                        prop_assert!(given.insert(old.member));
                    }
                    if let Some(moved) = one.shelf.let_one_go(now) {
                        prop_assert!(size > 4 && given.insert(moved.member));
                        prop_assert!(one.shelf.waiting.iter().all(|other| other.warm != moved.warm || other.born >= moved.born));
                        moves.push(now);
                        going += 1;
                    }
                }
            }
            prop_assert!(one.shelf.len() + going <= usize::try_from(size).unwrap());
            prop_assert_eq!(one.shelf.len() + given.len(), usize::try_from(one.made).unwrap());
        }
        prop_assert!(moves.windows(2).all(|pair| pair[1] - pair[0] >= BETWEEN_MOVES));
    }
}
