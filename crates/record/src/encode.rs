//! The encoding under every digest.
//!
//! `value(b)` is an 8-byte big-endian length and then `b`; `field(name, content)` is two values. A digest is SHA-256
//! over the domain's value and then the fields, as lowercase hex.

use sha2::{Digest as _, Sha256};

/// A running digest over named fields.
pub(crate) struct Fields(Sha256);

impl Fields {
    /// Starts with the domain, which names what is digested and in which version.
    pub(crate) fn new(domain: &str) -> Self {
        let mut fields = Self(Sha256::new());
        fields.value(domain.as_bytes());
        fields
    }

    fn value(&mut self, bytes: &[u8]) {
        self.0.update((bytes.len() as u64).to_be_bytes());
        self.0.update(bytes);
    }

    /// Adds raw bytes under a name.
    pub(crate) fn bytes(&mut self, name: &str, content: &[u8]) -> &mut Self {
        self.value(name.as_bytes());
        self.value(content);
        self
    }

    /// Adds text under a name.
    pub(crate) fn text(&mut self, name: &str, content: &str) -> &mut Self {
        self.bytes(name, content.as_bytes())
    }

    /// Adds a decimal number under a name.
    pub(crate) fn number(&mut self, name: &str, content: impl Into<i128>) -> &mut Self {
        self.text(name, &content.into().to_string())
    }

    /// Adds `true` or `false` under a name.
    pub(crate) fn flag(&mut self, name: &str, content: bool) -> &mut Self {
        self.text(name, if content { "true" } else { "false" })
    }

    /// Adds the size of a repeated group that follows.
    pub(crate) fn count(&mut self, name: &str, count: usize) -> &mut Self {
        self.number(name, count as u64)
    }

    /// Adds doubles as one field: 8 bytes big-endian each.
    pub(crate) fn doubles(&mut self, name: &str, values: &[f64]) -> &mut Self {
        self.value(name.as_bytes());
        self.0.update((values.len() as u64 * 8).to_be_bytes());
        for value in values {
            self.0.update(value.to_be_bytes());
        }
        self
    }

    /// The digest as 64 lowercase hex digits.
    pub(crate) fn finish(self) -> String {
        hex(&self.0.finalize())
    }
}

/// SHA-256 of bytes, as 64 lowercase hex digits.
pub(crate) fn sha256_hex(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        text.push(char::from(DIGITS[usize::from(byte >> 4)]));
        text.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    text
}
