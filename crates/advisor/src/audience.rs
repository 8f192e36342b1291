//! Who is told what (spec 30 §13.3).

use plimsoll_core::AdviceFinding;
use plimsoll_grants::profiles::Audience;

use crate::finding::{Finding, Replacement};

/// The findings a caller is told: those it can act on with what it is granted, and only when the profile says so.
pub fn for_caller(findings: &[Finding], audience: Audience) -> Vec<AdviceFinding> {
    if audience != Audience::Caller {
        return Vec::new();
    }
    findings.iter().filter_map(on_the_wire).collect()
}

fn on_the_wire(finding: &Finding) -> Option<AdviceFinding> {
    let Replacement::Suggested(suggested) = &finding.replacement else {
        return None;
    };
    let long = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    Some(AdviceFinding {
        pattern: finding.pattern.as_str().to_owned(),
        severity: finding.severity.as_str().to_owned(),
        remedy: finding.remedy().as_str().to_owned(),
        method: finding.route.method().as_str().to_owned(),
        route: finding.route.path().to_owned(),
        detail: finding.detail.clone(),
        suggested_method: suggested.method().as_str().to_owned(),
        suggested_route: suggested.path().to_owned(),
        extra_calls: i32::try_from(finding.cost.extra_calls).unwrap_or(i32::MAX),
        added_latency_ms: long(finding.cost.added_latency_ms()),
        bytes_moved: long(finding.cost.bytes_moved),
    })
}
