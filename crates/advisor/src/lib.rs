//! Advice on how a run used an API, from its call trace alone; and the report page.
//!
//! ```text
//! CallTrace + Profile ── advise ──► findings ─┬─ for_caller ──► the answer of the run
//!                                             ├─ audit ───────► its audit line ──► report (HTML or JSON)
//!                                             └─ metrics ─────► counters
//! ```
//!
//! Everything here is a pure function and runs after the result of the run is final, so advice cannot change a run. A
//! finding is built from route templates of the operator's allow list, verbs, labels and numbers; no text a guest or an
//! API wrote has a way in.

mod audience;
mod audit;
mod detect;
mod finding;
mod metrics;
mod prompt;
pub mod report;
mod words;

use plimsoll_grants::CallTrace;
use plimsoll_grants::profiles::{Audience, Profile};

pub use audience::for_caller;
pub use audit::{AuditAdvice, FindingDetails, audit};
pub use detect::{FAN_OUT_CALLS, HIGH_CALLS, MEDIUM_CALLS, REPEATED_READS, Routes, detect};
pub use finding::{Class, Cost, Finding, Pattern, Remedy, Replacement, Severity};
pub use metrics::{MetricIncrease, MetricLabels, metrics};
pub use prompt::prompt;

/// The findings of a run under its profile; none when the profile's advice is off.
///
/// Call it for runs that returned a result, after that result is final.
pub fn advise(trace: &CallTrace, profile: &Profile) -> Vec<Finding> {
    if profile.advice() == Audience::Off {
        return Vec::new();
    }
    detect(
        trace,
        Routes {
            allow: profile.grant().allow(),
            catalog: profile.catalog(),
            batch_of: profile.batch_of(),
        },
    )
}
