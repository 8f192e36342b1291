//! What the provider promises about one session, called as a daemon calls it.

#![allow(clippy::unwrap_used, reason = "a step that fails fails the test")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use plimsoll_core::limits::PROTOCOL;
use plimsoll_core::{
    Addressed, AuthorizedOpen, CellResult, CellRun, Code, JavaScriptRun, Limit, OpenRequest, Outcome, Payload, Permit,
    ProjectFile, ProjectOutcome, ProjectRun, Reason, Refusal, Resources, RunError, RunRequest, RunResult, SessionEnd,
    SoftwareRule, Turn,
};
use plimsoll_sandbox::{OpenContext, RunContext, Sandbox, Session, SessionCall, Suspended};
use plimsoll_wasm::Wasm;
use tokio_util::sync::CancellationToken;

fn provider() -> Wasm {
    Wasm::new(Resources::default(), 2).unwrap()
}

async fn open(provider: &Wasm) -> Result<Arc<dyn Session>, RunError> {
    let request = OpenRequest {
        protocol: PROTOCOL,
        minimum_isolation: "process".to_owned(),
        ..OpenRequest::default()
    };
    let open = AuthorizedOpen::new(request, &provider.evidence()).unwrap();
    let open = open.admit(Duration::from_secs(60), Permit::new(()));
    let context = OpenContext {
        deadline: Instant::now() + Duration::from_secs(20),
        cancelled: CancellationToken::new(),
        disk_bytes: 0,
    };
    provider.sessions().unwrap().open(&open, context).await
}

fn context() -> RunContext {
    RunContext {
        deadline: Instant::now() + Duration::from_secs(20),
        cancelled: CancellationToken::new(),
        broker: None,
    }
}

fn request(payload: Payload, timeout_ms: i64) -> RunRequest {
    RunRequest {
        protocol: PROTOCOL,
        payload: Some(payload),
        timeout_ms: timeout_ms.try_into().unwrap(),
        ..RunRequest::default()
    }
}

/// The corridor up to the session.
fn addressed(session: &dyn Session, request: RunRequest) -> Result<SessionCall, Refusal> {
    let call = Addressed::new(request)?
        .validate(&SoftwareRule::NONE)?
        .grant(|_| Ok(None))?;
    Ok(call
        .authorize(session.evidence())?
        .take(Turn::new(()))
        .admit(Permit::new(())))
}

fn code(code: &str) -> Payload {
    Payload::Cell(CellRun {
        language: "javascript".to_owned(),
        code: code.to_owned(),
        files: Vec::new(),
    })
}

async fn outcome(session: &dyn Session, payload: Payload, timeout_ms: i64) -> Outcome {
    let call = addressed(session, request(payload, timeout_ms)).unwrap();
    let outcome = session.run(&call, context()).await.unwrap();
    session.sweep().await;
    assert_eq!(session.ended(), None);
    outcome
}

async fn cell(session: &dyn Session, text: &str) -> CellResult {
    match outcome(session, code(text), 5_000).await.result {
        RunResult::Cell(result) => result,
        other => panic!("{other:?}"),
    }
}

/// Exit code, standard output, started, ended.
fn told(result: &CellResult) -> (i32, &str, bool, bool) {
    let stdout = std::str::from_utf8(&result.stdout).unwrap();
    (
        result.exit_code,
        stdout,
        result.interpreter_started,
        result.interpreter_ended,
    )
}

