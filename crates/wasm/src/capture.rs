//! One output stream of a run: the first bytes are kept, the rest is counted.

/// Keeps at most `cap` bytes.
#[derive(Debug)]
pub(crate) struct Capture {
    kept: Vec<u8>,
    cap: usize,
    produced: u64,
}

impl Capture {
    pub(crate) fn new(cap: usize) -> Self {
        Self {
            kept: Vec::new(),
            cap,
            produced: 0,
        }
    }

    /// Whether all of it was kept.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> bool {
        let room = self.cap - self.kept.len();
        self.kept.extend_from_slice(&bytes[..bytes.len().min(room)]);
        self.produced = self.produced.saturating_add(bytes.len() as u64);
        bytes.len() <= room
    }

    pub(crate) fn finish(self) -> Stream {
        let truncated = self.produced > self.kept.len() as u64;
        Stream {
            bytes: self.kept,
            truncated,
            produced: self.produced,
        }
    }
}

/// What a run wrote to one stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stream {
    /// The first bytes, at most the engine's output cap. Never repaired, never annotated.
    pub bytes: Vec<u8>,
    /// True if at least one byte was dropped.
    pub truncated: bool,
    /// Bytes the program wrote, dropped ones included.
    pub produced: u64,
}

#[cfg(test)]
mod tests {
    use super::Capture;

    #[test]
    fn exactly_the_cap_is_not_truncated_and_one_more_byte_is() {
        let mut capture = Capture::new(8);
        assert!(capture.push(b"12345"));
        assert!(capture.push(b"678"));
        let stream = capture.finish();
        assert_eq!(
            (stream.bytes.as_slice(), stream.truncated, stream.produced),
            (&b"12345678"[..], false, 8)
        );

        let mut capture = Capture::new(8);
        assert!(capture.push(b"12345"));
        assert!(!capture.push(b"6789"));
        assert!(!capture.push(b"x"));
        let stream = capture.finish();
        assert_eq!(
            (stream.bytes.as_slice(), stream.truncated, stream.produced),
            (&b"12345678"[..], true, 10)
        );
    }
}
