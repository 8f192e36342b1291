//! This host's own figures: latency and throughput of each tier it can prove.

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use plimsoll::Sandbox;
use plimsoll_core::vars::Lookup;
use plimsoll_core::{RunError, Tier};
use serde_json::json;

use crate::failure::Failure;

/// What is run: it prints, so streams are part of the figure.
const CODE: &str = "console.log(6*7)";

/// Runs before the clock counts.
const WARM_UP: usize = 200;

/// Most runs whose latency is looked at; with so many a 99th percentile has 20 runs above it.
const RUNS: usize = 2_000;

/// Longest time for the warm-up, and for the latencies: a container takes thousands of times what an instance takes.
const WARM_UP_TIME: Duration = Duration::from_secs(2);
const RUNS_TIME: Duration = Duration::from_secs(10);

/// How long throughput is measured.
const THROUGHPUT: Duration = Duration::from_secs(2);

/// One tier's figures.
#[derive(Clone, Copy, Debug)]
struct Figures {
    /// Runs the percentiles are of: fewer than [`RUNS`] where one run takes long.
    runs: usize,
    p50: Duration,
    p99: Duration,
    runs_per_second: u64,
}

/// Measures every provider built in, as text or JSON.
pub(crate) fn report(lookup: &dyn Lookup, json: bool) -> Result<String, Failure> {
    let workers = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(workers)
        .enable_all()
        .build()
        .map_err(|error| Failure::not_ready(&error))?;
    let mut rows = Vec::new();
    for provider in plimsoll::registry::PROVIDERS {
        let ready = runtime.block_on(Sandbox::from_lookup(&crate::local::for_a_look(provider.name, lookup)));
        let sandbox = match ready {
            Ok(sandbox) => sandbox,
            // A tier this host cannot prove has no figures; the doctor says what is missing.
            Err(_) if !provider.in_process => continue,
            Err(error) => return Err(Failure::not_ready(&error)),
        };
        let tier = sandbox.evidence().isolation;
        let figures = runtime.block_on(measure(sandbox.clone(), workers));
        runtime
            .block_on(sandbox.drain())
            .map_err(|fault| Failure::not_ready(&fault))?;
        rows.push((tier.as_str(), provider.name, figures?));
    }
    Ok(if json {
        as_json(&rows, workers)
    } else {
        as_text(&rows, workers)
    })
}

async fn measure(sandbox: Sandbox, workers: usize) -> Result<Figures, RunError> {
    // A task of its own: latencies are those of a worker thread, not of the thread that waits for it.
    let probe = sandbox.clone();
    let mut latencies = tokio::spawn(async move { latencies(&probe).await })
        .await
        .map_err(|error| panicked(&error))??;
    latencies.sort_unstable();
    let done = Arc::new(AtomicU64::new(0));
    let start = Instant::now();
    let tasks: Vec<_> = (0..workers)
        .map(|_| tokio::spawn(keep_running(sandbox.clone(), Arc::clone(&done), start)))
        .collect();
    for task in tasks {
        task.await.map_err(|error| panicked(&error))??;
    }
    let seconds = start.elapsed().as_millis().max(1);
    let runs_per_second = u128::from(done.load(Ordering::Relaxed)) * 1000 / seconds;
    Ok(Figures {
        runs: latencies.len(),
        p50: percentile(&latencies, 50),
        p99: percentile(&latencies, 99),
        runs_per_second: u64::try_from(runs_per_second).unwrap_or(u64::MAX),
    })
}

/// The value that this share of the sorted values lies below, however few there are.
fn percentile(sorted: &[Duration], percent: usize) -> Duration {
    let last = sorted.len().saturating_sub(1);
    let place = (sorted.len() * percent / 100).min(last);
    sorted.get(place).copied().unwrap_or_default()
}

async fn latencies(sandbox: &Sandbox) -> Result<Vec<Duration>, RunError> {
    let begun = Instant::now();
    for _ in 0..WARM_UP {
        run(sandbox).await?;
        if begun.elapsed() > WARM_UP_TIME {
            break;
        }
    }
    let mut taken = Vec::with_capacity(RUNS);
    let begun = Instant::now();
    while taken.len() < RUNS && (taken.is_empty() || begun.elapsed() < RUNS_TIME) {
        let start = Instant::now();
        run(sandbox).await?;
        taken.push(start.elapsed());
    }
    Ok(taken)
}

async fn keep_running(sandbox: Sandbox, done: Arc<AtomicU64>, start: Instant) -> Result<(), RunError> {
    while start.elapsed() < THROUGHPUT {
        run(&sandbox).await?;
        done.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

async fn run(sandbox: &Sandbox) -> Result<(), RunError> {
    let run = sandbox.run_javascript(CODE).floor(Tier::Process).send().await?;
    if run.stdout == b"42\n" {
        Ok(())
    } else {
        Err(plimsoll_core::Fault::internal(format!("the run printed {:?} instead of 42", run.stdout_text())).into())
    }
}

fn panicked(error: &tokio::task::JoinError) -> RunError {
    plimsoll_core::Fault::internal(error.to_string()).into()
}

fn as_text(rows: &[(&str, &str, Figures)], workers: usize) -> String {
    let mut text = format!("{CODE} in a fresh sandbox per run, {workers} processors\n\n");
    let _infallible = writeln!(
        text,
        "{:<10} {:<12} {:>10} {:>10} {:>10} {:>10}",
        "tier", "provider", "runs", "p50", "p99", "runs/s"
    );
    for (tier, provider, figures) in rows {
        let (p50, p99) = (figures.p50.as_micros(), figures.p99.as_micros());
        let _infallible = writeln!(
            text,
            "{tier:<10} {provider:<12} {:>10} {p50:>7} us {p99:>7} us {:>10}",
            figures.runs, figures.runs_per_second
        );
    }
    text
}

fn as_json(rows: &[(&str, &str, Figures)], workers: usize) -> String {
    let tiers: Vec<_> = rows
        .iter()
        .map(|(tier, provider, figures)| {
            json!({
                "tier": tier,
                "provider": provider,
                "runs": figures.runs,
                "p50_us": u64::try_from(figures.p50.as_micros()).unwrap_or(u64::MAX),
                "p99_us": u64::try_from(figures.p99.as_micros()).unwrap_or(u64::MAX),
                "runs_per_second": figures.runs_per_second,
            })
        })
        .collect();
    format!("{}\n", json!({ "code": CODE, "processors": workers, "tiers": tiers }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_of_the_runs_there_were() {
        let of = |runs: u64, percent| {
            let sorted: Vec<_> = (0..runs).map(Duration::from_millis).collect();
            percentile(&sorted, percent).as_millis()
        };
        assert_eq!((of(2000, 50), of(2000, 99)), (1000, 1980));
        assert_eq!((of(37, 50), of(37, 99)), (18, 36));
        assert_eq!((of(1, 50), of(1, 99)), (0, 0));
        assert_eq!((of(3, 100), of(0, 99)), (2, 0));
    }
}
