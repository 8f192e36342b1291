//! The stream under a connection: tells the clocks what happens on it, closes without cutting off its last answer, and
//! tells a caller that has ended its side from one that is gone.
//!
//! Both send the same FIN. A caller that has gone answers the next bytes with a reset, so a caller whose request is whole
//! is sent an interim `100 Continue`, which every HTTP/1.1 client has to pass over (RFC 9110 §15.2): if that meets a reset
//! the run is cancelled, and if not the answer is awaited. HTTP/1.0 knows no interim answers; there a FIN means gone.
//! Under TLS the end of a caller's side is its `close_notify`; a FIN without one is a connection that was cut, and is
//! an error of the stream.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Sleep;
use tokio_rustls::server::TlsStream;
use tokio_util::either::Either;

use super::connection::{Connection, Waiting};

/// From a caller's FIN to the first interim answer: most answers are out by then.
const GRACE: Duration = Duration::from_millis(50);

/// Between two interim answers, because the caller may leave later.
const ASK_AGAIN: Duration = Duration::from_secs(5);

/// How often it is looked whether a reset has come. The system wakes nobody for one that follows a FIN.
const LOOK: Duration = Duration::from_millis(100);

const INTERIM: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// A byte stream that knows when its other end has refused what was written.
pub(super) trait Transport: AsyncRead + AsyncWrite {
    /// Whether the other end has reset the connection.
    fn is_reset(&self) -> bool;
}

/// What a connection is made of: in clear, or under TLS.
pub(super) type Socket = Either<TcpStream, Box<TlsStream<TcpStream>>>;

impl Transport for Socket {
    fn is_reset(&self) -> bool {
        let stream = match self {
            Self::Left(stream) => stream,
            Self::Right(stream) => stream.get_ref().0,
        };
        !matches!(stream.take_error(), Ok(None))
    }
}

pin_project_lite::pin_project! {
    /// See the module.
    pub(super) struct Wire<T> {
        #[pin]
        stream: T,
        connection: Connection,
        closing: Option<Pin<Box<Sleep>>>,
        shut: bool,
        ended: Option<Ended>,
        unflushed: bool,
    }
}

/// The peer has ended its side.
struct Ended {
    look: Pin<Box<Sleep>>,
    ask: Instant,
}

impl<T> Wire<T> {
    pub(super) fn new(stream: T, connection: Connection) -> Self {
        Self {
            stream,
            connection,
            closing: None,
            shut: false,
            ended: None,
            unflushed: false,
        }
    }
}

impl<T: Transport> Wire<T> {
    /// The peer's FIN has been read. Ready when it is to be believed that nobody waits for an answer.
    fn poll_gone(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut this = self.project();
        loop {
            let waiting = this.connection.waiting(*this.unflushed);
            match waiting {
                Waiting::Nothing => return Poll::Ready(()),
                // Writing goes on in this same task, and meets the reset itself.
                Waiting::Rest => return Poll::Pending,
                Waiting::Unsent | Waiting::Answer => {}
            }
            let ended = this.ended.get_or_insert_with(|| Ended {
                look: Box::pin(tokio::time::sleep(GRACE)),
                ask: Instant::now() + GRACE,
            });
            ready!(ended.look.as_mut().poll(cx));
            if waiting == Waiting::Unsent || this.stream.is_reset() {
                return Poll::Ready(());
            }
            if ended.ask <= Instant::now() && !this.connection.is_write_blocked() {
                ended.ask = Instant::now() + ASK_AGAIN;
                match this.stream.as_mut().poll_write(cx, INTERIM) {
                    Poll::Pending => {}
                    Poll::Ready(Ok(written)) if written == INTERIM.len() => {
                        let _ = this.stream.as_mut().poll_flush(cx);
                    }
                    Poll::Ready(_) => return Poll::Ready(()),
                }
            }
            ended.look.as_mut().reset(tokio::time::Instant::now() + LOOK);
        }
    }
}

