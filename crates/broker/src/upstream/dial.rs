//! From an origin to a connection: resolve, check every answer, dial an address that was checked.

use std::fmt;
use std::future::{Future, poll_fn};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use hyper_util::rt::TokioIo;
use plimsoll_grants::address::{Cidr, DialRefused, check_answers};
use plimsoll_grants::origin::{Host, Origin};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use thiserror::Error;
use tokio::net::TcpStream;
use tokio::time::sleep;
use tokio_rustls::TlsConnector;

use super::connection::Connection;
use super::socket::{Socket, Wire};

/// How long one address may stay silent before the next one is tried beside it, so that a dead IPv6 route costs a moment
/// and not the whole timeout (the value RFC 8305 recommends).
const NEXT_ADDRESS_AFTER: Duration = Duration::from_millis(250);

/// Addresses of a name that are tried; all of them are checked.
const MAX_DIALLED: usize = 8;

/// The answer of a [`Resolver`].
pub type ResolveFuture<'a> = Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send + 'a>>;

/// Turns names into addresses. The broker checks every answer itself, so a resolver is trusted with nothing but liveness.
pub trait Resolver: Send + Sync + fmt::Debug {
    /// All addresses of `name`, in the order in which they should be tried.
    fn resolve<'a>(&'a self, name: &'a str) -> ResolveFuture<'a>;
}

/// The resolver of the host. It works on a thread of the runtime that cannot be interrupted: a look-up whose call was
/// cancelled holds that thread until the host's own time limit.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemResolver;

impl Resolver for SystemResolver {
    fn resolve<'a>(&'a self, name: &'a str) -> ResolveFuture<'a> {
        Box::pin(async move {
            let answers = tokio::net::lookup_host((name, 0)).await?;
            Ok(answers.map(|address| address.ip()).collect())
        })
    }
}

/// Why there is no connection.
#[derive(Debug, Error)]
pub(crate) enum DialError {
    #[error("the host of base_url does not resolve: {0}")]
    Resolve(io::Error),
    #[error(transparent)]
    Refused(#[from] DialRefused),
    #[error("cannot connect to the host of base_url: {0}")]
    Connect(io::Error),
    #[error("cannot agree on TLS with the host of base_url: {0}")]
    Tls(io::Error),
    #[error("cannot start HTTP with the host of base_url: {0}")]
    Http(#[from] hyper::Error),
}

/// Opens connections to one origin.
#[derive(Debug)]
pub(crate) struct Dialer {
    pub(crate) origin: Origin,
    pub(crate) allow_private: Vec<Cidr>,
    pub(crate) resolver: Arc<dyn Resolver>,
    /// Present exactly when the origin is `https`.
    pub(crate) tls: Option<Tls>,
}

/// How TLS is spoken with one origin.
#[derive(Debug)]
pub(crate) struct Tls {
    pub(crate) config: Arc<ClientConfig>,
    pub(crate) name: ServerName<'static>,
}

impl Dialer {
    /// Opens one connection. Nothing of a call has been sent when it returns.
    pub(crate) async fn dial(&self) -> Result<Connection, DialError> {
        let addresses = match self.origin.host() {
            Host::Address(address) => vec![*address],
            Host::Name(name) => self.resolver.resolve(name).await.map_err(DialError::Resolve)?,
        };
        check_answers(self.origin.host(), &addresses, &self.allow_private)?;
        let tcp = connect(&addresses, self.origin.port())
            .await
            .map_err(DialError::Connect)?;
        tcp.set_nodelay(true).map_err(DialError::Connect)?;
        let wire = Wire::new(tcp);
        let socket = Socket(Arc::clone(&wire));
        let Some(tls) = &self.tls else {
            return Ok(Connection::http1(TokioIo::new(socket), wire).await?);
        };
        let stream = TlsConnector::from(Arc::clone(&tls.config))
            .connect(tls.name.clone(), socket)
            .await
            .map_err(DialError::Tls)?;
        let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        let stream = TokioIo::new(stream);
        Ok(if is_http2 {
            Connection::http2(stream, wire).await?
        } else {
            Connection::http1(stream, wire).await?
        })
    }
}

/// Connects to the first address that answers, each tried a moment after the one before or as soon as that one fails.
async fn connect(addresses: &[IpAddr], port: u16) -> io::Result<TcpStream> {
    let open = |address: &IpAddr| TcpStream::connect(SocketAddr::new(*address, port));
    if let [only] = addresses {
        return open(only).await;
    }
    let mut rest = addresses.iter().take(MAX_DIALLED);
    let mut attempts = Vec::new();
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    loop {
        match rest.next() {
            Some(address) => attempts.push(Box::pin(open(address))),
            None if attempts.is_empty() => return Err(last),
            None => {}
        }
        let mut patience = pin!(sleep(NEXT_ADDRESS_AFTER));
        let turn = poll_fn(|cx| {
            let mut failed = None;
            let mut index = 0;
            while index < attempts.len() {
                match attempts[index].as_mut().poll(cx) {
                    Poll::Ready(Ok(tcp)) => return Poll::Ready(Ok(tcp)),
                    Poll::Ready(Err(error)) => {
                        failed = Some(error);
                        drop(attempts.swap_remove(index));
                    }
                    Poll::Pending => index += 1,
                }
            }
            match failed {
                Some(error) => Poll::Ready(Err(Some(error))),
                None => patience.as_mut().poll(cx).map(|()| Err(None)),
            }
        });
        match turn.await {
            Ok(tcp) => return Ok(tcp),
            Err(Some(error)) => last = error,
            Err(None) => {}
        }
    }
}
