//! What a provider offers.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use plimsoll_broker::Broker;
use plimsoll_core::limits::MAX_TIMEOUT;
use plimsoll_core::{Admitted, Evidence, Fault, Outcome, Payload, Refusal, RunError};
use plimsoll_grants::SelectedGrant;
use tokio_util::sync::CancellationToken;

use crate::session::Sessions;

/// A future a trait object can return.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// How long start-up waits for a provider to become ready.
const READY_BUDGET: Duration = Duration::from_secs(120);

/// A call that passed the corridor, with the grant it selected if it selected one.
pub type AdmittedCall = Admitted<Option<SelectedGrant>>;

/// A provider is not ready. The text names what is missing and what helps.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{phase}: {cause}")]
pub struct ProviderFault {
    /// `preflight`, `smoke test`, `reconcile`, `drain`, or what was asked of a session.
    pub phase: &'static str,
    /// For the operator's log; never for a caller.
    pub cause: String,
}

/// What surrounds one dispatched call.
#[derive(Clone, Debug)]
pub struct RunContext {
    /// The latest moment the call may run to, whatever its own timeout says.
    pub deadline: Instant,
    /// Fires when the caller has gone or the daemon is stopping.
    pub cancelled: CancellationToken,
    /// Answers the guest's host calls, for a run with a grant. Its authority ends with the run, whatever the provider does.
    pub broker: Option<Arc<Broker>>,
}

/// An execution backend.
///
/// `run` is handed only calls that passed the corridor. It compares floor, rule and support once more with the state it
/// actually launches ([`Admitted::recheck`]), answers a [`Refusal`] only while it is certain that nothing ran, and a
/// [`Fault`] from the moment code may have.
pub trait Sandbox: Send + Sync + 'static {
    /// Current evidence. Asked several times on every call, so a provider keeps it ready and replaces it whole.
    fn evidence(&self) -> Arc<Evidence>;

    /// Bounded, free of charge: configuration and reachable dependencies. (Re-)establishes evidence.
    fn preflight(&self) -> BoxFuture<'_, Result<(), ProviderFault>>;

    /// Behavioural proof with throwaway sandboxes through the exact run path. Start-up only.
    fn smoke_test(&self) -> BoxFuture<'_, Result<(), ProviderFault>>;

    /// The longest the guest of this call may run: what was asked for, within the provider's own bounds. A credential is
    /// minted for this long.
    fn time_limit(&self, call: &AdmittedCall) -> Duration;

    /// Why a payload of a stated kind can never run here, single or in a session, as far as the payload itself tells; `None`
    /// where it may. Asked of every call before it takes a slot, a token or a session's turn, so that such a call costs
    /// nothing and is never told to be busy. Whoever refuses here refuses the same in `run`: not every caller asks first.
    fn never_runs(&self, _: &Payload) -> Option<Refusal> {
        None
    }

    /// Runs one call.
    fn run<'a>(&'a self, call: &'a AdmittedCall, context: RunContext) -> BoxFuture<'a, Result<Outcome, RunError>>;

    /// The half that keeps sessions; `None` where [`Evidence::sessions`] is `None`.
    fn sessions(&self) -> Option<&dyn Sessions> {
        None
    }

    /// Removes what a process that died left behind, and answers how many sandboxes that were. Called at start and once a
    /// minute; never touches what a live run of anybody uses. A provider that leaves nothing behind has nothing to do.
    ///
    /// # Errors
    /// What could not be looked at or removed, for the operator's log.
    fn reconcile(&self) -> BoxFuture<'_, Result<usize, ProviderFault>> {
        Box::pin(async { Ok(0) })
    }

    /// After the last call: removes what is kept ready, and waits for what is removed off the result path.
    ///
    /// # Errors
    /// What could not be removed; a later [`Sandbox::reconcile`] finds it.
    fn drain(&self) -> BoxFuture<'_, Result<(), ProviderFault>> {
        Box::pin(async { Ok(()) })
    }
}

/// Preflight, then the smoke test, within two minutes; the first failure wins.
///
/// # Errors
/// The failing phase, or that the time is up.
pub async fn ensure_ready(sandbox: &dyn Sandbox) -> Result<(), ProviderFault> {
    let ready = async {
        sandbox.preflight().await?;
        sandbox.smoke_test().await
    };
    tokio::time::timeout(READY_BUDGET, ready).await.unwrap_or_else(|_| {
        Err(ProviderFault {
            phase: "readiness",
            cause: format!("not ready within {} s", READY_BUDGET.as_secs()),
        })
    })
}

/// The provider of a daemon whose operator chose none: it runs nothing and says so.
#[derive(Clone, Copy, Debug, Default)]
pub struct Disabled;

impl Sandbox for Disabled {
    fn evidence(&self) -> Arc<Evidence> {
        Arc::new(Evidence::disabled())
    }

    fn preflight(&self) -> BoxFuture<'_, Result<(), ProviderFault>> {
        Box::pin(async { Ok(()) })
    }

    fn smoke_test(&self) -> BoxFuture<'_, Result<(), ProviderFault>> {
        Box::pin(async { Ok(()) })
    }

    fn time_limit(&self, call: &AdmittedCall) -> Duration {
        call.timeout(MAX_TIMEOUT, MAX_TIMEOUT)
    }

    fn run<'a>(&'a self, call: &'a AdmittedCall, _: RunContext) -> BoxFuture<'a, Result<Outcome, RunError>> {
        let refused: Result<(), Refusal> = call.recheck(&Evidence::disabled());
        Box::pin(async move {
            refused?;
            Err(Fault::internal("the disabled provider was handed a call that its own evidence refuses").into())
        })
    }
}
