//! A run in a fresh instance, inside the process: the facade's whole corridor, record included.

use std::time::{Duration, Instant};

use plimsoll::{Sandbox, Tier};
use serde_json::json;

use crate::stats::{Round, micros, middle};
use crate::{CODE, Row};

const ROUNDS: usize = 5;
const RUNS: usize = 5_000;
const WARM_UP: usize = 500;
const P50: Duration = Duration::from_micros(120);
const P99: Duration = Duration::from_millis(1);

pub(super) async fn measure() -> anyhow::Result<Row> {
    let sandbox = Sandbox::wasm().build().await?;
    let mut rounds = Vec::with_capacity(ROUNDS);
    for _ in 0..WARM_UP {
        one(&sandbox).await?;
    }
    for _ in 0..ROUNDS {
        let mut taken = Vec::with_capacity(RUNS);
        for _ in 0..RUNS {
            taken.push(one(&sandbox).await?);
        }
        rounds.push(Round::new(taken));
    }
    let p50 = middle(&rounds, Round::p50);
    let p99 = middle(&rounds, |round| round.percentile(99));
    Ok(Row {
        name: "in-process",
        what: "console.log(6*7) in a fresh instance, inside the process",
        figure: format!("p50 {} us, p99 {} us", micros(p50), micros(p99)),
        bar: "p50 at most 120 us, p99 of the middle of five rounds at most 1 ms",
        holds: p50 <= P50 && p99 <= P99,
        numbers: json!({ "p50_us": micros(p50), "p99_us": micros(p99), "rounds": ROUNDS, "runs": RUNS }),
    })
}

async fn one(sandbox: &Sandbox) -> anyhow::Result<Duration> {
    let start = Instant::now();
    let run = sandbox.run_javascript(CODE).floor(Tier::Process).send().await?;
    let taken = start.elapsed();
    anyhow::ensure!(run.stdout == b"42\n", "the run printed {:?}", run.stdout_text());
    Ok(taken)
}
