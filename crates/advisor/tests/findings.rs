//! What the detectors find, where a finding is sent, and what it can hold (spec 30 §13 and §14, cases 46 to 50).

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::time::Duration;

use plimsoll_advisor::{
    Class, Cost, Finding, MetricIncrease, MetricLabels, Pattern, Replacement, Routes, Severity, advise, audit, detect,
    for_caller, metrics, prompt,
};
use plimsoll_grants::profiles::{Audience, Profile, Retention};
use plimsoll_grants::{CallRow, CallTrace, Grant, GrantSpec, Measured, Route};
use proptest::prelude::*;

/// Calls of one route that went alike.
#[derive(Clone, Copy, Debug)]
struct Calls {
    route: &'static str,
    number: usize,
    call: Measured,
}

/// `number` answered reads of `route`: 5 ms and 512 bytes each.
const fn calls(number: usize, route: &'static str) -> Calls {
    Calls {
        route,
        number,
        call: Measured {
            status: 200,
            delivered: true,
            req_bytes: 0,
            resp_bytes: 512,
            latency: Duration::from_millis(5),
        },
    }
}

impl Calls {
    const fn status(mut self, status: u16) -> Self {
        self.call.status = status;
        self
    }

    const fn undelivered(mut self) -> Self {
        self.call.delivered = false;
        self
    }

    const fn sizes(mut self, req_bytes: u64, resp_bytes: u64) -> Self {
        self.call.req_bytes = req_bytes;
        self.call.resp_bytes = resp_bytes;
        self
    }
}

fn grant(allow: &[&str]) -> Grant {
    let mut spec = GrantSpec::new("https://api.example.com");
    spec.allow = allow
        .iter()
        .map(|line| line.split_once(' ').unwrap())
        .map(|(method, path)| (method.to_owned(), path.to_owned()))
        .collect();
    spec.validate().unwrap()
}

fn trace_of(grant: &Grant, calls: &[Calls]) -> CallTrace {
    let mut rows = Vec::new();
    for one in calls {
        let wanted = Route::parse_line(one.route).unwrap();
        let allowed = grant.allowed().find(|allowed| *allowed.route() == wanted).unwrap();
        for _ in 0..one.number {
            let seq = u32::try_from(rows.len() + 1).unwrap();
            rows.push(CallRow::new(seq, allowed.clone(), one.call));
        }
    }
    CallTrace {
        rows,
        ..CallTrace::default()
    }
}

fn route(line: &str) -> Route {
    Route::parse_line(line).unwrap()
}

fn lines(lines: &[&str]) -> Vec<Route> {
    lines.iter().map(|line| route(line)).collect()
}

/// The findings of `calls` when exactly their routes and `also` are allowed.
fn found_with(
    calls: &[Calls],
    also: &[&str],
    catalog: &[&str],
    batch_of: &[(&str, &str)],
    dropped: u64,
) -> Vec<Finding> {
    let mut allow: Vec<&str> = calls.iter().map(|one| one.route).chain(also.iter().copied()).collect();
    allow.sort_unstable();
    allow.dedup();
    let grant = grant(&allow);
    let mut trace = trace_of(&grant, calls);
    trace.dropped = dropped;
    let batch_of: BTreeMap<Route, Route> = batch_of.iter().map(|(of, batch)| (route(of), route(batch))).collect();
    detect(
        &trace,
        Routes {
            allow: grant.allow(),
            catalog: &lines(catalog),
            batch_of: &batch_of,
        },
    )
}

fn found(calls: &[Calls]) -> Vec<Finding> {
    found_with(calls, &[], &[], &[], 0)
}

const ITEMS: &str = "GET /items/*";

