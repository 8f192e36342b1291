//! Every rule a request can break by itself, in the order they are checked. Messages name the field, the limit and what helps.

use std::collections::HashSet;

use crate::error::Refusal;
use crate::limits::*;
use crate::request::{CellRun, JavaScriptRun, ModuleRun, Payload, PayloadKind, ProjectFile, ProjectRun};
use crate::tier::Tier;
use crate::trace::is_label;

/// The floor's text: empty, or a tier word in exact case.
pub(crate) fn floor(text: &str) -> Result<Option<Tier>, Refusal> {
    if text.is_empty() {
        return Ok(None);
    }
    text.parse()
        .map(Some)
        .map_err(|error| Refusal::request(format!("minimum_isolation {error}; leave it empty for no floor")))
}

/// A session owner: empty, or `[A-Za-z0-9._:-]{1,64}`.
///
/// # Errors
/// Refused, never dropped: a caller who names an owner counts on it.
pub fn validate_owner(owner: &str) -> Result<(), Refusal> {
    if owner.is_empty() || is_label(owner) {
        Ok(())
    } else {
        Err(Refusal::request(format!(
            "owner is not 1 to {MAX_LABEL_CHARS} characters of A-Z a-z 0-9 . _ : -"
        )))
    }
}

/// An interpreter's name.
///
/// # Errors
/// For anything but `javascript` and `python`, in exact case.
pub fn validate_language(field: &str, language: &str) -> Result<(), Refusal> {
    if matches!(language, "javascript" | "python") {
        Ok(())
    } else {
        Err(Refusal::request(format!("{field} is not javascript or python")))
    }
}

/// What `Run` takes: a snippet, a project or a module. A cell is a session call and is refused here.
pub(crate) fn run_payload(payload: Option<&Payload>) -> Result<PayloadKind, Refusal> {
    let Some(payload) = payload else {
        return Err(Refusal::request(
            "the request carries no payload; set one of javascript, project, module",
        ));
    };
    match payload {
        Payload::JavaScript(run) => javascript(run)?,
        Payload::Project(run) => project(run)?,
        Payload::Module(run) => module(run)?,
        Payload::Cell(_) => {
            return Err(Refusal::request(
                "cell runs only in a session; call SessionRun, or send javascript",
            ));
        }
    }
    grant_profile(payload.grant_profile())?;
    Ok(payload.kind())
}

/// What `SessionRun` takes: a snippet, a project or a cell.
pub(crate) fn session_kind(payload: Option<&Payload>) -> Result<PayloadKind, Refusal> {
    match payload.map(Payload::kind) {
        None => Err(Refusal::request(
            "the request carries no payload; set one of javascript, project, cell",
        )),
        Some(PayloadKind::Module) => Err(Refusal::request("module runs outside sessions only; call Run")),
        Some(kind) => Ok(kind),
    }
}

/// The payload of a session call, of a kind [`session_kind`] took.
pub(crate) fn session_payload(payload: Option<&Payload>) -> Result<(), Refusal> {
    match payload {
        Some(Payload::Cell(cell)) => validate_cell(cell),
        other => run_payload(other).map(drop),
    }
}

fn javascript(run: &JavaScriptRun) -> Result<(), Refusal> {
    code("javascript.code", &run.code)
}

fn code(field: &str, code: &str) -> Result<(), Refusal> {
    if code.is_empty() {
        return Err(Refusal::request(format!(
            "{field} is empty; send at least one byte of program text"
        )));
    }
    if contains_nul(code) {
        return Err(Refusal::request(format!("{field} contains U+0000; remove it")));
    }
    at_most(field, code.len(), MAX_CODE_BYTES, "bytes")
}

fn project(run: &ProjectRun) -> Result<(), Refusal> {
    if run.steps.is_empty() {
        return Err(Refusal::request(format!(
            "project.steps is empty; send 1 to {MAX_STEPS} steps"
        )));
    }
    at_most("project.steps", run.steps.len(), MAX_STEPS, "steps")?;
    for (index, step) in run.steps.iter().enumerate() {
        if contains_nul(step) {
            return Err(Refusal::request(format!(
                "project.steps[{index}] contains U+0000; remove it"
            )));
        }
        at_most(&format!("project.steps[{index}]"), step.len(), MAX_STEP_BYTES, "bytes")?;
    }
    files("project.files", &run.files)?;
    at_most("project.artifacts", run.artifacts.len(), MAX_ARTIFACTS, "artifacts")?;
    let mut seen = HashSet::with_capacity(run.artifacts.len());
    for (index, artifact) in run.artifacts.iter().enumerate() {
        let field = format!("project.artifacts[{index}]");
        path(&field, artifact)?;
        if !seen.insert(artifact.as_str()) {
            return Err(Refusal::request(format!(
                "{field} repeats an earlier path; list each once"
            )));
        }
    }
    Ok(())
}

