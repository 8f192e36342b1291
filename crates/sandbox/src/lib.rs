//! The contract every provider implements, and the one way from an admitted call to a settled answer.
//!
//! A provider is handed an [`Admitted`] call and nothing else, so it cannot run what was not checked. The service and
//! the facade both drive calls through [`dispatch`], so a run in an embedder's program and a run through the daemon are
//! settled by the same lines.

mod clock;
mod dispatch;
mod provider;

pub use clock::Received;
pub use dispatch::{Dispatched, Settled, dispatch};
pub use plimsoll_core::{Admitted, NoGrant};
pub use provider::{BoxFuture, Disabled, ProviderFault, RunContext, Sandbox, ensure_ready};
