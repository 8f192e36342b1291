//! Totals over the runs of a log: the tiles and the two tables above the runs.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use serde::Serialize;

use super::input::Run;
use crate::{Class, Severity};

/// What all runs add up to. Counts and costs come from the totals of each line, classes from the details kept on it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Totals {
    pub(crate) runs: u64,
    pub(crate) failed_runs: u64,
    pub(crate) runs_with_advice: u64,
    pub(crate) host_calls: u64,
    pub(crate) host_calls_denied: u64,
    pub(crate) host_calls_shed: u64,
    pub(crate) host_calls_dropped: u64,
    pub(crate) findings: u64,
    /// Findings whose details were kept; the four classes below add up to it.
    pub(crate) detailed_findings: u64,
    pub(crate) agent_fixable: u64,
    pub(crate) grant_route: u64,
    pub(crate) candidate: u64,
    pub(crate) no_known_route: u64,
    pub(crate) added_latency_ms: u64,
    pub(crate) extra_calls: u64,
    pub(crate) bytes_moved: u64,
}

/// The runs of one profile.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct ProfileRow {
    /// Empty for runs without a grant.
    pub(crate) profile: String,
    pub(crate) runs: u64,
    pub(crate) host_calls: u64,
    pub(crate) findings: u64,
    pub(crate) added_latency_ms: u64,
    pub(crate) extra_calls: u64,
    pub(crate) bytes_moved: u64,
}

/// The findings of one pattern.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct PatternRow {
    pub(crate) pattern: String,
    pub(crate) findings: u64,
    pub(crate) worst_severity: Severity,
    pub(crate) added_latency_ms: u64,
    pub(crate) extra_calls: u64,
    pub(crate) bytes_moved: u64,
}

/// Adds up all runs.
pub(crate) fn totals(runs: &[Run]) -> Totals {
    let mut totals = Totals::default();
    for run in runs {
        totals.runs += 1;
        totals.failed_runs += u64::from(run.failed);
        totals.runs_with_advice += u64::from(!run.advice.is_empty());
        add(&mut totals.host_calls, run.host_calls);
        add(&mut totals.host_calls_denied, run.host_calls_denied);
        add(&mut totals.host_calls_shed, run.host_calls_shed);
        add(&mut totals.host_calls_dropped, run.host_calls_dropped);
        add(&mut totals.findings, run.advice_findings);
        add(&mut totals.added_latency_ms, run.advice_added_latency_ms);
        add(&mut totals.extra_calls, run.advice_extra_calls);
        add(&mut totals.bytes_moved, run.advice_bytes_moved);
        for finding in &run.findings {
            totals.detailed_findings += 1;
            *match finding.class {
                Class::AgentFixable => &mut totals.agent_fixable,
                Class::GrantRoute => &mut totals.grant_route,
                Class::Candidate => &mut totals.candidate,
                Class::NoKnownRoute => &mut totals.no_known_route,
            } += 1;
        }
    }
    totals
}

/// One row a profile: most modelled latency first, then most findings, then by name.
pub(crate) fn profiles(runs: &[Run]) -> Vec<ProfileRow> {
    let mut rows = BTreeMap::<&str, ProfileRow>::new();
    for run in runs {
        let row = rows.entry(&run.grant_profile).or_default();
        row.runs += 1;
        add(&mut row.host_calls, run.host_calls);
        add(&mut row.findings, run.advice_findings);
        add(&mut row.added_latency_ms, run.advice_added_latency_ms);
        add(&mut row.extra_calls, run.advice_extra_calls);
        add(&mut row.bytes_moved, run.advice_bytes_moved);
    }
    let mut rows: Vec<ProfileRow> = rows
        .into_iter()
        .map(|(name, row)| ProfileRow {
            profile: name.to_owned(),
            ..row
        })
        .collect();
    // The sort is stable and the map was in the order of names.
    rows.sort_by_key(|row| Reverse((row.added_latency_ms, row.findings)));
    rows
}

