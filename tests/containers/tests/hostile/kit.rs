//! Short ways to attack: programs in Python, because it calls the kernel directly, and in the shell.

use std::collections::BTreeMap;

use plimsoll::Sandbox;
use plimsoll_core::{Limit, ProjectOutcome, ProjectResult, RunRequest};
use plimsoll_record::Answer;
use tokio::sync::OnceCell;

use crate::support::{own_sandbox, project, project_of};

/// What every program of [`python`] can use: raw system calls, and attempts whose ends are told as one JSON object.
const PRELUDE: &str = r#"
import ctypes, errno, json, os, signal, socket, sys, time
libc = ctypes.CDLL(None, use_errno=True)
told = {}
def call(number, *arguments):
    ctypes.set_errno(0)
    answer = libc.syscall(number, *arguments)
    if answer == -1:
        raise OSError(ctypes.get_errno(), 'refused')
    return answer
def attempt(name, what):
    try:
        what()
        told[name] = 'done'
    except OSError as error:
        told[name] = errno.errorcode.get(error.errno, str(error.errno))
    except Exception as error:
        told[name] = type(error).__name__
def tell():
    print(json.dumps(told), flush=True)
"#;

/// Most tests share this one: projects in the image with Python in it, no pool, default limits.
pub(crate) async fn sandbox() -> &'static Sandbox {
    static SANDBOX: OnceCell<Sandbox> = OnceCell::const_new();
    SANDBOX.get_or_init(|| async { sandbox_with(&[]).await }).await
}

/// A sandbox of one test.
pub(crate) async fn sandbox_with(more: &[(&str, &str)]) -> Sandbox {
    let image = ("SANDBOX_DOCKER_PROJECT_IMAGE", "plimsoll/sandbox-python:latest");
    let variables: Vec<(&str, &str)> = [image].into_iter().chain(more.iter().copied()).collect();
    own_sandbox(&variables).await.unwrap()
}

/// A project's whole answer; it must not be an error.
pub(crate) async fn answer(request: RunRequest) -> Answer {
    sandbox().await.exchange(request).await.unwrap()
}

/// A request that runs these programs one after another: what begins with `#py` is Python, the rest is shell.
pub(crate) fn request(programs: &[&str], artifacts: &[&str], timeout_ms: i32) -> RunRequest {
    let mut files = Vec::new();
    let mut steps = Vec::new();
    for (number, program) in programs.iter().enumerate() {
        match program.strip_prefix("#py") {
            Some(python) => {
                let path = format!("attack{number}.py");
                steps.push(format!("python3 {path}"));
                files.push((path, format!("{PRELUDE}{python}")));
            }
            None => steps.push((*program).to_owned()),
        }
    }
    let files: Vec<(&str, &str)> = files
        .iter()
        .map(|(path, text)| (path.as_str(), text.as_str()))
        .collect();
    let steps: Vec<&str> = steps.iter().map(String::as_str).collect();
    let mut request = project(&files, &steps, artifacts);
    request.timeout_ms = timeout_ms;
    request
}

/// The answer of these programs within 20 s.
pub(crate) async fn attack(programs: &[&str]) -> Answer {
    answer(request(programs, &[], 20_000)).await
}

/// As [`attack`], where every step must be told; the last may fail.
pub(crate) async fn told(programs: &[&str]) -> ProjectResult {
    let result = project_of(&attack(programs).await);
    assert_eq!(result.outcome, ProjectOutcome::COMPLETED, "{result:?}");
    assert_eq!(result.steps.len(), programs.len(), "{result:?}");
    result
}

/// How the attempts of one Python program ended: `done`, or the name of the error.
pub(crate) async fn attempts(program: &str) -> BTreeMap<String, String> {
    let program = format!("#py\n{program}\ntell()\n");
    let result = told(&[&program]).await;
    let step = &result.steps[0];
    serde_json::from_slice(&step.stdout).unwrap_or_else(|error| {
        panic!(
            "{error}: {} {}",
            String::from_utf8_lossy(&step.stdout),
            String::from_utf8_lossy(&step.stderr)
        )
    })
}

/// None of the attempts worked, except those named.
pub(crate) fn all_refused(attempts: &BTreeMap<String, String>, except: &[&str]) {
    let done: Vec<&str> = attempts
        .iter()
        .filter(|(name, end)| *end == "done" && !except.contains(&name.as_str()))
        .map(|(name, _)| name.as_str())
        .collect();
    assert!(done.is_empty(), "worked: {done:?}\nall: {attempts:?}");
}

/// The first step's output as text.
pub(crate) fn output(result: &ProjectResult) -> String {
    String::from_utf8_lossy(&result.steps[0].stdout).into_owned()
}

/// The limit that an answer names.
pub(crate) fn limit(answer: &Answer) -> Option<Limit> {
    answer
        .diagnostics
        .as_ref()
        .and_then(|diagnostics| diagnostics.limit_hit)
}

/// A sandbox that still answers, quickly.
pub(crate) async fn still_serves() {
    let began = std::time::Instant::now();
    let result = told(&["echo alive"]).await;
    assert_eq!(output(&result), "alive\n");
    assert!(began.elapsed().as_secs() < 10, "{:?}", began.elapsed());
}
