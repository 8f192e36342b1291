//! What a daemon says about itself.

use plimsoll_core::limits::PROTOCOL;
use plimsoll_core::{Isolation, PayloadEnvironment, Resources, Tier};
use plimsoll_wire::pb;

/// A daemon's description. Every text is the daemon's own statement; only a run's record is checked.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Info {
    /// Provider id.
    pub provider: String,
    /// Tier word: `none`, `process`, `container`, `kernel`, `vm` or `unknown`.
    pub isolation: String,
    /// The one protocol number the daemon serves.
    pub protocol: u32,
    /// Whether projects run.
    pub supports_project: bool,
    /// Whether modules run.
    pub supports_module: bool,
    /// Whether a snippet can name a grant profile.
    pub supports_javascript_grants: bool,
    /// Whether a project can name a grant profile.
    pub supports_project_grants: bool,
    /// Whether sessions can be opened.
    pub supports_sessions: bool,
    /// Longest life of a session in milliseconds; 0 without sessions.
    pub session_lifetime_ms: u32,
    /// Idle milliseconds before a session is suspended; 0 without sessions, or when they never are.
    pub session_idle_timeout_ms: u32,
    /// What every call of a session runs in; empty without sessions.
    pub session_environment: PayloadEnvironment,
    /// What snippets run in; empty when they do not run.
    pub javascript_environment: PayloadEnvironment,
    /// What projects run in; empty when they do not run.
    pub project_environment: PayloadEnvironment,
    /// What modules run in; empty when they do not run.
    pub module_environment: PayloadEnvironment,
    /// Open sessions one caller may hold; 0 = no cap.
    pub max_sessions_per_caller: u32,
    /// Open sessions one owner may hold; 0 = no cap.
    pub max_sessions_per_owner: u32,
    /// Digest of the verified sandbox policy, or empty.
    pub policy: String,
    /// The operator's resource envelope; 0 in any field is the provider's default.
    pub resources: Resources,
}

impl Info {
    /// Whether the stated tier is at least the floor.
    pub fn meets(&self, floor: Tier) -> bool {
        Isolation::from_wire(&self.isolation).meets(Some(floor))
    }

    /// Whether the daemon serves the protocol number this client speaks.
    pub(crate) const fn is_our_protocol(&self) -> bool {
        self.protocol == PROTOCOL
    }
}

impl From<pb::DescribeResponse> for Info {
    fn from(answer: pb::DescribeResponse) -> Self {
        Self {
            provider: answer.sandbox,
            isolation: answer.isolation,
            protocol: answer.protocol,
            supports_project: answer.supports_project,
            supports_module: answer.supports_module,
            supports_javascript_grants: answer.supports_javascript_grants,
            supports_project_grants: answer.supports_project_grants,
            supports_sessions: answer.supports_sessions,
            session_lifetime_ms: answer.session_lifetime_ms,
            session_idle_timeout_ms: answer.session_idle_timeout_ms,
            session_environment: environment(answer.session_environment.into_option()),
            javascript_environment: environment(answer.javascript_environment.into_option()),
            project_environment: environment(answer.project_environment.into_option()),
            module_environment: environment(answer.module_environment.into_option()),
            max_sessions_per_caller: answer.max_sessions_per_caller,
            max_sessions_per_owner: answer.max_sessions_per_owner,
            policy: answer.policy,
            resources: answer
                .resources
                .into_option()
                .map_or_else(Resources::default, |resources| Resources {
                    memory_mb: resources.memory_mb,
                    cpus: resources.cpus,
                    pids: resources.pids,
                    disk_mb: resources.disk_mb,
                }),
        }
    }
}

fn environment(environment: Option<pb::PayloadEnvironment>) -> PayloadEnvironment {
    environment.map_or_else(PayloadEnvironment::default, |environment| PayloadEnvironment {
        identity: environment.identity,
        max_timeout_ms: environment.max_timeout_ms,
        software_identity: environment.software_identity,
        languages: environment.languages,
    })
}
