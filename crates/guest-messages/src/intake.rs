//! PID 1's reader: its input comes from the host alone, so anything that is not the next frame is a violation.

use zeroize::Zeroize;

use crate::codec::CodecError;
use crate::frame::{Direction, Header, Key};
use crate::host::{HostMessage, Open};
use crate::limits::{MAX_HEADER, PROTOCOL_VERSION};

/// Input that no host of this version writes.
#[derive(Debug, thiserror::Error)]
pub enum IntakeError {
    /// Not a frame where one must start.
    #[error("input is not a frame")]
    NotAFrame,
    /// A frame out of order, or one whose proof is wrong.
    #[error("frame does not verify")]
    Unauthenticated,
    /// The first frame must open the sandbox, and only the first.
    #[error("frame kind {0:?} does not belong here")]
    Unexpected(char),
    /// A signed body that is not a message of this version.
    #[error(transparent)]
    Body(#[from] CodecError),
    /// Host and guest binary are of different versions.
    #[error("host speaks version {0}; this guest binary speaks {PROTOCOL_VERSION}; rebuild the image")]
    Version(u32),
}

/// Reads the host's frames, strictly.
#[derive(Debug, Default)]
pub struct Intake {
    buffer: Vec<u8>,
    next: u32,
    key: Option<Key>,
}

impl Intake {
    /// A reader that waits for the opening frame.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next bytes of the stream.
    pub fn feed(&mut self, chunk: &[u8]) {
        self.buffer.extend_from_slice(chunk);
    }

    /// The next message, or `None` while it is incomplete.
    ///
    /// # Errors
    /// When the input is not what the host writes. The stream is then of no use any more.
    pub fn next_message(&mut self) -> Result<Option<HostMessage>, IntakeError> {
        let window = &self.buffer[..self.buffer.len().min(MAX_HEADER)];
        let Some(line) = window.iter().position(|byte| *byte == b'\n') else {
            return if window.len() == MAX_HEADER {
                Err(IntakeError::NotAFrame)
            } else {
                Ok(None)
            };
        };
        let header = Header::parse(&self.buffer[..line]).ok_or(IntakeError::NotAFrame)?;
        let end = line + 1 + header.len;
        // A forged header is refused before its body is awaited. The opening frame brings the key that proves it.
        if let Some(key) = &self.key
            && !(header.sequence == self.next && header.admitted(key, Direction::ToGuest))
        {
            return Err(IntakeError::Unauthenticated);
        }
        if self.buffer.len() < end {
            return Ok(None);
        }
        let message = self.accept(&header, line + 1..end);
        // The opening frame held the key and a plan may hold secrets of its author: leave no copy in the heap.
        let mut rest = self.buffer.split_off(end);
        std::mem::swap(&mut rest, &mut self.buffer);
        rest.zeroize();
        message.map(Some)
    }

    fn accept(&mut self, header: &Header, place: std::ops::Range<usize>) -> Result<HostMessage, IntakeError> {
        let body = &self.buffer[place];
        let message = match (&self.key, HostMessage::decode(header.kind, body)) {
            (None, Ok(HostMessage::Open(open))) => {
                self.key = Some(open.key.clone());
                HostMessage::Open(open)
            }
            (None, Ok(early @ (HostMessage::Run(_) | HostMessage::Ping | HostMessage::Stop))) => {
                return Err(IntakeError::Unexpected(char::from(early.kind())));
            }
            (Some(_), Ok(HostMessage::Open(_))) => return Err(IntakeError::Unexpected(char::from(header.kind))),
            (None, Err(_)) if Open::version_of(body).is_some_and(|version| version != PROTOCOL_VERSION) => {
                return Err(IntakeError::Version(Open::version_of(body).unwrap_or_default()));
            }
            (_, decoded) => decoded?,
        };
        let proven = self.key.as_ref().is_some_and(|key| {
            header.sequence == self.next
                && header.admitted(key, Direction::ToGuest)
                && header.proven(key, Direction::ToGuest, body)
        });
        if !proven {
            return Err(IntakeError::Unauthenticated);
        }
        if let HostMessage::Open(open) = &message
            && open.version != PROTOCOL_VERSION
        {
            return Err(IntakeError::Version(open.version));
        }
        self.next += 1;
        Ok(message)
    }
}
