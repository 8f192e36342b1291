//! The plimsoll daemon: start-up order, signals and drain around the service of `plimsoll-service`.
//!
//! Everything local happens before anything that takes time, and everything that can fail happens before the first
//! request is answered. The same functions stand behind `plimsolld` and `plimsoll serve`.

mod args;
mod config;
mod harden;
mod hardened;
mod help;
mod listen;
mod memory;
mod notify;
mod reload;
mod serve;
mod signals;
mod start;
mod sys;
#[cfg(test)]
mod testing;

pub use help::{help, reference_page, variables_help};

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::process::ExitCode;

use plimsoll::env::Environment;

use args::Command;

/// What the daemon is called where it is a program of its own.
const NAME: &str = "plimsolld";

/// Exit code of an unknown argument.
const USAGE_ERROR: u8 = 2;

/// The daemon's `main`: reads at most one argument and does what it says.
///
/// `environment` is called after the process has been hardened, because values may be credentials.
pub fn main_with(arguments: impl IntoIterator<Item = OsString>, environment: impl FnOnce() -> Environment) -> ExitCode {
    match args::parse(arguments) {
        Ok(Command::Serve) => serve(NAME, environment),
        Ok(Command::Check) => check(NAME, environment),
        Ok(Command::Help) => print(&help()),
        Ok(Command::Version) => print(concat!("plimsolld ", env!("CARGO_PKG_VERSION"), "\n")),
        Err(error) => {
            complain(&format!("{NAME}: {error}\n\n{}", help()));
            ExitCode::from(USAGE_ERROR)
        }
    }
}

/// Serves until a signal or a failed listener, as `program`, which is what the process was called as. Exit code 0 after a
/// signal, else 1.
pub fn serve(program: &str, environment: impl FnOnce() -> Environment) -> ExitCode {
    start::serve(program, environment)
}

/// Checks the whole configuration without binding or starting anything. Exit code 0 or 1; problems go to stderr, one a
/// line, each after `program`, which is what the process was called as.
pub fn check(program: &str, environment: impl FnOnce() -> Environment) -> ExitCode {
    if let Err(error) = harden::harden() {
        complain(&format!("{program}: {error}\n"));
        return ExitCode::FAILURE;
    }
    match config::Config::read(&environment()) {
        Ok(config) => {
            for warning in config.warnings() {
                complain(&format!("{program}: warning: {warning}\n"));
            }
            if config.hardened.is_some() {
                print("hardened mode: every rule holds but rule 1, the tier proven, which only a start can judge\n");
            }
            print(if config.executes {
                "the configuration is complete; nothing was started\n"
            } else {
                "the configuration is complete; nothing was started. No provider is chosen (SANDBOX_PROVIDER): it would \
                 serve and refuse every run\n"
            })
        }
        Err(problems) => {
            for line in problems.iter().flat_map(config::Problem::lines) {
                complain(&format!("{program}: {line}\n"));
            }
            ExitCode::FAILURE
        }
    }
}

/// Prints to stdout. A reader that has gone is not an error of the daemon's.
fn print(text: &str) -> ExitCode {
    let _ = io::stdout().write_all(text.as_bytes());
    ExitCode::SUCCESS
}

fn complain(text: &str) {
    let _ = io::stderr().write_all(text.as_bytes());
}
