//! Answers the edge writes itself, and the marks on every answer.

use http::header::{CONNECTION, CONTENT_TYPE, HeaderName, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use plimsoll_core::{Code, Reason, Refusal};
use plimsoll_wire::ErrorAnswer;
use plimsoll_wire::http::{JSON, NOT_DISPATCHED, REQUEST_ID, is_request_id};

use super::authenticate::AuthFailure;
use super::body::{BodyFault, EdgeBody};
use crate::rpc;

const REQUEST_ID_NAME: HeaderName = HeaderName::from_static(REQUEST_ID);
const NOT_DISPATCHED_NAME: HeaderName = HeaderName::from_static(NOT_DISPATCHED);

/// A refusal of the edge: nothing of the call ran, and no handler saw it.
#[derive(Debug)]
pub(super) struct Refused {
    status: StatusCode,
    error: ErrorAnswer,
    /// The header's reason.
    pub(super) reason: Reason,
    /// Boxed, so that the error stays small on the way of the good answers.
    header: Option<Box<(HeaderName, HeaderValue)>>,
}

impl Refused {
    /// Carries its mark in the body and in the header.
    pub(super) fn marked(refusal: &Refusal) -> Self {
        let reason = refusal.reason();
        Self {
            reason,
            ..Self::of(rpc::refused(refusal), reason)
        }
    }

    /// Malformed before anything was decoded: the mark `request` stands in the header alone.
    pub(super) fn unmarked(code: Code, message: impl Into<String>) -> Self {
        Self::of(rpc::before_handler(code, message), Reason::Request)
    }

    /// `invalid_argument` before anything was decoded.
    pub(super) fn invalid(message: impl Into<String>) -> Self {
        Self::unmarked(Code::InvalidArgument, message)
    }

    /// A status that has no Connect code of its own.
    pub(super) fn status(status: StatusCode, message: &str) -> Self {
        Self {
            status,
            ..Self::unmarked(Code::Unknown, message)
        }
    }

    /// No such procedure, or no such path.
    pub(super) fn not_found() -> Self {
        let error = rpc::before_handler(Code::Unimplemented, "nothing is served at this path");
        Self {
            status: StatusCode::NOT_FOUND,
            ..Self::of(error, Reason::Unsupported)
        }
    }

    pub(super) fn body(fault: BodyFault) -> Self {
        match fault {
            BodyFault::TooLarge => Self::unmarked(
                Code::ResourceExhausted,
                "the request body is over 8 MiB (8388608 bytes), on the wire or decompressed; send a smaller one",
            ),
            BodyFault::Late => Self::unmarked(
                Code::DeadlineExceeded,
                "the request body was not complete within 30 s of the request's begin; send it faster",
            ),
            BodyFault::Broken => Self::invalid("the request body ended before its stated end"),
            BodyFault::Gzip => Self::invalid("the request body is not exactly one gzip member"),
        }
    }

    /// What the RPC layer said of a body that is no message.
    pub(super) fn undecodable(error: ErrorAnswer) -> Self {
        Self::of(error, Reason::Request)
    }

    pub(super) fn auth(failure: AuthFailure) -> Self {
        match failure {
            AuthFailure::Unauthenticated => {
                let refusal = Refusal::new(Code::Unauthenticated, Reason::Permission, failure.to_string());
                Self::marked(&refusal).with_header(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"))
            }
            AuthFailure::Outage(outage) => Self::of(
                rpc::before_handler(outage.code(), failure.to_string()),
                Reason::Capacity,
            ),
        }
    }

    pub(super) fn with_header(self, name: HeaderName, value: HeaderValue) -> Self {
        Self {
            header: Some(Box::new((name, value))),
            ..self
        }
    }

    /// The Connect code, for the metrics.
    pub(super) const fn code(&self) -> Code {
        self.error.code()
    }

    fn of(error: ErrorAnswer, reason: Reason) -> Self {
        Self {
            status: status(error.code()),
            error,
            reason,
            header: None,
        }
    }

    /// The answer without its header mark.
    pub(super) fn into_response(self) -> Response<EdgeBody> {
        let mut response = error_response(&self.error);
        *response.status_mut() = self.status;
        if let Some((name, value)) = self.header.map(|header| *header) {
            response.headers_mut().insert(name, value);
        }
        response
    }
}

/// A Connect error of a handler. Always JSON, whatever the request's codec.
pub(super) fn error_response(error: &ErrorAnswer) -> Response<EdgeBody> {
    let mut response = content(JSON, error.to_json());
    *response.status_mut() = status(error.code());
    response
}

/// A 200 with some content.
pub(super) fn content(kind: &'static str, body: impl Into<bytes::Bytes>) -> Response<EdgeBody> {
    let mut response = Response::new(EdgeBody::full(body));
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

/// The fixed text of a probe.
pub(super) fn probe(status: StatusCode, text: &'static str) -> Response<EdgeBody> {
    let mut response = content("text/plain; charset=utf-8", text);
    *response.status_mut() = status;
    response
}

fn status(code: Code) -> StatusCode {
    StatusCode::from_u16(code.http_status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}

/// The id to echo: exactly one well-formed value. Anything else is echoed nowhere and refused nowhere.
pub(super) fn echo(headers: &HeaderMap) -> Option<HeaderValue> {
    let mut values = headers.get_all(REQUEST_ID_NAME).iter();
    match (values.next(), values.next()) {
        (Some(value), None) if is_request_id(value.as_bytes()) => Some(value.clone()),
        _ => None,
    }
}

/// Sets the echo; setting it twice leaves one.
pub(super) fn set_echo(response: &mut Response<EdgeBody>, id: Option<HeaderValue>) {
    if let Some(id) = id {
        response.headers_mut().insert(REQUEST_ID_NAME, id);
    }
}

/// Says in the header that nothing of the call ran.
pub(super) fn mark(response: &mut Response<EdgeBody>, reason: Reason) {
    response
        .headers_mut()
        .insert(NOT_DISPATCHED_NAME, HeaderValue::from_static(reason.as_str()));
}

/// Says that the connection ends with this answer.
pub(super) fn close_after(response: &mut Response<EdgeBody>) {
    response
        .headers_mut()
        .insert(CONNECTION, HeaderValue::from_static("close"));
}
