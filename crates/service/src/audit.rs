//! The audit line: exactly one per admitted call, written after its result is final.
//!
//! It says who ran what kind of thing behind which wall and how it ended, in sizes and words of ours. Code, file
//! contents, parameters, paths and credentials have no way in: only the fields named here are read.

use std::time::Duration;

use plimsoll_advisor::{Finding, audit};
use plimsoll_core::{
    Isolation, ModuleRun, Payload, ProjectFile, ProjectOutcome, ProjectResult, RunError, RunResult, TraceId,
    TraceIdRejected,
};
use plimsoll_grants::CallTrace;
use plimsoll_record::Answer;
use plimsoll_sandbox::{AdmittedCall, Settled};

use crate::log::{Level, Line, Log, cut};

/// Longest error text on an audit line, in bytes.
const ERROR_TEXT_BYTES: usize = 4096;

/// What the line is made of.
#[derive(Clone, Copy, Debug)]
pub struct Audited<'a> {
    /// The call, with the request as it was sent.
    pub call: &'a AdmittedCall,
    /// Provider id.
    pub provider: &'a str,
    /// The handler's own clock around the call.
    pub elapsed: Duration,
    /// The answer, or how it failed.
    pub answer: &'a Result<Answer, RunError>,
    /// What the guest asked of its grant's API.
    pub trace: Option<&'a CallTrace>,
    /// What the advisor found in it.
    pub findings: &'a [Finding],
    /// The session's fingerprint and the call's place in its chain; no place for a call of which nothing ran.
    pub session: Option<(&'a str, Option<u64>)>,
}

impl<'a> From<&'a Settled> for Audited<'a> {
    fn from(settled: &'a Settled) -> Self {
        Self {
            call: &settled.call,
            provider: settled.provider,
            elapsed: settled.elapsed,
            answer: &settled.answer,
            trace: settled.trace.as_ref(),
            findings: &settled.findings,
            session: None,
        }
    }
}

/// Writes the line of a settled call. `isolation` is the provider's wall at the moment it failed; a call that was
/// answered states its own.
pub fn write(log: &Log, caller: &str, settled: &Audited<'_>, isolation: Isolation) {
    let payload = settled.call.payload();
    let (level, message) = match (settled.answer, payload) {
        (Ok(_), Payload::JavaScript(_) | Payload::Cell(_)) => (Level::Info, "code run"),
        (Ok(_), Payload::Project(_)) => (Level::Info, "project run"),
        (Ok(_), Payload::Module(_)) => (Level::Info, "module run"),
        (Err(_), Payload::JavaScript(_) | Payload::Cell(_)) => (Level::Error, "code run failed"),
        (Err(_), Payload::Project(_)) => (Level::Error, "project run failed"),
        (Err(_), Payload::Module(_)) => (Level::Error, "module run failed"),
    };
    let line = Line::new(log, level, message)
        .text("op", payload.kind().as_str())
        .text("caller", caller);
    let line = request(line, payload);
    let line = match settled.answer {
        Ok(answer) => success(line, answer, millis(settled.elapsed)),
        Err(error) => failure(line, settled, isolation, error),
    };
    let line = trace(line, settled.call.trace());
    let line = match settled.session {
        Some((session, Some(call))) => line.text("session", session).uint("session_call", call),
        Some((session, None)) => line.text("session", session),
        None => line,
    };
    let line = match settled.trace {
        Some(calls) => host_calls(line, calls),
        None => line,
    };
    advice(line, settled).send();
}

fn request<'a>(line: Line<'a>, payload: &Payload) -> Line<'a> {
    match payload {
        Payload::JavaScript(run) => line
            .count("code_bytes", run.code.len())
            .text("grant_profile", &run.grant_profile),
        Payload::Project(run) => line
            .count("files", run.files.len())
            .count("steps", run.steps.len())
            .count("total_bytes", content_bytes(&run.files))
            .text("grant_profile", &run.grant_profile),
        Payload::Module(run) => line
            .text("model", &run.model)
            .count("rows", run.rows.len())
            .count("row_width", run.rows.first().map_or(0, Vec::len))
            .float("max_steps", max_steps(run)),
        Payload::Cell(run) => line
            .text("language", &run.language)
            .count("code_bytes", run.code.len())
            .count("files", run.files.len()),
    }
}

