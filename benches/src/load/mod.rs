//! The mixed load test: 64 connections, nine classes of request, each with exactly one right answer.
//!
//! Every worker walks through the classes in turn, starting at a different one, so all of them are under way at any time.
//! A request that gets another answer than its class's is a mismatch, and a single mismatch fails the test. Afterwards the
//! daemon's own counters must agree, nothing may be in flight, and its memory must be where it was.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::Row;
use crate::daemon::{Daemon, Program, TOKEN, eventually};
use crate::http::Connection;

mod classes;

pub use classes::Class;

/// Connections at once.
pub const CONNECTIONS: usize = 64;

/// What memory may grow by.
const GROWTH_KIB: u64 = 10 * 1024;

/// Longest wait for memory to come back after the last answer.
const SETTLING: Duration = Duration::from_secs(5);

/// Mismatches kept for the report; the first ones tell the most.
const KEPT_MISMATCHES: usize = 10;

/// What became of a load.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Requests sent, by class.
    pub sent: BTreeMap<Class, u64>,
    /// Requests that got their class's answer.
    pub matched: BTreeMap<Class, u64>,
    /// What some of the others got instead.
    pub mismatches: Vec<String>,
    /// Resident memory before and after, in KiB.
    pub resident_kib: (u64, u64),
    /// What the daemon's counters say against it; empty when they agree.
    pub disagreements: Vec<String>,
}

impl Outcome {
    /// Everything that is not as promised.
    pub fn faults(&self) -> Vec<String> {
        let mut faults = self.mismatches.clone();
        for (class, sent) in &self.sent {
            let matched = self.matched.get(class).copied().unwrap_or(0);
            if matched != *sent {
                faults.push(format!(
                    "{}: {sent} sent, {matched} answered as expected",
                    class.as_str()
                ));
            }
        }
        if self.sent.len() != Class::ALL.len() {
            faults.push("not every class was sent".to_owned());
        }
        let (before, after) = self.resident_kib;
        if after > before + GROWTH_KIB {
            faults.push(format!(
                "memory grew from {before} to {after} KiB, more than {GROWTH_KIB} KiB"
            ));
        }
        faults.extend(self.disagreements.iter().cloned());
        faults
    }
}

/// Loads a daemon of its own for some time.
///
/// # Errors
/// When the daemon does not start, dies, or does not stop with success.
pub async fn run(program: &Program, lasting: Duration) -> anyhow::Result<Outcome> {
    let limits = [
        ("SANDBOX_MAX_CONCURRENT", "128"),
        ("SANDBOX_PER_KEY_CONCURRENT", "0"),
        ("SANDBOX_MEMORY_MB", "32"),
    ];
    let daemon = Daemon::start(program, &limits)?;
    let before = daemon.resident_kib()?;
    let until = Instant::now() + lasting;
    let workers: Vec<_> = (0..CONNECTIONS)
        .map(|index| tokio::spawn(worker(index, daemon.address(), until)))
        .collect();
    let mut outcome = Outcome::default();
    for worker in workers {
        outcome.absorb(worker.await??);
    }
    outcome.disagreements = disagreements(&daemon, &outcome.sent).await?;
    outcome.resident_kib = (before, settled(&daemon, before).await?);
    daemon.stop()?;
    Ok(outcome)
}

