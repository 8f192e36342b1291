//! Connections that are not the system's TCP (feature `connector`).

use std::future::Future;
use std::io;
use std::pin::Pin;

use tokio::io::{AsyncRead, AsyncWrite};

/// A byte stream to a daemon.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// A connection being made.
pub type Connecting<'a> = Pin<Box<dyn Future<Output = io::Result<Box<dyn Stream>>> + Send + 'a>>;

/// Makes connections: through a tunnel, over a socket of another kind, or in the network of a simulation.
///
/// Every call asks for a connection of its own and drops it at its end. Whether anything was sent is decided by what is
/// written to the stream, so a connector must not write anything of its own that a daemon could take for a request, and must
/// not hand out a stream that was used before.
pub trait Connect: Send + Sync + 'static {
    /// Connects to a host, a name or an address without brackets, as the client's base URL names it.
    ///
    /// # Errors
    /// Whatever kept the connection from being made; the call then fails, marked `environment`: nothing was sent.
    fn connect<'a>(&'a self, host: &'a str, port: u16) -> Connecting<'a>;
}
