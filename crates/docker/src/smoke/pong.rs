//! A throwaway socket of the host that answers one word: what a container must be able to reach through its mount.

use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// What it answers to a line.
pub(super) const ANSWER: &str = "pong";

/// How long one exchange may take.
const EXCHANGE: Duration = Duration::from_secs(5);

/// The socket. Dropping it removes it.
pub(super) struct Pong {
    path: PathBuf,
    server: JoinHandle<()>,
}

impl Pong {
    /// Listens in the daemon's private folder, for any user who is let in by a mount.
    pub(super) fn open(folder: &Path) -> io::Result<Self> {
        let path = folder.join("smoke.sock");
        let listener = UnixListener::bind(&path)?;
        fs_err::set_permissions(&path, Permissions::from_mode(0o666))?;
        let server = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                // Whether the guest got its answer is the guest's to tell.
                let _ = timeout(EXCHANGE, answer(stream)).await;
            }
        });
        Ok(Self { path, server })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Pong {
    fn drop(&mut self) {
        self.server.abort();
        if let Err(error) = fs_err::remove_file(&self.path) {
            tracing::warn!(%error, "the socket of the smoke test stays behind");
        }
    }
}

async fn answer(stream: UnixStream) -> io::Result<()> {
    let (read, mut write) = stream.into_split();
    let mut line = String::new();
    BufReader::new(read).read_line(&mut line).await?;
    write.write_all(format!("{ANSWER}\n").as_bytes()).await
}
