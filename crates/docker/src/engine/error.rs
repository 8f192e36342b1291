//! What can go wrong between the engine and us, told apart by status code and by what our own side saw.

use std::path::Path;
use std::time::Duration;

use super::{ApiVersion, MAX_ANSWER_BYTES, MAX_ERROR_TEXT_BYTES, OLDEST_API};

/// An exchange with the engine failed. The engine's own words are for the log; decisions rest on the variant.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EngineError {
    /// Status 404: no such container or image.
    #[error("the engine knows no such container or image: {text}")]
    NotFound {
        /// The engine's words, bounded.
        text: String,
    },
    /// Status 409: the object is in another state, or the name is taken.
    #[error("the engine refuses in the present state: {text}")]
    Conflict {
        /// The engine's words, bounded.
        text: String,
    },
    /// Any other status that is not a success.
    #[error("the engine answers status {status}: {text}")]
    Refused {
        /// The HTTP status.
        status: u16,
        /// The engine's words, bounded.
        text: String,
    },
    /// This user may not open the socket.
    #[error("this user may not open the engine's socket {socket}")]
    Forbidden {
        /// The socket.
        socket: String,
    },
    /// The socket, or HTTP on it, failed.
    #[error("the engine cannot be talked to: {problem}")]
    Transport {
        /// What failed.
        problem: String,
    },
    /// The answer holds more than is parsed.
    #[error("the engine's answer is larger than {MAX_ANSWER_BYTES} bytes")]
    TooLarge,
    /// The answer is whole and not what the API promises.
    #[error("the engine's answer cannot be used: {problem}")]
    Malformed {
        /// What is wrong with it.
        problem: String,
    },
    /// No answer within the budget.
    #[error("the engine did not answer within {budget:?}")]
    Timeout {
        /// How long was waited.
        budget: Duration,
    },
    /// The engine speaks no API version that we speak.
    #[error(
        "the engine speaks API {oldest_offered} to {offered}; at least {OLDEST_API} is needed: install Docker 20.10 or newer"
    )]
    Version {
        /// The engine's newest.
        offered: ApiVersion,
        /// The engine's oldest.
        oldest_offered: ApiVersion,
    },
}

impl EngineError {
    /// What an operator can do when the engine cannot be used at all.
    pub const fn remedy(&self) -> &'static str {
        match self {
            Self::Forbidden { .. } => {
                "run as a user who may (on Debian: root, or a member of the group docker, which is as good as root)"
            }
            _ => "start the engine, or point DOCKER_HOST at its socket",
        }
    }

    /// Why no connection to this socket was made.
    pub(crate) fn of_connect(socket: &Path, error: &std::io::Error) -> Self {
        let socket = socket.display();
        match error.kind() {
            std::io::ErrorKind::PermissionDenied => Self::Forbidden {
                socket: socket.to_string(),
            },
            _ => Self::transport(format_args!("{socket}: {error}")),
        }
    }

    /// The error of an answer with this status, which is not a success.
    pub(super) fn of_status(status: u16, text: String) -> Self {
        match status {
            404 => Self::NotFound { text },
            409 => Self::Conflict { text },
            _ => Self::Refused { status, text },
        }
    }

    pub(super) fn transport(problem: impl std::fmt::Display) -> Self {
        Self::Transport {
            problem: cut(problem.to_string()),
        }
    }

    pub(super) fn malformed(problem: impl std::fmt::Display) -> Self {
        Self::Malformed {
            problem: cut(problem.to_string()),
        }
    }

    /// An error of the connection or of a body on it.
    pub(super) fn of_hyper(error: &hyper::Error) -> Self {
        if reached_bound(error) {
            Self::TooLarge
        } else {
            Self::transport(spelled_out(error))
        }
    }

    /// Packed so that it passes through the client library unchanged.
    pub(super) fn carried(self) -> bollard::errors::Error {
        bollard::errors::Error::IOError {
            err: std::io::Error::other(self),
        }
    }
}

impl From<bollard::errors::Error> for EngineError {
    fn from(error: bollard::errors::Error) -> Self {
        use bollard::errors::Error;
        match error {
            Error::IOError { err } => match err.downcast::<Self>() {
                Ok(own) => own,
                Err(err) => Self::transport(err),
            },
            Error::HyperResponseError { err } => Self::of_hyper(&err),
            Error::DockerResponseServerError { status_code, message } => Self::of_status(status_code, cut(message)),
            Error::JsonDataError { message, .. } => Self::malformed(message),
            Error::JsonSerdeError { err } => Self::malformed(err),
            other => Self::transport(other),
        }
    }
}

/// A connection has carried more than an answer may hold.
#[derive(Debug, thiserror::Error)]
#[error("the answer is over the bound")]
pub(super) struct BoundReached;

fn reached_bound(error: &hyper::Error) -> bool {
    let mut source = std::error::Error::source(error);
    while let Some(error) = source {
        let io = error.downcast_ref::<std::io::Error>();
        if io
            .and_then(std::io::Error::get_ref)
            .is_some_and(|inner| inner.is::<BoundReached>())
        {
            return true;
        }
        source = error.source();
    }
    false
}

fn spelled_out(error: &hyper::Error) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(error) = source {
        text.push_str(": ");
        text.push_str(&error.to_string());
        source = error.source();
    }
    text
}

/// Cuts a text to what is kept of the engine's words.
pub(super) fn cut(mut text: String) -> String {
    if text.len() > MAX_ERROR_TEXT_BYTES {
        let end = (0..=MAX_ERROR_TEXT_BYTES).rev().find(|at| text.is_char_boundary(*at));
        text.truncate(end.unwrap_or(0));
    }
    text
}
