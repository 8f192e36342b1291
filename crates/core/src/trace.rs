//! The caller's own correlation id: kept exactly, or dropped whole.

use std::fmt;

use crate::limits::MAX_LABEL_CHARS;

/// A trace id of the form `[A-Za-z0-9._:-]{1,64}`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TraceId(String);

/// The text does not have the form of a trace id. Holds nothing, so that the value cannot reach a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("trace_id is not 1 to 64 characters of A-Z a-z 0-9 . _ : -")]
pub struct TraceIdRejected;

impl TraceId {
    /// Checks the form. Empty text is not a trace id; callers that mean "none" do not call this.
    pub fn parse(text: &str) -> Result<Self, TraceIdRejected> {
        if is_label(text) {
            Ok(Self(text.to_owned()))
        } else {
            Err(TraceIdRejected)
        }
    }

    /// The text as sent.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The alphabet and length shared by trace ids and owners.
pub(crate) fn is_label(text: &str) -> bool {
    (1..=MAX_LABEL_CHARS).contains(&text.len())
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b':' | b'-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_id_is_kept_exactly_or_rejected_whole() {
        for good in ["t-1", "a", "A.b_c:d-9", &"x".repeat(64)] {
            assert_eq!(TraceId::parse(good).unwrap().as_str(), good);
        }
        for bad in ["", "a/b", "a b", "é", "a\n", &"x".repeat(65)] {
            assert_eq!(TraceId::parse(bad), Err(TraceIdRejected), "{bad:?}");
        }
    }
}
