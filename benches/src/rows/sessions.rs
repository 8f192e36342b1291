//! Sessions on `wasm` through `plimsolld`: opening one, a cell in one, many of them idle, many calls in one.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use bytes::Bytes;
use serde_json::{Value, json};

use crate::Row;
use crate::daemon::{Daemon, Program, TOKEN};
use crate::http::{CLOSE_SESSION, Connection, OPEN_SESSION, SESSION_RUN};
use crate::stats::{Round, micros, middle};

const ROUNDS: usize = 5;
const CELLS: usize = 1_000;
const CELL_P50: Duration = Duration::from_micros(400);

const OPENS: usize = 200;
const OPEN_P50: Duration = Duration::from_millis(1);

const IDLE: usize = 1_000;
const IDLE_KIB: u64 = 1 << 20;

/// Calls before the baseline of the growth row: interpreter and allocator reach their size.
const WARM_UP: usize = 200;
const CALLS: usize = 1_000;
/// What the allocators of daemon and guest may keep besides; a leak of one kilobyte a call would be this much.
const NOISE_KIB: u64 = 1024;

/// A cell in an open session, one call straight after another.
pub(super) async fn cell(program: &Program) -> anyhow::Result<Row> {
    let daemon = daemon(program)?;
    let mut session = Session::open(&daemon).await?;
    let mut rounds = Vec::with_capacity(ROUNDS);
    for _ in 0..ROUNDS {
        let mut taken = Vec::with_capacity(CELLS);
        for _ in 0..CELLS {
            let start = Instant::now();
            session.two().await?;
            taken.push(start.elapsed());
        }
        rounds.push(Round::new(taken));
    }
    session.close().await?;
    daemon.stop()?;
    let (p50, p99) = (
        middle(&rounds, Round::p50),
        middle(&rounds, |round| round.percentile(99)),
    );
    Ok(Row {
        name: "session-cell",
        what: "the cell 1+1 in an open wasm session through plimsolld, one call straight after another",
        figure: format!("p50 {} us, p99 {} us", micros(p50), micros(p99)),
        bar: "p50 at most 400 us",
        holds: p50 <= CELL_P50,
        numbers: json!({ "p50_us": micros(p50), "p99_us": micros(p99), "calls": ROUNDS * CELLS }),
    })
}

/// Opening a session; each is used once and closed before the next.
pub(super) async fn open(program: &Program) -> anyhow::Result<Row> {
    let daemon = daemon(program)?;
    let mut taken = Vec::with_capacity(OPENS);
    for _ in 0..OPENS {
        let start = Instant::now();
        let mut session = Session::open(&daemon).await?;
        taken.push(start.elapsed());
        session.two().await?;
        session.close().await?;
    }
    daemon.stop()?;
    let taken = Round::new(taken);
    Ok(Row {
        name: "session-open",
        what: "OpenSession on wasm through plimsolld, a connection made for it included",
        figure: format!(
            "p50 {} us, p99 {} us",
            micros(taken.p50()),
            micros(taken.percentile(99))
        ),
        bar: "p50 at most 1 ms",
        holds: taken.p50() <= OPEN_P50,
        numbers: json!({ "p50_us": micros(taken.p50()), "p99_us": micros(taken.percentile(99)), "opens": OPENS }),
    })
}

/// A thousand sessions with one cell behind them. Pages that they share count once.
pub(super) async fn idle(program: &Program) -> anyhow::Result<Row> {
    let daemon = daemon(program)?;
    let before = daemon.proportional_kib()?;
    let mut sessions = Vec::with_capacity(IDLE);
    for _ in 0..IDLE {
        let mut session = Session::open(&daemon).await?;
        session.two().await?;
        sessions.push(session);
    }
    let held = daemon.proportional_kib()?.saturating_sub(before);
    for session in &mut sessions {
        session.two().await?;
        session.close().await?;
    }
    daemon.stop()?;
    Ok(Row {
        name: "session-idle",
        what: "memory of 1,000 wasm sessions that have run one cell each, beyond the idle daemon",
        figure: format!("{held} KiB"),
        bar: "at most 1 GiB",
        holds: held <= IDLE_KIB,
        numbers: json!({ "before_kib": before, "held_kib": held, "sessions": IDLE }),
    })
}

/// What a thousand calls in one session add.
pub(super) async fn calls(program: &Program) -> anyhow::Result<Row> {
    let daemon = daemon(program)?;
    let mut session = Session::open(&daemon).await?;
    for _ in 0..WARM_UP {
        session.two().await?;
    }
    let (memory, descriptors) = (daemon.proportional_kib()?, daemon.descriptors()?);
    for _ in 0..CALLS {
        session.two().await?;
    }
    let growth = daemon.proportional_kib()?.saturating_sub(memory);
    let more = daemon.descriptors()?.saturating_sub(descriptors);
    session.close().await?;
    daemon.stop()?;
    Ok(Row {
        name: "session-calls",
        what: "growth of plimsolld over 1,000 calls in one wasm session",
        figure: format!("{growth} KiB, {more} descriptors"),
        bar: "none (under 1 MiB of allocator noise)",
        holds: growth < NOISE_KIB && more == 0,
        numbers: json!({ "growth_kib": growth, "descriptors": more, "calls": CALLS }),
    })
}

fn daemon(program: &Program) -> anyhow::Result<Daemon> {
    Daemon::start(
        program,
        &[
            ("SANDBOX_MAX_SESSIONS", "2000"),
            ("SANDBOX_MAX_CONCURRENT", "1024"),
            ("SANDBOX_PER_KEY_CONCURRENT", "0"),
        ],
    )
}

/// An open session and a connection of its own.
pub(super) struct Session {
    connection: Connection,
    id: String,
    body: Bytes,
}

impl Session {
    async fn open(daemon: &Daemon) -> anyhow::Result<Self> {
        Self::open_for(daemon, "javascript").await
    }

    /// One whose cells are of this language.
    pub(super) async fn open_for(daemon: &Daemon, language: &str) -> anyhow::Result<Self> {
        let mut connection = Connection::open(daemon.address(), TOKEN).await?;
        let body = json!({ "protocol": 4, "minimumIsolation": "process", "languages": [language] });
        let answer = post(&mut connection, OPEN_SESSION, body).await?;
        let id = answer["sessionId"]
            .as_str()
            .context("the session has an id")?
            .to_owned();
        let body = json!({ "protocol": 4, "sessionId": id, "cell": { "language": language, "code": "1+1" } });
        Ok(Self {
            connection,
            body: Bytes::from(body.to_string()),
            id,
        })
    }

    /// Runs the cell and requires that it printed its value.
    pub(super) async fn two(&mut self) -> anyhow::Result<()> {
        let answer = self.connection.call(SESSION_RUN, self.body.clone()).await?.json()?;
        // Base64 of "2\n".
        anyhow::ensure!(answer["run"]["cell"]["stdout"] == "Mgo=", "{answer}");
        Ok(())
    }

    pub(super) async fn close(&mut self) -> anyhow::Result<()> {
        let body = json!({ "protocol": 4, "sessionId": self.id });
        let answer = post(&mut self.connection, CLOSE_SESSION, body).await?;
        anyhow::ensure!(answer["ended"] == "SESSION_END_CLOSED", "{answer}");
        Ok(())
    }
}

async fn post(connection: &mut Connection, procedure: &str, body: Value) -> anyhow::Result<Value> {
    connection.call(procedure, Bytes::from(body.to_string())).await?.json()
}
