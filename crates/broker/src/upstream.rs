//! Calls of one run to its one upstream: which headers are sent, which connection carries them, what of an answer counts.

mod body;
mod connection;
pub(crate) mod dial;
mod pool;
mod socket;

use bytes::Bytes;
use http::header::{
    ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HOST, RETRY_AFTER,
    TRANSFER_ENCODING, USER_AGENT,
};
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderMap, HeaderValue, Method, Request, Response, Uri, Version};
use http_body::Body as _;
use http_body_util::Full;
use hyper::body::Incoming;
use memchr::memmem;
use plimsoll_grants::mint::Credential;
use thiserror::Error;
use zeroize::Zeroizing;

use self::body::{DecodeError, Decoder};
pub(crate) use self::body::{Gather, TooLarge};
use self::connection::Connection;
use self::dial::{DialError, Dialer};
use self::pool::Pool;
use crate::options::BrokerError;

/// A shorter credential would be found in innocent answers.
const MIN_SEARCHED_CREDENTIAL: usize = 8;

const OCTETS: HeaderValue = HeaderValue::from_static("application/octet-stream");
const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// The upstream as one run sees it.
#[derive(Debug)]
pub(crate) struct Upstream {
    dialer: Dialer,
    pool: Pool,
    authority: Authority,
    /// What every request carries; the host only over HTTP/1.1.
    headers: HeaderMap,
    credential: Option<Credential>,
    max_answer: usize,
}

/// An answer as it may be delivered.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) content_type: HeaderValue,
    pub(crate) body: Bytes,
    pub(crate) retry_after: Option<HeaderValue>,
}

/// What a health route said.
#[derive(Debug)]
pub(crate) struct Health {
    pub(crate) status: u16,
    pub(crate) retry_after: Option<HeaderValue>,
}

/// Why a call has no answer to deliver. The texts are for the log: none holds anything a guest sent.
#[derive(Debug, Error)]
pub(crate) enum Fault {
    #[error(transparent)]
    Dial(#[from] DialError),
    #[error("no answer: {0}")]
    NoAnswer(hyper::Error),
    #[error("the answer is not valid HTTP")]
    Framing,
    #[error("the answer ended early: {0}")]
    Short(hyper::Error),
    #[error("the answer's gzip is damaged")]
    Coding,
    #[error("the answer is too large")]
    TooLarge,
    #[error("the answer repeats the credential")]
    Echo,
}

impl From<DecodeError> for Fault {
    fn from(error: DecodeError) -> Self {
        match error {
            DecodeError::TooLarge => Self::TooLarge,
            DecodeError::Broken => Self::Coding,
        }
    }
}

impl Upstream {
    pub(crate) fn new(
        dialer: Dialer,
        credential: Option<Credential>,
        user_agent: HeaderValue,
        max_answer: usize,
    ) -> Result<Self, BrokerError> {
        let authority: Authority = dialer.origin.authority().parse().map_err(|_| BrokerError::Host)?;
        let host = HeaderValue::from_str(authority.as_str()).map_err(|_| BrokerError::Host)?;
        let mut headers = HeaderMap::with_capacity(8);
        headers.insert(HOST, host);
        headers.insert(USER_AGENT, user_agent);
        headers.insert(ACCEPT, JSON);
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("gzip"));
        if let Some(credential) = &credential {
            headers.insert(AUTHORIZATION, bearer(credential)?);
        }
        Ok(Self {
            dialer,
            pool: Pool::default(),
            authority,
            headers,
            credential,
            max_answer,
        })
    }

    /// Makes one call. `status` is set as soon as the upstream has given one, whatever becomes of the rest.
    pub(crate) async fn call(
        &self,
        method: &Method,
        target: &PathAndQuery,
        body: Bytes,
        status: &mut u16,
    ) -> Result<Reply, Fault> {
        let (mut connection, response) = self.send(method, target, body).await?;
        *status = response.status().as_u16();
        check_framing(&response)?;
        if !matches!(*status, 100..=599) {
            return Err(Fault::Framing);
        }
        let (head, mut body) = response.into_parts();
        if body.size_hint().lower() > self.max_answer as u64 {
            return Err(Fault::TooLarge);
        }
        let mut decoder = Decoder::new(is_gzip(&head.headers), self.max_answer);
        while let Some(frame) = connection.frame(&mut body).await {
            if let Ok(piece) = frame.map_err(Fault::Short)?.into_data() {
                decoder.push(piece)?;
            }
        }
        drop(body);
        self.pool.keep(connection).await;
        let body = decoder.finish()?;
        let content_type = content_type(&head.headers);
        if self.echoes(content_type.as_bytes()) || self.echoes(&body) {
            return Err(Fault::Echo);
        }
        Ok(Reply {
            content_type,
            body,
            retry_after: head.headers.get(RETRY_AFTER).cloned(),
        })
    }

