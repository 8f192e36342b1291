//! Placement under crashes, partitions and slow nodes: 20 daemons, 10,000 calls, and not one run twice.
//!
//! `benches/run placement` is the same with 1,000 daemons and 1,000,000 calls.

use plimsoll_fleet::{CallerRule, DaemonRule, Plan, simulate};

/// Decides the histories below; any other number gives others.
const SEED: u64 = 20_261_130;

#[test]
fn ten_thousand_calls_to_twenty_daemons_run_once_at_most() {
    let report = simulate(&Plan::small(SEED)).unwrap();
    assert!(report.holds(), "{report}");
    assert_eq!((report.daemons, report.runs), (20, 10_000));
    let (tally, faults) = (report.tally, report.faults);
    assert_eq!(tally.results + tally.refused + tally.may_have_run, 10_000, "{report}");
    // A history in which nothing goes wrong proves nothing.
    for seen in [
        tally.moved,
        tally.full,
        tally.homeless,
        tally.lost_answers,
        tally.may_have_run - tally.lost_answers,
    ] {
        assert!(seen >= 10, "{report}");
    }
    for seen in [
        faults.crashes,
        faults.partitions,
        faults.held,
        faults.slow,
        faults.fallen,
    ] {
        assert!(seen >= 5, "{report}");
    }
    assert!(tally.results >= 8_000, "{report}");
}

#[test]
fn a_seed_decides_the_whole_history() {
    let history = |seed| {
        let plan = Plan {
            runs: 2_000,
            ..Plan::small(seed)
        };
        simulate(&plan).unwrap().fingerprint
    };
    assert_eq!(history(SEED), history(SEED));
    assert_ne!(history(SEED), history(SEED + 1));
}

#[test]
fn a_caller_that_sends_an_unmarked_error_again_makes_runs_happen_twice() {
    let plan = Plan {
        runs: 2_000,
        callers: CallerRule::RetriesUnmarked,
        ..Plan::small(SEED)
    };
    let report = simulate(&plan).unwrap();
    assert!(!report.holds() && report.tally.doubles > 0, "{report}");
}

#[test]
fn a_daemon_that_marks_what_ran_makes_runs_happen_twice() {
    let plan = Plan {
        runs: 2_000,
        daemons: DaemonRule::MarksLostRuns,
        ..Plan::small(SEED)
    };
    let report = simulate(&plan).unwrap();
    assert!(!report.holds() && report.tally.doubles > 0, "{report}");
}
