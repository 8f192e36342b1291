//! `benches/run placement`: 1,000 daemons and 1,000,000 runs under faults, and not one run twice.

use std::io::Write as _;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Context as _;
use plimsoll_fleet::{Plan, Report, simulate};

const HELP: &str = "\
Simulates many daemons and their callers in one network with crashes, partitions and slow nodes, and counts what ran how often.

Usage: plimsoll-fleet [OPTIONS]

Options:
  --seed N             the history to repeat (default: one that was never used; it is printed)
  --runs N             calls in all (default 1000000)
  --nodes N            hosts with daemons (default 40)
  --daemons-per-node N daemons of each (default 25)

Exit status: 0 when nothing ran twice and every answer was true, 1 otherwise.
";

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            let _nowhere_to_report = writeln!(std::io::stderr(), "plimsoll-fleet: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> anyhow::Result<bool> {
    let mut plan = Plan::large(unused_seed());
    let mut out = std::io::stdout().lock();
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        if matches!(argument.as_str(), "-h" | "--help") {
            out.write_all(HELP.as_bytes())?;
            return Ok(true);
        }
        let number = arguments.next().with_context(|| format!("{argument} needs a value"))?;
        let number: u64 = number
            .parse()
            .with_context(|| format!("{argument} is a whole number"))?;
        let count = usize::try_from(number).with_context(|| format!("{argument} is too large"))?;
        match argument.as_str() {
            "--seed" => plan.seed = number,
            "--runs" => plan.runs = count,
            "--nodes" => plan.nodes = count,
            "--daemons-per-node" => plan.daemons_per_node = count,
            other => anyhow::bail!("{other} is no option; --help names them"),
        }
    }
    anyhow::ensure!(
        (1..=200).contains(&plan.nodes) && (1..=1000).contains(&plan.daemons_per_node),
        "--nodes is 1 to 200 and --daemons-per-node 1 to 1000"
    );
    // Before anything else, so that a history that comes to no end can be repeated.
    writeln!(out, "seed {}", plan.seed)?;
    out.flush()?;
    let report = simulate(&plan)?;
    let verdict = if report.holds() { "holds" } else { "DOES NOT HOLD" };
    writeln!(
        out,
        "placement   {report}\n            ({verdict}; bar: no run twice)\n{}",
        to_json(&report)
    )?;
    Ok(report.holds())
}

fn unused_seed() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or_default()
}

fn to_json(report: &Report) -> serde_json::Value {
    let (tally, faults) = (&report.tally, &report.faults);
    serde_json::json!({
        "row": "placement",
        "bar": "no run twice",
        "holds": report.holds(),
        "numbers": {
            "seed": report.seed,
            "runs": report.runs,
            "daemons": report.daemons,
            "results": tally.results,
            "moved": tally.moved,
            "refused": tally.refused,
            "may_have_run": tally.may_have_run,
            "lost_answers": tally.lost_answers,
            "doubles": tally.doubles,
            "untrue": tally.untrue,
            "unaccounted": tally.unaccounted,
            "crashes": faults.crashes,
            "partitions": faults.partitions,
            "held": faults.held,
            "slow": faults.slow,
            "fallen": faults.fallen,
            "simulated_s": report.simulated.as_secs_f64(),
            "took_s": report.took.as_secs_f64(),
        },
    })
}
