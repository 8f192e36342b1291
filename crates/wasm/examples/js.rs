//! Runs a JavaScript file (or standard input) in the engine and reproduces its streams and exit code.
//! `cargo run --release -q -p plimsoll-wasm --example js -- FILE`

#![expect(clippy::disallowed_methods, clippy::print_stderr, reason = "a command-line tool")]

use std::io::{Read as _, Write as _};
use std::process::ExitCode;
use std::time::Duration;

use plimsoll_wasm::engine::{Engine, EngineConfig, RunSpec};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<ExitCode, Box<dyn std::error::Error>> {
    let mut code = String::new();
    match std::env::args_os().nth(1) {
        Some(path) => code = std::fs::read_to_string(path)?,
        None => {
            std::io::stdin().read_to_string(&mut code)?;
        }
    }
    let engine = Engine::new(EngineConfig {
        output_cap: 16 << 20,
        ..EngineConfig::default()
    })?;
    let report = engine.run(RunSpec::new(&code, Duration::from_secs(10))).await?;
    std::io::stdout().write_all(&report.stdout.bytes)?;
    std::io::stderr().write_all(&report.stderr.bytes)?;
    if report.timed_out || report.trap.is_some() {
        eprintln!("[timed out: {}; trap: {:?}]", report.timed_out, report.trap);
    }
    Ok(ExitCode::from(u8::try_from(report.exit_code)?))
}