fn success<'a>(line: Line<'a>, answer: &Answer, elapsed_ms: i64) -> Line<'a> {
    let line = line
        .text("sandbox", &answer.sandbox)
        .text("isolation", &answer.isolation);
    match &answer.result {
        Some(RunResult::JavaScript(result)) => line
            .int("exit_code", result.exit_code)
            .bool("timed_out", result.timed_out),
        Some(RunResult::Project(result)) => return project(line, result).int("duration_ms", elapsed_ms),
        Some(RunResult::Module(result)) => outcome(line, result.outcome, &result.outcome_detail)
            .count("runs", result.runs.len())
            .int("width", result.width),
        Some(RunResult::Cell(result)) => line
            .int("exit_code", result.exit_code)
            .bool("timed_out", result.timed_out)
            .bool("interpreter_started", result.interpreter_started)
            .bool("interpreter_ended", result.interpreter_ended),
        None => line,
    }
    .int("duration_ms", answer.duration_ms)
}

fn project<'a>(line: Line<'a>, result: &ProjectResult) -> Line<'a> {
    let last = result.steps.last();
    outcome(line, result.outcome, &result.outcome_detail)
        .count("steps_ran", result.steps.len())
        .int("exit_code", last.map_or(0, |step| step.exit_code))
        .bool("timed_out", last.is_some_and(|step| step.timed_out))
}

fn outcome<'a>(line: Line<'a>, outcome: ProjectOutcome, detail: &str) -> Line<'a> {
    line.text("outcome", outcome.as_str()).text("outcome_detail", detail)
}

fn failure<'a>(line: Line<'a>, settled: &Audited<'_>, isolation: Isolation, error: &RunError) -> Line<'a> {
    line.text("sandbox", settled.provider)
        .text("isolation", isolation.as_str())
        .int("duration_ms", millis(settled.elapsed))
        .text("error", &cut(&error.to_string(), ERROR_TEXT_BYTES))
}

fn trace<'a>(line: Line<'a>, trace: Option<&Result<TraceId, TraceIdRejected>>) -> Line<'a> {
    match trace {
        None => line,
        Some(Ok(trace)) => line.text("trace_id", trace.as_str()),
        Some(Err(TraceIdRejected)) => line.bool("trace_id_rejected", true),
    }
}

fn host_calls<'a>(line: Line<'a>, calls: &CallTrace) -> Line<'a> {
    let line = line.count("host_calls", calls.rows.len());
    let counts = [
        ("host_calls_denied", calls.denied),
        ("host_calls_dropped", calls.dropped),
        ("host_calls_shed", calls.shed),
    ];
    let above_zero = counts.into_iter().filter(|(_, count)| *count > 0);
    above_zero.fold(line, |line, (key, count)| line.uint(key, count))
}

/// What the profile lets the log keep of the advisor's findings.
fn advice<'a>(line: Line<'a>, settled: &Audited<'_>) -> Line<'a> {
    let Some(selected) = settled.call.grant() else {
        return line;
    };
    let profile = selected.profile();
    let Some(kept) = audit(settled.findings, profile.advice(), profile.retention()) else {
        return line;
    };
    let line = line
        .text("advice", kept.advice)
        .text("advice_retention", kept.advice_retention)
        .uint("advice_findings", kept.advice_findings)
        .uint("advice_agent_fixable", kept.advice_agent_fixable)
        .uint("advice_ungranted_routes", kept.advice_ungranted_routes)
        .uint("advice_candidate_routes", kept.advice_candidate_routes)
        .uint("advice_extra_calls", kept.advice_extra_calls)
        .uint("advice_added_latency_ms", kept.advice_added_latency_ms)
        .uint("advice_bytes_moved", kept.advice_bytes_moved);
    match &kept.advice_finding_details {
        Some(details) => line.json("advice_finding_details", details),
        None => line,
    }
}

