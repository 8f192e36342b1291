//! Fresh containers through `plimsolld`: from the ready pool and cold, under runc and gVisor, against `docker run` doing the
//! same work, alternating. Needs a container engine with `runsc` registered, the docker command to compare with, and the
//! images of `plimsoll images build`.

use std::collections::BTreeSet;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use bytes::Bytes;
use serde_json::{Value, json};

use crate::daemon::{Daemon, Program, TOKEN, eventually};
use crate::http::{Connection, run_body};
use crate::stats::{Round, micros, ratio};
use crate::{CODE, Row};

/// Runs of each side.
const RUNS: usize = 30;

/// Members that wait.
pub(super) const POOL: &str = "4";

/// Between two runs, so that the pool is never empty and its filling does not run beside what is measured.
const PAUSE: Duration = Duration::from_millis(1200);

/// How a container's runtime is measured.
#[derive(Clone, Copy, Debug)]
pub(super) struct Case {
    name: &'static str,
    what: &'static str,
    bar: &'static str,
    runtime: &'static str,
    pooled: bool,
    most: Option<Duration>,
    faster: f64,
}

pub(super) const POOL_RUNC: Case = Case {
    name: "pool-runc",
    what: "console.log(6*7) in a fresh container from the ready pool, through plimsolld, runc; against docker run",
    bar: "p50 at most 10 ms, and at least 20x faster than docker run",
    runtime: "runc",
    pooled: true,
    most: Some(Duration::from_millis(10)),
    faster: 20.0,
};

pub(super) const COLD_RUNC: Case = Case {
    name: "cold-runc",
    what: "the same in a container made for the run, runc; against docker run",
    bar: "no slower than docker run",
    runtime: "runc",
    pooled: false,
    most: None,
    faster: 1.0,
};

pub(super) const POOL_RUNSC: Case = Case {
    name: "pool-runsc",
    what: "the same from the ready pool under gVisor; against docker run --runtime runsc",
    bar: "p50 at most 20 ms, and at least 15x faster than docker run --runtime runsc",
    runtime: "runsc",
    pooled: true,
    most: Some(Duration::from_millis(20)),
    faster: 15.0,
};

pub(super) async fn against_docker_run(program: &Program, case: Case) -> anyhow::Result<Row> {
    let daemon = daemon(program, case.runtime, if case.pooled { POOL } else { "0" }, &[])?;
    let mut connection = Connection::open(daemon.address(), TOKEN).await?;
    let body = run_body(CODE, 0);
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    tokio::time::sleep(PAUSE * 3).await;
    for _ in 0..RUNS {
        let start = Instant::now();
        let answer = connection.run(body.clone()).await?;
        ours.push(start.elapsed());
        answer.printed_42()?;
        tokio::time::sleep(PAUSE).await;
        theirs.push(docker_run(case.runtime)?);
        tokio::time::sleep(PAUSE / 4).await;
    }
    drop(connection);
    daemon.stop()?;
    let (ours, theirs) = (Round::new(ours), Round::new(theirs));
    let faster = ratio(theirs.p50(), ours.p50());
    Ok(Row {
        name: case.name,
        what: case.what,
        figure: format!(
            "p50 {} us, docker run {} us: {faster}x faster",
            micros(ours.p50()),
            micros(theirs.p50())
        ),
        bar: case.bar,
        holds: faster >= case.faster && case.most.is_none_or(|most| ours.p50() <= most),
        numbers: json!({ "p50_us": micros(ours.p50()), "p99_us": micros(ours.percentile(99)),
            "docker_run_p50_us": micros(theirs.p50()), "runs": RUNS, "pool": if case.pooled { POOL } else { "0" } }),
    })
}

/// 20 files, three steps and an artifact of 1 MiB, from the pool.
pub(super) async fn project(program: &Program) -> anyhow::Result<Row> {
    const OVERHEAD: Duration = Duration::from_millis(20);
    let daemon = daemon(program, "runc", POOL, &[])?;
    let mut connection = Connection::open(daemon.address(), TOKEN).await?;
    let files: Vec<Value> = (0..20)
        .map(|n| json!({ "path": format!("src/part{n}.txt"), "content": "line\n".repeat(200) }))
        .collect();
    let body = Bytes::from(
        json!({
            "protocol": 4,
            "minimumIsolation": "container",
            "project": {
                "files": files,
                "steps": ["cat src/*.txt > all.txt", "wc -l all.txt", "head -c 1048576 /dev/zero > out.bin"],
                "artifacts": ["out.bin"],
            },
        })
        .to_string(),
    );
    tokio::time::sleep(PAUSE * 3).await;
    let mut beyond = Vec::new();
    for _ in 0..RUNS {
        let start = Instant::now();
        let answer = connection.run(body.clone()).await?;
        let taken = start.elapsed();
        let answer = answer.json()?;
        let steps = answer["project"]["steps"].as_array().context("the project has steps")?;
        anyhow::ensure!(
            steps.len() == 3
                && answer["project"]["artifacts"]
                    .as_array()
                    .is_some_and(|found| found.len() == 1),
            "{}",
            answer["project"]["outcome"]
        );
        beyond.push(taken.saturating_sub(steps.iter().map(step_time).sum()));
        tokio::time::sleep(PAUSE).await;
    }
    drop(connection);
    daemon.stop()?;
    let beyond = Round::new(beyond);
    Ok(Row {
        name: "project-runc",
        what: "a project of 20 files, 3 steps and one 1 MiB artifact from the ready pool, beyond the steps' own time",
        figure: format!("p50 {} us", micros(beyond.p50())),
        bar: "at most 20 ms",
        holds: beyond.p50() <= OVERHEAD,
        numbers: json!({ "p50_us": micros(beyond.p50()), "p99_us": micros(beyond.percentile(99)), "runs": RUNS }),
    })
}

