//! Tiers, requests, results, refusals, and the corridor every run walks through.
//!
//! This is the ground floor: pure types and rules with no input or output, no async and no transport. Whatever a
//! caller sends becomes a [`RunRequest`]; the corridor turns it, step by step and in one fixed order, into an
//! [`Admitted`] call, which is the only thing a provider can be handed:
//!
//! ```text
//! RunRequest ── validate ──► Validated ── grant ──► Validated<Granted> ── authorize(&Evidence) ──► Authorized
//!                                                                              ── admit(Permit) ──► Admitted
//! ```
//!
//! A session has a corridor of its own, from [`AuthorizedOpen`] to [`AdmittedOpen`] and, for each of its calls, from
//! [`Addressed`] over the session's [`Turn`] to [`InTurn`].
//!
//! Every arrow consumes what it starts from, and the types behind it have private fields. "The floor was compared
//! against current evidence" is therefore a property the compiler checks, not a habit.

mod corridor;
mod error;
mod evidence;
pub mod limits;
mod request;
mod result;
mod session;
mod software;
mod tier;
mod trace;
mod validate;
pub mod vars;

pub use corridor::{
    Addressed, Admitted, AdmittedOpen, Authorized, AuthorizedOpen, Granted, InSession, InTurn, Pending, Permit, Turn,
    Turned, Validated, Waiting, check_protocol,
};
pub use error::{Code, Fault, FaultKind, Reason, Refusal, RunError, SessionEnd, SessionEnded};
pub use evidence::{
    Availability, Environments, Evidence, GrantSupport, PayloadEnvironment, Resources, SessionEvidence, SessionSupport,
    SessionTerms,
};
pub use request::{
    CellRun, JavaScriptRun, ModuleRun, OpenRequest, Payload, PayloadKind, ProjectFile, ProjectRun, RunRequest,
};
pub use result::{
    AdviceFinding, Artifact, CellResult, Diagnostics, JavaScriptResult, Limit, ModuleResult, ModuleRowResult, Outcome,
    ProjectOutcome, ProjectResult, RunResult, StepResult, Trap,
};
pub use session::{CloseRequest, ClosedSession, OpenedSession, SessionId, SessionRunRequest};
pub use software::{RuleMode, SoftwareRule, SoftwareRuleText};
pub use tier::{Isolation, Tier, UnknownTier};
pub use trace::{TraceId, TraceIdRejected};
pub use validate::{validate_cell, validate_language, validate_owner};
