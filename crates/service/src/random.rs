//! Random text.

use std::fmt::Write as _;

/// So many random bytes as lowercase hex digits; `None` where the system gives none.
pub(crate) fn hex<const BYTES: usize>() -> Option<String> {
    let mut bytes = [0u8; BYTES];
    getrandom::fill(&mut bytes).ok()?;
    let mut text = String::with_capacity(2 * BYTES);
    for byte in bytes {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_two_lowercase_digits_and_no_two_texts_are_alike() {
        let made: std::collections::BTreeSet<String> = (0..256).map(|_| hex::<16>().unwrap()).collect();
        assert_eq!(made.len(), 256);
        for text in &made {
            assert_eq!(text.len(), 32, "{text}");
            assert!(
                text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')),
                "{text}"
            );
        }
    }
}
