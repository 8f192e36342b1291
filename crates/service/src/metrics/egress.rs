//! What granted runs asked of their APIs, and what the advisor made of it.
//!
//! Series are keyed by what the operator wrote (profile, route template) and by words of ours, so their number is bounded
//! by the grants file and no guest can add one. Families are absent until they have a series.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use plimsoll_advisor::{Finding, MetricIncrease, MetricLabels, metrics};
use plimsoll_grants::{CallObserver, CallRow, CallTrace, Profile, Route};

use super::{Metrics, Page, labels, seconds};

/// Upper bounds of a call's latency in microseconds, with the text of `le`: one call may take a minute.
const BOUNDS: [(u128, &str); 12] = [
    (1_000, "0.001"),
    (5_000, "0.005"),
    (10_000, "0.01"),
    (25_000, "0.025"),
    (50_000, "0.05"),
    (100_000, "0.1"),
    (250_000, "0.25"),
    (500_000, "0.5"),
    (1_000_000, "1"),
    (2_500_000, "2.5"),
    (5_000_000, "5"),
    (10_000_000, "10"),
];

/// By profile.
#[derive(Debug, Default)]
pub(super) struct Egress(Mutex<BTreeMap<String, OfProfile>>);

#[derive(Debug, Default)]
struct OfProfile {
    calls: BTreeMap<Route, Calls>,
    denied: u64,
    dropped: u64,
    shed: u64,
    advice: BTreeMap<MetricLabels, MetricIncrease>,
}

/// The calls of one route.
#[derive(Debug, Default)]
struct Calls {
    count: u64,
    /// Not cumulative; what is beyond every bound is only in `count`.
    buckets: [u64; BOUNDS.len()],
    latency: Duration,
}

/// Counts the calls of one run's profile as they end.
#[derive(Debug)]
pub(crate) struct ProfileCalls {
    metrics: Arc<Metrics>,
    profile: Arc<Profile>,
}

impl ProfileCalls {
    pub(crate) fn new(metrics: Arc<Metrics>, profile: Arc<Profile>) -> Self {
        Self { metrics, profile }
    }
}

impl CallObserver for ProfileCalls {
    fn observed(&self, row: &CallRow) {
        let mut profiles = self.metrics.egress.0.lock();
        let calls = &mut entry(&mut profiles, self.profile.name()).calls;
        // A route is copied once, not once a call.
        match calls.get_mut(row.route()) {
            Some(calls) => calls.observe(row.latency),
            None => calls.entry(row.route().clone()).or_default().observe(row.latency),
        }
    }
}

fn entry<'a>(profiles: &'a mut BTreeMap<String, OfProfile>, profile: &str) -> &'a mut OfProfile {
    profiles.entry(profile.to_owned()).or_default()
}

impl Calls {
    fn observe(&mut self, latency: Duration) {
        self.count += 1;
        self.latency = self.latency.saturating_add(latency);
        let index = BOUNDS.partition_point(|(bound, _)| *bound < latency.as_micros());
        if let Some(bucket) = self.buckets.get_mut(index) {
            *bucket += 1;
        }
    }
}

impl Egress {
    /// What a run's trace adds beside its calls, which were counted as they ended.
    pub(super) fn settled(&self, profile: &Profile, trace: &CallTrace, findings: &[Finding]) {
        let mut profiles = self.0.lock();
        let counts = entry(&mut profiles, profile.name());
        counts.denied += trace.denied;
        counts.dropped += trace.dropped;
        counts.shed += trace.shed;
        for (labels, increase) in metrics(findings, profile.advice()) {
            let sum = counts.advice.entry(labels).or_default();
            sum.findings += increase.findings;
            sum.cost = sum.cost.plus(increase.cost);
        }
    }

    /// The families that have a series, in the order of the page.
    pub(super) fn render(&self, page: &mut Page) {
        let profiles = self.0.lock();
        render_calls(page, &profiles);
        render_advice(page, &profiles);
        render_refused(page, &profiles);
    }
}

