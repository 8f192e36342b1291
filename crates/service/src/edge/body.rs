//! Request bodies, read at last; and the bodies of answers.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io::Read as _;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt as _;
use plimsoll_core::limits::MAX_REQUEST_BYTES;

use super::connection::Exchange;
use super::unread::{Unread, UnreadAnswers};

/// Why a body did not become bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BodyFault {
    /// Past the bound on the wire or after decompression.
    TooLarge,
    /// Not complete in time.
    Late,
    /// The connection broke, or its framing is wrong.
    Broken,
    /// Not exactly one gzip member.
    Gzip,
}

/// Reads a body to its end, or to the bound or the deadline. A body that comes in one piece is not copied.
pub(super) async fn read<B>(body: B, deadline: Instant) -> Result<Bytes, BodyFault>
where
    B: Body<Data = Bytes> + Unpin,
{
    tokio::time::timeout_at(deadline.into(), collect(body))
        .await
        .unwrap_or(Err(BodyFault::Late))
}

async fn collect<B>(mut body: B) -> Result<Bytes, BodyFault>
where
    B: Body<Data = Bytes> + Unpin,
{
    let mut whole = Bytes::new();
    let mut joined: Option<BytesMut> = None;
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(|_| BodyFault::Broken)?.into_data() else {
            continue;
        };
        let length = joined.as_ref().map_or(whole.len(), BytesMut::len);
        if length + data.len() > MAX_REQUEST_BYTES {
            return Err(BodyFault::TooLarge);
        }
        match &mut joined {
            Some(joined) => joined.extend_from_slice(&data),
            None if whole.is_empty() => whole = data,
            None => {
                // The stated length is a hint from the caller, so memory is taken only as bytes arrive.
                let mut buffer = BytesMut::with_capacity((whole.len() + data.len()).next_power_of_two());
                buffer.extend_from_slice(&whole);
                buffer.extend_from_slice(&data);
                joined = Some(buffer);
            }
        }
    }
    Ok(joined.map_or(whole, BytesMut::freeze))
}

/// Decompresses one gzip member and nothing behind it. Memory grows with what comes out, never past the bound.
pub(crate) fn gunzip(compressed: &[u8]) -> Result<Bytes, GunzipFault> {
    let mut decoder = flate2::bufread::GzDecoder::new(compressed);
    let mut message = Vec::new();
    let bound = u64::try_from(MAX_REQUEST_BYTES).unwrap_or(u64::MAX);
    (&mut decoder)
        .take(bound + 1)
        .read_to_end(&mut message)
        .map_err(|_| GunzipFault::Malformed)?;
    if message.len() > MAX_REQUEST_BYTES {
        return Err(GunzipFault::TooLarge);
    }
    if !decoder.into_inner().is_empty() {
        return Err(GunzipFault::Malformed);
    }
    Ok(message.into())
}

/// Why a gzip body is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GunzipFault {
    TooLarge,
    Malformed,
}

impl From<GunzipFault> for BodyFault {
    fn from(fault: GunzipFault) -> Self {
        match fault {
            GunzipFault::TooLarge => Self::TooLarge,
            GunzipFault::Malformed => Self::Gzip,
        }
    }
}

/// The body of an answer. Its exchange is open, and its bytes stand in the ledger, until the connection has written the
/// last of them.
#[derive(Debug)]
pub struct EdgeBody {
    content: Content,
    unread: Option<Unread>,
    /// Of an answer without bytes, which ends with its body.
    _until_written: Option<Box<UntilWritten>>,
}

enum Content {
    Full(Option<Bytes>),
    /// What the gRPC layer answered, trailers included.
    Frames(VecDeque<Frame<Bytes>>),
}

impl std::fmt::Debug for Content {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Full(_) => "Full",
            Self::Frames(_) => "Frames",
        })
    }
}

/// What ends with an answer: its entry in the ledger, and its exchange.
#[derive(Debug)]
struct UntilWritten {
    _unread: Option<Unread>,
    _exchange: Exchange,
}

