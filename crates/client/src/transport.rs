//! One HTTP/1.1 exchange on a connection of its own.
//!
//! The connection is opened for the call and never reused, so that "nothing left this process" is a fact and not a guess.
//! Everything belongs to the caller's future: dropping it closes the socket and ends the attempts to connect.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io};

use bytes::{Bytes, BytesMut};
use http::header::{ACCEPT_ENCODING, AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, HOST, USER_AGENT};
use http::{HeaderMap, HeaderValue, Method, Request};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use plimsoll_core::limits::MAX_RESPONSE_BYTES;
use plimsoll_wire::http::{CONNECT_PROTOCOL_VERSION, JSON, Procedure, REQUEST_ID};
use rustls::ClientConfig;
use rustls::crypto::CryptoProvider;
use secrecy::{ExposeSecret as _, SecretString};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::{JoinSet, yield_now};
use tokio::time::{Instant, sleep, sleep_until};
use tokio_rustls::TlsConnector;

use crate::cancel::CancelToken;
#[cfg(feature = "connector")]
use crate::connect::Connect;
use crate::error::{Error, ErrorKind};
use crate::stream::{Marking, Sent, Socket};
use crate::url::{BaseUrl, Host};

/// How long one address may stay silent before the next one is tried beside it, so that a dead IPv6 route costs a moment
/// and not the whole timeout (the value RFC 8305 recommends).
const NEXT_ADDRESS_AFTER: Duration = Duration::from_millis(250);

/// How often the exchange is polled once more after a cancel: enough for a small answer that has wholly arrived.
const TURNS_AFTER_CANCEL: usize = 16;

const AGENT: &str = concat!("plimsoll-client-rust/", env!("CARGO_PKG_VERSION"));

/// Where and how calls are made.
pub(crate) struct Transport {
    pub(crate) base: BaseUrl,
    pub(crate) token: Option<SecretString>,
    pub(crate) timeout: Duration,
    /// Present exactly when the scheme is `https`.
    pub(crate) tls: Option<Arc<ClientConfig>>,
    /// The source of request ids.
    pub(crate) crypto: Arc<CryptoProvider>,
    /// What makes connections instead of the system.
    #[cfg(feature = "connector")]
    pub(crate) connector: Option<Arc<dyn Connect>>,
}

/// A whole answer and the id it must name.
pub(crate) struct HttpAnswer {
    pub(crate) request_id: String,
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Transport {
    /// Posts one body and reads one answer, under one deadline.
    pub(crate) async fn post(
        &self,
        procedure: Procedure,
        body: Vec<u8>,
        cancel: Option<&CancelToken>,
    ) -> Result<HttpAnswer, Error> {
        self.post_watched(procedure, body, cancel, &Sent::default()).await
    }

    /// As [`Transport::post`], and somebody watches whether anything has left.
    pub(crate) async fn post_watched(
        &self,
        procedure: Procedure,
        body: Vec<u8>,
        cancel: Option<&CancelToken>,
        sent: &Sent,
    ) -> Result<HttpAnswer, Error> {
        if cancel.is_some_and(CancelToken::is_canceled) {
            return Err(Error::canceled(false));
        }
        let deadline = Instant::now() + self.timeout;
        let canceled = async {
            match cancel {
                Some(token) => token.canceled().await,
                None => std::future::pending().await,
            }
            // An answer that has arrived may still lie between socket, HTTP state and body; the exchange below is polled
            // before each of these turns, so it comes out. Nothing here waits for the network.
            for _ in 0..TURNS_AFTER_CANCEL {
                yield_now().await;
            }
        };
        tokio::select! {
            biased;
            outcome = self.exchange(procedure, body, sent) => outcome,
            () = canceled => Err(Error::canceled(sent.get())),
            () = sleep_until(deadline) => {
                let message = format!("no whole answer within the request timeout of {:?}", self.timeout);
                Err(Error::new(ErrorKind::RequestTimeout, message).marked_unless(sent.get()))
            }
        }
    }

    async fn exchange(&self, procedure: Procedure, body: Vec<u8>, sent: &Sent) -> Result<HttpAnswer, Error> {
        let request_id = self.request_id()?;
        let request = self.request(procedure, &request_id, body)?;
        #[cfg(feature = "connector")]
        if let Some(connector) = &self.connector {
            let stream = connector.connect(&self.base.host.to_string(), self.base.port).await;
            let stream = stream.map_err(|error| self.unreached("cannot connect to", error, sent))?;
            return self.over(stream, request_id, request, sent).await;
        }
        let tcp = self
            .connect()
            .await
            .map_err(|error| self.unreached("cannot connect to", error, sent))?;
        tcp.set_nodelay(true)
            .map_err(|error| self.unreached("cannot set up the connection to", error, sent))?;
        self.over(tcp, request_id, request, sent).await
    }

    /// Speaks TLS, where the scheme asks for it, and HTTP over a fresh connection.
    async fn over<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        stream: S,
        request_id: String,
        request: Request<Full<Bytes>>,
        sent: &Sent,
    ) -> Result<HttpAnswer, Error> {
        let socket = Socket::new(stream, sent.clone());
        let (status, headers, body) = match (&self.tls, self.base.host.server_name()) {
            (Some(config), Some(name)) => {
                let handshake = TlsConnector::from(Arc::clone(config)).connect(name, socket);
                let stream = handshake
                    .await
                    .map_err(|error| self.unreached("cannot agree on TLS with", no_tls_at_all(error), sent))?;
                self.speak(Marking::new(stream, sent.clone()), request, sent).await?
            }
            _ => self.speak(Marking::new(socket, sent.clone()), request, sent).await?,
        };
        Ok(HttpAnswer {
            request_id,
            status,
            headers,
            body,
        })
    }

