//! The `plimsoll` command.

use std::process::ExitCode;

use plimsoll::env::Environment;

fn main() -> ExitCode {
    plimsoll_cli::main(std::env::args_os(), Environment::of_process)
}
