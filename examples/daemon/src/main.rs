//! A daemon with two callers: a run, a floor that is refused with nothing run, a wrong token that is refused.
//!
//! ```text
//! cargo run --release -p example-daemon
//! ```
//!
//! One executable plays both parts: started with no argument it is the callers, and it starts itself once more as the
//! daemon; `examples/support` has that part.

use std::io::Write as _;
use std::process::ExitCode;

use example_support::{Daemon, audit, new_token, write_clients_file};
use plimsoll_client::{Client, ErrorKind, Refusal};
use plimsoll_core::Tier;

fn main() -> ExitCode {
    if let Some(served) = example_support::as_daemon() {
        return served;
    }
    match tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(anyhow::Error::from)
    {
        Ok(runtime) => match runtime.block_on(callers()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => failed(&error),
        },
        Err(error) => failed(&error),
    }
}

async fn callers() -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    let folder = tempfile::tempdir()?;
    let clients_file = folder.path().join("clients.json");
    // Two callers. The daemon's file holds fingerprints only; a token exists where its caller keeps it.
    let (alice, bob) = (new_token()?, new_token()?);
    write_clients_file(&clients_file, &[("alice", &alice), ("bob", &bob)])?;
    let daemon = Daemon::start(&clients_file, &[])?;
    let client = |token: &str| Client::builder(daemon.url()).token(token).build();

    for (name, token) in [("alice", &alice), ("bob", &bob)] {
        let run = client(token)?
            .run_javascript("console.log(6 * 7)")
            .floor(Tier::Process)
            .send()
            .await?;
        let record = run
            .evidence
            .record
            .map(|record| record.record_sha256)
            .unwrap_or_default();
        write!(out, "{name}: {}", String::from_utf8_lossy(&run.stdout))?;
        writeln!(
            out,
            "{name}: ran behind tier {}, record {record}",
            run.evidence.isolation
        )?;
    }

    let refused = client(&alice)?
        .run_javascript("console.log('never')")
        .floor(Tier::Vm)
        .send()
        .await;
    match refused {
        Err(error) if error.kind() == ErrorKind::InsufficientIsolation => {
            anyhow::ensure!(
                error.not_dispatched() == Some(Refusal::Isolation),
                "a refusal says that nothing ran"
            );
            writeln!(out, "alice, floor vm: nothing ran (isolation): {}", error.message())?;
        }
        other => anyhow::bail!("a floor of vm must be refused by a daemon that proves process: {other:?}"),
    }

    let wrong = client(&new_token()?)?
        .run_javascript("console.log('never')")
        .any_tier()
        .send()
        .await;
    match wrong {
        Err(error) if error.not_dispatched() == Some(Refusal::Permission) => {
            writeln!(out, "wrong token: nothing ran (permission): {}", error.code())?;
        }
        other => anyhow::bail!("a token nobody was given must be refused: {other:?}"),
    }

    let runs = audit(&daemon.stop()?).count();
    writeln!(out, "the daemon stopped; its audit shows {runs} runs")?;
    Ok(())
}

fn failed(error: &anyhow::Error) -> ExitCode {
    let _nowhere_to_report = writeln!(std::io::stderr(), "example-daemon: {error:#}");
    ExitCode::FAILURE
}
