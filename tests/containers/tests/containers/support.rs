//! One proven sandbox for the whole suite, and short ways to ask it for something.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::sync::LazyLock;
use std::time::Duration;

use plimsoll::{BuildError, RunError, Sandbox};
use plimsoll_core::{JavaScriptResult, Payload, ProjectFile, ProjectResult, RunRequest, RunResult, StepResult};
use plimsoll_record::Answer;
use tokio::runtime::Runtime;
use tokio::sync::OnceCell;

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().unwrap());
static SANDBOX: OnceCell<Sandbox> = OnceCell::const_new();

/// Runs a test on the one runtime all tests share: a container is removed by a task that may outlive its test.
pub(crate) fn run<T>(test: impl Future<Output = T>) -> T {
    RUNTIME.block_on(test)
}

/// The OCI runtime under test.
#[expect(clippy::disallowed_methods, reason = "a test is configured by its suite")]
pub(crate) fn runtime() -> String {
    let name = std::env::var("PLIMSOLL_TEST_RUNTIME");
    name.expect("PLIMSOLL_TEST_RUNTIME names the runtime under test: runc or runsc")
}

pub(crate) fn gvisor() -> bool {
    runtime() == "runsc"
}

/// Variables of the provider under test, and these.
pub(crate) fn variables(more: &[(&str, &str)]) -> BTreeMap<OsString, OsString> {
    let mut variables: BTreeMap<OsString, OsString> = [("SANDBOX_PROVIDER".into(), "docker".into())].into();
    variables.insert("SANDBOX_DOCKER_RUNTIME".into(), runtime().into());
    variables.extend(
        more.iter()
            .map(|(name, value)| (OsString::from(name), OsString::from(value))),
    );
    variables
}

/// The sandbox that most tests use: no pool, defaults.
pub(crate) async fn sandbox() -> &'static Sandbox {
    SANDBOX
        .get_or_init(|| async { Sandbox::from_lookup(&variables(&[])).await.unwrap() })
        .await
}

/// A sandbox of one test, with these variables too.
pub(crate) async fn own_sandbox(more: &[(&str, &str)]) -> Result<Sandbox, BuildError> {
    Sandbox::from_lookup(&variables(more)).await
}

/// A snippet's answer.
pub(crate) async fn snippet(code: &str) -> JavaScriptResult {
    let answer = ask(RunRequest::javascript(code)).await.unwrap();
    javascript(&answer)
}

/// A snippet's answer under a time limit.
pub(crate) async fn snippet_within(code: &str, limit: Duration) -> Answer {
    let mut request = RunRequest::javascript(code);
    request.timeout_ms = i32::try_from(limit.as_millis()).unwrap();
    ask(request).await.unwrap()
}

pub(crate) async fn ask(request: RunRequest) -> Result<Answer, RunError> {
    sandbox().await.exchange(request).await
}

pub(crate) fn javascript(answer: &Answer) -> JavaScriptResult {
    match &answer.result {
        Some(RunResult::JavaScript(result)) => result.clone(),
        other => panic!("not a snippet's result: {other:?}"),
    }
}

pub(crate) fn project_of(answer: &Answer) -> ProjectResult {
    match &answer.result {
        Some(RunResult::Project(result)) => result.clone(),
        other => panic!("not a project's result: {other:?}"),
    }
}

/// A project of these files, steps and artifacts.
pub(crate) fn project(files: &[(&str, &str)], steps: &[&str], artifacts: &[&str]) -> RunRequest {
    RunRequest::new(Payload::Project(plimsoll_core::ProjectRun {
        files: files
            .iter()
            .map(|(path, content)| ProjectFile {
                path: (*path).to_owned(),
                content: (*content).to_owned(),
            })
            .collect(),
        steps: steps.iter().map(|step| (*step).to_owned()).collect(),
        artifacts: artifacts.iter().map(|path| (*path).to_owned()).collect(),
        grant_profile: String::new(),
    }))
}

/// The answer of a project of these steps within this many milliseconds.
pub(crate) async fn steps_within(steps: &[&str], timeout_ms: i32) -> Answer {
    let mut request = project(&[], steps, &[]);
    request.timeout_ms = timeout_ms;
    ask(request).await.unwrap()
}

/// What a snippet prints that must end with 0.
pub(crate) async fn prints(code: &str) -> String {
    let result = snippet(code).await;
    let text = String::from_utf8(result.stdout).unwrap();
    assert_eq!(
        result.exit_code,
        0,
        "{code}\n{text}\n{}",
        String::from_utf8_lossy(&result.stderr)
    );
    text
}

/// What a project of these steps comes to.
pub(crate) async fn steps(steps: &[&str]) -> ProjectResult {
    project_of(&ask(project(&[], steps, &[])).await.unwrap())
}

/// What each step printed.
pub(crate) fn printed(steps: &[StepResult]) -> Vec<String> {
    steps.iter().map(|step| step.stdout_text().into_owned()).collect()
}
