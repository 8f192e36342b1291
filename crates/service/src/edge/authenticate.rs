//! Who is calling, before a byte of the body is read.

use http::HeaderMap;
use http::header::AUTHORIZATION;
use plimsoll_core::Code;
use plimsoll_sandbox::BoxFuture;

use crate::auth::{Auth, Principal};

/// Finds the caller of a request. The daemon's own callers answer at once; a verifier elsewhere may take its time.
pub trait Authenticator: Send + Sync + 'static {
    /// Whether every call is allowed without a credential: an unknown procedure is then 404, and 403 otherwise.
    fn is_open(&self) -> bool;

    /// The caller, from the request's headers alone.
    fn authenticate<'a>(&'a self, headers: &'a HeaderMap) -> BoxFuture<'a, Result<Principal, AuthFailure>>;
}

/// Why there is no caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AuthFailure {
    /// No credential, or none that is known.
    #[error("a known bearer token is required; send it as Authorization: Bearer TOKEN")]
    Unauthenticated,
    /// The verifier did not answer; nothing is known about the caller. Its own text never travels.
    #[error("the caller could not be verified just now; try again")]
    Outage(Outage),
}

/// How a verifier failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outage {
    /// Its call was cancelled.
    Canceled,
    /// It did not answer in time.
    DeadlineExceeded,
    /// It could not be reached, or failed.
    Unavailable,
}

impl Outage {
    pub(super) const fn code(self) -> Code {
        match self {
            Self::Canceled => Code::Canceled,
            Self::DeadlineExceeded => Code::DeadlineExceeded,
            Self::Unavailable => Code::Unavailable,
        }
    }
}

impl Authenticator for Auth {
    fn is_open(&self) -> bool {
        Self::is_open(self)
    }

    fn authenticate<'a>(&'a self, headers: &'a HeaderMap) -> BoxFuture<'a, Result<Principal, AuthFailure>> {
        let values = headers.get_all(AUTHORIZATION).iter().map(http::HeaderValue::as_bytes);
        let caller = Self::authenticate(self, values).map_err(|_| AuthFailure::Unauthenticated);
        Box::pin(std::future::ready(caller))
    }
}
