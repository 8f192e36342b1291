//! One caller and two daemons: a call goes to the next daemon only while it is certain that nothing ran.
//!
//! ```text
//! cargo run --release -p example-placement
//! ```

use std::ffi::OsStr;
use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use example_support::{Daemon, audit, new_token, write_clients_file};
use plimsoll_client::placement::{Choice, Pool};
use plimsoll_client::{Client, ErrorKind, Refusal, Tier};

fn main() -> ExitCode {
    if let Some(served) = example_support::as_daemon() {
        return served;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    match runtime
        .map_err(anyhow::Error::from)
        .and_then(|runtime| runtime.block_on(caller()))
    {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _nowhere_to_report = writeln!(std::io::stderr(), "example-placement: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn caller() -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    let folder = tempfile::tempdir()?;
    // Each daemon knows this caller by a token of its own. The near one lets it start one run a minute.
    let (near, near_client) = daemon(&folder.path().join("near.json"), "1")?;
    let (far, far_client) = daemon(&folder.path().join("far.json"), "0")?;
    let pool = Pool::new([("near", near_client), ("far", far_client)], Duration::ZERO)?;

    for call in ["first", "second"] {
        let placed = pool
            .run_javascript("console.log(6 * 7)")
            .floor(Tier::Process)
            .send()
            .await?;
        write!(out, "{call}: {}", placed.value.stdout_text())?;
        writeln!(out, "{call}: {}", path(&placed.choice))?;
    }

    let nowhere = pool.run_javascript("console.log('never')").floor(Tier::Vm).send().await;
    let error = nowhere.err().context("no daemon here has a wall of tier vm")?;
    anyhow::ensure!(error.kind() == ErrorKind::NoBackend && error.not_dispatched() == Some(Refusal::Unsupported));
    writeln!(out, "floor vm: nothing was sent: {}", error.message())?;

    let near_runs = audit(&near.stop()?).count();
    let placed = pool
        .run_javascript("console.log(6 * 7)")
        .floor(Tier::Process)
        .send()
        .await?;
    writeln!(out, "near has stopped: {}", path(&placed.choice))?;
    let far_runs = audit(&far.stop()?).count();
    writeln!(out, "three calls, three runs: near {near_runs}, far {far_runs}")?;
    Ok(())
}

fn daemon(clients_file: &Path, rate: &str) -> anyhow::Result<(Daemon, Client)> {
    let token = new_token()?;
    write_clients_file(clients_file, &[("alice", &token)])?;
    let daemon = Daemon::start(clients_file, &[("SANDBOX_RATE_PER_MIN", OsStr::new(rate))])?;
    let client = Client::builder(daemon.url()).token(token).build()?;
    Ok((daemon, client))
}

/// Where a call went, refusals first.
fn path(choice: &Choice) -> String {
    let mut path = String::new();
    for refused in &choice.retried {
        path.push_str(&format!("{} refused it ({}), then ", refused.backend, refused.reason));
    }
    format!("{path}{} ran it", choice.backend)
}