/// The wire states 64-bit numbers as text.
fn step_time(step: &Value) -> Duration {
    let stated = &step["durationMs"];
    let ms = stated.as_u64().or_else(|| stated.as_str()?.parse().ok());
    Duration::from_millis(ms.unwrap_or(0))
}

/// 64 runs at once on a pool of 8.
pub(super) async fn burst(program: &Program) -> anyhow::Result<Row> {
    const AT_ONCE: usize = 64;
    let before = containers()?;
    let daemon = daemon(program, "runc", "8", &[("SANDBOX_PER_KEY_CONCURRENT", "0")])?;
    tokio::time::sleep(PAUSE * 5).await;
    let mut calls = Vec::new();
    for _ in 0..AT_ONCE {
        let mut connection = Connection::open(daemon.address(), TOKEN).await?;
        let body = run_body(CODE, 0);
        calls.push(tokio::spawn(async move { connection.run(body).await }));
    }
    let (mut right, mut shed) = (0, 0);
    for call in calls {
        let answer = call.await??;
        if answer.shed() {
            shed += 1;
        } else {
            answer.printed_42()?;
            right += 1;
        }
    }
    daemon.stop()?;
    let left = left_behind(&before).await?;
    Ok(Row {
        name: "burst",
        what: "64 runs at once on a ready pool of 8",
        figure: format!("{right} right, {shed} refused as capacity, {left} containers left behind"),
        bar: "64 right or refused as capacity, nothing left behind",
        holds: right + shed == AT_ONCE && right > 0 && left == 0,
        numbers: json!({ "right": right, "refused": shed, "left_behind": left }),
    })
}

/// 200 quick snippets one after another by one caller, pool and caps at their defaults.
pub(super) async fn quick(program: &Program) -> anyhow::Result<Row> {
    const QUICK: usize = 200;
    let daemon = daemon(program, "runc", POOL, &[])?;
    let mut connection = Connection::open(daemon.address(), TOKEN).await?;
    let body = run_body(CODE, 0);
    let start = Instant::now();
    let mut refused = 0;
    for _ in 0..QUICK {
        let answer = connection.run(body.clone()).await?;
        if answer.shed() {
            refused += 1;
        } else {
            answer.printed_42()?;
        }
    }
    let taken = start.elapsed();
    drop(connection);
    daemon.stop()?;
    Ok(Row {
        name: "quick",
        what: "200 quick snippets one after another by one caller, a ready pool of 4, caps at their defaults",
        figure: format!("{refused} refused, {} ms in all", taken.as_millis()),
        bar: "none refused",
        holds: refused == 0,
        numbers: json!({ "refused": refused, "runs": QUICK, "ms": u64::try_from(taken.as_millis())? }),
    })
}

fn daemon(program: &Program, runtime: &str, pool: &str, more: &[(&str, &str)]) -> anyhow::Result<Daemon> {
    let runtime = if runtime == "runc" { "" } else { runtime };
    let mut variables = vec![
        ("SANDBOX_PROVIDER", "docker"),
        ("SANDBOX_DOCKER_RUNTIME", runtime),
        ("SANDBOX_READY_POOL", pool),
    ];
    variables.extend(more);
    Daemon::start(program, &variables)
}

#[expect(clippy::disallowed_methods, reason = "the command is what is compared with")]
pub(super) fn docker(arguments: &[&str]) -> anyhow::Result<Vec<u8>> {
    let output = Command::new("docker")
        .args(arguments)
        // An engine of Docker 20.10 speaks no newer version.
        .env("DOCKER_API_VERSION", "1.41")
        .stdin(Stdio::null())
        .output()
        .context("starting docker")?;
    anyhow::ensure!(
        output.status.success(),
        "docker {arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(output.stdout)
}

/// One `docker run` that does the same work.
fn docker_run(runtime: &str) -> anyhow::Result<Duration> {
    let arguments = [
        "run",
        "--rm",
        "--runtime",
        runtime,
        "--network",
        "none",
        "--log-driver",
        "none",
        "--entrypoint",
        "node",
        "plimsoll/sandbox:latest",
        "-e",
        CODE,
    ];
    let start = Instant::now();
    let output = docker(&arguments)?;
    let taken = start.elapsed();
    anyhow::ensure!(
        output == b"42\n",
        "docker run printed {:?}",
        String::from_utf8_lossy(&output)
    );
    Ok(taken)
}

/// Every container there is, by ID.
fn containers() -> anyhow::Result<BTreeSet<String>> {
    let listed = String::from_utf8(docker(&["ps", "--all", "--quiet", "--no-trunc"])?)?;
    Ok(listed.lines().map(str::to_owned).collect())
}

/// How many containers there are beyond those there were, once the engine has had its time.
async fn left_behind(before: &BTreeSet<String>) -> anyhow::Result<usize> {
    let beyond = || containers().map(|now| now.difference(before).count());
    eventually(Duration::from_secs(20), async || beyond().is_ok_and(|left| left == 0)).await;
    beyond()
}
