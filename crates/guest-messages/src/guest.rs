//! What PID 1 says to the host.

use serde::{Deserialize, Serialize};

use crate::codec::{CodecError, decode, encode};
use crate::probe::ProbeFacts;
use crate::session::{CellEnd, Language, NotRun, SweepEnd};

const READY: u8 = b'y';
const STARTED: u8 = b's';
const HEARTBEAT: u8 = b'h';
const SNIPPET_END: u8 = b'e';
const FAULT: u8 = b'f';
const CELL_END: u8 = b'c';
const NOT_RUN: u8 = b'n';
const WARM: u8 = b'm';
const SWEPT: u8 = b'w';

/// A message of PID 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GuestMessage {
    /// What was to be prepared is ready.
    Ready(Ready),
    /// The call's code was started. Not sent for a project that failed in its setup.
    Started,
    /// PID 1 is alive. Every second while a call runs.
    Heartbeat,
    /// A snippet ended, and nothing it started lives any more.
    SnippetEnd(SnippetEnd),
    /// A project ended, and nothing it started lives any more.
    Report(Report),
    /// The facts that were asked for.
    ProbeReport(Box<ProbeFacts>),
    /// A cell ended. What it started may live until the sweep.
    CellEnd(CellEnd),
    /// A session call's code was not run.
    NotRun(NotRun),
    /// The languages whose interpreters live now.
    Warm(Vec<Language>),
    /// What a sweep has shown.
    Swept(SweepEnd),
    /// PID 1 cannot go on. Before [`Started`](Self::Started) nothing of the call ran.
    Fault(Fault),
}

impl GuestMessage {
    /// The letter of a project's report, for a sender that has encoded the body already.
    pub const REPORT: u8 = b'p';
    /// The letter of a probe's report, likewise.
    pub const PROBE_REPORT: u8 = b'b';

    /// The letter of this message's frame.
    pub const fn kind(&self) -> u8 {
        match self {
            Self::Ready(_) => READY,
            Self::Started => STARTED,
            Self::Heartbeat => HEARTBEAT,
            Self::SnippetEnd(_) => SNIPPET_END,
            Self::Report(_) => Self::REPORT,
            Self::ProbeReport(_) => Self::PROBE_REPORT,
            Self::CellEnd(_) => CELL_END,
            Self::NotRun(_) => NOT_RUN,
            Self::Warm(_) => WARM,
            Self::Swept(_) => SWEPT,
            Self::Fault(_) => FAULT,
        }
    }

    /// True for the messages after which nothing more of a call comes.
    pub const fn ends_call(&self) -> bool {
        matches!(
            self,
            Self::SnippetEnd(_)
                | Self::Report(_)
                | Self::ProbeReport(_)
                | Self::CellEnd(_)
                | Self::NotRun(_)
                | Self::Warm(_)
                | Self::Swept(_)
                | Self::Fault(_)
        )
    }

    /// The body of this message's frame.
    ///
    /// # Errors
    /// When a value cannot be encoded.
    pub fn encode(&self) -> Result<Vec<u8>, CodecError> {
        match self {
            Self::Ready(body) => encode(body),
            Self::Started | Self::Heartbeat => encode(&Nothing {}),
            Self::SnippetEnd(body) => encode(body),
            Self::Report(body) => encode(body),
            Self::ProbeReport(body) => body.encode(),
            Self::CellEnd(body) => encode(body),
            Self::NotRun(body) => encode(body),
            Self::Warm(body) => encode(body),
            Self::Swept(body) => encode(body),
            Self::Fault(body) => encode(body),
        }
    }

