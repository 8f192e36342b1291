//! A scripted engine on a Unix socket: it says what a test tells it to, and remembers what it was asked.
//!
//! [`FakeEngine::healthy`] is an engine of API 1.41 that has one image and knows no container. A test replaces single
//! answers with [`FakeEngine::on`]; the last answer of a list stays.

mod pid1;

use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::BodyExt as _;
use http_body_util::combinators::BoxBody;
use hyper::body::{Frame, Incoming};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::UnixListener;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio::time::sleep;

use crate::settings::DockerSettings;

pub(crate) use pid1::{Act, ready};

/// The content ID of the image a healthy fake has.
pub(crate) const IMAGE_ID: &str = "sha256:1111111111111111111111111111111111111111111111111111111111111111";

/// The ID every created container gets.
pub(crate) const CONTAINER_ID: &str = "2222222222222222222222222222222222222222222222222222222222222222";

/// The container's side of an attachment.
pub(crate) type Stdio = TokioIo<Upgraded>;

type Guest = Arc<dyn Fn(Stdio) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync>;

/// One answer.
#[derive(Clone)]
pub(crate) enum Reply {
    /// A status and a JSON body.
    Json(u16, Value),
    /// A status and any body.
    Raw(u16, Bytes),
    /// The answer after a pause.
    After(Duration, Box<Reply>),
    /// No answer, ever.
    Silence,
    /// The connection ends without an answer.
    Hangup,
    /// The head at once, the body when the sender is used or dropped.
    Later(Arc<Mutex<Option<mpsc::UnboundedReceiver<Bytes>>>>),
    /// An upgrade to a stream, which the function then talks on.
    Attach(Guest),
    /// The container that was asked for last, as an inspection shows it, with these changes to its host configuration.
    Made(Value),
    /// The same under this name.
    Named(&'static str),
}

impl Reply {
    /// Success without a body.
    pub(crate) fn done() -> Self {
        Self::Raw(204, Bytes::new())
    }

    /// A failure in the engine's form.
    pub(crate) fn failure(status: u16, message: &str) -> Self {
        Self::Json(status, json!({ "message": message }))
    }

    /// An answer whose head comes at once and whose body is sent by the test; dropping the sender ends it.
    pub(crate) fn later() -> (mpsc::UnboundedSender<Bytes>, Self) {
        let (sender, receiver) = mpsc::unbounded_channel();
        (sender, Self::Later(Arc::new(Mutex::new(Some(receiver)))))
    }

    /// A container whose program is `guest`.
    pub(crate) fn attach<F>(guest: impl Fn(Stdio) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        Self::Attach(Arc::new(move |stdio| Box::pin(guest(stdio))))
    }
}

/// A piece of a container's output as the engine frames it: 1 is stdout, 2 is stderr.
pub(crate) fn piece(stream: u8, bytes: &[u8]) -> Vec<u8> {
    let length = u32::try_from(bytes.len()).expect("a piece of a test is small");
    let mut framed = vec![stream, 0, 0, 0];
    framed.extend(length.to_be_bytes());
    framed.extend(bytes);
    framed
}

/// What the fake was asked.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) method: Method,
    /// Without the version prefix and the query.
    pub(crate) path: String,
    /// The API version it was asked in; empty without one.
    pub(crate) version: String,
    pub(crate) query: BTreeMap<String, String>,
    pub(crate) body: Value,
}

#[derive(Default)]
struct Script {
    /// By method and path; a path that ends in `*` stands for every longer one.
    replies: BTreeMap<(String, String), VecDeque<Reply>>,
    asked: Vec<Asked>,
    /// By the last part of the path: what every container does, whatever its name.
    calls: BTreeMap<String, Box<dyn Fn() -> Reply + Send>>,
}

impl Script {
    fn next(&mut self, method: &Method, path: &str) -> Reply {
        let last = path.rsplit('/').next().unwrap_or_default();
        if let Some(call) = self.calls.get(last) {
            return call();
        }
        let method = method.as_str();
        let exact = (method.to_owned(), path.to_owned());
        let key = if self.replies.contains_key(&exact) {
            Some(exact)
        } else {
            let wild = |key: &&(String, String)| {
                key.0 == method && key.1.strip_suffix('*').is_some_and(|prefix| path.starts_with(prefix))
            };
            // The longest prefix says most.
            self.replies.keys().filter(wild).max_by_key(|key| key.1.len()).cloned()
        };
        let queue = key.and_then(|key| self.replies.get_mut(&key));
        match queue {
            Some(queue) if queue.len() > 1 => queue.pop_front(),
            Some(queue) => queue.front().cloned(),
            None => None,
        }
        .unwrap_or_else(|| Reply::failure(404, "the script has no answer"))
    }
}

