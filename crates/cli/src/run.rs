//! `plimsoll run`: one program in, its own output, exit code and one line about it out.

use std::io::Read as _;
use std::mem::ManuallyDrop;
use std::path::Path;

use plimsoll_core::limits::MAX_CODE_BYTES;
use plimsoll_core::vars::Lookup;
use plimsoll_core::{Code, JavaScriptResult, Payload, RunRequest, RunResult};
use plimsoll_record::Answer;
use plimsoll_wire::{json, pb};

use crate::args::RunArgs;
use crate::failure::Failure;
use crate::line::Lowered;
use crate::{grants, line, local, remote, runtime, streams};

/// Runs the program and reports it; the exit code of the process.
pub(crate) fn run(args: &RunArgs, lookup: &dyn Lookup) -> u8 {
    let delivered = attempt(args, lookup).and_then(|ran| deliver(args, ran, lookup));
    delivered.unwrap_or_else(|failure| report(args, &failure))
}

/// An answer, and what became of the timeout that was asked for.
struct Ran {
    answer: Answer,
    lowered: Option<Lowered>,
}

fn attempt(args: &RunArgs, lookup: &dyn Lookup) -> Result<Ran, Failure> {
    let mut request = RunRequest::javascript(read_program(&args.file)?);
    request.minimum_isolation = args.floor.map(|floor| floor.as_str().to_owned()).unwrap_or_default();
    request.timeout_ms = args.timeout.map_or(0, |timeout| timeout.ms);
    if let (Some(Payload::JavaScript(program)), Some(profile)) = (&mut request.payload, &args.grant.profile) {
        profile.clone_into(&mut program.grant_profile);
    }
    match &args.target.daemon {
        Some(url) => runtime(true)?.block_on(run_there(url, args, request, lookup)),
        None => runtime(args.grant.profile.is_some())?.block_on(run_here(args, request, lookup)),
    }
}

async fn run_here(args: &RunArgs, request: RunRequest, lookup: &dyn Lookup) -> Result<Ran, Failure> {
    let profiles = grants::profiles(&args.grant, args.quiet || args.json, lookup)?;
    let mut sandbox = local::sandbox(args.target.provider.as_deref(), lookup).await?;
    if let Some((profiles, caller)) = profiles {
        sandbox = sandbox.with_grants(profiles, caller);
    }
    let evidence = sandbox.evidence();
    let most_ms = evidence
        .environments
        .javascript
        .as_ref()
        .map_or(0, |one| one.max_timeout_ms);
    let lowered = Lowered::of(request.timeout_ms, most_ms);
    let answer = sandbox.exchange(request).await?;
    // The process ends with this run, and the kernel takes everything back at once; taking it apart first takes time that
    // the whole command has little of.
    let _left_to_the_kernel = ManuallyDrop::new(sandbox);
    Ok(Ran { answer, lowered })
}

async fn run_there(url: &str, args: &RunArgs, request: RunRequest, lookup: &dyn Lookup) -> Result<Ran, Failure> {
    let (insecure, timeout_ms) = (args.target.insecure_http, request.timeout_ms);
    let answer = remote::run(url, insecure, request, lookup).await?;
    let lowered = if timeout_ms > 0 && !args.quiet {
        Lowered::of(timeout_ms, remote::max_timeout_ms(url, insecure, lookup).await)
    } else {
        None
    };
    Ok(Ran { answer, lowered })
}

/// The program's text: never more than one byte past what a run takes, whatever the file is.
fn read_program(file: &Path) -> Result<String, Failure> {
    let name = if file == Path::new("-") {
        "standard input".to_owned()
    } else {
        file.display().to_string()
    };
    let limit = u64::try_from(MAX_CODE_BYTES).unwrap_or(u64::MAX).saturating_add(1);
    let mut bytes = Vec::new();
    if file == Path::new("-") {
        let read = std::io::stdin().lock().take(limit).read_to_end(&mut bytes);
        read.map_err(|error| Failure::no_program(format!("cannot read {name}: {error}")))?;
    } else {
        // These errors name the file.
        let read = fs_err::File::open(file).and_then(|opened| opened.take(limit).read_to_end(&mut bytes));
        read.map_err(|error| Failure::no_program(error.to_string()))?;
    }
    if bytes.len() > MAX_CODE_BYTES {
        return Err(Failure::no_program(format!(
            "{name} is over {MAX_CODE_BYTES} bytes, the most a program may have"
        )));
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        Failure::no_program(format!("{name} is not UTF-8 text (byte {at}); save it as UTF-8"))
    })
}

fn deliver(args: &RunArgs, ran: Ran, lookup: &dyn Lookup) -> Result<u8, Failure> {
    let Ran { answer, lowered } = ran;
    let Some(RunResult::JavaScript(result)) = answer.result.clone() else {
        return Err(Failure::may_have_run(
            Code::DataLoss,
            "the answer holds no result of a JavaScript program",
        ));
    };
    let about = line::about(&answer, &result, lowered);
    let exit_code = exit_code(&result);
    let written = if args.json {
        let mut text = json::to_json(&pb::RunResponse::from(answer));
        text.push(b'\n');
        streams::stdout(&text)
    } else {
        streams::stdout(&result.stdout).and_then(|_| streams::stderr(&result.stderr))
    };
    written
        .map_err(|error| Failure::may_have_run(Code::DataLoss, format!("the output could not be written: {error}")))?;
    if !args.quiet {
        let (stdout, stderr): (&[u8], &[u8]) = if args.json {
            (b"", b"")
        } else {
            (&result.stdout, &result.stderr)
        };
        streams::say_after(&about, stdout, stderr, streams::may_dim(crate::no_color(lookup)));
    }
    Ok(exit_code)
}

/// The guest's exit code in the eight bits a process has; a failure never becomes a success on the way.
fn exit_code(result: &JavaScriptResult) -> u8 {
    let [low, ..] = result.exit_code.to_le_bytes();
    if low == 0 && result.exit_code != 0 { 1 } else { low }
}

fn report(args: &RunArgs, failure: &Failure) -> u8 {
    if args.json {
        let mut text = failure.to_json();
        text.push(b'\n');
        if let Err(error) = streams::stdout(&text) {
            streams::say(&format!("plimsoll: the error object could not be written: {error}"));
        }
    }
    // `--quiet` silences the line about a run; why there was none is not that line.
    if !(args.json && args.quiet) {
        streams::say(&failure.line());
    }
    failure.exit_code()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_exit_code_but_zero_becomes_a_success() {
        for (guest, process) in [(0, 0), (3, 3), (255, 255), (-1, 255), (256, 1), (i32::MIN, 1), (259, 3)] {
            let result = JavaScriptResult {
                exit_code: guest,
                ..JavaScriptResult::default()
            };
            assert_eq!(exit_code(&result), process, "{guest}");
        }
    }
}
