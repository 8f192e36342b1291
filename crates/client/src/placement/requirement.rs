//! What a caller asks of the backend of its calls.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use plimsoll_core::{SoftwareRule, Tier};

use crate::info::Info;

type Prefer = Arc<dyn Fn(&Info, &Info) -> Ordering + Send + Sync>;

/// What a backend must be to be sent a call. Empty to begin with: every backend that can run the call will do.
///
/// Everything but `prefer` is compared with the daemon's own description; the floor, the software rule and the environment are
/// checked again on the answer's record.
#[derive(Clone)]
#[must_use = "a requirement does nothing until a pool has it"]
pub struct Requirement {
    pub(super) backend: Option<String>,
    pub(super) provider: Option<String>,
    pub(super) floor: Option<Tier>,
    pub(super) environment: Option<String>,
    pub(super) software: SoftwareRule,
    pub(super) grant: bool,
    pub(super) prefer: Option<Prefer>,
}

impl Requirement {
    /// Asks for nothing.
    pub fn new() -> Self {
        Self {
            backend: None,
            provider: None,
            floor: None,
            environment: None,
            software: SoftwareRule::NONE,
            grant: false,
            prefer: None,
        }
    }

    /// Only the backend of this name. One that cannot take the call is an error; no other one is tried.
    pub fn backend(mut self, name: impl Into<String>) -> Self {
        self.backend = Some(name.into());
        self
    }

    /// Only daemons of this provider, by its id: `docker`, `wasm`.
    pub fn provider(mut self, id: impl Into<String>) -> Self {
        self.provider = Some(id.into());
        self
    }

    /// Only behind a wall at least this strong. The call states its own floor all the same; the stronger of both is sent.
    pub const fn floor(mut self, floor: Tier) -> Self {
        self.floor = Some(floor);
        self
    }

    /// Only in this environment, by its exact identity. An answer whose record names another one is
    /// [`crate::ErrorKind::EnvironmentMismatch`]; in a session that holds for every call.
    pub fn environment(mut self, identity: impl Into<String>) -> Self {
        self.environment = Some(identity.into());
        self
    }

    /// Only software that this rule lists. Where the call has a rule too, both must accept; what they share is sent.
    pub fn software(mut self, rule: SoftwareRule) -> Self {
        self.software = rule;
        self
    }

    /// Only backends whose calls of this kind can act under a grant profile. A call that names a profile asks for that anyway.
    pub const fn grant(mut self) -> Self {
        self.grant = true;
        self
    }

    /// Tries backends in this order instead of the pool's; those that compare as equal stay in the pool's. It must be a total
    /// order. All backends are described before the first is sent anything.
    pub fn prefer(mut self, order: impl Fn(&Info, &Info) -> Ordering + Send + Sync + 'static) -> Self {
        self.prefer = Some(Arc::new(order));
        self
    }
}

impl Default for Requirement {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Requirement")
            .field("backend", &self.backend)
            .field("provider", &self.provider)
            .field("floor", &self.floor)
            .field("environment", &self.environment)
            .field("software", &self.software)
            .field("grant", &self.grant)
            .field("prefer", &self.prefer.is_some())
            .finish()
    }
}