#[test]
fn a_fan_out_counts_from_six_and_grows_in_severity() {
    let twelve = &found(&[calls(12, ITEMS)])[0];
    assert_eq!(
        (twelve.pattern(), twelve.severity(), twelve.remedy().as_str()),
        (Pattern::FanOut, Severity::Low, "batch")
    );
    assert_eq!(
        twelve.cost(),
        Cost {
            extra_calls: 11,
            added_latency: Duration::from_millis(55),
            bytes_moved: 12 * 512
        }
    );
    for (number, severity) in [
        (6, Severity::Low),
        (24, Severity::Low),
        (25, Severity::Medium),
        (30, Severity::Medium),
        (99, Severity::Medium),
        (100, Severity::High),
        (120, Severity::High),
    ] {
        assert_eq!(found(&[calls(number, ITEMS)])[0].severity(), severity, "{number}");
    }
    assert_eq!(found(&[calls(5, ITEMS)]), []);
    assert_eq!(found(&[calls(6, "PATCH /items/*")]).len(), 1, "any method");
    assert_eq!(
        found(&[calls(300, "POST /items"), calls(300, "PUT /items")]),
        [],
        "no star and no read"
    );
}

#[test]
fn only_successful_calls_count_and_failed_ones_are_mentioned() {
    assert_eq!(found(&[calls(8, ITEMS).status(404)]), []);
    assert_eq!(found(&[calls(8, ITEMS).undelivered()]), []);
    assert_eq!(found(&[calls(8, ITEMS).status(302)]), []);
    let mixed = &found(&[calls(8, ITEMS), calls(4, ITEMS).status(500)])[0];
    assert_eq!(mixed.cost().extra_calls, 7);
    assert!(
        mixed.detail().contains("4 more calls of this route failed"),
        "{}",
        mixed.detail()
    );
    let one = &found(&[calls(8, ITEMS), calls(1, ITEMS).status(500)])[0];
    assert!(
        one.detail().contains("1 more call of this route failed"),
        "{}",
        one.detail()
    );
    assert!(!found(&[calls(8, ITEMS)])[0].detail().contains("failed"));
}

#[test]
fn a_count_is_a_lower_bound_exactly_when_rows_were_dropped() {
    let both = [calls(12, ITEMS), calls(4, "GET /v1/config")];
    for finding in found_with(&both, &[], &[], &[], 300) {
        assert!(finding.detail().contains("at least "), "{}", finding.detail());
    }
    assert!(
        found_with(&both, &[], &[], &[], 300)[0]
            .detail()
            .contains("at least 12")
    );
    for finding in found(&both) {
        assert!(!finding.detail().contains("at least"), "{}", finding.detail());
    }
}

#[test]
fn repeated_reads_are_reads_without_a_body_that_were_answered_with_one_size() {
    const CONFIG: &str = "GET /v1/config";
    let six = &found(&[calls(6, CONFIG)])[0];
    assert_eq!((six.pattern(), six.severity()), (Pattern::RepeatedRead, Severity::Low));
    assert_eq!((six.cost().extra_calls, six.remedy().as_str()), (5, "cache"));
    assert_eq!(six.cost().added_latency, Duration::from_millis(25));
    assert_eq!(found(&[calls(200, CONFIG)])[0].severity(), Severity::Medium);
    assert_eq!(found(&[calls(3, CONFIG)]), []);
    assert_eq!(found(&[calls(4, CONFIG).status(204).sizes(0, 0)]).len(), 1);
    let with_bodies = calls(6, CONFIG).sizes(9, 512);
    assert_eq!(found(&[with_bodies]), []);
    assert_eq!(found(&[with_bodies, calls(4, CONFIG)])[0].cost().extra_calls, 3);
    let sizes = found(&[
        calls(4, CONFIG).sizes(0, 900),
        calls(4, CONFIG).sizes(0, 7),
        calls(3, CONFIG).sizes(0, 8),
    ]);
    let moved: Vec<u64> = sizes.iter().map(|finding| finding.cost().bytes_moved).collect();
    assert_eq!(moved, [28, 3_600], "one finding a size, smallest first");
    let fan_out = found(&[calls(8, ITEMS)]);
    assert_eq!((fan_out.len(), fan_out[0].pattern()), (1, Pattern::FanOut));
}

