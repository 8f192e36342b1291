//! Advice that a profile shares with its callers: what a run could have asked more cheaply.

use plimsoll_core::AdviceFinding;

use crate::words::visible;

/// One line for each finding: the pattern, how much it matters, what is known, and the route to call instead where one is
/// granted.
pub(crate) fn lines(findings: &[AdviceFinding]) -> Vec<String> {
    findings.iter().map(line).collect()
}

fn line(finding: &AdviceFinding) -> String {
    let AdviceFinding {
        pattern,
        severity,
        detail,
        suggested_method,
        suggested_route,
        ..
    } = finding;
    let instead = if suggested_route.is_empty() {
        String::new()
    } else {
        format!(" Instead: {suggested_method} {suggested_route}")
    };
    format!(
        "plimsoll: advice: {}",
        visible(&format!("{pattern}, {severity}: {detail}{instead}"))
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_is_one_line_that_names_the_better_route_where_there_is_one() {
        let mut finding = AdviceFinding {
            pattern: "fan_out".to_owned(),
            severity: "low".to_owned(),
            detail: "12 calls of GET /items/*.\nMore.".to_owned(),
            suggested_method: "GET".to_owned(),
            suggested_route: "/items".to_owned(),
            ..AdviceFinding::default()
        };
        let known = "plimsoll: advice: fan_out, low: 12 calls of GET /items/*.\\u{a}More.";
        assert_eq!(lines(&[finding.clone()]), [format!("{known} Instead: GET /items")]);
        finding.suggested_route.clear();
        assert_eq!(lines(&[finding]), [known]);
        assert!(lines(&[]).is_empty());
    }
}
