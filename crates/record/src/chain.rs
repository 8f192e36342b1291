//! The chain that links a session's calls.

use std::fmt;

use crate::encode::sha256_hex;
use crate::record::{RecordFault, RunRecord};

/// The public name of a session: SHA-256 of its id's text. The id itself is a secret and never leaves this function.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Fingerprint(String);

impl Fingerprint {
    /// The fingerprint of a session id.
    pub fn of(session_id: &str) -> Self {
        Self(sha256_hex(session_id.as_bytes()))
    }

    /// 64 lowercase hex digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// How far a session's chain has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chain {
    fingerprint: Fingerprint,
    calls: u64,
    last_sha256: String,
}

/// A record does not continue the chain.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChainBreak {
    /// It belongs to another session.
    #[error("record belongs to another session")]
    Session,
    /// A call was dropped, repeated or reordered.
    #[error("record is call {found} of its session; call {expected} was expected")]
    Sequence {
        /// The place this chain is at.
        expected: u64,
        /// The place the record states.
        found: u64,
    },
    /// The record names another predecessor.
    #[error("record does not follow the previous call's record")]
    Previous,
}

impl Chain {
    /// A session that has answered no call yet.
    pub const fn new(fingerprint: Fingerprint) -> Self {
        Self {
            fingerprint,
            calls: 0,
            last_sha256: String::new(),
        }
    }

    /// The session's fingerprint.
    pub const fn fingerprint(&self) -> &Fingerprint {
        &self.fingerprint
    }

    /// Calls counted so far, unanswered ones included.
    pub const fn calls(&self) -> u64 {
        self.calls
    }

    /// Digest of the last counted call's record; empty before the first.
    pub fn last_sha256(&self) -> &str {
        &self.last_sha256
    }

    /// Checks that a record is the next one, and moves on only then.
    ///
    /// # Errors
    /// When the record belongs elsewhere; the chain stays where it was.
    pub fn follow(&mut self, record: &RunRecord) -> Result<(), ChainBreak> {
        if record.session != self.fingerprint.0 {
            return Err(ChainBreak::Session);
        }
        let expected = self.calls + 1;
        if record.sequence != expected {
            return Err(ChainBreak::Sequence {
                expected,
                found: record.sequence,
            });
        }
        if record.previous_sha256 != self.last_sha256 {
            return Err(ChainBreak::Previous);
        }
        self.calls = expected;
        self.last_sha256.clone_from(&record.record_sha256);
        Ok(())
    }
}

/// Why a stored chain does not stand, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChainFault {
    /// There is no record, so there is no chain to speak of.
    #[error("the chain holds no record")]
    Empty,
    /// A record does not stand by itself: it was changed.
    #[error("record {place} of the chain: {fault}")]
    Record {
        /// Which one, counted from 1.
        place: u64,
        /// What is wrong with it.
        fault: RecordFault,
    },
    /// A record does not continue the chain: one before it was dropped, or they were reordered.
    #[error("record {place} of the chain: {fault}")]
    Link {
        /// Which one, counted from 1.
        place: u64,
        /// What is wrong with it.
        fault: ChainBreak,
    },
}

/// Verifies the stored records of one session from its first call on, each by itself and each as the next of the one before.
/// A chain that was cut short at its end stands as far as it goes: compare [`Chain::calls`] and [`Chain::last_sha256`] with
/// the summary of the session's close.
///
/// # Errors
/// The first record that does not stand, or no record at all.
pub fn verify_chain<'r>(records: impl IntoIterator<Item = &'r RunRecord>) -> Result<Chain, ChainFault> {
    let mut records = records.into_iter().peekable();
    let first = records.peek().ok_or(ChainFault::Empty)?;
    let mut chain = Chain::new(Fingerprint(first.session.clone()));
    for (place, record) in (1..).zip(records) {
        record.verify().map_err(|fault| ChainFault::Record { place, fault })?;
        chain
            .follow(record)
            .map_err(|fault| ChainFault::Link { place, fault })?;
    }
    Ok(chain)
}
