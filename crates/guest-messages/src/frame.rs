//! Frames: `PLIMSOLL1 <kind> <seq> <len> <mac>\n` and a body, in both directions.
//!
//! `mac` is 64 lowercase hex digits in two parts. The first 16 authenticate the header alone: a reader drops a forged
//! header at once instead of waiting for the body it announces, so noise costs time linear in its length. The other 48
//! (192 bits of HMAC-SHA256) cover header and body and are the proof.

use std::fmt;

use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::Sha256;
use zeroize::Zeroizing;

use crate::limits::{MAX_BODY, MAX_HEADER};

/// What every frame starts with.
pub const FRAME_START: &[u8] = b"PLIMSOLL1 ";

/// Sequence numbers stop here, which keeps every header within its 96 bytes.
pub const MAX_SEQUENCE: u32 = 999_999_999;

const KEY_BYTES: usize = 32;
const HEADER_TAG: usize = 8;
const BODY_TAG: usize = 24;

/// The secret of one sandbox: 32 random bytes that only the host and PID 1 know. Wiped when dropped, never printed.
#[derive(Clone)]
pub struct Key(Zeroizing<[u8; KEY_BYTES]>);

/// A key of the wrong size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("key has {0} bytes; it must have {KEY_BYTES}")]
pub struct KeyLength(usize);

impl Key {
    /// Takes over 32 random bytes.
    pub fn new(bytes: [u8; KEY_BYTES]) -> Self {
        Self(Zeroizing::new(bytes))
    }

    /// Copies a key out of a longer buffer.
    ///
    /// # Errors
    /// When there are not exactly 32 bytes.
    pub fn from_slice(bytes: &[u8]) -> Result<Self, KeyLength> {
        let bytes: [u8; KEY_BYTES] = bytes.try_into().map_err(|_| KeyLength(bytes.len()))?;
        Ok(Self::new(bytes))
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(…)")
    }
}

impl Serialize for Key {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&*self.0)
    }
}

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let bytes = Zeroizing::new(serde_bytes::deserialize::<Vec<u8>, D>(deserializer)?);
        Self::from_slice(&bytes).map_err(serde::de::Error::custom)
    }
}

/// Who speaks. Part of the proof, so that a frame sent back does not verify.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// The host to PID 1.
    ToGuest,
    /// PID 1 to the host.
    ToHost,
}

/// One end's right to speak: numbers its frames from 0 and signs them.
#[derive(Debug)]
pub struct Sender {
    key: Key,
    direction: Direction,
    next: u32,
}

/// A frame that cannot be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The body is longer than a frame carries.
    #[error("message body has {0} bytes; the limit is {MAX_BODY}")]
    TooLong(usize),
    /// All sequence numbers are used.
    #[error("{MAX_SEQUENCE} frames were sent; the sandbox must be replaced")]
    Exhausted,
}

impl Sender {
    /// Starts at sequence number 0.
    pub fn new(key: Key, direction: Direction) -> Self {
        Self {
            key,
            direction,
            next: 0,
        }
    }

    /// The next frame, header and body. `kind` is a lowercase letter.
    ///
    /// # Errors
    /// When the body is too long or the sequence is used up; no sequence number is spent then.
    pub fn frame(&mut self, kind: u8, body: &[u8]) -> Result<Vec<u8>, FrameError> {
        if body.len() > MAX_BODY {
            return Err(FrameError::TooLong(body.len()));
        }
        if self.next > MAX_SEQUENCE {
            return Err(FrameError::Exhausted);
        }
        let mut frame = Vec::with_capacity(MAX_HEADER + body.len());
        frame.extend_from_slice(FRAME_START);
        frame.push(kind);
        frame.extend_from_slice(format!(" {} {} ", self.next, body.len()).as_bytes());
        let header = mac(&self.key, self.direction, kind, self.next, body.len(), None)
            .finalize()
            .into_bytes();
        let whole = mac(&self.key, self.direction, kind, self.next, body.len(), Some(body))
            .finalize()
            .into_bytes();
        for byte in header.iter().take(HEADER_TAG).chain(whole.iter().take(BODY_TAG)) {
            frame.push(HEX[usize::from(byte >> 4)]);
            frame.push(HEX[usize::from(byte & 15)]);
        }
        frame.push(b'\n');
        frame.extend_from_slice(body);
        self.next += 1;
        Ok(frame)
    }
}

const HEX: &[u8; 16] = b"0123456789abcdef";

/// A header in its one canonical form. Nothing about it is proven yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) kind: u8,
    pub(crate) sequence: u32,
    pub(crate) len: usize,
    header_tag: [u8; HEADER_TAG],
    body_tag: [u8; BODY_TAG],
}

impl Header {
    /// Reads a header line without its newline; `None` unless every byte is as [`Sender`] would have written it.
    pub(crate) fn parse(line: &[u8]) -> Option<Self> {
        let rest = line.strip_prefix(FRAME_START)?;
        let mut words = rest.split(|byte| *byte == b' ');
        let [kind @ b'a'..=b'z'] = *words.next()? else {
            return None;
        };
        let sequence = u32::try_from(canonical(words.next()?, 9)?).ok()?;
        let len = usize::try_from(canonical(words.next()?, 8)?).ok()?;
        let tags = words.next()?;
        if words.next().is_some() || len > MAX_BODY || tags.len() != 2 * (HEADER_TAG + BODY_TAG) {
            return None;
        }
        let (header, body) = tags.split_at(2 * HEADER_TAG);
        Some(Self {
            kind,
            sequence,
            len,
            header_tag: unhex(header)?,
            body_tag: unhex(body)?,
        })
    }