/// One row a pattern: most findings first, then by name.
pub(crate) fn patterns(runs: &[Run]) -> Vec<PatternRow> {
    let mut rows = BTreeMap::<&str, PatternRow>::new();
    for finding in runs.iter().flat_map(|run| &run.findings) {
        let row = rows.entry(&finding.pattern).or_insert_with(|| PatternRow {
            pattern: finding.pattern.clone(),
            findings: 0,
            worst_severity: Severity::Info,
            added_latency_ms: 0,
            extra_calls: 0,
            bytes_moved: 0,
        });
        row.findings += 1;
        row.worst_severity = row.worst_severity.max(Severity::of_label(&finding.severity));
        add(&mut row.added_latency_ms, finding.added_latency_ms);
        add(&mut row.extra_calls, finding.extra_calls);
        add(&mut row.bytes_moved, finding.bytes_moved);
    }
    let mut rows: Vec<PatternRow> = rows.into_values().collect();
    rows.sort_by_key(|row| Reverse(row.findings));
    rows
}

/// A log can hold any number; a total past the largest stays there.
fn add(total: &mut u64, amount: u64) {
    *total = total.saturating_add(amount);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::input::LoggedFinding;

    fn run(profile: &str, latency: u64, findings: u64) -> Run {
        Run {
            grant_profile: profile.to_owned(),
            host_calls: 10,
            advice_findings: findings,
            advice_added_latency_ms: latency,
            ..Run::default()
        }
    }

    #[test]
    fn profiles_are_ordered_by_latency_then_findings_then_name() {
        let runs = [
            run("d", 5, 1),
            run("c", 9, 1),
            run("b", 5, 2),
            run("a", 5, 1),
            run("", 0, 0),
            run("c", 1, 1),
        ];
        let rows = profiles(&runs);
        let names: Vec<&str> = rows.iter().map(|row| row.profile.as_str()).collect();
        assert_eq!(names, ["c", "b", "a", "d", ""]);
        assert_eq!(
            (rows[0].runs, rows[0].added_latency_ms, rows[0].host_calls),
            (2, 10, 20)
        );
    }

    #[test]
    fn patterns_are_ordered_by_count_then_name_and_keep_the_worst_severity() {
        let finding = |pattern: &str, severity: &str| LoggedFinding {
            pattern: pattern.to_owned(),
            severity: severity.to_owned(),
            ..LoggedFinding::default()
        };
        let mut one = run("a", 0, 0);
        one.findings = vec![
            finding("repeated_read", "low"),
            finding("sequential_calls", "loud"),
            finding("fan_out", "medium"),
            finding("fan_out", "high"),
            finding("fan_out", "info"),
        ];
        let rows = patterns(&[one]);
        let seen: Vec<_> = rows
            .iter()
            .map(|row| (row.pattern.as_str(), row.findings, row.worst_severity))
            .collect();
        assert_eq!(
            seen,
            [
                ("fan_out", 3, Severity::High),
                ("repeated_read", 1, Severity::Low),
                ("sequential_calls", 1, Severity::Info)
            ]
        );
    }

    #[test]
    fn totals_come_from_the_lines_and_classes_from_the_details() {
        let mut detailed = run("a", 7, 2);
        detailed.advice = "operator".to_owned();
        detailed.advice_agent_fixable = 9;
        detailed.findings = [Class::AgentFixable, Class::NoKnownRoute]
            .map(|class| LoggedFinding {
                class,
                extra_calls: 1_000,
                ..LoggedFinding::default()
            })
            .to_vec();
        let mut aggregate = run("b", u64::MAX, 5);
        aggregate.advice = "caller".to_owned();
        aggregate.failed = true;
        let totals = totals(&[detailed, aggregate, run("", 0, 0)]);
        let expected = Totals {
            runs: 3,
            failed_runs: 1,
            runs_with_advice: 2,
            host_calls: 30,
            findings: 7,
            detailed_findings: 2,
            agent_fixable: 1,
            no_known_route: 1,
            added_latency_ms: u64::MAX,
            ..Totals::default()
        };
        assert_eq!(totals, expected);
    }
}
