//! A listener: accepts under its connection cap, agrees on TLS where it has a certificate, serves HTTP/1.1 and HTTP/2 on one
//! port, and drains.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use plimsoll_sandbox::BoxFuture;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::body::EdgeBody;
use super::connection::{Connection, End, Exchange, Serves, Timeouts};
use super::stream::{Socket, Wire};
use crate::tls::{Tls, agreed_on_http2};

/// Header block, in bytes; the HTTP/2 list limit is the same.
const HEADER_BYTES: usize = 32 * 1024;
const HEADER_LIST_BYTES: u32 = 32 * 1024;

/// No limit of its own: the shortest header line has four bytes, so this many do not fit the header block.
const MAX_HEADERS: usize = HEADER_BYTES / 4;

/// Concurrent HTTP/2 streams of one connection.
const MAX_STREAMS: u32 = 128;

/// Bytes of an answer that are taken from its maker before the peer has room for them, per stream.
const SEND_BUFFER_BYTES: usize = 64 * 1024;

/// Streams a peer may reset before they are handled; more ends the connection (rapid reset).
const MAX_PENDING_RESETS: usize = 20;

/// Streams we may have to reset for a peer's protocol errors; more ends the connection.
const MAX_ERROR_RESETS: usize = 256;

/// How often an HTTP/2 peer with an open stream is asked whether it is still there, and how long it may think.
const PING_INTERVAL: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(20);

/// Pause after a failed accept: the process is out of descriptors or memory, and asking again at once helps nobody.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// What answers the requests of a listener.
pub trait Site: Clone + Send + Sync + 'static {
    /// Answers one request. Dropping the future means that the peer has gone.
    fn respond(&self, request: Request<Incoming>, exchange: Exchange) -> BoxFuture<'static, Response<EdgeBody>>;
}

/// A bound socket and what is spoken on it.
#[derive(Debug)]
pub struct Listener {
    socket: TcpListener,
    tls: Option<Tls>,
}

impl Listener {
    /// With a certificate every connection speaks TLS; without one, none does.
    pub const fn new(socket: TcpListener, tls: Option<Tls>) -> Self {
        Self { socket, tls }
    }
}

/// When a listener ends.
#[derive(Clone, Debug)]
pub struct Drain {
    /// Fires when no more connections and requests are to be taken.
    pub stop: CancellationToken,
    /// How long the open requests may take from then on: 6 minutes.
    pub budget: Duration,
}

/// How a listener ended.
#[derive(Debug)]
pub struct Drained {
    /// Connections that were cut off because the budget was spent.
    pub forced: usize,
    /// Why the listener failed, if it did; it was drained all the same.
    pub failure: Option<io::Error>,
}

/// Serves a listener until it is drained. `max_connections` 0 sets no cap; at the cap new connections wait unaccepted.
pub async fn serve<S: Site>(
    listener: Listener,
    site: S,
    timeouts: Timeouts,
    max_connections: usize,
    drain: Drain,
) -> Drained {
    let force = CancellationToken::new();
    let places = (max_connections > 0).then(|| Arc::new(Semaphore::new(max_connections.min(Semaphore::MAX_PERMITS))));
    let Listener { socket, tls } = listener;
    let versions = Arc::new(Versions::new());
    // Every connection's task holds a sender; the channel ends when the last of them has ended.
    let (ended, mut ends) = mpsc::unbounded_channel::<End>();
    let accepting = async {
        loop {
            let place = match &places {
                Some(places) => Arc::clone(places).acquire_owned().await.ok(),
                None => None,
            };
            let stream = match socket.accept().await {
                Ok((stream, _)) => stream,
                Err(error) if is_fatal(&error) => return error,
                Err(error) => {
                    if is_exhaustion(&error) {
                        tokio::time::sleep(ACCEPT_PAUSE).await;
                    }
                    continue;
                }
            };
            // Answers are small; waiting for a second packet to fill the first would cost 40 ms.
            let _ = stream.set_nodelay(true);
            let (site, versions, tls) = (site.clone(), Arc::clone(&versions), tls.clone());
            let (stop, force, ended) = (drain.stop.clone(), force.clone(), ended.clone());
            // From here on the time of the header runs, in which the handshake has its part.
            let connection = Connection::accepted(timeouts);
            tokio::spawn(async move {
                let end = match agree(stream, tls.as_ref(), &versions, &connection, &stop).await {
                    Some((socket, builder)) => serve_connection(socket, site, builder, connection, &stop, &force).await,
                    None => End::Finished,
                };
                let _ = ended.send(end);
                drop(place);
            });
        }
    };
    let failure = tokio::select! {
        error = accepting => Some(error),
        () = drain.stop.cancelled() => None,
    };
    drain.stop.cancel();
    drop((socket, ended));

    let deadline = Instant::now() + drain.budget;
    let mut forced = 0;
    loop {
        match tokio::time::timeout_at(deadline, ends.recv()).await {
            Ok(Some(end)) => forced += usize::from(end == End::Forced),
            Ok(None) => break,
            Err(_) => {
                force.cancel();
                while let Some(end) = ends.recv().await {
                    forced += usize::from(end == End::Forced);
                }
                break;
            }
        }
    }
    Drained { forced, failure }
}

