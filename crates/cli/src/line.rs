//! The one line about a run that goes to standard error.

use std::fmt::Write as _;

use plimsoll_core::limits::EXIT_TIMED_OUT;
use plimsoll_core::{CellResult, Diagnostics, JavaScriptResult, ProjectOutcome, ProjectResult, StepResult, Trap};
use plimsoll_record::{Answer, RunRecord};

use crate::args::ProjectArgs;
use crate::failure::{MAY_HAVE_RUN, NOTHING_RAN, USAGE};
use crate::words::{milliseconds, visible};

/// Exit code of a run whose engine trapped.
const EXIT_TRAPPED: i32 = 134;

/// Exit codes this command has for failures of its own.
const OURS: [u8; 3] = [USAGE, NOTHING_RAN, MAY_HAVE_RUN];

/// A timeout that was asked for and one that held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lowered {
    pub(crate) asked_ms: u64,
    pub(crate) most_ms: u64,
}

impl Lowered {
    /// What became of a timeout at a provider with this maximum; 0 is the provider's default, or no stated maximum.
    pub(crate) fn of(asked_ms: i32, most_ms: u32) -> Option<Self> {
        let (asked_ms, most_ms) = (u64::try_from(asked_ms).ok()?, u64::from(most_ms));
        (most_ms > 0 && asked_ms > most_ms).then_some(Self { asked_ms, most_ms })
    }
}

/// Tier, duration, exit code with its meaning, what was cut, which limit was hit, and the digest of the record.
///
/// `lowered` is there when the timeout asked for was above the provider's maximum.
pub(crate) fn about(answer: &Answer, result: &JavaScriptResult, lowered: Option<Lowered>) -> String {
    let diagnostics = answer.diagnostics.unwrap_or_default();
    let mut line = format!(
        "plimsoll: tier {}, {}, exit {}",
        answer.isolation,
        duration(answer.duration_ms),
        result.exit_code
    );
    if let Some(meaning) = meaning(result, &diagnostics) {
        let _infallible = write!(line, " ({meaning})");
    }
    line.push_str(&lowering(lowered));
    line.push_str(&cuts(
        (&result.stdout, result.stdout_truncated),
        (&result.stderr, result.stderr_truncated),
        &diagnostics,
    ));
    line.push_str(&ending(answer.record.as_ref(), &diagnostics));
    line
}

/// What the line about a cell is about.
pub(crate) struct AboutCell<'a> {
    pub(crate) result: &'a CellResult,
    pub(crate) record: &'a RunRecord,
    pub(crate) duration_ms: i64,
    pub(crate) diagnostics: &'a Diagnostics,
}

/// Its place in the session, then as [`about`]; and what became of the interpreter where that is not as before.
pub(crate) fn about_cell(about: &AboutCell<'_>) -> String {
    let AboutCell {
        result,
        record,
        diagnostics,
        ..
    } = *about;
    let mut line = format!(
        "plimsoll: call {}, tier {}, {}, exit {}",
        record.sequence,
        visible(&record.isolation),
        duration(about.duration_ms),
        result.exit_code
    );
    if result.timed_out {
        line.push_str(" (its timeout ended it)");
    }
    line.push_str(match (result.interpreter_started, result.interpreter_ended) {
        (false, false) => "",
        (true, false) => ", fresh interpreter",
        (false, true) => ", the interpreter is gone with its variables",
        (true, true) => ", fresh interpreter, which is gone again",
    });
    line.push_str(&cuts(
        (&result.stdout, result.stdout_truncated),
        (&result.stderr, result.stderr_truncated),
        diagnostics,
    ));
    line.push_str(&ending(Some(record), diagnostics));
    line
}

