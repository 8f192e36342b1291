//! A scripted upstream on a raw socket, and a run that calls it.

use std::collections::VecDeque;
use std::future::Future as _;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame};
use http_body_util::Full;
use parking_lot::Mutex;
use plimsoll_broker::{Broker, BrokerAnswer, BrokerOptions, ResolveFuture, Resolver};
use plimsoll_grants::grant::{Grant, GrantSpec};
use plimsoll_grants::mint::Credential;
use plimsoll_grants::trace::CallTrace;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

pub(crate) const TOKEN: &str = "tok-0123456789abcdef";

/// One request as it came over the wire.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    /// Request line and header lines.
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
    /// How many came before it on its connection.
    pub(crate) nth: usize,
}

impl Seen {
    pub(crate) fn line(&self) -> &str {
        self.head.lines().next().unwrap()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().skip(1).find_map(|line| {
            let (key, value) = line.split_once(": ")?;
            key.eq_ignore_ascii_case(name).then_some(value)
        })
    }
}

/// What the upstream does next.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Send(Vec<u8>),
    Sleep(Duration),
    /// Waits for the peer to go away, and counts it.
    Hang,
    Close,
}

/// The state a script and its test share.
#[derive(Debug, Default)]
pub(crate) struct Log {
    seen: Mutex<Vec<Seen>>,
    pub(crate) connections: AtomicUsize,
    /// Connections that are open now.
    pub(crate) open: AtomicUsize,
    /// Peers that went away during [`Step::Hang`].
    pub(crate) hangups: AtomicUsize,
}

pub(crate) struct Script {
    pub(crate) address: SocketAddr,
    pub(crate) log: Arc<Log>,
    task: JoinHandle<()>,
}

impl Script {
    pub(crate) async fn start(script: impl Fn(&Seen) -> Vec<Step> + Send + Sync + 'static) -> Self {
        Self::over(None, script).await
    }