fn refused(error: RunError) -> Refusal {
    match error {
        RunError::NotDispatched(refusal) => refusal,
        other @ RunError::MayHaveRun(_) => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_session_keeps_its_variables_and_says_when_they_are_gone() {
    let provider = provider();
    let session = open(&provider).await.unwrap();
    assert_eq!(told(&cell(&*session, "const x = 20").await), (0, "", true, false));
    assert_eq!(told(&cell(&*session, "x + 22").await), (0, "42\n", false, false));
    assert_eq!(told(&cell(&*session, "throw x").await), (1, "", false, false));
    assert_eq!(told(&cell(&*session, "process.exit(0)").await), (1, "", false, true));
    assert_eq!(
        told(&cell(&*session, "typeof x").await),
        (0, "'undefined'\n", true, false)
    );

    let spun = outcome(&*session, code("console.log('a'); while (true) {}"), 100).await;
    let RunResult::Cell(result) = spun.result else {
        panic!("{:?}", spun.result)
    };
    assert!(result.timed_out);
    assert_eq!(told(&result), (124, "a\n", false, true));
    assert_eq!(told(&cell(&*session, "1").await), (0, "1\n", true, false));
}

#[tokio::test]
async fn a_snippet_in_a_session_starts_from_nothing() {
    let provider = provider();
    let session = open(&provider).await.unwrap();
    cell(&*session, "globalThis.x = 1").await;
    let snippet = Payload::JavaScript(JavaScriptRun {
        code: "console.log(typeof x); globalThis.y = 1".to_owned(),
        ..JavaScriptRun::default()
    });
    let ran = outcome(&*session, snippet, 0).await;
    let RunResult::JavaScript(result) = ran.result else {
        panic!("{:?}", ran.result)
    };
    assert_eq!((result.exit_code, result.stdout.as_slice()), (0, &b"undefined\n"[..]));
    assert_eq!(
        told(&cell(&*session, "[x, typeof y]").await),
        (0, "[ 1, 'undefined' ]\n", false, false)
    );
}

#[tokio::test]
async fn sessions_see_nothing_of_each_other() {
    let provider = provider();
    let (first, second) = (open(&provider).await.unwrap(), open(&provider).await.unwrap());
    cell(&*first, "var secret = 1; Object.prototype.mark = 1").await;
    assert_eq!(
        told(&cell(&*second, "[typeof secret, ({}).mark]").await).1,
        "[ 'undefined', undefined ]\n"
    );
    assert_eq!(told(&cell(&*first, "secret").await).1, "1\n");
}

#[tokio::test]
async fn suspending_keeps_the_memory_and_tells_how_much_it_is() {
    let provider = provider();
    let session = open(&provider).await.unwrap();
    let Suspended::Holds(idle) = session.suspend().await.unwrap() else {
        panic!("it gives its slot back")
    };
    assert!((1 << 20..4 << 20).contains(&idle), "{idle}");
    cell(&*session, "var kept = new Uint8Array(20 << 20).fill(1); kept.length").await;
    let Suspended::Holds(held) = session.suspend().await.unwrap() else {
        panic!("it gives its slot back")
    };
    assert!((20 << 20..40 << 20).contains(&held), "{held}");
    session.resume().await.unwrap();
    assert_eq!(told(&cell(&*session, "kept[9]").await), (0, "1\n", false, false));
}

#[tokio::test]
async fn a_memory_bomb_is_a_result_that_names_the_limit() {
    let resources = Resources {
        memory_mb: 32,
        ..Resources::default()
    };
    let provider = Wasm::new(resources, 1).unwrap();
    let session = open(&provider).await.unwrap();
    let bomb = "var kept = 1; { const parts = []; for (;;) parts.push(new Uint8Array(1 << 20).fill(1)) }";
    let ended = outcome(&*session, code(bomb), 5_000).await;
    assert_eq!(ended.diagnostics.limit_hit, Some(Limit::Memory));
    let RunResult::Cell(result) = ended.result else {
        panic!("{:?}", ended.result)
    };
    assert_eq!(told(&result), (1, "", true, false));
    assert_eq!(told(&cell(&*session, "kept").await), (0, "1\n", false, false));
}

#[tokio::test]
async fn what_a_session_cannot_run_is_refused_before_anything_runs() {
    let provider = provider();
    let session = open(&provider).await.unwrap();
    let project = Payload::Project(ProjectRun {
        files: vec![ProjectFile {
            path: "a.js".to_owned(),
            content: String::new(),
        }],
        steps: vec!["ls".to_owned(), "node a.js".to_owned()],
        ..ProjectRun::default()
    });
    let foreseen = provider.never_runs(&project);
    let call = addressed(&*session, request(project, 0)).unwrap();
    let refusal = refused(session.run(&call, context()).await.unwrap_err());
    assert_eq!(foreseen.as_ref(), Some(&refusal), "told before the turn as after it");
    assert_eq!(
        (refusal.reason(), refusal.code()),
        (Reason::Unsupported, Code::Unimplemented)
    );
    assert!(refusal.message().contains("`node FILE [arguments]`"), "{refusal}");
    assert_eq!(
        told(&cell(&*session, "require('fs').readdirSync('.')").await),
        (0, "[]\n", true, false)
    );
    let python = Payload::Cell(CellRun {
        language: "python".to_owned(),
        code: "1".to_owned(),
        files: Vec::new(),
    });
    assert_eq!(
        addressed(&*session, request(python, 0)).unwrap_err().reason(),
        Reason::Environment
    );
    let granted = Payload::JavaScript(JavaScriptRun {
        code: "1".to_owned(),
        grant_profile: "any".to_owned(),
    });
    assert_eq!(
        addressed(&*session, request(granted, 0)).unwrap_err().reason(),
        Reason::Unsupported
    );
}

#[tokio::test]
async fn files_are_written_before_the_code_runs_and_stay_for_every_later_call() {
    let provider = provider();
    let session = open(&provider).await.unwrap();
    let with_files = |code: &str, path: &str| {
        Payload::Cell(CellRun {
            language: "javascript".to_owned(),
            code: code.to_owned(),
            files: vec![ProjectFile {
                path: path.to_owned(),
                content: "text".to_owned(),
            }],
        })
    };
    let read = "require('fs').readFileSync('a/b.txt', 'utf8')";
    let ran = outcome(&*session, with_files(&format!("var x = {read}; x"), "a/b.txt"), 0).await;
    let RunResult::Cell(result) = ran.result else {
        panic!("{:?}", ran.result)
    };
    assert_eq!(told(&result), (0, "'text'\n", true, false));
    // Where a file cannot be, the code does not run, and the interpreter keeps what it has.
    let call = addressed(&*session, request(with_files("x = 1", "a/b.txt/c"), 0)).unwrap();
    let refusal = refused(session.run(&call, context()).await.unwrap_err());
    assert_eq!(refusal.reason(), Reason::Request);
    assert!(
        refusal.message().contains("cell.files[0] cannot be written: ENOTDIR"),
        "{refusal:?}"
    );
    assert_eq!(told(&cell(&*session, "x").await), (0, "'text'\n", false, false));
    // Losing the interpreter loses no file.
    cell(
        &*session,
        "require('fs').appendFileSync('a/b.txt', '!'); process.exit()",
    )
    .await;
    let snippet = Payload::JavaScript(JavaScriptRun {
        code: format!("console.log({read})"),
        ..JavaScriptRun::default()
    });
    let ran = outcome(&*session, snippet, 0).await;
    let RunResult::JavaScript(result) = ran.result else {
        panic!("{:?}", ran.result)
    };
    assert_eq!(result.stdout, b"text!\n");
    let other = open(&provider).await.unwrap();
    assert_eq!(told(&cell(&*other, "require('fs').readdirSync('.')").await).1, "[]\n");
    let Suspended::Holds(before) = session.suspend().await.unwrap() else {
        panic!("it gives its slot back")
    };
    cell(
        &*session,
        "require('fs').writeFileSync('large', new Uint8Array(8 << 20)); 1",
    )
    .await;
    let Suspended::Holds(after) = session.suspend().await.unwrap() else {
        panic!("it gives its slot back")
    };
    assert!(after >= before + (8 << 20), "{before} {after}");
}

#[tokio::test]
async fn projects_and_cells_of_a_session_share_its_files_and_nothing_else() {
    let provider = provider();
    let session = open(&provider).await.unwrap();
    let project = |files: &[(&str, &str)], steps: &[&str], artifacts: &[&str]| {
        Payload::Project(ProjectRun {
            files: files
                .iter()
                .map(|&(path, content)| ProjectFile {
                    path: path.to_owned(),
                    content: content.to_owned(),
                })
                .collect(),
            steps: steps.iter().map(|&step| step.to_owned()).collect(),
            artifacts: artifacts.iter().map(|&path| path.to_owned()).collect(),
            ..ProjectRun::default()
        })
    };
    cell(
        &*session,
        "const x = 1; require('fs').mkdirSync('lib'); require('fs').writeFileSync('lib/cell.mjs', 'export default typeof x')",
    )
    .await;
    let files = [
        (
            "main.mjs",
            "import told from './lib/cell.mjs'; import fs from 'fs'; console.log(told); fs.writeFileSync('.plimsoll/made.json', '[4]')",
        ),
        (".plimsoll/keep", ""),
    ];
    let ran = outcome(&*session, project(&files, &["node main.mjs"], &[]), 0).await;
    let RunResult::Project(result) = ran.result else {
        panic!("{:?}", ran.result)
    };
    assert_eq!(
        (result.outcome, result.steps[0].stdout_text().as_ref()),
        (ProjectOutcome::COMPLETED, "undefined\n")
    );
    // The interpreter is the one from before, and imports what it and the project wrote.
    let read = "const made = require('./.plimsoll/made.json'); const m = await import('./lib/cell.mjs'); [x, made[0], m.default, __dirname]";
    assert_eq!(
        told(&cell(&*session, read).await),
        (0, "[ 1, 4, 'number', '/work' ]\n", false, false)
    );
    // A later project finds all of it without sending anything.
    let ran = outcome(
        &*session,
        project(&[], &["node main.mjs"], &[".plimsoll/made.json", "lib/cell.mjs"]),
        0,
    )
    .await;
    let RunResult::Project(result) = ran.result else {
        panic!("{:?}", ran.result)
    };
    assert_eq!(result.artifacts.len(), 2);
    let failed = outcome(&*session, project(&[("lib", "a file")], &["node main.mjs"], &[]), 0).await;
    let RunResult::Project(result) = failed.result else {
        panic!("{:?}", failed.result)
    };
    assert_eq!(result.outcome, ProjectOutcome::SETUP_FAILED);
    // A step that is ended ends no interpreter.
    let spin = outcome(
        &*session,
        project(&[("spin.js", "while (true) {}")], &["node spin.js"], &[]),
        50,
    )
    .await;
    assert!(matches!(spin.result, RunResult::Project(result) if result.outcome == ProjectOutcome::TIMED_OUT));
    assert_eq!(told(&cell(&*session, "x").await), (0, "1\n", false, false));
}

#[tokio::test]
async fn a_call_whose_time_is_over_or_whose_caller_has_gone_does_not_run() {
    let provider = provider();
    let session = open(&provider).await.unwrap();
    let call = addressed(&*session, request(code("globalThis.ran = 1"), 0)).unwrap();
    let late = RunContext {
        deadline: Instant::now(),
        ..context()
    };
    let gone = context();
    gone.cancelled.cancel();
    for (context, code) in [(late, Code::DeadlineExceeded), (gone, Code::Canceled)] {
        let refusal = refused(session.run(&call, context).await.unwrap_err());
        assert_eq!((refusal.code(), refusal.reason()), (code, Reason::Capacity));
    }
    assert_eq!(
        told(&cell(&*session, "typeof ran").await),
        (0, "'undefined'\n", true, false)
    );
}

#[tokio::test]
async fn a_caller_who_goes_during_a_call_costs_the_interpreter_and_not_the_session() {
    let provider = provider();
    let session = open(&provider).await.unwrap();
    cell(&*session, "var x = 1").await;
    let call = addressed(&*session, request(code("while (true) {}"), 0)).unwrap();
    let context = context();
    let cancelled = context.cancelled.clone();
    let (ended, ()) = tokio::join!(session.run(&call, context), async {
        tokio::time::sleep(Duration::from_millis(20)).await;
        cancelled.cancel();
    });
    assert!(matches!(ended.unwrap_err(), RunError::MayHaveRun(_)));
    assert_eq!(
        told(&cell(&*session, "typeof x").await),
        (0, "'undefined'\n", true, false)
    );
}

#[tokio::test]
async fn interpreter_files_and_snippet_share_one_memory_limit() {
    let provider = provider();
    let session = open(&provider).await.unwrap();
    let fill = "globalThis.held = []; try { for (;;) held.push(new Uint8Array(1 << 20).fill(1)) } catch {} 1";
    assert_eq!(told(&cell(&*session, fill).await), (0, "1\n", true, false));
    let snippet = || {
        Payload::JavaScript(JavaScriptRun {
            code: "console.log(1)".to_owned(),
            ..JavaScriptRun::default()
        })
    };
    let call = addressed(&*session, request(snippet(), 0)).unwrap();
    let refusal = refused(session.run(&call, context()).await.unwrap_err());
    assert_eq!(refusal.reason(), Reason::Capacity, "{refusal}");
    let step = Payload::Project(ProjectRun {
        steps: vec!["node a.js".to_owned()],
        ..ProjectRun::default()
    });
    let call = addressed(&*session, request(step, 0)).unwrap();
    let refusal = refused(session.run(&call, context()).await.unwrap_err());
    assert_eq!(refusal.reason(), Reason::Capacity, "{refusal}");
    // Letting go of variables gives nothing back, so that is not what the refusal advises.
    cell(&*session, "held.length = 0").await;
    let call = addressed(&*session, request(snippet(), 0)).unwrap();
    refused(session.run(&call, context()).await.unwrap_err());
    assert!(refusal.message().contains("`process.exit()`"), "{refusal}");
    // The next interpreter starts small.
    assert_eq!(told(&cell(&*session, "process.exit()").await), (1, "", false, true));
    let ran = outcome(&*session, snippet(), 0).await;
    assert!(matches!(ran.result, RunResult::JavaScript(result) if result.stdout == b"1\n"));
}

#[tokio::test]
async fn closing_is_idempotent_and_final() {
    let provider = provider();
    let session = open(&provider).await.unwrap();
    let call = addressed(&*session, request(code("1"), 0)).unwrap();
    session.close().await.unwrap();
    session.close().await.unwrap();
    let refusal = refused(session.run(&call, context()).await.unwrap_err());
    assert_eq!(refusal.session_end().unwrap().end, SessionEnd::Closed);
}

#[tokio::test]
async fn closing_during_a_call_waits_for_its_end() {
    let provider = provider();
    let session = open(&provider).await.unwrap();
    let call = addressed(&*session, request(code("while (true) {}"), 0)).unwrap();
    let context = context();
    let cancelled = context.cancelled.clone();
    let (ended, closed) = tokio::join!(session.run(&call, context), async {
        tokio::time::sleep(Duration::from_millis(20)).await;
        cancelled.cancel();
        session.close().await
    });
    assert!(matches!(ended.unwrap_err(), RunError::MayHaveRun(_)));
    closed.unwrap();
}

#[tokio::test]
async fn a_limit_that_cannot_be_enforced_refuses_the_open() {
    let resources = Resources {
        disk_mb: 10,
        ..Resources::default()
    };
    let provider = Wasm::new(resources, 1).unwrap();
    match open(&provider).await {
        Err(error) => assert_eq!(refused(error).reason(), Reason::Environment),
        Ok(_) => panic!("a session without the bound its operator set"),
    }
}

#[tokio::test]
async fn the_smoke_test_passes_and_sessions_are_stated() {
    let provider = provider();
    provider.sessions().unwrap().smoke_test().await.unwrap();
    let support = provider.evidence().sessions.clone().unwrap();
    assert_eq!(support.environment.languages, ["javascript"]);
    assert!(support.snippets && support.projects && !support.disk_bound);
    assert!(!support.grants.javascript && !support.grants.project);
}
