//! The wire: generated messages, their conversions to and from the types of `core` and `record`, the strict JSON scanner,
//! error answers with their details, and the names of the transport.
//!
//! What travels is decided here and nowhere else; the daemon and the clients use the same functions.
//!
//! ```text
//! bytes ──► json::scan ──► generated decoder ──► pb message ──► core type      (JSON)
//! bytes ─────────────────► generated decoder ──► pb message ──► core type      (binary)
//! ```

mod convert;
pub mod error;
mod generated;
pub mod http;
pub mod json;

pub use convert::{
    BinaryError, decode_run_binary, decode_run_json, describe_response, describe_with_sessions, from_binary, to_binary,
};
pub use error::{ErrorAnswer, RemoteError};
/// The generated messages of `plimsoll.v1`.
pub use generated::plimsoll::v1 as pb;
