//! What a provider can show about itself right now.

use crate::request::PayloadKind;
use crate::tier::Isolation;

/// Whether anything can run at all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Availability {
    /// A provider is chosen.
    #[default]
    Serving,
    /// No provider is chosen: every run is refused.
    Disabled,
}

/// A provider's current evidence: the state that floors and rules are compared with.
#[derive(Clone, Debug, PartialEq)]
pub struct Evidence {
    /// Provider id on answers and in records.
    pub provider: &'static str,
    /// Whether anything can run.
    pub availability: Availability,
    /// The wall, as proven at this moment.
    pub isolation: Isolation,
    /// What each kind runs in.
    pub environments: Environments,
    /// Which kinds can carry a grant.
    pub grants: GrantSupport,
    /// Digest of the verified sandbox policy, or empty.
    pub policy: String,
    /// Which sessions the provider can keep; `None` = none.
    pub sessions: Option<SessionSupport>,
    /// The operator's resource envelope.
    pub resources: Resources,
}

impl Evidence {
    /// The evidence of a daemon with no provider: no wall, no kind, nothing runs.
    pub fn disabled() -> Self {
        Self {
            provider: "disabled",
            availability: Availability::Disabled,
            isolation: Isolation::None,
            environments: Environments::default(),
            grants: GrantSupport::default(),
            policy: String::new(),
            sessions: None,
            resources: Resources::default(),
        }
    }
}

/// One environment per kind; an absent one means the kind is unsupported.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environments {
    /// Of snippets.
    pub javascript: Option<PayloadEnvironment>,
    /// Of projects.
    pub project: Option<PayloadEnvironment>,
    /// Of modules.
    pub module: Option<PayloadEnvironment>,
}

impl Environments {
    /// The environment a kind runs in. A cell runs only in sessions, so it has none here.
    pub const fn of(&self, kind: PayloadKind) -> Option<&PayloadEnvironment> {
        match kind {
            PayloadKind::JavaScript => self.javascript.as_ref(),
            PayloadKind::Project => self.project.as_ref(),
            PayloadKind::Module => self.module.as_ref(),
            PayloadKind::Cell => None,
        }
    }
}

/// What one kind of payload runs in (schema `PayloadEnvironment`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PayloadEnvironment {
    /// Content-addressed artifact, never a tag; empty claims nothing.
    pub identity: String,
    /// Longest run in milliseconds; 0 states no ceiling.
    pub max_timeout_ms: u32,
    /// Selected executable image manifest and platform; empty claims nothing.
    pub software_identity: String,
    /// Interpreters proven at start-up.
    pub languages: Vec<String>,
}

/// Which kinds can carry a grant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GrantSupport {
    /// Snippets.
    pub javascript: bool,
    /// Projects.
    pub project: bool,
}

impl GrantSupport {
    /// Whether a kind can carry one.
    pub const fn of(self, kind: PayloadKind) -> bool {
        match kind {
            PayloadKind::JavaScript => self.javascript,
            PayloadKind::Project => self.project,
            PayloadKind::Module | PayloadKind::Cell => false,
        }
    }
}

/// Which sessions a provider can keep. How many, how long and how idle is the business of whoever keeps them
/// ([`SessionTerms`]).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionSupport {
    /// The one environment every call of a session runs in. Its `languages` are those of cells.
    pub environment: PayloadEnvironment,
    /// Whether snippets run in sessions.
    pub snippets: bool,
    /// Whether projects run in sessions.
    pub projects: bool,
    /// Which kinds can carry a grant in a session.
    pub grants: GrantSupport,
    /// Whether a bound on what a session writes can be enforced.
    pub disk_bound: bool,
}

/// What one open session states about itself, measured when it was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionEvidence {
    /// Provider id.
    pub provider: &'static str,
    /// The wall, as measured at open.
    pub isolation: Isolation,
    /// What the session runs, and in what.
    pub support: SessionSupport,
    /// Typed reference of the one sandbox, or empty.
    pub instance: String,
}

/// The terms on which a daemon keeps sessions: what Describe states of them besides the environment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SessionTerms {
    /// Longest life in milliseconds.
    pub lifetime_ms: u32,
    /// Idle time before suspension in milliseconds; 0 never suspends.
    pub idle_timeout_ms: u32,
    /// 0 = no cap.
    pub max_per_caller: u32,
    /// 0 = no cap.
    pub max_per_owner: u32,
}

/// The operator's envelope (schema `RunResources`); 0 in any field is the provider's default.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Resources {
    /// MiB per run.
    pub memory_mb: u32,
    /// CPUs per run.
    pub cpus: f64,
    /// Processes per run.
    pub pids: u32,
    /// MiB of writable disk per run.
    pub disk_mb: u32,
}
