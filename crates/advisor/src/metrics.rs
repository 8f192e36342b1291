//! What the metrics count of advice: labels of ours and numbers, never a route (spec 30 §11 and 13.3).

use std::collections::BTreeMap;

use plimsoll_grants::profiles::Audience;

use crate::finding::{Class, Cost, Finding, Pattern, Severity};

/// The labels of the four advice families beside `profile`; `remedy` follows from the pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MetricLabels {
    /// Label `pattern`, and through [`Pattern::remedy`] label `remedy`.
    pub pattern: Pattern,
    /// Label `severity`.
    pub severity: Severity,
    /// Label `agent_fixable`.
    pub agent_fixable: bool,
}

/// What one run adds to the series of one set of labels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MetricIncrease {
    /// For `plimsoll_advice_findings_total`.
    pub findings: u64,
    /// For the other three families.
    pub cost: Cost,
}

/// What a run adds to the metrics. Empty when the profile's advice is off; what the audit line keeps does not matter.
pub fn metrics(findings: &[Finding], audience: Audience) -> BTreeMap<MetricLabels, MetricIncrease> {
    let mut series = BTreeMap::<MetricLabels, MetricIncrease>::new();
    if audience == Audience::Off {
        return series;
    }
    for finding in findings {
        let labels = MetricLabels {
            pattern: finding.pattern,
            severity: finding.severity,
            agent_fixable: finding.class() == Class::AgentFixable,
        };
        let increase = series.entry(labels).or_default();
        increase.findings += 1;
        increase.cost = increase.cost.plus(finding.cost);
    }
    series
}