#[test]
fn the_saved_latency_of_a_repetition_is_exact_to_the_nanosecond() {
    let mut seven = calls(7, "GET /c");
    seven.call.latency = Duration::from_nanos(1_000_000_007);
    let total = 7 * 1_000_000_007;
    assert_eq!(
        found(&[seven])[0].cost().added_latency,
        Duration::from_nanos(total - total / 7)
    );
    let mixed = [seven, calls(3, "GET /c")];
    let total = total + 15_000_000;
    assert_eq!(
        found(&mixed)[0].cost().added_latency,
        Duration::from_nanos(total - total / 10)
    );
}

#[test]
fn the_worst_comes_first_then_pattern_then_route() {
    let order: Vec<String> = found(&[
        calls(4, "GET /b"),
        calls(30, "GET /z/*"),
        calls(4, "GET /a"),
        calls(30, "GET /y"),
        calls(6, "PUT /a/*"),
        calls(6, "GET /a/*"),
        calls(120, "GET /x/*"),
    ])
    .iter()
    .map(|finding| format!("{} {} {}", finding.severity(), finding.pattern(), finding.route()))
    .collect();
    assert_eq!(
        order,
        [
            "high fan_out GET /x/*",
            "medium fan_out GET /z/*",
            "medium repeated_read GET /y",
            "low fan_out GET /a/*",
            "low fan_out PUT /a/*",
            "low repeated_read GET /a",
            "low repeated_read GET /b",
        ]
    );
}

#[test]
fn a_read_fan_out_is_routed_to_at_most_one_replacement() {
    let replacement = |calls: Calls, also: &[&str], catalog: &[&str], batch_of: &[(&str, &str)]| {
        found_with(&[calls], also, catalog, batch_of, 0)[0]
            .replacement()
            .clone()
    };
    let items = calls(12, ITEMS);
    let list = route("GET /items");
    let declared = [(ITEMS, "GET /items")];
    assert_eq!(
        replacement(items, &["GET /items"], &[], &[]),
        Replacement::Candidate(list.clone())
    );
    assert_eq!(
        replacement(items, &[], &["GET /items"], &[]),
        Replacement::Candidate(list.clone())
    );
    assert_eq!(
        replacement(items, &["GET /items"], &[], &declared),
        Replacement::Suggested(list.clone())
    );
    assert_eq!(
        replacement(items, &[], &["GET /items"], &declared),
        Replacement::GrantRoute(list)
    );
    let batch_get = [(ITEMS, "GET /items:batchGet")];
    assert_eq!(
        replacement(items, &["GET /items"], &[], &batch_get),
        Replacement::GrantRoute(route("GET /items:batchGet"))
    );
    assert_eq!(
        replacement(items, &["POST /items"], &["PUT /items", "GET /item"], &[]),
        Replacement::None
    );
    let state = calls(12, "GET /l/*/state");
    let states = [("GET /l/*/state", "GET /l")];
    assert_eq!(replacement(state, &["GET /l", "GET /l/*"], &[], &[]), Replacement::None);
    assert_eq!(
        replacement(state, &["GET /l"], &[], &states),
        Replacement::Suggested(route("GET /l"))
    );
    assert_eq!(
        replacement(calls(12, "GET /*"), &["GET /"], &[], &[]),
        Replacement::Candidate(route("GET /"))
    );
}

#[test]
fn a_write_is_never_routed_even_where_a_relation_is_given() {
    for write in ["PUT /items/*", "POST /items/*", "PATCH /items/*", "DELETE /items/*"] {
        let list = write.strip_suffix("/*").unwrap();
        let relations = [(write, "GET /items"), (write, list)];
        for relation in relations {
            let found = found_with(&[calls(12, write)], &[list, "GET /items"], &[list], &[relation], 0);
            assert_eq!(found[0].replacement(), &Replacement::None, "{relation:?}");
        }
    }
    let to_a_write = found_with(&[calls(12, ITEMS)], &["POST /items"], &[], &[(ITEMS, "POST /items")], 0);
    assert_eq!(to_a_write[0].replacement(), &Replacement::None);
}

