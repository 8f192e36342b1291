//! The body of a request, handed to the broker piece by piece as it arrives.

use std::fmt;
use std::future::Future as _;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use bytes::{Buf as _, Bytes, BytesMut};
use http_body::{Body, Frame, SizeHint};
use memchr::memchr;
use tokio::net::UnixStream;
use tokio::time::{Instant, Sleep, sleep_until};

use super::head::MAX_HEAD;

/// Room made for one read.
pub(super) const READ: usize = 16 << 10;

/// Longest line with a chunk's size: 16 digits and the line's end. Extensions are refused: nobody needs them.
const MAX_CHUNK_LINE: usize = 18;

const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// Where in a body the reader stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    /// Bytes still to come.
    Length(u64),
    /// Before the line with a chunk's size.
    ChunkLine,
    /// Bytes of this chunk still to come.
    Chunk(u64),
    /// Before the end of line after a chunk.
    ChunkEnd,
    /// Before a line of the trailer, of which this many bytes have passed.
    Trailer(usize),
    /// Past the end.
    Done,
    /// Nobody can tell where it ends.
    Lost,
}

/// What the bytes at hand amount to.
#[derive(Debug, PartialEq, Eq)]
enum Piece {
    Data(Bytes),
    More,
    End,
}

/// A body that cannot be read to its end. The broker refuses it like one that is too large.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Broken;

impl Framing {
    pub(super) const fn of_length(length: u64) -> Self {
        Self::Length(length)
    }

    pub(super) const fn chunked() -> Self {
        Self::ChunkLine
    }

    fn next(&mut self, buffer: &mut BytesMut) -> Result<Piece, Broken> {
        loop {
            *self = match *self {
                Self::Length(0) => Self::Done,
                Self::Chunk(0) => Self::ChunkEnd,
                Self::Length(left) | Self::Chunk(left) => {
                    let taken = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
                    if taken == 0 {
                        return Ok(Piece::More);
                    }
                    let left = left - taken as u64;
                    *self = if matches!(self, Self::Length(_)) {
                        Self::Length(left)
                    } else {
                        Self::Chunk(left)
                    };
                    return Ok(Piece::Data(buffer.split_to(taken).freeze()));
                }
                Self::ChunkLine => match take_line(buffer, MAX_CHUNK_LINE)? {
                    None => return Ok(Piece::More),
                    Some(line) => match hexadecimal(&line).ok_or(Broken)? {
                        0 => Self::Trailer(0),
                        size => Self::Chunk(size),
                    },
                },
                Self::ChunkEnd => match take_line(buffer, 2)? {
                    None => return Ok(Piece::More),
                    Some(line) if line.is_empty() => Self::ChunkLine,
                    Some(_) => return Err(Broken),
                },
                Self::Trailer(seen) => match take_line(buffer, MAX_HEAD.saturating_sub(seen))? {
                    None => return Ok(Piece::More),
                    Some(line) if line.is_empty() => Self::Done,
                    Some(line) => Self::Trailer(seen + line.len() + 2),
                },
                Self::Done => return Ok(Piece::End),
                Self::Lost => return Err(Broken),
            }
        }
    }
}

/// Takes a line without its end, which is two bytes; at most `limit` with it.
fn take_line(buffer: &mut BytesMut, limit: usize) -> Result<Option<Bytes>, Broken> {
    let Some(feed) = memchr(b'\n', buffer) else {
        return if buffer.len() < limit { Ok(None) } else { Err(Broken) };
    };
    if feed >= limit || feed == 0 || buffer[feed - 1] != b'\r' {
        return Err(Broken);
    }
    let line = buffer.split_to(feed - 1).freeze();
    buffer.advance(2);
    Ok(Some(line))
}

fn hexadecimal(text: &[u8]) -> Option<u64> {
    if !text.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    u64::from_str_radix(std::str::from_utf8(text).ok()?, 16).ok()
}

/// A body that is still on its way.
pub(super) struct Incoming<'a> {
    stream: &'a UnixStream,
    buffer: &'a mut BytesMut,
    framing: Framing,
    /// Whether the guest waits for a go-ahead.
    owes_continue: bool,
    deadline: Instant,
    timer: Option<Pin<Box<Sleep>>>,
    /// Set when the last byte is read.
    whole: &'a AtomicBool,
}

impl fmt::Debug for Incoming<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Incoming")
            .field("framing", &self.framing)
            .finish_non_exhaustive()
    }
}

impl<'a> Incoming<'a> {
    /// `buffer` holds what came after the head. Reading fails at `deadline`.
    pub(super) fn new(
        stream: &'a UnixStream,
        buffer: &'a mut BytesMut,
        framing: Framing,
        owes_continue: bool,
        deadline: Instant,
        whole: &'a AtomicBool,
    ) -> Self {
        let mut body = Self {
            stream,
            buffer,
            framing,
            owes_continue,
            deadline,
            timer: None,
            whole,
        };
        if framing == Framing::Length(0) {
            body.end();
        }
        body
    }

    /// Where it stands, and whether the guest still waits for its go-ahead.
    pub(super) fn into_rest(self) -> (Framing, bool) {
        (self.framing, self.owes_continue)
    }

