//! One connection to the upstream, used by one call at a time.
//!
//! The call itself drives the connection: no task is spawned for it, so a call that is dropped takes its socket with it, a
//! kept connection is plain data, and nothing of the HTTP stack outlives the run. It also saves two task switches a call.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Frame, Incoming};
use hyper::client::conn::{http1, http2};
use hyper::rt::{Executor, Read, Write};
use parking_lot::Mutex;
use tokio::task::yield_now;

use super::socket::{Unread, Wire};

/// Largest response head, in bytes; the HTTP stack's own bound is seven times that.
const MAX_HEAD_BYTES: usize = 64 << 10;

type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A connection ready for requests.
pub(crate) struct Connection {
    sender: Sender,
    driver: Driver,
    wire: Arc<Wire>,
}

enum Sender {
    One(http1::SendRequest<Full<Bytes>>),
    Two(http2::SendRequest<Full<Bytes>>),
}

impl Connection {
    /// Speaks HTTP/1.1 on a stream.
    pub(crate) async fn http1<T>(io: T, wire: Arc<Wire>) -> hyper::Result<Self>
    where
        T: Read + Write + Unpin + Send + 'static,
    {
        let (sender, connection) = http1::Builder::new()
            .max_header_size(MAX_HEAD_BYTES)
            .max_buf_size(2 * MAX_HEAD_BYTES)
            .handshake(io)
            .await?;
        let work = async move {
            // What went wrong reaches the call through its response.
            let _ = connection.await;
        };
        Ok(Self {
            sender: Sender::One(sender),
            driver: Driver(Some(Box::pin(work))),
            wire,
        })
    }

    /// Speaks HTTP/2 on a stream. One stream at a time: calls do not share the fate of a connection.
    pub(crate) async fn http2<T>(io: T, wire: Arc<Wire>) -> hyper::Result<Self>
    where
        T: Read + Write + Unpin + Send + 'static,
    {
        let inbox = Inbox::default();
        let (sender, connection) = http2::Builder::new(inbox.clone()).handshake(io).await?;
        let work = Together {
            running: vec![Box::pin(async move {
                let _ = connection.await;
            })],
            inbox,
        };
        Ok(Self {
            sender: Sender::Two(sender),
            driver: Driver(Some(Box::pin(work))),
            wire,
        })
    }

    pub(crate) const fn is_http2(&self) -> bool {
        matches!(self.sender, Sender::Two(_))
    }

    /// Sends one request and waits for the head of its answer.
    pub(crate) async fn send(&mut self, request: Request<Full<Bytes>>) -> hyper::Result<Response<Incoming>> {
        self.wire.start_call();
        match &mut self.sender {
            Sender::One(sender) => {
                let answer = pin!(sender.send_request(request));
                self.driver.until(answer).await
            }
            Sender::Two(sender) => {
                let answer = pin!(sender.send_request(request));
                self.driver.until(answer).await
            }
        }
    }

    /// Whether a byte of the last call left this process.
    pub(crate) fn wrote(&self) -> bool {
        self.wire.wrote()
    }

    /// The next piece of an answer's body.
    pub(crate) async fn frame(&mut self, body: &mut Incoming) -> Option<hyper::Result<Frame<Bytes>>> {
        let frame = pin!(body.frame());
        self.driver.until(frame).await
    }

    /// Whether another call may be made: the HTTP layer waits for one, the peer is there, and it has sent nothing that
    /// nobody asked for. Bytes that are there by now are never read as the answer to a later call; over HTTP/1.1 nothing tells
    /// those that come once it was sent from its own answer.
    pub(crate) async fn is_ready(&mut self) -> bool {
        for _ in 0..2 {
            let open = poll_fn(|cx| Poll::Ready(self.driver.poll(cx).is_pending())).await;
            let waits = match &self.sender {
                Sender::One(sender) => sender.is_ready(),
                Sender::Two(sender) => sender.is_ready(),
            };
            if !open || !waits {
                return false;
            }
            match self.wire.unread() {
                Unread::Nothing => return true,
                Unread::End => return false,
                // A record of TLS or a frame of HTTP/2, perhaps: the reactor gets a turn, the driver another look.
                Unread::Bytes => yield_now().await,
            }
        }
        // A frame belongs to a numbered stream; over HTTP/1 nothing says whose answer bytes are.
        self.is_http2()
    }
}

/// The work of a connection: moves bytes between HTTP layer and socket while it is polled. Empty once it has ended.
struct Driver(Option<Work>);

impl Driver {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(work) = &mut self.0 else {
            return Poll::Ready(());
        };
        let done = work.as_mut().poll(cx);
        if done.is_ready() {
            self.0 = None;
        }
        done
    }

    /// Works until `future` is ready.
    async fn until<F: Future>(&mut self, mut future: Pin<&mut F>) -> F::Output {
        poll_fn(|cx| {
            if let Poll::Ready(output) = future.as_mut().poll(cx) {
                return Poll::Ready(output);
            }
            // An ended driver has told the future why; it is asked once more either way.
            let _ = self.poll(cx);
            future.as_mut().poll(cx)
        })
        .await
    }
}

/// Where the HTTP/2 layer leaves the work it would have spawned.
#[derive(Clone, Default)]
struct Inbox(Arc<Mutex<Vec<Work>>>);

impl<F> Executor<F> for Inbox
where
    F: Future + Send + 'static,
{
    fn execute(&self, future: F) {
        self.0.lock().push(Box::pin(async move {
            future.await;
        }));
    }
}

/// A handful of futures polled as one; ready when none is left.
struct Together {
    running: Vec<Work>,
    inbox: Inbox,
}

impl Future for Together {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            self.running.retain_mut(|work| work.as_mut().poll(cx).is_pending());
            let mut new = std::mem::take(&mut *self.inbox.0.lock());
            if new.is_empty() {
                break;
            }
            self.running.append(&mut new);
        }
        if self.running.is_empty() {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }
}

impl Drop for Together {
    fn drop(&mut self) {
        // Work in the inbox may hold the inbox: emptied, or neither would ever be freed.
        let left = std::mem::take(&mut *self.inbox.0.lock());
        drop(left);
    }
}
