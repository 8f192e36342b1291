//! What the host says to PID 1.

use serde::{Deserialize, Serialize};

use crate::codec::{CodecError, decode, encode};
use crate::frame::Key;
use crate::guest::Nothing;
use crate::session::{CellPlan, SweepPlan, WarmPlan};

const OPEN: u8 = b'o';
pub(crate) const RUN: u8 = b'r';
const PING: u8 = b'i';
const STOP: u8 = b'k';

/// A message of the host.
#[derive(Debug)]
pub enum HostMessage {
    /// The first message, once.
    Open(Open),
    /// Work. A sandbox that prepared a snippet takes exactly one.
    Run(Plan),
    /// Asks for a sign of life: PID 1 answers with one heartbeat.
    Ping,
    /// Ends the code of the running call as if its time were up. Without a running call it means nothing.
    Stop,
}

impl HostMessage {
    /// The letter of this message's frame.
    pub const fn kind(&self) -> u8 {
        match self {
            Self::Open(_) => OPEN,
            Self::Run(_) => RUN,
            Self::Ping => PING,
            Self::Stop => STOP,
        }
    }

    /// The body of this message's frame.
    ///
    /// # Errors
    /// When a value cannot be encoded.
    pub fn encode(&self) -> Result<Vec<u8>, CodecError> {
        match self {
            Self::Open(open) => encode(open),
            Self::Run(plan) => plan.encode(),
            Self::Ping | Self::Stop => encode(&Nothing {}),
        }
    }

    /// Reads a message of the host.
    ///
    /// # Errors
    /// When the letter or the body is none of this version's.
    pub fn decode(kind: u8, body: &[u8]) -> Result<Self, CodecError> {
        match kind {
            OPEN => decode(body).map(Self::Open),
            RUN => decode(body).map(Self::Run),
            PING => decode::<Nothing>(body).map(|_| Self::Ping),
            STOP => decode::<Nothing>(body).map(|_| Self::Stop),
            other => Err(CodecError::Kind(char::from(other))),
        }
    }
}

/// Opens a sandbox: the key, and what to make ready before there is anything to run.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Open {
    /// Must be [`PROTOCOL_VERSION`](crate::limits::PROTOCOL_VERSION).
    pub version: u32,
    /// Signs every frame in both directions, this one included.
    pub key: Key,
    /// What the sandbox is for.
    pub prepare: Prepare,
    /// The image's `Env`, in its order.
    pub env: Vec<Variable>,
    /// Bytes kept of each stream of a snippet.
    pub output_cap: u64,
}

impl Open {
    /// The version in a body of any version, so that a mismatch can be named.
    pub(crate) fn version_of(body: &[u8]) -> Option<u32> {
        #[derive(Deserialize)]
        struct Versioned {
            version: u32,
        }
        decode::<Versioned>(body).ok().map(|body| body.version)
    }
}

/// What a sandbox is made ready for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Prepare {
    /// One snippet: `node` is started at once and waits.
    Snippet,
    /// Projects.
    Project,
    /// Probes and projects of the smoke test.
    Probe,
    /// A session: snippets, projects and cells, one after another, in a sandbox that keeps its files and interpreters.
    Session,
}

/// One environment variable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Variable {
    /// Not empty, without `=`.
    pub name: String,
    /// Anything without NUL.
    pub value: String,
}

impl Variable {
    /// A variable from its two halves.
    pub fn new(name: impl Into<String>, value: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            value: value.into(),
        }
    }

    /// A variable from `NAME=value`; `None` without a name or a `=`.
    pub fn parse(entry: &str) -> Option<Self> {
        let (name, value) = entry.split_once('=')?;
        (!name.is_empty()).then(|| Self::new(name, value))
    }

    /// Whether a process can be given this variable.
    pub fn is_sound(&self) -> bool {
        !self.name.is_empty() && !self.name.contains(['=', '\0']) && !self.value.contains('\0')
    }
}

/// What to run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Plan {
    /// One program for `node`.
    Snippet(SnippetPlan),
    /// Files, steps, artifacts.
    Project(ProjectPlan),
    /// Collect facts for the host's smoke test.
    Probe(ProbePlan),
    /// Code for a kept interpreter; in a session.
    Cell(CellPlan),
    /// Interpreters to start ahead of their first cell; in a session.
    Warm(WarmPlan),
    /// What follows every call of a session.
    Sweep(SweepPlan),
}

impl Plan {
    /// The letter of the frame that carries a plan.
    pub const KIND: u8 = RUN;

    /// The body of the frame that carries this plan, for a host that encodes before it takes a sandbox.
    ///
    /// # Errors
    /// When a value cannot be encoded.
    pub fn encode(&self) -> Result<Vec<u8>, CodecError> {
        encode(self)
    }
}

/// A snippet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SnippetPlan {
    /// The caller's program, byte for byte what `node -` reads.
    pub program: String,
    /// A script that runs in the program's realm before it: the grant's client and preamble. Empty without a grant.
    pub prelude: String,
    /// Whole time from the plan's arrival, in milliseconds.
    pub timeout_ms: u64,
}

/// A project.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProjectPlan {
    /// Written in this order before the first step.
    pub files: Vec<ProjectFile>,
    /// Shell commands, run one after another.
    pub steps: Vec<String>,
    /// Time for all steps together, in milliseconds; a later step gets what remains.
    pub step_timeout_ms: u64,
    /// Paths below the working directory to bring back.
    pub artifacts: Vec<String>,
    /// The grant's client as an ES module; every `node` of a step imports it.
    pub host_sdk: Option<String>,
    /// The grant's client as a Python module; every `python3` of a step can import it as `plimsoll_host`.
    pub host_python: Option<String>,
    /// Variables of this run; they win over the image's.
    pub env: Vec<Variable>,
}

/// A file of a project.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProjectFile {
    /// Relative to the working directory.
    pub path: String,
    /// Its text.
    pub content: String,
}

/// What to collect beyond the facts that are always collected.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProbePlan {
    /// Send a line to the broker's socket and report the answer.
    pub host_socket: bool,
    /// Read the first line of the kernel's log.
    pub banner: bool,
}
