//! One call in a session, and its answer.

use std::sync::Arc;
use std::time::Duration;

use plimsoll_core::{
    CellResult, CellRun, Code, Diagnostics, Fault, Outcome, Payload, Reason, Refusal, RunError, RunResult,
    SessionEvidence,
};
use plimsoll_guest_link::messages::{CellEnd, CellOutcome, CellPlan, Language, NotRun, Plan, ProjectFile};
use plimsoll_sandbox::{RunContext, SessionCall};
use rustix::io::Errno;
use tokio::time::Instant;

use super::room::Entered;
use crate::answer::{self, gone, limit_ms};
use crate::limits_hit::Reading;
use crate::run::{project_plan, reading, snippet_plan};
use crate::snapshot::Snapshot;
use crate::talk::{Ending, Talked};

/// Exit code of a call that its time limit ended.
const TIMED_OUT: i32 = 124;

/// Exit code of a cell that waits for what nothing can bring, as of a `node` program that does.
const NEVER_SETTLES: i32 = 13;

/// Runs one call, from the plan to the answer.
///
/// # Errors
/// A refusal while it is certain that nothing of the call ran, a fault from the moment something may have.
pub(crate) async fn run(
    mut inside: Entered<'_>,
    call: &SessionCall,
    context: &RunContext,
    limit: Duration,
    snapshot: &Snapshot,
    evidence: &SessionEvidence,
) -> Result<Outcome, RunError> {
    let began = Instant::now();
    let broker = context.broker.as_deref();
    let plan = match call.call().payload() {
        Payload::JavaScript(snippet) => snippet_plan(snippet, broker, limit),
        Payload::Project(project) => project_plan(project, broker, limit),
        Payload::Cell(cell) => cell_plan(cell, limit)?,
        Payload::Module(_) => {
            return Err(Refusal::unsupported("sessions of provider docker run no modules").into());
        }
    };
    // Nothing that an earlier call left in an interpreter may use this call's grant.
    if matches!(plan, Plan::Project(_)) || broker.is_some() {
        inside.quiesce().await.map_err(Refusal::session_ended)?;
    }
    if let Some(broker) = &context.broker {
        inside.container().lend(Arc::clone(broker));
    }
    let deadline = tokio::time::Instant::from_std(context.deadline);
    let over = async {
        tokio::select! {
            () = context.cancelled.cancelled() => {}
            () = tokio::time::sleep_until(deadline) => {}
        }
    };
    let talked = inside.talk(&plan, limit, over).await;
    // Code that this call left must not use the next one's grant before it is swept.
    inside.container().take_back();
    let (result, diagnostics) = answer(&mut inside, talked, context, reading(snapshot)).await?;
    let environment = &evidence.support.environment;
    Ok(Outcome {
        result,
        isolation: evidence.isolation,
        duration_ms: i64::try_from(began.elapsed().as_millis()).unwrap_or(i64::MAX),
        environment: environment.identity.clone(),
        software_identity: environment.software_identity.clone(),
        instance: String::new(),
        diagnostics,
    })
}

async fn answer(
    inside: &mut Entered<'_>,
    talked: Talked,
    context: &RunContext,
    reading: Reading,
) -> Result<(RunResult, Diagnostics), RunError> {
    match talked.ending {
        Ending::Snippet(mut end) => {
            inside.seen_from_the_host(&mut end.limits).await;
            let (result, diagnostics) = answer::ended(*end, reading);
            Ok((RunResult::JavaScript(result), diagnostics))
        }
        Ending::Report(mut report) => {
            inside.seen_from_the_host(&mut report.limits).await;
            let (result, diagnostics) = answer::reported(*report, reading);
            Ok((RunResult::Project(result), diagnostics))
        }
        Ending::Cell(mut end) => {
            inside.seen_from_the_host(&mut end.limits).await;
            let (result, diagnostics) = cell(*end, reading);
            Ok((RunResult::Cell(result), diagnostics))
        }
        // Once it was said that code was started, nothing takes that back.
        Ending::NotRun(cause) if !talked.started => Err(not_run(cause, context).into()),
        other => {
            let ended = inside.lost_touch().await;
            tracing::warn!(cause = ?other, end = ended.end.as_str(), "a session ended during a call");
            if talked.dispatched {
                Err(Fault::session_ended(&ended).into())
            } else {
                Err(Refusal::session_ended(ended).into())
            }
        }
    }
}

