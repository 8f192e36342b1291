//! Bearer tokens: made here or read from a stream, kept only until their fingerprint is taken.

use std::fmt;
use std::io::Read;

use sha2::{Digest as _, Sha256};
use zeroize::Zeroizing;

/// Smallest token, in bytes: 32 random hex digits are 128 bits.
pub const MIN_TOKEN_BYTES: usize = 32;

/// Largest token, in bytes: what fits into a header beside everything else.
const MAX_TOKEN_BYTES: usize = 4096;

/// Bytes read at most: the largest token, CR LF, and one more that shows it is longer.
const MAX_READ: usize = MAX_TOKEN_BYTES + 3;

/// Random bytes of a token that is made here.
const RANDOM_BYTES: usize = 32;

/// A bearer token. Wiped when dropped, and never shown by `Debug`.
pub struct Token(Zeroizing<Vec<u8>>);

/// Why there is no token. None of these texts holds anything that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// Standard input failed; its own words may repeat what it had read.
    #[error("the token could not be read from standard input")]
    Unreadable,
    /// Nothing but a line end.
    #[error("standard input holds no token; send it with or without a line end after it")]
    Empty,
    /// Over 4096 bytes.
    #[error("the token on standard input is longer than {MAX_TOKEN_BYTES} bytes")]
    TooLong,
    /// Under 32 bytes.
    #[error("the token on standard input is shorter than {MIN_TOKEN_BYTES} bytes, so it could be guessed")]
    TooShort,
    /// It could not be sent as a bearer token.
    #[error("the token on standard input holds a byte outside 0x21 to 0x7E, which no request could match")]
    Bytes,
    /// The system gives no random bytes.
    #[error("no token could be made: the system gives no random bytes")]
    NoRandomness,
}

impl Token {
    /// A new one: 32 random bytes as 64 lower-case hex digits.
    ///
    /// # Errors
    /// The system gives no random bytes.
    pub fn generate() -> Result<Self, TokenError> {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut random = Zeroizing::new([0u8; RANDOM_BYTES]);
        getrandom::fill(&mut *random).map_err(|_| TokenError::NoRandomness)?;
        // Of its full size from the start: growing would leave a copy behind.
        let mut digits = Zeroizing::new(Vec::with_capacity(2 * RANDOM_BYTES));
        for byte in random.iter() {
            digits.push(DIGITS[usize::from(byte >> 4)]);
            digits.push(DIGITS[usize::from(byte & 0xf)]);
        }
        Ok(Self(digits))
    }

    /// Reads one from `input`: at most one line end after it is dropped, and nothing else.
    ///
    /// # Errors
    /// Unreadable, empty, too short, too long, or holding what no request could carry.
    pub fn read(input: &mut dyn Read) -> Result<Self, TokenError> {
        const TOO_LONG: usize = MAX_TOKEN_BYTES + 1;
        let mut buffer = Zeroizing::new(vec![0u8; MAX_READ]);
        let mut length = 0;
        while length < MAX_READ {
            match input.read(&mut buffer[length..]) {
                Ok(0) => break,
                Ok(read) => length += read,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(_) => return Err(TokenError::Unreadable),
            }
        }
        // Shortening keeps the bytes behind the end, and the whole of the memory is wiped in the end.
        buffer.truncate(length);
        for end in [b'\n', b'\r'] {
            if buffer.last() == Some(&end) {
                buffer.pop();
            }
        }
        match buffer.len() {
            0 => Err(TokenError::Empty),
            TOO_LONG.. => Err(TokenError::TooLong),
            _ if !buffer.iter().all(|byte| (0x21..=0x7e).contains(byte)) => Err(TokenError::Bytes),
            1..MIN_TOKEN_BYTES => Err(TokenError::TooShort),
            _ => Ok(Self(buffer)),
        }
    }

    /// The token itself, for the one place it is told to.
    pub fn reveal(&self) -> &[u8] {
        &self.0
    }

    /// What the registry keeps of it.
    pub fn fingerprint(&self) -> [u8; 32] {
        Sha256::digest(&*self.0).into()
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> Result<Vec<u8>, TokenError> {
        Token::read(&mut &*bytes).map(|token| token.reveal().to_vec())
    }

    #[test]
    fn a_made_token_is_64_lower_case_hex_digits_and_no_two_are_alike() {
        let made: std::collections::BTreeSet<Vec<u8>> =
            (0..64).map(|_| Token::generate().unwrap().reveal().to_vec()).collect();
        assert_eq!(made.len(), 64);
        for token in made {
            assert_eq!(token.len(), 64);
            assert!(token.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')));
        }
    }

    #[test]
    fn one_line_end_is_dropped_and_every_other_byte_counts() {
        let good = [b'a'; 32];
        for end in [&b""[..], b"\n", b"\r\n", b"\r"] {
            assert_eq!(read(&[&good, end].concat()).as_deref(), Ok(&good[..]), "{end:?}");
        }
        for (end, error) in [
            (&b"\n\n"[..], TokenError::Bytes),
            (b"\n\r", TokenError::Bytes),
            (b" ", TokenError::Bytes),
            (b"\0", TokenError::Bytes),
            (b"\xc3\xa9", TokenError::Bytes),
            (b"\x7f", TokenError::Bytes),
        ] {
            assert_eq!(read(&[&good, end].concat()), Err(error), "{end:?}");
        }
    }

    #[test]
    fn a_token_has_32_to_4096_bytes() {
        for (length, outcome) in [
            (0, Err(TokenError::Empty)),
            (3, Err(TokenError::TooShort)),
            (31, Err(TokenError::TooShort)),
            (32, Ok(32)),
            (4096, Ok(4096)),
            (4097, Err(TokenError::TooLong)),
            (4098, Err(TokenError::TooLong)),
            (4099, Err(TokenError::TooLong)),
            (100_000, Err(TokenError::TooLong)),
        ] {
            for end in [&b""[..], b"\n", b"\r\n"] {
                let token = [&vec![b'a'; length], end].concat();
                assert_eq!(read(&token).map(|token| token.len()), outcome, "{length} {end:?}");
            }
        }
        assert_eq!(read(b"\n"), Err(TokenError::Empty));
        assert_eq!(read(b"\r\n"), Err(TokenError::Empty));
    }

    #[test]
    fn a_reader_that_fails_is_not_quoted() {
        struct Fails;
        impl Read for Fails {
            fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
                Err(std::io::Error::other("secret-0123456789"))
            }
        }
        let error = Token::read(&mut Fails).unwrap_err();
        assert_eq!(error, TokenError::Unreadable);
        assert!(!format!("{error} {error:?}").contains("secret"));
    }

    #[test]
    fn a_fingerprint_is_the_sha256_of_the_very_bytes_and_nothing_shows_the_token() {
        let token = Token::read(&mut &b"0123456789abcdef0123456789abcdef\n"[..]).unwrap();
        let expected: [u8; 32] = Sha256::digest("0123456789abcdef0123456789abcdef").into();
        assert_eq!(token.fingerprint(), expected);
        assert_eq!(format!("{token:?}"), "Token");
    }
}