    /// Asks a health route. Its body is read only so that the connection can be kept.
    pub(crate) async fn health(&self, target: &PathAndQuery) -> Result<Health, Fault> {
        let (mut connection, response) = self.send(&Method::GET, target, Bytes::new()).await?;
        check_framing(&response)?;
        let (head, mut body) = response.into_parts();
        let mut read = 0;
        while read <= self.max_answer {
            match connection.frame(&mut body).await {
                Some(frame) => read += frame.map_err(Fault::Short)?.data_ref().map_or(0, Bytes::len),
                None => {
                    drop(body);
                    self.pool.keep(connection).await;
                    break;
                }
            }
        }
        Ok(Health {
            status: head.status.as_u16(),
            retry_after: head.headers.get(RETRY_AFTER).cloned(),
        })
    }

    /// Closes every kept connection, now and from now on.
    pub(crate) fn close(&self) {
        self.pool.close();
    }

    /// Sends a request on a kept connection, or on a new one.
    ///
    /// A kept connection may have been closed by the upstream a moment ago. As long as no byte of the call has left this
    /// process, another connection is tried; after that the call is never repeated, whatever its method.
    async fn send(
        &self,
        method: &Method,
        target: &PathAndQuery,
        body: Bytes,
    ) -> Result<(Connection, Response<Incoming>), Fault> {
        while let Some(mut connection) = self.pool.take().await {
            let request = self.request(method, target, body.clone(), connection.is_http2())?;
            match connection.send(request).await {
                Ok(response) => return Ok((connection, response)),
                Err(error) if connection.wrote() => return Err(no_answer(error)),
                Err(_) => {}
            }
        }
        // Rare, and its state is large: kept out of the state of every call.
        let mut connection = Box::pin(self.dialer.dial()).await?;
        let request = self.request(method, target, body, connection.is_http2())?;
        let response = connection.send(request).await.map_err(no_answer)?;
        Ok((connection, response))
    }

    /// The whole request: nothing in it but the method, the target and the body comes from a guest.
    fn request(
        &self,
        method: &Method,
        target: &PathAndQuery,
        body: Bytes,
        http2: bool,
    ) -> Result<Request<Full<Bytes>>, Fault> {
        let mut headers = self.headers.clone();
        if !body.is_empty() {
            headers.insert(CONTENT_TYPE, JSON);
        } else if matches!(*method, Method::POST | Method::PUT | Method::PATCH) {
            // A method that usually has a body says when it has none; the HTTP stack would leave it open.
            headers.insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
        }
        let mut uri = Uri::from(target.clone()).into_parts();
        if http2 {
            headers.remove(HOST);
            uri.scheme = Some(Scheme::HTTPS);
            uri.authority = Some(self.authority.clone());
        }
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method.clone();
        *request.uri_mut() = Uri::from_parts(uri).map_err(|_| Fault::Framing)?;
        *request.headers_mut() = headers;
        Ok(request)
    }

    fn echoes(&self, bytes: &[u8]) -> bool {
        self.credential.as_ref().is_some_and(|credential| {
            let secret = credential.expose().as_bytes();
            secret.len() >= MIN_SEARCHED_CREDENTIAL && memmem::find(bytes, secret).is_some()
        })
    }
}

/// A failure before the head of an answer: nothing came, or what came is not HTTP.
fn no_answer(error: hyper::Error) -> Fault {
    Fault::NoAnswer(error)
}

/// The header of a credential, in memory that is wiped when the run's last request is gone.
fn bearer(credential: &Credential) -> Result<HeaderValue, BrokerError> {
    let mut value = Zeroizing::new(Vec::with_capacity("Bearer ".len() + credential.expose().len()));
    value.extend_from_slice(b"Bearer ");
    value.extend_from_slice(credential.expose().as_bytes());
    let value = HeaderValue::from_maybe_shared(Bytes::from_owner(value));
    let mut value = value.map_err(|_| BrokerError::Credential)?;
    value.set_sensitive(true);
    Ok(value)
}

/// Refuses what two readers could read as two different answers, and a switch to a protocol nobody asked for.
fn check_framing(response: &Response<Incoming>) -> Result<(), Fault> {
    let headers = response.headers();
    let mut codings = headers.get_all(TRANSFER_ENCODING).iter();
    let framed = match (response.version(), codings.next(), codings.next()) {
        (_, None, _) => true,
        (Version::HTTP_11, Some(coding), None) => {
            coding.as_bytes().eq_ignore_ascii_case(b"chunked") && !headers.contains_key(CONTENT_LENGTH)
        }
        _ => false,
    };
    if framed && response.status() != http::StatusCode::SWITCHING_PROTOCOLS {
        Ok(())
    } else {
        Err(Fault::Framing)
    }
}

/// Whether the body is coded as we offered; any other coding is the guest's business.
fn is_gzip(headers: &HeaderMap) -> bool {
    let mut codings = headers.get_all(CONTENT_ENCODING).iter();
    match (codings.next(), codings.next()) {
        (Some(coding), None) => {
            let coding = coding.as_bytes();
            coding.eq_ignore_ascii_case(b"gzip") || coding.eq_ignore_ascii_case(b"x-gzip")
        }
        _ => false,
    }
}

fn content_type(headers: &HeaderMap) -> HeaderValue {
    let is_clean = |value: &&HeaderValue| value.as_bytes().iter().all(|byte| *byte >= 0x20 && *byte != 0x7f);
    headers.get(CONTENT_TYPE).filter(is_clean).cloned().unwrap_or(OCTETS)
}
