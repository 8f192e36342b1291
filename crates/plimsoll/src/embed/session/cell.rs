//! Cells: one piece of a kept interpreter's conversation, and what it came to.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use plimsoll_core::{CellRun as CellPayload, Diagnostics, Payload, ProjectFile, RunError, RunResult, Tier};
use plimsoll_grants::CallTrace;
use plimsoll_record::{Answer, RunRecord};

use crate::embed::run::{Ran, RunKind, incomplete, sealed};

/// Code for an interpreter that is kept between calls, and files that are written before it runs.
#[must_use = "a cell does nothing until it is run"]
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Cell(CellPayload);

impl Cell {
    /// JavaScript, at most 262 144 bytes.
    pub fn javascript(code: impl Into<String>) -> Self {
        Self::in_language("javascript", code)
    }

    /// Python, at most 262 144 bytes.
    pub fn python(code: impl Into<String>) -> Self {
        Self::in_language("python", code)
    }

    /// Code in a language by its name: `javascript` or `python`; another one is refused before anything runs.
    pub fn in_language(language: impl Into<String>, code: impl Into<String>) -> Self {
        Self(CellPayload {
            language: language.into(),
            code: code.into(),
            files: Vec::new(),
        })
    }

    /// Adds a text file, written before the code runs. At most 200 files and 4 194 304 bytes together. A path is relative to
    /// the work directory, at most 1024 bytes, without `.`, `..` and empty segments.
    pub fn file(mut self, path: impl Into<String>, content: impl Into<String>) -> Self {
        self.0.files.push(ProjectFile {
            path: path.into(),
            content: content.into(),
        });
        self
    }

    pub(super) fn into_payload(self) -> Payload {
        Payload::Cell(self.0)
    }
}

impl fmt::Debug for Cell {
    /// Without what it holds: a cell is easily logged by accident.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Cell")
            .field("language", &self.0.language)
            .field("bytes", &self.0.code.len())
            .field("files", &self.0.files.len())
            .finish()
    }
}

/// A cell that ran to its end, its own failure or its timeout included, with a record that was recomputed.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct CellRun {
    /// What it wrote to standard output, the value of its last expression included, byte for byte, up to the output cap.
    pub stdout: Vec<u8>,
    /// What it wrote to standard error, byte for byte, up to the output cap.
    pub stderr: Vec<u8>,
    /// 0 it ran, 1 it raised, 124 its timeout ended it.
    pub exit_code: i32,
    /// Whether its timeout ended it.
    pub timed_out: bool,
    /// Whether standard output went past the cap; what is kept is its beginning.
    pub stdout_truncated: bool,
    /// Whether standard error went past the cap; what is kept is its beginning.
    pub stderr_truncated: bool,
    /// Nothing of earlier cells exists in this interpreter.
    pub interpreter_started: bool,
    /// The next cell starts a fresh interpreter.
    pub interpreter_ended: bool,
    /// The wall it ran behind.
    pub tier: Tier,
    /// The provider that ran it.
    pub provider: String,
    /// Content address of the engine or image that ran it.
    pub environment: String,
    /// How long it took, by the provider's measure.
    pub duration: Duration,
    /// The record, already checked against the request, everything above, and the chain.
    pub record: RunRecord,
    /// Limits hit, byte counts and traps: informational, covered by no digest.
    pub diagnostics: Diagnostics,
}

impl CellRun {
    /// Standard output as text; a byte that is not UTF-8 becomes U+FFFD.
    pub fn stdout_text(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.stdout)
    }

    /// Standard error as text; a byte that is not UTF-8 becomes U+FFFD.
    pub fn stderr_text(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.stderr)
    }
}

impl RunKind for CellRun {}

impl sealed::Sealed for CellRun {
    fn read(answer: Answer, _: Option<CallTrace>) -> Result<Self, RunError> {
        let (ran, result) = Ran::of(answer)?;
        let RunResult::Cell(result) = result else {
            return Err(incomplete("the answer to a cell is that of another kind".to_owned()));
        };
        Ok(Self {
            stdout: result.stdout,
            stderr: result.stderr,
            exit_code: result.exit_code,
            timed_out: result.timed_out,
            stdout_truncated: result.stdout_truncated,
            stderr_truncated: result.stderr_truncated,
            interpreter_started: result.interpreter_started,
            interpreter_ended: result.interpreter_ended,
            tier: ran.tier,
            provider: ran.provider,
            environment: ran.environment,
            duration: ran.duration,
            record: ran.record,
            diagnostics: ran.diagnostics,
        })
    }
}
