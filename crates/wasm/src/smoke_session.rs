//! The proof of sessions a daemon makes before it keeps any: each promise, asked of a session as a caller asks it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use plimsoll_core::limits::PROTOCOL;
use plimsoll_core::{
    Addressed, AuthorizedOpen, CellResult, CellRun, JavaScriptRun, OpenRequest, Payload, Permit, ProjectRun, RunError,
    RunRequest, RunResult, SoftwareRule, Turn,
};
use plimsoll_sandbox::{OpenContext, RunContext, Sandbox as _, Session, Sessions as _, Suspended};
use tokio_util::sync::CancellationToken;

use crate::provider::Wasm;

/// Long enough for any of the calls on a loaded machine; they take milliseconds.
const PATIENCE: Duration = Duration::from_secs(30);

/// Time the loop is left to spin, in milliseconds.
const LOOP_MS: i32 = 1;

/// What is asked of one session, and what it must answer: exit code and standard output.
const CELLS: [(&str, i32, &str); 5] = [
    ("const kept = 41", 0, ""),
    ("throw kept", 1, ""),
    ("await kept + 1", 0, "42\n"),
    (
        "let late = 0; setTimeout(() => late++); setImmediate(() => late++); undefined",
        0,
        "",
    ),
    ("late", 0, "0\n"),
];

/// Proves what sessions promise: state and files stay, across a suspension too; an error is a result; nothing a call left goes on;
/// a loop is interrupted and ends the interpreter alone; no session sees another; and a closed one runs nothing.
///
/// # Errors
/// The first promise that does not hold.
pub(crate) async fn prove(provider: &Wasm) -> Result<(), String> {
    let session = open(provider).await?;
    for (code, exit, printed) in CELLS {
        let told = cell(&session, code, 0).await?;
        holds(
            (told.exit_code, &*told.stdout) == (exit, printed.as_bytes()) && !told.interpreter_ended,
            "state",
            &told,
        )?;
    }
    cell(
        &session,
        "require('fs').writeFileSync('kept.js', 'console.log(\"here\")')",
        0,
    )
    .await?;
    let step = Payload::Project(ProjectRun {
        steps: vec!["node kept.js".to_owned()],
        ..ProjectRun::default()
    });
    let code = "require('./kept.js')".to_owned();
    let snippet = Payload::JavaScript(JavaScriptRun {
        code,
        ..JavaScriptRun::default()
    });
    match (call(&session, step, 0).await?, call(&session, snippet, 0).await?) {
        (RunResult::Project(project), RunResult::JavaScript(snippet))
            if matches!(project.steps.as_slice(), [step] if step.stdout == b"here\n" && step.exit_code == 0)
                && snippet.stdout == b"here\n" => {}
        other => return Err(broken("files", &other)),
    }

    match session.suspend().await {
        Ok(Suspended::Holds(bytes)) if bytes > 0 => {}
        other => return Err(broken("suspend", &other)),
    }
    session.resume().await.map_err(|error| broken("resume", &error))?;
    let told = cell(&session, "[kept, require('fs').existsSync('kept.js')]", 0).await?;
    holds(told.stdout == b"[ 41, true ]\n", "suspend", &told)?;

    let other = open(provider).await?;
    let told = cell(&other, "[typeof kept, require('fs').existsSync('kept.js')]", 0).await?;
    holds(told.stdout == b"[ 'undefined', false ]\n", "isolation", &told)?;
    close(&other).await?;

    let told = cell(&session, "while (true) {}", LOOP_MS).await?;
    holds(told.timed_out && told.interpreter_ended, "deadline", &told)?;
    let told = cell(&session, "require('fs').existsSync('kept.js')", 0).await?;
    holds(
        told.interpreter_started && told.stdout == b"true\n",
        "fresh interpreter",
        &told,
    )?;

    close(&session).await?;
    match run(&session, javascript("1"), 0).await {
        Err(RunError::NotDispatched(_)) => Ok(()),
        other => Err(broken("close", &other)),
    }
}

fn holds(promise: bool, name: &str, told: &CellResult) -> Result<(), String> {
    if promise { Ok(()) } else { Err(broken(name, told)) }
}

fn broken(name: &str, told: &dyn std::fmt::Debug) -> String {
    format!("the promise of sessions about {name} does not hold: {told:?}")
}

fn javascript(code: &str) -> Payload {
    Payload::Cell(CellRun {
        language: "javascript".to_owned(),
        code: code.to_owned(),
        files: Vec::new(),
    })
}

async fn open(provider: &Wasm) -> Result<Arc<dyn Session>, String> {
    let request = OpenRequest {
        protocol: PROTOCOL,
        ..OpenRequest::default()
    };
    let open = AuthorizedOpen::new(request, &provider.evidence()).map_err(|refusal| broken("open", &refusal))?;
    let open = open.admit(PATIENCE, Permit::new(()));
    let context = OpenContext {
        deadline: Instant::now() + PATIENCE,
        cancelled: CancellationToken::new(),
        disk_bytes: 0,
    };
    let opened = provider.open(&open, context).await;
    opened.map_err(|error| broken("open", &error))
}

async fn close(session: &Arc<dyn Session>) -> Result<(), String> {
    session.close().await.map_err(|error| broken("close", &error))
}

async fn cell(session: &Arc<dyn Session>, code: &str, timeout_ms: i32) -> Result<CellResult, String> {
    match call(session, javascript(code), timeout_ms).await? {
        RunResult::Cell(told) => Ok(told),
        other => Err(broken("cells", &other)),
    }
}

async fn call(session: &Arc<dyn Session>, payload: Payload, timeout_ms: i32) -> Result<RunResult, String> {
    let told = run(session, payload, timeout_ms).await;
    session.sweep().await;
    told.map_err(|error| broken("calls", &error))
}

async fn run(session: &Arc<dyn Session>, payload: Payload, timeout_ms: i32) -> Result<RunResult, RunError> {
    let request = RunRequest {
        protocol: PROTOCOL,
        payload: Some(payload),
        timeout_ms,
        ..RunRequest::default()
    };
    let call = Addressed::new(request)?
        .validate(&SoftwareRule::NONE)?
        .grant(|_| Ok(None))?
        .authorize(session.evidence())?
        .take(Turn::new(()))
        .admit(Permit::new(()));
    let context = RunContext {
        deadline: Instant::now() + PATIENCE,
        cancelled: CancellationToken::new(),
        broker: None,
    };
    session.run(&call, context).await.map(|outcome| outcome.result)
}
