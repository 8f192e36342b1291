//! Counters, and their text in Prometheus format 0.0.4.
//!
//! A run touches a handful of atomics and no lock; all words are chosen at compile time, so no label can carry what a
//! guest or a caller wrote. Families appear in a fixed order, those of features that do not exist yet not at all.

mod egress;

use std::fmt::Write as _;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use plimsoll_advisor::Finding;
use plimsoll_core::{Code, Isolation, PayloadKind, Reason};
use plimsoll_grants::{CallTrace, Profile};

pub(crate) use self::egress::ProfileCalls;
use crate::limiter::Shed;

/// `Content-Type` of the page.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4";

/// Every reason of `plimsoll_shed_total`; the last two belong to metered providers and stay 0 without one.
const SHED_REASONS: [&str; 5] = ["at_capacity", "per_key", "rate", "paid_caller", "paid_daemon"];

/// Kinds of run, in the order of their series.
const KINDS: [PayloadKind; 4] = [
    PayloadKind::JavaScript,
    PayloadKind::Project,
    PayloadKind::Module,
    PayloadKind::Cell,
];

/// Upper bounds of the duration histogram in microseconds, with the text of `le`. A wasm run takes some 100 µs, the
/// longest run of all 300 s; each step about doubles or trebles.
const BUCKETS: [(u64, &str); 18] = [
    (100, "0.0001"),
    (250, "0.00025"),
    (500, "0.0005"),
    (1_000, "0.001"),
    (2_500, "0.0025"),
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
    (60_000_000, "60"),
    (300_000_000, "300"),
];

/// The counters of one daemon.
#[derive(Debug, Default)]
pub struct Metrics {
    runs: AtomicU64,
    runs_failed: AtomicU64,
    shed: [AtomicU64; SHED_REASONS.len()],
    /// By reason (the last row is "no reason") and code.
    refused: [[AtomicU64; Code::ALL.len()]; Reason::ALL.len() + 1],
    auth_refused: AtomicU64,
    decode_slots: AtomicI64,
    durations: [Histogram; KINDS.len()],
    egress: egress::Egress,
}

#[derive(Debug, Default)]
struct Histogram {
    /// Not cumulative; the last one is beyond every bound.
    buckets: [AtomicU64; BUCKETS.len() + 1],
    sum_micros: AtomicU64,
}

/// What the page shows that others keep.
#[derive(Clone, Copy, Debug)]
pub struct Readings {
    /// Global slots held.
    pub in_flight: u32,
    /// The tier proven at start-up.
    pub proven: Isolation,
    /// The tier as of now.
    pub current: Isolation,
    /// Lines lost to write errors.
    pub log_write_errors: u64,
    /// Handshakes that came to nothing; `None` without TLS.
    pub failed_handshakes: Option<u64>,
    /// Sessions by state; `None` where none are kept.
    pub sessions: Option<SessionReadings>,
}

/// How many sessions are in which state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SessionReadings {
    /// Opens under way.
    pub opening: u64,
    /// Open, and not suspended.
    pub running: u64,
    /// Open and suspended.
    pub suspended: u64,
    /// Ended, and the sandbox not gone yet.
    pub ending: u64,
}

impl Metrics {
    /// A call was handed to the provider and has ended there. `infrastructure` says that it failed for no reason of
    /// the caller's. A call the provider refused counts as refused instead: see [`Metrics::refused`].
    pub fn ran(&self, kind: PayloadKind, duration: Duration, infrastructure: bool) {
        self.runs.fetch_add(1, Relaxed);
        if infrastructure {
            self.runs_failed.fetch_add(1, Relaxed);
        }
        let index = KINDS.iter().position(|known| *known == kind).unwrap_or_default();
        self.durations[index].observe(duration);
    }

    /// A start was shed by the limiter.
    pub fn shed(&self, shed: Shed) {
        let index = match shed {
            Shed::AtCapacity | Shed::Memory => 0,
            Shed::PerKey | Shed::PerKeyMemory => 1,
            Shed::Rate => 2,
        };
        self.shed[index].fetch_add(1, Relaxed);
    }

    /// A granted run is settled: what its trace holds beside its calls, which were counted as they ended.
    pub(crate) fn granted(&self, profile: &Profile, trace: &CallTrace, findings: &[Finding]) {
        self.egress.settled(profile, trace, findings);
    }