/// Resident memory once the daemon has been quiet: it gives back what its busiest moment held a second after the last
/// run. Waits no longer than [`SETTLING`] for that.
async fn settled(daemon: &Daemon, before: u64) -> anyhow::Result<u64> {
    let until = Instant::now() + SETTLING;
    loop {
        let resident = daemon.resident_kib()?;
        if resident <= before + GROWTH_KIB || Instant::now() >= until {
            return Ok(resident);
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

pub(crate) async fn measure(program: &Program, lasting: Duration) -> anyhow::Result<Row> {
    let outcome = run(program, lasting).await?;
    let faults = outcome.faults();
    let (before, after) = outcome.resident_kib;
    let total: u64 = outcome.sent.values().sum();
    let by_class: BTreeMap<&str, u64> = outcome
        .sent
        .iter()
        .map(|(class, sent)| (class.as_str(), *sent))
        .collect();
    Ok(Row {
        name: "load",
        what: "64 connections mixing nine classes of request, rate limit off",
        figure: if faults.is_empty() {
            format!("{total} requests, every one answered as its class; {before} to {after} KiB")
        } else {
            format!("{total} requests; {}", faults.join("; "))
        },
        bar: "counts per class exact, in-flight returns to 0, memory at most start + 10 MiB, plimsolld alive",
        holds: faults.is_empty(),
        numbers: json!({ "seconds": lasting.as_secs(), "sent": by_class, "before_kib": before, "after_kib": after }),
    })
}

impl Outcome {
    fn absorb(&mut self, other: Self) {
        for (class, count) in other.sent {
            *self.sent.entry(class).or_default() += count;
        }
        for (class, count) in other.matched {
            *self.matched.entry(class).or_default() += count;
        }
        self.mismatches.extend(other.mismatches);
        self.mismatches.truncate(KEPT_MISMATCHES);
    }
}

async fn worker(index: usize, address: SocketAddr, until: Instant) -> anyhow::Result<Outcome> {
    let mut outcome = Outcome::default();
    let mut kept = Connection::open(address, TOKEN).await?;
    for class in Class::ALL.into_iter().cycle().skip(index % Class::ALL.len()) {
        if Instant::now() >= until {
            return Ok(outcome);
        }
        *outcome.sent.entry(class).or_default() += 1;
        match class.send(&mut kept, address).await {
            Ok(()) => *outcome.matched.entry(class).or_default() += 1,
            Err(error) => {
                outcome.mismatches.push(format!("{}: {error:#}", class.as_str()));
                kept = Connection::open(address, TOKEN).await?;
            }
        }
    }
    Ok(outcome)
}

/// What the daemon counted, where it must equal what was sent. Dropped requests may or may not have begun.
async fn disagreements(daemon: &Daemon, sent: &BTreeMap<Class, u64>) -> anyhow::Result<Vec<String>> {
    let count = |class: Class| sent.get(&class).copied().unwrap_or(0);
    let runs: u64 = sent
        .iter()
        .filter(|(class, _)| class.runs())
        .map(|(_, sent)| sent)
        .sum();
    let mut found = Vec::new();
    let idle = eventually(Duration::from_secs(10), async || {
        metric(daemon, "plimsoll_inflight")
            .await
            .is_ok_and(|inflight| inflight == 0)
    });
    if !idle.await {
        found.push("in-flight does not return to 0".to_owned());
    }
    let dispatched = metric(daemon, "plimsoll_runs_total").await?;
    if !(runs..=runs + count(Class::Dropped)).contains(&dispatched) {
        found.push(format!(
            "plimsoll_runs_total is {dispatched} for {runs} runs and {} dropped",
            count(Class::Dropped)
        ));
    }
    for (name, expected) in [
        ("plimsoll_runs_failed_total", 0),
        ("plimsoll_shed_total", 0),
        ("plimsoll_auth_refused_total", count(Class::WrongToken)),
        ("plimsoll_decode_slots_in_use", 0),
    ] {
        let counted = metric(daemon, name).await?;
        if counted != expected {
            found.push(format!("{name} is {counted} instead of {expected}"));
        }
    }
    Ok(found)
}

/// The sum of a family's samples.
async fn metric(daemon: &Daemon, family: &str) -> anyhow::Result<u64> {
    let mut connection = Connection::open(daemon.metrics_address(), "").await?;
    let answer = connection.get("/metrics").await?;
    let text = String::from_utf8_lossy(&answer.body);
    let samples = text.lines().filter(|line| {
        line.strip_prefix(family)
            .is_some_and(|rest| rest.starts_with(' ') || rest.starts_with('{'))
    });
    let mut sum = 0;
    let mut found = false;
    for sample in samples {
        let value = sample.rsplit(' ').next().unwrap_or_default();
        sum += value
            .parse::<u64>()
            .map_err(|error| anyhow::anyhow!("{sample}: {error}"))?;
        found = true;
    }
    anyhow::ensure!(found, "/metrics has no {family}");
    Ok(sum)
}