/// Agrees with a peer on how it is spoken to; `None` when it does not come to that. Nothing has been asked by then, so a
/// peer that fails, or takes longer than the header of a request may, or that the drain meets here, is simply let go.
async fn agree<'v>(
    stream: TcpStream,
    tls: Option<&Tls>,
    versions: &'v Versions,
    connection: &Connection,
    stop: &CancellationToken,
) -> Option<(Socket, &'v auto::Builder<TokioExecutor>)> {
    let Some(tls) = tls else {
        return Some((Socket::Left(stream), &versions.either));
    };
    let handshake = tokio::time::timeout_at(connection.due().into(), Box::pin(tls.accept(stream)));
    let stream = tokio::select! {
        biased;
        () = stop.cancelled() => return None,
        outcome = handshake => match outcome {
            Ok(Ok(stream)) => stream,
            Ok(Err(_)) | Err(_) => {
                tls.handshake_failed();
                return None;
            }
        },
    };
    let builder = match agreed_on_http2(&stream) {
        Some(true) => &versions.http2,
        Some(false) => &versions.http1,
        None => &versions.either,
    };
    Some((Socket::Right(Box::new(stream)), builder))
}

async fn serve_connection<S: Site>(
    socket: Socket,
    site: S,
    builder: &auto::Builder<TokioExecutor>,
    connection: Connection,
    stop: &CancellationToken,
    force: &CancellationToken,
) -> End {
    let wire = TokioIo::new(Wire::new(socket, connection.clone()));
    let service = service_fn(|request: Request<Incoming>| {
        let exchange = connection.begin(request.version());
        let answer = site.respond(request, exchange);
        let connection = connection.clone();
        async move {
            let answer = answer.await;
            // A stranger's further streams are reset: nothing of them ran, and nothing of them is kept.
            connection
                .may_answer()
                .then_some(answer)
                .ok_or_else(|| h2::Error::from(h2::Reason::REFUSED_STREAM))
        }
    });
    connection
        .drive(builder.serve_connection(wire, service), stop, force)
        .await
}

impl<I, S, E> Serves for auto::Connection<'_, I, S, E>
where
    Self: Future,
    S: hyper::service::HttpService<Incoming, ResBody = EdgeBody>,
    S::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    I: hyper::rt::Read + hyper::rt::Write + Unpin,
    E: hyper::rt::bounds::Http2ServerConnExec<S::Future, EdgeBody>,
{
    fn finish(self: Pin<&mut Self>) {
        self.graceful_shutdown();
    }
}

/// How connections are spoken to: in the version that was agreed on, or in the one that the peer begins with.
struct Versions {
    either: auto::Builder<TokioExecutor>,
    http1: auto::Builder<TokioExecutor>,
    http2: auto::Builder<TokioExecutor>,
}

impl Versions {
    fn new() -> Self {
        Self {
            either: http_builder(),
            http1: http_builder().http1_only(),
            http2: http_builder().http2_only(),
        }
    }
}

fn http_builder() -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        // The clocks of `connection` do this; the library's would also close an idle connection after it.
        .header_read_timeout(None)
        .max_buf_size(HEADER_BYTES)
        .max_headers(MAX_HEADERS);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_STREAMS)
        .max_header_list_size(HEADER_LIST_BYTES)
        .max_send_buf_size(SEND_BUFFER_BYTES)
        .max_pending_accept_reset_streams(MAX_PENDING_RESETS)
        .max_local_error_reset_streams(MAX_ERROR_RESETS)
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_TIMEOUT);
    builder
}

/// The listener itself is gone; nothing will ever be accepted again.
fn is_fatal(error: &io::Error) -> bool {
    // EBADF, EINVAL, ENOTSOCK, EOPNOTSUPP: the descriptor is not a listening socket (any more).
    matches!(error.raw_os_error(), Some(9 | 22 | 88 | 95))
}

/// No descriptors or memory just now: EMFILE, ENFILE, ENOBUFS, ENOMEM.
fn is_exhaustion(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(23 | 24 | 105 | 12))
}