    /// A call was refused: nothing of it ran. `reason` is absent on the few refusals that carry none.
    pub fn refused(&self, reason: Option<Reason>, code: Code) {
        let reason = reason.and_then(|reason| Reason::ALL.iter().position(|known| *known == reason));
        let code = Code::ALL.iter().position(|known| *known == code).unwrap_or_default();
        self.refused[reason.unwrap_or(Reason::ALL.len())][code].fetch_add(1, Relaxed);
    }

    /// A request came without a usable credential.
    pub fn auth_refused(&self) {
        self.auth_refused.fetch_add(1, Relaxed);
    }

    /// A decode slot was taken.
    pub fn decode_slot_taken(&self) {
        self.decode_slots.fetch_add(1, Relaxed);
    }

    /// A decode slot was given back.
    pub fn decode_slot_given_back(&self) {
        self.decode_slots.fetch_sub(1, Relaxed);
    }

    /// The page.
    pub fn render(&self, readings: &Readings) -> String {
        let mut page = Page(String::with_capacity(8 * 1024));
        page.family("plimsoll_runs_total", "counter", "Calls dispatched to the provider.");
        page.sample("plimsoll_runs_total", "", load(&self.runs));
        page.family(
            "plimsoll_runs_failed_total",
            "counter",
            "Calls that ended in an infrastructure error.",
        );
        page.sample("plimsoll_runs_failed_total", "", load(&self.runs_failed));
        page.family("plimsoll_inflight", "gauge", "Global slots held.");
        page.sample("plimsoll_inflight", "", readings.in_flight);
        page.family("plimsoll_shed_total", "counter", "Starts refused by admission.");
        for (reason, count) in SHED_REASONS.iter().zip(&self.shed) {
            page.sample("plimsoll_shed_total", &labels(&[("reason", reason)]), load(count));
        }
        self.egress.render(&mut page);
        self.render_refusals(&mut page);
        self.render_durations(&mut page);
        if let Some(sessions) = readings.sessions {
            page.family("plimsoll_sessions", "gauge", "Sessions, by state.");
            let states = [
                ("opening", sessions.opening),
                ("running", sessions.running),
                ("suspended", sessions.suspended),
                ("ending", sessions.ending),
            ];
            for (state, count) in states {
                page.sample("plimsoll_sessions", &labels(&[("state", state)]), count);
            }
        }
        page.family(
            "plimsoll_decode_slots_in_use",
            "gauge",
            "Request bodies being read and decoded.",
        );
        page.sample("plimsoll_decode_slots_in_use", "", self.decode_slots.load(Relaxed));
        page.family(
            "plimsoll_isolation_tier",
            "gauge",
            "The tier proven at start-up and the current one, as labels.",
        );
        let tiers = [
            ("proven", readings.proven.as_str()),
            ("current", readings.current.as_str()),
        ];
        page.sample("plimsoll_isolation_tier", &labels(&tiers), 1);
        page.family("plimsoll_build_info", "gauge", "The version that serves, as a label.");
        page.sample(
            "plimsoll_build_info",
            &labels(&[("version", env!("CARGO_PKG_VERSION"))]),
            1,
        );
        page.family(
            "plimsoll_log_write_errors_total",
            "counter",
            "Log lines lost because the stream took no more.",
        );
        page.sample("plimsoll_log_write_errors_total", "", readings.log_write_errors);
        if let Some(failed) = readings.failed_handshakes {
            page.family(
                "plimsoll_tls_handshakes_failed_total",
                "counter",
                "TLS handshakes that came to nothing.",
            );
            page.sample("plimsoll_tls_handshakes_failed_total", "", failed);
        }
        page.0
    }

    fn render_refusals(&self, page: &mut Page) {
        page.family(
            "plimsoll_refused_total",
            "counter",
            "Calls refused before anything of them ran.",
        );
        let reasons = Reason::ALL.iter().map(|reason| reason.as_str()).chain(["none"]);
        for (reason, counts) in reasons.zip(&self.refused) {
            for (code, count) in Code::ALL.iter().zip(counts) {
                let count = load(count);
                if count > 0 {
                    page.sample(
                        "plimsoll_refused_total",
                        &labels(&[("reason", reason), ("code", code.as_str())]),
                        count,
                    );
                }
            }
        }
        page.family(
            "plimsoll_auth_refused_total",
            "counter",
            "Requests without a usable credential.",
        );
        page.sample("plimsoll_auth_refused_total", "", load(&self.auth_refused));
    }

