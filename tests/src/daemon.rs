//! `plimsolld` under another name: the same lines, built as part of this package.

use std::process::ExitCode;

fn main() -> ExitCode {
    plimsolld::main_with(std::env::args_os().skip(1), plimsoll::env::Environment::of_process)
}
