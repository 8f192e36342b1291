//! A container's stdio: what is written goes to its stdin, what comes back is told apart into stdout and stderr.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf as _, Bytes, BytesMut};
use http::{HeaderValue, Method, StatusCode, header};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt as _, AsyncWrite};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};

use super::error::{EngineError, cut};
use super::transport::{Bounded, Transport, request};

/// Head of every piece: the stream, three zero bytes, the length in big-endian order.
const HEAD_BYTES: usize = 8;

/// How much is read from the socket at once.
const READ_BYTES: usize = 64 << 10;

/// Both directions of an attachment.
#[derive(Debug)]
pub struct Attached {
    /// To the container's stdin.
    pub input: AttachedInput,
    /// From the container's stdout and stderr.
    pub output: AttachedOutput,
}

/// The container's stdin. Shutting it down, or dropping it, ends that stdin; what the container still writes can be read.
#[derive(Debug)]
pub struct AttachedInput(OwnedWriteHalf);

/// What the container writes, in the order the engine forwards it.
#[derive(Debug)]
pub struct AttachedOutput {
    stream: OwnedReadHalf,
    pending: BytesMut,
    /// Stream and bytes still to come of the piece being read.
    piece: Option<(Source, usize)>,
}

/// Which of the container's streams wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Descriptor 1.
    Stdout,
    /// Descriptor 2.
    Stderr,
}

/// Some bytes of one stream; a piece the engine framed as one may arrive as several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// Who wrote them.
    pub source: Source,
    /// Never empty.
    pub bytes: Bytes,
}

pub(super) async fn attach(transport: &Transport, path: &str) -> Result<Attached, EngineError> {
    let mut request = request(Method::POST, path)?;
    let headers = request.headers_mut();
    headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(header::UPGRADE, HeaderValue::from_static("tcp"));
    let response = transport.send(request).await?;
    if response.status() != StatusCode::SWITCHING_PROTOCOLS {
        return Err(EngineError::malformed(
            "the engine answered an attach without giving its stream",
        ));
    }
    let upgraded = hyper::upgrade::on(response)
        .await
        .map_err(|error| EngineError::of_hyper(&error))?;
    let parts = upgraded
        .downcast::<TokioIo<Bounded>>()
        .map_err(|_| EngineError::transport("the attached stream is of another kind"))?;
    let (read, write) = parts.io.into_inner().into_inner().into_split();
    Ok(Attached {
        input: AttachedInput(write),
        output: AttachedOutput {
            stream: read,
            pending: BytesMut::from(&parts.read_buf[..]),
            piece: None,
        },
    })
}

impl AttachedOutput {
    /// The next bytes, or `None` at the end of the stream. Dropping the future loses nothing.
    ///
    /// # Errors
    /// The socket failed, the stream ended inside a piece, or a piece names a stream that does not exist; the words of
    /// a piece that the engine itself wrote are an error too.
    pub async fn next(&mut self) -> Result<Option<Chunk>, EngineError> {
        loop {
            if let Some(chunk) = self.take()? {
                return Ok(Some(chunk));
            }
            self.pending.reserve(READ_BYTES);
            let read = self.stream.read_buf(&mut self.pending).await;
            if read.map_err(EngineError::transport)? == 0 {
                return if self.piece.is_none() && self.pending.is_empty() {
                    Ok(None)
                } else {
                    Err(EngineError::transport("the attached stream ended inside a piece"))
                };
            }
        }
    }

    fn take(&mut self) -> Result<Option<Chunk>, EngineError> {
        loop {
            if let Some((source, left)) = &mut self.piece {
                let ready = self.pending.len().min(*left);
                if ready > 0 {
                    let source = *source;
                    *left -= ready;
                    if *left == 0 {
                        self.piece = None;
                    }
                    let bytes = self.pending.split_to(ready).freeze();
                    return Ok(Some(Chunk { source, bytes }));
                }
                if *left > 0 {
                    return Ok(None);
                }
                self.piece = None;
            }
            let Some(head) = self.pending.get(..HEAD_BYTES) else {
                return Ok(None);
            };
            let source = match head[0] {
                // The engine may name stdout by the number of stdin.
                0 | 1 => Source::Stdout,
                2 => Source::Stderr,
                3 => {
                    let words = String::from_utf8_lossy(&self.pending[HEAD_BYTES..]).into_owned();
                    return Err(EngineError::transport(cut(words)));
                }
                _ => {
                    return Err(EngineError::malformed(
                        "a piece of the attached stream names no known stream",
                    ));
                }
            };
            let length = u32::from_be_bytes([head[4], head[5], head[6], head[7]]);
            self.pending.advance(HEAD_BYTES);
            self.piece = Some((source, usize::try_from(length).unwrap_or(usize::MAX)));
        }
    }
}

impl AsyncWrite for AttachedInput {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}
