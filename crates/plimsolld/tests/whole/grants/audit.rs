//! The audit line and the advice of granted runs: which fields, in which order, and who is told what.

use serde_json::{Value, json};

use super::api::{Api, Asked, Reply, ok};
use super::setup::{Call, Files, metrics, profile, series};
use crate::daemon::Daemon;

const ITEMS: [&str; 2] = ["GET /items", "GET /items/*"];

/// Six or more reads of single items: what a batch route replaces.
const FAN_OUT: &str = "for (let i = 0; i < 7; i++) await host.get('/items/' + i)";

/// Everything an audit line of an answered snippet has before its host calls.
const HEAD: [&str; 13] = [
    "time",
    "level",
    "msg",
    "op",
    "caller",
    "code_bytes",
    "grant_profile",
    "sandbox",
    "isolation",
    "exit_code",
    "timed_out",
    "duration_ms",
    "trace_id",
];

const TOTALS: [&str; 9] = [
    "advice",
    "advice_retention",
    "advice_findings",
    "advice_agent_fixable",
    "advice_ungranted_routes",
    "advice_candidate_routes",
    "advice_extra_calls",
    "advice_added_latency_ms",
    "advice_bytes_moved",
];

fn declared(audience: &str, retention: &str) -> Value {
    json!({
        "batch_of": {"GET /items": ["GET /items/*"]},
        "advice": audience,
        "advice_retention": retention,
        "max_calls": 300,
    })
}

/// The members of a line's outermost object, in order.
fn members(line: &str) -> Vec<String> {
    let (mut found, mut depth, mut text): (Vec<String>, i32, Option<String>) = (Vec::new(), 0, None);
    let mut last = String::new();
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match (&mut text, c) {
            (Some(open), '\\') => open.extend([c, chars.next().unwrap()]),
            (Some(open), '"') => {
                last = std::mem::take(open);
                text = None;
            }
            (Some(open), c) => open.push(c),
            (None, '"') => text = Some(String::new()),
            (None, '{' | '[') => depth += 1,
            (None, '}' | ']') => depth -= 1,
            (None, ':') if depth == 1 => found.push(last.clone()),
            (None, _) => {}
        }
    }
    found
}

/// Runs `code` with a profile and returns the answer, the audit line, and the members of that line.
fn audited(daemon: &mut Daemon, profile: &str, code: &str) -> (Value, Value, Vec<String>) {
    let call = Call {
        trace_id: "trace-1",
        ..Call::of(profile, code)
    };
    let (answer, _) = call.ran(daemon.addr);
    let line = daemon.wait_for("code run");
    assert_eq!(line["grant_profile"], profile);
    (answer, line, members(&daemon.last_line))
}

#[test]
fn the_counts_of_host_calls_stand_between_the_trace_id_and_the_advice() {
    let down = |asked: &Asked| match asked.path() {
        "/items/down" => Reply::Json(503, "{}".to_owned()),
        _ => ok("{}"),
    };
    let api = Api::start(down);
    let files = Files::new(&json!({ "berths": profile(&api.origin(), &ITEMS, &declared("operator", "aggregate")) }));
    let mut daemon = files.start(&[]);
    let code = "for (let i = 0; i < 257; i++) await host.get('/items/' + i);
        await host.get('/items/down').catch(() => {});
        await host.get('/items/shed').catch(() => {});
        __plimsoll_host_call('{\"method\":\"GET\",\"path\":\"/other\"}');";
    let (_, line, names) = audited(&mut daemon, "berths", code);
    let counts = [
        "host_calls",
        "host_calls_denied",
        "host_calls_dropped",
        "host_calls_shed",
    ];
    let expected: Vec<&str> = HEAD.into_iter().chain(counts).chain(TOTALS).collect();
    assert_eq!(names, expected);
    assert_eq!(counts.map(|name| line[name].as_u64().unwrap()), [256, 1, 2, 1]);
    assert_eq!(
        (&line["advice_findings"], &line["advice_extra_calls"]),
        (&1.into(), &255.into())
    );
    assert_eq!(api.asked().len(), 258);

    // Each kind of refusal is counted from one call on; a count of none is left out.
    let (_, line, names) = audited(&mut daemon, "berths", "await host.get('/items/1')");
    let expected: Vec<&str> = HEAD.into_iter().chain(["host_calls"]).collect();
    assert_eq!(
        (names, &line["host_calls"]),
        (expected.iter().map(ToString::to_string).collect(), &1.into())
    );
    let (_, _, names) = audited(&mut daemon, "berths", "1");
    assert_eq!(names, HEAD, "a run that called nothing has no trace");
}