    fn end(&mut self) {
        self.framing = Framing::Done;
        self.whole.store(true, Ordering::Relaxed);
    }

    /// Waits for bytes until the deadline; an end of the connection is an error.
    fn poll_more(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Broken>> {
        let deadline = self.deadline;
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(deadline)));
        if timer.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Err(Broken));
        }
        if self.owes_continue {
            loop {
                ready!(self.stream.poll_write_ready(cx)).map_err(|_| Broken)?;
                match self.stream.try_write(CONTINUE) {
                    // Nothing was written before it, so all of it fits.
                    Ok(written) if written == CONTINUE.len() => break,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Ok(_) | Err(_) => return Poll::Ready(Err(Broken)),
                }
            }
            self.owes_continue = false;
        }
        loop {
            ready!(self.stream.poll_read_ready(cx)).map_err(|_| Broken)?;
            self.buffer.reserve(READ);
            match self.stream.try_read_buf(self.buffer) {
                Ok(1..) => return Poll::Ready(Ok(())),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Ok(0) | Err(_) => return Poll::Ready(Err(Broken)),
            }
        }
    }
}

impl Body for Incoming<'_> {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        let body = &mut *self;
        let broken = loop {
            match body.framing.next(body.buffer) {
                Ok(Piece::Data(data)) => {
                    // The broker need not ask again for a body whose length it knows.
                    if body.framing == Framing::Length(0) {
                        body.end();
                    }
                    return Poll::Ready(Some(Ok(Frame::data(data))));
                }
                Ok(Piece::End) => {
                    body.end();
                    return Poll::Ready(None);
                }
                Ok(Piece::More) => match ready!(body.poll_more(cx)) {
                    Ok(()) => {}
                    Err(broken) => break broken,
                },
                Err(broken) => break broken,
            }
        };
        // Never taken up again: what follows may be anything.
        body.framing = Framing::Lost;
        Poll::Ready(Some(Err(broken)))
    }

    fn is_end_stream(&self) -> bool {
        self.framing == Framing::Done
    }

    fn size_hint(&self) -> SizeHint {
        match self.framing {
            Framing::Length(left) => SizeHint::with_exact(left),
            Framing::Done => SizeHint::with_exact(0),
            _ => SizeHint::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Decodes bytes that arrive in pieces of `step`; what was read, and whether it ended.
    fn decode(mut framing: Framing, bytes: &[u8], step: usize) -> Result<(Vec<u8>, bool, Vec<u8>), Broken> {
        let (mut buffer, mut data) = (BytesMut::new(), Vec::new());
        let mut pieces = bytes.chunks(step);
        loop {
            match framing.next(&mut buffer)? {
                Piece::Data(piece) => data.extend_from_slice(&piece),
                Piece::End => {
                    let rest = buffer.iter().copied().chain(pieces.flatten().copied()).collect();
                    return Ok((data, true, rest));
                }
                Piece::More => match pieces.next() {
                    Some(piece) => buffer.extend_from_slice(piece),
                    None => return Ok((data, false, Vec::new())),
                },
            }
        }
    }

    #[test]
    fn a_body_ends_where_it_says_however_it_is_cut() {
        let chunked = b"4\r\nabcd\r\n00A\r\n0123456789\r\n0\r\nTrailer: x\r\n\r\nGET ";
        for step in [1, 2, 3, 7, 100] {
            assert_eq!(
                decode(Framing::chunked(), chunked, step),
                Ok((b"abcd0123456789".to_vec(), true, b"GET ".to_vec()))
            );
            assert_eq!(
                decode(Framing::of_length(5), b"abcdeGET ", step),
                Ok((b"abcde".to_vec(), true, b"GET ".to_vec()))
            );
            assert_eq!(
                decode(Framing::of_length(5), b"abcd", step),
                Ok((b"abcd".to_vec(), false, vec![]))
            );
        }
    }

    #[test]
    fn chunks_that_read_in_two_ways_are_refused() {
        let long_line = [&b"0\r\na: "[..], &[b'x'; MAX_HEAD]].concat();
        let many_lines = [&b"0\r\n"[..], &b"a: b\r\n".repeat(MAX_HEAD / 6 + 1)].concat();
        for bytes in [
            &b"4;ext=1\r\nabcd\r\n0\r\n\r\n"[..],
            b"4 \r\nabcd\r\n0\r\n\r\n",
            b" 4\r\nabcd\r\n0\r\n\r\n",
            b"+4\r\nabcd\r\n0\r\n\r\n",
            b"0x4\r\nabcd\r\n0\r\n\r\n",
            b"4\nabcd\r\n0\r\n\r\n",
            b"\r\nabcd",
            b"4\r\nabcdX\r\n0\r\n\r\n",
            b"4\r\nabcd\n0\r\n\r\n",
            b"4\r\nabcd\r\n0\r\nt: x\n\r\n",
            b"00000000000000004\r\nabcd\r\n0\r\n\r\n",
            b"ffffffffffffffff0\r\n",
            &long_line,
            &many_lines,
        ] {
            for step in [1, 64, 1 << 20] {
                assert_eq!(
                    decode(Framing::chunked(), bytes, step),
                    Err(Broken),
                    "{:?}",
                    &bytes[..8.min(bytes.len())]
                );
            }
        }
    }
}
