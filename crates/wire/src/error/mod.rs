//! Error answers: how a failure becomes bytes, and how bytes become what a client may believe.

mod answer;
mod detail;
mod remote;

pub use answer::{Detail, ErrorAnswer};
pub use detail::{DetailKind, decode_not_dispatched, decode_session_ended, decode_unanswered};
pub use remote::RemoteError;

#[cfg(test)]
mod tests;