    /// Reads a message of PID 1.
    ///
    /// # Errors
    /// When the letter or the body is none of this version's.
    pub fn decode(kind: u8, body: &[u8]) -> Result<Self, CodecError> {
        match kind {
            READY => decode(body).map(Self::Ready),
            STARTED => decode::<Nothing>(body).map(|_| Self::Started),
            HEARTBEAT => decode::<Nothing>(body).map(|_| Self::Heartbeat),
            SNIPPET_END => decode(body).map(Self::SnippetEnd),
            Self::REPORT => decode(body).map(Self::Report),
            Self::PROBE_REPORT => decode(body).map(|facts| Self::ProbeReport(Box::new(facts))),
            FAULT => decode(body).map(Self::Fault),
            CELL_END => decode(body).map(Self::CellEnd),
            NOT_RUN => decode(body).map(Self::NotRun),
            WARM => decode(body).map(Self::Warm),
            SWEPT => decode(body).map(Self::Swept),
            other => Err(CodecError::Kind(char::from(other))),
        }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Nothing {}

/// PID 1 took the opening frame.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ready {
    /// The protocol version of the guest binary.
    pub version: u32,
}

/// PID 1 gives up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// Why, in words; at most [`ERROR_TEXT_CAP`](crate::limits::ERROR_TEXT_CAP) bytes.
    pub text: String,
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// It exited with this code.
    Exited(i32),
    /// This signal ended it.
    Signaled(i32),
}

impl End {
    /// The code a shell would report: the exit code, or 128 + signal.
    pub const fn shell_code(self) -> i32 {
        match self {
            Self::Exited(code) => code,
            Self::Signaled(signal) => 128 + signal,
        }
    }

    /// The signal, or 0.
    pub const fn signal(self) -> i32 {
        match self {
            Self::Exited(_) => 0,
            Self::Signaled(signal) => signal,
        }
    }
}

/// The start of one stream, and how much there was of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Captured {
    /// The bytes kept.
    #[serde(with = "serde_bytes")]
    pub bytes: Vec<u8>,
    /// Bytes written by the guest, kept or not.
    pub produced: u64,
}

impl Captured {
    /// True when at least one byte was dropped.
    pub fn truncated(&self) -> bool {
        self.produced > self.bytes.len() as u64
    }

    /// Bytes written and not kept.
    pub fn dropped(&self) -> u64 {
        self.produced.saturating_sub(self.bytes.len() as u64)
    }
}

/// What PID 1 saw of the sandbox's limits during one call. 0 where the kernel does not tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LimitFacts {
    /// Processes that the out-of-memory killer took during the call.
    pub oom_kills: u64,
    /// Forks that the process limit refused during the call.
    pub pids_refused: u64,
    /// Most tasks beside PID 1 seen at once: every second, and when the call's code ended.
    pub most_tasks: u64,
    /// A writable mount had no free block or inode when the call's code ended. One that had none before it counts only where
    /// the code failed.
    pub disk_full: bool,
    /// Highest memory use of the whole sandbox so far, in bytes.
    pub peak_memory: u64,
}

/// A snippet's end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SnippetEnd {
    /// How `node` ended.
    pub end: End,
    /// Its time was up, and PID 1 killed it.
    pub timed_out: bool,
    /// Its standard output.
    pub stdout: Captured,
    /// Its standard error.
    pub stderr: Captured,
    /// From the plan's arrival to the end of `node`, in milliseconds.
    pub duration_ms: u64,
    /// What the limits did.
    pub limits: LimitFacts,
}

/// A project's end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Report {
    /// One entry for each step that ended.
    pub steps: Vec<StepReport>,
    /// What was brought back, in the order asked for.
    pub artifacts: Vec<ArtifactContent>,
    /// An artifact that exists is missing from `artifacts`.
    pub artifacts_truncated: bool,
    /// Why PID 1 could not do the project; empty when it could. Failing steps are no error.
    pub error: String,
    /// Steps that had begun.
    pub steps_begun: u32,
    /// What the limits did.
    pub limits: LimitFacts,
}

/// One step's end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepReport {
    /// The command, cut to [`REPORTED_COMMAND_CAP`](crate::limits::REPORTED_COMMAND_CAP).
    pub command: String,
    /// Its standard output.
    pub stdout: Captured,
    /// Its standard error.
    pub stderr: Captured,
    /// 124 when timed out, 128 + n when ended by signal n, else the shell's.
    pub exit_code: i32,
    /// Its time was up, and PID 1 killed it.
    pub timed_out: bool,
    /// From its start to the end of its shell, in milliseconds.
    pub duration_ms: u64,
    /// The signal that ended its shell, or 0.
    pub signal: i32,
    /// What the limits did during this step.
    pub limits: LimitFacts,
}

/// An artifact.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArtifactContent {
    /// As asked for.
    pub path: String,
    /// Its bytes.
    #[serde(with = "serde_bytes")]
    pub content: Vec<u8>,
}