fn files(field: &str, files: &[ProjectFile]) -> Result<(), Refusal> {
    at_most(field, files.len(), MAX_FILES, "files")?;
    let mut seen = HashSet::with_capacity(files.len());
    let mut total = 0usize;
    for (index, file) in files.iter().enumerate() {
        let name = format!("{field}[{index}].path");
        path(&name, &file.path)?;
        if !seen.insert(file.path.as_str()) {
            return Err(Refusal::request(format!(
                "{name} repeats an earlier path; send each file once"
            )));
        }
        total = total.saturating_add(file.content.len());
        at_most(&format!("{field} contents together"), total, MAX_FILE_BYTES, "bytes")?;
    }
    Ok(())
}

/// Relative, forward slashes, no way up, no control characters. Everything else is legal, odd names included.
fn path(field: &str, path: &str) -> Result<(), Refusal> {
    at_most(field, path.len(), MAX_PATH_BYTES, "bytes")?;
    if path.split('/').any(|segment| matches!(segment, "" | "." | "..")) {
        return Err(Refusal::request(format!(
            "{field} is not a plain relative path; use segments joined by single slashes, none empty, . or .."
        )));
    }
    if path.chars().any(|ch| ch == '\\' || ch.is_control()) {
        return Err(Refusal::request(format!(
            "{field} contains a backslash or a control character; rename the file"
        )));
    }
    Ok(())
}

fn module(run: &ModuleRun) -> Result<(), Refusal> {
    if !is_model(&run.model) {
        return Err(Refusal::request(format!(
            "module.model is not 1 to {MAX_MODEL_CHARS} characters of A-Z a-z 0-9 . _ - starting with a letter or digit"
        )));
    }
    if run.rows.is_empty() {
        return Err(Refusal::request(format!(
            "module.rows is empty; send 1 to {MAX_MODULE_ROWS} rows"
        )));
    }
    at_most("module.rows", run.rows.len(), MAX_MODULE_ROWS, "rows")?;
    let width = run.rows[0].len();
    if !(1..=MAX_MODULE_WIDTH).contains(&width) {
        return Err(Refusal::request(format!(
            "module.rows[0] holds {width} values; rows hold 1 to {MAX_MODULE_WIDTH}"
        )));
    }
    for (index, row) in run.rows.iter().enumerate() {
        if row.len() != width {
            return Err(Refusal::request(format!(
                "module.rows[{index}] holds {} values, but module.rows[0] holds {width}; make all rows equally wide",
                row.len()
            )));
        }
        if row.iter().any(|value| !value.is_finite()) {
            return Err(Refusal::request(format!(
                "module.rows[{index}] holds a value that is not finite"
            )));
        }
    }
    for (field, value) in [("module.end_time", run.end_time), ("module.step", run.step)] {
        if !(value.is_finite() && value > 0.0) {
            return Err(Refusal::request(format!("{field} is not a finite number above 0")));
        }
    }
    let steps = run.end_time / run.step;
    if steps > MAX_MODULE_STEPS {
        return Err(Refusal::request(format!(
            "module.end_time / module.step is {steps:.0} steps; at most {MAX_MODULE_STEPS:.0}"
        )));
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "0 < steps <= 1e6 was just checked"
    )]
    let steps = steps.trunc() as u64;
    let bytes = 20 + run.rows.len() as u64 * (4 + 8 * (steps + 2));
    if bytes > MAX_MODULE_RESULT_BYTES {
        return Err(Refusal::request(format!(
            "module.rows × steps would answer {bytes} bytes; at most {MAX_MODULE_RESULT_BYTES}. Send fewer rows or a larger step"
        )));
    }
    Ok(())
}

fn is_model(model: &str) -> bool {
    (1..=MAX_MODEL_CHARS).contains(&model.len())
        && model.as_bytes()[0].is_ascii_alphanumeric()
        && model
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-'))
}

/// A cell's own rules, in their order: language, code, files. `SessionRun` and clients use them.
pub fn validate_cell(run: &CellRun) -> Result<(), Refusal> {
    validate_language("cell.language", &run.language)?;
    code("cell.code", &run.code)?;
    files("cell.files", &run.files)
}

fn grant_profile(name: &str) -> Result<(), Refusal> {
    at_most("grant_profile", name.len(), MAX_GRANT_PROFILE_BYTES, "bytes")
}

fn contains_nul(text: &str) -> bool {
    text.as_bytes().contains(&0)
}

fn at_most(field: &str, actual: usize, limit: usize, unit: &str) -> Result<(), Refusal> {
    if actual <= limit {
        return Ok(());
    }
    Err(Refusal::request(format!("{field}: {actual} {unit}; at most {limit}")))
}
