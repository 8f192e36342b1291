//! One connection to a daemon, spoken to directly: nothing between the figure and the wire.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::{Request, Response, body::Incoming, header};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

/// Path of the procedure.
pub const RUN: &str = "/plimsoll.v1.SandboxService/Run";

/// Path of `OpenSession`.
pub const OPEN_SESSION: &str = "/plimsoll.v1.SandboxService/OpenSession";

/// Path of `SessionRun`.
pub const SESSION_RUN: &str = "/plimsoll.v1.SandboxService/SessionRun";

/// Path of `CloseSession`.
pub const CLOSE_SESSION: &str = "/plimsoll.v1.SandboxService/CloseSession";

/// Header that says that nothing of a call ran, and why.
pub const NOT_DISPATCHED: &str = "plimsoll-not-dispatched";

/// A kept HTTP/1.1 connection.
#[derive(Debug)]
pub struct Connection {
    sender: SendRequest<Full<Bytes>>,
    authorization: String,
}

/// What came back.
#[derive(Debug)]
pub struct Answer {
    /// HTTP status.
    pub status: u16,
    /// Value of the header that marks an answer of the edge.
    pub mark: Option<String>,
    /// The body.
    pub body: Bytes,
}

impl Connection {
    /// Connects; the token is sent with every call.
    ///
    /// # Errors
    /// When nobody listens there.
    pub async fn open(address: SocketAddr, token: &str) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(address).await.context("connecting to the daemon")?;
        stream.set_nodelay(true)?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await?;
        // It ends with the connection; what broke shows in the call that was under way.
        tokio::spawn(connection);
        Ok(Self {
            sender,
            authorization: format!("Bearer {token}"),
        })
    }

    /// Posts one run and reads its whole answer.
    ///
    /// # Errors
    /// When the connection broke.
    pub async fn run(&mut self, body: Bytes) -> anyhow::Result<Answer> {
        self.call(RUN, body).await
    }

    /// Posts one call of a procedure, named by its path, and reads its whole answer.
    ///
    /// # Errors
    /// When the connection broke.
    pub async fn call(&mut self, procedure: &str, body: Bytes) -> anyhow::Result<Answer> {
        self.send(
            Request::post(procedure)
                .header(header::HOST, "localhost")
                .header(header::CONTENT_TYPE, "application/json")
                .header("connect-protocol-version", "1")
                .header(header::AUTHORIZATION, &self.authorization)
                .body(Full::new(body))?,
        )
        .await
    }

    /// Gets a path.
    ///
    /// # Errors
    /// When the connection broke.
    pub async fn get(&mut self, path: &str) -> anyhow::Result<Answer> {
        self.send(
            Request::get(path)
                .header(header::HOST, "localhost")
                .body(Full::default())?,
        )
        .await
    }

    async fn send(&mut self, request: Request<Full<Bytes>>) -> anyhow::Result<Answer> {
        self.sender.ready().await?;
        let response: Response<Incoming> = self.sender.send_request(request).await?;
        let status = response.status().as_u16();
        let mark = response
            .headers()
            .get(NOT_DISPATCHED)
            .and_then(|mark| mark.to_str().ok())
            .map(str::to_owned);
        let body = response.into_body().collect().await?.to_bytes();
        Ok(Answer { status, mark, body })
    }
}

impl Answer {
    /// The body as JSON.
    ///
    /// # Errors
    /// When it is not.
    pub fn json(&self) -> anyhow::Result<serde_json::Value> {
        serde_json::from_slice(&self.body).with_context(|| format!("HTTP {} with a body that is not JSON", self.status))
    }

    /// Whether the call was refused for want of capacity, and says so: nothing ran.
    pub fn shed(&self) -> bool {
        // Base64 of a `NotDispatched` whose reason is `capacity`.
        const CAPACITY: &str = "CAY";
        let detail = |answer: serde_json::Value| {
            answer["code"] == "resource_exhausted"
                && answer["details"][0]["type"] == "plimsoll.v1.NotDispatched"
                && answer["details"][0]["value"] == CAPACITY
        };
        self.status == 429 && self.json().is_ok_and(detail)
    }

    /// Requires that the run printed `42`.
    ///
    /// # Errors
    /// When it did not.
    pub fn printed_42(&self) -> anyhow::Result<()> {
        let answer = self.json()?;
        // Base64 of "42\n".
        anyhow::ensure!(
            self.status == 200 && answer["javascript"]["stdout"] == "NDIK",
            "HTTP {} {}",
            self.status,
            String::from_utf8_lossy(&self.body)
        );
        Ok(())
    }
}

/// The body of a run of some program.
pub fn run_body(code: &str, timeout_ms: u32) -> Bytes {
    let body = serde_json::json!({
        "protocol": 4,
        "minimumIsolation": "process",
        "timeoutMs": timeout_ms,
        "javascript": { "code": code },
    });
    Bytes::from(body.to_string())
}

/// Asks until `/readyz` answers 200, from before the daemon listens; how long that took.
///
/// # Errors
/// When it takes more than ten seconds.
pub async fn until_ready(address: SocketAddr, since: Instant) -> anyhow::Result<Duration> {
    const PATIENCE: Duration = Duration::from_secs(10);
    const PAUSE: Duration = Duration::from_micros(200);
    loop {
        if let Ok(mut connection) = Connection::open(address, "").await
            && connection.get("/readyz").await.is_ok_and(|answer| answer.status == 200)
        {
            return Ok(since.elapsed());
        }
        anyhow::ensure!(
            since.elapsed() < PATIENCE,
            "/readyz did not answer 200 within {PATIENCE:?}"
        );
        tokio::time::sleep(PAUSE).await;
    }
}
