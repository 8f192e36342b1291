//! What is said about one session: its id, and the answers to opening and closing it.

use std::fmt;

use crate::error::SessionEnd;

/// The secret that names a session to its caller: whoever has it can run in the session. It is not shown by `Debug`.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct SessionId(String);

impl SessionId {
    /// An id as it was made or sent; nothing is checked.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The id's text, for its fingerprint and for the answer to the open; nowhere else.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SessionId(…)")
    }
}

/// A session call as it was sent (schema `SessionRunRequest`): which session, and the run it stands for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SessionRunRequest {
    /// Which session.
    pub session_id: SessionId,
    /// What to run, as digests cover it.
    pub run: crate::RunRequest,
}

/// A session that is to be closed (schema `CloseSessionRequest`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CloseRequest {
    /// Must be [`crate::limits::PROTOCOL`].
    pub protocol: u32,
    /// Which session.
    pub session_id: SessionId,
}

/// An open session as its caller is told of it (schema `OpenSessionResponse`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenedSession {
    /// The secret.
    pub session_id: SessionId,
    /// Its fingerprint, which is public.
    pub session: String,
    /// Provider id.
    pub sandbox: String,
    /// Tier word, as measured at open.
    pub isolation: String,
    /// When its lifetime ends, in Unix milliseconds.
    pub expires_unix_ms: i64,
    /// Idle milliseconds before it is suspended; 0 = never.
    pub idle_timeout_ms: u32,
    /// Software it runs, or empty.
    pub software_identity: String,
}

/// A closed session as its caller is told of it (schema `CloseSessionResponse`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClosedSession {
    /// Its fingerprint.
    pub session: String,
    /// Calls of its chain, unanswered ones included.
    pub calls: u64,
    /// Digest of the last one's record; empty without calls.
    pub last_record_sha256: String,
    /// How it ended.
    pub ended: SessionEnd,
}