#[test]
fn every_detail_says_what_is_known_and_what_is_not() {
    let items = [calls(12, ITEMS), calls(4, ITEMS).status(500)];
    let mut details = Vec::new();
    for (also, catalog, batch_of, dropped) in [
        (&["GET /items"][..], &[][..], &[(ITEMS, "GET /items")][..], 300),
        (&[], &[], &[(ITEMS, "GET /items:batchGet")], 0),
        (&["GET /items"], &[], &[], 0),
        (&[], &["GET /items"], &[], 0),
        (&[], &[], &[], 0),
    ] {
        details.push(
            found_with(&items, also, catalog, batch_of, dropped)[0]
                .detail()
                .to_owned(),
        );
    }
    details.push(found(&[calls(6, "PUT /items/*")])[0].detail().to_owned());
    details.push(
        found(&[calls(6, "GET /v1/config"), calls(1, "GET /v1/config").status(503)])[0]
            .detail()
            .to_owned(),
    );
    details.push(
        found_with(&[calls(4, "GET /one").sizes(0, 1)], &[], &[], &[], 1)[0]
            .detail()
            .to_owned(),
    );
    insta::assert_snapshot!(details.join("\n\n"));
}

#[test]
fn prompts_state_role_cost_routes_task_output_and_limits() {
    let allow = lines(&["PUT /items/*", "GET /z", "GET /items/*", "GET /z", "DELETE /a"]);
    let read = &found(&[calls(12, ITEMS)])[0];
    let write = &found(&[calls(30, "PUT /items/*").sizes(2_048, 0)])[0];
    let cache = &found(&[calls(6, "GET /v1/config").sizes(0, 1 << 20)])[0];
    insta::assert_snapshot!("prompt_batch_read", prompt(read, &allow));
    insta::assert_snapshot!("prompt_batch_write", prompt(write, &allow));
    insta::assert_snapshot!("prompt_cache", prompt(cache, &[]));
}

/// A fan-out of each class, and a repeated read.
fn all_classes() -> Vec<Finding> {
    found_with(
        &[
            calls(12, "GET /suggested/*"),
            calls(12, "GET /grant/*"),
            calls(12, "GET /candidate/*"),
            calls(12, "GET /nothing/*"),
            calls(8, "GET /same"),
        ],
        &["GET /suggested"],
        &["GET /candidate"],
        &[("GET /suggested/*", "GET /suggested"), ("GET /grant/*", "GET /grant")],
        0,
    )
}

#[test]
fn a_caller_is_told_only_what_it_can_act_on_and_only_when_the_profile_says_so() {
    let findings = all_classes();
    let classes: Vec<Class> = findings.iter().map(Finding::class).collect();
    assert_eq!(
        classes,
        [
            Class::Candidate,
            Class::GrantRoute,
            Class::NoKnownRoute,
            Class::AgentFixable,
            Class::NoKnownRoute
        ]
    );
    assert_eq!(for_caller(&findings, Audience::Operator), []);
    assert_eq!(for_caller(&findings, Audience::Off), []);
    let told = for_caller(&findings, Audience::Caller);
    assert_eq!(told.len(), 1);
    let one = &told[0];
    assert_eq!(
        (
            one.pattern.as_str(),
            one.severity.as_str(),
            one.remedy.as_str(),
            one.method.as_str(),
            one.route.as_str()
        ),
        ("fan_out", "low", "batch", "GET", "/suggested/*")
    );
    assert_eq!(
        (one.suggested_method.as_str(), one.suggested_route.as_str()),
        ("GET", "/suggested")
    );
    assert_eq!(
        (one.extra_calls, one.added_latency_ms, one.bytes_moved),
        (11, 55, 6_144)
    );
    assert_eq!(one.detail, findings[3].detail());
}

