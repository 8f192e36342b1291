//! The host side of the guest protocol.
//!
//! A [`GuestLink`] draws the key of one sandbox, writes the host's frames to any asynchronous writer, and is fed the
//! bytes that come back. It knows nothing of engines: a provider owns the pipes, the deadlines and the tear-down.
//!
//! ```text
//! open ──► Ready ──► run ──► Started, Heartbeat… ──► SnippetEnd | Report | ProbeReport | Fault
//!              ▲      └ in a session also: CellEnd | NotRun | Warm | Swept ┐
//!              └──────────────────────── the next run ─────────────────────┘
//! ```

mod link;

pub use link::{GuestLink, OpenSpec, SendError, Verdict};
/// The messages themselves, so that a provider needs one dependency.
pub use plimsoll_guest_messages as messages;
