//! Canonical digests, run records, and the chain that links a session's calls.
//!
//! The daemon holds no key: a record is hashing only, over canonical bytes defined here and never over what an encoder
//! happens to emit. The same functions stamp records in the daemon and check them in a client, so the two cannot drift.

mod answer;
mod chain;
mod digest;
mod encode;
mod record;
mod verify;

pub use answer::{Answer, SessionAnswer};
pub use chain::{Chain, ChainBreak, ChainFault, Fingerprint, verify_chain};
pub use digest::{request_sha256, result_sha256, rule_id};
pub use record::{RecordFault, RunRecord, Stamp};
pub use verify::{LiveAnswer, LiveFault, is_instance, verify_live, verify_unanswered};