#[test]
fn retention_decides_what_the_audit_line_keeps() {
    let findings = all_classes();
    assert_eq!(audit(&findings, Audience::Caller, Retention::None), None);
    assert_eq!(audit(&findings, Audience::Off, Retention::Detailed), None);
    assert_eq!(audit(&[], Audience::Caller, Retention::Detailed), None);
    let aggregate = audit(&findings, Audience::Operator, Retention::Aggregate).unwrap();
    assert_eq!(
        serde_json::to_string(&aggregate).unwrap(),
        r#"{"advice":"operator","advice_retention":"aggregate","advice_findings":5,"advice_agent_fixable":1,"advice_ungranted_routes":1,"advice_candidate_routes":1,"advice_extra_calls":51,"advice_added_latency_ms":255,"advice_bytes_moved":28672}"#
    );
    let detailed = audit(&findings, Audience::Caller, Retention::Detailed).unwrap();
    insta::assert_snapshot!(serde_json::to_string_pretty(&detailed).unwrap());
    let members = serde_json::to_value(detailed.advice_finding_details).unwrap();
    assert_eq!(members.as_array().unwrap().len(), 5);
    assert_eq!(aggregate.advice_finding_details, None);
}

#[test]
fn an_empty_or_zero_member_is_left_out_of_the_audit_line() {
    let mut instant = calls(6, ITEMS).sizes(0, 0);
    instant.call.latency = Duration::from_micros(10);
    let kept = audit(&found(&[instant]), Audience::Operator, Retention::Detailed).unwrap();
    let details = serde_json::to_value(&kept.advice_finding_details.unwrap()[0]).unwrap();
    let names: Vec<&str> = details.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(
        names,
        [
            "agent_fixable",
            "detail",
            "extra_calls",
            "method",
            "pattern",
            "remedy",
            "route",
            "severity"
        ]
    );
}

#[test]
fn metrics_count_whatever_is_retained_and_nothing_when_advice_is_off() {
    let findings = all_classes();
    assert!(metrics(&findings, Audience::Off).is_empty());
    let series = metrics(&findings, Audience::Operator);
    assert_eq!(series, metrics(&findings, Audience::Caller));
    let labels = |pattern, agent_fixable| MetricLabels {
        pattern,
        severity: Severity::Low,
        agent_fixable,
    };
    let increase = |findings: u32, each: Cost| MetricIncrease {
        findings: findings.into(),
        cost: (0..findings).fold(Cost::default(), |sum, _| sum.plus(each)),
    };
    let fan_out = Cost {
        extra_calls: 11,
        added_latency: Duration::from_millis(55),
        bytes_moved: 6_144,
    };
    let repeated = Cost {
        extra_calls: 7,
        added_latency: Duration::from_millis(35),
        bytes_moved: 4_096,
    };
    let expected = BTreeMap::from([
        (labels(Pattern::FanOut, false), increase(3, fan_out)),
        (labels(Pattern::FanOut, true), increase(1, fan_out)),
        (labels(Pattern::RepeatedRead, false), increase(1, repeated)),
    ]);
    assert_eq!(series, expected);
}

#[test]
fn a_profile_without_advice_has_no_findings_and_one_with_it_uses_all_its_routes() {
    let grant = grant(&[ITEMS, "GET /items"]);
    let trace = trace_of(&grant, &[calls(12, ITEMS)]);
    assert_eq!(advise(&trace, &Profile::direct("p", grant.clone())), []);
    let batch_of = BTreeMap::from([(route(ITEMS), route("GET /items"))]);
    let advised = Profile::direct("p", grant).with_advice(Vec::new(), batch_of, Audience::Operator);
    assert_eq!(advise(&trace, &advised)[0].class(), Class::AgentFixable);
}