    /// Over TLS when there is something to speak it with.
    pub(crate) async fn over(
        tls: Option<TlsAcceptor>,
        script: impl Fn(&Seen) -> Vec<Step> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let log = Arc::new(Log::default());
        let (script, shared) = (Arc::new(script), Arc::clone(&log));
        let task = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                stream.set_nodelay(true).unwrap();
                shared.connections.fetch_add(1, Ordering::SeqCst);
                shared.open.fetch_add(1, Ordering::SeqCst);
                let (script, log, tls) = (Arc::clone(&script), Arc::clone(&shared), tls.clone());
                tokio::spawn(async move {
                    match tls {
                        None => drop(serve(stream, &*script, &log).await),
                        Some(tls) => {
                            if let Ok(stream) = tls.accept(stream).await {
                                drop(serve(stream, &*script, &log).await);
                            }
                        }
                    }
                    log.open.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        Self { address, log, task }
    }

    /// Answers every request with the same bytes.
    pub(crate) async fn always(answer: Vec<u8>) -> Self {
        Self::start(move |_| vec![Step::Send(answer.clone())]).await
    }

    pub(crate) fn origin(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.log.seen.lock().clone()
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        self.seen().iter().map(|seen| seen.line().to_owned()).collect()
    }

    /// Waits, for a moment, until no connection is open.
    pub(crate) async fn all_closed(&self) {
        for _ in 0..500 {
            if self.log.open.load(Ordering::SeqCst) == 0 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        panic!("{} connections stay open", self.log.open.load(Ordering::SeqCst));
    }

    pub(crate) fn connections(&self) -> usize {
        self.log.connections.load(Ordering::SeqCst)
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        self.task.abort();
    }
}

pub(crate) async fn serve<S>(
    mut stream: S,
    script: &(impl Fn(&Seen) -> Vec<Step> + ?Sized),
    log: &Log,
) -> io::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut buffer = Vec::new();
    for nth in 0.. {
        let Some(seen) = read_request(&mut stream, &mut buffer, nth).await? else {
            return Ok(());
        };
        log.seen.lock().push(seen.clone());
        for step in script(&seen) {
            match step {
                Step::Send(bytes) => stream.write_all(&bytes).await?,
                Step::Sleep(time) => tokio::time::sleep(time).await,
                Step::Hang => {
                    while matches!(stream.read(&mut [0; 64]).await, Ok(1..)) {}
                    log.hangups.fetch_add(1, Ordering::SeqCst);
                    return Ok(());
                }
                Step::Close => return stream.shutdown().await,
            }
        }
    }
    Ok(())
}

async fn read_request<S>(stream: &mut S, buffer: &mut Vec<u8>, nth: usize) -> io::Result<Option<Seen>>
where
    S: AsyncRead + Unpin,
{
    loop {
        if let Some(end) = buffer.windows(4).position(|window| window == b"\r\n\r\n") {
            let head = String::from_utf8(buffer[..end].to_vec()).unwrap();
            let mut seen = Seen {
                head,
                body: Vec::new(),
                nth,
            };
            let length = seen.header("content-length").map_or(0, |text| text.parse().unwrap());
            if buffer.len() >= end + 4 + length {
                seen.body = buffer[end + 4..end + 4 + length].to_vec();
                buffer.drain(..end + 4 + length);
                return Ok(Some(seen));
            }
        }
        if stream.read_buf(buffer).await? == 0 {
            return Ok(None);
        }
    }
}

/// An answer with its length.
pub(crate) fn answer(status: u16, headers: &str, body: impl AsRef<[u8]>) -> Vec<u8> {
    let body = body.as_ref();
    let mut bytes = format!("HTTP/1.1 {status} X\r\n{headers}Content-Length: {}\r\n\r\n", body.len()).into_bytes();
    bytes.extend_from_slice(body);
    bytes
}

pub(crate) fn ok() -> Vec<u8> {
    answer(200, "Content-Type: application/json\r\n", "{}")
}

/// A grant that allows `routes` of `origin`.
pub(crate) fn spec(origin: &str, routes: &[&str]) -> GrantSpec {
    let mut spec = GrantSpec::new(origin);
    spec.allow = routes
        .iter()
        .map(|route| {
            let (method, path) = route.split_once(' ').unwrap();
            (method.to_owned(), path.to_owned())
        })
        .collect();
    spec
}

pub(crate) fn grant(origin: &str, routes: &[&str]) -> Grant {
    spec(origin, routes).validate().unwrap()
}

/// One run.
#[derive(Clone)]
pub(crate) struct Run(pub(crate) Arc<Broker>);

impl Run {
    pub(crate) fn new(origin: &str, routes: &[&str]) -> Self {
        Self::with(&spec(origin, routes), BrokerOptions::default())
    }

    pub(crate) fn with(spec: &GrantSpec, options: BrokerOptions) -> Self {
        let credential = Credential::new(TOKEN);
        Self(Broker::open(spec.validate().unwrap(), Some(credential), options).unwrap())
    }

    pub(crate) async fn call(&self, method: &str, path: &str, body: impl Into<Bytes>) -> BrokerAnswer {
        self.0
            .call(method.as_bytes(), path.as_bytes(), Full::new(body.into()))
            .await
    }

    pub(crate) async fn get(&self, path: &str) -> BrokerAnswer {
        self.call("GET", path, "").await
    }

    pub(crate) async fn status(&self, path: &str) -> u16 {
        self.get(path).await.status
    }

    pub(crate) fn trace(&self) -> CallTrace {
        self.0.trace().unwrap_or_default()
    }

    /// Rows, denied, shed.
    pub(crate) fn counts(&self) -> (usize, u64, u64) {
        let trace = self.trace();
        (trace.rows.len(), trace.denied, trace.shed)
    }
}

/// Gives a list of answers in turn, and keeps to the last.
#[derive(Debug)]
pub(crate) struct Names {
    pub(crate) answers: Vec<Vec<IpAddr>>,
    pub(crate) asked: AtomicUsize,
}

impl Names {
    pub(crate) fn new(answers: &[&[&str]]) -> Arc<Self> {
        let parse = |list: &&[&str]| list.iter().map(|text| text.parse().unwrap()).collect();
        Arc::new(Self {
            answers: answers.iter().map(parse).collect(),
            asked: AtomicUsize::new(0),
        })
    }
}

impl Resolver for Names {
    fn resolve<'a>(&'a self, _: &'a str) -> ResolveFuture<'a> {
        Box::pin(async move {
            let turn = self.asked.fetch_add(1, Ordering::SeqCst);
            Ok(self.answers[turn.min(self.answers.len() - 1)].clone())
        })
    }
}

/// A body that does not say how long it is: pieces, then perhaps an error.
pub(crate) struct Pieces(VecDeque<Result<Vec<u8>, &'static str>>);

impl Pieces {
    pub(crate) fn new(pieces: Vec<Result<Vec<u8>, &'static str>>) -> Self {
        Self(pieces.into())
    }
}

impl Body for Pieces {
    type Data = Bytes;
    type Error = &'static str;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, &'static str>>> {
        Poll::Ready(
            self.0
                .pop_front()
                .map(|piece| piece.map(|bytes| Frame::data(bytes.into()))),
        )
    }
}

/// A body that arrives when the test says so.
pub(crate) struct Later(pub(crate) oneshot::Receiver<Bytes>);

impl Body for Later {
    type Data = Bytes;
    type Error = oneshot::error::RecvError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        if self.0.is_terminated() {
            return Poll::Ready(None);
        }
        Pin::new(&mut self.0).poll(cx).map(|bytes| Some(bytes.map(Frame::data)))
    }
}
