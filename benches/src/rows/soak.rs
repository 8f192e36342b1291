//! The mixed load for half an hour, and sessions beside it: what a day leaves behind, compressed.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use bytes::Bytes;
use serde_json::{Value, json};

use crate::Row;
use crate::daemon::{Daemon, Program, TOKEN, eventually};
use crate::http::{CLOSE_SESSION, Connection, OPEN_SESSION, SESSION_RUN, run_body};

/// Connections that run, one call after another.
const RUNNERS: usize = 6;

/// Connections that open sessions, use them and close them.
const SESSIONS: usize = 2;

/// Looks at the daemon, from the end of the warm-up on: so many because memory goes up and down by megabytes with the runs that
/// happen to meet, and only a mean of many says what stays.
const LOOKS: u32 = 600;

/// Part of the time before the first look: arenas and buffers reach their size.
const WARM_UP: u32 = 10;

/// What the allocator may keep between the first half's mean and the second's.
const NOISE_KIB: u64 = 2 * 1024;

/// What runs make of one another's programs: values, errors, ends by limit, output, memory.
const PROGRAMS: [&str; 8] = [
    "console.log(6*7)",
    "const rows = Array.from({length: 2000}, (_, at) => ({at, half: at / 2})); console.log(JSON.stringify(rows).length)",
    "throw new Error('on purpose')",
    "syntax error (",
    "for (;;);",
    "for (let at = 0; at < 4000; at++) console.log('x'.repeat(60))",
    "const held = []; for (;;) held.push(new Uint8Array(1 << 20).fill(1))",
    "console.log(await new Promise((done) => setTimeout(() => done('later'), 10)))",
];

pub(super) async fn measure(program: &Program, time: Duration) -> anyhow::Result<Row> {
    let daemon = Daemon::start(
        program,
        &[
            ("SANDBOX_MAX_CONCURRENT", "16"),
            ("SANDBOX_PER_KEY_CONCURRENT", "0"),
            ("SANDBOX_MAX_SESSIONS", "16"),
        ],
    )?;
    let descriptors = daemon.descriptors()?;
    let until = Instant::now() + time;
    let mut tasks = Vec::new();
    for runner in 0..RUNNERS {
        tasks.push(tokio::spawn(runs(daemon.address(), runner, until)));
    }
    for _ in 0..SESSIONS {
        tasks.push(tokio::spawn(sessions(daemon.address(), until)));
    }
    tokio::time::sleep(time / WARM_UP).await;
    let mut looks = Vec::new();
    let pause = until.saturating_duration_since(Instant::now()) / LOOKS;
    while looks.len() < LOOKS as usize && Instant::now() < until {
        looks.push((daemon.resident_kib()?, daemon.descriptors()?));
        tokio::time::sleep(pause).await;
    }
    let mut calls = 0;
    for task in tasks {
        calls += task.await??;
    }
    let calm = eventually(Duration::from_secs(10), async || {
        daemon.descriptors().is_ok_and(|now| now <= descriptors)
    })
    .await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let (after, left) = (daemon.resident_kib()?, daemon.descriptors()?);
    daemon.stop()?;
    let half = looks.len() / 2;
    let mean = |part: &[(u64, usize)]| part.iter().map(|look| look.0).sum::<u64>() / part.len().max(1) as u64;
    let (first, second) = (mean(&looks[..half]), mean(&looks[half..]));
    let most = looks
        .iter()
        .map(|look| look.1)
        .max()
        .context("the daemon was looked at")?;
    let growth = second.saturating_sub(first);
    Ok(Row {
        name: "soak",
        what: "memory and descriptors of plimsolld under every kind of run and session for a long time",
        figure: format!(
            "{calls} calls in {} s: {first} KiB in the first half, {second} KiB in the second, {after} KiB afterwards; \
             descriptors {descriptors} before, at most {most}, {left} afterwards",
            time.as_secs()
        ),
        bar: "the second half at most 2 MiB above the first; descriptors back to the start",
        holds: growth <= NOISE_KIB && calm && left <= descriptors,
        numbers: json!({ "calls": calls, "seconds": time.as_secs(), "first_half_kib": first, "second_half_kib": second,
            "after_kib": after, "descriptors_before": descriptors, "descriptors_most": most, "descriptors_after": left,
            "means_kib": looks.chunks(LOOKS as usize / 20).map(mean).collect::<Vec<_>>() }),
    })
}

/// Programs in turn, and now and then a connection that is given up in the middle of one.
async fn runs(address: std::net::SocketAddr, runner: usize, until: Instant) -> anyhow::Result<u64> {
    let mut connection = Connection::open(address, TOKEN).await?;
    let mut calls = 0;
    for at in runner.. {
        if Instant::now() >= until {
            break;
        }
        let body = run_body(PROGRAMS[at % PROGRAMS.len()], 50);
        if at % 17 == 0 {
            // A floor that is not met: refused before anything runs.
            let refused = connection.run(refused_body()).await?;
            anyhow::ensure!(refused.status == 400, "HTTP {}", refused.status);
        }
        if at % 61 == 0 {
            // The caller goes away while its run is under way.
            drop(tokio::time::timeout(Duration::from_millis(2), connection.run(body)).await);
            connection = Connection::open(address, TOKEN).await?;
        } else {
            let answer = connection.run(body).await?;
            anyhow::ensure!(answer.status == 200 || answer.shed(), "HTTP {}", answer.status);
        }
        calls += 1;
    }
    Ok(calls)
}

fn refused_body() -> Bytes {
    let body = json!({ "protocol": 4, "minimumIsolation": "kernel", "javascript": { "code": "1" } });
    Bytes::from(body.to_string())
}

/// Sessions of a few calls each: cells, a project, an endless cell, and a close.
async fn sessions(address: std::net::SocketAddr, until: Instant) -> anyhow::Result<u64> {
    let mut connection = Connection::open(address, TOKEN).await?;
    let mut calls = 0;
    while Instant::now() < until {
        let opened = call(&mut connection, OPEN_SESSION, &json!({ "protocol": 4 })).await?;
        let id = &opened["sessionId"];
        let cell = |code: &str| json!({ "protocol": 4, "sessionId": id, "timeoutMs": 50, "cell": { "language": "javascript", "code": code } });
        for code in [
            "globalThis.kept = new Array(1000).fill('x')",
            "kept.length",
            "for (;;);",
            "typeof kept",
        ] {
            call(&mut connection, SESSION_RUN, &cell(code)).await?;
        }
        let project = json!({ "protocol": 4, "sessionId": id, "project": {
            "files": [{ "path": "a.js", "content": "Y29uc29sZS5sb2coNio3KQ==" }], "steps": ["node a.js"] } });
        call(&mut connection, SESSION_RUN, &project).await?;
        call(
            &mut connection,
            CLOSE_SESSION,
            &json!({ "protocol": 4, "sessionId": id }),
        )
        .await?;
        calls += 7;
    }
    Ok(calls)
}

async fn call(connection: &mut Connection, procedure: &str, body: &Value) -> anyhow::Result<Value> {
    let answer = connection.call(procedure, Bytes::from(body.to_string())).await?;
    let json = answer.json()?;
    anyhow::ensure!(answer.status == 200, "HTTP {}: {json}", answer.status);
    Ok(json)
}
