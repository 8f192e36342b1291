//! Scripted daemons on raw sockets: what they answer is decided byte by byte, so that a client's checks meet answers no
//! honest daemon would give.

pub(crate) mod fleet;
pub(crate) mod keeper;

use std::future::Future;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use plimsoll_client::{Client, ClientBuilder, RunRecord, RunRequest};
use plimsoll_core::{
    Artifact, Diagnostics, Isolation, JavaScriptResult, Limit, ModuleResult, ModuleRowResult, Outcome, Payload,
    ProjectOutcome, ProjectResult, RunResult, SoftwareRule, StepResult, Tier,
};
use plimsoll_record::{Answer, Stamp};
use plimsoll_wire::json::to_json;
use plimsoll_wire::{decode_run_json, pb};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// One request as it arrived.
#[derive(Clone, Debug)]
pub(crate) struct Received {
    pub(crate) line: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Received {
    /// The one value of a header.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut values = self
            .headers
            .iter()
            .filter(|(header, _)| header.eq_ignore_ascii_case(name));
        let value = values.next().map(|(_, value)| value.as_str());
        assert!(values.next().is_none(), "{name} was sent twice");
        value
    }

    pub(crate) fn id(&self) -> &str {
        self.header("plimsoll-request-id").expect("a request id")
    }

    pub(crate) fn run(&self) -> RunRequest {
        decode_run_json(&self.body).expect("a run request")
    }
}

/// A scripted daemon.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    connections: Arc<AtomicUsize>,
    received: Arc<Mutex<Vec<Received>>>,
    accepting: JoinHandle<()>,
}

impl Server {
    /// Answers every request with what the script makes of it, and closes.
    pub(crate) async fn answering(script: impl Fn(&Received) -> Vec<u8> + Send + Sync + 'static) -> Self {
        Self::answering_on(any_port().await, script)
    }

    /// As [`Server::answering`], on a port of the test's choice.
    pub(crate) fn answering_on(
        listener: TcpListener,
        script: impl Fn(&Received) -> Vec<u8> + Send + Sync + 'static,
    ) -> Self {
        let received: Arc<Mutex<Vec<Received>>> = Arc::default();
        let script = Arc::new(script);
        let log = Arc::clone(&received);
        let mut server = Self::raw_on(listener, move |mut stream| {
            let (script, log) = (Arc::clone(&script), Arc::clone(&log));
            async move {
                let Some(request) = read_request(&mut stream).await else {
                    return;
                };
                let answer = script(&request);
                log.lock().expect("no test holds it").push(request);
                drop(stream.write_all(&answer).await);
                drop(stream.shutdown().await);
            }
        });
        server.received = received;
        server
    }

    /// Hands every connection to the script.
    pub(crate) async fn raw<F: Future<Output = ()> + Send + 'static>(
        script: impl Fn(TcpStream) -> F + Send + Sync + 'static,
    ) -> Self {
        Self::raw_on(any_port().await, script)
    }

    fn raw_on<F: Future<Output = ()> + Send + 'static>(
        listener: TcpListener,
        script: impl Fn(TcpStream) -> F + Send + Sync + 'static,
    ) -> Self {
        let address = listener.local_addr().expect("an address");
        let connections: Arc<AtomicUsize> = Arc::default();
        let count = Arc::clone(&connections);
        let accepting = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                count.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(script(stream));
            }
        });
        Self {
            address,
            connections,
            received: Arc::default(),
            accepting,
        }
    }

    /// Takes no more connections; the port is free again.
    pub(crate) async fn close(self) {
        self.accepting.abort();
        drop(self.accepting.await);
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn builder(&self) -> ClientBuilder {
        Client::builder(self.url())
    }

    pub(crate) fn client(&self) -> Client {
        self.builder().build().expect("a client")
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    pub(crate) fn received(&self) -> Vec<Received> {
        self.received.lock().expect("no test holds it").clone()
    }
}

pub(crate) async fn any_port() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").await.expect("a port")
}