/// One line for each step that ran.
pub(crate) fn about_steps(result: &ProjectResult, asked: usize) -> Vec<String> {
    let about = |(index, step): (usize, &StepResult)| {
        let diagnostics = &step.diagnostics;
        let mut line = format!("plimsoll: step {} of {asked}, exit {}", index + 1, step.exit_code);
        if step.timed_out {
            line.push_str(" (the timeout ended it)");
        }
        let _infallible = write!(line, ", {}", duration(step.duration_ms));
        line.push_str(&cuts(
            (&step.stdout, step.stdout_truncated),
            (&step.stderr, step.stderr_truncated),
            diagnostics,
        ));
        line.push_str(&ending(None, diagnostics));
        let _infallible = write!(line, ": {}", shortened(&step.command));
        line
    };
    result.steps.iter().enumerate().map(about).collect()
}

/// An artifact that did not come back.
pub(crate) fn about_missing(path: &str) -> String {
    format!(
        "plimsoll: no artifact {}: there was no regular file of that path, or no room left for it",
        visible(path)
    )
}

/// As [`about`], for a project: how the plan ended, and what came back.
pub(crate) fn about_project(
    answer: &Answer,
    result: &ProjectResult,
    asked: &ProjectArgs,
    lowered: Option<Lowered>,
) -> String {
    let steps = asked.steps.len();
    let mut line = format!(
        "plimsoll: tier {}, {}, ",
        answer.isolation,
        duration(answer.duration_ms)
    );
    match (result.outcome, failed(result)) {
        (ProjectOutcome::COMPLETED, None) if result.steps.len() == steps => {
            line.push_str(&match steps {
                1 => "the step succeeded".to_owned(),
                steps => format!("all {steps} steps succeeded"),
            });
        }
        (ProjectOutcome::COMPLETED, Some((number, step))) => {
            let _infallible = write!(line, "step {number} of {steps} failed with exit {}", step.exit_code);
        }
        (ProjectOutcome::COMPLETED, None) => {
            let _infallible = write!(
                line,
                "completed, but only {} of {steps} steps are reported",
                result.steps.len()
            );
        }
        (outcome, _) => {
            line.push_str(outcome.as_str());
            if !result.outcome_detail.is_empty() {
                let _infallible = write!(line, " ({})", visible(&result.outcome_detail));
            }
        }
    }
    line.push_str(&lowering(lowered));
    if !asked.artifacts.is_empty() {
        let _infallible = write!(
            line,
            ", {} of {} artifacts",
            result.artifacts.len(),
            asked.artifacts.len()
        );
        if let Some(out) = &asked.out {
            let _infallible = write!(line, " in {}", visible(&out.display().to_string()));
        }
        if result.artifacts_truncated {
            line.push_str(", cut at the most that artifacts may have together");
        }
    }
    line.push_str(&ending(answer.record.as_ref(), &answer.diagnostics.unwrap_or_default()));
    line
}

/// The step that failed, counted from one: the last one, or none.
pub(crate) fn failed(result: &ProjectResult) -> Option<(usize, &StepResult)> {
    let mut counted = (1..).zip(&result.steps);
    counted.find(|(_, step)| step.exit_code != 0 || step.timed_out)
}

/// What became of a timeout, to go behind something else on a line; nothing where it held.
pub(crate) fn lowering(lowered: Option<Lowered>) -> String {
    match lowered {
        Some(Lowered { asked_ms, most_ms }) => format!(
            ", timeout {} lowered to {}, this provider's maximum",
            milliseconds(asked_ms),
            milliseconds(most_ms)
        ),
        None => String::new(),
    }
}

/// What was cut off both streams: what is kept of each, and whether that is less than was written.
fn cuts(stdout: (&[u8], bool), stderr: (&[u8], bool), diagnostics: &Diagnostics) -> String {
    cut("stdout", stdout.1, stdout.0, diagnostics.stdout_bytes)
        + &cut("stderr", stderr.1, stderr.0, diagnostics.stderr_bytes)
}

/// What was cut off a stream.
fn cut(stream: &str, cut: bool, kept: &[u8], written: u64) -> String {
    match (cut, written) {
        (false, _) => String::new(),
        (true, 0) => format!(", {stream} truncated to {} bytes", kept.len()),
        (true, written) => format!(", {stream} truncated to {} of {written} bytes", kept.len()),
    }
}