#[test]
fn a_line_keeps_of_the_advice_what_the_retention_says() {
    let api = Api::start(|_| ok("{}"));
    let of = |audience, retention| profile(&api.origin(), &ITEMS, &declared(audience, retention));
    let files = Files::new(&json!({
        "none": of("caller", "none"),
        "aggregate": of("caller", "aggregate"),
        "detailed": of("caller", "detailed"),
        "operator": of("operator", "detailed"),
        "off": of("off", "detailed"),
    }));
    let mut daemon = files.start(&[]);
    let with = |more: &[&'static str]| -> Vec<&str> {
        HEAD.into_iter()
            .chain(["host_calls"])
            .chain(more.iter().copied())
            .collect()
    };
    let detailed: Vec<&str> = TOTALS.into_iter().chain(["advice_finding_details"]).collect();
    for (profile, more) in [
        ("none", &[][..]),
        ("aggregate", &TOTALS),
        ("detailed", &detailed),
        ("operator", &detailed),
        ("off", &[]),
    ] {
        let (_, line, names) = audited(&mut daemon, profile, FAN_OUT);
        assert_eq!(names, with(more), "{profile}");
        if more.is_empty() {
            continue;
        }
        let audience = if profile == "operator" { "operator" } else { "caller" };
        let retention = if profile == "aggregate" {
            "aggregate"
        } else {
            "detailed"
        };
        assert_eq!(
            (&line["advice"], &line["advice_retention"]),
            (&audience.into(), &retention.into())
        );
        let numbers = TOTALS[2..7].iter().map(|name| line[name].as_u64().unwrap());
        assert_eq!(numbers.collect::<Vec<_>>(), [1, 1, 0, 0, 6], "{profile}");
        assert_eq!(line["advice_bytes_moved"], 14, "seven answers of two bytes");
        assert!(line["advice_added_latency_ms"].is_u64());
    }
    let (_, line, _) = audited(&mut daemon, "detailed", FAN_OUT);
    let details = line["advice_finding_details"].as_array().unwrap();
    assert_eq!(details.len(), 1);
    for (name, value) in [
        ("pattern", json!("fan_out")),
        ("severity", "low".into()),
        ("remedy", "batch".into()),
        ("method", "GET".into()),
        ("route", "/items/*".into()),
        ("agent_fixable", true.into()),
        ("suggested_method", "GET".into()),
        ("suggested_route", "/items".into()),
        ("extra_calls", 6.into()),
        ("bytes_moved", 14.into()),
    ] {
        assert_eq!(details[0][name], value, "{name}");
    }
    let page = metrics(&daemon);
    for profile in ["aggregate", "detailed", "none", "operator"] {
        let labels = format!("plimsoll_advice_findings_total{{profile=\"{profile}\",pattern=\"fan_out\"");
        assert_eq!(
            series(&page, &labels).len(),
            1,
            "metrics count whatever the retention: {profile}"
        );
    }
    assert!(
        !page.contains("plimsoll_advice_findings_total{profile=\"off\""),
        "{page}"
    );
}

#[test]
fn a_caller_is_told_only_with_its_consent_and_only_of_a_declared_and_granted_route() {
    let api = Api::start(|_| ok("{}"));
    let batch = json!({"GET /items": ["GET /items/*"]});
    let of = |audience: &str, allow: &[&str], declared: bool| {
        let mut more = json!({"advice": audience});
        if declared {
            more["batch_of"] = batch.clone();
        }
        profile(&api.origin(), allow, &more)
    };
    let files = Files::new(&json!({
        "fixable": of("caller", &ITEMS, true),
        "ungranted": of("caller", &ITEMS[1..], true),
        "undeclared": of("caller", &ITEMS, false),
        "operator": of("operator", &ITEMS, true),
        "off": of("off", &ITEMS, true),
    }));
    let daemon = files.start(&[]);
    for silent in ["ungranted", "undeclared", "operator", "off"] {
        let (answer, _) = Call::of(silent, FAN_OUT).ran(daemon.addr);
        assert!(answer["javascript"].get("advice").is_none(), "{silent}: {answer}");
    }
    let (answer, _) = Call::of("fixable", FAN_OUT).ran(daemon.addr);
    let told = answer["javascript"]["advice"].as_array().unwrap();
    assert_eq!(told.len(), 1);
    for (name, value) in [
        ("pattern", json!("fan_out")),
        ("severity", "low".into()),
        ("remedy", "batch".into()),
        ("method", "GET".into()),
        ("route", "/items/*".into()),
        ("suggestedMethod", "GET".into()),
        ("suggestedRoute", "/items".into()),
        ("extraCalls", 6.into()),
        ("bytesMoved", "14".into()),
    ] {
        assert_eq!(told[0][name], value, "{name}");
    }
    assert!(told[0]["detail"].as_str().unwrap().contains("GET /items/*"), "{told:?}");

    // A repeated read is the operator's business, and five reads are no pattern.
    let same = "for (let i = 0; i < 9; i++) await host.get('/items')";
    let few = "for (let i = 0; i < 5; i++) await host.get('/items/' + i)";
    for code in [same, few] {
        let (answer, _) = Call::of("fixable", code).ran(daemon.addr);
        assert!(answer["javascript"].get("advice").is_none(), "{code}: {answer}");
    }
}