/// Whole milliseconds, cut.
fn millis(elapsed: Duration) -> i64 {
    i64::try_from(elapsed.as_millis()).unwrap_or(i64::MAX)
}

fn content_bytes(files: &[ProjectFile]) -> usize {
    files.iter().map(|file| file.content.len()).sum()
}

/// Steps one row may take. Validation has bounded the quotient; it is a whole number after the cut.
fn max_steps(run: &ModuleRun) -> f64 {
    (run.end_time / run.step).trunc()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    use plimsoll_core::{
        Availability, Environments, Evidence, Fault, JavaScriptResult, ModuleResult, Outcome, PayloadEnvironment,
        Permit, ProjectRun, RunRequest, StepResult, Tier, Validated,
    };
    use plimsoll_sandbox::{BoxFuture, DispatchContext, ProviderFault, Received, RunContext, Sandbox, dispatch};

    use super::*;
    use crate::log::Format;
    use crate::log::tests::Captured;

    /// A provider that answers what it was told to.
    struct Scripted(Result<RunResult, RunError>);

    impl Sandbox for Scripted {
        fn evidence(&self) -> Arc<Evidence> {
            let environment = || Some(PayloadEnvironment::default());
            Arc::new(Evidence {
                provider: "scripted",
                availability: Availability::Serving,
                isolation: Isolation::Proven(Tier::Kernel),
                environments: Environments {
                    javascript: environment(),
                    project: environment(),
                    module: environment(),
                },
                ..Evidence::disabled()
            })
        }

        fn preflight(&self) -> BoxFuture<'_, Result<(), ProviderFault>> {
            Box::pin(async { Ok(()) })
        }

        fn smoke_test(&self) -> BoxFuture<'_, Result<(), ProviderFault>> {
            Box::pin(async { Ok(()) })
        }

        fn time_limit(&self, _: &AdmittedCall) -> Duration {
            Duration::from_secs(5)
        }

        fn run<'a>(&'a self, _: &'a AdmittedCall, _: RunContext) -> BoxFuture<'a, Result<Outcome, RunError>> {
            let outcome = self.0.clone().map(|result| Outcome {
                result,
                isolation: Isolation::Proven(Tier::Kernel),
                duration_ms: 7,
                environment: String::new(),
                software_identity: String::new(),
                instance: String::new(),
                diagnostics: plimsoll_core::Diagnostics::default(),
            });
            Box::pin(async move { outcome })
        }
    }

    /// The line of one call, without its time.
    async fn line(request: RunRequest, outcome: Result<RunResult, RunError>) -> String {
        let (log, captured) = Captured::log(Format::Json);
        let provider = Scripted(outcome);
        let call = Validated::new(request).unwrap().grant(|_| Ok(None)).unwrap();
        let call = call.authorize(&provider.evidence()).unwrap().admit(Permit::new(()));
        let context = DispatchContext {
            deadline: Instant::now() + Duration::from_secs(60),
            cancelled: tokio_util::sync::CancellationToken::new(),
            broker: plimsoll_broker::BrokerOptions::default(),
        };
        let settled = dispatch(&provider, call, context, Received::now()).await.settle();
        write(&log, "ci", &Audited::from(&settled), Isolation::Proven(Tier::Kernel));
        let text = captured.text(&log);
        assert_eq!(text.lines().count(), 1, "{text}");
        let (_, rest) = text.split_once(",\"level\"").unwrap();
        format!("{{\"level\"{}", rest.trim_end())
    }

    #[tokio::test]
    async fn a_snippet_is_told_in_sizes_and_not_in_words() {
        let mut request = RunRequest::javascript("console.log('hunter2')");
        request.trace_id = "t-1".to_owned();
        let result = JavaScriptResult {
            exit_code: 3,
            stdout: b"hunter2".to_vec(),
            ..JavaScriptResult::default()
        };
        assert_eq!(
            line(request, Ok(RunResult::JavaScript(result))).await,
            "{\"level\":\"INFO\",\"msg\":\"code run\",\"op\":\"javascript\",\"caller\":\"ci\",\"code_bytes\":22,\
             \"grant_profile\":\"\",\"sandbox\":\"scripted\",\"isolation\":\"kernel\",\"exit_code\":3,\
             \"timed_out\":false,\"duration_ms\":7,\"trace_id\":\"t-1\"}"
        );
    }

    #[tokio::test]
    async fn a_project_tells_its_last_step() {
        let request = RunRequest::new(Payload::Project(ProjectRun {
            files: vec![ProjectFile {
                path: "secret.txt".to_owned(),
                content: "12345".to_owned(),
            }],
            steps: vec!["true".to_owned(), "cat secret.txt".to_owned()],
            ..ProjectRun::default()
        }));
        let step = |exit_code, timed_out| StepResult {
            exit_code,
            timed_out,
            ..StepResult::default()
        };
        let result = ProjectResult {
            steps: vec![step(0, false), step(124, true)],
            outcome: ProjectOutcome::COMPLETED,
            ..ProjectResult::default()
        };
        let line = line(request, Ok(RunResult::Project(result))).await;
        let (head, duration) = line.split_once(",\"duration_ms\":").unwrap();
        assert_eq!(
            head,
            "{\"level\":\"INFO\",\"msg\":\"project run\",\"op\":\"project\",\"caller\":\"ci\",\"files\":1,\"steps\":2,\
             \"total_bytes\":5,\"grant_profile\":\"\",\"sandbox\":\"scripted\",\"isolation\":\"kernel\",\
             \"outcome\":\"completed\",\"outcome_detail\":\"\",\"steps_ran\":2,\"exit_code\":124,\"timed_out\":true"
        );
        // The handler's own clock, not the provider's 7.
        assert_ne!(duration, "7}");
    }

    #[tokio::test]
    async fn a_module_tells_its_shape() {
        let request = RunRequest::new(Payload::Module(ModuleRun {
            model: "tread".to_owned(),
            rows: vec![vec![1.0, 2.0]; 3],
            end_time: 10.0,
            step: 0.5,
        }));
        let result = ModuleResult {
            width: 4,
            outcome: ProjectOutcome::TIMED_OUT,
            ..ModuleResult::default()
        };
        assert_eq!(
            line(request, Ok(RunResult::Module(result))).await,
            "{\"level\":\"INFO\",\"msg\":\"module run\",\"op\":\"module\",\"caller\":\"ci\",\"model\":\"tread\",\"rows\":3,\
             \"row_width\":2,\"max_steps\":20,\"sandbox\":\"scripted\",\"isolation\":\"kernel\",\
             \"outcome\":\"timed_out\",\"outcome_detail\":\"\",\"runs\":0,\"width\":4,\"duration_ms\":7}"
        );
    }

    #[tokio::test]
    async fn a_failure_is_an_error_with_its_text_cut_and_no_result_fields() {
        let mut request = RunRequest::javascript("1");
        request.trace_id = "a/b".to_owned();
        let cause = "no such sandbox ".repeat(1 << 16);
        let line = line(request, Err(Fault::internal(cause).into())).await;
        let record: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(
            (&record["level"], &record["msg"]),
            (&"ERROR".into(), &"code run failed".into())
        );
        assert_eq!(
            (&record["sandbox"], &record["isolation"]),
            (&"scripted".into(), &"kernel".into())
        );
        assert!(record["error"].as_str().unwrap().len() <= ERROR_TEXT_BYTES);
        assert_eq!(record["trace_id_rejected"], true);
        assert!(!line.contains("a/b") && record.get("exit_code").is_none(), "{line}");
    }
}
