//! A container's next exit, asked for before it can happen.

use http::Method;
use hyper::body::Incoming;
use serde::Deserialize;

use super::error::{EngineError, cut};
use super::transport::{Transport, request, whole};

/// The engine's promise to tell of the next exit.
#[derive(Debug)]
pub struct ExitWait(Incoming);

/// What the engine says about an exit: supporting evidence, never the guest's own status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exit {
    /// The main process's status; 137 after a kill.
    pub code: i64,
    /// The engine's words when the wait itself failed, bounded; for the log.
    pub error: Option<String>,
}

#[derive(Deserialize)]
struct Answer {
    #[serde(rename = "StatusCode")]
    status: i64,
    #[serde(rename = "Error")]
    error: Option<AnswerError>,
}

#[derive(Deserialize)]
struct AnswerError {
    #[serde(rename = "Message", default)]
    message: String,
}

pub(super) async fn open(transport: &Transport, path: &str) -> Result<ExitWait, EngineError> {
    let response = transport.send(request(Method::POST, path)?).await?;
    Ok(ExitWait(response.into_body()))
}

impl ExitWait {
    /// Waits for the exit, without any bound in time.
    ///
    /// # Errors
    /// The connection ended without telling of one: the container may have exited or not.
    pub async fn exit(self) -> Result<Exit, EngineError> {
        let body = whole(self.0).await?;
        let answer: Answer = serde_json::from_slice(&body).map_err(EngineError::malformed)?;
        Ok(Exit {
            code: answer.status,
            error: answer.error.map(|error| cut(error.message)),
        })
    }
}
