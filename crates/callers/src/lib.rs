//! The caller registry: the clients file, the rules of who may be in it, and the editor that changes it (spec 20 §5.4, §6).
//!
//! ```text
//!  daemon ── ClientsFile::load ──┐
//!                                ├─► json ─► file (rules) ─► Client …
//!  editor ── edit ─ lock, load ──┘              ▲
//!               └── Change ─► the same rules ───┘─► temporary file ─► rename
//! ```
//!
//! Daemon and editor read with the same parser, and what the editor writes has passed it. Tokens are never kept: a file
//! holds their SHA-256, and a [`Token`] wipes itself.

mod change;
mod file;
mod identity;
mod json;
mod store;
mod token;

pub use change::{Change, ChangeError};
pub use file::{Client, ClientsError, ClientsFile, MAX_BYTES, Problem, Problems, parse, to_json};
pub use identity::check_identity;
pub use store::{Absent, EditError, Saved, edit};
pub use token::{MIN_TOKEN_BYTES, Token, TokenError};