    /// What went wrong before a request could be written, as a rule.
    fn unreached(&self, what: &str, error: io::Error, sent: &Sent) -> Error {
        Error::new(ErrorKind::Transport, format!("{what} {}: {error}", self.base.authority))
            .marked_unless(sent.get())
            .with_source(error)
    }

    /// Connects to the first address that answers, each tried a moment after the one before or as soon as that one fails.
    async fn connect(&self) -> io::Result<TcpStream> {
        let addresses: Vec<SocketAddr> = match &self.base.host {
            Host::Address(address) => vec![SocketAddr::new(*address, self.base.port)],
            Host::Name(name) => tokio::net::lookup_host((name.as_str(), self.base.port))
                .await?
                .collect(),
        };
        if let [only] = addresses[..] {
            return TcpStream::connect(only).await;
        }
        let mut rest = addresses.into_iter();
        let mut attempts = JoinSet::new();
        let mut failure = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        loop {
            let begun = rest
                .next()
                .map(|address| attempts.spawn(TcpStream::connect(address)))
                .is_some();
            tokio::select! {
                Some(attempt) = attempts.join_next() => match attempt {
                    Ok(Ok(stream)) => return Ok(stream),
                    Ok(Err(error)) => failure = error,
                    Err(error) => failure = io::Error::other(error),
                },
                () = sleep(NEXT_ADDRESS_AFTER), if begun => {}
                else => return Err(failure),
            }
        }
    }

