//! What an audit line keeps of advice (spec 30 §13.3), as plain data that serialises under the names of the line.

use plimsoll_grants::profiles::{Audience, Retention};
use serde::Serialize;

use crate::finding::{Class, Cost, Finding, Replacement};

/// The attributes advice adds to an audit line. Serialises as an object with the line's own names, in its order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AuditAdvice {
    /// `operator` or `caller`.
    pub advice: &'static str,
    /// `aggregate` or `detailed`.
    pub advice_retention: &'static str,
    /// How many findings.
    pub advice_findings: u64,
    /// Those the agent can act on.
    pub advice_agent_fixable: u64,
    /// Those whose declared route is not granted.
    pub advice_ungranted_routes: u64,
    /// Those with a candidate.
    pub advice_candidate_routes: u64,
    /// Sum over all findings.
    pub advice_extra_calls: u64,
    /// Sum over all findings, in milliseconds, cut once.
    pub advice_added_latency_ms: u64,
    /// Sum over all findings.
    pub advice_bytes_moved: u64,
    /// With `detailed` only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advice_finding_details: Option<Vec<FindingDetails>>,
}

/// One finding on an audit line; what is empty or 0 is left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "the members of the audit line, named there")]
pub struct FindingDetails {
    pub pattern: &'static str,
    pub severity: &'static str,
    pub remedy: &'static str,
    pub method: &'static str,
    pub route: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub detail: String,
    pub agent_fixable: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suggested_method: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suggested_route: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grant_route_method: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grant_route: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub candidate_method: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub candidate_route: Option<String>,
    #[serde(skip_serializing_if = "is_zero")]
    pub extra_calls: u64,
    #[serde(skip_serializing_if = "is_zero")]
    pub added_latency_ms: u64,
    #[serde(skip_serializing_if = "is_zero")]
    pub bytes_moved: u64,
}

/// The attributes of a run's findings; `None` when there is no finding, or the profile keeps or wants none.
pub fn audit(findings: &[Finding], audience: Audience, retention: Retention) -> Option<AuditAdvice> {
    if findings.is_empty() || audience == Audience::Off || retention == Retention::None {
        return None;
    }
    let of_class = |class| findings.iter().filter(|finding| finding.class() == class).count() as u64;
    let cost = findings
        .iter()
        .fold(Cost::default(), |sum, finding| sum.plus(finding.cost));
    Some(AuditAdvice {
        advice: audience.as_str(),
        advice_retention: retention.as_str(),
        advice_findings: findings.len() as u64,
        advice_agent_fixable: of_class(Class::AgentFixable),
        advice_ungranted_routes: of_class(Class::GrantRoute),
        advice_candidate_routes: of_class(Class::Candidate),
        advice_extra_calls: cost.extra_calls,
        advice_added_latency_ms: cost.added_latency_ms(),
        advice_bytes_moved: cost.bytes_moved,
        advice_finding_details: (retention == Retention::Detailed).then(|| findings.iter().map(details).collect()),
    })
}

fn details(finding: &Finding) -> FindingDetails {
    let mut details = FindingDetails {
        pattern: finding.pattern.as_str(),
        severity: finding.severity.as_str(),
        remedy: finding.remedy().as_str(),
        method: finding.route.method().as_str(),
        route: finding.route.path().to_owned(),
        detail: finding.detail.clone(),
        agent_fixable: finding.class() == Class::AgentFixable,
        extra_calls: finding.cost.extra_calls,
        added_latency_ms: finding.cost.added_latency_ms(),
        bytes_moved: finding.cost.bytes_moved,
        ..FindingDetails::default()
    };
    let (method, route, replacement) = match &finding.replacement {
        Replacement::Suggested(route) => (&mut details.suggested_method, &mut details.suggested_route, route),
        Replacement::GrantRoute(route) => (&mut details.grant_route_method, &mut details.grant_route, route),
        Replacement::Candidate(route) => (&mut details.candidate_method, &mut details.candidate_route, route),
        Replacement::None => return details,
    };
    *method = Some(replacement.method().as_str());
    *route = Some(replacement.path().to_owned());
    details
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
const fn is_zero(number: &u64) -> bool {
    *number == 0
}
