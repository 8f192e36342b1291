//! The two detectors and the router (spec 30 §13.1 and 13.2).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use plimsoll_grants::{CallRow, CallTrace, Method, Route};

use crate::finding::{Cost, Finding, Pattern, Replacement, Severity};
use crate::words::{self, Counted};

/// Fewer successful calls of one route with a `*` are no fan-out.
pub const FAN_OUT_CALLS: usize = 6;

/// Fewer successful reads with one answer size are no repetition.
pub const REPEATED_READS: usize = 4;

/// From this many calls on, a finding is of medium severity.
pub const MEDIUM_CALLS: usize = 25;

/// From this many calls on, a fan-out is of high severity.
pub const HIGH_CALLS: usize = 100;

/// What is known about the routes of a profile.
#[derive(Clone, Copy, Debug)]
pub struct Routes<'a> {
    /// What its runs may call.
    pub allow: &'a [Route],
    /// What its API is said to offer.
    pub catalog: &'a [Route],
    /// For a route of single items, the route that the operator declares to serve many of them.
    pub batch_of: &'a BTreeMap<Route, Route>,
}

/// The findings of a trace: worst first, then by pattern, then by route. A pure function of its arguments.
///
/// The findings cover disjoint rows, so their costs may be added.
pub fn detect(trace: &CallTrace, routes: Routes<'_>) -> Vec<Finding> {
    let mut groups = BTreeMap::<&Route, Vec<&CallRow>>::new();
    for row in &trace.rows {
        groups.entry(row.route()).or_default().push(row);
    }
    let mut findings = Vec::new();
    for (route, rows) in groups {
        let (good, failed): (Vec<&CallRow>, Vec<&CallRow>) = rows.into_iter().partition(|row| row.succeeded());
        let counted = Counted {
            route,
            calls: good.len() as u64,
            failed: failed.len() as u64,
            lower_bound: trace.dropped > 0,
        };
        if route.is_wildcard() {
            findings.extend(fan_out(counted, &good, routes));
        } else if route.method() == Method::Get {
            findings.extend(repeated_reads(counted, &good));
        }
    }
    // Stable: findings of one pattern and path keep the order of their methods and sizes.
    findings.sort_by(|a, b| {
        let key = |finding: &Finding| (std::cmp::Reverse(finding.severity), finding.pattern.as_str());
        key(a).cmp(&key(b)).then_with(|| a.route.path().cmp(b.route.path()))
    });
    findings
}

fn fan_out(counted: Counted<'_>, rows: &[&CallRow], routes: Routes<'_>) -> Option<Finding> {
    if rows.len() < FAN_OUT_CALLS {
        return None;
    }
    let longest = rows.iter().map(|row| row.latency).max().unwrap_or_default();
    let replacement = replacement(counted.route, routes);
    let granted = matches!(&replacement, Replacement::Candidate(parent) if routes.allow.contains(parent));
    Some(Finding {
        pattern: Pattern::FanOut,
        severity: severity(rows.len()),
        route: counted.route.clone(),
        cost: cost(rows, total(rows).saturating_sub(longest)),
        detail: words::fan_out(&counted, &replacement, granted),
        replacement,
    })
}

/// One finding a size, smallest first.
fn repeated_reads(counted: Counted<'_>, rows: &[&CallRow]) -> Vec<Finding> {
    let mut sizes = BTreeMap::<u64, Vec<&CallRow>>::new();
    for row in rows.iter().filter(|row| row.req_bytes == 0) {
        sizes.entry(row.resp_bytes).or_default().push(row);
    }
    sizes.retain(|_, rows| rows.len() >= REPEATED_READS);
    let finding = |(size, rows): (u64, Vec<&CallRow>)| {
        let counted = Counted {
            calls: rows.len() as u64,
            ..counted
        };
        let total = total(&rows);
        Finding {
            pattern: Pattern::RepeatedRead,
            severity: severity(rows.len()).min(Severity::Medium),
            route: counted.route.clone(),
            cost: cost(&rows, total.saturating_sub(share(total, rows.len()))),
            detail: words::repeated_read(&counted, size),
            replacement: Replacement::None,
        }
    };
    sizes.into_iter().map(finding).collect()
}

const fn severity(calls: usize) -> Severity {
    match calls {
        HIGH_CALLS.. => Severity::High,
        MEDIUM_CALLS.. => Severity::Medium,
        _ => Severity::Low,
    }
}

fn total(rows: &[&CallRow]) -> Duration {
    rows.iter()
        .fold(Duration::ZERO, |sum, row| sum.saturating_add(row.latency))
}

/// `total / count` in whole nanoseconds, cut.
fn share(total: Duration, count: usize) -> Duration {
    u32::try_from(count).map_or(Duration::ZERO, |count| total.checked_div(count).unwrap_or_default())
}

fn cost(rows: &[&CallRow], added_latency: Duration) -> Cost {
    Cost {
        extra_calls: rows.len().saturating_sub(1) as u64,
        added_latency,
        bytes_moved: rows.iter().fold(0, |sum: u64, row| {
            sum.saturating_add(row.req_bytes).saturating_add(row.resp_bytes)
        }),
    }
}

/// The route that may replace a fan-out of `route`. A write is never routed, whatever is declared.
fn replacement(route: &Route, routes: Routes<'_>) -> Replacement {
    if route.method() != Method::Get {
        return Replacement::None;
    }
    if let Some(batch) = routes.batch_of.get(route) {
        return if batch.method() != Method::Get {
            Replacement::None
        } else if routes.allow.contains(batch) {
            Replacement::Suggested(batch.clone())
        } else {
            Replacement::GrantRoute(batch.clone())
        };
    }
    let known: BTreeSet<&Route> = routes.allow.iter().chain(routes.catalog).collect();
    parent(route)
        .filter(|parent| known.contains(parent))
        .map_or(Replacement::None, Replacement::Candidate)
}

/// `GET /items` of `GET /items/*`.
fn parent(route: &Route) -> Option<Route> {
    let path = route.path().strip_suffix("/*")?;
    Route::new(route.method().as_str(), if path.is_empty() { "/" } else { path }).ok()
}
