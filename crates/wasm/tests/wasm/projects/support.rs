//! Projects as a daemon hands them over, and their answers.

use std::time::{Duration, Instant};

use plimsoll_core::limits::PROTOCOL;
use plimsoll_core::{
    Outcome, Payload, Permit, ProjectFile, ProjectOutcome, ProjectResult, ProjectRun, Refusal, Resources, RunError,
    RunRequest, RunResult, StepResult, Validated,
};
use plimsoll_sandbox::{AdmittedCall, RunContext, Sandbox};
use plimsoll_wasm::Wasm;
use tokio_util::sync::CancellationToken;

pub(crate) fn provider() -> Wasm {
    Wasm::new(Resources::default(), 2).unwrap()
}

pub(crate) fn file(path: &str, content: &str) -> ProjectFile {
    ProjectFile {
        path: path.to_owned(),
        content: content.to_owned(),
    }
}

pub(crate) fn project(files: &[(&str, &str)], steps: &[&str], artifacts: &[&str]) -> ProjectRun {
    ProjectRun {
        files: files.iter().map(|(path, content)| file(path, content)).collect(),
        steps: steps.iter().map(|&step| step.to_owned()).collect(),
        artifacts: artifacts.iter().map(|&path| path.to_owned()).collect(),
        grant_profile: String::new(),
    }
}

pub(crate) fn admitted(provider: &Wasm, request: RunRequest) -> Result<AdmittedCall, Refusal> {
    let call = Validated::new(request)?.grant(|_| Ok(None))?;
    Ok(call.authorize(&provider.evidence())?.admit(Permit::new(())))
}

pub(crate) async fn attempt(provider: &Wasm, project: ProjectRun, timeout_ms: i32) -> Result<Outcome, RunError> {
    let request = RunRequest {
        protocol: PROTOCOL,
        payload: Some(Payload::Project(project)),
        timeout_ms,
        ..RunRequest::default()
    };
    let call = admitted(provider, request)?;
    let context = RunContext {
        deadline: Instant::now() + Duration::from_secs(60),
        cancelled: CancellationToken::new(),
        broker: None,
    };
    provider.run(&call, context).await
}

pub(crate) async fn outcome(provider: &Wasm, project: ProjectRun) -> (ProjectResult, Outcome) {
    let outcome = attempt(provider, project, 0).await.unwrap();
    match outcome.result.clone() {
        RunResult::Project(result) => (result, outcome),
        other => panic!("{other:?}"),
    }
}

pub(crate) async fn result(files: &[(&str, &str)], steps: &[&str], artifacts: &[&str]) -> ProjectResult {
    outcome(&provider(), project(files, steps, artifacts)).await.0
}

/// The one step's standard output, of a project that went well.
pub(crate) async fn printed(files: &[(&str, &str)], step: &str) -> String {
    let result = result(files, &[step], &[]).await;
    assert_eq!(result.outcome, ProjectOutcome::COMPLETED, "{result:?}");
    let step = &result.steps[0];
    assert_eq!(step.exit_code, 0, "{}{}", step.stdout_text(), step.stderr_text());
    assert_eq!(step.stderr_text(), "");
    step.stdout_text().into_owned()
}

/// The one step, of a project whose step failed with exit code 1.
pub(crate) async fn failing(files: &[(&str, &str)], step: &str) -> StepResult {
    let result = result(files, &[step], &[]).await;
    assert_eq!(result.outcome, ProjectOutcome::COMPLETED, "{result:?}");
    assert_eq!(result.steps[0].exit_code, 1, "{result:?}");
    result.steps[0].clone()
}

pub(crate) async fn complaint(files: &[(&str, &str)], step: &str) -> String {
    failing(files, step).await.stderr_text().into_owned()
}

pub(crate) fn refused(error: RunError) -> Refusal {
    match error {
        RunError::NotDispatched(refusal) => refusal,
        other @ RunError::MayHaveRun(_) => panic!("{other:?}"),
    }
}
