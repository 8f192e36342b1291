//! What a host and PID 1 of a kept sandbox say to each other beside snippets and projects: cells, and what follows a call.

use serde::{Deserialize, Serialize};

use crate::guest::{Captured, LimitFacts};
use crate::host::ProjectFile;

/// A language that an interpreter is kept for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Language {
    /// `node`.
    JavaScript,
    /// `python3`.
    Python,
}

impl Language {
    /// Every language.
    pub const ALL: [Self; 2] = [Self::JavaScript, Self::Python];

    /// Its name in requests and evidence.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::JavaScript => "javascript",
            Self::Python => "python",
        }
    }

    /// The language of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|language| language.as_str() == name)
    }
}

/// Starts interpreters that are not there, so that no cell waits for one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WarmPlan {
    /// Which.
    pub languages: Vec<Language>,
}

/// A cell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CellPlan {
    /// Whose interpreter runs it.
    pub language: Language,
    /// 32 hex digits that no earlier cell of the sandbox had: the interpreter repeats them at the cell's end.
    pub nonce: String,
    /// Written in this order before the code runs; those before one that cannot be written stay.
    pub files: Vec<ProjectFile>,
    /// The code.
    pub code: String,
    /// Whole time from the plan's arrival, in milliseconds.
    pub timeout_ms: u64,
}

/// A cell whose code was handed over has ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CellEnd {
    /// How.
    pub outcome: CellOutcome,
    /// What standard output carried from the cell's start to its end.
    pub stdout: Captured,
    /// What standard error carried.
    pub stderr: Captured,
    /// The interpreter had run no cell before, or its last cell had no answer.
    pub fresh: bool,
    /// From the plan's arrival to the cell's end, in milliseconds.
    pub duration_ms: u64,
    /// What the limits did.
    pub limits: LimitFacts,
}

/// How a cell ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CellOutcome {
    /// It ran to its end.
    Ran,
    /// It raised.
    Raised,
    /// It waits for what nothing can bring any more.
    NeverSettles,
    /// Its time was up, or the host had it stopped; the interpreter is gone.
    TimedOut,
    /// The interpreter ended during it, or answered what no interpreter of ours answers; it is gone.
    Died,
}

impl CellOutcome {
    /// Whether the interpreter is gone.
    pub const fn ended_interpreter(self) -> bool {
        matches!(self, Self::TimedOut | Self::Died)
    }
}

/// Nothing of a session call's code was run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NotRun {
    /// A file could not be written.
    File {
        /// Its place among the cell's files, from 0.
        index: u32,
        /// The kernel's error number.
        errno: i32,
    },
    /// No interpreter could be started to run it, in words.
    NoInterpreter(String),
    /// The time was up before an interpreter took the code, or the host had it stopped.
    TooLate,
}

/// Ends what a call left, and measures what the sandbox has written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SweepPlan {
    /// Interpreters stay; otherwise they end as well.
    pub keep_interpreters: bool,
    /// Bytes that may be written to the sandbox's file systems; 0 = not measured.
    pub disk_budget: u64,
    /// The sandbox is about to be frozen, so PID 1 need not show that it lives until the next plan.
    pub rest: bool,
}

/// What a sweep has shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SweepEnd {
    /// Nothing but PID 1 and the kept interpreters lives, and PID 1 has seen that.
    pub clean: bool,
    /// What is written.
    pub disk: Disk,
    /// Processes that were found and killed.
    pub killed: u32,
    /// The interpreters that live, stopped until their next cell.
    pub interpreters: Vec<Language>,
    /// Why it is not clean, for the log; empty when it is.
    pub detail: String,
}

/// What a sandbox has written to its file systems.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Disk {
    /// Nobody asked, or the sweep is not clean.
    NotMeasured,
    /// At most the budget, in bytes.
    Within(u64),
    /// More than the budget, in bytes.
    Over(u64),
    /// The kernel does not tell.
    Unmeasurable,
}
