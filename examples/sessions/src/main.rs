//! One sandbox for a conversation, twice: cells whose variables stay, on `wasm`, and a work directory whose files stay, in a
//! container. Every call is one link of a chain of records, and the chain is what an auditor is handed.
//!
//! ```text
//! cargo run --release -p example-sessions
//! ```
//!
//! The second half needs a container engine and the image `plimsoll/sandbox`. Where one is missing it says which, and ends with a
//! failure: half a demonstration would look like a whole one. `SANDBOX_DOCKER_RUNTIME=runsc` runs it behind gVisor.

use std::ffi::{OsStr, OsString};
use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context as _;
use example_support::{Daemon, new_token, write_clients_file};
use plimsoll::env::{Environment, Lookup as _};
use plimsoll_client::{
    CellRequest, Client, ProjectRequest, ProjectResult, RunRecord, Session, SessionSummary, Tier, verify_chain,
};

/// What the daemon is told of this process's environment: where the engine is, and which runtime is meant.
const PASSED_ON: [&str; 2] = ["DOCKER_HOST", "SANDBOX_DOCKER_RUNTIME"];

fn main() -> ExitCode {
    if let Some(served) = example_support::as_daemon() {
        return served;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let ended = runtime
        .map_err(anyhow::Error::from)
        .and_then(|runtime| runtime.block_on(conversations()));
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _nowhere_to_report = writeln!(std::io::stderr(), "example-sessions: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn conversations() -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let clients_file = folder.path().join("clients.json");
    let token = new_token()?;
    write_clients_file(&clients_file, &[("agent", &token)])?;

    let daemon = daemon(&clients_file, "wasm", &[])?;
    let client = Client::builder(daemon.url()).token(&token).build()?;
    cells(client.open_session().owner("alice").floor(Tier::Process).send().await?).await?;
    daemon.stop()?;

    let environment = Environment::of_process();
    let passed_on: Vec<(&str, OsString)> = PASSED_ON
        .into_iter()
        .filter_map(|name| environment.get(name).map(|value| (name, value.to_owned())))
        .collect();
    let daemon = self::daemon(&clients_file, "docker", &passed_on).context(
        "the half in a container needs a container engine and the image plimsoll/sandbox; `plimsoll images build` makes it",
    )?;
    let client = Client::builder(daemon.url()).token(&token).build()?;
    work_directory(
        client
            .open_session()
            .owner("alice")
            .floor(Tier::Container)
            .send()
            .await?,
    )
    .await?;
    daemon.stop()?;
    Ok(())
}

/// A daemon that keeps a few sessions.
fn daemon(clients_file: &Path, provider: &str, more: &[(&str, OsString)]) -> anyhow::Result<Daemon> {
    let mut variables: Vec<(&str, &OsStr)> = vec![
        ("SANDBOX_PROVIDER", OsStr::new(provider)),
        ("SANDBOX_MAX_SESSIONS", OsStr::new("4")),
    ];
    variables.extend(more.iter().map(|(name, value)| (*name, value.as_os_str())));
    Daemon::start(clients_file, &variables)
}

/// Variables stay from cell to cell; a cell that fails takes its place in the chain like any other.
async fn cells(session: Session) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(
        out,
        "a session on {}, tier {}, fingerprint {}",
        session.provider(),
        session.isolation(),
        session.fingerprint()
    )?;
    for code in [
        "const berths = [{ length: 210 }, { length: 175 }, { length: 90 }]",
        "berths.reduce((sum, berth) => sum + berth.length, 0)",
        "berths.lenght.toFixed(0)",
        "berths.push({ length: 60 })",
    ] {
        let cell = session.run_cell(CellRequest::javascript(code)).send().await?;
        let said = match cell.exit_code {
            0 => cell.stdout_text().trim_end().to_owned(),
            _ => first_error(&cell.stderr_text()),
        };
        writeln!(out, "  call {}, exit {}: {said}", session.calls(), cell.exit_code)?;
    }
    audit(session, &mut out).await
}

/// Files stay from call to call; what a call leaves running does not.
async fn work_directory(session: Session) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(
        out,
        "a session on {}, tier {}, fingerprint {}",
        session.provider(),
        session.isolation(),
        session.fingerprint()
    )?;

    // The only call that sends files.
    let project = ProjectRequest::new()
        .file(
            "total.mjs",
            "export const total = (rows) => rows.reduce((sum, row) => sum - row, 0);\n",
        )
        .file(
            "total.test.mjs",
            "import { strictEqual } from 'node:assert';\n\
             import { total } from './total.mjs';\n\
             strictEqual(total([210, 175, 90]), 475);\n\
             console.log('the test passes');\n",
        )
        .step("node total.test.mjs");
    let test = run(&session, project).await?;
    anyhow::ensure!(exit(&test)? == 1, "the test must fail before it is mended");
    writeln!(
        out,
        "  call 1, exit 1: {}",
        test.steps
            .last()
            .map(|step| first_error(&step.stderr_text()))
            .unwrap_or_default()
    )?;

    let patch = run(&session, step("sed -i 's/sum - row/sum + row/' total.mjs")).await?;
    writeln!(out, "  call 2, exit {}: one line is mended in place", exit(&patch)?)?;

    let test = run(&session, step("node total.test.mjs")).await?;
    anyhow::ensure!(exit(&test)? == 0, "the test must pass without a file being sent again");
    writeln!(out, "  call 3, exit 0: {}, and no file was sent again", said(&test))?;

    let left = run(
        &session,
        step("sleep 600 & echo $! > pid; kill -0 \"$(cat pid)\" && echo 'a process is left running'"),
    )
    .await?;
    writeln!(out, "  call 4, exit {}: {}", exit(&left)?, said(&left))?;

    let gone = run(
        &session,
        step("kill -0 \"$(cat pid)\" 2> /dev/null && echo 'it is still there' || echo 'it is gone'"),
    )
    .await?;
    anyhow::ensure!(
        said(&gone) == "it is gone",
        "what a call leaves running must not outlive it"
    );
    writeln!(out, "  call 5, exit {}: {}", exit(&gone)?, said(&gone))?;
    audit(session, &mut out).await
}

