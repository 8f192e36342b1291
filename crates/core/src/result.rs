//! What a run came to. Streams are bytes and leave exactly as the guest wrote them.

use std::borrow::Cow;

use crate::tier::Isolation;

/// A finished run as its provider reports it, before a record is stamped on it.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The answer to the payload.
    pub result: RunResult,
    /// Tier of the state the run executed on.
    pub isolation: Isolation,
    /// The provider's measure, in milliseconds.
    pub duration_ms: i64,
    /// Content address of the artifact that ran, or empty.
    pub environment: String,
    /// Software the run reports, or empty.
    pub software_identity: String,
    /// Typed reference of the one sandbox, or empty.
    pub instance: String,
    /// Informational; never digested.
    pub diagnostics: Diagnostics,
}

/// One result, of the payload's kind.
#[derive(Clone, Debug, PartialEq)]
pub enum RunResult {
    /// Of a snippet.
    JavaScript(JavaScriptResult),
    /// Of a project.
    Project(ProjectResult),
    /// Of a module.
    Module(ModuleResult),
    /// Of a cell.
    Cell(CellResult),
}

impl RunResult {
    /// Which kind this is.
    pub const fn kind(&self) -> crate::PayloadKind {
        match self {
            Self::JavaScript(_) => crate::PayloadKind::JavaScript,
            Self::Project(_) => crate::PayloadKind::Project,
            Self::Module(_) => crate::PayloadKind::Module,
            Self::Cell(_) => crate::PayloadKind::Cell,
        }
    }
}

/// Output and end of a snippet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JavaScriptResult {
    /// The kept prefix of standard output.
    pub stdout: Vec<u8>,
    /// The kept prefix of standard error.
    pub stderr: Vec<u8>,
    /// The guest's exit code; 124 after its deadline.
    pub exit_code: i32,
    /// Whether the deadline ended it.
    pub timed_out: bool,
    /// Whether at least one byte of standard output was dropped.
    pub stdout_truncated: bool,
    /// Whether at least one byte of standard error was dropped.
    pub stderr_truncated: bool,
    /// Never digested.
    pub advice: Vec<AdviceFinding>,
}

/// Output and end of one project step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StepResult {
    /// The command as sent.
    pub command: String,
    /// The kept prefix of standard output.
    pub stdout: Vec<u8>,
    /// The kept prefix of standard error.
    pub stderr: Vec<u8>,
    /// 124 on its timeout, 128 + n when signal n ended it.
    pub exit_code: i32,
    /// Whether its deadline ended it.
    pub timed_out: bool,
    /// Milliseconds; never digested.
    pub duration_ms: i64,
    /// Whether at least one byte of standard output was dropped.
    pub stdout_truncated: bool,
    /// Whether at least one byte of standard error was dropped.
    pub stderr_truncated: bool,
    /// Informational; never digested.
    pub diagnostics: Diagnostics,
}

impl StepResult {
    /// Standard output as text; bytes that are not UTF-8 read as U+FFFD.
    pub fn stdout_text(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.stdout)
    }

    /// Standard error as text; bytes that are not UTF-8 read as U+FFFD.
    pub fn stderr_text(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.stderr)
    }
}

/// How a project or module plan ended. A number without a name is kept, because digests cover the number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ProjectOutcome(pub i32);

impl ProjectOutcome {
    /// No outcome was stated.
    pub const UNSPECIFIED: Self = Self(0);
    /// The plan concluded, a failing step included.
    pub const COMPLETED: Self = Self(1);
    /// A request-attributable failure before any step began.
    pub const SETUP_FAILED: Self = Self(2);
    /// The budget expired before the runner reported.
    pub const TIMED_OUT: Self = Self(3);
    /// No authenticated, parseable report; code may have run.
    pub const PROTOCOL_ERROR: Self = Self(4);
    /// The runner failed after a step began.
    pub const RUNNER_FAILED: Self = Self(5);

    /// The word for people; numbers without a name read `unspecified`.
    pub const fn as_str(self) -> &'static str {
        match self.0 {
            1 => "completed",
            2 => "setup_failed",
            3 => "timed_out",
            4 => "protocol_error",
            5 => "runner_failed",
            _ => "unspecified",
        }
    }
}

/// One captured file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Artifact {
    /// As requested.
    pub path: String,
    /// Its bytes.
    pub content: Vec<u8>,
}

