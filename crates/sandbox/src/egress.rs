//! What a granted run gets before it starts and loses when it ends: its credential, inside its broker.

use std::sync::Arc;
use std::time::{Duration, Instant};

use plimsoll_broker::{Broker, BrokerOptions};
use plimsoll_core::{Code, Reason, Refusal};
use plimsoll_grants::mint;
use tokio_util::sync::CancellationToken;

use crate::dispatch::caught;
use crate::provider::AdmittedCall;

/// What surrounds a call that is about to be dispatched.
#[derive(Clone, Debug)]
pub struct DispatchContext {
    /// The latest moment the call may run to, whatever its own timeout says.
    pub deadline: Instant,
    /// Fires when the caller has gone or the daemon is stopping.
    pub cancelled: CancellationToken,
    /// How the broker of a granted run reaches its API, and who is told of its calls.
    pub broker: BrokerOptions,
}

impl DispatchContext {
    /// Why nothing may start any more, if so.
    pub(crate) fn over(&self) -> Option<Refusal> {
        if self.cancelled.is_cancelled() {
            return Some(gone());
        }
        (self.deadline <= Instant::now()).then(too_late)
    }
}

/// Mints the call's credential and opens its broker; `None` for a call without a grant. Nothing of the guest runs here, so
/// every failure is a refusal.
///
/// # Errors
/// Marked `permission` when the credential cannot be issued, `capacity` when the caller or the time is gone first.
pub(crate) async fn open(
    call: &AdmittedCall,
    time_limit: impl FnOnce() -> Duration,
    context: &DispatchContext,
) -> Result<Option<Arc<Broker>>, Refusal> {
    let Some(selected) = call.grant() else {
        return Ok(None);
    };
    let grant = selected.profile().grant();
    let minting = || mint::mint(grant, selected.subject(), time_limit());
    let deadline = tokio::time::Instant::from_std(context.deadline);
    let credential = tokio::select! {
        biased;
        () = context.cancelled.cancelled() => return Err(gone()),
        () = tokio::time::sleep_until(deadline) => return Err(too_late()),
        // Provider and minter may be an embedder's own; their panic is their failure, not the daemon's.
        minted = caught(minting) => match minted {
            Ok(minted) => minted.map_err(|error| not_issued(&error))?,
            Err(_) => return Err(not_issued(&"the provider or the minter panicked")),
        },
    };
    Broker::open(grant.clone(), credential, context.broker.clone())
        .map(Some)
        .map_err(|error| not_issued(&error))
}

fn not_issued(cause: &dyn std::fmt::Display) -> Refusal {
    Refusal::new(
        Code::Internal,
        Reason::Permission,
        format!("the grant could not be issued, so nothing ran: {cause}"),
    )
}

fn gone() -> Refusal {
    Refusal::caller_gone("the caller went away before the run began")
}

fn too_late() -> Refusal {
    Refusal::too_late("the call's deadline passed before the run began")
}