fn cell_plan(cell: &CellRun, limit: Duration) -> Result<Plan, Refusal> {
    let Some(language) = Language::named(&cell.language) else {
        return Err(Refusal::request(format!(
            "cell.language {:?} is not one that provider docker keeps an interpreter for",
            cell.language
        )));
    };
    let files = cell.files.iter().map(|file| ProjectFile {
        path: file.path.clone(),
        content: file.content.clone(),
    });
    Ok(Plan::Cell(CellPlan {
        language,
        nonce: nonce()?,
        files: files.collect(),
        code: cell.code.clone(),
        timeout_ms: limit_ms(limit),
    }))
}

/// 128 random bits in hex: no cell can know the next one's.
pub(crate) fn nonce() -> Result<String, Refusal> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| {
        Refusal::new(
            Code::Internal,
            Reason::Environment,
            format!("the system has no randomness; nothing ran: {error}"),
        )
    })?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn cell(end: CellEnd, reading: Reading) -> (CellResult, Diagnostics) {
    let (stdout_truncated, stderr_truncated) = (end.stdout.truncated(), end.stderr.truncated());
    let truncated = stdout_truncated || stderr_truncated;
    let diagnostics = reading.diagnostics(&end.limits, &end.stdout, &end.stderr, truncated, 0);
    let result = CellResult {
        exit_code: match end.outcome {
            CellOutcome::Ran => 0,
            CellOutcome::Raised | CellOutcome::Died => 1,
            CellOutcome::NeverSettles => NEVER_SETTLES,
            CellOutcome::TimedOut => TIMED_OUT,
        },
        timed_out: end.outcome == CellOutcome::TimedOut,
        stdout: end.stdout.bytes,
        stderr: end.stderr.bytes,
        stdout_truncated,
        stderr_truncated,
        interpreter_started: end.fresh,
        interpreter_ended: end.outcome.ended_interpreter(),
    };
    (result, diagnostics)
}

fn not_run(cause: NotRun, context: &RunContext) -> Refusal {
    match cause {
        NotRun::File { index, errno } => Refusal::request(format!(
            "cell.files[{index}] cannot be written: {}; the code did not run",
            errno_name(errno)
        )),
        NotRun::NoInterpreter(cause) => Refusal::new(
            Code::Unimplemented,
            Reason::Environment,
            format!("nothing could be started to run the code, and nothing ran: {cause}"),
        ),
        NotRun::TooLate if context.cancelled.is_cancelled() => gone(),
        NotRun::TooLate => Refusal::too_late(
            "the call's deadline passed before its code was handed over; nothing of it ran. Allow more time",
        ),
    }
}

/// The name that C gives an error of a file.
fn errno_name(errno: i32) -> String {
    let name = match Errno::from_raw_os_error(errno) {
        Errno::PERM => "EPERM",
        Errno::NOENT => "ENOENT",
        Errno::IO => "EIO",
        Errno::NOMEM => "ENOMEM",
        Errno::ACCESS => "EACCES",
        Errno::BUSY => "EBUSY",
        Errno::EXIST => "EEXIST",
        Errno::XDEV => "EXDEV",
        Errno::NOTDIR => "ENOTDIR",
        Errno::ISDIR => "EISDIR",
        Errno::INVAL => "EINVAL",
        Errno::MFILE => "EMFILE",
        Errno::TXTBSY => "ETXTBSY",
        Errno::FBIG => "EFBIG",
        Errno::NOSPC => "ENOSPC",
        Errno::ROFS => "EROFS",
        Errno::NAMETOOLONG => "ENAMETOOLONG",
        Errno::LOOP => "ELOOP",
        Errno::NXIO => "ENXIO",
        Errno::DQUOT => "EDQUOT",
        Errno::AGAIN => "EAGAIN",
        _ => return format!("error {errno}"),
    };
    name.to_owned()
}
