//! The broker as a container sees it: a Unix socket in a folder of its own, and HTTP/1.1 on it.
//!
//! The request line is read here and not by an HTTP library, because the broker compares the target as it was sent, and the
//! types of HTTP libraries cut off fragments and take absolute targets apart. Everything else a guest says in a head is
//! used to find the end of its request and for nothing more.

mod body;
mod connection;
mod head;

use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener as StdUnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tempfile::TempDir;
use tokio::net::UnixListener;
use tokio::task::{JoinHandle, JoinSet, spawn_blocking};
use tokio_util::sync::CancellationToken;

use crate::broker::Broker;

/// Name of the socket in its folder.
pub const SOCKET_NAME: &str = "host-api.sock";

/// Where a container finds the socket.
pub const GUEST_SOCKET: &str = "/run/host-api.sock";

/// The variable that tells guest code where the socket is.
pub const SOCKET_VARIABLE: &str = "HOST_API_SOCKET";

/// Connections a container may have at once; the next one is accepted when one of them ends.
pub const MAX_CONNECTIONS: usize = 32;

/// Pause after a failed accept: out of file descriptors, most likely, and that passes.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// One container's socket: a fresh private folder with a socket that serves whatever broker is lent to it.
///
/// The folder has mode 0700, so that no other user of the host reaches the socket; the socket has mode 0666, because the
/// user of the container it is mounted into is another one. Requests are answered 503 while no broker is lent.
///
/// Dropping it stops the service and removes the folder too, but waits for nothing and only logs what fails; a caller that
/// can wait calls [`BrokerSocket::close`].
#[derive(Debug)]
pub struct BrokerSocket {
    /// None once it is removed.
    folder: Option<TempDir>,
    path: PathBuf,
    lent: Arc<Lent>,
    stop: CancellationToken,
    server: JoinHandle<()>,
}

impl BrokerSocket {
    /// Makes the folder under `temp`, its name starting with `prefix`, and listens at once.
    ///
    /// Must be called inside a tokio runtime. A cancelled call leaves nothing behind.
    ///
    /// # Errors
    /// When the folder or the socket cannot be made. A socket's path may have 107 bytes, so `temp` must not be deep.
    pub async fn open(temp: &Path, prefix: &str) -> io::Result<Self> {
        let (temp, prefix) = (temp.to_owned(), prefix.to_owned());
        let (folder, path, listener) = spawn_blocking(move || listen(&temp, &prefix))
            .await
            .map_err(io::Error::other)??;
        let listener = UnixListener::from_std(listener)?;
        let lent = Arc::new(Lent::default());
        let stop = CancellationToken::new();
        let server = tokio::spawn(accept(listener, Arc::clone(&lent), stop.clone()));
        Ok(Self {
            folder: Some(folder),
            path,
            lent,
            stop,
            server,
        })
    }

    /// The socket on the host, to be mounted into the container at [`GUEST_SOCKET`].
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// From now on requests are answered by `broker`, in place of any that was lent before.
    pub fn lend(&self, broker: Arc<Broker>) {
        *self.lent.0.lock() = Some(broker);
    }

    /// From now on requests are answered 503. Calls that are being made are [`Broker::end`]'s business.
    pub fn take_back(&self) {
        *self.lent.0.lock() = None;
    }

    /// Stops the service, cuts every connection with the calls made over it, and removes socket and folder.
    pub async fn close(mut self) {
        self.take_back();
        self.stop.cancel();
        // It fails only by a panic, which has been reported.
        let _ = (&mut self.server).await;
        let folder = self.folder.take();
        let _ = spawn_blocking(move || remove(folder)).await;
    }
}

impl Drop for BrokerSocket {
    fn drop(&mut self) {
        // Takes the connections with it.
        self.server.abort();
        remove(self.folder.take());
    }
}

/// The broker that is lent at the moment.
#[derive(Debug, Default)]
struct Lent(Mutex<Option<Arc<Broker>>>);

impl Lent {
    fn now(&self) -> Option<Arc<Broker>> {
        self.0.lock().clone()
    }
}

fn listen(temp: &Path, prefix: &str) -> io::Result<(TempDir, PathBuf, StdUnixListener)> {
    let folder = tempfile::Builder::new()
        .prefix(prefix)
        .permissions(Permissions::from_mode(0o700))
        .tempdir_in(temp)?;
    let path = folder.path().join(SOCKET_NAME);
    let listener = StdUnixListener::bind(&path).map_err(|error| cannot_bind(&path, &error))?;
    listener.set_nonblocking(true)?;
    fs_err::set_permissions(&path, Permissions::from_mode(0o666))?;
    Ok((folder, path, listener))
}

fn cannot_bind(path: &Path, error: &io::Error) -> io::Error {
    let text = format!(
        "cannot make the socket {}: {error}; a socket's path may have 107 bytes, so use a short temporary folder",
        path.display()
    );
    io::Error::new(error.kind(), text)
}

fn remove(folder: Option<TempDir>) {
    if let Some(Err(error)) = folder.map(TempDir::close) {
        tracing::warn!(%error, "the folder of a broker socket stays behind");
    }
}

/// Serves until told to stop; then, or when dropped, every connection is cut.
async fn accept(listener: UnixListener, lent: Arc<Lent>, stop: CancellationToken) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            biased;
            () = stop.cancelled() => break,
            Some(_) = connections.join_next() => {}
            accepted = listener.accept(), if connections.len() < MAX_CONNECTIONS => match accepted {
                Ok((stream, _)) => drop(connections.spawn(connection::serve(stream, Arc::clone(&lent)))),
                Err(error) => {
                    tracing::warn!(%error, "a broker socket cannot accept a connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            },
        }
    }
    drop(listener);
    connections.shutdown().await;
}