impl<T: Transport> AsyncRead for Wire<T> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.as_mut().project();
        let before = buffer.filled().len();
        ready!(this.stream.poll_read(cx, buffer))?;
        if buffer.filled().len() > before {
            this.connection.bytes_arrived();
            return Poll::Ready(Ok(()));
        }
        self.poll_gone(cx).map(Ok)
    }
}

impl<T: Transport> AsyncWrite for Wire<T> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.project();
        let written = this.stream.poll_write(cx, bytes);
        *this.unflushed = true;
        this.connection.write_blocked(written.is_pending());
        written
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.project();
        let written = this.stream.poll_write_vectored(cx, slices);
        *this.unflushed = true;
        this.connection.write_blocked(written.is_pending());
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Called once everything that was to be written is: the HTTP library keeps the rest to itself until then. Under TLS
        // the last of it may have been taken and not have left.
        let this = self.project();
        let flushed = this.stream.poll_flush(cx);
        *this.unflushed = flushed.is_pending();
        this.connection.write_blocked(flushed.is_pending());
        flushed
    }

    /// Ends our side. Where a body was left unread the stream is then read until the peer ends its own side or the time
    /// is up: closing a socket with unread bytes in it would destroy the answer on its way. The time runs from the first
    /// attempt: under TLS our end is bytes, which a peer that reads nothing never lets out.
    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut this = self.project();
        if this.closing.is_none()
            && let Some(linger) = this.connection.linger()
        {
            *this.closing = Some(Box::pin(tokio::time::sleep(linger)));
        }
        let Some(clock) = this.closing else {
            return this.stream.poll_shutdown(cx);
        };
        if clock.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Ok(()));
        }
        if !*this.shut {
            ready!(this.stream.as_mut().poll_shutdown(cx))?;
            *this.shut = true;
        }
        // A fast sender must not keep this task busy: after a few buffers it waits for its next turn.
        for _ in 0..16 {
            let mut scratch = [0; 4096];
            let mut scratch = ReadBuf::new(&mut scratch);
            let outcome = ready!(this.stream.as_mut().poll_read(cx, &mut scratch));
            if outcome.is_err() || scratch.filled().is_empty() {
                return Poll::Ready(Ok(()));
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use http::Version;

    use super::*;
    use crate::edge::Timeouts;

    /// A stream that takes what is written and lets nothing out, as TLS over a socket without room.
    struct Held;

    impl Transport for Held {
        fn is_reset(&self) -> bool {
            false
        }
    }

    impl AsyncRead for Held {
        fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, _: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
            Poll::Pending
        }
    }

    impl AsyncWrite for Held {
        fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
            Poll::Ready(Ok(bytes.len()))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Pending
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Pending
        }
    }

    #[tokio::test]
    async fn an_answer_that_was_taken_and_has_not_left_is_still_being_written() {
        let connection = Connection::accepted(Timeouts::RPC);
        let mut wire = Wire::new(Held, connection.clone());
        let began = Instant::now();
        let exchange = connection.begin(Version::HTTP_11);
        poll_fn(|cx| {
            assert!(Pin::new(&mut wire).poll_write(cx, b"answer").is_ready());
            assert!(Pin::new(&mut wire).poll_flush(cx).is_pending());
            Poll::Ready(())
        })
        .await;
        drop(exchange);
        assert!(connection.due() >= began + Timeouts::RPC.write);
        assert_eq!(connection.waiting(wire.unflushed), Waiting::Rest);
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_lets_our_end_not_out_has_half_a_second() {
        let connection = Connection::accepted(Timeouts::RPC);
        connection.expect_unread_body();
        let mut wire = Wire::new(Held, connection);
        let began = tokio::time::Instant::now();
        poll_fn(|cx| Pin::new(&mut wire).poll_shutdown(cx)).await.unwrap();
        assert_eq!(began.elapsed(), Timeouts::RPC.linger);
    }
}