    fn render_durations(&self, page: &mut Page) {
        const NAME: &str = "plimsoll_run_duration_seconds";
        page.family(NAME, "histogram", "Time from dispatch to the end of the call, by kind.");
        for (kind, histogram) in KINDS.iter().zip(&self.durations) {
            let counts: Vec<u64> = histogram.buckets.iter().map(load).collect();
            let total: u64 = counts.iter().sum();
            if total == 0 {
                continue;
            }
            let kind = ("kind", kind.as_str());
            let mut below = 0;
            for ((_, le), count) in BUCKETS.iter().zip(&counts) {
                below += count;
                page.sample(&format!("{NAME}_bucket"), &labels(&[kind, ("le", le)]), below);
            }
            page.sample(&format!("{NAME}_bucket"), &labels(&[kind, ("le", "+Inf")]), total);
            page.sample(
                &format!("{NAME}_sum"),
                &labels(&[kind]),
                seconds(load(&histogram.sum_micros)),
            );
            page.sample(&format!("{NAME}_count"), &labels(&[kind]), total);
        }
    }
}

impl Histogram {
    fn observe(&self, duration: Duration) {
        let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        let index = BUCKETS.partition_point(|(bound, _)| *bound < micros);
        self.buckets[index].fetch_add(1, Relaxed);
        self.sum_micros.fetch_add(micros, Relaxed);
    }
}

struct Page(String);

impl Page {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        // Writing to a String cannot fail, here and below.
        let _ = write!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
    }

    fn sample(&mut self, name: &str, labels: &str, value: impl std::fmt::Display) {
        let _ = writeln!(self.0, "{name}{labels} {value}");
    }
}

/// `{name="value",…}`, with backslash, double quote and newline escaped.
fn labels(pairs: &[(&str, &str)]) -> String {
    let mut out = String::from("{");
    for (index, (name, value)) in pairs.iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        out.push_str(name);
        out.push_str("=\"");
        for c in value.chars() {
            match c {
                '\\' => out.push_str("\\\\"),
                '"' => out.push_str("\\\""),
                '\n' => out.push_str("\\n"),
                c => out.push(c),
            }
        }
        out.push('"');
    }
    out.push('}');
    out
}

fn load(counter: &AtomicU64) -> u64 {
    counter.load(Relaxed)
}

