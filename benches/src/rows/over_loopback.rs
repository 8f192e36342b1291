//! The same run through `plimsolld` on loopback: JSON, authenticated, with record and audit line, rate limit off.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use bytes::Bytes;
use serde_json::json;

use crate::daemon::{Daemon, Program, TOKEN};
use crate::http::{Connection, run_body};
use crate::stats::{Round, micros, middle};
use crate::{CODE, Row};

const ROUNDS: usize = 5;
const RUNS: usize = 3_000;
const WARM_UP: usize = 500;
const P50: Duration = Duration::from_micros(350);

const CONNECTIONS: usize = 16;
const THROUGHPUT_TIME: Duration = Duration::from_secs(5);
const THROUGHPUT_ROUNDS: usize = 3;
const RUNS_PER_SECOND: u64 = 6_000;

pub(super) async fn latency(program: &Program) -> anyhow::Result<Row> {
    let daemon = Daemon::start(program, &[])?;
    let mut connection = Connection::open(daemon.address(), TOKEN).await?;
    let body = run_body(CODE, 0);
    for _ in 0..WARM_UP {
        connection.run(body.clone()).await?.printed_42()?;
    }
    let mut rounds = Vec::with_capacity(ROUNDS);
    for _ in 0..ROUNDS {
        let mut taken = Vec::with_capacity(RUNS);
        for _ in 0..RUNS {
            let start = Instant::now();
            let answer = connection.run(body.clone()).await?;
            taken.push(start.elapsed());
            answer.printed_42()?;
        }
        rounds.push(Round::new(taken));
    }
    drop(connection);
    let audited = daemon.stop()?;
    let sent = u64::try_from(WARM_UP + ROUNDS * RUNS)?;
    anyhow::ensure!(audited == sent, "{audited} audit lines for {sent} runs");
    let (p50, p99) = (
        middle(&rounds, Round::p50),
        middle(&rounds, |round| round.percentile(99)),
    );
    Ok(Row {
        name: "loopback",
        what: "the same through plimsolld, one keep-alive connection, JSON, authenticated, record and audit line included",
        figure: format!("p50 {} us, p99 {} us", micros(p50), micros(p99)),
        bar: "p50 at most 350 us",
        holds: p50 <= P50,
        numbers: json!({ "p50_us": micros(p50), "p99_us": micros(p99), "runs": sent, "audit_lines": audited }),
    })
}

pub(super) async fn throughput(program: &Program) -> anyhow::Result<Row> {
    let daemon = Daemon::start(
        program,
        &[("SANDBOX_MAX_CONCURRENT", "32"), ("SANDBOX_PER_KEY_CONCURRENT", "0")],
    )?;
    let mut rates = Vec::with_capacity(THROUGHPUT_ROUNDS);
    for _ in 0..THROUGHPUT_ROUNDS {
        let start = Instant::now();
        let mut tasks = Vec::with_capacity(CONNECTIONS);
        for _ in 0..CONNECTIONS {
            let connection = Connection::open(daemon.address(), TOKEN).await?;
            tasks.push(tokio::spawn(keep_running(connection, run_body(CODE, 0), start)));
        }
        let mut runs = 0;
        for task in tasks {
            runs += task.await??;
        }
        let elapsed = u64::try_from(start.elapsed().as_millis())?.max(1);
        rates.push(runs * 1000 / elapsed);
    }
    daemon.stop()?;
    rates.sort_unstable();
    let rate = *rates.get(THROUGHPUT_ROUNDS / 2).context("there is a middle round")?;
    Ok(Row {
        name: "throughput",
        what: "runs per second through plimsolld, 16 connections, client on the same processors",
        figure: format!("{rate} runs/s"),
        bar: "at least 6,000 runs/s on 2 processors",
        holds: rate >= RUNS_PER_SECOND,
        numbers: json!({ "runs_per_second": rate, "rounds": rates, "connections": CONNECTIONS,
            "processors": std::thread::available_parallelism().map_or(0, std::num::NonZero::get) }),
    })
}

async fn keep_running(mut connection: Connection, body: Bytes, start: Instant) -> anyhow::Result<u64> {
    let mut runs = 0;
    while start.elapsed() < THROUGHPUT_TIME {
        let answer = connection.run(body.clone()).await?;
        anyhow::ensure!(answer.status == 200, "HTTP {}", answer.status);
        runs += 1;
    }
    Ok(runs)
}
