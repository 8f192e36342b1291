//! The TCP stream below a connection, shared with its owner, who can ask two things the HTTP stack cannot tell: whether a
//! byte has left, and whether bytes or an end have arrived while nobody was reading.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::net::Shutdown;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// What the owner of a connection keeps of it.
#[derive(Debug)]
pub(crate) struct Wire {
    tcp: TcpStream,
    wrote: AtomicBool,
}

impl Wire {
    pub(crate) fn new(tcp: TcpStream) -> Arc<Self> {
        Arc::new(Self {
            tcp,
            wrote: AtomicBool::new(false),
        })
    }

    /// From here on [`Wire::wrote`] speaks of one call.
    pub(crate) fn start_call(&self) {
        self.wrote.store(false, Ordering::Relaxed);
    }

    /// Whether a byte was handed to the kernel since [`Wire::start_call`].
    pub(crate) fn wrote(&self) -> bool {
        self.wrote.load(Ordering::Relaxed)
    }

    /// What lies unread. The kernel is asked, not the reactor, which may not have looked yet.
    pub(crate) fn unread(&self) -> Unread {
        let mut byte = [MaybeUninit::uninit()];
        match SockRef::from(&self.tcp).peek(&mut byte) {
            Ok(1..) => Unread::Bytes,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Unread::Nothing,
            Ok(0) | Err(_) => Unread::End,
        }
    }
}

/// What a peer has sent that nobody has read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unread {
    /// The peer is there and silent.
    Nothing,
    Bytes,
    /// The peer is gone.
    End,
}

/// The half of a [`Wire`] that the TLS or HTTP layer drives.
#[derive(Debug)]
pub(crate) struct Socket(pub(crate) Arc<Wire>);

impl Socket {
    fn poll_try_write(
        &self,
        cx: &mut Context<'_>,
        mut write: impl FnMut(&TcpStream) -> io::Result<usize>,
    ) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.0.tcp.poll_write_ready(cx))?;
            match write(&self.0.tcp) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                result => {
                    if result.as_ref().is_ok_and(|count| *count > 0) {
                        self.0.wrote.store(true, Ordering::Relaxed);
                    }
                    return Poll::Ready(result);
                }
            }
        }
    }
}

impl AsyncRead for Socket {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        loop {
            ready!(self.0.tcp.poll_read_ready(cx))?;
            match self.0.tcp.try_read(buf.initialize_unfilled()) {
                Ok(count) => {
                    buf.advance(count);
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_try_write(cx, |tcp| tcp.try_write(buf))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_try_write(cx, |tcp| tcp.try_write_vectored(bufs))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(SockRef::from(&self.0.tcp).shutdown(Shutdown::Write))
    }
}
