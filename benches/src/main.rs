//! Measures the rows of `SPECIFICATION.md`: all of them, or those named on the command line.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use plimsoll_benches::daemon::Program;
use plimsoll_benches::rows::{CONTAINER_NAMES, LONG_NAMES, NAMES, Options, attack, measure};

const HELP: &str = "\
Measures what SPECIFICATION.md promises, and prints each row for people and as a line of JSON.

Usage: plimsoll-benches [OPTIONS] [ROW...]

Rows: in-process loopback throughput start memory process deadline broker neighbour session-cell
session-open session-idle session-calls load; without any, all of these.
Rows that are measured when they are named: hostile (10,000 connections; needs root) and soak (half an hour).
Rows that need a container engine with gVisor and the images: pool-runc cold-runc pool-runsc project-runc burst quick
leftovers session-open-runc session-open-runsc session-cell-runc session-cell-runsc session-cells-runc
session-cells-runsc; `containers` means all of these.
`benches/run placement` is a program of its own: 1,000 daemons in a simulated network.

Options:
  --runs N         runs of the memory row (default 1000000)
  --container-runs N runs of the leftovers row (default 5000)
  --seconds N      length of the load test (default 60)
  --minutes N      length of the soak (default 30)
  --node PATH      the node to compare with (default: node on PATH)
  --plimsolld PATH the daemon to measure (default: the one built beside this program)

Exit status: 0 when every row holds, 1 when one does not or cannot be measured.
";

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            let _nowhere_to_report = writeln!(std::io::stderr(), "plimsoll-benches: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> anyhow::Result<bool> {
    let mut daemon = None;
    let mut rows: Vec<String> = Vec::new();
    let (mut memory_runs, mut container_runs, mut seconds, mut minutes) = (1_000_000, 5_000, 60, 30);
    let mut node = PathBuf::from("node");
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().with_context(|| format!("{argument} needs a value"));
        match argument.as_str() {
            "-h" | "--help" => {
                std::io::stdout().write_all(HELP.as_bytes())?;
                return Ok(true);
            }
            "--runs" => memory_runs = value()?.parse().context("--runs is a whole number")?,
            "--seconds" => seconds = value()?.parse().context("--seconds is a whole number")?,
            "--minutes" => minutes = value()?.parse().context("--minutes is a whole number")?,
            // What the row `hostile` starts this program for, in another process.
            "--attack" => {
                let target = value()?.parse().context("--attack takes an address")?;
                runtime()?.block_on(attack(target))?;
                return Ok(true);
            }
            "--node" => node = value()?.into(),
            "--plimsolld" => {
                daemon = Some(Program {
                    path: value()?.into(),
                    args: Vec::new(),
                });
            }
            "--container-runs" => container_runs = value()?.parse().context("--container-runs is a whole number")?,
            "containers" => rows.extend(CONTAINER_NAMES.map(str::to_owned)),
            row if NAMES.contains(&row) || LONG_NAMES.contains(&row) || CONTAINER_NAMES.contains(&row) => {
                rows.push(row.to_owned());
            }
            other => anyhow::bail!("{other} is no option and no row; --help names them"),
        }
    }
    if rows.is_empty() {
        rows = NAMES.map(str::to_owned).into();
    }
    let options = Options {
        daemon,
        memory_runs,
        container_runs,
        load: Duration::from_secs(seconds),
        soak: Duration::from_secs(60 * minutes),
        node,
    };
    let runtime = runtime()?;
    let mut out = std::io::stdout().lock();
    let mut all_hold = true;
    for name in rows {
        let row = runtime
            .block_on(measure(&name, &options))
            .with_context(|| name.clone())?;
        all_hold &= row.holds;
        let verdict = if row.holds { "holds" } else { "DOES NOT HOLD" };
        writeln!(
            out,
            "{:<11} {}\n{:<11} {} ({verdict}; bar: {})\n{}",
            row.name,
            row.what,
            "",
            row.figure,
            row.bar,
            row.to_json()
        )?;
        out.flush()?;
    }
    Ok(all_hold)
}

fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}
