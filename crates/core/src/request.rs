//! A run as its caller described it, decoded but not yet checked (schema `RunRequest`).
//!
//! Digests cover these values as sent, so nothing here is clamped, trimmed or defaulted.

use crate::software::SoftwareRuleText;

/// One payload and the conditions it may run under.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunRequest {
    /// Must be [`crate::limits::PROTOCOL`].
    pub protocol: u32,
    /// `""` or a tier word; the floor.
    pub minimum_isolation: String,
    /// Audit correlation only; never digested.
    pub trace_id: String,
    /// Milliseconds; zero or less asks for the provider's default.
    pub timeout_ms: i32,
    /// Which software the caller accepts.
    pub software_rule: Option<SoftwareRuleText>,
    /// What to run.
    pub payload: Option<Payload>,
}

impl RunRequest {
    /// A request that carries a payload and states nothing else but the protocol.
    pub fn new(payload: Payload) -> Self {
        Self {
            protocol: crate::limits::PROTOCOL,
            payload: Some(payload),
            ..Self::default()
        }
    }

    /// A snippet without grant.
    pub fn javascript(code: impl Into<String>) -> Self {
        Self::new(Payload::JavaScript(JavaScriptRun {
            code: code.into(),
            grant_profile: String::new(),
        }))
    }
}

/// A session as its caller asked for it, decoded but not yet checked (schema `OpenSessionRequest`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenRequest {
    /// Must be [`crate::limits::PROTOCOL`].
    pub protocol: u32,
    /// `""` or a tier word; the floor.
    pub minimum_isolation: String,
    /// Correlation only.
    pub trace_id: String,
    /// Milliseconds; 0, or at least the daemon's own, is the daemon's.
    pub lifetime_ms: u32,
    /// Milliseconds; likewise, and never below one second.
    pub idle_timeout_ms: u32,
    /// Which software the caller accepts.
    pub software_rule: Option<SoftwareRuleText>,
    /// Interpreters the caller expects to use; a hint.
    pub languages: Vec<String>,
    /// Opaque key of an end user, or empty.
    pub owner: String,
}

/// What to run.
#[derive(Clone, Debug, PartialEq)]
pub enum Payload {
    /// One JavaScript program.
    JavaScript(JavaScriptRun),
    /// Files and shell steps.
    Project(ProjectRun),
    /// A parameter sweep over a compiled model.
    Module(ModuleRun),
    /// One piece of a kept interpreter's session; the stored form of a session call.
    Cell(CellRun),
}

impl Payload {
    /// Which kind this is.
    pub const fn kind(&self) -> PayloadKind {
        match self {
            Self::JavaScript(_) => PayloadKind::JavaScript,
            Self::Project(_) => PayloadKind::Project,
            Self::Module(_) => PayloadKind::Module,
            Self::Cell(_) => PayloadKind::Cell,
        }
    }

    /// The named grant profile; `""` is none, and modules and cells cannot name one.
    pub fn grant_profile(&self) -> &str {
        match self {
            Self::JavaScript(run) => &run.grant_profile,
            Self::Project(run) => &run.grant_profile,
            Self::Module(_) | Self::Cell(_) => "",
        }
    }

    /// Names the grant profile; `""` is none. Modules and cells cannot name one and stay as they are.
    pub fn set_grant_profile(&mut self, profile: impl Into<String>) {
        match self {
            Self::JavaScript(run) => run.grant_profile = profile.into(),
            Self::Project(run) => run.grant_profile = profile.into(),
            Self::Module(_) | Self::Cell(_) => {}
        }
    }
}

/// The four kinds of payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PayloadKind {
    /// [`JavaScriptRun`].
    JavaScript,
    /// [`ProjectRun`].
    Project,
    /// [`ModuleRun`].
    Module,
    /// [`CellRun`].
    Cell,
}

impl PayloadKind {
    /// The word in digests, audit lines and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::JavaScript => "javascript",
            Self::Project => "project",
            Self::Module => "module",
            Self::Cell => "cell",
        }
    }
}

/// One JavaScript program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JavaScriptRun {
    /// Program text.
    pub code: String,
    /// Grant profile, or `""`.
    pub grant_profile: String,
}

/// One text file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProjectFile {
    /// Relative to the work directory.
    pub path: String,
    /// UTF-8 text; U+0000 is allowed.
    pub content: String,
}

/// Files, then shell steps in order, then artifacts to capture.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProjectRun {
    /// Written before the first step.
    pub files: Vec<ProjectFile>,
    /// Shell commands; the first failure stops.
    pub steps: Vec<String>,
    /// Paths captured after the steps.
    pub artifacts: Vec<String>,
    /// Grant profile, or `""`.
    pub grant_profile: String,
}

/// A parameter sweep.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModuleRun {
    /// Model name inside the module image.
    pub model: String,
    /// One row of parameters per run.
    pub rows: Vec<Vec<f64>>,
    /// Simulated seconds.
    pub end_time: f64,
    /// Simulated seconds per step.
    pub step: f64,
}

/// One cell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CellRun {
    /// `javascript` or `python`.
    pub language: String,
    /// Program text.
    pub code: String,
    /// Written before the code runs.
    pub files: Vec<ProjectFile>,
}