/// Which limit was hit, and the digest of the record.
fn ending(record: Option<&RunRecord>, diagnostics: &Diagnostics) -> String {
    let mut text = String::new();
    if let Some(limit) = diagnostics.limit_hit {
        let _infallible = write!(text, ", limit hit: {}", limit.as_str());
    }
    if let Some(record) = record {
        let _infallible = write!(text, ", record {}", visible(&record.record_sha256));
    }
    text
}

/// A command on one line, and not a long one.
fn shortened(command: &str) -> String {
    const SHOWN: usize = 60;
    let mut shown = visible(&command.chars().take(SHOWN).collect::<String>());
    if command.chars().nth(SHOWN).is_some() {
        shown.push('…');
    }
    shown
}

fn duration(ms: i64) -> String {
    match ms {
        ..1 => "under 1 ms".to_owned(),
        1..10_000 => format!("{ms} ms"),
        _ => format!("{}.{} s", ms / 1000, ms % 1000 / 100),
    }
}

/// What an exit code says that its number does not.
fn meaning(result: &JavaScriptResult, diagnostics: &Diagnostics) -> Option<&'static str> {
    if result.timed_out {
        return Some("its timeout ended it");
    }
    if let Some(trap) = diagnostics.trap {
        return Some(match trap {
            Trap::Stack => "the engine trapped: its native stack ran out",
            Trap::Memory => "the engine trapped: an access outside its memory",
            Trap::Unreachable => {
                "the engine trapped: it gave up, as it does when memory runs out where it cannot recover"
            }
            Trap::Other => "the engine trapped",
        });
    }
    match result.exit_code {
        EXIT_TIMED_OUT => Some("the program's own exit code, not a timeout"),
        EXIT_TRAPPED => Some("the program's own exit code, not a trap"),
        13 => Some("as when an await never settles"),
        code if OURS.map(i32::from).contains(&code) => Some("the program's own exit code: it ran"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_core::{Limit, RunResult};

    use super::*;

    #[test]
    fn a_project_has_a_line_for_each_step_and_one_about_all_of_it() {
        let step = |command: &str, exit_code| StepResult {
            command: command.to_owned(),
            exit_code,
            duration_ms: 12,
            ..StepResult::default()
        };
        let asked = ProjectArgs {
            steps: vec!["tsc".to_owned(), "node\nmain.js".to_owned()],
            artifacts: vec!["a".to_owned(), "b".to_owned()],
            out: Some("results".into()),
            force: false,
        };
        let told = |result: ProjectResult| {
            let answer = Answer {
                sandbox: "any".to_owned(),
                isolation: "container".to_owned(),
                duration_ms: 1_234,
                record: None,
                software_identity: String::new(),
                environment: String::new(),
                instance: String::new(),
                diagnostics: None,
                result: None,
            };
            let mut lines = about_steps(&result, 2);
            lines.push(about_project(&answer, &result, &asked, None));
            lines.join("\n")
        };
        let completed = ProjectResult {
            outcome: ProjectOutcome::COMPLETED,
            steps: vec![step("tsc", 0), step("node\nmain.js", 0)],
            artifacts: vec![plimsoll_core::Artifact::default()],
            ..ProjectResult::default()
        };
        let lines = [
            told(completed.clone()),
            told(ProjectResult {
                steps: vec![step(&"x".repeat(80), 3)],
                artifacts_truncated: true,
                ..completed.clone()
            }),
            told(ProjectResult {
                steps: vec![step("tsc", 0)],
                ..completed.clone()
            }),
            told(ProjectResult {
                outcome: ProjectOutcome::TIMED_OUT,
                outcome_detail: "step 1 was still running".to_owned(),
                steps: vec![StepResult {
                    timed_out: true,
                    stdout: b"kept".to_vec(),
                    stdout_truncated: true,
                    ..step("sleep 9", 124)
                }],
                ..completed
            }),
            about_missing("b"),
        ];
        insta::assert_snapshot!(lines.join("\n\n"));
    }

    fn line(duration_ms: i64, result: &JavaScriptResult, diagnostics: Diagnostics) -> String {
        let record = RunRecord {
            record_sha256: "9a".repeat(32),
            ..RunRecord::default()
        };
        let answer = Answer {
            sandbox: "wasm".to_owned(),
            isolation: "process".to_owned(),
            duration_ms,
            record: Some(record),
            software_identity: String::new(),
            environment: String::new(),
            instance: String::new(),
            diagnostics: Some(diagnostics),
            result: Some(RunResult::JavaScript(result.clone())),
        };
        about(&answer, result, None)
    }

    #[test]
    fn the_line_about_a_cell_says_what_became_of_its_interpreter() {
        let record = RunRecord {
            isolation: "kernel".to_owned(),
            sequence: 3,
            record_sha256: "9a".repeat(32),
            ..RunRecord::default()
        };
        let told = |result: CellResult| {
            let diagnostics = Diagnostics {
                limit_hit: result.stdout_truncated.then_some(Limit::Output),
                stdout_bytes: 8,
                ..Diagnostics::default()
            };
            about_cell(&AboutCell {
                result: &result,
                record: &record,
                duration_ms: 12,
                diagnostics: &diagnostics,
            })
            .replace(&record.record_sha256, "…")
        };
        let cell = |interpreter_started, interpreter_ended| CellResult {
            interpreter_started,
            interpreter_ended,
            ..CellResult::default()
        };
        let timed_out = CellResult {
            exit_code: 124,
            timed_out: true,
            stdout: b"kept".to_vec(),
            stdout_truncated: true,
            ..cell(false, true)
        };
        for (result, line) in [
            (cell(false, false), "exit 0, record …"),
            (cell(true, false), "exit 0, fresh interpreter, record …"),
            (
                cell(true, true),
                "exit 0, fresh interpreter, which is gone again, record …",
            ),
            (
                timed_out,
                "exit 124 (its timeout ended it), the interpreter is gone with its variables, stdout truncated to 4 of 8 bytes, \
                 limit hit: output, record …",
            ),
        ] {
            assert_eq!(told(result), format!("plimsoll: call 3, tier kernel, 12 ms, {line}"));
        }
    }

    #[test]
    fn a_timeout_is_lowered_only_above_a_stated_maximum() {
        let held = |asked, most| Lowered::of(asked, most).map(|lowered| (lowered.asked_ms, lowered.most_ms));
        assert_eq!(held(60_000, 30_000), Some((60_000, 30_000)));
        for (asked, most) in [(30_000, 30_000), (0, 30_000), (60_000, 0), (-1, 30_000)] {
            assert_eq!(held(asked, most), None, "{asked} {most}");
        }
    }

    #[test]
    fn the_line_says_what_happened_and_nothing_else() {
        let trapped = |trap| Diagnostics {
            trap: Some(trap),
            ..Diagnostics::default()
        };
        let exit = |exit_code| JavaScriptResult {
            exit_code,
            ..JavaScriptResult::default()
        };
        let lines = [
            line(0, &exit(0), Diagnostics::default()),
            line(12, &exit(3), Diagnostics::default()),
            line(
                50,
                &JavaScriptResult {
                    timed_out: true,
                    ..exit(124)
                },
                Diagnostics::default(),
            ),
            line(50, &exit(124), Diagnostics::default()),
            line(50, &exit(134), Diagnostics::default()),
            line(1, &exit(125), Diagnostics::default()),
            line(1, &exit(13), Diagnostics::default()),
            line(7, &exit(134), trapped(Trap::Stack)),
            line(7, &exit(134), trapped(Trap::Memory)),
            line(
                7,
                &exit(134),
                Diagnostics {
                    limit_hit: Some(Limit::Memory),
                    ..trapped(Trap::Unreachable)
                },
            ),
            line(7, &exit(134), trapped(Trap::Other)),
            line(
                12_345,
                &JavaScriptResult {
                    stdout: vec![b'x'; 5],
                    stdout_truncated: true,
                    stderr_truncated: true,
                    ..exit(0)
                },
                Diagnostics {
                    stdout_bytes: 8,
                    limit_hit: Some(Limit::Output),
                    ..Diagnostics::default()
                },
            ),
        ];
        insta::assert_snapshot!(lines.join("\n"));
    }
}
