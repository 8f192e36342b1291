//! The site of the metrics listener: one page, and nothing else.

use std::sync::Arc;

use http::header::{ALLOW, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, Response, StatusCode, Version};
use http_body::Body as _;
use hyper::body::Incoming;
use plimsoll_sandbox::BoxFuture;

use super::answer;
use super::body::EdgeBody;
use super::connection::Exchange;
use super::headers::host_problem;
use super::serve::Site;
use crate::metrics::CONTENT_TYPE as METRICS_TYPE;

/// Renders the page at the moment it is asked for. Clones share it.
#[derive(Clone)]
pub struct MetricsSite(Arc<dyn Fn() -> String + Send + Sync>);

impl MetricsSite {
    /// A site whose page `render` writes.
    pub fn new(render: impl Fn() -> String + Send + Sync + 'static) -> Self {
        Self(Arc::new(render))
    }
}

impl std::fmt::Debug for MetricsSite {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MetricsSite").finish_non_exhaustive()
    }
}

impl Site for MetricsSite {
    fn respond(&self, request: Request<Incoming>, exchange: Exchange) -> BoxFuture<'static, Response<EdgeBody>> {
        let host_problem = host_problem(request.version(), request.headers());
        let mut response = match (request.uri().path(), request.method()) {
            _ if host_problem.is_some() => answer::probe(StatusCode::BAD_REQUEST, "bad request: host\n"),
            ("/metrics", &Method::GET | &Method::HEAD) => {
                let mut response = Response::new(EdgeBody::full((self.0)()));
                response
                    .headers_mut()
                    .insert(CONTENT_TYPE, HeaderValue::from_static(METRICS_TYPE));
                response
            }
            ("/metrics", _) => {
                let mut response = answer::probe(StatusCode::METHOD_NOT_ALLOWED, "method not allowed\n");
                response
                    .headers_mut()
                    .insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
                response
            }
            _ => answer::probe(StatusCode::NOT_FOUND, "not found\n"),
        };
        if request.version() < Version::HTTP_2 && (host_problem.is_some() || !request.body().is_end_stream()) {
            answer::close_after(&mut response);
            exchange.connection().expect_unread_body();
        }
        Box::pin(std::future::ready(response.map(|body| body.ending(exchange))))
    }
}
