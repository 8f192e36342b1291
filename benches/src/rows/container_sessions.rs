//! Sessions in containers through `plimsolld`, under runc and gVisor: opening one from the warm pool, and Python cells in an open
//! one. Needs a container engine with `runsc` registered and the images of `plimsoll images build`.

use std::time::{Duration, Instant};

use serde_json::json;

use super::sessions::Session;
use crate::Row;
use crate::daemon::{Daemon, Program};
use crate::stats::{Round, micros};

const IMAGE: &str = "plimsoll/sandbox-python:latest";

/// Sessions opened.
const OPENS: usize = 20;

/// Members that wait.
const POOL: &str = "4";

/// Between two opens: the pool is never empty, and its filling does not run beside what is measured.
const PAUSE: Duration = Duration::from_secs(5);

/// Cells of each row.
const CELLS: usize = 200;

/// How a runtime's sessions are measured.
#[derive(Clone, Copy, Debug)]
pub(super) struct Case {
    name: &'static str,
    what: &'static str,
    bar: &'static str,
    runtime: &'static str,
    most: Duration,
    /// Between two calls.
    apart: Duration,
}

pub(super) const OPEN_RUNC: Case = Case {
    name: "session-open-runc",
    what: "OpenSession from the warm pool through plimsolld, a connection made for it included, runc",
    bar: "p50 at most 12 ms",
    runtime: "",
    most: Duration::from_millis(12),
    apart: PAUSE,
};

pub(super) const OPEN_RUNSC: Case = Case {
    name: "session-open-runsc",
    what: "the same under gVisor",
    bar: "p50 at most 25 ms",
    runtime: "runsc",
    most: Duration::from_millis(25),
    apart: PAUSE,
};

pub(super) const CELL_RUNC: Case = Case {
    name: "session-cell-runc",
    what: "the Python cell 1+1 in an open session through plimsolld, 50 ms between calls, runc",
    bar: "p50 at most 3 ms",
    runtime: "",
    most: Duration::from_millis(3),
    apart: Duration::from_millis(50),
};

pub(super) const CELL_RUNSC: Case = Case {
    name: "session-cell-runsc",
    what: "the same under gVisor",
    bar: "p50 at most 5 ms",
    runtime: "runsc",
    most: Duration::from_millis(5),
    apart: Duration::from_millis(50),
};

pub(super) const CELLS_RUNC: Case = Case {
    name: "session-cells-runc",
    what: "the Python cell 1+1 in an open session through plimsolld, back to back with the sweeps between, runc",
    bar: "p50 at most 7 ms",
    runtime: "",
    most: Duration::from_millis(7),
    apart: Duration::ZERO,
};

pub(super) const CELLS_RUNSC: Case = Case {
    name: "session-cells-runsc",
    what: "the same under gVisor",
    bar: "p50 at most 12 ms",
    runtime: "runsc",
    most: Duration::from_millis(12),
    apart: Duration::ZERO,
};

impl Case {
    fn row(self, taken: Vec<Duration>) -> Row {
        let (calls, taken) = (taken.len(), Round::new(taken));
        Row {
            name: self.name,
            what: self.what,
            figure: format!(
                "p50 {} us, p99 {} us",
                micros(taken.p50()),
                micros(taken.percentile(99))
            ),
            bar: self.bar,
            holds: taken.p50() <= self.most,
            numbers: json!({ "p50_us": micros(taken.p50()), "p99_us": micros(taken.percentile(99)), "calls": calls }),
        }
    }
}

/// Opens sessions, each in a member of the pool; each runs one cell and is closed before the next.
pub(super) async fn open(program: &Program, case: Case) -> anyhow::Result<Row> {
    let daemon = daemon(program, case.runtime, POOL)?;
    let mut taken = Vec::with_capacity(OPENS);
    tokio::time::sleep(case.apart * 2).await;
    for _ in 0..OPENS {
        let start = Instant::now();
        let mut session = Session::open_for(&daemon, "python").await?;
        taken.push(start.elapsed());
        session.two().await?;
        session.close().await?;
        tokio::time::sleep(case.apart).await;
    }
    daemon.stop()?;
    Ok(case.row(taken))
}

/// Runs cells in one session.
pub(super) async fn cells(program: &Program, case: Case) -> anyhow::Result<Row> {
    let daemon = daemon(program, case.runtime, "0")?;
    let mut session = Session::open_for(&daemon, "python").await?;
    // The first one starts the interpreter.
    session.two().await?;
    let mut taken = Vec::with_capacity(CELLS);
    for _ in 0..CELLS {
        tokio::time::sleep(case.apart).await;
        let start = Instant::now();
        session.two().await?;
        taken.push(start.elapsed());
    }
    session.close().await?;
    daemon.stop()?;
    Ok(case.row(taken))
}

fn daemon(program: &Program, runtime: &str, pool: &str) -> anyhow::Result<Daemon> {
    Daemon::start(
        program,
        &[
            ("SANDBOX_PROVIDER", "docker"),
            ("SANDBOX_DOCKER_RUNTIME", runtime),
            ("SANDBOX_DOCKER_IMAGE", IMAGE),
            ("SANDBOX_DOCKER_PROJECT_IMAGE", IMAGE),
            ("SANDBOX_MAX_SESSIONS", "4"),
            ("SANDBOX_SESSION_POOL", pool),
        ],
    )
}
