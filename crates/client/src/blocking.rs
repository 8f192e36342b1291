//! The same client for programs without an async runtime (feature `blocking`).
//!
//! Every call drives a small runtime of its own on the calling thread, so a client can be shared between threads and no
//! thread of ours lives between calls. Inside an async program use [`crate::Client`]; calls from there are refused.

use std::future::Future;

use plimsoll_core::RunRequest;

use crate::call::{FloorStated, ModuleRequest, ProjectRequest, RunCall, RunResultKind, javascript};
use crate::cancel::CancelToken;
use crate::error::{Error, ErrorKind, Refusal};
use crate::info::Info;
use crate::results::{JavaScriptResult, ModuleResult, ProjectResult, RunOutput};

/// A client whose calls return when they are done. Built from [`crate::Client`], with the same guarantees.
#[derive(Clone, Debug)]
pub struct Client(crate::Client);

impl From<crate::Client> for Client {
    fn from(client: crate::Client) -> Self {
        Self(client)
    }
}

impl Client {
    /// Asks the daemon what it is.
    ///
    /// # Errors
    /// As [`crate::Client::describe`].
    pub fn describe(&self) -> Result<Info, Error> {
        block_on(self.0.describe().into_future())
    }

    /// Asks the daemon what it is, whatever protocol number it serves.
    ///
    /// # Errors
    /// As [`crate::Client::describe_unchecked`].
    pub fn describe_unchecked(&self) -> Result<Info, Error> {
        block_on(self.0.describe_unchecked().into_future())
    }

    /// Sends a prepared request unchanged; see [`crate::Client::exchange`].
    ///
    /// # Errors
    /// As [`crate::Client::exchange`].
    pub fn exchange(&self, request: RunRequest, cancel: Option<&CancelToken>) -> Result<RunOutput, Error> {
        let exchange = self.0.exchange(request);
        block_on(match cancel {
            Some(token) => exchange.cancel(token).into_future(),
            None => exchange.into_future(),
        })
    }

    /// Runs one JavaScript program.
    pub fn run_javascript(&self, code: impl Into<String>) -> RunCall<'_, JavaScriptResult, crate::FloorMissing, Self> {
        RunCall::new(self, javascript(code.into()))
    }

    /// Writes files, runs shell steps in order and captures artifacts.
    pub fn run_project(&self, project: ProjectRequest) -> RunCall<'_, ProjectResult, crate::FloorMissing, Self> {
        RunCall::new(self, project.into_payload())
    }

    /// Runs a compiled model over rows of parameters.
    pub fn run_module(&self, module: ModuleRequest) -> RunCall<'_, ModuleResult, crate::FloorMissing, Self> {
        RunCall::new(self, module.into_payload())
    }
}

impl<R: RunResultKind> RunCall<'_, R, FloorStated, Client> {
    /// Validates the request, sends it, waits, and checks the answer.
    ///
    /// # Errors
    /// As [`RunCall::send`] of the async client.
    pub fn send(self) -> Result<R, Error> {
        block_on(self.send_through(|client| &client.0))
    }
}

fn block_on<T>(call: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    let refused = |message: &str| Error::new(ErrorKind::InvalidOption, message).marked(Refusal::Request);
    if tokio::runtime::Handle::try_current().is_ok() {
        return Err(refused(
            "blocking::Client was called inside an async runtime; use plimsoll_client::Client there",
        ));
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| refused("no runtime can be started for the call").with_source(error))?;
    let outcome = runtime.block_on(call);
    // A name look-up the call gave up on may still sit in the system's resolver; it is not waited for.
    runtime.shutdown_background();
    outcome
}
