//! The seam between what carries bytes and what runs calls.
//!
//! The edge and the RPC layer know this trait and nothing of providers, limits or records; the corridor implements it
//! and knows nothing of HTTP.

use std::sync::Arc;
use std::time::Instant;

use plimsoll_core::{Evidence, Fault, Refusal, RunError, RunRequest};
use plimsoll_record::Answer;
use plimsoll_sandbox::{BoxFuture, Received};
use tokio_util::sync::CancellationToken;

use crate::auth::Principal;

/// Who calls, since when, and until when the answer matters.
#[derive(Clone, Debug)]
pub struct CallContext {
    /// The authenticated caller.
    pub principal: Principal,
    /// When the handler was reached.
    pub received: Received,
    /// The caller's own deadline, from `Connect-Timeout-Ms` or `grpc-timeout`.
    pub deadline: Option<Instant>,
    /// Fires when the caller has gone.
    pub cancelled: CancellationToken,
}

/// What stands behind the procedures.
pub trait Handler: Send + Sync + 'static {
    /// Current evidence; Describe is made of it alone.
    fn describe(&self) -> Arc<Evidence>;

    /// Runs one decoded request to its final answer.
    ///
    /// The call runs in a task of its own: dropping the returned future cancels the run but not its settlement.
    fn run(&self, context: CallContext, request: RunRequest) -> BoxFuture<'static, Result<Answer, RunError>>;

    /// Told of every refusal made before a run reached [`Handler::run`], for the metrics.
    fn refused(&self, refusal: &Refusal);

    /// Writes an internal fault to the log and gives the id the caller is shown instead of its text.
    fn log_fault(&self, fault: &Fault) -> String;
}
