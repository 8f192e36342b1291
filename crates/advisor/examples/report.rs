//! The report as a program of its own: `report -o report.html audit.jsonl`.

use std::io;
use std::process::ExitCode;
use std::time::SystemTime;

use plimsoll_advisor::report::{Streams, run};

fn main() -> ExitCode {
    let mut streams = Streams {
        stdin: &mut io::stdin().lock(),
        stdout: &mut io::stdout().lock(),
        stderr: &mut io::stderr().lock(),
    };
    ExitCode::from(run(
        std::env::args_os().skip(1),
        "report",
        SystemTime::now(),
        &mut streams,
    ))
}