fn render_calls(page: &mut Page, profiles: &BTreeMap<String, OfProfile>) {
    const COUNT: &str = "plimsoll_host_calls_total";
    const LATENCY: &str = "plimsoll_host_call_latency_seconds";
    let mut series: Vec<([(&str, &str); 3], &Calls)> = Vec::new();
    for (profile, counts) in profiles {
        for (route, calls) in &counts.calls {
            let method = route.method().as_str();
            series.push((
                [("profile", profile), ("method", method), ("route", route.path())],
                calls,
            ));
        }
    }
    if series.is_empty() {
        return;
    }
    series.sort_unstable_by_key(|(labels, _)| *labels);
    page.family(
        COUNT,
        "counter",
        "Calls that were sent to an API, by the grant's route.",
    );
    for (names, calls) in &series {
        page.sample(COUNT, &labels(names), calls.count);
    }
    page.family(
        LATENCY,
        "histogram",
        "Time from sending a call to the end of its answer.",
    );
    for ([profile, method, route], calls) in &series {
        let mut below = 0;
        for ((_, le), count) in BOUNDS.iter().zip(&calls.buckets) {
            below += count;
            let names = labels(&[*profile, *method, *route, ("le", le)]);
            page.sample(&format!("{LATENCY}_bucket"), &names, below);
        }
        let names = labels(&[*profile, *method, *route, ("le", "+Inf")]);
        page.sample(&format!("{LATENCY}_bucket"), &names, calls.count);
        let names = labels(&[*profile, *method, *route]);
        let micros = u64::try_from(calls.latency.as_micros()).unwrap_or(u64::MAX);
        page.sample(&format!("{LATENCY}_sum"), &names, seconds(micros));
        page.sample(&format!("{LATENCY}_count"), &names, calls.count);
    }
}

fn render_refused(page: &mut Page, profiles: &BTreeMap<String, OfProfile>) {
    const NAME: &str = "plimsoll_host_calls_refused_total";
    let kinds = |counts: &OfProfile| {
        [
            ("denied", counts.denied),
            ("dropped", counts.dropped),
            ("shed", counts.shed),
        ]
    };
    let any = |counts: &OfProfile| kinds(counts).iter().any(|(_, count)| *count > 0);
    if !profiles.values().any(any) {
        return;
    }
    page.family(
        NAME,
        "counter",
        "Calls refused by the grant (denied) or its breaker (shed), and calls beyond the rows of a trace (dropped).",
    );
    for (profile, counts) in profiles.iter().filter(|(_, counts)| any(counts)) {
        for (kind, count) in kinds(counts) {
            page.sample(NAME, &labels(&[("profile", profile), ("kind", kind)]), count);
        }
    }
}

fn render_advice(page: &mut Page, profiles: &BTreeMap<String, OfProfile>) {
    let mut series: Vec<([(&str, &str); 5], &MetricIncrease)> = Vec::new();
    for (profile, counts) in profiles {
        for (labels, increase) in &counts.advice {
            let names = [
                ("profile", profile.as_str()),
                ("pattern", labels.pattern.as_str()),
                ("severity", labels.severity.as_str()),
                ("remedy", labels.pattern.remedy().as_str()),
                ("agent_fixable", if labels.agent_fixable { "true" } else { "false" }),
            ];
            series.push((names, increase));
        }
    }
    if series.is_empty() {
        return;
    }
    series.sort_unstable_by_key(|(names, _)| *names);
    let mut family = |name: &str, help: &str, value: &dyn Fn(&MetricIncrease) -> String| {
        page.family(name, "counter", help);
        for (names, increase) in &series {
            page.sample(name, &labels(names), value(increase));
        }
    };
    family("plimsoll_advice_findings_total", "What the advisor found.", &|sum| {
        sum.findings.to_string()
    });
    family(
        "plimsoll_advice_extra_calls_total",
        "Calls a better way would have saved, by the advisor's model.",
        &|sum| sum.cost.extra_calls.to_string(),
    );
    family(
        "plimsoll_advice_added_latency_seconds_total",
        "Time a better way would have saved, by the advisor's model.",
        &|sum| seconds(u64::try_from(sum.cost.added_latency.as_micros()).unwrap_or(u64::MAX)),
    );
    family(
        "plimsoll_advice_bytes_moved_total",
        "Bytes moved by the calls that were found.",
        &|sum| sum.cost.bytes_moved.to_string(),
    );
}

