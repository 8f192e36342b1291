//! The only place where an RPC error is made; a test of this module searches the crate for any other.
//!
//! | made by | mark |
//! |---|---|
//! | [`refused`] | in the body: a [`Refusal`] proves that nothing ran |
//! | [`before_handler`] | in the header, by the edge: no handler was reached |
//! | [`failed`] | as the error's own type says |
//! | [`internal`] | none: it may have run |

use connectrpc::{ConnectError, ErrorCode, ErrorDetail};
use plimsoll_core::{Code, Fault, FaultKind, Refusal, RunError};
use plimsoll_wire::ErrorAnswer;

use crate::handler::Handler;

/// A refusal, with its mark.
pub(crate) fn refused(refusal: &Refusal) -> ErrorAnswer {
    ErrorAnswer::refused(refusal)
}

/// An error raised before any handler was reached. Its mark is the header's.
pub(crate) fn before_handler(code: Code, message: impl Into<String>) -> ErrorAnswer {
    ErrorAnswer::unmarked(code, message)
}

/// How a run failed. The text of a fault of ours goes to the log; the caller is shown the id it stands under.
pub(super) fn failed(error: &RunError, handler: &dyn Handler) -> ErrorAnswer {
    match error {
        RunError::NotDispatched(refusal) if refusal.code() == Code::Internal => {
            let message = logged(&Fault::internal(refusal.message()), handler);
            let shown = Refusal::new(Code::Internal, refusal.reason(), message);
            refused(&match refusal.session_end() {
                Some(ended) => shown.with_session_end(ended.clone()),
                None => shown,
            })
        }
        RunError::NotDispatched(refusal) => refused(refusal),
        RunError::MayHaveRun(fault) if fault.kind() == FaultKind::Internal => internal(fault, handler),
        RunError::MayHaveRun(fault) => ErrorAnswer::unmarked(fault.code(), fault.message()),
    }
}

/// A fault of ours: unmarked, its text for the log only.
pub(super) fn internal(fault: &Fault, handler: &dyn Handler) -> ErrorAnswer {
    ErrorAnswer::unmarked(Code::Internal, logged(fault, handler))
}

fn logged(fault: &Fault, handler: &dyn Handler) -> String {
    let id = handler.log_fault(fault);
    format!("internal error {id}; the operator finds the cause in the daemon's log under this id")
}

/// The same error in the RPC library's type, for gRPC and gRPC-Web.
pub(super) fn connect_error(error: &ErrorAnswer) -> ConnectError {
    let code: ErrorCode = error.code().as_str().parse().unwrap_or(ErrorCode::Unknown);
    let mut made = ConnectError::new(code, error.message());
    made.details = error
        .details()
        .iter()
        .map(|detail| ErrorDetail {
            type_url: detail.kind.type_name().to_owned(),
            value: Some(detail.base64()),
            debug: None,
        })
        .collect();
    made
}
