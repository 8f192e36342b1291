//! Two thin layers around a connection that make "nothing was sent" and "read the answer all the same" exact.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Whether the first byte of the request may have left. Set before the write, never taken back.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sent(Arc<AtomicBool>);

impl Sent {
    pub(crate) fn get(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    fn set(&self) {
        self.0.store(true, Ordering::Release);
    }
}

/// The outer layer, where the request is written as text: under it lies TLS or nothing.
#[derive(Debug)]
pub(crate) struct Marking<S> {
    inner: S,
    sent: Sent,
}

impl<S> Marking<S> {
    pub(crate) const fn new(inner: S, sent: Sent) -> Self {
        Self { inner, sent }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Marking<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Marking<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.sent.set();
        Pin::new(&mut self.inner).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

/// The inner layer, directly on the socket.
///
/// A daemon may refuse before it has read the whole body and close; the write then fails with a reset while the answer
/// already waits in the receive buffer. So a reset while the request is written turns the rest of the writing into
/// nothing, and reading goes on. During a TLS handshake nothing was sent yet, and a reset is what it is.
#[derive(Debug)]
pub(crate) struct Socket<S> {
    inner: S,
    sent: Sent,
    reset: bool,
}

impl<S> Socket<S> {
    pub(crate) const fn new(inner: S, sent: Sent) -> Self {
        Self {
            inner,
            sent,
            reset: false,
        }
    }

    fn tolerate<T>(&mut self, outcome: Poll<io::Result<T>>, done: T) -> Poll<io::Result<T>> {
        match outcome {
            Poll::Ready(Err(error)) if self.sent.get() && is_reset(&error) => {
                self.reset = true;
                Poll::Ready(Ok(done))
            }
            other => other,
        }
    }
}

fn is_reset(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset | io::ErrorKind::ConnectionAborted
    )
}

impl<S: AsyncRead + Unpin> AsyncRead for Socket<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Socket<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        if self.reset {
            return Poll::Ready(Ok(buf.len()));
        }
        let outcome = Pin::new(&mut self.inner).poll_write(cx, buf);
        self.tolerate(outcome, buf.len())
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.reset {
            return Poll::Ready(Ok(()));
        }
        let outcome = Pin::new(&mut self.inner).poll_shutdown(cx);
        self.tolerate(outcome, ())
    }
}