    /// True when the key's owner wrote this header. Constant time.
    pub(crate) fn admitted(&self, key: &Key, direction: Direction) -> bool {
        mac(key, direction, self.kind, self.sequence, self.len, None)
            .verify_truncated_left(&self.header_tag)
            .is_ok()
    }

    /// True when the key's owner wrote this header with this body. Constant time.
    pub(crate) fn proven(&self, key: &Key, direction: Direction, body: &[u8]) -> bool {
        body.len() == self.len
            && mac(key, direction, self.kind, self.sequence, self.len, Some(body))
                .verify_truncated_left(&self.body_tag)
                .is_ok()
    }
}

/// One byte tells the directions and the two tags apart, so that neither tag can stand for another.
fn mac(key: &Key, direction: Direction, kind: u8, sequence: u32, len: usize, body: Option<&[u8]>) -> Hmac<Sha256> {
    let purpose = match (direction, body) {
        (Direction::ToGuest, None) => 0,
        (Direction::ToGuest, Some(_)) => 1,
        (Direction::ToHost, None) => 2,
        (Direction::ToHost, Some(_)) => 3,
    };
    let block = {
        let mut block = Zeroizing::new([0; 64]);
        block[..KEY_BYTES].copy_from_slice(&*key.0);
        block
    };
    // HMAC pads a shorter key with zeros to this very block, so this is the same function without a fallible length.
    let mut mac = Hmac::<Sha256>::new((&*block).into());
    mac.update(&[purpose, kind]);
    mac.update(&sequence.to_be_bytes());
    mac.update(&(len as u64).to_be_bytes());
    mac.update(body.unwrap_or_default());
    mac
}

/// A decimal number of at most `digits` digits without a leading zero.
fn canonical(word: &[u8], digits: usize) -> Option<u64> {
    let plain = !word.is_empty() && word.len() <= digits && word.iter().all(u8::is_ascii_digit);
    if !plain || (word.len() > 1 && word[0] == b'0') {
        return None;
    }
    Some(word.iter().fold(0, |sum, digit| sum * 10 + u64::from(digit - b'0')))
}

fn unhex<const N: usize>(digits: &[u8]) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = nibble(pair[0])? << 4 | nibble(pair[1])?;
    }
    Some(bytes)
}

fn nibble(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> Key {
        Key::new([7; 32])
    }

    #[test]
    fn the_longest_header_fits_its_limit() {
        let mut sender = Sender::new(key(), Direction::ToHost);
        sender.next = MAX_SEQUENCE;
        let frame = sender.frame(b'r', &vec![0; MAX_BODY]).unwrap();
        assert_eq!(frame.len() - MAX_BODY, MAX_HEADER);
        assert_eq!(sender.frame(b'r', &[]), Err(FrameError::Exhausted));
    }

    #[test]
    fn a_body_above_the_limit_spends_no_number() {
        let mut sender = Sender::new(key(), Direction::ToHost);
        let long = vec![0; MAX_BODY + 1];
        assert_eq!(sender.frame(b'r', &long), Err(FrameError::TooLong(MAX_BODY + 1)));
        assert!(sender.frame(b'r', b"x").unwrap().starts_with(b"PLIMSOLL1 r 0 1 "));
    }

    #[test]
    fn a_tag_is_hmac_sha256_of_the_bare_key() {
        let mut plain = Hmac::<Sha256>::new_from_slice(&[7; 32]).unwrap();
        plain.update(&[3, b'r', 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, b'x']);
        let expected: String = plain.finalize().into_bytes()[..24]
            .iter()
            .map(|b| format!("{b:02x}"))
            .collect();
        let frame = Sender::new(key(), Direction::ToHost).frame(b'r', b"x").unwrap();
        assert!(String::from_utf8(frame).unwrap().ends_with(&format!("{expected}\nx")));
    }

    #[test]
    fn only_the_canonical_header_parses() {
        let frame = Sender::new(key(), Direction::ToHost).frame(b'r', b"x").unwrap();
        let line = &frame[..frame.len() - 2];
        assert!(Header::parse(line).is_some());
        let text = std::str::from_utf8(line).unwrap();
        for (from, to) in [
            (" r ", " R "),
            (" r ", " rr "),
            (" r ", "  "),
            (" 0 1 ", " 00 1 "),
            (" 0 1 ", " 0 01 "),
            (" 0 1 ", " 0 +1 "),
            (" 0 1 ", " 0 -1 "),
            (" 0 1 ", " 0  "),
            (" 0 1 ", " 0 1  "),
            (" 0 1 ", " 0 16777217 "),
            (" 0 1 ", " 1000000000 1 "),
            ("PLIMSOLL1", "PLIMSOLL2"),
        ] {
            assert!(
                Header::parse(text.replacen(from, to, 1).as_bytes()).is_none(),
                "{from:?} -> {to:?}"
            );
        }
        assert!(Header::parse(text.to_uppercase().as_bytes()).is_none());
        assert!(Header::parse(&line[..line.len() - 1]).is_none());
        assert!(Header::parse(&[line, b"0"].concat()).is_none());
        assert!(Header::parse(&[line, b" "].concat()).is_none());
        assert!(Header::parse(&[line, b"\r"].concat()).is_none());
    }

    #[test]
    fn a_key_of_another_length_is_refused() {
        assert_eq!(
            Key::from_slice(&[1; 8]).unwrap_err().to_string(),
            "key has 8 bytes; it must have 32"
        );
        assert!(Key::from_slice(&[]).is_err());
    }
}
