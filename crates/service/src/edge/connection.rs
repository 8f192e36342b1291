//! One connection's clocks, and how it ends.
//!
//! The HTTP library's own header timeout also counts the time between two requests, so the clocks are kept here: the
//! I/O wrapper ([`super::stream`]) notes when the first byte of a request arrives, an [`Exchange`] notes when a request
//! begins and its answer has been written, and the driver closes the connection when the clock that is running has run out.
//! On the usual path no timer is touched: a clock is only re-armed when it would ring too late.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use http::Version;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Sleep;
use tokio_util::sync::CancellationToken;

/// The clocks of one listener.
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

/// Answers an HTTP/2 peer gets before it has named itself as a caller we know, on one connection. A peer may leave answers
/// unread, so this, and not the number of streams, bounds what a stranger makes us hold.
const STRANGER_ANSWERS: u32 = 16;

/// What one connection's parts know of each other.
#[derive(Clone, Debug)]
pub struct Connection(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    timeouts: Timeouts,
    /// Set when an answer went out before the end of a body: the peer may still be sending.
    linger: AtomicBool,
    /// Set with the first request whose caller is known.
    known: AtomicBool,
    /// Told when a stranger has had its share of answers.
    enough: Notify,
    clocks: Mutex<Clocks>,
}

#[derive(Debug)]
struct Clocks {
    /// While no exchange is open: whether a request's header block has begun, and since when this has been so.
    in_header: bool,
    since: Instant,
    /// The open exchanges, oldest first. On HTTP/1 all but the last are answered, and are being written.
    open: Vec<Open>,
    next: u64,
    /// Begin of the last exchange, for short answers: the connection copies them, and writes them after they have ended.
    last_begin: Instant,
    write_blocked: bool,
    http2: bool,
    /// Answers to a peer on HTTP/2 that no caller is known of.
    strangers: u32,
    /// When such a peer had had its share.
    enough_since: Option<Instant>,
}

#[derive(Debug)]
struct Open {
    id: u64,
    begin: Instant,
    /// HTTP/1.1 alone knows interim answers.
    interim: bool,
    whole: bool,
    answered: bool,
}

/// What an HTTP/1 peer that has ended its side may still be waiting for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waiting {
    /// Nothing: it is gone, or it speaks a version in which it cannot be asked.
    Nothing,
    /// It has cut off its own request.
    Unsent,
    /// An answer that is being made.
    Answer,
    /// An answer that is being written.
    Rest,
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
            strangers: 0,
            enough_since: None,
        };
        Self(Arc::new(Shared {
            timeouts,
            linger: AtomicBool::new(false),
            known: AtomicBool::new(false),
            enough: Notify::new(),
            clocks: Mutex::new(clocks),
        }))
    }

    /// A request's header block is complete. Its body is due by the returned exchange's deadline.
    pub(super) fn begin(&self, version: Version) -> Exchange {
        let now = Instant::now();
        let mut clocks = self.0.clocks.lock();
        let header_began = if clocks.in_header && clocks.open.is_empty() {
            clocks.since
        } else {
            now
        };
        let id = clocks.next;
        clocks.next += 1;
        clocks.open.push(Open {
            id,
            begin: now,
            interim: version == Version::HTTP_11,
            whole: false,
            answered: false,
        });
        clocks.in_header = false;
        clocks.last_begin = now;
        clocks.http2 |= version == Version::HTTP_2;
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

    /// When the clock that is running has run out.
    pub(super) fn due(&self) -> Instant {
        let clocks = self.0.clocks.lock();
        let timeouts = &self.0.timeouts;
        let due = match clocks.open.iter().map(|open| open.begin).min() {
            Some(oldest) => oldest + timeouts.write,
            None if clocks.write_blocked => clocks.last_begin + timeouts.write,
            None if clocks.in_header => clocks.since + timeouts.header,
            None => clocks.since + timeouts.idle,
        };
        match clocks.enough_since {
            Some(since) => due.min(since + timeouts.request),
            None => due,
        }
    }

    /// The peer has shown that it is a caller we know: it may leave as many answers open as there are streams.
    pub(super) fn caller_known(&self) {
        self.0.known.store(true, Ordering::Relaxed);
    }

    /// Whether one more answer may go out. A stranger on HTTP/2 gets a number of them; with the last the connection takes no
    /// more requests, and has as long as a request may take to end.
    pub(super) fn may_answer(&self) -> bool {
        if self.0.known.load(Ordering::Relaxed) {
            return true;
        }
        let mut clocks = self.0.clocks.lock();
        if !clocks.http2 {
            return true;
        }
        clocks.strangers = clocks.strangers.saturating_add(1);
        if clocks.strangers == STRANGER_ANSWERS {
            clocks.enough_since = Some(Instant::now());
            self.0.enough.notify_one();
        }
        clocks.strangers <= STRANGER_ANSWERS
    }

    /// What a peer that has ended its side may be waiting for. `unflushed`: bytes of an answer have not left yet.
    pub(super) fn waiting(&self, unflushed: bool) -> Waiting {
        let clocks = self.0.clocks.lock();
        match clocks.open.last() {
            // HTTP/2 ends requests by itself; who ends the connection beneath it is gone.
            _ if clocks.http2 => Waiting::Nothing,
            Some(open) if open.answered => Waiting::Rest,
            Some(open) if open.interim && open.whole => Waiting::Answer,
            Some(open) if open.interim => Waiting::Unsent,
            None if unflushed => Waiting::Rest,
            _ => Waiting::Nothing,
        }
    }

    /// Whether the last write found no room.
    pub(super) fn is_write_blocked(&self) -> bool {
        self.0.clocks.lock().write_blocked
    }

    /// How much longer the stream is to be read before it is closed, if at all.
    pub(super) fn linger(&self) -> Option<Duration> {
        self.0.linger.load(Ordering::Relaxed).then_some(self.0.timeouts.linger)
    }

    pub(super) fn bytes_arrived(&self) {
        let mut clocks = self.0.clocks.lock();
        if !clocks.in_header && !clocks.http2 && clocks.open.is_empty() {
            clocks.in_header = true;
            clocks.since = Instant::now();
        }
    }

    pub(super) fn write_blocked(&self, blocked: bool) {
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
        let mut enough = pin!(self.0.enough.notified());
        let mut had_enough = false;
        let mut forced = pin!(force.cancelled());
        let mut clock = pin!(tokio::time::sleep_until(self.due().into()));
        let mut stopping = false;
        poll_fn(|cx| {
            had_enough = had_enough || enough.as_mut().poll(cx).is_ready();
            if !stopping && (had_enough || stopped.as_mut().poll(cx).is_ready()) {
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

/// One request and its answer. Ends when dropped: with the last byte of the answer, or with the caller.
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

    /// The request has been read to its end: from here on a peer that ends its side may still be waiting.
    pub(super) fn request_is_whole(&self) {
        self.change(|open| open.whole = true);
    }

    /// The answer's first bytes may go out at any moment.
    pub(super) fn answered(&self) {
        self.change(|open| open.answered = true);
    }

    fn change(&self, change: impl FnOnce(&mut Open)) {
        let mut clocks = self.connection.0.clocks.lock();
        if let Some(open) = clocks.open.iter_mut().find(|open| open.id == self.id) {
            change(open);
        }
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        let mut clocks = self.connection.0.clocks.lock();
        clocks.open.retain(|open| open.id != self.id);
        if clocks.open.is_empty() {
            clocks.in_header = false;
            clocks.since = Instant::now();
        }
    }
}
