//! Answers to a run.

use plimsoll_core::{
    AdviceFinding, Artifact, CellResult, Diagnostics, JavaScriptResult, Limit, ModuleResult, ModuleRowResult,
    ProjectOutcome, ProjectResult, RunResult, StepResult, Trap,
};
use plimsoll_record::Answer;

use super::request::same_fields;
use crate::pb;
use crate::pb::__buffa::oneof::run_response::Result as Wire;

impl From<Answer> for pb::RunResponse {
    fn from(answer: Answer) -> Self {
        Self {
            sandbox: answer.sandbox,
            isolation: answer.isolation,
            duration_ms: answer.duration_ms,
            record: answer.record.map(pb::RunRecord::from).into(),
            software_identity: answer.software_identity,
            environment: answer.environment,
            diagnostics: answer.diagnostics.map(pb::RunDiagnostics::from).into(),
            instance: answer.instance,
            result: answer.result.map(|result| match result {
                RunResult::JavaScript(result) => Wire::from(pb::JavaScriptResult::from(result)),
                RunResult::Project(result) => Wire::from(pb::ProjectResult::from(result)),
                RunResult::Module(result) => Wire::from(pb::ModuleResult::from(result)),
                RunResult::Cell(result) => Wire::from(pb::CellResult::from(result)),
            }),
            ..Self::default()
        }
    }
}

impl From<pb::RunResponse> for Answer {
    fn from(sent: pb::RunResponse) -> Self {
        Self {
            sandbox: sent.sandbox,
            isolation: sent.isolation,
            duration_ms: sent.duration_ms,
            record: sent.record.into_option().map(Into::into),
            software_identity: sent.software_identity,
            environment: sent.environment,
            instance: sent.instance,
            diagnostics: sent.diagnostics.into_option().map(Into::into),
            result: sent.result.map(|result| match result {
                Wire::Javascript(result) => RunResult::JavaScript((*result).into()),
                Wire::Project(result) => RunResult::Project((*result).into()),
                Wire::Module(result) => RunResult::Module((*result).into()),
                Wire::Cell(result) => RunResult::Cell((*result).into()),
            }),
        }
    }
}

same_fields! {
    JavaScriptResult = JavaScriptResult {
        stdout, stderr, exit_code, timed_out, stdout_truncated, stderr_truncated; advice
    }
    Artifact = Artifact { path, content }
    ModuleRowResult = ModuleRowResult { status, outputs }
    CellResult = CellResult {
        stdout, stderr, exit_code, timed_out, stdout_truncated, stderr_truncated, interpreter_started, interpreter_ended
    }
    AdviceFinding = AdviceFinding {
        pattern, severity, remedy, method, route, detail, suggested_method, suggested_route, extra_calls,
        added_latency_ms, bytes_moved
    }
}

impl From<pb::ProjectResult> for ProjectResult {
    fn from(sent: pb::ProjectResult) -> Self {
        Self {
            steps: sent.steps.into_iter().map(Into::into).collect(),
            outcome: ProjectOutcome(sent.outcome.to_i32()),
            outcome_detail: sent.outcome_detail,
            artifacts: sent.artifacts.into_iter().map(Into::into).collect(),
            artifacts_truncated: sent.artifacts_truncated,
            advice: sent.advice.into_iter().map(Into::into).collect(),
        }
    }
}

impl From<ProjectResult> for pb::ProjectResult {
    fn from(own: ProjectResult) -> Self {
        Self {
            steps: own.steps.into_iter().map(Into::into).collect(),
            outcome: own.outcome.0.into(),
            outcome_detail: own.outcome_detail,
            artifacts: own.artifacts.into_iter().map(Into::into).collect(),
            artifacts_truncated: own.artifacts_truncated,
            advice: own.advice.into_iter().map(Into::into).collect(),
            ..Self::default()
        }
    }
}

impl From<pb::ModuleResult> for ModuleResult {
    fn from(sent: pb::ModuleResult) -> Self {
        Self {
            runs: sent.runs.into_iter().map(Into::into).collect(),
            width: sent.width,
            outcome: ProjectOutcome(sent.outcome.to_i32()),
            outcome_detail: sent.outcome_detail,
            stdout: sent.stdout,
            stderr: sent.stderr,
        }
    }
}

impl From<ModuleResult> for pb::ModuleResult {
    fn from(own: ModuleResult) -> Self {
        Self {
            runs: own.runs.into_iter().map(Into::into).collect(),
            width: own.width,
            outcome: own.outcome.0.into(),
            outcome_detail: own.outcome_detail,
            stdout: own.stdout,
            stderr: own.stderr,
            ..Self::default()
        }
    }
}

impl From<pb::StepResult> for StepResult {
    fn from(sent: pb::StepResult) -> Self {
        Self {
            command: sent.command,
            stdout: sent.stdout,
            stderr: sent.stderr,
            exit_code: sent.exit_code,
            timed_out: sent.timed_out,
            duration_ms: sent.duration_ms,
            stdout_truncated: sent.stdout_truncated,
            stderr_truncated: sent.stderr_truncated,
            diagnostics: sent.diagnostics.into_option().map(Into::into).unwrap_or_default(),
        }
    }
}

impl From<StepResult> for pb::StepResult {
    fn from(own: StepResult) -> Self {
        Self {
            command: own.command,
            stdout: own.stdout,
            stderr: own.stderr,
            exit_code: own.exit_code,
            timed_out: own.timed_out,
            duration_ms: own.duration_ms,
            stdout_truncated: own.stdout_truncated,
            stderr_truncated: own.stderr_truncated,
            diagnostics: Some(pb::RunDiagnostics::from(own.diagnostics)).into(),
            ..Self::default()
        }
    }
}

impl From<Diagnostics> for pb::RunDiagnostics {
    fn from(own: Diagnostics) -> Self {
        Self {
            limit_hit: own.limit_hit.map_or("", Limit::as_str).to_owned(),
            stdout_bytes: own.stdout_bytes,
            stderr_bytes: own.stderr_bytes,
            peak_memory_bytes: own.peak_memory_bytes,
            signal: own.signal,
            trap: own.trap.map_or("", Trap::as_str).to_owned(),
            ..Self::default()
        }
    }
}

impl From<pb::RunDiagnostics> for Diagnostics {
    fn from(sent: pb::RunDiagnostics) -> Self {
        Self {
            limit_hit: Limit::from_wire(&sent.limit_hit),
            stdout_bytes: sent.stdout_bytes,
            stderr_bytes: sent.stderr_bytes,
            peak_memory_bytes: sent.peak_memory_bytes,
            signal: sent.signal,
            trap: Trap::from_wire(&sent.trap),
        }
    }
}
