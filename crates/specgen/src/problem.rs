//! Everything that is wrong with a document, named at once.

use std::collections::HashSet;
use std::fmt;

use crate::generate::Skip;

/// Why nothing was generated: one line for each problem, at least one, in the order of the document's paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    problems: Vec<String>,
    skipped: Vec<Skip>,
}

impl Refused {
    pub(crate) fn one(problem: impl Into<String>) -> Self {
        Self {
            problems: vec![problem.into()],
            skipped: Vec::new(),
        }
    }

    /// The problems, each one line that says where it is and what to do about it.
    pub fn problems(&self) -> &[String] {
        &self.problems
    }

    /// Operations that were left out before the document was refused; their reasons may be why nothing is left.
    pub fn skipped(&self) -> &[Skip] {
        &self.skipped
    }

    pub(crate) fn with_skipped(self, skipped: Vec<Skip>) -> Self {
        Self { skipped, ..self }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.problems.join("\n"))
    }
}

impl std::error::Error for Refused {}

/// Collects problems while the rest of the document is still looked at.
#[derive(Debug, Default)]
pub(crate) struct Problems {
    lines: Vec<String>,
}

impl Problems {
    pub(crate) fn push(&mut self, problem: impl Into<String>) {
        self.lines.push(problem.into());
    }

    pub(crate) fn append(&mut self, others: Self) {
        self.lines.extend(others.lines);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// The refusal for everything that was collected.
    pub(crate) fn refused(self) -> Refused {
        // One fault of a shared path item or parameter is met once for every operation that uses it.
        let mut seen = HashSet::new();
        let mut problems = self.lines;
        problems.retain(|line| seen.insert(line.clone()));
        Refused {
            problems,
            skipped: Vec::new(),
        }
    }
}

/// Longest part of a document that a message repeats, in characters. Shared parts are named once for each operation that
/// uses them, and what is said about a document must not outgrow it.
const MAX_REPEATED: usize = 160;

/// A text of the document in quotes, with escapes for what would break the line, cut when it is long.
pub(crate) fn quoted(text: &str) -> String {
    match text.char_indices().nth(MAX_REPEATED) {
        None => format!("{text:?}"),
        Some((end, _)) => format!("{:?}…", &text[..end]),
    }
}

/// The place of an operation other than the one a message is about, cut when it is long.
pub(crate) fn shortened(place: &str) -> &str {
    match place.char_indices().nth(MAX_REPEATED) {
        None => place,
        Some((end, _)) => &place[..end],
    }
}
