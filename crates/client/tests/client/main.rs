//! The client against servers that answer honestly, wrongly, late or not at all. One program: the client's own code is made
//! once for all of them.

mod answers;
#[cfg(feature = "blocking")]
mod blocking;
mod cancel;
mod common;
mod errors;
mod placement;
mod placement_sessions;
mod session_lifetimes;
mod sessions;
mod tls;
mod transport;
mod validation;