/// The last bytes of an answer, which has not ended for as long as somebody keeps them. The connection does until it has
/// written them; the body is gone before that, for HTTP/2 takes all of it as soon as the peer has room for one byte.
struct Kept {
    bytes: Bytes,
    _until_written: UntilWritten,
}

impl AsRef<[u8]> for Kept {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl EdgeBody {
    /// Bytes whose length is known.
    pub(super) fn full(bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        Self::of(Content::Full((!bytes.is_empty()).then_some(bytes)))
    }

    /// A body that is made already, with its trailers: every frame of it, so that its size is known before anybody reads it.
    pub(super) async fn whole<B>(mut body: B) -> Self
    where
        B: Body<Data = Bytes, Error = Infallible> + Unpin,
    {
        let mut frames = VecDeque::new();
        while let Some(frame) = body.frame().await {
            match frame {
                Ok(frame) => frames.push_back(frame),
                Err(never) => match never {},
            }
        }
        Self::of(Content::Frames(frames))
    }

    const fn of(content: Content) -> Self {
        Self {
            content,
            unread: None,
            _until_written: None,
        }
    }

    /// Enters the body in the ledger of a caller.
    pub(super) fn counted(self, ledger: &UnreadAnswers, caller: &Arc<str>) -> Self {
        Self {
            unread: Some(ledger.enter(caller, self.content.bytes())),
            ..self
        }
    }

    /// Ties the end of the exchange, and of the entry in the ledger, to the last byte.
    pub(super) fn ending(mut self, exchange: Exchange) -> Self {
        let until_written = UntilWritten {
            _unread: self.unread.take(),
            _exchange: exchange,
        };
        let Some(last) = self.content.last() else {
            self._until_written = Some(Box::new(until_written));
            return self;
        };
        *last = Bytes::from_owner(Kept {
            bytes: std::mem::take(last),
            _until_written: until_written,
        });
        self
    }
}

impl Content {
    /// What is written last. Trailers have no bytes of their own.
    fn last(&mut self) -> Option<&mut Bytes> {
        match self {
            Self::Full(bytes) => bytes.as_mut(),
            Self::Frames(frames) => frames.iter_mut().rev().find_map(Frame::data_mut),
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Full(bytes) => bytes.as_ref().map_or(0, Bytes::len),
            Self::Frames(frames) => frames.iter().filter_map(Frame::data_ref).map(Bytes::len).sum(),
        }
    }
}

impl Body for EdgeBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(match &mut self.content {
            Content::Full(bytes) => bytes.take().map(|bytes| Ok(Frame::data(bytes))),
            Content::Frames(frames) => frames.pop_front().map(Ok),
        })
    }

    fn is_end_stream(&self) -> bool {
        match &self.content {
            Content::Full(bytes) => bytes.is_none(),
            Content::Frames(frames) => frames.is_empty(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            Content::Full(_) => SizeHint::with_exact(self.content.bytes() as u64),
            // A stated length is nothing that gRPC's clients expect.
            Content::Frames(_) => SizeHint::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn gzip(content: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(content).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn one_member_and_nothing_behind_it() {
        assert_eq!(gunzip(&gzip(b"{}")).unwrap(), "{}");
        let mut two = gzip(b"{}");
        two.extend(gzip(b"{}"));
        assert_eq!(gunzip(&two), Err(GunzipFault::Malformed));
        let mut trailing = gzip(b"{}");
        trailing.push(0);
        assert_eq!(gunzip(&trailing), Err(GunzipFault::Malformed));
        let whole = gzip(b"{}");
        for cut in 0..whole.len() {
            assert_eq!(gunzip(&whole[..cut]), Err(GunzipFault::Malformed), "{cut}");
        }
        assert_eq!(gunzip(b"{}"), Err(GunzipFault::Malformed));
    }

    #[test]
    fn a_bomb_stops_at_the_bound() {
        assert_eq!(
            gunzip(&gzip(&vec![b' '; MAX_REQUEST_BYTES + 1])),
            Err(GunzipFault::TooLarge)
        );
        assert_eq!(
            gunzip(&gzip(&vec![b' '; MAX_REQUEST_BYTES])).unwrap().len(),
            MAX_REQUEST_BYTES
        );
    }
}
