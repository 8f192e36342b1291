//! Embed plimsoll: a sandbox inside your own program, with no daemon.
//!
//! ```no_run
//! use plimsoll::{Sandbox, Tier};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let sandbox = Sandbox::wasm().memory_mb(64).build().await?;
//! let run = sandbox.run_javascript("console.log(6 * 7)").floor(Tier::Process).send().await?;
//! assert_eq!(run.stdout, b"42\n");
//! println!("ran behind tier {}, record {}", run.tier, run.record.record_sha256);
//! # Ok(())
//! # }
//! ```
//!
//! The floor is part of the call: a run without `.floor(…)` or `.any_tier()` does not compile. A failure is one of two
//! things, [`RunError::NotDispatched`] (nothing ran, and why) or [`RunError::MayHaveRun`], and nothing turns the second
//! into the first. What a program does, its own failure and its timeout included, is a [`Run`].
//!
//! Files with steps are a [`Project`]: `node FILE` steps on wasm, shell steps on a provider with a shell; [`Sandbox::from_env`] and
//! [`Sandbox::from_lookup`] give the provider that variables choose, `docker` for one. A program that ends soon after its
//! last run asks for [`Sandbox::drain`] first, so that nothing of it is left.
//!
//! A conversation keeps one sandbox: [`Sandbox::open_session`] gives a [`Session`], whose calls share files and interpreters
//! and whose records form a chain ([`verify_chain`]).
//!
//! Beside the sandbox this crate holds what every binary of this workspace starts from: the provider [`registry`], the
//! process environment ([`mod@env`]) and the table of all [`variables`].

#[cfg(doctest)]
mod compile_fail;
mod embed;
pub mod env;
pub mod registry;
pub mod variables;

pub use embed::{
    BuildError, Capacity, CapacityError, Cell, CellRun, FloorMissing, FloorStated, OpenSession, Project, ProjectRun,
    Run, RunCall, RunKind, Sandbox, Session, SessionCall, SessionSummary, Stated, TakesGrant, WasmBuilder,
};
pub use plimsoll_core::{
    Artifact, Code, Diagnostics, Evidence, Fault, FaultKind, Isolation, Limit, ProjectOutcome, Reason, Refusal,
    RunError, RunRequest, SessionEnd, SessionEnded, SessionEvidence, SessionSupport, SoftwareRule, StepResult, Tier,
    Trap,
};
pub use plimsoll_record::{Answer, ChainFault, RunRecord, verify_chain};
pub use plimsoll_sandbox::ProviderFault;

/// Grants: letting a program call listed routes of one API without holding its credential.
pub mod grants {
    pub use plimsoll_broker::CauseObserver;
    pub use plimsoll_core::AdviceFinding;
    pub use plimsoll_grants::{
        Audience, CallRow, CallTrace, Credential, Grant, GrantError, GrantSpec, JwtMinter, JwtSettings, MintError,
        MintFuture, MintScope, Minter, Profile, ProfileError, Profiles, Retention, Route, StaticMinter,
    };
}
pub use plimsoll_wasm::{NOTICES as ENGINE_NOTICES, before_hardening};
