//! One connection's clocks, and how it ends.
//!
//! The HTTP library's own header timeout also counts the time between two requests, so the clocks are kept here: the
//! I/O wrapper notes when the first byte of a request arrives, an [`Exchange`] notes when a request begins and its answer
//! has been handed over, and the driver closes the connection when the clock that is running has run out. On the usual
//! path no timer is touched: a clock is only re-armed when it would ring too late.

use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;
use tokio_util::sync::CancellationToken;

/// The clocks of one listener (spec 10 §2.1, 20 §9.3).
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    /// From accept, or a request's first byte, to the end of its header block.
    pub header: Duration,
    /// From the same moment to the end of the body.
    pub request: Duration,
    /// From the end of the header block to the last byte of the answer.
    pub write: Duration,
    /// Between two requests.
    pub idle: Duration,
    /// How much longer a connection is read whose request body was not wanted.
    pub linger: Duration,
}

impl Timeouts {
    /// Of the RPC listener.
    pub const RPC: Self = Self {
        header: Duration::from_secs(5),
        request: Duration::from_secs(30),
        write: Duration::from_secs(360),
        idle: Duration::from_secs(120),
        linger: Duration::from_millis(500),
    };

    /// Of the metrics listener.
    pub const METRICS: Self = Self {
        request: Duration::from_secs(10),
        write: Duration::from_secs(10),
        ..Self::RPC
    };
}

/// What one connection's parts know of each other.
#[derive(Clone, Debug)]
pub struct Connection(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    timeouts: Timeouts,
    /// Set when an answer went out before the end of a body: the peer may still be sending.
    linger: AtomicBool,
    clocks: Mutex<Clocks>,
}

#[derive(Debug)]
struct Clocks {
    /// While no exchange is open: whether a request's header block has begun, and since when this has been so.
    in_header: bool,
    since: Instant,
    /// Begin of each open exchange; one on HTTP/1, up to the stream limit on HTTP/2.
    open: Vec<(u64, Instant)>,
    next: u64,
    /// Begin of the last exchange, for bytes still being written after it has ended.
    last_begin: Instant,
    write_blocked: bool,
    http2: bool,
}

impl Connection {
    /// A connection accepted at this moment.
    pub(super) fn accepted(timeouts: Timeouts) -> Self {
        let now = Instant::now();
        let clocks = Clocks {
            in_header: true,
            since: now,
            open: Vec::new(),
            next: 0,
            last_begin: now,
            write_blocked: false,
            http2: false,
        };
        Self(Arc::new(Shared {
            timeouts,
            linger: AtomicBool::new(false),
            clocks: Mutex::new(clocks),
        }))
    }

    /// A request's header block is complete. Its body is due by the returned exchange's deadline.
    pub(super) fn begin(&self, http2: bool) -> Exchange {
        let now = Instant::now();
        let mut clocks = self.0.clocks.lock();
        let header_began = if clocks.in_header && clocks.open.is_empty() {
            clocks.since
        } else {
            now
        };
        let id = clocks.next;
        clocks.next += 1;
        clocks.open.push((id, now));
        clocks.in_header = false;
        clocks.last_begin = now;
        clocks.http2 |= http2;
        drop(clocks);
        Exchange {
            connection: self.clone(),
            id,
            body_due: header_began + self.0.timeouts.request,
        }
    }

    /// The peer may still be sending a body nobody wants: read a little longer before the connection is closed.
    pub(super) fn expect_unread_body(&self) {
        self.0.linger.store(true, Ordering::Relaxed);
    }

    fn due(&self) -> Instant {
        let clocks = self.0.clocks.lock();
        let timeouts = &self.0.timeouts;
        match clocks.open.iter().map(|(_, begin)| *begin).min() {
            Some(oldest) => oldest + timeouts.write,
            None if clocks.write_blocked => clocks.last_begin + timeouts.write,
            None if clocks.in_header => clocks.since + timeouts.header,
            None => clocks.since + timeouts.idle,
        }
    }

    fn bytes_arrived(&self) {
        let mut clocks = self.0.clocks.lock();
        if !clocks.in_header && !clocks.http2 && clocks.open.is_empty() {
            clocks.in_header = true;
            clocks.since = Instant::now();
        }
    }

