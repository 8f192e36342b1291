//! Connections that mean no good: slow, silent, half-sent, unread, and floods of HTTP/2 frames. Each is made anew as soon as the
//! daemon has ended it.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::{sleep, timeout};

use crate::http::{RUN, run_body};

/// Pause between two bytes, frames or bursts of one connection.
const PAUSE: Duration = Duration::from_secs(1);

/// Pause before a connection is made anew: this is about connections that stand, and not about a flood of new ones.
const ANEW: Duration = Duration::from_secs(5);

/// Frames of one burst.
const BURST: usize = 50;

/// Addresses of this host that connections come from: each has ports of its own, and one alone has too few for those that
/// are made anew.
const SOURCES: u8 = 16;

/// The beginning of every HTTP/2 connection: its preface, and empty settings.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

/// What a connection does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Says nothing.
    Silent,
    /// Sends its header a byte a second.
    SlowHeader,
    /// Sends a whole header with a valid token, and half of its body.
    HalfBody,
    /// Asks once, keeps the connection and asks no more.
    Idle,
    /// Sends what is no protocol.
    Noise,
    /// Runs code, and reads nothing of the answer.
    Unread,
    /// Opens streams and resets them at once.
    Resets,
    /// Sends pings and reads nothing.
    Pings,
}

/// Every kind, in the order in which connections take turns: more of those that hold than of those that flood.
const TURNS: [Kind; 16] = [
    Kind::SlowHeader,
    Kind::Silent,
    Kind::HalfBody,
    Kind::Idle,
    Kind::SlowHeader,
    Kind::Noise,
    Kind::HalfBody,
    Kind::Idle,
    Kind::SlowHeader,
    Kind::Silent,
    Kind::HalfBody,
    Kind::Idle,
    Kind::SlowHeader,
    Kind::Resets,
    Kind::Unread,
    Kind::Pings,
];

/// Lets this process, and those it starts, have at least so many descriptors. Above the hard limit that takes root.
///
/// # Errors
/// The limit is out of reach.
pub fn allow_descriptors(least: u64) -> std::io::Result<()> {
    let most = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX).max(least);
    let limit = Rlimit {
        current: Some(most),
        maximum: Some(most),
    };
    Ok(setrlimit(Resource::Nofile, limit)?)
}

/// Connections under way.
#[derive(Debug)]
pub struct Attack {
    made: Arc<AtomicU64>,
    tasks: Vec<tokio::task::JoinHandle<()>>,
}

impl Attack {
    /// Begins so many connections, each going on until this is dropped. `token` is a valid one, of a caller that may run code.
    pub fn begin(target: SocketAddr, connections: usize, token: &str) -> Self {
        let made = Arc::new(AtomicU64::new(0));
        let token: Arc<str> = token.into();
        let tasks = (0..connections)
            .map(|at| {
                let (made, token) = (Arc::clone(&made), Arc::clone(&token));
                tokio::spawn(async move {
                    // Not all in one moment: the listener's queue is short.
                    sleep(Duration::from_micros(300) * u32::try_from(at).unwrap_or(u32::MAX)).await;
                    let source = Ipv4Addr::new(127, 0, 0, 2 + u8::try_from(at % usize::from(SOURCES)).unwrap_or(0));
                    again_and_again(TURNS[at % TURNS.len()], source, target, &token, &made).await;
                })
            })
            .collect();
        Self { made, tasks }
    }

    /// How many connections were made so far, those made anew included.
    pub fn made(&self) -> u64 {
        self.made.load(Ordering::Relaxed)
    }
}

impl Drop for Attack {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

async fn again_and_again(kind: Kind, source: Ipv4Addr, target: SocketAddr, token: &str, made: &AtomicU64) {
    loop {
        if let Ok(stream) = connect(source, target).await {
            made.fetch_add(1, Ordering::Relaxed);
            // However it ends, it is made anew.
            drop(once(kind, stream, token).await);
        }
        sleep(ANEW).await;
    }
}

async fn connect(source: Ipv4Addr, target: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind((source, 0).into())?;
    socket.connect(target).await
}

/// Until the daemon ends the connection.
async fn once(kind: Kind, mut stream: TcpStream, token: &str) -> std::io::Result<()> {
    match kind {
        Kind::Silent => ended(&mut stream).await,
        Kind::Noise => {
            stream.write_all(&[0x16, 0x03, 0x01, 0x7f, 0xff, 0x01]).await?;
            ended(&mut stream).await
        }
        Kind::Idle => {
            stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n").await?;
            ended(&mut stream).await
        }
        Kind::SlowHeader => {
            for byte in format!("POST {RUN} HTTP/1.1\r\nHost: x\r\nX-Slow: {}", "x".repeat(4096)).bytes() {
                stream.write_all(&[byte]).await?;
                if timeout(PAUSE, ended(&mut stream)).await.is_ok() {
                    return Ok(());
                }
            }
            Ok(())
        }
        Kind::HalfBody => {
            stream.write_all(head(token, 4096).as_bytes()).await?;
            stream.write_all(b"{\"protocol\": 4,").await?;
            ended(&mut stream).await
        }
        Kind::Unread => {
            let body = run_body("for (let at = 0; at < 1500; at++) console.log('x'.repeat(30))", 1_000);
            stream.write_all(head(token, body.len()).as_bytes()).await?;
            stream.write_all(&body).await?;
            // Long enough for the answer, of which nothing is read.
            sleep(PAUSE * 30).await;
            Ok(())
        }
        Kind::Resets => {
            stream.write_all(PREFACE).await?;
            for burst in 0..u32::MAX {
                let frames: Vec<u8> = (0..BURST)
                    .flat_map(|at| reset_at_once(1 + 2 * (burst * 50 + u32::try_from(at).unwrap_or(0))))
                    .collect();
                stream.write_all(&frames).await?;
                if timeout(PAUSE, ended(&mut stream)).await.is_ok() {
                    return Ok(());
                }
            }
            Ok(())
        }
        Kind::Pings => {
            stream.write_all(PREFACE).await?;
            let ping = [0, 0, 8, 6, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8];
            loop {
                stream.write_all(&ping.repeat(BURST)).await?;
                sleep(PAUSE).await;
            }
        }
    }
}

/// Reads whatever comes until the other side has ended the connection.
async fn ended(stream: &mut TcpStream) -> std::io::Result<()> {
    let mut buffer = [0; 512];
    while stream.read(&mut buffer).await? > 0 {}
    Ok(())
}

fn head(token: &str, length: usize) -> String {
    format!(
        "POST {RUN} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nAuthorization: Bearer {token}\r\n\
         Content-Length: {length}\r\n\r\n"
    )
}

/// A stream that asks for `/healthz` and is reset behind that.
fn reset_at_once(stream: u32) -> Vec<u8> {
    const HEADERS: &[u8] = b"\x82\x86\x04\x08/healthz\x01\x01x";
    let id = stream.to_be_bytes();
    let length = u8::try_from(HEADERS.len()).unwrap_or(u8::MAX);
    [
        &[0, 0, length, 1, 0x05],
        &id[..],
        HEADERS,
        &[0, 0, 4, 3, 0],
        &id,
        &[0, 0, 0, 8],
    ]
    .concat()
}