/// What a project came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProjectResult {
    /// One entry per step that ran.
    pub steps: Vec<StepResult>,
    /// How the plan ended.
    pub outcome: ProjectOutcome,
    /// Plimsoll's own words; empty when completed.
    pub outcome_detail: String,
    /// In request order.
    pub artifacts: Vec<Artifact>,
    /// Whether capture stopped at the size bound.
    pub artifacts_truncated: bool,
    /// Never digested.
    pub advice: Vec<AdviceFinding>,
}

/// One row's outputs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModuleRowResult {
    /// Steps completed, or a negative failure code.
    pub status: i32,
    /// `width` values per completed step.
    pub outputs: Vec<f64>,
}

/// What a module run came to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModuleResult {
    /// One per request row when completed.
    pub runs: Vec<ModuleRowResult>,
    /// Values per step.
    pub width: i32,
    /// How it ended.
    pub outcome: ProjectOutcome,
    /// Plimsoll's own words; empty when completed.
    pub outcome_detail: String,
    /// The kept prefix of standard output.
    pub stdout: Vec<u8>,
    /// The kept prefix of standard error.
    pub stderr: Vec<u8>,
}

/// What a cell came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CellResult {
    /// The kept prefix of standard output.
    pub stdout: Vec<u8>,
    /// The kept prefix of standard error.
    pub stderr: Vec<u8>,
    /// 0 ran, 1 raised, 124 deadline.
    pub exit_code: i32,
    /// Whether the deadline ended it.
    pub timed_out: bool,
    /// Whether at least one byte of standard output was dropped.
    pub stdout_truncated: bool,
    /// Whether at least one byte of standard error was dropped.
    pub stderr_truncated: bool,
    /// Nothing earlier exists in this interpreter.
    pub interpreter_started: bool,
    /// The next cell starts a fresh one.
    pub interpreter_ended: bool,
}

/// What a run may be told about its host calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AdviceFinding {
    /// `fan_out` or `repeated_read`.
    pub pattern: String,
    /// `info`, `low`, `medium` or `high`.
    pub severity: String,
    /// `batch` or `cache`.
    pub remedy: String,
    /// HTTP method.
    pub method: String,
    /// Route template, never a raw path.
    pub route: String,
    /// In plimsoll's words.
    pub detail: String,
    /// A granted route that would serve better.
    pub suggested_method: String,
    /// Its template.
    pub suggested_route: String,
    /// Calls that could have been saved.
    pub extra_calls: i32,
    /// Milliseconds they cost.
    pub added_latency_ms: i64,
    /// Bytes they moved.
    pub bytes_moved: i64,
}

/// The limit a run hit, if any (`RunDiagnostics.limit_hit`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Limit {
    /// The memory cap.
    Memory,
    /// The process cap.
    Pids,
    /// The disk cap.
    Disk,
    /// The grant's call budget.
    HostCalls,
    /// The output cap.
    Output,
}

impl Limit {
    /// The word on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Pids => "pids",
            Self::Disk => "disk",
            Self::HostCalls => "host_calls",
            Self::Output => "output",
        }
    }

    /// Reads the word; any other is none.
    pub fn from_wire(text: &str) -> Option<Self> {
        [Self::Memory, Self::Pids, Self::Disk, Self::HostCalls, Self::Output]
            .into_iter()
            .find(|limit| limit.as_str() == text)
    }
}

/// What a WebAssembly trap was, by the runtime's typed error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Trap {
    /// The native stack ran out.
    Stack,
    /// An access outside linear memory.
    Memory,
    /// An `unreachable` instruction: the engine gave up.
    Unreachable,
    /// Any other trap.
    Other,
}

impl Trap {
    /// The word on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Stack => "stack",
            Self::Memory => "memory",
            Self::Unreachable => "unreachable",
            Self::Other => "other",
        }
    }

    /// Reads the word; any other non-empty word is [`Trap::Other`].
    pub fn from_wire(text: &str) -> Option<Self> {
        match text {
            "" => None,
            "stack" => Some(Self::Stack),
            "memory" => Some(Self::Memory),
            "unreachable" => Some(Self::Unreachable),
            _ => Some(Self::Other),
        }
    }
}

/// What a caller wants to know about a run beyond the answer (schema `RunDiagnostics`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Diagnostics {
    /// The limit that ended the run, else the first hit in the schema's order.
    pub limit_hit: Option<Limit>,
    /// Bytes the guest wrote to standard output, kept or not.
    pub stdout_bytes: u64,
    /// Bytes the guest wrote to standard error, kept or not.
    pub stderr_bytes: u64,
    /// Most memory it held, in bytes; 0 when not measured.
    pub peak_memory_bytes: u64,
    /// The signal that ended it; 0 when none did.
    pub signal: u32,
    /// The trap that ended it.
    pub trap: Option<Trap>,
}
