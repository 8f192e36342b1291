//! What granted runs add to the metrics page, and what they never do.

use std::collections::BTreeSet;

use serde_json::json;

use super::api::{Api, Asked, Reply, ok};
use super::setup::{Call, Files, metrics, profile, series};

const FAMILIES: [&str; 7] = [
    "plimsoll_host_calls_total",
    "plimsoll_host_call_latency_seconds",
    "plimsoll_advice_findings_total",
    "plimsoll_advice_extra_calls_total",
    "plimsoll_advice_added_latency_seconds_total",
    "plimsoll_advice_bytes_moved_total",
    "plimsoll_host_calls_refused_total",
];

fn families(page: &str) -> Vec<&str> {
    let typed = page.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let names = typed.filter_map(|line| line.split(' ').next());
    names
        .filter(|name| name.starts_with("plimsoll_host") || name.starts_with("plimsoll_advice"))
        .collect()
}

#[test]
fn a_family_is_there_once_it_has_a_series_and_not_before() {
    let api = Api::start(|_| ok("{}"));
    let more = json!({"advice": "operator"});
    let files = Files::new(&json!({ "berths": profile(&api.origin(), &["GET /items/*"], &more) }));
    let daemon = files.start(&[]);
    assert_eq!(families(&metrics(&daemon)), [""; 0], "before any run");
    Call::of("berths", "1").ran(daemon.addr);
    assert_eq!(families(&metrics(&daemon)), [""; 0], "after a run that called nothing");
    Call::of("berths", "await host.get('/items/1')").ran(daemon.addr);
    assert_eq!(families(&metrics(&daemon)), FAMILIES[..2], "after a call");
    Call::of("berths", "__plimsoll_host_call('{\"method\":\"GET\",\"path\":\"/\"}')").ran(daemon.addr);
    assert_eq!(
        families(&metrics(&daemon)),
        [FAMILIES[0], FAMILIES[1], FAMILIES[6]],
        "after a refused call"
    );
    Call::of("berths", "for (let i = 0; i < 6; i++) await host.get('/items/' + i)").ran(daemon.addr);
    assert_eq!(families(&metrics(&daemon)), FAMILIES, "after a finding");
}

#[test]
fn series_are_sorted_and_hold_templates_and_our_own_words_only() {
    let script = |asked: &Asked| match asked.path() {
        "/c/secret-path-1" => Reply::Json(429, "{}".to_owned()),
        _ => ok("{\"secret\":\"secret-answer\"}"),
    };
    let api = Api::start(script);
    let routes = ["PUT /b", "GET /b", "GET /a/*", "DELETE /a/*", "GET /c/*"];
    let more = json!({"advice": "operator", "max_calls": 20});
    let of = || profile(&api.origin(), &routes, &more);
    let files = Files::new(&json!({ "zeta": of(), "alpha": of(), "mid.dle-1_x": of() }));
    let daemon = files.start(&[]);
    let code = "for (let i = 0; i < 7; i++) { await host.get('/a/secret-path-' + i); }
        for (let i = 0; i < 4; i++) { await host.get('/b'); }
        await host.put('/b', {secret: 'secret-body'});
        await host.del('/a/secret-path-9');
        await host.get('/c/secret-path-1').catch(() => {});
        await host.get('/b').catch(() => {});
        for (let i = 0; i < 8; i++) __plimsoll_host_call('{\"method\":\"GET\",\"path\":\"/secret-path\"}');";
    for name in ["zeta", "mid.dle-1_x", "alpha"] {
        Call::of(name, code).ran(daemon.addr);
    }
    let page = metrics(&daemon);
    assert!(!page.contains("secret"), "{page}");
    assert_eq!(
        series(&page, "plimsoll_host_calls_total{profile=\"alpha\""),
        [
            "plimsoll_host_calls_total{profile=\"alpha\",method=\"DELETE\",route=\"/a/*\"} 1",
            "plimsoll_host_calls_total{profile=\"alpha\",method=\"GET\",route=\"/a/*\"} 7",
            "plimsoll_host_calls_total{profile=\"alpha\",method=\"GET\",route=\"/b\"} 4",
            "plimsoll_host_calls_total{profile=\"alpha\",method=\"GET\",route=\"/c/*\"} 1",
            "plimsoll_host_calls_total{profile=\"alpha\",method=\"PUT\",route=\"/b\"} 1",
        ]
    );
    // 14 calls were sent, one was shed, and of eight more the budget of 20 left five to the allow list: all are denied.
    assert_eq!(
        series(&page, "plimsoll_host_calls_refused_total{profile=\"zeta\""),
        [
            "plimsoll_host_calls_refused_total{profile=\"zeta\",kind=\"denied\"} 8",
            "plimsoll_host_calls_refused_total{profile=\"zeta\",kind=\"dropped\"} 0",
            "plimsoll_host_calls_refused_total{profile=\"zeta\",kind=\"shed\"} 1",
        ]
    );
    assert_eq!(
        series(&page, "plimsoll_advice_extra_calls_total{profile=\"mid.dle-1_x\""),
        [
            "plimsoll_advice_extra_calls_total{profile=\"mid.dle-1_x\",pattern=\"fan_out\",severity=\"low\",remedy=\"batch\",agent_fixable=\"false\"} 6",
            "plimsoll_advice_extra_calls_total{profile=\"mid.dle-1_x\",pattern=\"repeated_read\",severity=\"low\",remedy=\"cache\",agent_fixable=\"false\"} 3",
        ]
    );
    for family in FAMILIES.iter().filter(|family| !family.ends_with("latency_seconds")) {
        let labels: Vec<&str> = series(&page, family)
            .iter()
            .map(|line| line.rsplit_once(' ').unwrap().0)
            .collect();
        assert!(labels.len() >= 3 && labels.is_sorted(), "{family}: {labels:?}");
        let profiles: BTreeSet<&str> = labels.iter().filter_map(|labels| labels.split('"').nth(1)).collect();
        assert_eq!(
            profiles.into_iter().collect::<Vec<_>>(),
            ["alpha", "mid.dle-1_x", "zeta"],
            "{family}"
        );
    }
    let of_gets = "plimsoll_host_call_latency_seconds_bucket{profile=\"alpha\",method=\"GET\",route=\"/a/*\"";
    let buckets: Vec<u64> = series(&page, of_gets)
        .iter()
        .map(|line| line.rsplit_once(' ').unwrap().1.parse().unwrap())
        .collect();
    assert!(
        buckets.len() == 13 && buckets.is_sorted() && buckets[12] == 7,
        "{buckets:?}"
    );
}
