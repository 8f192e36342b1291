//! The contract every provider implements, and the one way from an admitted call to a settled answer.
//!
//! A provider is handed an [`AdmittedCall`] and nothing else, so it cannot run what was not checked. The service and
//! the facade both drive calls through [`dispatch`], so a run in an embedder's program and a run through the daemon are
//! settled by the same lines.

mod clock;
mod disk;
mod dispatch;
mod egress;
mod provider;
mod session;
mod turn;

pub use clock::Received;
pub use disk::{DEFAULT_SESSION_DISK_MB, SESSION_DISK_MB, session_disk_mb};
pub use dispatch::{Dispatched, Settled, dispatch};
pub use egress::DispatchContext;
pub use provider::{AdmittedCall, BoxFuture, Disabled, ProviderFault, RunContext, Sandbox, ensure_ready};
pub use session::{OpenContext, SESSION_BOUND, Session, SessionCall, SessionPool, Sessions, Suspended, sweep};
pub use turn::{Stuck, TurnEnded, TurnSettled, run_in_turn};