/// Closes the session, and shows what an auditor notices who is handed its records and the summary of its close.
async fn audit(session: Session, out: &mut impl std::io::Write) -> anyhow::Result<()> {
    let records = session.records();
    let closed = session.close().await?;
    anyhow::ensure!(closed.is_confirmed(), "the daemon counts the calls that were seen here");
    writeln!(
        out,
        "  closed: the daemon counts {} calls as well",
        closed.summary().calls
    )?;
    verdict(&records, closed.summary()).context("an untouched chain must stand")?;
    writeln!(out, "  the chain of {} records stands", records.len())?;

    let mut dropped = records.clone();
    dropped.remove(1);
    refused(out, "a record dropped", &dropped, closed.summary())?;
    let mut changed = records.clone();
    changed[2].result_sha256.replace_range(..1, "x");
    refused(out, "a record changed", &changed, closed.summary())?;
    let mut resealed = changed;
    resealed[2].record_sha256 = resealed[2].digest()?;
    refused(out, "a record changed and its digest too", &resealed, closed.summary())?;
    let cut = &records[..records.len() - 1];
    refused(out, "the last record dropped", cut, closed.summary())
}

/// What an auditor decides: every record stands, each follows the one before, and none is missing at the end.
fn verdict(records: &[RunRecord], summary: &SessionSummary) -> anyhow::Result<()> {
    let chain = verify_chain(records)?;
    anyhow::ensure!(
        chain.fingerprint().as_str() == summary.session,
        "the records are another session's"
    );
    anyhow::ensure!(
        (chain.calls(), chain.last_sha256()) == (summary.calls, summary.last_record_sha256.as_str()),
        "the chain ends at call {}, the session at call {}",
        chain.calls(),
        summary.calls
    );
    Ok(())
}

fn refused(
    out: &mut impl std::io::Write,
    what: &str,
    records: &[RunRecord],
    summary: &SessionSummary,
) -> anyhow::Result<()> {
    match verdict(records, summary) {
        Ok(()) => anyhow::bail!("{what}: the chain must not stand"),
        Err(fault) => writeln!(out, "  {what}: refused: {fault}")?,
    }
    Ok(())
}

async fn run(session: &Session, project: ProjectRequest) -> anyhow::Result<ProjectResult> {
    Ok(session.run_project(project).send().await?)
}

fn step(command: &str) -> ProjectRequest {
    ProjectRequest::new().step(command)
}

/// The exit code of a project's one step.
fn exit(project: &ProjectResult) -> anyhow::Result<i32> {
    let step = project.steps.last();
    let step = step.with_context(|| format!("the project ended {}: {}", project.outcome.as_str(), project.detail))?;
    Ok(step.exit_code)
}

fn said(project: &ProjectResult) -> String {
    let text = project.steps.last().map(|step| step.stdout_text().into_owned());
    text.unwrap_or_default().trim_end().to_owned()
}

fn first_error(stderr: &str) -> String {
    let line = stderr.lines().find(|line| line.contains("Error"));
    line.unwrap_or_default().trim().to_owned()
}