impl Script {
    /// An inspection of the container that was created last.
    fn made(&self, changes: &Value) -> Value {
        let created = self.asked.iter().rev().find(|asked| asked.path == "/containers/create");
        let body = created.map_or(Value::Null, |asked| asked.body.clone());
        let mut host = body["HostConfig"].clone();
        if let (Some(host), Some(changes)) = (host.as_object_mut(), changes.as_object()) {
            host.extend(changes.clone());
        }
        json!({
            "Id": CONTAINER_ID,
            "Image": body["Image"],
            "Config": body,
            "HostConfig": host,
            "State": { "Pid": 0, "Running": true },
        })
    }
}

/// The engine; it ends with the value.
pub(crate) struct FakeEngine {
    _folder: TempDir,
    socket: PathBuf,
    script: Arc<Mutex<Script>>,
    serving: AbortHandle,
}

impl FakeEngine {
    /// An engine that has no answer to anything.
    pub(crate) fn silent() -> Self {
        let folder = tempfile::tempdir().expect("a folder for a socket");
        let socket = folder.path().join("engine.sock");
        let listener = UnixListener::bind(&socket).expect("a socket to listen on");
        let script = Arc::<Mutex<Script>>::default();
        let shared = Arc::clone(&script);
        let serving = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let shared = Arc::clone(&shared);
                tokio::spawn(async move {
                    let service = hyper::service::service_fn(move |request| answer(Arc::clone(&shared), request));
                    let connection = hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), service)
                        .with_upgrades();
                    // A client that leaves in the middle is what some tests are about.
                    let _ = connection.await;
                });
            }
        });
        Self {
            _folder: folder,
            socket,
            script,
            serving: serving.abort_handle(),
        }
    }

    /// An engine of API 1.41 with runc, runsc and one image, whose containers can be created, started and removed.
    pub(crate) fn healthy() -> Self {
        let engine = Self::silent();
        engine.on("GET", "/version", [Reply::Json(200, version("1.41"))]);
        engine.on("GET", "/info", [Reply::Json(200, info())]);
        engine.on("GET", "/images/*", [Reply::Json(200, image(IMAGE_ID))]);
        engine.on(
            "POST",
            "/containers/create",
            [Reply::Json(201, json!({ "Id": CONTAINER_ID, "Warnings": [] }))],
        );
        engine.on("POST", "/containers/*", [Reply::done()]);
        engine.on("DELETE", "/containers/*", [Reply::done()]);
        engine.on("GET", "/containers/json", [Reply::Json(200, json!([]))]);
        engine
    }

    /// Replaces the answers to a request; the last one stays. A path that ends in `*` stands for every longer one that has
    /// no answer of its own.
    pub(crate) fn on(&self, method: &str, path: &str, replies: impl IntoIterator<Item = Reply>) {
        let replies = replies.into_iter().collect();
        self.script
            .lock()
            .replies
            .insert((method.to_owned(), path.to_owned()), replies);
    }

    /// What every container answers to this call.
    pub(crate) fn on_call(&self, call: &str, reply: impl Fn() -> Reply + Send + 'static) {
        self.script.lock().calls.insert(call.to_owned(), Box::new(reply));
    }

    /// Where it listens.
    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }

    /// Settings that lead to it.
    pub(crate) fn settings(&self) -> DockerSettings {
        let socket = self.socket.to_str().expect("a path of text");
        settings(&[("DOCKER_HOST", socket)])
    }

    /// Everything it was asked so far, in order.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.script.lock().asked.clone()
    }

    /// How often a request was made.
    pub(crate) fn count(&self, method: &str, path: &str) -> usize {
        let asked = self.script.lock();
        let same = asked
            .asked
            .iter()
            .filter(|asked| asked.method == method && asked.path == path);
        same.count()
    }
}

