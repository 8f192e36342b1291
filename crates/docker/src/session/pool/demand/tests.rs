use plimsoll_guest_link::messages::Language::{JavaScript, Python};
use proptest::prelude::*;

use super::*;

fn set(languages: &[Language]) -> Languages {
    languages.iter().copied().collect()
}

fn both() -> Languages {
    set(&[JavaScript, Python])
}

fn close(one: f64, other: f64) -> bool {
    (one - other).abs() < 1e-9
}

#[test]
fn a_hint_counts_as_far_as_there_are_interpreters_and_an_empty_one_is_all() {
    let demand = Demand::new(2, set(&[JavaScript]));
    assert_eq!(demand.kind([]), set(&[JavaScript]));
    assert_eq!(demand.kind([Python]), set(&[JavaScript]));
    assert_eq!(demand.kind([Python, JavaScript]), set(&[JavaScript]));
    assert_eq!(Demand::new(2, both()).kind([Python]), set(&[Python]));
}

#[test]
fn up_to_four_members_are_all_of_one_kind_whatever_is_asked_for() {
    for size in 1..=4 {
        let mut demand = Demand::new(size, both());
        for _ in 0..1000 {
            demand.opened(&set(&[Python]));
        }
        assert!(close(demand.share(&both()), f64::from(size)));
        assert_eq!(demand.missing(&BTreeMap::new()), both());
        let full = BTreeMap::from([(both(), size)]);
        assert_eq!(demand.too_many(&full), None);
    }
}

#[test]
fn one_open_counts_a_sixteenth_at_most_and_less_in_a_larger_pool() {
    for (size, one) in [(5, 1.0 / 20.0), (8, 1.0 / 32.0), (100, 1.0 / 400.0)] {
        let mut demand = Demand::new(size, both());
        demand.opened(&set(&[Python]));
        assert!(close(demand.share(&set(&[Python])), one * f64::from(size)), "{size}");
        assert!(close(demand.share(&both()), (1.0 - one) * f64::from(size)), "{size}");
        assert!(close(demand.share(&set(&[JavaScript])), 0.0));
    }
}

#[test]
fn a_kind_that_is_asked_for_no_more_is_forgotten() {
    let mut demand = Demand::new(8, both());
    // (1 - 1/32)^n < 1/128
    for _ in 0..154 {
        demand.opened(&set(&[Python]));
    }
    assert_eq!(demand.weights.keys().collect::<Vec<_>>(), [&set(&[Python])]);
    assert!(close(demand.share(&set(&[Python])), 8.0));
}

#[test]
fn the_kind_furthest_below_its_share_is_made_next() {
    let mut demand = Demand::new(8, both());
    assert_eq!(demand.missing(&BTreeMap::new()), both());
    for _ in 0..22 {
        demand.opened(&set(&[Python]));
    }
    // Python's share is 4.02, that of both 3.98.
    assert_eq!(demand.missing(&BTreeMap::new()), set(&[Python]));
    assert_eq!(demand.missing(&BTreeMap::from([(set(&[Python]), 1)])), both());
    assert_eq!(
        demand.missing(&BTreeMap::from([(both(), 4), (set(&[Python]), 3)])),
        set(&[Python])
    );
}

#[test]
fn one_gives_way_when_the_shelf_is_almost_two_off_and_its_kind_is_hardly_asked_for() {
    let python = set(&[Python]);
    let held = BTreeMap::from([(both(), 8)]);
    let mut demand = Demand::new(8, both());
    let mut opens = 0;
    while demand.too_many(&held).is_none() {
        demand.opened(&python);
        opens += 1;
    }
    // Long past the distance, the kind's part of the demand is what held it: (1 - 1/32)^44 < 1/4.
    assert_eq!(opens, 44);
    assert!(demand.part(&both()) < IN_DEMAND);
    // A shelf that is right stays.
    assert_eq!(
        demand.too_many(&BTreeMap::from([(both(), 2), (python.clone(), 6)])),
        None
    );
    // One of eight is too many and missing by less than 7/8 each as long as (1 - 1/32)^n > 1/64.
    let almost = BTreeMap::from([(both(), 1), (python.clone(), 7)]);
    while demand.too_many(&almost).is_none() {
        demand.opened(&python);
        opens += 1;
    }
    assert_eq!(opens, 131);
}

fn kind() -> impl Strategy<Value = Languages> {
    prop_oneof![Just(set(&[JavaScript])), Just(set(&[Python])), Just(both())]
}

/// A shelf of at most `size` members.
fn held(size: u32) -> impl Strategy<Value = BTreeMap<Languages, u32>> {
    prop::collection::vec(kind(), 0..=usize::try_from(size).unwrap()).prop_map(|kinds| {
        let mut held = BTreeMap::new();
        for kind in kinds {
            *held.entry(kind).or_default() += 1;
        }
        held
    })
}

fn asked(size: u32, opens: &[Languages]) -> Demand {
    let mut demand = Demand::new(size, both());
    for kind in opens {
        demand.opened(kind);
    }
    demand
}

proptest! {
    #[test]
    fn shares_are_the_whole_pool(size in 1_u32..64, opens in prop::collection::vec(kind(), 0..300)) {
        let demand = asked(size, &opens);
        let whole: f64 = demand.weights.keys().map(|kind| demand.share(kind)).sum();
        prop_assert!((whole - f64::from(size)).abs() < 1e-6);
        let last = opens.last().cloned().unwrap_or_else(both);
        prop_assert!(size < KINDS_FROM || demand.share(&last) > 0.0);
    }

    #[test]
    fn what_is_made_next_is_missing(
        (size, held) in (5_u32..20).prop_flat_map(|size| (Just(size), held(size - 1))),
        opens in prop::collection::vec(kind(), 0..200),
    ) {
        let demand = asked(size, &opens);
        let next = demand.missing(&held);
        let has = held.get(&next).copied().unwrap_or_default();
        prop_assert!(demand.share(&next) > f64::from(has));
    }

    #[test]
    fn moves_come_to_an_end_and_each_brings_the_shelf_nearer(
        (size, held) in (5_u32..20).prop_flat_map(|size| (Just(size), held(size))),
        opens in prop::collection::vec(kind(), 0..200),
    ) {
        let demand = asked(size, &opens);
        let far = |held: &BTreeMap<Languages, u32>| -> f64 {
            let kinds: BTreeSet<&Languages> = demand.weights.keys().chain(held.keys()).collect();
            let off = |kind| demand.share(kind) - f64::from(held.get(kind).copied().unwrap_or_default());
            kinds.into_iter().map(|kind| off(kind).powi(2)).sum()
        };
        let mut held = held;
        while held.values().sum::<u32>() < size {
            *held.entry(demand.missing(&held)).or_default() += 1;
        }
        let mut moves = 0;
        while let Some(kind) = demand.too_many(&held) {
            let before = far(&held);
            let left = held.get_mut(&kind).unwrap();
            *left -= 1;
            *held.entry(demand.missing(&held)).or_default() += 1;
            prop_assert!(far(&held) < before);
            moves += 1;
            prop_assert!(moves <= size);
        }
    }
}
