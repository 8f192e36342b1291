//! A project before it runs: files, shell steps, and the files to bring back.

use std::fmt;

use plimsoll_core::{Payload, ProjectFile, ProjectRun as ProjectPayload};

/// Files, then shell steps in order, then artifacts. Lists keep the order they are given in, and the record's digest covers it.
///
/// ```
/// # use plimsoll::Project;
/// let project = Project::new()
///     .file("total.js", "console.log(6 * 7)")
///     .step("node total.js > total.txt")
///     .artifact("total.txt");
/// ```
#[must_use = "a project does nothing until it is run"]
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Project(ProjectPayload);

impl Project {
    /// Nothing yet. It needs at least one step to run.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a text file, written before the first step. At most 200 files and 4 194 304 bytes together. A path is relative to
    /// the work directory, at most 1024 bytes, without `.`, `..` and empty segments.
    pub fn file(mut self, path: impl Into<String>, content: impl Into<String>) -> Self {
        self.0.files.push(ProjectFile {
            path: path.into(),
            content: content.into(),
        });
        self
    }

    /// Adds a command of `sh -c`. 1 to 20 steps of at most 16 384 bytes each; the first that fails is the last that runs.
    pub fn step(mut self, command: impl Into<String>) -> Self {
        self.0.steps.push(command.into());
        self
    }

    /// Adds a path to capture after the steps, failed ones included. At most 100 paths and 8 388 608 bytes together.
    pub fn artifact(mut self, path: impl Into<String>) -> Self {
        self.0.artifacts.push(path.into());
        self
    }

    pub(super) fn into_payload(self) -> Payload {
        Payload::Project(self.0)
    }
}

impl fmt::Debug for Project {
    /// Without what it holds: a project is easily logged by accident.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Project")
            .field("files", &self.0.files.len())
            .field("steps", &self.0.steps.len())
            .field("artifacts", &self.0.artifacts.len())
            .finish()
    }
}
