//! What preflight has established: one immutable state, replaced whole, that every run launches under.

use std::sync::Arc;
use std::time::Duration;

use plimsoll_core::Tier;
use tokio::time::Instant;

use crate::cores::Cores;
use crate::endpoint::Endpoint;
use crate::engine::{ApiVersion, Engine, EngineFacts};
use crate::runtime::Runtime;
use crate::seccomp::Confinement;
use crate::settings::RunLimits;

/// How long the result of a probe holds; at exactly this age it is refreshed.
pub const FRESH_FOR: Duration = Duration::from_secs(5);

/// One image, by content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifiedImage {
    /// As configured.
    pub reference: String,
    /// What runs: `sha256:` and 64 hex digits.
    pub content_id: String,
    /// What it declares for its containers' environment, in its order.
    pub environment: Vec<(String, String)>,
    /// Its software identity; empty claims nothing.
    pub manifest: String,
}

impl VerifiedImage {
    /// The identity stated for what runs in it; never a tag.
    pub fn identity(&self) -> String {
        format!("docker-image:{}", self.content_id)
    }
}

/// The state of one successful probe.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Where the engine is.
    pub endpoint: Endpoint,
    /// The conversation with it.
    pub engine: Engine,
    /// What it says about itself and its host.
    pub facts: EngineFacts,
    /// The runtime containers start with.
    pub runtime: Runtime,
    /// Whether this probe saw the runtime registered under its own name and program.
    pub runtime_verified: bool,
    /// User and group of guests, checked against this host.
    pub guest_uid: u32,
    /// What a run may use.
    pub limits: RunLimits,
    /// The system calls guests may make.
    pub confinement: Confinement,
    /// The platform images were verified for, where the engine can say.
    pub platform: Option<String>,
    /// Image of snippets.
    pub javascript: Arc<VerifiedImage>,
    /// Image of projects.
    pub project: Arc<VerifiedImage>,
    /// The processors containers are spread over; the same for the life of the process.
    pub cores: Arc<Cores>,
    /// When the probe succeeded.
    pub at: Instant,
}

impl Snapshot {
    /// The tier this state can show, before any smoke test: configuration evidence, never attestation.
    pub fn tier(&self) -> Tier {
        if self.runtime.is_gvisor() && self.runtime_verified {
            Tier::Kernel
        } else {
            Tier::Container
        }
    }

    /// The API version in use.
    pub const fn api(&self) -> ApiVersion {
        self.engine.api()
    }

    /// Whether the state is too old to be taken without a new probe.
    pub fn is_stale(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.at) >= FRESH_FOR
    }

    /// The images, each content once.
    pub fn images(&self) -> Vec<&Arc<VerifiedImage>> {
        let mut images = vec![&self.javascript];
        if self.project.content_id != self.javascript.content_id {
            images.push(&self.project);
        }
        images
    }
}