/// Reads a head and a body of the stated length; nothing when the peer goes away first.
pub(crate) async fn read_request(stream: &mut TcpStream) -> Option<Received> {
    let mut bytes = Vec::new();
    let head_end = loop {
        if let Some(at) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break at;
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8(bytes[..head_end].to_vec()).expect("a head in ASCII");
    let mut lines = head.split("\r\n");
    let line = lines.next().unwrap_or_default().to_owned();
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    let request = Received {
        line,
        headers,
        body: Vec::new(),
    };
    let length: usize = request
        .header("content-length")
        .and_then(|text| text.parse().ok())
        .unwrap_or(0);
    let mut body = bytes.split_off(head_end + 4);
    while body.len() < length {
        if stream.read_buf(&mut body).await.ok()? == 0 {
            return None;
        }
    }
    Some(Received { body, ..request })
}

/// A port whose queue of connections is full, so that connecting hangs. The streams keep it full.
pub(crate) async fn hanging_port() -> (TcpListener, Vec<TcpStream>) {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.bind("127.0.0.1:0".parse().expect("an address")).expect("a port");
    let listener = socket.listen(1).expect("a listener");
    let address = listener.local_addr().expect("an address");
    let mut waiting = Vec::new();
    while let Ok(Ok(stream)) = timeout(Duration::from_millis(200), TcpStream::connect(address)).await {
        waiting.push(stream);
        assert!(waiting.len() < 64, "the queue never fills");
    }
    (listener, waiting)
}

/// A whole answer: status, headers as given, and the body with its length.
pub(crate) fn http(status: u16, headers: &[(&str, &str)], body: impl AsRef<[u8]>) -> Vec<u8> {
    let mut answer = format!("HTTP/1.1 {status} Scripted\r\n");
    for (name, value) in headers {
        answer.push_str(&format!("{name}: {value}\r\n"));
    }
    answer.push_str(&format!("Content-Length: {}\r\n\r\n", body.as_ref().len()));
    let mut answer = answer.into_bytes();
    answer.extend_from_slice(body.as_ref());
    answer
}

/// A JSON answer that names the request.
pub(crate) fn bound(request: &Received, status: u16, body: impl AsRef<[u8]>) -> Vec<u8> {
    http(
        status,
        &[
            ("Content-Type", "application/json"),
            ("Plimsoll-Request-Id", request.id()),
        ],
        body,
    )
}

pub(crate) const IMAGE: &str = "docker-image:sha256:1111111111111111111111111111111111111111111111111111111111111111";
pub(crate) const SOFTWARE: &str =
    "oci-manifest:linux/amd64@sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";

/// What an honest daemon of tier `kernel` answers.
pub(crate) fn honest(request: &RunRequest) -> Answer {
    let diagnostics = Diagnostics {
        limit_hit: Some(Limit::Memory),
        stdout_bytes: 3,
        peak_memory_bytes: 1 << 20,
        ..Diagnostics::default()
    };
    let result = match request.payload.as_ref().expect("a payload") {
        Payload::JavaScript(_) => RunResult::JavaScript(JavaScriptResult {
            stdout: b"42\n".to_vec(),
            ..JavaScriptResult::default()
        }),
        Payload::Project(run) => RunResult::Project(ProjectResult {
            outcome: ProjectOutcome::COMPLETED,
            steps: vec![StepResult {
                command: run.steps[0].clone(),
                stdout: vec![0xff, 0xfe, b'\n'],
                exit_code: 3,
                duration_ms: 7,
                ..StepResult::default()
            }],
            artifacts: run
                .artifacts
                .iter()
                .map(|path| Artifact {
                    path: path.clone(),
                    content: b"bytes".to_vec(),
                })
                .collect(),
            ..ProjectResult::default()
        }),
        Payload::Module(_) => RunResult::Module(ModuleResult {
            runs: vec![ModuleRowResult {
                status: 2,
                outputs: vec![f64::NAN, -0.0, f64::INFINITY, 1e300],
            }],
            width: 2,
            outcome: ProjectOutcome::COMPLETED,
            ..ModuleResult::default()
        }),
        Payload::Cell(_) => panic!("cells run in sessions"),
    };
    let outcome = Outcome {
        result,
        isolation: Isolation::Proven(Tier::Kernel),
        duration_ms: 12,
        environment: IMAGE.to_owned(),
        software_identity: SOFTWARE.to_owned(),
        instance: String::new(),
        diagnostics,
    };
    let stamp = Stamp {
        provider: "docker",
        policy: "",
        started_unix_ms: 1_767_225_600_000,
        ended_unix_ms: 1_767_225_600_012,
    };
    let rule = SoftwareRule::parse(request.software_rule.as_ref()).expect("a rule");
    let record = stamp.answered(request, &rule, &outcome);
    Answer::new("docker", outcome, record)
}

/// Puts the right digest on a record that was changed.
pub(crate) fn seal(record: &mut RunRecord) {
    record.record_sha256 = record.digest().unwrap_or_default();
}

/// The body of an answer.
pub(crate) fn body(answer: Answer) -> Vec<u8> {
    to_json(&pb::RunResponse::from(answer))
}

/// A daemon that answers honestly, except for what `change` does to the answer.
pub(crate) async fn daemon(change: impl Fn(&mut Answer) + Send + Sync + 'static) -> Server {
    Server::answering(move |request| {
        let mut answer = honest(&request.run());
        change(&mut answer);
        bound(request, 200, body(answer))
    })
    .await
}

/// Unpadded standard base64 is what a daemon writes; the tests only ever need a few bytes.
pub(crate) fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let word = chunk.iter().fold(0_u32, |word, byte| (word << 8) | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for index in 0..=chunk.len() {
            text.push(char::from(ALPHABET[((word >> (18 - 6 * index)) & 63) as usize]));
        }
    }
    text
}