/// Microseconds as seconds in shortest form, without rounding through a float.
fn seconds(micros: u64) -> String {
    let (whole, part) = (micros / 1_000_000, micros % 1_000_000);
    if part == 0 {
        whole.to_string()
    } else {
        format!("{whole}.{part:06}").trim_end_matches('0').to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_core::Tier;

    const READINGS: Readings = Readings {
        in_flight: 3,
        proven: Isolation::Proven(Tier::Process),
        current: Isolation::Unknown,
        log_write_errors: 7,
        failed_handshakes: None,
        sessions: None,
    };

    fn families(page: &str) -> Vec<&str> {
        page.lines()
            .filter_map(|line| line.strip_prefix("# TYPE "))
            .filter_map(|line| line.split(' ').next())
            .collect()
    }

    #[test]
    fn families_stand_in_their_order_and_unbuilt_ones_are_absent() {
        assert_eq!(
            families(&Metrics::default().render(&READINGS)),
            [
                "plimsoll_runs_total",
                "plimsoll_runs_failed_total",
                "plimsoll_inflight",
                "plimsoll_shed_total",
                "plimsoll_refused_total",
                "plimsoll_auth_refused_total",
                "plimsoll_run_duration_seconds",
                "plimsoll_decode_slots_in_use",
                "plimsoll_isolation_tier",
                "plimsoll_build_info",
                "plimsoll_log_write_errors_total",
            ]
        );
    }

    #[test]
    fn a_fresh_page_has_every_shed_reason_and_no_refusal() {
        let page = Metrics::default().render(&READINGS);
        for reason in SHED_REASONS {
            assert!(
                page.contains(&format!("plimsoll_shed_total{{reason=\"{reason}\"}} 0\n")),
                "{page}"
            );
        }
        assert!(page.contains("\nplimsoll_inflight 3\n"));
        assert!(page.contains("plimsoll_isolation_tier{proven=\"process\",current=\"unknown\"} 1\n"));
        assert!(page.contains("\nplimsoll_log_write_errors_total 7\n"));
        assert!(!page.contains("plimsoll_refused_total{"));
        assert!(page.ends_with('\n'));
    }

    #[test]
    fn a_guest_exit_is_no_failure_and_an_infrastructure_error_is_one() {
        let metrics = Metrics::default();
        metrics.ran(PayloadKind::JavaScript, Duration::from_micros(90), false);
        metrics.ran(PayloadKind::JavaScript, Duration::from_millis(2), true);
        let page = metrics.render(&READINGS);
        assert!(page.contains("\nplimsoll_runs_total 2\n") && page.contains("\nplimsoll_runs_failed_total 1\n"));
    }

    #[test]
    fn a_full_decoder_is_refused_and_sheds_nothing() {
        let metrics = Metrics::default();
        metrics.refused(Some(Reason::Capacity), Code::ResourceExhausted);
        metrics.refused(None, Code::Unavailable);
        metrics.decode_slot_taken();
        let page = metrics.render(&READINGS);
        assert!(page.contains("plimsoll_refused_total{reason=\"capacity\",code=\"resource_exhausted\"} 1\n"));
        assert!(page.contains("plimsoll_refused_total{reason=\"none\",code=\"unavailable\"} 1\n"));
        assert!(page.contains("\nplimsoll_decode_slots_in_use 1\n"));
        assert!(
            SHED_REASONS
                .iter()
                .all(|reason| page.contains(&format!("{{reason=\"{reason}\"}} 0\n")))
        );
        metrics.decode_slot_given_back();
        assert!(metrics.render(&READINGS).contains("\nplimsoll_decode_slots_in_use 0\n"));
    }

    #[test]
    fn shed_reasons_are_the_limiters_words() {
        let metrics = Metrics::default();
        for (times, shed) in [Shed::AtCapacity, Shed::PerKey, Shed::Rate].into_iter().enumerate() {
            (0..=times).for_each(|_| metrics.shed(shed));
        }
        let page = metrics.render(&READINGS);
        for (times, shed) in [Shed::AtCapacity, Shed::PerKey, Shed::Rate].into_iter().enumerate() {
            assert!(page.contains(&format!(
                "plimsoll_shed_total{{reason=\"{}\"}} {}\n",
                shed.as_str(),
                times + 1
            )));
        }
        // Out of memory is out of places, for the daemon or for a caller.
        metrics.shed(Shed::Memory);
        metrics.shed(Shed::PerKeyMemory);
        let page = metrics.render(&READINGS);
        assert!(
            page.contains("plimsoll_shed_total{reason=\"at_capacity\"} 2\n"),
            "{page}"
        );
        assert!(page.contains("plimsoll_shed_total{reason=\"per_key\"} 3\n"), "{page}");
    }

    #[test]
    fn durations_are_cumulative_and_bounds_are_inclusive() {
        let metrics = Metrics::default();
        for micros in [100, 101, 1_000, 400_000_000] {
            metrics.ran(PayloadKind::JavaScript, Duration::from_micros(micros), false);
        }
        let page = metrics.render(&READINGS);
        for (le, count) in [("0.0001", 1), ("0.00025", 2), ("0.001", 3), ("300", 3), ("+Inf", 4)] {
            let sample = format!("plimsoll_run_duration_seconds_bucket{{kind=\"javascript\",le=\"{le}\"}} {count}\n");
            assert!(page.contains(&sample), "{sample}{page}");
        }
        assert!(page.contains("plimsoll_run_duration_seconds_sum{kind=\"javascript\"} 400.001201\n"));
        assert!(page.contains("plimsoll_run_duration_seconds_count{kind=\"javascript\"} 4\n"));
        assert!(!page.contains("kind=\"module\""), "a kind nobody ran has no series");
    }

    #[test]
    fn every_bound_reads_as_its_label() {
        for (micros, le) in BUCKETS {
            assert_eq!(seconds(micros), le);
        }
        assert!(BUCKETS.is_sorted());
    }

    #[test]
    fn label_values_are_escaped() {
        assert_eq!(labels(&[("profile", "a\"b\\c\nd")]), "{profile=\"a\\\"b\\\\c\\nd\"}");
    }
}
