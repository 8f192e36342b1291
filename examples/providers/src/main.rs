//! One program, several sandboxes: the same two projects on `wasm`, on containers with runc and on containers with gVisor.
//!
//! The calling code does not change; a provider is a choice of variables. What changes is the wall, and every answer states
//! it. The steps of the first project are of the form `node FILE`, which every sandbox runs. That of the second needs
//! a shell, which `wasm` does not have: it refuses the project before anything of it runs, and says why.
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
use plimsoll::{Project, ProjectRun, Reason, RunError, Sandbox, Tier};

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
        "{:<18} {:<9} {:<10} {:>8}  {:<64}  it came to",
        "sandbox", "project", "tier", "time", "record"
    )?;
    for (name, variables, floor) in SANDBOXES {
        let sandbox = Sandbox::from_lookup(&environment(variables))
            .await
            .with_context(|| advice(floor))?;
        let mut rows = Vec::new();
        for (which, project, file) in [
            ("node", project(), "total.txt"),
            ("shell", project_with_shell(), "longest.txt"),
        ] {
            let begun = Instant::now();
            let call = sandbox
                .run_project(project)
                .floor(floor)
                .timeout(Duration::from_secs(20));
            let ended = call.send().await;
            rows.push((which, file, begun.elapsed(), ended));
        }
        // Before anything else can end this program: a run is answered before its container has been cleared away.
        sandbox.drain().await?;
        for (which, file, taken, ended) in rows {
            let (tier, record, came_to) = match ended {
                Ok(run) => (
                    run.tier.as_str(),
                    run.record.record_sha256.clone(),
                    artifact(&run, file)?,
                ),
                // Nothing of the project ran. That is an answer too, and of the one sandbox and project it is the right one.
                Err(RunError::NotDispatched(refusal))
                    if floor == Tier::Process && which == "shell" && refusal.reason() == Reason::Unsupported =>
                {
                    (
                        "-",
                        "-".to_owned(),
                        format!("refused as {}: {refusal}", refusal.reason()),
                    )
                }
                Err(error) => return Err(error).context(name),
            };
            let time = format!("{} ms", taken.as_millis());
            writeln!(
                out,
                "{name:<18} {which:<9} {tier:<10} {time:>8}  {record:<64}  {came_to}"
            )?;
        }
    }
    Ok(())
}

const BERTHS: &str = "berth,length\n1,210\n2,175\n3,90\n";

/// Three files, two steps, one artifact.
fn project() -> Project {
    Project::new()
        .file("berths.csv", BERTHS)
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

/// The longest berth, which a shell and its programs find.
fn project_with_shell() -> Project {
    Project::new()
        .file("berths.csv", BERTHS)
        .step("tail -n +2 berths.csv | sort -t, -k2 -nr | head -n 1 > longest.txt")
        .artifact("longest.txt")
}

/// An artifact of a project that went well, without its line end.
fn artifact(run: &ProjectRun, path: &str) -> anyhow::Result<String> {
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
    let content = run
        .artifact(path)
        .with_context(|| format!("the project leaves {path}"))?;
    Ok(String::from_utf8_lossy(content).trim_end().to_owned())
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