    fn write_blocked(&self, blocked: bool) {
        self.0.clocks.lock().write_blocked = blocked;
    }

    /// Polls a connection to its end: its own, that of a clock, or `force`'s. After `stop` it takes no more requests.
    pub(super) async fn drive<C: Serves>(
        &self,
        serving: C,
        stop: &CancellationToken,
        force: &CancellationToken,
    ) -> End {
        let mut serving = pin!(serving);
        let mut stopped = pin!(stop.cancelled());
        let mut forced = pin!(force.cancelled());
        let mut clock = pin!(tokio::time::sleep_until(self.due().into()));
        let mut stopping = false;
        poll_fn(|cx| {
            if !stopping && stopped.as_mut().poll(cx).is_ready() {
                stopping = true;
                serving.as_mut().finish();
            }
            if serving.as_mut().poll(cx).is_ready() {
                return Poll::Ready(End::Finished);
            }
            if forced.as_mut().poll(cx).is_ready() {
                return Poll::Ready(End::Forced);
            }
            self.poll_clock(clock.as_mut(), cx)
        })
        .await
    }

    fn poll_clock(&self, mut clock: Pin<&mut Sleep>, cx: &mut Context<'_>) -> Poll<End> {
        let due = self.due();
        if due < clock.deadline().into_std() {
            clock.as_mut().reset(due.into());
        }
        while clock.as_mut().poll(cx).is_ready() {
            let due = self.due();
            if due <= Instant::now() {
                return Poll::Ready(End::TimedOut);
            }
            clock.as_mut().reset(due.into());
        }
        Poll::Pending
    }
}

/// How a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Finished,
    TimedOut,
    Forced,
}

/// A connection being served.
pub(super) trait Serves: Future {
    /// Takes no more requests and ends when the open ones are answered.
    fn finish(self: Pin<&mut Self>);
}

/// One request and its answer. Ends when dropped: with the last frame of the answer's body, or with the caller.
#[derive(Debug)]
pub struct Exchange {
    connection: Connection,
    id: u64,
    body_due: Instant,
}

impl Exchange {
    /// When the whole body must have arrived.
    pub(super) const fn body_due(&self) -> Instant {
        self.body_due
    }

    /// The connection it belongs to.
    pub(super) const fn connection(&self) -> &Connection {
        &self.connection
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        let mut clocks = self.connection.0.clocks.lock();
        clocks.open.retain(|(id, _)| *id != self.id);
        if clocks.open.is_empty() {
            clocks.in_header = false;
            clocks.since = Instant::now();
        }
    }
}

pin_project_lite::pin_project! {
    /// A stream that tells its connection what happens on it, and that closes without cutting off its last answer.
    pub(super) struct Wire<T> {
        #[pin]
        stream: T,
        connection: Connection,
        closing: Option<Pin<Box<Sleep>>>,
    }
}

impl<T> Wire<T> {
    pub(super) fn new(stream: T, connection: Connection) -> Self {
        Self {
            stream,
            connection,
            closing: None,
        }
    }
}

impl<T: AsyncRead> AsyncRead for Wire<T> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.project();
        let before = buffer.filled().len();
        ready!(this.stream.poll_read(cx, buffer))?;
        if buffer.filled().len() > before {
            this.connection.bytes_arrived();
        }
        Poll::Ready(Ok(()))
    }
}

impl<T: AsyncRead + AsyncWrite> AsyncWrite for Wire<T> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.project();
        let written = this.stream.poll_write(cx, bytes);
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
        this.connection.write_blocked(written.is_pending());
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.project().stream.poll_flush(cx)
    }

    /// Ends our side. Where a body was left unread the stream is then read until the peer ends its own side or the time
    /// is up: closing a socket with unread bytes in it would destroy the answer on its way.
    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut this = self.project();
        if this.closing.is_none() {
            ready!(this.stream.as_mut().poll_shutdown(cx))?;
            if !this.connection.0.linger.load(Ordering::Relaxed) {
                return Poll::Ready(Ok(()));
            }
            *this.closing = Some(Box::pin(tokio::time::sleep(this.connection.0.timeouts.linger)));
        }
        if this
            .closing
            .as_mut()
            .is_some_and(|clock| clock.as_mut().poll(cx).is_ready())
        {
            return Poll::Ready(Ok(()));
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
