//! `while(true){}` with a 50 ms limit, and what its neighbours notice.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::daemon::{Daemon, Program, TOKEN};
use crate::http::{Connection, run_body};
use crate::stats::{Round, micros};
use crate::{CODE, Row};

const LIMIT_MS: u32 = 50;
const LOOPS: usize = 40;
const BAR: Duration = Duration::from_millis(60);

/// A neighbour shares the processors with the loop; a full tick of the loop's turn is the most it may wait.
const NEIGHBOUR_BAR: Duration = Duration::from_millis(10);

pub(super) async fn measure(program: &Program) -> anyhow::Result<Row> {
    let daemon = Daemon::start(program, &[("SANDBOX_PER_KEY_CONCURRENT", "0")])?;
    let mut looping = Connection::open(daemon.address(), TOKEN).await?;
    let mut neighbour = Connection::open(daemon.address(), TOKEN).await?;
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let neighbour = tokio::spawn(async move {
        let (body, mut stopped, mut taken) = (run_body(CODE, 0), stopped, Vec::new());
        while stopped.try_recv().is_err() {
            let start = Instant::now();
            neighbour.run(body.clone()).await?.printed_42()?;
            taken.push(start.elapsed());
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        anyhow::Ok(Round::new(taken))
    });
    let mut taken = Vec::with_capacity(LOOPS);
    for _ in 0..LOOPS {
        let start = Instant::now();
        let answer = looping.run(run_body("while(true){}", LIMIT_MS)).await?;
        taken.push(start.elapsed());
        let answer = answer.json()?;
        anyhow::ensure!(
            answer["javascript"]["timedOut"] == true && answer["javascript"]["exitCode"] == 124,
            "{answer}"
        );
    }
    let _ended_early = stop.send(());
    let neighbour = neighbour.await??;
    daemon.stop()?;
    let round = Round::new(taken);
    let (p50, next) = (round.p50(), neighbour.percentile(99));
    Ok(Row {
        name: "deadline",
        what: "while(true){} with a 50 ms limit through plimsolld, and a neighbour's runs meanwhile",
        figure: format!(
            "p50 {} us, p99 {} us; neighbour p99 {} us",
            micros(p50),
            micros(round.percentile(99)),
            micros(next)
        ),
        bar: "answer at most 60 ms; neighbours unharmed (p99 at most 10 ms, every run right)",
        holds: p50 <= BAR && next <= NEIGHBOUR_BAR,
        numbers: json!({ "p50_us": micros(p50), "p99_us": micros(round.percentile(99)), "neighbour_p50_us": micros(neighbour.p50()),
            "neighbour_p99_us": micros(next), "loops": LOOPS }),
    })
}
