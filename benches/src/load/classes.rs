//! What a load is mixed of: each class of request with the one answer it must get.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context as _;
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::CODE;
use crate::daemon::TOKEN;
use crate::http::{Answer, Connection, RUN, run_body};

/// One kind of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// Prints 42.
    Good,
    /// Does not parse.
    SyntaxError,
    /// Never ends; 50 ms.
    InfiniteLoop,
    /// Takes memory until there is none.
    MemoryBomb,
    /// Prints 1 MiB.
    LargeOutput,
    /// States a body over the limit.
    Oversize,
    /// Sends half of its body and no more.
    HalfSent,
    /// A token nobody was given.
    WrongToken,
    /// Goes away right after a complete request.
    Dropped,
}

/// How long any answer may take on a machine that is busy with all the others.
const PATIENCE: Duration = Duration::from_secs(30);

/// Ample for every program that is meant to end by itself.
const AMPLE_MS: u32 = 20_000;

impl Class {
    /// Every class.
    pub const ALL: [Self; 9] = [
        Self::Good,
        Self::SyntaxError,
        Self::InfiniteLoop,
        Self::MemoryBomb,
        Self::LargeOutput,
        Self::Oversize,
        Self::HalfSent,
        Self::WrongToken,
        Self::Dropped,
    ];

    /// The word in reports.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::SyntaxError => "syntax_error",
            Self::InfiniteLoop => "infinite_loop",
            Self::MemoryBomb => "memory_bomb",
            Self::LargeOutput => "large_output",
            Self::Oversize => "oversize",
            Self::HalfSent => "half_sent",
            Self::WrongToken => "wrong_token",
            Self::Dropped => "dropped",
        }
    }

    /// Whether a request of this class is answered by a run.
    pub const fn runs(self) -> bool {
        matches!(
            self,
            Self::Good | Self::SyntaxError | Self::InfiniteLoop | Self::MemoryBomb | Self::LargeOutput
        )
    }

    /// Sends one request and requires exactly its answer. `kept` is the worker's own connection.
    pub(super) async fn send(self, kept: &mut Connection, address: SocketAddr) -> anyhow::Result<()> {
        tokio::time::timeout(PATIENCE, self.exchange(kept, address))
            .await
            .with_context(|| format!("no answer within {PATIENCE:?}"))?
    }

    async fn exchange(self, kept: &mut Connection, address: SocketAddr) -> anyhow::Result<()> {
        let run = |code: &str, timeout_ms| run_body(code, timeout_ms);
        match self {
            Self::Good => kept.run(run(CODE, AMPLE_MS)).await?.printed_42(),
            Self::SyntaxError => {
                let result = javascript(&kept.run(run("let = ;", AMPLE_MS)).await?)?;
                require(result["exitCode"] == 1 && result["stderr"].is_string(), &result)
            }
            Self::InfiniteLoop => {
                let result = javascript(&kept.run(run("while(true){}", 50)).await?)?;
                require(result["exitCode"] == 124 && result["timedOut"] == true, &result)
            }
            Self::MemoryBomb => {
                let bomb = "const kept = []; for (;;) kept.push(new Uint8Array(1 << 20).fill(1));";
                let answer = kept.run(run(bomb, AMPLE_MS)).await?.json()?;
                let ended = answer["javascript"]["exitCode"] == 1 && answer["diagnostics"]["limitHit"] == "memory";
                require(ended, &answer)
            }
            Self::LargeOutput => {
                let result = javascript(
                    &kept
                        .run(run("process.stdout.write('x'.repeat(1 << 20))", AMPLE_MS))
                        .await?,
                )?;
                // 64 KiB in base64.
                let kept_bytes = result["stdout"].as_str().map_or(0, str::len);
                require(
                    result["stdoutTruncated"] == true && kept_bytes == 65_536_usize.div_ceil(3) * 4,
                    &result,
                )
            }
            Self::WrongToken => {
                let mut stranger = Connection::open(address, "somebody-else's-token-0123456789abcdef").await?;
                let answer = stranger.run(run(CODE, AMPLE_MS)).await?;
                anyhow::ensure!(
                    answer.status == 401 && answer.mark.as_deref() == Some("permission"),
                    "{answer:?}"
                );
                Ok(())
            }
            Self::Oversize => {
                let mut stream = partial(address, 8 * 1024 * 1024 + 1, b"{}").await?;
                let answer = to_end(&mut stream).await?;
                let marked = answer.to_ascii_lowercase().contains("plimsoll-not-dispatched: request");
                anyhow::ensure!(answer.starts_with("HTTP/1.1 429 ") && marked, "{answer}");
                Ok(())
            }
            Self::HalfSent => {
                let mut stream = partial(address, 200, b"{\"protocol\":4,").await?;
                stream.shutdown().await?;
                let answer = to_end(&mut stream).await?;
                // The daemon may say what is wrong or just close; it must not run half a request.
                anyhow::ensure!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{answer}");
                Ok(())
            }
            Self::Dropped => {
                let body = run("for (let i = 0; i < 1e5; i++);", 1_000);
                drop(partial(address, body.len(), &body).await?);
                Ok(())
            }
        }
    }
}

fn javascript(answer: &Answer) -> anyhow::Result<Value> {
    anyhow::ensure!(
        answer.status == 200,
        "HTTP {} {}",
        answer.status,
        String::from_utf8_lossy(&answer.body)
    );
    Ok(answer.json()?["javascript"].take())
}

fn require(holds: bool, answer: &Value) -> anyhow::Result<()> {
    let mut text = answer.to_string();
    text.truncate(text.floor_char_boundary(500));
    anyhow::ensure!(holds, "{text}");
    Ok(())
}

/// A connection of its own, with a request that states `length` bytes of body and sends `body`.
async fn partial(address: SocketAddr, length: usize, body: &[u8]) -> anyhow::Result<TcpStream> {
    let mut stream = TcpStream::connect(address).await?;
    let head = format!(
        "POST {RUN} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnect-Protocol-Version: 1\r\n\
         Authorization: Bearer {TOKEN}\r\nContent-Length: {length}\r\n\r\n"
    );
    stream.write_all(&[head.as_bytes(), body].concat()).await?;
    Ok(stream)
}

/// Everything until the other side closes; a reset is a close as well.
async fn to_end(stream: &mut TcpStream) -> anyhow::Result<String> {
    let mut answer = Vec::new();
    let mut buffer = [0; 4096];
    while let Ok(read @ 1..) = stream.read(&mut buffer).await {
        answer.extend_from_slice(&buffer[..read]);
    }
    Ok(String::from_utf8(answer)?)
}
