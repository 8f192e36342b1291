//! Bodies gathered under a cap: more than the cap is an error, never a shorter body.

use std::io::{self, Write};

use bytes::{Bytes, BytesMut};
use flate2::write::MultiGzDecoder;

/// A body is larger than its cap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooLarge;

/// Pieces of a body, put together. One piece is never copied.
#[derive(Debug)]
pub(crate) struct Gather {
    cap: usize,
    first: Bytes,
    whole: BytesMut,
}

impl Gather {
    /// Takes up to `cap` bytes.
    pub(crate) fn new(cap: usize) -> Self {
        Self {
            cap,
            first: Bytes::new(),
            whole: BytesMut::new(),
        }
    }

    fn len(&self) -> usize {
        self.first.len() + self.whole.len()
    }

    pub(crate) fn push(&mut self, piece: Bytes) -> Result<(), TooLarge> {
        if piece.len() > self.cap - self.len() {
            return Err(TooLarge);
        }
        if self.len() == 0 {
            self.first = piece;
        } else {
            if self.whole.is_empty() {
                let first = std::mem::take(&mut self.first);
                self.whole.extend_from_slice(&first);
            }
            self.whole.extend_from_slice(&piece);
        }
        Ok(())
    }

    pub(crate) fn finish(self) -> Bytes {
        if self.whole.is_empty() {
            self.first
        } else {
            self.whole.freeze()
        }
    }
}

/// Why a coded body is not delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DecodeError {
    /// Over the cap, coded or decoded.
    TooLarge,
    /// Not gzip, or cut short.
    Broken,
}

/// The body of an answer, decoded while it streams in.
#[derive(Debug)]
pub(crate) enum Decoder {
    /// As it came: no coding, or one we did not offer.
    Plain(Gather),
    /// gzip.
    Gzip {
        sink: Box<MultiGzDecoder<Capped>>,
        /// Coded bytes still allowed: a stream may decode to nothing for ever.
        left: usize,
        empty: bool,
    },
}

impl Decoder {
    /// Decodes up to `cap` bytes, from up to `cap` bytes.
    pub(crate) fn new(gzip: bool, cap: usize) -> Self {
        if gzip {
            Self::Gzip {
                sink: Box::new(MultiGzDecoder::new(Capped {
                    cap,
                    bytes: Vec::new(),
                    over: false,
                })),
                left: cap,
                empty: true,
            }
        } else {
            Self::Plain(Gather::new(cap))
        }
    }

    pub(crate) fn push(&mut self, piece: Bytes) -> Result<(), DecodeError> {
        match self {
            Self::Plain(gather) => gather.push(piece).map_err(|TooLarge| DecodeError::TooLarge),
            Self::Gzip { sink, left, empty } => {
                *left = left.checked_sub(piece.len()).ok_or(DecodeError::TooLarge)?;
                *empty &= piece.is_empty();
                let written = sink.write_all(&piece);
                written.map_err(|_| sink.get_ref().fault())
            }
        }
    }

    pub(crate) fn finish(self) -> Result<Bytes, DecodeError> {
        match self {
            Self::Plain(gather) => Ok(gather.finish()),
            // An answer without a body, such as 204, may still name a coding.
            Self::Gzip { empty: true, .. } => Ok(Bytes::new()),
            Self::Gzip { mut sink, .. } => {
                let ended = sink.try_finish();
                ended.map_err(|_| sink.get_ref().fault())?;
                Ok(std::mem::take(&mut sink.get_mut().bytes).into())
            }
        }
    }
}

/// Takes decoded bytes up to a cap.
#[derive(Debug)]
pub(crate) struct Capped {
    cap: usize,
    bytes: Vec<u8>,
    over: bool,
}

impl Capped {
    const fn fault(&self) -> DecodeError {
        if self.over {
            DecodeError::TooLarge
        } else {
            DecodeError::Broken
        }
    }
}

impl Write for Capped {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        if piece.len() > self.cap - self.bytes.len() {
            self.over = true;
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.bytes.extend_from_slice(piece);
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use bytes::Bytes;
    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::{DecodeError, Decoder, Gather, TooLarge};

    fn gzip(plain: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(plain).unwrap();
        encoder.finish().unwrap()
    }

    fn decode(coded: &[u8], piece: usize, cap: usize) -> Result<Bytes, DecodeError> {
        let mut decoder = Decoder::new(true, cap);
        for piece in coded.chunks(piece) {
            decoder.push(Bytes::copy_from_slice(piece))?;
        }
        decoder.finish()
    }

    #[test]
    fn pieces_are_put_together_up_to_the_cap() {
        let mut gather = Gather::new(5);
        for piece in ["", "ab", "", "cde"] {
            gather.push(Bytes::from_static(piece.as_bytes())).unwrap();
        }
        assert_eq!(gather.push(Bytes::from_static(b"f")), Err(TooLarge));
        assert_eq!(gather.finish(), "abcde");
        assert_eq!(Gather::new(0).finish(), "");
    }

    #[test]
    fn gzip_is_decoded_in_pieces_of_any_size() {
        let plain: Vec<u8> = (0..100_000_u32).flat_map(|n| n.wrapping_mul(n).to_le_bytes()).collect();
        let coded = gzip(&plain);
        for piece in [1, 7, 4096, coded.len()] {
            assert_eq!(decode(&coded, piece, plain.len()).unwrap(), plain);
        }
        let two = [gzip(b"a"), gzip(b"b")].concat();
        assert_eq!(decode(&two, 3, 100).unwrap(), "ab");
        assert_eq!(decode(b"", 1, 10).unwrap(), "");
    }

    #[test]
    fn a_bomb_stops_at_the_cap() {
        let coded = gzip(&vec![0; 1 << 20]);
        assert!(coded.len() < 2_000);
        assert_eq!(decode(&coded, 100, (1 << 20) - 1), Err(DecodeError::TooLarge));
        assert_eq!(decode(&coded, 100, 1 << 20).unwrap().len(), 1 << 20);
    }

    #[test]
    fn a_stream_that_decodes_to_nothing_is_bounded_too() {
        let coded = gzip(b"").repeat(10);
        assert_eq!(decode(&coded, 10, coded.len()).unwrap(), "");
        assert_eq!(decode(&coded, 10, coded.len() - 1), Err(DecodeError::TooLarge));
    }

    #[test]
    fn damaged_gzip_is_no_body() {
        let mut coded = gzip(b"some text that is long enough");
        assert_eq!(decode(&coded[..coded.len() - 3], 5, 100), Err(DecodeError::Broken));
        assert_eq!(decode(b"plain text", 5, 100), Err(DecodeError::Broken));
        let last = coded.len() - 6;
        coded[last] ^= 1;
        assert_eq!(decode(&coded, 5, 100), Err(DecodeError::Broken));
    }
}
