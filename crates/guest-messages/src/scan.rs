//! The host's reader: finds the frames of PID 1 in a stream that anybody in the sandbox might have written to.

use crate::codec::CodecError;
use crate::frame::{Direction, FRAME_START, Header, Key};
use crate::guest::GuestMessage;
use crate::limits::{MAX_HEADER, MAX_NOISE};

/// Reads frames that PID 1 signed, in order, each once. Everything else is noise and is skipped.
///
/// Memory is bounded by one frame, time is linear in the input: only a header that verifies makes the scanner wait for a
/// body. The first signed frame that cannot be decoded ends the reading; nothing is guessed after it.
#[derive(Debug)]
pub struct Scanner {
    key: Key,
    buffer: Vec<u8>,
    /// Nothing can be decided before the buffer holds this many bytes.
    needed: usize,
    next: u32,
    noise: usize,
    forged: u64,
    undecodable: Option<CodecError>,
    overflowed: bool,
}

impl Scanner {
    /// A scanner for one sandbox.
    pub fn new(key: Key) -> Self {
        Self {
            key,
            buffer: Vec::new(),
            needed: 0,
            next: 0,
            noise: 0,
            forged: 0,
            undecodable: None,
            overflowed: false,
        }
    }

    /// Takes the next bytes of the stream and answers the messages that are complete now.
    pub fn feed(&mut self, chunk: &[u8]) -> Vec<GuestMessage> {
        let mut messages = Vec::new();
        if self.finished() {
            return messages;
        }
        self.buffer.extend_from_slice(chunk);
        if self.buffer.len() < self.needed {
            return messages;
        }
        let mut at = 0;
        while !self.finished() {
            match self.step(at) {
                Step::Skip(to) => {
                    self.noise += to - at;
                    self.overflowed = self.noise > MAX_NOISE;
                    at = to;
                }
                Step::Message(to, message) => {
                    if message.ends_call() {
                        self.noise = 0;
                    }
                    messages.push(message);
                    at = to;
                }
                Step::Undecodable(error) => self.undecodable = Some(error),
                Step::NeedMore(bytes) => {
                    self.needed = bytes;
                    break;
                }
            }
        }
        if self.finished() {
            self.buffer = Vec::new();
        } else {
            self.buffer.drain(..at);
        }
        messages
    }

    /// Starts of frames that did not verify so far. A start that waits for the rest of its header or body counts as one.
    pub fn forged(&self) -> u64 {
        let waiting = self.buffer.starts_with(FRAME_START);
        self.forged + u64::from(waiting)
    }

    /// Why a signed frame could not be decoded, if one could not.
    pub fn undecodable(&self) -> Option<&CodecError> {
        self.undecodable.as_ref()
    }

    /// True when more than [`MAX_NOISE`] bytes belonged to no frame; the scanner reads nothing more then.
    pub fn overflowed(&self) -> bool {
        self.overflowed
    }

    fn finished(&self) -> bool {
        self.overflowed || self.undecodable.is_some()
    }

    fn step(&mut self, at: usize) -> Step {
        let rest = &self.buffer[at..];
        let start = match find_start(rest) {
            Some(0) => rest,
            Some(skip) => return Step::Skip(at + skip),
            None => return Step::NeedMore(0),
        };
        if start.len() < FRAME_START.len() {
            return Step::NeedMore(0);
        }
        // The start cannot overlap itself, so the search goes on behind it.
        let behind = at + FRAME_START.len();
        let window = &start[..start.len().min(MAX_HEADER)];
        let Some(line) = window.iter().position(|byte| *byte == b'\n') else {
            if start.len() < MAX_HEADER {
                return Step::NeedMore(0);
            }
            self.forged += 1;
            return Step::Skip(behind);
        };
        let header = Header::parse(&start[..line])
            .filter(|header| header.sequence == self.next && header.admitted(&self.key, Direction::ToHost));
        let Some(header) = header else {
            self.forged += 1;
            return Step::Skip(behind);
        };
        let Some(body) = start.get(line + 1..line + 1 + header.len) else {
            return Step::NeedMore(line + 1 + header.len);
        };
        if !header.proven(&self.key, Direction::ToHost, body) {
            self.forged += 1;
            return Step::Skip(behind);
        }
        self.next += 1;
        match GuestMessage::decode(header.kind, body) {
            Ok(message) => Step::Message(at + line + 1 + header.len, message),
            Err(error) => Step::Undecodable(error),
        }
    }
}

enum Step {
    /// Nothing of a frame stands before this place.
    Skip(usize),
    Message(usize, GuestMessage),
    Undecodable(CodecError),
    /// Wait until there are so many bytes from here; 0 for any.
    NeedMore(usize),
}

/// Where a frame start stands or may begin at the very end; the length of the input when it cannot; `None` for no input.
fn find_start(input: &[u8]) -> Option<usize> {
    let first = FRAME_START[0];
    if input.is_empty() {
        return None;
    }
    let mut from = 0;
    while let Some(offset) = input[from..].iter().position(|byte| *byte == first) {
        let at = from + offset;
        let seen = &input[at..input.len().min(at + FRAME_START.len())];
        if FRAME_START.starts_with(seen) {
            return Some(at);
        }
        from = at + 1;
    }
    Some(input.len())
}
