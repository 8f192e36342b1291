//! One program, several sandboxes: the same project on `wasm`, on containers with runc and on containers with gVisor.
//!
//! The calling code does not change; a provider is a choice of variables. What changes is the wall, and every answer states
//! it. The steps are of the form `node FILE`, because `wasm` has no shell.
//!
//! ```text
//! cargo run --release -p example-providers
//! ```
//!
//! It needs a container engine with gVisor registered and the image `plimsoll/sandbox`. Where one is missing it says which,
//! and ends with a failure: a table with a gap would look like a result.

use std::ffi::OsString;
use std::io::Write as _;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use plimsoll::env::Environment;
use plimsoll::{Project, ProjectRun, Sandbox, Tier};

/// Names and values.
type Variables = &'static [(&'static str, &'static str)];

/// A row of the table: what it is called, the variables that choose it, and the weakest wall that is accepted there.
const SANDBOXES: [(&str, Variables, Tier); 3] = [
    ("wasm", &[("SANDBOX_PROVIDER", "wasm")], Tier::Process),
    (
        "docker with runc",
        &[("SANDBOX_PROVIDER", "docker"), ("SANDBOX_DOCKER_RUNTIME", "runc")],
        Tier::Container,
    ),
    (
        "docker with runsc",
        &[("SANDBOX_PROVIDER", "docker"), ("SANDBOX_DOCKER_RUNTIME", "runsc")],
        Tier::Kernel,
    ),
];

/// What the variables above decide, and what would change it from outside.
const OURS: [&str; 4] = [
    "SANDBOX_PROVIDER",
    "SANDBOX_DOCKER_RUNTIME",
    "SANDBOX_READY_POOL",
    "SANDBOX_MIN_ISOLATION",
];

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(
        out,
        "{:<18} {:<10} {:>8}  {:<64}  it came to",
        "sandbox", "tier", "time", "record"
    )?;
    for (name, variables, floor) in SANDBOXES {
        let sandbox = Sandbox::from_lookup(&environment(variables))
            .await
            .with_context(|| advice(floor))?;
        let begun = Instant::now();
        let ended = sandbox
            .run_project(project())
            .floor(floor)
            .timeout(Duration::from_secs(20))
            .send()
            .await;
        let time = format!("{} ms", begun.elapsed().as_millis());
        // Before anything else can end this program: a run is answered before its container has been cleared away.
        sandbox.drain().await?;
        let run = ended.context(name)?;
        writeln!(
            out,
            "{name:<18} {:<10} {time:>8}  {:<64}  {}",
            run.tier.as_str(),
            run.record.record_sha256,
            total(&run)?
        )?;
    }
    Ok(())
}

/// Three files, two steps, one artifact.
fn project() -> Project {
    Project::new()
        .file("berths.csv", "berth,length\n1,210\n2,175\n3,90\n")
        .file(
            "total.mjs",
            "import { readFileSync, writeFileSync } from 'node:fs';\n\
             const [, ...rows] = readFileSync('berths.csv', 'utf8').trim().split('\\n');\n\
             const total = rows.reduce((sum, row) => sum + Number(row.split(',')[1]), 0);\n\
             writeFileSync('total.txt', `${rows.length} berths, ${total} m\\n`);\n",
        )
        .file(
            "check.cjs",
            "if (require('node:fs').statSync(process.argv[2]).size === 0) process.exit(1)",
        )
        .step("node total.mjs")
        .step("node check.cjs total.txt")
        .artifact("total.txt")
}

/// The artifact, of a project that went well.
fn total(run: &ProjectRun) -> anyhow::Result<String> {
    let failed = || {
        run.steps
            .last()
            .map(|step| step.stderr_text().into_owned())
            .unwrap_or_default()
    };
    anyhow::ensure!(
        run.succeeded(),
        "the project ended {}: {} {}",
        run.outcome.as_str(),
        run.outcome_detail,
        failed()
    );
    let total = run.artifact("total.txt").context("the project leaves total.txt")?;
    Ok(String::from_utf8_lossy(total).trim_end().to_owned())
}

/// The environment of this process (where the engine is, what a run may use) with one sandbox chosen.
fn environment(variables: Variables) -> Environment {
    use plimsoll::env::Lookup as _;

    let process = Environment::of_process();
    let chosen = variables
        .iter()
        .map(|(name, value)| (OsString::from(name), OsString::from(value)));
    let others = process
        .entries()
        .into_iter()
        .filter(|(name, _)| !OURS.iter().any(|ours| *name == *ours))
        .map(|(name, value)| (name.to_owned(), value.to_owned()));
    Environment::from_pairs(chosen.chain(others))
}

/// What to do where a sandbox is not ready.
fn advice(tier: Tier) -> String {
    let needs = match tier {
        Tier::Kernel => "a container engine with gVisor; `plimsoll gvisor install` registers it",
        Tier::Container => "a container engine and the image plimsoll/sandbox; `plimsoll images build` makes it",
        Tier::Process | Tier::Vm => "a host that can run the embedded engine",
    };
    format!("tier {} cannot be proven here. It needs {needs}", tier.as_str())
}
