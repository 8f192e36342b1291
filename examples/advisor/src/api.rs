//! An API on this machine with a route for one berth and a route for all of them.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;

/// Berths `1` to this one; every third is free.
const BERTHS: usize = 12;

/// What one answer takes: every API has to do something for it.
const WORK: Duration = Duration::from_millis(3);

/// The API, until it is dropped.
pub(crate) struct Api {
    origin: String,
    requests: Arc<AtomicUsize>,
    server: tokio::task::JoinHandle<()>,
}

impl Api {
    /// Serves whoever shows this token.
    pub(crate) async fn start(token: &str) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let origin = format!("http://{}", listener.local_addr()?);
        let requests = Arc::new(AtomicUsize::new(0));
        let wanted: Arc<str> = format!("Bearer {token}").into();
        let server = tokio::spawn(serve(listener, wanted, Arc::clone(&requests)));
        Ok(Self {
            origin,
            requests,
            server,
        })
    }

    pub(crate) fn origin(&self) -> &str {
        &self.origin
    }

    /// Requests so far.
    pub(crate) fn requests(&self) -> usize {
        self.requests.load(Ordering::Relaxed)
    }
}

impl Drop for Api {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn serve(listener: TcpListener, wanted: Arc<str>, requests: Arc<AtomicUsize>) {
    while let Ok((stream, _)) = listener.accept().await {
        let (wanted, requests) = (Arc::clone(&wanted), Arc::clone(&requests));
        let service = service_fn(move |request: Request<Incoming>| {
            requests.fetch_add(1, Ordering::Relaxed);
            let answer = answer(&request, &wanted);
            async move {
                tokio::time::sleep(WORK).await;
                Ok::<_, Infallible>(answer)
            }
        });
        tokio::spawn(async move {
            // A connection that breaks concerns nobody else.
            let _closed = http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}

fn answer(request: &Request<Incoming>, wanted: &str) -> Response<Full<Bytes>> {
    let shown = request.headers().get(AUTHORIZATION).map(HeaderValue::as_bytes);
    let (status, body) = if shown != Some(wanted.as_bytes()) {
        (StatusCode::UNAUTHORIZED, json!({ "error": "show the token" }))
    } else if request.method() != Method::GET {
        (
            StatusCode::METHOD_NOT_ALLOWED,
            json!({ "error": "this API is read only" }),
        )
    } else {
        look_up(request.uri().path())
    };
    let mut response = Response::new(Full::new(Bytes::from(body.to_string())));
    *response.status_mut() = status;
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, json);
    response
}

fn look_up(path: &str) -> (StatusCode, Value) {
    if path == "/berths" {
        return (StatusCode::OK, (1..=BERTHS).map(berth).collect());
    }
    let number = path.strip_prefix("/berths/").and_then(|number| number.parse().ok());
    match number.filter(|number| (1..=BERTHS).contains(number)) {
        Some(number) => (StatusCode::OK, berth(number)),
        None => (StatusCode::NOT_FOUND, json!({ "error": "no such berth" })),
    }
}

fn berth(number: usize) -> Value {
    let ship = if number.is_multiple_of(3) {
        String::new()
    } else {
        format!("ship {number}")
    };
    json!({ "berth": number, "ship": ship })
}
