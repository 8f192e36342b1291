//! A guest that writes what it likes to the socket of its container.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use plimsoll_broker::{Broker, BrokerSocket};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;

/// A container's socket in a temporary folder of its own.
pub(crate) struct Container {
    pub(crate) temp: TempDir,
    pub(crate) socket: BrokerSocket,
}

impl Container {
    pub(crate) async fn open() -> Self {
        let temp = tempfile::tempdir().unwrap();
        let socket = BrokerSocket::open(temp.path(), "plimsoll-run-").await.unwrap();
        Self { temp, socket }
    }

    pub(crate) async fn lent(broker: &Arc<Broker>) -> Self {
        let container = Self::open().await;
        container.socket.lend(Arc::clone(broker));
        container
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.socket.path().to_owned()
    }

    pub(crate) async fn connect(&self) -> Guest {
        Guest {
            stream: UnixStream::connect(self.socket.path()).await.unwrap(),
            buffer: Vec::new(),
        }
    }

    /// The answer to one request on a connection of its own.
    pub(crate) async fn ask(&self, request: impl AsRef<[u8]>) -> Reply {
        let mut guest = self.connect().await;
        guest.send(request).await;
        guest.reply().await
    }
}

pub(crate) struct Guest {
    pub(crate) stream: UnixStream,
    buffer: Vec<u8>,
}

#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    pub(crate) fn begins(&self, text: &str) -> bool {
        self.body.starts_with(text.as_bytes())
    }

    pub(crate) fn closes(&self) -> bool {
        self.head.contains("\r\nConnection: close")
    }
}

pub(crate) fn get(target: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: x\r\n\r\n")
}

pub(crate) fn post(target: &str, body: &str) -> String {
    let length = body.len();
    format!("POST {target} HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n{body}")
}

impl Guest {
    pub(crate) async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).await.unwrap();
    }

    pub(crate) async fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        self.stream.write_all(bytes.as_ref()).await
    }

    /// A whole answer, by the length it states.
    pub(crate) async fn reply(&mut self) -> Reply {
        let mut reply = self.head().await;
        let length = reply
            .head
            .lines()
            .find_map(|line| line.strip_prefix("Content-Length: "));
        let length = length.map_or(0, |text| text.parse().unwrap());
        while self.buffer.len() < length {
            assert_ne!(
                self.stream.read_buf(&mut self.buffer).await.unwrap(),
                0,
                "cut in a body"
            );
        }
        reply.body = self.buffer.drain(..length).collect();
        reply
    }

    /// A head alone.
    pub(crate) async fn head(&mut self) -> Reply {
        loop {
            if let Some(end) = self.buffer.windows(4).position(|window| window == b"\r\n\r\n") {
                let head = String::from_utf8(self.buffer.drain(..end + 4).collect()).unwrap();
                let status = head.strip_prefix("HTTP/1.1 ").unwrap()[..3].parse().unwrap();
                return Reply {
                    status,
                    head: head.trim_end().to_owned(),
                    body: Vec::new(),
                };
            }
            assert_ne!(
                self.stream.read_buf(&mut self.buffer).await.unwrap(),
                0,
                "cut before an answer"
            );
        }
    }

    /// Whether the other side ends the connection, with nothing more to say.
    pub(crate) async fn ended(&mut self) -> bool {
        self.buffer.is_empty() && matches!(self.stream.read_buf(&mut self.buffer).await, Ok(0) | Err(_))
    }

    /// Whether nothing comes for a moment.
    pub(crate) async fn waits(&mut self) -> bool {
        let silence = Duration::from_millis(100);
        tokio::time::timeout(silence, self.stream.read_buf(&mut self.buffer))
            .await
            .is_err()
    }
}
