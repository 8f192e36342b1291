//! One bounded connection per request.

use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::uri::PathAndQuery;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Body, Incoming};
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::UnixStream;

use super::error::{BoundReached, EngineError, cut};
use super::{ApiVersion, MAX_ANSWER_BYTES, MAX_ERROR_TEXT_BYTES};

/// What a connection may carry beside the answer itself: its head and the framing of its chunks.
const FRAMING_BYTES: usize = 64 << 10;

/// Opens connections to one Unix socket.
#[derive(Clone, Debug)]
pub(super) struct Transport {
    socket: Arc<Path>,
    /// Begins the path of every request. The client library asks without a version, which engines read as their newest.
    prefix: Arc<str>,
}

impl Transport {
    pub(super) fn new(socket: &Path) -> Self {
        Self {
            socket: socket.into(),
            prefix: "".into(),
        }
    }

    /// The same socket, spoken to in this API version.
    pub(super) fn speaking(&self, api: ApiVersion) -> Self {
        Self {
            socket: Arc::clone(&self.socket),
            prefix: format!("/v{api}").into(),
        }
    }

    /// Sends a request on a connection of its own and returns the answer's head once it is a success or the consent to
    /// an upgrade.
    pub(super) async fn send<B>(&self, request: Request<B>) -> Result<Response<Incoming>, EngineError>
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let stream = UnixStream::connect(&*self.socket)
            .await
            .map_err(|error| EngineError::of_connect(&self.socket, &error))?;
        let (stream, bound) = Bounded::new(stream, MAX_ANSWER_BYTES + FRAMING_BYTES);
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .map_err(|error| EngineError::of_hyper(&error))?;
        // Ends with the answer's body, or when the caller drops it; its errors reach the caller through the body.
        tokio::spawn(connection.with_upgrades());
        let response = sender
            .send_request(self.addressed(request)?)
            .await
            .map_err(|error| EngineError::of_hyper(&error))?;
        match response.status() {
            StatusCode::SWITCHING_PROTOCOLS => {
                bound.lift();
                Ok(response)
            }
            status if status.is_success() || status == StatusCode::NOT_MODIFIED => Ok(response),
            status => Err(EngineError::of_status(status.as_u16(), error_text(response).await)),
        }
    }

    /// The request with its target as servers expect it, in the version spoken, and a host.
    fn addressed<B>(&self, mut request: Request<B>) -> Result<Request<B>, EngineError> {
        let path = request.uri().path_and_query().map_or("/", PathAndQuery::as_str);
        let target = format!("{}{path}", self.prefix);
        *request.uri_mut() = target.parse().map_err(EngineError::transport)?;
        let headers = request.headers_mut();
        headers.insert(header::HOST, HeaderValue::from_static("engine"));
        Ok(request)
    }

    /// Fetches and parses a JSON answer.
    pub(super) async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, EngineError> {
        let response = self.send(request(Method::GET, path)?).await?;
        let body = whole(response.into_body()).await?;
        serde_json::from_slice(&body).map_err(EngineError::malformed)
    }
}

/// A request without a body.
pub(super) fn request(method: Method, path: &str) -> Result<Request<Full<Bytes>>, EngineError> {
    Request::builder()
        .method(method)
        .uri(path)
        .body(Full::new(Bytes::new()))
        .map_err(EngineError::transport)
}

/// The whole body, or an error when it holds more than an answer may.
pub(super) async fn whole(mut body: Incoming) -> Result<Vec<u8>, EngineError> {
    let mut bytes = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| EngineError::of_hyper(&error))?;
        let Some(data) = frame.data_ref() else { continue };
        if bytes.len() + data.len() > MAX_ANSWER_BYTES {
            return Err(EngineError::TooLarge);
        }
        bytes.extend_from_slice(data);
    }
    Ok(bytes)
}

/// The engine's words about a failure, as far as they are kept. A body that breaks off still says what it said.
async fn error_text(response: Response<Incoming>) -> String {
    #[derive(Deserialize)]
    struct Words {
        message: String,
    }
    let mut body = response.into_body();
    let mut bytes = Vec::new();
    while bytes.len() < MAX_ERROR_TEXT_BYTES {
        match body.frame().await {
            Some(Ok(frame)) => bytes.extend_from_slice(frame.data_ref().map_or(&[][..], |data| data)),
            Some(Err(_)) | None => break,
        }
    }
    match serde_json::from_slice::<Words>(&bytes) {
        Ok(words) => cut(words.message),
        Err(_) => cut(String::from_utf8_lossy(&bytes).trim().to_owned()),
    }
}

/// A name as one or more segments of a path: everything that could end or change the path is escaped.
pub(super) fn path_segment(name: &str) -> String {
    let mut escaped = String::with_capacity(name.len());
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~/:@".contains(&byte) {
            escaped.push(char::from(byte));
        } else {
            escaped.push_str(&format!("%{byte:02X}"));
        }
    }
    escaped
}

/// A stream that ends with an error once it has carried more than its bound.
#[derive(Debug)]
pub(super) struct Bounded {
    stream: UnixStream,
    left: Arc<AtomicU64>,
}

/// Takes the bound off a stream that others hold.
struct Bound(Arc<AtomicU64>);

impl Bound {
    fn lift(&self) {
        self.0.store(u64::MAX, Ordering::Relaxed);
    }
}

impl Bounded {
    fn new(stream: UnixStream, bytes: usize) -> (Self, Bound) {
        let left = Arc::new(AtomicU64::new(u64::try_from(bytes).unwrap_or(u64::MAX)));
        let bound = Bound(Arc::clone(&left));
        (Self { stream, left }, bound)
    }

    /// The stream without its bound.
    pub(super) fn into_inner(self) -> UnixStream {
        self.stream
    }
}

impl AsyncRead for Bounded {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<std::io::Result<()>> {
        let left = self.left.load(Ordering::Relaxed);
        if left == 0 {
            return Poll::Ready(Err(std::io::Error::other(BoundReached)));
        }
        let before = buf.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(cx, buf);
        let read = u64::try_from(buf.filled().len().saturating_sub(before)).unwrap_or(u64::MAX);
        if left != u64::MAX {
            // Only this side counts down; the other side only ever lifts the bound, and its write must win.
            let _ = self
                .left
                .compare_exchange(left, left.saturating_sub(read), Ordering::Relaxed, Ordering::Relaxed);
        }
        polled
    }
}

impl AsyncWrite for Bounded {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[std::io::IoSlice<'_>],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