#[cfg(test)]
mod tests {
    use plimsoll_grants::{GrantSpec, Measured};

    use super::*;

    fn profile(name: &str) -> Arc<Profile> {
        let mut spec = GrantSpec::new("https://api.example.com");
        spec.allow = vec![("get".to_owned(), "/items/*".to_owned())];
        Arc::new(Profile::direct(name, spec.validate().unwrap()))
    }

    fn row(profile: &Profile, latency: Duration) -> CallRow {
        let route = profile.grant().allowed().next().unwrap();
        let call = Measured {
            status: 200,
            delivered: true,
            req_bytes: 0,
            resp_bytes: 9,
            latency,
        };
        CallRow::new(1, route, call)
    }

    fn page(metrics: &Metrics) -> String {
        let mut page = Page(String::new());
        metrics.egress.render(&mut page);
        page.0
    }

    #[test]
    fn without_a_granted_run_no_family_is_there() {
        assert_eq!(page(&Metrics::default()), "");
    }

    #[test]
    fn calls_are_counted_by_template_and_fall_into_cumulative_buckets() {
        let metrics = Arc::new(Metrics::default());
        for (name, latency) in [("b", 1_000), ("a\"", 1_001), ("a\"", 60_000_000)] {
            let profile = profile(name);
            let row = row(&profile, Duration::from_micros(latency));
            ProfileCalls::new(Arc::clone(&metrics), profile).observed(&row);
        }
        let page = page(&metrics);
        let counts: Vec<&str> = page
            .lines()
            .filter(|line| line.starts_with("plimsoll_host_calls_total"))
            .collect();
        assert_eq!(
            counts,
            [
                r#"plimsoll_host_calls_total{profile="a\"",method="GET",route="/items/*"} 2"#,
                r#"plimsoll_host_calls_total{profile="b",method="GET",route="/items/*"} 1"#,
            ]
        );
        let of_a = |suffix: &str| {
            let start = format!("plimsoll_host_call_latency_seconds_{suffix}");
            page.lines()
                .find(|line| line.starts_with(&start))
                .map(str::to_owned)
                .unwrap()
        };
        assert!(of_a(r#"bucket{profile="a\"",method="GET",route="/items/*",le="0.001"}"#).ends_with("} 0"));
        assert!(of_a(r#"bucket{profile="a\"",method="GET",route="/items/*",le="0.005"}"#).ends_with("} 1"));
        assert!(of_a(r#"bucket{profile="a\"",method="GET",route="/items/*",le="10"}"#).ends_with("} 1"));
        assert!(of_a(r#"bucket{profile="a\"",method="GET",route="/items/*",le="+Inf"}"#).ends_with("} 2"));
        assert!(of_a("sum").ends_with("} 60.001001"), "{}", of_a("sum"));
        assert!(of_a("count").ends_with("} 2"));
    }

    #[test]
    fn refusals_are_counted_by_kind_once_a_run_settles() {
        let metrics = Metrics::default();
        let trace = CallTrace {
            denied: 3,
            shed: 2,
            ..CallTrace::default()
        };
        metrics.egress.settled(&profile("a"), &trace, &[]);
        metrics.egress.settled(&profile("quiet"), &CallTrace::default(), &[]);
        let page = page(&metrics);
        let lines: Vec<&str> = page.lines().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(
            lines,
            [
                r#"plimsoll_host_calls_refused_total{profile="a",kind="denied"} 3"#,
                r#"plimsoll_host_calls_refused_total{profile="a",kind="dropped"} 0"#,
                r#"plimsoll_host_calls_refused_total{profile="a",kind="shed"} 2"#,
            ]
        );
    }
}
