//! A daemon's edge without a daemon, and a client that writes bytes.

use std::io::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use http::HeaderMap;
use plimsoll_core::{
    Code, Diagnostics, Evidence, Fault, Isolation, JavaScriptResult, Payload, PayloadEnvironment, Reason, Refusal,
    RunError, RunRequest, RunResult, Tier, Validated,
};
use plimsoll_grants::Profiles;
use plimsoll_record::Answer;
use plimsoll_sandbox::BoxFuture;
use plimsoll_service::auth::{Auth, Principal};
use plimsoll_service::edge::{
    AuthFailure, Authenticator, Drain, Drained, Edge, EdgeParts, Listener, Outage, Ready, Timeouts, serve,
};
use plimsoll_service::handler::{CallContext, Handler};
use plimsoll_service::metrics::{Metrics, Readings};
use plimsoll_service::tls::Tls;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub(crate) const ID: &str = "0123456789abcdef0123456789abcdef";

/// Counts what reaches it and answers by the snippet's text.
#[derive(Default)]
pub(crate) struct Fake {
    pub(crate) runs: AtomicUsize,
    pub(crate) describes: AtomicUsize,
    pub(crate) cancelled: AtomicUsize,
    pub(crate) refusals: AtomicUsize,
    pub(crate) release: Notify,
    pub(crate) faults: parking_lot::Mutex<Vec<String>>,
}

/// The handler; clones share the counts.
#[derive(Clone, Default)]
pub(crate) struct FakeHandler(pub(crate) Arc<Fake>);

fn evidence() -> Evidence {
    let javascript = PayloadEnvironment {
        identity: "fake:sha256:00".into(),
        max_timeout_ms: 60_000,
        software_identity: String::new(),
        languages: vec!["javascript".into()],
    };
    let mut evidence = Evidence {
        provider: "fake",
        isolation: Isolation::Proven(Tier::Process),
        ..Evidence::disabled()
    };
    evidence.availability = plimsoll_core::Availability::Serving;
    evidence.environments.javascript = Some(javascript);
    evidence
}

impl Handler for FakeHandler {
    fn describe(&self) -> Arc<Evidence> {
        self.0.describes.fetch_add(1, Ordering::SeqCst);
        Arc::new(evidence())
    }

    fn run(&self, context: CallContext, request: RunRequest) -> BoxFuture<'static, Result<Answer, RunError>> {
        let fake = Arc::clone(&self.0);
        Box::pin(async move {
            let code = match &request.payload {
                Some(Payload::JavaScript(run)) => run.code.clone(),
                _ => String::new(),
            };
            let profiles = Profiles::default();
            let look_up = |name: Option<&str>| name.map(|name| profiles.look_up(name, None)).transpose();
            Validated::new(request)?.grant(look_up)?.authorize(&evidence())?;
            if context.deadline.is_some_and(|deadline| deadline <= Instant::now()) {
                return Err(Refusal::new(Code::DeadlineExceeded, Reason::Capacity, "the deadline has passed").into());
            }
            fake.runs.fetch_add(1, Ordering::SeqCst);
            match code.as_str() {
                "wait" => {
                    let gone = context.cancelled.clone().drop_guard();
                    let counted = Counted(Arc::clone(&fake));
                    fake.release.notified().await;
                    std::mem::forget(counted);
                    gone.disarm();
                }
                "panic" => panic!("a fault of the handler"),
                "fault" => return Err(Fault::internal("/var/lib/secret: no such file").into()),
                "not ready" => {
                    return Err(Refusal::new(Code::Internal, Reason::Environment, "/run/engine.sock is gone").into());
                }
                "unmarked" => {
                    return Err(Fault::new(plimsoll_core::FaultKind::InvalidRequest, "the worker refused").into());
                }
                _ => {}
            }
            let result = JavaScriptResult {
                stdout: if code == "long" {
                    vec![b'.'; 16 * 1024 * 1024]
                } else {
                    b"42\n".to_vec()
                },
                ..Default::default()
            };
            Ok(Answer {
                sandbox: "fake".into(),
                isolation: "process".into(),
                duration_ms: 1,
                record: None,
                software_identity: String::new(),
                environment: "fake:sha256:00".into(),
                instance: String::new(),
                diagnostics: Some(Diagnostics::default()),
                result: Some(RunResult::JavaScript(result)),
            })
        })
    }

    fn refused(&self, _: &str, _: &'static str, _: &Refusal) {
        self.0.refusals.fetch_add(1, Ordering::SeqCst);
    }

    fn log_fault(&self, fault: &Fault) -> String {
        self.0.faults.lock().push(fault.message().to_owned());
        "0123456789abcdef".into()
    }
}

/// Counts a call whose future was dropped.
struct Counted(Arc<Fake>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.cancelled.fetch_add(1, Ordering::SeqCst);
    }
}

struct Readiness(Arc<AtomicUsize>);

