//! Resident memory of the idle daemon, and what a great many runs add to it.

use std::time::Duration;

use serde_json::json;

use crate::daemon::{Daemon, Program, TOKEN};
use crate::http::{Connection, run_body};
use crate::{CODE, Row};

const CONNECTIONS: u64 = 8;

/// Runs before the baseline. The allocator's arenas reach their size within the first tens of thousands: how many buffers
/// of neighbouring runs are ever alive at once is a matter of chance that takes that long to come up.
const WARM_UP: u64 = 100_000;

/// Calm before memory is read. A second after the last of many runs the daemon gives the pages of its warm slots back
/// (about 2 MiB each, `crates/wasm/src/loaded.rs`). Read before that, the figure says how many runs happened to meet, not
/// what stays.
const CALM: Duration = Duration::from_secs(3);

const IDLE_KIB: u64 = 60 * 1024;

/// What the allocator may keep besides; a leak of ten bytes a run would be ten times as much.
const NOISE_KIB: u64 = 1024;

pub(super) async fn measure(program: &Program, runs: u64) -> anyhow::Result<Row> {
    let daemon = Daemon::start(
        program,
        &[("SANDBOX_MAX_CONCURRENT", "32"), ("SANDBOX_PER_KEY_CONCURRENT", "0")],
    )?;
    let idle = daemon.resident_kib()?;
    run_many(&daemon, WARM_UP).await?;
    let before = settled(&daemon).await?;
    // Read halfway too: what leaks grows by as much in the second half.
    run_many(&daemon, runs / 2).await?;
    let halfway = settled(&daemon).await?;
    run_many(&daemon, runs - runs / 2).await?;
    let after = settled(&daemon).await?;
    daemon.stop()?;
    let growth = after.saturating_sub(before);
    Ok(Row {
        name: "memory",
        what: "resident memory of plimsolld: idle after its start, and growth over many runs after a warm-up",
        figure: format!(
            "idle {idle} KiB; {growth} KiB over {runs} runs ({before}, halfway {halfway}, then {after} KiB)"
        ),
        bar: "idle at most 60 MiB; growth none (under 1 MiB of allocator noise over 1,000,000 runs)",
        holds: idle <= IDLE_KIB && growth < NOISE_KIB,
        numbers: json!({ "idle_kib": idle, "before_kib": before, "halfway_kib": halfway, "after_kib": after, "runs": runs }),
    })
}

async fn run_many(daemon: &Daemon, runs: u64) -> anyhow::Result<()> {
    let mut tasks = Vec::new();
    for _ in 0..CONNECTIONS {
        let mut connection = Connection::open(daemon.address(), TOKEN).await?;
        tasks.push(tokio::spawn(async move {
            let body = run_body(CODE, 0);
            for _ in 0..runs / CONNECTIONS {
                connection.run(body.clone()).await?.printed_42()?;
            }
            anyhow::Ok(())
        }));
    }
    for task in tasks {
        task.await??;
    }
    Ok(())
}

/// Connections and their buffers are gone a moment after their client, warm slots at the end of the calm.
async fn settled(daemon: &Daemon) -> anyhow::Result<u64> {
    tokio::time::sleep(CALM).await;
    daemon.resident_kib()
}
