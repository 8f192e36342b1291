//! Request digest, result digest and rule id.

use plimsoll_core::{
    CellResult, JavaScriptResult, ModuleResult, Payload, ProjectFile, ProjectResult, RuleMode, RunRequest, RunResult,
    SoftwareRule,
};

use crate::encode::{Fields, sha256_hex};

/// Digest of a request as decoded, in its protocol's domain. `trace_id` is left out, so that correlation never changes
/// what a record says was asked.
pub fn request_sha256(request: &RunRequest) -> String {
    let with_software = request.protocol >= 2;
    let mut fields = Fields::new(if with_software {
        "plimsoll.run-request.v2"
    } else {
        "plimsoll.run-request.v1"
    });
    fields
        .number("protocol", request.protocol)
        .text("minimum_isolation", &request.minimum_isolation)
        .number("timeout_ms", request.timeout_ms);
    if with_software {
        let (mode, identities) = request.software_rule.as_ref().map_or(("", [].as_slice()), |rule| {
            (rule.mode.as_str(), rule.identities.as_slice())
        });
        fields
            .text("software_mode", mode)
            .count("software_identities", identities.len());
        for identity in identities {
            fields.text("software_identity", identity);
        }
    }
    match &request.payload {
        None => {
            fields.text("kind", "");
        }
        Some(payload) => {
            fields.text("kind", payload.kind().as_str());
            payload_fields(&mut fields, payload);
        }
    }
    fields.finish()
}

fn payload_fields(fields: &mut Fields, payload: &Payload) {
    match payload {
        Payload::JavaScript(run) => {
            fields.text("code", &run.code).text("grant_profile", &run.grant_profile);
        }
        Payload::Project(run) => {
            fields.text("grant_profile", &run.grant_profile);
            file_fields(fields, &run.files);
            fields.count("steps", run.steps.len());
            for step in &run.steps {
                fields.text("step_command", step);
            }
            fields.count("artifacts", run.artifacts.len());
            for artifact in &run.artifacts {
                fields.text("artifact_path", artifact);
            }
        }
        Payload::Module(run) => {
            fields
                .text("model", &run.model)
                .doubles("end_time", &[run.end_time])
                .doubles("step", &[run.step]);
            fields.count("rows", run.rows.len());
            for row in &run.rows {
                fields.doubles("row_values", row);
            }
        }
        Payload::Cell(run) => {
            fields.text("language", &run.language).text("code", &run.code);
            file_fields(fields, &run.files);
        }
    }
}

fn file_fields(fields: &mut Fields, files: &[ProjectFile]) {
    fields.count("files", files.len());
    for file in files {
        fields.text("file_path", &file.path).text("file_content", &file.content);
    }
}

/// Digest of a result: what the guest produced and how it ended, without durations, advice or evidence.
pub fn result_sha256(result: Option<&RunResult>) -> String {
    let mut fields = Fields::new("plimsoll.run-result.v1");
    fields.text("kind", result.map_or("", |result| result.kind().as_str()));
    match result {
        None => {}
        Some(RunResult::JavaScript(result)) => javascript_fields(&mut fields, result),
        Some(RunResult::Project(result)) => project_fields(&mut fields, result),
        Some(RunResult::Module(result)) => module_fields(&mut fields, result),
        Some(RunResult::Cell(result)) => cell_fields(&mut fields, result),
    }
    fields.finish()
}

fn javascript_fields(fields: &mut Fields, result: &JavaScriptResult) {
    fields
        .number("exit_code", result.exit_code)
        .flag("timed_out", result.timed_out)
        .bytes("stdout", &result.stdout)
        .bytes("stderr", &result.stderr)
        .flag("stdout_truncated", result.stdout_truncated)
        .flag("stderr_truncated", result.stderr_truncated);
}

fn project_fields(fields: &mut Fields, result: &ProjectResult) {
    fields
        .number("outcome", result.outcome.0)
        .text("outcome_detail", &result.outcome_detail)
        .flag("artifacts_truncated", result.artifacts_truncated)
        .count("steps", result.steps.len());
    for step in &result.steps {
        fields
            .text("step_command", &step.command)
            .number("step_exit_code", step.exit_code)
            .flag("step_timed_out", step.timed_out)
            .bytes("step_stdout", &step.stdout)
            .bytes("step_stderr", &step.stderr)
            .flag("step_stdout_truncated", step.stdout_truncated)
            .flag("step_stderr_truncated", step.stderr_truncated);
    }
    fields.count("artifacts", result.artifacts.len());
    for artifact in &result.artifacts {
        fields
            .text("artifact_path", &artifact.path)
            .bytes("artifact_content", &artifact.content);
    }
}

fn module_fields(fields: &mut Fields, result: &ModuleResult) {
    fields
        .number("outcome", result.outcome.0)
        .text("outcome_detail", &result.outcome_detail)
        .number("width", result.width)
        .bytes("stdout", &result.stdout)
        .bytes("stderr", &result.stderr)
        .count("runs", result.runs.len());
    for run in &result.runs {
        // Every NaN is one NaN: JSON cannot carry a payload, and a record must check on both codecs.
        let outputs: Vec<f64> = run.outputs.iter().map(|&value| canonical_nan(value)).collect();
        fields.number("run_status", run.status).doubles("run_outputs", &outputs);
    }
}

fn canonical_nan(value: f64) -> f64 {
    if value.is_nan() {
        f64::from_bits(0x7ff8_0000_0000_0000)
    } else {
        value
    }
}

fn cell_fields(fields: &mut Fields, result: &CellResult) {
    fields
        .number("exit_code", result.exit_code)
        .flag("timed_out", result.timed_out)
        .bytes("stdout", &result.stdout)
        .bytes("stderr", &result.stderr)
        .flag("stdout_truncated", result.stdout_truncated)
        .flag("stderr_truncated", result.stderr_truncated)
        .flag("interpreter_started", result.interpreter_started)
        .flag("interpreter_ended", result.interpreter_ended);
}

/// The id of a rule in records: empty without one, `exact:<identity>` for a single identity in either mode, otherwise a
/// digest over the identities in byte order.
pub fn rule_id(rule: &SoftwareRule) -> String {
    match (rule.mode(), rule.identities()) {
        (None, _) => String::new(),
        (Some(RuleMode::Exact | RuleMode::Approved), [one]) => format!("exact:{one}"),
        (Some(_), many) => {
            let mut sorted: Vec<&[u8]> = many.iter().map(|one| one.as_bytes()).collect();
            sorted.sort_unstable();
            format!("approved:sha256:{}", sha256_hex(&sorted.join(&0)))
        }
    }
}