impl Ready for Readiness {
    fn ready(&self) -> BoxFuture<'_, bool> {
        Box::pin(std::future::ready(self.0.load(Ordering::SeqCst) == 1))
    }
}

/// A verifier that never answers.
pub(crate) struct Down(pub(crate) Outage);

impl Authenticator for Down {
    fn is_open(&self) -> bool {
        false
    }

    fn authenticate<'a>(&'a self, _: &'a HeaderMap) -> BoxFuture<'a, Result<Principal, AuthFailure>> {
        Box::pin(async move {
            tokio::task::yield_now().await;
            Err(AuthFailure::Outage(self.0))
        })
    }
}

/// A running edge.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) fake: Arc<Fake>,
    pub(crate) ready: Arc<AtomicUsize>,
    pub(crate) stop: CancellationToken,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) serving: JoinHandle<Drained>,
}

/// How a test's edge differs from the usual one.
pub(crate) struct Setup {
    pub(crate) authenticator: Arc<dyn Authenticator>,
    pub(crate) timeouts: Timeouts,
    pub(crate) max_concurrent: u32,
    pub(crate) max_connections: usize,
    pub(crate) budget: Duration,
    pub(crate) tls: Option<Tls>,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            authenticator: Arc::new(Auth::open()),
            timeouts: Timeouts::RPC,
            max_concurrent: 8,
            max_connections: 0,
            budget: Duration::from_secs(5),
            tls: None,
        }
    }
}

impl Setup {
    /// With two callers: `alice-token` and `bob-token` may run, `carol-token` carries no scope.
    pub(crate) fn with_tokens() -> Self {
        Self {
            authenticator: Arc::new(tokens()),
            ..Self::default()
        }
    }

    /// With clocks of the test's own.
    pub(crate) fn with_timeouts(timeouts: Timeouts) -> Self {
        Self {
            timeouts,
            ..Self::default()
        }
    }

    pub(crate) async fn start(self) -> Server {
        let handler = FakeHandler::default();
        let (ready, metrics) = (Arc::new(AtomicUsize::new(1)), Arc::new(Metrics::default()));
        let edge = Edge::new(EdgeParts {
            handler: Arc::new(handler.clone()),
            authenticator: self.authenticator,
            ready: Arc::new(Readiness(Arc::clone(&ready))),
            refused_credentials: None,
            metrics: Arc::clone(&metrics),
            max_concurrent: self.max_concurrent,
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let stop = CancellationToken::new();
        let drain = Drain {
            stop: stop.clone(),
            budget: self.budget,
        };
        let listener = Listener::new(listener, self.tls);
        let serving = tokio::spawn(serve(listener, edge, self.timeouts, self.max_connections, drain));
        Server {
            address,
            fake: handler.0,
            ready,
            stop,
            metrics,
            serving,
        }
    }
}

fn tokens() -> Auth {
    use sha2::{Digest as _, Sha256};
    let client = |id: &str, scopes: &[&str]| plimsoll_service::auth::Client {
        id: id.to_owned(),
        token_sha256: Sha256::digest(format!("{id}-token")).into(),
        scopes: scopes.iter().map(|scope| (*scope).to_owned()).collect(),
        paid_seconds_per_day: 0,
    };
    Auth::registry(vec![
        client("alice", &["code:run"]),
        client("bob", &["*"]),
        client("carol", &[]),
    ])
    .unwrap()
}

impl Server {
    pub(crate) async fn open() -> Self {
        Setup::default().start().await
    }

    pub(crate) async fn connect(&self) -> Wire {
        Wire::over(TcpStream::connect(self.address).await.unwrap())
    }

    /// One request on a connection of its own.
    pub(crate) async fn ask(&self, request: impl AsRef<[u8]>) -> Reply {
        let mut wire = self.connect().await;
        wire.send(request).await;
        wire.reply().await
    }

    pub(crate) fn runs(&self) -> usize {
        self.fake.runs.load(Ordering::SeqCst)
    }

    /// The metrics page of this moment.
    pub(crate) fn page(&self) -> String {
        self.metrics.render(&Readings {
            in_flight: 0,
            proven: Isolation::None,
            current: Isolation::None,
            log_write_errors: 0,
            failed_handshakes: None,
            sessions: None,
        })
    }

    /// Waits until `count` runs have begun.
    pub(crate) async fn running(&self, count: usize) {
        eventually("the run begins", || self.runs() == count).await;
    }
}

pub(crate) async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..500 {
        if holds() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{what}: not within 5 s");
}

/// A connection that writes what it is told to.
pub(crate) struct Wire<S = TcpStream> {
    pub(crate) stream: S,
    read: Vec<u8>,
}

/// An HTTP/1.1 answer.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Wire<S> {
    pub(crate) fn over(stream: S) -> Self {
        let read = Vec::new();
        Self { stream, read }
    }

    pub(crate) async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        // The peer may have answered and closed already; what counts is its answer.
        let _ = self.stream.write_all(bytes.as_ref()).await;
    }

