//! The same client for programs without an async runtime (feature `blocking`).
//!
//! Every call drives a small runtime of its own on the calling thread, so a client can be shared between threads and no
//! thread of ours lives between calls. Inside an async program use [`crate::Client`]; calls from there are refused.

use std::fmt;
use std::future::Future;

use plimsoll_core::{RunRequest, SessionEnded, Tier};
use plimsoll_record::RunRecord;

use crate::call::{FloorStated, ModuleRequest, ProjectRequest, RunCall, RunResultKind, javascript};
use crate::cancel::CancelToken;
use crate::error::{Error, ErrorKind, Refusal};
use crate::info::Info;
use crate::results::{CellResult, JavaScriptResult, ModuleResult, ProjectResult, RunOutput};
use crate::session::{Canceled, CellRequest, Closed, NotClosed, OpenSession, SessionCall};

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

    /// Opens one sandbox to be kept for many calls.
    pub fn open_session(&self) -> OpenSession<'_, crate::FloorMissing, Self> {
        OpenSession::new(self)
    }
}

impl OpenSession<'_, FloorStated, Client> {
    /// Validates the request, opens the session, waits, and checks what it states. A cancelled open that was sent returns once
    /// its session is closed; where that is not known, the error's source says why.
    ///
    /// # Errors
    /// As [`OpenSession::send`] of the async client.
    pub fn send(self) -> Result<Session, Error> {
        block_on(self.send_through(|client| &client.0, Canceled::Waits)).map(Session)
    }
}

/// As [`crate::Session`]: one call after the other, also from many threads. Dropped without [`Session::close`] it is closed
/// there and then, for 2 seconds at most.
pub struct Session(crate::Session);

impl From<crate::Session> for Session {
    fn from(session: crate::Session) -> Self {
        Self(session)
    }
}

macro_rules! as_in_the_async_session {
    ($($name:ident -> $out:ty),* $(,)?) => { $(
        #[doc = concat!("As [`crate::Session::", stringify!($name), "`].")]
        pub fn $name(&self) -> $out {
            self.0.$name()
        }
    )* };
}

impl Session {
    as_in_the_async_session!(
        fingerprint -> &str,
        provider -> &str,
        isolation -> &str,
        tier -> Option<Tier>,
        software_identity -> &str,
        expires_unix_ms -> i64,
        idle_timeout_ms -> u32,
        calls -> u64,
        last_record_sha256 -> String,
        records -> Vec<RunRecord>,
        ended -> Option<SessionEnded>,
        stopped -> Option<String>,
    );

    /// Runs a cell in the session's interpreter of its language; variables of earlier cells are there.
    pub fn run_cell(&self, cell: CellRequest) -> SessionCall<'_, CellResult, Self> {
        SessionCall::new(self, cell.into_payload())
    }

    /// Runs one JavaScript program beside the interpreters: it shares the session's files and none of their variables.
    pub fn run_javascript(&self, code: impl Into<String>) -> SessionCall<'_, JavaScriptResult, Self> {
        SessionCall::new(self, javascript(code.into()))
    }

    /// Runs shell steps in the session's work directory.
    pub fn run_project(&self, project: ProjectRequest) -> SessionCall<'_, ProjectResult, Self> {
        SessionCall::new(self, project.into_payload())
    }

    /// Closes the session and compares the daemon's count and last record with the chain seen here.
    ///
    /// # Errors
    /// As [`crate::Session::close`]; inside an async runtime nothing is sent, and the error has the session.
    pub fn close(mut self) -> Result<Closed, NotClosed> {
        let session = self.0.take();
        match runtime() {
            Ok(runtime) => runtime.drive(session.close()),
            Err(refused) => Err(session.not_closed(refused)),
        }
    }
}

impl<R: RunResultKind> SessionCall<'_, R, Session> {
    /// Validates the call, waits for the calls before it, sends it, waits, and checks the answer and its place in the chain.
    ///
    /// # Errors
    /// As [`SessionCall::send`] of the async session.
    pub fn send(self) -> Result<R, Error> {
        block_on(self.send_through(|session| &session.0))
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // In an async program the session's own drop has a task to give it to.
        if tokio::runtime::Handle::try_current().is_err()
            && let Some(closing) = self.0.closing_now()
        {
            // Where none can be started, nobody is left to tell.
            drop(runtime().map(|runtime| runtime.drive(closing)));
        }
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
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

/// A runtime of one call, on the calling thread.
struct OneCall(tokio::runtime::Runtime);

/// # Errors
/// The caller is inside a runtime already, or none can be started. Nothing was sent.
fn runtime() -> Result<OneCall, Error> {
    let refused = |message: &str| Error::new(ErrorKind::InvalidOption, message).marked(Refusal::Request);
    if tokio::runtime::Handle::try_current().is_ok() {
        return Err(refused(
            "blocking::Client was called inside an async runtime; use plimsoll_client::Client there",
        ));
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime
        .map(OneCall)
        .map_err(|error| refused("no runtime can be started for the call").with_source(error))
}

impl OneCall {
    fn drive<T>(self, call: impl Future<Output = T>) -> T {
        let outcome = self.0.block_on(call);
        // A name look-up the call gave up on may still sit in the system's resolver; it is not waited for.
        self.0.shutdown_background();
        outcome
    }
}

fn block_on<T>(call: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    runtime()?.drive(call)
}