impl Drop for FakeEngine {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// Settings from these variables and no envelope.
pub(crate) fn settings(values: &[(&str, &str)]) -> DockerSettings {
    let lookup: BTreeMap<std::ffi::OsString, std::ffi::OsString> =
        values.iter().map(|(name, value)| (name.into(), value.into())).collect();
    DockerSettings::read(&lookup, plimsoll_core::Resources::default()).expect("the settings of a test are readable")
}

/// The answer to `/version` of an engine with this newest API.
pub(crate) fn version(api: &str) -> Value {
    json!({ "Version": "fake", "ApiVersion": api, "MinAPIVersion": "1.12", "Os": "linux", "Arch": "amd64" })
}

/// The answer to `/info` of a host with two processors.
pub(crate) fn info() -> Value {
    json!({
        "NCPU": 2,
        "MemTotal": 8_u64 << 30,
        "CgroupVersion": "2",
        "MemoryLimit": true,
        "SwapLimit": true,
        "CpuCfsQuota": true,
        "CPUSet": true,
        "PidsLimit": true,
        "DefaultRuntime": "runc",
        "DriverStatus": [["Backing Filesystem", "extfs"]],
        "Runtimes": { "runc": { "path": "runc" }, "runsc": { "path": "/usr/local/bin/runsc" } },
    })
}

/// The answer to an inspection of an image with this ID.
pub(crate) fn image(id: &str) -> Value {
    json!({
        "Id": id,
        "Os": "linux",
        "Architecture": "amd64",
        "Config": { "Env": ["PATH=/usr/bin"], "Volumes": null },
    })
}

async fn answer(
    script: Arc<Mutex<Script>>,
    mut request: Request<Incoming>,
) -> Result<Response<BoxBody<Bytes, Infallible>>, std::io::Error> {
    let upgrade = request
        .headers()
        .contains_key(header::UPGRADE)
        .then(|| hyper::upgrade::on(&mut request));
    let (parts, body) = request.into_parts();
    let body = body.collect().await.map_err(std::io::Error::other)?.to_bytes();
    let (version, path) = split_version(parts.uri.path());
    let query = url::form_urlencoded::parse(parts.uri.query().unwrap_or_default().as_bytes());
    let asked = Asked {
        method: parts.method.clone(),
        path: path.to_owned(),
        version: version.to_owned(),
        query: query.into_owned().collect(),
        body: serde_json::from_slice(&body).unwrap_or(Value::Null),
    };
    let mut reply = {
        let mut script = script.lock();
        script.asked.push(asked);
        match script.next(&parts.method, path) {
            Reply::Made(changes) => Reply::Json(200, script.made(&changes)),
            Reply::Named(name) => {
                let mut made = script.made(&json!({}));
                made["Name"] = json!(name);
                Reply::Json(200, made)
            }
            other => other,
        }
    };
    while let Reply::After(pause, then) = reply {
        sleep(pause).await;
        reply = *then;
    }
    let plain = |status: u16, body: Bytes| {
        let body = http_body_util::Full::new(body).boxed();
        let mut response = Response::new(body);
        *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::IM_A_TEAPOT);
        response
    };
    match reply {
        Reply::Json(status, value) => Ok(plain(status, value.to_string().into())),
        Reply::Raw(status, body) => Ok(plain(status, body)),
        Reply::Silence | Reply::After(..) | Reply::Made(_) | Reply::Named(_) => std::future::pending().await,
        Reply::Hangup => Err(std::io::Error::other("the script hangs up")),
        Reply::Later(receiver) => {
            let receiver = receiver.lock().take();
            Ok(Response::new(Sent(receiver).boxed()))
        }
        Reply::Attach(guest) => {
            if let Some(upgrade) = upgrade {
                tokio::spawn(async move {
                    if let Ok(stream) = upgrade.await {
                        guest(TokioIo::new(stream)).await;
                    }
                });
            }
            let mut response = plain(101, Bytes::new());
            let headers = response.headers_mut();
            headers.insert(header::CONNECTION, http::HeaderValue::from_static("Upgrade"));
            headers.insert(header::UPGRADE, http::HeaderValue::from_static("tcp"));
            Ok(response)
        }
    }
}

fn split_version(path: &str) -> (&str, &str) {
    let versioned = path
        .strip_prefix("/v")
        .filter(|rest| rest.starts_with(|first: char| first.is_ascii_digit()));
    match versioned.and_then(|rest| rest.split_once('/')) {
        Some((version, rest)) => (version, &path[path.len() - rest.len() - 1..]),
        None => ("", path),
    }
}

/// A body that the test sends piece by piece.
struct Sent(Option<mpsc::UnboundedReceiver<Bytes>>);

impl hyper::body::Body for Sent {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match &mut self.0 {
            Some(receiver) => receiver
                .poll_recv(cx)
                .map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes)))),
            None => Poll::Ready(None),
        }
    }
}
