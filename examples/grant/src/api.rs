//! An API on this machine that believes nobody without a good token, and remembers what reached it.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE};
use hyper::http::request::Parts;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::verify::{Denied, Verifier};

/// The audience its tokens must name.
pub(crate) const AUDIENCE: &str = "port-api";

/// Largest request body, in bytes.
const LARGEST: usize = 64 * 1024;

/// The harbour's API, until it is dropped.
pub(crate) struct Api {
    origin: String,
    harbour: Arc<Harbour>,
    server: tokio::task::JoinHandle<()>,
}

struct Harbour {
    verifier: Verifier,
    state: Mutex<State>,
}

struct State {
    berths: BTreeMap<String, String>,
    log: Vec<String>,
    credentials: Vec<String>,
}

impl Api {
    pub(crate) async fn start(secret: Vec<u8>) -> std::io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let origin = format!("http://{}", listener.local_addr()?);
        let berths = [("A1", "Ellida"), ("A2", ""), ("B1", "Gjoa")];
        let harbour = Arc::new(Harbour {
            verifier: Verifier::new(secret, AUDIENCE),
            state: Mutex::new(State {
                berths: berths.map(|(berth, ship)| (berth.to_owned(), ship.to_owned())).into(),
                log: Vec::new(),
                credentials: Vec::new(),
            }),
        });
        let server = tokio::spawn(serve(listener, Arc::clone(&harbour)));
        Ok(Self {
            origin,
            harbour,
            server,
        })
    }

    /// Where it is: what the operator writes into a grant, and no guest sees.
    pub(crate) fn origin(&self) -> &str {
        &self.origin
    }

    /// How many requests have reached it, those it refused included.
    pub(crate) fn requests(&self) -> usize {
        self.harbour.state.lock().log.len()
    }

    /// What has reached it, one line a request.
    pub(crate) fn log(&self) -> Vec<String> {
        self.harbour.state.lock().log.clone()
    }

    /// Every credential it was shown. An API has no reason to keep them; this one does, so that the example can look for
    /// them where they must not be.
    pub(crate) fn credentials(&self) -> Vec<String> {
        self.harbour.state.lock().credentials.clone()
    }
}

impl Drop for Api {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn serve(listener: TcpListener, harbour: Arc<Harbour>) {
    while let Ok((stream, _)) = listener.accept().await {
        let harbour = Arc::clone(&harbour);
        let service = service_fn(move |request| answer(Arc::clone(&harbour), request));
        tokio::spawn(async move {
            // A connection that breaks concerns nobody else.
            let _closed = http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}

async fn answer(harbour: Arc<Harbour>, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let (head, body) = request.into_parts();
    let (who, status, answer) = match Limited::new(body, LARGEST).collect().await {
        Ok(body) => harbour.decide(&head, &body.to_bytes()),
        Err(_) => ("nobody".to_owned(), 413, json!({ "error": "the body is too large" })),
    };
    let line = format!("{} {} for {who}: {status}", head.method, head.uri.path());
    harbour.state.lock().log.push(line);
    let mut response = Response::new(Full::new(Bytes::from(answer.to_string())));
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let json = hyper::header::HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, json);
    Ok(response)
}

impl Harbour {
    /// Who asks, which status it gets, and with what.
    fn decide(&self, head: &Parts, body: &[u8]) -> (String, u16, Value) {
        let authorization = head.headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        if let Some((_, credential)) = authorization.and_then(|value| value.split_once(' ')) {
            self.state.lock().credentials.push(credential.to_owned());
        }
        let refused =
            |who: &str, denied: Denied| (who.to_owned(), denied.status(), json!({ "error": denied.to_string() }));
        let caller = match self.verifier.verify(authorization, SystemTime::now()) {
            Ok(caller) => caller,
            Err(denied) => return refused("nobody", denied),
        };
        let served = match required_scope(&head.method, head.uri.path()) {
            Some("") => Ok(()),
            Some(scope) => caller.require(scope),
            None => return (caller.subject, 404, json!({ "error": "no such route" })),
        };
        match served {
            Ok(()) => {
                let (status, answer) = self.perform(head, body);
                (caller.subject, status, answer)
            }
            Err(denied) => refused(&caller.subject, denied),
        }
    }

    fn perform(&self, head: &Parts, body: &[u8]) -> (u16, Value) {
        let mut state = self.state.lock();
        let path = head.uri.path();
        let Some(berth) = path.strip_prefix("/berths/") else {
            return match path {
                "/berths" => (200, json!(state.berths.keys().collect::<Vec<_>>())),
                "/crew" => (200, json!(["Amundsen", "Wisting"])),
                _ => (200, json!(echo(head))),
            };
        };
        let Some(ship) = state.berths.get_mut(berth) else {
            return (404, json!({ "error": "no such berth" }));
        };
        if head.method == Method::PUT {
            let wanted = serde_json::from_slice::<Value>(body).ok();
            let Some(name) = wanted.as_ref().and_then(|wanted| wanted["ship"].as_str()) else {
                return (400, json!({ "error": "say which ship, as {\"ship\": name}" }));
            };
            name.clone_into(ship);
        }
        (200, json!({ "berth": berth, "ship": ship }))
    }
}

/// The scope a route needs: empty when any good token will do, none when there is no such route.
fn required_scope(method: &Method, path: &str) -> Option<&'static str> {
    let berth = path.strip_prefix("/berths/").is_some_and(|berth| !berth.contains('/'));
    match *method {
        Method::GET if berth || path == "/berths" => Some("berths:read"),
        Method::PUT if berth => Some("berths:write"),
        Method::GET if path == "/crew" => Some("crew:read"),
        Method::GET if path == "/headers" => Some(""),
        _ => None,
    }
}

/// What was sent, sent back: the kind of debugging route that leaks credentials.
fn echo(head: &Parts) -> BTreeMap<String, String> {
    let text = |value: &hyper::header::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    head.headers
        .iter()
        .map(|(name, value)| (name.to_string(), text(value)))
        .collect()
}