    /// Reads one answer; panics after 5 s.
    pub(crate) async fn reply(&mut self) -> Reply {
        self.try_reply().await.expect("an answer within 5 s")
    }

    /// One answer, or none when the connection ends first.
    pub(crate) async fn try_reply(&mut self) -> Option<Reply> {
        tokio::time::timeout(Duration::from_secs(5), self.read_reply())
            .await
            .expect("within 5 s")
    }

    async fn read_reply(&mut self) -> Option<Reply> {
        let end = loop {
            if let Some(at) = self.read.windows(4).position(|window| window == b"\r\n\r\n") {
                break at + 4;
            }
            self.more().await?;
        };
        let head = String::from_utf8(self.read.drain(..end).collect()).unwrap();
        let mut lines = head.lines();
        let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
        let headers: Vec<(String, String)> = lines
            .filter_map(|line| line.split_once(": "))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
            .collect();
        let length = headers
            .iter()
            .find(|(name, _)| name == "content-length")
            .map_or(0, |(_, value)| value.parse().unwrap());
        while self.read.len() < length {
            self.more().await?;
        }
        let body = self.read.drain(..length).collect();
        Some(Reply { status, headers, body })
    }

    async fn more(&mut self) -> Option<()> {
        match self.stream.read_buf(&mut self.read).await {
            Ok(0) | Err(_) => None,
            Ok(_) => Some(()),
        }
    }

    /// How long until the server ends the connection; whatever still comes is ignored.
    pub(crate) async fn closed(&mut self) -> Duration {
        let start = Instant::now();
        tokio::time::timeout(Duration::from_secs(10), async { while self.more().await.is_some() {} })
            .await
            .expect("the connection ends");
        start.elapsed()
    }

    /// Bytes that came beyond the answers read so far, until the connection ends.
    pub(crate) async fn rest(mut self) -> Vec<u8> {
        self.closed().await;
        self.read
    }
}

impl Reply {
    pub(crate) fn all(&self, name: &str) -> Vec<&str> {
        self.headers
            .iter()
            .filter(|(have, _)| have == name)
            .map(|(_, value)| value.as_str())
            .collect()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.all(name).first().copied()
    }

    pub(crate) fn mark(&self) -> Option<&str> {
        self.header("plimsoll-not-dispatched")
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("JSON: {:?}", String::from_utf8_lossy(&self.body)))
    }

    pub(crate) fn code(&self) -> String {
        self.json()["code"].as_str().unwrap_or_default().to_owned()
    }

    /// The reason of the body's `NotDispatched`.
    pub(crate) fn detail(&self) -> Option<Reason> {
        let error = plimsoll_wire::RemoteError::parse(self.status, &self.body);
        error.not_dispatched.and_then(Reason::from_number)
    }

    /// Status, code, header mark and detail in one, for tables.
    pub(crate) fn outcome(&self) -> (u16, String, Option<&str>, Option<Reason>) {
        (self.status, self.code(), self.mark(), self.detail())
    }

    /// Asserts a refusal whose mark stands in the header alone.
    #[track_caller]
    pub(crate) fn refused_before_handler(&self, status: u16, code: &str, reason: &str) {
        assert_eq!(
            self.outcome(),
            (status, code.to_owned(), Some(reason), None),
            "{self:?}"
        );
        assert_eq!(self.all("plimsoll-request-id"), [ID]);
    }
}

/// A POST of JSON to a procedure, with the usual id.
pub(crate) fn post(procedure: &str, body: &str) -> String {
    post_with(procedure, &[("content-type", "application/json")], body)
}

/// A POST whose headers the test chooses; length and id are added.
pub(crate) fn post_with(procedure: &str, headers: &[(&str, &str)], body: &str) -> String {
    let length = body.len();
    let head = head(procedure, headers);
    format!("{head}content-length: {length}\r\n\r\n{body}")
}

/// The same with a body that is no text.
pub(crate) fn post_bytes(procedure: &str, headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let mut request = head(procedure, headers).into_bytes();
    request.extend(format!("content-length: {}\r\n\r\n", body.len()).into_bytes());
    request.extend(body);
    request
}

/// One gzip member.
pub(crate) fn gzip(content: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

/// The head of a POST without its last line.
pub(crate) fn head(procedure: &str, headers: &[(&str, &str)]) -> String {
    let mut text =
        format!("POST /plimsoll.v1.SandboxService/{procedure} HTTP/1.1\r\nhost: a\r\nplimsoll-request-id: {ID}\r\n");
    for (name, value) in headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    text
}

pub(crate) const JSON: (&str, &str) = ("content-type", "application/json");
pub(crate) const ALICE: (&str, &str) = ("authorization", "Bearer alice-token");
pub(crate) const BOB: (&str, &str) = ("authorization", "Bearer bob-token");

/// A snippet as a JSON body.
pub(crate) fn snippet(code: &str) -> String {
    serde_json::json!({ "protocol": 4, "javascript": { "code": code } }).to_string()
}