const ROUTES: [&str; 7] = [
    "GET /items/*",
    "PUT /items/*",
    "GET /items",
    "GET /a/*/b",
    "GET /config",
    "POST /config",
    "GET /*",
];

fn any_calls() -> impl Strategy<Value = Vec<Calls>> {
    let one = (
        0..ROUTES.len(),
        1..40_usize,
        0..4_u64,
        0..3_u64,
        0..2_000_000_000_u64,
        0..6_u8,
    );
    let one = one.prop_map(|(index, number, req_bytes, resp_bytes, nanos, fate)| Calls {
        route: ROUTES[index],
        number,
        call: Measured {
            status: if fate == 0 { 500 } else { 200 },
            delivered: fate != 1,
            req_bytes: if fate < 4 { 0 } else { req_bytes },
            resp_bytes,
            latency: Duration::from_nanos(nanos),
        },
    });
    prop::collection::vec(one, 0..24)
}

/// The words details are made of, with every number and route of ours taken out.
fn words(detail: &str) -> String {
    let mut text = detail.to_owned();
    for route in ROUTES {
        text = text
            .replace(&format!("{route} "), "R ")
            .replace(&format!("{route}."), "R.");
    }
    text.chars().filter(|c| !c.is_ascii_digit()).collect()
}

proptest! {
    #[test]
    fn findings_cover_disjoint_rows_repeat_exactly_and_hold_only_words_of_ours(
        calls in any_calls(), dropped in 0..2_u64, catalogued in any::<bool>(), related in any::<bool>()
    ) {
        let grant = grant(&ROUTES);
        let trace = CallTrace { dropped, ..trace_of(&grant, &calls) };
        let catalog = if catalogued { lines(&ROUTES) } else { Vec::new() };
        let mut batch_of = BTreeMap::new();
        if related {
            batch_of.insert(route("GET /a/*/b"), route("GET /items"));
        }
        let routes = Routes { allow: grant.allow(), catalog: &catalog, batch_of: &batch_of };
        let findings = detect(&trace, routes);
        prop_assert_eq!(&findings, &detect(&trace, routes));

        // Disjoint: what all findings count together is never more than what the trace holds, route by route and in sum.
        let succeeded = |wanted: Option<&Route>| {
            let rows = trace.rows.iter().filter(|row| row.succeeded());
            rows.filter(|row| wanted.is_none_or(|wanted| row.route() == wanted)).fold((0, 0, Duration::ZERO), |sum, row| {
                (sum.0 + 1, sum.1 + row.req_bytes + row.resp_bytes, sum.2 + row.latency)
            })
        };
        let counted = |wanted: Option<&Route>| {
            let chosen = findings.iter().filter(|finding| wanted.is_none_or(|wanted| finding.route() == wanted));
            chosen.map(Finding::cost).fold((0, 0, Duration::ZERO), |sum, cost| {
                (sum.0 + cost.extra_calls + 1, sum.1 + cost.bytes_moved, sum.2 + cost.added_latency)
            })
        };
        for wanted in grant.allow().iter().map(Some).chain([None]) {
            let (counted, held) = (counted(wanted), succeeded(wanted));
            prop_assert!(counted.0 <= held.0 && counted.1 <= held.1 && counted.2 <= held.2, "{counted:?} of {held:?}");
        }

        for finding in &findings {
            prop_assert!(grant.allow().contains(finding.route()));
            let known = words(finding.detail());
            prop_assert!(
                known.chars().all(|c| c.is_ascii_alphabetic() || " .,:;-".contains(c)),
                "{known}"
            );
        }
        let kept = audit(&findings, Audience::Caller, Retention::Detailed);
        prop_assert_eq!(kept.is_some(), !findings.is_empty());
        if let Some(kept) = kept {
            prop_assert_eq!(kept.advice_extra_calls, findings.iter().map(|finding| finding.cost().extra_calls).sum::<u64>());
            prop_assert_eq!(kept.advice_finding_details.unwrap().len(), findings.len());
        }
    }
}