    /// Speaks HTTP/1.1 on a fresh connection: one request, one answer.
    async fn speak<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        stream: S,
        request: Request<Full<Bytes>>,
        sent: &Sent,
    ) -> Result<(u16, HeaderMap, Bytes), Error> {
        let broken = |error: hyper::Error| {
            let cause = std::error::Error::source(&error)
                .map(|cause| format!(": {cause}"))
                .unwrap_or_default();
            let message = format!("the exchange with {} broke off: {error}{cause}", self.base.authority);
            Error::new(ErrorKind::Transport, message)
                .marked_unless(sent.get())
                .with_source(error)
        };
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .map_err(broken)?;
        let exchange = async {
            let response = sender.send_request(request).await.map_err(broken)?;
            let (parts, body) = response.into_parts();
            let body = self
                .read_body(&parts.headers, body)
                .await
                .map_err(|error| match error {
                    BodyFault::Broken(error) => broken(error),
                    BodyFault::TooLarge => too_large(parts.status.as_u16()),
                })?;
            Ok((parts.status.as_u16(), parts.headers, body))
        };
        tokio::pin!(exchange, connection);
        let mut open = true;
        loop {
            tokio::select! {
                biased;
                outcome = &mut exchange => return outcome,
                // What ended the connection reaches the exchange through its own channel.
                _ = &mut connection, if open => open = false,
            }
        }
    }

    async fn read_body(&self, headers: &HeaderMap, mut body: Incoming) -> Result<Bytes, BodyFault> {
        let stated = headers
            .get(CONTENT_LENGTH)
            .and_then(|value| value.to_str().ok())
            .map(str::parse::<u64>);
        if let Some(Ok(length)) = stated
            && length > MAX_RESPONSE_BYTES as u64
        {
            return Err(BodyFault::TooLarge);
        }
        let mut read = BytesMut::new();
        while let Some(frame) = body.frame().await {
            // Trailers say nothing here.
            let Ok(data) = frame.map_err(BodyFault::Broken)?.into_data() else {
                continue;
            };
            if read.len() + data.len() > MAX_RESPONSE_BYTES {
                return Err(BodyFault::TooLarge);
            }
            read.extend_from_slice(&data);
        }
        Ok(read.freeze())
    }

    fn request(&self, procedure: Procedure, request_id: &str, body: Vec<u8>) -> Result<Request<Full<Bytes>>, Error> {
        let mut request = Request::builder()
            .method(Method::POST)
            .uri(format!("{}{}", self.base.prefix, procedure.path()))
            .header(HOST, &self.base.authority)
            .header(CONTENT_TYPE, JSON)
            .header(CONNECT_PROTOCOL_VERSION, "1")
            .header(ACCEPT_ENCODING, "identity")
            .header(USER_AGENT, AGENT)
            .header(REQUEST_ID, request_id);
        if let Some(token) = &self.token {
            let bearer = HeaderValue::try_from(format!("Bearer {}", token.expose_secret())).map(|mut value| {
                value.set_sensitive(true);
                value
            });
            // The builder checked the token; a text that is no header value all the same must not end up in an error.
            let bearer =
                bearer.map_err(|_| Error::local(ErrorKind::InvalidOption, "token cannot be sent in a header"))?;
            request = request.header(AUTHORIZATION, bearer);
        }
        request.body(Full::new(Bytes::from(body))).map_err(|error| {
            Error::new(ErrorKind::Transport, "the request cannot be written")
                .marked_unless(false)
                .with_source(error)
        })
    }

    /// 16 fresh random bytes as lowercase hex.
    fn request_id(&self) -> Result<String, Error> {
        let mut bytes = [0_u8; 16];
        if self.crypto.secure_random.fill(&mut bytes).is_err() {
            return Err(Error::new(ErrorKind::Transport, "the system gives no random bytes").marked_unless(false));
        }
        Ok(bytes.iter().fold(String::with_capacity(32), |mut text, byte| {
            for digit in [byte >> 4, byte & 15] {
                text.push(char::from_digit(digit.into(), 16).unwrap_or('0'));
            }
            text
        }))
    }
}

impl fmt::Debug for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Transport")
            .field(&format_args!("{}", self.base))
            .finish()
    }
}

/// Bytes that are no TLS record come from somebody who speaks something else, which is what a person needs to hear.
fn no_tls_at_all(error: io::Error) -> io::Error {
    let fault = error.get_ref().and_then(|fault| fault.downcast_ref::<rustls::Error>());
    match fault {
        Some(rustls::Error::InvalidMessage(_)) => io::Error::new(
            error.kind(),
            "what answers does not speak TLS; is it meant to be reached with http?",
        ),
        _ => error,
    }
}

enum BodyFault {
    Broken(hyper::Error),
    TooLarge,
}

fn too_large(status: u16) -> Error {
    Error::new(
        ErrorKind::ResponseTooLarge,
        format!("the answer is over {MAX_RESPONSE_BYTES} bytes and was not read"),
    )
    .with_status(status)
}
